// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertNull;

import org.junit.jupiter.api.function.Executable;

/** Stack overflows anywhere in an action. */
final class Dive {
    private Dive() {
    }

    /** Calls an action ever nearer to the end of the stack, until it has just not enough: in its very middle. */
    private static boolean into(Runnable action) {
        boolean done;
        try {
            done = into(action);
        } catch (StackOverflowError e) {
            done = false;
        }
        try {
            if (!done) {
                action.run();
            }
            return true;
        } catch (StackOverflowError e) {
            return false;
        }
    }

    /** Dives from another depth: its frames end elsewhere. */
    static long from(int depth, Runnable action, long a, long b) {
        return depth == 0 ? into(action) ? a : b : from(depth - 1, action, b, a + 1) + b;
    }

    /** Closes an object by a dive, in which all closes but the last are cut off somewhere; then once more. */
    static void intoClose(int depth, AutoCloseable object) throws Exception {
        from(depth, () -> Journal.closeQuietly(object), 1, 2);
        object.close();
    }

    /** Runs what dives in a thread with a small stack. */
    static void run(Executable dives) throws InterruptedException {
        Throwable[] thrown = new Throwable[1];
        Thread thread = new Thread(null, () -> {
            try {
                dives.execute();
            } catch (Throwable e) {
                thrown[0] = e;
            }
        }, "dives", 1 << 18);
        thread.start();
        thread.join();
        assertNull(thrown[0], () -> thrown[0].toString());
    }
}
