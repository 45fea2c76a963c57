// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.function.Consumer;

/**
 * Creates table files and copies of them, and removes their names (2, 7, 9; channel.md 3.2). Numbers in parentheses are
 * sections of spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableCreation {
    private TableCreation() {
    }

    /** Creates a table, which gets its name when it is complete. */
    static TableFile make(String path, TableOptions options, boolean replace) {
        options.check();
        if (!replace && Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS)) {
            throw ChannelFile.exists(path);
        }
        Identity identity = options.identity;
        TableHeader header = TableHeader.of(options, identity.newChannelId(), identity.creation(), false);
        TableFile table = begin(path, header, options.checked, identity, options.schema, options.mode,
            options.anyFileSystem);
        return publish(table, path, replace, false);
    }

    /**
     * Creates the file of an empty table, which has no name yet. If {@code checked} is null, the file system decides.
     */
    private static TableFile begin(String path, TableHeader header, Boolean checked, Identity identity, byte[] schema,
        int mode, boolean anyFileSystem) {
        ChannelFile file = ChannelFile.create(path, header.fileLength, mode, anyFileSystem);
        TableFile table = null;
        try {
            TableHeader own = header.with(header.id, header.capacity, checked != null ? checked : !file.inMemory());
            file.write(0, own.encode());
            file.write(own.controlOffset + Layout.TABLE_CONTROL_BOOT_ID, ByteBuffer.wrap(identity.boot()));
            file.write(own.schemaOffset, ByteBuffer.wrap(schema));
            Lock.selfTest(file, own.controlOffset + Layout.TABLE_CONTROL_LOCK_TEST, path);
            table = TableFile.of(path, file, own);
            return table;
        } finally {
            if (table == null) {
                file.discard();
            }
        }
    }

    /** Gives a file its name. With {@code synced}, file and name are on the disk when this returns. */
    private static TableFile publish(TableFile table, String path, boolean replace, boolean synced) {
        boolean done = false;
        TableFile old = replace ? tell(path, Layout.SUCCESSOR_REPLACED) : null;
        try {
            if (synced) {
                table.file.sync();
            }
            table.file.publish(path, replace);
            if (synced) {
                ChannelFile.syncFolder(path);
            }
            done = true;
            return table;
        } finally {
            if (!done) {
                table.file.discard();
            }
            tellAgain(old, Layout.SUCCESSOR_REPLACED);
        }
    }

    /**
     * Stores {@code successor} in the table at a path, before its name changes. Returns the table; null if there is
     * none, or it is read-only.
     */
    private static TableFile tell(String path, int successor) {
        try {
            TableFile old = TableFile.open(path, new OpenOptions().anyFileSystem(true));
            old.successor(successor);
            return old;
        } catch (FlyringException noTable) {
            return null;
        }
    }

    /**
     * Stores {@code successor} once more after the name has changed, because a new owner of the slot may have cleared
     * it before (7). Wakes sleepers, and closes the table.
     */
    private static void tellAgain(TableFile old, int successor) {
        if (old != null) {
            old.successor(successor);
            old.data().wakeAll();
            old.file.close();
        }
    }

    static void unlink(String path) {
        try (ChannelFile file = ChannelFile.open(path, true)) {
            if (!Arrays.equals(file.read(0, TableHeader.MAGIC.length), TableHeader.MAGIC)) {
                throw new NotAChannelException(path, path + " is not a Flyring table, so it was not removed.");
            }
        }
        TableFile old = tell(path, Layout.SUCCESSOR_UNLINKED);
        try {
            Files.deleteIfExists(Path.of(path));
        } catch (java.nio.file.AccessDeniedException e) {
            throw new AccessDeniedException(path, "permission denied", path + " may not be removed: permission denied."
                + " Check owner and mode of its folder.");
        } catch (IOException e) {
            throw ChannelFile.io("unlink", e, path);
        } finally {
            tellAgain(old, Layout.SUCCESSOR_UNLINKED);
        }
    }

    /** Writes a copy of a table; returns how many keys it has. */
    static long snapshot(TableFile from, String name, Identity identity) {
        String path = Place.tablePath(name);
        TableHeader there = TableFile.headerAt(path);
        if (there != null && there.id.equals(from.header.id)) {
            throw new InvalidArgumentException("path", path + " is the table itself. Give the copy another name.");
        }
        TableHeader header = from.header.with(identity.newChannelId(), from.header.capacity, from.header.checked);
        TableFile to = begin(path, header, null, identity, schemaOf(from), from.file.mode(), true);
        copy(from, to);
        to.control.putIntOpaque(Layout.TABLE_CONTROL_CLEAN, 1);
        final long keys = to.word(Layout.TABLE_CONTROL_SIZE);
        publish(to, path, true, true).file.close();
        return keys;
    }

    /**
     * Throws if the table cannot have this capacity, or if the file has lost its name: the larger file would take that
     * of another table, or bring back one that was removed (7).
     */
    static void checkGrow(TableFile from, long capacity) {
        if (capacity < from.header.capacity || capacity > Layout.TABLE_MAX_CAPACITY) {
            throw new InvalidArgumentException("capacity", "The capacity is " + capacity + ", but must be "
                + from.header.capacity + " (the present capacity) to " + Layout.TABLE_MAX_CAPACITY + ".");
        }
        TableHeader there = from.replacement();
        if (there != null) {
            throw TableState.replaced(from, there.id);
        }
        if (from.file.removed()) {
            throw new NoSuchChannelException(from.path, "There is no table " + from.path
                + " any more: its name was removed. Create it again.");
        }
    }

    /**
     * Copies the table whose slot the caller holds into a larger file, and gives that the table's name (7). The caller
     * has called {@link #checkGrow}, and syncs the folder afterwards. {@code take} takes the slot of the larger file
     * before the rename.
     */
    static TableFile grow(TableSlot held, long capacity, Identity identity, Consumer<TableFile> take) {
        TableFile from = held.file();
        held.change().checkOwned();
        TableHeader header = from.header.with(from.header.id, capacity, from.header.checked);
        TableFile to = begin(from.path, header, from.header.checked, identity, schemaOf(from), from.file.mode(), true);
        copy(from, to);
        boolean told = false;
        boolean done = false;
        try {
            to.file.sync();
            take.accept(to);
            told = true;
            from.successor(Layout.SUCCESSOR_REPLACED); // before the rename: no change may go into the old file after it
            to.file.publish(from.path, true);
            done = true;
        } finally {
            if (!done && told) {
                from.successor(0);
            }
            if (!done) {
                to.file.discard();
            }
        }
        from.data().wakeAll();
        return to;
    }

    private static byte[] schemaOf(TableFile from) {
        return from.file.read(from.header.schemaOffset, (int) from.header.schemaLength);
    }

    /** Copies all keys with their versions; discards the new file if that fails. */
    private static void copy(TableFile from, TableFile to) {
        boolean done = false;
        try {
            TableChange change = new TableChange(to, false);
            TableLook look = new TableLook();
            TableItem item = new TableItem(from.header);
            final long fresh = from.fresh();
            for (long cell = change.usableFrom(0); cell < fresh; cell = change.usableFrom(cell + 1)) {
                if (item.read(from, cell)) {
                    change.add(look, item.rawKey(), item.value(), item.value().capacity(), item.version());
                }
            }
            // at least that of each copied version
            final long stamp = Math.max(to.word(Layout.TABLE_CONTROL_STAMP), from.word(Layout.TABLE_CONTROL_STAMP));
            to.word(Layout.TABLE_CONTROL_STAMP, stamp);
            to.word(Layout.TABLE_CONTROL_CHANGED, stamp);
            done = true;
        } finally {
            if (!done) {
                to.file.discard();
            }
        }
    }
}
