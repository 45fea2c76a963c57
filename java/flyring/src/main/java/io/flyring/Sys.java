// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import java.nio.ByteBuffer;

/**
 * The system calls that Flyring needs, through JNA. The jar holds a second version of this class for Java 22 and newer,
 * which uses java.lang.foreign. Each call returns its result or the negated error number. None is on a hot path.
 */
final class Sys {
    /** The name of this version of the class. */
    static String implementation() {
        return "jna";
    }

    static {
        Native.register(Sys.class, "c");
    }

    private static final long BITS = 0xffff_ffffL;

    private Sys() {
    }

    // open and fcntl are variadic in C: on Linux x86-64 and AArch64 such arguments are passed as all others are.
    private static native int open(String path, int flags, int mode);

    private static native int fcntl(int fd, int command, Pointer argument);

    private static native int close(int fd);

    private static native int posix_fallocate(int fd, long offset, long length);

    private static native int linkat(int fromFolder, String from, int toFolder, String to, int flags);

    private static native int rename(String from, String to);

    private static native int mkdir(String path, int mode);

    private static native int fchmod(int fd, int mode);

    private static native int statx(int folder, long path, int flags, int mask, long result);

    private static native int fstatfs(int fd, Pointer result);

    private static native int geteuid();

    private static native int getpagesize();

    private static native int madvise(Pointer address, long length, int advice);

    private static native long mmap(long address, long length, int protection, int flags, int fd, long offset);

    private static native int munmap(long address, long length);

    private static native int msync(long address, long length, int flags);

    private static native int fsync(int fd);

    private static native int fdatasync(int fd);

    private static native int flock(int fd, int operation);

    private static native int clock_gettime(int clock, long time);

    private static native long pread(int fd, long target, long length, long offset);

    private static native long pwrite(int fd, long source, long length, long offset);

    private static native long lseek(int fd, long offset, int whence);

    private static native int getrlimit(int resource, Pointer result);

    private static native long syscall(long number, long first, long second, long third, long fourth, long fifth,
        long sixth);

    private static int result(int returned) {
        return returned >= 0 ? returned : -Native.getLastError();
    }

    private static long result(long returned) {
        return returned >= 0 ? returned : -Native.getLastError();
    }

    /** Maps a file shared; the offset must be a multiple of the page size. */
    static long map(int fd, long offset, long length, boolean writable) {
        return result(mmap(0, length, writable ? Linux.PROT_READ | Linux.PROT_WRITE : Linux.PROT_READ,
            Linux.MAP_SHARED, fd, offset));
    }

    /** Replaces a mapping by private memory, atomically for all threads. */
    static long detach(long address, long length) {
        return result(mmap(address, length, Linux.PROT_READ | Linux.PROT_WRITE, Linux.MAP_PRIVATE
            | Linux.MAP_ANONYMOUS | Linux.MAP_NORESERVE | Linux.MAP_FIXED, -1, 0));
    }

    static int unmap(long address, long length) {
        return result(munmap(address, length));
    }

    static long read(int fd, long target, long length, long offset) {
        return result(pread(fd, target, length, offset));
    }

    static long write(int fd, long source, long length, long offset) {
        return result(pwrite(fd, source, length, offset));
    }

    static long seek(int fd, long offset, int whence) {
        return result(lseek(fd, offset, whence));
    }

    /** The largest length of a file that this process may write (RLIMIT_FSIZE); negative if unlimited or not known. */
    static long fileLimit() {
        try (Memory limit = new Memory(2L * Long.BYTES)) {
            return getrlimit(Linux.RLIMIT_FSIZE, limit) == 0 ? limit.getLong(0) : -1;
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
        return result(syscall(Linux.SYS_FUTEX_WAITV, 0, 0, 0, 0, 0, 0)) == -Linux.EINVAL;
    }

    static int openFile(String path, int flags, int mode) {
        return result(open(path, flags, mode));
    }

    /** Reads entries of a folder; returns how many bytes, 0 at its end. */
    static int entries(int fd, long target, int length) {
        return (int) result(syscall(Linux.SYS_GETDENTS64, fd, target, length, 0, 0, 0));
    }

    static int closeFile(int fd) {
        return result(close(fd));
    }

    /** Calls fcntl with a struct flock; F_OFD_GETLK returns the type of the conflicting lock, F_UNLCK if none. */
    static int lock(int fd, int command, int type, long start, long length) {
        try (Memory flock = new Memory(Linux.FLOCK_SIZE)) {
            flock.clear();
            flock.setShort(0, (short) type);
            flock.setLong(Linux.FLOCK_START, start);
            flock.setLong(Linux.FLOCK_LENGTH, length);
            int result = result(fcntl(fd, command, flock));
            return result == 0 && command == Linux.F_OFD_GETLK ? flock.getShort(0) : result;
        }
    }

    /**
     * Returns where a lock on these bytes begins; any of them, not the first. {@link Linux#NO_LOCK} if there is none,
     * {@link Linux#OTHER_LOCK} if it is not one byte long, or a negative errno.
     */
    static long lockedAt(int fd, long start, long length) {
        try (Memory flock = new Memory(Linux.FLOCK_SIZE)) {
            flock.clear();
            flock.setShort(0, (short) Linux.F_WRLCK);
            flock.setLong(Linux.FLOCK_START, start);
            flock.setLong(Linux.FLOCK_LENGTH, length);
            int result = result(fcntl(fd, Linux.F_OFD_GETLK, flock));
            if (result < 0 || flock.getShort(0) == Linux.F_UNLCK) {
                return result < 0 ? result : Linux.NO_LOCK;
            }
            return flock.getLong(Linux.FLOCK_LENGTH) == 1 ? flock.getLong(Linux.FLOCK_START) : Linux.OTHER_LOCK;
        }
    }

    /** Reserves a file's whole length. (posix_fallocate returns its error number and sets no errno.) */
    static int allocate(int fd, long length) {
        return -posix_fallocate(fd, 0, length);
    }

    /** Gives an open file, even one without a name, the name {@code path}, which must be free. */
    static int link(int fd, String path) {
        return result(linkat(Linux.AT_FDCWD, "/proc/self/fd/" + fd, Linux.AT_FDCWD, path, Linux.AT_SYMLINK_FOLLOW));
    }

    static int renameFile(String from, String to) {
        return result(rename(from, to));
    }

    static int makeFolder(String path, int mode) {
        return result(mkdir(path, mode));
    }

    static int changeMode(int fd, int mode) {
        return result(fchmod(fd, mode));
    }

    /** Reads the file system's magic number and the bytes free to unprivileged users, if there is a limit. */
    static int fileSystem(int fd, long[] typeAndFree) {
        try (Memory statfs = new Memory(Linux.STATFS_SIZE)) {
            int result = result(fstatfs(fd, statfs));
            typeAndFree[0] = statfs.getLong(0);
            typeAndFree[1] = statfs.getLong(Linux.STATFS_BLOCKS) == 0 ? Long.MAX_VALUE
                : statfs.getLong(Linux.STATFS_BLOCK_SIZE) * statfs.getLong(Linux.STATFS_AVAILABLE);
            return result;
        }
    }

    /** Reads a struct statx; {@code empty} is the address of a zero byte. Allocates nothing. */
    static int status(int fd, long empty, long status) {
        return statx(fd, empty, Linux.AT_EMPTY_PATH, Linux.STATX_BASIC_STATS, status);
    }

    /**
     * Reads the status of a file with a name, or of an open one: mode, inode and device.
     *
     * @param name its path, of which a last symbolic link is not followed; empty for the file that is {@code fd}.
     */
    static int status(int fd, String name, long[] modeInodeDevice) {
        final byte[] path = Native.toByteArray(name);
        try (Memory memory = new Memory(Linux.STATX_SIZE + path.length)) {
            memory.write(Linux.STATX_SIZE, path, 0, path.length);
            final long at = Pointer.nativeValue(memory);
            final int flags = name.isEmpty() ? Linux.AT_EMPTY_PATH : Linux.AT_SYMLINK_NOFOLLOW;
            final int result = result(statx(fd, at + Linux.STATX_SIZE, flags, Linux.STATX_BASIC_STATS, at));
            modeInodeDevice[0] = memory.getShort(Linux.STATX_MODE) & Linux.STATX_MODE_MASK;
            modeInodeDevice[1] = memory.getLong(Linux.STATX_INODE);
            modeInodeDevice[2] = memory.getLong(Linux.STATX_DEVICE);
            return result;
        }
    }

    static int effectiveUser() {
        return geteuid();
    }

    static int pageSize() {
        return getpagesize();
    }

    static int advise(long address, long length, int advice) {
        return result(madvise(new Pointer(address), length, advice));
    }

    /** Writes mapped pages to the disk; the address is a multiple of the page size. */
    static int syncPages(long address, long length) {
        return result(msync(address, length, Linux.MS_SYNC));
    }

    /** Writes a file, or a folder, to the disk. */
    static int syncFile(int fd) {
        return result(fsync(fd));
    }

    /** Writes the bytes of a file to the disk, and of its status only what reading them needs. */
    static int syncData(int fd) {
        return result(fdatasync(fd));
    }

    /** Locks a folder's description; waits while another process has the lock. */
    static int lockFolder(int fd) {
        return result(flock(fd, Linux.LOCK_EX));
    }

    /** Reads a clock into a struct timespec. Allocates nothing. */
    static void clock(int clock, long time) {
        clock_gettime(clock, time);
    }

    static long address(ByteBuffer direct) {
        return Pointer.nativeValue(Native.getDirectBufferPointer(direct));
    }

    /** A direct buffer over memory that the buffer does not own. */
    static ByteBuffer bufferAt(long address, int length) {
        return new Pointer(address).getByteBuffer(0, length);
    }
}
