// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.PayloadBuffer;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;

/**
 * The oldest experiment: both sides increment one mapped word in turn, by compare-and-set. The word is the message, of
 * 8 bytes whatever the size option: a count, and the tag in the low byte. Round trips only.
 */
final class CasCounter extends Contender {
    private static final VarHandle WORD =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int TAG_BITS = 8;

    private final MappedByteBuffer line;
    private final PayloadBuffer message = new PayloadBuffer();
    private long last;

    CasCounter(Setup setup) {
        super(setup, new Messages(Long.BYTES, true));
        if (setup.streaming() || setup.size != 32) {
            throw new IllegalArgumentException("varhandle-cas-counter is for round trips, and carries 8 bytes: it"
                + " stands in the 32-byte table only");
        }
        line = Mapped.file(setup, "counter", 4096);
        message.wrap(ByteBuffer.allocateDirect(Long.BYTES));
    }

    @Override
    void send(long tag) {
        long next = (last >>> TAG_BITS) + 1 << TAG_BITS | tag & 0xff;
        if (!WORD.compareAndSet(line, 0, last, next)) {
            throw new IllegalStateException("the other side counted out of turn");
        }
        last = next;
    }

    @Override
    void receive() {
        long now = (long) WORD.getVolatile(line, 0);
        if (now != last) {
            if (now >>> TAG_BITS != (last >>> TAG_BITS) + 1) {
                throw new IllegalStateException("the count went from " + (last >>> TAG_BITS) + " to "
                    + (now >>> TAG_BITS));
            }
            last = now;
            message.putLong(0, (byte) now);
            receiver.onMessage(message, 0);
        }
    }

    @Override
    String library() {
        return "raw";
    }
}
