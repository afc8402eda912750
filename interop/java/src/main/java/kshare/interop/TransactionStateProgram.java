package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.get;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.tools.consumer.TransactionLogMessageFormatter;

/** The records of __transaction_state, as Kafka's own formatter prints them: one for each state of a transaction, in the partition where Kafka looks for them. */
public final class TransactionStateProgram {
    private static final String STATE = "__transaction_state";

    private final String bootstrap;
    private final Clients clients;
    private final Admin admin;
    private final String id = Check.unique("java-txn-state"); // of the topic, the group and the transaction
    private final List<String> want = new ArrayList<>();

    private TransactionStateProgram(String bootstrap, Clients clients, Admin admin) {
        this.bootstrap = bootstrap;
        this.clients = clients;
        this.admin = admin;
    }

    public static void main(String[] args) {
        Check.main("java transaction state", () -> {
            Clients clients = new Clients(args[0]);
            try (Admin admin = clients.admin()) {
                TransactionStateProgram p = new TransactionStateProgram(args[0], clients, admin);
                p.write();
                p.read();
            }
        });
    }

    /** A record of the id, of a producer whose id never changes: its partitions are those of the topic, and __consumer_offsets. */
    private void expect(String state, int epoch, int timeout, int clientVersion, String partitions) {
        want.add(state + ", epoch " + epoch + ", timeout " + timeout + ", client version " + clientVersion + ", partitions " + partitions);
    }

    private void write() throws Exception {
        clients.createTopic(admin, id, 2);
        try (Producer<String, String> old = clients.producer("transactional.id", id)) {
            old.initTransactions();
            expect("Empty", 0, 60000, 0, "null");

            step("a commit, of records and offsets");
            old.beginTransaction();
            old.send(new ProducerRecord<>(id, 1, "k", "a")).get();
            expect("Ongoing", 0, 60000, 2, "[1]");
            old.send(new ProducerRecord<>(id, 0, "k", "b")).get();
            expect("Ongoing", 0, 60000, 2, "[0, 1]");
            old.sendOffsetsToTransaction(Map.of(new TopicPartition(id, 0), new OffsetAndMetadata(1)), new ConsumerGroupMetadata(id));
            expect("Ongoing", 0, 60000, 2, "[0, 1, offsets]");
            old.commitTransaction();
            expect("PrepareCommit", 1, 60000, 2, "[0, 1, offsets]");
            expect("CompleteCommit", 1, 60000, 2, "[]");

            step("an abort");
            old.beginTransaction();
            old.send(new ProducerRecord<>(id, 0, "k", "c")).get();
            expect("Ongoing", 1, 60000, 2, "[0]");
            old.abortTransaction();
            expect("PrepareAbort", 2, 60000, 2, "[0]");
            expect("CompleteAbort", 2, 60000, 2, "[]");

            step("a successor");
            old.beginTransaction();
            old.send(new ProducerRecord<>(id, 0, "k", "d")).get();
            expect("Ongoing", 2, 60000, 2, "[0]");
            try (Producer<String, String> heir = clients.producer("transactional.id", id, "transaction.timeout.ms", "30000")) {
                heir.initTransactions();
                expect("PrepareAbort", 3, 60000, 2, "[0]");
                expect("CompleteAbort", 3, 60000, 2, "[]");
                expect("Empty", 4, 30000, 2, "null");
            }
        }
    }

    private void read() throws Exception {
        step("kafka-console-consumer with the formatter of transactions");
        int partitions = get(admin.describeTopics(List.of(STATE)).allTopicNames()).get(STATE).partitions().size();
        TopicPartition tp = new TopicPartition(STATE, Utils.abs(id.hashCode()) % partitions); // TransactionStateManager.partitionFor
        List<String> got = new ArrayList<>();
        String began = "-1";
        for (String record : Tools.records(bootstrap, admin, tp, TransactionLogMessageFormatter.class)) {
            if (!record.contains("\"transactionalId\":\"" + id + "\"")) {
                continue;
            }
            String state = field(record, "transactionStatus", "\"(\\w+)\"");
            String flow = record.contains("clientTransactionVersion") ? field(record, "clientTransactionVersion", "(\\d)") : "0";
            got.add(state + ", epoch " + field(record, "producerEpoch", "(\\d+)") + ", timeout " + field(record, "transactionTimeoutMs", "(\\d+)")
                + ", client version " + flow + ", partitions " + partitions(field(record, "transactionPartitions", "(null|\\[.*\\])")));
            equal("1", field(record, "version", "(\\d)"), "version of " + record);
            equal(field(record, "producerId", "(\\d+)"), field(record, "previousProducerId", "(\\d+)"), "producer id before " + record);
            that(!record.contains("nextProducerId"), "a next producer id: " + record);
            String updated = field(record, "transactionLastUpdateTimestampMs", "(\\d{13})");
            if (state.equals("Empty")) {
                began = "-1";
            } else if (state.equals("Ongoing") && !got.get(got.size() - 2).startsWith("Ongoing")) {
                began = updated;
            }
            equal(began, field(record, "transactionStartTimestampMs", "(-1|\\d{13})"), "start of " + record);
        }
        equal(want, got, "records of the id in " + tp);
    }

    private static String field(String record, String name, String pattern) {
        Matcher m = Pattern.compile("\"" + name + "\":" + pattern + "[,}]").matcher(record);
        that(m.find(), "no " + name + " in " + record);
        return m.group(1);
    }

    /** The partitions of a record, whose order is that of a hash table. */
    private static String partitions(String topics) {
        if (topics.equals("null")) {
            return topics;
        }
        Set<String> all = new TreeSet<>();
        Matcher m = Pattern.compile("\\{\"topic\":\"([^\"]+)\",\"partitionIds\":\\[([\\d,]+)\\]\\}").matcher(topics);
        while (m.find()) {
            all.addAll(m.group(1).equals("__consumer_offsets") ? Set.of("offsets") : Set.of(m.group(2).split(",")));
        }
        return all.toString();
    }
}
