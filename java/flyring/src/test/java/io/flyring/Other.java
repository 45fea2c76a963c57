// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;

/** Something that a thread of its own does. */
final class Other<T> {
    /** Long for a machine, short for people, seconds: no wait of the tests takes so long. */
    static final long PATIENCE = 10;

    private final FutureTask<T> task;
    private final Thread thread;

    Other(Callable<T> action) {
        task = new FutureTask<>(action);
        thread = new Thread(task, "waits");
        thread.setDaemon(true);
        thread.start();
    }

    /** What it returned, or threw. */
    T result() throws Exception {
        try {
            return task.get(PATIENCE, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException error) {
                throw error;
            }
            if (e.getCause() instanceof Error error) {
                throw error;
            }
            throw e;
        } catch (TimeoutException e) {
            AssertionError error = new AssertionError("it waits on");
            error.setStackTrace(thread.getStackTrace());
            throw error;
        }
    }

    boolean done() {
        return task.isDone();
    }

    void interrupt() {
        thread.interrupt();
    }

    /** Looks until something is so. */
    static void until(BooleanSupplier there) {
        long end = System.nanoTime() + PATIENCE * 1_000_000_000;
        while (!there.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it never came");
            Thread.onSpinWait();
        }
    }
}
