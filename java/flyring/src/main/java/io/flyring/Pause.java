// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.locks.LockSupport;

/** Short waits. A thread that is interrupted waits all the same, and is still interrupted afterwards. */
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
