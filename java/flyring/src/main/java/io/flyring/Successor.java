// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Says in the channel that has a name now what becomes of it: a hint for those who have it open (spec 3.2). Wakes them
 * when the name has changed. Whatever fails on the way is ignored.
 */
final class Successor {
    static final Successor NONE = new Successor(null, null, false);

    /** To be closed; null: the caller's. */
    private final ChannelFile file;
    /** The control section, or as much of it as is needed; null: nothing was told. */
    private final Memory control;
    /** Whether workers may sleep there. */
    private final boolean isQueue;

    private Successor(ChannelFile file, Memory control, boolean isQueue) {
        this.file = file;
        this.control = control;
        this.isQueue = isQueue;
    }

    /** To those who have the channel that a path names. */
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

    /** To those who have this channel, whose file is the caller's. */
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

    /** The name has changed: who waits looks. */
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
