// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.function.BiConsumer;

/**
 * The options of a journal to be created, or the changes that {@link Journal#change} makes. Each option that is not set
 * has its default, and is not compared by {@link Journal#openOrCreate}.
 */
public final class JournalOptions {
    private static final int MOST = 0xffff;

    /** Null: not given. */
    Integer segmentSize;
    Integer consumers;
    Integer content;
    JournalSync sync;
    Long maxAge;
    Long maxSize;
    Boolean trimConsumed;
    byte[] schema;
    int schemaId;
    int schemaVersion;
    int mode = 0600;
    boolean anyFileSystem;
    boolean wake = true;
    BiConsumer<Long, Long> recoveryProgress = (done, all) -> { };
    Identity identity = Identity.REAL;

    /** Creates options with all defaults. */
    public JournalOptions() {
        // the fields have them
    }

    /**
     * The bytes of one segment, which is a file; default 64 MiB. A message has at most a quarter of that.
     *
     * @param bytes a power of two, 64 KiB to 1 GiB.
     * @return this.
     */
    public JournalOptions segmentSize(int bytes) {
        segmentSize = bytes;
        return this;
    }

    /**
     * How many names of consumers the journal has room for; default 16.
     *
     * @param number 0 to 1024.
     * @return this.
     */
    public JournalOptions consumers(int number) {
        consumers = number;
        return this;
    }

    /** What the messages are: 0 the user's, 1 a recording (journal.md 9). */
    JournalOptions content(int value) {
        content = value;
        return this;
    }

    /**
     * When what is appended is made durable; default {@link JournalSync#NEVER}.
     *
     * @param policy never, an interval, or each append.
     * @return this.
     */
    public JournalOptions sync(JournalSync policy) {
        sync = policy;
        return this;
    }

    /**
     * Segments whose messages are all older than this are removed by the helper of a writer, or by a push, whatever
     * consumers need; default: no limit.
     *
     * @param age the age; 0 for no limit.
     * @return this.
     */
    public JournalOptions maxAge(Duration age) {
        maxAge = age.getSeconds() >= Long.MAX_VALUE / 1_000_000_000L ? Long.MAX_VALUE : age.toNanos();
        return this;
    }

    /**
     * The oldest segments beyond this many bytes are removed by the helper of a writer, or by a push, whatever
     * consumers need; default: no limit.
     *
     * @param bytes the limit; 0 for no limit.
     * @return this.
     */
    public JournalOptions maxSize(long bytes) {
        maxSize = bytes;
        return this;
    }

    /**
     * Whether the helper of a writer, or a push, removes segments that all consumers have consumed; default false.
     *
     * @param value true to remove them.
     * @return this.
     */
    public JournalOptions trimConsumed(boolean value) {
        trimConsumed = value;
        return this;
    }

    /**
     * The schema of the messages, stored in the journal.
     *
     * @param value the schema.
     * @return this.
     */
    public JournalOptions schema(Schema value) {
        return schema(value.text().getBytes(StandardCharsets.UTF_8), value.id(), value.version());
    }

    /** Sets a schema by its parts. */
    JournalOptions schema(byte[] text, int id, int version) {
        schema = text;
        schemaId = id;
        schemaVersion = version;
        return this;
    }

    /**
     * The permission bits of the files; default 0600.
     *
     * @param bits 0 to 0777.
     * @return this.
     */
    public JournalOptions mode(int bits) {
        mode = bits;
        return this;
    }

    /**
     * Whether any file system is accepted; default false: only file systems on which shared memory is known to work.
     *
     * @param any true to accept every file system.
     * @return this.
     */
    public JournalOptions anyFileSystem(boolean any) {
        anyFileSystem = any;
        return this;
    }

    /**
     * Whether appends through this journal object wake processes that sleep until a message is there; default true.
     * With false, they look every millisecond instead.
     *
     * @param value false to wake no other process.
     * @return this.
     */
    public JournalOptions wake(boolean value) {
        wake = value;
        return this;
    }

    /**
     * What is told how far the recovery after another boot is: the bytes that were checked, and an estimate of all.
     *
     * @param action runs in the thread that takes the writer.
     * @return this.
     */
    public JournalOptions recoveryProgress(BiConsumer<Long, Long> action) {
        if (action == null) {
            throw new InvalidArgumentException("recovery_progress", "There is no action. Leave the option out.");
        }
        recoveryProgress = action;
        return this;
    }

    /** Sets identity and clocks, for tests. */
    JournalOptions identity(Identity values) {
        identity = values;
        return this;
    }

    long segmentSizeOrDefault() {
        return segmentSize != null ? segmentSize : Layout.JOURNAL_DEFAULT_SEGMENT_SIZE;
    }

    int consumersOrDefault() {
        return consumers != null ? consumers : Layout.JOURNAL_DEFAULT_CONSUMERS;
    }

    int contentOrDefault() {
        return content != null ? content : Layout.JOURNAL_CONTENT_MESSAGES;
    }

    byte[] schemaOrNone() {
        return schema != null ? schema : new byte[0];
    }

    /** Throws for the first option that is not valid. */
    void check() {
        final long size = segmentSizeOrDefault();
        check(size >= Layout.JOURNAL_MIN_SEGMENT_SIZE && size <= Layout.JOURNAL_MAX_SEGMENT_SIZE
            && Long.bitCount(size) == 1, "segment_size", size, "a power of two, 65536 to 1073741824");
        check(consumersOrDefault() >= 0 && consumersOrDefault() <= Layout.JOURNAL_MAX_CONSUMERS, "consumers",
            consumers, "0 to 1024");
        checkChanges();
        check(schemaOrNone().length <= Layout.MAX_SCHEMA_LENGTH, "schema", schemaOrNone().length,
            "at most 16777216 bytes of UTF-8");
        final boolean some = schemaOrNone().length > 0;
        check(schemaId >= 0 && schemaId <= MOST && (some || schemaId == 0), "schema_id", schemaId,
            some ? "0 to 65535" : "0 without a schema");
        check(schemaVersion >= 0 && schemaVersion <= MOST && (some || schemaVersion == 0), "schema_version",
            schemaVersion, some ? "0 to 65535" : "0 without a schema");
        check((mode & ~0777) == 0, "mode", mode, "permission bits, 0 to 0777");
    }

    /** The same for the options that can be changed later. */
    void checkChanges() {
        check(maxAge == null || maxAge >= 0, "max_age", maxAge, "0 or more");
        check(maxSize == null || maxSize >= 0, "max_size", maxSize, "0 or more");
    }

    /** Throws if an option is given that only a creation can set. */
    void checkOnlyChanges() {
        check(segmentSize == null, "segment_size", segmentSize, "left out: it stays as it is");
        check(consumers == null, "consumers", consumers, "left out: it stays as it is");
        check(schema == null, "schema", schemaId, "left out: it stays as it is");
        checkChanges();
    }

    private static void check(boolean good, String argument, Object value, String valid) {
        if (!good) {
            throw new InvalidArgumentException(argument,
                "The option " + argument + " is " + value + "; it must be " + valid + ".");
        }
    }

    /** Throws for the first option that was given and in which a journal differs. */
    void compare(JournalFile file) {
        final JournalHeader header = file.header;
        same("segment_size", segmentSize == null ? null : (long) segmentSize, header.segmentSize, file.path);
        same("consumers", consumers, header.consumers, file.path);
        same("content", content == null ? null : contentName(content), contentName(header.content), file.path);
        same("sync", sync == null ? null : JournalSync.text(sync.nanos()), JournalSync.text(file.syncEvery()),
            file.path);
        same("max_age", maxAge, file.limit(Layout.JOURNAL_CONTROL_MAX_AGE), file.path);
        same("max_size", maxSize, file.limit(Layout.JOURNAL_CONTROL_MAX_SIZE), file.path);
        same("trim_consumed", trimConsumed, file.trimsConsumed(), file.path);
        if (schema != null) {
            same("schema_id", schemaId, header.schemaId, file.path);
            if (header.schemaVersion < schemaVersion) { // a newer version is accepted
                same("schema_version", schemaVersion, header.schemaVersion, file.path);
            }
        }
    }

    private static String contentName(int content) {
        return content == Layout.JOURNAL_CONTENT_RECORDING ? "recording" : "messages";
    }

    private static void same(String field, Object expected, Object actual, String path) {
        if (expected != null && !expected.equals(actual)) {
            throw new ChannelDiffersException(field, expected.toString(), actual.toString(), path + " exists, but its "
                + field + " is " + actual + ", not " + expected + ". Ask for what it is, or unlink it first.");
        }
    }
}
