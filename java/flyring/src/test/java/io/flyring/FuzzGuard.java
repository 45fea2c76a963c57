// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import com.sun.jna.Native;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;

/**
 * Maps a file so that 2 GiB before and after each mapping are inaccessible: an access by address that misses its
 * mapping by any int ends the process. A {@link ChannelFile} maps through this class; everything else is the shipped
 * code.
 */
final class FuzzGuard implements ChannelFile.Mapper {
    private static final long GUARD = 1L << 31;
    private static final long STRIDE = 2 * GUARD;
    private static final int PLACES = 1024;
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
    /** The lengths of the mappings, in the first {@code used} places. */
    private static final long[] LENGTHS = new long[PLACES];
    private static int used;
    private static final Field MAPPER = field(ChannelFile.class, "mapper");
    private static final Constructor<Channel> ATTACH;

    static {
        Native.register(FuzzGuard.class, "c");
        AREA = mmap(0, STRIDE * PLACES, PROT_NONE, RESERVED, -1, 0);
        try {
            ATTACH = Channel.class.getDeclaredConstructor(String.class, ChannelFile.class, Header.class,
                Identity.class, boolean.class);
            ATTACH.setAccessible(true);
        } catch (NoSuchMethodException e) {
            throw new ExceptionInInitializerError(e);
        }
        if (AREA == -1) {
            throw new ExceptionInInitializerError("no address space");
        }
    }

    private final long size;

    private FuzzGuard(long size) {
        this.size = size;
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

    /** Attaches an opened channel once more on the same file, by the shipped constructor, between guards. */
    static Channel guarded(Channel opened) {
        return guarded(opened, Identity.REAL);
    }

    static Channel guarded(Channel opened, Identity identity) {
        try {
            ChannelFile file = opened.file();
            MAPPER.set(file, new FuzzGuard(file.size()));
            return ATTACH.newInstance(opened.path(), file, opened.header(), identity, true);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Opens a table, with every mapping between guards. */
    static Table guarded(String path, OpenOptions options) {
        ChannelFile file = ChannelFile.open(path, options.readOnly);
        boolean done = false;
        try {
            TableHeader header = TableHeader.parse(file.read(0, Layout.HEADER_LENGTH), file.size(), path);
            MAPPER.set(file, new FuzzGuard(file.size()));
            done = true;
            return new Table(TableFile.of(path, file, header), options);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        } finally {
            if (!done) {
                file.close();
            }
        }
    }

    /** Makes all mappings inaccessible. */
    static void unmapAll() {
        for (; used > 0; used--) {
            long at = AREA + (used - 1) * STRIDE + GUARD;
            if (mmap(at, LENGTHS[used - 1], PROT_NONE, RESERVED | MAP_FIXED, -1, 0) != at) {
                throw new IllegalStateException("munmap");
            }
        }
    }

    @Override
    public Memory map(int fd, long offset, long length, boolean readOnly) {
        if (length <= 0 || offset < 0 || offset + length > size) {
            throw new IllegalStateException("maps " + length + " bytes from " + offset + " of " + size);
        }
        long at = AREA + used * STRIDE + GUARD;
        int protection = readOnly ? PROT_READ : PROT_READ | PROT_WRITE;
        if (used == PLACES || mmap(at, length, protection, MAP_SHARED | MAP_FIXED, fd, offset) != at) {
            throw new IllegalStateException("mmap");
        }
        LENGTHS[used++] = length;
        ByteBuffer buffer = Sys.bufferAt(at, (int) length);
        return Memory.of(readOnly ? buffer.asReadOnlyBuffer() : buffer);
    }
}
