package kshare.control;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Drives a kshare over its control interface. The JDK is all it needs; copy it.
 *
 * <pre>{@code
 * try (KshareControl kshare = KshareControl.start("bin/kshare", "--topic", "orders:1", "--clock", "virtual")) {
 *     kshare.bootstrap();       // for a client's bootstrap.servers
 *     kshare.advance("31s");    // a lock of 30 s has ended
 * }
 * }</pre>
 *
 * <p>Answers are JSON as text, for whatever library the test uses; {@link #field} finds one field without any. docs/control.md describes the
 * interface, GET /openapi.json every field of it.
 */
public final class KshareControl implements AutoCloseable {
    /** What the control interface has refused. */
    public static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final int status;

        Refused(int status, String message) {
            super(message);
            this.status = status;
        }

        /** The HTTP status. */
        public int status() {
            return status;
        }
    }

    private final HttpClient client = HttpClient.newHttpClient();
    private final Process process;
    private final String bootstrap;
    private final String url;

    private KshareControl(Process process, String bootstrap, String address) {
        this.process = process;
        this.bootstrap = bootstrap;
        this.url = "http://" + address;
    }

    /** Starts a kshare on free ports of the loopback interface; {@link #close} stops it. */
    public static KshareControl start(String binary, String... args) throws IOException {
        List<String> command = new ArrayList<>(List.of(binary, "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"));
        command.addAll(List.of(args));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader out = process.inputReader(StandardCharsets.UTF_8);
        String ready = out.readLine();
        String http = out.readLine();
        if (ready == null || !ready.startsWith("READY ") || http == null || !http.startsWith("HTTP ")) {
            process.destroy();
            throw new IOException("kshare did not start: it printed " + ready + " and " + http);
        }
        return new KshareControl(process, ready.substring("READY ".length()), http.substring("HTTP ".length()));
    }

    @Override
    public void close() {
        process.destroy();
        process.onExit().join();
    }

    /** What clients take as bootstrap.servers. */
    public String bootstrap() {
        return bootstrap;
    }

    /** Empties the cluster; topics asked for at its start exist again. */
    public void reset() throws IOException, InterruptedException {
        post("/v1/reset", "{}");
    }

    /** Lets time pass on a virtual clock: "31s", "1.5s". */
    public String advance(String by) throws IOException, InterruptedException {
        return post("/v1/time/advance", "{\"by\": " + quote(by) + "}");
    }

    /** The records of a share partition that are in flight, and what is persisted. */
    public String sharePartition(String group, String topic, int partition) throws IOException, InterruptedException {
        return get("/v1/share-partition?group=" + encode(group) + "&topic=" + encode(topic) + "&partition=" + partition);
    }

    /** Has requests go wrong, as in "api=Produce topic=orders times=1 error=NOT_LEADER_OR_FOLLOWER". */
    public String addFault(String text) throws IOException, InterruptedException {
        return post("/v1/faults", "{\"text\": " + quote(text) + "}");
    }

    /** Runs a scenario; the answer says what each command showed. */
    public String run(String text) throws IOException, InterruptedException {
        return post("/v1/scenarios", "{\"text\": " + quote(text) + "}");
    }

    public String get(String path) throws IOException, InterruptedException {
        return send(HttpRequest.newBuilder(URI.create(url + path)).GET());
    }

    public String post(String path, String json) throws IOException, InterruptedException {
        return send(HttpRequest.newBuilder(URI.create(url + path)).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(json)));
    }

    public void delete(String path) throws IOException, InterruptedException {
        send(HttpRequest.newBuilder(URI.create(url + path)).DELETE());
    }

    private String send(HttpRequest.Builder request) throws IOException, InterruptedException {
        HttpResponse<String> answer;
        try {
            answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            // A process that was killed is the most likely reason, and leaves nothing on standard error.
            throw process.waitFor(1, TimeUnit.SECONDS) ? new IOException("kshare has ended with status " + process.exitValue(), e) : e;
        }
        if (answer.statusCode() >= 300) {
            throw new Refused(answer.statusCode(), answer.body());
        }
        return answer.body();
    }

    /** The value of the first field of that name in JSON: a number or word, or text without its quotes. */
    public static String field(String json, String name) {
        Matcher m = Pattern.compile(Pattern.quote(quote(name)) + ":(?:\"([^\"]*)\"|([^,}\\]]*))").matcher(json);
        if (!m.find()) {
            throw new IllegalArgumentException("there is no field " + name + " in " + json);
        }
        return m.group(1) != null ? m.group(1) : m.group(2);
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    private static String quote(String text) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        return b.append('"').toString();
    }
}
