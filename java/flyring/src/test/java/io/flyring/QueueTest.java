// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The verbs, order, limits, options and errors of a queue (queue.md 1 to 3, 8, 9). */
class QueueTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private static ChannelOptions small() {
        return ChannelOptions.queue().capacity(4096).producers(2).workers(3);
    }

    private Channel queue() {
        return Channel.create(rings.path("q.ring"), small());
    }

    private static byte[] job(int number) {
        return ByteBuffer.allocate(16).putInt(number).array();
    }

    private static int number(Job job) {
        return ByteBuffer.wrap(job.toByteArray()).getInt();
    }

    private static List<Integer> poll(Worker worker, int limit) {
        List<Integer> numbers = new ArrayList<>();
        worker.poll(job -> numbers.add(number(job)), limit);
        return numbers;
    }

    private static void refused(String argument, Runnable action) {
        assertEquals(argument, assertThrows(InvalidArgumentException.class, action::run).argument());
    }

    @Test
    void dimensions() {
        try (Channel channel = Channel.create(rings.path("d.ring"), ChannelOptions.queue())) {
            assertEquals(Kind.QUEUE, channel.kind());
            assertEquals(4, channel.producers());
            assertEquals(4, channel.workers());
            assertEquals(5, channel.publishers());
            assertEquals(5, channel.subscribers());
        }
        try (Channel channel = Channel.open(rings.path("d.ring"))) {
            assertEquals(4, channel.workers());
        }
        try (Channel channel = Channel.create(rings.path("b.ring"), ChannelOptions.broadcast())) {
            assertEquals(0, channel.producers());
            assertEquals(0, channel.workers());
            refused("kind", channel::worker);
        }
    }

    @Test
    void optionsOfOtherKindsAreRefused() {
        String path = rings.path("o.ring");
        refused("publishers", () -> Channel.create(path, ChannelOptions.queue().publishers(4)));
        refused("subscribers", () -> Channel.create(path, ChannelOptions.queue().subscribers(4)));
        refused("producers", () -> Channel.create(path, ChannelOptions.broadcast().producers(4)));
        refused("workers", () -> Channel.create(path, ChannelOptions.inbox().workers(1)));
        refused("producers", () -> Channel.create(path, ChannelOptions.queue().producers(0)));
        refused("producers", () -> Channel.create(path, ChannelOptions.queue().producers(1024)));
        refused("workers", () -> Channel.create(path, ChannelOptions.queue().workers(0)));
        refused("workers", () -> Channel.create(path, ChannelOptions.queue().workers(1024)));
        refused("foreign", () -> Channel.create(path, small().alignment(8).foreign(Foreign.PUBLISHER)));
        assertEquals(List.of(), rings.files());
    }

    /** In the folder for temporary files: the file has 143 MB, and the /dev/shm of a container often has 64 MiB. */
    @Test
    void theGreatestQueueCanBeMade(@TempDir Path folder) {
        ChannelOptions greatest = ChannelOptions.queue().capacity(4096).producers(1023).workers(1023).counters(0)
            .anyFileSystem(true);
        try (Channel channel = Channel.create(folder.resolve("greatest.ring").toString(), greatest);
            Publisher producer = channel.publisher();
            Worker worker = channel.worker()) {
            producer.send(job(7));
            assertEquals(7, number(worker.take()));
        }
    }

    @Test
    void openOrCreateComparesWorkersAndProducers() {
        try (Channel channel = queue()) {
            Channel.openOrCreate(channel.path(), small()).close();
            assertEquals("producers", assertThrows(ChannelDiffersException.class,
                () -> Channel.openOrCreate(channel.path(), small().producers(3))).field());
            assertEquals("workers", assertThrows(ChannelDiffersException.class,
                () -> Channel.openOrCreate(channel.path(), small().workers(4))).field());
        }
    }

    @Test
    void whatAQueueDoesNotHave() {
        try (Channel channel = queue()) {
            refused("kind", channel::subscriber);
            refused("kind", () -> channel.subscriber("kept", true));
            refused("max_lag", () -> channel.publisher("", 2048));
            refused("slot", () -> channel.evict(0));
            refused("rings", () -> channel.lossySubscriber(2));
            assertArrayEquals(new int[] {0, 1}, channel.lossySubscriber().rings());
            rings.keep(channel.publisher(), channel.publisher());
            assertEquals(2, assertThrows(NoFreeSlotException.class, channel::publisher).slots());
            rings.keep(channel.worker(), channel.worker());
            Worker last = channel.worker();
            rings.keep(last);
            assertEquals(3, last.slot());
            assertEquals(3, assertThrows(NoFreeSlotException.class, channel::worker).slots());
            assertThrows(NoFreeSlotException.class, () -> channel.worker("late", Duration.ofMillis(5)));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void eachJobGoesToOneWorkerInOrder(int alignment) {
        try (Channel channel = Channel.create(rings.path("q.ring"), small().alignment(alignment));
            Publisher producer = channel.publisher("p"); Worker one = channel.worker("one");
            Worker two = channel.worker("two")) {
            int sent = 0;
            int got = 0;
            for (int lap = 0; lap < 400; lap++) { // many laps, with padding
                for (int i = 0; i < 5; i++) {
                    assertTrue(producer.offer(new byte[60 + lap % 70]) > 0);
                    sent++;
                }
                Job first = one.take();
                Job second = two.take();
                assertTrue(first.position() < second.position());
                assertFalse(first.repeat());
                assertEquals("p", first.sender().name());
                second.done();
                first.done();
                got += 2;
                long before = -1;
                for (Job job = one.take(); job != null; job = one.take()) {
                    assertTrue(job.position() > before);
                    before = job.position();
                    assertEquals(60 + lap % 70, job.length());
                    job.done();
                    got++;
                }
            }
            assertEquals(sent, got);
            assertNull(two.take());
        }
    }

    @Test
    void jobsOfAllProducersInTurn() {
        try (Channel channel = queue(); Publisher a = channel.publisher(); Publisher b = channel.publisher();
            Worker worker = channel.worker()) {
            for (int i = 0; i < 3; i++) {
                a.offer(job(i));
                b.offer(job(10 + i));
            }
            List<Integer> all = new ArrayList<>();
            while (worker.poll(job -> all.add(number(job))) > 0) {
                assertTrue(all.size() <= 6);
            }
            assertEquals(List.of(0, 10, 1, 11, 2, 12), all);
        }
    }

    @Test
    void aBatchIsTakenAtOnceAndItsRestComesNext() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker one = channel.worker();
            Worker two = channel.worker()) {
            for (int i = 0; i < 6; i++) {
                producer.offer(job(i));
            }
            assertEquals(1, one.controlledPoll(job -> Action.BREAK, 4));
            assertEquals(List.of(4, 5), poll(two, 10)); // the first worker has 1 to 3 in hand
            assertEquals(List.of(1), poll(one, 1));
            Job job = one.take();
            assertEquals(2, number(job));
            job.done();
            assertEquals(List.of(3), poll(one, 10));
            assertEquals(List.of(), poll(one, 10));
        }
    }

    @Test
    void aBatchIsAtMostAnEighthOfTheRing() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker one = channel.worker();
            Worker two = channel.worker()) {
            for (int i = 0; i < 12; i++) {
                producer.offer(job(i));
            }
            assertEquals(1, one.controlledPoll(job -> Action.BREAK, 100));
            assertEquals(8, number(two.take())); // 512 bytes hold eight jobs
            assertEquals(List.of(1, 2, 3, 4, 5, 6, 7, 9, 10, 11), poll(one, 100)); // the poll continues with more jobs
        }
    }

    @Test
    void releasedJobsGoToTheEndAndCarryTheirIdentity() {
        try (Channel channel = queue(); Publisher producer = channel.publisher("p"); Worker one = channel.worker();
            Worker two = channel.worker()) {
            producer.offer(job(7), 0, 16, 42);
            Job job = one.take();
            long position = job.position();
            assertTrue(job.release());
            for (int attempts = 1; attempts <= 3; attempts++) {
                Worker worker = (attempts & 1) == 0 ? one : two;
                job = worker.take();
                assertEquals(7, number(job));
                assertEquals(42, job.type());
                assertEquals(0, job.ring());
                assertEquals(position, job.position());
                assertEquals(attempts, job.attempts());
                assertTrue(job.repeat());
                assertEquals(0, job.sender().epoch());
                if (attempts < 3) {
                    assertTrue(job.release());
                }
            }
            job.done();
            assertNull(one.take());
            assertNull(two.take());
        }
    }

    @Test
    void handlersThatThrowReleaseAndAbortsDo() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            producer.offer(job(1));
            producer.offer(job(2));
            producer.offer(job(3));
            IllegalStateException thrown = new IllegalStateException("mine");
            assertEquals(thrown, assertThrows(IllegalStateException.class, () -> worker.poll(job -> {
                throw thrown;
            }, 3)));
            assertEquals(0, worker.controlledPoll(job -> Action.ABORT, 3)); // job 2
            refused("action", () -> worker.controlledPoll(job -> null, 3)); // job 3, which is done
            List<Integer> again = new ArrayList<>();
            assertEquals(2, worker.poll(job -> {
                assertEquals(1, job.attempts());
                again.add(number(job));
            }, 10));
            assertEquals(List.of(1, 2), again);
            assertNull(worker.take());
        }
    }

    @Test
    void handlersMayFinishThemselves() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            producer.offer(job(1));
            producer.offer(job(2));
            assertEquals(2, worker.poll(job -> {
                if (number(job) == 1) {
                    job.done();
                    assertThrows(ClosedException.class, job::done);
                    assertThrows(ClosedException.class, job::release);
                    assertThrows(ClosedException.class, job::buffer);
                } else {
                    assertTrue(job.release());
                }
            }, 2));
            assertEquals(List.of(2), poll(worker, 5));
        }
    }

    @Test
    void unfinishedAndFinishedJobs() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            producer.offer(job(1));
            producer.offer(job(2));
            Job job = worker.take();
            PayloadBuffer buffer = job.buffer();
            assertThrows(ViewAliveException.class, worker::take);
            assertThrows(ViewAliveException.class, () -> worker.poll(j -> { }));
            job.done();
            assertThrows(ClosedException.class, job::done);
            assertThrows(ClosedException.class, job::release);
            assertThrows(IndexOutOfBoundsException.class, () -> buffer.getInt(0));
            try (Job dropped = worker.take()) {
                assertEquals(2, number(dropped));
            }
            assertEquals(1, worker.take().attempts());
            worker.close();
            assertThrows(ClosedException.class, worker::take);
            assertThrows(ClosedException.class, job::done);
            assertThrows(ClosedException.class, worker::ended);
            assertThrows(ClosedException.class, worker::drain);
            Job again = channel.worker().take(); // the job that the close has released
            assertEquals(2, number(again));
            assertEquals(2, again.attempts());
        }
    }

    @Test
    void aCloseGivesBackTheWholeBatch() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker other = channel.worker()) {
            for (int i = 0; i < 4; i++) {
                producer.offer(job(i));
            }
            try (Worker worker = channel.worker()) {
                worker.controlledPoll(job -> Action.BREAK, 4);
            }
            List<Integer> numbers = new ArrayList<>();
            other.poll(job -> {
                assertEquals(1, job.attempts());
                numbers.add(number(job));
            }, 10);
            assertEquals(List.of(1, 2, 3), numbers);
        }
    }

    @Test
    void closeInAHandlerIsRefused() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            producer.offer(job(1));
            assertEquals(1, worker.poll(job -> {
                assertThrows(ViewAliveException.class, worker::close);
                assertThrows(ViewAliveException.class, channel::close);
                assertThrows(TwoThreadsException.class, worker::take);
            }));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void theLongestJobCanBeReleased(int alignment) {
        try (Channel channel = Channel.create(rings.path("q.ring"), small().alignment(alignment));
            Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            assertEquals(1024 - 24, producer.maxMessageLength());
            assertEquals(1000, assertThrows(MessageTooLargeException.class,
                () -> producer.offer(new byte[1001])).limit());
            producer.offer(Rings.pattern(3, 1000));
            for (int i = 0; i < 10; i++) { // round the returns ring
                assertTrue(worker.take().release(), "release " + i);
            }
            Job job = worker.take();
            assertArrayEquals(Rings.pattern(3, 1000), job.toByteArray());
            assertEquals(10, job.attempts());
            job.done();
        }
    }

    @Test
    void aReleaseWithoutRoomKeepsTheJob() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker();
            Worker holder = channel.worker(); Worker last = channel.worker()) {
            producer.offer(new byte[900]);
            assertTrue(worker.take().release());
            Job held = holder.take(); // keeps its place in the returns ring
            assertEquals(1, held.attempts());
            int released = 0;
            Job job;
            do {
                producer.offer(job(released));
                job = worker.take();
                while (job.ring() == 0 && job.attempts() > 0) { // its own job again
                    job.done();
                    job = worker.take();
                }
                released++;
            } while (job.release() && released < 200);
            assertTrue(released < 200, "the returns ring is full at last");
            Job again = worker.take();
            assertEquals(1, again.attempts());
            assertFalse(again.release());
            again = worker.take();
            assertEquals(2, again.attempts());
            held.done();
            assertTrue(again.release());
        }
    }

    @Test
    void whatAProducerSees() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker("w")) {
            assertEquals(1, producer.readers());
            producer.offer(job(1));
            assertEquals(0, producer.heldBy().slot());
            assertThrows(TimedOutException.class, () -> producer.flush(Duration.ofMillis(20)));
            Job job = worker.take();
            producer.offer(job(2));
            assertEquals("w", producer.heldBy().name());
            assertEquals("w", assertThrows(BusyException.class, producer::flush).holder().name());
            assertThrows(TimedOutException.class, () -> producer.flush(Duration.ZERO));
            job.done();
            worker.take().done();
            producer.flush(Duration.ofMillis(20));
            while (producer.offer(new byte[200]) > 0) {
                assertTrue(producer.position() < 10_000);
            }
            assertEquals(0, assertThrows(BackPressuredException.class,
                () -> producer.send(new byte[200], Duration.ofMillis(5))).holder().slot());
            while (worker.poll(j -> { }) > 0) {
                assertTrue(producer.position() < 10_000);
            }
            assertTrue(producer.send(new byte[200], Duration.ofMillis(5)) > 0);
        }
    }

    @Test
    void aJobInHandHoldsItsProducerBack() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker slow = channel.worker("slow");
            Worker quick = channel.worker()) {
            producer.offer(new byte[200]);
            Job job = slow.take();
            int more = 0;
            while (producer.offer(new byte[200]) > 0) {
                quick.take().done();
                assertTrue(++more < 100);
            }
            assertEquals("slow", producer.heldBy().name());
            Job stillThere = job;
            assertEquals("busy", assertThrows(BusyException.class,
                () -> producer.send(new byte[200], Duration.ofSeconds(5))).code());
            assertEquals("slow", assertThrows(BusyException.class,
                () -> producer.claim(200)).holder().name());
            assertThrows(BackPressuredException.class, () -> producer.send(new byte[200], Duration.ZERO));
            assertEquals(200, stillThere.length());
            job.done();
            assertTrue(producer.send(new byte[200], Duration.ofSeconds(5)) > 0);
        }
    }

    @Test
    void ended() {
        try (Channel channel = queue(); Worker worker = channel.worker(); Worker other = channel.worker()) {
            assertFalse(worker.ended());
            Publisher producer = channel.publisher();
            assertFalse(worker.ended());
            producer.offer(job(1));
            producer.close();
            assertFalse(worker.ended());
            Job job = other.take();
            assertFalse(worker.ended());
            assertTrue(job.release());
            assertFalse(worker.ended());
            worker.take().done();
            assertTrue(worker.ended());
            rings.keep(channel.publisher());
            assertFalse(worker.ended());
        }
    }

    @Test
    void drain() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            for (int i = 0; i < 3; i++) {
                producer.offer(job(i));
            }
            worker.controlledPoll(job -> Action.BREAK, 2);
            worker.drain();
            assertEquals(List.of(1), poll(worker, 10));
            assertEquals(List.of(), poll(worker, 10));
            assertNull(worker.take(Publisher.FOREVER));
            assertEquals(0, worker.poll(job -> { }, 1, Publisher.FOREVER));
        }
    }

    @Test
    void stats() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker("w")) {
            for (int i = 0; i < 5; i++) {
                producer.offer(job(i));
            }
            assertNull(channel.stats().subscribers().get(1).inHand());
            assertEquals(5, channel.stats().subscribers().get(0).gates().get(0).lagMessages());
            worker.controlledPoll(job -> Action.BREAK, 3);
            Stats stats = channel.stats();
            assertEquals(SlotState.SHARED, stats.subscribers().get(0).state());
            assertEquals("shared", SlotState.SHARED.toString());
            assertEquals(SlotState.LIVE, stats.subscribers().get(1).state());
            assertEquals(SlotState.RETURNS, stats.publishers().get(2).state());
            assertEquals(2, stats.subscribers().get(0).gates().get(0).lagMessages());
            InHandStats inHand = stats.subscribers().get(1).inHand();
            assertEquals(0, inHand.ring());
            assertEquals(128, inHand.position()); // behind the owner record and job 0
            assertEquals(256, inHand.end());
            assertEquals(0, inHand.attempts());
            assertEquals(-1, stats.subscribers().get(1).gates().get(0).lagMessages());
            assertTrue(inHand.busySince() > 0 && inHand.busyFor() >= 0);
            poll(worker, 2);
            assertNull(channel.stats().subscribers().get(1).inHand());
        }
        try (Channel channel = Rings.openReadOnly(rings.path("q.ring"))) {
            assertEquals(2, channel.stats().subscribers().get(0).gates().get(0).lagMessages());
            assertThrows(AccessDeniedException.class, channel::worker);
        }
    }

    @Test
    void sendersOfJobsInFrontOfThePresentOwnerAreNotKnown() {
        try (Channel channel = queue(); Worker worker = channel.worker()) {
            try (Publisher first = channel.publisher("a")) {
                first.offer(job(1));
            }
            try (Publisher second = channel.publisher("a")) {
                second.offer(job(2));
                Job job = worker.take();
                assertEquals(0, job.sender().epoch());
                job.done();
                job = worker.take();
                assertEquals(2, job.sender().epoch());
                assertEquals("a", job.sender().name());
                job.done();
            }
        }
    }

    @Test
    void abortedClaimsAreNoJobs() {
        try (Channel channel = queue(); Publisher producer = channel.publisher(); Worker worker = channel.worker()) {
            producer.offer(job(1));
            producer.claim(16).abort();
            producer.offer(job(2));
            assertEquals(List.of(1, 2), poll(worker, 2));
            producer.claim(16).abort();
            assertNull(worker.take());
            producer.flush(Duration.ofMillis(20)); // the worker has passed the padding
        }
    }
}
