package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;

/**
 * The share consumer: implicit and explicit acknowledgement, delivery counts, close, lock expiry, two members.
 *
 * <p>The broker must allow record locks of one second ({@code group.share.min.record.lock.duration.ms=1000}).
 */
public final class ShareProgram {
    private static final int PARTITIONS = 2;
    private static final int RECORDS = 30;

    private final Clients clients;
    private final Admin admin;

    private ShareProgram(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java share consumer", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                ShareProgram p = new ShareProgram(clients, admin);
                p.implicit();
                p.explicit();
                p.closing();
                p.locks();
                p.twoMembers();
            }
        });
    }

    /**
     * A topic with RECORDS records and a share group of the same name that starts at the earliest of them.
     * With one partition the assignor gives it to every member; with two, two members would have one each.
     */
    private String prepare(String name, int partitions, Map<String, String> configs) throws Exception {
        String id = Check.unique("java-share-" + name);
        clients.createTopic(admin, id, partitions);
        clients.produce(id, partitions, 0, RECORDS);
        Map<String, String> all = new HashMap<>(configs);
        all.put("share.auto.offset.reset", "earliest");
        clients.alterGroup(admin, id, all);
        return id;
    }

    private ShareConsumer<String, String> member(String id, String mode) {
        ShareConsumer<String, String> c = clients.shareConsumer("group.id", id, "share.acknowledgement.mode", mode);
        c.subscribe(List.of(id));
        return c;
    }

    private static List<ConsumerRecord<String, String>> poll(ShareConsumer<String, String> c) {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        c.poll(Check.POLL).forEach(got::add);
        return got;
    }

    private static void deliveredTimes(int want, ConsumerRecord<String, String> r) {
        equal(Optional.of((short) want), r.deliveryCount(), "delivery count of record " + r.value());
    }

    private static void acknowledged(Map<TopicIdPartition, Optional<KafkaException>> results, int partitions) {
        equal(partitions, results.size(), "partitions in commitSync's answer");
        results.forEach((tp, e) -> equal(Optional.empty(), e, "acknowledgement of " + tp));
    }

    /**
     * Waits until the group has no lag in any partition. The start offset proves nothing here: what is persisted
     * with an acknowledgement is the start offset from before it.
     */
    private void drained(String id, int partitions) throws Exception {
        Check.eventually("no lag in " + id, () -> {
            Map<TopicPartition, SharePartitionOffsetInfo> offsets =
                get(admin.listShareGroupOffsets(Map.of(id, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(id));
            return offsets.values().stream().filter(o -> o != null && o.lag().equals(Optional.of(0L))).count();
        }, n -> n == partitions);
    }

    private void implicit() throws Exception {
        step("implicit acknowledgement");
        String id = prepare("implicit", PARTITIONS, Map.of());
        Set<Long> acknowledged = new HashSet<>();
        List<Exception> problems = new ArrayList<>();
        try (ShareConsumer<String, String> c = member(id, "implicit")) {
            c.setAcknowledgementCommitCallback((offsets, e) -> {
                if (e != null) {
                    problems.add(e);
                }
                offsets.forEach((tp, set) -> set.forEach(o -> acknowledged.add(o * PARTITIONS + tp.partition())));
            });
            Set<String> values = new HashSet<>();
            Check.eventually("all records", () -> {
                for (ConsumerRecord<String, String> r : poll(c)) {
                    deliveredTimes(1, r);
                    that(values.add(r.value()), "record " + r.value() + " twice");
                }
                return values.size();
            }, n -> n == RECORDS);
            c.commitSync();

            ShareGroupDescription d = get(admin.describeShareGroups(List.of(id)).all()).get(id);
            equal(GroupState.STABLE, d.groupState(), "state with a member");
            equal(1, d.members().size(), "members");
            equal(PARTITIONS, d.members().iterator().next().assignment().topicPartitions().size(), "assigned partitions");
            Check.eventually("the acknowledgement callback", () -> {
                equal(0, poll(c).size(), "records after all are acknowledged");
                return acknowledged.size();
            }, n -> n == RECORDS);
            equal(List.of(), problems, "acknowledgement callbacks with errors");
        }
        drained(id, PARTITIONS);
        ShareGroupDescription d = Check.eventually("an empty share group",
            () -> get(admin.describeShareGroups(List.of(id)).all()).get(id), g -> g.groupState() == GroupState.EMPTY);
        equal(0, d.members().size(), "members after close");
    }

    private void explicit() throws Exception {
        step("explicit acknowledgement: accept, release, reject");
        String id = prepare("explicit", PARTITIONS, Map.of());
        try (ShareConsumer<String, String> c = member(id, "explicit")) {
            Map<Integer, Integer> deliveries = new TreeMap<>();
            List<Integer> accepted = new ArrayList<>();
            List<Integer> rejected = new ArrayList<>();
            Check.eventually("a final acknowledgement for every record", () -> {
                List<ConsumerRecord<String, String>> records = poll(c);
                Set<Integer> partitions = new HashSet<>();
                for (ConsumerRecord<String, String> r : records) {
                    int i = Integer.parseInt(r.value());
                    deliveredTimes(deliveries.merge(i, 1, Integer::sum), r);
                    partitions.add(r.partition());
                    // Of each three, one is accepted, one released once and then accepted, one rejected.
                    if (i % 3 == 2) {
                        c.acknowledge(r, AcknowledgeType.REJECT);
                        rejected.add(i);
                    } else if (i % 3 == 1 && deliveries.get(i) == 1) {
                        c.acknowledge(r, AcknowledgeType.RELEASE);
                    } else {
                        c.acknowledge(r);
                        accepted.add(i);
                    }
                }
                if (!records.isEmpty()) {
                    acknowledged(c.commitSync(), partitions.size());
                }
                return accepted.size() + rejected.size();
            }, n -> n >= RECORDS);
            equal(2 * RECORDS / 3, accepted.size(), "accepted");
            equal(RECORDS / 3, rejected.size(), "rejected");
            deliveries.forEach((i, n) -> equal(i % 3 == 1 ? 2 : 1, n, "deliveries of record " + i));
            that(c.acquisitionLockTimeoutMs().isPresent(), "no acquisition lock timeout known");
        }
        drained(id, PARTITIONS);
    }

    private void closing() throws Exception {
        step("a closed member's records come again at once");
        String id = prepare("closing", 1, Map.of());
        Set<String> held = new HashSet<>();
        try (ShareConsumer<String, String> closing = member(id, "explicit")) {
            equal(Set.of(id), closing.subscription(), "subscription");
            Check.eventually("records for the closing member", () -> {
                poll(closing).forEach(r -> held.add(r.value()));
                return held.size();
            }, n -> n > 0);
        }
        try (ShareConsumer<String, String> c = member(id, "implicit")) {
            Map<String, ConsumerRecord<String, String>> got = new HashMap<>();
            Check.eventually("all records, those of the closed member with them", () -> {
                poll(c).forEach(r -> got.put(r.value(), r));
                return got.size();
            }, n -> n == RECORDS);
            held.forEach(v -> deliveredTimes(2, got.get(v)));
            c.commitSync();
        }
        drained(id, 1);
    }

    private void locks() throws Exception {
        step("records whose lock expired come again");
        String id = prepare("locks", 1, Map.of("share.record.lock.duration.ms", "1000"));
        try (ShareConsumer<String, String> holder = member(id, "explicit");
                ShareConsumer<String, String> other = member(id, "implicit")) {
            Map<String, Short> held = new HashMap<>();
            Check.eventually("records for the holder", () -> {
                poll(holder).forEach(r -> held.put(r.value(), r.deliveryCount().orElseThrow()));
                return held.size();
            }, n -> n > 0);
            equal(Optional.of(1000), holder.acquisitionLockTimeoutMs(), "acquisition lock timeout");
            // The holder neither acknowledges nor polls again; its heartbeats go on.
            Map<String, Short> again = new HashMap<>();
            Check.eventually("all records, those of the holder with them", () -> {
                poll(other).forEach(r -> again.put(r.value(), r.deliveryCount().orElseThrow()));
                return again.size();
            }, n -> n == RECORDS);
            other.commitSync();
            held.forEach((v, n) ->
                that(again.get(v) > n, "delivery count of record " + v + " did not grow: " + n + ", then " + again.get(v)));
        }
    }

    private void twoMembers() throws Exception {
        step("two members of one share group share the records");
        String id = prepare("members", 1, Map.of());
        try (ShareConsumer<String, String> a = member(id, "implicit");
                ShareConsumer<String, String> b = member(id, "implicit")) {
            List<String> values = new ArrayList<>();
            Check.eventually("all records over both members", () -> {
                poll(a).forEach(r -> values.add(r.value()));
                poll(b).forEach(r -> values.add(r.value()));
                return values.size();
            }, n -> n >= RECORDS);
            equal(RECORDS, new HashSet<>(values).size(), "distinct records");
            Check.eventually("two members", () -> {
                poll(a);
                poll(b);
                return get(admin.describeShareGroups(List.of(id)).all()).get(id).members().size();
            }, n -> n == 2);
            clients.produce(id, 1, RECORDS, 2 * RECORDS);
            Check.eventually("records produced while both wait", () -> {
                poll(a).forEach(r -> values.add(r.value()));
                poll(b).forEach(r -> values.add(r.value()));
                return values.size();
            }, n -> n >= 2 * RECORDS);
            equal(2 * RECORDS, new HashSet<>(values).size(), "distinct records");
            a.commitSync();
            b.commitSync();
        }
        drained(id, 1);
    }
}
