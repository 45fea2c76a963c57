// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.UUID;

/**
 * The header page of a table, read once into private memory and checked field by field (2.1). Numbers in parentheses
 * are sections of spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableHeader {
    static final byte[] MAGIC = HexFormat.of().parseHex(Layout.TABLE_MAGIC_HEX);
    private static final int MAX_NUMBER = 0xffff;

    final UUID id;
    final long createdAt;
    final KeyType keyType;
    final int keyBytes;
    final int valueBytes;
    final boolean checked;
    final long capacity;
    final int schemaId;
    final int schemaVersion;
    final int valueTemplate;
    final long schemaLength;

    /** How many places for cells there are: the capacity, and those that are never used because they cross a piece. */
    final long cells;
    final int cellStride;
    /** The distance from a cell to its body 0, and from there to body 1. */
    final int bodyAt;
    final int bodyStride;
    /** N: the entries of one copy of the index. */
    final long entries;
    final long controlOffset = Layout.HEADER_LENGTH;
    final long indexOffset = controlOffset + Layout.TABLE_CONTROL_LENGTH;
    final long indexStride;
    final long cellsOffset;
    final long schemaOffset;
    /** The length that follows from section 2; a file of a newer minor version may be longer. */
    long fileLength;

    /** The fields from which the others follow. */
    record Given(UUID id, long createdAt, KeyType keyType, int keyBytes, int valueBytes, boolean checked,
        long capacity, long schemaLength, int schemaId, int schemaVersion, int valueTemplate) {
    }

    TableHeader(Given given) {
        id = given.id;
        createdAt = given.createdAt;
        keyType = given.keyType;
        keyBytes = given.keyBytes;
        valueBytes = given.valueBytes;
        checked = given.checked;
        capacity = given.capacity;
        schemaLength = given.schemaLength;
        schemaId = given.schemaId;
        schemaVersion = given.schemaVersion;
        valueTemplate = given.valueTemplate;
        bodyAt = rounded(Layout.TABLE_CELL_KEY + keyBytes);
        bodyStride = rounded(Layout.TABLE_BODY_VALUE + valueBytes);
        cellStride = bodyAt + 2 * bodyStride;
        cells = cells(capacity, cellStride);
        entries = Math.max(Layout.TABLE_MIN_ENTRIES, capacity + capacity / 2 + 7 & -8);
        indexStride = Header.pages(entries * Long.BYTES);
        cellsOffset = indexOffset + 2 * indexStride;
        schemaOffset = Header.pages(cellsOffset + cells * cellStride);
        fileLength = Header.pages(schemaOffset + schemaLength);
    }

    static TableHeader of(TableOptions options, UUID id, long createdAt, boolean checked) {
        return new TableHeader(new Given(id, createdAt, options.key, options.keyBytes, options.valueBytes, checked,
            options.capacity, options.schema.length, options.schemaId, options.schemaVersion, options.valueTemplate));
    }

    /** The header of the same table with another id and capacity, with or without checksums. */
    TableHeader with(UUID newId, long newCapacity, boolean newChecked) {
        return new TableHeader(new Given(newId, createdAt, keyType, keyBytes, valueBytes, newChecked, newCapacity,
            schemaLength, schemaId, schemaVersion, valueTemplate));
    }

    /** Whether this is the header of the other table after a grow: at most the capacity differs (7). */
    boolean isGrown(TableHeader other) {
        return id.equals(other.id) && createdAt == other.createdAt && keyType == other.keyType
            && keyBytes == other.keyBytes && valueBytes == other.valueBytes && checked == other.checked
            && schemaLength == other.schemaLength && schemaId == other.schemaId
            && schemaVersion == other.schemaVersion && valueTemplate == other.valueTemplate;
    }

    boolean validKey(int length) {
        return length >= 0 && length <= keyBytes;
    }

    private static int rounded(int length) {
        return length + Layout.TABLE_BODY_ALIGNMENT - 1 & -Layout.TABLE_BODY_ALIGNMENT;
    }

    /**
     * The smallest number of places of which {@code capacity} lie inside one piece. The first n places reach over
     * {@code (n * stride - 1) / piece} ends of pieces. A cell begins at each end whose number the odd part of the
     * stride divides; each other end lies inside a cell, which is never used.
     */
    static long cells(long capacity, long stride) {
        long odd = stride >>> Long.numberOfTrailingZeros(stride);
        long places = capacity;
        while (true) {
            long multiples = (places * stride - 1) / Layout.TABLE_PIECE;
            long needed = capacity + multiples - multiples / odd;
            if (needed == places) {
                return places;
            }
            places = needed;
        }
    }

    ByteBuffer encode() {
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN);
        page.put(Layout.TABLE_HEADER_MAGIC, MAGIC);
        page.putShort(Layout.TABLE_HEADER_MAJOR, (short) Layout.MAJOR);
        page.putShort(Layout.TABLE_HEADER_MINOR, (short) Layout.MINOR);
        page.putInt(Layout.TABLE_HEADER_HEADER_LENGTH, Layout.HEADER_LENGTH);
        page.putLong(Layout.TABLE_HEADER_FILE_LENGTH, fileLength);
        page.put(Layout.TABLE_HEADER_TABLE_ID, Identity.bytes(id));
        page.putLong(Layout.TABLE_HEADER_CREATED_AT, createdAt);
        page.putInt(Layout.TABLE_HEADER_KEY_TYPE, keyType.code);
        page.putInt(Layout.TABLE_HEADER_KEY_BYTES, keyBytes);
        page.putInt(Layout.TABLE_HEADER_VALUE_BYTES, valueBytes);
        page.putInt(Layout.TABLE_HEADER_CHECKED, checked ? 1 : 0);
        page.putLong(Layout.TABLE_HEADER_CAPACITY, capacity);
        page.putLong(Layout.TABLE_HEADER_CELLS, cells);
        page.putLong(Layout.TABLE_HEADER_CELL_STRIDE, cellStride);
        page.putLong(Layout.TABLE_HEADER_ENTRIES, entries);
        page.putLong(Layout.TABLE_HEADER_CONTROL_OFFSET, controlOffset);
        page.putLong(Layout.TABLE_HEADER_INDEX_OFFSET, indexOffset);
        page.putLong(Layout.TABLE_HEADER_INDEX_STRIDE, indexStride);
        page.putLong(Layout.TABLE_HEADER_CELLS_OFFSET, cellsOffset);
        page.putLong(Layout.TABLE_HEADER_SCHEMA_OFFSET, schemaOffset);
        page.putLong(Layout.TABLE_HEADER_SCHEMA_LENGTH, schemaLength);
        page.putInt(Layout.TABLE_HEADER_SCHEMA_ID, schemaId);
        page.putInt(Layout.TABLE_HEADER_SCHEMA_VERSION, schemaVersion);
        page.putInt(Layout.TABLE_HEADER_VALUE_TEMPLATE, valueTemplate);
        page.putInt(Layout.TABLE_HEADER_CRC, Header.crc(page));
        return page;
    }

    /** Makes the checks of channel.md 3.3 on the first bytes of a file of {@code size} bytes. */
    static TableHeader parse(byte[] first, long size, String path) {
        int length = first.length;
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN).put(0, first);
        if (length < MAGIC.length || !page.slice(0, MAGIC.length).equals(ByteBuffer.wrap(MAGIC))) {
            throw new NotAChannelException(path, path + " is not a Flyring table: it does not start with the magic "
                + "FLYTABL. Name another file, or remove this one if it is not needed.");
        }
        if (length >= Layout.TABLE_HEADER_MINOR) {
            int major = page.getShort(Layout.TABLE_HEADER_MAJOR) & 0xffff;
            if (major > Layout.MAJOR) {
                throw tooNew(path, "major", major, Layout.MAJOR);
            }
            require(major == Layout.MAJOR, path, "major", major);
        }
        if (length >= Layout.TABLE_HEADER_OPTIONAL_FEATURES) {
            long features = page.getLong(Layout.TABLE_HEADER_REQUIRED_FEATURES);
            if (features != 0) {
                throw tooNew(path, "required_features", features, 0);
            }
        }
        if (length < Layout.HEADER_LENGTH) {
            throw truncated(path, Layout.HEADER_LENGTH, size);
        }
        long fileLength = page.getLong(Layout.TABLE_HEADER_FILE_LENGTH);
        if (fileLength > size) {
            throw truncated(path, fileLength, size);
        }
        require(fileLength == size, path, "file_length", fileLength);
        int crc = page.getInt(Layout.TABLE_HEADER_CRC);
        require(crc == Header.crc(page), path, "crc", crc);
        return fields(page, path);
    }

    private static TableHeader fields(ByteBuffer page, String path) {
        int headerLength = page.getInt(Layout.TABLE_HEADER_HEADER_LENGTH);
        require(headerLength == Layout.HEADER_LENGTH, path, "header_length", headerLength);
        KeyType keyType = KeyType.of(page.getInt(Layout.TABLE_HEADER_KEY_TYPE));
        require(keyType != null, path, "key_type", page.getInt(Layout.TABLE_HEADER_KEY_TYPE));
        int keyBytes = page.getInt(Layout.TABLE_HEADER_KEY_BYTES);
        require(keyType == KeyType.INTEGER ? keyBytes == Layout.TABLE_INTEGER_KEY_BYTES
            : keyBytes >= 1 && keyBytes <= Layout.TABLE_MAX_KEY_BYTES, path, "key_bytes", keyBytes);
        int valueBytes = page.getInt(Layout.TABLE_HEADER_VALUE_BYTES);
        require(valueBytes >= 0 && valueBytes <= Layout.TABLE_MAX_VALUE_BYTES, path, "value_bytes", valueBytes);
        int checked = page.getInt(Layout.TABLE_HEADER_CHECKED);
        require(checked == 0 || checked == 1, path, "checked", checked);
        long capacity = page.getLong(Layout.TABLE_HEADER_CAPACITY);
        require(capacity >= 1 && capacity <= Layout.TABLE_MAX_CAPACITY, path, "capacity", capacity);
        long schemaLength = page.getLong(Layout.TABLE_HEADER_SCHEMA_LENGTH);
        int schemaId = page.getInt(Layout.TABLE_HEADER_SCHEMA_ID);
        int schemaVersion = page.getInt(Layout.TABLE_HEADER_SCHEMA_VERSION);
        int template = page.getInt(Layout.TABLE_HEADER_VALUE_TEMPLATE);
        boolean some = schemaLength != 0;
        ByteBuffer id = page.duplicate().order(ByteOrder.BIG_ENDIAN);
        TableHeader header = new TableHeader(new Given(new UUID(id.getLong(Layout.TABLE_HEADER_TABLE_ID),
            id.getLong(Layout.TABLE_HEADER_TABLE_ID + Long.BYTES)), page.getLong(Layout.TABLE_HEADER_CREATED_AT),
            keyType, keyBytes, valueBytes, checked == 1, capacity, schemaLength, some ? schemaId : 0,
            some ? schemaVersion : 0, some ? template : 0));
        same(page, Layout.TABLE_HEADER_CELLS, header.cells, path, "cells");
        same(page, Layout.TABLE_HEADER_CELL_STRIDE, header.cellStride, path, "cell_stride");
        same(page, Layout.TABLE_HEADER_ENTRIES, header.entries, path, "entries");
        same(page, Layout.TABLE_HEADER_CONTROL_OFFSET, header.controlOffset, path, "control_offset");
        same(page, Layout.TABLE_HEADER_INDEX_OFFSET, header.indexOffset, path, "index_offset");
        same(page, Layout.TABLE_HEADER_INDEX_STRIDE, header.indexStride, path, "index_stride");
        same(page, Layout.TABLE_HEADER_CELLS_OFFSET, header.cellsOffset, path, "cells_offset");
        same(page, Layout.TABLE_HEADER_SCHEMA_OFFSET, header.schemaOffset, path, "schema_offset");
        require(schemaLength >= 0 && schemaLength <= Layout.MAX_SCHEMA_LENGTH, path, "schema_length", schemaLength);
        number(schemaId, path, "schema_id");
        number(schemaVersion, path, "schema_version");
        number(template, path, "value_template");
        long fileLength = page.getLong(Layout.TABLE_HEADER_FILE_LENGTH);
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
                + " is " + value + ", which the other fields do not allow. Create the table again.");
        }
    }

    private static VersionTooNewException tooNew(String path, String field, long found, long supported) {
        return new VersionTooNewException(field, found, supported, path + " was made by a newer Flyring: its field "
            + field + " is " + Long.toUnsignedString(found) + ", this version understands " + supported
            + ". Update this program's Flyring.");
    }

    private static TruncatedException truncated(String path, long expected, long actual) {
        return new TruncatedException(expected, actual, path + " is cut off: " + expected + " bytes were expected, it"
            + " has " + actual + ". Copy or create it again.");
    }
}
