// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Journal;
import io.flyring.JournalOptions;
import io.flyring.JournalWriter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Two programs of bench/journal.py: a writer that is killed, and one that takes its place. */
final class Recovery {
    private static final long MOST_BYTES = 4L << 30;
    private static final int LENGTH = 32;

    private final byte[] message = new byte[LENGTH]; // an UnsafeBuffer would need a JVM flag (docs/java.md)
    private final PrintStream out;

    Recovery(PrintStream out) {
        this.out = out;
    }

    void run(Setup setup) throws IOException {
        if (setup.producer()) {
            appendUntilKilled(setup.dir);
        } else {
            takeOver();
        }
    }

    /** Appends to the journal until it is killed, or has appended 4 GiB. */
    private void appendUntilKilled(String path) {
        try (Journal journal = Journal.openOrCreate(path, new JournalOptions());
             JournalWriter writer = journal.writer("bench")) {
            writer.append(message);
            say("{\"opened\": true}");
            while (writer.position() < MOST_BYTES) {
                writer.append(message);
            }
            while (true) {
                java.util.concurrent.locks.LockSupport.park();
            }
        }
    }

    /** For each path on standard input: takes the writer's slot of that journal, and appends a message. */
    private void takeOver() throws IOException {
        say("{\"opened\": true}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String path = in.readLine(); path != null; path = in.readLine()) {
            final long start = System.nanoTime();
            final long ns;
            final long before;
            try (Journal journal = Journal.open(path); JournalWriter writer = journal.writer("bench")) {
                writer.append(message);
                ns = System.nanoTime() - start;
                before = writer.number() - 1;
            }
            say("{\"ns\": " + ns + ", \"messages\": " + before + "}");
        }
    }

    private void say(String line) {
        out.println(line);
        out.flush();
    }
}
