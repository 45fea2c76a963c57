// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.ThreadFactory;

/**
 * A thread of the writer's process that makes segments before the writer needs them, syncs, and trims (journal.md 1, 4,
 * 5, 8). Of all processes only the one that holds the helper lock does so; the others bring in the pages of their own
 * writer.
 */
final class JournalHelper implements Runnable {
    private static final System.Logger LOG = System.getLogger("io.flyring");
    private static final long CAP_NANOS = 100_000_000;
    private static final long LOOK_NANOS = 1_000_000_000;
    private static final long STOP_NANOS = 10_000_000_000L;
    private static final long NANOS_PER_MILLI = 1_000_000;

    /** For tests: what makes a helper's thread; null: it is a thread as any other. */
    static volatile ThreadFactory threads;

    private final JournalFile file;
    private final JournalHandover handover;
    private final int ahead;
    private final JournalDurability durability;
    private final Lock lock;
    private final Wait wait;
    private final Thread thread;
    private volatile boolean stopped;
    private boolean helping;
    /** The segment of {@code published} when the work was last done. */
    private long doneFor = -1;
    /** Of {@link System#nanoTime}, when it looks for segments that are too old. */
    private long nextLook = System.nanoTime();
    /** The last error that was told, so that each is told once. */
    private String told = "";

    /** The wait for a writer that enters a segment. */
    private final class Wait extends Waiting {
        Wait() {
            super(file.work(), true, 1, "work on a journal");
            spinFor(java.time.Duration.ZERO);
        }

        @Override
        boolean isReady() {
            return stopped || file.segmentOf(file.published()) != doneFor;
        }

        @Override
        boolean othersWake() {
            return JournalSeat.ownerWakes(file, Layout.JOURNAL_CONTROL_SLOT);
        }

        @Override
        long cap(long waited) {
            final long every = file.syncEvery();
            return every > 0 ? Math.min(CAP_NANOS, every) : CAP_NANOS;
        }

        @Override
        void look() {
            // a stop is all that ends it
        }

        @Override
        void lookSoon() {
            // the work is looked for each time
        }

        @Override
        void setBusy(boolean busy) {
            // one thread uses it
        }
    }

    JournalHelper(JournalFile file, JournalHandover handover, int ahead) {
        this.file = file;
        this.handover = handover;
        this.ahead = ahead;
        this.durability = new JournalDurability(file);
        this.wait = new Wait();
        final ThreadFactory other = threads;
        this.thread = other == null ? new Thread(this, "flyring-journal-helper") : other.newThread(this);
        thread.setDaemon(true);
        this.lock = file.file.newLock(); // last: only an object that is whole can close it
    }

    /** Starts the thread; if that fails, this object holds nothing. */
    void start() {
        handover.helping(true);
        boolean started = false;
        try {
            thread.start();
            started = true;
        } finally {
            if (!started) {
                letGo();
            }
        }
    }

    /** Ends the thread, and waits until it has, even if the calling thread is interrupted: it holds the helper lock. */
    void stop() {
        stopped = true;
        file.work().wakeAll();
        final long deadline = System.nanoTime() + STOP_NANOS;
        boolean interrupted = false;
        for (long left = STOP_NANOS; left > 0 && thread.isAlive(); left = deadline - System.nanoTime()) {
            try {
                thread.join(left / NANOS_PER_MILLI + 1);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void letGo() {
        handover.helping(false);
        lock.unlockAndClose(file.lockByte(Layout.JOURNAL_CONTROL_HELPER_LOCK));
    }

    @Override
    public void run() {
        try {
            while (!stopped) {
                help();
                wait.begin(Waiting.FOREVER);
                try {
                    wait.turn();
                } finally {
                    wait.end();
                }
            }
        } catch (ClosedException closed) {
            return;
        } finally {
            letGo();
        }
    }

    /** Does what is due. An error is told, and tried again later: the writer finds its own. */
    private void help() {
        doneFor = file.segmentOf(file.published());
        helping = helping || lock.tryLockIfPossible(file.lockByte(Layout.JOURNAL_CONTROL_HELPER_LOCK));
        handover.closeLeft();
        boolean good = does(this::makeAhead);
        if (helping) { // also on a full disk, where a trim makes room
            good &= does(this::syncDue);
            good &= does(this::trimDue);
        }
        if (good) {
            told = "";
        }
    }

    private boolean does(Runnable work) {
        try {
            work.run();
            return true;
        } catch (ClosedException e) {
            throw e;
        } catch (FlyringException e) {
            if (!stopped && !e.getMessage().equals(told)) {
                told = e.getMessage();
                LOG.log(System.Logger.Level.WARNING, "The helper of a journal goes on, but: " + told);
            }
            return false;
        }
    }

    /**
     * Makes the next segments, and brings in their pages for the writer of this process. Ends when the writer enters
     * another segment: the next round begins with the one that the writer needs first.
     */
    private void makeAhead() {
        final long next = file.published() + file.segmentSize - 1 & -file.segmentSize;
        long base = doneFor;
        for (int i = 0; i <= ahead && !stopped && file.segmentOf(file.published()) == doneFor; i++) {
            if (helping && file.ready() < base + file.segmentSize) {
                JournalSegment.prepare(file, base, null).close();
            }
            if (base >= next) {
                offer(base);
            }
            base += file.segmentSize;
        }
    }

    /** Brings a segment's pages in for the writer of this process, if the segment is ready. */
    private void offer(long base) {
        if (handover.offered() < base && file.ready() >= base + file.segmentSize) {
            final JournalSegment segment = JournalSegment.open(file, base, false);
            if (segment != null) {
                boolean offered = false;
                try {
                    segment.map().prefault();
                    handover.offer(segment);
                    offered = true;
                } finally {
                    if (!offered) {
                        segment.close();
                    }
                }
            }
        }
    }

    private void syncDue() {
        final long every = file.syncEvery();
        final long checked = file.checked();
        final long synced = file.synced();
        final boolean due = every == Layout.JOURNAL_SYNC_NEVER ? file.segmentOf(checked) > file.segmentOf(synced)
            : every > 0 && checked > synced;
        if (due && !file.failed()) {
            durability.sync(null);
        }
    }

    private void trimDue() {
        final long now = System.nanoTime();
        final boolean age = file.limit(Layout.JOURNAL_CONTROL_MAX_AGE) > 0 && now - nextLook >= 0;
        if (age) {
            nextLook = now + LOOK_NANOS;
        }
        new JournalTrim(file).byOptions(age);
    }
}
