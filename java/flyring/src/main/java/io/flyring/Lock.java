// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.locks.LockSupport;

/**
 * A file description of its own that holds locks on single bytes of the channel file (spec/channel.md 5.1). It is never
 * mapped, duplicated or passed on, and the kernel drops its locks when the process dies.
 */
final class Lock implements AutoCloseable {
    private static final long RETRY_NANOS = 100_000;
    private static final long CONTROL_LOCK_NANOS = 5_000_000_000L;

    private final String path;
    private int fd;

    Lock(int attached, String path) {
        this.path = path;
        this.fd = Sys.openFile("/proc/self/fd/" + attached, Linux.O_RDWR | Linux.O_CLOEXEC, 0);
        ChannelFile.check("open", fd, path);
    }

    boolean tryLock(long offset) {
        int result = Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_WRLCK, offset, 1);
        if (result == -Linux.EAGAIN || result == -Linux.EACCES) {
            return false;
        }
        ChannelFile.check("fcntl", result, path);
        return true;
    }

    void unlock(long offset) {
        ChannelFile.check("fcntl", Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_UNLCK, offset, 1), path);
    }

    /** Whether another description, of whatever process, holds the lock. */
    boolean heldByAnother(long offset) {
        int result = Sys.lock(fd, Linux.F_OFD_GETLK, Linux.F_WRLCK, offset, 1);
        ChannelFile.check("fcntl", result, path);
        return result != Linux.F_UNLCK;
    }

    /** Takes the control lock, waiting for at most 5 s. */
    void lockControl(Header header) {
        long since = System.nanoTime();
        while (!tryLockControl(header)) {
            if (System.nanoTime() - since > CONTROL_LOCK_NANOS) {
                throw new IoException("fcntl", Linux.EAGAIN, path, path + ": the control lock was not free for 5 s."
                    + " Some process that holds it is stopped: find it with lslocks.");
            }
            LockSupport.parkNanos(RETRY_NANOS);
        }
    }

    boolean tryLockControl(Header header) {
        return tryLock(header.controlOffset + Layout.CONTROL_CONTROL_LOCK);
    }

    void unlockControl(Header header) {
        unlock(header.controlOffset + Layout.CONTROL_CONTROL_LOCK);
    }

    /** Whether locks taken through one description are seen through another. */
    static void selfTest(ChannelFile file, Header header, String path) {
        long offset = header.controlOffset + Layout.CONTROL_LOCK_TEST;
        try (Lock first = file.newLock(); Lock second = file.newLock()) {
            if (first.tryLock(offset) && !second.heldByAnother(offset)) {
                throw new UnsuitableFileSystemException(path, "locks do not work", path
                    + " lies on a file system whose locks do not work. Use /dev/shm.");
            }
        }
    }

    /** Drops the description and all that it holds; callers unlock before. */
    @Override
    public void close() {
        if (fd >= 0) {
            Sys.closeFile(fd);
            fd = -1;
        }
    }
}
