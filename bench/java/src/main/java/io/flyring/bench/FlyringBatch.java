// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.PayloadBuffer;

/** Makes messages outside and copies several of them into the ring at a time; option {@code batch}. */
final class FlyringBatch extends Flyring {
    private final PayloadBuffer[] batch;
    private int filled;

    FlyringBatch(Setup setup, Messages messages) {
        super(setup, messages);
        batch = new PayloadBuffer[setup.option("batch", 64)];
        for (int i = 0; i < batch.length; i++) {
            batch[i] = message();
        }
    }

    @Override
    void send(long tag) {
        messages.write(batch[filled++], 0, tag);
        if (filled == batch.length) {
            flush();
        }
    }

    @Override
    void flush() {
        int taken = 0;
        while (taken < filled) {
            taken += publisher.offerBatch(batch, taken, filled - taken, 1);
        }
        filled = 0;
    }
}
