// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Lists a folder. The JDK's own DirectoryStream leaks a descriptor if one of its closes fails, and File.list takes an
 * error for the folder's end.
 */
final class Folder {
    private static final int PIECE = 8192;

    private Folder() {
    }

    /** The names in a folder, in no order, without "." and ".."; null if there is no such folder. */
    static List<String> names(String path) {
        final int fd = Sys.openFile(path, Linux.O_RDONLY | Linux.O_DIRECTORY | Linux.O_CLOEXEC, 0);
        if (fd == -Linux.ENOENT) {
            return null;
        }
        ChannelFile.check("open", fd, path);
        try {
            final Memory piece = Memory.of(ByteBuffer.allocateDirect(PIECE));
            final List<String> names = new ArrayList<>();
            while (true) {
                final int length = Sys.entries(fd, piece.address(), PIECE);
                if (length == -Linux.EINTR) {
                    continue;
                }
                ChannelFile.check("getdents64", length, path);
                if (length == 0) {
                    Reference.reachabilityFence(piece);
                    return names;
                }
                add(names, piece, length);
            }
        } finally {
            Sys.closeFile(fd);
        }
    }

    /** Adds the names of a piece of entries. */
    private static void add(List<String> names, Memory piece, int length) {
        for (int at = 0; at < length;) {
            final int size = piece.getShort(at + Linux.DIRENT_LENGTH) & 0xffff;
            final byte[] bytes = new byte[size - Linux.DIRENT_NAME];
            piece.getBytes(at + Linux.DIRENT_NAME, bytes, 0, bytes.length);
            int end = 0;
            while (bytes[end] != 0) {
                end++;
            }
            final String name = new String(bytes, 0, end, StandardCharsets.UTF_8);
            if (!".".equals(name) && !"..".equals(name)) {
                names.add(name);
            }
            at += size;
        }
    }
}
