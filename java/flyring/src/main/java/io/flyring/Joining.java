// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Arrays;
import java.util.stream.IntStream;

/** How a subscriber gets on and off its rings: choose, join, resume, leave, forget (spec 5.3, 6.4 to 6.6). */
final class Joining {
    private final Channel channel;
    private final Header header;
    private final ChannelFile file;

    Joining(Channel channel, ChannelFile file) {
        this.channel = channel;
        this.header = channel.header();
        this.file = file;
    }

    int[] chosen(int[] rings) {
        for (int ring : rings) {
            if (ring < 0 || ring >= header.publishers) {
                throw new InvalidArgumentException("rings", "There is no ring " + ring + "; the channel "
                    + channel.path() + " has " + header.publishers + ", from 0.");
            }
        }
        return rings.length == 0 ? IntStream.range(0, header.publishers).toArray()
            : Arrays.stream(rings).sorted().distinct().toArray();
    }

    /** 5.3 step 4: resumes a kept slot that gates, joins otherwise; {@code named}: null if no rings were named. */
    RingReader[] attach(int slot, long epoch, int[] named, boolean kept) {
        Slots slots = channel.slots();
        boolean resumes = slots.spared(slot) && gating(slot).length > 0;
        int[] rings = resumes ? gating(slot) : named != null ? named : chosen(new int[0]);
        if (resumes && named != null && !Arrays.equals(named, rings)) {
            throw new ChannelDiffersException("rings", Arrays.toString(named), Arrays.toString(rings), "Slot " + slot
                + " of " + channel.path() + " is kept for rings " + Arrays.toString(rings) + ", not "
                + Arrays.toString(named) + ". Ask for those, or for none; or forget the slot first.");
        }
        RingReader[] readers = new RingReader[rings.length];
        for (int i = 0; i < rings.length; i++) {
            Memory data = file.map(header.ringOffset(rings[i]), header.capacity, true);
            readers[i] = new RingReader(channel, rings[i], slot, epoch, data);
        }
        if (resumes) {
            for (RingReader reader : readers) {
                reader.resume();
            }
            return knowing(readers);
        }
        if (slots.kept(slot)) {
            slots.evicting(slot, true); // killed in between, half a join must not be resumed
        }
        try {
            join(slot, rings, readers);
        } catch (CorruptRingException e) {
            stopGating(slot);
            throw e;
        }
        if (kept) {
            slots.keep(slot, true);
        }
        if (slots.evicting(slot)) {
            slots.evicting(slot, false); // last
        }
        return knowing(readers);
    }

    private RingReader[] knowing(RingReader[] readers) {
        for (RingReader reader : readers) {
            reader.learnSender(channel.slots());
        }
        return readers;
    }

    private void join(int slot, int[] rings, RingReader[] readers) {
        for (int ring = 0; ring < header.publishers; ring++) {
            if (Arrays.binarySearch(rings, ring) < 0) {
                // pairs with: recompute 2
                channel.trailers().get(ring).putLongRelease(Header.gate(slot), Layout.NOT_GATING);
            }
        }
        for (RingReader reader : readers) {
            reader.gateAtPublished();
        }
        RingReader.joinFence();
        for (RingReader reader : readers) {
            reader.join();
        }
    }

    private int[] gating(int slot) {
        return IntStream.range(0, header.publishers)
            .filter(ring -> header.foreign == Foreign.PUBLISHER || gate(ring, slot) >= 0)
            .toArray();
    }

    private long gate(int ring, int slot) {
        return channel.trailers().get(ring).getLongAcquire(Header.gate(slot)); // pairs with: the slot's last owner
    }

    /** 6.6, but for the lock. */
    void stopGating(int slot) {
        Slots.stopGating(slot, channel.trailers());
    }

    /** 5.3, forget, but for the slot's lock. */
    void forget(Lock lock, int slot) {
        lock.lockControl(header);
        channel.slots().keep(slot, false);
        stopGating(slot);
        channel.slots().clearSubscriberName(slot);
        lock.unlockControl(header);
    }
}
