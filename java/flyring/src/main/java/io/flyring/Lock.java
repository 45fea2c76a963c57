// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.ThreadLocalRandom;

/**
 * A file description of its own that holds locks on single bytes of the channel file (spec/channel.md 5.1). It is never
 * mapped, duplicated or passed on, and the kernel drops its locks when the process dies. Thread-safe: who stores under
 * one of its locks does so in its monitor, so that no other thread can close it meanwhile.
 */
final class Lock implements AutoCloseable {
    private static final long RETRY_NANOS = 100_000;
    private static final long CONTROL_LOCK_NANOS = 5_000_000_000L;
    private static final long MARKS = 1L << 40;

    private final String path;
    /** The description's file offset, which nothing else uses: by it the descriptor is known to be still this one. */
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

    /** Whether the descriptor still is the one that was opened: not closed, nor another one of the same number. */
    private boolean ours() {
        return fd >= 0 && Sys.seek(fd, 0, Linux.SEEK_CUR) == mark;
    }

    synchronized boolean tryLock(long offset) {
        int result = tryToLock(offset);
        if (result == -Linux.EAGAIN || result == -Linux.EACCES) {
            return false;
        }
        ChannelFile.check("fcntl", result, path);
        return true;
    }

    /** As {@link #tryLock}, but whatever goes wrong means that it was not got. */
    synchronized boolean tryLockIfPossible(long offset) {
        return tryToLock(offset) >= 0;
    }

    private int tryToLock(long offset) {
        return ours() ? Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_WRLCK, offset, 1) : -Linux.EAGAIN;
    }

    synchronized void unlock(long offset) {
        if (ours()) {
            ChannelFile.check("fcntl", Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_UNLCK, offset, 1), path);
        }
    }

    /** Before a close, which drops the lock if this fails. */
    synchronized void unlockBeforeClose(long offset) {
        if (ours()) {
            Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_UNLCK, offset, 1);
        }
    }

    /** Whether another description, of whatever process, holds the lock. */
    synchronized boolean heldByAnother(long offset) {
        int result = ours() ? Sys.lock(fd, Linux.F_OFD_GETLK, Linux.F_WRLCK, offset, 1) : Linux.F_UNLCK;
        ChannelFile.check("fcntl", result, path);
        return result != Linux.F_UNLCK;
    }

    /** Takes the control lock, waiting for at most 5 s. */
    void lockControl(Header header) {
        long since = System.nanoTime();
        while (!tryLock(control(header))) {
            if (System.nanoTime() - since > CONTROL_LOCK_NANOS) {
                throw new IoException("fcntl", Linux.EAGAIN, path, path + ": the control lock was not free for 5 s."
                    + " Some process that holds it is stopped: find it with lslocks.");
            }
            Pause.nanos(RETRY_NANOS);
        }
    }

    /** Takes the control lock if it is free and nothing goes wrong. */
    boolean tryLockControl(Header header) {
        return tryLockIfPossible(control(header));
    }

    void unlockControl(Header header) {
        unlock(control(header));
    }

    private static long control(Header header) {
        return header.controlOffset + Layout.CONTROL_CONTROL_LOCK;
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

    /** Unlocks, and closes whatever becomes of that: then the kernel drops the lock with the description. */
    synchronized void unlockAndClose(long offset) {
        try {
            unlockBeforeClose(offset);
        } finally {
            close();
        }
    }

    /** Drops the description and all that it holds; callers unlock before. */
    @Override
    public synchronized void close() {
        if (ours()) {
            Sys.closeFile(fd);
        }
        fd = -1;
    }
}
