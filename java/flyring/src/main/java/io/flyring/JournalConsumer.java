// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A named reader of a journal that goes on where it stopped, also after a restart; made by {@link Journal#consumer}.
 * Its place, the gate, is stored at the end of each poll. So after a death the next owner of the name gets again what
 * was consumed since then. With one consumer a journal is a persistent deque: {@link Journal#push}, {@link #pop},
 * {@link #peek}, {@link #size}. Not thread-safe. Concurrent use is detected on a best-effort basis and throws
 * {@link TwoThreadsException}. Spec journal.md 6.
 */
public final class JournalConsumer extends JournalReads {
    private static final long TAKE_NANOS = 10_000_000;
    private static final long RETRY_NANOS = 1_000_000;

    private final JournalSeat seat;
    private final JournalGate gate;
    private final String name;
    /** The gate and the number of lost messages as they are stored. */
    private long stored;
    private long storedLost;

    private JournalConsumer(JournalFile file, JournalCursor cursor, JournalSeat seat, JournalGate gate, String name) {
        super(file, cursor, seat);
        this.seat = seat;
        this.gate = gate;
        this.name = name;
        this.stored = gate.position();
        this.storedLost = gate.lost();
    }

    /** Takes the slot of a name, or a free one (6). */
    static JournalConsumer open(JournalFile file, String name, JournalStart start, boolean skips) {
        final byte[] bytes = checkName(name);
        file.checkLinked();
        file.checkRecovered();
        final JournalSeat seat = new JournalSeat(file);
        JournalCursor cursor = null;
        boolean done = false;
        try {
            int slot = take(file, seat, bytes, start.what == JournalStart.What.OLDEST); // under the control lock
            if (slot < 0) { // without it: the walk may be long, and trims, recoveries and other consumers wait for it
                cursor = new JournalCursor(file, false, skips);
                cursor.begin(start);
                slot = take(file, seat, bytes, true);
            }
            final JournalGate gate = new JournalGate(file, slot);
            if (gate.isKept()) { // resume; of the walk nothing counts, if another process has registered the name since
                if (cursor != null) {
                    cursor.close();
                }
                cursor = new JournalCursor(file, false, skips);
                gate.read();
                cursor.lost(gate.lost());
                cursor.goTo(checkedGate(file, gate), gate.count(), false);
                seat.enter(bytes, false);
            } else { // join; no trim passes it, because of the control lock
                if (cursor == null) {
                    cursor = new JournalCursor(file, false, skips);
                    cursor.begin(start);
                } else if (cursor.position() < file.trimmed()) { // since the walk: what lies between is lost
                    cursor.goTo(cursor.position(), cursor.number(), false);
                }
                seat.enter(bytes, false);
                gate.store(cursor.position(), cursor.number(), cursor.lost());
                gate.keep(true);
            }
            file.syncControl(); // also at a resume: the process that registered the name may have been killed before
            seat.unlockControl();
            final JournalConsumer consumer = new JournalConsumer(file, cursor, seat, gate, name);
            done = true;
            return consumer;
        } finally {
            if (!done) {
                if (cursor != null) {
                    cursor.close();
                }
                seat.close();
            }
        }
    }

    static byte[] checkName(String name) {
        final byte[] bytes = Slots.name(name);
        if (bytes.length == 0) {
            throw new InvalidArgumentException("name", "A consumer needs a name: it keeps its place under it.");
        }
        return bytes;
    }

    private static long checkedGate(JournalFile file, JournalGate gate) {
        final long position = gate.position();
        if (!JournalFile.isPosition(position)) {
            throw file.corrupt(position, "a consumer's gate is no position");
        }
        return position;
    }

    /**
     * Takes the control lock and a slot's lock (channel.md 5.3, 1 and 2); returns the slot. Returns -1, without a lock,
     * if the name is new and it is not {@code known} where it begins.
     */
    private static int take(JournalFile file, JournalSeat seat, byte[] name, boolean known) {
        final long since = System.nanoTime();
        while (true) {
            seat.lockControl();
            file.checkLinked();
            final int kept = slotOf(file, name);
            if (kept < 0 && !known) {
                seat.unlockControl();
                return -1;
            }
            for (int slot = Math.max(kept, 0); slot < file.header.consumers; slot++) {
                if ((slot == kept || kept < 0 && !new JournalGate(file, slot).isKept())
                    && seat.tryLock(JournalHeader.consumerSlot(slot))) {
                    return slot;
                }
                if (slot == kept) {
                    break;
                }
            }
            if (System.nanoTime() - since > TAKE_NANOS) {
                throw noFreeSlot(file, kept);
            }
            seat.unlockControl();
            Pause.nanos(RETRY_NANOS);
        }
    }

    /** The kept slot that has a name; -1 if there is none. */
    static int slotOf(JournalFile file, byte[] name) {
        for (int slot = 0; slot < file.header.consumers; slot++) {
            if (new JournalGate(file, slot).isKept()
                && java.util.Arrays.equals(JournalSeat.name(file, JournalHeader.consumerSlot(slot)), name)) {
                return slot;
            }
        }
        return -1;
    }

    private static NoFreeSlotException noFreeSlot(JournalFile file, int kept) {
        final List<NoFreeSlotException.Owner> owners = new ArrayList<>();
        final int number = file.header.consumers;
        for (int slot = 0; slot < number; slot++) {
            final int at = JournalHeader.consumerSlot(slot);
            if ((kept < 0 || slot == kept) && JournalSeat.isLive(file, at)) {
                final JournalSeat.Owner owner = JournalSeat.owner(file, at);
                owners.add(new NoFreeSlotException.Owner(slot, owner.name(), owner.pid()));
            }
        }
        final String text = kept >= 0 ? NoFreeSlotException.text(file.path, "consumer", number, owners, List.of(), true)
            : file.path + ": all " + number + " names of consumers are in use. Forget one, or create the journal with"
            + " more.";
        return new NoFreeSlotException("consumer", number, owners, text);
    }

    /** Removes a name (6, forget). */
    static void forget(JournalFile file, String name) {
        final byte[] bytes = Slots.name(name);
        file.checkLinked();
        file.checkRecovered();
        try (JournalSeat seat = new JournalSeat(file)) {
            seat.lockControl();
            final int slot = bytes.length == 0 ? -1 : slotOf(file, bytes);
            if (slot < 0) {
                throw new InvalidArgumentException("name", file.path + " has no consumer of the name \"" + name
                    + "\".");
            }
            if (!seat.tryLock(JournalHeader.consumerSlot(slot))) {
                throw new BusyException("The consumer '" + name + "' of " + file.path + " is open, in the process "
                    + JournalSeat.owner(file, JournalHeader.consumerSlot(slot)).pid() + ". Close it first.");
            }
            new JournalGate(file, slot).keep(false);
            file.syncControl();
        }
    }

    @Override
    boolean isOwned() {
        return seat.isOwned();
    }

    @Override
    void passed(boolean atOnce) {
        if (atOnce ? cursor.position() != stored || cursor.lost() != storedLost
            : cursor.position() - stored >= Layout.JOURNAL_GATE_EVERY) {
            if (isOwned()) {
                gate.store(cursor.position(), cursor.number(), cursor.lost());
                stored = cursor.position(); // after that: an Error in between leaves it to the next call
                storedLost = cursor.lost();
            }
        }
    }

    @Override
    FlyringException slotLost() {
        return new SlotLostException(slot(), "The slot of the consumer '" + name + "' of " + file.path
            + " has another owner. Close this one and open it again.");
    }

    /**
     * Takes the oldest message: the same as {@link #take()}.
     *
     * @return a message that owns its bytes; null if there is none.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public Message pop() {
        return take();
    }

    /**
     * Takes the oldest message, and waits while there is none.
     *
     * @param timeout the longest time to wait.
     * @return a message that owns its bytes; null if none came in time.
     * @throws FlyringException as {@link #poll(MessageHandler, int, Duration)} does.
     */
    public Message pop(Duration timeout) {
        return take(timeout);
    }

    /**
     * The oldest message, which stays.
     *
     * @return a message that owns its bytes; null if there is none.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public Message peek() {
        return copyNext();
    }

    /**
     * How many messages are not consumed.
     *
     * @return the number.
     * @throws ClosedException after close.
     */
    public long size() {
        checkUsable();
        return Math.max(0, file.word(Layout.JOURNAL_CONTROL_MESSAGES) - cursor.number());
    }

    /**
     * Makes the gate durable: a loss of power takes back nothing that was consumed before.
     *
     * @throws ClosedException after close.
     */
    public void sync() {
        checkUsable();
        file.syncControl();
    }

    /**
     * The consumer's name.
     *
     * @return the name.
     */
    public String name() {
        return name;
    }

    /**
     * The number of the consumer's slot.
     *
     * @return the number, from 0.
     */
    public int slot() {
        return (seat.at() - Layout.JOURNAL_CONTROL_CONSUMERS) / Layout.JOURNAL_CONSUMER_SIZE;
    }

    /** Removes the name, and closes: what this consumer has not consumed no longer holds back a trim. */
    public void forget() {
        checkUsable();
        try (JournalSeat other = new JournalSeat(file)) { // a close of another thread does not drop its control lock
            other.lockControl();
            checkUsable(); // until this ends, no other process takes the slot
            new JournalGate(file, slot()).keep(false);
            file.syncControl();
        }
        close();
    }

    /**
     * The slot's epoch under this owner: each new owner gets the next number.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return seat.epoch();
    }

    @Override
    public String toString() {
        return "consumer '" + name + "' of " + file.path;
    }
}
