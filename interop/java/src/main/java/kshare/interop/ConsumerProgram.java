package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;

/** The consumer, with the group protocol named by the second argument: {@code classic} or {@code consumer}. */
public final class ConsumerProgram {
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 100;

    private final Clients clients;
    private final Admin admin;
    private final String protocol;
    private final String topic;
    private final String group;

    private ConsumerProgram(Clients clients, Admin admin, String protocol) {
        this.clients = clients;
        this.admin = admin;
        this.protocol = protocol;
        this.topic = Check.unique("java-consumer-" + protocol);
        this.group = Check.unique("java-group-" + protocol);
    }

    public static void main(String[] args) {
        Check.main("java consumer " + args[1], () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                ConsumerProgram p = new ConsumerProgram(clients, admin, args[1]);
                p.groupLife();
                p.positions();
                p.pattern();
                p.staticMember();
            }
        });
    }

    private Consumer<String, String> member(String clientId, String... more) {
        List<String> config = new ArrayList<>(List.of("group.id", group, "client.id", clientId,
            "group.protocol", protocol, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        if (protocol.equals("classic")) {
            // A native group takes both from the broker.
            config.addAll(List.of("heartbeat.interval.ms", "300", "session.timeout.ms", "10000"));
        }
        config.addAll(List.of(more));
        return clients.consumer(config.toArray(new String[0]));
    }

    /** What a member saw of its group. */
    private static final class Seen implements ConsumerRebalanceListener {
        final Set<TopicPartition> owned = new HashSet<>();
        final List<String> values = new ArrayList<>();
        int assignments;
        int revocations;

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assignments++;
            owned.addAll(partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revocations++;
            owned.removeAll(partitions);
        }

        void poll(Consumer<String, String> c) {
            for (ConsumerRecord<String, String> r : c.poll(Check.POLL)) {
                that(owned.contains(new TopicPartition(r.topic(), r.partition())), "a record of a partition not owned: " + r);
                values.add(r.value());
            }
        }
    }

    private void groupLife() throws Exception {
        clients.createTopic(admin, topic, PARTITIONS);
        clients.produce(topic, PARTITIONS, 0, RECORDS);

        step("the first member gets every partition and record");
        Seen seenA = new Seen();
        Seen seenB = new Seen();
        Consumer<String, String> a = member("a");
        Consumer<String, String> b = member("b");
        try {
            a.subscribe(List.of(topic), seenA);
            Check.eventually("records of the first member", () -> {
                seenA.poll(a);
                return seenA.values.size();
            }, n -> n >= RECORDS);
            equal(RECORDS, new HashSet<>(seenA.values).size(), "distinct records");
            equal(PARTITIONS, seenA.owned.size(), "partitions of the only member");

            step("commitSync, committed");
            a.commitSync();
            a.committed(a.assignment()).forEach((tp, o) ->
                equal((long) RECORDS / PARTITIONS, o.offset(), "committed offset of " + tp));

            step("a second member takes half of the partitions");
            b.subscribe(List.of(topic), seenB);
            Check.eventually("two members with two partitions each", () -> {
                seenA.poll(a);
                seenB.poll(b);
                return List.of(seenA.owned.size(), seenB.owned.size());
            }, List.of(2, 2)::equals);
            that(seenA.revocations > 0, "the first member was never asked to give a partition back");
            equal(RECORDS, seenA.values.size() + seenB.values.size(), "records after the rebalance (nothing again)");
            describeStable();

            clients.produce(topic, PARTITIONS, RECORDS, 2 * RECORDS);
            Check.eventually("the second hundred, over both members", () -> {
                seenA.poll(a);
                seenB.poll(b);
                return seenA.values.size() + seenB.values.size();
            }, n -> n >= 2 * RECORDS);
            Set<String> all = new HashSet<>(seenA.values);
            all.addAll(seenB.values);
            equal(2 * RECORDS, all.size(), "distinct records over both members");
            equal(RECORDS / 2, seenB.values.size(), "records of the second member");
            a.commitSync();
            AtomicReference<Object> committed = new AtomicReference<>();
            b.commitAsync((offsets, e) -> committed.set(e == null ? offsets : e));
            Check.eventually("commitAsync's callback", () -> {
                seenA.poll(a);
                seenB.poll(b);
                return committed.get();
            }, o -> o != null);
            that(committed.get() instanceof Map, "commitAsync failed: " + committed.get());

            step("a member that closes gives its partitions to the other");
            b.close();
            Check.eventually("every partition back at the first member", () -> {
                seenA.poll(a);
                return seenA.owned.size();
            }, n -> n == PARTITIONS);
            equal(3 * RECORDS / 2, seenA.values.size(), "records of the first member (nothing of the second's again)");
        } finally {
            a.close();
            b.close();
        }
        equal(0, seenA.owned.size(), "close must revoke all partitions");

        ConsumerGroupDescription d = Check.eventually("an empty group", this::describe,
            g -> g.groupState() == GroupState.EMPTY);
        equal(0, d.members().size(), "members of an empty group");
        get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).forEach((tp, o) ->
            equal(2L * RECORDS / PARTITIONS, o.offset(), "committed offset of " + tp + " by Admin"));
    }

    private ConsumerGroupDescription describe() throws Exception {
        return get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
    }

    private void describeStable() throws Exception {
        ConsumerGroupDescription d = Check.eventually("a stable group", this::describe,
            g -> g.groupState() == GroupState.STABLE);
        equal(protocol.equals("classic") ? GroupType.CLASSIC : GroupType.CONSUMER, d.type(), "group type");
        equal(2, d.members().size(), "members");
        Set<String> ids = new TreeSet<>();
        Set<TopicPartition> assigned = new HashSet<>();
        d.members().forEach(m -> {
            ids.add(m.clientId());
            assigned.addAll(m.assignment().topicPartitions());
        });
        equal(Set.of("a", "b"), ids, "client ids");
        equal(PARTITIONS, assigned.size(), "assigned partitions");
        that(d.partitionAssignor() != null && !d.partitionAssignor().isEmpty(), "no assignor named");
    }

    private void positions() throws Exception {
        step("assign, seek, pause, offsetsForTimes, commit with metadata");
        TopicPartition p0 = new TopicPartition(topic, 0);
        TopicPartition p1 = new TopicPartition(topic, 1);
        long end = 2L * RECORDS / PARTITIONS;
        try (Consumer<String, String> c = clients.consumer("group.id", group, "group.protocol", protocol,
                "enable.auto.commit", "false", "auto.offset.reset", "none", "max.poll.records", "5")) {
            c.assign(List.of(p0, p1));
            equal(end, c.position(p0), "position from the group's commit");
            equal(Map.of(p0, 0L, p1, 0L), c.beginningOffsets(List.of(p0, p1)), "beginningOffsets");
            equal(Map.of(p0, end, p1, end), c.endOffsets(List.of(p0, p1)), "endOffsets");

            c.seek(p0, 7);
            c.pause(List.of(p1));
            ConsumerRecord<String, String> r = first(c);
            equal(7L, r.offset(), "offset after seek");
            equal("28", r.value(), "value at partition 0 offset 7");
            c.seekToBeginning(List.of(p0));
            equal(0L, first(c).offset(), "offset after seekToBeginning");
            c.seekToEnd(List.of(p0));
            equal(end, c.position(p0), "position after seekToEnd");
            c.resume(List.of(p1));
            c.seek(p1, end - 1);
            equal(p1.partition(), first(c).partition(), "a record of the resumed partition");

            // Record i has timestamp 1000+i and lies in partition i mod 4 at offset i / 4.
            Map<TopicPartition, OffsetAndTimestamp> times = c.offsetsForTimes(Map.of(p0, 1042L, p1, 9_999L));
            equal(11L, times.get(p0).offset(), "offsetsForTimes: 44 is the first record of partition 0 from 42 on");
            equal(1044L, times.get(p0).timestamp(), "timestamp of that record");
            equal(null, times.get(p1), "offsetsForTimes past the last record");

            c.commitSync(Map.of(p0, new OffsetAndMetadata(3, "three")));
            OffsetAndMetadata o = c.committed(Set.of(p0)).get(p0);
            equal(3L, o.offset(), "committed offset");
            equal("three", o.metadata(), "committed metadata");
            that(c.listTopics().containsKey(topic), "listTopics lacks " + topic);
        }
    }

    private static ConsumerRecord<String, String> first(Consumer<String, String> c) throws Exception {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        Check.eventually("a record", () -> {
            c.poll(Check.POLL).forEach(got::add);
            return got.size();
        }, n -> n > 0);
        return got.get(0);
    }

    private void pattern() throws Exception {
        step("a pattern subscription");
        try (Consumer<String, String> c = member("pattern", "group.id", group + "-pattern")) {
            if (protocol.equals("classic")) {
                c.subscribe(Pattern.compile(Pattern.quote(topic) + ".*"));
            } else {
                // The broker evaluates this one (RE2/J).
                c.subscribe(new SubscriptionPattern("^" + topic + ".*$"));
            }
            Set<String> values = new HashSet<>();
            Check.eventually("records of the matched topic", () -> {
                c.poll(Check.POLL).forEach(r -> values.add(r.value()));
                return values.size();
            }, n -> n == 2 * RECORDS);
        }
    }

    private void staticMember() throws Exception {
        step("a static member returns to its place");
        String id = group + "-static";
        for (int round = 0; round < 2; round++) {
            Consumer<String, String> c = member("static", "group.id", id, "group.instance.id", "one");
            try {
                c.subscribe(List.of(topic));
                Check.eventually("all partitions for the static member", () -> {
                    c.poll(Check.POLL);
                    return c.assignment().size();
                }, n -> n == PARTITIONS);
                equal("one", c.groupMetadata().groupInstanceId().orElse(null), "group.instance.id");
            } finally {
                c.close(CloseOptions.timeout(Duration.ofSeconds(10)));
            }
            ConsumerGroupDescription d = get(admin.describeConsumerGroups(List.of(id)).all()).get(id);
            equal(1, d.members().size(), "members after a static member's close");
        }
    }
}
