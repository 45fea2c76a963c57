// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Entry;
import io.flyring.KeyType;
import io.flyring.PayloadBuffer;
import io.flyring.Table;
import io.flyring.TableWriter;
import io.flyring.ValueHandler;
import io.flyring.ValueUpdate;
import io.flyring.Versioned;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import org.agrona.DirectBuffer;

/**
 * A table, and what changes it: itself, with a time-out for each change, or a writer. Its keys are a {@link Long}, a
 * {@link CharSequence} or a {@link DirectBuffer}.
 */
final class Changer {
    final Table table;
    private final TableWriter writer;
    private final Duration limit;

    /** {@code writer} null: the table itself. */
    Changer(Table table, TableWriter writer, Duration limit) {
        this.table = table;
        this.writer = writer;
        this.limit = limit;
    }

    static PayloadBuffer buffer(byte[] bytes) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(bytes);
        return buffer;
    }

    /** Key k of put_many and get_many. */
    static Object key(Table table, long k) {
        if (table.keyType() == KeyType.INTEGER) {
            return k;
        }
        return table.keyType() == KeyType.TEXT ? "key-" + k
            : buffer(ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(0, k).array());
    }

    long put(Object key, DirectBuffer value, int length) {
        if (key instanceof Long number) {
            return writer == null ? table.put(number, value, 0, length, limit) : writer.put(number, value, 0, length);
        } else if (key instanceof CharSequence text) {
            return writer == null ? table.put(text, value, 0, length, limit) : writer.put(text, value, 0, length);
        }
        DirectBuffer bytes = (DirectBuffer) key;
        return writer == null ? table.put(bytes, value, 0, length, limit) : writer.put(bytes, value, 0, length);
    }

    long putIfAbsent(Object key, DirectBuffer value, int length) {
        if (key instanceof Long number) {
            return writer == null ? table.putIfAbsent(number, value, 0, length, limit)
                : writer.putIfAbsent(number, value, 0, length);
        } else if (key instanceof CharSequence text) {
            return writer == null ? table.putIfAbsent(text, value, 0, length, limit)
                : writer.putIfAbsent(text, value, 0, length);
        }
        DirectBuffer bytes = (DirectBuffer) key;
        return writer == null ? table.putIfAbsent(bytes, value, 0, length, limit)
            : writer.putIfAbsent(bytes, value, 0, length);
    }

    long compareAndPut(Object key, long version, DirectBuffer value, int length) {
        if (key instanceof Long number) {
            return writer == null ? table.compareAndPut(number, version, value, 0, length, limit)
                : writer.compareAndPut(number, version, value, 0, length);
        } else if (key instanceof CharSequence text) {
            return writer == null ? table.compareAndPut(text, version, value, 0, length, limit)
                : writer.compareAndPut(text, version, value, 0, length);
        }
        DirectBuffer bytes = (DirectBuffer) key;
        return writer == null ? table.compareAndPut(bytes, version, value, 0, length, limit)
            : writer.compareAndPut(bytes, version, value, 0, length);
    }

    boolean remove(Object key) {
        if (key instanceof Long number) {
            return writer == null ? table.remove(number, limit) : writer.remove(number);
        } else if (key instanceof CharSequence text) {
            return writer == null ? table.remove(text, limit) : writer.remove(text);
        }
        return writer == null ? table.remove((DirectBuffer) key, limit) : writer.remove((DirectBuffer) key);
    }

    long update(Object key, ValueUpdate handler) {
        if (key instanceof Long number) {
            return writer == null ? table.update(number, handler, limit) : writer.update(number, handler);
        } else if (key instanceof CharSequence text) {
            return writer == null ? table.update(text, handler, limit) : writer.update(text, handler);
        }
        DirectBuffer bytes = (DirectBuffer) key;
        return writer == null ? table.update(bytes, handler, limit) : writer.update(bytes, handler);
    }

    long clear() {
        return writer == null ? table.clear(limit) : writer.clear();
    }

    long snapshot(String path) {
        return writer == null ? table.snapshot(path) : writer.snapshot(path);
    }

    void grow(long capacity) {
        if (writer == null) {
            table.grow(capacity, limit);
        } else {
            writer.grow(capacity);
        }
    }

    Versioned get(Object key) {
        if (key instanceof Long number) {
            return table.getVersioned(number);
        }
        return key instanceof CharSequence text ? table.getVersioned(text) : table.getVersioned((DirectBuffer) key);
    }

    /** A copy of the value, by a read in place; null if the key is absent. */
    byte[] read(Object key) {
        if (key instanceof Long number) {
            return table.read(number, COPY);
        }
        return key instanceof CharSequence text ? table.read(text, COPY) : table.read((DirectBuffer) key, COPY);
    }

    Entry entry(Object key) {
        if (key instanceof Long number) {
            return table.entry(number);
        }
        return key instanceof CharSequence text ? table.entry(text) : table.entry((DirectBuffer) key);
    }

    long waitChanged(Object key, long version, Duration timeout) {
        if (key instanceof Long number) {
            return table.waitChanged(number, version, timeout);
        }
        return key instanceof CharSequence text ? table.waitChanged(text, version, timeout)
            : table.waitChanged((DirectBuffer) key, version, timeout);
    }

    /** The handler that copies a value. */
    static final ValueHandler<byte[]> COPY = value -> {
        byte[] copy = new byte[value.capacity()];
        value.getBytes(0, copy);
        return copy;
    };
}
