// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A Flyring subscriber reads what Agrona writes (channel.md 6.15). */
class ForeignPublisherTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private AgronaRing writer;
    private int written;
    private int seen;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("foreign.ring"), ForeignTest.options(Foreign.PUBLISHER));
        writer = new AgronaRing(channel.path(), channel.header().ringsOffset, CAPACITY);
    }

    @AfterEach
    void close() {
        channel.close();
    }

    /** The length of message i: 0 to C / 8, the most that Agrona's writer takes. */
    private static int length(int i) {
        return i * 37 % 513;
    }

    private boolean write() {
        if (!writer.write(1 + written, Rings.pattern(written, length(written)))) {
            return false;
        }
        written++;
        return true;
    }

    private void fill() {
        while (write()) {
            assertTrue(written < 100_000);
        }
    }

    private void check(Message message) {
        assertEquals(1 + seen, message.type());
        assertArrayEquals(Rings.pattern(seen, length(seen)), message.toByteArray());
        assertEquals(Sender.unknown(0), message.sender());
        seen++;
    }

    private void drain(Subscriber subscriber) {
        while (subscriber.poll(this::check) > 0) {
            assertTrue(seen <= written);
        }
        assertEquals(written, seen);
        assertEquals(writer.tail(), subscriber.position(0));
        assertEquals(writer.tail(), writer.head());
    }

    @Test
    void everyMessageIsReadInOrderOverManyLaps() {
        fill();
        assertTrue(written > 5, "what came before the first subscriber");
        try (Subscriber subscriber = channel.subscriber("reader", false)) {
            assertTrue(subscriber.kept());
            for (int round = 0; writer.tail() < 100 * CAPACITY; round++) {
                if (round % 7 == 0) {
                    fill();
                } else {
                    write();
                }
                if (round % 3 == 0) {
                    Message message = subscriber.take();
                    if (message != null) {
                        check(message);
                    }
                } else {
                    subscriber.poll(this::check, 1 + round % 4);
                }
            }
            drain(subscriber);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 8, 16, 24, 100, 504, 512})
    void itGoesRoundWhereverTheRingsEndIs(int length) {
        try (Subscriber subscriber = channel.subscriber()) {
            for (int start = CAPACITY - 600; start < CAPACITY; start += 8) {
                // After these messages the next record begins `start` bytes into the ring.
                while ((writer.tail() & CAPACITY - 1) != start) {
                    boolean written = writer.write(1, new byte[0]);
                    Message message = subscriber.take(); // null if only padding was written
                    assertEquals(written ? 0 : -1, message == null ? -1 : message.length());
                }
                byte[] message = Rings.pattern(start, length);
                while (!writer.write(2 + start, message)) { // a failed try writes padding at most
                    assertNull(subscriber.take());
                }
                Message got = subscriber.take();
                assertEquals(2 + start, got.type());
                assertArrayEquals(message, got.toByteArray());
                assertNull(subscriber.take());
            }
            assertTrue(writer.tail() >= (length == 0 ? 1 : 10) * CAPACITY);
        }
    }

    @Test
    void anOpenClaimIsNothingAndAnAbortedOneIsSkipped() {
        try (Subscriber subscriber = channel.subscriber()) {
            for (int i = 0; writer.tail() < 5 * CAPACITY; i++) {
                int claim = writer.tryClaim(1 + i, 40);
                while (claim < 0) {
                    assertNull(subscriber.take());
                    claim = writer.tryClaim(1 + i, 40);
                }
                assertTrue(channel.trailers().get(0).getLong(Layout.TRAILER_CLAIMED) > subscriber.position(0));
                assertNull(subscriber.take(), "its length is negative");
                writer.put(claim, Rings.pattern(i, 40));
                assertEquals(0, subscriber.poll(message -> { }));
                if (i % 3 == 0) {
                    writer.abort(claim);
                    assertNull(subscriber.take());
                } else {
                    writer.commit(claim);
                    Message message = subscriber.take();
                    assertNotNull(message, "message " + i);
                    assertEquals(1 + i, message.type());
                    assertArrayEquals(Rings.pattern(i, 40), message.toByteArray());
                }
                assertEquals(writer.tail(), subscriber.position(0));
            }
        }
    }

    @Test
    void theNextSubscriberGoesOnWhereTheLastOneWas() {
        for (int round = 0; round < 200; round++) {
            try (Subscriber subscriber = channel.subscriber("reader", round % 2 == 0)) {
                assertEquals(List.of(1L + round, writer.head()), List.of(subscriber.epoch(), subscriber.position(0)));
                subscriber.poll(this::check, round % 9);
            }
            assertTrue(writer.head() >= 0);
            fill();
            assertFalse(write(), "no reader makes room");
        }
        assertTrue(writer.tail() > 10 * CAPACITY);
        try (Subscriber subscriber = channel.subscriber("reader", false)) {
            drain(subscriber);
        }
    }

    @Test
    void theSenderIsNotKnownAndNothingEverEnds() {
        Memory control = channel.control();
        int slot = channel.header().publisherSlot(0);
        control.putLong(slot + Layout.PUBLISHER_SLOT_EPOCH, 5);
        control.putInt(slot + Layout.PUBLISHER_SLOT_CLOSED, 1);
        try (Subscriber subscriber = channel.subscriber()) {
            assertFalse(subscriber.ended(0));
            fill();
            drain(subscriber);
            assertFalse(subscriber.ended(0));
        }
    }

    @Test
    void itResumesAtItsGateWhateverTheSlotSays() {
        fill();
        int slot = channel.header().subscriberSlot(0);
        channel.control().putInt(slot + Layout.SUBSCRIBER_SLOT_EVICTING, 1);
        channel.control().putInt(slot + Layout.SUBSCRIBER_SLOT_KEPT, 0);
        try (Subscriber subscriber = channel.subscriber("", false, 0)) {
            assertEquals(0, subscriber.position(0));
            drain(subscriber);
        }
        assertEquals(writer.tail(), writer.head());
    }

    /** Positions of claimed (Agrona's tail) and the gate (its head) that no writer and reader can leave. */
    @ParameterizedTest
    @ValueSource(longs = {-1, -8, 12, 1L << 62, 40 * CAPACITY - CAPACITY - 8, 40 * CAPACITY + 8})
    void aGateThatIsNotWithinALapOfWhatAgronaClaimedIsCorrupt(long gate) {
        Memory trailer = channel.trailers().get(0);
        trailer.putLong(Layout.TRAILER_CLAIMED, 40 * CAPACITY);
        trailer.putLong(Layout.TRAILER_GATE, gate);
        CorruptRingException error = assertThrows(CorruptRingException.class, channel::subscriber);
        assertEquals(gate, error.position());
        assertEquals(gate, trailer.getLong(Layout.TRAILER_GATE), "no other process may move it");
        for (long good : new long[] {39 * CAPACITY, 40 * CAPACITY}) {
            trailer.putLong(Layout.TRAILER_GATE, good);
            channel.subscriber().close();
        }
    }

    @Test
    void aReaderThatLosesItsSlotLeavesAgronasHeadAlone() {
        int epoch = channel.header().subscriberSlot(0) + Layout.SUBSCRIBER_SLOT_EPOCH;
        fill();
        try (Subscriber subscriber = channel.subscriber()) {
            assertEquals(1, subscriber.poll(this::check, 1));
            long head = writer.head();
            channel.control().putLong(epoch, 9);
            assertThrows(SlotLostException.class, subscriber::take);
            assertEquals(head, writer.head());
        }
        try (Subscriber subscriber = channel.subscriber()) {
            drain(subscriber);
            writer.write(1, new byte[8]);
            Memory ring = channel.file().map(channel.header().ringOffset(0), CAPACITY, false);
            ring.putInt((int) subscriber.position(0) & CAPACITY - 1, 7);
            assertThrows(CorruptRingException.class, subscriber::take);
        }
        assertTrue(writer.head() > 0);
    }

    @Test
    void twoThreadsAtOnce() throws Exception {
        AtomicBoolean failed = new AtomicBoolean();
        Thread agrona = new Thread(() -> {
            while (written < 20_000 && !failed.get()) {
                if (!write()) {
                    Thread.yield();
                }
            }
        });
        agrona.start();
        try (Subscriber subscriber = channel.subscriber()) {
            while (seen < 20_000 && agrona.isAlive() || seen < written) {
                if (subscriber.poll(this::check) == 0) {
                    Thread.yield();
                }
            }
        } finally {
            failed.set(true);
            agrona.join();
        }
        assertEquals(20_000, seen);
    }
}
