// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Creates journals and removes them (journal.md 2). Both hold a lock on the folder. So two creators do not replace each
 * other's segments, and a creator does not lose its own to a process that removes an older journal.
 */
final class JournalCreation {
    private static final int TRIES = 100;
    private static final int FOLDER_MODE = 0700;
    /** A file of a journal that has no name yet (channel.md 3.2). */
    private static final Pattern TEMPORARY = Pattern.compile("\\.(control|\\d{19}\\.seg)\\.[0-9A-Za-z]+\\.tmp");

    private JournalCreation() {
    }

    /** A lock on a folder, which ends with its descriptor. */
    private record FolderLock(int fd, String path) implements AutoCloseable {
        /** Null if there is no such folder. */
        static FolderLock open(String path) {
            final int fd = Sys.openFile(path, Linux.O_RDONLY | Linux.O_DIRECTORY | Linux.O_CLOEXEC
                | Linux.O_NOFOLLOW, 0);
            if (fd == -Linux.ENOENT) {
                return null;
            }
            if (fd == -Linux.ENOTDIR || fd == -Linux.ELOOP) {
                throw new NotAChannelException(path, path + " is no folder, so it is no Flyring journal. Choose another"
                    + " name, or remove it if it is not needed.");
            }
            ChannelFile.check("open", fd, path);
            int result = Sys.lockFolder(fd);
            while (result == -Linux.EINTR) {
                result = Sys.lockFolder(fd);
            }
            if (result < 0) {
                Sys.closeFile(fd);
                throw ChannelFile.io("flock", -result, path);
            }
            return new FolderLock(fd, path);
        }

        /** Whether the folder still has its name; throws if that cannot be found out. */
        boolean isThere() {
            final int failed = ChannelFile.fault("statx", path);
            final long[] named = new long[3];
            final int result = failed != 0 ? failed : Sys.status(Linux.AT_FDCWD, path, named);
            if (result == -Linux.ENOENT) {
                return false;
            }
            ChannelFile.check("statx", result, path);
            return Arrays.equals(named, 1, 3, status(), 1, 3); // the mode may change meanwhile
        }

        private long[] status() {
            final long[] status = new long[3];
            ChannelFile.check("statx", Sys.status(fd, "", status), path);
            return status;
        }

        /** Adds what those need that may read files of this mode (read, search) or write them (write, search). */
        void allow(int mode) {
            final int read = mode & 0444;
            final int write = mode & 0222;
            final int needed = FOLDER_MODE | read | read >> 2 | write | write >> 1;
            final int result = Sys.changeMode(fd, (int) status()[0] & 07777 | needed);
            if (result != -Linux.EPERM) { // else another user made the folder
                ChannelFile.check("fchmod", result, path);
            }
        }

        @Override
        public void close() {
            Sys.closeFile(fd);
        }
    }

    /** Creates a journal, which exists once its control file has its name. */
    static JournalFile make(String path, JournalOptions options) {
        options.check();
        for (int i = 0; i < TRIES; i++) {
            makeFolder(path);
            try (FolderLock lock = FolderLock.open(path)) {
                if (lock != null && lock.isThere()) {
                    return makeIn(lock, path, options);
                }
            }
        }
        throw new IoException("mkdir", Linux.ENOENT, path, path + ": another process removes this folder again and"
            + " again. Find out which.");
    }

    private static void makeFolder(String path) {
        final int result = Sys.makeFolder(path, FOLDER_MODE);
        if (result != -Linux.EEXIST) {
            ChannelFile.check("mkdir", result, path);
        }
    }

    private static JournalFile makeIn(FolderLock folder, String path, JournalOptions options) {
        final String control = JournalFile.controlPath(path);
        final List<String> names = Folder.names(path);
        if (names != null && names.contains("control")) {
            throw ChannelFile.exists(path);
        }
        checkOurs(path);
        folder.allow(options.mode);
        final JournalHeader header = JournalHeader.of(options, options.identity.newChannelId(),
            options.identity.creation());
        ChannelFile file = ChannelFile.create(control, header.fileLength, options.mode, options.anyFileSystem);
        boolean done = false;
        try {
            JournalFile.checkFileSystem(file, options.anyFileSystem, path);
            file.write(0, header.encode());
            file.write(header.controlOffset, words(header, options));
            file.write(header.schemaOffset, ByteBuffer.wrap(options.schemaOrNone()));
            Lock.selfTest(file, header.controlOffset + Layout.JOURNAL_CONTROL_LOCK_TEST, path);
            file.sync();
            final JournalFile journal = new JournalFile(path, file, header, options.identity, options.wake);
            final JournalRecord first = new JournalRecord();
            first.check(0, 0, 0, 0);
            removeSegments(journal);
            JournalSegment.prepare(journal, 0, first).close();
            file.publish(control, false);
            journal.syncFolder();
            ChannelFile.syncFolder(path);
            done = true;
            return journal;
        } catch (ChannelExistsException e) {
            throw ChannelFile.exists(path);
        } finally {
            if (!done) {
                file.discard();
                if (Files.notExists(Path.of(control), LinkOption.NOFOLLOW_LINKS)) {
                    removeFiles(path);
                }
            }
        }
    }

    /** The words of a new journal: its first check is published, and segment 0 will be ready. */
    private static ByteBuffer words(JournalHeader header, JournalOptions options) {
        final ByteBuffer words = ByteBuffer.allocate(Layout.JOURNAL_CONTROL_CONSUMERS).order(ByteOrder.LITTLE_ENDIAN);
        words.put(Layout.JOURNAL_CONTROL_BOOT_ID, options.identity.boot());
        words.putLong(Layout.JOURNAL_CONTROL_CLAIMED, JournalRecord.CHECK);
        words.putLong(Layout.JOURNAL_CONTROL_PUBLISHED, JournalRecord.CHECK);
        words.putLong(Layout.JOURNAL_CONTROL_READY, header.segmentSize);
        words.putLong(Layout.JOURNAL_CONTROL_SYNC_EVERY, options.sync == null ? 0 : options.sync.nanos());
        words.putLong(Layout.JOURNAL_CONTROL_MAX_AGE, options.maxAge == null ? 0 : options.maxAge);
        words.putLong(Layout.JOURNAL_CONTROL_MAX_SIZE, options.maxSize == null ? 0 : options.maxSize);
        words.putInt(Layout.JOURNAL_CONTROL_TRIM_CONSUMED,
            options.trimConsumed != null && options.trimConsumed ? 1 : 0);
        return words;
    }

    private static List<String> names(String path) {
        final List<String> names = Folder.names(path);
        return names == null ? List.of() : names;
    }

    /** Whether a file of this name is a segment, or a file of a journal that was being made. */
    private static boolean isOurs(String name) {
        return JournalFile.isSegmentName(name) || TEMPORARY.matcher(name).matches();
    }

    /** Segments that a create or an unlink has left, whose process was killed. */
    private static void removeSegments(JournalFile journal) {
        for (long base : journal.segments()) {
            journal.unlinkSegment(base);
        }
    }

    /** Throws if a folder without a control file holds what is not a journal's. */
    private static void checkOurs(String path) {
        for (String name : names(path)) {
            if (!isOurs(name)) {
                throw new NotAChannelException(path, path + " is a folder that holds other files than a journal's: "
                    + name + ". Choose another name.");
            }
        }
    }

    /** Removes a journal: no process may have the writer's slot. */
    static void unlink(String path) {
        try (FolderLock lock = FolderLock.open(path)) {
            if (lock == null || !lock.isThere()) { // it was removed; a folder of that name now is another journal
                throw JournalFile.noSuch(path);
            }
            checkMagic(path);
            final JournalFile journal = whole(path);
            if (journal == null) {
                unlinkBroken(path);
                return;
            }
            try (journal; JournalSeat seat = new JournalSeat(journal)) {
                if (!seat.tryLock(Layout.JOURNAL_CONTROL_SLOT)) {
                    throw JournalTaking.noFreeSlot(journal);
                }
                seat.lockControl();
                journal.control.putIntOpaque(Layout.JOURNAL_CONTROL_SUCCESSOR, Layout.SUCCESSOR_UNLINKED);
                removeFiles(path);
                journal.data().wakeAll();
                journal.work().wakeAll();
            }
        }
    }

    /** The same for a journal that is broken, or of a newer version: its words are not used, but its locks are. */
    private static void unlinkBroken(String path) {
        try (ChannelFile file = ChannelFile.open(JournalFile.controlPath(path), false); Lock lock = file.newLock()) {
            if (!lock.tryLock(Layout.HEADER_LENGTH + Layout.JOURNAL_CONTROL_SLOT)) {
                throw JournalTaking.noFreeSlot(path, "", 0);
            }
            lock.lockControl(Layout.HEADER_LENGTH + Layout.CONTROL_CONTROL_LOCK);
            removeFiles(path);
        }
    }

    private static void checkMagic(String path) {
        try (ChannelFile file = ChannelFile.open(JournalFile.controlPath(path), true)) {
            if (!Arrays.equals(file.read(0, JournalHeader.MAGIC.length), JournalHeader.MAGIC)) {
                throw new NotAChannelException(path, path + " is not a Flyring journal, so it was not removed.");
            }
        } catch (NoSuchChannelException e) {
            throw JournalFile.noSuch(path);
        }
    }

    private static JournalFile whole(String path) {
        try {
            return JournalFile.open(path, new OpenOptions().anyFileSystem(true));
        } catch (CorruptHeaderException | TruncatedException | VersionTooNewException e) {
            return null;
        }
    }

    /** The control file first: then the journal does not exist any more. */
    private static void removeFiles(String path) {
        JournalFile.unlink(JournalFile.controlPath(path));
        for (String name : names(path)) {
            if (isOurs(name)) {
                JournalFile.unlink(path + "/" + name);
            }
        }
        try {
            Files.deleteIfExists(Path.of(path));
        } catch (DirectoryNotEmptyException e) {
            return; // it holds other files
        } catch (IOException e) {
            throw ChannelFile.io("rmdir", e, path);
        }
    }
}
