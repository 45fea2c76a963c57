// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import io.flyring.PayloadBuffer;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** Measures one read or write of a long, in ns. Only Agrona's buffer needs JVM flags, and has them. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class MemoryBenchmark {
    private static final int LENGTH = 4096;
    private static final String OPENS = "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED";
    private static final VarHandle OF_BUFFER =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle OF_ARRAY =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private long field = 1;
    private int index = 64;
    private final byte[] array = new byte[LENGTH];
    private final ByteBuffer direct = ByteBuffer.allocateDirect(LENGTH).order(ByteOrder.LITTLE_ENDIAN);
    private final PayloadBuffer payload = payload();

    private static PayloadBuffer payload() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(ByteBuffer.allocateDirect(LENGTH));
        return buffer;
    }

    /** Agrona's buffer, in a separate state because it does not load without flags. */
    @State(Scope.Thread)
    public static class Agrona {
        private final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(LENGTH));
    }

    /** A field of this object. */
    @Benchmark
    public long getField() {
        return field;
    }

    /** A field of this object. */
    @Benchmark
    public void putField() {
        field = index;
    }

    /** A byte[] through a VarHandle. */
    @Benchmark
    public long getByteArray() {
        return (long) OF_ARRAY.get(array, index);
    }

    /** A byte[] through a VarHandle. */
    @Benchmark
    public void putByteArray() {
        OF_ARRAY.set(array, index, field);
    }

    /** A direct ByteBuffer through a VarHandle. */
    @Benchmark
    public long getVarHandle() {
        return (long) OF_BUFFER.get(direct, index);
    }

    /** A direct ByteBuffer through a VarHandle. */
    @Benchmark
    public void putVarHandle() {
        OF_BUFFER.set(direct, index, field);
    }

    /** A direct ByteBuffer itself. */
    @Benchmark
    public long getByteBuffer() {
        return direct.getLong(index);
    }

    /** A direct ByteBuffer itself. */
    @Benchmark
    public void putByteBuffer() {
        direct.putLong(index, field);
    }

    /** Flyring's buffer. */
    @Benchmark
    public long getPayloadBuffer() {
        return payload.getLong(index);
    }

    /** Flyring's buffer. */
    @Benchmark
    public void putPayloadBuffer() {
        payload.putLong(index, field);
    }

    /**
     * Agrona's buffer.
     *
     * @param agrona the buffer.
     * @return the value.
     */
    @Benchmark
    @Fork(value = 1, jvmArgsAppend = OPENS)
    public long getUnsafeBuffer(Agrona agrona) {
        return agrona.buffer.getLong(index);
    }

    /**
     * Agrona's buffer.
     *
     * @param agrona the buffer.
     */
    @Benchmark
    @Fork(value = 1, jvmArgsAppend = OPENS)
    public void putUnsafeBuffer(Agrona agrona) {
        agrona.buffer.putLong(index, field);
    }

    /**
     * Agrona's buffer without bounds checks.
     *
     * @param agrona the buffer.
     * @return the value.
     */
    @Benchmark
    @Fork(value = 1, jvmArgsAppend = {OPENS, "-Dagrona.disable.bounds.checks=true"})
    public long getUnsafeBufferUnchecked(Agrona agrona) {
        return agrona.buffer.getLong(index);
    }

    /**
     * Agrona's buffer without bounds checks.
     *
     * @param agrona the buffer.
     */
    @Benchmark
    @Fork(value = 1, jvmArgsAppend = {OPENS, "-Dagrona.disable.bounds.checks=true"})
    public void putUnsafeBufferUnchecked(Agrona agrona) {
        agrona.buffer.putLong(index, field);
    }
}
