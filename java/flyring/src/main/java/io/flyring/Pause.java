// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.locks.LockSupport;

/** Short waits. An interrupt does not end the wait; the thread stays interrupted. */
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
