// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static io.flyring.Queues.code;
import static io.flyring.Queues.fill;
import static io.flyring.Queues.offer;
import static io.flyring.Queues.queue;
import static io.flyring.Queues.text;
import static io.flyring.Queues.workOff;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Workers that sleep, what wakes them, and what else ends their waits (queue.md 10). */
class QueueWaitingTest {
    private static final Duration LONG = Duration.ofSeconds(Other.PATIENCE);
    /** In ns: longer than any wait that is woken, shorter than one that only its cap ends. */
    private static final long SOON = 80_000_000;
    private static final long CAP = 1_000_000_000;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private Publisher publisher;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("q.ring"), queue(2, 3));
        publisher = channel.publisher();
    }

    @AfterEach
    void close() {
        channel.close();
    }

    private Worker sleeper() {
        Worker worker = channel.worker();
        worker.setSpin(Duration.ZERO);
        return worker;
    }

    private WaitingWords jobs() {
        return channel.slots().jobs();
    }

    private static int asleep(WaitingWords words) {
        return words.control().getIntOpaque(words.asleep());
    }

    private static int sequence(WaitingWords words) {
        return words.control().getIntAcquire(words.sequence());
    }

    private static void forgetSleepers(WaitingWords words) {
        words.control().clearBits(words.asleep(), WaitingWords.ALL_RINGS);
    }

    /** Lets a waiter fall asleep, runs an action, and returns the time in ns until the sleep ended. */
    private <T> long endedBy(WaitingWords words, Callable<T> wait, Runnable action, Consumer<T> result)
        throws Exception {
        forgetSleepers(words);
        Other<T> other = new Other<>(wait);
        until(() -> asleep(words) != 0 || other.done());
        Thread.sleep(2);
        long start = System.nanoTime();
        action.run();
        result.accept(other.result());
        return System.nanoTime() - start;
    }

    private static void assertSoon(List<Long> within) {
        within.sort(null);
        assertTrue(within.get(within.size() / 2) < SOON, within + " ns");
    }

    private static String done(Job job) {
        String text = text(job) + (job.repeat() ? job.attempts() : "");
        job.done();
        return text;
    }

    @Test
    void aJobEndsTheWaitOfTakeAndOfPoll() throws Exception {
        Worker worker = sleeper();
        List<Long> within = new ArrayList<>();
        for (int i = 0; i < 9; i++) {
            String name = "" + i;
            StringBuilder seen = new StringBuilder();
            Callable<Integer> wait = List.<Callable<Integer>>of(() -> {
                seen.append(done(worker.take(LONG)));
                return 1;
            }, () -> worker.poll(job -> seen.append(text(job)), 3, LONG), () -> worker.controlledPoll(job -> {
                seen.append(text(job));
                return Action.CONTINUE;
            }, 3, LONG)).get(i % 3);
            within.add(endedBy(jobs(), wait, () -> offer(publisher, name), number -> assertEquals(1, number)));
            assertEquals(name, seen.toString());
        }
        assertSoon(within);
    }

    @Test
    void aWaitWithoutJobsEndsWithItsTime() {
        Worker worker = channel.worker();
        Duration time = Duration.ofMillis(5);
        for (Duration spin : List.of(Duration.ZERO, Duration.ofNanos(50_000))) {
            worker.setSpin(spin);
            long start = System.nanoTime();
            assertNull(worker.take(time));
            assertEquals(0, worker.poll(job -> { }, 1, time));
            assertEquals(0, worker.controlledPoll(job -> Action.CONTINUE, 1, time));
            assertTrue(System.nanoTime() - start >= 3 * time.toNanos());
        }
        assertEquals("invalid-argument", code(() -> worker.poll(job -> { }, 1, -1)));
        assertEquals("invalid-argument", code(() -> worker.take(Duration.ofNanos(-1))));
        assertEquals(0, worker.poll(job -> { }, 0, LONG));
        assertNull(worker.take());
    }

    @Test
    void eachOfSeveralJobsWakesOneMoreWorker() throws Exception {
        PayloadBuffer message = new PayloadBuffer();
        message.wrap(new byte[8]);
        List<Long> within = new ArrayList<>();
        for (int round = 0; round < 5; round++) {
            AtomicInteger asleep = new AtomicInteger();
            AtomicInteger taken = new AtomicInteger();
            List<Other<Integer>> workers = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                workers.add(new Other<>(() -> {
                    try (Worker worker = sleeper()) {
                        asleep.incrementAndGet();
                        return worker.poll(job -> {
                            taken.incrementAndGet();
                            until(() -> taken.get() == 3); // no handler ends before all have begun
                        }, 1, LONG);
                    }
                }));
            }
            until(() -> asleep.get() == 3);
            Thread.sleep(5);
            long start = System.nanoTime();
            assertEquals(3, publisher.offerBatch(message, message, message)); // wakes one worker
            until(() -> taken.get() == 3);
            within.add(System.nanoTime() - start);
            for (Other<Integer> worker : workers) {
                assertEquals(1, worker.result());
            }
        }
        assertSoon(within);
    }

    @Test
    void aPublishWakesOneWorkerAndAllOtherReaders() {
        WaitingWords data = channel.slots().data();
        data.control().setBits(data.asleep(), 1);
        jobs().control().setBits(jobs().asleep(), Layout.JOBS_BIT);
        int before = sequence(jobs());
        int dataBefore = sequence(data);
        offer(publisher, "a");
        assertEquals(before + 1, sequence(jobs()));
        assertEquals(dataBefore + 1, sequence(data));
        assertEquals(0, asleep(jobs()));
        assertEquals(0, asleep(data));
        offer(publisher, "b"); // no worker is asleep now
        assertEquals(before + 1, sequence(jobs()));
        assertEquals(dataBefore + 1, sequence(data));
    }

    @Test
    void aNewOwnerOfASlotWakesAllWhateverTheirBitsSay() {
        int before = sequence(jobs());
        int room = sequence(channel.slots().room());
        channel.worker();
        assertEquals(before + 1, sequence(jobs()));
        assertEquals(room + 1, sequence(channel.slots().room()));
        int data = sequence(channel.slots().data());
        channel.publisher();
        assertEquals(before + 2, sequence(jobs()));
        assertEquals(data + 1, sequence(channel.slots().data()));
    }

    @Test
    void aReleaseWakesOne() throws Exception {
        offer(publisher, "a");
        Worker other = sleeper();
        Job job = channel.worker().take();
        long within = endedBy(jobs(), () -> done(other.take(LONG)), () -> assertTrue(job.release()),
            seen -> assertEquals("a1", seen));
        assertTrue(within < SOON, within + " ns");
    }

    @Test
    void aWorkerThatWasWokenAndTakesNothingWakesAnother() throws Exception {
        Worker looking = channel.worker();
        Worker taking = sleeper();
        WaitSet set = new WaitSet().add(looking);
        set.setSpin(Duration.ZERO);
        List<Long> within = new ArrayList<>();
        for (int i = 0; i < 9; i++) {
            forgetSleepers(jobs());
            Other<Integer> looker = new Other<>(() -> set.await(LONG).size()); // the kernel wakes this one first
            until(() -> asleep(jobs()) != 0);
            Thread.sleep(2);
            Other<String> taker = new Other<>(() -> done(taking.take(LONG)));
            until(() -> taking.waiting().isWaiting());
            Thread.sleep(2);
            long start = System.nanoTime();
            offer(publisher, "a");
            assertEquals("a", taker.result());
            within.add(System.nanoTime() - start);
            set.wake();
            looker.result();
            set.await(Duration.ZERO); // consumes the wake if the job was faster
        }
        assertSoon(within);
    }

    @Test
    void aWaitThatEndsWithoutAJobSaysAgainThatOthersSleep() throws Exception {
        Worker worker = sleeper();
        Other<Job> waiter = new Other<>(() -> worker.take(Duration.ofMillis(30)));
        until(() -> asleep(jobs()) == Layout.JOBS_BIT);
        forgetSleepers(jobs()); // a waker has cleared the bit and wakes another sleeper; then the time is over
        assertNull(waiter.result());
        assertEquals(Layout.JOBS_BIT, asleep(jobs()), "so the next publish wakes another sleeping worker");
    }

    @Test
    void whatElseEndsAWait() throws Exception {
        for (String what : List.of("closed", "slot-lost", "none", "cancelled", "closed ")) {
            for (int verb = 0; verb < 3; verb++) {
                Worker worker = sleeper();
                List<Callable<?>> verbs = List.of(() -> worker.take(LONG), () -> worker.poll(job -> { }, 1, LONG),
                    () -> worker.controlledPoll(job -> Action.CONTINUE, 1, LONG));
                Callable<?> wait = verbs.get(verb);
                forgetSleepers(jobs());
                Other<String> other = new Other<>(() -> {
                    try {
                        wait.call();
                        return "none";
                    } catch (FlyringException e) {
                        return e.code();
                    }
                });
                until(() -> asleep(jobs()) != 0);
                Thread.sleep(2);
                long start = System.nanoTime();
                switch (what) {
                    case "closed" -> worker.close();
                    case "slot-lost" -> assertEquals(0, channel.evict(worker.slot()));
                    case "none" -> worker.drain();
                    case "cancelled" -> other.interrupt();
                    default -> channel.close();
                }
                assertEquals(what.trim(), other.result());
                assertTrue(System.nanoTime() - start < CAP, what);
                if (what.endsWith(" ")) {
                    channel = Channel.open(channel.path());
                } else {
                    worker.close();
                }
            }
        }
    }

    @Test
    void anInterruptedWaitLosesNoJob() throws Exception {
        Worker worker = sleeper();
        Other<String> other = new Other<>(() -> code(() -> worker.take(LONG)) + Thread.interrupted());
        until(() -> worker.waiting().isWaiting());
        other.interrupt();
        assertEquals("cancelledtrue", other.result());
        offer(publisher, "a", "b");
        Thread.currentThread().interrupt();
        assertEquals("a", done(worker.take(LONG))); // a job is there, so it does not wait
        assertTrue(worker.take().release());
        assertTrue(Thread.interrupted());
        assertEquals("b1", workOff(worker));
    }

    @Test
    void aReplacedQueueEndsTheWait() throws Exception {
        Worker worker = sleeper();
        long within = endedBy(jobs(), () -> code(() -> worker.take(LONG)),
            () -> Channel.replace(channel.path(), queue(1, 1)).close(), code -> assertEquals("replaced", code));
        assertTrue(within < CAP, within + " ns");
        assertEquals("replaced", code(() -> offer(publisher, "a"))); // at the first recompute; the next offer succeeds
        offer(publisher, "a");
        assertEquals("a", done(worker.take())); // the worker works as before
    }

    @Test
    void aDrainingWorkerHandsOutWhatItHasAndNoMore() {
        offer(publisher, "a", "b", "c", "d");
        Worker worker = channel.worker();
        assertEquals(1, worker.controlledPoll(job -> Action.BREAK, 3));
        worker.drain();
        StringBuilder seen = new StringBuilder();
        assertEquals(2, worker.poll(job -> seen.append(text(job)), 10, LONG));
        assertEquals("bc", seen.toString());
        long start = System.nanoTime();
        assertEquals(0, worker.poll(job -> { }, 1, LONG));
        assertNull(worker.take(Publisher.FOREVER));
        assertTrue(System.nanoTime() - start < CAP);
        assertEquals("d", workOff(channel.worker()));
    }

    @Test
    void drainThrowsNothingAfterAnEvictAndClosedAfterAClose() {
        Worker worker = channel.worker();
        assertEquals(0, channel.evict(worker.slot()));
        for (int i = 0; i < 2; i++) {
            assertEquals("none", code(worker::drain));
            assertEquals("slot-lost", code(worker::take));
        }
        worker.close();
        assertEquals("closed", code(worker::drain));
        Worker other = channel.worker();
        other.close();
        assertEquals("closed", code(other::drain));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void doneAndReleaseEndAProducersWaitForRoom(boolean release) throws Exception {
        Worker worker = channel.worker();
        publisher.setSpin(Duration.ZERO);
        fill(publisher);
        Job job = worker.take();
        long within = endedBy(channel.slots().room(), () -> publisher.send(new byte[200], LONG), () -> {
            if (release) {
                assertTrue(job.release());
            } else {
                job.done();
            }
        }, position -> assertTrue(position > 0));
        assertTrue(within < SOON, within + " ns");
    }

    @Test
    void workersLookEachMillisecondForAProducerWithWakeOff() throws Exception {
        Worker worker = sleeper();
        try (Channel silent = Channel.open(channel.path(), new OpenOptions().wake(false))) {
            Publisher quiet = silent.publisher();
            List<Long> within = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                within.add(endedBy(jobs(), () -> done(worker.take(LONG)), () -> offer(quiet, "a"),
                    seen -> assertEquals("a", seen)));
            }
            assertEquals(Layout.JOBS_BIT, asleep(jobs())); // still set
            quiet.close();
            offer(publisher, "b");
            Worker releasing = silent.worker();
            for (int i = 1; i < 6; i++) {
                Job job = releasing.take();
                String attempts = "b" + i;
                within.add(endedBy(jobs(), () -> {
                    Job taken;
                    String seen;
                    do { // the other worker may hold the returns ring for a moment longer; then the job stays in hand
                        taken = worker.take(LONG);
                        seen = text(taken) + taken.attempts();
                    } while (!taken.release());
                    return seen;
                }, () -> assertTrue(job.release()), seen -> assertTrue(seen.startsWith("b"), attempts)));
            }
            assertSoon(within);
        }
    }

    @Test
    void aQueueHasEndedWhenItsProducersHaveClosedAndEveryJobIsDone() throws Exception {
        Worker worker = channel.worker();
        assertFalse(worker.ended());
        Publisher second = channel.publisher();
        offer(publisher, "a");
        publisher.close();
        assertFalse(worker.ended());
        second.close();
        assertFalse(worker.ended()); // a job waits
        Job job = worker.take();
        assertFalse(worker.ended()); // the job is in hand
        assertTrue(job.release());
        assertFalse(worker.ended()); // the job waits again
        done(worker.take());
        assertTrue(worker.ended());
        channel.publisher();
        assertFalse(worker.ended());
    }

    @Test
    void aWaitSetHasWorkers() {
        Worker worker = channel.worker();
        Worker other = channel.worker();
        WaitSet set = new WaitSet().add(worker);
        assertEquals("invalid-argument", code(() -> set.add(worker)));
        assertEquals(List.of(), set.await(Duration.ofMillis(2)));
        offer(publisher, "a");
        assertSame(worker, set.await(LONG).get(0));
        assertEquals("a", workOff(worker));
        assertEquals(List.of(), set.await(Duration.ZERO));
        // A worker that is lost or drains is ready: its next verb reports it.
        worker.drain();
        assertEquals(1, set.await(LONG).size());
        set.remove(worker);
        assertEquals("invalid-argument", code(() -> set.remove(worker)));
        set.add(other);
        channel.evict(other.slot());
        assertEquals(1, set.await(LONG).size());
        assertEquals("slot-lost", code(() -> other.take()));
    }

    @Test
    void manyWorkersAndProducersLoseNoWake() throws Exception {
        final int each = 3000;
        AtomicInteger done = new AtomicInteger();
        AtomicInteger late = new AtomicInteger(); // jobs that waited for half of the cap: their worker was not woken
        List<Other<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            int limit = i + 1;
            all.add(new Other<>(() -> {
                try (Worker worker = channel.worker()) {
                    worker.setSpin(Duration.ofNanos(limit * 2000L));
                    while (done.get() < 2 * each) {
                        worker.poll(job -> {
                            if (System.nanoTime() - job.buffer().getLong(0) > 50_000_000) {
                                late.incrementAndGet();
                            }
                            done.incrementAndGet();
                        }, limit, Duration.ofMillis(300));
                    }
                    return 0;
                }
            }));
        }
        for (int i = 0; i < 2; i++) {
            boolean first = i == 0;
            all.add(new Other<>(() -> {
                try (Publisher own = first ? publisher : channel.publisher()) {
                    for (int sent = 0; sent < each; sent++) {
                        long now = System.nanoTime();
                        own.send(ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(now).array(), LONG);
                        if (sent % 16 == 0) {
                            Thread.sleep(0, 50_000);
                        }
                    }
                    return 0;
                }
            }));
        }
        for (Other<Integer> one : all) {
            one.result();
        }
        assertEquals(2 * each, done.get());
        assertTrue(late.get() < each / 20, () -> late + " jobs were late"); // some are on a busy machine
    }

    @Test
    void aProducerRestsWhileJobsTakeLong() throws Exception {
        final int jobs = 8000;
        try (Channel own = Channel.create(rings.path("long.ring"), queue(1, 1).capacity(65536))) {
            Other<Integer> worker = new Other<>(() -> {
                Worker one = own.worker();
                int done = 0;
                while (done < jobs) {
                    done += one.poll(job -> {
                        final long end = System.nanoTime() + 20_000;
                        while (System.nanoTime() < end) {
                            Thread.onSpinWait();
                        }
                    }, 1, LONG);
                }
                return done;
            });
            Publisher producer = own.publisher();
            final byte[] one = "a job".getBytes(StandardCharsets.US_ASCII);
            int waits = 0;
            for (int sent = 0; sent < jobs; sent++) {
                if (producer.offer(one) < 0) {
                    waits++;
                    producer.send(one, LONG);
                }
            }
            assertEquals(jobs, worker.result());
            assertTrue(waits < jobs / 8, waits + " waits"); // without rests it waits for nearly each job
        }
    }
}
