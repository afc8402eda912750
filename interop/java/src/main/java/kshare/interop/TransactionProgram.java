package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** The transactional producer: consume, transform, produce, with aborts; fencing by a successor, an admin and time; who sees what of it. */
public final class TransactionProgram {
    private static final int PARTITIONS = 2;
    private static final int RECORDS = 60;
    private static final int BATCH = 10; // records of a transaction at most

    private final Clients clients;
    private final Admin admin;

    private TransactionProgram(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java transactions", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                TransactionProgram p = new TransactionProgram(clients, admin);
                p.copy("classic");
                p.copy("consumer");
                p.successor();
                p.fencedByAdmin();
                p.timeout();
            }
        });
    }

    private Producer<String, String> producer(String id, String... overrides) {
        List<String> all = new ArrayList<>(List.of("transactional.id", id));
        all.addAll(List.of(overrides));
        Producer<String, String> p = clients.producer(all.toArray(new String[0]));
        p.initTransactions();
        return p;
    }

    /** Copies a topic in transactions of a few records, each of which is aborted when its records are seen for the first time and every third is committed at once. */
    private void copy(String protocol) throws Exception {
        step("transactional copy with a " + protocol + " group");
        String in = Check.unique("java-copy-in");
        String out = in.replace("-in-", "-out-");
        clients.createTopic(admin, in, PARTITIONS);
        clients.createTopic(admin, out, PARTITIONS);
        clients.produce(in, PARTITIONS, 0, RECORDS);
        int transactions = 0;
        int aborted = 0;
        try (Consumer<String, String> c = clients.consumer("group.id", in, "group.protocol", protocol, "auto.offset.reset", "earliest",
                "enable.auto.commit", "false", "isolation.level", "read_committed", "max.poll.records", Integer.toString(BATCH));
             Producer<String, String> p = producer(in)) {
            c.subscribe(List.of(in));
            Set<String> committed = new HashSet<>();
            Set<String> refused = new HashSet<>();
            long end = System.nanoTime() + Check.LIMIT.toNanos();
            while (committed.size() < RECORDS) {
                that(System.nanoTime() < end, "the copy is not done: " + committed.size() + " of " + RECORDS);
                List<ConsumerRecord<String, String>> batch = new ArrayList<>();
                c.poll(Check.POLL).forEach(batch::add);
                if (batch.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, Long> back = new HashMap<>();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                p.beginTransaction();
                for (ConsumerRecord<String, String> r : batch) {
                    TopicPartition tp = new TopicPartition(r.topic(), r.partition());
                    back.putIfAbsent(tp, r.offset());
                    offsets.put(tp, new OffsetAndMetadata(r.offset() + 1, "copied"));
                    p.send(new ProducerRecord<>(out, r.partition(), r.key(), "copy of " + r.value()));
                }
                p.sendOffsetsToTransaction(offsets, c.groupMetadata());
                String first = batch.get(0).value();
                if (++transactions % 3 != 0 && refused.add(first)) {
                    p.flush(); // an abort drops what was not sent yet
                    p.abortTransaction();
                    aborted++;
                    back.forEach(c::seek);
                    continue;
                }
                p.commitTransaction();
                batch.forEach(r -> that(committed.add(r.value()), "copied twice: " + r.value()));
            }
        }
        that(aborted > 0, "no transaction was aborted");
        Set<String> want = new TreeSet<>();
        for (int i = 0; i < RECORDS; i++) {
            want.add("copy of " + i);
        }
        List<String> got = read(out, "read_committed");
        equal(RECORDS, got.size(), "committed copies");
        equal(want, new TreeSet<>(got), "committed copies");
        that(read(out, "read_uncommitted").size() > RECORDS, "aborted copies are in the log");
        Map<TopicPartition, OffsetAndMetadata> offsets = get(admin.listConsumerGroupOffsets(in).partitionsToOffsetAndMetadata());
        for (int p = 0; p < PARTITIONS; p++) {
            equal(new OffsetAndMetadata(RECORDS / PARTITIONS, "copied"), offsets.get(new TopicPartition(in, p)), "committed offset of partition " + p);
        }
        equal(new TreeSet<>(want), new TreeSet<>(shared(out, "read_committed")), "what a share group reads of committed copies");
        that(shared(out, "read_uncommitted").size() > RECORDS, "a share group is handed aborted copies unless told otherwise");
    }

    /** What a consumer reads of a topic up to its end, markers passed over. */
    private List<String> read(String topic, String isolation) throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) {
            all.add(new TopicPartition(topic, p));
        }
        List<String> got = new ArrayList<>();
        try (Consumer<String, String> c = clients.consumer("isolation.level", isolation)) {
            c.assign(all);
            c.seekToBeginning(all);
            Map<TopicPartition, Long> ends = c.endOffsets(all);
            Check.eventually("the end of " + topic, () -> {
                c.poll(Check.POLL).forEach(r -> got.add(r.value()));
                return all.stream().collect(Collectors.toMap(tp -> tp, c::position));
            }, ends::equals);
        }
        return got;
    }

    /** What a share group of its own is handed of a topic until it has finished with all records. */
    private List<String> shared(String topic, String isolation) throws Exception {
        String group = topic + "-" + isolation;
        clients.alterGroup(admin, group, Map.of("share.auto.offset.reset", "earliest", "share.isolation.level", isolation));
        List<String> got = new ArrayList<>();
        try (ShareConsumer<String, String> c = clients.shareConsumer("group.id", group)) {
            c.subscribe(List.of(topic));
            // The poll that finds nothing is longer than anything that is on its way.
            Check.eventually("all records of " + topic, () -> {
                int before = got.size();
                c.poll(Duration.ofSeconds(2)).forEach(r -> got.add(r.value()));
                return before > 0 && before == got.size();
            }, done -> done);
        }
        return got;
    }

    private String topic(String name) throws Exception {
        String id = Check.unique("java-txn-" + name);
        clients.createTopic(admin, id, PARTITIONS);
        return id;
    }

    private static void begin(Producer<String, String> p, String topic, String value) throws Exception {
        p.beginTransaction();
        p.send(new ProducerRecord<>(topic, 0, "k", value)).get();
    }

    private static <E extends Exception> void fails(Class<E> want, Runnable what, String name) {
        try {
            what.run();
        } catch (Exception e) {
            that(want.isInstance(e) || want.isInstance(e.getCause()), name + ": want " + want.getSimpleName() + ", got " + e + ", because of " + e.getCause());
            return;
        }
        throw new AssertionError(name + ": want " + want.getSimpleName() + ", but nothing failed");
    }

    private void successor() throws Exception {
        step("a producer fences the one before it");
        String id = topic("successor");
        try (Producer<String, String> old = producer(id)) {
            begin(old, id, "old");
            try (Producer<String, String> heir = producer(id)) {
                begin(heir, id, "heir");
                fails(ProducerFencedException.class, old::commitTransaction, "the commit of who was fenced");
                heir.commitTransaction();
            }
        }
        equal(List.of("heir"), read(id, "read_committed"), "committed records");
        equal(List.of("old", "heir"), read(id, "read_uncommitted"), "all records");
    }

    private void fencedByAdmin() throws Exception {
        step("an admin fences a producer");
        String id = topic("fenced");
        try (Producer<String, String> p = producer(id)) {
            begin(p, id, "open");
            get(admin.fenceProducers(List.of(id)).all());
            equal(TransactionState.EMPTY, get(admin.describeTransactions(List.of(id)).all()).get(id).state(), "state after fencing");
            fails(ProducerFencedException.class, p::commitTransaction, "the commit of who was fenced");
        }
        equal(List.of(), read(id, "read_committed"), "committed records");
    }

    private void timeout() throws Exception {
        step("a transaction that lasts too long");
        String id = topic("timeout");
        try (Producer<String, String> p = producer(id, "transaction.timeout.ms", "1000")) {
            begin(p, id, "late");
            Check.eventually("the abort", () -> get(admin.describeTransactions(List.of(id)).all()).get(id).state(), TransactionState.COMPLETE_ABORT::equals);
            fails(InvalidTxnStateException.class, p::commitTransaction, "the commit of what timed out");
        }
        equal(List.of(), read(id, "read_committed"), "committed records");
    }
}
