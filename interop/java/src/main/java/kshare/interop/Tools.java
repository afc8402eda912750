package kshare.interop;

import static kshare.interop.Check.that;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

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
}
