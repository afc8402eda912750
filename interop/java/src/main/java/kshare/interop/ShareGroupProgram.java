package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.fails;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.header.Header;

/**
 * What a share group can be told beyond what ShareProgram shows: its configs, renewals, the acquire mode record_limit, what callbacks say, close with a
 * time, the delivery limit, members in threads of their own, its offsets, and its dead-letter queue.
 *
 * <p>The broker must allow record locks of one second ({@code group.share.min.record.lock.duration.ms=1000}).
 */
public final class ShareGroupProgram {
    private static final int RECORDS = 12;

    private final Clients clients;
    private final Admin admin;

    private ShareGroupProgram(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java share group", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                ShareGroupProgram p = new ShareGroupProgram(clients, admin);
                p.configs();
                p.renewal();
                p.renewalForbidden();
                p.recordLimit();
                p.lateAcknowledgement();
                p.closeWithTime();
                p.deliveryLimit();
                p.manyMembers();
                p.offsets();
                p.deadLetters();
            }
        });
    }

    /** A topic of one partition with RECORDS records in one batch, and a share group of the same name that starts at the earliest of them. */
    private String prepare(String name, String... configs) throws Exception {
        String id = Check.unique("java-group-" + name);
        clients.createTopic(admin, id, 1);
        clients.produceBatch(id, 0, RECORDS);
        Map<String, String> all = new HashMap<>(Map.of("share.auto.offset.reset", "earliest"));
        for (int i = 0; i < configs.length; i += 2) {
            all.put(configs[i], configs[i + 1]);
        }
        clients.alterGroup(admin, id, all);
        return id;
    }

    private ShareConsumer<String, String> member(String id, String mode, String... more) {
        List<String> overrides = new ArrayList<>(List.of("group.id", id, "share.acknowledgement.mode", mode));
        overrides.addAll(List.of(more));
        ShareConsumer<String, String> c = clients.shareConsumer(overrides.toArray(new String[0]));
        c.subscribe(List.of(id));
        return c;
    }

    /** Polls until there is something. */
    private static List<ConsumerRecord<String, String>> receive(ShareConsumer<String, String> c, String what) throws Exception {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        Check.eventually(what, () -> {
            c.poll(Check.POLL).forEach(got::add);
            return got.size();
        }, n -> n > 0);
        return got;
    }

    /** Polls for a while, in which there is to be nothing. */
    private static void nothing(ShareConsumer<String, String> c, Duration time, String what) {
        long end = System.nanoTime() + time.toNanos();
        while (System.nanoTime() < end) {
            c.poll(Check.POLL).forEach(r -> that(false, what + ": record " + r.value() + ", delivery count " + r.deliveryCount()));
        }
    }

    private static Set<Integer> values(Iterable<ConsumerRecord<String, String>> records) {
        Set<Integer> values = new TreeSet<>();
        records.forEach(r -> values.add(Integer.parseInt(r.value())));
        return values;
    }

    private static Set<Integer> numbers(int from, int to) {
        Set<Integer> numbers = new TreeSet<>();
        for (int i = from; i < to; i++) {
            numbers.add(i);
        }
        return numbers;
    }

    private static void deliveredTimes(int want, Iterable<ConsumerRecord<String, String>> records) {
        records.forEach(r -> equal(Optional.of((short) want), r.deliveryCount(), "delivery count of record " + r.value()));
    }

    private static void acknowledged(Map<TopicIdPartition, Optional<KafkaException>> results) {
        equal(1, results.size(), "partitions in commitSync's answer");
        results.forEach((tp, e) -> equal(Optional.empty(), e, "acknowledgement of " + tp));
    }

    private SharePartitionOffsetInfo offset(String id) throws Exception {
        return offsetsOf(id).get(new TopicPartition(id, 0));
    }

    private Map<TopicPartition, SharePartitionOffsetInfo> offsetsOf(String id) throws Exception {
        return get(admin.listShareGroupOffsets(Map.of(id, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(id));
    }

    /** The group, or null before its first member has joined. */
    private ShareGroupDescription described(String id) throws Exception {
        try {
            return get(admin.describeShareGroups(List.of(id)).all()).get(id);
        } catch (GroupIdNotFoundException e) {
            return null;
        }
    }

    private void lag(String id, long want) throws Exception {
        Check.eventually("lag " + want + " of " + id, () -> {
            SharePartitionOffsetInfo o = offset(id);
            return o == null ? Optional.<Long>empty() : o.lag();
        }, Optional.of(want)::equals);
    }

    private void configs() throws Exception {
        step("configs of a group");
        String id = Check.unique("java-group-configs");
        clients.alterGroup(admin, id, Map.of("share.record.lock.duration.ms", "20000", "share.delivery.count.limit", "7",
            "share.isolation.level", "read_committed", "share.partition.max.record.locks", "150"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, id);
        Config config = Check.eventually("the configs", () -> get(admin.describeConfigs(List.of(resource)).all()).get(resource),
            c -> c.get("share.delivery.count.limit").value().equals("7"));
        equal(ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG, config.get("share.delivery.count.limit").source(), "source of what was set");
        equal("20000", config.get("share.record.lock.duration.ms").value(), "lock duration");
        equal("read_committed", config.get("share.isolation.level").value(), "isolation level");
        equal("latest", config.get("share.auto.offset.reset").value(), "what was not set");
        equal(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("share.auto.offset.reset").source(), "source of what was not set");
        Map<String, String> refused = new TreeMap<>(Map.of("group.type", "share", "share.group.delivery.count.limit", "5",
            "share.group.record.lock.duration.ms", "30000", "share.delivery.count.limit", "1", "share.partition.max.record.locks", "99",
            "share.auto.offset.reset", "by_duration:1h", "errors.deadletterqueue.topic.name", "__dlq"));
        refused.forEach((name, value) -> {
            try {
                fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(resource,
                    List.of(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)))).all(), name + "=" + value);
            } catch (Exception e) {
                throw new AssertionError(name + "=" + value, e);
            }
        });
        get(admin.incrementalAlterConfigs(Map.of(resource,
            List.of(new AlterConfigOp(new ConfigEntry("share.delivery.count.limit", ""), AlterConfigOp.OpType.DELETE)))).all());
        Check.eventually("the default", () -> get(admin.describeConfigs(List.of(resource)).all()).get(resource).get("share.delivery.count.limit").value(),
            "5"::equals);
    }

    private void renewal() throws Exception {
        step("records that are renewed stay with their member for longer than a lock lasts");
        String id = prepare("renewal", "share.record.lock.duration.ms", "2000");
        try (ShareConsumer<String, String> holder = member(id, "explicit"); ShareConsumer<String, String> other = member(id, "explicit")) {
            List<ConsumerRecord<String, String>> records = receive(holder, "records for the holder");
            equal(numbers(0, RECORDS), values(records), "records");
            equal(Optional.of(2000), holder.acquisitionLockTimeoutMs(), "acquisition lock timeout");
            for (int round = 0; round < 4; round++) {
                records.forEach(r -> holder.acknowledge(r, AcknowledgeType.RENEW));
                acknowledged(holder.commitSync());
                nothing(other, Duration.ofMillis(1000), "records that the holder renews");
                // A renewed record comes again from the member's own memory, as it is.
                List<ConsumerRecord<String, String>> again = receive(holder, "renewed records");
                equal(numbers(0, RECORDS), values(again), "records after renewal " + round);
                deliveredTimes(1, again);
                records = again;
            }
            clients.alterGroup(admin, id, Map.of("share.record.lock.duration.ms", "30000"));
            List<ConsumerRecord<String, String>> last = records;
            Check.eventually("the new lock duration", () -> {
                last.forEach(r -> holder.acknowledge(r, AcknowledgeType.RENEW));
                acknowledged(holder.commitSync());
                receive(holder, "renewed records");
                return holder.acquisitionLockTimeoutMs();
            }, Optional.of(30000)::equals);
            last.forEach(r -> holder.acknowledge(r, AcknowledgeType.ACCEPT));
            acknowledged(holder.commitSync());
            nothing(other, Duration.ofMillis(500), "records that were accepted");
        }
        lag(id, 0);
    }

    private void renewalForbidden() throws Exception {
        step("a group can forbid renewals");
        String id = prepare("forbidden", "share.renew.acknowledge.enable", "false");
        try (ShareConsumer<String, String> c = member(id, "explicit")) {
            receive(c, "records").forEach(r -> c.acknowledge(r, AcknowledgeType.RENEW));
            Map<TopicIdPartition, Optional<KafkaException>> results = c.commitSync();
            equal(1, results.size(), "partitions in commitSync's answer");
            results.values().forEach(e -> that(e.orElse(null) instanceof InvalidRecordStateException, "a renewal was answered with " + e));
        }
    }

    private void recordLimit() throws Exception {
        step("record_limit acquires no more than max.poll.records, batch_optimized whole batches");
        String id = prepare("limit");
        try (ShareConsumer<String, String> a = member(id, "explicit", "share.acquire.mode", "record_limit", "max.poll.records", "3");
                ShareConsumer<String, String> b = member(id, "explicit", "share.acquire.mode", "batch_optimized", "max.poll.records", "3")) {
            List<ConsumerRecord<String, String>> first = receive(a, "records of the limited member");
            equal(numbers(0, 3), values(first), "records of the limited member");
            List<ConsumerRecord<String, String>> rest = receive(b, "records of the other");
            equal(numbers(3, RECORDS), values(rest), "records of the other");
            first.forEach(a::acknowledge);
            rest.forEach(b::acknowledge);
            acknowledged(a.commitSync());
            acknowledged(b.commitSync());
            clients.produceBatch(id, RECORDS, 2 * RECORDS);
            equal(numbers(RECORDS, 2 * RECORDS), values(receive(b, "a whole batch")), "records above max.poll.records");
        }
        lag(id, RECORDS); // the second batch was not acknowledged
    }

    private void lateAcknowledgement() throws Exception {
        step("an acknowledgement that comes too late fails, in the callback as in commitSync");
        String id = prepare("late", "share.record.lock.duration.ms", "1000");
        try (ShareConsumer<String, String> slow = member(id, "explicit"); ShareConsumer<String, String> other = member(id, "explicit")) {
            Map<Long, Exception> failed = new TreeMap<>();
            Set<Long> succeeded = new TreeSet<>();
            slow.setAcknowledgementCommitCallback((offsets, e) -> offsets.values().forEach(set -> set.forEach(o -> {
                if (e == null) {
                    succeeded.add(o);
                } else {
                    failed.put(o, e);
                }
            })));
            List<ConsumerRecord<String, String>> held = receive(slow, "records for the slow member");
            List<ConsumerRecord<String, String>> taken = receive(other, "records whose lock has ended");
            deliveredTimes(2, taken);
            held.forEach(slow::acknowledge);
            Map<TopicIdPartition, Optional<KafkaException>> results = slow.commitSync();
            equal(1, results.size(), "partitions in commitSync's answer");
            results.values().forEach(e -> that(e.orElse(null) instanceof InvalidRecordStateException, "a late acknowledgement was answered with " + e));
            other.close(); // gives its records back, if their lock has not ended already
            List<ConsumerRecord<String, String>> again = new ArrayList<>();
            Check.eventually("the callback and the records that come again", () -> {
                slow.poll(Check.POLL).forEach(again::add);
                return failed.size() == held.size() && !again.isEmpty();
            }, done -> done);
            failed.values().forEach(e -> that(e instanceof InvalidRecordStateException, "the callback got " + e));
            again.forEach(slow::acknowledge);
            slow.commitAsync();
            slow.unsubscribe();
            Check.eventually("the callback of commitAsync", () -> {
                slow.commitSync(); // lets callbacks run
                return succeeded.size();
            }, n -> n == again.size());
        }
    }

    private void closeWithTime() throws Exception {
        step("close with a time sends what was acknowledged and gives back the rest");
        String id = prepare("close");
        try (ShareConsumer<String, String> c = member(id, "explicit")) {
            List<ConsumerRecord<String, String>> got = receive(c, "records");
            got.stream().limit(4).forEach(c::acknowledge);
            long before = System.nanoTime();
            c.close(Duration.ofSeconds(5));
            that(System.nanoTime() - before < Duration.ofSeconds(10).toNanos(), "close took longer than its time");
        }
        ShareGroupDescription d = Check.eventually("an empty group", () -> described(id), g -> g.members().isEmpty());
        equal(0, d.members().size(), "members after close");
        // Without another poll or a commit an implicit member has acknowledged nothing.
        for (int delivery = 2; delivery <= 3; delivery++) {
            try (ShareConsumer<String, String> c = member(id, "implicit")) {
                List<ConsumerRecord<String, String>> rest = receive(c, "what was not acknowledged");
                equal(numbers(4, RECORDS), values(rest), "what was not acknowledged");
                deliveredTimes(delivery, rest);
                if (delivery == 3) {
                    c.commitAsync();
                }
                c.close(Duration.ofSeconds(5));
            }
        }
        lag(id, 0);
        member(id, "implicit").close(Duration.ZERO);
    }

    private void deliveryLimit() throws Exception {
        step("records are delivered as often as share.delivery.count.limit allows");
        String id = prepare("limit-deliveries", "share.delivery.count.limit", "3");
        Map<Integer, Integer> deliveries = new TreeMap<>();
        try (ShareConsumer<String, String> c = member(id, "explicit")) {
            Check.eventually("three deliveries of each record", () -> {
                List<ConsumerRecord<String, String>> got = new ArrayList<>();
                c.poll(Check.POLL).forEach(got::add);
                for (ConsumerRecord<String, String> r : got) {
                    int n = deliveries.merge(Integer.parseInt(r.value()), 1, Integer::sum);
                    deliveredTimes(n, List.of(r));
                    c.acknowledge(r, AcknowledgeType.RELEASE);
                }
                if (!got.isEmpty()) {
                    acknowledged(c.commitSync());
                }
                return deliveries.values().stream().mapToInt(Integer::intValue).sum();
            }, n -> n == 3 * RECORDS);
            nothing(c, Duration.ofMillis(1500), "records that were delivered three times");
        }
        lag(id, 0);
    }

    private void manyMembers() throws Exception {
        step("several members, each in a thread of its own, process each record once");
        int members = 4;
        int batches = 25;
        String id = prepare("many");
        for (int i = 1; i < batches; i++) {
            clients.produceBatch(id, i * RECORDS, (i + 1) * RECORDS);
        }
        Map<Integer, Integer> processed = new ConcurrentHashMap<>();
        AtomicBoolean done = new AtomicBoolean();
        ExecutorService threads = Executors.newFixedThreadPool(members);
        List<Future<Integer>> running = new ArrayList<>();
        try {
            for (int i = 0; i < members; i++) {
                running.add(threads.submit(() -> {
                    int n = 0;
                    try (ShareConsumer<String, String> c = member(id, "implicit", "max.poll.records", "5", "share.acquire.mode", "record_limit")) {
                        while (!done.get()) {
                            for (ConsumerRecord<String, String> r : c.poll(Check.POLL)) {
                                processed.merge(Integer.parseInt(r.value()), 1, Integer::sum);
                                n++;
                            }
                        }
                    }
                    return n;
                }));
            }
            ShareGroupDescription d = Check.eventually("all members", () -> described(id),
                g -> g != null && g.members().size() == members && g.members().stream().noneMatch(m -> m.assignment().topicPartitions().isEmpty()));
            d.members().forEach(m -> equal(Set.of(new TopicPartition(id, 0)), m.assignment().topicPartitions(), "assignment of " + m.consumerId()));
            Check.eventually("all records", processed::size, n -> n == batches * RECORDS);
        } finally {
            done.set(true);
            threads.shutdown();
        }
        int total = 0;
        for (Future<Integer> f : running) {
            total += f.get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
        }
        equal(batches * RECORDS, total, "records processed by all members");
        lag(id, 0);
    }

    private void offsets() throws Exception {
        step("start offsets are altered and deleted, and the group reads from there");
        String id = prepare("offsets");
        try (ShareConsumer<String, String> c = member(id, "implicit")) {
            equal(RECORDS, receive(c, "records").size(), "records");
            c.commitSync();
            fails(GroupNotEmptyException.class, admin.alterShareGroupOffsets(id, Map.of(new TopicPartition(id, 0), 1L)).all(), "offsets of a group with a member");
            fails(GroupNotEmptyException.class, admin.deleteShareGroupOffsets(id, Set.of(id)).all(), "offsets of a group with a member");
        }
        lag(id, 0);
        get(admin.alterShareGroupOffsets(id, Map.of(new TopicPartition(id, 0), 5L)).all());
        equal(5L, offset(id).startOffset(), "start offset after alter");
        equal(Optional.of(RECORDS - 5L), offset(id).lag(), "lag after alter");
        try (ShareConsumer<String, String> c = member(id, "implicit")) {
            List<ConsumerRecord<String, String>> got = receive(c, "records from the altered offset on");
            equal(numbers(5, RECORDS), values(got), "records from the altered offset on");
            deliveredTimes(1, got);
            c.commitSync();
        }
        lag(id, 0);
        get(admin.deleteShareGroupOffsets(id, Set.of(id)).all());
        equal(Map.of(), offsetsOf(id), "offsets after their deletion");
        try (ShareConsumer<String, String> c = member(id, "implicit")) {
            equal(numbers(0, RECORDS), values(receive(c, "records from the beginning")), "records after the deletion of offsets");
        }
    }

    private void deadLetters() throws Exception {
        step("the dead-letter queue gets what is rejected or delivered too often");
        String queue = Check.unique("dlq.java-group");
        get(admin.createTopics(List.of(new NewTopic(queue, 1, (short) 1).configs(Map.of("errors.deadletterqueue.group.enable", "true")))).all());
        String id = prepare("dead", "errors.deadletterqueue.topic.name", queue, "errors.deadletterqueue.copy.record.enable", "true",
            "share.delivery.count.limit", "2");
        try (ShareConsumer<String, String> c = member(id, "explicit")) {
            Set<Integer> finished = new HashSet<>();
            Map<Integer, Integer> deliveries = new HashMap<>();
            Check.eventually("an end for each record", () -> {
                List<ConsumerRecord<String, String>> got = new ArrayList<>();
                c.poll(Check.POLL).forEach(got::add);
                for (ConsumerRecord<String, String> r : got) {
                    int i = Integer.parseInt(r.value());
                    int n = deliveries.merge(i, 1, Integer::sum);
                    // Of each three, one is accepted, one rejected, one released as often as it comes.
                    c.acknowledge(r, i % 3 == 0 ? AcknowledgeType.ACCEPT : i % 3 == 1 ? AcknowledgeType.REJECT : AcknowledgeType.RELEASE);
                    if (i % 3 != 2 || n == 2) {
                        finished.add(i);
                    }
                }
                if (!got.isEmpty()) {
                    acknowledged(c.commitSync());
                }
                return finished.size();
            }, n -> n == RECORDS);
        }
        Map<Integer, ConsumerRecord<String, String>> dead = new TreeMap<>();
        try (Consumer<String, String> c = clients.consumer("group.id", queue, "auto.offset.reset", "earliest")) {
            c.subscribe(List.of(queue));
            Check.eventually("dead letters", () -> {
                c.poll(Check.POLL).forEach(r -> that(dead.put(Integer.parseInt(r.value()), r) == null, "a dead letter came twice: " + r));
                return dead.size();
            }, n -> n == 2 * RECORDS / 3);
        }
        dead.forEach((i, r) -> {
            boolean rejected = i % 3 == 1;
            that(i % 3 != 0, "an accepted record in the dead-letter queue: " + i);
            equal("k" + i, r.key(), "key of dead letter " + i);
            equal(id, header(r, "topic"), "topic of dead letter " + i);
            equal("0", header(r, "partition"), "partition of dead letter " + i);
            equal(Integer.toString(i), header(r, "offset"), "offset of dead letter " + i);
            equal(id, header(r, "group"), "group of dead letter " + i);
            equal(rejected ? "1" : "2", header(r, "delivery.count"), "delivery count of dead letter " + i);
            equal(rejected ? "Offset rejected by client." : "Offset delivery count exceeded the threshold.", header(r, "message"), "message of dead letter " + i);
        });
        lag(id, 0);
    }

    private static String header(ConsumerRecord<String, String> r, String name) {
        Header h = r.headers().lastHeader("__dlq.errors." + name);
        return h == null ? null : new String(h.value(), StandardCharsets.UTF_8);
    }
}
