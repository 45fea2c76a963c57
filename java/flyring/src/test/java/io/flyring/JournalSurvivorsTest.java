// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What is left of a writer or consumer that dies: what was appended is there, whole and once. */
class JournalSurvivorsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("j.journal");
    }

    @Test
    void whateverStoreIsTheLastNothingIsTornLostOrDoubled() throws Exception {
        List<String> lines = Stores.run(rings, JournalStores.class, rings.folder().toString());
        String last = lines.get(lines.size() - 1);
        System.out.println(last);
        assertTrue(last.startsWith("done: 17 scenarios") && lines.size() == 18, lines.toString());
        for (String line : lines.subList(0, lines.size() - 1)) {
            assertTrue(line.matches(".*: [1-9][0-9]* stores"), line);
        }
    }

    /** Reads all that comes; the result is how many messages it has seen. */
    private static long reads(JournalReads reader, AtomicBoolean stop) {
        long[] next = {reader.number()};
        while (!stop.get() || reader.poll(message -> next[0] = checked(message, next[0])) > 0) {
            reader.poll(message -> next[0] = checked(message, next[0]), 100, Duration.ofMillis(20));
        }
        return next[0];
    }

    private static long checked(Message message, long expected) {
        assertEquals(expected, message.number());
        assertEquals(expected, message.buffer().getLong(0));
        for (int i = 8; i < message.length(); i++) {
            assertEquals((byte) expected, message.buffer().getByte(i), "byte " + i + " of message " + expected);
        }
        return expected + 1;
    }

    @Test
    void aStoppedWriterKeepsItsSlotUntilItIsKilled() throws Exception {
        try (Journal journal = Journal.create(path(), Journals.small()); JournalReader reader = journal.reader()) {
            Process child = Rings.java(Child.class, "journal-writer", path()).start();
            assertEquals('r', child.getInputStream().read());
            Other.until(() -> journal.stats().messages() > 100);
            assertEquals(0, new ProcessBuilder("kill", "-STOP", Long.toString(child.pid())).start().waitFor());
            Thread.sleep(20);
            final long messages = journal.stats().messages();
            NoFreeSlotException e = assertThrows(NoFreeSlotException.class,
                () -> journal.writer("", Duration.ofMillis(20)));
            assertEquals(child.pid(), e.owners().get(0).pid());
            assertThrows(NoFreeSlotException.class, () -> journal.push(new byte[1], 1, Duration.ofMillis(20)));
            assertTrue(journal.stats().writing());
            assertTrue(Journals.texts(reader).size() >= messages); // it holds no reader back
            assertEquals(137, child.destroyForcibly().waitFor());
            try (JournalWriter heir = Journals.writer(journal)) {
                Journals.append(heir, "x");
                assertTrue(heir.number() > messages);
            }
        }
    }

    @Test
    void readersSeeEachMessageOnceWhileWritersAreKilled() throws Exception {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            AtomicBoolean stop = new AtomicBoolean();
            Other<Long> reader = new Other<>(() -> reads(journal.reader(), stop));
            Other<Long> consumer = new Other<>(() -> reads(Journal.open(path()).consumer("c"), stop));
            long number = 0;
            try {
                for (int round = 0; round < 6; round++) {
                    Process child = Rings.java(Child.class, "journal-writer", path()).start();
                    assertEquals('r', child.getInputStream().read());
                    assertThrows(NoFreeSlotException.class, journal::writer);
                    final long last = number;
                    Other.until(() -> journal.stats().messages() > last);
                    Thread.sleep(30 + 7 * round);
                    assertEquals(137, child.destroyForcibly().waitFor());
                    try (JournalWriter writer = journal.writer("heir", Duration.ofSeconds(5))) {
                        assertEquals(2 * round + 2, writer.epoch());
                        assertTrue(writer.number() > number);
                        number = writer.number();
                        PayloadBuffer bytes = TableTest.buffer(new byte[100]);
                        bytes.setMemory(8, 92, (byte) number);
                        bytes.putLong(0, number++);
                        writer.append(bytes, 0, 100);
                    }
                }
            } finally {
                stop.set(true);
            }
            assertEquals(number, reader.result());
            assertEquals(number, consumer.result());
            System.out.println("messages: " + number);
        }
    }
}
