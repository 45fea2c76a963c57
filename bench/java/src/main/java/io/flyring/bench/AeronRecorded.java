// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.FragmentHandler;

/**
 * Aeron IPC that its archive records, and a reader that the archive replays to. A slice is replayed from where the last
 * one ended, and the recording follows the publication, which the archive holds back.
 */
final class AeronRecorded extends Contender {
    private static final int STREAM = 1001;
    private static final int REPLAY = 2001;
    private static final String CHANNEL = "aeron:ipc";
    private static final int TERM = 64 << 20;

    private final BufferClaim claim = new BufferClaim();
    private final FragmentHandler handler = (buffer, offset, length, header) -> receiver.onMessage(buffer, offset);
    private AeronArchive archive;
    private ExclusivePublication publication;
    private long recording = -1;
    private long start;
    private long position;
    private Subscription replay;
    private Image image;

    AeronRecorded(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void connect() {
        archive = AeronArchiver.connect(setup);
        if (setup.producer()) {
            publication = archive.addRecordedExclusivePublication(CHANNEL + "?term-length=" + TERM, STREAM);
            while (!publication.isConnected()) {
                Thread.yield();
            }
        }
    }

    @Override
    void send(long tag) {
        while (AeronIpc.again(publication.tryClaim(messages.size, claim))) {
            // the archive is behind: try again
        }
        messages.write(claim.buffer(), claim.offset(), tag);
        claim.commit();
    }

    @Override
    void receive() {
        if (image == null) {
            begin();
        }
        image.poll(handler, setup.limit());
    }

    private void begin() {
        while (recording < 0) {
            archive.listRecordings(0, 1, (controlSession, correlation, id, startTime, stopTime, startPosition,
                stopPosition, initialTerm, segmentLength, termLength, mtu, session, stream, stripped, original,
                source) -> recording = id);
        }
        replay = archive.replay(recording, position, Long.MAX_VALUE, CHANNEL, REPLAY);
        while (replay.hasNoImages()) {
            Thread.yield();
        }
        image = replay.imageAtIndex(0);
    }

    /** Ends the replay, and removes what was read, so that files do not grow without end. */
    @Override
    void sliceEnds() {
        if (image == null) {
            return;
        }
        position = image.position();
        image = null;
        replay.close();
        archive.stopAllReplays(recording);
        long base = AeronArchive.segmentFileBasePosition(start, position, TERM, AeronArchiver.SEGMENT);
        if (base > start) {
            archive.purgeSegments(recording, base);
            start = base;
        }
    }

    @Override
    String library() {
        return "aeron";
    }

    @Override
    public void close() {
        if (archive != null) {
            archive.close();
        }
    }
}
