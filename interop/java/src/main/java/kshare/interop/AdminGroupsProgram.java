package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.fails;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;

/** Admin on classic, consumer and share groups: list, describe, offsets, deletion, with members and without. */
public final class AdminGroupsProgram {
    private static final int PARTITIONS = 2;
    private static final int RECORDS = 20;

    private final Clients clients;
    private final Admin admin;
    private final String topic = Check.unique("java-groups");
    private final String classic = topic + "-classic";
    private final String consumer = topic + "-consumer";
    private final String share = topic + "-share";
    private final TopicPartition p0 = new TopicPartition(topic, 0);
    private final TopicPartition p1 = new TopicPartition(topic, 1);

    private AdminGroupsProgram(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java admin groups", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                AdminGroupsProgram p = new AdminGroupsProgram(clients, admin);
                p.withMembers();
                p.consumerOffsets(p.classic);
                p.consumerOffsets(p.consumer);
                p.shareOffsets();
                p.deletion();
            }
        });
    }

    private Consumer<String, String> member(String group, String protocol) {
        Consumer<String, String> c = clients.consumer("group.id", group, "group.protocol", protocol,
            "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        c.subscribe(List.of(topic));
        return c;
    }

    private void withMembers() throws Exception {
        step("list and describe groups of each type with a member");
        clients.createTopic(admin, topic, PARTITIONS);
        clients.produce(topic, PARTITIONS, 0, RECORDS);
        clients.alterGroup(admin, share, Map.of("share.auto.offset.reset", "earliest"));
        try (Consumer<String, String> a = member(classic, "classic");
                Consumer<String, String> b = member(consumer, "consumer");
                ShareConsumer<String, String> s = clients.shareConsumer("group.id", share)) {
            s.subscribe(List.of(topic));
            Set<String> values = new HashSet<>();
            int[] read = new int[2];
            Check.eventually("all records in all three groups", () -> {
                read[0] += a.poll(Check.POLL).count();
                read[1] += b.poll(Check.POLL).count();
                s.poll(Check.POLL).forEach(r -> values.add(r.value()));
                return List.of(read[0], read[1], values.size());
            }, List.of(RECORDS, RECORDS, RECORDS)::equals);
            a.commitSync();
            b.commitSync();
            s.commitSync();
            described();
            fails(GroupNotEmptyException.class, admin.deleteConsumerGroups(List.of(classic)).all(), "a classic group with a member");
            fails(GroupNotEmptyException.class, admin.deleteConsumerGroups(List.of(consumer)).all(), "a consumer group with a member");
            fails(GroupNotEmptyException.class, admin.deleteShareGroups(List.of(share)).all(), "a share group with a member");
            fails(GroupNotEmptyException.class, admin.alterShareGroupOffsets(share, Map.of(p0, 1L)).all(),
                "start offsets of a share group with a member");
        }
    }

    private void described() throws Exception {
        equal(GroupType.CLASSIC, listed(new ListGroupsOptions(), classic).type().orElseThrow(), "type of " + classic);
        equal(GroupType.CONSUMER, listed(new ListGroupsOptions(), consumer).type().orElseThrow(), "type of " + consumer);
        equal(GroupType.SHARE, listed(new ListGroupsOptions(), share).type().orElseThrow(), "type of " + share);
        equal(Optional.of(GroupState.STABLE), listed(ListGroupsOptions.forShareGroups(), share).groupState(), "state of " + share);
        equal("share", listed(ListGroupsOptions.forShareGroups(), share).protocol(), "protocol of " + share);
        equal(null, listed(ListGroupsOptions.forShareGroups(), consumer), "a consumer group among share groups");
        equal(null, listed(ListGroupsOptions.forConsumerGroups(), share), "a share group among consumer groups");
        equal(null, listed(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)), classic), "a stable group among empty ones");

        Map<String, ConsumerGroupDescription> groups = get(admin.describeConsumerGroups(List.of(classic, consumer)).all());
        groups.forEach((name, d) -> {
            equal(GroupState.STABLE, d.groupState(), "state of " + name);
            equal(Set.of(p0, p1), d.members().iterator().next().assignment().topicPartitions(), "assignment in " + name);
            that(d.coordinator().port() > 0, "no coordinator for " + name);
        });
        equal(GroupType.CLASSIC, groups.get(classic).type(), "type of " + classic);
        equal(GroupType.CONSUMER, groups.get(consumer).type(), "type of " + consumer);
        that(groups.get(consumer).groupEpoch().isPresent(), "no group epoch for " + consumer);

        ClassicGroupDescription c = get(admin.describeClassicGroups(List.of(classic)).all()).get(classic);
        equal("consumer", c.protocol(), "protocol type of " + classic);
        equal("range", c.protocolData(), "assignor of " + classic);

        ShareGroupDescription s = get(admin.describeShareGroups(List.of(share)).all()).get(share);
        equal(GroupState.STABLE, s.groupState(), "state of " + share);
        equal(Set.of(p0, p1), s.members().iterator().next().assignment().topicPartitions(), "assignment in " + share);
        that(s.groupEpoch() > 0 && s.members().iterator().next().memberEpoch() > 0, "epochs of " + s);
    }

    private GroupListing listed(ListGroupsOptions options, String group) throws Exception {
        return get(admin.listGroups(options).all()).stream().filter(g -> g.groupId().equals(group)).findFirst().orElse(null);
    }

    private void consumerOffsets(String group) throws Exception {
        step("offsets of " + group);
        Check.eventually("an empty group", () -> get(admin.describeConsumerGroups(List.of(group)).all()).get(group).groupState(),
            GroupState.EMPTY::equals);
        equal((long) RECORDS / PARTITIONS, committed(group).get(p0).offset(), "committed offset");
        get(admin.alterConsumerGroupOffsets(group, Map.of(p0, new OffsetAndMetadata(4, "by admin"))).all());
        equal(new OffsetAndMetadata(4, Optional.empty(), "by admin"), committed(group).get(p0), "offset after alter");
        get(admin.deleteConsumerGroupOffsets(group, Set.of(p1)).all());
        equal(Set.of(p0), committed(group).keySet(), "partitions with offsets after a delete");
    }

    private Map<TopicPartition, OffsetAndMetadata> committed(String group) throws Exception {
        return get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
    }

    private void shareOffsets() throws Exception {
        step("offsets of " + share);
        Check.eventually("an empty share group", () -> get(admin.describeShareGroups(List.of(share)).all()).get(share).groupState(),
            GroupState.EMPTY::equals);
        long end = RECORDS / PARTITIONS;
        Check.eventually("no lag", () -> startOffsets().values().stream()
            .filter(o -> o.lag().equals(Optional.of(0L))).count(), n -> n == PARTITIONS);

        get(admin.alterShareGroupOffsets(share, Map.of(p0, 3L)).all());
        equal(3L, startOffsets().get(p0).startOffset(), "start offset after alter");
        equal(Optional.of(end - 3), startOffsets().get(p0).lag(), "lag after alter");
        Set<Long> again = new HashSet<>();
        try (ShareConsumer<String, String> s = clients.shareConsumer("group.id", share)) {
            s.subscribe(List.of(topic));
            Check.eventually("the records from the altered offset on", () -> {
                s.poll(Check.POLL).forEach(r -> again.add(r.offset()));
                return again.size();
            }, n -> n == end - 3);
        }
        that(!again.contains(2L), "a record before the altered start offset: " + again);

        Check.eventually("an empty share group", () -> get(admin.describeShareGroups(List.of(share)).all()).get(share).groupState(),
            GroupState.EMPTY::equals);
        get(admin.deleteShareGroupOffsets(share, Set.of(topic)).all());
        equal(Map.of(), startOffsets(), "start offsets after a delete");
    }

    private Map<TopicPartition, SharePartitionOffsetInfo> startOffsets() throws Exception {
        return get(admin.listShareGroupOffsets(Map.of(share, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(share));
    }

    private void deletion() throws Exception {
        step("delete groups of each type");
        get(admin.deleteConsumerGroups(List.of(classic)).all());
        get(admin.deleteConsumerGroups(List.of(consumer)).all());
        get(admin.deleteShareGroups(List.of(share)).all());
        for (String group : List.of(classic, consumer, share)) {
            equal(null, listed(new ListGroupsOptions(), group), "a deleted group in the list");
        }
        fails(GroupIdNotFoundException.class, admin.describeShareGroups(List.of(share)).all(), "a deleted share group");
        fails(GroupIdNotFoundException.class, admin.describeConsumerGroups(List.of(consumer)).all(), "a deleted consumer group");
        fails(GroupIdNotFoundException.class, admin.deleteShareGroups(List.of(share)).all(), "a share group deleted twice");
    }
}
