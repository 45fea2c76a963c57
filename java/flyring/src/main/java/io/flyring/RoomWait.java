// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The wait of a publisher for room, or until everything is read (channel.md 6.16). */
abstract class RoomWait extends Waiting {
    private static final long FIRST_CAP_NANOS = 4_000_000; // short, because it frees the slots of dead readers
    private static final long CAP_NANOS = 20_000_000;
    private static final long FIRST_NANOS = 1_000_000_000;

    private static final int NO_WORKER = -1;

    private final Channel channel;
    private final int subscribers;
    private final RoomRest rest = new RoomRest();

    RoomWait(Channel channel, int ring) {
        super(channel.slots().room(), true, WaitingWords.bit(ring), "room");
        this.channel = channel;
        this.subscribers = channel.header().subscribers;
        pauses = Room.pauses(channel.header());
    }

    abstract long gate(int slot);

    /** The end of what was published. */
    abstract long published();

    /** Whether it waits until everything is read. */
    abstract boolean flushes();

    /** The publisher's own lock. */
    abstract Lock lock();

    /** Of a queue: the error if the calling thread's own job holds this publisher back; else null. */
    abstract BusyException busy();

    @Override
    final void checkBegin(long timeout) {
        if (timeout > 0) {
            BusyException error = busy();
            if (error != null) {
                throw error;
            }
        }
    }

    @Override
    final long rest(long now, long timeout) {
        final boolean rests = channel.header().isQueue() && timeout > 0 && !flushes();
        return rests ? rest.begin(now, published(), channel.header().capacity) : 0;
    }

    @Override
    final boolean othersWake() {
        if (channel.header().isQueue()) { // any worker may move gate[0]
            return channel.slots().workersWake(lock(), NO_WORKER);
        }
        for (int slot = 0; slot < subscribers; slot++) {
            if (gate(slot) >= 0 && !channel.slots().subscriberWakes(slot)) {
                return false;
            }
        }
        return true;
    }

    @Override
    final long cap(long waited) {
        return waited < FIRST_NANOS ? FIRST_CAP_NANOS : CAP_NANOS;
    }

    @Override
    final void betweenLooks() {
        Thread.yield(); // a reader that must make room may need this core
    }

    @Override
    final void look() {
        channel.checkReplaced();
        checkBegin(1);
    }
}
