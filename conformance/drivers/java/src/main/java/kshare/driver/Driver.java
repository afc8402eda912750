package kshare.driver;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.zip.CRC32C;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;

/** The judge's driver of Apache Kafka's own KafkaShareConsumer: docs/drivers.md says what it is told and what it says. */
public final class Driver {
    private static final Gson GSON = new Gson();
    private static final boolean EXPLICIT = "explicit".equals(System.getenv("KSJ_ACK"));
    private static final Map<String, String> SETTINGS = Map.of(
        "client_id", "client.id", "rack", "client.rack", "max_poll_records", "max.poll.records", "acquire_mode", "share.acquire.mode", "max_wait_ms", "fetch.max.wait.ms",
        "min_bytes", "fetch.min.bytes", "max_bytes", "fetch.max.bytes", "max_poll_interval_ms", "max.poll.interval.ms");
    private static volatile long failing = -1;

    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final int number;
    private final List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
    private int polls;
    private boolean running; // by op run: nothing is kept then

    private Driver(Properties p, int number) {
        this.number = number;
        Deserializer<byte[]> values = (topic, data) -> {
            if (failing >= 0 && data != null && new String(data, StandardCharsets.UTF_8).equals(Long.toString(failing)))
                throw new KafkaException("told to fail");
            return data;
        };
        consumer = new KafkaShareConsumer<>(p, new ByteArrayDeserializer(), values);
        consumer.setAcknowledgementCommitCallback((offsets, e) -> offsets.forEach((tp, list) -> result("ack", tp, list, e)));
        consumer.subscribe(Arrays.asList(System.getenv("KSJ_TOPICS").split(",")));
    }

    static synchronized void say(Object... pairs) {
        Map<String, Object> event = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2)
            event.put((String) pairs[i], pairs[i + 1]);
        System.out.println(GSON.toJson(event));
        System.out.flush();
    }

    static Object code(Throwable e) {
        Errors error = Errors.forException(e);
        return error == Errors.UNKNOWN_SERVER_ERROR ? String.valueOf(e) : (Object) error.code();
    }

    private void result(String what, TopicIdPartition tp, Set<Long> offsets, Exception e) {
        say("ev", "result", "what", what, "t", tp.topic(), "p", tp.partition(), "offs", offsets, "ok", e == null, "code", e == null ? 0 : code(e),
            "text", e == null ? "" : String.valueOf(e), "consumer", number);
    }

    static void error(String where, Exception e) {
        say("ev", "error", "where", where, "code", code(e), "text", String.valueOf(e));
    }

    /** poll returns how many records came, or a negative number where the application is to pause. */
    private int poll(long pollMs, long holdMs) throws InterruptedException {
        boolean stop = false;
        int n = 0;
        polls++;
        try {
            boolean first = true;
            for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(pollMs))) {
                if (first) {
                    held.clear();
                    consumer.acquisitionLockTimeoutMs().ifPresent(ms -> say("ev", "lock", "ms", ms));
                }
                first = false;
                n++;
                int count = r.deliveryCount().map(Short::intValue).orElse(0);
                say("ev", "rec", "t", r.topic(), "p", r.partition(), "o", r.offset(), "dc", count, "h", hash(r), "poll", polls, "consumer", number);
                if (EXPLICIT)
                    stop |= obey(r, word(r, count));
            }
        } catch (Exception e) {
            error("poll", e);
            Thread.sleep(1); // a poll that fails at once
        }
        if (holdMs > 0 && n > 0)
            Thread.sleep(holdMs);
        return stop ? -1 : n;
    }

    static String hash(ConsumerRecord<byte[], byte[]> r) {
        CRC32C crc = new CRC32C();
        if (r.key() != null)
            crc.update(r.key());
        if (r.value() != null)
            crc.update(r.value());
        for (Header h : r.headers()) {
            crc.update(h.key().getBytes(StandardCharsets.UTF_8));
            if (h.value() != null)
                crc.update(h.value());
        }
        return String.format("%08x", crc.getValue());
    }

    private static String word(ConsumerRecord<byte[], byte[]> r, int count) {
        Header again = count > 1 ? r.headers().lastHeader("ksj2") : null;
        Header h = again != null ? again : r.headers().lastHeader("ksj");
        return h == null ? "accept" : new String(h.value(), StandardCharsets.UTF_8);
    }

    private boolean obey(ConsumerRecord<byte[], byte[]> r, String word) throws InterruptedException {
        if (word.equals("hold") && !running) {
            held.add(r);
            return false;
        }
        if (word.startsWith("slow:"))
            Thread.sleep(Long.parseLong(word.substring(5)));
        AcknowledgeType type = type(word);
        consumer.acknowledge(r, type == null ? AcknowledgeType.ACCEPT : type);
        if ("renew".equals(word))
            held.add(r);
        if (word.equals("commit"))
            commit("sync");
        return word.equals("stop");
    }

    private static AcknowledgeType type(String word) {
        return switch (word) {
            case "accept" -> AcknowledgeType.ACCEPT;
            case "release" -> AcknowledgeType.RELEASE;
            case "reject" -> AcknowledgeType.REJECT;
            case "renew" -> AcknowledgeType.RENEW;
            default -> null;
        };
    }

    private void ack(String how, JsonElement selected) {
        AcknowledgeType type = type(how);
        int n = 0;
        for (int i = 0; i < held.size(); i++) {
            ConsumerRecord<byte[], byte[]> r = held.get(i);
            if (!selects(selected, i, r))
                continue;
            try {
                consumer.acknowledge(r, type);
                n++;
            } catch (Exception e) {
                error("api", e);
            }
        }
        say("ev", "acked", "n", n);
    }

    private static boolean selects(JsonElement selected, int i, ConsumerRecord<byte[], byte[]> r) {
        if (selected.isJsonPrimitive()) {
            String[] parts = selected.getAsString().split(":");
            return parts[0].equals("all") || parts[0].equals("every") && i % Integer.parseInt(parts[1]) == Integer.parseInt(parts[2]);
        }
        for (JsonElement e : selected.getAsJsonArray()) {
            JsonArray a = e.getAsJsonArray();
            if (a.get(0).getAsString().equals(r.topic()) && a.get(1).getAsInt() == r.partition() && a.get(2).getAsLong() == r.offset())
                return true;
        }
        return false;
    }

    private void commit(String how) {
        try {
            if (how.equals("async"))
                consumer.commitAsync();
            else if (how.equals("sync"))
                for (Map.Entry<TopicIdPartition, Optional<KafkaException>> e : consumer.commitSync().entrySet())
                    result("commit", e.getKey(), null, e.getValue().orElse(null));
        } catch (Exception e) {
            error("api", e);
        }
    }

    /** What the judge says, as it comes; the end of it is an operation too. */
    static LinkedBlockingQueue<JsonObject> operations() {
        LinkedBlockingQueue<JsonObject> ops = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine())
                    ops.add(GSON.fromJson(line, JsonObject.class));
            } catch (Exception e) {
                System.err.println(e);
            }
            ops.add(GSON.fromJson("{\"op\":\"end\"}", JsonObject.class));
        });
        reader.setDaemon(true);
        reader.start();
        return ops;
    }

    private static String version() throws IOException {
        Properties p = new Properties();
        try (InputStream in = KafkaShareConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            p.load(in);
        }
        return p.getProperty("version");
    }

    public static void main(String[] args) throws Exception {
        say("ev", "hello", "client", "java", "version", version(), "caps", List.of("exp", "rnw", "lim", "cg", "txn", "sasl", "tls"));
        if ("producer".equals(System.getenv("KSJ_KIND"))) {
            ProducerDriver.run();
            return;
        }
        if ("consumer".equals(System.getenv("KSJ_KIND"))) {
            GroupDriver.run();
            return;
        }
        if (!"share".equals(System.getenv("KSJ_KIND"))) {
            say("ev", "unsupported", "what", "kind " + System.getenv("KSJ_KIND"));
            return;
        }
        Properties p = new Properties();
        p.put("bootstrap.servers", System.getenv("KSJ_BOOTSTRAP"));
        p.put("group.id", System.getenv("KSJ_GROUP"));
        p.put("share.acknowledgement.mode", EXPLICIT ? "explicit" : "implicit");
        JsonObject settings = GSON.fromJson(System.getenv("KSJ_PROPS"), JsonObject.class);
        Login.take(settings, p);
        for (Map.Entry<String, JsonElement> e : settings.entrySet()) {
            String name = SETTINGS.get(e.getKey());
            if (name != null)
                p.put(name, e.getValue().getAsString());
            else if (!e.getKey().equals("close_timeout_ms")) {
                say("ev", "unsupported", "what", e.getKey());
                return;
            }
        }
        LinkedBlockingQueue<JsonObject> ops = operations();
        List<Driver> all = new ArrayList<>(List.of(new Driver(p, 0)));
        JsonObject running = null;
        while (true) {
            JsonObject o = running == null ? ops.take() : ops.poll();
            if (o == null) {
                for (Driver d : all) {
                    d.running = true;
                    if (d.poll(running.get("poll_ms").getAsLong(), running.get("hold_ms").getAsLong()) < 0) {
                        running = null;
                        break;
                    }
                }
                continue;
            }
            Driver d = all.get(0);
            String op = o.get("op").getAsString();
            if (op.equals("end"))
                System.exit(0);
            try {
                switch (op) {
                    case "run" -> running = o;
                    case "pause" -> running = null;
                    case "poll" -> {
                        running = null;
                        d.running = false;
                        int n = 0;
                        for (int i = 0; i < o.get("n").getAsInt(); i++)
                            n += Math.max(0, d.poll(1000, 0));
                        say("ev", "polled", "n", n);
                    }
                    case "ack" -> d.ack(o.get("do").getAsString(), o.get("sel"));
                    case "commit" -> d.commit(o.get("how").getAsString());
                    case "subscribe" -> d.consumer.subscribe(o.getAsJsonArray("topics").asList().stream().map(JsonElement::getAsString).toList());
                    case "unsubscribe" -> d.consumer.unsubscribe();
                    case "fail" -> failing = o.get("off").getAsLong();
                    case "second" -> all.add(new Driver(p, all.size()));
                    case "close" -> {
                        int times = o.has("times") ? o.get("times").getAsInt() : 1;
                        for (int i = 0; i < times; i++)
                            for (Driver x : all)
                                x.consumer.close(Duration.ofMillis(o.get("ms").getAsLong()));
                        say("ev", "closed", "n", times);
                        System.exit(0);
                    }
                    default -> say("ev", "unsupported", "what", op);
                }
            } catch (Exception e) {
                error("api", e);
            }
            if (Set.of("pause", "commit", "subscribe", "unsubscribe", "fail", "second").contains(op))
                say("ev", "done", "op", op);
        }
    }
}
