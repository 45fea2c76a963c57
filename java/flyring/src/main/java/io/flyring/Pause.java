// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.locks.LockSupport;

/** Short waits, also in an interrupted thread: an earlier interrupt does not cut them short, and stays set. */
final class Pause {
    private Pause() {
    }

    static void nanos(long time) {
        boolean interrupted = Thread.interrupted();
        LockSupport.parkNanos(time);
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
