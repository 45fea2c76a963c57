// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One shared counter, a signed 64-bit number that wraps; see {@link Counters}. May be used by several threads. Every
 * access throws {@link ClosedException} once the channel is closed, and what writes {@link AccessDeniedException} on a
 * channel that is attached read-only.
 */
public final class Counter {
    private final Counters counters;
    private final int id;
    private final int at;

    Counter(Counters counters, int id) {
        this.counters = counters;
        this.id = id;
        this.at = counters.value(id) + Layout.COUNTER_VALUE_VALUE;
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
        return counters.label(id);
    }

    /**
     * What kind of counter it is.
     *
     * @return the number given to allocate.
     */
    public int typeId() {
        return counters.typeId(id);
    }

    /**
     * What programs read.
     *
     * @return a copy of the key, zero-filled to 112 bytes.
     */
    public byte[] key() {
        return counters.key(id);
    }

    /**
     * Reads, plain.
     *
     * @return the value.
     */
    public long get() {
        return counters.memory().getLong(at);
    }

    /**
     * Reads, sequentially consistent.
     *
     * @return the value.
     */
    public long getVolatile() {
        return counters.memory().getLongVolatile(at); // pairs with: every volatile write of the counter
    }

    /**
     * Writes, plain.
     *
     * @param value the new value.
     */
    public void set(long value) {
        counters.writable().putLong(at, value);
    }

    /**
     * Writes, sequentially consistent.
     *
     * @param value the new value.
     */
    public void setVolatile(long value) {
        counters.writable().putLongVolatile(at, value); // pairs with: getVolatile
    }

    /**
     * Writes, release.
     *
     * @param value the new value.
     */
    public void setRelease(long value) {
        counters.writable().putLongRelease(at, value); // pairs with: getVolatile
    }

    /**
     * Adds, sequentially consistent.
     *
     * @param delta what to add.
     * @return the value before.
     */
    public long getAndAdd(long delta) {
        return counters.writable().getAndAddLong(at, delta); // pairs with: every volatile access of the counter
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
        return counters.writable().compareAndSetLong(at, expected, value);
    }

    /**
     * Gives the counter back; its id may be used again at once.
     */
    public void free() {
        counters.free(this);
    }
}
