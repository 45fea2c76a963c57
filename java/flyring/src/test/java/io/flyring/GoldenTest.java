// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The golden files of the specification: their operations write the same bytes, and readers find what they hold. */
class GoldenTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final Map<String, Publisher> publishers = new HashMap<>();
    private final Map<String, Subscriber> subscribers = new HashMap<>();
    private final Map<String, Claim> claims = new HashMap<>();
    private final GoldenJobs jobs = new GoldenJobs();
    private final GoldenCalls calls = new GoldenCalls();
    private Channel channel;

    /** The FOLDER/NAME of all readable files. */
    static Stream<String> names() throws Exception {
        return names("", 30).stream().filter(name -> !name.startsWith("refused/"));
    }

    /** The files of this implementation's layout version, which are also written. */
    static Stream<String> current() throws Exception {
        return names(Layout.MAJOR + "." + Layout.MINOR + "/", 23).stream();
    }

    static Stream<String> newer() throws Exception {
        return names("newer/", 7).stream();
    }

    static Stream<String> refused() throws Exception {
        return names("refused/", 2).stream();
    }

    static Stream<String> dead() throws Exception {
        try (Stream<Path> files = Files.list(Rings.spec("golden/dead"))) {
            List<String> names = files.map(file -> "dead/" + file.getFileName().toString().replace(".json", ""))
                .sorted().toList();
            assertTrue(names.size() > 20, "golden files of the dead: " + names);
            return names.stream();
        }
    }

    /** The bytes with changes applied: [[offset, hex], ...]. */
    static byte[] written(byte[] bytes, JsonArray changes) {
        byte[] changed = bytes.clone();
        for (JsonElement change : changes) {
            byte[] part = HexFormat.of().parseHex(change.getAsJsonArray().get(1).getAsString());
            System.arraycopy(part, 0, changed, change.getAsJsonArray().get(0).getAsInt(), part.length);
        }
        return changed;
    }

    @ParameterizedTest
    @MethodSource("dead")
    void theNextOwnerTakesOverTheDead(String name) throws Exception {
        JsonObject golden = json(name);
        byte[] base = written(new byte[golden.get("file_length").getAsInt()], golden.getAsJsonArray("base"));
        Path path = Path.of(rings.path("dead.ring"));
        int number = 0;
        for (JsonElement element : golden.getAsJsonArray("dead")) {
            JsonObject point = element.getAsJsonObject();
            String what = name + ", point " + number++ + ", last store: " + point.get("last_store").getAsString();
            byte[] left = written(base, point.getAsJsonArray("left"));
            Files.deleteIfExists(path);
            Files.write(path, left);
            channel = Channel.open(path.toString(),
                new OpenOptions().identity(identity(golden.getAsJsonObject("inject"))));
            for (JsonElement operation : point.getAsJsonArray("operations")) {
                perform(operation.getAsJsonObject(), what + ": " + operation);
            }
            int mismatch = Arrays.mismatch(written(left, point.getAsJsonArray("after")), Files.readAllBytes(path));
            assertEquals(-1, mismatch, () -> what + ": byte 0x" + Integer.toHexString(mismatch));
            if (channel.kind() == Kind.SERVICE) {
                assertEquals(GoldenCalls.byClient(point.getAsJsonArray("finds")), calls.finds("reader"), what);
                channel.close();
                calls.clear();
                continue;
            }
            if (jobs.has("reader")) {
                assertEquals(GoldenJobs.sorted(point.getAsJsonArray("finds")), jobs.left(channel, "reader"), what);
                channel.close();
                continue;
            }
            List<String> found = new ArrayList<>();
            Subscriber reader = subscribers.get("reader");
            for (Message message = reader.take(); message != null; message = reader.take()) {
                found.add(message.ring() + ":" + message.type() + "@" + message.position() + ":"
                    + HexFormat.of().formatHex(message.toByteArray()));
            }
            List<String> wanted = new ArrayList<>();
            for (JsonElement each : point.getAsJsonArray("finds")) {
                JsonObject message = each.getAsJsonObject();
                wanted.add(message.get("ring").getAsInt() + ":" + message.get("type").getAsInt() + "@"
                    + message.get("position").getAsLong() + ":" + message.get("data").getAsString());
            }
            found.sort(null);
            wanted.sort(null);
            assertEquals(wanted, found, what);
            channel.close();
        }
    }

    private static List<String> names(String folder, int atLeast) throws Exception {
        Path golden = Rings.spec("golden");
        try (Stream<Path> files = Files.walk(golden)) {
            List<String> names = files.map(file -> golden.relativize(file).toString())
                .filter(name -> name.endsWith(".ring") && name.startsWith(folder))
                .map(name -> name.replace(".ring", "")).sorted().toList();
            assertTrue(names.size() >= atLeast, "golden files: " + names);
            return names;
        }
    }

    static JsonObject json(String name) throws Exception {
        return JsonParser.parseString(Files.readString(Rings.spec("golden/" + name + ".json"))).getAsJsonObject();
    }

    static byte[] data(JsonElement element) {
        if (element.isJsonObject()) {
            JsonObject pattern = element.getAsJsonObject();
            return Rings.pattern(pattern.get("pattern").getAsInt(), pattern.get("length").getAsInt());
        }
        return HexFormat.of().parseHex(element.getAsString());
    }

    private static ChannelOptions options(JsonObject create, JsonObject inject) {
        ChannelOptions options = switch (create.get("kind").getAsString()) {
            case "inbox" -> ChannelOptions.inbox();
            case "queue" -> ChannelOptions.queue();
            case "service" -> service(create);
            default -> ChannelOptions.broadcast();
        };
        if (create.has("producers")) {
            options.producers(create.get("producers").getAsInt());
        }
        if (create.has("workers")) {
            options.workers(create.get("workers").getAsInt());
        }
        if (create.has("capacity")) {
            options.capacity(create.get("capacity").getAsInt());
        }
        if (create.has("publishers")) {
            options.publishers(create.get("publishers").getAsInt());
        }
        if (create.has("subscribers")) {
            options.subscribers(create.get("subscribers").getAsInt());
        }
        options.alignment = number(create, "alignment", options.alignment);
        options.counters = number(create, "counters", options.counters);
        if (create.has("foreign")) {
            options.foreign(Foreign.valueOf(create.get("foreign").getAsString().toUpperCase(Locale.ROOT)));
        }
        if (create.has("schema")) {
            options.schema(create.get("schema").getAsString(), number(create, "schema_id", 0),
                number(create, "schema_version", 0));
        }
        return options.identity(identity(inject));
    }

    private static ChannelOptions service(JsonObject create) {
        ChannelOptions options = ChannelOptions.service();
        if (create.has("clients")) {
            options.clients(create.get("clients").getAsInt());
        }
        if (create.has("delivery")) {
            options.delivery(create.get("delivery").getAsString().equals("at-least-once") ? Delivery.AT_LEAST_ONCE
                : Delivery.AT_MOST_ONCE);
        }
        if (create.has("max_outstanding")) {
            options.maxOutstanding(create.get("max_outstanding").getAsInt());
        }
        return options;
    }

    static Identity identity(JsonObject inject) {
        long now = inject.get("now").getAsLong();
        return new Identity().channelId(UUID.fromString(inject.get("channel_id").getAsString()))
            .bootId(UUID.fromString(inject.get("boot_id").getAsString())).pid(inject.get("pid").getAsInt())
            .createdAt(inject.get("created_at").getAsLong()).clock(() -> now)
            .monotonic(inject.get("monotonic").getAsLong());
    }

    private static int number(JsonObject object, String name, int absent) {
        return object.has(name) ? object.get(name).getAsInt() : absent;
    }

    @ParameterizedTest
    @MethodSource("current")
    void theSameOperationsWriteTheSameBytes(String name) throws Exception {
        JsonObject golden = json(name);
        String path = rings.path("golden");
        channel = Channel.create(path,
            options(golden.getAsJsonObject("create"), golden.getAsJsonObject("inject")));
        int number = 0;
        for (JsonElement operation : golden.getAsJsonArray("operations")) {
            String where = name + " operation " + number++ + " " + operation;
            perform(operation.getAsJsonObject(), where.substring(0, Math.min(300, where.length())));
        }
        ByteBuffer expected = Rings.load(Rings.spec("golden/" + name + ".ring"));
        ByteBuffer actual = Rings.load(Path.of(path));
        int mismatch = expected.mismatch(actual);
        assertEquals(-1, mismatch, () -> "byte 0x" + Integer.toHexString(mismatch) + " of " + name + ": expected "
            + expected.get(mismatch) + ", found " + actual.get(mismatch));
        channel.close();
    }

    private void perform(JsonObject operation, String where) throws Exception {
        String publisher = operation.has("publisher") ? operation.get("publisher").getAsString() : null;
        String subscriber = operation.has("subscriber") ? operation.get("subscriber").getAsString() : null;
        int type = number(operation, "type", 1);
        if (calls.takes(operation)) {
            calls.perform(channel, operation, where);
            return;
        }
        if (operation.has("worker") || operation.get("op").getAsString().equals("worker")) {
            jobs.perform(channel, operation, where);
            return;
        }
        switch (operation.get("op").getAsString()) {
            case "publisher" -> {
                Publisher made = channel.publisher(operation.get("name").getAsString(),
                    number(operation, "max_lag", 0));
                publishers.put(operation.get("as").getAsString(), made);
                assertEquals(operation.get("ring").getAsInt(), made.ring(), where);
                assertEquals(operation.get("epoch").getAsLong(), made.epoch(), where);
                assertEquals(operation.get("position").getAsLong(), made.position(), where);
            }
            case "subscriber" -> {
                int[] chosen = operation.get("rings").isJsonNull() ? null
                    : operation.getAsJsonArray("rings").asList().stream().mapToInt(JsonElement::getAsInt).toArray();
                Subscriber made = channel.subscriber(operation.get("name").getAsString(),
                    operation.get("kept").getAsBoolean(), chosen);
                subscribers.put(operation.get("as").getAsString(), made);
                assertEquals(operation.get("slot").getAsInt(), made.slot(), where);
                assertEquals(operation.get("epoch").getAsLong(), made.epoch(), where);
                JsonObject positions = new JsonObject();
                for (int ring : made.rings()) {
                    positions.addProperty(String.valueOf(ring), made.position(ring));
                }
                assertEquals(operation.get("positions").toString(), positions.toString(), where);
            }
            case "offer" -> {
                byte[] bytes = data(operation.get("data"));
                assertEquals(operation.get("position").getAsLong(),
                    publishers.get(publisher).offer(bytes, 0, bytes.length, type), where);
            }
            case "claim" -> {
                Claim claim = publishers.get(publisher).tryClaim(operation.get("length").getAsInt(), type);
                assertEquals(operation.get("claimed").getAsBoolean(), claim != null, where);
                claims.put(publisher, claim);
            }
            case "commit" -> {
                claims.get(publisher).buffer().putBytes(0, data(operation.get("data")));
                assertEquals(operation.get("position").getAsLong(), claims.get(publisher).commit(), where);
            }
            case "abort" -> assertEquals(operation.get("position").getAsLong(), claims.get(publisher).abort(), where);
            case "offer_batch" -> {
                List<DirectBuffer> batch = new ArrayList<>();
                for (JsonElement message : operation.getAsJsonArray("data")) {
                    PayloadBuffer buffer = new PayloadBuffer();
                    buffer.wrap(data(message));
                    batch.add(buffer);
                }
                assertEquals(operation.get("taken").getAsInt(),
                    publishers.get(publisher).offerBatch(batch.toArray(new DirectBuffer[0]), 0, batch.size(), type),
                    where);
            }
            case "poll" -> assertEquals(operation.get("expect").getAsInt(),
                subscribers.get(subscriber).poll(message -> { }, operation.get("limit").getAsInt()), where);
            case "close" -> {
                if (publisher != null) {
                    publishers.get(publisher).close();
                } else {
                    subscribers.get(subscriber).close();
                }
            }
            case "evict" -> assertEquals(operation.get("messages").getAsLong(),
                channel.evict(operation.get("slot").getAsInt()), where);
            case "foreign_store" -> { // a store by a foreign process
                ByteBuffer bytes = ByteBuffer.wrap(data(operation.get("data")));
                try (FileChannel file = FileChannel.open(Path.of(channel.path()), StandardOpenOption.WRITE)) {
                    assertEquals(bytes.capacity(), file.write(bytes, operation.get("offset").getAsLong()), where);
                }
            }
            case "forget" -> subscribers.get(subscriber).forget();
            case "counter_allocate" -> assertEquals(operation.get("counter").getAsInt(),
                channel.counters().allocate(operation.get("label").getAsString(),
                    number(operation, "type_id", 0), data(operation.get("key"))).id(), where);
            case "counter_set" -> channel.counters().counter(operation.get("counter").getAsInt())
                .set(operation.get("value").getAsLong());
            case "counter_add" -> assertEquals(operation.get("previous").getAsLong(), channel.counters()
                .counter(operation.get("counter").getAsInt()).getAndAdd(operation.get("delta").getAsLong()), where);
            case "counter_free" -> channel.counters().counter(operation.get("counter").getAsInt()).free();
            default -> throw new AssertionError(where);
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void whatAGoldenFileHoldsIsRead(String name) throws Exception {
        JsonObject expected = json(name).getAsJsonObject("expected");
        Path path = Path.of(rings.path("golden"));
        Files.copy(Rings.spec("golden/" + name + ".ring"), path);
        Identity identity = new Identity();
        if (json(name).has("inject") && expected.has("requests")) { // after another boot all requests are dropped
            identity.bootId(UUID.fromString(json(name).getAsJsonObject("inject").get("boot_id").getAsString()));
        }
        try (Channel opened = Channel.open(path.toString(), new OpenOptions().identity(identity))) {
            channel = opened;
            header(expected.getAsJsonObject("header"), expected.get("schema").getAsString(), Files.size(path));
            counters(expected.getAsJsonArray("counters"));
            slots(expected);
            foreign(expected.getAsJsonObject("header").get("required_features").getAsInt());
            for (JsonElement slot : expected.getAsJsonArray("unread")) {
                unread(slot.getAsJsonObject());
            }
            for (JsonElement each : expected.getAsJsonArray("still_there")) {
                stillThere(each.getAsJsonObject());
            }
            if (opened.kind() == Kind.SERVICE) {
                calls.read(opened, expected);
                return;
            }
            if (opened.kind() == Kind.QUEUE) {
                assertEquals(GoldenJobs.sorted(expected.getAsJsonArray("jobs")), GoldenJobs.left(opened));
            }
            for (JsonElement each : expected.getAsJsonArray("publishers")) {
                publisher(each.getAsJsonObject());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("newer")
    void aFileOfANewerMinorVersionIsWrittenToAndWhatIsReservedStays(String name) throws Exception {
        Path path = Path.of(rings.path("golden"));
        Files.copy(Rings.spec("golden/" + name + ".ring"), path);
        ByteBuffer before = Rings.load(path);
        String kept = "";
        for (JsonElement slot : json(name).getAsJsonObject("expected").getAsJsonArray("subscribers")) {
            if (slot.getAsJsonObject().get("kept").getAsInt() == 1 && kept.isEmpty()) {
                kept = slot.getAsJsonObject().get("name").getAsString();
            }
        }
        try (Channel opened = Channel.open(path.toString())) {
            Subscriber subscriber = opened.foreign() == Foreign.SUBSCRIBER ? null : opened.subscriber(kept, false);
            while (subscriber != null && subscriber.take() != null) {
                continue;
            }
            byte[] data = "from an older version".getBytes(StandardCharsets.US_ASCII);
            for (int i = 0; i < (opened.foreign() == Foreign.PUBLISHER ? 0 : opened.publishers()); i++) {
                Publisher publisher = opened.publisher("");
                long end = System.nanoTime() + 2_000_000_000L;
                while (publisher.offer(data, 0, data.length, 77) < 0) {
                    assertTrue(System.nanoTime() < end, "held back for 2 s");
                    Thread.yield();
                }
                if (subscriber != null && Arrays.stream(subscriber.rings()).anyMatch(r -> r == publisher.ring())) {
                    assertArrayEquals(data, subscriber.take().toByteArray());
                }
            }
            opened.counters().forEach(counter -> counter.getAndAdd(1));
        }
        ByteBuffer after = Rings.load(path);
        assertEquals(before.capacity(), after.capacity());
        assertTrue(before.mismatch(after) > 0, "nothing was written");
        for (JsonElement range : json(name).getAsJsonArray("reserved")) {
            int at = range.getAsJsonArray().get(0).getAsInt();
            int length = range.getAsJsonArray().get(1).getAsInt();
            assertEquals(before.slice(at, length), after.slice(at, length), "reserved bytes from " + at);
        }
    }

    @ParameterizedTest
    @MethodSource("refused")
    void aFileThatNeedsANewerVersionIsRefused(String name) throws Exception {
        JsonObject expected = json(name);
        Path path = Path.of(rings.path("golden"));
        Files.copy(Rings.spec("golden/" + name + ".ring"), path);
        VersionTooNewException error = assertThrows(VersionTooNewException.class,
            () -> Channel.open(path.toString()));
        assertEquals(expected.get("error").getAsString(), error.code());
        assertEquals(expected.get("field").getAsString(), error.field());
        assertEquals(expected.get("found").getAsLong(), error.found());
    }

    /** Checks that the slot of a foreign end cannot be taken (6.15). */
    private void foreign(int features) {
        Foreign foreign = channel.foreign();
        assertEquals(features, foreign.feature);
        if (foreign != Foreign.NONE) {
            InvalidArgumentException error = assertThrows(InvalidArgumentException.class,
                () -> (foreign == Foreign.PUBLISHER ? channel.publisher("") : channel.subscriber("", false)).close());
            assertEquals("foreign", error.argument());
        }
    }

    private void header(JsonObject header, String schema, long size) {
        assertEquals(header.get("channel_id").getAsString(), channel.id().toString());
        assertEquals(header.get("created_at").getAsLong(), channel.createdAt());
        assertEquals(header.get("kind").getAsInt(), channel.kind().code);
        assertEquals(header.get("alignment").getAsInt(), channel.alignment());
        assertEquals(header.get("capacity").getAsInt(), channel.capacity());
        assertEquals(header.get("publishers").getAsInt(), channel.publishers());
        assertEquals(header.get("subscribers").getAsInt(), channel.subscribers());
        assertEquals(header.get("counters").getAsInt(), channel.counterSlots());
        assertEquals(header.get("schema_id").getAsInt(), channel.schemaId());
        assertEquals(header.get("schema_version").getAsInt(), channel.schemaVersion());
        assertEquals(header.get("file_length").getAsLong(), size);
        assertEquals(header.get("ring_stride").getAsLong(), channel.header().ringStride);
        assertEquals(header.get("schema_offset").getAsLong(), channel.header().schemaOffset);
        assertEquals(schema, channel.schema());
    }

    private void counters(JsonArray expected) {
        JsonArray found = new JsonArray();
        channel.counters().forEach(counter -> {
            JsonObject each = new JsonObject();
            each.addProperty("id", counter.id());
            each.addProperty("label", counter.label());
            each.addProperty("type_id", counter.typeId());
            each.addProperty("key", HexFormat.of().formatHex(counter.key()));
            each.addProperty("value", counter.getVolatile());
            found.add(each);
        });
        assertEquals(expected.toString(), found.toString());
    }

    private void slots(JsonObject expected) {
        Memory control = channel.control();
        for (JsonElement element : expected.getAsJsonArray("publishers")) {
            JsonObject slot = element.getAsJsonObject();
            int at = channel.header().publisherSlot(slot.get("ring").getAsInt());
            assertEquals(slot.get("epoch").getAsLong(), control.getLong(at + Layout.PUBLISHER_SLOT_EPOCH));
            assertEquals(slot.get("start").getAsLong(), control.getLong(at + Layout.PUBLISHER_SLOT_START));
            assertEquals(slot.get("closed").getAsInt(), control.getInt(at + Layout.PUBLISHER_SLOT_CLOSED));
            assertEquals(slot.get("name").getAsString(), name(control, at));
            assertEquals(slot.get("blocked_since").getAsLong(),
                control.getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE));
            assertEquals(slot.get("blocked_length").getAsLong(),
                control.getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_LENGTH));
        }
        for (JsonElement element : expected.getAsJsonArray("subscribers")) {
            JsonObject slot = element.getAsJsonObject();
            int number = slot.get("slot").getAsInt();
            JsonArray gates = slot.getAsJsonArray("gates");
            int its = channel.header().subscriberSlot(number);
            assertEquals(slot.get("evicting").getAsInt(), control.getInt(its + Layout.SUBSCRIBER_SLOT_EVICTING));
            assertEquals(slot.get("discarded").getAsLong(), control.getLong(its + Layout.SUBSCRIBER_SLOT_DISCARDED));
            int gateAt = channel.header().gateAt(number);
            for (int i = 0, ring = 0; i < gates.size(); i++, ring++) {
                while (!channel.header().mayGate(ring, number)) {
                    ring++; // the slot cannot gate this ring; a slot of a service gates only its own
                }
                long gate = channel.trailers().get(ring).getLong(gateAt);
                assertEquals(gates.get(i).getAsLong(), gate);
                assertEquals(slot.getAsJsonArray("counts").get(i).getAsLong(),
                    channel.trailers().get(ring).getLong(gateAt + Layout.GATE_COUNT));
                Holder holder;
                try (Lock lock = channel.file().newLock()) {
                    holder = channel.slots().holder(lock, number, gate);
                }
                boolean live = channel.foreign() == Foreign.SUBSCRIBER;
                assertEquals(new Holder(number, slot.get("name").getAsString(), slot.get("pid").getAsInt(), live,
                    slot.get("kept").getAsInt() == 1, gate), holder);
            }
        }
    }

    private static String name(Memory control, int at) {
        byte[] name = new byte[control.getInt(at + Layout.PUBLISHER_SLOT_NAME_LENGTH)];
        control.getBytes(at + Layout.PUBLISHER_SLOT_NAME, name, 0, name.length);
        return new String(name, StandardCharsets.UTF_8);
    }

    /** Resumes the slot once for each of its rings, so that each comparison concerns one ring. */
    private void unread(JsonObject expected) throws Exception {
        int ring = expected.get("ring").getAsInt();
        Path copy = Path.of(rings.path("copy"));
        Files.copy(Path.of(channel.path()), copy);
        try (Channel other = Channel.open(copy.toString());
            Subscriber subscriber = other.subscriber(expected.get("name").getAsString(), false)) {
            assertEquals(expected.get("slot").getAsInt(), subscriber.slot());
            assertTrue(subscriber.kept());
            List<String> found = new ArrayList<>();
            for (Message message = subscriber.take(); message != null; message = subscriber.take()) {
                if (message.ring() == ring) {
                    found.add(message.type() + "@" + message.position() + ":"
                        + HexFormat.of().formatHex(message.toByteArray()));
                }
            }
            List<String> wanted = new ArrayList<>();
            for (JsonElement element : expected.getAsJsonArray("messages")) {
                JsonObject message = element.getAsJsonObject();
                wanted.add(message.get("type").getAsInt() + "@" + message.get("position").getAsLong() + ":"
                    + message.get("data").getAsString());
            }
            assertEquals(wanted, found);
            assertNull(subscriber.take());
        }
        Files.delete(copy);
    }

    /** Checks what a lossy subscriber finds that starts at the oldest message. */
    private void stillThere(JsonObject expected) {
        int ring = expected.get("ring").getAsInt();
        try (Channel reading = Rings.openReadOnly(channel.path());
            LossySubscriber lossy = reading.lossySubscriber(Start.OLDEST, ring)) {
            JsonArray found = new JsonArray();
            lossy.poll(message -> {
                JsonObject each = new JsonObject();
                each.addProperty("type", message.type());
                each.addProperty("position", message.position());
                each.addProperty("data", HexFormat.of().formatHex(message.toByteArray()));
                JsonObject sender = new JsonObject();
                sender.addProperty("name", message.sender().name());
                sender.addProperty("epoch", message.sender().epoch());
                each.add("sender", sender);
                found.add(each);
            }, Integer.MAX_VALUE);
            assertEquals(expected.getAsJsonArray("messages"), found);
            assertEquals(expected.get("ended").getAsBoolean(), lossy.ended(ring));
            assertEquals(0, lossy.lostMessages(ring) + lossy.lostBytes(ring));
        }
    }

    private void publisher(JsonObject expected) {
        String name = expected.get("name").getAsString();
        if (name.isEmpty()) {
            return;
        }
        try (Publisher publisher = channel.publisher(name)) {
            assertEquals(expected.get("ring").getAsInt(), publisher.ring());
            assertEquals(expected.get("epoch").getAsLong() + 1, publisher.epoch());
            assertEquals(expected.get("claimed").getAsLong(), publisher.position());
            assertFalse(publisher.busy());
        }
    }
}
