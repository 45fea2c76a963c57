// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * A handle of one key of a table. It remembers where the key lies, so that reads and changes need no search; if the key
 * has moved, the entry searches for it again. For one thread at a time.
 */
public final class Entry {
    private final TableState table;
    /** The key if the table's keys are integers; {@link #key} is null then. So an entry fits one line of the cache. */
    private final long integer;
    private final TableKey key;
    /** Where the key lay last; another file than the table's if that is not known. */
    private TableFile file;
    private long cell = TableLook.ABSENT;

    Entry(TableState table, TableKey key) {
        this.table = table;
        boolean isInteger = table.file().header.keyType == KeyType.INTEGER;
        this.integer = isInteger ? key.toLong() : 0;
        this.key = isInteger ? null : new TableKey().set(key);
    }

    /** Gives a look this key. */
    private TableLook keyed(TableLook look) {
        if (key == null) {
            look.key.set(integer);
        } else {
            look.key.set(key);
        }
        return look;
    }

    /** The calling thread's look, with this key. */
    private TableLook look() {
        return keyed(TableLook.own());
    }

    /** Reads the value where the key lay last, else searches for the key; returns whether the key is there. */
    private boolean find(TableLook look) {
        TableFile now = table.readable();
        if (cell < 0 || now != file || !look.read(now, cell)) {
            cell = table.find(look);
            file = table.readable();
        }
        return cell >= 0;
    }

    /**
     * Copies the value. Allocates nothing.
     *
     * @param target where the value goes.
     * @param offset where it begins in the target.
     * @return the value's length in bytes; -1 if the key is not there.
     * @throws MessageTooLargeException if the target has too little room.
     */
    public int get(MutableDirectBuffer target, int offset) {
        if (key == null && offset >= 0 && target instanceof PayloadBuffer ours) {
            final TableFile now = table.readable();
            if (cell >= 0 && now == file) {
                final int size = TableLook.copy(now, cell, integer, ours, offset);
                if (size >= 0) {
                    return size;
                }
            }
        }
        TableLook look = look();
        look.into(target, offset);
        try {
            return find(look) ? look.length : Layout.TABLE_REMOVED;
        } finally {
            look.nowhere();
        }
    }

    /**
     * Reads the value in place.
     *
     * @param handler reads the value; may be called several times, and may see a value that is torn.
     * @param <R> what the handler returns.
     * @return what the handler's last call returned, which saw a value that is not torn; null if the key is not there.
     */
    @SuppressWarnings("unchecked")
    public <R> R read(ValueHandler<R> handler) {
        TableLook look = look();
        look.lend();
        try {
            look.to(handler);
            return find(look) ? (R) look.result() : null;
        } finally {
            look.giveBack();
        }
    }

    /**
     * The key's version.
     *
     * @return the version, which only grows; 0 if the key is not there.
     */
    public long version() {
        TableLook look = look();
        return find(look) ? look.version : 0;
    }

    /**
     * Waits until the key's version differs from {@code version}.
     *
     * @param version the version that the caller saw last; 0 waits until the key is there.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the new version; 0 if the key was removed.
     * @throws TimedOutException if the version did not change in time.
     */
    public long waitChanged(long version, Duration timeout) {
        // Not the thread's own look: code that runs in this thread during the wait may use that one.
        TableLook look = keyed(new TableLook());
        return table.waiting(timeout, wait -> table.changed(look, version, wait));
    }

    /** Makes a change through a writer, which tries the remembered cell before a search. */
    long change(TableState of, TableWriter writer, TableVerbs.What what, DirectBuffer value, int offset, int length,
        ValueUpdate update) {
        if (of != table) {
            throw new InvalidArgumentException("entry", "The entry is of another table object.");
        }
        writer.checkChange();
        TableLook look = look();
        return writer.change(look, look.change.set(what, value, offset, length, 0, update), file, cell);
    }
}
