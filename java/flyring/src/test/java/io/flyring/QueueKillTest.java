// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Queues.ofSlot2;
import static io.flyring.Queues.offer;
import static io.flyring.Queues.pauseForALook;
import static io.flyring.Queues.queue;
import static io.flyring.Queues.text;
import static io.flyring.Queues.workOff;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Workers in other processes that are killed or stopped with jobs in hand. */
class QueueKillTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final List<Process> children = new ArrayList<>();
    private Channel channel;

    @AfterEach
    void end() throws Exception {
        for (Process child : children) {
            child.destroyForcibly().waitFor();
        }
        channel.close();
    }

    private BufferedReader child(String... arguments) throws Exception {
        Process child = Rings.java(Child.class, arguments).start();
        children.add(child);
        BufferedReader output = new BufferedReader(
            new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8));
        assertEquals("ready", output.readLine());
        return output;
    }

    private void kill() throws Exception {
        for (Process child : children) {
            assertEquals(137, child.destroyForcibly().waitFor());
        }
        children.clear();
    }

    @Test
    void theRestOfAKilledWorkersBatchGoesToAnother() throws Exception {
        channel = Channel.create(rings.path("q.ring"), queue(1, 2));
        Publisher publisher = channel.publisher();
        Worker other = ofSlot2(channel);
        offer(publisher, "a", "b", "c", "d", "e");
        child("work", channel.path(), "4", "2");
        pauseForALook();
        assertEquals("e", workOff(other));
        assertEquals("victim", channel.stats().subscribers().get(1).name());
        kill();
        pauseForALook();
        assertEquals("c1 d1", workOff(other, 10));
    }

    @Test
    void aWorkerThatIsStoppedKeepsItsJob() throws Exception {
        channel = Channel.create(rings.path("q.ring"), queue(1, 2));
        Worker other = ofSlot2(channel);
        offer(channel.publisher(), "a");
        BufferedReader output = child("work", channel.path(), "1", "0");
        for (int i = 0; i < 5; i++) {
            pauseForALook();
            assertNull(other.take());
        }
        assertFalse(other.ended());
        children.get(0).getOutputStream().write('\n');
        children.get(0).getOutputStream().flush();
        assertEquals("done", output.readLine());
        pauseForALook();
        assertNull(other.take());
    }

    @Test
    @Tag("long")
    void randomKillsLoseNoJob() throws Exception {
        channel = Channel.create(rings.path("q.ring"), ChannelOptions.queue().capacity(65536).producers(1).workers(4));
        Channel results = Channel.create(rings.path("r.ring"),
            ChannelOptions.inbox().publishers(8).capacity(1 << 20).counters(0));
        Subscriber reader = results.subscriber();
        Map<Long, Integer> plain = new HashMap<>();
        Map<Long, Integer> all = new HashMap<>();
        MessageHandler handler = message -> {
            ByteBuffer words = ByteBuffer.wrap(message.toByteArray());
            long job = words.getLong();
            all.merge(job, 1, Integer::sum);
            if (words.getLong() == 0) {
                plain.merge(job, 1, Integer::sum);
            }
        };
        Publisher publisher = channel.publisher();
        PayloadBuffer number = new PayloadBuffer();
        number.wrap(new byte[Long.BYTES]);
        long sent = 0;
        Random random = new Random(1);
        for (int round = 0; round < 12; round++) {
            child("work-on", channel.path(), results.path());
            child("work-on", channel.path(), results.path());
            long end = System.nanoTime() + random.nextInt(60_000_000);
            while (System.nanoTime() < end) {
                number.putLong(0, sent);
                if (publisher.offer(number, 0, Long.BYTES) > 0) {
                    sent++;
                }
                reader.poll(handler);
            }
            kill();
        }
        publisher.close();
        Worker last = channel.worker();
        long deadline = System.nanoTime() + 2 * Other.PATIENCE * 1_000_000_000;
        while (!last.ended() && System.nanoTime() < deadline) {
            last.poll(job -> {
                long job2 = job.buffer().getLong(0);
                all.merge(job2, 1, Integer::sum);
                if (!job.repeat()) {
                    plain.merge(job2, 1, Integer::sum);
                }
            }, 10, Duration.ofMillis(1));
            reader.poll(handler);
        }
        while (reader.poll(handler) > 0) {
            continue;
        }
        assertTrue(last.ended());
        assertTrue(sent > 100, sent + " sent");
        assertEquals(sent, all.size());
        plain.forEach((job, times) -> assertEquals(1, times, "job " + job));
        results.close();
    }

    @Test
    void aJobOfAKilledWorkerEndsTheWaitOfASleepingOne() throws Exception {
        channel = Channel.create(rings.path("q.ring"), queue(1, 2));
        offer(channel.publisher(), "a");
        child("work", channel.path(), "1", "0");
        Worker worker = channel.worker();
        worker.setSpin(Duration.ZERO);
        Other<String> waiter = new Other<>(() -> {
            Job job = worker.take(Publisher.FOREVER);
            String seen = text(job) + job.attempts();
            job.done();
            return seen;
        });
        Other.until(() -> worker.waiting().isWaiting());
        Thread.sleep(5);
        kill();
        long start = System.nanoTime();
        assertEquals("a1", waiter.result());
        assertTrue(System.nanoTime() - start < 1_000_000_000); // a cap of 100 ms
    }
}
