// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A slot of a journal that this process owns, that of the writer or of a consumer: its lock and its fields (journal.md
 * 2.2, channel.md 5.1 to 5.3). The lock lies on a description of its own, which also takes the control lock.
 */
final class JournalSeat implements AutoCloseable {
    private static final int CHANGING = -1;
    private static final int READ_TRIES = 1000;

    private final JournalFile file;
    private Lock lock;
    /** The offset of the slot in the control section; below 0: none is locked. */
    private int at = -1;
    private long epoch;
    private boolean controlLocked;

    JournalSeat(JournalFile file) {
        this.file = file;
        this.lock = file.file.newLock();
    }

    /** Tries to lock a slot; false if another description has it. */
    synchronized boolean tryLock(int slotAt) {
        if (lock != null && lock.tryLock(file.lockByte(slotAt))) {
            at = slotAt;
            return true;
        }
        return false;
    }

    synchronized void lockControl() {
        lock.lockControl(file.lockByte(Layout.CONTROL_CONTROL_LOCK));
        controlLocked = true;
    }

    synchronized void unlockControl() {
        if (controlLocked && lock != null) {
            controlLocked = false;
            lock.unlock(file.lockByte(Layout.CONTROL_CONTROL_LOCK));
        }
    }

    /** Whether any process has a slot. */
    static boolean isLive(JournalFile file, int slotAt) {
        return file.file.locked(file.lockByte(slotAt));
    }

    /**
     * Stores the fields of the new owner, the epoch last (channel.md 5.2, 4; 5.3, 4).
     *
     * @param name null for a single append: name, pid and time stay.
     * @param writer whether the slot is the writer's, which has {@code closed}.
     */
    synchronized void enter(byte[] name, boolean writer) {
        final Memory control = file.control;
        final boolean renamed = name != null && !Arrays.equals(name, name());
        if (renamed) {
            control.putIntOpaque(at + Layout.PUBLISHER_SLOT_NAME_LENGTH, CHANGING); // pairs with: channel.md 6.12
        }
        VarHandle.releaseFence();
        if (writer) {
            control.putInt(at + Layout.PUBLISHER_SLOT_CLOSED, 0);
        }
        if (name != null) {
            control.putInt(at + Layout.PUBLISHER_SLOT_PID, file.identity.processId());
            control.putLong(at + Layout.PUBLISHER_SLOT_ATTACHED_AT, file.identity.now());
        }
        if (renamed) {
            control.fill(at + Layout.PUBLISHER_SLOT_NAME, Layout.MAX_NAME_LENGTH, (byte) 0);
            control.putBytes(at + Layout.PUBLISHER_SLOT_NAME, name, 0, name.length);
        }
        epoch = valid(file.word(at + Layout.PUBLISHER_SLOT_EPOCH)) + 1;
        control.putLongOpaque(at + Layout.PUBLISHER_SLOT_WAKES, file.wakes ? epoch : 0);
        control.putLongRelease(at + Layout.PUBLISHER_SLOT_EPOCH, epoch); // pairs with: channel.md 5.4, 6.12
        if (renamed) {
            control.putIntRelease(at + Layout.PUBLISHER_SLOT_NAME_LENGTH, name.length); // pairs with: 6.12
        }
    }

    /** The name that the slot has; null while it changes, or if its owner died changing it. */
    private byte[] name() {
        return file.control.getIntOpaque(at + Layout.PUBLISHER_SLOT_NAME_LENGTH) == CHANGING ? null : name(file, at);
    }

    static byte[] name(JournalFile file, int at) {
        final int length = file.control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH); // pairs with: enter
        final byte[] name = new byte[length < 0 || length > Layout.MAX_NAME_LENGTH ? 0 : length];
        file.control.getBytes(at + Layout.PUBLISHER_SLOT_NAME, name, 0, name.length);
        return name;
    }

    private static long valid(long epoch) {
        return epoch >= 1 && epoch <= Layout.MAX_EPOCH ? epoch : 0;
    }

    int at() {
        return at;
    }

    long epoch() {
        return epoch;
    }

    /** Whether the slot's epoch is still this owner's. */
    boolean isOwned() {
        return at >= 0 && file.word(at + Layout.PUBLISHER_SLOT_EPOCH) == epoch;
    }

    /** Whether the slot's owner wakes sleepers, or there is none (channel.md 6.16). */
    static boolean ownerWakes(JournalFile file, int slotAt) {
        final long now = file.wordAcquire(slotAt + Layout.PUBLISHER_SLOT_EPOCH); // pairs with: enter
        return valid(now) == 0 || file.word(slotAt + Layout.PUBLISHER_SLOT_WAKES) == now
            || file.control.getIntOpaque(slotAt + Layout.PUBLISHER_SLOT_CLOSED) != 0;
    }

    /** The writer's proper end: stored before the lock is released. */
    synchronized void closed() {
        if (lock != null && isOwned()) {
            file.control.putIntRelease(at + Layout.PUBLISHER_SLOT_CLOSED, 1); // pairs with: ownerWakes
        }
    }

    /**
     * Gives the slot back, and keeps the description; false if it was closed, because only that drops the lock. Throws
     * nothing: what was appended is appended.
     */
    synchronized boolean release() {
        if (lock != null && at >= 0 && !lock.unlockBeforeClose(file.lockByte(at))) {
            close();
        }
        return lock != null;
    }

    /** Closes the description; the kernel drops its locks. After an Error in its middle, the next close goes on. */
    @Override
    public synchronized void close() {
        if (lock != null) {
            if (controlLocked) {
                lock.unlockBeforeClose(file.lockByte(Layout.CONTROL_CONTROL_LOCK));
                controlLocked = false;
            }
            if (at >= 0) {
                lock.unlockAndClose(file.lockByte(at));
            } else {
                lock.close();
            }
            lock = null;
        }
    }

    /** The last owner of a slot: epoch (-1: the fields keep changing), name, pid, and when it came. */
    record Owner(long epoch, String name, int pid, long attachedAt) {
    }

    /** Reads the fields of a slot (channel.md 6.12). */
    static Owner owner(JournalFile file, int at) {
        final Memory control = file.control;
        for (int i = 0; i < READ_TRIES; i++) {
            final long epoch = control.getLongAcquire(at + Layout.PUBLISHER_SLOT_EPOCH); // pairs with: enter
            final int length = control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH); // pairs with: enter
            if (length == CHANGING) {
                Thread.onSpinWait();
                continue;
            }
            final byte[] name = name(file, at);
            final int pid = control.getIntOpaque(at + Layout.PUBLISHER_SLOT_PID);
            final long attachedAt = control.getLongOpaque(at + Layout.PUBLISHER_SLOT_ATTACHED_AT);
            VarHandle.acquireFence();
            if (control.getIntAcquire(at + Layout.PUBLISHER_SLOT_NAME_LENGTH) == length
                && control.getLongOpaque(at + Layout.PUBLISHER_SLOT_EPOCH) == epoch) {
                return new Owner(valid(epoch), new String(name, StandardCharsets.UTF_8), pid, attachedAt);
            }
        }
        return new Owner(-1, "", 0, 0);
    }
}
