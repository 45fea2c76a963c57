// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Base64;
import java.util.Locale;
import org.HdrHistogram.Histogram;

/** Collects round-trip times and prints them in the form of bench/DEMOS.md. */
final class Report {
    private static final long MAX_NANOS = 60 * Options.NANOS;
    private static final double[] PERCENTILES = {50, 90, 99, 99.9, 99.99};
    private static final String[] NAMES = {"p50", "p90", "p99", "p99.9", "p99.99"};

    private final Histogram histogram = new Histogram(1, MAX_NANOS, 3);
    private final Options options;
    private final String program;

    Report(Options options, String program) {
        this.options = options;
        this.program = program;
    }

    void record(long nanos) {
        histogram.recordValue(Math.max(1, Math.min(nanos, MAX_NANOS)));
    }

    void print(long elapsedNanos) throws IOException {
        double mean = options.untimed ? elapsedNanos / (double) options.count : histogram.getMean();
        System.out.println(options.json ? json(mean) : table(mean));
        if (options.histogram != null && !options.untimed) {
            ByteBuffer encoded = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
            int length = histogram.encodeIntoCompressedByteBuffer(encoded);
            byte[] bytes = new byte[length];
            encoded.get(0, bytes);
            Files.writeString(options.histogram, Base64.getEncoder().encodeToString(bytes) + "\n");
        }
    }

    private String json(double mean) {
        JsonObject json = new JsonObject();
        json.addProperty("program", program);
        json.addProperty("language", "java");
        json.addProperty("size", options.counter ? Long.BYTES : options.size);
        json.addProperty("count", options.count);
        json.addProperty("rate", options.rate);
        json.addProperty("wait", options.wait);
        json.addProperty("core", options.core);
        json.addProperty("unit", "ns");
        if (options.typed) {
            json.addProperty("typed", true);
        }
        if (!options.untimed) {
            for (int i = 0; i < NAMES.length; i++) {
                json.addProperty(NAMES[i], histogram.getValueAtPercentile(PERCENTILES[i]));
            }
            json.addProperty("max", histogram.getMaxValue());
        }
        json.addProperty("mean", Math.round(mean * 10) / 10.0);
        return json.toString();
    }

    private String table(double mean) {
        StringBuilder text = new StringBuilder();
        text.append(program).append(" java: ").append(options.count).append(" round trips of ")
            .append(options.counter ? Long.BYTES : options.size).append(" bytes, ")
            .append(options.rate > 0 ? String.format(Locale.ROOT, "%.0f per second", options.rate) : "closed loop")
            .append(", wait ").append(options.wait)
            .append(options.core >= 0 ? ", core " + options.core : ", not pinned").append('\n');
        StringBuilder values = new StringBuilder();
        if (!options.untimed) {
            for (int i = 0; i < NAMES.length; i++) {
                text.append(cell(NAMES[i]));
                values.append(cell(histogram.getValueAtPercentile(PERCENTILES[i])));
            }
            text.append(cell("max"));
            values.append(cell(histogram.getMaxValue()));
        }
        text.append(cell("mean")).append(cell("count"));
        values.append(cell(Math.round(mean))).append(cell(options.count));
        return text.append('\n').append(values).append("   ns").toString();
    }

    private static String cell(Object value) {
        return String.format(Locale.ROOT, "%10s", value);
    }
}
