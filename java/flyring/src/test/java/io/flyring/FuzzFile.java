// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/** The file of a fuzz input, and the changes that a hostile process makes to it. */
final class FuzzFile implements AutoCloseable {
    private static final int[] LENGTHS = {-1, 0, 1, 7, 8, 9, 12, 19, 20, 21, 63, 64, 65, 1024, 4088, 4089, 4096,
        4097, Integer.MIN_VALUE, Integer.MAX_VALUE, Integer.MAX_VALUE - 7, 1 << 30};
    private static final int[] SMALL = {-3, -2, -1, 0, 1, 2, 63, 64, 65, 112, 380, 381, Integer.MIN_VALUE,
        Integer.MAX_VALUE};

    private static final int[] WORDS = {Layout.TRAILER_CLAIMED, Layout.TRAILER_PUBLISHED,
        Layout.TRAILER_MESSAGES_BEGUN, Layout.TRAILER_MESSAGES_DONE};

    private final Path path;
    private final FileChannel file;
    private final List<byte[]> golden = new ArrayList<>();
    /** Those of them that are queues or services, which have more to go wrong. */
    private final List<byte[]> more = new ArrayList<>();
    /** What the file's header said before anything was changed: where things of interest lie. */
    private Header shape;
    private ByteBuffer bytes;

    FuzzFile(Path folder) throws IOException {
        path = folder.resolve("fuzz.ring");
        file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        try (Stream<Path> all = Files.walk(Rings.spec("golden"))) {
            for (Path one : all.filter(file -> file.toString().endsWith(".ring")
                && !file.getParent().endsWith("refused")).sorted().toList()) {
                byte[] whole = Files.readAllBytes(one);
                golden.add(whole);
                Header header = Header.parse(Arrays.copyOf(whole, Layout.HEADER_LENGTH), whole.length, path());
                if (header.isQueue() || header.isService()) {
                    more.add(whole);
                }
            }
        }
        if (more.isEmpty()) {
            throw new IllegalStateException("no golden files in " + Rings.spec("golden"));
        }
    }

    String path() {
        return path.toString();
    }

    /** Writes the next input: a golden file with a few changes, sometimes arbitrary bytes. */
    void make(SplittableRandom random) {
        List<byte[]> some = random.nextInt(2) == 0 ? more : golden;
        byte[] from = some.get(random.nextInt(some.size()));
        shape = Header.parse(Arrays.copyOf(from, Layout.HEADER_LENGTH), from.length, path());
        byte[] all = from.clone();
        int kind = random.nextInt(32);
        if (kind == 0) {
            all = Arrays.copyOf(from, random.nextInt(from.length + 5000)); // cut, or longer
        } else if (kind < 4) {
            int first = kind == 1 ? 0 : kind == 2 ? (int) shape.controlOffset : (int) shape.ringsOffset;
            byte[] rest = new byte[from.length - first];
            random.nextBytes(rest);
            System.arraycopy(rest, 0, all, first, rest.length);
        }
        bytes = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN);
        if (kind == 4) {
            tile(random);
        }
        for (int edits = random.nextInt(1, 1 << random.nextInt(1, 5)); (kind == 3 || kind > 4) && edits > 0; edits--) {
            edit(random, random.nextInt(24) == 0);
        }
        if (random.nextBoolean()) {
            mend();
        }
        store(bytes.array());
    }

    /** Fills a ring with records without an end, all around. */
    private void tile(SplittableRandom random) {
        int unit = shape.alignment * random.nextInt(1, 4);
        int type = random.nextInt(-2, 2);
        for (int ring = 0; ring < shape.publishers; ring++) {
            for (int at = 0; at < shape.capacity; at += unit) {
                int record = (int) shape.ringOffset(ring) + at;
                bytes.putInt(record, Math.min(unit, shape.capacity - at));
                bytes.putInt(record + Layout.RECORD_TYPE, type != 0 ? type : random.nextInt(-2, 2) | 1);
            }
        }
    }

    /**
     * Writes an input that a fuzzer made, in one of three ways: unchanged, with a corrected CRC, or behind the header
     * of a golden file. The last happens half of the time, so that the file can be attached; the golden file has the
     * same length if there is one.
     */
    void take(byte[] input, int how) {
        byte[] from = golden.stream().filter(one -> one.length == input.length).skip(how >> 2 & 3).findFirst()
            .orElse(golden.get((how >>> 4) % golden.size()));
        shape = Header.parse(Arrays.copyOf(from, Layout.HEADER_LENGTH), from.length, path());
        byte[] all = input.clone();
        if ((how & 2) == 0) {
            all = Arrays.copyOf(input, from.length);
            System.arraycopy(from, 0, all, 0, Layout.HEADER_LENGTH);
        }
        bytes = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN);
        if ((how & 1) == 0) {
            mend();
        }
        store(bytes.array());
    }

    /** Changes the live file while it is attached; never the header, which is not read again. */
    void scribble(SplittableRandom random) {
        for (int edits = random.nextInt(1, 6); edits > 0; edits--) {
            int at = edit(random, false);
            if (at >= 0) {
                int length = Math.min(Long.BYTES, bytes.capacity() - at);
                write(ByteBuffer.wrap(bytes.array(), at, length), at);
            }
        }
    }

    /** A name that a slot has in the golden file, so that taking the slot may succeed. */
    String name(SplittableRandom random, boolean publisher) {
        int slot = publisher ? shape.publisherSlot(random.nextInt(shape.publishers))
            : shape.subscriberSlot(random.nextInt(Math.max(1, shape.subscribers)));
        int at = (int) shape.controlOffset + slot;
        if (random.nextInt(16) == 0 || at + Layout.CONTROL_SLOT_LENGTH > bytes.capacity()) {
            return "x";
        }
        int length = Math.max(0, Math.min(bytes.getInt(at + Layout.PUBLISHER_SLOT_NAME_LENGTH), 64));
        byte[] name = new byte[length];
        bytes.get(at + Layout.PUBLISHER_SLOT_NAME, name);
        return new String(name, StandardCharsets.ISO_8859_1);
    }

    /** Of which boot it is. */
    UUID boot() {
        ByteBuffer boot = bytes.duplicate(); // big endian
        int at = (int) shape.controlOffset + Layout.CONTROL_BOOT_ID;
        return new UUID(boot.getLong(at), boot.getLong(at + Long.BYTES));
    }

    private void mend() {
        if (bytes.capacity() >= Layout.HEADER_LENGTH) {
            CRC32C crc = new CRC32C();
            crc.update(bytes.array(), 0, Layout.HEADER_CRC_LENGTH);
            bytes.putInt(Layout.HEADER_CRC, (int) crc.getValue());
        }
    }

    /** Changes one field; returns its offset. */
    private int edit(SplittableRandom random, boolean header) {
        if (header) {
            int at = random.nextInt(random.nextBoolean() ? Layout.HEADER_LENGTH : 176);
            return random.nextBoolean() ? put(at & ~3, Integer.BYTES, small(random)) : put(at, 1, random.nextInt());
        }
        int ring = (int) shape.ringOffset(random.nextInt(shape.publishers));
        int trailer = ring + shape.capacity;
        return switch (random.nextInt(10)) {
            case 0, 1, 2 -> put(ring + record(random), Integer.BYTES, length(random));
            case 3 -> put(ring + record(random) + Layout.RECORD_TYPE
                + (shape.isService() ? Integer.BYTES * random.nextInt(1 + Layout.REQUEST_LENGTH / Integer.BYTES) : 0),
                Integer.BYTES, small(random));
            case 4 -> put(trailer + random.nextInt(Layout.TRAILER_CLAIMED / Long.BYTES) * Long.BYTES, Long.BYTES,
                position(random, trailer));
            case 5 -> random.nextInt(3) > 0 ? -1 : put(trailer + WORDS[random.nextInt(WORDS.length)], Long.BYTES,
                position(random, trailer));
            case 6 -> gate(random, trailer);
            case 7 -> put((int) shape.controlOffset + random.nextInt((int) shape.controlLength / 4) * 4,
                Integer.BYTES, small(random));
            case 8 -> shape.counters == 0 ? -1 : put((int) shape.counterMetadataOffset
                + random.nextInt(shape.counters) * Layout.COUNTER_METADATA_STRIDE
                + new int[] {0, 4, 8, 128, 132}[random.nextInt(5)], Integer.BYTES, small(random));
            default -> put(Layout.HEADER_LENGTH + random.nextInt(bytes.capacity()), 1, random.nextInt());
        };
    }

    /** Changes a gate; in a queue or service also a word beside it, `handovers`, or `serving`. */
    private int gate(SplittableRandom random, int trailer) {
        int at = trailer + Header.gate(shape.isService() ? 0 : random.nextInt(Math.max(1, shape.subscribers)));
        return switch (shape.isQueue() ? random.nextInt(5) : shape.isService() ? 1 + random.nextInt(8) : 0) {
            case 1 -> put(at + Layout.GATE_TAKEN_END, Long.BYTES, position(random, trailer));
            case 2 -> put(at + Layout.GATE_ATTEMPTS, Integer.BYTES, small(random));
            case 3 -> put((int) shape.controlOffset + Layout.CONTROL_HANDOVERS, Long.BYTES, random.nextLong());
            case 5 -> random.nextInt(4) > 0 ? -1
                : put((int) shape.controlOffset + Layout.CONTROL_SERVING, Long.BYTES, random.nextInt(4));
            case 6 -> put(at + Layout.GATE_OUTSTANDING, Integer.BYTES, small(random));
            default -> put(at, Long.BYTES, position(random, trailer));
        };
    }

    private int record(SplittableRandom random) {
        return random.nextInt(shape.capacity / shape.alignment) * shape.alignment;
    }

    private int length(SplittableRandom random) {
        return random.nextInt(4) == 0 ? random.nextInt() : random.nextInt(4) == 0 ? shape.capacity - random.nextInt(80)
            : LENGTHS[random.nextInt(LENGTHS.length)];
    }

    private static int small(SplittableRandom random) {
        return random.nextInt(4) == 0 ? random.nextInt() : SMALL[random.nextInt(SMALL.length)];
    }

    private long position(SplittableRandom random, int trailer) {
        long published = trailer + shape.trailerLength() <= bytes.capacity()
            ? bytes.getLong(trailer + Layout.TRAILER_PUBLISHED) : 0;
        int units = random.nextBoolean() ? 4 : shape.capacity / shape.alignment;
        long near = published + random.nextInt(-units, units + 1) * (long) shape.alignment;
        return switch (random.nextInt(8)) {
            case 0 -> random.nextLong();
            case 1 -> -1;
            case 2 -> Layout.MAX_POSITION - near;
            case 3 -> Long.MAX_VALUE - random.nextInt(2 * shape.capacity);
            case 4 -> near + random.nextInt(9) - 4;
            default -> near;
        };
    }

    private int put(int at, int length, long value) {
        if (at < 0 || at + Long.BYTES > bytes.capacity()) {
            return -1;
        }
        switch (length) {
            case 1 -> bytes.put(at, (byte) value);
            case Integer.BYTES -> bytes.putInt(at, (int) value);
            default -> bytes.putLong(at, value);
        }
        return at;
    }

    private void store(byte[] all) {
        try {
            if (file.size() > all.length) {
                file.truncate(all.length);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        write(ByteBuffer.wrap(all), 0);
    }

    private void write(ByteBuffer source, int at) {
        try {
            file.write(source, at);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() throws IOException {
        file.close();
        Files.deleteIfExists(path);
    }
}
