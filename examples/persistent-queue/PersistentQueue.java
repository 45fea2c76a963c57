// SPDX-License-Identifier: Apache-2.0

import io.flyring.Journal;
import io.flyring.JournalConsumer;
import io.flyring.JournalOptions;
import io.flyring.JournalStats;
import io.flyring.JournalSync;
import io.flyring.Message;
import io.flyring.NoFreeSlotException;
import io.flyring.Publisher;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/**
 * A queue on disk: jobs that wait, however many there are, and survive every program.
 *
 * <pre>
 * PersistentQueue push TEXT...    each TEXT is a job
 * PersistentQueue work SECONDS    does jobs one after another, each in SECONDS; ends behind the job "stop"
 * PersistentQueue show            prints how many jobs are not done
 * </pre>
 */
public final class PersistentQueue {
    private final long millis;
    private String done = "";

    private PersistentQueue(double seconds) {
        this.millis = Math.round(1000 * seconds);
    }

    public static void main(String[] args) {
        if (args.length > 1 && args[0].equals("push")) {
            push(Arrays.asList(args).subList(1, args.length));
        } else if (args.length == 2 && args[0].equals("work")) {
            new PersistentQueue(Double.parseDouble(args[1])).work();
        } else if (args.length == 1 && args[0].equals("show")) {
            show();
        } else {
            System.err.println("Use PersistentQueue with: push TEXT..., work SECONDS, or show.");
            System.exit(1);
        }
    }

    /** With JournalSync.EACH, a job that was pushed is there after a power loss, too, if FLYRING_DIR is on a disk. */
    private static Journal openJobs() {
        return Journal.openOrCreate("jobs", new JournalOptions().segmentSize(1 << 20).sync(JournalSync.EACH));
    }

    private static void push(List<String> texts) {
        try (Journal journal = openJobs()) {
            for (String text : texts) {
                journal.push(text.getBytes(StandardCharsets.UTF_8)); // waits while another process pushes
            }
        }
    }

    private static JournalConsumer takeWorker(Journal journal) {
        try {
            return journal.consumer("worker");
        } catch (NoFreeSlotException e) {
            System.err.println("process " + e.owners().get(0).pid() + " is at work");
            System.exit(1);
            throw e;
        }
    }

    private void work() {
        try (Journal journal = openJobs(); JournalConsumer worker = takeWorker(journal)) {
            while (!done.equals("stop")) {
                // Sleeps until there is a job. It is consumed when work has returned: a killed worker's job comes
                // again.
                worker.poll(this::work, 1, Publisher.FOREVER);
                if (worker.number() % 1000 == 0) {
                    journal.trimConsumed(); // gives the space of done jobs back
                }
            }
        }
    }

    private void work(Message job) {
        String text = new String(job.toByteArray(), StandardCharsets.UTF_8);
        System.out.println("begun: " + text);
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        System.out.println("done: " + text);
        done = text;
    }

    private static void show() {
        try (Journal journal = openJobs()) {
            JournalStats stats = journal.stats();
            long left = stats.consumers().isEmpty() ? stats.messages() : stats.consumers().get(0).behind();
            System.out.println(left + " of " + stats.messages() + " jobs are not done");
        }
    }
}
