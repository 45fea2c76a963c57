// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.JournalClaim;
import io.flyring.JournalOptions;
import io.flyring.JournalSync;
import io.flyring.JournalWriter;
import io.flyring.NoFreeSlotException;
import io.flyring.NoSpaceException;
import io.flyring.PayloadBuffer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.agrona.DirectBuffer;

/** Appends to a journal, syncs and trims it, in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureAppender extends TortureJournal {
    private static final int MOST_IN_BATCH = 16;

    /** The id of the next message. */
    private long next;
    /** The position of its last append. */
    private long last;

    TortureAppender(Map<String, String> orders) throws IOException {
        super(orders);
        next = Long.parseLong(orders.get("seed")) << 24;
    }

    @Override
    void run() {
        while (!stopped() && !full()) {
            session();
        }
        journal.close();
    }

    @Override
    void session() {
        int dice = below(12);
        if (dice < 6) {
            hold();
        } else if (dice < 8) {
            Duration timeout = Duration.ofMillis(new int[] {0, 20, 2000}[below(3)]);
            for (int left = below(40); left > 0 && !stopped() && !full(); left--) {
                push(timeout);
            }
        } else if (dice < 11) {
            trim();
        } else {
            changeSync();
        }
        beIdle();
    }

    private void hold() {
        long asked = System.nanoTime();
        enter(Phase.SEATING, 2);
        JournalWriter writer;
        try {
            writer = journal.writer(orders.get("name"), below(3) != 0, 1 + below(2), Duration.ofMillis(below(200)));
        } catch (NoFreeSlotException e) {
            phase(Phase.WORKING);
            return;
        }
        linger(2);
        log(Entry.SEATED, 0, writer.epoch(), System.nanoTime(), asked);
        for (int left = below(300); left > 0 && !stopped() && !full(); left--) {
            if (below(10) == 0) {
                beIdle();
            }
            some(writer);
        }
        boolean sync = below(2) == 0;
        leave(() -> writer.close(sync));
    }

    private void some(JournalWriter writer) {
        int dice = below(100);
        if (dice < 55) {
            byte[] message = nextMessage(dice == 0 ? writer.maxMessageLength() : 700);
            one(() -> writer.append(message), Phase.APPENDING, message);
            if (fault("twice")) {
                writer.append(message);
            }
        } else if (dice < 70) {
            batch(writer);
        } else if (dice < 95) {
            claim(writer, dice >= 85);
        } else {
            enter(Phase.SYNCING, 4);
            writer.sync();
            linger(4);
        }
        phase(Phase.WORKING);
    }

    /** An append of one message, logged before and after it. */
    private void one(LongSupplier make, Phase phase, byte[] message) {
        log(Entry.APPENDING, idOf(message), 1, System.nanoTime());
        enter(phase, 200);
        long position = -1;
        long count = 1;
        try {
            if (!fault("lost", 5)) {
                position = make.getAsLong();
            }
        } catch (NoFreeSlotException | NoSpaceException e) {
            count = 0;
        }
        linger(200);
        log(Entry.APPENDED, position, count, System.nanoTime());
        if (position >= 0) {
            last = position;
        }
    }

    private void batch(JournalWriter writer) {
        long first = next;
        DirectBuffer[] messages = new DirectBuffer[1 + below(MOST_IN_BATCH)];
        for (int i = 0; i < messages.length; i++) {
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(nextMessage(400));
            messages[i] = buffer;
        }
        log(Entry.APPENDING, first, messages.length, System.nanoTime());
        enter(Phase.IN_BATCH, 200);
        long before = writer.number();
        long count;
        try {
            count = writer.appendMany(messages);
        } catch (NoSpaceException e) {
            count = writer.number() - before;
        }
        linger(200);
        log(Entry.APPENDED, -1, count, System.nanoTime());
    }

    private void claim(JournalWriter writer, boolean abort) {
        byte[] message = nextMessage(700);
        log(Entry.APPENDING, idOf(message), 1, System.nanoTime());
        enter(Phase.CLAIMING, 200);
        JournalClaim claim;
        try {
            claim = writer.claim(message.length);
        } catch (NoSpaceException e) {
            log(Entry.APPENDED, -1, 0, System.nanoTime());
            return;
        }
        claim.buffer().putBytes(0, message);
        linger(200);
        enter(abort ? Phase.ABORTING : Phase.COMMITTING, 200);
        long position = abort ? claim.abort() : claim.commit();
        linger(200);
        log(Entry.APPENDED, abort ? -1 : position, number(!abort), System.nanoTime());
    }

    private void push(Duration timeout) {
        if (below(10) == 0) {
            beIdle();
        }
        byte[] message = nextMessage(700);
        one(() -> journal.push(message, 1, timeout), Phase.PUSHING, message);
        phase(Phase.WORKING);
    }

    private void trim() {
        int dice = below(4);
        long segments = 1 + below(4);
        enter(Phase.TRIMMING, 2);
        switch (dice) {
            case 0 -> journal.trimConsumed();
            case 1 -> journal.trimPosition(last);
            case 2 -> journal.trimBefore(TimeUnit.MILLISECONDS.toNanos(System.currentTimeMillis()));
            default -> journal.trimSize(segments * journal.segmentSize());
        }
        linger(2);
        phase(Phase.WORKING);
    }

    private void changeSync() {
        JournalSync[] policies = {JournalSync.NEVER, JournalSync.EACH,
            JournalSync.every(Duration.ofMillis(1 + below(20)))};
        JournalOptions changes = new JournalOptions().sync(policies[below(3)]);
        enter(Phase.SYNCING, 4);
        journal.change(changes);
        linger(4);
        phase(Phase.WORKING);
    }

    private byte[] nextMessage(int most) {
        byte[] message = new byte[MESSAGE + below(most - MESSAGE + 1)];
        for (int i = MESSAGE; i < message.length; i++) {
            message[i] = (byte) (next + 7 * i);
        }
        ByteBuffer bytes = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putInt(4, message.length).putLong(8, next);
        bytes.putInt(0, checksum(message));
        if (fault("torn")) {
            message[4] ^= 1;
        }
        next++;
        return message;
    }

    private static long idOf(byte[] message) {
        return ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN).getLong(8);
    }
}
