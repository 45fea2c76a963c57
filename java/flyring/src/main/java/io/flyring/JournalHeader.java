// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.UUID;

/** The header page of a journal's control file, read once and checked field by field (journal.md 2.1). */
final class JournalHeader {
    static final byte[] MAGIC = HexFormat.of().parseHex(Layout.JOURNAL_MAGIC_HEX);
    private static final int MAX_NUMBER = 0xffff;

    final UUID id;
    final long createdAt;
    final int content;
    /** S: how many consumer slots there are. */
    final int consumers;
    /** Z: the bytes of a segment's positions, a power of two. */
    final long segmentSize;
    final long schemaLength;
    final int schemaId;
    final int schemaVersion;

    final long controlOffset = Layout.HEADER_LENGTH;
    final long controlLength;
    final long schemaOffset;
    /** The length that journal.md 2.1 computes; a file of a newer minor version may be longer. */
    long fileLength;

    /** The fields from which the others follow. */
    record Given(UUID id, long createdAt, int content, int consumers, long segmentSize, long schemaLength, int schemaId,
        int schemaVersion) {
    }

    JournalHeader(Given given) {
        id = given.id;
        createdAt = given.createdAt;
        content = given.content;
        consumers = given.consumers;
        segmentSize = given.segmentSize;
        schemaLength = given.schemaLength;
        schemaId = given.schemaId;
        schemaVersion = given.schemaVersion;
        controlLength = Header.pages(Layout.JOURNAL_CONTROL_CONSUMERS
            + (long) Layout.JOURNAL_CONSUMER_SIZE * consumers);
        schemaOffset = controlOffset + controlLength;
        fileLength = Header.pages(schemaOffset + schemaLength);
    }

    static JournalHeader of(JournalOptions options, UUID id, long createdAt) {
        return new JournalHeader(new Given(id, createdAt, options.contentOrDefault(), options.consumersOrDefault(),
            options.segmentSizeOrDefault(), options.schemaOrNone().length, options.schemaId, options.schemaVersion));
    }

    /** The offset of a consumer slot in the control section. */
    static int consumerSlot(int slot) {
        return Layout.JOURNAL_CONTROL_CONSUMERS + Layout.JOURNAL_CONSUMER_SIZE * slot;
    }

    ByteBuffer encode() {
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN);
        page.put(Layout.JOURNAL_HEADER_MAGIC, MAGIC);
        page.putShort(Layout.JOURNAL_HEADER_MAJOR, (short) Layout.MAJOR);
        page.putShort(Layout.JOURNAL_HEADER_MINOR, (short) Layout.MINOR);
        page.putInt(Layout.JOURNAL_HEADER_HEADER_LENGTH, Layout.HEADER_LENGTH);
        page.putLong(Layout.JOURNAL_HEADER_FILE_LENGTH, fileLength);
        page.put(Layout.JOURNAL_HEADER_JOURNAL_ID, Identity.bytes(id));
        page.putLong(Layout.JOURNAL_HEADER_CREATED_AT, createdAt);
        page.putInt(Layout.JOURNAL_HEADER_CONTENT, content);
        page.putInt(Layout.JOURNAL_HEADER_CONSUMERS, consumers);
        page.putLong(Layout.JOURNAL_HEADER_SEGMENT_SIZE, segmentSize);
        page.putLong(Layout.JOURNAL_HEADER_CONTROL_OFFSET, controlOffset);
        page.putLong(Layout.JOURNAL_HEADER_CONTROL_LENGTH, controlLength);
        page.putLong(Layout.JOURNAL_HEADER_SCHEMA_OFFSET, schemaOffset);
        page.putLong(Layout.JOURNAL_HEADER_SCHEMA_LENGTH, schemaLength);
        page.putInt(Layout.JOURNAL_HEADER_SCHEMA_ID, schemaId);
        page.putInt(Layout.JOURNAL_HEADER_SCHEMA_VERSION, schemaVersion);
        page.putInt(Layout.JOURNAL_HEADER_CRC, Header.crc(page));
        return page;
    }

    /** Makes the checks of channel.md 3.3 on the first bytes of a control file of {@code size} bytes. */
    static JournalHeader parse(byte[] first, long size, String path) {
        int length = first.length;
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN).put(0, first);
        if (length < MAGIC.length || !page.slice(0, MAGIC.length).equals(ByteBuffer.wrap(MAGIC))) {
            throw new NotAChannelException(path, path + " is not a Flyring journal: its file control does not start"
                + " with the magic FLYJRNL. Name another folder, or remove this one if it is not needed.");
        }
        if (length >= Layout.JOURNAL_HEADER_MINOR) {
            int major = page.getShort(Layout.JOURNAL_HEADER_MAJOR) & 0xffff;
            if (major > Layout.MAJOR) {
                throw tooNew(path, "major", major, Layout.MAJOR);
            }
            require(major == Layout.MAJOR, path, "major", major);
        }
        if (length >= Layout.JOURNAL_HEADER_OPTIONAL_FEATURES) {
            long features = page.getLong(Layout.JOURNAL_HEADER_REQUIRED_FEATURES);
            if (features != 0) {
                throw tooNew(path, "required_features", features, 0);
            }
        }
        if (length < Layout.HEADER_LENGTH) {
            throw truncated(path, Layout.HEADER_LENGTH, size);
        }
        long fileLength = page.getLong(Layout.JOURNAL_HEADER_FILE_LENGTH);
        if (fileLength > size) {
            throw truncated(path, fileLength, size);
        }
        require(fileLength == size && fileLength > 0, path, "file_length", fileLength);
        int crc = page.getInt(Layout.JOURNAL_HEADER_CRC);
        require(crc == Header.crc(page), path, "crc", crc);
        return fields(page, path);
    }

    private static JournalHeader fields(ByteBuffer page, String path) {
        int headerLength = page.getInt(Layout.JOURNAL_HEADER_HEADER_LENGTH);
        require(headerLength == Layout.HEADER_LENGTH, path, "header_length", headerLength);
        int content = page.getInt(Layout.JOURNAL_HEADER_CONTENT);
        require(content == Layout.JOURNAL_CONTENT_MESSAGES || content == Layout.JOURNAL_CONTENT_RECORDING, path,
            "content", content);
        int consumers = page.getInt(Layout.JOURNAL_HEADER_CONSUMERS);
        require(consumers >= 0 && consumers <= Layout.JOURNAL_MAX_CONSUMERS, path, "consumers", consumers);
        long segmentSize = page.getLong(Layout.JOURNAL_HEADER_SEGMENT_SIZE);
        require(segmentSize >= Layout.JOURNAL_MIN_SEGMENT_SIZE && segmentSize <= Layout.JOURNAL_MAX_SEGMENT_SIZE
            && Long.bitCount(segmentSize) == 1, path, "segment_size", segmentSize);
        long schemaLength = page.getLong(Layout.JOURNAL_HEADER_SCHEMA_LENGTH);
        int schemaId = page.getInt(Layout.JOURNAL_HEADER_SCHEMA_ID);
        int schemaVersion = page.getInt(Layout.JOURNAL_HEADER_SCHEMA_VERSION);
        boolean some = schemaLength != 0;
        ByteBuffer id = page.duplicate().order(ByteOrder.BIG_ENDIAN);
        JournalHeader header = new JournalHeader(new Given(new UUID(id.getLong(Layout.JOURNAL_HEADER_JOURNAL_ID),
            id.getLong(Layout.JOURNAL_HEADER_JOURNAL_ID + Long.BYTES)), page.getLong(Layout.JOURNAL_HEADER_CREATED_AT),
            content, consumers, segmentSize, schemaLength, some ? schemaId : 0, some ? schemaVersion : 0));
        same(page, Layout.JOURNAL_HEADER_CONTROL_OFFSET, header.controlOffset, path, "control_offset");
        same(page, Layout.JOURNAL_HEADER_CONTROL_LENGTH, header.controlLength, path, "control_length");
        same(page, Layout.JOURNAL_HEADER_SCHEMA_OFFSET, header.schemaOffset, path, "schema_offset");
        require(schemaLength >= 0 && schemaLength <= Layout.MAX_SCHEMA_LENGTH, path, "schema_length", schemaLength);
        number(schemaId, path, "schema_id");
        number(schemaVersion, path, "schema_version");
        long fileLength = page.getLong(Layout.JOURNAL_HEADER_FILE_LENGTH);
        require(header.fileLength <= fileLength, path, "file_length", fileLength);
        header.fileLength = fileLength;
        return header;
    }

    private static void number(int value, String path, String field) {
        require(value >= 0 && value <= MAX_NUMBER, path, field, value);
    }

    private static void same(ByteBuffer page, int offset, long expected, String path, String field) {
        require(page.getLong(offset) == expected, path, field, page.getLong(offset));
    }

    private static void require(boolean good, String path, String field, long value) {
        if (!good) {
            throw new CorruptHeaderException(field, "The header of " + path + " is damaged: its field " + field
                + " is " + value + ", which the other fields do not allow. Create the journal again.");
        }
    }

    private static VersionTooNewException tooNew(String path, String field, long found, long supported) {
        return new VersionTooNewException(field, found, supported, path + " was made by a newer Flyring: its field "
            + field + " is " + Long.toUnsignedString(found) + ", this version understands " + supported
            + ". Update this program's Flyring.");
    }

    private static TruncatedException truncated(String path, long expected, long actual) {
        return new TruncatedException(expected, actual, path + " is cut off: its file control has " + actual
            + " bytes of " + expected + ". Copy or create it again.");
    }
}
