// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import io.flyring.sbe.Dispatcher;
import io.flyring.sbe.Responder;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.BookDecoder;
import prices.BookEncoder;
import prices.MessageHeaderEncoder;
import prices.PriceUpdateDecoder;
import prices.PriceUpdateEncoder;
import prices.Side;

/** The hot path does not allocate, and the counter that shows this counts real allocations. */
class AllocationTest {
    private static final int MESSAGES = 1_000_000;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    @RegisterExtension
    final Rings rings = new Rings();

    private Publisher publisher;
    private Subscriber subscriber;
    private long sum;
    private Object seeded;
    private final MessageHandler handler = message -> sum += message.buffer().getLong(0) + message.type();

    private interface Step {
        void go(int i);
    }

    /**
     * The bytes that this thread allocates in {@code MESSAGES} steps: the least of four rounds, of which the first warm
     * up.
     */
    private static long allocated(Step step) {
        return allocated(step, MESSAGES);
    }

    private static long allocated(Step step, int rounds) {
        long bytes = Long.MAX_VALUE;
        for (int round = 0; round < 4; round++) {
            long before = THREADS.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < rounds; i++) {
                step.go(i);
            }
            bytes = Math.min(bytes, THREADS.getCurrentThreadAllocatedBytes() - before);
        }
        return bytes;
    }

    @Test
    void offeringClaimingAndPollingDoNotAllocate() {
        PayloadBuffer source = new PayloadBuffer();
        source.wrap(ByteBuffer.allocateDirect(512));
        PayloadBuffer[] batch = {source, source};
        byte[] array = new byte[32];
        ByteBuffer buffer = ByteBuffer.allocateDirect(40);
        try (Channel channel = Channel.create(rings.path("a.ring"), ChannelOptions.broadcast().capacity(1 << 16));
            Publisher made = channel.publisher(); Subscriber joined = channel.subscriber()) {
            publisher = made;
            subscriber = joined;
            assertNothing("offer", i -> publisher.offer(source, 0, 32));
            assertNothing("offer of many bytes", i -> publisher.offer(source, 0, 500));
            assertNothing("offer of an array", i -> publisher.offer(array));
            assertNothing("offer of a ByteBuffer", i -> publisher.offer(buffer, 1));
            assertNothing("offerBatch", i -> publisher.offerBatch(batch, 0, 2, 1));
            assertNothing("claim", i -> {
                Claim claim = publisher.claim(32, 5);
                claim.buffer().putLong(0, i);
                if ((i & 7) == 0) {
                    claim.abort();
                } else {
                    claim.commit();
                }
            });
            assertNothing("poll of nothing", i -> { });
            long seen = allocated(i -> {
                publisher.offer(array);
                seeded = (i & 1023) == 0 ? new byte[16] : seeded;
                subscriber.poll(handler, 10);
            });
            assertTrue(seen >= MESSAGES / 1024 * 32L && seen < MESSAGES, "one array in 1024 messages: " + seen);
            long taken = allocated(i -> {
                publisher.offer(array);
                sum += subscriber.take().length();
            });
            assertTrue(taken >= MESSAGES * 48L, "a take makes a message: " + taken);
        }
    }

    @Test
    void waitingForMessagesDoesNotAllocate() {
        final int waits = 1000;
        final long timeout = 30_000;
        try (Channel channel = Channel.create(rings.path("a.ring"), ChannelOptions.broadcast().capacity(1 << 16));
            Subscriber joined = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber()) {
            subscriber = joined;
            joined.setSpin(Duration.ZERO);
            lossy.setSpin(Duration.ZERO);
            WaitSet set = new WaitSet().add(joined).add(lossy);
            assertTrue(allocated(i -> subscriber.poll(handler, 1, timeout), waits) < waits, "poll");
            assertTrue(allocated(i -> lossy.poll(handler, 1, timeout), waits) < waits, "lossy poll");
            assertTrue(allocated(i -> set.await(timeout), waits) < waits, "a wait set");
            assertEquals(0, sum);
        }
    }

    @Test
    void takingAndFinishingJobsDoNotAllocate() {
        JobHandler jobs = job -> sum += job.buffer().getLong(0) + job.type() + job.sender().epoch();
        byte[] array = new byte[32];
        try (Channel channel = Channel.create(rings.path("q.ring"), ChannelOptions.queue().capacity(1 << 16));
            Publisher made = channel.publisher(); Publisher second = channel.publisher();
            Worker worker = channel.worker(); Worker other = channel.worker()) {
            second.offer(array);
            Job held = other.take(); // a job in hand: other workers test whether its owner lives
            assertFew("take and done", allocated(i -> {
                made.offer(array);
                Job job = worker.take();
                sum += job.attempts();
                job.done();
            }));
            assertFew("poll", allocated(i -> {
                made.offer(array);
                if ((i & 7) == 0) {
                    worker.poll(jobs, 10);
                }
            }));
            assertFew("controlledPoll", allocated(i -> {
                made.offer(array);
                worker.controlledPoll(job -> Action.CONTINUE, 1);
            }));
            made.offer(array);
            final int releases = 5000;
            long released = allocated(i -> assertTrue(worker.take().release()), releases);
            assertTrue(released < releases * 1000L, "what the calls for a lock make, and no more: " + released);
            assertFew("a poll that may wait", allocated(i -> {
                made.offer(array);
                worker.poll(jobs, 10, 1_000_000_000L);
            }));
            worker.poll(jobs, 10);
            held.done();
            worker.setSpin(Duration.ZERO);
            assertTrue(allocated(i -> worker.poll(jobs, 1, 30_000), 1000) < 1000, "a wait for nothing");
        }
    }

    private static void assertFew(String what, long bytes) {
        // Testing another worker's lock, once a millisecond, allocates some hundred bytes for the system call.
        assertTrue(bytes < 200_000, what + " allocated " + bytes + " bytes in " + MESSAGES + " jobs");
    }

    /** Includes sleeps: each side sleeps when the other takes longer than its spin. */
    @Test
    void callingAndAnsweringDoNotAllocate() throws Exception {
        final int calls = 5000;
        PayloadBuffer source = new PayloadBuffer();
        source.wrap(ByteBuffer.allocateDirect(512));
        Responder typed = new Responder().on(new PriceUpdateDecoder(), (update, request) -> {
            sum += update.bid();
            request.reply(request.buffer(), 0, request.length(), request.type());
        }).otherwise(request -> request.reply(request.buffer(), 0, request.length(), 1));
        PriceUpdateEncoder update = new PriceUpdateEncoder();
        PayloadBuffer room = new PayloadBuffer();
        room.wrap(new byte[512]);
        update.wrapAndApplyHeader(room, 0, new MessageHeaderEncoder()).bid(7);
        final int length = Encoded.length(update);
        try (Channel channel = Channel.create(rings.path("s.ring"), ChannelOptions.service());
            Server server = channel.server(); Client client = channel.client()) {
            Thread serving = new Thread(() -> server.serve(typed));
            serving.start();
            long called = Long.MAX_VALUE;
            long served = Long.MAX_VALUE;
            for (int round = 0; round < 4; round++) {
                long client0 = THREADS.getCurrentThreadAllocatedBytes();
                long server0 = THREADS.getThreadAllocatedBytes(serving.getId());
                for (int i = 0; i < calls; i++) {
                    client.call(source, 0, 32 + (i & 255), 99, Long.MAX_VALUE, handler);
                    client.call(room, 0, length, PriceUpdateEncoder.TEMPLATE_ID, 10_000_000_000L, handler);
                }
                called = Math.min(called, THREADS.getCurrentThreadAllocatedBytes() - client0);
                served = Math.min(served, THREADS.getThreadAllocatedBytes(serving.getId()) - server0);
            }
            server.stop();
            serving.join();
            assertTrue(called < 2 * calls && served < 2 * calls, "calls: " + called + " bytes, answers: " + served);
        }
    }

    @Test
    void pollingAndReplyingDoNotAllocate() {
        RequestHandler echo = request -> request.reply(request.buffer(), 0, request.length(), request.type());
        byte[] array = new byte[32];
        try (Channel channel = Channel.create(rings.path("p.ring"), ChannelOptions.service());
            Server server = channel.server(); Client client = channel.client()) {
            final int rounds = 20_000;
            long bytes = Long.MAX_VALUE;
            long started = 0;
            for (int round = 0; round < 4; round++) {
                long all = 0;
                for (int i = 0; i < rounds; i++) {
                    long begin = THREADS.getCurrentThreadAllocatedBytes();
                    Call call = client.start(array);
                    final long before = THREADS.getCurrentThreadAllocatedBytes();
                    server.poll(echo, 10);
                    all += THREADS.getCurrentThreadAllocatedBytes() - before;
                    started += before - begin;
                    client.poll();
                    assertTrue(call.done());
                }
                bytes = Math.min(bytes, all);
            }
            assertTrue(bytes < rounds, "poll and reply: " + bytes);
            assertTrue(started >= 4L * rounds * 16, "a start makes a call: " + started);
        }
    }

    @Test
    void typedMessagesDoNotAllocate() {
        PriceUpdateEncoder update = new PriceUpdateEncoder();
        BookEncoder book = new BookEncoder();
        byte[] symbol = "FLYR\0\0\0\0".getBytes(StandardCharsets.US_ASCII);
        byte[] text = new byte[8];
        PayloadBuffer remark = new PayloadBuffer();
        Dispatcher dispatcher = new Dispatcher()
            .on(new PriceUpdateDecoder(), (decoder, message) -> {
                decoder.instrument().getSymbol(text, 0);
                sum += text[0] + decoder.instrument().id() + decoder.bid() + decoder.lastSide().value()
                    + (decoder.flags().opening() ? 1 : 0) + message.position();
            })
            .on(new BookDecoder(), (decoder, message) -> {
                for (BookDecoder.LevelsDecoder level = decoder.levels(); level.hasNext();) {
                    sum += level.next().price() + level.side().value();
                }
                decoder.wrapRemark(remark);
                sum += remark.getByte(0);
            })
            .otherwise(message -> sum++);
        try (Channel channel = Channel.create(rings.path("t.ring"), ChannelOptions.broadcast().capacity(1 << 16));
            Publisher made = channel.publisher(); Subscriber joined = channel.subscriber()) {
            assertNothing("typed messages", joined, dispatcher, i -> {
                if ((i & 3) == 0) {
                    Claim claim = made.claim(book, 4 + 2 * 13 + 2 + 8);
                    BookEncoder.LevelsEncoder levels = book.levelsCount(2);
                    levels.next().price(i).size(1).side(Side.BUY);
                    levels.next().price(-i).size(2).side(Side.SELL);
                    book.putRemark(symbol, 0, 8);
                    claim.commit();
                } else {
                    Claim claim = made.claim(update);
                    update.instrument().id(i).symbol("FLYR").putCurrency((byte) 'E', (byte) 'U', (byte) 'R');
                    update.instrument().putSymbol(symbol, 0);
                    update.bid(i).lastSide(Side.BUY).flags().clear().opening(true);
                    claim.commit();
                }
                if ((i & 7) == 0) {
                    made.offer(symbol, 0, 8, 99);
                }
            });
        }
    }

    @Test
    void readingATableDoesNotAllocate() {
        PayloadBuffer target = new PayloadBuffer();
        target.wrap(ByteBuffer.allocateDirect(300));
        PayloadBuffer array = new PayloadBuffer();
        array.wrap(new byte[300]);
        ValueHandler<Object> value = each -> {
            sum += each.getInt(0);
            return this;
        };
        try (Table table = Table.create(rings.path("l.table"), TableOptions.integer().capacity(1024).valueBytes(300));
            Table texts = Table.create(rings.path("x.table"), TableOptions.text().capacity(100).valueBytes(8));
            Table bytes = Table.create(rings.path("b.table"), TableOptions.bytes().capacity(100).valueBytes(8))) {
            for (int i = 0; i < 1000; i++) {
                table.put(i, target, 0, i % 3 == 0 ? 300 : 48);
            }
            texts.put("Müller", target, 0, 8);
            PayloadBuffer key = new PayloadBuffer();
            key.wrap(new byte[30]);
            bytes.put(key, target, 0, 8);
            Entry entry = table.entry(5);
            assertNoBytes("get", i -> sum += table.get(i & 1023, target, 0));
            assertNoBytes("get into an array", i -> sum += table.get(i & 1023, array, 0));
            assertNoBytes("get of text", i -> sum += texts.get((i & 1) == 0 ? "Müller" : "none", target, 0));
            assertNoBytes("get of bytes", i -> sum += bytes.get(key, target, 0));
            assertNoBytes("read", i -> sum += table.read(i & 511, value) == null ? 0 : 1);
            assertNoBytes("read of text", i -> sum += texts.read("Müller", value) == null ? 0 : 1);
            assertNoBytes("read of bytes", i -> sum += bytes.read(key, value) == null ? 0 : 1);
            assertNoBytes("an entry", i -> sum += entry.get(target, 0) + entry.version());
            assertNoBytes("an entry's read", i -> sum += entry.read(value) == null ? 0 : 1);
            try (TableWriter writer = texts.writer(); TableWriter other = bytes.writer()) {
                assertNoBytes("put of text", i -> sum += writer.put("Müller", target, 0, 8));
                assertNoBytes("put of bytes", i -> sum += other.put(key, array, 0, 8));
                assertNoBytes("remove and insert of text", i -> {
                    writer.remove("none");
                    writer.put("none", target, 0, 8);
                });
            }
            // The calls for the lock make objects: 1024 bytes a put on JDK 25 as long as C2 has not compiled them.
            final int singles = 5000;
            long single = allocated(i -> sum += table.put(i & 1023, target, 0, 48), singles);
            assertTrue(single < singles * 1500L, "what the calls for the lock make, and no more: " + single);
            try (TableWriter writer = table.writer()) {
                assertNoBytes("put", i -> sum += writer.put(i & 1023, target, 0, 40));
                assertNoBytes("put by an entry", i -> sum += writer.put(entry, target, 0, 40));
                assertNoBytes("put and remove", i -> {
                    sum += writer.put(999, target, 0, 300);
                    writer.remove(999);
                });
            }
            long made = allocated(i -> sum += table.getVersioned(5).version(), MESSAGES / 10);
            assertTrue(made >= MESSAGES / 10 * 48L, "a versioned value is made: " + made);
        }
    }

    private static void assertNoBytes(String what, Step step) {
        long bytes = allocated(step);
        assertTrue(bytes < 10_000, what + " allocated " + bytes + " bytes in " + MESSAGES + " calls");
    }

    private void assertNothing(String what, Step step) {
        assertNothing(what, subscriber, handler, step);
    }

    private static void assertNothing(String what, Subscriber to, MessageHandler handler, Step step) {
        long bytes = allocated(i -> {
            step.go(i);
            to.poll(handler, 10);
        });
        assertEquals(0, bytes / MESSAGES, what + " allocates per message");
        assertTrue(bytes < 10_000, what + " allocated " + bytes + " bytes in " + MESSAGES + " messages");
    }
}
