// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;

/**
 * One kind of map, for {@code map}. The constructor opens what this side can open alone. Values have 48 bytes, which
 * tell the key they belong to and the write they are of.
 */
abstract class MapContender extends Contender {
    static final int VALUE = 48;

    /** The word of the page that counts the slices that side a has ended. */
    static final int ENDED = 0;

    /** The word that counts the slices in which the writer beside has begun. */
    static final int BEGUN = 2;

    private static final int FILLED = 1;
    private static final long FACTOR = 0x9E3779B97F4A7C15L;
    private static final VarHandle LONG =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    final Words page;
    final long[] sequence;
    /** Whether side b writes while side a reads. */
    final boolean beside;
    final boolean puts;
    private final long[] keys;
    private long heap;

    MapContender(Setup setup, Messages messages) {
        super(setup, messages);
        page = new Words(setup);
        sequence = keys("sequence");
        keys = setup.client() ? keys("keys") : new long[0];
        beside = setup.option("beside", 0) != 0;
        puts = setup.option("operation", "get").equals("put");
    }

    /** Side a: puts a key with the value of write 0. */
    abstract void fill(long key);

    /** Side a: called when all keys are there. */
    void ready() {
    }

    /** Side b: opens what side a has filled, to write. */
    void join() {
        throw new IllegalArgumentException("cannot: " + setup.contender + ": one process at a time");
    }

    /** Whether side b is a key-value server, which answers {@link #get}. */
    boolean serves() {
        return false;
    }

    /** Side b: answers what has come. */
    void serve() {
    }

    /** Waits for the answers to what was asked. */
    void finish() {
    }

    /** Looks up sequence[at]; returns whether it is there, and throws if its value is wrong. */
    abstract boolean get(int at);

    abstract void put(int at, long write);

    private long[] keys(String name) {
        try (FileChannel file = FileChannel.open(setup.path(name), StandardOpenOption.READ)) {
            LongBuffer found = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size())
                .order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            long[] all = new long[found.remaining()];
            found.get(all);
            return all;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    void connect() {
        if (setup.client()) {
            final long before = used();
            for (long key : keys) {
                fill(key);
            }
            ready();
            heap = used() - before;
            page.set(FILLED, 1);
        } else if (beside || serves()) {
            while (page.get(FILLED) == 0) {
                Thread.onSpinWait();
            }
            join();
        }
    }

    /** The map's part of the heap: the process keeps more. */
    @Override
    String found() {
        return ", \"heap\": " + heap;
    }

    private static long used() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    static void write(byte[] value, long key, long write) {
        long sum = key ^ write;
        LONG.set(value, 0, write);
        for (int i = 1; i < VALUE / Long.BYTES; i++) {
            LONG.set(value, i * Long.BYTES, sum + i * FACTOR);
        }
    }

    static void check(byte[] value, long key) {
        long sum = key ^ (long) LONG.get(value, 0);
        long wrong = 0;
        for (int i = 1; i < VALUE / Long.BYTES; i++) {
            wrong |= (long) LONG.get(value, i * Long.BYTES) ^ (sum + i * FACTOR);
        }
        if (wrong != 0) {
            throw wrong(key, "has a wrong value");
        }
    }

    /** The same for a buffer in little endian order. */
    static void write(ByteBuffer value, long key, long write) {
        long sum = key ^ write;
        value.putLong(0, write);
        for (int i = 1; i < VALUE / Long.BYTES; i++) {
            value.putLong(i * Long.BYTES, sum + i * FACTOR);
        }
    }

    static void check(ByteBuffer value, long key) {
        long sum = key ^ value.getLong(0);
        long wrong = 0;
        for (int i = 1; i < VALUE / Long.BYTES; i++) {
            wrong |= value.getLong(i * Long.BYTES) ^ (sum + i * FACTOR);
        }
        if (wrong != 0) {
            throw wrong(key, "has a wrong value");
        }
    }

    static IllegalStateException wrong(long key, String what) {
        return new IllegalStateException("key " + key + " " + what);
    }

    @Override
    void send(long tag) {
        throw new IllegalStateException("a map passes no messages");
    }

    @Override
    void receive() {
        throw new IllegalStateException("a map passes no messages");
    }
}
