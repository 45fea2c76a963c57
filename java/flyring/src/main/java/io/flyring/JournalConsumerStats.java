// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * A consumer of a journal at one moment.
 *
 * @param slot the number of its slot.
 * @param name the consumer's name.
 * @param position its gate: what lies before it was consumed.
 * @param behind how many messages are not consumed; -1 if that is not known.
 * @param behindBytes how many bytes of the journal are not consumed.
 * @param lost how many messages it lost: they were trimmed before it read them, or were skipped as damaged;
 *     -1 if that is not known.
 * @param live whether a process has the name open.
 * @param pid process id of the last owner; for people.
 * @param attachedAt when the last owner came, ns since 1970.
 */
public record JournalConsumerStats(int slot, String name, long position, long behind, long behindBytes, long lost,
    boolean live, int pid, long attachedAt) {
    static JournalConsumerStats of(JournalFile file, int slot, long published, long messages) {
        final int at = JournalHeader.consumerSlot(slot);
        final JournalGate gate = new JournalGate(file, slot);
        final JournalSeat.Owner owner = JournalSeat.owner(file, at);
        gate.read();
        final long position = gate.position();
        return new JournalConsumerStats(slot, owner.name(), position,
            gate.count() < 0 ? -1 : Math.max(0, messages - gate.count()), Math.max(0, published - position),
            gate.count() < 0 ? -1 : gate.lost(), JournalSeat.isLive(file, at), owner.pid(), owner.attachedAt());
    }
}
