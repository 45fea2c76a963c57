// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.aeron.CommonContext;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.driver.ThreadingMode;
import java.io.IOException;

/**
 * Runs Aeron's media driver with its archive as a separate process: {@code --dir FOLDER} as for a side. The archive
 * writes into that folder, or into that of {@code --option files=FOLDER}, without waiting for a disk.
 */
public final class AeronArchiver {
    static final int SEGMENT = 64 << 20;

    private static final String LOCAL = "aeron:ipc?term-length=64k";

    static { // the driver is parked with the sides; the archive's client and those of the sides then wait for it
        System.setProperty(CommonContext.DRIVER_TIMEOUT_PROP_NAME, Long.toString(AeronDriver.PATIENCE_NS / 1_000_000));
    }

    private AeronArchiver() {
    }

    /** Connects a side to the archive. */
    static AeronArchive connect(Setup setup) {
        return AeronArchive.connect(new AeronArchive.Context()
            .aeronDirectoryName(setup.path("aeron").toString())
            .controlRequestChannel(LOCAL)
            .controlRequestStreamId(AeronArchive.Configuration.localControlStreamId())
            .controlResponseChannel(LOCAL)
            .messageTimeoutNs(AeronDriver.PATIENCE_NS)
            .errorHandler(AeronDriver::failed));
    }

    /**
     * Runs the driver.
     *
     * @param words {@code --dir FOLDER}.
     * @throws IOException if standard input cannot be read.
     */
    public static void main(String[] words) throws IOException {
        Setup setup = Setup.parse(words);
        Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(setup.path("aeron").toString())
            .archiveDirectoryName(setup.file("archive"))
            .controlChannelEnabled(false)
            .localControlChannel(LOCAL)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel(LOCAL))
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .recordingEventsEnabled(false)
            .segmentFileLength(SEGMENT)
            .connectTimeoutNs(AeronDriver.PATIENCE_NS)
            .sessionLivenessCheckIntervalNs(AeronDriver.PATIENCE_NS)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .errorHandler(AeronDriver::failed);
        try (ArchivingMediaDriver driver = ArchivingMediaDriver.launch(
            AeronDriver.context(setup).threadingMode(ThreadingMode.SHARED), archive)) {
            System.out.println("{\"opened\": true, \"clock_ns\": 0, \"runtime\": \"" + Versions.runtime()
                + "\", \"version\": \"" + Versions.of("aeron") + "\"}");
            System.out.flush();
            while (System.in.read() >= 0) {
                // read until standard input ends
            }
        }
    }
}
