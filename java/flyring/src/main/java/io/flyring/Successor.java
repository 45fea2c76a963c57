// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Tells processes that have the old channel open that its name is about to be replaced or removed: a hint in its
 * control section (channel.md 3.2). Wakes them when the name has changed. Ignores all failures.
 */
final class Successor {
    static final Successor NONE = new Successor(null, null, false);

    /** The file to close; null if it is the caller's. */
    private final ChannelFile file;
    /** The needed part of the control section; null if nothing was stored. */
    private final Memory control;
    /** Whether the channel is a queue: then workers may sleep. */
    private final boolean isQueue;

    private Successor(ChannelFile file, Memory control, boolean isQueue) {
        this.file = file;
        this.control = control;
        this.isQueue = isQueue;
    }

    /** Stores "replaced" in the channel that is at a path now. */
    static Successor tellOld(String path) {
        ChannelFile old = null;
        Memory control = null;
        try {
            old = ChannelFile.open(path, false);
            Header header = headerOf(old, path);
            control = tellIn(old, header, Layout.SUCCESSOR_REPLACED);
            return new Successor(old, control, header.isQueue());
        } catch (FlyringException nothingThere) {
            return NONE;
        } finally {
            if (control == null && old != null) {
                old.close();
            }
        }
    }

    /** Stores {@code value} in the channel of this file, which stays the caller's. */
    static Successor tell(ChannelFile file, String path, int value) {
        try {
            Header header = headerOf(file, path);
            return new Successor(null, tellIn(file, header, value), header.isQueue());
        } catch (FlyringException noChannel) {
            return NONE;
        }
    }

    private static Header headerOf(ChannelFile file, String path) {
        return Header.parse(file.read(0, Layout.HEADER_LENGTH), file.size(), path);
    }

    private static Memory tellIn(ChannelFile file, Header header, int value) {
        Memory control = file.map(header.controlOffset, Layout.CONTROL_SLOTS, false);
        control.putIntOpaque(Layout.CONTROL_SUCCESSOR, value);
        return control;
    }

    /** Wakes all that wait, after the name has changed. */
    void wake() {
        if (control != null) {
            WaitingWords.data(control).wakeAll();
            WaitingWords.room(control).wakeAll();
            if (isQueue) {
                WaitingWords.jobs(control).wakeAll();
            }
        }
        if (file != null) {
            file.close();
        }
    }
}
