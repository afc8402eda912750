package kshare.driver;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

import com.google.gson.Gson;
import com.google.gson.JsonObject;

/** The driver of Apache Kafka's own transactional producer. */
final class ProducerDriver {
    private interface Step {
        void run() throws Exception;
    }

    private ProducerDriver() {
    }

    private static void outcome(String what, Step step) {
        try {
            step.run();
            Driver.say("ev", "result", "what", what, "ok", true);
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            Driver.say("ev", "result", "what", what, "ok", false, "code", Driver.code(cause), "text", String.valueOf(cause));
        }
    }

    static void run() throws Exception {
        JsonObject settings = new Gson().fromJson(System.getenv("KSJ_PROPS"), JsonObject.class);
        Properties p = new Properties();
        p.put("bootstrap.servers", System.getenv("KSJ_BOOTSTRAP"));
        p.put("transactional.id", settings.get("transactional_id").getAsString());
        p.put("client.id", settings.get("client_id").getAsString());
        p.put("max.block.ms", "40000");
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
        LinkedBlockingQueue<JsonObject> ops = Driver.operations();
        boolean[] ready = {false};
        int sent = 0;
        while (true) {
            JsonObject o = ops.take();
            switch (o.get("op").getAsString()) {
                case "end" -> {
                    if (o.get("commit") == null)
                        System.exit(0); // of its input
                    outcome("end", o.get("commit").getAsBoolean() ? producer::commitTransaction : producer::abortTransaction);
                }
                case "begin" -> outcome("begin", () -> {
                    if (!ready[0])
                        producer.initTransactions();
                    ready[0] = true;
                    producer.beginTransaction();
                });
                case "send" -> {
                    List<Future<?>> all = new ArrayList<>();
                    int first = sent;
                    sent += o.get("n").getAsInt();
                    outcome("send", () -> {
                        for (int i = 0; i < o.get("n").getAsInt(); i++)
                            all.add(producer.send(new ProducerRecord<>(o.get("topic").getAsString(), (first + i) % 3, null, "v".getBytes(StandardCharsets.UTF_8))));
                        for (Future<?> f : all)
                            f.get();
                    });
                }
                case "offsets" -> outcome("offsets", () -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition("t", 0), new OffsetAndMetadata(1)), new ConsumerGroupMetadata("copied")));
                case "close" -> {
                    producer.close(Duration.ofMillis(o.get("ms").getAsLong()));
                    Driver.say("ev", "closed");
                    System.exit(0);
                }
                default -> Driver.say("ev", "unsupported", "what", o.get("op").getAsString());
            }
        }
    }
}
