// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.DirectBuffer;

/** Publishes requests or replies on one ring of a service: a prefix, then the user's bytes (service.md 2). */
final class ServiceWriter extends RingWriter {
    static final long NO_ROOM = -1;

    private boolean failed;

    ServiceWriter(Channel channel, Memory ring, Room room, Waker waker, long epoch, byte[] name, long count) {
        super(channel, ring, room.silent(), waker, epoch, name, count, 0);
    }

    /**
     * Publishes one record, if there is room for it now.
     *
     * @param prefix length of the prefix in bytes: two words or three.
     * @param source the user's bytes; null if they are in {@code bytes}, or if there are none.
     * @return the position of the record, or {@link #NO_ROOM}.
     */
    long offer(int prefix, long first, long second, long third, DirectBuffer source, byte[] bytes, int offset,
        int length, int type) {
        final int total = prefix + length;
        boolean done = false;
        try {
            if (endAfter(total) > fastEnd && !reserve(total, false)) {
                done = true;
                return NO_ROOM;
            }
            final long position = end;
            write(prefix, first, second, third, source, bytes, offset, length);
            commit(total, type);
            done = true;
            return position;
        } finally {
            if (!done) {
                failed = true; // the next owner recovers the ring
            }
        }
    }

    /** Whether an Error came in the middle of a publication; then nothing more may be published. */
    boolean failed() {
        return failed;
    }

    private void write(int prefix, long first, long second, long third, DirectBuffer source, byte[] bytes, int offset,
        int length) {
        final int at = ((int) end & mask) + Layout.RECORD_PAYLOAD;
        ring.putLong(at, first);
        ring.putLong(at + Long.BYTES, second);
        if (prefix > 2 * Long.BYTES) {
            ring.putLong(at + 2 * Long.BYTES, third);
        }
        if (source != null) {
            Copy.from(source, offset, ring, at + prefix, length);
        } else if (length > 0) {
            ring.putBytes(at + prefix, bytes, offset, length);
        }
    }

    private void commit(int total, int type) {
        final long next = endAfter(total);
        setType(type);
        commitAndAdvance(total + Layout.RECORD_HEADER_LENGTH, next, count + 1);
        if (next >= nextDue) {
            doDue(size(total));
        }
        if (isAwaited()) {
            waker.wakeNow(wakerBit);
        }
    }

    /** The error if a record with this payload behind its prefix is longer than the ring allows; else null. */
    MessageTooLargeException tooLarge(int prefix, int length) {
        final int most = maxLength - prefix;
        return length <= most ? null : new MessageTooLargeException(length, most, "A message of " + length
            + " bytes is longer than the " + most + " that this service allows. Split it, or create the channel with"
            + " a larger capacity.");
    }
}
