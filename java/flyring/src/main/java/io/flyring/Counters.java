// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * The counters section of a channel, in Agrona's layout: signed 64-bit numbers with a label, shared by all processes
 * that have the channel attached. Thread-safe. Spec channel.md 8.
 */
public final class Counters {
    private static final int NONE = -1;
    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final long IN_USE = Long.MAX_VALUE;

    private final Channel channel;
    private final Memory memory;
    private final int metadata;
    private final int values;
    private final int number;

    Counters(Channel channel) {
        Header header = channel.header();
        this.channel = channel;
        this.memory = channel.control();
        this.metadata = (int) (header.counterMetadataOffset - header.controlOffset);
        this.values = (int) (header.counterValuesOffset - header.controlOffset);
        this.number = header.counters;
    }

    /**
     * Takes a free counter, of type 0 and without a key, and sets it to 0.
     *
     * @param label the label, for people; at most 380 bytes in UTF-8.
     * @return the counter.
     * @see #allocate(String, int, byte[])
     */
    public Counter allocate(String label) {
        return allocate(label, 0, new byte[0]);
    }

    /**
     * Takes a free counter and sets it to 0.
     *
     * @param label the label, for people; at most 380 bytes in UTF-8.
     * @param typeId any number that tells the kind of counter.
     * @param key the key, for programs; at most 112 bytes.
     * @return the counter.
     * @throws InvalidArgumentException if label or key is too long.
     * @throws NoSpaceException if no counter is free.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException if the channel is closed.
     */
    public Counter allocate(String label, int typeId, byte[] key) {
        byte[] text = label.getBytes(StandardCharsets.UTF_8);
        if (text.length > Layout.COUNTER_METADATA_LABEL_MAX_LENGTH) {
            throw new InvalidArgumentException("label", "The label has " + text.length + " bytes; at most "
                + Layout.COUNTER_METADATA_LABEL_MAX_LENGTH + " are allowed.");
        }
        if (key.length > Layout.COUNTER_METADATA_KEY_LENGTH) {
            throw new InvalidArgumentException("key", "The key has " + key.length + " bytes; at most "
                + Layout.COUNTER_METADATA_KEY_LENGTH + " are allowed.");
        }
        return channel.underControlLock(() -> {
            int id = free(channel.identity().now() / NANOS_PER_MILLI);
            if (id == NONE) {
                throw new NoSpaceException(1, 0, "All " + number + " counters of " + channel.path()
                    + " are in use. Free one, or create the channel with more.");
            }
            fill(id, text, typeId, key);
            return handle(id);
        });
    }

    /** A handle that remembers the current allocation of the counter (channel.md 8). */
    private Counter handle(int id) {
        return new Counter(this, id, registration(id));
    }

    /** The counter's registration_id: how often it was freed. */
    long registration(int id) {
        return memory.getLongOpaque(value(id) + Layout.COUNTER_VALUE_REGISTRATION_ID);
    }

    private int free(long nowMillis) {
        for (int id = 0; id < number; id++) {
            int state = state(id);
            boolean reusable = state == Layout.COUNTER_METADATA_STATE_RECLAIMED
                && memory.getLong(record(id) + Layout.COUNTER_METADATA_FREE_FOR_REUSE) <= nowMillis;
            if (state == Layout.COUNTER_METADATA_STATE_UNUSED || reusable) {
                return id;
            }
        }
        return NONE;
    }

    private void fill(int id, byte[] label, int typeId, byte[] key) {
        int value = value(id);
        memory.putLong(value + Layout.COUNTER_VALUE_OWNER_ID, 0);
        memory.putLong(value + Layout.COUNTER_VALUE_REFERENCE_ID, 0);
        memory.putLongRelease(value + Layout.COUNTER_VALUE_VALUE, 0); // pairs with: get_volatile
        int at = record(id);
        memory.putInt(at + Layout.COUNTER_METADATA_TYPE_ID, typeId);
        memory.putLong(at + Layout.COUNTER_METADATA_FREE_FOR_REUSE, IN_USE);
        putKey(at, key);
        memory.putBytes(at + Layout.COUNTER_METADATA_LABEL, label, 0, label.length);
        memory.putIntRelease(at + Layout.COUNTER_METADATA_LABEL_LENGTH, label.length); // pairs with: label
        // pairs with: walk
        memory.putIntRelease(at + Layout.COUNTER_METADATA_STATE, Layout.COUNTER_METADATA_STATE_ALLOCATED);
    }

    private void putKey(int at, byte[] key) {
        memory.fill(at + Layout.COUNTER_METADATA_KEY, Layout.COUNTER_METADATA_KEY_LENGTH, (byte) 0);
        memory.putBytes(at + Layout.COUNTER_METADATA_KEY, key, 0, key.length);
    }

    /**
     * Finds the allocated counter with that label; if there are several, the one with the lowest id.
     *
     * @param label the label to look for.
     * @return the counter, or null if there is none.
     * @throws ClosedException if the channel is closed.
     */
    public Counter find(String label) {
        channel.checkOpen();
        for (int id = 0; id < number; id++) {
            int state = state(id);
            if (state == Layout.COUNTER_METADATA_STATE_UNUSED) {
                break;
            }
            if (state == Layout.COUNTER_METADATA_STATE_ALLOCATED) {
                Counter counter = handle(id);
                if (label.equals(label(id))) {
                    return counter;
                }
            }
        }
        return null;
    }

    /**
     * A counter by its id.
     *
     * @param id 0 to the channel's number of counters less one.
     * @return the counter.
     * @throws InvalidArgumentException if the id is out of range, or the counter is not allocated.
     * @throws ClosedException if the channel is closed.
     */
    public Counter counter(int id) {
        channel.checkOpen();
        if (id < 0 || id >= number) {
            throw new InvalidArgumentException("id", "There is no counter " + id + "; the channel has " + number
                + ", from 0.");
        }
        Counter counter = handle(id);
        if (state(id) != Layout.COUNTER_METADATA_STATE_ALLOCATED) {
            throw new InvalidArgumentException("id", "Counter " + id + " is not allocated.");
        }
        return counter;
    }

    /**
     * Calls an action for each allocated counter.
     *
     * @param action receives the counters in ascending order of their ids.
     * @throws ClosedException if the channel is closed.
     */
    public void forEach(Consumer<Counter> action) {
        Objects.requireNonNull(action, "action");
        channel.checkOpen();
        for (int id = 0; id < number; id++) {
            int state = state(id);
            if (state == Layout.COUNTER_METADATA_STATE_UNUSED) {
                break;
            }
            if (state == Layout.COUNTER_METADATA_STATE_ALLOCATED) {
                action.accept(handle(id));
            }
        }
    }

    void free(Counter counter) {
        channel.underControlLock(() -> {
            int at = record(counter.id());
            if (state(counter.id()) != Layout.COUNTER_METADATA_STATE_ALLOCATED || !counter.current()) {
                throw counter.freed();
            }
            // pairs with: walk
            memory.putIntRelease(at + Layout.COUNTER_METADATA_STATE, Layout.COUNTER_METADATA_STATE_RECLAIMED);
            putKey(at, new byte[0]);
            int generation = value(counter.id()) + Layout.COUNTER_VALUE_REGISTRATION_ID;
            memory.putLongRelease(generation, memory.getLongOpaque(generation) + 1); // pairs with: each use
            memory.putLong(at + Layout.COUNTER_METADATA_FREE_FOR_REUSE, channel.identity().now() / NANOS_PER_MILLI);
            return null;
        });
    }

    private int record(int id) {
        return metadata + id * Layout.COUNTER_METADATA_STRIDE;
    }

    int value(int id) {
        return values + id * Layout.COUNTER_VALUE_STRIDE;
    }

    private int state(int id) {
        return memory.getIntAcquire(record(id) + Layout.COUNTER_METADATA_STATE); // pairs with: allocate, free
    }

    String label(int id) {
        int at = record(id);
        int length = memory.getIntAcquire(at + Layout.COUNTER_METADATA_LABEL_LENGTH); // pairs with: allocate
        length = length < 0 || length > Layout.COUNTER_METADATA_LABEL_MAX_LENGTH ? 0 : length;
        byte[] bytes = new byte[length];
        memory.getBytes(at + Layout.COUNTER_METADATA_LABEL, bytes, 0, length);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    int typeId(int id) {
        return memory.getInt(record(id) + Layout.COUNTER_METADATA_TYPE_ID);
    }

    byte[] key(int id) {
        byte[] key = new byte[Layout.COUNTER_METADATA_KEY_LENGTH];
        memory.getBytes(record(id) + Layout.COUNTER_METADATA_KEY, key, 0, key.length);
        return key;
    }

    Memory memory() {
        channel.checkOpen();
        return memory;
    }

    Memory writable() {
        channel.checkWritable();
        return memory;
    }
}
