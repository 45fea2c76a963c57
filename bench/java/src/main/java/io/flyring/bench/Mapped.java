// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;

/** Files that sides share. */
final class Mapped {
    private Mapped() {
    }

    /** Maps a zeroed file in the run's folder; the first side creates it. */
    static MappedByteBuffer file(Setup setup, String name, long length) {
        try (FileChannel file = FileChannel.open(setup.path(name),
            StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE)) {
            MappedByteBuffer mapped = file.map(FileChannel.MapMode.READ_WRITE, 0, length);
            mapped.order(ByteOrder.LITTLE_ENDIAN);
            return mapped.load();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
