// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Objects;

/** What {@link Channel#open(String, OpenOptions)} wants of a channel; by default only that it is whole. */
public final class OpenOptions {
    private static final int MOST = 0xffff;

    boolean readOnly;
    boolean anyFileSystem;
    boolean wake = true;
    Identity identity = Identity.REAL;
    private Schema schema;
    private int minSchemaVersion;

    /** Options with every default. */
    public OpenOptions() {
        // fields have them
    }

    /**
     * Whether to open and map the file for reading only; default false. Lossy subscribers work and counters can be read
     * then; what would write is {@link AccessDeniedException}.
     *
     * @param value true: for reading only.
     * @return this.
     */
    public OpenOptions readOnly(boolean value) {
        readOnly = value;
        return this;
    }

    /**
     * Whether any file system will do; default false: only those on which sharing memory is known to work.
     *
     * @param any true to accept every one.
     * @return this.
     */
    public OpenOptions anyFileSystem(boolean any) {
        anyFileSystem = any;
        return this;
    }

    /**
     * The channel must have a schema with the same id as this one; default: it need not have any. Versions may differ:
     * a decoder skips what a newer publisher added, and sees null in what an older one lacked.
     *
     * @param value the schema.
     * @return this.
     */
    public OpenOptions schema(Schema value) {
        schema = Objects.requireNonNull(value, "value");
        return this;
    }

    /**
     * The least version that the channel's schema must have; default 0: any.
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
     * Whether publishers and subscribers that this channel makes wake those who sleep until a message or room is there;
     * default true. False: they do not, and no sleeper ever interrupts this process, if all of its channels have it
     * so; who waits for it looks every millisecond. Spec 6.16.
     *
     * @param value false: nobody is woken.
     * @return this.
     */
    public OpenOptions wake(boolean value) {
        wake = value;
        return this;
    }

    /** Who attaches, and when; for tests. What the channel makes has the same identity. */
    OpenOptions identity(Identity values) {
        identity = values;
        return this;
    }

    /** Throws {@link ChannelDiffersException} unless the channel has the schema that these ask for. */
    void check(Header header, String path) {
        if (schema != null && header.schemaLength == 0) {
            throw new ChannelDiffersException("schema", Integer.toString(schema.id()), "none", path
                + " has no schema; one with the id " + schema.id() + " was asked for.");
        }
        if (schema != null && header.schemaId != schema.id()) {
            throw differs("schema_id", schema.id(), header.schemaId, path + " has the schema with the id "
                + header.schemaId + "; that with the id " + schema.id() + " was asked for.");
        }
        if (header.schemaVersion < minSchemaVersion) {
            throw differs("schema_version", minSchemaVersion, header.schemaVersion, path + " has version "
                + header.schemaVersion + " of its schema; " + minSchemaVersion + " or newer was asked for.");
        }
    }

    private static ChannelDiffersException differs(String field, int expected, int actual, String message) {
        return new ChannelDiffersException(field, Integer.toString(expected), Integer.toString(actual), message);
    }
}
