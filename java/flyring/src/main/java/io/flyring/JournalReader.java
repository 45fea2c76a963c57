// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Reads a journal from any place on, also while it grows; made by {@link Journal#reader(JournalStart)}. Other processes
 * do not know it, and it needs no more than read permission. Polling does not lock or allocate, but where a segment
 * begins. Not thread-safe. Concurrent use is detected on a best-effort basis and throws {@link TwoThreadsException}.
 * Spec journal.md 3.3.
 */
public final class JournalReader extends JournalReads {
    JournalReader(JournalFile file, JournalCursor cursor) {
        super(file, cursor, null);
    }

    /**
     * Goes to another place.
     *
     * @param start where to read on.
     * @throws InvalidArgumentException if there is no such place.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public void seek(JournalStart start) {
        checkUsable();
        cursor.begin(Journal.required(start));
    }

    @Override
    boolean isOwned() {
        return true;
    }

    @Override
    void passed(boolean atOnce) {
        // a reader stores nothing
    }

    @Override
    FlyringException slotLost() {
        throw new IllegalStateException("a reader has no slot");
    }

    @Override
    public String toString() {
        return "reader of " + file.path;
    }
}
