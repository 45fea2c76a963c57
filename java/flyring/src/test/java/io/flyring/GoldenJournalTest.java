// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/** The golden files of journals: spec/golden/README.md, "Journals". */
class GoldenJournalTest {
    private static final String CURRENT = Layout.MAJOR + "." + Layout.MINOR;

    @RegisterExtension
    final Rings rings = new Rings();

    private final Map<String, JournalConsumer> consumers = new HashMap<>();
    private Journal journal;
    private JournalWriter writer;
    private JournalClaim claim;
    private Identity identity;

    private static Stream<String> names(String folder, int atLeast) throws Exception {
        try (Stream<Path> files = Files.list(Rings.spec("golden/journal/" + folder))) {
            var names = files.map(file -> file.getFileName().toString()).filter(name -> name.endsWith(".json"))
                .map(name -> name.replace(".json", "")).sorted().toList();
            assertTrue(names.size() >= atLeast, "golden files: " + names);
            return names.stream();
        }
    }

    static Stream<String> current() throws Exception {
        return names(CURRENT, 12);
    }

    static Stream<String> dead() throws Exception {
        return names("dead", 29);
    }

    private static JsonObject json(String name) throws Exception {
        return GoldenTest.json("journal/" + name);
    }

    private Path path() {
        return rings.folder().resolve("j.journal");
    }

    private static Map<String, byte[]> files(Path folder) throws Exception {
        Map<String, byte[]> found = new TreeMap<>();
        try (Stream<Path> all = Files.list(folder)) {
            for (Path file : all.toList()) {
                found.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return found;
    }

    private void write(Map<String, byte[]> files) throws Exception {
        if (Files.exists(path())) {
            Folders.remove(path());
        }
        Files.createDirectories(path());
        for (Map.Entry<String, byte[]> file : files.entrySet()) {
            Files.write(path().resolve(file.getKey()), file.getValue());
        }
    }

    /** The files with the changes of a JSON file. */
    private static Map<String, byte[]> changed(Map<String, byte[]> files, JsonObject changes) {
        Map<String, byte[]> found = new TreeMap<>(files);
        for (Map.Entry<String, JsonElement> change : changes.entrySet()) {
            if (change.getValue().isJsonNull()) {
                found.remove(change.getKey());
                continue;
            }
            JsonObject file = change.getValue().getAsJsonObject();
            byte[] before = found.getOrDefault(change.getKey(), new byte[file.get("length").getAsInt()]);
            found.put(change.getKey(), GoldenTest.written(before, file.getAsJsonArray("runs")));
        }
        return found;
    }

    private void expectFiles(Map<String, byte[]> expected, String where) throws Exception {
        Map<String, byte[]> found = files(path());
        assertEquals(expected.keySet(), found.keySet(), where);
        for (Map.Entry<String, byte[]> file : expected.entrySet()) {
            byte[] bytes = found.get(file.getKey());
            assertEquals(file.getValue().length, bytes.length, where + ", " + file.getKey());
            int at = Arrays.mismatch(file.getValue(), bytes);
            assertEquals(-1, at, () -> where + ", " + file.getKey() + ": byte 0x" + Integer.toHexString(at) + " is "
                + bytes[at] + ", not " + file.getValue()[at]);
        }
    }

    private static JournalOptions options(JsonObject create) {
        JournalOptions options = new JournalOptions().segmentSize(Journals.SMALL);
        if (create.has("segment_size")) {
            options.segmentSize(create.get("segment_size").getAsInt());
        }
        if (create.has("consumers")) {
            options.consumers(create.get("consumers").getAsInt());
        }
        if (create.has("content")) {
            options.content(create.get("content").getAsInt());
        }
        if (create.has("sync_every")) {
            options.sync(new JournalSync(create.get("sync_every").getAsLong()));
        }
        if (create.has("max_age")) {
            options.maxAge(Duration.ofNanos(create.get("max_age").getAsLong()));
            options.maxSize(create.get("max_size").getAsLong());
        }
        if (create.has("trim_consumed")) {
            options.trimConsumed(create.get("trim_consumed").getAsInt() == 1);
        }
        if (create.has("schema")) {
            options.schema = create.get("schema").getAsString().getBytes(StandardCharsets.UTF_8);
            options.schemaId = create.get("schema_id").getAsInt();
            options.schemaVersion = create.get("schema_version").getAsInt();
        }
        return options;
    }

    private void open() {
        journal = Journal.open(path().toString(), new OpenOptions().identity(identity));
    }

    @AfterEach
    void end() {
        if (journal != null) {
            if (claim != null) {
                claim.close();
            }
            journal.close();
        }
        claim = null;
        writer = null;
        journal = null;
        consumers.clear();
    }

    private static JsonObject facts(Message message) {
        byte[] data = message.toByteArray();
        CRC32C crc = new CRC32C();
        crc.update(data);
        JsonObject facts = new JsonObject();
        facts.addProperty("position", message.position());
        facts.addProperty("number", message.number());
        facts.addProperty("type", message.type());
        facts.addProperty("time", message.time());
        facts.addProperty("length", data.length);
        facts.addProperty("crc", crc.getValue());
        return facts;
    }

    private static JsonArray read(JournalReads reader, int limit) {
        JsonArray found = new JsonArray();
        reader.poll(message -> found.add(facts(message)), limit);
        return found;
    }

    private void expectMessages(JsonArray expected, JournalStart start, String where) {
        try (JournalReader reader = journal.reader(start)) {
            assertEquals(expected.toString(), read(reader, 256).toString(), where);
        }
    }

    private void operate(JsonObject operation, String where) throws Exception {
        String op = operation.get("op").getAsString();
        switch (op) {
            case "writer" -> {
                writer = journal.writer(operation.get("name").getAsString(), false, 1, Duration.ZERO);
                assertEquals(operation.get("epoch").getAsLong(), writer.epoch(), where);
                expectRecovery(operation.get("recovery"), where);
            }
            case "close_writer" -> writer.close();
            case "sync" -> writer.sync();
            case "push" -> assertEquals(operation.get("position").getAsLong(), journal.push(data(operation),
                operation.get("type").getAsInt(), Duration.ZERO), where);
            case "append" -> {
                if (operation.has("error")) {
                    assertEquals(operation.get("error").getAsString(),
                        assertThrows(FlyringException.class, () -> append(operation), where).code(), where);
                } else {
                    assertEquals(operation.get("position").getAsLong(), append(operation), where);
                }
            }
            case "append_many" -> {
                JsonArray all = operation.getAsJsonArray("data");
                DirectBuffer[] messages = new DirectBuffer[all.size()];
                for (int i = 0; i < messages.length; i++) {
                    messages[i] = TableTest.buffer(GoldenTest.data(all.get(i)));
                }
                assertEquals(operation.get("count").getAsInt(),
                    writer.appendMany(messages, 0, messages.length, operation.get("type").getAsInt()), where);
            }
            case "claim" -> claim = writer.claim(operation.get("length").getAsInt(),
                operation.get("type").getAsInt());
            case "commit" -> {
                claim.buffer().putBytes(0, data(operation));
                assertEquals(operation.get("position").getAsLong(), claim.commit(), where);
                claim = null;
            }
            case "abort" -> {
                claim.abort();
                claim = null;
            }
            case "trim" -> trim(operation, where);
            case "reboot" -> {
                Map<String, byte[]> files = files(path());
                end();
                write(files);
                identity.bootId(UUID.fromString(operation.get("boot_id").getAsString()));
                open();
            }
            case "foreign_store" -> {
                try (FileChannel file = FileChannel.open(path().resolve(operation.get("file").getAsString()),
                    StandardOpenOption.WRITE)) {
                    file.write(ByteBuffer.wrap(data(operation)), operation.get("offset").getAsLong());
                }
            }
            default -> consume(operation, op, where);
        }
    }

    private static byte[] data(JsonObject operation) {
        return GoldenTest.data(operation.get("data"));
    }

    private long append(JsonObject operation) {
        byte[] data = data(operation);
        int type = operation.get("type").getAsInt();
        return operation.has("time") ? writer.append(data, 0, data.length, type, operation.get("time").getAsLong())
            : writer.append(data, 0, data.length, type);
    }

    private void consume(JsonObject operation, String op, String where) {
        if (op.equals("consumer")) {
            String name = operation.get("name").getAsString();
            JournalConsumer made = journal.consumer(name,
                operation.get("start").getAsString().equals("oldest") ? JournalStart.OLDEST : JournalStart.NEWEST);
            consumers.put(name, made);
            assertEquals(operation.get("position").getAsLong(), made.position(), where);
            assertEquals(operation.get("number").getAsLong(), made.number(), where);
            assertEquals(operation.get("lost").getAsLong(), made.lost(), where);
            return;
        }
        String name = operation.get("consumer").getAsString();
        JournalConsumer consumer = consumers.get(name);
        switch (op) {
            case "poll" -> {
                JsonArray numbers = new JsonArray();
                consumer.poll(message -> numbers.add(message.number()), operation.get("limit").getAsInt());
                assertEquals(operation.get("numbers").toString(), numbers.toString(), where);
            }
            case "close_consumer" -> {
                consumer.close();
                consumers.remove(name);
            }
            case "forget" -> {
                consumer.close();
                consumers.remove(name);
                journal.forget(name);
            }
            default -> throw new IllegalArgumentException(op);
        }
    }

    private void trim(JsonObject operation, String where) throws Exception {
        int before = files(path()).size();
        JsonElement limit = operation.get("position");
        long freed = limit.isJsonNull() ? journal.trimConsumed() : journal.trimPosition(limit.getAsLong());
        int segments = operation.get("segments").getAsInt();
        assertEquals(segments, before - files(path()).size(), where);
        assertTrue(freed >= segments * journal.segmentSize(), where);
    }

    private void expectRecovery(JsonElement expected, String where) {
        JournalRecovery found = writer.recovery();
        if (expected.isJsonNull()) {
            assertNull(found, where);
            return;
        }
        JsonObject facts = new JsonObject();
        facts.addProperty("position", found.position());
        facts.addProperty("next", found.next());
        facts.addProperty("messages", found.messages());
        facts.addProperty("reached", found.reached());
        facts.addProperty("reason", found.reason());
        assertEquals(expected.toString(), facts.toString(), where);
    }

    @ParameterizedTest
    @MethodSource("current")
    void theSameOperationsWriteTheSameBytes(String name) throws Exception {
        JsonObject golden = json(CURRENT + "/" + name);
        identity = GoldenTest.identity(golden.getAsJsonObject("inject"));
        journal = Journal.create(path().toString(), options(golden.getAsJsonObject("create")).identity(identity));
        int number = 0;
        for (JsonElement operation : golden.getAsJsonArray("operations")) {
            operate(operation.getAsJsonObject(), name + ", operation " + number++ + ": " + operation);
        }
        expectFiles(files(Rings.spec("golden/journal/" + CURRENT + "/" + name)), name);
        expectMessages(golden.getAsJsonObject("expected").getAsJsonArray("messages"), JournalStart.OLDEST, name);
    }

    @ParameterizedTest
    @MethodSource("current")
    void aReaderFindsWhatIsInTheFile(String name) throws Exception {
        JsonObject golden = json(CURRENT + "/" + name);
        JsonObject expected = golden.getAsJsonObject("expected");
        Map<String, byte[]> files = files(Rings.spec("golden/journal/" + CURRENT + "/" + name));
        write(files);
        ByteBuffer boot = ByteBuffer.wrap(files.get("control"), Layout.HEADER_LENGTH, 16);
        identity = new Identity().bootId(new UUID(boot.getLong(), boot.getLong()));
        for (boolean readOnly : new boolean[] {true, false}) {
            journal = Journal.open(path().toString(), new OpenOptions().readOnly(readOnly).identity(identity));
            JsonArray messages = expected.getAsJsonArray("messages");
            expectMessages(messages, JournalStart.OLDEST, name);
            for (int i = 0; i < messages.size(); i += 3) { // from each third one, by position and number
                JsonArray rest = new JsonArray();
                for (int k = i; k < messages.size(); k++) {
                    rest.add(messages.get(k));
                }
                JsonObject first = messages.get(i).getAsJsonObject();
                expectMessages(rest, JournalStart.position(first.get("position").getAsLong()), name);
                expectMessages(rest, JournalStart.number(first.get("number").getAsLong()), name);
            }
            expectFacts(expected, golden.getAsJsonObject("create"));
            journal.close();
        }
        expectFiles(files, "a reader changes nothing");
    }

    private void expectFacts(JsonObject expected, JsonObject create) {
        JsonObject header = expected.getAsJsonObject("header");
        JsonObject control = expected.getAsJsonObject("control");
        JsonObject owner = expected.getAsJsonObject("writer");
        assertEquals(header.get("segment_size").getAsLong(), journal.segmentSize());
        assertEquals(header.get("consumers").getAsInt(), journal.consumers());
        assertEquals(header.get("content").getAsInt(), journal.content());
        assertEquals(header.get("created_at").getAsLong(), journal.createdAt());
        assertEquals(header.get("journal_id").getAsString(), journal.id().toString());
        assertEquals(header.get("schema_id").getAsInt(), journal.schemaId());
        assertEquals(create.has("schema") ? create.get("schema").getAsString() : "", journal.schema());
        JournalStats stats = journal.stats();
        assertEquals(control.get("messages").getAsLong(), stats.messages());
        assertEquals(control.get("published").getAsLong(), stats.published());
        assertEquals(control.get("synced").getAsLong(), stats.synced());
        assertEquals(control.get("trimmed").getAsLong(), stats.trimmed());
        assertEquals(control.get("ready").getAsLong(), stats.ready());
        assertEquals(control.get("sync_every").getAsLong(), stats.sync().nanos());
        assertEquals(owner.get("name").getAsString(), stats.writer());
        assertEquals(owner.get("pid").getAsInt(), stats.pid());
        assertEquals(owner.get("epoch").getAsLong(), stats.epoch());
        JsonArray wanted = expected.getAsJsonArray("consumers");
        assertEquals(wanted.size(), stats.consumers().size());
        for (int i = 0; i < wanted.size(); i++) {
            JsonObject one = wanted.get(i).getAsJsonObject();
            assertEquals(one.get("name").getAsString(), stats.consumers().get(i).name());
            assertEquals(one.get("gate").getAsLong(), stats.consumers().get(i).position());
            assertEquals(one.get("lost").getAsLong(), stats.consumers().get(i).lost());
        }
    }

    @ParameterizedTest
    @MethodSource("dead")
    void theNextOwnerGoesOnAfterAProcessThatDied(String name) throws Exception {
        JsonObject golden = json("dead/" + name);
        Map<String, byte[]> base = changed(Map.of(), golden.getAsJsonObject("base"));
        int number = 0;
        for (JsonElement element : golden.getAsJsonArray("dead")) {
            JsonObject point = element.getAsJsonObject();
            String where = name + ", point " + number++ + ", last store: " + point.get("last_store").getAsString();
            Map<String, byte[]> expected = changed(base, point.getAsJsonObject("left"));
            write(expected);
            identity = GoldenTest.identity(golden.getAsJsonObject("inject"));
            open();
            expectMessages(point.getAsJsonArray("finds"), JournalStart.OLDEST, where + ", what was left");
            boolean first = true;
            for (JsonElement operation : point.getAsJsonArray("operations")) {
                operate(operation.getAsJsonObject(), where + ": " + operation);
                if (first) {
                    expected = changed(expected, point.getAsJsonObject("after_take"));
                    expectFiles(expected, where + ", after the take");
                    expectMessages(point.getAsJsonArray("finds"), JournalStart.OLDEST, where + ", after the take");
                    first = false;
                }
            }
            expectFiles(changed(expected, point.getAsJsonObject("after")), where + ", at the end");
            end();
        }
        assertTrue(number > 1, "points: " + number);
    }

    /** Opens a control file with these bytes; the code and field of the error, or "ok". */
    private String attach(byte[] bytes) throws Exception {
        Files.write(path().resolve("control"), bytes);
        try {
            Journal.open(path().toString()).close();
            return "ok";
        } catch (CorruptHeaderException e) {
            return e.code() + " " + e.field();
        } catch (VersionTooNewException e) {
            return e.code() + " " + e.field();
        } catch (FlyringException e) {
            return e.code();
        }
    }

    @Test
    void badHeadersGiveTheErrorsOfTheLayout() throws Exception {
        Map<String, byte[]> files = files(Rings.spec("golden/journal/" + CURRENT + "/empty"));
        write(files);
        byte[] whole = files.get("control");
        assertEquals("ok", attach(whole));
        TomlTable layout = Toml.parse(Rings.spec("layout.toml"));
        TomlArray fields = layout.getArrayOrEmpty("journal_bad_field");
        assertTrue(fields.size() > 25, "fields tried: " + fields.size());
        for (int i = 0; i < fields.size(); i++) {
            TomlTable field = fields.getTable(i);
            ByteBuffer bytes = ByteBuffer.wrap(whole.clone()).order(ByteOrder.LITTLE_ENDIAN);
            int offset = (int) Layout.class.getDeclaredField("JOURNAL_HEADER_" + field.getString("field")
                .toUpperCase(Locale.ROOT)).get(null);
            long value = field.getLong("value");
            switch (field.getLong("size").intValue()) {
                case 2 -> bytes.putShort(offset, (short) value);
                case 4 -> bytes.putInt(offset, (int) value);
                default -> bytes.putLong(offset, value);
            }
            bytes.putInt(Layout.JOURNAL_HEADER_CRC, Header.crc(bytes));
            String names = field.getString("names");
            assertEquals(field.getString("error") + (names == null || names.isEmpty() ? "" : " " + names),
                attach(bytes.array()), field.toToml());
        }
        TomlArray flips = layout.getArrayOrEmpty("flip");
        int next = 0;
        for (int i = 0; i < flips.size(); i++) {
            TomlTable flip = flips.getTable(i);
            for (; next <= flip.getLong("last"); next++) {
                byte[] bytes = whole.clone();
                bytes[next] = (byte) ~bytes[next];
                String expected = flip.getString("error");
                if (expected.equals("file_length")) {
                    expected = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
                        .getLong(Layout.JOURNAL_HEADER_FILE_LENGTH) > bytes.length ? "truncated"
                        : "corrupt-header file_length";
                } else if (flip.contains("field")) {
                    expected += " " + flip.getString("field");
                }
                assertEquals(expected, attach(bytes), "byte " + next);
            }
        }
        assertEquals(Layout.HEADER_LENGTH, next);
        for (int length = 0; length < whole.length; length += 512) {
            assertEquals(length < 8 ? "not-a-channel" : "truncated", attach(Arrays.copyOf(whole, length)),
                "length " + length);
        }
    }
}
