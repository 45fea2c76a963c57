// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/** The golden files of tables: spec/golden/README.md, "Tables". */
class GoldenTableTest {
    private static final String CURRENT = Layout.MAJOR + "." + Layout.MINOR;

    @RegisterExtension
    final Rings rings = new Rings();

    private Table table;
    private TableWriter writer;
    private Identity identity;

    private static Stream<String> names(String folder, int atLeast) throws Exception {
        try (Stream<Path> files = Files.list(Rings.spec("golden/table/" + folder))) {
            var names = files.map(file -> file.getFileName().toString()).filter(name -> name.endsWith(".json"))
                .map(name -> name.replace(".json", "")).sorted().toList();
            assertTrue(names.size() >= atLeast, "golden files: " + names);
            return names.stream();
        }
    }

    static Stream<String> current() throws Exception {
        return names(CURRENT, 16);
    }

    static Stream<String> dead() throws Exception {
        return names("dead", 20);
    }

    private static JsonObject json(String name) throws Exception {
        return GoldenTest.json("table/" + name);
    }

    private static byte[] file(String name) throws Exception {
        return Files.readAllBytes(Rings.spec("golden/table/" + name + ".table"));
    }

    private Path path() {
        return rings.folder().resolve("t.table");
    }

    private static TableOptions options(JsonObject create) {
        TableOptions options = switch (create.get("key").getAsString()) {
            case "integer" -> TableOptions.integer();
            case "text" -> TableOptions.text();
            default -> TableOptions.bytes();
        };
        options.capacity(create.get("capacity").getAsLong()).valueBytes(create.get("value_bytes").getAsInt());
        if (create.has("key_bytes")) {
            options.keyBytes(create.get("key_bytes").getAsInt());
        }
        if (create.has("schema")) {
            options.schema = create.get("schema").getAsString().getBytes(StandardCharsets.UTF_8);
            options.schemaId = create.get("schema_id").getAsInt();
            options.schemaVersion = create.get("schema_version").getAsInt();
            options.valueTemplate = create.get("value_template").getAsInt();
        }
        return options.checked(create.has("checked") && create.get("checked").getAsBoolean());
    }

    private void open() {
        table = Table.open(path().toString(), new OpenOptions().identity(identity));
    }

    /** A key of a JSON file as a table's bytes have it. */
    private byte[] key(JsonElement key) {
        return switch (table.keyType()) {
            case INTEGER -> ByteBuffer.allocate(8).putLong(Long.reverseBytes(key.getAsLong())).array();
            case TEXT -> key.getAsString().getBytes(StandardCharsets.UTF_8);
            default -> HexFormat.of().parseHex(key.getAsString());
        };
    }

    /** Does a verb with a key, by its type. */
    private long change(JsonObject operation, String op) {
        TableVerbs verbs = operation.get("held").getAsBoolean() ? writer : table;
        JsonElement key = operation.get("key");
        PayloadBuffer value = TableTest.buffer(operation.has("value") ? GoldenTest.data(operation.get("value"))
            : new byte[0]);
        int length = value.capacity();
        PayloadBuffer bytes = TableTest.buffer(key(key));
        KeyType type = table.keyType();
        return switch (op) {
            case "put" -> type == KeyType.INTEGER ? verbs.put(key.getAsLong(), value, 0, length)
                : type == KeyType.TEXT ? verbs.put(key.getAsString(), value, 0, length)
                : verbs.put(bytes, value, 0, length);
            case "remove" -> (type == KeyType.INTEGER ? verbs.remove(key.getAsLong())
                : type == KeyType.TEXT ? verbs.remove(key.getAsString()) : verbs.remove(bytes)) ? 1 : 0;
            case "compare_and_put" -> {
                long version = operation.get("expected").getAsLong();
                yield type == KeyType.INTEGER ? verbs.compareAndPut(key.getAsLong(), version, value, 0, length)
                    : type == KeyType.TEXT ? verbs.compareAndPut(key.getAsString(), version, value, 0, length)
                    : verbs.compareAndPut(bytes, version, value, 0, length);
            }
            default -> throw new IllegalArgumentException(op);
        };
    }

    private void operate(JsonObject operation, String where) throws Exception {
        String op = operation.get("op").getAsString();
        switch (op) {
            case "writer" -> {
                writer = table.writer(operation.get("name").getAsString());
                assertEquals(operation.get("epoch").getAsLong(), writer.epoch(), where);
            }
            case "close_writer" -> writer.close();
            case "clear" -> assertEquals(operation.get("count").getAsLong(),
                operation.get("held").getAsBoolean() ? writer.clear() : table.clear(), where);
            case "close_synced" -> {
                table.close(true);
                open();
            }
            case "reboot" -> {
                table.close();
                identity.bootId(UUID.fromString(operation.get("boot_id").getAsString()));
                open();
            }
            case "foreign_store" -> {
                try (FileChannel file = FileChannel.open(path(), StandardOpenOption.WRITE)) {
                    file.write(ByteBuffer.wrap(GoldenTest.data(operation.get("data"))),
                        operation.get("offset").getAsLong());
                }
            }
            default -> {
                if (operation.has("error")) {
                    assertEquals(operation.get("error").getAsString(),
                        assertThrows(FlyringException.class, () -> change(operation, op), where).code(), where);
                } else {
                    JsonElement result = operation.get(op.equals("remove") ? "removed" : "version");
                    assertEquals(op.equals("remove") ? result.getAsBoolean() ? 1 : 0 : result.getAsLong(),
                        change(operation, op), where);
                }
            }
        }
    }

    private Versioned get(JsonElement key) {
        return switch (table.keyType()) {
            case INTEGER -> table.getVersioned(key.getAsLong());
            case TEXT -> table.getVersioned(key.getAsString());
            default -> table.getVersioned(TableTest.buffer(key(key)));
        };
    }

    /** Compares all keys with their values and versions, by the index and by the cells. */
    private void expectKeys(Iterable<JsonElement> keys, String where) {
        Map<String, String> expected = new TreeMap<>();
        Map<String, String> found = new TreeMap<>();
        for (JsonElement element : keys) {
            JsonObject one = element.getAsJsonObject();
            String content = one.get("value").getAsString() + " " + one.get("version");
            expected.put(HexFormat.of().formatHex(key(one.get("key"))), content);
            Versioned got = get(one.get("key"));
            assertEquals(content, got == null ? null : HexFormat.of().formatHex(got.value()) + " " + got.version(),
                where);
        }
        table.forEach(item -> {
            byte[] value = new byte[item.value().capacity()];
            item.value().getBytes(0, value);
            found.put(HexFormat.of().formatHex(item.key()), HexFormat.of().formatHex(value) + " " + item.version());
        });
        assertEquals(expected, found, where);
    }

    private void expectBytes(byte[] expected, String where) throws Exception {
        byte[] found = Files.readAllBytes(path());
        int at = Arrays.mismatch(expected, found);
        assertEquals(-1, at, () -> where + ": byte 0x" + Integer.toHexString(at) + " is " + found[at] + ", not "
            + expected[at]);
    }

    @ParameterizedTest
    @MethodSource("current")
    void theSameOperationsWriteTheSameBytes(String name) throws Exception {
        JsonObject golden = json(CURRENT + "/" + name);
        identity = GoldenTest.identity(golden.getAsJsonObject("inject"));
        table = Table.create(path().toString(), options(golden.getAsJsonObject("create")).identity(identity));
        int number = 0;
        for (JsonElement operation : golden.getAsJsonArray("operations")) {
            operate(operation.getAsJsonObject(), name + ", operation " + number++ + ": " + operation);
        }
        expectBytes(file(CURRENT + "/" + name), name);
        expectKeys(golden.getAsJsonObject("expected").getAsJsonArray("keys"), name);
        table.close();
    }

    @ParameterizedTest
    @MethodSource("current")
    void aReaderFindsWhatIsInTheFile(String name) throws Exception {
        JsonObject golden = json(CURRENT + "/" + name);
        JsonObject expected = golden.getAsJsonObject("expected");
        byte[] bytes = file(CURRENT + "/" + name);
        Files.write(path(), bytes);
        ByteBuffer boot = ByteBuffer.wrap(bytes, Layout.HEADER_LENGTH + Layout.TABLE_CONTROL_BOOT_ID, 16);
        identity = new Identity().bootId(new UUID(boot.getLong(), boot.getLong()));
        for (boolean readOnly : new boolean[] {true, false}) {
            table = Table.open(path().toString(), new OpenOptions().readOnly(readOnly).identity(identity));
            expectKeys(expected.getAsJsonArray("keys"), name);
            JsonObject control = expected.getAsJsonObject("control");
            JsonObject header = expected.getAsJsonObject("header");
            TableStats stats = table.stats();
            assertEquals(control.get("size").getAsLong(), table.size());
            assertEquals(control.get("changed").getAsLong(), table.version());
            assertEquals(control.get("rebuild").getAsLong(), stats.rebuild());
            assertEquals(control.get("damaged").getAsLong(), stats.damaged());
            JsonObject owner = expected.getAsJsonObject("writer");
            assertEquals(owner.get("name").getAsString(), stats.writer());
            assertEquals(owner.get("pid").getAsInt(), stats.pid());
            assertEquals(owner.get("epoch").getAsLong(), stats.epoch());
            assertEquals(header.get("table_id").getAsString(), table.id().toString());
            assertEquals(header.get("key_type").getAsInt(), table.keyType().code);
            assertEquals(header.get("key_bytes").getAsInt(), table.keyBytes());
            assertEquals(header.get("value_bytes").getAsInt(), table.valueBytes());
            assertEquals(header.get("capacity").getAsLong(), table.capacity());
            assertEquals(header.get("checked").getAsInt() == 1, table.checked());
            assertEquals(header.get("schema_id").getAsInt(), table.schemaId());
            assertEquals(header.get("value_template").getAsInt(), table.valueTemplate());
            JsonElement schema = golden.getAsJsonObject("create").get("schema");
            assertEquals(schema == null ? "" : schema.getAsString(), table.schema());
            table.close();
        }
        expectBytes(bytes, "a reader changes nothing");
    }

    @ParameterizedTest
    @MethodSource("dead")
    void theNextOwnerGoesOnAfterAWriterThatDied(String name) throws Exception {
        JsonObject golden = json("dead/" + name);
        byte[] base = GoldenTest.written(new byte[golden.get("file_length").getAsInt()],
            golden.getAsJsonArray("base"));
        int number = 0;
        for (JsonElement element : golden.getAsJsonArray("dead")) {
            JsonObject point = element.getAsJsonObject();
            String where = name + ", point " + number++ + ", last store: " + point.get("last_store").getAsString();
            byte[] expected = GoldenTest.written(base, point.getAsJsonArray("left"));
            Files.write(path(), expected);
            identity = GoldenTest.identity(golden.getAsJsonObject("inject"));
            open();
            if (point.has("finds")) {
                expectKeys(point.getAsJsonArray("finds"), where + ", found");
            } else {
                assertThrows(NeedsRecoveryException.class, table::size, where);
            }
            boolean first = true;
            for (JsonElement operation : point.getAsJsonArray("operations")) {
                operate(operation.getAsJsonObject(), where + ": " + operation);
                if (first) {
                    expected = GoldenTest.written(expected, point.getAsJsonArray("after_take"));
                    expectBytes(expected, where + ", after the take");
                    expectKeys(point.getAsJsonArray("keys"), where + ", after the take");
                    first = false;
                }
            }
            expectBytes(GoldenTest.written(expected, point.getAsJsonArray("after")), where + ", at the end");
            table.close();
        }
        assertTrue(number > 1, "points: " + number);
    }

    /** Opens a file with these bytes; the code and field of the error, or "ok". */
    private String attach(byte[] bytes) throws Exception {
        Files.write(path(), bytes);
        try {
            Table.open(path().toString()).close();
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
        byte[] whole = file(CURRENT + "/empty-text");
        assertEquals("ok", attach(whole));
        TomlTable layout = Toml.parse(Rings.spec("layout.toml"));
        TomlArray fields = layout.getArrayOrEmpty("table_bad_field");
        assertTrue(fields.size() > 30, "fields tried: " + fields.size());
        for (int i = 0; i < fields.size(); i++) {
            TomlTable field = fields.getTable(i);
            ByteBuffer bytes = ByteBuffer.wrap(whole.clone()).order(java.nio.ByteOrder.LITTLE_ENDIAN);
            int offset = (int) Layout.class.getDeclaredField("TABLE_HEADER_" + field.getString("field")
                .toUpperCase(Locale.ROOT)).get(null);
            long value = field.getLong("value");
            switch (field.getLong("size").intValue()) {
                case 2 -> bytes.putShort(offset, (short) value);
                case 4 -> bytes.putInt(offset, (int) value);
                default -> bytes.putLong(offset, value);
            }
            bytes.putInt(Layout.TABLE_HEADER_CRC, Header.crc(bytes));
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
                    expected = ByteBuffer.wrap(bytes).order(java.nio.ByteOrder.LITTLE_ENDIAN)
                        .getLong(Layout.TABLE_HEADER_FILE_LENGTH) > bytes.length ? "truncated"
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
        assertEquals("corrupt-header file_length", attach(Arrays.copyOf(whole, whole.length + 1)));
    }
}
