// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.File;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;
import net.openhft.chronicle.queue.RollCycles;
import net.openhft.chronicle.queue.impl.StoreFileListener;
import net.openhft.chronicle.queue.impl.single.SingleChronicleQueueBuilder;
import net.openhft.chronicle.queue.rollcycles.LegacyRollCycles;
import net.openhft.chronicle.wire.DocumentContext;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Chronicle Queue, which keeps every message, here in memory; a reader removes the files that it has finished. Messages
 * are written and read in place, by address, through its lowest-level API. One queue per direction.
 */
final class Chronicle extends Contender {
    private final ChronicleQueue out;
    private final ChronicleQueue in;
    private final ExcerptAppender appender;
    private final ExcerptTailer tailer;
    private final UnsafeBuffer message = new UnsafeBuffer(0, 0);
    private final int limit;

    Chronicle(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        out = setup.sends() ? queue(setup.producer() ? "a" : "b", StoreFileListener.noOp()) : null;
        in = setup.receives() ? queue(setup.producer() ? "b" : "a", Chronicle::remove) : null;
        appender = out == null ? null : out.createAppender();
        tailer = in == null ? null : in.createTailer();
    }

    private ChronicleQueue queue(String name, StoreFileListener listener) {
        System.setProperty("chronicle.analytics.disable", "true");
        System.setProperty("chronicle.disk.monitor.disable", "true");
        // One file a minute, with the index of the fast cycles.
        return SingleChronicleQueueBuilder.single(setup.path(name).toFile())
            .rollCycle(LegacyRollCycles.MINUTELY)
            .indexSpacing(RollCycles.FAST_DAILY.defaultIndexSpacing())
            .storeFileListener(listener)
            .build();
    }

    private static void remove(int cycle, File file) {
        if (!file.delete()) {
            throw new IllegalStateException("cannot remove " + file);
        }
    }

    @Override
    void send(long tag) {
        try (DocumentContext document = appender.writingDocument()) {
            Bytes<?> bytes = document.wire().bytes();
            bytes.ensureCapacity(bytes.writePosition() + messages.size);
            message.wrap(bytes.addressForWrite(bytes.writePosition()), messages.size);
            messages.write(message, 0, tag);
            bytes.writeSkip(messages.size);
        }
    }

    @Override
    void receive() {
        for (int i = 0; i < limit; i++) {
            try (DocumentContext document = tailer.readingDocument()) {
                if (!document.isPresent()) {
                    return;
                }
                Bytes<?> bytes = document.wire().bytes();
                message.wrap(bytes.addressForRead(bytes.readPosition()), messages.size);
                receiver.onMessage(message, 0);
            }
        }
    }

    @Override
    String library() {
        return "chronicle";
    }

    @Override
    public void close() {
        if (out != null) {
            out.close();
        }
        if (in != null) {
            in.close();
        }
    }
}
