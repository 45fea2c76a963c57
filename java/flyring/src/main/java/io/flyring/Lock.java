// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.ThreadLocalRandom;

/**
 * A separate open file description that holds locks on single bytes of the channel file (channel.md 5.1). It is never
 * mapped, duplicated or passed on. The kernel drops its locks when the process dies. Thread-safe. Code that stores
 * under one of the locks holds this object's monitor, so that no other thread can close it meanwhile.
 */
final class Lock implements AutoCloseable {
    private static final long RETRY_NANOS = 100_000;
    private static final long CONTROL_LOCK_NANOS = 5_000_000_000L;
    private static final long MARKS = 1L << 40;

    private final String path;
    /** The description's file offset, a random mark: it tells whether the descriptor is still this description. */
    private final long mark = ThreadLocalRandom.current().nextLong(1, MARKS);
    private int fd;

    Lock(int attached, String path) {
        this.path = path;
        this.fd = Sys.openFile("/proc/self/fd/" + attached, Linux.O_RDWR | Linux.O_CLOEXEC, 0);
        ChannelFile.check("open", fd, path);
        long result = Sys.seek(fd, mark, Linux.SEEK_SET);
        if (result < 0) {
            Sys.closeFile(fd);
            throw ChannelFile.io("lseek", (int) -result, path);
        }
    }

    /** Whether the descriptor is still the one that was opened: not closed, and its number not used again. */
    private boolean ours() {
        return fd >= 0 && Sys.seek(fd, 0, Linux.SEEK_CUR) == mark;
    }

    private synchronized boolean isClosed() {
        return !ours();
    }

    synchronized boolean tryLock(long offset) {
        int result = tryToLock(offset);
        if (result == -Linux.EAGAIN || result == -Linux.EACCES) {
            return false;
        }
        ChannelFile.check("fcntl", result, path);
        return true;
    }

    /** As {@link #tryLock}, but returns false for every error, too. */
    synchronized boolean tryLockIfPossible(long offset) {
        return tryToLock(offset) >= 0;
    }

    private int tryToLock(long offset) {
        return ours() ? Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_WRLCK, offset, 1) : -Linux.EAGAIN;
    }

    synchronized void unlock(long offset) {
        if (ours()) {
            ChannelFile.check("fcntl", ChannelFile.fault("fcntl", path), path);
            ChannelFile.check("fcntl", Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_UNLCK, offset, 1), path);
        }
    }

    /** Unlocks; false if that fails: then a close drops the lock. */
    synchronized boolean unlockBeforeClose(long offset) {
        return ours() && ChannelFile.fault("fcntl", path) == 0
            && Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_UNLCK, offset, 1) >= 0;
    }

    /** Whether another description, of any process, holds the lock. */
    synchronized boolean heldByAnother(long offset) {
        int result = ours() ? Sys.lock(fd, Linux.F_OFD_GETLK, Linux.F_WRLCK, offset, 1) : Linux.F_UNLCK;
        ChannelFile.check("fcntl", result, path);
        return result != Linux.F_UNLCK;
    }

    /** Takes the control lock; waits for at most 5 s. */
    void lockControl(Header header) {
        lockControl(control(header));
    }

    /** The same with the offset of the byte to lock. */
    void lockControl(long offset) {
        long since = System.nanoTime();
        while (!tryLock(offset)) {
            if (isClosed()) {
                throw new IoException("fcntl", Linux.EBADF, path, path + ": another thread closed the object that"
                    + " waited for the control lock.");
            }
            if (System.nanoTime() - since > CONTROL_LOCK_NANOS) {
                throw new IoException("fcntl", Linux.EAGAIN, path, path + ": the control lock was not free for 5 s."
                    + " Some process that holds it is stopped: find it with lslocks.");
            }
            Pause.nanos(RETRY_NANOS);
        }
    }

    /** Takes the control lock if it is free; returns false for every error, too. */
    boolean tryLockControl(Header header) {
        return tryLockIfPossible(control(header));
    }

    void unlockControl(Header header) {
        unlock(control(header));
    }

    private static long control(Header header) {
        return header.controlOffset + Layout.CONTROL_CONTROL_LOCK;
    }

    /** Throws unless a lock taken through one description is seen through another (5.1, self-test). */
    static void selfTest(ChannelFile file, Header header, String path) {
        selfTest(file, header.controlOffset + Layout.CONTROL_LOCK_TEST, path);
    }

    /** The same with the offset of the byte to lock. */
    static void selfTest(ChannelFile file, long offset, String path) {
        try (Lock first = file.newLock(); Lock second = file.newLock()) {
            if (first.tryLock(offset) && !second.heldByAnother(offset)) {
                throw new UnsuitableFileSystemException(path, "locks do not work", path
                    + " lies on a file system whose locks do not work. Use /dev/shm.");
            }
        }
    }

    /** Unlocks, then closes even if that failed: the kernel then drops the lock with the description. */
    synchronized void unlockAndClose(long offset) {
        try {
            unlockBeforeClose(offset);
        } finally {
            close();
        }
    }

    /** Closes the description, which drops all its locks; callers unlock before. */
    @Override
    public synchronized void close() {
        if (ours()) {
            Sys.closeFile(fd);
        }
        fd = -1;
    }
}
