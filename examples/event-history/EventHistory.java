// SPDX-License-Identifier: Apache-2.0

import io.flyring.Journal;
import io.flyring.JournalOptions;
import io.flyring.JournalReader;
import io.flyring.JournalStart;
import io.flyring.JournalSync;
import io.flyring.JournalWriter;
import io.flyring.Message;
import io.flyring.NoFreeSlotException;
import io.flyring.Publisher;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * Events that are kept: read them live, or later from a time on.
 *
 * <pre>
 * EventHistory write LAST PER_SECOND    appends events up to number LAST, behind those in the journal
 * EventHistory tail LAST                prints each event as it comes, up to number LAST
 * EventHistory since TIME               prints the events from TIME on: ns since 1970, as of `date +%s%N`
 * </pre>
 */
public final class EventHistory {
    public static void main(String[] args) throws InterruptedException {
        if (args.length == 3 && args[0].equals("write")) {
            write(Long.parseLong(args[1]), Double.parseDouble(args[2]));
        } else if (args.length == 2 && args[0].equals("tail")) {
            tail(Long.parseLong(args[1]));
        } else if (args.length == 2 && args[0].equals("since")) {
            since(Long.parseLong(args[1]));
        } else {
            System.err.println("Use EventHistory with: write LAST PER_SECOND, tail LAST, or since TIME.");
            System.exit(1);
        }
    }

    /**
     * A reader or a writer may come first: whichever does creates the journal. A power loss takes at most the events of
     * about 10 ms, and the newest 64 MiB are kept.
     */
    private static Journal openEvents() {
        JournalSync sync = JournalSync.every(Duration.ofMillis(10));
        return Journal.openOrCreate("event-history",
            new JournalOptions().segmentSize(1 << 20).sync(sync).maxSize(64 << 20));
    }

    /** There is one writer. A second one waits, and goes on when the first one has ended or was killed. */
    private static JournalWriter takeWriter(Journal journal) {
        try {
            return journal.writer("recorder");
        } catch (NoFreeSlotException e) {
            System.out.println("waiting: the writer is process " + e.owners().get(0).pid());
            return journal.writer("recorder", Publisher.FOREVER);
        }
    }

    private static void write(long last, double perSecond) throws InterruptedException {
        try (Journal journal = openEvents(); JournalWriter writer = takeWriter(journal)) {
            System.out.println("begins behind event " + writer.number());
            while (writer.number() < last) {
                byte[] event = ("event " + (writer.number() + 1)).getBytes(StandardCharsets.UTF_8);
                writer.append(event);
                Thread.sleep(Math.round(1000 / perSecond));
            }
        }
    }

    private static void tail(long last) {
        try (Journal journal = openEvents(); JournalReader reader = journal.reader(JournalStart.NEWEST)) {
            System.out.println("waits behind event " + reader.number());
            while (reader.number() < last) {
                System.out.println(text(reader.take(Publisher.FOREVER))); // sleeps until there is one
            }
        }
    }

    private static void since(long when) {
        try (Journal journal = openEvents(); JournalReader reader = journal.reader(JournalStart.time(when))) {
            for (Message message = reader.take(); message != null; message = reader.take()) {
                System.out.println(text(message));
            }
        }
    }

    private static String text(Message message) {
        return new String(message.toByteArray(), StandardCharsets.UTF_8);
    }
}
