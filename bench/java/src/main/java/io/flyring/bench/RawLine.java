// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.PayloadBuffer;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;

/**
 * The fastest exchange in Java without a flag and without a queue: one message at a time, as a sequence word followed
 * by the payload. Uses the same file as C++. Round trips only.
 */
final class RawLine extends Contender {
    private static final VarHandle SEQUENCE =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int PAGE = 4096;

    private final MappedByteBuffer line;
    private final PayloadBuffer buffer = new PayloadBuffer();
    private final int out;
    private final int in;
    private long sent;
    private long received;

    RawLine(Setup setup, Messages messages) {
        super(setup, messages);
        if (setup.streaming()) {
            throw new IllegalArgumentException("raw-line is for round trips");
        }
        int gap = messages.size + Long.BYTES + PAGE - 1 & -PAGE;
        line = Mapped.file(setup, "line", 2L * gap);
        buffer.wrap(line);
        out = setup.client() ? 0 : gap;
        in = setup.client() ? gap : 0;
    }

    @Override
    void send(long tag) {
        messages.write(buffer, out + Long.BYTES, tag);
        SEQUENCE.setRelease(line, out, ++sent);
    }

    @Override
    void receive() {
        if ((long) SEQUENCE.getAcquire(line, in) == received + 1) {
            received++;
            receiver.onMessage(buffer, in + Long.BYTES);
        }
    }

    @Override
    String library() {
        return "raw";
    }
}
