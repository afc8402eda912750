package kshare.control;

/** What a JUnit test calls when its client has run: assertEquals("", JudgeExample.failures(kshare)). The kshare runs with --judge. */
public final class JudgeExample {
    private JudgeExample() {}

    /** The rules that clients have broken and must keep, with commas between. */
    public static String failures(KshareControl kshare) throws Exception {
        return kshare.get("/v1/judge").replaceFirst("(?s).*\"failures\":\\[([^\\]]*)\\].*", "$1");
    }
}
