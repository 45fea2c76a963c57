// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/** An open channel file: its descriptor, what is read and written through it, its mappings (spec/channel.md 3). */
final class ChannelFile implements AutoCloseable {
    /** File systems on which shared mappings, locks and links are known to do what the specification needs. */
    private static final Map<Long, String> FILE_SYSTEMS = Map.of(0x01021994L, "tmpfs", 0x858458F6L, "ramfs",
        0xEF53L, "ext4", 0x58465342L, "xfs", 0x9123683EL, "btrfs", 0x794C7630L, "overlay");

    private static final int TYPE_MASK = 0170000;
    private static final int REGULAR = 0100000;

    private final String path;
    private final int fd;
    private final FileChannel channel;
    private final boolean readOnly;
    /** For {@link #removed}: a struct statx, and an empty path behind it. */
    private final Memory status = Memory.of(ByteBuffer.allocateDirect(Linux.STATX_SIZE + 1));
    private boolean closed;

    private ChannelFile(String path, int fd, boolean readOnly) {
        this.path = path;
        this.fd = fd;
        this.readOnly = readOnly;
        try {
            this.channel = FileChannel.open(self(), readOnly ? Set.of(StandardOpenOption.READ)
                : Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE));
        } catch (IOException e) {
            Sys.closeFile(fd);
            throw io("open", e, path);
        }
    }

    private Path self() {
        return Path.of("/proc/self/fd/" + fd);
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

    static ChannelFile open(String path, boolean readOnly) {
        int fd = Sys.openFile(path, (readOnly ? Linux.O_RDONLY : Linux.O_RDWR) | Linux.O_CLOEXEC | Linux.O_NOFOLLOW
            | Linux.O_NONBLOCK, 0);
        switch (-fd) {
            case Linux.ENOENT, Linux.ENOTDIR -> throw new NoSuchChannelException(path,
                "There is no channel " + path + ". Create it first, or check the name and FLYRING_DIR.");
            case Linux.ELOOP, Linux.EISDIR, Linux.ENXIO -> throw notRegular(path);
            default -> {
                if (fd < 0) {
                    throw io("open", -fd, path);
                }
            }
        }
        try {
            int mode = (int) Files.getAttribute(Path.of("/proc/self/fd/" + fd), "unix:mode");
            if ((mode & TYPE_MASK) != REGULAR) {
                throw notRegular(path);
            }
        } catch (IOException e) {
            Sys.closeFile(fd);
            throw io("fstat", e, path);
        } catch (NotAChannelException e) {
            Sys.closeFile(fd);
            throw e;
        }
        return new ChannelFile(path, fd, readOnly);
    }

    private static NotAChannelException notRegular(String path) {
        return new NotAChannelException(path, path + " is not a Flyring channel: it is no regular file.");
    }

    /** A new file of {@code length} bytes, without a name where the file system can do that. */
    static ChannelFile create(String path, long length, int mode, boolean anyFileSystem) {
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
        try {
            check("fchmod", Sys.changeMode(fd, mode), path);
            file = new ChannelFile(temporary == null ? path : temporary, fd, false);
            file.checkFileSystem(anyFileSystem);
            file.allocate(length);
            return file;
        } catch (RuntimeException e) {
            if (file != null) {
                file.discard();
            } else {
                remove(temporary);
            }
            throw e;
        }
    }

    static String folder(String path) {
        int slash = path.lastIndexOf('/');
        return slash == 0 ? "/" : path.substring(0, slash);
    }

    static String temporary(String path) {
        int slash = path.lastIndexOf('/');
        return path.substring(0, slash + 1) + "." + path.substring(slash + 1) + "." + UUID.randomUUID() + ".tmp";
    }

    static void check(String call, int result, String path) {
        if (result < 0) {
            throw io(call, -result, path);
        }
    }

    void checkFileSystem(boolean any) {
        long[] typeAndFree = new long[2];
        check("fstatfs", Sys.fileSystem(fd, typeAndFree), path);
        if (!any && !FILE_SYSTEMS.containsKey(typeAndFree[0])) {
            throw new UnsuitableFileSystemException(path, "type 0x" + Long.toHexString(typeAndFree[0]), path
                + " lies on a file system of type 0x" + Long.toHexString(typeAndFree[0]) + ", on which sharing memory"
                + " is not known to work. Use /dev/shm, or create the channel with anyFileSystem(true).");
        }
    }

    private void allocate(long length) {
        long[] typeAndFree = new long[2];
        check("fstatfs", Sys.fileSystem(fd, typeAndFree), path);
        int result = typeAndFree[1] < length ? -Linux.ENOSPC : Sys.allocate(fd, length);
        if (result == -Linux.ENOSPC || result == -Linux.EDQUOT || result == -Linux.EFBIG) {
            throw new NoSpaceException(length, typeAndFree[1], path + " needs " + length + " bytes, the file system"
                + " has " + typeAndFree[1] + " free (" + Linux.text(-result) + "). Choose smaller dimensions, or"
                + " make room: a container's /dev/shm is 64 MiB unless --shm-size says otherwise.");
        }
        check("posix_fallocate", result, path);
    }

    boolean readOnly() {
        return readOnly;
    }

    /** Whether the file has no name any more. Allocates nothing, because idle polls ask. */
    boolean removed() {
        long at = status.address();
        boolean removed = Sys.status(fd, at + Linux.STATX_SIZE, at) == 0 && status.getInt(Linux.STATX_LINKS) == 0;
        Reference.reachabilityFence(status);
        return removed;
    }

    /** Another description of the same file, for locks: never mapped, duplicated or passed on (5.1). */
    Lock newLock() {
        return new Lock(fd, path);
    }

    long size() {
        try {
            return channel.size();
        } catch (IOException e) {
            throw io("fstat", e, path);
        }
    }

    /** Up to {@code length} bytes from {@code offset}; fewer at the end of the file. */
    byte[] read(long offset, int length) {
        ByteBuffer bytes = ByteBuffer.allocate(length);
        try {
            while (bytes.hasRemaining() && channel.read(bytes, offset + bytes.position()) > 0) {
                Thread.onSpinWait();
            }
        } catch (IOException e) {
            throw io("pread", e, path);
        }
        return Arrays.copyOf(bytes.array(), bytes.position());
    }

    void write(long offset, ByteBuffer bytes) {
        try {
            ByteBuffer rest = bytes.duplicate();
            for (long at = offset; rest.hasRemaining();) {
                at += channel.write(rest, at);
            }
        } catch (IOException e) {
            throw io("pwrite", e, path);
        }
    }

    /** Maps a stretch that the file is known to have; {@link Memory#prefault} brings its pages in. */
    Memory map(long offset, long length, boolean readOnly) {
        try {
            return Memory.of(channel.map(
                readOnly ? FileChannel.MapMode.READ_ONLY : FileChannel.MapMode.READ_WRITE, offset, length));
        } catch (IOException e) {
            throw io("mmap", e, path);
        }
    }

    /** Gives a created file its name; {@code replace} takes the name from whoever has it. */
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
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        try {
            channel.close();
        } catch (IOException e) {
            throw io("close", e, path);
        } finally {
            Sys.closeFile(fd);
        }
    }
}
