// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.List;

/**
 * A slot that this process owns: its lock, and the mappings through which its owner stores. The seat outlives the
 * owning object, so that an object that became unreachable can be closed. Closing has a fixed order: first no more
 * stores are possible, then the words that other processes read are set, and last the lock is released (channel.md
 * 5.1).
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
    /** The mappings that only the owner uses. */
    private final List<Memory> mappings = new ArrayList<>();
    /** The owning object, which may be unreachable by now. */
    private WeakReference<Object> owner;
    private Cleaner.Cleanable cleaner;
    /** Of a service: the publisher slots that also belong to the place. */
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

    /** Adds the publisher slots of a place of a service; their locks are on the same file description. */
    Seat with(int first, int end) {
        firstRing = first;
        endOfRings = end;
        return this;
    }

    /** Adds a mapping, which is released before the lock is. */
    void uses(Memory mapping) {
        mappings.add(mapping);
    }

    /** Sets the owner; from now on the seat is given back when the owner becomes unreachable. */
    void ownedBy(Object object) {
        owner = new WeakReference<>(object);
        cleaner = Memory.whenForgotten(object, this);
    }

    /** Throws if the owner cannot be closed now. Returns its wait if that was taken over; else null. */
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

    /** Ends what the owner has open; further use of the owner throws {@link ClosedException}. */
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

    /** After the end: runs the callbacks of the calls that ended. */
    void tellOwner() {
        if (owner.get() instanceof Client object) {
            object.runPending();
        }
    }

    /** The worker that owns the seat; null if the owner is not a worker, or is unreachable. */
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

    /** Releases the mappings. A thread that is in the middle of a call changes nothing in the file after that. */
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

    /** Stores a proper end: closes the ring, or clears the gates; after an evict, takes the gates back (5.4). */
    void leave() {
        synchronized (lock) {
            if (left || released) {
                return;
            }
            if (!publisher && channel.header().isQueue()) {
                left = true; // a worker's gates stay for its job's adopter (queue.md 7)
                return;
            }
            if (owned()) {
                if (endOfRings > firstRing) {
                    channel.slots().closePublishers(firstRing, endOfRings);
                }
                if (publisher) {
                    channel.slots().closePublisher(slot);
                } else if (channel.header().isService() && slot == 0) { // a server's gates stay
                    channel.slots().room().wakeAll();
                } else if (!channel.slots().kept(slot)) {
                    channel.joining().stopGating(slot);
                }
            } else if (!publisher && !(channel.header().isService() && slot == 0)) { // a server's gates stay
                takeBack();
            }
            left = true;
        }
    }

    /** Takes back gates that may have been stored after an evict, if the slot's lock is still held (5.4). */
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

    /** Releases the lock, so that the slot's next owner can take it. */
    void release() {
        synchronized (lock) {
            if (!released) {
                Header header = channel.header();
                for (int ring = firstRing; ring < endOfRings; ring++) {
                    lock.unlockBeforeClose(header.controlOffset + header.publisherSlot(ring));
                }
                lock.unlockAndClose(lockByte());
                released = true; // last: after an Error before this, the next call tries again
            }
        }
        channel.released(this);
    }

    /** Gives the slot back after a proper end. */
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

    /** The owner stopped in the middle of a change: others must not take its state for a proper end. */
    void fail() {
        left = true;
    }

    /** Gives the slot back without a proper end: the slot's next owner repairs what is unfinished. */
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

    /** Runs when the owner has become unreachable, or has closed. */
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
