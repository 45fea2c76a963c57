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
    private final TableLook look = new TableLook();
    private TableFile file;
    private long cell = TableLook.ABSENT;

    Entry(TableState table, TableKey key) {
        this.table = table;
        look.key.set(key);
    }

    /** Reads the value where the key lay last, else searches for the key; returns whether the key is there. */
    private boolean find() {
        TableFile now = table.readable();
        if (cell < 0 || now != file || !look.read(now, cell)) {
            cell = table.find(look);
            file = table.readable();
        }
        return cell >= 0;
    }

    private void checkIdle() {
        if (look.isLent()) {
            throw new ViewAliveException("A handler of this entry is running. Use another entry in it.");
        }
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
        checkIdle();
        look.into(target, offset);
        try {
            return find() ? look.length : Layout.TABLE_REMOVED;
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
        checkIdle();
        look.lend();
        try {
            look.to(handler);
            return find() ? (R) look.result() : null;
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
        checkIdle();
        return find() ? look.version : 0;
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
        checkIdle();
        return table.waiting(timeout, wait -> table.changed(look, version, wait));
    }

    /** Makes a change through a writer, which tries the remembered cell before a search. */
    long change(TableState of, TableWriter writer, TableVerbs.What what, DirectBuffer value, int offset, int length,
        ValueUpdate update) {
        if (of != table) {
            throw new InvalidArgumentException("entry", "The entry is of another table object.");
        }
        checkIdle();
        return writer.change(look, look.change.set(what, value, offset, length, 0, update), file, cell);
    }
}
