// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One shared counter, a signed 64-bit number that wraps; see {@link Counters}. Thread-safe. Every access throws
 * {@link ClosedException} once the channel is closed or the counter is freed. On a channel that is attached read-only,
 * every write throws {@link AccessDeniedException}.
 */
public final class Counter {
    private final Counters counters;
    private final int id;
    private final int at;
    /** The counter's registration_id, which changes when the counter is freed. */
    private final long registration;

    Counter(Counters counters, int id, long registration) {
        this.counters = counters;
        this.id = id;
        this.registration = registration;
        this.at = counters.value(id) + Layout.COUNTER_VALUE_VALUE;
    }

    /** Whether the counter is still the one that was allocated or found. */
    boolean current() {
        return counters.registration(id) == registration;
    }

    /** Whether both are the same allocation, if they are of the same channel. */
    boolean isSame(Counter other) {
        return id == other.id && registration == other.registration;
    }

    ClosedException freed() {
        return new ClosedException("Counter " + id + " was freed. Allocate or find it again.");
    }

    private Memory readable() {
        Memory memory = counters.memory();
        if (!current()) {
            throw freed();
        }
        return memory;
    }

    private Memory writable() {
        Memory memory = counters.writable();
        if (!current()) {
            throw freed();
        }
        return memory;
    }

    /**
     * The counter's id.
     *
     * @return its index in the section, from 0.
     */
    public int id() {
        return id;
    }

    /**
     * The label, for people.
     *
     * @return the label.
     */
    public String label() {
        readable();
        return counters.label(id);
    }

    /**
     * The counter's type.
     *
     * @return the type id that was given to allocate.
     */
    public int typeId() {
        readable();
        return counters.typeId(id);
    }

    /**
     * The key, for programs.
     *
     * @return a copy of the key, zero-filled to 112 bytes.
     */
    public byte[] key() {
        readable();
        return counters.key(id);
    }

    /**
     * Reads the value, with plain memory order.
     *
     * @return the value.
     */
    public long get() {
        return readable().getLong(at);
    }

    /**
     * Reads the value, sequentially consistent.
     *
     * @return the value.
     */
    public long getVolatile() {
        return readable().getLongVolatile(at); // pairs with: every volatile write of the counter
    }

    /**
     * Writes the value, with plain memory order.
     *
     * @param value the new value.
     */
    public void set(long value) {
        writable().putLong(at, value);
    }

    /**
     * Writes the value, sequentially consistent.
     *
     * @param value the new value.
     */
    public void setVolatile(long value) {
        writable().putLongVolatile(at, value); // pairs with: getVolatile
    }

    /**
     * Writes the value, with release order.
     *
     * @param value the new value.
     */
    public void setRelease(long value) {
        writable().putLongRelease(at, value); // pairs with: getVolatile
    }

    /**
     * Adds to the value, sequentially consistent.
     *
     * @param delta the number to add.
     * @return the value before.
     */
    public long getAndAdd(long delta) {
        return writable().getAndAddLong(at, delta); // pairs with: every volatile access of the counter
    }

    /**
     * Writes the value if it is the expected one, sequentially consistent.
     *
     * @param expected the value that the counter must have.
     * @param value the new value.
     * @return true if the new value was written.
     */
    public boolean compareAndSet(long expected, long value) {
        // pairs with: every volatile access of the counter
        return writable().compareAndSetLong(at, expected, value);
    }

    /**
     * Gives the counter back. Its id may be allocated again at once. After that, every method of this object that
     * accesses the counter throws {@link ClosedException}.
     */
    public void free() {
        counters.free(this);
    }
}
