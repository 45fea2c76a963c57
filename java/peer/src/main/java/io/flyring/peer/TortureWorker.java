// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Channel;
import io.flyring.Counter;
import io.flyring.Counters;
import io.flyring.OpenOptions;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.CRC32C;

/**
 * The common part of all workers of the SIGKILL torture test (interop-tests/torture/WORKER.md): side file, random
 * numbers, naps, faults, and counters.
 */
abstract class TortureWorker {
    /** Bytes before the payload: checksum of what follows, length, publisher, epoch, sequence. */
    static final int HEADER = 32;
    private static final Set<String> NOT_COUNTING = Set.of("lossy", "server", "caller");
    private static final Set<String> WITHOUT_CHANNEL = Set.of("putter", "looker", "appender", "follower", "consumer");
    private static final int FILLED = 512; // words before the log
    private static final int LOGGED = 2; // words of the side file
    private static final int ATTEMPTED = 3;
    private static final int COUNTING = 4;
    private static final int COUNTED = 5;
    private static final int NAPPING = 6;
    private static final VarHandle LONG =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    final Map<String, String> orders;
    final SplittableRandom random;
    /** Null for the workers of tables and journals. */
    final Channel channel;
    /** The time that {@link #spin} found missing, in ns. */
    long lostToTheMachine;
    private final MappedByteBuffer side;
    private long logged;
    private int faults;
    private long total;
    private Counter own;
    private Counter common;

    TortureWorker(Map<String, String> orders) throws IOException {
        this.orders = orders;
        try (FileChannel file = FileChannel.open(Path.of(orders.get("side")), StandardOpenOption.READ,
            StandardOpenOption.WRITE)) {
            side = file.map(FileChannel.MapMode.READ_WRITE, 0, file.size());
        }
        random = new SplittableRandom(Long.parseLong(orders.get("seed")));
        moment(); // the first call loads classes for milliseconds, which would be measured as a wait
        String path = orders.get("channel");
        String role = orders.get("role");
        channel = WITHOUT_CHANNEL.contains(role) ? null
            : Channel.open(path, new OpenOptions().readOnly(role.equals("lossy")));
    }

    /** What the worker does, for the driver, which kills it in any phase. The order is that of side.py. */
    enum Phase {
        NONE, WORKING, TAKING, RECOVERING, OFFERING, CLAIMING, WRITING, COMMITTING, ABORTING, IN_BATCH, HELD_BACK,
        CLOSING, JOINING, RESUMING, POLLING, HANDLING, IDLE, LEAVING, FORGETTING, STARTING, READING, EVICTING, COUNTING,
        SEATING, FETCHING, FINISHING, GIVING_BACK, REPLYING, CALLING, AWAITING, PUTTING, REMOVING, COMPARING, CLEARING,
        GROWING, COPYING, LOOKING, WALKING, SLEEPING, APPENDING, PUSHING, SYNCING, TRIMMING
    }

    /** The kinds of log entries; the order is that of side.py. */
    enum Entry {
        NONE, TAKEN, ACKNOWLEDGED, CLOSED, DEAD_WAIT, HELD, JOINED, MESSAGE, LEFT, EVICTED, SLOT_LOST, LOST, COUNTER,
        FIRST, SEATED, JOB, DONE, GIVING, GIVEN, IDLE, REQUEST, CALLED, ENDED, BEGUN, CHANGED, SAW, WALKED, SLEPT,
        APPENDING, APPENDED, FOLLOWING, READ, POLLED
    }

    /** Takes a slot, works, and gives the slot back. */
    abstract void session();

    void run() {
        boolean counts = !NOT_COUNTING.contains(orders.get("role"));
        if (counts) {
            beginCounting();
        }
        while (!stopped() && !full()) {
            session();
        }
        if (counts) {
            endCounting();
        }
        channel.close();
    }

    // The side file

    final void phase(Phase phase) {
        put(0, phase.ordinal());
    }

    final boolean stopped() {
        return (long) LONG.getAcquire((ByteBuffer) side, Long.BYTES) != 0;
    }

    final boolean full() {
        return logged >= (side.capacity() / Long.BYTES - FILLED) / 8 - 300;
    }

    final void attempted(long count) {
        put(ATTEMPTED, count);
    }

    private void put(int word, long value) {
        LONG.setRelease((ByteBuffer) side, word * Long.BYTES, value);
    }

    final void nap(long nanoseconds) {
        put(NAPPING, 1);
        LockSupport.parkNanos(nanoseconds);
        put(NAPPING, 0);
    }

    final void log(Entry kind, long... values) {
        int at = (int) (FILLED + 8 * logged) * Long.BYTES;
        LONG.set((ByteBuffer) side, at, (long) kind.ordinal());
        for (int i = 0; i < values.length; i++) {
            LONG.set((ByteBuffer) side, at + (i + 1) * Long.BYTES, values[i]);
        }
        put(LOGGED, ++logged);
    }

    static long number(boolean value) {
        return value ? 1 : 0;
    }

    /** A time, and how long this thread had waited for a processor until then, both in ns. */
    record Moment(long time, long delay) {
    }

    /** Reads both at one moment: reads again if this thread waited for a processor in between. */
    static Moment moment() {
        while (true) {
            long delay = runDelay();
            long time = System.nanoTime();
            if (runDelay() == delay) {
                return new Moment(time, delay);
            }
        }
    }

    private static long runDelay() {
        try {
            return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[1]);
        } catch (IOException e) {
            return 0;
        }
    }

    // Random numbers

    final int below(int bound) {
        return random.nextInt(bound);
    }

    /** Enters a phase, and sometimes stays in it for a while, so that the driver can kill the worker there. */
    final void enter(Phase phase, int odds) {
        phase(phase);
        linger(odds);
    }

    final void linger(int odds) {
        if (below(odds) == 0) {
            nap(below(400_000));
        }
    }

    final boolean fault(String name) {
        return fault(name, 20);
    }

    final boolean fault(String name, int every) {
        return orders.get("fault").equals(name) && ++faults % every == 0;
    }

    /** Spins for 20 us. The thread does nothing else, so a gap is time that the machine or the JVM took. */
    final void spin() {
        long begin = System.nanoTime();
        long last = begin;
        while (last - begin < 20_000) {
            long now = System.nanoTime();
            if (now - last > 50_000) {
                lostToTheMachine += now - last;
            }
            last = now;
        }
    }

    // Messages

    static int checksum(byte[] message) {
        return checksum(message, Integer.BYTES);
    }

    private static int checksum(byte[] bytes, int from) {
        CRC32C sum = new CRC32C();
        sum.update(bytes, from, bytes.length - from);
        return (int) sum.getValue();
    }

    /** The publisher's number in messages: made from the name, so that a reader can compare it with the sender. */
    static long publisherNumber(String name) {
        return Integer.toUnsignedLong(checksum(name.getBytes(StandardCharsets.UTF_8), 0));
    }

    // Counters: one for this worker, and one that all workers of the channel raise

    private void beginCounting() {
        Counters counters = channel.counters();
        enter(Phase.COUNTING, 2);
        own = counters.allocate(orders.get("name") + " " + ProcessHandle.current().pid());
        linger(2);
        log(Entry.COUNTER, own.id());
        phase(Phase.WORKING);
        common = counters.find("common");
    }

    final void count(long n) {
        total += n;
        put(COUNTING, total);
        own.getAndAdd(n);
        if (below(2) == 0) {
            common.getAndAdd(n);
        } else {
            long old = common.getVolatile();
            while (!common.compareAndSet(old, old + n)) {
                old = common.getVolatile();
            }
        }
        put(COUNTED, total);
        if (fault("count")) {
            common.getAndAdd(1);
        }
    }

    private void endCounting() {
        if (own.getVolatile() != total) {
            throw new IllegalStateException("its own counter is " + own.getVolatile() + ", not " + total);
        }
        log(Entry.COUNTER, -1); // from here on the counter may be gone
        enter(Phase.COUNTING, 2);
        own.free();
        linger(2);
        phase(Phase.WORKING);
    }
}
