// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;

/** The slots of publishers and subscribers in the control section: owners and names (channel.md 5). */
final class Slots {
    private static final long TAKE_NANOS = 10_000_000;
    private static final long RETRY_NANOS = 1_000_000;
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{0," + Layout.MAX_NAME_LENGTH + "}");
    private static final int CHANGING = -1;
    private static final int READ_TRIES = 1000;

    private final Header header;
    private final Memory control;
    private final Identity identity;
    private final String path;
    /** Whether the owners of slots that this channel takes wake sleepers (6.16). */
    private final boolean wakes;
    /** The words on which readers sleep, and those on which publishers sleep. */
    private final WaitingWords data;
    private final WaitingWords room;
    /** The words on which workers sleep; null if the channel is not a queue. */
    private final WaitingWords jobs;

    Slots(Header header, Memory control, Identity identity, String path, boolean wakes) {
        this.header = header;
        this.control = control;
        this.identity = identity;
        this.path = path;
        this.wakes = wakes;
        this.data = WaitingWords.data(control);
        this.room = WaitingWords.room(control);
        this.jobs = header.isQueue() ? WaitingWords.jobs(control) : null;
    }

    WaitingWords data() {
        return data;
    }

    WaitingWords room() {
        return room;
    }

    WaitingWords jobs() {
        return jobs;
    }

    /** Wakes all that wait for publishers: readers, and the workers of a queue. */
    void wakeReaders() {
        data.wakeAll();
        if (jobs != null) {
            jobs.wakeAll();
        }
    }

    boolean wakes() {
        return wakes;
    }

    static byte[] name(String name) {
        if (name == null || !NAME.matcher(name).matches()) {
            throw new InvalidArgumentException("name", "The name \"" + name + "\" is neither empty nor 1 to "
                + Layout.MAX_NAME_LENGTH + " of the characters A-Z a-z 0-9 . _ -.");
        }
        return name.getBytes(StandardCharsets.US_ASCII);
    }

    /** Throws if a foreign process has this end of the channel (6.15). */
    void checkOurs(Foreign end, String what) {
        if (header.foreign == end) {
            throw new InvalidArgumentException("foreign", "The " + end + " of " + path + " is foreign, so it can have"
                + " no " + what + " of Flyring's. Start the foreign process, or create the channel without foreign.");
        }
    }

    /** Throws if the channel has a foreign end, which needs slot 0's gate to stay 0 or more (6.15). */
    void checkNotForeign(String what) {
        if (header.foreign != Foreign.NONE) {
            throw new InvalidArgumentException("foreign", "The " + header.foreign + " of " + path + " is foreign and"
                + " knows no subscriber that is gone, so " + what + " is not possible. Create the channel without"
                + " foreign, or do without.");
        }
    }

    /**
     * Takes the control lock and a publisher slot's lock, both through {@code lock}: 5.2, 1 and 2. Returns the slot.
     */
    int takePublisher(Lock lock, byte[] name) {
        return take(lock, true, name);
    }

    /**
     * Takes the control lock and a subscriber slot's lock, both through {@code lock}: 5.3, 1 and 2. Returns the slot.
     */
    int takeSubscriber(Lock lock, byte[] name) {
        return take(lock, false, name);
    }

    /** Waits up to 10 ms until a worker's slot looks free; a new worker maps all rings before it takes the slot. */
    void checkWorkerFree(Lock lock) {
        long since = System.nanoTime();
        while (!isWorkerFree(lock)) {
            if (System.nanoTime() - since > TAKE_NANOS) {
                throw noFreeSlot(lock, false, new byte[0]);
            }
            Pause.nanos(RETRY_NANOS);
        }
    }

    private boolean isWorkerFree(Lock lock) {
        for (int slot = header.firstSubscriber(); slot < header.subscribers; slot++) {
            if (!live(lock, slot)) {
                return true;
            }
        }
        return false;
    }

    private int take(Lock lock, boolean publisher, byte[] name) {
        lock.lockControl(header);
        long since = System.nanoTime();
        while (true) {
            for (int slot : publisher ? publisherCandidates(name) : subscriberCandidates(name)) {
                if (lock.tryLock(lockByte(publisher, slot))) {
                    return slot;
                }
            }
            if (System.nanoTime() - since > TAKE_NANOS) {
                throw noFreeSlot(lock, publisher, name);
            }
            lock.unlockControl(header);
            Pause.nanos(RETRY_NANOS);
            lock.lockControl(header);
        }
    }

    private long lockByte(boolean publisher, int slot) {
        return header.controlOffset + (publisher ? header.publisherSlot(slot) : header.subscriberSlot(slot));
    }

    /** The error that no slot is free: names the owners of the candidate slots, and why the others are kept. */
    private NoFreeSlotException noFreeSlot(Lock lock, boolean publisher, byte[] name) {
        int number = publisher ? header.producers() : header.subscribers;
        int first = publisher ? 0 : header.firstSubscriber();
        List<Integer> candidates = publisher ? publisherCandidates(name) : subscriberCandidates(name);
        List<NoFreeSlotException.Owner> owners = new ArrayList<>();
        List<String> kept = new ArrayList<>();
        for (int slot = first; slot < number; slot++) {
            Fields fields = read(publisher ? header.publisherSlot(slot) : header.subscriberSlot(slot));
            String itsName = fields == null ? "" : fields.name;
            if (lock.heldByAnother(lockByte(publisher, slot))) {
                if (candidates.contains(slot)) {
                    owners.add(new NoFreeSlotException.Owner(slot, itsName, fields == null ? 0 : fields.pid));
                }
            } else if (!publisher && !candidates.contains(slot)) {
                kept.add("slot " + slot + " is kept for '" + itsName
                    + "', which is not attached; its forget() frees it");
            }
        }
        String kind = publisher ? "publisher" : "subscriber";
        int owned = number - first;
        return new NoFreeSlotException(kind, owned, owners, NoFreeSlotException.text(path, kind, owned, owners, kept,
            candidates.size() == 1 && name.length > 0
            && hasName(publisher ? header.publisherSlot(candidates.get(0))
                : header.subscriberSlot(candidates.get(0)), name)));
    }

    private List<Integer> publisherCandidates(byte[] name) {
        List<Integer> unnamed = new ArrayList<>();
        List<Integer> named = new ArrayList<>();
        for (int slot = 0; slot < header.producers(); slot++) {
            int at = header.publisherSlot(slot);
            if (name.length > 0 && hasName(at, name)) {
                return List.of(slot);
            }
            boolean empty = noName(at);
            (empty ? unnamed : named).add(slot);
        }
        unnamed.addAll(named);
        return unnamed;
    }

    private List<Integer> subscriberCandidates(byte[] name) {
        if (header.kind == Kind.INBOX) {
            return List.of(0);
        }
        List<Integer> free = new ArrayList<>();
        for (int slot = header.firstSubscriber(); slot < header.subscribers; slot++) {
            int at = header.subscriberSlot(slot);
            if (!kept(slot) || header.isQueue()) { // a worker's slot is free whatever its name is: queue.md 6
                free.add(slot);
            } else if (name.length > 0 && hasName(at, name)) {
                return List.of(slot);
            } else if (noName(at)) {
                free.add(slot);
            }
        }
        return free;
    }

    /** Whether a slot has no name; it has none, too, if its owner was killed while it wrote the name. */
    private boolean noName(int at) {
        int length = control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH); // pairs with: take, stored last
        return length <= 0 || length > Layout.MAX_NAME_LENGTH;
    }

    private boolean hasName(int at, byte[] name) {
        // pairs with: take, name_length stored last
        if (control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH) != name.length) {
            return false;
        }
        return Arrays.equals(name, bytes(at + Layout.PUBLISHER_SLOT_NAME, name.length));
    }

    private byte[] bytes(int at, int length) {
        byte[] bytes = new byte[length];
        control.getBytes(at, bytes, 0, length);
        return bytes;
    }

    boolean kept(int slot) {
        // pairs with: take subscriber, step 5 (kept := 1)
        if (header.isService()) { // service.md 2
            return slot == 0;
        }
        return header.foreign != Foreign.NONE
            || control.getIntAcquire(header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_KEPT) != 0;
    }

    /** Writes the id of the running boot, if the file has another one (5.5). Called under the control lock. */
    void adoptBoot() {
        byte[] boot = identity.boot();
        if (!Arrays.equals(boot, bytes(Layout.CONTROL_BOOT_ID, boot.length))) {
            control.putBytes(Layout.CONTROL_BOOT_ID, boot, 0, boot.length);
        }
    }

    /** Writes the fields of a new publisher (5.2, 4); returns the new epoch. */
    long enterPublisher(int slot, byte[] name, long start) {
        int at = header.publisherSlot(slot);
        boolean renamed = markChanging(at, name);
        control.putLong(at + Layout.PUBLISHER_SLOT_START, start);
        control.putInt(at + Layout.PUBLISHER_SLOT_CLOSED, 0);
        control.putLongRelease(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE, 0); // pairs with: stats
        return storeOwner(at, name, renamed);
    }

    /** Writes the fields of a new subscriber (5.3, 4); returns the new epoch. */
    long enterSubscriber(int slot, byte[] name) {
        int at = header.subscriberSlot(slot);
        boolean renamed = markChanging(at, name);
        if (header.isQueue()) {
            control.putLongOpaque(at + Layout.SUBSCRIBER_SLOT_BUSY_SINCE, 0);
        }
        return storeOwner(at, name, renamed);
    }

    /**
     * Marks the fields as changing, unless the name stays: if killed in between, a kept slot would lose it (5.3, 4).
     */
    private boolean markChanging(int at, byte[] name) {
        boolean renamed = !hasName(at, name);
        if (renamed) {
            control.putIntOpaque(at + Layout.PUBLISHER_SLOT_NAME_LENGTH, CHANGING); // pairs with: 6.12
        }
        VarHandle.releaseFence();
        return renamed;
    }

    private long storeOwner(int at, byte[] name, boolean renamed) {
        control.putInt(at + Layout.PUBLISHER_SLOT_PID, identity.processId());
        control.putLong(at + Layout.PUBLISHER_SLOT_ATTACHED_AT, identity.now());
        if (renamed) {
            putName(at, name);
        }
        long epoch = epoch(at) + 1;
        control.putLong(at + Layout.PUBLISHER_SLOT_WAKES, wakes ? epoch : 0);
        control.putLongRelease(at + Layout.PUBLISHER_SLOT_EPOCH, epoch); // pairs with: 5.4, 6.12
        if (renamed) {
            control.putIntRelease(at + Layout.PUBLISHER_SLOT_NAME_LENGTH, name.length); // pairs with: 6.12
        }
        return epoch;
    }

    /** The epoch; a value outside its range counts as 0 (9). */
    private long epoch(int at) {
        return valid(control.getLongOpaque(at + Layout.PUBLISHER_SLOT_EPOCH));
    }

    private static long valid(long epoch) {
        return epoch >= 1 && epoch <= Layout.MAX_EPOCH ? epoch : 0;
    }

    private void putName(int at, byte[] name) {
        control.fill(at + Layout.PUBLISHER_SLOT_NAME, Layout.MAX_NAME_LENGTH, (byte) 0);
        control.putBytes(at + Layout.PUBLISHER_SLOT_NAME, name, 0, name.length);
    }

    void closePublisher(int slot) {
        // pairs with: closed, of a reader that has drained the ring
        control.putIntRelease(header.publisherSlot(slot) + Layout.PUBLISHER_SLOT_CLOSED, 1);
        wakeReaders();
    }

    void keep(int slot, boolean kept) {
        // pairs with: the load of kept in retire
        control.putIntRelease(header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_KEPT, kept ? 1 : 0);
    }

    void clearSubscriberName(int slot) {
        int at = header.subscriberSlot(slot);
        if (markChanging(at, new byte[0])) {
            putName(at, new byte[0]);
            control.putIntRelease(at + Layout.SUBSCRIBER_SLOT_NAME_LENGTH, 0); // pairs with: 6.12
        }
    }

    /** Stores since when a publisher is held back, and its record's length; 0 bytes if it is not held back (6.2, 5). */
    void blocked(int slot, long length) {
        int at = header.publisherSlot(slot);
        if (length > 0) {
            control.putLongOpaque(at + Layout.PUBLISHER_SLOT_BLOCKED_LENGTH, length);
        }
        // pairs with: stats
        control.putLongRelease(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE, length > 0 ? identity.monotonicNow() : 0);
    }

    /**
     * Retires one slot that holds {@code writer} back, if its owner is dead (6.7). Uses the description of the writer's
     * own lock, and reads the gate again under the slot's lock. (Without a lambda: a JVM takes up to 40 ms to create
     * its first one, and the publisher would be held back as long.)
     */
    void retire(Lock lock, int slot, List<Memory> trailers, RingWriter writer, long needed) {
        long offset = header.controlOffset + header.subscriberSlot(slot);
        if (kept(slot) || !lock.tryLockIfPossible(offset)) {
            return; // the slot is kept, or its owner lives
        }
        try {
            if (!kept(slot) && writer.holdsBack(slot, needed)) {
                int at = header.subscriberSlot(slot);
                control.putLongRelease(at + Layout.SUBSCRIBER_SLOT_EPOCH, epoch(at) + 1); // pairs with: 5.4
                stopGating(slot, trailers);
            }
        } finally {
            lock.unlock(offset);
        }
    }

    /** Takes back the gates that an evicted owner stored late, alive or dead (6.11). */
    void takeBack(Lock lock, int slot, List<Memory> trailers) {
        if (header.foreign == Foreign.NONE && evicting(slot) && lock.tryLockControl(header)) {
            try {
                if (evicting(slot)) { // its next owner may have joined
                    stopGating(slot, trailers);
                }
            } finally {
                lock.unlockControl(header);
            }
        }
    }

    /** Clears all gates of a slot and wakes publishers that wait for room (6.6, 6.7, 6.11). */
    void stopGating(int slot, List<Memory> trailers) {
        clearGates(slot, trailers);
        room.wakeAll();
    }

    /** Sets all gates of a slot to -1: not gating. */
    void clearGates(int slot, List<Memory> trailers) {
        for (int ring = 0; ring < trailers.size(); ring++) {
            if (!header.mayGate(ring, slot)) {
                continue;
            }
            trailers.get(ring).putLongRelease(header.gateAt(slot), Layout.NOT_GATING); // pairs with: recompute 2
        }
    }

    /** Evicts a subscriber (6.11). Called under the control lock. */
    void evict(int slot, List<Memory> trailers) {
        raiseEpoch(slot);
        evicting(slot, true); // until the next owner has joined
        stopGating(slot, trailers);
        data.wakeAll(); // the victim, if it sleeps
    }

    /** Evicts a worker (queue.md 7). Called under the control lock. The gates stay for its job's adopter. */
    void evictWorker(int slot) {
        raiseEpoch(slot); // first: if killed here, no job may be adopted from a worker that cannot know it
        evicting(slot, true); // pairs with: adopt 1
        jobs.wakeAll(); // the victim, if it sleeps, and adopters
    }

    /** Evicts a server (service.md 9). Called under the control lock. The gates stay, else requests would be lost. */
    void evictServer() {
        raiseEpoch(0);
        data.wakeAll();
        room.wakeAll();
    }

    /** Closes the publisher slots of a client or server, and wakes all that wait for them. */
    void closePublishers(int first, int end) {
        for (int slot = first; slot < end; slot++) {
            // pairs with: closed, of a reader that has drained the ring
            control.putIntRelease(header.publisherSlot(slot) + Layout.PUBLISHER_SLOT_CLOSED, 1);
        }
        wakeReaders();
    }

    private void raiseEpoch(int slot) {
        int epoch = header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EPOCH;
        long before = control.getAndAddLong(epoch, 1); // first: a live victim learns of it; pairs with: 5.4, poll 5
        if (valid(before) == 0 || valid(before + 1) == 0) {
            control.putLongVolatile(epoch, 1);
        }
    }

    /** Whether the owner of a ring, if it has one, wakes readers (6.16). */
    boolean publisherWakes(int ring) {
        int at = header.publisherSlot(ring);
        long epoch = control.getLongAcquire(at + Layout.PUBLISHER_SLOT_EPOCH); // pairs with: take
        return header.foreign != Foreign.PUBLISHER
            && (valid(epoch) == 0 || control.getIntOpaque(at + Layout.PUBLISHER_SLOT_CLOSED) != 0
            || control.getLongOpaque(at + Layout.PUBLISHER_SLOT_WAKES) == epoch);
    }

    /** Whether the owner of a gating slot wakes publishers (6.16). */
    boolean subscriberWakes(int slot) {
        int at = header.subscriberSlot(slot);
        long epoch = control.getLongAcquire(at + Layout.SUBSCRIBER_SLOT_EPOCH); // pairs with: take
        return header.foreign != Foreign.SUBSCRIBER
            && control.getLongOpaque(at + Layout.SUBSCRIBER_SLOT_WAKES) == epoch;
    }

    /** Whether all live workers of a queue wake producers and each other; {@code lock} is any lock of this process. */
    boolean workersWake(Lock lock, int except) {
        for (int slot = header.firstSubscriber(); slot < header.subscribers; slot++) {
            if (slot != except && !subscriberWakes(slot) && live(lock, slot)) {
                return false;
            }
        }
        return true;
    }

    /** Whether a subscriber slot was ever owned. */
    boolean wasOwned(int slot) {
        return epoch(header.subscriberSlot(slot)) != 0;
    }

    /** Whether a publisher slot was ever owned. */
    boolean hadPublisher(int ring) {
        return epoch(header.publisherSlot(ring)) != 0;
    }

    /** Whether a slot was evicted and no owner has joined since: its gates do not say where to resume. */
    boolean evicting(int slot) {
        // pairs with: evict, take back, take subscriber 5
        return control.getIntAcquire(header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EVICTING) != 0;
    }

    void evicting(int slot, boolean evicting) {
        // pairs with: the reads of take subscriber 3, and take back
        control.putIntRelease(header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EVICTING, evicting ? 1 : 0);
    }

    /** Whether a slot's gates stay when its owner goes: the slot is kept and not evicted, or foreign. */
    boolean spared(int slot) {
        return header.foreign != Foreign.NONE || kept(slot) && !evicting(slot);
    }

    /** Adds messages that an eviction of a kept slot has lost (6.4, 5). */
    void discard(int slot, long messages) {
        int at = header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_DISCARDED;
        control.putLongOpaque(at, Math.max(0, control.getLongOpaque(at)) + messages);
    }

    /** The fields of a slot; {@code start} is for publisher slots only. */
    record Fields(long epoch, long start, String name, int pid, long attachedAt) {
    }

    /**
     * Reads a slot's fields (6.12); epoch -1 if they keep changing, or their owner was killed while it changed them.
     */
    Fields fields(int at) {
        Fields fields = read(at);
        return fields != null ? fields : new Fields(-1, 0, "", 0, 0);
    }

    /** Reads a slot's fields (6.12); null if they keep changing, or their owner was killed while it changed them. */
    private Fields read(int at) {
        for (int i = 0; i < READ_TRIES; i++) {
            long epoch = control.getLongAcquire(at + Layout.PUBLISHER_SLOT_EPOCH); // pairs with: take, epoch
            int length = control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH); // pairs with: take
            if (length == CHANGING) {
                Thread.onSpinWait();
                continue;
            }
            boolean named = length >= 0 && length <= Layout.MAX_NAME_LENGTH;
            byte[] name = bytes(at + Layout.PUBLISHER_SLOT_NAME, named ? length : 0);
            int pid = control.getIntOpaque(at + Layout.PUBLISHER_SLOT_PID);
            long start = control.getLongOpaque(at + Layout.PUBLISHER_SLOT_START);
            long attachedAt = control.getLongOpaque(at + Layout.PUBLISHER_SLOT_ATTACHED_AT);
            VarHandle.acquireFence();
            // In this order: once the length is valid again, the new epoch is visible. Pairs with: take
            if (control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH) == length
                && control.getLongOpaque(at + Layout.PUBLISHER_SLOT_EPOCH) == epoch) {
                return new Fields(valid(epoch), start, new String(name, StandardCharsets.UTF_8), pid, attachedAt);
            }
        }
        return null;
    }

    /** Whether a subscriber slot has a live owner; {@code lock} is any lock of this process. */
    boolean live(Lock lock, int slot) {
        return header.foreign == Foreign.SUBSCRIBER // it has no lock, so it counts as live
            || lock.heldByAnother(header.controlOffset + header.subscriberSlot(slot));
    }

    /** Describes a subscriber slot for people: its owner, and whether the owner lives. */
    Holder holder(Lock lock, int slot, long position) {
        if (header.foreign == Foreign.SUBSCRIBER) {
            return new Holder(slot, "", 0, true, true, position);
        }
        Fields fields = read(header.subscriberSlot(slot));
        return new Holder(slot, fields == null ? "" : fields.name, fields == null ? 0 : fields.pid, live(lock, slot),
            kept(slot), position);
    }

    /**
     * The sender of what lies behind a cursor (6.14). The cursor must be set before the call. {@code before} is the
     * sender of what lies in front of the cursor; if it still owns the slot, nothing is allocated.
     */
    Sender sender(int ring, long cursor, Sender before) {
        if (header.foreign == Foreign.PUBLISHER) {
            return Sender.unknown(ring);
        }
        int at = header.publisherSlot(ring);
        // pairs with: take, epoch
        if (before.epoch() > 0 && control.getLongAcquire(at + Layout.PUBLISHER_SLOT_EPOCH) == before.epoch()) {
            return before;
        }
        Fields fields = read(at);
        return fields != null && fields.epoch > 0 && Recovery.isPosition(fields.start, header.alignment)
            && fields.start <= cursor
            ? new Sender(ring, fields.name, fields.epoch) : Sender.unknown(ring);
    }

    /** Whether a ring's last publisher closed: the first half of ended (6.14). */
    boolean closed(int ring) {
        // pairs with: close
        return header.foreign != Foreign.PUBLISHER
            && control.getIntAcquire(header.publisherSlot(ring) + Layout.PUBLISHER_SLOT_CLOSED) != 0;
    }
}
