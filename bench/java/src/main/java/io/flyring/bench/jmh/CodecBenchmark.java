// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import io.flyring.PayloadBuffer;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/** Measures writing and reading the eight fields of an {@link Order}, in ns per message. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class CodecBenchmark {
    private final Order order = new Order();
    private final Order read = new Order();
    private final PayloadBuffer buffer = new PayloadBuffer();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);
    private final DataOutputStream data = new DataOutputStream(bytes);
    private final byte[] written = new byte[Order.LENGTH];
    private final ByteArrayInputStream in = new ByteArrayInputStream(written);
    private final DataInputStream dataIn = new DataInputStream(in);
    private byte[] serialized;

    /**
     * Prepares a first message.
     *
     * @throws IOException never.
     */
    @Setup
    public void first() throws IOException {
        buffer.wrap(ByteBuffer.allocateDirect(Order.LENGTH));
        order.next();
        order.encode(buffer);
        serialized = order.serialize(bytes);
        bytes.reset();
        order.write(data);
        System.arraycopy(bytes.toByteArray(), 0, written, 0, bytes.size());
    }

    /** Encodes into another object. */
    @Benchmark
    public Order encodeObject() {
        order.next();
        read.copyFrom(order);
        return read;
    }

    /** Encodes into Flyring's buffer. */
    @Benchmark
    public PayloadBuffer encodeStruct() {
        order.next();
        order.encode(buffer);
        return buffer;
    }

    /**
     * Encodes into a DataOutputStream over an array.
     *
     * @return the bytes.
     * @throws IOException never.
     */
    @Benchmark
    public ByteArrayOutputStream encodeDataOutput() throws IOException {
        order.next();
        bytes.reset();
        order.write(data);
        return bytes;
    }

    /**
     * Encodes by the JDK's serialization.
     *
     * @return the bytes.
     * @throws IOException never.
     */
    @Benchmark
    @Warmup(iterations = 5, time = 1) // a lot of code to compile
    public byte[] encodeSerialization() throws IOException {
        order.next();
        return order.serialize(bytes);
    }

    /** Decodes from another object. */
    @Benchmark
    public long decodeObject() {
        read.copyFrom(order);
        return read.sum();
    }

    /** Decodes from Flyring's buffer. */
    @Benchmark
    public long decodeStruct() {
        read.decode(buffer);
        return read.sum();
    }

    /**
     * Decodes from a DataInputStream over an array.
     *
     * @return a sum.
     * @throws IOException never.
     */
    @Benchmark
    public long decodeDataInput() throws IOException {
        in.reset();
        read.read(dataIn);
        return read.sum();
    }

    /**
     * Decodes by the JDK's serialization.
     *
     * @return a sum.
     * @throws IOException never.
     * @throws ClassNotFoundException never.
     */
    @Benchmark
    @Warmup(iterations = 5, time = 1) // a lot of code to compile
    public long decodeSerialization() throws IOException, ClassNotFoundException {
        return Order.deserialize(serialized).sum();
    }
}
