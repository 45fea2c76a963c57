// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Who published jobs: the present owner of their ring's slot, or nobody knows (queue.md 9). */
final class Senders {
    private final Channel channel;
    private final Header header;
    /** Those of each ring, as they were seen last, and where the first record of each lies. */
    private final Sender[] known;
    private final long[] starts;

    Senders(Channel channel) {
        this.channel = channel;
        this.header = channel.header();
        this.known = new Sender[header.publishers];
        this.starts = new long[header.publishers];
    }

    /** Of the job that lies there; allocates only when the ring has a new owner. */
    Sender of(int ring, long position) {
        final int at = header.publisherSlot(ring);
        // pairs with: take, epoch
        final long epoch = channel.control().getLongAcquire(at + Layout.PUBLISHER_SLOT_EPOCH);
        Sender sender = known[ring];
        if (sender == null || sender.epoch() != epoch) {
            final Slots.Fields fields = channel.slots().fields(at);
            final boolean good = fields.epoch() > 0 && Recovery.isPosition(fields.start(), header.alignment);
            sender = good ? new Sender(ring, fields.name(), fields.epoch()) : Sender.unknown(ring);
            known[ring] = sender;
            starts[ring] = good ? fields.start() : Long.MAX_VALUE;
        }
        return starts[ring] <= position ? sender : Sender.unknown(ring);
    }
}
