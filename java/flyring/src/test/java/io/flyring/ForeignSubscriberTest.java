// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Agrona reads what a Flyring publisher writes (channel.md 6.15). */
class ForeignSubscriberTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private AgronaRing reader;
    /** The number of messages read so far: message i has type 1 + i and {@link #length(int)} bytes. */
    private int seen;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("foreign.ring"), ForeignTest.options(Foreign.SUBSCRIBER));
        reader = new AgronaRing(channel.path(), channel.header().ringsOffset, CAPACITY);
    }

    @AfterEach
    void close() {
        channel.close();
    }

    /** The length of message i: 0 to C / 4 - 8. */
    private static int length(int i) {
        return i * 37 % 1017;
    }

    private void check(int type, byte[] payload) {
        assertEquals(1 + seen, type, "an owner record would be of type -2");
        assertArrayEquals(Rings.pattern(seen, length(seen)), payload);
        seen++;
    }

    private int read(int limit) {
        return reader.read(this::check, limit);
    }

    private boolean publish(Publisher publisher, int i) {
        byte[] message = Rings.pattern(i, length(i));
        if (i % 3 == 0) {
            return publisher.offer(message, 0, message.length, 1 + i) > 0;
        }
        if (i % 3 == 1) {
            DirectBuffer buffer = new PayloadBuffer();
            buffer.wrap(message);
            return publisher.offerBatch(new DirectBuffer[] {buffer}, 0, 1, 1 + i) == 1;
        }
        Claim claim = publisher.tryClaim(length(i + 1));
        if (claim == null) {
            return false;
        }
        claim.abort();
        claim = publisher.tryClaim(message.length, 1 + i);
        if (claim == null) {
            return false;
        }
        claim.buffer().putBytes(0, message);
        claim.commit();
        return true;
    }

    @Test
    void agronaReadsEveryMessageAndMeetsNoOwnerRecord() {
        int published = 0;
        int held = 0;
        for (int owner = 1; owner <= 4; owner++) {
            try (Publisher publisher = channel.publisher("owner-" + owner % 2);
                LossySubscriber lossy = channel.lossySubscriber()) {
                assertEquals(owner, publisher.epoch());
                List<Integer> along = new ArrayList<>();
                int first = published;
                while (published < owner * 200) {
                    // What a stock writer would compute. With more than the capacity, it would overwrite unread
                    // records.
                    assertTrue(reader.tail() - reader.headCache() <= CAPACITY, "head_cache " + reader.headCache());
                    if (publish(publisher, published)) {
                        published++;
                        lossy.poll(message -> along.add(message.type() - 1));
                    } else {
                        held++;
                        assertEquals(reader.head(), reader.headCache(), "after a recompute");
                        assertTrue(read(1 + held % 5) + read(1) > 0);
                    }
                }
                assertEquals(published - first, along.size() + lossy.lostMessages(0));
                assertTrue(along.size() > 150 && lossy.lostMessages(0) == 0);
            }
        }
        while (read(100) > 0) {
            assertTrue(seen <= published);
        }
        assertEquals(published, seen);
        assertEquals(reader.tail(), reader.head());
        assertTrue(held > 100 && reader.head() > 50 * CAPACITY);
    }

    @Test
    void twoThreadsAtOnce() throws Exception {
        AtomicBoolean failed = new AtomicBoolean();
        Thread agrona = new Thread(() -> {
            while (seen < 20_000 && !failed.get()) {
                if (read(17) == 0) {
                    Thread.yield();
                }
            }
        });
        agrona.setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            failed.set(true);
        });
        agrona.start();
        try (Publisher publisher = channel.publisher()) {
            for (int i = 0; i < 20_000 && !failed.get();) {
                if (publish(publisher, i)) {
                    i++;
                } else {
                    Thread.yield();
                }
            }
        }
        agrona.join();
        assertFalse(failed.get());
        assertEquals(20_000, seen);
    }

    @Test
    void aReadThatCommitsEachMessageFindsNothingBehindTheRing() {
        byte[] message = new byte[CAPACITY / 8 - Layout.RECORD_HEADER_LENGTH];
        int[] got = new int[1];
        AgronaRing.Handler handler = (type, payload) -> {
            assertEquals(1 + got[0]++, type);
            assertEquals(message.length, payload.length);
        };
        assertTrue(reader.lengthBehind() <= 0, "after create");
        try (Publisher publisher = channel.publisher()) {
            for (int i = 0; i < 8 * 5;) { // five laps: each boundary of the ring comes four times
                while (publisher.offer(message, 0, message.length, 1 + i) > 0) {
                    i++;
                    assertTrue(reader.lengthBehind() <= 0, "after message " + i + ": " + reader.lengthBehind());
                }
                assertTrue(reader.readCommitting(handler, 100) > 0);
                assertEquals(0, reader.head() % (CAPACITY / 8));
                assertTrue(reader.head() <= publisher.position());
            }
            while (reader.head() < publisher.position()) {
                assertTrue(reader.readCommitting(handler, 100) > 0);
            }
            assertEquals(publisher.position() / (CAPACITY / 8), got[0]);
        }
    }

    /**
     * Moves all positions, for example beyond 2 GiB as after a long run; the head cache stays at 0, as Agrona's writer
     * left it.
     */
    private void moveTo(long position) {
        Memory trailer = channel.trailers().get(0);
        trailer.putLong(Layout.TRAILER_CLAIMED, position);
        trailer.putLong(Layout.TRAILER_PUBLISHED, position);
        trailer.putLong(Layout.TRAILER_GATE, position);
    }

    @Test
    void aStockWriterThatHasTheRingLaterKnowsHowMuchRoomThereIs() {
        moveTo(3L << 30);
        int published = 0;
        try (Publisher publisher = channel.publisher()) {
            while (publish(publisher, published)) {
                published++;
            }
            assertTrue(reader.tail() - reader.head() > CAPACITY / 2);
        }
        assertFalse(reader.write(1 + published, Rings.pattern(published, CAPACITY / 8)), "the ring is nearly full");
        while (read(100) > 0) {
            assertTrue(seen <= published);
        }
        assertEquals(published, seen);
        int written = 0;
        while (reader.write(7, Rings.pattern(written, 100))) {
            written++;
        }
        assertTrue(written > 30, "messages in an empty ring: " + written);
        int[] got = new int[1];
        AgronaRing.Handler handler = (type, payload) -> {
            assertEquals(7, type);
            assertArrayEquals(Rings.pattern(got[0]++, 100), payload);
        };
        while (got[0] < written) {
            assertTrue(reader.read(handler, 100) + reader.read(handler, 100) > 0);
        }
        assertEquals(reader.tail(), reader.head());
    }

    @Test
    void itHoldsThePublisherBackAndIsNeverTestedOrRetired() {
        Memory control = channel.control();
        int slot = channel.header().subscriberSlot(0);
        // The slot's fields do not matter: its lock is free.
        control.putInt(slot + Layout.SUBSCRIBER_SLOT_KEPT, 0);
        control.putInt(slot + Layout.SUBSCRIBER_SLOT_EVICTING, 1);
        try (Publisher publisher = channel.publisher()) {
            int published = 0;
            while (publish(publisher, published)) {
                published++;
            }
            assertEquals(new Holder(0, "", 0, true, true, 0), publisher.heldBy());
            long end = System.nanoTime() + 20_000_000;
            while (System.nanoTime() < end) {
                assertFalse(publish(publisher, published));
            }
            assertEquals(0, reader.head());
            assertEquals(0, control.getLong(slot + Layout.SUBSCRIBER_SLOT_EPOCH));
            assertEquals(1, read(1));
            assertEquals(new Holder(0, "", 0, true, true, reader.head()), publisher.heldBy());
        }
    }
}
