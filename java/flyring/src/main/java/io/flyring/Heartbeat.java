// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.regex.Pattern;

/**
 * A counter of a channel by which one thread shows that it runs. The thread calls {@link #beat()} in its loop; monitors
 * see the number of beats, and when it last grew. Close it before the channel: a channel that is closed first, and a
 * process that dies, leave the counter. The next heartbeat of the same name frees it, and then {@link #beat()} of an
 * older one throws {@link ClosedException}. One thread beats; any thread may close. Spec channel.md 8.1.
 */
public final class Heartbeat implements AutoCloseable {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1," + Layout.MAX_NAME_LENGTH + "}");

    /** The heartbeats of this process that were not closed, for watchdogs. */
    private static final Map<Heartbeat, Thread> OPEN = new WeakHashMap<>();

    private final Channel channel;
    private final Memory memory;
    private final Counter counter;
    private final int at;
    private final String name;
    private final Duration interval;
    private long beats;

    /**
     * Begins a heartbeat that promises to beat at least once a second.
     *
     * @param channel the channel.
     * @param name the thread's name, valid as a channel's name.
     * @throws FlyringException as {@link #Heartbeat(Channel, String, Duration)} does.
     */
    public Heartbeat(Channel channel, String name) {
        this(channel, name, Duration.ofSeconds(1));
    }

    /**
     * Begins a heartbeat.
     *
     * @param channel the channel.
     * @param name the thread's name, valid as a channel's name.
     * @param interval the longest time between two beats that the thread promises; zero for no promise.
     * @throws InvalidArgumentException if the name is not valid, or the interval is below 0.
     * @throws NoSpaceException if no counter is free.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException if the channel is closed.
     */
    public Heartbeat(Channel channel, String name, Duration interval) {
        if (!NAME.matcher(name).matches()) {
            throw new InvalidArgumentException("name", "'" + name + "' must be 1 to 64 of A-Z a-z 0-9 . _ -");
        }
        if (interval.isNegative()) {
            throw new InvalidArgumentException("interval", interval + " must not be below 0.");
        }
        Counters counters = channel.counters();
        counters.forEach(each -> freeLeftover(each, name));
        byte[] key = ByteBuffer.allocate(Layout.HEARTBEAT_KEY_LENGTH).order(ByteOrder.LITTLE_ENDIAN)
            .putInt(Layout.HEARTBEAT_KEY_PID, channel.identity().processId())
            .putLong(Layout.HEARTBEAT_KEY_INTERVAL, interval.toNanos())
            .putLong(Layout.HEARTBEAT_KEY_STARTED_AT, channel.identity().now()).array();
        this.channel = channel;
        this.memory = channel.control();
        this.counter = counters.allocate(name, Layout.COUNTER_METADATA_TYPE_HEARTBEAT, key);
        this.at = counters.value(counter.id()) + Layout.COUNTER_VALUE_VALUE;
        this.name = name;
        this.interval = interval;
        synchronized (OPEN) {
            OPEN.put(this, Thread.currentThread());
        }
    }

    /** The thread of this process that made the heartbeat of this counter; null if there is none. */
    static Thread threadOf(Channel channel, Counter counter) {
        synchronized (OPEN) {
            return OPEN.entrySet().stream().filter(each -> each.getKey().isOf(channel, counter))
                .map(Map.Entry::getValue).filter(Thread::isAlive).findAny().orElse(null);
        }
    }

    private boolean isOf(Channel of, Counter other) {
        return counter.isSame(other) && channel.id().equals(of.id());
    }

    private static void freeLeftover(Counter each, String name) {
        try {
            if (each.typeId() == Layout.COUNTER_METADATA_TYPE_HEARTBEAT && each.label().equals(name)) {
                each.free();
            }
        } catch (ClosedException freedMeanwhile) {
            return; // or the channel is closed, as allocate will say
        }
    }

    /**
     * Shows that the thread runs.
     *
     * @throws ClosedException after a close of this object or of the channel, and after another heartbeat has taken
     *     the name.
     */
    public void beat() {
        channel.checkOpen();
        if (!counter.current()) {
            throw counter.freed();
        }
        memory.putLongOpaque(at, ++beats);
    }

    /**
     * The thread's name.
     *
     * @return the name.
     */
    public String name() {
        return name;
    }

    /**
     * The longest time between two beats that the thread promises.
     *
     * @return the interval; zero for no promise.
     */
    public Duration interval() {
        return interval;
    }

    /**
     * How often it has beaten.
     *
     * @return the number of beats.
     */
    public long beats() {
        return beats;
    }

    /**
     * Its counter.
     *
     * @return the id.
     */
    public int id() {
        return counter.id();
    }

    /** Frees the counter. A second close does nothing. */
    @Override
    public void close() {
        synchronized (OPEN) {
            OPEN.remove(this);
        }
        try {
            counter.free();
        } catch (ClosedException freedBefore) {
            return; // or the channel was closed
        }
    }
}
