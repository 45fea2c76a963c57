// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;

/** Helpers for tests of journals. */
final class Journals {
    /** The smallest segment. */
    static final int SMALL = 1 << 16;

    private Journals() {
    }

    static JournalOptions small() {
        return new JournalOptions().segmentSize(SMALL).consumers(4);
    }

    static OpenOptions boot(int number) {
        return new OpenOptions().identity(bootId(number));
    }

    static Identity bootId(int number) {
        return new Identity().bootId(new UUID(27, number));
    }

    static JournalWriter writer(Journal journal) {
        return journal.writer("w", false, 1, java.time.Duration.ZERO);
    }

    static long append(JournalWriter writer, String text) {
        return writer.append(text.getBytes(StandardCharsets.UTF_8));
    }

    static void append(JournalWriter writer, int from, int to) {
        for (int i = from; i < to; i++) {
            append(writer, "m" + i);
        }
    }

    /** Appends bytes until the journal's end has passed a position. */
    static void fill(JournalWriter writer, long position, int length) {
        final byte[] bytes = new byte[length];
        while (writer.position() < position) {
            bytes[0] = (byte) writer.number();
            writer.append(bytes);
        }
    }

    static String text(Message message) {
        return new String(message.toByteArray(), StandardCharsets.UTF_8);
    }

    /** The texts of all that a reader finds now. */
    static List<String> texts(JournalReads reader) {
        final List<String> all = new ArrayList<>();
        while (reader.poll(message -> all.add(text(message)), 7) > 0) {
            continue;
        }
        return all;
    }

    /** The texts of all that a journal has. */
    static List<String> texts(Journal journal) {
        try (JournalReader reader = journal.reader()) {
            return texts(reader);
        }
    }

    /** The texts m0, m1 ... from one number up to another. */
    static List<String> numbered(int from, int to) {
        final List<String> all = new ArrayList<>();
        for (int i = from; i < to; i++) {
            all.add("m" + i);
        }
        return all;
    }

    static String segment(String journal, long base) {
        return String.format("%s/%019d.seg", journal, base);
    }

    /** Copies a journal as it is now, as a kill of its writer would leave it. */
    static String copy(String from, String to) {
        try {
            if (Files.exists(Path.of(to))) {
                Folders.remove(Path.of(to));
            }
            Files.createDirectories(Path.of(to));
            try (Stream<Path> all = Files.list(Path.of(from))) {
                for (Path each : all.toList()) {
                    Files.copy(each, Path.of(to).resolve(each.getFileName()), StandardCopyOption.REPLACE_EXISTING);
                }
            }
            return to;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Changes a byte of a file. */
    static void flip(String path, long at) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            final ByteBuffer one = ByteBuffer.allocate(1);
            file.read(one, at);
            one.put(0, (byte) (one.get(0) ^ 4)).rewind();
            file.write(one, at);
        }
    }

    /** Writes bytes into a file. */
    static void write(String path, long at, byte[] bytes) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.WRITE)) {
            file.write(ByteBuffer.wrap(bytes), at);
        }
    }

    /** Writes a word of the control section. */
    static void word(String journal, int at, long value) throws IOException {
        final byte[] bytes = new byte[Long.BYTES];
        ByteBuffer.wrap(bytes).order(java.nio.ByteOrder.LITTLE_ENDIAN).putLong(0, value);
        write(journal + "/control", Layout.HEADER_LENGTH + at, bytes);
    }

    /** Reads a word of the control section. */
    static long word(String journal, int at) throws IOException {
        return Rings.load(Path.of(journal, "control")).getLong(Layout.HEADER_LENGTH + at);
    }
}
