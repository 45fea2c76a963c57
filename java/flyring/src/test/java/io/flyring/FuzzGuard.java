// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import com.sun.jna.Native;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;

/**
 * Maps a file so that 2 GiB in front of each mapping and 2 GiB behind it cannot be touched: an access by address that
 * leaves its mapping by any int ends the process. Takes the place of the FileChannel inside a {@link ChannelFile}; all
 * else is the shipped code.
 */
final class FuzzGuard extends FileChannel {
    private static final long GUARD = 1L << 31;
    private static final long STRIDE = 2 * GUARD;
    private static final int PLACES = 512;
    private static final int PROT_NONE = 0;
    private static final int PROT_READ = 1;
    private static final int PROT_WRITE = 2;
    private static final int MAP_SHARED = 1;
    private static final int MAP_PRIVATE = 2;
    private static final int MAP_FIXED = 0x10;
    private static final int MAP_ANONYMOUS = 0x20;
    private static final int MAP_NORESERVE = 0x4000;
    private static final int RESERVED = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    private static final long AREA;
    /** Lengths of what is mapped; the first {@code used} places. */
    private static final long[] LENGTHS = new long[PLACES];
    private static int used;
    private static final Field CHANNEL = field(ChannelFile.class, "channel");
    private static final Field DESCRIPTOR = field(ChannelFile.class, "fd");
    private static final Field FILE = field(Channel.class, "file");
    private static final Constructor<Channel> ATTACH;

    static {
        Native.register(FuzzGuard.class, "c");
        AREA = mmap(0, STRIDE * PLACES, PROT_NONE, RESERVED, -1, 0);
        try {
            ATTACH = Channel.class.getDeclaredConstructor(String.class, ChannelFile.class, Header.class,
                Identity.class);
            ATTACH.setAccessible(true);
        } catch (NoSuchMethodException e) {
            throw new ExceptionInInitializerError(e);
        }
        if (AREA == -1) {
            throw new ExceptionInInitializerError("no address space");
        }
    }

    private final FileChannel below;
    private final int fd;

    private FuzzGuard(FileChannel below, int fd) {
        this.below = below;
        this.fd = fd;
    }

    private static native long mmap(long address, long length, int protection, int flags, int fd, long offset);

    private static Field field(Class<?> type, String name) {
        try {
            Field field = type.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** A channel that was opened, attached once more on the same file, by the shipped constructor, between guards. */
    static Channel guarded(Channel opened) {
        try {
            ChannelFile file = (ChannelFile) FILE.get(opened);
            CHANNEL.set(file, new FuzzGuard((FileChannel) CHANNEL.get(file), DESCRIPTOR.getInt(file)));
            return ATTACH.newInstance(opened.path(), file, opened.header(), Identity.REAL);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Makes everything that is mapped untouchable. */
    static void unmapAll() {
        for (; used > 0; used--) {
            long at = AREA + (used - 1) * STRIDE + GUARD;
            if (mmap(at, LENGTHS[used - 1], PROT_NONE, RESERVED | MAP_FIXED, -1, 0) != at) {
                throw new IllegalStateException("munmap");
            }
        }
    }

    @Override
    public MappedByteBuffer map(MapMode mode, long offset, long length) throws IOException {
        if (length <= 0 || offset < 0 || offset + length > below.size()) {
            throw new IOException("maps " + length + " bytes from " + offset + " of " + below.size());
        }
        long at = AREA + used * STRIDE + GUARD;
        boolean readOnly = mode == MapMode.READ_ONLY;
        int protection = readOnly ? PROT_READ : PROT_READ | PROT_WRITE;
        if (used == PLACES || mmap(at, length, protection, MAP_SHARED | MAP_FIXED, fd, offset) != at) {
            throw new IOException("mmap");
        }
        LENGTHS[used++] = length;
        ByteBuffer buffer = Sys.bufferAt(at, (int) length);
        return (MappedByteBuffer) (readOnly ? buffer.asReadOnlyBuffer() : buffer);
    }

    @Override
    public int read(ByteBuffer target, long position) throws IOException {
        return below.read(target, position);
    }

    @Override
    public int write(ByteBuffer source, long position) throws IOException {
        return below.write(source, position);
    }

    @Override
    public long size() throws IOException {
        return below.size();
    }

    @Override
    protected void implCloseChannel() throws IOException {
        below.close();
    }

    // What a ChannelFile never calls.

    @Override
    public int read(ByteBuffer target) {
        throw new UnsupportedOperationException();
    }

    @Override
    public long read(ByteBuffer[] targets, int offset, int length) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int write(ByteBuffer source) {
        throw new UnsupportedOperationException();
    }

    @Override
    public long write(ByteBuffer[] sources, int offset, int length) {
        throw new UnsupportedOperationException();
    }

    @Override
    public long position() {
        throw new UnsupportedOperationException();
    }

    @Override
    public FileChannel position(long position) {
        throw new UnsupportedOperationException();
    }

    @Override
    public FileChannel truncate(long length) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void force(boolean metadata) {
        throw new UnsupportedOperationException();
    }

    @Override
    public long transferTo(long position, long count, WritableByteChannel target) {
        throw new UnsupportedOperationException();
    }

    @Override
    public long transferFrom(ReadableByteChannel source, long position, long count) {
        throw new UnsupportedOperationException();
    }

    @Override
    public FileLock lock(long position, long length, boolean shared) {
        throw new UnsupportedOperationException();
    }

    @Override
    public FileLock tryLock(long position, long length, boolean shared) {
        throw new UnsupportedOperationException();
    }
}
