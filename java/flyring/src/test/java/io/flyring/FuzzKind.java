// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.SplittableRandom;

/** What can be done with a channel of one kind alone, whatever bytes its file holds. */
abstract class FuzzKind {
    final Channel channel;
    final FuzzFile file;
    final SplittableRandom random;
    private final FuzzDrive drive;

    FuzzKind(FuzzDrive drive) {
        this.drive = drive;
        channel = drive.channel;
        file = drive.file;
        random = drive.random;
    }

    /** Does one thing; {@code full}: no slot was free before. */
    abstract void step(boolean full);

    /** Before the channel is closed. */
    abstract void end();

    final void count(String what) {
        drive.count(what);
    }

    final void attempt(Runnable action) {
        drive.attempt(action);
    }
}
