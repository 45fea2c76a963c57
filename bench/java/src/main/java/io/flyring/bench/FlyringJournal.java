// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.BatchSpinIdleStrategy;
import io.flyring.Journal;
import io.flyring.JournalClaim;
import io.flyring.JournalOptions;
import io.flyring.JournalReader;
import io.flyring.JournalStart;
import io.flyring.JournalWriter;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.SpinIdleStrategy;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.agrona.concurrent.IdleStrategy;

/**
 * A Flyring journal for each direction. Options: {@code segment}, bytes of a segment; {@code helper}, 0 for none;
 * {@code ahead}, how many segments the helper keeps ready; {@code files}, another folder.
 */
class FlyringJournal extends Contender {
    private static final int SEGMENT = 64 << 20;
    private static final int STAND_BACK_NS = 5000;

    final JournalWriter writer;
    private final Journal in;
    private final Journal out;
    private final JournalReader reader;
    private final PayloadBuffer message;
    private final MessageHandler handler = received -> receiver.onMessage(received.buffer(), 0);
    private final int limit;
    private final IdleStrategy idle;

    FlyringJournal(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        message = memory();
        // A reader that follows stands back, as the ring's does.
        idle = setup.streaming() ? new BatchSpinIdleStrategy(STAND_BACK_NS) : new SpinIdleStrategy();
        in = setup.receives() ? open(setup.producer() ? "b" : "a") : null;
        out = setup.sends() ? open(setup.producer() ? "a" : "b") : null;
        reader = in == null ? null : in.reader(JournalStart.NEWEST);
        writer = out == null ? null
            : out.writer("bench", setup.option("helper", 1) != 0, setup.option("ahead", 1), Duration.ZERO);
    }

    static FlyringJournal of(Setup setup, Messages messages) {
        return switch (setup.option("by", "append")) {
            case "batch" -> new Batch(setup, messages);
            case "claim" -> new InPlace(setup, messages);
            default -> new FlyringJournal(setup, messages);
        };
    }

    private Journal open(String name) {
        return Journal.openOrCreate(setup.file(name + ".journal"),
            new JournalOptions().segmentSize(setup.option("segment", SEGMENT)));
    }

    final PayloadBuffer memory() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(ByteBuffer.allocateDirect(messages.size));
        return buffer;
    }

    @Override
    void send(long tag) {
        messages.write(message, 0, tag);
        writer.append(message, 0, messages.size);
    }

    @Override
    void receive() {
        idle.idle(reader.poll(handler, limit));
    }

    /** Removes what was read, so that files do not grow without end. */
    @Override
    void sliceEnds() {
        if (writer != null) {
            writer.sync();
        }
        if (reader != null) {
            in.trimPosition(reader.position());
        }
    }

    @Override
    String library() {
        return "flyring";
    }

    @Override
    public void close() {
        if (in != null) {
            in.close();
        }
        if (out != null) {
            out.close();
        }
    }

    /** Makes a message in the journal. */
    private static final class InPlace extends FlyringJournal {
        InPlace(Setup setup, Messages messages) {
            super(setup, messages);
        }

        @Override
        void send(long tag) {
            JournalClaim claim = writer.claim(messages.size);
            messages.write(claim.buffer(), 0, tag);
            claim.commit();
        }
    }

    /** Makes messages outside and copies several of them at a time; option {@code batch}. */
    private static final class Batch extends FlyringJournal {
        private final PayloadBuffer[] batch;
        private int filled;

        Batch(Setup setup, Messages messages) {
            super(setup, messages);
            batch = new PayloadBuffer[setup.option("batch", 16)];
            for (int i = 0; i < batch.length; i++) {
                batch[i] = memory();
            }
        }

        @Override
        void send(long tag) {
            messages.write(batch[filled++], 0, tag);
            if (filled == batch.length) {
                flush();
            }
        }

        @Override
        void flush() {
            if (filled > 0 && writer.appendMany(batch, 0, filled, 1) != filled) {
                throw new IllegalStateException("no room");
            }
            filled = 0;
        }
    }
}
