// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.function.ToIntBiFunction;
import java.util.function.ToIntFunction;

/** An open channel file: its descriptor, reads and writes, and its mappings (channel.md 3). */
final class ChannelFile implements AutoCloseable {
    /** File systems on which shared mappings, locks and links are known to work as the specification needs. */
    private static final Map<Long, String> FILE_SYSTEMS = Map.of(0x01021994L, "tmpfs", 0x858458F6L, "ramfs",
        0xEF53L, "ext4", 0x58465342L, "xfs", 0x794C7630L, "overlay");

    private static final int TYPE_MASK = 0170000;
    private static final int REGULAR = 0100000;

    private static final int PIECE = 1 << 16;
    private static final int MAP_TRIES = 5;
    private static final long MAP_RETRY_NANOS = 20_000_000;
    private static final long BTRFS = 0x9123683EL;
    private static final long OVERLAY = 0x794C7630L;

    private final String path;
    private final boolean readOnly;
    /** For {@link #removed}: a struct statx, followed by an empty path. */
    private final Memory status = Memory.of(ByteBuffer.allocateDirect(Linux.STATX_SIZE + 1));
    /** The descriptor; -1 once closed. */
    private int fd;
    /** The mappings that are not released yet. */
    private final Set<Memory> mapped = Collections.newSetFromMap(new WeakHashMap<>());
    /** Another way of mapping, for tests; null for the usual one. */
    private Mapper mapper;

    /** For tests: what a sync of a file with this path returns; null: the system is asked. */
    static volatile ToIntFunction<String> syncs;
    /** For tests: with what an allocation of a file fails, a negated error number; 0, or null: the system is asked. */
    static volatile ToIntFunction<String> allocations;
    /**
     * For tests: with what another system call fails, by its name and a file's path: a negated error number; 0, or
     * null: the system is asked.
     */
    static volatile ToIntBiFunction<String, String> faults;

    /** Maps a range of the file. */
    interface Mapper {
        Memory map(int fd, long offset, long length, boolean readOnly);
    }

    private ChannelFile(String path, int fd, boolean readOnly) {
        this.path = path;
        this.fd = fd;
        this.readOnly = readOnly;
    }

    static IoException io(String call, IOException e, String path) {
        IoException error = new IoException(call, 0, path, path + ": " + call + " failed: " + e.getMessage() + ".");
        error.initCause(e);
        return error;
    }

    static FlyringException io(String call, int errno, String path) {
        if (errno == Linux.EACCES || errno == Linux.EPERM || errno == Linux.EROFS) {
            return new AccessDeniedException(path, Linux.text(errno), path + " may not be used: " + call + ": "
                + Linux.text(errno) + ". Check owner and mode of the file and of its folder.");
        }
        return new IoException(call, errno, path, path + ": " + call + " failed: " + Linux.text(errno) + ".");
    }

    /** With what a system call is to fail, for a test; else 0. */
    static int fault(String call, String path) {
        final ToIntBiFunction<String, String> other = faults;
        return other == null ? 0 : other.applyAsInt(call, path);
    }

    static ChannelFile open(String path, boolean readOnly) {
        int fd = Sys.openFile(path, (readOnly ? Linux.O_RDONLY : Linux.O_RDWR) | Linux.O_CLOEXEC | Linux.O_NOFOLLOW
            | Linux.O_NONBLOCK, 0);
        switch (-fd) {
            case Linux.ENOENT, Linux.ENOTDIR -> throw new NoSuchChannelException(path,
                "There is no " + noun(path) + " " + path + ". Create it first, or check the name and FLYRING_DIR.");
            case Linux.ELOOP, Linux.EISDIR, Linux.ENXIO -> throw notRegular(path);
            default -> {
                if (fd < 0) {
                    throw io("open", -fd, path);
                }
            }
        }
        ChannelFile file = null;
        boolean good = false;
        try {
            file = new ChannelFile(path, fd, readOnly);
            file.readStatus();
            if ((file.status.getShort(Linux.STATX_MODE) & TYPE_MASK) != REGULAR) {
                throw notRegular(path);
            }
            good = true;
            return file;
        } finally {
            if (!good) {
                Sys.closeFile(fd);
            }
        }
    }

    /** What a path names, for a text. */
    private static String noun(String path) {
        return path.endsWith(".journal") || path.endsWith(".journal/control") || path.endsWith(".seg") ? "journal"
            : path.endsWith(".table") ? "table" : "channel";
    }

    private static NotAChannelException notRegular(String path) {
        return new NotAChannelException(path, path + " is not a Flyring " + noun(path) + ": it is no regular file.");
    }

    /** Creates a file of {@code length} bytes, without a name if the file system supports that. */
    static ChannelFile create(String path, long length, int mode, boolean anyFileSystem) {
        return create(path, length, mode, anyFileSystem, "Choose smaller dimensions, or make room: a container's"
            + " /dev/shm is 64 MiB unless --shm-size says otherwise.");
    }

    /** The same with what the user is to do if there is no space. */
    static ChannelFile create(String path, long length, int mode, boolean anyFileSystem, String advice) {
        String folder = folder(path);
        String temporary = null;
        int fd = Sys.openFile(folder, Linux.O_TMPFILE | Linux.O_RDWR | Linux.O_CLOEXEC, mode);
        if (fd == -Linux.EOPNOTSUPP || fd == -Linux.EISDIR) {
            temporary = temporary(path);
            fd = Sys.openFile(temporary, Linux.O_CREAT | Linux.O_EXCL | Linux.O_NOFOLLOW | Linux.O_RDWR
                | Linux.O_CLOEXEC, mode);
        }
        if (fd < 0) {
            throw io("open", -fd, folder);
        }
        ChannelFile file = null;
        boolean good = false;
        try {
            check("fchmod", Sys.changeMode(fd, mode), path);
            file = new ChannelFile(temporary == null ? path : temporary, fd, false);
            file.checkFileSystem(anyFileSystem);
            file.allocate(length, advice);
            good = true;
            return file;
        } finally {
            if (!good) {
                Sys.closeFile(fd);
                remove(temporary);
            }
        }
    }

    static String folder(String path) {
        int slash = path.lastIndexOf('/');
        return slash == 0 ? "/" : path.substring(0, slash);
    }

    static String temporary(String path) {
        int slash = path.lastIndexOf('/');
        final String random = UUID.randomUUID().toString().replace("-", ""); // letters and digits: Python expects them
        return path.substring(0, slash + 1) + "." + path.substring(slash + 1) + "." + random + ".tmp";
    }

    static void check(String call, int result, String path) {
        if (result < 0) {
            throw io(call, -result, path);
        }
    }

    /** Throws if the file system is not suitable (3.1). */
    void checkFileSystem(boolean any) {
        long[] typeAndFree = new long[2];
        check("fstatfs", Sys.fileSystem(fd, typeAndFree), path);
        if (!any) {
            checkSuited(typeAndFree[0]);
        }
    }

    void checkSuited(long type) {
        if (type == BTRFS) {
            throw new UnsuitableFileSystemException(path, "btrfs: when its disk is full, a store may never return", path
                + " lies on btrfs: when its disk is full, a store may never return. Use /dev/shm, or create the "
                + noun(path) + " with anyFileSystem(true).");
        }
        if (!FILE_SYSTEMS.containsKey(type)) {
            throw new UnsuitableFileSystemException(path, "type 0x" + Long.toHexString(type), path
                + " lies on a file system of type 0x" + Long.toHexString(type) + ", on which sharing memory"
                + " is not known to work. Use /dev/shm, or create the " + noun(path) + " with anyFileSystem(true).");
        }
        if (type == OVERLAY && readOnly) {
            throw new UnsuitableFileSystemException(path, "overlay: a reader may keep an old copy", path
                + " lies on overlayfs, where a reader may keep an old copy. Attach it read-write, or use a volume.");
        }
    }

    private void allocate(long length, String advice) {
        long[] typeAndFree = new long[2];
        check("fstatfs", Sys.fileSystem(fd, typeAndFree), path);
        long limit = Sys.fileLimit();
        if (limit >= 0 && limit < length) { // a write beyond it raises SIGXFSZ
            throw new NoSpaceException(length, limit, path + " needs " + length + " bytes; this process may write files"
                + " of " + limit + " (ulimit -f). Choose smaller dimensions, or raise that limit.");
        }
        final ToIntFunction<String> other = allocations;
        int result = typeAndFree[1] < length ? -Linux.ENOSPC : other == null ? 0 : other.applyAsInt(path);
        result = result == 0 ? Sys.allocate(fd, length) : result;
        if (result == -Linux.ENOSPC || result == -Linux.EDQUOT || result == -Linux.EFBIG) {
            throw new NoSpaceException(length, typeAndFree[1], path + " needs " + length + " bytes, the file system"
                + " has " + typeAndFree[1] + " free (" + Linux.text(-result) + "). " + advice);
        }
        check("posix_fallocate", result, path);
    }

    boolean readOnly() {
        return readOnly;
    }

    /** Whether the file's name was removed. Allocates nothing, because idle polls call it. */
    synchronized boolean removed() {
        return fd >= 0 && statusResult() == 0 && status.getInt(Linux.STATX_LINKS) == 0;
    }

    private int statusResult() {
        long at = status.address();
        int result = Sys.status(fd, at + Linux.STATX_SIZE, at);
        Reference.reachabilityFence(status);
        return result;
    }

    private void readStatus() {
        if (statusResult() != 0) {
            throw new IoException("statx", 0, path, path + ": statx failed.");
        }
    }

    /** Opens another description of the same file, for locks: never mapped, duplicated or passed on (5.1). */
    synchronized Lock newLock() {
        check("open", fault("open", path), path);
        return new Lock(open(), path);
    }

    /** Whether any process holds the lock on a byte; this description holds no locks itself. */
    synchronized boolean locked(long offset) {
        int result = Sys.lock(open(), Linux.F_OFD_GETLK, Linux.F_WRLCK, offset, 1);
        check("fcntl", result, path);
        return result != Linux.F_UNLCK;
    }

    /** Whether any process holds the lock on each of {@code count} bytes, which lie {@code stride} bytes apart. */
    synchronized boolean[] lockedEach(long first, int stride, int count) {
        boolean[] held = new boolean[count];
        testLocks(held, first, stride, 0, count);
        return held;
    }

    /**
     * Tests the bytes from {@code begin} up to {@code end}. The kernel names one lock of a range, so a call finds one,
     * or that a whole run of bytes has none. That takes a call for each lock, and at most one for each run without.
     */
    private void testLocks(boolean[] held, long first, int stride, int begin, int end) {
        if (begin >= end) {
            return;
        }
        long at = first + (long) begin * stride;
        long found = Sys.lockedAt(open(), at, (long) stride * (end - begin - 1) + 1);
        check("fcntl", (int) Math.min(found, 0), path);
        if (found == Linux.NO_LOCK) {
            return;
        }
        int slot = begin;
        if (found != Linux.OTHER_LOCK && found >= at && (found - at) % stride == 0) {
            slot += (int) ((found - at) / stride);
            held[slot] = true;
        } else { // a program that is no Flyring has locked something else: only a test of the byte tells
            held[slot] = locked(at);
        }
        testLocks(held, first, stride, begin, slot);
        testLocks(held, first, stride, slot + 1, end);
    }

    /** The descriptor; throws if it was closed, because its number may belong to another file. */
    private int open() {
        if (fd < 0) {
            throw new ClosedException("The " + noun(path) + " " + path + " is closed. Open it again.");
        }
        return fd;
    }

    synchronized long size() {
        open();
        readStatus();
        return status.getLong(Linux.STATX_LENGTH);
    }

    /** Reads up to {@code length} bytes from {@code offset}; fewer at the end of the file. */
    synchronized byte[] read(long offset, int length) {
        byte[] bytes = new byte[length];
        Memory piece = Memory.of(ByteBuffer.allocateDirect(Math.min(length, PIECE)));
        int at = 0;
        while (at < length) {
            long result = Sys.read(open(), piece.address(), Math.min(length - at, PIECE), offset + at);
            if (result < 0 && result != -Linux.EINTR) {
                throw io("pread", (int) -result, path);
            }
            if (result == 0) {
                break;
            }
            if (result > 0) {
                piece.getBytes(0, bytes, at, (int) result);
                at += (int) result;
            }
        }
        Reference.reachabilityFence(piece);
        return at == length ? bytes : Arrays.copyOf(bytes, at);
    }

    synchronized void write(long offset, ByteBuffer bytes) {
        Memory piece = Memory.of(ByteBuffer.allocateDirect(Math.min(bytes.remaining(), PIECE)));
        int end = bytes.limit();
        for (int at = bytes.position(); at < end;) {
            int length = Math.min(end - at, PIECE);
            piece.putBytes(0, bytes, at, length);
            long result = Sys.write(open(), piece.address(), length, offset + at - bytes.position());
            if (result < 0 && result != -Linux.EINTR) {
                throw io("pwrite", (int) -result, path);
            }
            at += (int) Math.max(0, result);
        }
        Reference.reachabilityFence(piece);
    }

    /**
     * Maps a range that lies within the file; {@link Memory#prefault} brings its pages in. Does not use a FileChannel,
     * which is closed for all threads when one of them is interrupted.
     */
    synchronized Memory map(long offset, long length, boolean asReadOnly) {
        if (length == 0) {
            return Memory.EMPTY;
        }
        if (mapper != null) {
            return mapper.map(open(), offset, length, asReadOnly);
        }
        int skipped = (int) (offset & Sys.pageSize() - 1);
        check("mmap", fault("mmap", path), path);
        long result = Sys.map(open(), offset - skipped, skipped + length, !asReadOnly);
        for (int i = 1; result == -Linux.ENOMEM && i < MAP_TRIES; i++) {
            System.gc(); // unmaps the memory of closed channels
            Pause.nanos(MAP_RETRY_NANOS);
            result = Sys.map(fd, offset - skipped, skipped + length, !asReadOnly);
        }
        if (result < 0) {
            throw io("mmap", (int) -result, path);
        }
        Memory memory = Memory.mapped(result, skipped, (int) length, asReadOnly);
        mapped.add(memory);
        return memory;
    }

    /** Writes all that was changed to the disk. */
    synchronized void sync() {
        final ToIntFunction<String> other = syncs;
        check("fsync", other == null ? Sys.syncFile(open()) : other.applyAsInt(path), path);
    }

    /** Does the same for its bytes alone; returns 0, or the negated error number. */
    synchronized int syncData() {
        final ToIntFunction<String> other = syncs;
        return other == null ? Sys.syncData(open()) : other.applyAsInt(path);
    }

    /** The type of the file system. */
    synchronized long type() {
        long[] typeAndFree = new long[2];
        check("fstatfs", Sys.fileSystem(open(), typeAndFree), path);
        return typeAndFree[0];
    }

    /** Whether the file lies on overlayfs, where a sync may reach another file than the one that is mapped. */
    boolean onOverlay() {
        return type() == OVERLAY;
    }

    /** Reads into memory; returns how many bytes, fewer only at the file's end, or a negated error number. */
    synchronized int read(long offset, Memory target, int index, int length) {
        Objects.checkFromIndexSize(index, length, target.capacity());
        int done = fault("pread", path);
        if (done < 0) {
            return done;
        }
        while (done < length) {
            long result = Sys.read(open(), target.address() + index + done, length - done, offset + done);
            if (result == 0 || result < 0 && result != -Linux.EINTR) {
                return result == 0 ? done : (int) result;
            }
            done += (int) Math.max(0, result);
        }
        Reference.reachabilityFence(target);
        return done;
    }

    /** Writes from memory; returns 0, or a negated error number. */
    synchronized int write(long offset, Memory source, int index, int length) {
        Objects.checkFromIndexSize(index, length, source.capacity());
        int done = 0;
        while (done < length) {
            long result = Sys.write(open(), source.address() + index + done, length - done, offset + done);
            if (result < 0 && result != -Linux.EINTR) {
                return (int) result;
            }
            done += (int) Math.max(0, result);
        }
        Reference.reachabilityFence(source);
        return 0;
    }

    /** The permission bits. */
    synchronized int mode() {
        open();
        readStatus();
        return status.getShort(Linux.STATX_MODE) & 0777;
    }

    /** Whether the file lies in memory, and so ends with the boot. */
    synchronized boolean inMemory() {
        long[] typeAndFree = new long[2];
        check("fstatfs", Sys.fileSystem(open(), typeAndFree), path);
        String name = FILE_SYSTEMS.get(typeAndFree[0]);
        return "tmpfs".equals(name) || "ramfs".equals(name);
    }

    /** Writes the names in the folder of a path to the disk. */
    static void syncFolder(String path) {
        int folder = Sys.openFile(folder(path), Linux.O_RDONLY | Linux.O_DIRECTORY | Linux.O_CLOEXEC, 0);
        check("open", folder, folder(path));
        try {
            check("fsync", Sys.syncFile(folder), folder(path));
        } finally {
            Sys.closeFile(folder);
        }
    }

    /** Replaces a mapping by private memory: a thread that still uses it reads zeros, and does not change the file. */
    synchronized void release(Memory memory) {
        memory.detach(path);
        mapped.remove(memory);
    }

    /** Gives a created file its name; with {@code replace}, takes the name from the file that has it. */
    void publish(String name, boolean replace) {
        boolean named = !path.equals(name);
        String from = path;
        if (replace && !named) {
            from = temporary(name);
            check("linkat", Sys.link(fd, from), from);
        }
        int result = replace ? Sys.renameFile(from, name) : Sys.link(fd, name);
        if (replace ? result < 0 : named) {
            remove(from);
        }
        if (result == -Linux.EEXIST) {
            throw exists(name);
        }
        check(replace ? "rename" : "linkat", result, name);
    }

    static ChannelExistsException exists(String path) {
        return new ChannelExistsException(path, path + " exists already. Open it, replace it, or unlink it first.");
    }

    private static void remove(String path) {
        try {
            if (path != null) {
                Files.deleteIfExists(Path.of(path));
            }
        } catch (IOException e) {
            throw io("unlink", e, path);
        }
    }

    /** Closes a created file that never got its name. */
    void discard() {
        close();
        if (Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS) && path.endsWith(".tmp")) {
            remove(path);
        }
    }

    @Override
    public synchronized void close() {
        if (fd >= 0) {
            int open = fd;
            fd = -1;
            boolean done = false;
            try {
                Sys.closeFile(open);
                done = true;
            } finally {
                if (!done) { // an Error before the call: the next close does it
                    fd = open;
                }
            }
        }
        for (Memory memory : List.copyOf(mapped)) {
            release(memory);
        }
    }
}
