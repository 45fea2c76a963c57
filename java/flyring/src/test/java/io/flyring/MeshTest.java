// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Meshes: members that beat by messages, and note when they received the beats of the others. Spec channel.md 8.2. */
class MeshTest {
    private static final Duration EVERY = Duration.ofMillis(5);

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel(String name, int publishers) {
        return Channel.create(rings.path(name),
            ChannelOptions.broadcast().capacity(16384).publishers(publishers).subscribers(0).counters(0));
    }

    @Test
    void theBytesAreAsTheSpecSays() throws IOException {
        JsonObject golden = JsonParser.parseString(Files.readString(Rings.spec("golden/mesh.json"))).getAsJsonObject();
        JsonObject beat = golden.getAsJsonObject("beat");
        JsonArray receipts = golden.getAsJsonArray("receipts");
        ByteBuffer bytes = ByteBuffer.allocate(48 + 32 * receipts.size()).order(ByteOrder.LITTLE_ENDIAN);
        Mesh.encode(bytes, beat.get("sequence").getAsLong(), beat.get("every").getAsLong(),
            beat.get("due").getAsLong(), beat.get("woke").getAsLong(), beat.get("sent").getAsLong(), receipts.size());
        for (int i = 0; i < receipts.size(); i++) {
            JsonObject one = receipts.get(i).getAsJsonObject();
            Mesh.encodeReceipt(bytes, i, one.get("ring").getAsInt(), one.get("sequence").getAsLong(),
                one.get("sent").getAsLong(), one.get("received").getAsLong());
        }
        assertEquals(golden.get("bytes").getAsString(), HexFormat.of().formatHex(bytes.array()));
        assertEquals(1_111_834_964, Layout.BEAT_TYPE);
    }

    @Test
    void membersBeatAndNoteReceipts() {
        try (Channel channel = channel("m.ring", 3); LossySubscriber reader = channel.lossySubscriber();
             Mesh a = new Mesh(channel, "a", EVERY); Mesh b = new Mesh(channel, "b", EVERY)) {
            Map<Integer, Integer> beats = new HashMap<>();
            Map<Integer, Long> noted = new HashMap<>();
            long giveUp = System.nanoTime() + 30_000_000_000L;
            while (noted.getOrDefault(a.ring(), 0L) < 10 || noted.getOrDefault(b.ring(), 0L) < 10) {
                assertTrue(System.nanoTime() < giveUp, () -> beats + " beats, receipts up to " + noted);
                Message message = reader.take(Duration.ofSeconds(1));
                if (message != null) {
                    int other = message.ring() == a.ring() ? b.ring() : a.ring();
                    check(message, beats.merge(message.ring(), 1, Integer::sum) - 1, other, noted);
                }
            }
            assertTrue(a.beats() > 10);
            assertEquals(List.of("a", EVERY), List.of(a.name(), a.every()));
        }
    }

    private static void check(Message message, int sequence, int other, Map<Integer, Long> noted) {
        ByteBuffer bytes = ByteBuffer.wrap(message.toByteArray()).order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(Layout.BEAT_TYPE, message.type());
        assertEquals(sequence, bytes.getLong(0));
        assertEquals(EVERY.toNanos(), bytes.getLong(8));
        assertTrue(bytes.getLong(16) <= bytes.getLong(24) && bytes.getLong(24) <= bytes.getLong(32));
        assertEquals(bytes.capacity(), 48 + 32 * bytes.getInt(40));
        for (int at = 48; at < bytes.capacity(); at += 32) {
            assertEquals(other, bytes.getInt(at));
            Long before = noted.put(message.ring(), bytes.getLong(at + 8));
            assertTrue(before == null || before + 1 == bytes.getLong(at + 8));
            assertTrue(bytes.getLong(at + 16) <= bytes.getLong(at + 24));
        }
    }

    @Test
    void closeLeavesTheMesh() {
        try (Channel channel = channel("m.ring", 3)) {
            Mesh one = new Mesh(channel, "a");
            assertEquals(SlotState.LIVE, channel.stats().publishers().get(one.ring()).state());
            one.close();
            one.close();
            assertEquals(SlotState.CLOSED, channel.stats().publishers().get(one.ring()).state());
        }
    }

    @Test
    void theCloseOfTheChannelEndsTheThread() throws InterruptedException {
        Channel channel = channel("m.ring", 3);
        Mesh one = new Mesh(channel, "a", Duration.ofMillis(1));
        while (one.beats() < 3) {
            Thread.sleep(1);
        }
        channel.close();
        Thread.sleep(300);
        long beats = one.beats();
        Thread.sleep(100);
        assertEquals(beats, one.beats());
        one.close();
    }

    @Test
    void whatIsRefused() {
        try (Channel channel = channel("m.ring", 2); Channel single = channel("one.ring", 1);
             Channel inbox = Channel.create(rings.path("i.ring"), ChannelOptions.inbox().capacity(4096))) {
            refused("name", channel, "", EVERY);
            refused("name", channel, "a b", EVERY);
            refused("every", channel, "a", Duration.ZERO);
            refused("kind", inbox, "a", EVERY);
            refused("publishers", single, "a", EVERY);
            try (Mesh a = new Mesh(channel, "a"); Mesh b = new Mesh(channel, "b")) {
                assertTrue(a.ring() != b.ring());
                assertThrows(NoFreeSlotException.class, () -> new Mesh(channel, "c"));
            }
            channel.close();
            assertThrows(ClosedException.class, () -> new Mesh(channel, "a"));
        }
    }

    private static void refused(String argument, Channel channel, String name, Duration every) {
        InvalidArgumentException error =
            assertThrows(InvalidArgumentException.class, () -> new Mesh(channel, name, every));
        assertEquals(argument, error.argument());
    }
}
