// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import io.flyring.PayloadBuffer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * The experiments that Flyring began with, measured with JMH in ns per access or message. They compare fields on and
 * off the heap; allocate against allocateDirect; native against swapped byte order; a struct against serialization.
 * (Experiment a, the counter of two processes, is the contender varhandle-cas-counter.) Accesses walk over
 * {@value #COUNT} objects or places, as the experiments did: 64 KiB off the heap.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class OldExperiments {
    private static final int COUNT = 4096;
    private static final int STRIDE = 16;
    private static final int LONG = 0;
    private static final int INT = 8;

    private static final class Fields {
        private long wide;
        private int narrow;
    }

    private final Fields[] fields = new Fields[COUNT];
    private final PayloadBuffer offHeap = new PayloadBuffer();
    private final ByteBuffer heap = ByteBuffer.allocate(COUNT * STRIDE).order(ByteOrder.nativeOrder());
    private final ByteBuffer direct = ByteBuffer.allocateDirect(COUNT * STRIDE).order(ByteOrder.nativeOrder());
    private final ByteBuffer swapped = ByteBuffer.allocateDirect(COUNT * STRIDE).order(otherOrder());
    private final Order order = new Order();
    private final Order read = new Order();
    private final PayloadBuffer struct = new PayloadBuffer();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);

    private static ByteOrder otherOrder() {
        return ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
    }

    /** Creates the objects and buffers that are accessed. */
    @Setup
    public void make() {
        for (int i = 0; i < COUNT; i++) {
            fields[i] = new Fields();
        }
        offHeap.wrap(ByteBuffer.allocateDirect(COUNT * STRIDE));
        struct.wrap(ByteBuffer.allocateDirect(Order.LENGTH));
    }

    /** Experiment b: an int field of objects. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int fieldIntReadOnHeap() {
        int sum = 0;
        for (Fields object : fields) {
            sum += object.narrow;
        }
        return sum;
    }

    /** Experiment b: the same in direct memory. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int fieldIntReadOffHeap() {
        int sum = 0;
        for (int i = 0; i < COUNT; i++) {
            sum += offHeap.getInt(i * STRIDE + INT);
        }
        return sum;
    }

    /** Experiment b: a long field of objects. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long fieldLongReadOnHeap() {
        long sum = 0;
        for (Fields object : fields) {
            sum += object.wide;
        }
        return sum;
    }

    /** Experiment b: the same in direct memory. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long fieldLongReadOffHeap() {
        long sum = 0;
        for (int i = 0; i < COUNT; i++) {
            sum += offHeap.getLong(i * STRIDE + LONG);
        }
        return sum;
    }

    /** Experiment b: an int field of objects. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void fieldIntWriteOnHeap() {
        for (int i = 0; i < COUNT; i++) {
            fields[i].narrow = i;
        }
    }

    /** Experiment b: the same in direct memory. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void fieldIntWriteOffHeap() {
        for (int i = 0; i < COUNT; i++) {
            offHeap.putInt(i * STRIDE + INT, i);
        }
    }

    /** Experiment b: a long field of objects. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void fieldLongWriteOnHeap() {
        for (int i = 0; i < COUNT; i++) {
            fields[i].wide = i;
        }
    }

    /** Experiment b: the same in direct memory. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void fieldLongWriteOffHeap() {
        for (int i = 0; i < COUNT; i++) {
            offHeap.putLong(i * STRIDE + LONG, i);
        }
    }

    private static long read(ByteBuffer from) {
        long sum = 0;
        for (int i = 0; i < COUNT; i++) {
            sum += from.getLong(i * STRIDE);
        }
        return sum;
    }

    private static void write(ByteBuffer to) {
        for (int i = 0; i < COUNT; i++) {
            to.putLong(i * STRIDE, i);
        }
    }

    /** Experiment c: a buffer on the heap. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long allocateRead() {
        return read(heap);
    }

    /** Experiment c: a buffer on the heap. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void allocateWrite() {
        write(heap);
    }

    /** Experiments c and d: a direct buffer, in native order. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long allocateDirectRead() {
        return read(direct);
    }

    /** Experiments c and d: a direct buffer, in native order. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void allocateDirectWrite() {
        write(direct);
    }

    /** Experiment d: a direct buffer in the other order. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long swappedRead() {
        return read(swapped);
    }

    /** Experiment d: a direct buffer in the other order. */
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public void swappedWrite() {
        write(swapped);
    }

    /** Experiment e: a message of eight fields written into memory and read from it. */
    @Benchmark
    public long messageStruct() {
        order.next();
        order.encode(struct);
        read.decode(struct);
        return read.sum();
    }

    /**
     * Experiment e: the same message serialized and deserialized.
     *
     * @return a sum.
     * @throws IOException never.
     * @throws ClassNotFoundException never.
     */
    @Benchmark
    @Warmup(iterations = 5, time = 1) // a lot of code to compile
    public long messageSerialization() throws IOException, ClassNotFoundException {
        order.next();
        return Order.deserialize(order.serialize(bytes)).sum();
    }
}
