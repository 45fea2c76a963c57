// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;

/** Chooses, joins, resumes, leaves and forgets the rings of a subscriber (channel.md 5.3, 6.4 to 6.6). */
final class Joining {
    private final Channel channel;
    private final Header header;
    private final ChannelFile file;

    Joining(Channel channel, ChannelFile file) {
        this.channel = channel;
        this.header = channel.header();
        this.file = file;
    }

    /** What an attach will do: checked and mapped, but the file is not changed yet. */
    record Plan(boolean resumes, int[] rings, RingReader[] readers) {
    }

    /** The chosen rings, ascending; null chooses all. */
    int[] chosen(int[] rings) {
        if (rings == null) {
            return IntStream.range(0, header.producers()).toArray();
        }
        if (rings.length == 0) {
            throw new InvalidArgumentException("rings", "No ring is named. Leave the rings out to read all of them.");
        }
        for (int ring : rings) {
            if (ring < 0 || ring >= header.producers()) {
                throw new InvalidArgumentException("rings", header.isReturns(ring) ? "Ring " + ring + " of "
                    + channel.path() + " has the jobs that were released: only workers read it. Name another."
                    : "There is no ring " + ring + "; the channel " + channel.path() + " has " + header.producers()
                    + ", from 0.");
            }
        }
        return Arrays.stream(rings).sorted().distinct().toArray();
    }

    /** Makes all checks that may refuse (5.3, 3) and maps the rings; {@code named} is null if no rings were named. */
    Plan plan(int slot, int[] named, Waker waker) {
        int[] gating = channel.slots().spared(slot) ? gating(slot) : new int[0];
        boolean resumes = gating.length > 0;
        int[] rings = resumes ? gating : named != null ? named : chosen(null);
        if (resumes && named != null && !Arrays.equals(named, rings)) {
            throw new ChannelDiffersException("rings", Arrays.toString(named), Arrays.toString(rings), "Slot " + slot
                + " of " + channel.path() + " is kept for rings " + Arrays.toString(rings) + ", not "
                + Arrays.toString(named) + ". Ask for those, or for none; or forget the slot first.");
        }
        RingReader[] readers = new RingReader[rings.length];
        List<Memory> mapped = new ArrayList<>();
        boolean done = false;
        try {
            for (int i = 0; i < rings.length; i++) {
                Memory data = file.map(header.ringOffset(rings[i]), header.capacity, true);
                mapped.add(data);
                Memory trailer = channel.mapTrailer(rings[i]); // a separate mapping, so that it can be detached alone
                mapped.add(trailer);
                readers[i] = new RingReader(channel, rings[i], slot, data, trailer, waker);
                readers[i].check(resumes);
            }
            done = true;
            return new Plan(resumes, rings, readers);
        } finally {
            if (!done) {
                mapped.forEach(file::release);
            }
        }
    }

    /** Resumes a kept slot that gates, or else joins (5.3, 5). */
    void attach(Plan plan, int slot, long epoch, boolean kept) {
        Slots slots = channel.slots();
        for (RingReader reader : plan.readers) {
            reader.owner(epoch);
        }
        if (plan.resumes) {
            for (RingReader reader : plan.readers) {
                withCount(reader.ring, count -> {
                    reader.resume(count);
                    return 0;
                });
            }
        } else {
            boolean wasKept = slots.kept(slot);
            if (wasKept) {
                slots.evicting(slot, true); // if killed in between, half a join must not be resumed
            }
            join(plan, slot, wasKept);
            if (kept) {
                slots.keep(slot, true);
            }
            if (slots.evicting(slot)) {
                slots.evicting(slot, false); // last
            }
        }
        for (RingReader reader : plan.readers) {
            reader.learnSender(slots);
        }
    }

    /** Runs an action with a ring's counts; maps the ring for that time. */
    private long withCount(int ring, ToLongFunction<MessageCount> action) {
        Memory whole = file.map(header.ringOffset(ring), header.ringStride, true);
        try {
            return action.applyAsLong(new MessageCount(whole, header));
        } finally {
            file.release(whole);
        }
    }

    private void join(Plan plan, int slot, boolean wasKept) {
        for (int ring = 0; ring < header.publishers; ring++) {
            if (Arrays.binarySearch(plan.rings, ring) < 0) {
                // pairs with: recompute 2
                channel.trailers().get(ring).putLongRelease(Header.gate(slot), Layout.NOT_GATING);
            }
        }
        boolean joined = false;
        try {
            for (RingReader reader : plan.readers) {
                reader.gateAtPublished();
            }
            RingReader.joinFence();
            long lost = 0;
            for (RingReader reader : plan.readers) {
                lost += withCount(reader.ring, reader::join);
            }
            if (wasKept) {
                channel.slots().discard(slot, lost);
            }
            for (RingReader reader : plan.readers) {
                reader.storeCount();
            }
            joined = true;
        } finally {
            if (!joined) {
                clearGates(slot);
            }
        }
    }

    /**
     * After a failure that follows the join: clears the gates of a slot that is not kept, and releases the mappings.
     */
    void undo(Plan plan, int slot) {
        if (plan != null) {
            if (!plan.resumes && !channel.slots().kept(slot)) {
                clearGates(slot);
            }
            for (RingReader reader : plan.readers) {
                reader.mappings().forEach(file::release);
            }
        }
    }

    private int[] gating(int slot) {
        return IntStream.range(0, header.publishers)
            .filter(ring -> header.foreign == Foreign.PUBLISHER || gate(ring, slot) >= 0)
            .toArray();
    }

    private long gate(int ring, int slot) {
        return channel.trailers().get(ring).getLongAcquire(header.gateAt(slot)); // pairs with: the slot's last owner
    }

    /** The number of messages that a slot has not read; -1 if not known (6.11). */
    long unread(int slot) {
        long sum = 0;
        for (int ring = 0; ring < header.publishers && sum >= 0; ring++) {
            if (header.mayGate(ring, slot) && gate(ring, slot) >= 0) {
                long unread = withCount(ring, count -> count.unread(slot));
                sum = unread < 0 ? Layout.COUNT_UNKNOWN : sum + unread;
            }
        }
        return sum;
    }

    /** Leaves all rings (6.6), except for the lock. */
    void stopGating(int slot) {
        channel.slots().stopGating(slot, channel.trailers());
    }

    /** Clears the gates without waking publishers. */
    private void clearGates(int slot) {
        channel.slots().clearGates(slot, channel.trailers());
    }

    /** Forgets a kept slot (5.3), except for the slot's lock. The caller has the control lock, and the slot. */
    void forget(int slot) {
        channel.slots().keep(slot, false);
        clearGates(slot); // the close that follows wakes publishers
        channel.slots().clearSubscriberName(slot);
    }
}
