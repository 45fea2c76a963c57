// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Subscribers that lose their slot: by an operator, or by a publisher with a lag limit. */
class EvictTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("evict.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(2).subscribers(2).counters(0));
    }

    @AfterEach
    void close() {
        channel.close();
    }

    private long gate(int ring, int slot) {
        return channel.trailers().get(ring).getLong(Header.gate(slot));
    }

    private int evicting(int slot) {
        return channel.control().getInt(channel.header().subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EVICTING);
    }

    /** A subscriber that takes a slot, joins, and dies: the kernel drops its lock, everything else stays. */
    static void die(Channel channel, String name, boolean kept) {
        byte[] bytes = Slots.name(name);
        try (Lock lock = channel.file().newLock()) {
            int slot = channel.slots().takeSubscriber(lock, bytes);
            Joining.Plan plan = channel.joining().plan(slot, null, new Waker(channel.slots().room(), true));
            channel.joining().attach(plan, slot, channel.slots().enterSubscriber(slot, bytes), kept);
        }
    }

    private static void fill(Publisher publisher) {
        while (publisher.offer(new byte[500]) > 0) {
            assertTrue(publisher.position() < 5 * CAPACITY);
        }
    }

    @Test
    void anEvictedSubscriberIsToldAndHoldsNoPublisherBack() {
        try (Publisher publisher = channel.publisher(); Subscriber victim = channel.subscriber("victim", false)) {
            fill(publisher);
            assertEquals("victim", publisher.heldBy().name());
            channel.evict(0);
            assertTrue(publisher.offer(new byte[500]) > 0);
            assertNull(publisher.heldBy());
            assertEquals(0, assertThrows(SlotLostException.class, victim::take).slot());
            assertThrows(SlotLostException.class, () -> victim.poll(message -> { }));
            try (Subscriber next = channel.subscriber()) {
                assertEquals(List.of(0, 3L), List.of(next.slot(), next.epoch()));
                assertEquals(0, evicting(0), "the next owner has joined");
                publisher.offer(new byte[7]);
                assertEquals(7, next.take().length());
                victim.close();
                assertEquals(next.position(0), gate(0, 0));
            }
        }
    }

    @Test
    void aSlotOfALiveVictimIsItsOwnUntilItNotices() {
        try (Subscriber victim = channel.subscriber(); Subscriber other = channel.subscriber()) {
            channel.evict(0);
            assertThrows(NoFreeSlotException.class, channel::subscriber);
            assertThrows(SlotLostException.class, victim::take);
            try (Subscriber next = channel.subscriber()) {
                assertEquals(0, next.slot());
                assertEquals(1, other.slot());
            }
        }
    }

    @Test
    void anEvictInTheMiddleOfAPollIsNoticedAtItsEndAndTheGateIsTakenBack() {
        int byClose = 0;
        for (int limit : new int[] {byClose, 1, 256}) {
            try (Publisher publisher = channel.publisher(); Subscriber victim = channel.subscriber()) {
                publisher.offer(new byte[1]);
                assertEquals(1, victim.take().length()); // also skips the owner record in front of it
                publisher.offer(new byte[1]);
                if (limit == byClose) {
                    channel.evict(victim.slot());
                    channel.trailers().get(0).putLong(Header.gate(victim.slot()), 0);
                    victim.close();
                } else {
                    int[] handed = new int[1];
                    assertThrows(SlotLostException.class, () -> victim.poll(message -> {
                        handed[0]++;
                        channel.evict(victim.slot());
                    }, limit));
                    assertEquals(1, handed[0]);
                }
                assertEquals(List.of(-1L, -1L, 1), List.of(gate(0, 0), gate(1, 0), evicting(0)));
                try (Subscriber next = channel.subscriber()) {
                    assertEquals(0, next.slot());
                }
            }
        }
    }

    @Test
    void whatAnEvictedReaderSeesOfALaterLapIsNoCorruption() {
        try (Publisher publisher = channel.publisher(); Subscriber victim = channel.subscriber()) {
            publisher.offer(new byte[8]);
            publisher.offer(new byte[8]);
            byte[] garbage = new byte[900];
            Arrays.fill(garbage, (byte) 0x7f);
            assertThrows(SlotLostException.class, () -> victim.poll(message -> {
                channel.evict(victim.slot());
                for (int i = 0; i < 5; i++) {
                    assertTrue(publisher.offer(garbage) > 0);
                }
            }));
        }
    }

    @Test
    void aKeptSlotStaysKeptAndItsNextOwnerStartsAfresh() {
        try (Publisher publisher = channel.publisher()) {
            channel.subscriber("kept", true).close();
            publisher.offer(new byte[1]);
            channel.evict(0);
            assertNull(publisher.heldBy());
            publisher.offer(new byte[2]);
            try (Subscriber next = channel.subscriber("kept", false)) {
                assertTrue(next.kept());
                assertEquals(0, next.slot());
                publisher.offer(new byte[3]);
            }
            publisher.offer(new byte[4]);
            try (Subscriber again = channel.subscriber("kept", true)) {
                assertEquals(List.of(3, 4), List.of(again.take().length(), again.take().length()));
                assertNull(again.take());
            }
        }
    }

    @Test
    void anEvictThatWasCutOffLeavesAKeptSlotsNextOwnerNothingToResumeAt() {
        try (Publisher one = channel.publisher(); Publisher two = channel.publisher()) {
            for (int stores = 0; stores <= 4; stores++) {
                try (Subscriber before = channel.subscriber("kept", true)) {
                    while (before.take() != null) {
                        assertTrue(before.kept());
                    }
                }
                one.offer(new byte[1]);
                two.offer(new byte[2]);
                int slot = channel.header().subscriberSlot(0);
                long epoch = channel.control().getLong(slot + Layout.SUBSCRIBER_SLOT_EPOCH);
                Runnable[] steps = {
                    () -> channel.control().putLong(slot + Layout.SUBSCRIBER_SLOT_EPOCH, epoch + 1),
                    () -> channel.control().putInt(slot + Layout.SUBSCRIBER_SLOT_EVICTING, 1),
                    () -> channel.trailers().get(0).putLong(Header.gate(0), -1),
                    () -> channel.trailers().get(1).putLong(Header.gate(0), -1)};
                Arrays.stream(steps).limit(stores).forEach(Runnable::run);
                try (Subscriber next = channel.subscriber("kept", true)) {
                    assertArrayEquals(new int[] {0, 1}, next.rings());
                    one.offer(new byte[3]);
                    two.offer(new byte[4]);
                    int[] sum = new int[1];
                    next.poll(message -> sum[0] += message.length());
                    assertEquals(stores < 2 ? 10 : 7, sum[0], "after " + stores + " stores");
                    assertEquals(0, evicting(0));
                }
            }
        }
    }

    @Test
    void aKeptSlotWhoseOwnerWasKilledInsideItsJoinIsNotResumed() {
        try (Publisher one = channel.publisher(); Publisher two = channel.publisher()) {
            channel.subscriber("kept", true).close();
            channel.evict(0);
            // Half a join of the next owner: evicting is still set, and the first gate of two is stored.
            channel.trailers().get(0).putLong(Header.gate(0), one.position());
            one.offer(new byte[1]);
            try (Subscriber next = channel.subscriber("kept", true)) {
                assertArrayEquals(new int[] {0, 1}, next.rings());
                assertNull(next.take());
                two.offer(new byte[2]);
                assertEquals(2, next.take().length());
            }
        }
    }

    @Test
    void aRefusedSubscriberChangesNothing() {
        try (Subscriber first = channel.subscriber("kept", true)) {
            assertTrue(first.kept());
        }
        channel.trailers().forEach(trailer -> trailer.putLong(Header.gate(0), -1)); // makes the next owner join
        channel.trailers().get(1).putLong(Layout.TRAILER_PUBLISHED, 1);
        assertThrows(CorruptRingException.class, () -> channel.subscriber("kept", true));
        assertEquals(List.of(0, 1L), List.of(evicting(0), Rings.subscriberEpoch(channel, 0)), "nothing was changed");
        channel.trailers().get(1).putLong(Layout.TRAILER_PUBLISHED, 64);
        channel.subscriber("kept", true).close();
        assertEquals(0, evicting(0));
    }

    @Test
    void anEvictWaitsForTheControlLock() throws Exception {
        try (Lock other = channel.file().newLock(); Subscriber victim = channel.subscriber()) {
            other.lockControl(channel.header());
            Thread operator = new Thread(() -> channel.evict(0));
            operator.start();
            Thread.sleep(50);
            assertEquals(List.of(1L, 0L), List.of(Rings.subscriberEpoch(channel, 0), gate(0, 0)));
            other.unlockControl(channel.header());
            operator.join();
            assertEquals(List.of(2L, -1L), List.of(Rings.subscriberEpoch(channel, 0), gate(0, 0)));
            assertThrows(SlotLostException.class, victim::take);
        }
    }

    @Test
    void anEvictedKeptSlotWhoseOwnerDiedWithAGateIsRetired() throws Exception {
        try (Publisher publisher = channel.publisher()) {
            die(channel, "kept", true);
            channel.evict(0);
            channel.trailers().get(0).putLong(Header.gate(0), 0);
            fill(publisher);
            Thread.sleep(2);
            assertTrue(publisher.offer(new byte[500]) > 0);
            assertEquals(-1, gate(0, 0));
        }
    }

    @Test
    void slotsAndLagLimitsOutsideTheirRangeAreRefused() {
        for (int slot : new int[] {-1, 2, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            assertEquals("slot",
                assertThrows(InvalidArgumentException.class, () -> channel.evict(slot)).argument());
        }
        for (int lag : new int[] {-1, 1, CAPACITY / 2 - 1, CAPACITY + 1, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            assertEquals("max_lag",
                assertThrows(InvalidArgumentException.class, () -> channel.publisher("p", lag)).argument());
        }
        channel.publisher("p", CAPACITY).close();
        channel.publisher("p", CAPACITY / 2).close();
        channel.close();
        assertThrows(ClosedException.class, () -> channel.evict(0));
    }

    @Test
    void aSubscriberBeyondMaxLagIsEvictedAndNoOther() {
        try (Publisher publisher = channel.publisher("fast", CAPACITY / 2);
            Subscriber sleeper = channel.subscriber("sleeper", true); Subscriber quick = channel.subscriber()) {
            int[] got = new int[1];
            for (int i = 0; i < 500; i++) {
                long before = publisher.position();
                assertTrue(publisher.offer(Rings.pattern(i, 100)) > 0, "message " + i);
                assertEquals(before + 128 + 8 <= CAPACITY / 2, gate(0, 0) >= 0 || i == 0 && got[0] == 0,
                    "evicted as soon as it would have to wait: " + before);
                quick.poll(message -> assertArrayEquals(Rings.pattern(got[0]++, 100), message.toByteArray()));
            }
            assertEquals(500, got[0]);
            assertEquals(quick.slot(), publisher.heldBy().slot());
            assertThrows(SlotLostException.class, sleeper::take);
        }
    }

    @Test
    void aBatchEvictsToo() {
        try (Publisher publisher = channel.publisher("fast", CAPACITY / 2); Subscriber sleeper = channel.subscriber()) {
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(new byte[120]);
            DirectBuffer[] batch = {buffer, buffer, buffer, buffer, buffer, buffer, buffer};
            for (int i = 0; i < 20; i++) {
                assertEquals(7, publisher.offerBatch(batch));
            }
            assertThrows(SlotLostException.class, sleeper::take);
        }
    }

    @Test
    void aGrantedLimitStaysWhenALaterSubscriberAllowsLess() {
        try (Publisher publisher = channel.publisher("fast", CAPACITY / 2); Lock other = channel.file().newLock()) {
            assertTrue(publisher.offer(new byte[] {1}) > 0, "no subscriber holds it back, up to the ring's end");
            try (Subscriber slow = channel.subscriber()) {
                int sent = 0;
                for (; publisher.position() < CAPACITY - 128; sent++) {
                    assertTrue(publisher.offer(new byte[] {2}) > 0);
                }
                PayloadBuffer buffer = new PayloadBuffer();
                buffer.wrap(new byte[] {3});
                other.lockControl(channel.header()); // else "slow" would be evicted
                assertEquals(1, publisher.offerBatch(new DirectBuffer[] {buffer, buffer, buffer, buffer}));
                other.unlockControl(channel.header());
                int[] sum = new int[1];
                assertEquals(sent + 1, slow.poll(message -> sum[0] += message.buffer().getByte(0), 1000));
                assertEquals(2 * sent + 3, sum[0]);
                assertEquals(CAPACITY - 64, publisher.position());
                assertEquals(CAPACITY - 64, slow.position(0));
            }
        }
    }

    @Test
    void whileTheControlLockIsTakenNoSubscriberIsEvictedForItsLag() {
        try (Publisher publisher = channel.publisher("fast", CAPACITY / 2); Subscriber sleeper = channel.subscriber();
            Lock other = channel.file().newLock()) {
            other.lockControl(channel.header());
            fill(publisher);
            assertTrue(publisher.position() <= CAPACITY / 2);
            for (int i = 0; i < 100; i++) {
                assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]));
            }
            assertNotNull(publisher.heldBy());
            other.unlockControl(channel.header());
            assertTrue(publisher.offer(new byte[500]) > 0);
            assertTrue(other.tryLockControl(channel.header()), "the publisher gave it back");
            assertThrows(SlotLostException.class, sleeper::take);
        }
    }

    @Test
    void anEvictIsNoticedAtTheNextGateStoreOfAPollThatRuns() {
        try (Publisher publisher = channel.publisher(); Subscriber victim = channel.subscriber()) {
            while (publisher.offer(new byte[100]) > 0) {
                assertTrue(publisher.position() < 5 * CAPACITY);
            }
            int[] handed = new int[1];
            assertThrows(SlotLostException.class, () -> victim.poll(message -> {
                if (handed[0]++ == 0) {
                    channel.evict(0);
                }
            }));
            assertTrue(handed[0] * 128 <= CAPACITY / 8 + 128, "handed out after the evict: " + handed[0]);
            assertEquals(List.of(-1L, 1), List.of(gate(0, 0), evicting(0)));
            assertTrue(publisher.offer(new byte[100]) > 0);
            assertEquals(0, channel.subscriber().slot());
        }
    }

    @Test
    void aPublisherTakesBackALateGateStoreOfAnEvictedOwner() {
        try (Publisher publisher = channel.publisher(); Subscriber victim = channel.subscriber()) {
            fill(publisher);
            channel.evict(0);
            assertTrue(publisher.offer(new byte[500]) > 0);
            channel.trailers().get(0).putLong(Header.gate(0), 0); // a store that became visible late
            long end = System.nanoTime() + 2_000_000_000L;
            while (publisher.position() < 3 * CAPACITY) {
                publisher.offer(new byte[500]);
                assertTrue(System.nanoTime() < end, "held back by " + publisher.heldBy());
            }
            assertEquals(-1, gate(0, 0));
            assertThrows(SlotLostException.class, victim::take);
        }
    }

    @Test
    void anEvictSaysHowMuchWasNotReadAndWhatComesAfterItIsRefused() {
        try (Publisher publisher = channel.publisher(); Subscriber victim = channel.subscriber("victim", true)) {
            for (int i = 0; i < 20; i++) {
                publisher.offer(new byte[i]);
            }
            assertEquals(3, victim.poll(message -> { }, 3));
            assertEquals(3, channel.trailers().get(0).getLong(Header.gate(0) + Layout.GATE_COUNT));
            assertEquals(17, channel.evict(0));
            assertEquals(0, channel.evict(1), "the slot had no owner");
            for (Executable use : List.<Executable>of(victim::take, victim::forget, () -> victim.ended(0))) {
                assertThrows(SlotLostException.class, use);
            }
            assertEquals(List.of("victim", 0, true, 2), List.of(victim.name(), victim.slot(), victim.kept(),
                victim.rings().length));
            assertTrue(victim.position(0) > 0);
        }
    }
}
