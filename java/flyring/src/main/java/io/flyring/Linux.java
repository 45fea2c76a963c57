// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Constants of Linux for system calls; x86-64 and AArch64 differ only where the code says so. */
final class Linux {
    static final int O_RDONLY = 0;
    static final int O_RDWR = 2;
    static final int O_CREAT = 0x40;
    static final int O_EXCL = 0x80;
    static final int O_CLOEXEC = 0x80000;
    static final int O_NONBLOCK = 0x800;
    static final int O_DIRECTORY = arm() ? 0x4000 : 0x10000;
    static final int O_NOFOLLOW = arm() ? 0x8000 : 0x20000;
    static final int O_TMPFILE = 0x400000 | O_DIRECTORY;

    static final int F_WRLCK = 1;
    static final int F_UNLCK = 2;
    static final int F_OFD_GETLK = 36;
    /** What Sys.lockedAt returns beside an offset. */
    static final long NO_LOCK = Long.MAX_VALUE;
    static final long OTHER_LOCK = Long.MAX_VALUE - 1;
    static final int F_OFD_SETLK = 37;

    static final int ENOENT = 2;
    static final int EINTR = 4;
    static final int EIO = 5;
    static final int EBADF = 9;
    static final int EACCES = 13;
    static final int EPERM = 1;
    static final int ENXIO = 6;
    static final int EAGAIN = 11;
    static final int ENOMEM = 12;
    static final int ENFILE = 23;
    static final int EMFILE = 24;
    static final int EEXIST = 17;
    static final int ENOTDIR = 20;
    static final int EISDIR = 21;
    static final int EINVAL = 22;
    static final int EFBIG = 27;
    static final int ENOSPC = 28;
    static final int EROFS = 30;
    static final int ELOOP = 40;
    static final int EOPNOTSUPP = 95;
    static final int EDQUOT = 122;

    static final int AT_FDCWD = -100;
    static final int AT_SYMLINK_FOLLOW = 0x400;
    static final int AT_SYMLINK_NOFOLLOW = 0x100;
    static final int AT_EMPTY_PATH = 0x1000;
    static final int STATX_BASIC_STATS = 0x7ff;

    /**
     * struct statx: 256 bytes everywhere; the offsets of stx_nlink (u32), stx_mode (u16), stx_ino (u64), stx_size (u64)
     * and stx_dev_major with stx_dev_minor (u32 each).
     */
    static final int STATX_SIZE = 256;
    static final int STATX_LINKS = 16;
    static final int STATX_MODE = 28;
    static final int STATX_MODE_MASK = 0xffff;
    static final int STATX_INODE = 32;
    static final int STATX_LENGTH = 40;
    static final int STATX_DEVICE = 136;

    static final int SEEK_SET = 0;
    static final int SEEK_CUR = 1;

    static final int PROT_READ = 1;
    static final int PROT_WRITE = 2;
    static final int MAP_SHARED = 1;
    static final int MAP_PRIVATE = 2;
    static final int MAP_FIXED = 0x10;
    static final int MAP_ANONYMOUS = 0x20;
    static final int MAP_NORESERVE = 0x4000;

    static final int MS_SYNC = 4;

    static final int LOCK_EX = 2;

    static final int RLIMIT_FSIZE = 1;

    static final int MADV_POPULATE_READ = 22;
    static final int MADV_POPULATE_WRITE = 23;

    /** struct flock: l_type at 0 (short), l_whence at 2 (short), l_start at 8, l_len at 16, l_pid at 24 (int). */
    static final int FLOCK_SIZE = 32;
    static final int FLOCK_START = 8;
    static final int FLOCK_LENGTH = 16;

    /** struct statfs: f_type at 0, f_blocks at 16, f_bavail at 32, f_frsize at 72; 120 bytes on both architectures. */
    static final int STATFS_SIZE = 120;
    static final int STATFS_BLOCK_SIZE = 72;
    static final int STATFS_BLOCKS = 16;
    static final int STATFS_AVAILABLE = 32;

    /** System calls without a function in the C library: their numbers, arguments and flags. */
    static final int SYS_FUTEX = arm() ? 98 : 202;
    static final int SYS_MEMBARRIER = arm() ? 283 : 324;
    static final int SYS_FUTEX_WAITV = 449;
    static final int SYS_GETDENTS64 = arm() ? 61 : 217;
    static final int FUTEX_WAIT_BITSET = 9;
    static final int FUTEX_WAKE_BITSET = 10;
    static final int FUTEX_32 = 2;
    static final int FUTEX_WAITV_MOST = 128;
    static final int CLOCK_REALTIME = 0;
    static final int CLOCK_MONOTONIC = 1;
    static final int MEMBARRIER_GLOBAL_EXPEDITED = 2;
    static final int MEMBARRIER_REGISTER_GLOBAL_EXPEDITED = 4;

    /** struct futex_waitv: the value at 0 (long), the word's address at 8 (long), flags at 16 (int), 0. */
    static final int FUTEX_WAITV_SIZE = 24;
    static final int FUTEX_WAITV_ADDRESS = 8;
    static final int FUTEX_WAITV_FLAGS = 16;

    /** struct linux_dirent64: its length at 16 (short), the name at 19, up to a zero byte. */
    static final int DIRENT_LENGTH = 16;
    static final int DIRENT_NAME = 19;

    /** struct timespec: seconds, and nanoseconds at 8. */
    static final int TIMESPEC_SIZE = 16;
    static final int TIMESPEC_NANOS = 8;

    private Linux() {
    }

    private static boolean arm() {
        return "aarch64".equals(System.getProperty("os.arch"));
    }

    /** The usual text of an error number; the number itself if it has none here. */
    static String text(int errno) {
        return switch (errno) {
            case EPERM -> "operation not permitted";
            case ENOENT -> "no such file or directory";
            case EINTR -> "interrupted";
            case EIO -> "input/output error";
            case EAGAIN -> "locked by another";
            case ENOMEM -> "out of memory, or of mappings";
            case EACCES -> "permission denied";
            case EEXIST -> "file exists";
            case EISDIR -> "is a directory";
            case EINVAL -> "invalid argument";
            case EMFILE -> "no file descriptor left";
            case ENOSPC -> "no space left on device";
            case ELOOP -> "is a symbolic link";
            case EOPNOTSUPP -> "not supported by the file system";
            case EDQUOT -> "disk quota exceeded";
            default -> "errno " + errno;
        };
    }
}
