// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Objects;
import java.util.function.BiConsumer;

/**
 * How {@link Channel#open(String, OpenOptions)} and {@link Table#open(String, OpenOptions)} attach, and what the
 * channel or table must have. By default it only has to be valid.
 */
public final class OpenOptions {
    private static final int MOST = 0xffff;

    boolean readOnly;
    boolean anyFileSystem;
    boolean wake = true;
    BiConsumer<Long, Long> recoveryProgress = (done, all) -> { };
    Identity identity = Identity.REAL;
    private Schema schema;
    private int minSchemaVersion;

    /** Creates options with all defaults. */
    public OpenOptions() {
        // The fields hold the defaults.
    }

    /**
     * Whether to open and map the file for reading only; default false. With true, lossy subscribers work and counters
     * can be read; every method that would write throws {@link AccessDeniedException}.
     *
     * @param value true for reading only.
     * @return this.
     */
    public OpenOptions readOnly(boolean value) {
        readOnly = value;
        return this;
    }

    /**
     * Whether any file system is accepted; default false: only file systems on which shared memory is known to work.
     *
     * @param any true to accept every file system.
     * @return this.
     */
    public OpenOptions anyFileSystem(boolean any) {
        anyFileSystem = any;
        return this;
    }

    /**
     * The schema that the channel must have, compared by id; default: no schema is needed. Versions may differ: a
     * decoder skips fields that a newer publisher added, and sees null for fields that an older publisher lacked.
     *
     * @param value the schema.
     * @return this.
     */
    public OpenOptions schema(Schema value) {
        schema = Objects.requireNonNull(value, "value");
        return this;
    }

    /**
     * The smallest version that the channel's schema must have; default 0: any.
     *
     * @param version 0 to 65535.
     * @return this.
     */
    public OpenOptions minSchemaVersion(int version) {
        if (version < 0 || version > MOST) {
            throw new InvalidArgumentException("min_schema_version", "The option min_schema_version is " + version
                + "; it must be 0 to " + MOST + ".");
        }
        minSchemaVersion = version;
        return this;
    }

    /**
     * Whether the objects that this channel makes wake processes that sleep until a message or room is there; default
     * true. With false, peers that wait for this process check every millisecond instead. If all channels of a process
     * have false, no sleeper interrupts the process. Spec channel.md 6.16.
     *
     * @param value false to wake no other process.
     * @return this.
     */
    public OpenOptions wake(boolean value) {
        wake = value;
        return this;
    }

    /**
     * An action that is called during the recovery of a table, with the numbers of cells checked and of all cells.
     *
     * @param action runs in the thread whose change recovers the table.
     * @return this.
     */
    public OpenOptions recoveryProgress(BiConsumer<Long, Long> action) {
        if (action == null) {
            throw new InvalidArgumentException("recovery_progress", "The action is null. Leave the option out.");
        }
        recoveryProgress = action;
        return this;
    }

    /** Sets identity and clocks, for tests. Everything that the channel makes uses them. */
    OpenOptions identity(Identity values) {
        identity = values;
        return this;
    }

    /** Throws {@link ChannelDiffersException} unless the channel has the schema that these options ask for. */
    void check(Header header, String path) {
        check(header.schemaLength, header.schemaId, header.schemaVersion, path);
    }

    /** The same for the schema of a channel or table. */
    void check(long schemaLength, int schemaId, int schemaVersion, String path) {
        if (schema != null && schemaLength == 0) {
            throw new ChannelDiffersException("schema", Integer.toString(schema.id()), "none", path
                + " has no schema; one with the id " + schema.id() + " was asked for.");
        }
        if (schema != null && schemaId != schema.id()) {
            throw differs("schema_id", schema.id(), schemaId, path + " has the schema with the id "
                + schemaId + "; that with the id " + schema.id() + " was asked for.");
        }
        if (schemaVersion < minSchemaVersion) {
            throw differs("schema_version", minSchemaVersion, schemaVersion, path + " has version "
                + schemaVersion + " of its schema; " + minSchemaVersion + " or newer was asked for.");
        }
    }

    private static ChannelDiffersException differs(String field, int expected, int actual, String message) {
        return new ChannelDiffersException(field, Integer.toString(expected), Integer.toString(actual), message);
    }
}
