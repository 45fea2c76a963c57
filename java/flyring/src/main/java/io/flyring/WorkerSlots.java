// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayList;
import java.util.List;

/** Takes and evicts the slots of workers (queue.md 6 and 7). */
final class WorkerSlots {
    private WorkerSlots() {
    }

    /** Takes a worker's slot (channel.md 5.3, without join), and adopts what its last owner had in hand. */
    static Worker take(Channel channel, String name) {
        synchronized (channel) {
            channel.checkWritable();
            if (!channel.header().isQueue()) {
                throw new InvalidArgumentException("kind", channel.path() + " is a " + channel.kind()
                    + ", no queue: it has no workers. Call subscriber().");
            }
            byte[] bytes = Slots.name(name);
            channel.trailers();
            Lock lock = channel.file().newLock();
            List<Memory> mapped = new ArrayList<>();
            Seat seat = null;
            boolean done = false;
            try {
                channel.slots().checkWorkerFree(lock);
                Worker worker = take(channel, name, bytes, lock, mapped);
                seat = worker.seat();
                mapped.forEach(seat::uses);
                channel.took(seat);
                seat.ownedBy(worker);
                done = true;
                return worker;
            } finally {
                if (!done) {
                    if (seat != null) {
                        channel.released(seat);
                    }
                    mapped.forEach(channel.file()::release);
                    lock.close();
                }
            }
        }
    }

    /** Maps all memory before it takes the locks: others wait for the locks, and a failed mapping changes nothing. */
    private static Worker take(Channel channel, String name, byte[] bytes, Lock lock, List<Memory> mapped) {
        Header header = channel.header();
        Slots slots = channel.slots();
        Waker room = new Waker(slots.room(), slots.wakes()); // may take some milliseconds
        Waker jobs = new Waker(slots.data(), slots.jobs(), slots.wakes());
        for (int ring = 0; ring < header.publishers; ring++) {
            Memory data = channel.file().map(header.ringOffset(ring), header.capacity, true);
            mapped.add(data);
            mapped.add(channel.mapTrailer(ring)); // a separate mapping, so that it can be detached alone
            data.prefault();
        }
        Memory last = channel.file().map(header.ringOffset(header.publishers - 1), header.ringStride, false);
        mapped.add(last);
        int slot = slots.takeSubscriber(lock, bytes);
        slots.adoptBoot();
        JobRing[] rings = new JobRing[header.publishers];
        for (int ring = 0; ring < rings.length; ring++) {
            rings[ring] = new JobRing(header, ring, slot, mapped.get(2 * ring), mapped.get(2 * ring + 1), room);
        }
        Returns returns = new Returns(channel, last, jobs, lock, slot);
        Adoption adoption = new Adoption(channel, slot, lock);
        Hand hand = new Hand(channel, slot);
        long epoch = slots.enterSubscriber(slot, bytes);
        returns.owner(epoch);
        adoption.inherit(rings, hand);
        if (slots.evicting(slot)) {
            slots.evicting(slot, false); // last
        }
        slots.room().wakeAll();
        slots.jobs().wakeAll(); // the last owner may have died before a wake; and sleepers compute their caps again
        lock.unlockControl(header);
        Seat seat = new Seat(channel, lock, slot, false, name, epoch, false);
        return new Worker(channel, name, slot, seat, epoch, new Intake(rings, hand, adoption), hand, returns, adoption);
    }

    /** Evicts a worker, under the control lock (queue.md 7). Returns 1 if it had a job in hand, else 0. */
    static long evict(Channel channel, int slot) {
        InHandStats job = Adoption.inHand(channel.header(), channel.control(), channel.trailers(), slot);
        channel.slots().evictWorker(slot);
        return job != null ? 1 : 0;
    }
}
