// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class CoreTest {
    private static final int EINVAL = 22;

    @Test
    void aThreadCanBePinned() throws Exception {
        Thread thread = new Thread(() -> Core.pin(0));
        Throwable[] failed = new Throwable[1];
        thread.setUncaughtExceptionHandler((t, error) -> failed[0] = error);
        thread.start();
        thread.join();
        assertEquals(null, failed[0]);
        assertThrows(Demo.Failed.class, () -> Core.pin(-1));
        assertThrows(Demo.Failed.class, () -> Core.pin(1024));
        Demo.Failed error = assertThrows(Demo.Failed.class, () -> Core.pin(1023));
        assertTrue(error.getMessage().contains("error " + EINVAL + " of sched_setaffinity"), error.getMessage());
    }
}
