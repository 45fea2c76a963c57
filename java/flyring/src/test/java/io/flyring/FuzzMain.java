// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Fuzzes the binding: {@code FuzzMain FOLDER SEED FIRST INPUTS SECONDS [MUTANT]}. Input i of a seed is always the same.
 * Ends with status 0 after INPUTS inputs or SECONDS seconds, 1 after a finding, 3 after a hang; a read outside a
 * mapping ends the process with a signal. FOLDER/progress holds the number of the current input (8 bytes).
 */
public final class FuzzMain {
    /**
     * The time after which an input counts as hung. An input usually takes far below a millisecond, at most as long as
     * the waits of channel.md 5.1 and 5.2.
     */
    private static final long HANG_NANOS = 20_000_000_000L;
    /** Each so many inputs one is a table. */
    private static final int TABLES = 4;
    /** Each so many inputs one is a journal, which takes longer. */
    private static final int JOURNALS = 40;
    private static final long MIX = 0x9E37_79B9_7F4A_7C15L;

    private static volatile long current;
    private static volatile long since = System.nanoTime();

    private FuzzMain() {
    }

    /**
     * Runs the fuzzer.
     *
     * @param args folder for the file, seed, first input, number of inputs, seconds, and optionally a mutant.
     * @throws Exception a finding.
     */
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        final long seed = Long.parseLong(args[1]);
        final long first = Long.parseLong(args[2]);
        final long inputs = Long.parseLong(args[3]);
        final long end = System.nanoTime() + Long.parseLong(args[4]) * 1_000_000_000L;
        final String mutant = args.length > 5 ? args[5] : "";
        final long limit = mutant.equals("hang") ? HANG_NANOS / 20 : HANG_NANOS;
        watch(limit, Thread.currentThread());
        final long start = System.nanoTime();
        long done = 0;
        try (FuzzFile file = new FuzzFile(folder); FileChannel progress = FileChannel.open(folder.resolve("progress"),
            StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            ByteBuffer now = progress.map(FileChannel.MapMode.READ_WRITE, 0, Long.BYTES);
            FuzzDrive drive = new FuzzDrive(file);
            FuzzTable table = new FuzzTable(folder, drive.counts);
            FuzzJournal journal = new FuzzJournal(folder, drive.counts);
            for (; done < inputs && System.nanoTime() < end; done++) {
                current = first + done;
                since = System.nanoTime();
                now.putLong(0, current);
                SplittableRandom random = new SplittableRandom(seed * MIX + current);
                try {
                    if (current % JOURNALS == 1) {
                        journal.run(random);
                    } else if (current % TABLES == 0) {
                        table.run(random);
                    } else {
                        file.make(random);
                        drive.run(random);
                    }
                    FuzzMutants.run(mutant, file, table);
                } catch (Throwable e) {
                    System.out.println("finding: seed " + seed + " input " + current);
                    e.printStackTrace(System.out);
                    System.exit(1);
                }
            }
            table.close();
            journal.close();
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.println(drive.counts);
            System.out.printf("%d inputs in %.1f s, %.0f a second, seed %d%n", done, seconds, done / seconds, seed);
            List<String> missing = MUST_HAPPEN.stream().filter(what -> !drive.counts.containsKey(what)).toList();
            if (!missing.isEmpty()) {
                System.out.println("the fuzzing did not reach: " + missing);
                System.exit(1);
            }
        }
        Files.deleteIfExists(folder.resolve("progress"));
        System.exit(0);
    }

    /** The events that a few thousand inputs must produce; otherwise the run proves little. */
    private static final List<String> MUST_HAPPEN = List.of("attached", "attached read-only", "message",
        "publisher", "subscriber", "published", "back-pressured", "counter", "counter allocated", "peek valid", "lost",
        "handler threw", "CorruptRingException", "CorruptHeaderException", "TruncatedException", "SlotLostException",
        "NotAChannelException", "VersionTooNewException", "ChannelDiffersException", "InvalidArgumentException",
        "MessageTooLargeException", "worker", "job", "repeated job", "done", "released", "worker died", "ended false",
        "server", "client", "request", "repeated request", "answer", "item", "end of a stream", "answered later",
        "server died", "client died", "damaged", "completed", "failed", "ServerGoneException", "ExpiredException",
        "ServiceErrorException", "CancelledException",
        "table attached", "table attached read-only", "table value", "table entry", "table changed",
        "table removed true", "table recovered", "table grow", "table handler threw", "table CorruptTableException",
        "table NeedsRecoveryException", "table BusyException", "table NoSpaceException", "table SlotLostException",
        "table CorruptHeaderException", "table TruncatedException", "table TimedOutException",
        "journal attached", "journal message", "journal cut", "journal writer", "journal recovered", "journal consumer",
        "journal CorruptJournalException", "journal DamagedException", "journal NeedsRecoveryException",
        "journal CorruptHeaderException", "journal TruncatedException");

    private static void watch(long limit, Thread worker) {
        Thread thread = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(limit / 10_000_000);
                } catch (InterruptedException e) {
                    return;
                }
                if (System.nanoTime() - since > limit) {
                    System.out.println("hang: input " + current);
                    for (StackTraceElement frame : worker.getStackTrace()) {
                        System.out.println("    " + frame);
                    }
                    Runtime.getRuntime().halt(3);
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
