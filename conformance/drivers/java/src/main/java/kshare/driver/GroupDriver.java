package kshare.driver;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;

/** The driver of Apache Kafka's own consumer of ordinary groups, of both protocols. */
final class GroupDriver {
    private static final Map<String, String> SETTINGS = Map.of(
        "client_id", "client.id", "rack", "client.rack", "max_poll_records", "max.poll.records", "max_wait_ms", "fetch.max.wait.ms", "protocol", "group.protocol", "instance_id", "group.instance.id",
        "isolation", "isolation.level", "assignor", "partition.assignment.strategy", "regex", "");

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final int number;
    private int polls;

    private GroupDriver(Properties p, int number, boolean regex) {
        this.number = number;
        consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        if (regex)
            consumer.subscribe(new SubscriptionPattern(System.getenv("KSJ_TOPICS")));
        else
            consumer.subscribe(Arrays.asList(System.getenv("KSJ_TOPICS").split(",")));
    }

    private int poll(long pollMs) throws InterruptedException {
        int n = 0;
        polls++;
        try {
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(pollMs))) {
                n++;
                Driver.say("ev", "rec", "t", r.topic(), "p", r.partition(), "o", r.offset(), "dc", 0, "h", Driver.hash(r), "poll", polls, "consumer", number);
            }
        } catch (Exception e) {
            Driver.error("poll", e);
            Thread.sleep(1); // a poll that fails at once
        }
        if (n > 0)
            commit();
        return n;
    }

    private void commit() {
        try {
            consumer.commitSync();
            Driver.say("ev", "result", "what", "commit", "ok", true);
        } catch (Exception e) {
            Driver.say("ev", "result", "what", "commit", "ok", false, "code", Driver.code(e), "text", String.valueOf(e));
        }
    }

    static void run() throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", System.getenv("KSJ_BOOTSTRAP"));
        p.put("group.id", System.getenv("KSJ_GROUP"));
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        boolean regex = false;
        for (Map.Entry<String, JsonElement> e : new Gson().fromJson(System.getenv("KSJ_PROPS"), JsonObject.class).entrySet()) {
            String name = SETTINGS.get(e.getKey());
            if (name == null) {
                Driver.say("ev", "unsupported", "what", e.getKey());
                return;
            }
            if (name.isEmpty())
                regex = e.getValue().getAsBoolean();
            else
                p.put(name, e.getValue().getAsString().replace("cooperative-sticky", CooperativeStickyAssignor.class.getName()));
        }
        LinkedBlockingQueue<JsonObject> ops = Driver.operations();
        GroupDriver d = new GroupDriver(p, 0, regex);
        List<GroupDriver> all = new ArrayList<>(List.of(d));
        JsonObject running = null;
        while (true) {
            JsonObject o = running == null ? ops.take() : ops.poll();
            if (o == null) {
                for (GroupDriver x : all)
                    x.poll(running.get("poll_ms").getAsLong());
                continue;
            }
            String op = o.get("op").getAsString();
            switch (op) {
                case "end" -> System.exit(0);
                case "run" -> running = o;
                case "pause" -> running = null;
                case "poll" -> {
                    running = null;
                    int n = 0;
                    for (int i = 0; i < o.get("n").getAsInt(); i++)
                        n += d.poll(1000);
                    Driver.say("ev", "polled", "n", n);
                }
                case "commit" -> d.commit();
                case "subscribe" -> d.consumer.subscribe(o.getAsJsonArray("topics").asList().stream().map(JsonElement::getAsString).toList());
                case "unsubscribe" -> d.consumer.unsubscribe();
                case "second" -> all.add(new GroupDriver(p, all.size(), regex));
                case "close" -> {
                    for (GroupDriver x : all)
                        x.consumer.close(Duration.ofMillis(o.get("ms").getAsLong()));
                    Driver.say("ev", "closed");
                    System.exit(0);
                }
                default -> Driver.say("ev", "unsupported", "what", op);
            }
            if (Set.of("pause", "commit", "subscribe", "unsubscribe", "second").contains(op))
                Driver.say("ev", "done", "op", op);
        }
    }
}
