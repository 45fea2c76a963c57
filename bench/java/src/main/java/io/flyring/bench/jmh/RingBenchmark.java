// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Measures publishing and polling on one thread, in ns per message. Publishers have no subscriber, so there is no
 * back-pressure; the ring is filled before the clock of a poll starts.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class RingBenchmark {
    static final int BATCH = 256;
    private static final int CAPACITY = 1 << 20;

    /** The bytes of a message. */
    @Param({"32", "1024"})
    public int size;

    private Channel channel;
    private Publisher publisher;
    private PayloadBuffer message;
    private PayloadBuffer[] batch;
    private long sequence;

    /** Opens a channel. */
    @Setup
    public void open() {
        channel = Rings.channel(ChannelOptions.broadcast().capacity(CAPACITY));
        publisher = channel.publisher();
        message = new PayloadBuffer();
        message.wrap(ByteBuffer.allocateDirect(size));
        batch = new PayloadBuffer[BATCH];
        Arrays.fill(batch, message);
    }

    /** Closes it. */
    @TearDown
    public void close() {
        channel.close();
    }

    /** Publishes a copy of a message. */
    @Benchmark
    public long offer() {
        message.putLong(0, sequence++);
        return publisher.offer(message, 0, size);
    }

    /** Claims a message, writes 8 bytes of it in place, and commits it. */
    @Benchmark
    public long claimCommit() {
        Claim claim = publisher.tryClaim(size);
        claim.buffer().putLong(0, sequence++);
        return claim.commit();
    }

    /** Publishes copies of {@value #BATCH} messages. */
    @Benchmark
    @OperationsPerInvocation(BATCH)
    public int offerBatch() {
        message.putLong(0, sequence++);
        return publisher.offerBatch(batch);
    }

    /** A ring full of messages. */
    @State(Scope.Thread)
    public static class Filled {
        static final int MESSAGES = 512;

        private Channel channel;
        private Publisher publisher;
        private Subscriber subscriber;
        private PayloadBuffer message;
        private long sum;
        private final MessageHandler handler = received -> sum += received.buffer().getLong(0);

        /**
         * Opens a channel.
         *
         * @param of the parameters.
         */
        @Setup
        public void open(RingBenchmark of) {
            channel = Rings.channel(ChannelOptions.broadcast().capacity(CAPACITY));
            publisher = channel.publisher();
            subscriber = channel.subscriber();
            message = new PayloadBuffer();
            message.wrap(ByteBuffer.allocateDirect(of.size));
        }

        /** Fills it. */
        @Setup(Level.Invocation)
        public void fill() {
            for (int i = 0; i < MESSAGES; i++) {
                if (publisher.offer(message, 0, message.capacity()) == Publisher.BACK_PRESSURED) {
                    throw new IllegalStateException("the ring is full");
                }
            }
        }

        /** Closes it. */
        @TearDown
        public void close() {
            channel.close();
        }

        long poll(int limit) {
            for (int left = MESSAGES; left > 0;) {
                int handed = subscriber.poll(handler, limit);
                if (handed == 0) {
                    throw new IllegalStateException("the ring is empty");
                }
                left -= handed;
            }
            return sum;
        }
    }

    /**
     * Polls one message at a time and reads 8 bytes.
     *
     * @param filled the ring.
     * @return a sum.
     */
    @Benchmark
    @OperationsPerInvocation(Filled.MESSAGES)
    public long pollOne(Filled filled) {
        return filled.poll(1);
    }

    /**
     * Polls {@value #BATCH} messages at a time and reads 8 bytes of each.
     *
     * @param filled the ring.
     * @return a sum.
     */
    @Benchmark
    @OperationsPerInvocation(Filled.MESSAGES)
    public long pollBatch(Filled filled) {
        return filled.poll(BATCH);
    }

    /**
     * Polls an empty ring.
     *
     * @param empty an empty ring.
     * @return 0.
     */
    @Benchmark
    public int pollNothing(Empty empty) {
        return empty.subscriber.poll(empty.handler);
    }

    /** A ring without messages. */
    @State(Scope.Thread)
    public static class Empty {
        private Channel channel;
        private Subscriber subscriber;
        private final MessageHandler handler = received -> {
            throw new IllegalStateException("the ring is not empty");
        };

        /** Opens a channel. */
        @Setup
        public void open() {
            channel = Rings.channel(ChannelOptions.broadcast().capacity(CAPACITY));
            subscriber = channel.subscriber();
        }

        /** Closes it. */
        @TearDown
        public void close() {
            channel.close();
        }
    }
}
