// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Heartbeats: counters by which threads show that they run. Spec channel.md 8.1. */
class HeartbeatTest {
    private static final int PID = (int) ProcessHandle.current().pid();

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel(int counters) {
        return Channel.create(rings.path("c.ring"), ChannelOptions.broadcast().capacity(4096).counters(counters));
    }

    private static HeartbeatStats only(Channel channel) {
        List<HeartbeatStats> all = channel.stats().heartbeats();
        assertEquals(1, all.size());
        return all.get(0);
    }

    @Test
    void statsShowNamePidIntervalAndBeats() {
        long before = System.currentTimeMillis();
        try (Channel one = channel(3);
             Channel other = Channel.open(one.path(), new OpenOptions().readOnly(true))) {
            Counter counter = one.counters().allocate("loop"); // another counter of this label, which stays
            Heartbeat heart = new Heartbeat(one, "loop", Duration.ofMillis(500));
            HeartbeatStats shown = only(other);
            assertEquals(List.of(heart.id(), "loop", PID), List.of(shown.id(), shown.name(), shown.pid()));
            assertEquals(List.of(500_000_000L, 0L), List.of(shown.interval(), shown.beats()));
            long started = shown.startedAt() / 1_000_000;
            assertTrue(before <= started && started <= System.currentTimeMillis());
            for (int i = 0; i < 3; i++) {
                heart.beat();
            }
            assertEquals(List.of(3L, 3L), List.of(only(other).beats(), heart.beats()));
            assertEquals("loop", heart.name());
            assertEquals(Duration.ofMillis(500), heart.interval());
            assertEquals(0, counter.get());
            heart.close();
        }
    }

    @Test
    void theCounterIsAsTheSpecSays() {
        try (Channel one = channel(3); Heartbeat heart = new Heartbeat(one, "loop")) {
            Counter counter = one.counters().counter(heart.id());
            assertEquals(List.of(1_111_834_964, "loop"), List.of(counter.typeId(), counter.label()));
            ByteBuffer key = ByteBuffer.wrap(counter.key()).order(ByteOrder.LITTLE_ENDIAN);
            assertEquals(List.of(PID, 0, 1_000_000_000L), List.of(key.getInt(), key.getInt(), key.getLong()));
            assertArrayEquals(new byte[88], Arrays.copyOfRange(counter.key(), 24, 112));
        }
    }

    @Test
    void closeFreesTheCounter() {
        try (Channel one = channel(1)) {
            Heartbeat heart = new Heartbeat(one, "loop");
            assertThrows(NoSpaceException.class, () -> new Heartbeat(one, "other"));
            heart.close();
            heart.close();
            assertThrows(ClosedException.class, heart::beat);
            assertEquals(0, heart.beats());
            assertEquals(List.of(), one.stats().heartbeats());
            new Heartbeat(one, "other").close();
        }
    }

    @Test
    void theNextOneOfTheNameTakesItOver() {
        try (Channel one = channel(3); Channel two = Channel.open(one.path());
             Heartbeat old = new Heartbeat(one, "loop"); Heartbeat another = new Heartbeat(one, "another")) {
            old.beat();
            Heartbeat fresh = new Heartbeat(two, "loop", Duration.ZERO);
            assertThrows(ClosedException.class, old::beat);
            old.close(); // frees nothing: the counter is the new one's
            fresh.beat();
            another.beat();
            assertEquals(List.of("another 1 1000000000", "loop 1 0"), one.stats().heartbeats().stream()
                .map(each -> each.name() + " " + each.beats() + " " + each.interval()).sorted().toList());
            fresh.close();
        }
    }

    @Test
    void aKilledProcessLeavesItUntilTheNextOne() throws Exception {
        try (Channel one = channel(1)) {
            Process child = Rings.java(Child.class, "beat", one.path()).start();
            assertEquals("ready", child.inputReader().readLine());
            assertEquals(137, child.destroyForcibly().waitFor());
            HeartbeatStats shown = only(one);
            assertEquals(List.of("loop", (int) child.pid(), 5L, 250_000_000L),
                List.of(shown.name(), shown.pid(), shown.beats(), shown.interval()));
            try (Heartbeat heart = new Heartbeat(one, "loop")) {
                assertEquals(List.of(PID, 0L), List.of(only(one).pid(), only(one).beats()));
                assertEquals(0, heart.beats());
            }
            assertEquals(List.of(), one.stats().heartbeats());
        }
    }

    @Test
    void theChannelIsClosedFirst() {
        Channel one = channel(1);
        Heartbeat heart = new Heartbeat(one, "loop");
        heart.beat();
        one.close();
        assertThrows(ClosedException.class, heart::beat);
        heart.close();
        assertThrows(ClosedException.class, () -> new Heartbeat(one, "loop"));
        try (Channel two = Channel.open(one.path())) {
            assertEquals(1, only(two).beats());
            new Heartbeat(two, "loop").close();
            assertEquals(List.of(), two.stats().heartbeats());
        }
    }

    @Test
    void arguments() {
        try (Channel one = channel(1); Channel reader = Channel.open(one.path(), new OpenOptions().readOnly(true))) {
            for (String name : List.of("", "no name", "x".repeat(65))) {
                assertEquals("name",
                    assertThrows(InvalidArgumentException.class, () -> new Heartbeat(one, name)).argument());
            }
            assertEquals("interval", assertThrows(InvalidArgumentException.class,
                () -> new Heartbeat(one, "loop", Duration.ofMillis(-1))).argument());
            assertThrows(AccessDeniedException.class, () -> new Heartbeat(reader, "loop"));
            assertEquals(List.of(), one.stats().counters());
        }
    }

    @Test
    void aKeyOfAnotherProgram() {
        try (Channel one = channel(3)) {
            byte[] key = new byte[112];
            Arrays.fill(key, (byte) 0xff);
            one.counters().allocate("größe", Layout.COUNTER_METADATA_TYPE_HEARTBEAT, key).set(-1);
            HeartbeatStats shown = only(one);
            assertEquals("größe", shown.name());
            assertEquals(List.of(-1, -1L, -1L, -1L),
                List.of(shown.pid(), shown.interval(), shown.startedAt(), shown.beats()));
        }
    }
}
