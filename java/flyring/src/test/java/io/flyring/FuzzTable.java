// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Uses a file of arbitrary bytes in every way that a program can use a table, in random order, while more of its bytes
 * change. Only {@link FlyringException}s may result; anything else, and also IoException, is a finding.
 */
final class FuzzTable implements AutoCloseable {
    private static final Duration NOW = Duration.ZERO;
    private static final int STEPS = 24;
    private static final String[] TEXTS = {"", "a", "Müller", "key-1", "a key of 32 bytes, no more, all."};

    /** The exception that handlers throw now and then. */
    private static final class Thrown extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private final Path path;
    private FileChannel file;
    private final List<byte[]> golden = new ArrayList<>();
    private final Map<String, Long> counts;
    private final PayloadBuffer target = TableTest.buffer(new byte[4096]);
    private final PayloadBuffer value = TableTest.buffer(Rings.pattern(3, 4096));
    private TableHeader shape;
    private ByteBuffer bytes;
    private SplittableRandom random;
    private Table table;
    private TableWriter writer;

    FuzzTable(Path folder, Map<String, Long> counts) throws IOException {
        this.counts = counts;
        path = folder.resolve("fuzz.table");
        file = open();
        try (Stream<Path> all = Files.list(Rings.spec("golden/table/1.0"))) {
            for (Path one : all.filter(each -> each.toString().endsWith(".table")).sorted().toList()) {
                golden.add(Files.readAllBytes(one));
            }
        }
        if (golden.isEmpty()) {
            throw new IllegalStateException("no golden tables in " + Rings.spec("golden"));
        }
    }

    private FileChannel open() throws IOException {
        return FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
    }

    private void count(String what) {
        counts.merge(what, 1L, Long::sum);
    }

    /** Runs an action; returns null if it was refused, which is allowed. */
    private <T> T attempt(Supplier<T> action) {
        try {
            return action.get();
        } catch (IoException e) {
            throw new IllegalStateException("no content of a file makes a system call fail", e);
        } catch (FlyringException e) {
            count("table " + e.getClass().getSimpleName());
            if (e.getMessage() == null || e.getMessage().isEmpty()) {
                throw new IllegalStateException("an exception without a message", e);
            }
        } catch (Thrown e) {
            count("table handler threw");
        }
        return null;
    }

    private void attempt(Runnable action) {
        attempt(() -> {
            action.run();
            return null;
        });
    }

    /** Runs one input. */
    void run(SplittableRandom chance) {
        random = chance;
        make();
        drive(true);
        drive(false);
    }

    /** Writes the next input: a golden file with a few changes, sometimes arbitrary bytes. */
    private void make() {
        byte[] from = golden.get(random.nextInt(golden.size()));
        shape = TableHeader.parse(Arrays.copyOf(from, Layout.HEADER_LENGTH), from.length, path.toString());
        byte[] all = from.clone();
        int kind = random.nextInt(32);
        if (kind == 0) {
            all = Arrays.copyOf(from, random.nextInt(from.length + 5000)); // cut, or longer
        } else if (kind < 4) {
            int first = kind == 1 ? 0 : (int) (kind == 2 ? shape.controlOffset : shape.cellsOffset);
            byte[] rest = new byte[from.length - first];
            random.nextBytes(rest);
            System.arraycopy(rest, 0, all, first, rest.length);
        }
        bytes = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN);
        for (int edits = random.nextInt(1, 1 << random.nextInt(1, 5)); kind > 3 && edits > 0; edits--) {
            edit(random.nextInt(24) == 0);
        }
        if (random.nextBoolean() && bytes.capacity() >= Layout.HEADER_LENGTH) {
            bytes.putInt(Layout.TABLE_HEADER_CRC, Header.crc(bytes));
        }
        try {
            file.close();
            file = open(); // a grow puts another file in its place
            file.truncate(all.length);
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

    /** Changes one word; returns its offset. */
    private int edit(boolean header) {
        if (header) {
            return put(random.nextInt(random.nextBoolean() ? Layout.HEADER_LENGTH : 172) & ~3, Integer.BYTES);
        }
        int control = (int) shape.controlOffset;
        int cell = (int) (shape.cellsOffset + random.nextLong(shape.cells) * shape.cellStride);
        return switch (random.nextInt(9)) {
            case 0, 1 -> put(control + 128 + 4 * random.nextInt(54), random.nextBoolean() ? Integer.BYTES : Long.BYTES);
            case 2 -> put(control + 4 * random.nextInt(160), Integer.BYTES);
            case 3 -> put((int) (shape.indexOffset + random.nextInt(2) * shape.indexStride
                + random.nextLong(shape.entries) * Long.BYTES), random.nextBoolean() ? Integer.BYTES : Long.BYTES);
            case 4 -> put(cell + 4 * random.nextInt(6), Integer.BYTES);
            case 5, 6 -> put(cell + shape.bodyAt + random.nextInt(2) * shape.bodyStride + 4 * random.nextInt(4),
                Integer.BYTES);
            case 7 -> put(cell, Long.BYTES);
            default -> put(control + random.nextInt(bytes.capacity()), 1);
        };
    }

    private int put(int at, int length) {
        if (at < 0 || at + Long.BYTES > bytes.capacity()) {
            return -1;
        }
        long word = bytes.getLong(at);
        long changed = switch (random.nextInt(10)) {
            case 0 -> random.nextLong();
            case 1 -> -1;
            case 2 -> 0;
            case 3 -> Long.MAX_VALUE - random.nextInt(3);
            case 4 -> Long.MIN_VALUE;
            case 5 -> (1L << 62) - random.nextInt(3);
            case 6 -> random.nextLong(2 * shape.entries + 3);
            case 7 -> random.nextLong(shape.cells + 3);
            default -> word + random.nextInt(-3, 4);
        };
        switch (length) {
            case 1 -> bytes.put(at, (byte) changed);
            case Integer.BYTES -> bytes.putInt(at, (int) changed);
            default -> bytes.putLong(at, changed);
        }
        return at;
    }

    /** Changes the live file while it is attached; never the header, which is not read again. */
    private void scribble() {
        for (int edits = random.nextInt(1, 6); edits > 0; edits--) {
            int at = edit(false);
            if (at >= 0) {
                write(ByteBuffer.wrap(bytes.array(), at, Long.BYTES), at);
            }
        }
    }

    /** Mostly the boot of the file: a table of another boot is recovered first. */
    private Identity identity() {
        if (random.nextInt(4) == 0 || bytes.capacity() < 2 * Layout.HEADER_LENGTH) {
            return Identity.REAL;
        }
        ByteBuffer boot = bytes.duplicate(); // big endian
        return new Identity().bootId(new UUID(boot.getLong((int) shape.controlOffset),
            boot.getLong((int) shape.controlOffset + Long.BYTES)));
    }

    private void drive(boolean readOnly) {
        Identity identity = identity();
        table = attempt(() -> FuzzGuard.guarded(path.toString(), new OpenOptions().readOnly(readOnly)
            .identity(identity).recoveryProgress((done, all) -> count("table recovered"))));
        if (table == null) {
            return;
        }
        Table opened = table;
        try {
            count(readOnly ? "table attached read-only" : "table attached");
            for (int i = random.nextInt(STEPS); i > 0; i--) {
                look();
                if (!readOnly) {
                    change();
                }
                if (random.nextInt(4) == 0) {
                    scribble();
                }
            }
            attempt(() -> opened.close(!readOnly && random.nextInt(8) == 0));
        } finally {
            attempt(() -> opened.close());
            writer = null;
            FuzzGuard.unmapAll();
            Reference.reachabilityFence(opened);
        }
    }

    private long number() {
        return random.nextInt(8) == 0 ? random.nextLong() : random.nextInt(12);
    }

    private String text() {
        return TEXTS[random.nextInt(TEXTS.length)];
    }

    private PayloadBuffer some() {
        return TableTest.buffer(Rings.pattern(random.nextInt(4), random.nextInt(20)));
    }

    private Object seen(PayloadBuffer each) {
        count("table value");
        if (each.capacity() > table.valueBytes()) {
            throw new IllegalStateException("a value of " + each.capacity() + " bytes");
        }
        FuzzDrive.read(each, each.capacity());
        switch (random.nextInt(32)) {
            case 0 -> throw new Thrown();
            case 1 -> scribble();
            case 2 -> attempt(() -> table.get(number(), target, 0));
            default -> { }
        }
        return each;
    }

    /** Does something that needs no write permission. */
    private void look() {
        KeyType type = table.keyType();
        switch (random.nextInt(9)) {
            case 0 -> attempt(() -> type == KeyType.INTEGER ? table.get(number(), target, 0)
                : type == KeyType.TEXT ? table.get(text(), target, 0) : table.get(some(), target, 0));
            case 1 -> attempt(() -> type == KeyType.INTEGER ? table.read(number(), this::seen)
                : type == KeyType.TEXT ? table.read(text(), this::seen) : table.read(some(), this::seen));
            case 2 -> attempt(() -> table.forEach(item -> {
                seen(item.value());
                if (item.key().length > table.keyBytes() || item.textKey() == null) {
                    throw new IllegalStateException("a key of " + item.key().length + " bytes");
                }
                item.integerKey();
            }));
            case 3 -> attempt(() -> {
                Entry entry = type == KeyType.INTEGER ? table.entry(number())
                    : type == KeyType.TEXT ? table.entry(text()) : table.entry(some());
                if (entry != null) {
                    count("table entry");
                    scribble();
                    entry.get(target, 0);
                    entry.read(this::seen);
                    entry.version();
                }
            });
            case 4 -> attempt(() -> table.size() + table.version());
            case 5 -> attempt(() -> table.stats());
            case 6 -> attempt(() -> table.waitChanged(random.nextInt(4), NOW));
            case 7 -> attempt(() -> type == KeyType.INTEGER ? table.waitChanged(number(), 1, NOW)
                : type == KeyType.TEXT ? table.waitChanged(text(), 0, NOW) : table.waitChanged(some(), 2, NOW));
            default -> attempt(() -> type == KeyType.INTEGER ? table.getVersioned(number())
                : type == KeyType.TEXT ? table.getVersioned(text()) : table.getVersioned(some()));
        }
    }

    private void change() {
        KeyType type = table.keyType();
        TableVerbs verbs = writer != null && random.nextInt(8) > 0 ? writer : table;
        int length = random.nextInt(Math.min(table.valueBytes() + 2, 4096));
        Long version = switch (random.nextInt(14)) {
            case 0 -> {
                writer = writer != null ? writer : attempt(() -> table.writer("fuzz"));
                yield null;
            }
            case 1 -> {
                if (writer != null) {
                    attempt(writer::close);
                    writer = null;
                }
                yield null;
            }
            case 2 -> attempt(() -> verbs == table ? table.clear(NOW) : writer.clear());
            case 3 -> {
                if (random.nextInt(16) == 0) {
                    attempt(() -> table.grow(table.capacity() + 5, NOW));
                    count("table grow");
                }
                yield null;
            }
            case 4 -> attempt(() -> type == KeyType.INTEGER ? verbs.update(number(), this::seen)
                : type == KeyType.TEXT ? verbs.update(text(), this::seen) : verbs.update(some(), this::seen));
            case 5, 6 -> {
                Boolean removed = attempt(() -> type == KeyType.INTEGER ? verbs.remove(number())
                    : type == KeyType.TEXT ? verbs.remove(text()) : verbs.remove(some()));
                count("table removed " + removed);
                yield null;
            }
            case 7 -> attempt(() -> type == KeyType.INTEGER ? verbs.compareAndPut(number(), 2, value, 0, length)
                : type == KeyType.TEXT ? verbs.compareAndPut(text(), 0, value, 0, length)
                : verbs.putIfAbsent(some(), value, 0, length));
            default -> attempt(() -> type == KeyType.INTEGER ? verbs.put(number(), value, 0, length)
                : type == KeyType.TEXT ? verbs.put(text(), value, 0, length) : verbs.put(some(), value, 0, length));
        };
        if (version != null && version > 0) {
            count("table changed");
        }
    }

    /** TableLook's read without its check of the length: a fault that a run must find. */
    void overRead() {
        try (Table opened = FuzzGuard.guarded(path.toString(), new OpenOptions().readOnly(true))) {
            TableFile all = opened.state().file();
            for (long cell = 0; cell < all.header.cells; cell++) {
                Memory memory = all.cell(cell);
                int body = all.cellAt(cell) + all.bodyAt(memory.getLongOpaque(all.cellAt(cell)));
                int length = memory.getIntOpaque(body + Layout.TABLE_BODY_LENGTH);
                if (length > 0) {
                    FuzzMutants.last(memory, body + Layout.TABLE_BODY_VALUE + length - 1);
                }
            }
            Reference.reachabilityFence(opened);
        } catch (FlyringException e) {
            return; // the input is not a table
        } finally {
            FuzzGuard.unmapAll();
        }
    }

    @Override
    public void close() throws IOException {
        file.close();
        Files.deleteIfExists(path);
    }
}
