// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.UUID;
import java.util.function.LongSupplier;

/**
 * The source of identity and time, which tests can inject: the same operations with the same identity write the same
 * bytes, in every language. Values that are not set are the real ones. Spec channel.md 10.
 */
final class Identity {
    private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");
    private static final long NANOS_PER_SECOND = 1_000_000_000L;
    private static final long NAMESPACE_NANOS = namespaceNanos();

    static final Identity REAL = new Identity();

    private UUID channelId;
    private Long createdAt;
    private UUID bootId;
    private int pid;
    private LongSupplier clock;
    private long monotonic;

    /** Sets the id of a channel to be created. */
    Identity channelId(UUID id) {
        channelId = id;
        return this;
    }

    /** Sets the creation time of a channel. */
    Identity createdAt(long nanos) {
        createdAt = nanos;
        return this;
    }

    /** Sets the id of the running boot. */
    Identity bootId(UUID id) {
        bootId = id;
        return this;
    }

    /** Sets the process id that is written into slots. */
    Identity pid(int id) {
        pid = id;
        return this;
    }

    /** Sets the wall clock. */
    Identity clock(LongSupplier nanos) {
        clock = nanos;
        return this;
    }

    /** Sets the time stored when a publisher is held back or a worker becomes busy, and the clock of deadlines. */
    Identity monotonic(long nanos) {
        monotonic = nanos;
        return this;
    }

    /** CLOCK_MONOTONIC of the machine (without a time namespace) in ns, at least 1. */
    long monotonicNow() {
        return monotonicAt(System.nanoTime());
    }

    /** The same for a value that {@link System#nanoTime} returned before. */
    long monotonicAt(long nanoTime) {
        return monotonic != 0 ? monotonic : Math.max(1, nanoTime - NAMESPACE_NANOS);
    }

    /** How far a time namespace has shifted CLOCK_MONOTONIC, in ns; 0 if there is none. */
    private static long namespaceNanos() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/timens_offsets"))) {
                String[] words = line.trim().split("\\s+");
                if (words.length == 3 && words[0].equals("monotonic")) {
                    return Long.parseLong(words[1]) * NANOS_PER_SECOND + Long.parseLong(words[2]);
                }
            }
        } catch (IOException | NumberFormatException e) { // the kernel has no time namespaces
            return 0;
        }
        return 0;
    }

    UUID newChannelId() {
        return channelId != null ? channelId : UUID.randomUUID();
    }

    long creation() {
        return createdAt != null ? createdAt : now();
    }

    /** The wall clock that was set; null for the real one. */
    LongSupplier clock() {
        return clock;
    }

    long now() {
        if (clock != null) {
            return clock.getAsLong();
        }
        Instant now = Instant.now();
        return now.getEpochSecond() * NANOS_PER_SECOND + now.getNano();
    }

    int processId() {
        return pid != 0 ? pid : (int) ProcessHandle.current().pid();
    }

    byte[] boot() {
        try {
            return bytes(bootId != null ? bootId : UUID.fromString(Files.readString(BOOT_ID).trim()));
        } catch (IOException e) {
            throw ChannelFile.io("read", e, BOOT_ID.toString());
        }
    }

    /** A UUID in the byte order of RFC 9562. */
    static byte[] bytes(UUID id) {
        return ByteBuffer.allocate(Long.BYTES * 2).putLong(id.getMostSignificantBits())
            .putLong(id.getLeastSignificantBits()).array();
    }
}
