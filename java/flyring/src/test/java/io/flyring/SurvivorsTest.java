// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What objects survive in the middle of an operation: an interrupt, an Error, a close from another thread. */
class SurvivorsTest {
    private static final int CAPACITY = 4096;
    private static final long PATIENCE = 5_000_000_000L;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(int publishers, int subscribers) {
        return Channel.create(rings.path("s.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(publishers).subscribers(subscribers).counters(2));
    }

    /** A new channel of one ring and one subscriber, which replaces the last one. */
    private Channel fresh() {
        return Channel.replace(rings.path("s.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(1).subscribers(1).counters(0));
    }

    private static void fill(Publisher publisher) {
        while (publisher.offer(new byte[500]) > 0) {
            assertTrue(publisher.position() < 5 * CAPACITY);
        }
    }

    /** Offers until there is room. */
    private static void untilRoom(Publisher publisher) {
        long end = System.nanoTime() + PATIENCE;
        while (publisher.offer(new byte[500]) < 0) {
            assertTrue(System.nanoTime() < end, "held back by " + publisher.heldBy());
            Thread.onSpinWait();
        }
    }

    private static void interrupted(Runnable action) throws InterruptedException {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            Thread.currentThread().interrupt();
            action.run();
            assertTrue(Thread.interrupted(), "the interrupt is still there");
        });
        thread.setUncaughtExceptionHandler((which, error) -> failure.set(error));
        thread.start();
        thread.join();
        assertNull(failure.get(), () -> failure.get() + " " + failure.get().getCause());
    }

    @Test
    void aStackOverflowInACloseLeavesTheRestToTheNext() throws Exception {
        create(1, 1).close();
        Dive.run(() -> {
            for (int i = 0; i < 20; i++) {
                Channel channel = Channel.open(rings.path("s.ring"));
                LossySubscriber lossy = channel.lossySubscriber();
                for (boolean alone : new boolean[] {true, false}) {
                    Subscriber subscriber = channel.subscriber();
                    Publisher publisher = channel.publisher();
                    assertTrue(publisher.offer(new byte[10]) > 0);
                    assertEquals(1, subscriber.poll(message -> { }));
                    assertEquals(1, lossy.poll(message -> { }));
                    if (alone) {
                        Dive.intoClose(i, publisher);
                        Dive.intoClose(i, subscriber);
                        assertThrows(ClosedException.class, () -> publisher.offer(new byte[1]));
                    }
                }
                Dive.intoClose(i, i % 2 == 0 ? lossy : channel);
                Dive.intoClose(i, channel);
                assertThrows(ClosedException.class, channel::publisher);
                assertEquals(0, rings.held());
            }
        });
    }

    /** Runs {@code forget} while another thread has the control lock, and {@code close} meanwhile: the name stays. */
    private static void forgetBeside(Lock other, long controlLock, Runnable forget, AutoCloseable close)
        throws Exception {
        AtomicReference<Throwable> error = new AtomicReference<>();
        Thread thread = new Thread(forget);
        thread.setUncaughtExceptionHandler((which, thrown) -> error.set(thrown));
        other.lockControl(controlLock);
        thread.start();
        Thread.sleep(50);
        close.close();
        other.close();
        thread.join();
        assertTrue(error.get() instanceof ClosedException, () -> "" + error.get());
    }

    @Test
    void forgetWhileAnotherThreadClosesLeavesTheSlotToTheNextOwner() throws Exception {
        try (Channel channel = create(1, 1)) {
            Subscriber subscriber = channel.subscriber("s", true);
            forgetBeside(channel.file().newLock(), channel.header().controlOffset + Layout.CONTROL_CONTROL_LOCK,
                subscriber::forget, subscriber);
            try (Subscriber again = channel.subscriber("s", true)) {
                assertEquals(2, again.epoch());
            }
        }
        try (Journal journal = Journal.create(rings.path("j.journal"), Journals.small())) {
            JournalConsumer consumer = journal.consumer("s");
            JournalFile file = consumer.file;
            forgetBeside(file.file.newLock(), file.lockByte(Layout.CONTROL_CONTROL_LOCK), consumer::forget, consumer);
            assertEquals(1, journal.stats().consumers().size());
            try (JournalConsumer again = journal.consumer("s")) {
                assertEquals(2, again.epoch());
            }
        }
    }

    @Test
    void anInterruptedThreadCanDoEverythingAndBreaksNothing() throws Exception {
        interrupted(() -> create(3, 3).close());
        try (Channel channel = Channel.open(rings.path("s.ring"))) {
            interrupted(() -> {
                try (Channel other = Channel.open(channel.path())) {
                    assertEquals(channel.id(), other.id());
                }
                channel.lossySubscriber();
                Subscriber subscriber = channel.subscriber();
                Publisher publisher = channel.publisher();
                assertTrue(publisher.offer(new byte[1]) > 0);
                assertEquals(1, subscriber.take().length());
                channel.counters().allocate("c").free();
                assertEquals(0, channel.evict(0));
                Channel.replace(rings.path("t.ring"), ChannelOptions.broadcast()).close();
                Channel.unlink(rings.path("t.ring"));
            });
            channel.subscriber().close();
            channel.publisher().close();
            channel.lossySubscriber().close();
        }
    }

    @Test
    void anInterruptedPublisherRetiresTheDead() throws Exception {
        try (Channel channel = create(1, 1)) {
            EvictTest.die(channel, "dead", false);
            try (Publisher publisher = channel.publisher()) {
                fill(publisher);
                interrupted(() -> untilRoom(publisher));
                assertNull(publisher.heldBy());
            }
        }
    }

    /** A source that runs an action, and may throw, when its bytes are read. */
    private static DirectBuffer source(int length, Runnable read) {
        PayloadBuffer bytes = new PayloadBuffer();
        bytes.wrap(new byte[length]);
        return (DirectBuffer) Proxy.newProxyInstance(SurvivorsTest.class.getClassLoader(),
            new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) -> {
                if (method.getName().startsWith("get")) {
                    read.run();
                }
                return method.invoke(bytes, arguments);
            });
    }

    @Test
    void anExceptionOfTheSourceLeavesPaddingAndAUsablePublisher() throws Exception {
        try (Channel channel = create(1, 1); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            PayloadBuffer good = new PayloadBuffer();
            good.wrap(new byte[9]);
            DirectBuffer bad = source(40, () -> {
                throw new IllegalStateException("no");
            });
            assertThrows(IllegalStateException.class, () -> publisher.offer(bad, 0, 40));
            assertThrows(IllegalStateException.class, () -> publisher.offerBatch(good, bad, good));
            assertThrows(IllegalStateException.class, () -> publisher.offerBatch(bad, good));
            if (Runtime.version().feature() >= 22) {
                ByteBuffer closed = ofClosedArena();
                assertThrows(IllegalStateException.class, () -> publisher.offer(closed, 1));
            }
            assertTrue(publisher.offer(new byte[7]) > 0);
            assertEquals(7, subscriber.take().length());
            assertNull(subscriber.take());
            assertEquals(publisher.position(), subscriber.position(0));
            publisher.close();
            try (Channel other = Channel.open(channel.path()); Publisher next = other.publisher()) {
                assertTrue(next.offer(new byte[8]) > 0, "its slot and its lock are free");
                assertEquals(8, subscriber.take().length());
            }
        }
    }

    /** A buffer over memory that is gone; made by reflection, because these tests are compiled for Java 17. */
    private static ByteBuffer ofClosedArena() throws Exception {
        Class<?> type = Class.forName("java.lang.foreign.Arena");
        Object arena = type.getMethod("ofConfined").invoke(null);
        Object segment = type.getMethod("allocate", long.class).invoke(arena, 64L);
        Object buffer = Class.forName("java.lang.foreign.MemorySegment").getMethod("asByteBuffer").invoke(segment);
        type.getMethod("close").invoke(arena);
        return (ByteBuffer) buffer;
    }

    @Test
    void aMessageThatGrowsWhileItsBatchIsPublishedHarmsNothing() {
        try (Channel channel = create(1, 1); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            PayloadBuffer good = new PayloadBuffer();
            good.wrap(new byte[9]);
            for (int calls = 1; calls < 5; calls++) {
                for (int length : new int[] {0, 1000, 100_000, -1}) {
                    int[] left = {calls};
                    DirectBuffer changing = (DirectBuffer) Proxy.newProxyInstance(getClass().getClassLoader(),
                        new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) ->
                            method.getName().equals("capacity") ? left[0]-- > 0 ? 100 : length
                                : method.invoke(good, arguments));
                    for (DirectBuffer[] batch : List.of(new DirectBuffer[] {good, changing, good},
                        new DirectBuffer[] {changing, good})) {
                        left[0] = calls;
                        try {
                            publisher.offerBatch(batch);
                        } catch (RuntimeException e) {
                            assertNotNull(e.getClass());
                        }
                        assertTrue(publisher.offer(new byte[7]) > 0);
                        subscriber.poll(message -> { });
                        assertEquals(publisher.position(), subscriber.position(0));
                    }
                }
            }
        }
    }

    @Test
    void anErrorInTheMiddleEndsThePublisherAndFreesItsSlot() {
        for (boolean batch : new boolean[] {false, true}) {
            try (Channel channel = fresh(); Subscriber subscriber = channel.subscriber();
                Publisher publisher = channel.publisher("p")) {
                assertTrue(publisher.offer(new byte[3]) > 0);
                DirectBuffer bad = source(40, () -> {
                    throw new StackOverflowError("stand-in");
                });
                assertThrows(StackOverflowError.class, () -> {
                    if (batch) {
                        publisher.offerBatch(bad, bad);
                    } else {
                        publisher.offer(bad, 0, 40);
                    }
                });
                ClosedException error = assertThrows(ClosedException.class, () -> publisher.offer(new byte[1]));
                assertTrue(error.getMessage().contains("stand-in"), error.getMessage());
                assertThrows(ClosedException.class, () -> publisher.claim(1));
                assertThrows(ClosedException.class, publisher::heldBy);
                publisher.prefetch();
                try (Publisher next = channel.publisher("p")) {
                    assertTrue(next.offer(new byte[4]) > 0);
                    publisher.close();
                    assertThrows(ClosedException.class, () -> publisher.offer(new byte[1]));
                    assertTrue(next.offer(new byte[5]) > 0, "the next owner has its slot");
                }
                assertEquals(List.of(3, 4, 5), List.of(subscriber.take().length(), subscriber.take().length(),
                    subscriber.take().length()));
                assertNull(subscriber.take());
            }
        }
    }

    /** Runs an action once with little stack left, less at each try. */
    static final class Deep {
        private final Runnable action;
        private int skip;
        private boolean done;
        boolean threw;

        Deep(Runnable action, int skip) {
            this.action = action;
            this.skip = skip;
        }

        void run() throws InterruptedException {
            Thread thread = new Thread(null, this::descend, "deep", 200 * 1024);
            thread.start();
            thread.join();
        }

        private void descend() {
            try {
                descend();
            } catch (StackOverflowError e) {
                // the stack is as deep as possible
            }
            if (!done && skip-- <= 0) {
                done = true;
                try {
                    action.run();
                } catch (StackOverflowError e) {
                    threw = true;
                }
            }
        }
    }

    @Test
    void whereverTheStackEndsTheNextOwnerGoesOnAndTheCountsAreRight() throws Exception {
        int thrown = 0;
        for (int skip = 0; skip < 90; skip++) {
            boolean claims = skip % 2 == 0;
            try (Channel channel = fresh(); Subscriber subscriber = channel.subscriber();
                LossySubscriber lossy = channel.lossySubscriber()) {
                Publisher publisher = channel.publisher();
                assertTrue(publisher.offer(new byte[8]) > 0);
                Claim claim = claims ? publisher.claim(300) : null;
                Deep deep = new Deep(claims ? claim::commit : () -> publisher.offer(new byte[300]), skip / 2);
                deep.run();
                thrown += deep.threw ? 1 : 0;
                try {
                    assertTrue(claims && !deep.done || publisher.offer(new byte[40]) > 0);
                } catch (ClosedException e) {
                    assertTrue(deep.threw);
                } catch (ViewAliveException e) { // the commit had not begun
                    assertTrue(deep.threw && claims);
                    claim.abort();
                }
                publisher.close();
                try (Publisher next = channel.publisher()) {
                    assertTrue(next.offer(new byte[50]) > 0);
                    List<Integer> seen = new ArrayList<>();
                    subscriber.poll(message -> seen.add(message.length()));
                    assertEquals(8, seen.get(0));
                    assertEquals(50, seen.get(seen.size() - 1));
                    int[] delivered = new int[1];
                    lossy.poll(message -> delivered[0]++);
                    assertEquals(seen.size(), delivered[0]);
                    Memory trailer = channel.trailers().get(0);
                    assertEquals(seen.size(), trailer.getLong(Layout.TRAILER_MESSAGES_BEGUN));
                    assertEquals(seen.size(), trailer.getLong(Layout.TRAILER_MESSAGES_DONE));
                }
            }
        }
        assertTrue(thrown > 5, "the stack ended in " + thrown + " of them");
    }

    @Test
    void anErrorUnderTheControlLockReleasesIt() {
        create(2, 2).close();
        boolean[] fails = {true};
        Identity identity = new Identity().clock(() -> {
            if (fails[0]) {
                throw new OutOfMemoryError("stand-in");
            }
            return 1;
        });
        try (Channel channel = Channel.open(rings.path("s.ring"), new OpenOptions().identity(identity));
            Channel other = Channel.open(rings.path("s.ring"))) {
            Counter counter = other.counters().allocate("c");
            assertThrows(OutOfMemoryError.class, channel::publisher);
            assertThrows(OutOfMemoryError.class, channel::subscriber);
            assertThrows(OutOfMemoryError.class, () -> channel.counters().allocate("d"));
            assertThrows(OutOfMemoryError.class, () -> channel.counters().counter(counter.id()).free());
            long since = System.nanoTime();
            for (int i = 0; i < 2; i++) {
                assertNotNull(other.publisher());
                assertNotNull(other.subscriber());
            }
            assertTrue(System.nanoTime() - since < 1_000_000_000L, "no thread waits");
        }
    }

    @Test
    void aCloseThatIsRefusedHasClosedNothing() {
        try (Channel channel = create(1, 1); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            publisher.offer(new byte[1]);
            subscriber.poll(message -> assertThrows(ViewAliveException.class, channel::close));
            DirectBuffer source = source(8, () -> assertThrows(TwoThreadsException.class, channel::close));
            assertTrue(publisher.offer(source, 0, 8) > 0);
            assertTrue(publisher.offer(new byte[2]) > 0);
            assertEquals(8, subscriber.take().length());
            assertEquals(2, subscriber.take().length());
        }
    }

    /** An action in the middle of an operation of another thread: waits until it may continue. */
    private static final class Middle {
        private final CountDownLatch there = new CountDownLatch(1);
        private final CountDownLatch goOn = new CountDownLatch(1);
        private final AtomicReference<Throwable> end = new AtomicReference<>();
        private Thread thread;

        void start(Runnable operation) throws InterruptedException {
            thread = new Thread(operation);
            thread.setUncaughtExceptionHandler((which, error) -> end.set(error));
            thread.start();
            assertTrue(there.await(5, TimeUnit.SECONDS));
        }

        void stay() {
            there.countDown();
            try {
                assertTrue(goOn.await(20, TimeUnit.SECONDS));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        Throwable finish() throws InterruptedException {
            goOn.countDown();
            thread.join();
            return end.get();
        }
    }

    @Test
    void aCloseBesideAPollOfAnotherThreadLetsNoLateGateThrough() throws Exception {
        Field busy = Subscriber.class.getDeclaredField("busy");
        busy.setAccessible(true);
        for (boolean all : new boolean[] {true, false}) {
            for (int limit : new int[] {1, 256}) {
                try (Channel keep = fresh(); Publisher publisher = keep.publisher()) {
                    Channel channel = Channel.open(keep.path());
                    Subscriber subscriber = channel.subscriber();
                    publisher.offer(new byte[100]);
                    Middle middle = new Middle();
                    middle.start(() -> subscriber.poll(message -> middle.stay(), limit));
                    busy.setBoolean(subscriber, false); // as another thread may see it without a fence
                    if (all) {
                        channel.close();
                    } else {
                        subscriber.close();
                    }
                    publisher.offer(new byte[200]);
                    try (Subscriber next = keep.subscriber()) {
                        publisher.offer(new byte[300]);
                        assertEquals(ClosedException.class, middle.finish().getClass());
                        assertEquals(next.position(0), keep.trailers().get(0).getLong(Header.gate(0)));
                        assertEquals(300, next.take().length());
                        fill(publisher);
                        assertTrue(next.poll(message -> { }) > 5);
                        assertTrue(publisher.offer(new byte[500]) > 0);
                    }
                    channel.close();
                }
            }
        }
    }

    @Test
    void aCloseBesideAnOfferOfAnotherThreadLetsNoLateStoreThrough() throws Exception {
        for (boolean all : new boolean[] {true, false}) {
            try (Channel keep = fresh(); Subscriber subscriber = keep.subscriber()) {
                Channel channel = Channel.open(keep.path());
                Publisher publisher = channel.publisher();
                publisher.offer(new byte[9]);
                Middle middle = new Middle();
                boolean[] first = {true};
                DirectBuffer slow = source(8, () -> {
                    if (first[0]) {
                        first[0] = false;
                        middle.stay();
                    }
                });
                middle.start(() -> publisher.offer(slow, 0, 8));
                publisher.payload.invalidate(); // as another thread may see it without a fence
                if (all) {
                    channel.close();
                } else {
                    publisher.close();
                }
                try (Publisher next = keep.publisher()) {
                    for (int i = 0; i < 10; i++) {
                        assertTrue(next.offer(Rings.pattern(i, 40)) > 0);
                    }
                    middle.finish();
                    for (int i = 10; i < 20; i++) {
                        assertTrue(next.offer(Rings.pattern(i, 40)) > 0);
                    }
                    assertEquals(9, subscriber.take().length());
                    for (int i = 0; i < 20; i++) {
                        assertArrayEquals(Rings.pattern(i, 40), subscriber.take().toByteArray());
                    }
                    assertNull(subscriber.take());
                }
                channel.close();
            }
        }
    }

    private static int descriptor(Lock lock) throws Exception {
        Field field = Lock.class.getDeclaredField("fd");
        field.setAccessible(true);
        return field.getInt(lock);
    }

    @Test
    void aLockWhoseDescriptorNumberIsReusedIsLeftAlone() throws Exception {
        try (Channel channel = create(1, 1); Lock third = channel.file().newLock()) {
            Lock old = channel.file().newLock();
            assertTrue(old.tryLock(5000));
            assertEquals(0, Sys.closeFile(descriptor(old)));
            try (Lock now = channel.file().newLock()) {
                assertEquals(descriptor(old), descriptor(now));
                assertTrue(now.tryLock(5000));
                assertEquals(List.of(false, false), List.of(old.tryLock(5000), old.heldByAnother(5001)));
                old.unlock(5000);
                old.close();
                assertTrue(third.heldByAnother(5000));
            }
        }
    }

    @Test
    void aPublisherWithoutADescriptorLeftRetiresTheDead() throws Exception {
        try (Channel channel = create(1, 1)) {
            EvictTest.die(channel, "dead", false);
            List<String> command = new ArrayList<>(List.of("sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"));
            command.addAll(Rings.java(Child.class, "no-descriptors", channel.path()).command());
            Process child = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            assertEquals("room", output(child));
        }
    }

    private static String output(Process child) throws IOException, InterruptedException {
        String output = new String(child.getInputStream().readAllBytes()).trim();
        assertEquals(0, child.waitFor(), output);
        return output;
    }

    @Test
    void anObjectThatIsGarbageCollectedIsClosedWithAWarning() throws Exception {
        List<String> said = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public synchronized void publish(LogRecord record) {
                said.add(record.getMessage());
            }

            @Override
            public void flush() {
                // does nothing
            }

            @Override
            public void close() {
                // does nothing
            }
        };
        Logger logger = Logger.getLogger("io.flyring");
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
        try (Channel channel = create(2, 1); Publisher publisher = channel.publisher("stays")) {
            forget(channel);
            fill(publisher);
            long end = System.nanoTime() + PATIENCE;
            while (publisher.heldBy() != null || channel.control().getInt(channel.header().publisherSlot(1)
                + Layout.PUBLISHER_SLOT_CLOSED) == 0) {
                assertTrue(System.nanoTime() < end, "still held back by " + publisher.heldBy());
                System.gc();
                Thread.sleep(10);
            }
            assertTrue(publisher.offer(new byte[500]) > 0);
            channel.subscriber().close();
            channel.publisher("forgotten").close();
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
        assertEquals(2, said.size(), said.toString());
        assertTrue(said.stream().anyMatch(text -> text.contains("subscriber") && text.contains("slot 0 (reader)")),
            said.toString());
        assertTrue(said.stream().anyMatch(text -> text.contains("publisher") && text.contains("slot 1 (forgotten)")),
            said.toString());
    }

    private static void forget(Channel channel) {
        channel.publisher("forgotten").offer(new byte[1]);
        assertNotNull(channel.subscriber("reader", false).rings());
    }
}
