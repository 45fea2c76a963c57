// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Which slot an owner gets, and what it finds there. */
class SlotsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(ChannelOptions options) {
        return Channel.create(rings.path("slots.ring"),
            options.capacity(4096).publishers(2).subscribers(options.kind == Kind.INBOX ? 1 : 2));
    }

    @Test
    void aSlotThatIsGivenBackIsFreeAgain() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher one = channel.publisher();
            Subscriber first = channel.subscriber()) {
            Publisher two = channel.publisher();
            assertNotEquals(one.ring(), two.ring());
            NoFreeSlotException error = assertThrows(NoFreeSlotException.class, channel::publisher);
            assertEquals("publisher", error.kind());
            assertEquals(2, error.slots());
            two.close();
            two.close();
            try (Publisher again = channel.publisher()) {
                assertEquals(two.ring(), again.ring());
                assertEquals(two.epoch() + 1, again.epoch());
            }
            Subscriber second = channel.subscriber();
            assertNotEquals(first.slot(), second.slot());
            assertThrows(NoFreeSlotException.class, channel::subscriber);
            second.close();
            try (Subscriber again = channel.subscriber()) {
                assertEquals(second.slot(), again.slot());
            }
        }
    }

    @Test
    void aNameGetsTheSameRingBack() {
        try (Channel channel = create(ChannelOptions.broadcast())) {
            Publisher left = channel.publisher("left");
            Publisher right = channel.publisher("right");
            assertEquals("right", right.name());
            assertTrue(right.offer(new byte[10]) > 0);
            assertThrows(NoFreeSlotException.class, () -> channel.publisher("right"));
            left.close();
            right.close();
            try (Publisher again = channel.publisher("right"); Publisher other = channel.publisher("new")) {
                assertEquals(right.ring(), again.ring());
                // the ring's start, the owner record, and W, which "right" had cleared ahead (6.1, 3 and 6.8)
                assertEquals(64 + 64 + 512, again.position());
                assertEquals(2, again.epoch());
                assertEquals(left.ring(), other.ring());
            }
            assertEquals("name",
                assertThrows(InvalidArgumentException.class, () -> channel.publisher("n".repeat(65))).argument());
        }
    }

    @Test
    void aKeptSubscriberResumesWhereItWas() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            assertEquals("name",
                assertThrows(InvalidArgumentException.class, () -> channel.subscriber("", true)).argument());
            Subscriber first = channel.subscriber("engine", true, 0);
            assertTrue(first.kept());
            publisher.offer(new byte[2]);
            publisher.offer(new byte[3]);
            assertEquals(2, first.take().length());
            first.close();
            publisher.offer(new byte[4]);
            ChannelDiffersException differs = assertThrows(ChannelDiffersException.class,
                () -> channel.subscriber("engine", true, 1));
            assertEquals("rings", differs.field());
            try (Subscriber again = channel.subscriber("engine", false)) {
                assertEquals(first.slot(), again.slot());
                assertArrayEquals(new int[] {0}, again.rings());
                assertEquals(3, again.take().length());
                assertThrows(NoFreeSlotException.class, () -> channel.subscriber("engine", true));
            }
            Holder holder = publisher.heldBy();
            assertEquals("engine", holder.name());
            assertEquals(List.of(false, true), List.of(holder.live(), holder.kept()));
            Subscriber last = channel.subscriber("engine", true);
            assertEquals(4, last.take().length());
            last.forget();
            assertNull(publisher.heldBy());
            try (Subscriber fresh = channel.subscriber("engine", true)) {
                publisher.offer(new byte[5]);
                assertEquals(5, fresh.take().length());
            }
        }
    }

    @Test
    void aKeptSlotHoldsThePublisherBackForGood() throws Exception {
        try (Channel channel = create(ChannelOptions.inbox()); Publisher publisher = channel.publisher()) {
            while (publisher.offer(new byte[500]) > 0) {
                assertTrue(publisher.position() < 5000);
            }
            Thread.sleep(5);
            assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]));
            assertEquals(new Holder(0, "", 0, false, true, 0), publisher.heldBy());
            try (Subscriber subscriber = channel.subscriber("inbox", false)) {
                assertEquals(0, subscriber.slot());
                subscriber.take();
            }
            assertTrue(publisher.offer(new byte[400]) > 0);
            assertEquals("inbox", publisher.heldBy().name());
        }
    }

    @Test
    void aKeptSubscriberResumesBehindARecordWhosePublisherDiedBeforeItSaidSo() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher publisher = channel.publisher()) {
            try (Subscriber first = channel.subscriber("engine", true, 0)) {
                publisher.offer(new byte[1]);
                assertEquals(1, first.take().length());
            }
            Memory trailer = channel.trailers().get(0);
            trailer.putLong(Layout.TRAILER_PUBLISHED, 64); // publish 7 of the message is missing
            try (Subscriber again = channel.subscriber("engine", true)) {
                assertEquals(128, again.position(0));
            }
            long claimed = trailer.getLong(Layout.TRAILER_CLAIMED);
            trailer.putLong(Header.gate(0), claimed + 64);
            assertThrows(CorruptRingException.class, () -> channel.subscriber("engine", true));
        }
    }

    @Test
    void aPublisherWhoseEpochChangedHasLostItsSlot() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            Claim claim = publisher.claim(8);
            int at = channel.header().publisherSlot(publisher.ring()) + Layout.PUBLISHER_SLOT_EPOCH;
            channel.control().putLong(at, 77);
            assertEquals(publisher.ring(), assertThrows(SlotLostException.class, claim::commit).slot());
            assertThrows(SlotLostException.class, () -> publisher.offer(new byte[1]));
            assertThrows(SlotLostException.class, () -> publisher.claim(1));
            publisher.close();
            assertThrows(ClosedException.class, () -> publisher.offer(new byte[1]));
            assertNull(subscriber.take());
            assertEquals(0, channel.control().getInt(at + Layout.PUBLISHER_SLOT_CLOSED));
            try (Publisher next = channel.publisher()) {
                assertEquals(78, next.epoch());
                assertTrue(next.offer(new byte[9]) > 0);
                assertEquals(9, subscriber.take().length());
            }
        }
    }

    @Test
    void aSubscriberWhoseEpochChangedHasLostItsSlotAndStopsGating() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            int at = channel.header().subscriberSlot(subscriber.slot()) + Layout.SUBSCRIBER_SLOT_EPOCH;
            channel.control().putLong(at, 5);
            assertEquals(subscriber.slot(), assertThrows(SlotLostException.class, subscriber::take).slot());
            assertThrows(SlotLostException.class, () -> subscriber.poll(message -> { }));
            assertNull(publisher.heldBy());
            subscriber.close();
            assertThrows(ClosedException.class, subscriber::take);
            try (Subscriber next = channel.subscriber()) {
                assertEquals(6, next.epoch());
            }
        }
    }

    @Test
    void aNameHasTheCharactersOfAChannels() {
        try (Channel channel = create(ChannelOptions.broadcast())) {
            for (String name : new String[] {"a b", "\u00e9", "a\n", "a/b", "n".repeat(65), null}) {
                assertEquals("name", assertThrows(InvalidArgumentException.class,
                    () -> channel.publisher(name)).argument());
                assertEquals("name", assertThrows(InvalidArgumentException.class,
                    () -> channel.subscriber(name, false)).argument());
            }
            channel.publisher("A-z.0_9").close();
        }
    }

    @Test
    void noRingsAreNotAllRings() {
        try (Channel channel = create(ChannelOptions.broadcast())) {
            int[] none = new int[0];
            for (Executable use : List.<Executable>of(() -> channel.subscriber(none),
                () -> channel.subscriber("a", false, none), () -> channel.lossySubscriber(none))) {
                assertEquals("rings", assertThrows(InvalidArgumentException.class, use).argument());
            }
            assertArrayEquals(new int[] {0, 1}, channel.subscriber("a", false, (int[]) null).rings());
            assertArrayEquals(new int[] {0, 1}, channel.lossySubscriber(Start.OLDEST).rings());
        }
    }

    @Test
    void noFreeSlotNamesTheOwners() {
        int pid = (int) ProcessHandle.current().pid();
        try (Channel channel = create(ChannelOptions.broadcast())) {
            Subscriber kept = channel.subscriber("kept", true);
            channel.subscriber("live", false);
            NoFreeSlotException all = assertThrows(NoFreeSlotException.class, channel::subscriber);
            assertEquals(List.of(new NoFreeSlotException.Owner(1, "live", pid)), all.owners());
            NoFreeSlotException taken = assertThrows(NoFreeSlotException.class, () -> channel.subscriber("kept", true));
            assertEquals(List.of(new NoFreeSlotException.Owner(0, "kept", pid)), taken.owners());
            assertTrue(taken.getMessage().contains("slot 0 ('kept') is owned by pid " + pid), taken.getMessage());
            kept.close();
            NoFreeSlotException away = assertThrows(NoFreeSlotException.class, channel::subscriber);
            assertTrue(away.getMessage().contains("slot 0 is kept for 'kept', which is not attached"),
                away.getMessage());
            channel.publisher("a");
            channel.publisher("b");
            NoFreeSlotException publishers = assertThrows(NoFreeSlotException.class, channel::publisher);
            assertEquals(List.of("publisher", 2), List.of(publishers.kind(), publishers.slots()));
            assertTrue(publishers.getMessage().contains("all 2 publisher slots are owned: 0 by 'a' (pid " + pid
                + "), 1 by 'b'"), publishers.getMessage());
        }
    }

    /**
     * 5.2, 2: a taker that finds no slot gives the control lock back, waits 1 ms and tries again, for 10 ms in all. If
     * this thread gets the lock within 10 ms, the other thread is in such a wait.
     */
    @Test
    void aSlotThatIsGivenBackMeanwhileIsTaken() throws Exception {
        try (Channel channel = create(ChannelOptions.broadcast()); Lock lock = channel.file().newLock();
            Channel waiting = Channel.open(channel.path())) {
            for (int counted = 0; counted < 5;) {
                Publisher first = channel.publisher();
                Publisher second = channel.publisher();
                AtomicReference<Object> outcome = new AtomicReference<>();
                lock.lockControl(channel.header());
                Thread other = new Thread(() -> {
                    try {
                        outcome.set(waiting.publisher());
                    } catch (NoFreeSlotException e) {
                        outcome.set(e);
                    }
                });
                other.start();
                Thread.sleep(15); // waiting for the control lock is not part of the 10 ms
                long since = System.nanoTime();
                lock.unlockControl(channel.header());
                Thread.sleep(1); // lets the other thread make its first try
                while (!lock.tryLockControl(channel.header())) {
                    Thread.onSpinWait();
                }
                boolean inTime = System.nanoTime() - since < 10_000_000;
                second.close();
                lock.unlockControl(channel.header());
                other.join();
                if (inTime) {
                    counted++;
                    assertEquals(Publisher.class, outcome.get().getClass(), () -> "" + outcome.get());
                }
                if (outcome.get() instanceof Publisher publisher) {
                    publisher.close();
                }
                first.close();
            }
        }
    }

    /** How often this thread went to sleep, by the kernel's count. */
    private static int sleeps() throws IOException {
        return Files.readAllLines(Path.of("/proc/thread-self/status")).stream()
            .filter(line -> line.startsWith("voluntary_ctxt_switches:"))
            .mapToInt(line -> Integer.parseInt(line.substring(line.indexOf(':') + 1).trim())).findFirst().orElseThrow();
    }

    @Test
    void withAllSlotsOwnedATakeTriesEachMillisecondForTen() throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        try (Channel channel = create(ChannelOptions.broadcast())) {
            rings.keep(channel.publisher(), channel.publisher(), channel.subscriber(), channel.subscriber());
            for (Executable take : List.<Executable>of(channel::publisher, channel::subscriber)) {
                assertThrows(NoFreeSlotException.class, take);
                int least = Integer.MAX_VALUE;
                long worked = threads.getCurrentThreadCpuTime();
                for (int i = 0; i < 10; i++) {
                    int before = sleeps();
                    long since = System.nanoTime();
                    assertThrows(NoFreeSlotException.class, take);
                    assertTrue(System.nanoTime() - since >= 10_000_000);
                    least = Math.min(least, sleeps() - before);
                }
                worked = threads.getCurrentThreadCpuTime() - worked;
                // A take that spins works 100 ms; a slow machine that has not compiled it yet, 25 ms.
                assertTrue(least >= 1 && least <= 20 && worked < 50_000_000, least + " sleeps, " + worked + " ns");
            }
        }
    }

    @Test
    void anEpochOutsideItsRangeCountsAsNone() {
        for (long hostile : new long[] {-1, -2, Long.MIN_VALUE, Layout.MAX_EPOCH + 1, Long.MAX_VALUE}) {
            try (Channel channel = Channel.replace(rings.path("slots.ring"),
                ChannelOptions.broadcast().capacity(4096).publishers(1).subscribers(1))) {
                int publisherAt = channel.header().publisherSlot(0) + Layout.PUBLISHER_SLOT_EPOCH;
                int subscriberAt = channel.header().subscriberSlot(0) + Layout.SUBSCRIBER_SLOT_EPOCH;
                channel.control().putLong(publisherAt, hostile);
                channel.control().putLong(subscriberAt, hostile);
                try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
                    assertEquals(List.of(1L, 1L), List.of(publisher.epoch(), subscriber.epoch()));
                    assertTrue(publisher.offer(new byte[5]) > 0);
                    assertEquals(5, subscriber.take().length());
                    channel.control().putLong(subscriberAt, hostile);
                    channel.evict(0);
                    assertEquals(1, channel.control().getLong(subscriberAt));
                }
                // An epoch equal to the one that a closed object expects does not open the object again.
                Publisher publisher = channel.publisher();
                Subscriber subscriber = channel.subscriber();
                publisher.close();
                subscriber.close();
                channel.control().putLong(publisherAt, hostile);
                channel.control().putLong(subscriberAt, hostile);
                assertThrows(ClosedException.class, () -> publisher.offer(new byte[5]));
                assertThrows(ClosedException.class, () -> publisher.claim(5));
                assertThrows(ClosedException.class, subscriber::take);
            }
        }
    }

    @Test
    void anyNameGetsTheSlotOfAnInbox() {
        try (Channel channel = create(ChannelOptions.inbox()); Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            publisher.offer(new byte[2]);
            try (Subscriber one = channel.subscriber("one", false)) {
                assertEquals(1, one.take().length());
                assertEquals("kind", assertThrows(InvalidArgumentException.class, one::forget).argument());
            }
            try (Subscriber two = channel.subscriber("two", true)) {
                assertEquals(List.of(0, true), List.of(two.slot(), two.kept()));
                assertEquals(2, two.take().length());
                assertEquals("two", publisher.heldBy().name());
                publisher.offer(new byte[3]);
                publisher.offer(new byte[4]);
                assertEquals(2, channel.evict(0));
                publisher.offer(new byte[5]);
            }
            try (Subscriber three = channel.subscriber("", true)) {
                assertEquals(3, channel.control().getLong(channel.header().subscriberSlot(0)
                    + Layout.SUBSCRIBER_SLOT_DISCARDED));
                assertNull(three.take());
                publisher.offer(new byte[6]);
                assertEquals(6, three.take().length());
            }
        }
    }

    @Test
    void statsNameTheOwnersAndWhichReaderHoldsAPublisherBack() {
        int pid = (int) ProcessHandle.current().pid();
        try (Channel channel = create(ChannelOptions.broadcast().counters(2));
            Channel reading = Rings.openReadOnly(channel.path())) {
            Stats none = reading.stats();
            assertEquals(List.of(SlotState.UNUSED, SlotState.UNUSED, List.of(), 0),
                List.of(none.publishers().get(0).state(), none.subscribers().get(1).state(), none.counters(),
                    none.successor()));
            channel.counters().allocate("c", 3, new byte[] {1}).set(4);
            Subscriber slow = channel.subscriber("slow", true, 0);
            try (Publisher publisher = channel.publisher("p"); Subscriber fast = channel.subscriber("fast", false)) {
                while (publisher.offer(new byte[500]) > 0) {
                    fast.poll(message -> { });
                }
                assertEquals(1, slow.poll(message -> { }, 1));
                publisher.offer(new byte[900]);
                slow.close();
                for (Channel each : List.of(channel, reading)) {
                    Stats stats = each.stats();
                    assertEquals(List.of(channel.path(), channel.id(), Kind.BROADCAST, 4096, 64, Foreign.NONE,
                        channel.createdAt()), List.of(stats.path(), stats.id(), stats.kind(), stats.capacity(),
                        stats.alignment(), stats.foreign(), stats.createdAt()));
                    PublisherStats ring = stats.publishers().get(0);
                    assertEquals(List.of(SlotState.LIVE, "p", pid, 1L, publisher.position(), 7L, List.of(0)),
                        List.of(ring.state(), ring.name(), ring.pid(), ring.epoch(), ring.published(),
                            ring.messages(), ring.blockedBy()));
                    assertTrue(ring.blockedSince() > 0 && ring.blockedFor() > 0 && ring.blockedLength() > 0,
                        ring.toString());
                    SubscriberStats kept = stats.subscribers().get(0);
                    assertEquals(List.of(SlotState.AWAY, "slow", true, false, 0L), List.of(kept.state(), kept.name(),
                        kept.kept(), kept.evicting(), kept.discarded()));
                    long position = slow.position(0);
                    assertEquals(List.of(new GateStats(0, position, publisher.position() - position, 6)),
                        kept.gates());
                    assertEquals(SlotState.LIVE, stats.subscribers().get(1).state());
                    assertEquals(2, stats.subscribers().get(1).gates().size());
                    CounterStats counter = stats.counters().get(0);
                    assertEquals(List.of(0, "c", 3, 4L), List.of(counter.id(), counter.label(), counter.typeId(),
                        counter.value()));
                    assertEquals(1, counter.key()[0]);
                }
            }
            assertEquals(SlotState.CLOSED, channel.stats().publishers().get(0).state());
            assertEquals(List.of(), channel.stats().publishers().get(0).blockedBy());
        }
    }
}
