package kshare.interop;

import static kshare.interop.Check.equal;
import static kshare.interop.Check.step;
import static kshare.interop.Check.that;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** The producer: idempotent with every codec, acks 0 and 1, headers, callbacks, a refused batch. */
public final class ProducerProgram {
    private static final int RECORDS = 60;

    private ProducerProgram() { }

    public static void main(String[] args) {
        Check.main("java producer", () -> run(new Clients(args[0])));
    }

    private static void run(Clients clients) throws Exception {
        try (Admin admin = clients.admin()) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                step("idempotent, acks=all, compression.type=" + codec);
                String topic = Check.unique("java-producer-" + codec);
                clients.createTopic(admin, topic, 3);
                roundTrip(clients, topic, "acks", "all", "enable.idempotence", "true", "compression.type", codec,
                    "linger.ms", "20");
            }
            step("acks=1");
            String one = Check.unique("java-producer-acks-1");
            clients.createTopic(admin, one, 3);
            roundTrip(clients, one, "acks", "1", "enable.idempotence", "false");

            step("acks=0");
            String zero = Check.unique("java-producer-acks-0");
            clients.createTopic(admin, zero, 1);
            unacknowledged(clients, zero);

            step("a batch larger than max.message.bytes");
            String small = Check.unique("java-producer-small");
            NewTopic topic = new NewTopic(small, 1, (short) 1).configs(Map.of("max.message.bytes", "1000"));
            Check.get(admin.createTopics(List.of(topic)).all());
            refused(clients, small);
        }
    }

    /** Produces keyed, keyless and null-valued records with headers, checks every answer, reads all back. */
    private static void roundTrip(Clients clients, String topic, String... config) throws Exception {
        ConcurrentLinkedQueue<String> problems = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<RecordMetadata> answered = new ConcurrentLinkedQueue<>();
        Map<TopicPartition, Map<Long, ProducerRecord<String, String>>> want = new HashMap<>();
        try (Producer<String, String> p = clients.producer(config)) {
            equal(3, p.partitionsFor(topic).size(), "partitionsFor");
            List<ProducerRecord<String, String>> records = new ArrayList<>();
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < RECORDS; i++) {
                ProducerRecord<String, String> r = record(topic, i);
                records.add(r);
                futures.add(p.send(r, (metadata, e) -> {
                    if (e != null) {
                        problems.add(e.toString());
                    } else {
                        answered.add(metadata);
                    }
                }));
            }
            p.flush();
            for (int i = 0; i < RECORDS; i++) {
                RecordMetadata m = futures.get(i).get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
                that(m.hasOffset() && m.hasTimestamp(), "answer without offset or timestamp: " + m);
                equal(records.get(i).timestamp(), m.timestamp(), "timestamp in the answer");
                want.computeIfAbsent(new TopicPartition(topic, m.partition()), k -> new HashMap<>())
                    .put(m.offset(), records.get(i));
            }
        }
        that(problems.isEmpty(), "callbacks with errors: " + problems);
        equal(RECORDS, answered.size(), "callbacks");
        // Offsets are 0..n-1 in each partition: nothing twice, nothing lost.
        want.forEach((tp, byOffset) -> {
            for (long o = 0; o < byOffset.size(); o++) {
                that(byOffset.containsKey(o), "no answer named " + tp + " offset " + o);
            }
        });
        readBack(clients, want);
    }

    private static ProducerRecord<String, String> record(String topic, int i) {
        String key = i % 5 == 0 ? null : "key-" + i;
        String value = i % 7 == 0 ? null : "value-" + i + "-".repeat(i * 40);
        ProducerRecord<String, String> r =
            new ProducerRecord<>(topic, i % 2 == 0 ? i % 3 : null, 1_700_000_000_000L + i, key, value);
        r.headers().add("index", Integer.toString(i).getBytes(StandardCharsets.UTF_8));
        r.headers().add("null", null);
        r.headers().add("index", new byte[] {0, -1});
        return r;
    }

    private static void readBack(Clients clients, Map<TopicPartition, Map<Long, ProducerRecord<String, String>>> want)
            throws Exception {
        try (Consumer<String, String> c = clients.consumer("check.crcs", "true")) {
            c.assign(want.keySet());
            c.seekToBeginning(want.keySet());
            List<ConsumerRecord<String, String>> got = new ArrayList<>();
            Check.eventually("reading back " + RECORDS + " records", () -> {
                c.poll(Check.POLL).forEach(got::add);
                return got.size();
            }, n -> n >= RECORDS);
            equal(RECORDS, got.size(), "records read back");
            for (ConsumerRecord<String, String> r : got) {
                ProducerRecord<String, String> w =
                    want.get(new TopicPartition(r.topic(), r.partition())).get(r.offset());
                that(w != null, "a record that was never answered: " + r);
                equal(w.key(), r.key(), "key");
                equal(w.value(), r.value(), "value");
                equal(w.timestamp(), r.timestamp(), "timestamp");
                equal(w.headers(), r.headers(), "headers");
            }
        }
    }

    private static void unacknowledged(Clients clients, String topic) throws Exception {
        // One acknowledged record first: without acks nobody would notice a partition whose leader is not ready yet.
        clients.produce(topic, 1, 0, 1);
        try (Producer<String, String> p = clients.producer("acks", "0", "enable.idempotence", "false")) {
            for (int i = 1; i < RECORDS; i++) {
                RecordMetadata m = p.send(new ProducerRecord<>(topic, "k", Integer.toString(i))).get();
                that(!m.hasOffset(), "acks=0 yet an offset: " + m);
            }
        }
        try (Consumer<String, String> c = clients.consumer()) {
            TopicPartition tp = new TopicPartition(topic, 0);
            c.assign(List.of(tp));
            c.seekToBeginning(List.of(tp));
            List<String> got = new ArrayList<>();
            Check.eventually("acks=0 records in the log", () -> {
                c.poll(Check.POLL).forEach(r -> got.add(r.value()));
                return got.size();
            }, n -> n >= RECORDS);
            for (int i = 0; i < RECORDS; i++) {
                equal(Integer.toString(i), got.get(i), "order of acks=0 records");
            }
        }
    }

    private static void refused(Clients clients, String topic) throws Exception {
        try (Producer<String, String> p = clients.producer()) {
            try {
                RecordMetadata m = p.send(new ProducerRecord<>(topic, "x".repeat(5000))).get();
                throw new AssertionError("a batch beyond max.message.bytes was taken: " + m);
            } catch (ExecutionException e) {
                that(e.getCause() instanceof RecordTooLargeException, "want RecordTooLargeException, got " + e.getCause());
            }
            equal(0L, p.send(new ProducerRecord<>(topic, "small")).get().offset(), "first offset after a refusal");
        }
    }
}
