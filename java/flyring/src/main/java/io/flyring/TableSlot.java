// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;

/**
 * The writer's slot of a table: takes it, completes what a dead writer left half done, and gives it back (5.1). A held
 * writer is one that keeps the slot until its close, a {@link TableWriter}. The slot's lock belongs to an open file
 * description of its own, which stays open. Callers hold the monitor of the table's state or of the writer's seat.
 * Numbers in parentheses are sections of spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableSlot implements AutoCloseable {
    private static final int AT = Layout.TABLE_CONTROL_SLOT;
    /** In the place of the name's length: the name is being changed. */
    private static final int CHANGING = -1;
    /** A value of {@code clean}: it is being cleared. */
    private static final int CLEARING = 2;

    private final TableFile file;
    private final Identity identity;
    /** The id of this boot. */
    private final byte[] boot;
    private final boolean wakes;
    private final TableChange change;
    private final BiConsumer<Long, Long> progress;
    private Lock lock;
    /** A change is under way: its handler may not begin another one. */
    private boolean busy;

    TableSlot(TableFile file, Identity identity, byte[] boot, boolean wakes, BiConsumer<Long, Long> progress) {
        this.file = file;
        this.identity = identity;
        this.boot = boot;
        this.wakes = wakes;
        this.progress = progress;
        this.change = new TableChange(file, wakes);
    }

    TableFile file() {
        return file;
    }

    TableChange change() {
        return change;
    }

    static long lockByte(TableFile file) {
        return file.header.controlOffset + AT;
    }

    /** Tries to lock the slot (take 1); false if another owner has it. */
    boolean tryLock() {
        if (lock == null) {
            lock = file.file.newLock();
        }
        return lock.tryLock(lockByte(file));
    }

    /**
     * Becomes the owner of the slot, which is locked (take 2 to 4).
     *
     * @param name the name of a held writer; null for a single change, which stores no name.
     */
    void enter(byte[] name) {
        final Memory control = file.control;
        if (!file.isOfBoot(boot)) { // take 2
            if (control.getIntOpaque(Layout.TABLE_CONTROL_CLEAN) == 1) {
                storeBoot();
            } else if (file.header.checked) {
                TableRecovery recovery = new TableRecovery(file, change, progress);
                recovery.recover();
                syncControl(); // recover 5; boot_id comes last
                storeBoot();
                recovery.report();
            } else {
                throw new NeedsRecoveryException(file.path, false);
            }
        }
        if (control.getIntOpaque(Layout.TABLE_CONTROL_CLEAN) != 0) {
            control.putIntRelease(Layout.TABLE_CONTROL_CLEAN, CLEARING); // after boot_id; pairs with: TableFile.isWhole
            syncControl(); // before clean is 0, because this process may be killed here
            control.putIntOpaque(Layout.TABLE_CONTROL_CLEAN, 0);
        }
        change.own(storeOwner(name)); // take 3
        final boolean unpublished = change.finishIntent(); // take 3, 4
        if (unpublished || name != null || !wakes) { // sleepers may have missed a change, or get another cap (8)
            file.data().wakeAll();
        }
    }

    private void storeBoot() {
        VarHandle.releaseFence(); // pairs with: TableFile.isWhole
        file.control.putBytes(Layout.TABLE_CONTROL_BOOT_ID, boot, 0, boot.length);
    }

    /** Writes the control section to the disk. */
    void syncControl() {
        final long page = Sys.pageSize();
        final long address = file.control.address() & -page;
        ChannelFile.check("msync", Sys.syncPages(address, page), file.path);
    }

    /** Writes the fields of the new owner (channel.md 5.2, step 4); returns the new epoch. */
    private long storeOwner(byte[] name) {
        final Memory control = file.control;
        final boolean renamed = name != null && !Arrays.equals(name, name());
        if (renamed) {
            control.putIntOpaque(AT + Layout.PUBLISHER_SLOT_NAME_LENGTH, CHANGING); // pairs with: channel.md 6.12
            VarHandle.releaseFence();
            control.fill(AT + Layout.PUBLISHER_SLOT_NAME, Layout.MAX_NAME_LENGTH, (byte) 0);
            control.putBytes(AT + Layout.PUBLISHER_SLOT_NAME, name, 0, name.length);
        }
        control.putInt(AT + Layout.PUBLISHER_SLOT_CLOSED, 0);
        if (name != null) {
            control.putInt(AT + Layout.PUBLISHER_SLOT_PID, identity.processId());
            control.putLong(AT + Layout.PUBLISHER_SLOT_ATTACHED_AT, identity.now());
        }
        final long before = epoch();
        final long epoch = before >= 0 && before < Layout.MAX_EPOCH ? before + 1 : 1;
        control.putLongOpaque(AT + Layout.PUBLISHER_SLOT_WAKES, wakes ? epoch : 0);
        control.putLongRelease(AT + Layout.PUBLISHER_SLOT_EPOCH, epoch); // pairs with: checkOwned, ownerWakes
        if (renamed) {
            // pairs with: channel.md 6.12
            control.putIntRelease(AT + Layout.PUBLISHER_SLOT_NAME_LENGTH, name.length);
        }
        return epoch;
    }

    private long epoch() {
        return file.word(AT + Layout.PUBLISHER_SLOT_EPOCH);
    }

    /** Whether the slot's last owner wakes sleepers, or is a held writer that was closed (8). */
    static boolean ownerWakes(TableFile file) {
        final long epoch = file.control.getLongAcquire(AT + Layout.PUBLISHER_SLOT_EPOCH); // pairs with: take 3
        return file.word(AT + Layout.PUBLISHER_SLOT_WAKES) == epoch
            || file.control.getIntOpaque(AT + Layout.PUBLISHER_SLOT_CLOSED) != 0;
    }

    /** Records that a held writer was closed; called before the lock is released. */
    void closed() {
        if (lock != null && isOwned()) {
            file.control.putIntRelease(AT + Layout.PUBLISHER_SLOT_CLOSED, 1);
        }
    }

    /** Runs an action; the slot is busy meanwhile. */
    long run(TableState.Action action) {
        busy = true;
        try {
            return action.run(this);
        } finally {
            busy = false;
        }
    }

    /** Makes one change of a key; the slot is busy meanwhile. For {@code likely} see {@link TableVerbs.Change#make}. */
    long change(TableLook look, TableVerbs.Change what, long likely) {
        busy = true;
        try {
            return what.make(change, look, likely);
        } finally {
            busy = false;
        }
    }

    /** Whether a change is under way. */
    boolean isBusy() {
        return busy;
    }

    /** Throws if a change is under way: the caller is in its handler. */
    void checkIdle() {
        if (busy) {
            throw viewAlive(file);
        }
    }

    static ViewAliveException viewAlive(TableFile file) {
        return new ViewAliveException("A change of " + file.path + " is under way: its handler may not change or"
            + " close the same table.");
    }

    /** Whether no other owner has taken the slot since. */
    boolean isOwned() {
        return change.epoch() == epoch();
    }

    /**
     * Gives the slot back; closes the description if the unlock fails, because only that drops the lock. Throws
     * nothing: what was changed is changed.
     */
    void release() {
        if (lock != null && !lock.unlockBeforeClose(lockByte(file))) {
            close();
        }
    }

    /** Unlocks the slot, if it is locked, and closes the description. */
    @Override
    public void close() {
        if (lock != null) {
            lock.unlockAndClose(lockByte(file));
            lock = null;
        }
    }

    /** The last held writer, with the slot's epoch. */
    record Owner(long epoch, int pid, long attachedAt, String name, boolean closed) {
    }

    /** The name in the slot, empty if there is none; null if its owner died while it changed the name. */
    private byte[] name() {
        return file.control.getIntOpaque(AT + Layout.PUBLISHER_SLOT_NAME_LENGTH) == CHANGING ? null : name(file);
    }

    private static byte[] name(TableFile file) {
        final int length = file.control.getIntAcquire(AT + Layout.PUBLISHER_SLOT_NAME_LENGTH); // pairs with: take
        final byte[] name = new byte[length < 0 || length > Layout.MAX_NAME_LENGTH ? 0 : length];
        file.control.getBytes(AT + Layout.PUBLISHER_SLOT_NAME, name, 0, name.length);
        return name;
    }

    static Owner owner(TableFile file) {
        final Memory control = file.control;
        return new Owner(file.word(AT + Layout.PUBLISHER_SLOT_EPOCH),
            control.getIntOpaque(AT + Layout.PUBLISHER_SLOT_PID), file.word(AT + Layout.PUBLISHER_SLOT_ATTACHED_AT),
            new String(name(file), StandardCharsets.UTF_8),
            control.getIntAcquire(AT + Layout.PUBLISHER_SLOT_CLOSED) != 0); // pairs with: closed
    }

    /** The error that the slot was not free in time; names the last {@link TableWriter}. */
    static NoFreeSlotException noFreeSlot(TableFile file) {
        final Owner owner = owner(file);
        final String last = owner.pid == 0 ? "" : "The last TableWriter was "
            + (owner.name.isEmpty() ? "without a name" : "'" + owner.name + "'") + " (pid " + owner.pid + "). ";
        return new NoFreeSlotException("writer", 1, List.of(new NoFreeSlotException.Owner(0, owner.name, owner.pid)),
            file.path + ": the writer's slot is taken. " + last
            + "Wait longer, close that writer, or kill its process if it is stopped.");
    }
}
