// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;

/** Faults that a fuzzing run must detect; they show that it would find such faults. */
final class FuzzMutants {
    private FuzzMutants() {
    }

    static void run(String name, FuzzFile file, FuzzTable table) throws InterruptedException {
        switch (name) {
            case "" -> { }
            case "over-read" -> overRead(file);
            case "adopt" -> adopt(file);
            case "table over-read" -> table.overRead();
            case "hang" -> Thread.sleep(Long.MAX_VALUE);
            case "other exception" -> throw new ArrayIndexOutOfBoundsException("seeded");
            default -> throw new IllegalArgumentException(name);
        }
    }

    /** RingReader's poll without its check of the length. */
    private static void overRead(FuzzFile file) {
        try (Channel opened = Rings.openReadOnly(file.path()); Channel channel = FuzzGuard.guarded(opened)) {
            Header header = channel.header();
            for (int ring = 0; ring < header.publishers; ring++) {
                Memory data = channel.file().map(header.ringOffset(ring), header.capacity, true);
                for (int at = 0; at < header.capacity; at += header.alignment) {
                    int length = data.getIntAcquire(at);
                    if (length > 0 && data.getInt(at + Layout.RECORD_TYPE) > 0) {
                        // The missing check: if (length < RECORD_HEADER_LENGTH || at + size > capacity) throw corrupt
                        last(data, at + length - 1);
                    }
                }
                Reference.reachabilityFence(data);
            }
        } catch (FlyringException e) {
            return; // the input is not a channel
        } finally {
            FuzzGuard.unmapAll();
        }
    }

    /** A worker that adopts a job (spec/queue.md 5) without its check of the record. */
    private static void adopt(FuzzFile file) {
        try (Channel opened = Channel.open(file.path()); Channel channel = FuzzGuard.guarded(opened)) {
            Header header = channel.header();
            for (int ring = 0; header.isQueue() && ring < header.publishers; ring++) {
                Memory data = channel.file().map(header.ringOffset(ring), header.capacity, true);
                for (int slot = 1; slot < header.subscribers; slot++) {
                    long gate = channel.trailers().get(ring).getLongAcquire(Header.gate(slot));
                    if (gate >= 0) {
                        int at = (int) gate & header.capacity - 1 & -header.alignment;
                        // The missing check: if (!ring.isJob(gate, length, type) || gate + size > taken_end) throw
                        // corrupt
                        last(data, at + Math.max(0, data.getIntAcquire(at) - 1));
                    }
                }
                Reference.reachabilityFence(data);
            }
        } catch (FlyringException e) {
            return; // the input is not a channel
        } finally {
            FuzzGuard.unmapAll();
        }
    }

    /** Reads as the hot path does: by address, or through a buffer if that is not available. */
    static byte last(Memory data, int index) {
        return data.readableAt() != 0 ? Raw.getByte(data.address() + index) : data.getByte(index);
    }
}
