// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.function.BiConsumer;
import org.agrona.sbe.MessageFlyweight;

/** The keys, values and dimensions of a table to be created. Each option that is not set has its default. */
public final class TableOptions {
    private static final int DEFAULT_KEY_BYTES = 32;
    private static final int MESSAGE_HEADER = 8;
    private static final int UNSET = -1;

    final KeyType key;
    long capacity = UNSET;
    int keyBytes;
    int valueBytes = UNSET;
    /** Null: the file system decides. */
    Boolean checked;
    byte[] schema = new byte[0];
    int schemaId;
    int schemaVersion;
    int valueTemplate;
    /** The schema id of the message's codec; -1 without a codec. */
    int messageSchema = UNSET;
    int mode = 0600;
    boolean anyFileSystem;
    boolean wake = true;
    BiConsumer<Long, Long> recoveryProgress = (done, all) -> { };
    Identity identity = Identity.REAL;

    private TableOptions(KeyType key) {
        this.key = key;
        this.keyBytes = key == KeyType.INTEGER ? Layout.TABLE_INTEGER_KEY_BYTES : DEFAULT_KEY_BYTES;
    }

    /**
     * A table whose keys are bytes.
     *
     * @return options with every default; {@link #capacity} and {@link #valueBytes} must be given.
     */
    public static TableOptions bytes() {
        return new TableOptions(KeyType.BYTES);
    }

    /**
     * A table whose keys are text.
     *
     * @return options with every default; {@link #capacity} and {@link #valueBytes} must be given.
     */
    public static TableOptions text() {
        return new TableOptions(KeyType.TEXT);
    }

    /**
     * A table whose keys are signed integers of 64 bits.
     *
     * @return options with every default; {@link #capacity} and {@link #valueBytes} must be given.
     */
    public static TableOptions integer() {
        return new TableOptions(KeyType.INTEGER);
    }

    /**
     * How many keys fit; must be given. All options are validated when the table is created.
     *
     * @param keys 1 to 2^30.
     * @return this.
     */
    public TableOptions capacity(long keys) {
        capacity = keys;
        return this;
    }

    /**
     * The length of the longest key; default 32, of integers always 8.
     *
     * @param bytes 1 to 1024.
     * @return this.
     */
    public TableOptions keyBytes(int bytes) {
        keyBytes = bytes;
        return this;
    }

    /**
     * The length of the longest value; must be given, unless {@link #message} says it.
     *
     * @param bytes 0 to 16 MiB.
     * @return this.
     */
    public TableOptions valueBytes(int bytes) {
        valueBytes = bytes;
        return this;
    }

    /**
     * The schema of the values, stored in the table.
     *
     * @param value the schema.
     * @return this.
     */
    public TableOptions schema(Schema value) {
        schema = value.text().getBytes(StandardCharsets.UTF_8);
        schemaId = value.id();
        schemaVersion = value.version();
        return this;
    }

    /**
     * The message of the schema that each value is. Without {@link #valueBytes} a value has room for the message header
     * of 8 bytes and the message's block; a message with groups or variable-length data needs more.
     *
     * @param codec an encoder or decoder that sbe-tool generated.
     * @return this.
     */
    public TableOptions message(MessageFlyweight codec) {
        valueTemplate = codec.sbeTemplateId();
        messageSchema = codec.sbeSchemaId();
        if (valueBytes == UNSET) {
            valueBytes = MESSAGE_HEADER + codec.sbeBlockLength();
        }
        return this;
    }

    /**
     * Whether values carry a checksum, which a recovery after a loss of power needs; default: only where the file
     * system is not in memory.
     *
     * @param value true for checksums.
     * @return this.
     */
    public TableOptions checked(boolean value) {
        checked = value;
        return this;
    }

    /**
     * The permission bits of the file; default 0600.
     *
     * @param bits 0 to 0777.
     * @return this.
     */
    public TableOptions mode(int bits) {
        mode = bits;
        return this;
    }

    /**
     * Whether any file system is accepted; default false: only file systems on which shared memory is known to work.
     *
     * @param any true to accept every file system.
     * @return this.
     */
    public TableOptions anyFileSystem(boolean any) {
        anyFileSystem = any;
        return this;
    }

    /**
     * Whether changes through this table wake processes that sleep until a key changes; default true. With false, they
     * look every millisecond instead.
     *
     * @param value false to wake no other process.
     * @return this.
     */
    public TableOptions wake(boolean value) {
        wake = value;
        return this;
    }

    /**
     * An action that is called during the recovery of a table, with the numbers of cells checked and of all cells.
     *
     * @param action runs in the thread whose change recovers the table.
     * @return this.
     */
    public TableOptions recoveryProgress(BiConsumer<Long, Long> action) {
        if (action == null) {
            throw new InvalidArgumentException("recovery_progress", "The action is null. Leave the option out.");
        }
        recoveryProgress = action;
        return this;
    }

    /** Sets identity and clocks, for tests. */
    TableOptions identity(Identity values) {
        identity = values;
        return this;
    }

    /** Throws for the first option that is not valid. */
    void check() {
        check(capacity >= 1 && capacity <= Layout.TABLE_MAX_CAPACITY, "capacity",
            capacity == UNSET ? "missing" : capacity, "1 to 1073741824 keys");
        check(key == KeyType.INTEGER ? keyBytes == Layout.TABLE_INTEGER_KEY_BYTES
            : keyBytes >= 1 && keyBytes <= Layout.TABLE_MAX_KEY_BYTES, "key_bytes", keyBytes,
            key == KeyType.INTEGER ? "8 for integers" : "1 to 1024");
        check(valueBytes >= 0 && valueBytes <= Layout.TABLE_MAX_VALUE_BYTES, "value_bytes",
            valueBytes == UNSET ? "missing" : valueBytes, "0 to 16777216");
        check(schema.length <= Layout.MAX_SCHEMA_LENGTH, "schema", schema.length, "at most 16777216 bytes of UTF-8");
        check(valueTemplate == 0 || schema.length > 0, "message", valueTemplate, "left out without a schema");
        check(messageSchema == UNSET || messageSchema == schemaId, "message", "of schema " + messageSchema,
            "a message of the schema " + schemaId);
        check((mode & ~0777) == 0, "mode", mode, "permission bits, 0 to 0777");
    }

    private static void check(boolean good, String argument, Object value, String valid) {
        if (!good) {
            throw new InvalidArgumentException(argument,
                "The option " + argument + " is " + value + "; it must be " + valid + ".");
        }
    }

    /** Throws for the first field in which a table differs from these options. */
    void compare(TableHeader header, String path) {
        same("key_type", key, header.keyType, path);
        same("key_bytes", keyBytes, header.keyBytes, path);
        same("value_bytes", valueBytes, header.valueBytes, path);
        if (header.capacity < capacity) { // grow may have made it larger
            same("capacity", capacity, header.capacity, path);
        }
        if (checked != null) {
            same("checked", checked, header.checked, path);
        }
        same("schema_id", schemaId, header.schemaId, path);
        if (header.schemaVersion < schemaVersion) { // a newer version is accepted
            same("schema_version", schemaVersion, header.schemaVersion, path);
        }
    }

    private static void same(String field, Object expected, Object actual, String path) {
        if (!expected.equals(actual)) {
            throw new ChannelDiffersException(field, expected.toString(), actual.toString(), path + " exists, but its "
                + field + " is " + actual + ", not " + expected + ". Ask for what it is, or replace it.");
        }
    }
}
