// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * The system calls that Flyring needs, through java.lang.foreign, for Java 22 and newer; the methods are those of the
 * JNA version. Each call returns its result or the negated error number. None is on a hot path.
 */
@SuppressWarnings("restricted")
final class Sys {
    /** The name of this version of the class. */
    static String implementation() {
        return "ffm";
    }

    private static final Linker LINKER = Linker.nativeLinker();
    private static final Linker.Option ERRNO_STATE = Linker.Option.captureCallState("errno");
    private static final VarHandle ERRNO = Linker.Option.captureStateLayout()
        .varHandle(MemoryLayout.PathElement.groupElement("errno"));

    private static final MethodHandle OPEN = variadic("open", 2, ADDRESS, JAVA_INT, JAVA_INT);
    private static final MethodHandle FCNTL = variadic("fcntl", 2, JAVA_INT, JAVA_INT, ADDRESS);
    private static final MethodHandle CLOSE = function("close", JAVA_INT);
    private static final MethodHandle FALLOCATE = function("posix_fallocate", JAVA_INT, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle LINKAT = function("linkat", JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_INT);
    private static final MethodHandle MKDIR = function("mkdir", ADDRESS, JAVA_INT);
    private static final MethodHandle RENAME = function("rename", ADDRESS, ADDRESS);
    private static final MethodHandle FCHMOD = function("fchmod", JAVA_INT, JAVA_INT);
    private static final MethodHandle STATX = LINKER.downcallHandle(LINKER.defaultLookup().find("statx").orElseThrow(),
        FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG));
    private static final MethodHandle STATX_ERRNO =
        function("statx", JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT, ADDRESS);
    private static final MethodHandle FSTATFS = function("fstatfs", JAVA_INT, ADDRESS);
    private static final MethodHandle GETEUID = function("geteuid");
    private static final MethodHandle GETPAGESIZE = function("getpagesize");
    private static final MethodHandle MADVISE = function("madvise", JAVA_LONG, JAVA_LONG, JAVA_INT);

    private static final MethodHandle MMAP =
        longFunction("mmap", JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG);
    private static final MethodHandle MUNMAP = function("munmap", JAVA_LONG, JAVA_LONG);
    private static final MethodHandle MSYNC = function("msync", JAVA_LONG, JAVA_LONG, JAVA_INT);
    private static final MethodHandle FSYNC = function("fsync", JAVA_INT);
    private static final MethodHandle FDATASYNC = function("fdatasync", JAVA_INT);
    private static final MethodHandle FLOCK = function("flock", JAVA_INT, JAVA_INT);
    private static final MethodHandle CLOCK = LINKER.downcallHandle(
        LINKER.defaultLookup().find("clock_gettime").orElseThrow(),
        FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG));
    private static final MethodHandle PREAD = longFunction("pread", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle PWRITE = longFunction("pwrite", JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
    private static final MethodHandle LSEEK = longFunction("lseek", JAVA_INT, JAVA_LONG, JAVA_INT);
    private static final MethodHandle GETRLIMIT = function("getrlimit", JAVA_INT, ADDRESS);

    /** System calls by number, which sleep or wake. Not linked as critical, else a garbage collection would wait. */
    private static final MethodHandle SYSCALL = LINKER.downcallHandle(
        LINKER.defaultLookup().find("syscall").orElseThrow(), FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG,
            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG), Linker.Option.firstVariadicArg(1));
    private static final MethodHandle SYSCALL_ERRNO = LINKER.downcallHandle(
        LINKER.defaultLookup().find("syscall").orElseThrow(), FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG,
            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG), Linker.Option.firstVariadicArg(1), ERRNO_STATE);
    private static final long BITS = 0xffff_ffffL;

    private Sys() {
    }

    private static MethodHandle longFunction(String name, MemoryLayout... arguments) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(),
            FunctionDescriptor.of(JAVA_LONG, arguments), ERRNO_STATE);
    }

    private static MethodHandle function(String name, MemoryLayout... arguments) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(),
            FunctionDescriptor.of(JAVA_INT, arguments), ERRNO_STATE);
    }

    private static MethodHandle variadic(String name, int fixed, MemoryLayout... arguments) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find(name).orElseThrow(),
            FunctionDescriptor.of(JAVA_INT, arguments), ERRNO_STATE, Linker.Option.firstVariadicArg(fixed));
    }

    /** One call with an arena that lives as long as the call. */
    private interface Call {
        long make(Arena arena, MemorySegment errno) throws Throwable;
    }

    private static int call(Call call) {
        return (int) longCall(call);
    }

    private static long longCall(Call call) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment state = arena.allocate(Linker.Option.captureStateLayout());
            long returned = call.make(arena, state);
            return returned >= 0 ? returned : -(int) ERRNO.get(state, 0L);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("A call into the C library failed.", e);
        }
    }

    static int openFile(String path, int flags, int mode) {
        return call((arena, errno) -> (int) OPEN.invokeExact(errno, arena.allocateFrom(path), flags, mode));
    }

    /** Reads entries of a folder; returns how many bytes, 0 at its end. */
    static int entries(int fd, long target, int length) {
        return call((arena, errno) -> (int) (long) SYSCALL_ERRNO.invokeExact(errno, (long) Linux.SYS_GETDENTS64,
            (long) fd, target, (long) length, 0L, 0L, 0L));
    }

    static int closeFile(int fd) {
        return call((arena, errno) -> (int) CLOSE.invokeExact(errno, fd));
    }

    /** Calls fcntl with a struct flock; F_OFD_GETLK returns the type of the conflicting lock, F_UNLCK if none. */
    static int lock(int fd, int command, int type, long start, long length) {
        return call((arena, errno) -> {
            MemorySegment flock = arena.allocate(Linux.FLOCK_SIZE, 8);
            flock.set(JAVA_SHORT, 0, (short) type);
            flock.set(JAVA_LONG, Linux.FLOCK_START, start);
            flock.set(JAVA_LONG, Linux.FLOCK_LENGTH, length);
            int result = (int) FCNTL.invokeExact(errno, fd, command, flock);
            return result == 0 && command == Linux.F_OFD_GETLK ? flock.get(JAVA_SHORT, 0) : result;
        });
    }

    /**
     * Returns where a lock on these bytes begins; any of them, not the first. {@link Linux#NO_LOCK} if there is none,
     * {@link Linux#OTHER_LOCK} if it is not one byte long, or a negative errno.
     */
    static long lockedAt(int fd, long start, long length) {
        long[] found = {Linux.NO_LOCK};
        int result = call((arena, errno) -> {
            MemorySegment flock = arena.allocate(Linux.FLOCK_SIZE, 8);
            flock.set(JAVA_SHORT, 0, (short) Linux.F_WRLCK);
            flock.set(JAVA_LONG, Linux.FLOCK_START, start);
            flock.set(JAVA_LONG, Linux.FLOCK_LENGTH, length);
            int done = (int) FCNTL.invokeExact(errno, fd, Linux.F_OFD_GETLK, flock);
            if (done == 0 && flock.get(JAVA_SHORT, 0) != Linux.F_UNLCK) {
                found[0] = flock.get(JAVA_LONG, Linux.FLOCK_LENGTH) == 1 ? flock.get(JAVA_LONG, Linux.FLOCK_START)
                    : Linux.OTHER_LOCK;
            }
            return done;
        });
        return result < 0 ? result : found[0];
    }

    /** Reserves a file's whole length. (posix_fallocate returns its error number and sets no errno.) */
    static int allocate(int fd, long length) {
        return -call((arena, errno) -> (int) FALLOCATE.invokeExact(errno, fd, 0L, length));
    }

    /** Gives an open file, even one without a name, the name {@code path}, which must be free. */
    static int link(int fd, String path) {
        return call((arena, errno) -> (int) LINKAT.invokeExact(errno, Linux.AT_FDCWD,
            arena.allocateFrom("/proc/self/fd/" + fd), Linux.AT_FDCWD, arena.allocateFrom(path),
            Linux.AT_SYMLINK_FOLLOW));
    }

    static int renameFile(String from, String to) {
        return call((arena, errno) ->
            (int) RENAME.invokeExact(errno, arena.allocateFrom(from), arena.allocateFrom(to)));
    }

    static int makeFolder(String path, int mode) {
        return call((arena, errno) -> (int) MKDIR.invokeExact(errno, arena.allocateFrom(path), mode));
    }

    static int changeMode(int fd, int mode) {
        return call((arena, errno) -> (int) FCHMOD.invokeExact(errno, fd, mode));
    }

    /** Reads the file system's magic number and the bytes free to unprivileged users. */
    static int fileSystem(int fd, long[] typeAndFree) {
        return call((arena, errno) -> {
            MemorySegment statfs = arena.allocate(Linux.STATFS_SIZE, 8);
            int result = (int) FSTATFS.invokeExact(errno, fd, statfs);
            typeAndFree[0] = statfs.get(JAVA_LONG, 0);
            typeAndFree[1] = statfs.get(JAVA_LONG, Linux.STATFS_BLOCKS) == 0 ? Long.MAX_VALUE
                : statfs.get(JAVA_LONG, Linux.STATFS_BLOCK_SIZE) * statfs.get(JAVA_LONG, Linux.STATFS_AVAILABLE);
            return result;
        });
    }

    /** Reads a struct statx; {@code empty} is the address of a zero byte. Allocates nothing. */
    static int status(int fd, long empty, long status) {
        try {
            return (int) STATX.invokeExact(fd, empty, Linux.AT_EMPTY_PATH, Linux.STATX_BASIC_STATS, status);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("A call into the C library failed.", e);
        }
    }

    /**
     * Reads the status of a file with a name, or of an open one: mode, inode and device.
     *
     * @param name its path, of which a last symbolic link is not followed; empty for the file that is {@code fd}.
     */
    static int status(int fd, String name, long[] modeInodeDevice) {
        return call((arena, errno) -> {
            MemorySegment status = arena.allocate(Linux.STATX_SIZE, 8);
            int flags = name.isEmpty() ? Linux.AT_EMPTY_PATH : Linux.AT_SYMLINK_NOFOLLOW;
            int result = (int) STATX_ERRNO.invokeExact(errno, fd, arena.allocateFrom(name), flags,
                Linux.STATX_BASIC_STATS, status);
            modeInodeDevice[0] = status.get(JAVA_SHORT, Linux.STATX_MODE) & Linux.STATX_MODE_MASK;
            modeInodeDevice[1] = status.get(JAVA_LONG, Linux.STATX_INODE);
            modeInodeDevice[2] = status.get(JAVA_LONG, Linux.STATX_DEVICE);
            return result;
        });
    }

    /** Maps a file shared; the offset must be a multiple of the page size. */
    static long map(int fd, long offset, long length, boolean writable) {
        int protection = writable ? Linux.PROT_READ | Linux.PROT_WRITE : Linux.PROT_READ;
        return longCall((arena, errno) ->
            (long) MMAP.invokeExact(errno, 0L, length, protection, Linux.MAP_SHARED, fd, offset));
    }

    /** Replaces a mapping by private memory, atomically for all threads. */
    static long detach(long address, long length) {
        int flags = Linux.MAP_PRIVATE | Linux.MAP_ANONYMOUS | Linux.MAP_NORESERVE | Linux.MAP_FIXED;
        return longCall((arena, errno) ->
            (long) MMAP.invokeExact(errno, address, length, Linux.PROT_READ | Linux.PROT_WRITE, flags, -1, 0L));
    }

    static int unmap(long address, long length) {
        return call((arena, errno) -> (int) MUNMAP.invokeExact(errno, address, length));
    }

    static long read(int fd, long target, long length, long offset) {
        return longCall((arena, errno) -> (long) PREAD.invokeExact(errno, fd, target, length, offset));
    }

    static long write(int fd, long source, long length, long offset) {
        return longCall((arena, errno) -> (long) PWRITE.invokeExact(errno, fd, source, length, offset));
    }

    static long seek(int fd, long offset, int whence) {
        return longCall((arena, errno) -> (long) LSEEK.invokeExact(errno, fd, offset, whence));
    }

    /** The largest length of a file that this process may write (RLIMIT_FSIZE); negative if unlimited or not known. */
    static long fileLimit() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment limit = arena.allocate(2L * Long.BYTES, 8);
            return call((inner, errno) -> (int) GETRLIMIT.invokeExact(errno, Linux.RLIMIT_FSIZE, limit)) == 0
                ? limit.get(JAVA_LONG, 0) : -1;
        }
    }

    private static long syscall(long number, long first, long second, long third, long fourth, long fifth,
        long sixth) {
        try {
            return (long) SYSCALL.invokeExact(number, first, second, third, fourth, fifth, sixth);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("A call into the C library failed.", e);
        }
    }

    /** Makes the membarrier system call; returns 0 if it succeeded. */
    static long membarrier(int command) {
        return syscall(Linux.SYS_MEMBARRIER, command, 0, 0, 0, 0, 0);
    }

    /** Wakes all that wait on a word with a mask that shares a bit with {@code bits}. Allocates nothing. */
    static void futexWake(long word, int bits) {
        syscall(Linux.SYS_FUTEX, word, Linux.FUTEX_WAKE_BITSET, Integer.MAX_VALUE, 0, 0, bits & BITS);
    }

    /** Does the same for one waiter. Allocates nothing. */
    static void futexWakeOne(long word, int bits) {
        syscall(Linux.SYS_FUTEX, word, Linux.FUTEX_WAKE_BITSET, 1, 0, 0, bits & BITS);
    }

    /**
     * Waits while a word holds a value, until a time of CLOCK_MONOTONIC. The garbage collector does not wait for a
     * thread in this call. Allocates nothing.
     *
     * @param time address of a struct timespec.
     */
    static void futexWait(long word, int value, long time, int bits) {
        syscall(Linux.SYS_FUTEX, word, Linux.FUTEX_WAIT_BITSET, value & BITS, time, 0, bits & BITS);
    }

    /** Waits on several words, each described by a struct futex_waitv. Allocates nothing. */
    static void futexWaitMany(long words, int number, long time) {
        syscall(Linux.SYS_FUTEX_WAITV, words, number, 0, time, Linux.CLOCK_MONOTONIC, 0);
    }

    /** Whether this process may use futex_waitv: then a call without words fails with EINVAL. */
    static boolean canFutexWaitMany() {
        return longCall((arena, errno) -> (long) SYSCALL_ERRNO.invokeExact(errno, (long) Linux.SYS_FUTEX_WAITV, 0L, 0L,
            0L, 0L, 0L, 0L)) == -Linux.EINVAL;
    }

    static int effectiveUser() {
        return call((arena, errno) -> (int) GETEUID.invokeExact(errno));
    }

    static int pageSize() {
        return call((arena, errno) -> (int) GETPAGESIZE.invokeExact(errno));
    }

    static int advise(long address, long length, int advice) {
        return call((arena, errno) -> (int) MADVISE.invokeExact(errno, address, length, advice));
    }

    /** Writes mapped pages to the disk; the address is a multiple of the page size. */
    static int syncPages(long address, long length) {
        return call((arena, errno) -> (int) MSYNC.invokeExact(errno, address, length, Linux.MS_SYNC));
    }

    /** Writes a file, or a folder, to the disk. */
    static int syncFile(int fd) {
        return call((arena, errno) -> (int) FSYNC.invokeExact(errno, fd));
    }

    /** Writes the bytes of a file to the disk, and of its status only what reading them needs. */
    static int syncData(int fd) {
        return call((arena, errno) -> (int) FDATASYNC.invokeExact(errno, fd));
    }

    /** Locks a folder's description; waits while another process has the lock. */
    static int lockFolder(int fd) {
        return call((arena, errno) -> (int) FLOCK.invokeExact(errno, fd, Linux.LOCK_EX));
    }

    /** Reads a clock into a struct timespec. Allocates nothing. */
    static void clock(int clock, long time) {
        try {
            final int ignored = (int) CLOCK.invokeExact(clock, time);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("A call into the C library failed.", e);
        }
    }

    static long address(ByteBuffer direct) {
        return MemorySegment.ofBuffer(direct).address() - direct.position();
    }

    /** A direct buffer over memory that the buffer does not own. */
    static ByteBuffer bufferAt(long address, int length) {
        return MemorySegment.ofAddress(address).reinterpret(length).asByteBuffer();
    }
}
