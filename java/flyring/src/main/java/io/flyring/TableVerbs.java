// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.DirectBuffer;

/**
 * The changes of a table, for each type of key. A {@link Table} takes the writer's slot for each change and waits for
 * it; a {@link TableWriter} holds the slot.
 */
abstract class TableVerbs {
    /** What a change does. */
    enum What { PUT, PUT_IF_ABSENT, COMPARE_AND_PUT, REMOVE, UPDATE }

    /** One change: what, and with what. Each look has one, so that a change allocates nothing. */
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
         * Makes the change, under the slot; returns what the verb returns. {@code likely} is the cell in which the key
         * lay last, or {@link TableLook#ABSENT}.
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
            return table.put(look, cell, copy, 0, copy.capacity()); // the handler could not change the table
        }
    }

    abstract TableState state();

    /** Throws if the object is closed. */
    void checkOpen() {
        state().checkOpen();
    }

    /** Throws if a change may not begin: the object is closed, or the caller is a handler of another change. */
    void checkChange() {
        state().checkOpen();
        state().checkNoHandler();
    }

    /** The calling thread's look, with a key. */
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

    /** The same for a change. */
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

    /** Makes a change under the slot; waits for it for at most {@code timeout} ns. */
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
     * Sets the value of a key to the bytes of an array. Makes a buffer around it; the verb with a buffer makes nothing.
     *
     * @param key the key, a signed integer.
     * @param value the value.
     * @return the key's new version.
     */
    public final long put(long key, byte[] value) {
        return change(toChange(key), What.PUT, wrapped(value), 0, value.length, 0);
    }

    /**
     * Sets the value of a key that is not there.
     *
     * @param key the key, a signed integer.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key was there, and nothing is changed.
     */
    public final long putIfAbsent(long key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key that has a certain version.
     *
     * @param key the key, a signed integer.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if it has another one, and nothing is changed.
     */
    public final long compareAndPut(long key, long version, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version);
    }

    /**
     * Removes a key.
     *
     * @param key the key, a signed integer.
     * @return whether it was there.
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
     * Sets the value of a key to the bytes of an array. Makes a buffer around it; the verb with a buffer makes nothing.
     *
     * @param key the key, text.
     * @param value the value.
     * @return the key's new version.
     */
    public final long put(CharSequence key, byte[] value) {
        return change(toChange(key), What.PUT, wrapped(value), 0, value.length, 0);
    }

    /**
     * Sets the value of a key that is not there.
     *
     * @param key the key, text.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key was there, and nothing is changed.
     */
    public final long putIfAbsent(CharSequence key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key that has a certain version.
     *
     * @param key the key, text.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if it has another one, and nothing is changed.
     */
    public final long compareAndPut(CharSequence key, long version, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version);
    }

    /**
     * Removes a key.
     *
     * @param key the key, text.
     * @return whether it was there.
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
     * Sets the value of a key to the bytes of an array. Makes a buffer around it; the verb with a buffer makes nothing.
     *
     * @param key the key, bytes.
     * @param value the value.
     * @return the key's new version.
     */
    public final long put(DirectBuffer key, byte[] value) {
        return change(toChange(key), What.PUT, wrapped(value), 0, value.length, 0);
    }

    /**
     * Sets the value of a key that is not there.
     *
     * @param key the key, bytes.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if the key was there, and nothing is changed.
     */
    public final long putIfAbsent(DirectBuffer key, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.PUT_IF_ABSENT, value, offset, length, 0);
    }

    /**
     * Sets the value of a key that has a certain version.
     *
     * @param key the key, bytes.
     * @param version the version that it must have; 0: it must not be there.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version; 0 if it has another one, and nothing is changed.
     */
    public final long compareAndPut(DirectBuffer key, long version, DirectBuffer value, int offset, int length) {
        return change(toChange(key), What.COMPARE_AND_PUT, value, offset, length, version);
    }

    /**
     * Removes a key.
     *
     * @param key the key, bytes.
     * @return whether it was there.
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
     */
    public final long update(DirectBuffer key, ValueUpdate handler) {
        return update(toChange(key), handler);
    }
}
