// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Queues.attempts;
import static io.flyring.Queues.code;
import static io.flyring.Queues.die;
import static io.flyring.Queues.dieInAJob;
import static io.flyring.Queues.forge;
import static io.flyring.Queues.gate;
import static io.flyring.Queues.ofSlot2;
import static io.flyring.Queues.offer;
import static io.flyring.Queues.pauseForALook;
import static io.flyring.Queues.queue;
import static io.flyring.Queues.text;
import static io.flyring.Queues.workOff;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a worker leaves that dies, is evicted, throws or is interrupted, and what others do with it. */
class QueueSurvivorsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private Publisher publisher;

    @BeforeEach
    void create() {
        create(queue(1, 2));
    }

    private void create(ChannelOptions options) {
        close();
        channel = Channel.replace(rings.path("q.ring"), options);
        publisher = channel.publisher("p");
    }

    @AfterEach
    void close() {
        if (channel != null) {
            channel.close();
        }
    }

    @Test
    void aDeadWorkersJobGoesToAnother() throws Exception {
        Worker other = ofSlot2(channel);
        publisher.offer(new byte[] {(byte) 0x61}, 0, 1, 9);
        offer(publisher, "b");
        Worker victim = channel.worker("victim");
        assertNotNull(victim.take());
        die(victim);
        long handovers = Queues.handovers(channel);
        pauseForALook();
        Job job = other.take();
        assertEquals("a", text(job));
        assertEquals(9, job.type());
        assertEquals(1, job.attempts());
        assertTrue(job.repeat());
        assertEquals(0, job.ring());
        assertEquals(64, job.position());
        assertEquals("p", job.sender().name());
        assertEquals(handovers + 1, Queues.handovers(channel));
        assertEquals(-1, gate(channel, 0, 1));
        assertEquals(64, gate(channel, 0, 2));
        job.done();
        assertEquals("b", workOff(other));
    }

    @Test
    void theRestOfADeadWorkersBatchGoesToAnother() throws Exception {
        Worker other = ofSlot2(channel);
        offer(publisher, "a", "b", "c", "d", "e");
        dieInAJob(channel.worker(), 4, 2);
        pauseForALook();
        assertEquals("c1 d1 e", workOff(other, 10));
        assertEquals("", workOff(other));
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void aBatchDoesNotGoOverTheRingsEnd(int alignment) throws Exception {
        create(queue(1, 2).alignment(alignment));
        Worker other = ofSlot2(channel);
        while (publisher.position() < Queues.CAPACITY - 3 * 64) {
            offer(publisher, "filler filler filler");
            workOff(other);
        }
        // Records of 80 or 128 bytes: the second one no longer fits.
        offer(publisher, "a".repeat(70), "b".repeat(70), "c".repeat(70));
        dieInAJob(channel.worker(), 3, 0);
        pauseForALook();
        String seen = workOff(other, 3).replace("a".repeat(70), "a").replace("b".repeat(70), "b")
            .replace("c".repeat(70), "c");
        assertEquals(alignment == 8 ? "a1 b1 c" : "a1 b c", seen); // the padding is not part of the batch
        assertTrue(publisher.position() > Queues.CAPACITY);
    }

    @Test
    void theNextOwnerOfTheSlotGoesOnWithItsJob() {
        create(queue(1, 1));
        offer(publisher, "a", "b", "c");
        dieInAJob(channel.worker(), 2, 0);
        dieInAJob(channel.worker(), 1, 0);
        Worker next = channel.worker("next");
        assertEquals("a2 b2 c", workOff(next));
        assertEquals(3, next.epoch());
        assertEquals(0, Queues.handovers(channel));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aJobThatWasAnnouncedAndNotTakenIsHandedOutAsNew(boolean nextOwner) throws Exception {
        offer(publisher, "a");
        Worker other = ofSlot2(channel);
        gate(channel, 0, 0, 64); // a worker has passed the owner record
        forge(channel, 0, 1, 64, 128, 3); // killed between take 2 and 3
        pauseForALook();
        assertEquals("a", workOff(nextOwner ? channel.worker() : other));
        assertEquals(-1, gate(channel, 0, 1));
        assertEquals(0, Queues.handovers(channel));
    }

    @Test
    void aDeadWorkersJobHoldsItsProducerAndIsNamed() throws Exception {
        offer(publisher, "a");
        Worker dead = channel.worker("dead");
        assertNotNull(dead.take());
        die(dead);
        Queues.fill(publisher);
        for (int i = 0; i < 5; i++) { // it tests locks, and retires no worker
            pauseForALook();
            assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[200]));
        }
        assertEquals(1, publisher.heldBy().slot());
        assertEquals("dead", publisher.heldBy().name());
        assertFalse(publisher.heldBy().live());
        assertEquals(0, publisher.readers());
        SubscriberStats stats = channel.stats().subscribers().get(1);
        assertEquals(SlotState.AWAY, stats.state());
        assertEquals(64, stats.inHand().position());
        assertEquals("a", text(channel.worker().take()));
    }

    @Test
    void anEvictedWorkerLearnsOfItAndItsJobGoesToAnother() throws Exception {
        offer(publisher, "a", "b", "c");
        Worker victim = channel.worker("victim");
        Worker other = channel.worker("other");
        Job job = victim.take();
        assertEquals(1, channel.evict(1));
        pauseForALook();
        assertEquals("a1 b c", workOff(other));
        assertEquals("a", text(job)); // the victim can still read its job
        assertEquals(1, assertThrows(SlotLostException.class, job::done).slot());
        assertEquals("closed", code(job::done));
        assertEquals("slot-lost", code(victim::take));
        assertEquals("slot-lost", code(() -> victim.poll(each -> { })));
        assertEquals("slot-lost", code(() -> victim.poll(each -> { }, 0)));
        assertEquals("slot-lost", code(victim::ended));
        victim.drain();
        assertEquals("slot-lost", code(victim::take));
        victim.close();
        assertEquals("closed", code(victim::take));
        assertEquals(1, victim.slot());
        // An idle worker finds out at its next take.
        assertEquals(0, channel.evict(2));
        offer(publisher, "d");
        assertEquals("slot-lost", code(other::take));
        assertEquals("d", workOff(channel.worker()));
        assertFalse(channel.stats().subscribers().get(1).evicting());
    }

    @Test
    void anEvictedWorkerHandsOutNothingMoreOfItsBatch() throws Exception {
        offer(publisher, "a", "b", "c");
        Worker victim = channel.worker();
        Worker other = channel.worker();
        StringBuilder seen = new StringBuilder();
        assertEquals("slot-lost", code(() -> victim.poll(job -> {
            seen.append(text(job));
            if (text(job).equals("b")) {
                channel.evict(1);
            }
        }, 3)));
        assertEquals("ab", seen.toString());
        pauseForALook();
        assertEquals("b1 c1", workOff(other, 2));
        // The release of an evicted worker publishes nothing.
        offer(publisher, "d");
        Job job = other.take();
        channel.evict(2);
        assertEquals("slot-lost", code(job::release));
        Worker next = channel.worker();
        pauseForALook();
        assertEquals("d1", workOff(next));
    }

    @Test
    void aHandlerThatKeepsSilentAboutItsLostJobIsToldAllTheSame() throws Exception {
        offer(publisher, "a", "b");
        Worker victim = channel.worker();
        assertEquals("slot-lost", code(() -> victim.poll(job -> {
            channel.evict(1);
            assertThrows(SlotLostException.class, job::done);
        }, 2)));
        IllegalStateException own = new IllegalStateException("own");
        Worker next = channel.worker();
        assertEquals("a1 b1", workOff(next, 2));
        offer(publisher, "c");
        IllegalStateException thrown = assertThrows(IllegalStateException.class, () -> next.poll(job -> {
            channel.evict(1);
            throw own;
        }));
        assertEquals(own, thrown); // the handler's own exception has precedence
        assertEquals("slot-lost", ((FlyringException) thrown.getSuppressed()[0]).code());
        assertEquals("slot-lost", code(next::take));
    }

    @Test
    void aLiveWorkerThatIsEvictedMayTakeWhatItAnnounced() throws Exception {
        offer(publisher, "a");
        Worker victim = channel.worker();
        Worker other = channel.worker();
        channel.evict(1);
        gate(channel, 0, 0, 64);
        forge(channel, 0, 1, 64, 128, 0); // the worker is stopped between take 2 and 3
        pauseForALook();
        Job job = other.take();
        assertEquals("a", text(job));
        assertEquals(0, job.attempts());
        assertEquals(64, gate(channel, 0, 1)); // its announcement stays
        job.done();
        pauseForALook();
        job = other.take(); // the job looks as if the victim had taken it, so it is handed out again
        assertEquals(1, job.attempts());
        job.done();
        assertEquals("slot-lost", code(victim::take));
    }

    @Test
    void aReleaseWithoutRoomKeepsTheJob() {
        create(queue(1, 1));
        Worker worker = channel.worker();
        offer(publisher, "a", "b");
        Job job = worker.take();
        Memory returns = channel.trailers().get(1);
        long full = 64 + Queues.CAPACITY;
        returns.putLongRelease(Layout.TRAILER_CLAIMED, full); // full, except for less than a record
        returns.putLongRelease(Layout.TRAILER_PUBLISHED, full);
        gate(channel, 1, 0, 64 + 64);
        assertFalse(job.release());
        assertEquals("closed", code(job::done));
        assertEquals(64, gate(channel, 0, 1));
        for (int attempts = 1; attempts < 4; attempts++) {
            job = worker.take();
            assertEquals("a", text(job));
            assertEquals(attempts, job.attempts());
            assertEquals(attempts, attempts(channel, 0, 1));
            if (attempts < 3) {
                assertFalse(job.release());
            }
        }
        job.done();
        gate(channel, 1, 0, full);
        assertEquals("b", workOff(worker));
    }

    @Test
    void theAttemptsOfAJobThatStayedDoNotPassToTheNextJob() {
        create(queue(1, 1));
        offer(publisher, "a", "b");
        Worker worker = channel.worker();
        StringBuilder seen = new StringBuilder();
        int[] throwsLeft = {2};
        JobHandler handler = job -> {
            seen.append(text(job)).append(job.attempts()).append(' ');
            if (throwsLeft[0]-- > 0) {
                throw new IllegalStateException("handler");
            }
        };
        try (Lock lock = channel.file().newLock()) { // another worker is releasing
            assertTrue(lock.tryLock(channel.header().controlOffset + channel.header().publisherSlot(1)));
            assertThrows(IllegalStateException.class, () -> worker.poll(handler, 2));
            assertThrows(IllegalStateException.class, () -> worker.poll(handler, 2));
            assertEquals(2, worker.poll(handler, 2));
            assertEquals("a0 a1 a2 b0 ", seen.toString());
            assertEquals(0, attempts(channel, 0, 1));
            // With ABORT the job stays, too, and the poll ends: else the same job would come again at once.
            offer(publisher, "c", "d");
            assertEquals(0, worker.controlledPoll(job -> Action.ABORT, 5));
            // The same when the handler releases the job.
            assertEquals(1, worker.poll(job -> assertFalse(job.release()), 5));
            assertEquals(1, worker.controlledPoll(job -> {
                assertFalse(job.release());
                return Action.CONTINUE;
            }, 5));
        }
        assertEquals("c3 d", workOff(worker));
    }

    @Test
    void aJobInsideOfABatchThatStayedComesAgainAsARepeat() {
        create(queue(1, 1));
        offer(publisher, "a", "b", "c", "d");
        Worker worker = channel.worker();
        StringBuilder seen = new StringBuilder();
        JobHandler handler = job -> {
            seen.append(text(job)).append(job.attempts()).append(' ');
            if (text(job).equals("c") && job.attempts() < 3) {
                assertFalse(job.release());
            }
        };
        try (Lock lock = channel.file().newLock()) { // another worker is releasing
            assertTrue(lock.tryLock(channel.header().controlOffset + channel.header().publisherSlot(1)));
            assertEquals(3, worker.poll(handler, 10));
            assertEquals(1, attempts(channel, 0, 1) + worker.poll(handler, 10));
            assertEquals(1, attempts(channel, 0, 1));
            assertEquals(1, worker.poll(handler, 10));
            assertEquals(2, worker.poll(handler, 10));
        }
        assertEquals("a0 b0 c0 c1 c2 c3 d0 ", seen.toString());
    }

    @Test
    void aThrowingHandlersJobIsReleasedAndTheRestComesNext() {
        offer(publisher, "a", "b", "c");
        Worker worker = channel.worker();
        StringBuilder seen = new StringBuilder();
        for (Throwable error : List.of(new IllegalStateException("no b"), new StackOverflowError())) {
            assertEquals(error, assertThrows(error.getClass(), () -> worker.poll(job -> {
                seen.append(text(job));
                if (text(job).equals("b")) {
                    Queues.raise(error);
                }
            }, 3)));
            assertEquals("ab", seen.toString());
            seen.setLength(0);
            Worker other = channel.worker();
            assertEquals("b1", workOff(other));
            assertEquals("c", workOff(worker));
            other.close();
            offer(publisher, "a", "b", "c");
        }
        assertEquals("a b c", workOff(worker));
        // A handler that finishes its job and then throws leaves nothing to release.
        offer(publisher, "d");
        assertThrows(IllegalStateException.class, () -> worker.poll(job -> {
            job.done();
            throw new IllegalStateException("late");
        }));
        assertEquals("", workOff(worker));
    }

    @Test
    void aJobThatOutlivesItsHandlerOrItsWorkerIsClosed() {
        offer(publisher, "a", "b");
        Worker worker = channel.worker();
        Job[] kept = {null};
        assertEquals(1, worker.poll(job -> kept[0] = job));
        assertEquals("closed", code(kept[0]::done));
        Job job = worker.take();
        PayloadBuffer buffer = job.buffer();
        worker.close();
        assertEquals("closed", code(job::done));
        assertEquals("closed", code(job::buffer));
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.getByte(0));
        assertEquals("b1", workOff(channel.worker()));
    }

    @Test
    void closingTheChannelReleasesWhatIsInHand() {
        offer(publisher, "a", "b");
        Worker worker = channel.worker();
        worker.poll(job -> {
            assertEquals("view-alive", code(channel::close));
            assertEquals("view-alive", code(worker::close));
            assertEquals("two-threads", code(worker::take));
            assertEquals("two-threads", code(() -> worker.poll(each -> { })));
        });
        Job job = worker.take();
        channel.close();
        assertEquals("closed", code(job::buffer));
        assertEquals("closed", code(job::release));
        assertEquals("closed", code(worker::take));
        channel = Channel.open(channel.path());
        assertEquals("b1", workOff(channel.worker()));
    }

    @Test
    void aWorkerThatWasForgottenLeavesItsJobToOthers() throws Exception {
        offer(publisher, "a");
        forget();
        long end = System.nanoTime() + Other.PATIENCE * 1_000_000_000;
        Worker other = channel.worker();
        Job job = null;
        while (job == null && System.nanoTime() < end) {
            System.gc();
            pauseForALook();
            job = other.take();
        }
        assertEquals("a", text(job));
        assertEquals(1, job.attempts());
    }

    private void forget() {
        assertNotNull(channel.worker().take());
    }

    @Test
    void aProducerThatWaitsForItsOwnThreadIsBusy() throws Exception {
        Worker worker = channel.worker("own");
        PayloadBuffer message = new PayloadBuffer();
        message.wrap(new byte[200]);
        PayloadBuffer[] batch = new PayloadBuffer[40];
        Arrays.fill(batch, message);
        offer(publisher, "first");
        Job job = worker.take();
        assertEquals("busy", code(() -> publisher.flush()));
        assertEquals("timed-out", code(() -> publisher.flush(Duration.ZERO)));
        Queues.fill(publisher);
        Channel other = Channel.open(channel.path());
        Worker second = other.worker();
        workOff(second);
        BusyException busy = assertThrows(BusyException.class, () -> publisher.send(new byte[200]));
        assertEquals(1, busy.holder().slot());
        assertEquals("own", busy.holder().name());
        assertEquals(64, busy.holder().position());
        assertTrue(busy.holder().live());
        assertEquals("busy", code(() -> publisher.claim(200)));
        assertEquals("busy", code(() -> publisher.sendBatch(batch)));
        assertEquals("busy", code(() -> publisher.flush()));
        assertEquals("back-pressured", code(() -> publisher.send(new byte[200], Duration.ZERO)));
        assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[200]));
        // With the job in another thread's hand: that thread may finish it.
        assertEquals("back-pressured", new Other<>(() -> code(() -> publisher.send(new byte[200],
            Duration.ofMillis(5)))).result());
        job.done();
        assertTrue(publisher.send(new byte[200], Duration.ofSeconds(1)) > 0);
        // The same in a handler.
        workOff(second);
        offer(publisher, "y");
        assertEquals("busy", code(() -> worker.poll(each -> {
            while (true) {
                publisher.send(new byte[200]);
            }
        })));
        other.close();
    }

    @Test
    void aWorkerKilledInItsReleaseLeavesAWholeRing() {
        offer(publisher, "a", "b");
        Worker worker = channel.worker();
        Memory returns = channel.trailers().get(1);
        // Killed after announcing a release: claimed is ahead, and what follows is torn.
        returns.putLongOpaque(Layout.TRAILER_CLAIMED, 64 + 128);
        Memory ring = channel.file().map(channel.header().ringOffset(1), channel.header().ringStride, false);
        ring.putInt(64 + Layout.RECORD_TYPE, 77);
        assertTrue(worker.take().release());
        assertEquals("a1 b", workOff(worker));
        assertEquals(Queues.published(channel, 1), returns.getLongOpaque(Layout.TRAILER_CLAIMED));
        // A returns ring that cannot be recovered: the release throws, and the job stays.
        offer(publisher, "c");
        Job job = worker.take();
        long claimed = returns.getLongOpaque(Layout.TRAILER_CLAIMED);
        returns.putLongOpaque(Layout.TRAILER_CLAIMED, 7);
        assertEquals("corrupt-ring", code(job::release));
        returns.putLongOpaque(Layout.TRAILER_CLAIMED, claimed);
        assertEquals("c1", workOff(worker));
    }

    @Test
    void anAdoptedJobCanBeReleased() throws Exception {
        Worker other = ofSlot2(channel);
        offer(publisher, "a", "b");
        dieInAJob(channel.worker(), 2, 0);
        pauseForALook();
        Job job = other.take();
        assertEquals(1, job.attempts());
        assertTrue(job.release());
        assertEquals("b1 a2", workOff(other));
        // Without room the job stays, as a copy.
        offer(publisher, "c");
        dieInAJob(channel.worker(), 1, 0);
        pauseForALook();
        try (Lock lock = channel.file().newLock()) {
            assertTrue(lock.tryLock(channel.header().controlOffset + channel.header().publisherSlot(1)));
            assertFalse(other.take().release());
        }
        job = other.take();
        assertEquals(2, job.attempts());
        assertTrue(job.release());
        assertEquals("c3", workOff(other));
        // A close releases it.
        offer(publisher, "d", "e");
        dieInAJob(channel.worker(), 2, 0);
        pauseForALook();
        assertEquals("d", text(other.take()));
        other.close();
        assertEquals("d2 e2", workOff(channel.worker()));
    }

    @Test
    void whereverTheStackEndsNoJobIsLostAndNoneComesTwiceAsNew() throws Exception {
        int thrown = 0;
        for (int skip = 0; skip < 120; skip++) {
            create(queue(1, 2));
            offer(publisher, "a", "b", "c");
            Worker worker = channel.worker();
            Map<String, Integer> fresh = new TreeMap<>();
            Set<String> all = new TreeSet<>();
            boolean releases = skip % 3 == 1;
            boolean takes = skip % 3 == 2;
            JobHandler handler = job -> {
                String name = String.valueOf((char) job.buffer().getByte(0));
                all.add(name);
                if (!job.repeat()) {
                    fresh.merge(name, 1, Integer::sum);
                } else if (job.attempts() > 4) {
                    throw new AssertionError("again and again");
                }
                if (releases && !job.repeat()) {
                    job.release();
                }
            };
            SurvivorsTest.Deep deep = new SurvivorsTest.Deep(takes ? () -> {
                Job job = worker.take();
                if (job != null) {
                    job.done();
                }
            } : () -> worker.poll(handler, 3), skip / 3);
            deep.run();
            thrown += deep.threw ? 1 : 0;
            try {
                while (worker.poll(handler, 2) > 0) {
                    continue;
                }
                worker.close();
            } catch (ClosedException e) { // an Error in the middle of a store ended the worker
                assertTrue(deep.threw);
                worker.close();
            } catch (ViewAliveException e) { // the done had not begun
                assertTrue(deep.threw && takes);
                worker.close();
            }
            Worker next = channel.worker();
            pauseForALook();
            while (next.poll(handler, 3) > 0) {
                continue;
            }
            publisher.close();
            pauseForALook();
            assertEquals(0, next.poll(handler, 3));
            assertTrue(next.ended(), "at " + skip);
            assertTrue(takes || all.equals(Set.of("a", "b", "c")), "at " + skip + ": " + all);
            fresh.forEach((name, times) -> assertEquals(1, times, name));
        }
        assertTrue(thrown > 20, thrown + " were thrown");
    }

    @Test
    void aCloseBesideDoneLosesNoJob() throws Exception {
        for (int round = 0; round < 200; round++) {
            Worker worker = channel.worker();
            offer(publisher, "a", "b", "c");
            assertEquals(1, worker.controlledPoll(job -> Action.BREAK, 3));
            Job job = worker.take();
            Other<String> closer = new Other<>(() -> code(worker::close));
            for (int spin = round * 20; spin > 0; spin--) {
                Thread.onSpinWait();
            }
            String done = code(job::done);
            assertTrue(done.equals("none") || done.equals("closed"), done);
            String closed = closer.result();
            assertTrue(closed.equals("none"), closed);
            try (Worker next = channel.worker()) {
                pauseForALook();
                String left = workOff(next, 3);
                assertTrue(left.equals("c1") || left.equals("b1 c1"), left + " after " + done);
            }
        }
    }
}
