// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A journal whose words or records are wrong. */
class JournalHostileTest {
    private static final int Z = Journals.SMALL;

    @RegisterExtension
    final Rings rings = new Rings();

    private Journal journal;
    private JournalWriter writer;

    private String path() {
        return rings.path("j.journal");
    }

    @BeforeEach
    void create() {
        journal = Journal.create(path(), Journals.small());
        writer = Journals.writer(journal);
    }

    private void append(int messages) {
        for (int i = 0; i < messages; i++) {
            writer.append(Rings.pattern((int) writer.number(), 1008));
        }
    }

    @Test
    void hostileBytesNeverCrashAReader() throws IOException {
        append(150);
        JournalConsumer consumer = journal.consumer("c");
        consumer.poll(message -> { }, 10);
        consumer.close();
        writer.close();
        journal.close();
        Random random = new Random(27);
        String copy = rings.path("copy.journal");
        int refused = 0;
        for (int round = 0; round < 300; round++) {
            Journals.copy(path(), copy);
            for (int i = 0; i <= random.nextInt(4); i++) {
                String file = random.nextInt(3) == 0 ? copy + "/control"
                    : Journals.segment(copy, (long) Z * random.nextInt(3));
                long at = file.endsWith("control") ? 4096 + random.nextInt(2048)
                    : 4096 + random.nextInt(Z / 64) * 64L + (random.nextBoolean() ? 0 : random.nextInt(64));
                byte[] bytes = new byte[1 + random.nextInt(12)];
                random.nextBytes(bytes);
                Journals.write(file, at, bytes);
            }
            refused += drive(copy, random);
        }
        assertTrue(refused > 100, "refused: " + refused);
    }

    /** Does what can be done with a broken journal; returns 1 if something was refused. */
    private static int drive(String path, Random random) {
        int refused = 0;
        try (Journal broken = Journal.open(path)) {
            for (Runnable each : List.<Runnable>of(() -> Journals.texts(broken),
                () -> Journals.texts(broken.reader(JournalStart.OLDEST, true, true)),
                () -> Journals.texts(broken.reader(JournalStart.position(64L * random.nextInt(3000)), false, true)),
                () -> Journals.texts(broken.reader(JournalStart.number(random.nextInt(150)))),
                () -> Journals.texts(broken.reader(JournalStart.time(1000 + random.nextInt(150)))),
                () -> Journals.texts(broken.reader(JournalStart.NEWEST)), broken::stats,
                () -> Journals.texts(broken.consumer("c", JournalStart.NEWEST, true)),
                () -> broken.trimPosition(Z), broken::trimConsumed, () -> {
                    try (JournalWriter heir = Journals.writer(broken)) {
                        Journals.append(heir, "x");
                    }
                })) {
                try {
                    each.run();
                } catch (FlyringException e) {
                    refused = 1;
                }
            }
        }
        return refused;
    }

    @Test
    void whatTheTailFindsWrongIsCorrupt() throws IOException {
        append(2);
        JournalReader reader = journal.reader();
        reader.poll(message -> { });
        Journals.write(Journals.segment(path(), 0), 4096 + reader.position(), new byte[] {9, 0, 0, 0, 1, 0, 0, 0});
        CorruptJournalException e = assertThrows(CorruptJournalException.class, reader::take);
        assertEquals(reader.position(), e.position());
        assertEquals("corrupt-journal", e.code());
        Journals.write(Journals.segment(path(), 0), 4096 + reader.position(), new byte[] {64, 0, 0, 0, -7, -1, -1, -1});
        assertThrows(CorruptJournalException.class, reader::take);
        AtomicBoolean never = new AtomicBoolean();
        assertThrows(CorruptJournalException.class, () -> reader.poll(message -> never.set(true)));
        assertFalse(never.get());
    }
}
