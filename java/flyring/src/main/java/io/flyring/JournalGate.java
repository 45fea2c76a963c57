// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;

/** The gate of a consumer and the two pairs that prove it (journal.md 2.2.1, 6). Allocates nothing once it is made. */
final class JournalGate {
    private static final int PAIRED = Layout.JOURNAL_PAIR_CRC;

    private final Memory control;
    private final int at;
    private final Memory scratch = Memory.of(ByteBuffer.allocateDirect(PAIRED));
    private final JournalCrc crc = new JournalCrc();
    /** The pair that proves the gate; -1: none. */
    private int proving = -1;
    private long count = -1;
    private long lost;

    JournalGate(JournalFile file, int slot) {
        this.control = file.control;
        this.at = JournalHeader.consumerSlot(slot);
    }

    boolean isKept() {
        return control.getIntAcquire(at + Layout.SUBSCRIBER_SLOT_KEPT) != 0; // pairs with: keep
    }

    void keep(boolean kept) {
        control.putIntRelease(at + Layout.SUBSCRIBER_SLOT_KEPT, kept ? 1 : 0); // pairs with: isKept
    }

    long position() {
        return control.getLongAcquire(at + Layout.JOURNAL_CONSUMER_GATE); // pairs with: store
    }

    /** Reads the pair that proves the gate. Without one the count is not known, and lost is the most of any pair. */
    void read() {
        proving = -1;
        count = -1;
        lost = 0;
        final long gate = position();
        for (int pair = 0; pair < 2; pair++) {
            if (!isRight(pair)) {
                continue;
            }
            final int words = pairAt(pair);
            if (proving < 0) {
                lost = Math.max(lost, control.getLongOpaque(words + Layout.JOURNAL_PAIR_LOST));
            }
            if (proving < 0 && control.getLongOpaque(words + Layout.JOURNAL_PAIR_POSITION) == gate) {
                proving = pair;
                count = control.getLongOpaque(words + Layout.JOURNAL_PAIR_COUNT);
                lost = Math.max(0, control.getLongOpaque(words + Layout.JOURNAL_PAIR_LOST));
            }
        }
    }

    private static int pairOffset(int pair) {
        return pair == 0 ? Layout.JOURNAL_CONSUMER_PAIR_0 : Layout.JOURNAL_CONSUMER_PAIR_1;
    }

    private int pairAt(int pair) {
        return at + pairOffset(pair);
    }

    private boolean isRight(int pair) {
        final int words = pairAt(pair);
        scratch.putBytes(0, control, words, PAIRED);
        return control.getIntOpaque(words + Layout.JOURNAL_PAIR_CRC) == crc.of(scratch, 0, PAIRED)
            && scratch.getLong(Layout.JOURNAL_PAIR_COUNT) >= 0;
    }

    /** How many messages lie before the gate; -1: no pair says so. */
    long count() {
        return count;
    }

    long lost() {
        return lost;
    }

    /** Stores the gate, and before it the pair that does not prove the one of now. Each store follows the last one. */
    void store(long position, long newCount, long newLost) {
        final int pair = proving == 0 ? 1 : 0;
        final int words = pairAt(pair);
        scratch.putLong(Layout.JOURNAL_PAIR_POSITION, position);
        scratch.putLong(Layout.JOURNAL_PAIR_COUNT, newCount);
        scratch.putLong(Layout.JOURNAL_PAIR_LOST, newLost);
        control.putLongRelease(words + Layout.JOURNAL_PAIR_POSITION, -1);
        control.putLongRelease(words + Layout.JOURNAL_PAIR_COUNT, newCount);
        control.putLongRelease(words + Layout.JOURNAL_PAIR_LOST, newLost);
        control.putIntRelease(words + Layout.JOURNAL_PAIR_CRC, crc.of(scratch, 0, PAIRED));
        control.putLongRelease(words + Layout.JOURNAL_PAIR_POSITION, position);
        control.putLongRelease(at + Layout.JOURNAL_CONSUMER_GATE, position); // pairs with: trim 1 and 3
        proving = pair;
        count = newCount;
        lost = newLost;
    }
}
