// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.MessageHandler;
import org.agrona.concurrent.ringbuffer.ManyToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;

/**
 * A ring inside one JVM, that of side b. A second thread of that JVM, on the core of side a, sends what side a orders;
 * side a sleeps meanwhile.
 */
final class AgronaInside extends Contender {
    /** Indices in {@link Words}: side a's core plus 1, and the duration of the last slice. */
    private static final int CORE = 8;
    private static final int TOOK = 9;
    private static final long NAP_NS = 1_000_000;

    private final Words words;
    private final RingBuffer ring;
    private final MessageHandler handler = (type, buffer, index, length) -> receiver.onMessage(buffer, index);
    private final int limit;
    private volatile boolean closed;

    AgronaInside(Setup setup, Messages messages) {
        super(setup, messages);
        words = new Words(setup);
        limit = setup.limit();
        ring = setup.producer() ? null
            : new ManyToOneRingBuffer(AgronaRing.message((1 << 20) + RingBufferDescriptor.TRAILER_LENGTH));
    }

    @Override
    void connect() {
        if (setup.producer()) {
            words.set(CORE, setup.core + 1L);
            return;
        }
        Thread thread = new Thread(this::produce, "producer");
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler((t, e) -> {
            System.err.println("flyring-bench: " + e);
            System.exit(1);
        });
        thread.start();
    }

    /** For side a: sends {@code count} messages and the end; returns the duration in ns. */
    long sendAll(long count) {
        words.set(Words.SENT, words.get(Words.SENT) + count + 1);
        while (words.get(Words.FIRST) != words.get(Words.SENT)) {
            LockSupport.parkNanos(NAP_NS);
        }
        return words.get(TOOK);
    }

    /** Runs in the thread beside side b. */
    private void produce() {
        while (words.get(CORE) == 0) {
            LockSupport.parkNanos(NAP_NS);
        }
        int core = (int) words.get(CORE) - 1;
        if (core >= 0 && Probe.bench_pin(core) != 0) {
            throw new IllegalStateException("cannot pin to core " + core);
        }
        long sent = 0;
        while (!closed) {
            long wanted = words.get(Words.SENT);
            if (wanted == sent) {
                LockSupport.parkNanos(NAP_NS / 10);
                continue;
            }
            long count = wanted - sent - 1;
            long start = System.nanoTime();
            for (long i = 0; i < count; i += Role.CHUNK) {
                sendChunk(Math.min(Role.CHUNK, count - i));
            }
            words.set(TOOK, System.nanoTime() - start);
            send(Messages.END);
            sent = wanted;
            words.set(Words.FIRST, sent);
        }
    }

    private void sendChunk(long count) {
        for (long i = 0; i < count; i++) {
            send(i);
        }
    }

    @Override
    void send(long tag) {
        int index = ring.tryClaim(AgronaRing.TYPE, messages.size);
        while (index < 0) {
            index = ring.tryClaim(AgronaRing.TYPE, messages.size);
        }
        messages.write(ring.buffer(), index, tag);
        ring.commit(index);
    }

    @Override
    void receive() {
        ring.read(handler, limit);
    }

    @Override
    String library() {
        return "agrona";
    }

    @Override
    public void close() {
        closed = true;
    }

    /** The role {@code stream}, side a. */
    static final class Sender extends Role {
        private final AgronaInside inside;

        Sender(Setup setup, AgronaInside inside) {
            super(setup, inside);
            this.inside = inside;
        }

        @Override
        String slice(boolean timed) {
            long count = count(Long.MAX_VALUE);
            ran(count, inside.sendAll(count));
            return "{\"kind\": \"mean\", \"count\": " + count + "}";
        }
    }
}
