// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.DirectBuffer;

/**
 * The changes of a table, for each type of key. A {@link Table} waits for the writer's slot and holds it for one
 * change; a {@link TableWriter} holds it until its close.
 */
abstract class TableVerbs {
    /** What a change does. */
    enum What { PUT, PUT_IF_ABSENT, COMPARE_AND_PUT, REMOVE, UPDATE }

    /** One change: its kind and its arguments. Each {@link TableLook} has one, so that a change allocates nothing. */
    static final class Change {
        private What what;
        private DirectBuffer value;
        private int offset;
        private int length;
        private long version;
        private ValueUpdate update;

        Change set(What newWhat, DirectBuffer newValue, int newOffset, int newLength, long newVersion,
            ValueUpdate newUpdate) {
            what = newWhat;
            value = newValue;
            offset = newOffset;
            length = newLength;
            version = newVersion;
            update = newUpdate;
            return this;
        }

        /** Forgets the caller's objects. */
        void clear() {
            value = null;
            update = null;
        }

        /** Throws if the value is too long for the table, or is not inside its buffer. */
        void check(TableHeader header, String path) {
            if (length > header.valueBytes) {
                throw new MessageTooLargeException(length, header.valueBytes, "The value has " + length + " bytes; "
                    + path + " takes at most " + header.valueBytes + ".");
            }
            if (value != null) {
                value.boundsCheck(offset, length);
            }
        }

        /**
         * Makes the change while the slot is held; returns the new version, or what the public method returns instead.
         * {@code likely} is the cell in which the key lay last, or {@link TableLook#ABSENT}.
         */
        long make(TableChange table, TableLook look, long likely) {
            table.checkOwned();
            look.nowhere();
            final long cell = look.findAsWriter(table.file(), likely);
            return switch (what) {
                case PUT -> table.put(look, cell, value, offset, length);
                case REMOVE -> remove(table, look, cell);
                case UPDATE -> cell < 0 ? 0 : update(table, look, cell);
                default -> (cell < 0 ? version != 0 : look.version != version) ? 0
                    : table.put(look, cell, value, offset, length);
            };
        }

        private static long remove(TableChange table, TableLook look, long cell) {
            if (cell >= 0) {
                table.remove(look, cell);
            }
            return cell >= 0 ? 1 : 0;
        }

        private long update(TableChange table, TableLook look, long cell) {
            final PayloadBuffer copy = table.copyOf(cell, look);
            look.lend();
            try {
                update.update(copy);
            } finally {
                look.giveBack();
            }
            table.checkOwned();
            return table.put(look, cell, copy, 0, copy.capacity()); // the handler cannot move the key
        }
    }

    abstract TableState state();

    /** Throws if the object is closed. */
    void checkOpen() {
        state().checkOpen();
    }

    /**
     * Throws if a change may not begin: the object is closed, or the calling thread is in a handler of another change.
     */
    void checkChange() {
        state().checkOpen();
        state().checkNoHandler();
    }

    /** The calling thread's look, with this key. */
    final TableLook keyed(long key) {
        checkOpen();
        TableLook look = TableLook.own();
        TableFile file = state().file();
        look.key.set(file.header, key, file.path);
        return look;
    }

    final TableLook keyed(CharSequence key) {
        checkOpen();
        TableLook look = TableLook.own();
        TableFile file = state().file();
        look.key.set(file.header, key, file.path);
        return look;
    }

    final TableLook keyed(DirectBuffer key) {
        checkOpen();
        TableLook look = TableLook.own();
        TableFile file = state().file();
        look.key.set(file.header, key, file.path);
        return look;
    }

    /** The same, after the checks that a change needs. */
    final TableLook toChange(long key) {
        checkChange();
        return keyed(key);
    }

    final TableLook toChange(CharSequence key) {
        checkChange();
        return keyed(key);
    }

    final TableLook toChange(DirectBuffer key) {
        checkChange();
        return keyed(key);
    }

    /** Waits for the slot for at most {@code timeout} ns, and makes a change while the slot is held. */
    abstract long change(TableLook look, Change change, long timeout);

    private static PayloadBuffer wrapped(byte[] value) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(value);
        return buffer;
    }

    private long update(TableLook look, ValueUpdate handler) {
        return change(look, look.change.set(What.UPDATE, null, 0, 0, 0, handler), Waiting.FOREVER);
    }

    private long change(TableLook look, What what, DirectBuffer value, int offset, int length, long version) {
        return change(look, look.change.set(what, value, offset, length, version, null), Waiting.FOREVER);
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key, a signed integer.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long put(long key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key to the bytes of an array. Allocates a buffer around the array; the method with a buffer
     * allocates nothing.
     *
     * @param key the key, a signed integer.
     * @param value the value.
     * @return the key's new version.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long put(long key, byte[] value) {
        return change(toChange(key), What.PUT, wrapped(value), 0, value.length, 0);
    }

    /**
     * Sets the value of a key only if the key is not there.
     *
     * @param key the key, a signed integer.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key was there: then nothing is changed.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long putIfAbsent(long key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key only if the key has the given version.
     *
     * @param key the key, a signed integer.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key has another version: then nothing is changed.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long compareAndPut(long key, long version, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version);
    }

    /**
     * Removes a key.
     *
     * @param key the key, a signed integer.
     * @return whether the key was there.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final boolean remove(long key) {
        return change(toChange(key), What.REMOVE, null, 0, 0, 0) != 0;
    }

    /**
     * Changes the value of a key.
     *
     * @param key the key, a signed integer.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @return the key's new version; 0 if the key is not there.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long update(long key, ValueUpdate handler) {
        return update(toChange(key), handler);
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key, text.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long put(CharSequence key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key to the bytes of an array. Allocates a buffer around the array; the method with a buffer
     * allocates nothing.
     *
     * @param key the key, text.
     * @param value the value.
     * @return the key's new version.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long put(CharSequence key, byte[] value) {
        return change(toChange(key), What.PUT, wrapped(value), 0, value.length, 0);
    }

    /**
     * Sets the value of a key only if the key is not there.
     *
     * @param key the key, text.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key was there: then nothing is changed.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long putIfAbsent(CharSequence key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key only if the key has the given version.
     *
     * @param key the key, text.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key has another version: then nothing is changed.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long compareAndPut(CharSequence key, long version, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version);
    }

    /**
     * Removes a key.
     *
     * @param key the key, text.
     * @return whether the key was there.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final boolean remove(CharSequence key) {
        return change(toChange(key), What.REMOVE, null, 0, 0, 0) != 0;
    }

    /**
     * Changes the value of a key.
     *
     * @param key the key, text.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @return the key's new version; 0 if the key is not there.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long update(CharSequence key, ValueUpdate handler) {
        return update(toChange(key), handler);
    }

    /**
     * Sets the value of a key.
     *
     * @param key the key, bytes.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long put(DirectBuffer key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key to the bytes of an array. Allocates a buffer around the array; the method with a buffer
     * allocates nothing.
     *
     * @param key the key, bytes.
     * @param value the value.
     * @return the key's new version.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long put(DirectBuffer key, byte[] value) {
        return change(toChange(key), What.PUT, wrapped(value), 0, value.length, 0);
    }

    /**
     * Sets the value of a key only if the key is not there.
     *
     * @param key the key, bytes.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key was there: then nothing is changed.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long putIfAbsent(DirectBuffer key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key only if the key has the given version.
     *
     * @param key the key, bytes.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key has another version: then nothing is changed.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long compareAndPut(DirectBuffer key, long version, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version);
    }

    /**
     * Removes a key.
     *
     * @param key the key, bytes.
     * @return whether the key was there.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final boolean remove(DirectBuffer key) {
        return change(toChange(key), What.REMOVE, null, 0, 0, 0) != 0;
    }

    /**
     * Changes the value of a key.
     *
     * @param key the key, bytes.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @return the key's new version; 0 if the key is not there.
     * @throws FlyringException as {@link Table#put(long, DirectBuffer, int, int, java.time.Duration)} does.
     */
    public final long update(DirectBuffer key, ValueUpdate handler) {
        return update(toChange(key), handler);
    }
}
