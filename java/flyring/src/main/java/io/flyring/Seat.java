// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;

/**
 * A slot that this process owns: its lock, and the mappings through which its owner stores. It outlives the publisher
 * or subscriber that owns it, so that one that was forgotten can be closed, too. The order is always the same: first
 * nothing can be stored any more, then what others look at is set right, and last the lock is released (spec 5.1).
 */
final class Seat implements Runnable {
    private static final System.Logger LOG = System.getLogger("io.flyring");

    private final Channel channel;
    private final Lock lock;
    private final int slot;
    private final boolean publisher;
    private final String name;
    private final long epoch;
    private final boolean kept;
    /** What only the owner looks and stores through. */
    private final List<Memory> mappings = new ArrayList<>();
    /** The publisher or subscriber; it may have been forgotten. */
    private WeakReference<Object> owner;
    private Cleaner.Cleanable cleaner;
    /** Of a service: the publisher slots that belong to the place, too. */
    private int firstRing;
    private int endOfRings;
    private boolean detached;
    private boolean left;
    private boolean released;

    Seat(Channel channel, Lock lock, int slot, boolean publisher, String name, long epoch, boolean kept) {
        this.channel = channel;
        this.lock = lock;
        this.slot = slot;
        this.publisher = publisher;
        this.name = name;
        this.epoch = epoch;
        this.kept = kept;
    }

    /** A place of a service: these publisher slots, on the same description. */
    Seat with(int first, int end) {
        firstRing = first;
        endOfRings = end;
        return this;
    }

    /** The mapping is released before the lock is. */
    void uses(Memory mapping) {
        mappings.add(mapping);
    }

    /** From now on the seat is given back when its owner is forgotten. */
    void ownedBy(Object object) {
        owner = new WeakReference<>(object);
        cleaner = Memory.whenForgotten(object, this);
    }

    /** Throws if the owner may not be closed now. Returns its wait, if that was taken over; else null. */
    Waiting stop() {
        Object object = owner.get();
        Waiting waiting = object instanceof Publisher publishing ? publishing.waiting()
            : object instanceof Subscriber subscribing ? subscribing.waiting()
            : object instanceof Worker working ? working.waiting()
            : object instanceof Client client ? client.waiting()
            : object instanceof Server server ? server.waiting() : null;
        if (waiting != null && waiting.takeOver()) {
            return waiting;
        }
        if (object instanceof Publisher publishing) {
            publishing.checkClosable();
        } else if (object instanceof Subscriber subscribing) {
            subscribing.checkClosable();
        } else if (object instanceof Worker working) {
            working.checkClosable();
        } else if (object instanceof Client client) {
            client.checkClosable();
        } else if (object instanceof Server server) {
            server.checkClosable();
        }
        return null;
    }

    /** Ends what the owner has open, and makes all further use of it {@link ClosedException}. */
    void endOwner() {
        if (owner.get() instanceof Publisher object) {
            object.end();
        } else if (owner.get() instanceof Subscriber object) {
            object.end();
        } else if (owner.get() instanceof Worker object) {
            object.end();
        } else if (owner.get() instanceof Client object) {
            object.end();
        } else if (owner.get() instanceof Server object) {
            object.end();
        }
    }

    /** Behind the end: tells of the calls that ended by it. */
    void tellOwner() {
        if (owner.get() instanceof Client object) {
            object.runPending();
        }
    }

    /** The worker that owns it; null if it is another's, or was forgotten. */
    Worker worker() {
        return owner != null && owner.get() instanceof Worker worker ? worker : null;
    }

    Lock lock() {
        return lock;
    }

    private long lockByte() {
        Header header = channel.header();
        return header.controlOffset + (publisher ? header.publisherSlot(slot) : header.subscriberSlot(slot));
    }

    private boolean owned() {
        Header header = channel.header();
        int at = publisher ? header.publisherSlot(slot) : header.subscriberSlot(slot);
        return channel.control().getLongOpaque(at + Layout.PUBLISHER_SLOT_EPOCH) == epoch;
    }

    /** Takes the file away from this object. Another thread that is in the middle of a call changes nothing of it. */
    void detach() {
        synchronized (lock) {
            if (!detached) {
                for (Memory mapping : mappings) {
                    channel.file().release(mapping);
                }
                detached = true;
            }
        }
    }

    /** What others see of a proper end: the ring is closed, or the gates are gone; or taken back, after an evict. */
    void leave() {
        synchronized (lock) {
            if (left || released) {
                return;
            }
            if (!publisher && channel.header().isQueue()) {
                left = true; // a worker's gates stay for who adopts its job: queue.md 7
                return;
            }
            if (owned()) {
                if (endOfRings > firstRing) {
                    channel.slots().closePublishers(firstRing, endOfRings);
                }
                if (publisher) {
                    channel.slots().closePublisher(slot);
                } else if (channel.header().isService() && slot == 0) { // whose gates stay
                    channel.slots().room().wakeAll();
                } else if (!channel.slots().kept(slot)) {
                    channel.joining().stopGating(slot);
                }
            } else if (!publisher && !(channel.header().isService() && slot == 0)) { // whose gates stay
                takeBack();
            }
            left = true;
        }
    }

    /** 5.4: takes back what may have been stored after an evict, if the slot's lock is still this one's. */
    private void takeBack() {
        long at = lockByte();
        if (channel.header().foreign == Foreign.NONE && lock.tryLockIfPossible(at)) {
            if (endOfRings > firstRing) {
                channel.slots().closePublishers(firstRing, endOfRings);
            }
            channel.slots().evicting(slot, true);
            channel.joining().stopGating(slot);
        }
    }

    /** The slot's next owner may come. */
    void release() {
        synchronized (lock) {
            if (!released) {
                Header header = channel.header();
                for (int ring = firstRing; ring < endOfRings; ring++) {
                    lock.unlockBeforeClose(header.controlOffset + header.publisherSlot(ring));
                }
                lock.unlockAndClose(lockByte());
                released = true; // last: after an Error in front of this, the next call does it again
            }
        }
        channel.released(this);
    }

    /** A proper end. */
    void close() {
        try {
            detach();
            leave();
        } finally {
            if (detached) {
                release();
            }
        }
        forgetCleaner();
    }

    /** Its owner is in the middle of something: others must not take what it leaves for a proper end. */
    void fail() {
        left = true;
    }

    /** The end of an object that may be in the middle of something: its slot's next owner mends what it left. */
    void abandon() {
        detach();
        release();
        forgetCleaner();
    }

    private void forgetCleaner() {
        if (cleaner != null) {
            cleaner.clean();
        }
    }

    /** The owner was forgotten (the garbage collector found it), or has closed. */
    @Override
    public void run() {
        boolean forgotten;
        synchronized (lock) {
            forgotten = !released;
        }
        if (forgotten) {
            LOG.log(System.Logger.Level.WARNING, "A " + (publisher ? "publisher"
                : channel.header().isQueue() ? "worker"
                : channel.header().isService() ? slot == 0 ? "server" : "client" : "subscriber") + " of "
                + channel.path() + " was never closed: slot " + slot + (name.isEmpty() ? "" : " (" + name + ")")
                + ". Nothing refers to it any more, so its slot was given back. Close what you open.");
            close();
        }
    }
}
