package kshare.interop;

import static kshare.interop.Check.get;
import static kshare.interop.Check.that;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.consumer.ConsoleConsumer;

/** Runs Kafka's command line tools through their {@code main}, all in one JVM: only {@code exit} is replaced, so that its status can be checked. */
final class Tools {
    /** Ends the tool that called exit, as the JVM's end would. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;

        Exited(int status) {
            super("exit " + status);
        }
    }

    interface Tool {
        void main(String[] args) throws Exception;
    }

    /** The first status that the running tool gave to exit; what it does after that would not have happened. */
    private static Integer exited;

    static {
        Exit.setExitProcedure((status, message) -> {
            if (exited == null) {
                exited = status;
            }
            throw new Exited(exited);
        });
    }

    private Tools() { }

    /** Runs a tool and returns what it printed; a status other than {@code status} fails. */
    static String run(String bootstrap, int status, String input, Tool tool, String... args) throws Exception {
        List<String> line = new ArrayList<>(List.of("--bootstrap-server", bootstrap));
        line.addAll(List.of(args));
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream captured = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        exited = null;
        try {
            System.setOut(captured);
            System.setErr(captured);
            System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
            tool.main(line.toArray(new String[0]));
        } catch (Exited e) {
            captured.flush();
        } finally {
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
        int got = exited == null ? 0 : exited;
        String printed = bytes.toString(StandardCharsets.UTF_8);
        that(got == status, String.join(" ", args) + ": want exit " + status + ", got " + got + "\n" + printed);
        return printed;
    }

    /** Requires a line of {@code printed} that the pattern matches as a whole; blanks stand for any blanks. */
    static void line(String pattern, String printed) {
        Pattern p = whole(pattern);
        that(printed.lines().anyMatch(l -> p.matcher(l).matches()), "no line matches '" + pattern + "' in:\n" + printed);
    }

    /** Requires that no line of {@code printed} is as {@link #line} wants it. */
    static void noLine(String pattern, String printed) {
        Pattern p = whole(pattern);
        that(printed.lines().noneMatch(l -> p.matcher(l).matches()), "a line matches '" + pattern + "' in:\n" + printed);
    }

    private static Pattern whole(String pattern) {
        return Pattern.compile("\\s*" + pattern.replace(" ", "\\s+") + "\\s*");
    }

    /**
     * All records of a partition of an internal topic as kafka-console-consumer prints them with a formatter of coordinators' records. That puts
     * nothing between two records.
     */
    static List<String> records(String bootstrap, Admin admin, TopicPartition tp, Class<?> formatter) throws Exception {
        long begin = get(admin.listOffsets(Map.of(tp, OffsetSpec.earliest())).all()).get(tp).offset();
        long end = get(admin.listOffsets(Map.of(tp, OffsetSpec.latest())).all()).get(tp).offset();
        String printed = run(bootstrap, 0, "", ConsoleConsumer::main, "--topic", tp.topic(), "--partition", Integer.toString(tp.partition()),
            "--offset", Long.toString(begin), "--max-messages", Long.toString(end - begin), "--timeout-ms", "30000", "--formatter", formatter.getName());
        return List.of(printed.split("(?<=})(?=\\{\"key\"|Processed)|\n"));
    }
}
