// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;

/** Creates channel files: a file gets its name only when it is complete (channel.md 3.2). */
final class Creation {
    private Creation() {
    }

    /** Creates a file with the name {@code path}; replaces an existing one only if {@code replace} is true. */
    static ChannelFile make(String path, Header header, ChannelOptions options, boolean replace) {
        if (!replace && Files.exists(Path.of(path), LinkOption.NOFOLLOW_LINKS)) {
            throw ChannelFile.exists(path);
        }
        ChannelFile file = ChannelFile.create(path, header.fileLength, options.mode, options.anyFileSystem);
        boolean done = false;
        try {
            initialise(file, header, options.identity, options.schema);
            Lock.selfTest(file, header, path);
            Successor successor = replace ? Successor.tellOld(path) : Successor.NONE;
            try {
                file.publish(path, replace);
            } finally {
                successor.wake();
            }
            done = true;
            return file;
        } finally {
            if (!done) {
                file.discard();
            }
        }
    }

    /** Writes everything of a new file that is not zero (3.2, 4, and 4.7). */
    private static void initialise(ChannelFile file, Header header, Identity identity, byte[] schema) {
        file.write(0, header.encode());
        file.write(header.controlOffset + Layout.CONTROL_BOOT_ID, ByteBuffer.wrap(identity.boot()));
        if (header.kind == Kind.INBOX || header.isQueue() || header.isService()) {
            ByteBuffer kept = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(0, 1);
            file.write(header.controlOffset + header.subscriberSlot(0) + Layout.SUBSCRIBER_SLOT_KEPT, kept);
        }
        for (int ring = 0; ring < header.publishers; ring++) {
            ByteBuffer trailer = ByteBuffer.allocate(header.trailerLength()).order(ByteOrder.LITTLE_ENDIAN);
            int start = Header.start(ring);
            for (int eighth = 0; eighth < Layout.BOUNDARIES; eighth++) {
                boolean first = eighth == start / (header.capacity / Layout.BOUNDARIES)
                    && header.foreign != Foreign.SUBSCRIBER; // 6.15: Agrona's reader needs -1 at boundary[0]
                trailer.putLong(Layout.TRAILER_BOUNDARY + eighth * Layout.TRAILER_BOUNDARY_STRIDE,
                    first ? start : Layout.NOT_GATING);
            }
            trailer.putLong(Layout.TRAILER_CLAIMED, start);
            trailer.putLong(Layout.TRAILER_PUBLISHED, start);
            for (int slot = header.firstGate(ring); slot < header.endOfGates(ring); slot++) {
                trailer.putLong(header.gateAt(slot), Layout.NOT_GATING);
            }
            if (header.kind == Kind.INBOX || header.isQueue() || ring < header.clients()) {
                trailer.putLong(Header.gate(0), start);
            }
            if (header.foreign != Foreign.NONE) {
                trailer.putLong(Header.gate(0) + Layout.GATE_COUNT, Layout.COUNT_UNKNOWN);
            }
            file.write(header.ringOffset(ring) + header.capacity, trailer);
        }
        file.write(header.schemaOffset, ByteBuffer.wrap(schema));
    }
}
