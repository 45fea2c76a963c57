// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.IOException;
import java.util.concurrent.TimeUnit;

/**
 * Runs Aeron's media driver as a separate process: {@code --dir FOLDER} as for a side, {@code --option threading=MODE}.
 * Reports that it is ready as a side does, and ends with its standard input.
 */
public final class AeronDriver {
    /** A long time-out: sides are parked for minutes while others are measured, and must not count as dead. */
    static final long PATIENCE_NS = TimeUnit.HOURS.toNanos(1);

    private AeronDriver() {
    }

    /** The settings that the stand-alone driver and the one inside a side share. */
    static MediaDriver.Context context(Setup setup) {
        return new MediaDriver.Context()
            .aeronDirectoryName(setup.path("aeron").toString())
            .termBufferSparseFile(false)
            .clientLivenessTimeoutNs(PATIENCE_NS)
            .imageLivenessTimeoutNs(PATIENCE_NS)
            .publicationUnblockTimeoutNs(2 * PATIENCE_NS)
            .publicationConnectionTimeoutNs(PATIENCE_NS)
            .dirDeleteOnShutdown(true)
            .errorHandler(AeronDriver::failed);
    }

    /** Ends the process after an error in one of Aeron's threads. */
    static void failed(Throwable e) {
        System.err.println("flyring-bench: " + e);
        Runtime.getRuntime().halt(1);
    }

    /**
     * Runs the driver.
     *
     * @param words {@code --dir FOLDER [--option threading=SHARED]}.
     * @throws IOException if standard input cannot be read.
     */
    public static void main(String[] words) throws IOException {
        Setup setup = Setup.parse(words);
        MediaDriver.Context context = context(setup)
            .threadingMode(ThreadingMode.valueOf(setup.option("threading", "SHARED")));
        try (MediaDriver driver = MediaDriver.launch(context)) {
            System.out.println("{\"opened\": true, \"clock_ns\": 0, \"runtime\": \"" + Versions.runtime()
                + "\", \"version\": \"" + Versions.of("aeron") + "\"}");
            System.out.flush();
            while (System.in.read() >= 0) {
                // read until standard input ends
            }
        }
    }
}
