// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One shared counter, a signed 64-bit number that wraps; see {@link Counters}. May be used by several threads. Every
 * access throws {@link ClosedException} once the channel is closed or the counter was freed, and what writes
 * {@link AccessDeniedException} on a channel that is attached read-only.
 */
public final class Counter {
    private final Counters counters;
    private final int id;
    private final int at;
    /** The counter's registration_id, which changes when it is freed. */
    private final long registration;

    Counter(Counters counters, int id, long registration) {
        this.counters = counters;
        this.id = id;
        this.registration = registration;
        this.at = counters.value(id) + Layout.COUNTER_VALUE_VALUE;
    }

    /** Whether it is still the counter that was allocated or found. */
    boolean current() {
        return counters.registration(id) == registration;
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
     * What people read.
     *
     * @return the label.
     */
    public String label() {
        readable();
        return counters.label(id);
    }

    /**
     * What kind of counter it is.
     *
     * @return the number given to allocate.
     */
    public int typeId() {
        readable();
        return counters.typeId(id);
    }

    /**
     * What programs read.
     *
     * @return a copy of the key, zero-filled to 112 bytes.
     */
    public byte[] key() {
        readable();
        return counters.key(id);
    }

    /**
     * Reads, plain.
     *
     * @return the value.
     */
    public long get() {
        return readable().getLong(at);
    }

    /**
     * Reads, sequentially consistent.
     *
     * @return the value.
     */
    public long getVolatile() {
        return readable().getLongVolatile(at); // pairs with: every volatile write of the counter
    }

    /**
     * Writes, plain.
     *
     * @param value the new value.
     */
    public void set(long value) {
        writable().putLong(at, value);
    }

    /**
     * Writes, sequentially consistent.
     *
     * @param value the new value.
     */
    public void setVolatile(long value) {
        writable().putLongVolatile(at, value); // pairs with: getVolatile
    }

    /**
     * Writes, release.
     *
     * @param value the new value.
     */
    public void setRelease(long value) {
        writable().putLongRelease(at, value); // pairs with: getVolatile
    }

    /**
     * Adds, sequentially consistent.
     *
     * @param delta what to add.
     * @return the value before.
     */
    public long getAndAdd(long delta) {
        return writable().getAndAddLong(at, delta); // pairs with: every volatile access of the counter
    }

    /**
     * Writes if the value is the expected one, sequentially consistent.
     *
     * @param expected the value that it must have.
     * @param value the new value.
     * @return whether it was written.
     */
    public boolean compareAndSet(long expected, long value) {
        // pairs with: every volatile access of the counter
        return writable().compareAndSetLong(at, expected, value);
    }

    /**
     * Gives the counter back; its id may be used again at once. Any use of this object is {@link ClosedException} then.
     */
    public void free() {
        counters.free(this);
    }
}
