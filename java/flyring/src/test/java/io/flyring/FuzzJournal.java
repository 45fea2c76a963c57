// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Stream;

/**
 * Uses journals with changed bytes in every way that a program can, in their boot and in another one (journal.md 10).
 * Only {@link FlyringException}s may result. Changes are words of the control section, records, some right by their own
 * crc, and segments that are cut or missing.
 */
final class FuzzJournal implements AutoCloseable {
    private static final int Z = Journals.SMALL;
    private static final int HEADER = Layout.HEADER_LENGTH;
    /** More polls than a journal here has messages: a reader that needs more has no end. */
    private static final int POLLS = 3000;
    private static final int[] WORDS = {Layout.JOURNAL_CONTROL_CLAIMED, Layout.JOURNAL_CONTROL_PUBLISHED,
        Layout.JOURNAL_CONTROL_MESSAGES, Layout.JOURNAL_CONTROL_CHECKED, Layout.JOURNAL_CONTROL_READY,
        Layout.JOURNAL_CONTROL_SYNCED, Layout.JOURNAL_CONTROL_TRIMMED, Layout.JOURNAL_CONTROL_SYNC_EVERY,
        Layout.JOURNAL_CONTROL_MAX_SIZE, Layout.JOURNAL_CONTROL_SUCCESSOR, Layout.JOURNAL_CONTROL_FAILED};
    private static final int SLOT_WORDS = Layout.JOURNAL_CONSUMER_SIZE / Integer.BYTES;

    private final Path path;
    private final Map<String, Long> counts;
    /** Of each journal: the bytes of its files. */
    private final List<Map<String, byte[]>> seeds = new ArrayList<>();
    private SplittableRandom random;

    FuzzJournal(Path folder, Map<String, Long> counts) throws IOException {
        this.counts = counts;
        path = folder.resolve("fuzz.journal");
        makeSeeds();
    }

    /** A small journal, one that a kill cut off, one of several segments, one that was recovered and trimmed. */
    private void makeSeeds() throws IOException {
        try (Journal journal = Journal.create(path.toString(), Journals.small().identity(Journals.bootId(1)))) {
            JournalConsumer one = journal.consumer("one");
            journal.consumer("two").close();
            JournalWriter writer = Journals.writer(journal);
            for (int i = 0; i < 30; i++) {
                writer.append(Rings.pattern(i, i * 7));
                if (i % 8 == 0) {
                    writer.sync();
                }
                one.take();
            }
            keep();
            JournalClaim claim = writer.claim(1000);
            claim.buffer().setMemory(0, 4, (byte) 0x41);
            keep();
            claim.abort();
            for (int i = 0; i < 900; i++) {
                writer.append(Rings.pattern(i, 150), 0, 150, 1 + i % 3, 1000 + i);
            }
            writer.close(false);
            keep();
        }
        try (Journal journal = Journal.open(path.toString(), Journals.boot(2))) {
            JournalWriter writer = Journals.writer(journal);
            for (int i = 0; i < 600; i++) {
                writer.append(Rings.pattern(i, 200));
            }
            writer.sync();
            keep();
            journal.forget("two");
            Journals.texts(journal.consumer("one"));
            journal.trimConsumed();
            writer.close();
            keep();
        }
    }

    private void keep() throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(path)) {
            for (Path each : all.toList()) {
                files.put(each.getFileName().toString(), Files.readAllBytes(each));
            }
        }
        seeds.add(files);
    }

    private void count(String what) {
        counts.merge(what, 1L, Long::sum);
    }

    private void attempt(Runnable action) {
        try {
            action.run();
        } catch (TwoThreadsException | ChannelExistsException e) {
            throw new IllegalStateException("no content of a file leads to this", e);
        } catch (FlyringException e) {
            count("journal " + e.getClass().getSimpleName());
            if (e.getMessage() == null || e.getMessage().isEmpty()) {
                throw new IllegalStateException("an exception without a message", e);
            }
        }
    }

    /** Runs one input. */
    void run(SplittableRandom chance) throws IOException {
        random = chance;
        Map<String, byte[]> files = new TreeMap<>();
        seeds.get(random.nextInt(seeds.size())).forEach((name, bytes) -> files.put(name, bytes.clone()));
        for (int i = random.nextInt(6); i > 0; i--) {
            change(files);
        }
        byte[] control = files.get("control");
        if (random.nextInt(8) > 0) {
            ByteBuffer page = ByteBuffer.wrap(control).order(ByteOrder.LITTLE_ENDIAN);
            page.putInt(Layout.JOURNAL_HEADER_CRC, Header.crc(page));
        }
        if (random.nextInt(16) == 0) {
            files.put("control", Arrays.copyOf(control, random.nextInt(control.length)));
        }
        ByteBuffer boot = ByteBuffer.wrap(control, HEADER + Layout.JOURNAL_CONTROL_BOOT_ID, 2 * Long.BYTES);
        drive(files, new Identity().bootId(new UUID(boot.getLong(), boot.getLong())));
        if (random.nextBoolean()) {
            drive(files, Journals.bootId(9));
        }
    }

    private void drive(Map<String, byte[]> files, Identity boot) throws IOException {
        Folders.remove(path);
        Files.createDirectory(path);
        for (Map.Entry<String, byte[]> each : files.entrySet()) {
            Files.write(path.resolve(each.getKey()), each.getValue());
        }
        attempt(() -> {
            try (Journal journal = Journal.open(path.toString(), new OpenOptions().identity(boot))) {
                count("journal attached");
                read(journal);
                for (String name : List.of("one", "new")) {
                    attempt(() -> {
                        try (JournalConsumer consumer = journal.consumer(name)) {
                            consumer.peek();
                            consumer.pop();
                            drain(consumer);
                            count("journal consumer");
                        }
                    });
                }
                attempt(() -> append(journal));
                read(journal);
                attempt(journal::trimConsumed);
                attempt(() -> journal.trimPosition(Z + 4464));
                attempt(() -> journal.trimBefore(1500));
                attempt(() -> journal.trimSize(Z));
                attempt(() -> journal.forget("one"));
                attempt(() -> journal.push(new byte[1], 1, Duration.ZERO));
                read(journal);
            }
        });
        attempt(() -> Journal.unlink(path.toString()));
    }

    private void append(Journal journal) {
        try (JournalWriter writer = journal.writer("fuzz", false, 1, Duration.ZERO)) {
            count(writer.recovery() == null ? "journal writer" : "journal recovered");
            writer.append(new byte[9]);
            for (int i = 0; i < 80; i++) {
                writer.append(new byte[1000]);
            }
            writer.claim(10).commit();
            writer.sync();
        }
    }

    private void read(Journal journal) {
        attempt(journal::stats);
        for (JournalStart start : List.of(JournalStart.OLDEST, JournalStart.NEWEST, JournalStart.position(6400),
            JournalStart.position(Z + 128), JournalStart.position(70400), JournalStart.number(20),
            JournalStart.number(300), JournalStart.time(1300))) {
            attempt(() -> drain(journal.reader(start)));
        }
        attempt(() -> drain(journal.reader(JournalStart.OLDEST, false, true)));
        attempt(() -> drain(journal.reader(JournalStart.OLDEST, true, false)));
    }

    private void drain(JournalReads reader) {
        try (reader) {
            for (int i = 0; i < POLLS; i++) {
                if (reader.poll(message -> {
                    count("journal message");
                    message.toByteArray();
                }) == 0) {
                    reader.ended();
                    count(reader.cuts() > 0 ? "journal cut" : "journal no cut");
                    return;
                }
            }
        }
        throw new IllegalStateException("a journal without an end");
    }

    // ---- changes ----

    /** Mostly a number near a place in these journals. */
    private long number() {
        return switch (random.nextInt(5)) {
            case 0 -> random.nextLong();
            case 1 -> random.nextInt(-128, 128);
            default -> (long) Z * random.nextInt(6) + 64L * random.nextInt(-4, 252);
        };
    }

    private static void put(byte[] bytes, int at, long value, int size) {
        for (int i = 0; i < size && at + i < bytes.length; i++) {
            bytes[at + i] = (byte) (value >>> 8 * i);
        }
    }

    private void change(Map<String, byte[]> files) {
        byte[] control = files.get("control");
        List<String> segments = files.keySet().stream().filter(name -> name.endsWith(".seg")).toList();
        String name = segments.isEmpty() ? "control" : segments.get(random.nextInt(segments.size()));
        byte[] bytes = files.get(name);
        int record = HEADER + 64 * random.nextInt(Z / 64);
        switch (random.nextInt(9)) {
            case 0 -> put(control, 4 * random.nextInt(32), number(), Integer.BYTES);
            case 1, 2 -> put(control, HEADER + WORDS[random.nextInt(WORDS.length)], number(), Long.BYTES);
            case 3 -> put(control, HEADER + JournalHeader.consumerSlot(random.nextInt(3))
                + 4 * random.nextInt(SLOT_WORDS), number(), Long.BYTES);
            case 4 -> put(bytes, record + 4 * random.nextInt(16), number(), Integer.BYTES);
            case 5 -> put(bytes, random.nextInt(bytes.length), number(), Long.BYTES);
            case 6 -> {
                if (name.equals("control") || random.nextBoolean()) {
                    files.put(name, Arrays.copyOf(bytes, random.nextInt(HEADER + Z + 2)));
                    files.put("control", control);
                } else {
                    files.remove(name);
                }
            }
            default -> place(bytes, name, record);
        }
    }

    /** A check or a cut that is right by its own crc. */
    private void place(byte[] bytes, String name, int at) {
        if (at + 64 > bytes.length || name.equals("control")) {
            return;
        }
        long position = Long.parseLong(name.substring(0, 19)) + at - HEADER;
        JournalRecord record = new JournalRecord();
        if (random.nextBoolean()) {
            record.check(position, number(), number(), random.nextInt());
        } else {
            record.cut(position, random.nextInt(1500), number(), 0, 1);
        }
        record.memory.getBytes(0, bytes, at, 64);
    }

    @Override
    public void close() throws IOException {
        if (Files.exists(path)) {
            Folders.remove(path);
        }
    }
}
