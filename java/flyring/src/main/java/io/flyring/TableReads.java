// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** The reads and waits of a table, and its changes with a time-out, for each type of key. */
abstract class TableReads extends TableVerbs {
    /** Finds the look's key; returns its cell, or {@link TableLook#ABSENT}. */
    private long find(TableLook look) {
        return state().find(look);
    }

    /** A handle of the look's key; null if the key is not there. */
    private Entry entry(TableLook look) {
        Entry entry = new Entry(state(), look.key);
        return entry.version() == 0 ? null : entry;
    }

    private long waitChanged(TableLook look, long version, Duration timeout) {
        TableState state = state();
        // Not the thread's own look: code that runs in this thread during the wait may use that one.
        TableLook own = new TableLook();
        own.key.set(look.key);
        return state.waiting(timeout, wait -> state.changed(own, version, wait));
    }

    /** Copies the value into a buffer; returns its length, or -1 if the key is not there (TABLE_REMOVED is -1). */
    private int get(TableLook look, MutableDirectBuffer target, int offset) {
        look.into(target, offset);
        try {
            return find(look) < 0 ? Layout.TABLE_REMOVED : look.length;
        } finally {
            look.nowhere();
        }
    }

    private Versioned getVersioned(TableLook look) {
        look.lend();
        try {
            look.to(value -> {
                byte[] copy = new byte[value.capacity()];
                value.getBytes(0, copy);
                return copy;
            });
            return find(look) < 0 ? null : new Versioned((byte[]) look.result(), look.version);
        } finally {
            look.giveBack();
        }
    }

    @SuppressWarnings("unchecked")
    private <R> R read(TableLook look, ValueHandler<R> handler) {
        look.lend();
        try {
            look.to(handler);
            return find(look) < 0 ? null : (R) look.result();
        } finally {
            look.giveBack();
        }
    }

    /** Makes a change; waits for the writer's slot until the time-out. */
    private long timed(TableLook look, What what, DirectBuffer value, int offset, int length, long version,
        ValueUpdate update, Duration timeout) {
        long nanos = TableState.checked(timeout);
        return change(look, look.change.set(what, value, offset, length, version, update), nanos);
    }

    /**
     * Copies the value of a key. Allocates nothing.
     *
     * @param key the key, a signed integer.
     * @param target where the value goes.
     * @param offset where it begins in the target.
     * @return the value's length in bytes; -1 if the key is not there.
     * @throws MessageTooLargeException if the target has too little room.
     * @throws InvalidArgumentException if the key is of another type than the table's keys.
     * @throws CorruptTableException if the key's cell violates the specification.
     * @throws BusyException if a writer changed the value during each try to read it, until 1 ms had passed.
     * @throws NeedsRecoveryException if the table was last written before a reboot and not marked clean. The next
     *     process that takes the writer's slot recovers it, if its values have checksums.
     * @throws ClosedException after close.
     */
    public final int get(long key, MutableDirectBuffer target, int offset) {
        final int size = state().copy(key, target, offset);
        return size == TableLook.UNKNOWN ? get(keyed(key), target, offset) : size;
    }

    /**
     * The value of a key with its version.
     *
     * @param key the key, a signed integer.
     * @return a copy of the value, and its version; null if the key is not there.
     */
    public final Versioned getVersioned(long key) {
        return getVersioned(keyed(key));
    }

    /**
     * Reads the value of a key in place.
     *
     * @param key the key, a signed integer.
     * @param handler reads the value; may be called several times, and may see a value that is torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     */
    public final <R> R read(long key, ValueHandler<R> handler) {
        return read(keyed(key), handler);
    }

    /**
     * A handle that remembers where a key lies, so that later reads and changes of the key need no search.
     *
     * @param key the key, a signed integer.
     * @return the entry; null if the key is not there.
     */
    public final Entry entry(long key) {
        return entry(keyed(key));
    }

    /**
     * Waits until the version of a key differs from {@code version}.
     *
     * @param key the key, a signed integer.
     * @param version the version that the caller saw last; 0 waits until the key is there.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the new version; 0 if the key was removed.
     * @throws TimedOutException if the version did not change in time.
     */
    public final long waitChanged(long key, long version, Duration timeout) {
        return waitChanged(keyed(key), version, timeout);
    }

    /**
     * Sets the value of a key. Waits for the writer's slot, and holds it for this one change.
     *
     * @param key the key, a signed integer.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the key's new version.
     * @throws InvalidArgumentException if the key is of another type than the table's keys.
     * @throws MessageTooLargeException if key or value are longer than the table takes.
     * @throws AccessDeniedException if the table is open read-only.
     * @throws NoFreeSlotException if the slot was not free within the time-out.
     * @throws CorruptTableException if the table's content violates the specification.
     * @throws NoSpaceException if the table is full.
     * @throws NeedsRecoveryException if the table needs a recovery, but its values have no checksums.
     * @throws ChannelReplacedException if another table has the name now.
     * @throws ClosedException after close.
     */
    public final long put(long key, DirectBuffer value, int offset, int length, Duration timeout) {
        return timed(toChange(key), What.PUT, value, offset, length, 0, null, timeout);
    }

    /**
     * Sets the value of a key only if the key is not there; waits for the slot for a limited time.
     *
     * @param key the key, a signed integer.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key was there: then nothing is changed.
     */
    public final long putIfAbsent(long key, DirectBuffer value, int offset, int length, Duration timeout) {
        return timed(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0, null, timeout);
    }

    /**
     * Sets the value of a key only if the key has the given version; waits for the slot for a limited time.
     *
     * @param key the key, a signed integer.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key has another version: then nothing is changed.
     */
    public final long compareAndPut(long key, long version, DirectBuffer value, int offset, int length,
        Duration timeout) {
        return timed(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version, null, timeout);
    }

    /**
     * Removes a key; waits for the slot for a limited time.
     *
     * @param key the key, a signed integer.
     * @param timeout the longest time to wait for the slot.
     * @return whether the key was there.
     */
    public final boolean remove(long key, Duration timeout) {
        return timed(toChange(key), What.REMOVE, null, 0, 0, 0, null, timeout) != 0;
    }

    /**
     * Changes the value of a key; waits for the slot for a limited time.
     *
     * @param key the key, a signed integer.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key is not there.
     */
    public final long update(long key, ValueUpdate handler, Duration timeout) {
        return timed(toChange(key), What.UPDATE, null, 0, 0, 0, handler, timeout);
    }

    /**
     * Copies the value of a key. Allocates nothing.
     *
     * @param key the key, text.
     * @param target where the value goes.
     * @param offset where it begins in the target.
     * @return the value's length in bytes; -1 if the key is not there.
     * @throws MessageTooLargeException if the target has too little room.
     * @throws InvalidArgumentException if the key is of another type than the table's keys.
     * @throws CorruptTableException if the key's cell violates the specification.
     * @throws BusyException if a writer changed the value during each try to read it, until 1 ms had passed.
     * @throws NeedsRecoveryException if the table was last written before a reboot and not marked clean. The next
     *     process that takes the writer's slot recovers it, if its values have checksums.
     * @throws ClosedException after close.
     */
    public final int get(CharSequence key, MutableDirectBuffer target, int offset) {
        return get(keyed(key), target, offset);
    }

    /**
     * The value of a key with its version.
     *
     * @param key the key, text.
     * @return a copy of the value, and its version; null if the key is not there.
     */
    public final Versioned getVersioned(CharSequence key) {
        return getVersioned(keyed(key));
    }

    /**
     * Reads the value of a key in place.
     *
     * @param key the key, text.
     * @param handler reads the value; may be called several times, and may see a value that is torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     */
    public final <R> R read(CharSequence key, ValueHandler<R> handler) {
        return read(keyed(key), handler);
    }

    /**
     * A handle that remembers where a key lies, so that later reads and changes of the key need no search.
     *
     * @param key the key, text.
     * @return the entry; null if the key is not there.
     */
    public final Entry entry(CharSequence key) {
        return entry(keyed(key));
    }

    /**
     * Waits until the version of a key differs from {@code version}.
     *
     * @param key the key, text.
     * @param version the version that the caller saw last; 0 waits until the key is there.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the new version; 0 if the key was removed.
     * @throws TimedOutException if the version did not change in time.
     */
    public final long waitChanged(CharSequence key, long version, Duration timeout) {
        return waitChanged(keyed(key), version, timeout);
    }

    /**
     * Sets the value of a key. Waits for the writer's slot, and holds it for this one change.
     *
     * @param key the key, text.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the key's new version.
     * @throws InvalidArgumentException if the key is of another type than the table's keys.
     * @throws MessageTooLargeException if key or value are longer than the table takes.
     * @throws AccessDeniedException if the table is open read-only.
     * @throws NoFreeSlotException if the slot was not free within the time-out.
     * @throws CorruptTableException if the table's content violates the specification.
     * @throws NoSpaceException if the table is full.
     * @throws NeedsRecoveryException if the table needs a recovery, but its values have no checksums.
     * @throws ChannelReplacedException if another table has the name now.
     * @throws ClosedException after close.
     */
    public final long put(CharSequence key, DirectBuffer value, int offset, int length, Duration timeout) {
        return timed(toChange(key), What.PUT, value, offset, length, 0, null, timeout);
    }

    /**
     * Sets the value of a key only if the key is not there; waits for the slot for a limited time.
     *
     * @param key the key, text.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key was there: then nothing is changed.
     */
    public final long putIfAbsent(CharSequence key, DirectBuffer value, int offset, int length, Duration timeout) {
        return timed(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0, null, timeout);
    }

    /**
     * Sets the value of a key only if the key has the given version; waits for the slot for a limited time.
     *
     * @param key the key, text.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key has another version: then nothing is changed.
     */
    public final long compareAndPut(CharSequence key, long version, DirectBuffer value, int offset, int length,
        Duration timeout) {
        return timed(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version, null, timeout);
    }

    /**
     * Removes a key; waits for the slot for a limited time.
     *
     * @param key the key, text.
     * @param timeout the longest time to wait for the slot.
     * @return whether the key was there.
     */
    public final boolean remove(CharSequence key, Duration timeout) {
        return timed(toChange(key), What.REMOVE, null, 0, 0, 0, null, timeout) != 0;
    }

    /**
     * Changes the value of a key; waits for the slot for a limited time.
     *
     * @param key the key, text.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key is not there.
     */
    public final long update(CharSequence key, ValueUpdate handler, Duration timeout) {
        return timed(toChange(key), What.UPDATE, null, 0, 0, 0, handler, timeout);
    }

    /**
     * Copies the value of a key. Allocates nothing.
     *
     * @param key the key, bytes.
     * @param target where the value goes.
     * @param offset where it begins in the target.
     * @return the value's length in bytes; -1 if the key is not there.
     * @throws MessageTooLargeException if the target has too little room.
     * @throws InvalidArgumentException if the key is of another type than the table's keys.
     * @throws CorruptTableException if the key's cell violates the specification.
     * @throws BusyException if a writer changed the value during each try to read it, until 1 ms had passed.
     * @throws NeedsRecoveryException if the table was last written before a reboot and not marked clean. The next
     *     process that takes the writer's slot recovers it, if its values have checksums.
     * @throws ClosedException after close.
     */
    public final int get(DirectBuffer key, MutableDirectBuffer target, int offset) {
        return get(keyed(key), target, offset);
    }

    /**
     * The value of a key with its version.
     *
     * @param key the key, bytes.
     * @return a copy of the value, and its version; null if the key is not there.
     */
    public final Versioned getVersioned(DirectBuffer key) {
        return getVersioned(keyed(key));
    }

    /**
     * Reads the value of a key in place.
     *
     * @param key the key, bytes.
     * @param handler reads the value; may be called several times, and may see a value that is torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     */
    public final <R> R read(DirectBuffer key, ValueHandler<R> handler) {
        return read(keyed(key), handler);
    }

    /**
     * A handle that remembers where a key lies, so that later reads and changes of the key need no search.
     *
     * @param key the key, bytes.
     * @return the entry; null if the key is not there.
     */
    public final Entry entry(DirectBuffer key) {
        return entry(keyed(key));
    }

    /**
     * Waits until the version of a key differs from {@code version}.
     *
     * @param key the key, bytes.
     * @param version the version that the caller saw last; 0 waits until the key is there.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the new version; 0 if the key was removed.
     * @throws TimedOutException if the version did not change in time.
     */
    public final long waitChanged(DirectBuffer key, long version, Duration timeout) {
        return waitChanged(keyed(key), version, timeout);
    }

    /**
     * Sets the value of a key. Waits for the writer's slot, and holds it for this one change.
     *
     * @param key the key, bytes.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the key's new version.
     * @throws InvalidArgumentException if the key is of another type than the table's keys.
     * @throws MessageTooLargeException if key or value are longer than the table takes.
     * @throws AccessDeniedException if the table is open read-only.
     * @throws NoFreeSlotException if the slot was not free within the time-out.
     * @throws CorruptTableException if the table's content violates the specification.
     * @throws NoSpaceException if the table is full.
     * @throws NeedsRecoveryException if the table needs a recovery, but its values have no checksums.
     * @throws ChannelReplacedException if another table has the name now.
     * @throws ClosedException after close.
     */
    public final long put(DirectBuffer key, DirectBuffer value, int offset, int length, Duration timeout) {
        return timed(toChange(key), What.PUT, value, offset, length, 0, null, timeout);
    }

    /**
     * Sets the value of a key only if the key is not there; waits for the slot for a limited time.
     *
     * @param key the key, bytes.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key was there: then nothing is changed.
     */
    public final long putIfAbsent(DirectBuffer key, DirectBuffer value, int offset, int length, Duration timeout) {
        return timed(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0, null, timeout);
    }

    /**
     * Sets the value of a key only if the key has the given version; waits for the slot for a limited time.
     *
     * @param key the key, bytes.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key has another version: then nothing is changed.
     */
    public final long compareAndPut(DirectBuffer key, long version, DirectBuffer value, int offset, int length,
        Duration timeout) {
        return timed(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version, null, timeout);
    }

    /**
     * Removes a key; waits for the slot for a limited time.
     *
     * @param key the key, bytes.
     * @param timeout the longest time to wait for the slot.
     * @return whether the key was there.
     */
    public final boolean remove(DirectBuffer key, Duration timeout) {
        return timed(toChange(key), What.REMOVE, null, 0, 0, 0, null, timeout) != 0;
    }

    /**
     * Changes the value of a key; waits for the slot for a limited time.
     *
     * @param key the key, bytes.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @param timeout the longest time to wait for the slot.
     * @return the key's new version; 0 if the key is not there.
     */
    public final long update(DirectBuffer key, ValueUpdate handler, Duration timeout) {
        return timed(toChange(key), What.UPDATE, null, 0, 0, 0, handler, timeout);
    }
}
