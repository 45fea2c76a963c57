// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;

/** An action that runs in a separate thread. */
final class Other<T> {
    /** The longest time, in seconds, that a test waits for something that must happen. */
    static final long PATIENCE = 10;

    private final FutureTask<T> task;
    private final Thread thread;

    Other(Callable<T> action) {
        task = new FutureTask<>(action);
        thread = new Thread(task, "waits");
        thread.setDaemon(true);
        thread.start();
    }

    /** Returns what the action returned, or throws what it threw. */
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

    /** Waits until a condition holds, while the action goes on. Throws what the action threw, if it has ended. */
    void goesOnUntil(BooleanSupplier there) throws Exception {
        long end = System.nanoTime() + PATIENCE * 1_000_000_000;
        while (!there.getAsBoolean()) {
            if (done()) {
                throw new AssertionError("it has ended, and returned " + result());
            }
            assertTrue(System.nanoTime() < end, "it never came");
            Thread.onSpinWait();
        }
    }

    /** Waits until a condition holds. */
    static void until(BooleanSupplier there) {
        long end = System.nanoTime() + PATIENCE * 1_000_000_000;
        while (!there.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "it never came");
            Thread.onSpinWait();
        }
    }
}
