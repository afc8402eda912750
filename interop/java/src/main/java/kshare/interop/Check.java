package kshare.interop;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Uuid;

/** Assertions and the PASS/FAIL frame that all programs share. */
final class Check {
    /** The longest that any single wait on the broker may take. */
    static final Duration LIMIT = Duration.ofSeconds(40);

    /** How long one poll waits: short, so that members of one group can be polled in turn by one thread. */
    static final Duration POLL = Duration.ofMillis(100);

    interface Body {
        void run() throws Exception;
    }

    private Check() { }

    /** Runs {@code body}, prints PASS or FAIL with {@code name}, and ends the JVM with 0 or 1. */
    static void main(String name, Body body) {
        int code = 0;
        try {
            body.run();
            System.out.println("PASS " + name);
        } catch (Throwable t) {
            t.printStackTrace(System.out);
            System.out.println("FAIL " + name + ": " + t);
            code = 1;
        }
        System.out.flush();
        // Client threads of a failed run may still be alive; the verdict is known all the same.
        Runtime.getRuntime().halt(code);
    }

    /** Announces a step, so that a run stopped by its time limit shows how far it came. */
    static void step(String what) {
        System.out.println("- " + what);
    }

    static void that(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object want, Object got, String what) {
        if (!Objects.equals(want, got)) {
            throw new AssertionError(what + ": want " + want + ", got " + got);
        }
    }

    /** The result of an Admin future, with the broker's exception unwrapped. */
    static <T> T get(KafkaFuture<T> future) throws Exception {
        try {
            return future.get(LIMIT.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    /** Requires {@code future} to fail with {@code want}. */
    static void fails(Class<? extends Exception> want, KafkaFuture<?> future, String what) throws Exception {
        try {
            Object got = get(future);
            throw new AssertionError(what + ": want " + want.getSimpleName() + ", got " + got);
        } catch (Exception e) {
            that(want.isInstance(e), what + ": want " + want.getSimpleName() + ", got " + e);
        }
    }

    /** Repeats {@code probe} until {@code done} holds of its value, at most for {@link #LIMIT}. */
    static <T> T eventually(String what, Callable<T> probe, Predicate<T> done) throws Exception {
        long end = System.nanoTime() + LIMIT.toNanos();
        T last;
        do {
            last = probe.call();
            if (done.test(last)) {
                return last;
            }
            Thread.sleep(20);
        } while (System.nanoTime() < end);
        throw new AssertionError(what + ": not within " + LIMIT.toSeconds() + " s; last seen " + last);
    }

    /** A name that no earlier run on the same broker has used. */
    static String unique(String prefix) {
        return prefix + "-" + Long.toUnsignedString(Uuid.randomUuid().getMostSignificantBits(), 36);
    }
}
