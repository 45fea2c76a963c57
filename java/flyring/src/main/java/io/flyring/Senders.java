// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The publishers of jobs: the present owner of the ring's slot, or unknown (queue.md 9). */
final class Senders {
    private final Channel channel;
    private final Header header;
    /** The sender of each ring as last read, and the position of its first record. */
    private final Sender[] known;
    private final long[] starts;

    Senders(Channel channel) {
        this.channel = channel;
        this.header = channel.header();
        this.known = new Sender[header.publishers];
        this.starts = new long[header.publishers];
    }

    /** The publisher of the job at a position; allocates only when the ring has a new owner. */
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
