// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A thread that names what runs late: the heartbeats of a channel, of all processes, that miss their promised interval,
 * and the canaries of this process. In this process it also shows the stack. Time that the watchdog itself slept too
 * long counts against none of them; it reports itself instead. Close it before the channel. Spec api.md, "Watchdog".
 */
public final class Watchdog implements AutoCloseable {
    private static final Duration EVERY = Duration.ofMillis(100);
    private static final Duration REPEAT = Duration.ofSeconds(10);

    private final Channel channel;
    private final Consumer<Missed> onMissed;
    private final long every;
    private final long repeat;
    private final int pid = (int) ProcessHandle.current().pid();
    private final CountDownLatch stop = new CountDownLatch(1);
    private final Thread thread;
    /** Those that the thread has not taken over yet; also the lock of {@link #add}. */
    private final Queue<Canary> fresh = new ArrayDeque<>();

    private final Map<Canary, Seen> canaries = new LinkedHashMap<>();
    private Map<Heart, Seen> hearts = new HashMap<>();
    private final Seen itself = new Seen(0, 0);
    private long worst;

    /** What tells one heartbeat from another. */
    private record Heart(int id, long startedAt, String name, int pid) {
    }

    /** What it remembers of a heartbeat, of a canary, or of itself. Times are of {@link System#nanoTime()}. */
    private static final class Seen {
        /** Number of beats; start of the stretch. */
        private long value;
        /** When the value last changed, later by what the watchdog overslept. */
        private long since;
        private boolean told;
        /** When the callback last heard of it. */
        private long toldAt;
        /** How many stretches were too long when they were last reported. */
        private long times;

        Seen(long value, long since) {
            this.value = value;
            this.since = since;
        }

        void forgive(long overslept, long now) {
            since = now - Math.max(0, now - since - overslept);
        }
    }

    /**
     * Begins to watch, with a look every 100 ms, and writes a line to standard error for what is late, the same one at
     * most every 10 s.
     *
     * @param channel the channel whose heartbeats are watched.
     * @throws ClosedException if the channel is closed.
     */
    public Watchdog(Channel channel) {
        this(channel, System.err::println);
    }

    /**
     * Begins to watch, with a look every 100 ms. The same thread or stretch is reported once in 10 s.
     *
     * @param channel the channel whose heartbeats are watched.
     * @param onMissed receives what is late, in the thread of the watchdog.
     * @throws ClosedException if the channel is closed.
     */
    public Watchdog(Channel channel, Consumer<Missed> onMissed) {
        this(channel, onMissed, EVERY, REPEAT);
    }

    /**
     * Begins to watch.
     *
     * @param channel the channel whose heartbeats are watched.
     * @param onMissed receives what is late, in the thread of the watchdog. If it throws, the watchdog prints the
     *     stack trace and goes on.
     * @param every the time between two looks.
     * @param repeat how long the same thread or stretch is not reported again.
     * @throws InvalidArgumentException if {@code every} is not above 0, or {@code repeat} is below 0.
     * @throws ClosedException if the channel is closed.
     */
    public Watchdog(Channel channel, Consumer<Missed> onMissed, Duration every, Duration repeat) {
        if (every.isNegative() || every.isZero()) {
            throw new InvalidArgumentException("every", every + " must be above 0.");
        }
        if (repeat.isNegative()) {
            throw new InvalidArgumentException("repeat", repeat + " must not be below 0.");
        }
        channel.checkOpen();
        this.channel = channel;
        this.onMissed = Objects.requireNonNull(onMissed, "onMissed");
        this.every = every.toNanos();
        this.repeat = repeat.toNanos();
        this.thread = new Thread(this::run, "flyring-watchdog");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Reports stretches that have ended too late and were not reported yet, and ends the thread. A second close does
     * nothing. From within the callback, the thread ends after the callback.
     */
    @Override
    public void close() {
        stop();
        if (Thread.currentThread() == thread) {
            return;
        }
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void stop() {
        synchronized (fresh) {
            stop.countDown();
        }
    }

    void add(Canary canary) {
        synchronized (fresh) {
            if (stop.getCount() == 0) {
                throw new ClosedException("The watchdog is closed. Make another one.");
            }
            fresh.add(canary);
        }
    }

    private void run() {
        boolean last = false;
        while (!last) {
            long before = System.nanoTime();
            last = sleep();
            long now = System.nanoTime();
            long overslept = last ? 0 : Math.max(0, now - before - every);
            lookAtItself(now, overslept, last);
            lookAtCanaries(now, overslept, last);
            if (!last && !lookAtHearts(now, overslept)) {
                stop(); // the channel is closed
                last = sleep();
                lookAtCanaries(now, 0, last);
            }
        }
    }

    /** Sleeps until the next look. Returns whether the watchdog was closed. */
    private boolean sleep() {
        boolean closed = false;
        try {
            closed = stop.await(every, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            Thread.interrupted(); // only close ends the thread
        }
        synchronized (fresh) {
            fresh.forEach(each -> canaries.put(each, new Seen(0, 0)));
            fresh.clear();
        }
        return closed;
    }

    private void lookAtItself(long now, long overslept, boolean last) {
        if (overslept > every) {
            itself.times++;
            worst = Math.max(worst, overslept);
        }
        if (itself.times > 0 && mayTell(itself, now, last)) {
            tell(new Missed(Missed.Kind.WATCHDOG, "watchdog", pid, every, worst, itself.times, false, ""));
            itself.times = 0;
            worst = 0;
        }
    }

    private void lookAtCanaries(long now, long overslept, boolean last) {
        canaries.forEach((canary, seen) -> lookAtCanary(canary, seen, now, overslept, last));
    }

    private void lookAtCanary(Canary canary, Seen seen, long now, long overslept, boolean last) {
        long times = canary.times();
        if (times != seen.times && mayTell(seen, now, last)) {
            long many = times - seen.times;
            seen.times = times;
            tell(missed(canary, canary.takeWorst(), many, false, ""));
        }
        long start = canary.started();
        if (start != seen.value) {
            seen.value = start;
            seen.since = start;
        }
        if (start == 0) {
            return;
        }
        seen.forgive(overslept, now);
        if (now - seen.since > canary.expectedNanos() && mayTell(seen, now, false)) {
            String stack = stackOf(canary.thread());
            if (canary.started() == start) {
                tell(missed(canary, now - seen.since, 1, true, stack));
            } else {
                seen.told = false; // it has ended, and the next look reports it
            }
        }
    }

    private Missed missed(Canary canary, long took, long times, boolean running, String stack) {
        long expected = canary.expectedNanos();
        return new Missed(Missed.Kind.CANARY, canary.label(), pid, expected, took - expected, times, running, stack);
    }

    /** Returns false if the channel is closed. */
    private boolean lookAtHearts(long now, long overslept) {
        Map<Heart, Seen> found = new HashMap<>();
        try {
            channel.counters().forEach(each -> lookAtHeart(each, found, now, overslept));
        } catch (ClosedException closed) {
            return false;
        }
        hearts = found;
        return true;
    }

    private void lookAtHeart(Counter counter, Map<Heart, Seen> found, long now, long overslept) {
        HeartbeatStats heart;
        try {
            if (counter.typeId() != Layout.COUNTER_METADATA_TYPE_HEARTBEAT) {
                return;
            }
            heart = HeartbeatStats.of(
                new CounterStats(counter.id(), counter.label(), counter.typeId(), counter.key(), counter.get()));
        } catch (ClosedException freedMeanwhile) {
            channel.checkOpen();
            return;
        }
        Heart key = new Heart(heart.id(), heart.startedAt(), heart.name(), heart.pid());
        Seen seen = hearts.getOrDefault(key, new Seen(heart.beats(), now));
        found.put(key, seen);
        seen.forgive(overslept, now);
        long waited = now - seen.since;
        if (heart.beats() != seen.value) {
            seen.value = heart.beats();
            seen.since = now;
        } else if (heart.interval() > 0 && waited > heart.interval() && mayTell(seen, now, false)) {
            Thread owner = Heartbeat.threadOf(channel, counter);
            tell(new Missed(Missed.Kind.HEARTBEAT, heart.name(), heart.pid(), heart.interval(),
                waited - heart.interval(), 1, true, owner == null ? "" : stackOf(owner)));
        }
    }

    private boolean mayTell(Seen seen, long now, boolean last) {
        if (seen.told && now - seen.toldAt < repeat && !last) {
            return false;
        }
        seen.told = true;
        seen.toldAt = now;
        return true;
    }

    private void tell(Missed missed) {
        try {
            onMissed.accept(missed);
        } catch (RuntimeException thrown) {
            thrown.printStackTrace();
        }
    }

    private static String stackOf(Thread thread) {
        return Stream.of(thread.getStackTrace()).map(frame -> "\tat " + frame).collect(Collectors.joining("\n"));
    }
}
