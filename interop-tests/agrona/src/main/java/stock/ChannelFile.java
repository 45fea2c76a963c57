// SPDX-License-Identifier: Apache-2.0
package stock;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32C;
import org.agrona.concurrent.UnsafeBuffer;

/** The few things of spec/channel.md 4.2 that a process must know to lay Agrona's structures over a channel file. */
final class ChannelFile {
    private static final long MAGIC = ByteBuffer.wrap("FLYRING\0".getBytes()).order(ByteOrder.LITTLE_ENDIAN).getLong();
    private static final int HEADER_LENGTH = 4096;
    private static final int TRAILER_LENGTH = 768;
    static final long FOREIGN_PUBLISHER = 2;
    static final long FOREIGN_SUBSCRIBER = 4;

    private final Path path;
    private final ByteBuffer header = ByteBuffer.allocate(HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN);

    ChannelFile(Path path) throws IOException {
        this.path = path;
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
            while (header.hasRemaining() && file.read(header) >= 0) {
                continue;
            }
            CRC32C crc = new CRC32C();
            crc.update(header.array(), 0, HEADER_LENGTH - 4);
            if (header.hasRemaining() || header.getLong(0) != MAGIC || header.getShort(8) != 1
                || header.getInt(HEADER_LENGTH - 4) != (int) crc.getValue() || header.getLong(32) != file.size()) {
                throw new IOException(path + " is not a whole channel of layout version 1");
            }
        }
    }

    /** Ring 0 with its trailer, which is one Agrona ring if the channel was made for that. */
    UnsafeBuffer ring(long feature) throws IOException {
        if (header.getLong(16) != feature || header.getInt(68) != 8 || header.getInt(76) != 1) {
            throw new IOException(path + " was not created with a foreign end of this kind");
        }
        return map(header.getLong(136), header.getInt(72) + (long) TRAILER_LENGTH);
    }

    UnsafeBuffer counterMetadata() throws IOException {
        return map(header.getLong(104), header.getLong(112));
    }

    UnsafeBuffer counterValues() throws IOException {
        return map(header.getLong(120), header.getLong(128));
    }

    private UnsafeBuffer map(long offset, long length) throws IOException {
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return new UnsafeBuffer(file.map(FileChannel.MapMode.READ_WRITE, offset, length));
        }
    }
}
