// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.broadcast.BroadcastBufferDescriptor;
import org.agrona.concurrent.broadcast.BroadcastReceiver;
import org.agrona.concurrent.broadcast.BroadcastTransmitter;

/**
 * Agrona's broadcast buffer, which never waits: option {@code lossy=1} for streams. A receiver must copy a message and
 * then validate that it was not overwritten meanwhile, before it uses the message. (CopyBroadcastReceiver does the
 * same, and throws when it was lapped.)
 */
final class AgronaBroadcast extends Contender {
    private static final int TYPE = 1;

    private final BroadcastTransmitter transmitter;
    private final BroadcastReceiver incoming;
    private final UnsafeBuffer message;
    private final UnsafeBuffer copy;
    private final int limit;

    AgronaBroadcast(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        message = AgronaRing.message(messages.size);
        copy = AgronaRing.message(messages.size);
        transmitter = setup.sends() ? new BroadcastTransmitter(file(setup.producer() ? "a" : "b")) : null;
        incoming = setup.receives() ? new BroadcastReceiver(file(setup.producer() ? "b" : "a")) : null;
    }

    private UnsafeBuffer file(String name) {
        int length = setup.option("capacity", 1 << 20) + BroadcastBufferDescriptor.TRAILER_LENGTH;
        return new UnsafeBuffer(Mapped.file(setup, name, length));
    }

    @Override
    void send(long tag) {
        messages.write(message, 0, tag);
        transmitter.transmit(TYPE, message, 0, messages.size);
    }

    @Override
    void receive() {
        for (int i = 0; i < limit && incoming.receiveNext(); i++) {
            copy.putBytes(0, incoming.buffer(), incoming.offset(), messages.used());
            if (incoming.validate()) {
                receiver.onMessage(copy, 0);
            }
        }
    }

    @Override
    String library() {
        return "agrona";
    }
}
