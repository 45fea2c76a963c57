// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** Makes a message in the ring, by tryClaim and commit. */
abstract class AgronaClaim extends AgronaRing {
    AgronaClaim(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    final void send(long tag) {
        int index = ring.tryClaim(TYPE, messages.size);
        while (index < 0) {
            index = ring.tryClaim(TYPE, messages.size);
        }
        messages.write(ring.buffer(), index, tag);
        ring.commit(index);
    }
}
