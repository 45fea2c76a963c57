// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;

/** An attached journal: its folder, its control file and the words in it (journal.md 2). Thread-safe. */
final class JournalFile implements AutoCloseable {
    static final int ALIGNMENT = 64;
    private static final Pattern SEGMENT = Pattern.compile("\\d{19}\\.seg");
    private static final int DIGITS = 19;

    /** The folder. */
    final String path;
    final ChannelFile file;
    final JournalHeader header;
    final Memory control;
    final Identity identity;
    /** The id of this boot: reading it is a system call. */
    final byte[] boot;
    final boolean wakes;
    /** Z: the bytes of positions of a segment. */
    final long segmentSize;
    private boolean whole;
    /** The error number of a sync that failed in this process; 0 if another process tried. */
    private volatile int syncErrno;

    JournalFile(String path, ChannelFile file, JournalHeader header, Identity identity, boolean wakes) {
        this.path = path;
        this.file = file;
        this.header = header;
        this.control = file.map(header.controlOffset, header.controlLength, file.readOnly());
        this.identity = identity;
        this.boot = identity.boot();
        this.wakes = wakes;
        this.segmentSize = header.segmentSize;
    }

    static String controlPath(String path) {
        return path + "/control";
    }

    /** Opens and checks the control file (channel.md 3.3). */
    static JournalFile open(String path, OpenOptions options) {
        ChannelFile file = openControl(path, options.readOnly);
        boolean done = false;
        try {
            JournalHeader header = JournalHeader.parse(file.read(0, Layout.HEADER_LENGTH), file.size(), path);
            checkFileSystem(file, options.anyFileSystem, path);
            options.check(header.schemaLength, header.schemaId, header.schemaVersion, path);
            if (!options.readOnly) {
                Lock.selfTest(file, header.controlOffset + Layout.JOURNAL_CONTROL_LOCK_TEST, path);
            }
            JournalFile journal = new JournalFile(path, file, header, options.identity, options.wake);
            done = true;
            return journal;
        } finally {
            if (!done) {
                file.close();
            }
        }
    }

    private static ChannelFile openControl(String path, boolean readOnly) {
        try {
            return ChannelFile.open(controlPath(path), readOnly);
        } catch (NoSuchChannelException e) {
            throw noSuch(path);
        }
    }

    static NoSuchChannelException noSuch(String path) {
        return new NoSuchChannelException(path, "There is no journal " + path
            + ". Create it first, or check the name and FLYRING_DIR.");
    }

    /** The file systems of channel.md 3.1 but overlay (2). */
    static void checkFileSystem(ChannelFile file, boolean any, String path) {
        file.checkFileSystem(any);
        if (!any && file.onOverlay()) {
            throw new UnsuitableFileSystemException(path, "overlay: a sync may reach another file", path
                + " lies on overlayfs, where a sync may reach another file than the one that is mapped. Use a volume.");
        }
    }

    // ---- words ----

    long word(int at) {
        return control.getLongOpaque(at);
    }

    long wordAcquire(int at) {
        return control.getLongAcquire(at); // pairs with: the release store of this word
    }

    void word(int at, long value) {
        control.putLongOpaque(at, value);
    }

    void wordRelease(int at, long value) {
        control.putLongRelease(at, value);
    }

    /** Raises a word that only grows; processes may do so at once. */
    void raise(int at, long value) {
        for (long now = wordAcquire(at); now < value; now = wordAcquire(at)) {
            if (control.compareAndSetLong(at, now, value)) {
                return;
            }
        }
    }

    long published() {
        return wordAcquire(Layout.JOURNAL_CONTROL_PUBLISHED); // pairs with: append 6
    }

    /** The position of the last check. */
    long checked() {
        return wordAcquire(Layout.JOURNAL_CONTROL_CHECKED); // pairs with: check
    }

    /** The last check that is durable; throws if it cannot be one. */
    long synced() {
        return believed(Layout.JOURNAL_CONTROL_SYNCED, ALIGNMENT, "synced"); // pairs with: sync 4
    }

    /** Where the journal begins; throws if that is no multiple of Z. */
    long trimmed() {
        return believed(Layout.JOURNAL_CONTROL_TRIMMED, segmentSize, "trimmed"); // pairs with: trim 4
    }

    private long believed(int at, long unit, String name) {
        final long value = wordAcquire(at);
        if (value < 0 || value >= Layout.MAX_POSITION || (value & unit - 1) != 0) {
            throw corrupt(value, name + " is no multiple of " + unit);
        }
        return value;
    }

    /** The end of the last segment that is whole and durable; a value that is none counts as 0. */
    long ready() {
        final long value = wordAcquire(Layout.JOURNAL_CONTROL_READY); // pairs with: prepare 5
        return isPosition(value) && (value & segmentSize - 1) == 0 ? value : 0;
    }

    static boolean isPosition(long value) {
        return value >= 0 && value < Layout.MAX_POSITION && (value & ALIGNMENT - 1) == 0;
    }

    /** The beginning of the segment that a position lies in. */
    long segmentOf(long position) {
        return position & -segmentSize;
    }

    /** 0 never, -1 each append, else ns. */
    long syncEvery() {
        final long every = word(Layout.JOURNAL_CONTROL_SYNC_EVERY);
        return every >= Layout.JOURNAL_SYNC_EACH ? every : Layout.JOURNAL_SYNC_NEVER;
    }

    /** Ns since {@code synced_at} by the wall clock; the longest time if that lies in the future. */
    long sinceSync() {
        final long at = Math.max(0, word(Layout.JOURNAL_CONTROL_SYNCED_AT));
        final long now = identity.now();
        return now < at ? Long.MAX_VALUE : now - at;
    }

    /** {@code max_age} or {@code max_size}; 0: no limit. */
    long limit(int at) {
        return Math.max(0, word(at));
    }

    boolean trimsConsumed() {
        return control.getIntOpaque(Layout.JOURNAL_CONTROL_TRIM_CONSUMED) != 0;
    }

    /** Not 0: the journal was unlinked. */
    int successor() {
        return control.getIntOpaque(Layout.JOURNAL_CONTROL_SUCCESSOR);
    }

    /** Whether the journal was last made whole in this boot, so that {@code published} counts. */
    boolean isOfBoot() {
        if (!whole) {
            for (int i = 0; i < boot.length; i++) {
                if (control.getByte(Layout.JOURNAL_CONTROL_BOOT_ID + i) != boot[i]) {
                    return false;
                }
            }
            VarHandle.acquireFence(); // pairs with: recover 7
            whole = true;
        }
        return true;
    }

    void storeBoot() {
        VarHandle.releaseFence(); // recover 7: last; pairs with: isOfBoot
        control.putBytes(Layout.JOURNAL_CONTROL_BOOT_ID, boot, 0, boot.length);
    }

    void checkRecovered() {
        if (!isOfBoot()) {
            throw new NeedsRecoveryException(path);
        }
    }

    /** Throws once the journal has no name any more: its segments are gone. */
    void checkLinked() {
        if (successor() != 0) {
            throw new NoSuchChannelException(path, "The journal " + path + " was unlinked. Create it again.");
        }
    }

    boolean failed() {
        return control.getIntAcquire(Layout.JOURNAL_CONTROL_FAILED) != 0; // pairs with: fail
    }

    void failed(int value) {
        control.putIntRelease(Layout.JOURNAL_CONTROL_FAILED, value); // pairs with: failed
    }

    /** A sync has failed: the writer ends (5). */
    void fail(int errno) {
        syncErrno = errno;
        failed(1);
        VarHandle.releaseFence(); // pairs with: the writer's comparison of its epoch
        control.getAndAddLong(Layout.JOURNAL_CONTROL_SLOT + Layout.PUBLISHER_SLOT_EPOCH, 1);
    }

    IoException failure() {
        final int errno = syncErrno != 0 ? syncErrno : Linux.EIO;
        return new IoException("fdatasync", errno, path, path + ": a sync failed: " + Linux.text(errno) + ". What was"
            + " appended since the last sync may not be durable. Look at the disk, then take the writer again: it"
            + " writes all that once more.");
    }

    WaitingWords data() {
        return new WaitingWords(control, Layout.JOURNAL_CONTROL_DATA_SEQUENCE, Layout.JOURNAL_CONTROL_DATA_ASLEEP);
    }

    WaitingWords work() {
        return new WaitingWords(control, Layout.JOURNAL_CONTROL_WORK_SEQUENCE, Layout.JOURNAL_CONTROL_WORK_ASLEEP);
    }

    /** The offset in the file of a byte of the control section. */
    long lockByte(int at) {
        return header.controlOffset + at;
    }

    void syncControl() {
        ChannelFile.check("fdatasync", file.syncData(), controlPath(path));
    }

    String schema() {
        return new String(file.read(header.schemaOffset, (int) header.schemaLength), StandardCharsets.UTF_8);
    }

    CorruptJournalException corrupt(long position, String reason) {
        return new CorruptJournalException(position, reason, path);
    }

    // ---- segments ----

    String segmentPath(long base) {
        final String digits = Long.toString(base);
        return path + "/" + "0".repeat(DIGITS - digits.length()) + digits + ".seg";
    }

    static boolean isSegmentName(String name) {
        return SEGMENT.matcher(name).matches();
    }

    /** The positions that the names of segments say, ascending; they need not be whole. */
    long[] segments() {
        long[] found = new long[16];
        int number = 0;
        final List<String> names = Folder.names(path);
        if (names == null) {
            return new long[0];
        }
        for (String name : names) {
            final long base = isSegmentName(name) ? parsed(name) : -1;
            if (base >= 0 && base < Layout.MAX_POSITION && (base & segmentSize - 1) == 0) {
                found = number == found.length ? Arrays.copyOf(found, 2 * number) : found;
                found[number++] = base;
            }
        }
        found = Arrays.copyOf(found, number);
        Arrays.sort(found);
        return found;
    }

    private static long parsed(String name) {
        try {
            return Long.parseLong(name.substring(0, DIGITS));
        } catch (NumberFormatException beyondLong) {
            return -1;
        }
    }

    /** The highest whole segment that begins at or below a position; -1 if there is none. */
    long wholeAtOrBelow(long position) {
        final long[] all = segments();
        for (int i = all.length - 1; i >= 0; i--) {
            if (all[i] <= position && JournalSegment.isWhole(this, all[i])) {
                return all[i];
            }
        }
        return -1;
    }

    /** Whether a file has the name of the segment that begins at a position. */
    boolean hasSegment(long base) {
        return !Files.notExists(Path.of(segmentPath(base)));
    }

    void unlinkSegment(long base) {
        unlink(segmentPath(base));
    }

    static void unlink(String path) {
        try {
            Files.deleteIfExists(Path.of(path));
        } catch (java.nio.file.AccessDeniedException e) {
            throw new AccessDeniedException(path, "permission denied", path + " may not be removed: permission denied."
                + " Check owner and mode of its folder.");
        } catch (IOException e) {
            throw ChannelFile.io("unlink", e, path);
        }
    }

    /** Writes the names in the folder to the disk. */
    void syncFolder() {
        ChannelFile.syncFolder(controlPath(path));
    }

    @Override
    public void close() {
        file.close();
    }
}
