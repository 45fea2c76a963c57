// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The words of messages (bench/PEER.md, messages), written and compared through the contender's own buffers. One
 * subclass at most is loaded in a process, so that HotSpot makes direct calls.
 */
class Messages {
    /** The tag of the last message of a slice. */
    static final long END = -1;

    /** The number of tags of one producer; the second producer's tags follow. */
    static final int TAGS = 64;

    static final long FACTOR = 0x9E3779B97F4A7C15L;

    final int size;
    final boolean whole;

    Messages(int size, boolean whole) {
        if (size < Long.BYTES || size % Long.BYTES != 0) {
            throw new IllegalArgumentException("--size is a multiple of 8");
        }
        this.size = size;
        this.whole = whole;
    }

    static Messages of(int size, boolean whole) {
        return size == SmallMessages.SIZE && whole ? new SmallMessages() : new Messages(size, whole);
    }

    static long tag(int producer, long number) {
        return producer * TAGS + number % TAGS;
    }

    /** The bytes of a message that are written and read: all, or word 0. */
    int used() {
        return whole ? size : Long.BYTES;
    }

    void write(MutableDirectBuffer to, int at, long tag) {
        to.putLong(at, tag);
        if (whole) {
            if (tag == END) {
                to.setMemory(at, size, (byte) -1);
            } else {
                writeRest(to, at, tag * FACTOR);
            }
        }
    }

    private void writeRest(MutableDirectBuffer to, int at, long first) {
        long word = first;
        for (int i = Long.BYTES; i < size; i += Long.BYTES) {
            word += FACTOR;
            to.putLong(at + i, word);
        }
    }

    boolean is(DirectBuffer from, int at, long tag) {
        long difference = from.getLong(at) ^ tag;
        if (whole) {
            difference |= compareRest(from, at, tag * FACTOR);
        }
        return difference == 0;
    }

    private long compareRest(DirectBuffer from, int at, long first) {
        long word = first;
        long difference = 0;
        for (int i = Long.BYTES; i < size; i += Long.BYTES) {
            word += FACTOR;
            difference |= from.getLong(at + i) ^ word;
        }
        return difference;
    }

    static long word0(DirectBuffer from, int at) {
        return from.getLong(at);
    }

    /** Called after {@link #is} returned false: throws unless the message is the end. */
    void mustBeEnd(DirectBuffer from, int at, long number, long expected) {
        for (int i = 0; i < used(); i += Long.BYTES) {
            if (from.getLong(at + i) != END) {
                throw wrong(from, at, number, expected);
            }
        }
    }

    static IllegalStateException wrong(DirectBuffer from, int at, long number, long expected) {
        return new IllegalStateException("message " + number + " of this slice, tag " + expected + ", begins with word "
            + Long.toHexString(word0(from, at)) + " or has wrong bytes");
    }
}
