package kshare.interop;

import static kshare.interop.Check.get;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Clients with string keys and values, and the set-up steps that several programs need. */
final class Clients {
    private final String bootstrap;

    Clients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    Properties properties(String... overrides) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < overrides.length; i += 2) {
            p.put(overrides[i], overrides[i + 1]);
        }
        return p;
    }

    Admin admin() {
        return Admin.create(properties());
    }

    Producer<String, String> producer(String... overrides) {
        return new KafkaProducer<>(properties(overrides), new StringSerializer(), new StringSerializer());
    }

    Consumer<String, String> consumer(String... overrides) {
        return new KafkaConsumer<>(properties(overrides), new StringDeserializer(), new StringDeserializer());
    }

    ShareConsumer<String, String> shareConsumer(String... overrides) {
        return new KafkaShareConsumer<>(properties(overrides), new StringDeserializer(), new StringDeserializer());
    }

    /** Creates a topic with one replica a partition that keeps records of any age: the programs' timestamps are old. */
    void createTopic(Admin admin, String topic, int partitions) throws Exception {
        NewTopic t = new NewTopic(topic, partitions, (short) 1).configs(Map.of("retention.ms", "-1"));
        get(admin.createTopics(List.of(t)).all());
    }

    /** Sets configs of a group, which need not exist yet. */
    void alterGroup(Admin admin, String group, Map<String, String> configs) throws Exception {
        Collection<AlterConfigOp> ops = new ArrayList<>();
        configs.forEach((k, v) -> ops.add(new AlterConfigOp(new ConfigEntry(k, v), AlterConfigOp.OpType.SET)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        get(admin.incrementalAlterConfigs(Map.of(resource, ops)).all());
    }

    /** Produces values {@code from..to-1}, value i to partition i mod {@code partitions} with timestamp 1000+i. */
    void produce(String topic, int partitions, int from, int to) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (Producer<String, String> p = producer()) {
            for (int i = from; i < to; i++) {
                sent.add(p.send(new ProducerRecord<>(topic, i % partitions, 1000L + i, "k" + i, Integer.toString(i))));
            }
            for (Future<RecordMetadata> f : sent) {
                f.get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
            }
        }
    }

    /** Produces values {@code from..to-1} to partition 0 as one batch. */
    void produceBatch(String topic, int from, int to) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (Producer<String, String> p = producer("linger.ms", "5000", "batch.size", "100000")) {
            for (int i = from; i < to; i++) {
                sent.add(p.send(new ProducerRecord<>(topic, 0, "k" + i, Integer.toString(i))));
            }
            p.flush();
            for (Future<RecordMetadata> f : sent) {
                f.get(Check.LIMIT.toMillis(), TimeUnit.MILLISECONDS);
            }
        }
    }
}
