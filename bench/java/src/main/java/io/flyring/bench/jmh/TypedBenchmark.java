// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import io.flyring.PayloadBuffer;
import java.io.ByteArrayOutputStream;
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
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;

/** Measures writing and reading every field of a {@link Price}, in ns per message. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class TypedBenchmark {
    private final Price price = new Price();
    private final Price read = new Price();
    private final PriceUpdateEncoder encoder = new PriceUpdateEncoder();
    private final PriceUpdateDecoder decoder = new PriceUpdateDecoder();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);
    private byte[] serialized;

    /**
     * Prepares a first message.
     *
     * @throws IOException never.
     */
    @Setup
    public void first() throws IOException {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(ByteBuffer.allocateDirect(PriceUpdateEncoder.BLOCK_LENGTH));
        encoder.wrap(buffer, 0);
        decoder.wrap(buffer, 0, PriceUpdateEncoder.BLOCK_LENGTH, PriceUpdateEncoder.SCHEMA_VERSION);
        price.next();
        price.encode(encoder);
        serialized = price.serialize(bytes);
    }

    /** Encodes into another object. */
    @Benchmark
    public Price encodeObject() {
        price.next();
        read.copyFrom(price);
        return read;
    }

    /** Encodes by the generated codec into Flyring's buffer. */
    @Benchmark
    public PriceUpdateEncoder encodeTyped() {
        price.next();
        price.encode(encoder);
        return encoder;
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
        price.next();
        return price.serialize(bytes);
    }

    /** Decodes from another object. */
    @Benchmark
    public long decodeObject() {
        read.copyFrom(price);
        return read.sum();
    }

    /** Decodes by the generated codec from Flyring's buffer. */
    @Benchmark
    public long decodeTyped() {
        read.decode(decoder);
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
        return Price.deserialize(serialized).sum();
    }
}
