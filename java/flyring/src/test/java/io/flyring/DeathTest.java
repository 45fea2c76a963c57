// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The deaths of other processes. */
class DeathTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final List<Process> children = new ArrayList<>();
    private Channel channel;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("death.ring"),
            ChannelOptions.broadcast().capacity(4096).publishers(1).subscribers(1).counters(0));
    }

    @AfterEach
    void end() throws Exception {
        for (Process child : children) {
            child.destroyForcibly().waitFor();
        }
        channel.close();
    }

    private Process child(String what) throws Exception {
        Process child = Rings.java(Child.class, what, channel.path()).start();
        children.add(child);
        return child;
    }

    private Process readyChild(String what) throws Exception {
        Process child = child(what);
        BufferedReader output = new BufferedReader(
            new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8));
        assertEquals("ready", output.readLine());
        return child;
    }

    private static void kill(Process child) throws Exception {
        assertEquals(137, child.destroyForcibly().waitFor());
    }

    private static void signal(Process child, String name) throws Exception {
        assertEquals(0, new ProcessBuilder("kill", "-" + name, String.valueOf(child.pid())).start().waitFor());
    }

    @Test
    void aRingWhosePublisherDiedInTheMiddleOfAClaimGoesOn() throws Exception {
        try (Subscriber subscriber = channel.subscriber()) {
            Process child = readyChild("claim");
            assertThrows(NoFreeSlotException.class, () -> channel.publisher("mortal"));
            for (int i = 0; i < 3; i++) {
                assertArrayEquals(Rings.pattern(i, 100), subscriber.take().toByteArray());
            }
            assertNull(subscriber.take());
            kill(child);
            assertNull(subscriber.take());
            try (Publisher next = channel.publisher("mortal")) {
                assertEquals(2, next.epoch());
                assertNull(subscriber.take());
                assertTrue(next.offer(Rings.pattern(9, 30)) > 0);
                assertArrayEquals(Rings.pattern(9, 30), subscriber.take().toByteArray());
                assertNull(subscriber.take());
                assertEquals(4, channel.trailers().get(0).getLong(Layout.TRAILER_MESSAGES_DONE));
            }
        }
    }

    private static void assertGoesOn(Channel channel, Subscriber subscriber) {
        try (Publisher next = channel.publisher("mortal")) {
            assertNull(subscriber.take());
            for (int i = 0; i < 300; i++) {
                assertTrue(next.offer(Rings.pattern(i, i % 90)) > 0, "message " + i);
                Message message = subscriber.take();
                assertArrayEquals(Rings.pattern(i, i % 90), message.toByteArray());
                assertEquals(2, message.sender().epoch());
            }
            assertTrue(next.position() > 3 * 4096);
        }
    }

    @Test
    void aDeadClaimAtTheRingsEndHarmsNoOther() throws Exception {
        for (String what : List.of("claim-to-end", "claim-over-end")) {
            channel.close();
            channel = Channel.replace(rings.path("death.ring"),
                ChannelOptions.broadcast().capacity(4096).publishers(1).subscribers(1).counters(0));
            try (Subscriber subscriber = channel.subscriber();
                LossySubscriber lossy = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0)) {
                Process child = child(what);
                int before = 0;
                while (child.getInputStream().available() == 0) { // its claim needs the space of the first lap
                    before += subscriber.poll(message -> assertEquals(40, message.length()));
                    assertTrue(child.isAlive());
                }
                before += subscriber.poll(message -> assertEquals(40, message.length()));
                assertTrue(before > 50, "messages before the claim: " + before);
                kill(child);
                assertNull(lossy.take(), "the claim took the room of the first lap");
                assertEquals(before, lossy.lostMessages(0));
                assertNull(subscriber.take());
                assertGoesOn(channel, subscriber);
                assertNull(lossy.take());
                assertEquals(before + 300, lossy.lostMessages(0));
            }
        }
    }

    @Test
    void aBatchThatIsCutByDeathIsNotDelivered() throws Exception {
        try (Subscriber subscriber = channel.subscriber()) {
            Process child = readyChild("batch");
            assertArrayEquals(Rings.pattern(1, 30), subscriber.take().toByteArray());
            assertNull(subscriber.take());
            assertEquals(38, channel.file().map(channel.header().ringOffset(0), 4096, true).getInt(64 + 64 + 64),
                "its second message is whole");
            kill(child);
            assertNull(subscriber.take());
            assertGoesOn(channel, subscriber);
        }
    }

    @Test
    void aStoppedClaimerIsNeverDeclaredDead() throws Exception {
        try (Subscriber subscriber = channel.subscriber()) {
            Process child = child("commit-later");
            BufferedReader output = new BufferedReader(
                new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8));
            assertEquals("ready", output.readLine());
            signal(child, "STOP");
            for (long since = System.nanoTime(); System.nanoTime() - since < 200_000_000;) {
                assertNull(subscriber.take());
                assertThrows(NoFreeSlotException.class, channel::publisher);
                assertThrows(NoFreeSlotException.class, () -> channel.publisher("mortal"));
            }
            signal(child, "CONT");
            child.getOutputStream().write(1);
            child.getOutputStream().flush();
            assertEquals("committed", output.readLine());
            Message message = subscriber.take();
            assertEquals(List.of(20, 1L), List.of(message.length(), message.sender().epoch()));
            assertEquals(0, child.waitFor());
        }
    }

    @Test
    void aDeadSubscriberNoLongerHoldsThePublisherBack() throws Exception {
        Process child = readyChild("subscribe");
        try (Publisher publisher = channel.publisher()) {
            fill(publisher);
            assertThrows(NoFreeSlotException.class, channel::subscriber);
            Holder holder = publisher.heldBy();
            assertEquals(new Holder(0, "mortal", (int) child.pid(), true, false, holder.position()), holder);
            kill(child);
            assertFalse(publisher.heldBy().live());
            long since = System.nanoTime();
            while (publisher.offer(new byte[500]) < 0) {
                assertTrue(System.nanoTime() - since < 2_000_000_000L, "still held back after 2 s");
            }
            assertNull(publisher.heldBy());
            try (Subscriber next = channel.subscriber()) {
                assertEquals(3, next.epoch());
            }
        }
    }

    private static void fill(Publisher publisher) {
        while (publisher.offer(new byte[500]) > 0) {
            assertTrue(publisher.position() < 10_000);
        }
    }

    @Test
    void aStoppedSubscriberIsAliveAndIsWaitedFor() throws Exception {
        Process child = readyChild("subscribe");
        signal(child, "STOP");
        try (Publisher publisher = channel.publisher()) {
            fill(publisher);
            long since = System.nanoTime();
            while (System.nanoTime() - since < 100_000_000) {
                assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]));
            }
            assertTrue(publisher.heldBy().live());
        }
    }

    @Test
    void aKeptSubscriberThatWasKilledResumesWhereItsGateIs() throws Exception {
        Process child = child("keep");
        try (Publisher publisher = channel.publisher()) {
            long since = System.nanoTime();
            while (publisher.heldBy() == null || !publisher.heldBy().kept()) {
                assertTrue(child.isAlive() && System.nanoTime() - since < 20_000_000_000L);
                Thread.sleep(1);
            }
            for (int i = 0; i < 5; i++) {
                assertTrue(publisher.offer(Rings.pattern(i, 50)) > 0);
            }
            assertEquals('r', child.getInputStream().read());
            kill(child);
            fill(publisher);
            Thread.sleep(3);
            assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]));
            assertEquals("mortal", publisher.heldBy().name());
            try (Subscriber next = channel.subscriber("mortal", true)) {
                for (int i = 2; i < 5; i++) {
                    assertArrayEquals(Rings.pattern(i, 50), next.take().toByteArray());
                }
                assertTrue(publisher.offer(new byte[100]) > 0);
            }
        }
    }

    @Test
    @Tag("long")
    void anotherProcessStreamComesInOrder() throws Exception {
        try (Subscriber subscriber = channel.subscriber()) {
            Process child = child("stream");
            long[] next = new long[1];
            long since = System.nanoTime();
            while (next[0] < 200_000) {
                int got = subscriber.poll(message -> assertEquals(next[0]++,
                    Long.reverseBytes(message.buffer().getLong(0))));
                if (got == 0) {
                    Thread.onSpinWait();
                    assertTrue(System.nanoTime() - since < 30_000_000_000L, "only " + next[0] + " came");
                }
            }
            assertNull(subscriber.take());
            assertNotNull(child);
        }
    }
}
