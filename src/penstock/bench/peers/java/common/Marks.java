package penstock.peers;

import java.util.Locale;
import java.util.concurrent.atomic.LongAdder;

/** What a round says of itself, a line of JSON each, to the process that started this one. */
public final class Marks {
    private static final LongAdder READ = new LongAdder(), WRITTEN = new LongAdder();
    private static volatile long firstNs, lastNs;

    private Marks() {}

    /** End with the process that started this one, however that went. */
    public static void endWithParent() {
        long parent = parentPid();
        Thread watch = new Thread(() -> {
            while (parentPid() == parent) {
                try {
                    Thread.sleep(200);
                } catch (InterruptedException over) {
                    return;
                }
            }
            Runtime.getRuntime().halt(1);
        }, "parent");
        watch.setDaemon(true);
        watch.start();
    }

    public static void begin() {
        READ.reset();
        WRITTEN.reset();
        firstNs = lastNs = 0;
    }

    /** Call for each record that is read, good or bad. */
    public static void read() {
        READ.increment();
        if (firstNs == 0) first();
    }

    /** Call for each session that is given to Kafka. */
    public static void wrote() {
        WRITTEN.increment();
        lastNs = System.nanoTime();
    }

    public static long allRead() {
        return READ.sum();
    }

    /** So many events are through, and all that came of them is committed. */
    public static void done(long events) {
        String line = "{\"mark\":\"done\",\"events\":%d,\"sessions\":%d,\"seconds\":%.3f,\"committed_s\":%.3f}";
        say(String.format(Locale.ROOT, line,
                events, WRITTEN.sum(), (lastNs - firstNs) / 1e9, (System.nanoTime() - firstNs) / 1e9));
    }

    private static synchronized void first() {
        if (firstNs != 0) return;
        firstNs = System.nanoTime();
        say("{\"mark\":\"first\"}");
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static long parentPid() {
        return ProcessHandle.current().parent().map(ProcessHandle::pid).orElse(0L);
    }
}
