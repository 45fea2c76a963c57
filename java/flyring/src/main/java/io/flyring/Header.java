// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.UUID;
import java.util.zip.CRC32C;

/** The header page, read once into private memory and checked field by field (channel.md 3.3, 4.1, 4.2). */
final class Header {
    static final byte[] MAGIC = HexFormat.of().parseHex(Layout.MAGIC_HEX);
    private static final int MAX_SCHEMA_NUMBER = 0xffff;

    final Kind kind;
    final int capacity;
    final int alignment;
    final Foreign foreign;
    final int publishers;
    final int subscribers;
    final int counters;
    final int schemaId;
    final int schemaVersion;
    /** Of a service: the delivery, and the largest number of outstanding calls of one client; 0 for other kinds. */
    final int delivery;
    final int maxOutstanding;
    final UUID id;
    final long createdAt;

    final long controlOffset = Layout.HEADER_LENGTH;
    final long controlLength;
    final long counterMetadataOffset;
    final long counterMetadataLength;
    final long counterValuesOffset;
    final long counterValuesLength;
    final long ringsOffset;
    final long ringStride;
    final long schemaOffset;
    final long schemaLength;
    /** The length that 4.1 computes; a file of a newer minor version may be longer. */
    long fileLength;

    private Header(Kind kind, int capacity, int alignment, Foreign foreign, int publishers, int subscribers,
        int counters, long schemaLength, int schemaId, int schemaVersion, UUID id, long createdAt, int delivery,
        int maxOutstanding) {
        this.kind = kind;
        this.capacity = capacity;
        this.alignment = alignment;
        this.foreign = foreign;
        this.publishers = publishers;
        this.subscribers = subscribers;
        this.counters = counters;
        this.schemaLength = schemaLength;
        this.schemaId = schemaId;
        this.schemaVersion = schemaVersion;
        this.id = id;
        this.createdAt = createdAt;
        this.delivery = delivery;
        this.maxOutstanding = maxOutstanding;
        controlLength = pages(Layout.CONTROL_SLOTS + (long) Layout.CONTROL_SLOT_LENGTH * (publishers + subscribers));
        counterMetadataOffset = pages(controlOffset + controlLength);
        counterMetadataLength = (long) Layout.COUNTER_METADATA_STRIDE * counters;
        counterValuesOffset = pages(counterMetadataOffset + counterMetadataLength);
        counterValuesLength = (long) Layout.COUNTER_VALUE_STRIDE * counters;
        ringsOffset = pages(counterValuesOffset + counterValuesLength);
        ringStride = capacity + trailerLength();
        schemaOffset = pages(ringsOffset + ringStride * publishers);
        fileLength = pages(schemaOffset + schemaLength);
    }

    static Header of(ChannelOptions options, UUID id, long createdAt) {
        int c = options.ringCapacity();
        check(c >= Layout.MIN_CAPACITY && c <= Layout.MAX_CAPACITY && Integer.bitCount(c) == 1, "capacity", c,
            "a power of two from 4096 to 1073741824 bytes");
        int p = options.publisherSlots();
        int s = options.subscriberSlots();
        if (options.kind == Kind.QUEUE) {
            checkAbsent(options.publishers, "publishers", "a queue has producers");
            checkAbsent(options.subscribers, "subscribers", "a queue has workers");
            check(p - 1 >= 1 && p - 1 < Layout.MAX_PUBLISHERS, "producers", options.producers, "1 to 1023");
            check(s - 1 >= 1 && s - 1 < Layout.MAX_SUBSCRIBERS, "workers", options.workers, "1 to 1023");
        } else if (options.kind == Kind.SERVICE) {
            checkAbsent(options.publishers, "publishers", "a service has clients");
            checkAbsent(options.subscribers, "subscribers", "a service has clients");
            checkAbsent(options.producers, "producers", "a service has clients");
            checkAbsent(options.workers, "workers", "a service has clients");
            check(s - 1 >= 1 && s - 1 <= Layout.MAX_CLIENTS, "clients", options.clients, "1 to 512");
        } else {
            check(p >= 1 && p <= Layout.MAX_PUBLISHERS, "publishers", options.publishers, "1 to 1024");
            check(subscribers(options.kind, s), "subscribers", options.subscribers,
                options.kind == Kind.INBOX ? "1 in an inbox" : "0 to 1024");
            checkAbsent(options.producers, "producers", "only a queue has them");
            checkAbsent(options.workers, "workers", "only a queue has them");
        }
        if (options.kind != Kind.SERVICE) {
            checkAbsent(options.clients, "clients", "only a service has them");
            checkAbsent(options.delivery, "delivery", "only a service has it");
            checkAbsent(options.maxOutstanding, "max_outstanding", "only a service has it");
        }
        int outstanding = options.calls();
        check(options.kind != Kind.SERVICE || outstanding >= 1 && outstanding <= Layout.HIGHEST_MAX_OUTSTANDING,
            "max_outstanding", outstanding, "1 to 65535");
        check(options.alignment == 8 || options.alignment == 64, "alignment", options.alignment, "64 or 8");
        check(options.foreign == Foreign.NONE || likeAgrona(options.kind, options.alignment, p, s), "foreign",
            options.foreign, "none but for an inbox with alignment 8, 1 publisher and 1 subscriber");
        check(options.counters >= 0 && options.counters <= Layout.MAX_COUNTERS, "counters", options.counters,
            "0 to 65536");
        check(options.schema.length <= Layout.MAX_SCHEMA_LENGTH, "schema", options.schema.length,
            "at most 16777216 bytes of UTF-8");
        check(number(options.schemaId), "schema_id", options.schemaId, "0 to 65535");
        check(number(options.schemaVersion), "schema_version", options.schemaVersion, "0 to 65535");
        boolean some = options.schema.length > 0;
        check(some || options.schemaId == 0, "schema_id", options.schemaId, "0 without a schema");
        check(some || options.schemaVersion == 0, "schema_version", options.schemaVersion, "0 without a schema");
        check((options.mode & ~0777) == 0, "mode", options.mode, "permission bits, 0 to 0777");
        return new Header(options.kind, c, options.alignment, options.foreign, p, s, options.counters,
            options.schema.length, options.schemaId, options.schemaVersion, id, createdAt,
            options.deliveryCode(), options.calls());
    }

    /** Whether a ring has the layout of Agrona's ring buffer, so that a foreign end is possible (6.15). */
    private static boolean likeAgrona(Kind kind, int alignment, int publishers, int subscribers) {
        return kind == Kind.INBOX && alignment == 8 && publishers == 1 && subscribers == 1;
    }

    private static boolean subscribers(Kind kind, int number) {
        return kind == Kind.INBOX ? number == Layout.INBOX_SUBSCRIBERS
            : number >= (kind == Kind.QUEUE ? Layout.MIN_QUEUE_SLOTS : 0) && number <= Layout.MAX_SUBSCRIBERS;
    }

    private static boolean number(long value) {
        return value >= 0 && value <= MAX_SCHEMA_NUMBER;
    }

    private static void check(boolean good, String argument, Object value, String valid) {
        if (!good) {
            throw new InvalidArgumentException(argument,
                "The option " + argument + " is " + value + "; it must be " + valid + ".");
        }
    }

    private static void checkAbsent(Object value, String argument, String why) {
        if (value != null) {
            throw new InvalidArgumentException(argument, "The option " + argument + " is " + value
                + ", but does not belong to this kind of channel: " + why + ". Leave it out.");
        }
    }

    boolean isQueue() {
        return kind == Kind.QUEUE;
    }

    boolean isService() {
        return kind == Kind.SERVICE;
    }

    /** N: the clients of a service; 0 for other kinds. */
    int clients() {
        return isService() ? publishers / 2 : 0;
    }

    boolean atLeastOnce() {
        return delivery == Layout.DELIVERY_AT_LEAST_ONCE;
    }

    /** The number of publishers: of a queue one less than rings, because the last ring holds released jobs. */
    int producers() {
        return isQueue() ? publishers - 1 : publishers;
    }

    /** The first subscriber slot that can have an owner: slot 0 of a queue is shared. */
    int firstSubscriber() {
        return isQueue() ? 1 : 0;
    }

    /** Whether a ring is the returns ring of a queue. */
    boolean isReturns(int ring) {
        return isQueue() && ring == publishers - 1;
    }

    /** The longest payload of a ring; a job leaves room for the prefix that a release puts in front of it. */
    int longestMessage(int ring) {
        return capacity / Layout.MAX_MESSAGE_DIVISOR - Layout.RECORD_HEADER_LENGTH
            - (isQueue() && !isReturns(ring) ? Layout.RELEASED_LENGTH : 0);
    }

    static long pages(long length) {
        return length + Layout.SECTION_ALIGNMENT - 1 & -Layout.SECTION_ALIGNMENT;
    }

    int trailerLength() {
        int gates = isService() ? 1 : subscribers;
        return (int) pages(Layout.TRAILER_LENGTH + (long) Layout.TRAILER_GATE_STRIDE * Math.max(0, gates - 1));
    }

    long ringOffset(int ring) {
        return ringsOffset + ring * ringStride;
    }

    /** W of channel.md 6: how far a publisher clears ahead, in bytes. */
    int window() {
        return alignment == Layout.DEFAULT_ALIGNMENT
            ? Math.min(Layout.CLEAR_AHEAD, capacity / Layout.CLEAR_AHEAD_DIVISOR) : 0;
    }

    /** The offset of a slot's gate in the trailers of its rings; rings of a service have one gate (service.md 2). */
    int gateAt(int slot) {
        return isService() ? Layout.TRAILER_GATE : gate(slot);
    }

    /** The first slot that may gate a ring. */
    int firstGate(int ring) {
        return isService() && ring >= clients() ? 1 + ring - clients() : 0;
    }

    /** One more than the last slot that may gate a ring. */
    int endOfGates(int ring) {
        return isService() ? firstGate(ring) + 1 : subscribers;
    }

    /** Whether a slot may gate a ring. */
    boolean mayGate(int ring, int slot) {
        return slot >= firstGate(ring) && slot < endOfGates(ring);
    }

    static int gate(int slot) {
        return slot == 0 ? Layout.TRAILER_GATE : Layout.TRAILER_MORE_GATES + (slot - 1) * Layout.TRAILER_GATE_STRIDE;
    }

    static int start(int ring) {
        return Layout.START_STRIDE * ring % Layout.START_MODULUS;
    }

    int publisherSlot(int slot) {
        return Layout.CONTROL_SLOTS + Layout.CONTROL_SLOT_LENGTH * slot;
    }

    int subscriberSlot(int slot) {
        return publisherSlot(publishers + slot);
    }

    ByteBuffer encode() {
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN);
        page.put(Layout.HEADER_MAGIC, MAGIC);
        page.putShort(Layout.HEADER_MAJOR, (short) Layout.MAJOR);
        page.putShort(Layout.HEADER_MINOR, (short) Layout.MINOR);
        page.putInt(Layout.HEADER_HEADER_LENGTH, Layout.HEADER_LENGTH);
        page.putLong(Layout.HEADER_REQUIRED_FEATURES, foreign.feature);
        page.putLong(Layout.HEADER_FILE_LENGTH, fileLength);
        page.put(Layout.HEADER_CHANNEL_ID, Identity.bytes(id));
        page.putLong(Layout.HEADER_CREATED_AT, createdAt);
        page.putInt(Layout.HEADER_KIND, kind.code);
        page.putInt(Layout.HEADER_ALIGNMENT, alignment);
        page.putInt(Layout.HEADER_CAPACITY, capacity);
        page.putInt(Layout.HEADER_PUBLISHERS, publishers);
        page.putInt(Layout.HEADER_SUBSCRIBERS, subscribers);
        page.putInt(Layout.HEADER_COUNTERS, counters);
        page.putLong(Layout.HEADER_CONTROL_OFFSET, controlOffset);
        page.putLong(Layout.HEADER_CONTROL_LENGTH, controlLength);
        page.putLong(Layout.HEADER_COUNTER_METADATA_OFFSET, counterMetadataOffset);
        page.putLong(Layout.HEADER_COUNTER_METADATA_LENGTH, counterMetadataLength);
        page.putLong(Layout.HEADER_COUNTER_VALUES_OFFSET, counterValuesOffset);
        page.putLong(Layout.HEADER_COUNTER_VALUES_LENGTH, counterValuesLength);
        page.putLong(Layout.HEADER_RINGS_OFFSET, ringsOffset);
        page.putLong(Layout.HEADER_RING_STRIDE, ringStride);
        page.putLong(Layout.HEADER_SCHEMA_OFFSET, schemaOffset);
        page.putLong(Layout.HEADER_SCHEMA_LENGTH, schemaLength);
        page.putInt(Layout.HEADER_SCHEMA_ID, schemaId);
        page.putInt(Layout.HEADER_SCHEMA_VERSION, schemaVersion);
        page.putInt(Layout.HEADER_DELIVERY, delivery);
        page.putInt(Layout.HEADER_MAX_OUTSTANDING, maxOutstanding);
        page.putInt(Layout.HEADER_CRC, crc(page));
        return page;
    }

    static int crc(ByteBuffer page) {
        CRC32C crc = new CRC32C();
        crc.update(page.array(), 0, Layout.HEADER_CRC_LENGTH);
        return (int) crc.getValue();
    }

    /** Makes checks 1 to 9 of 3.3 on the first bytes of a file of {@code size} bytes; throws for the first failure. */
    static Header parse(byte[] first, long size, String path) {
        int length = first.length;
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN).put(0, first);
        if (length < MAGIC.length || !page.slice(0, MAGIC.length).equals(ByteBuffer.wrap(MAGIC))) {
            throw new NotAChannelException(path, path + " is not a Flyring channel: it does not start with the magic "
                + "FLYRING. Name another file, or remove this one if it is not needed.");
        }
        if (length >= Layout.HEADER_MINOR) {
            int major = page.getShort(Layout.HEADER_MAJOR) & 0xffff;
            if (major > Layout.MAJOR) {
                throw tooNew(path, "major", major, Layout.MAJOR);
            }
            require(major == Layout.MAJOR, path, "major", major);
        }
        if (length >= Layout.HEADER_OPTIONAL_FEATURES) {
            long features = page.getLong(Layout.HEADER_REQUIRED_FEATURES);
            if ((features & ~(long) Layout.SUPPORTED_REQUIRED_FEATURES) != 0) {
                throw tooNew(path, "required_features", features, Layout.SUPPORTED_REQUIRED_FEATURES);
            }
        }
        if (length < Layout.HEADER_LENGTH) {
            throw truncated(path, Layout.HEADER_LENGTH, size);
        }
        long fileLength = page.getLong(Layout.HEADER_FILE_LENGTH);
        if (fileLength > size) {
            throw truncated(path, fileLength, size);
        }
        require(fileLength == size, path, "file_length", fileLength);
        require(page.getInt(Layout.HEADER_CRC) == crc(page), path, "crc", page.getInt(Layout.HEADER_CRC));
        return fields(page, path);
    }

    private static Header fields(ByteBuffer page, String path) {
        int headerLength = page.getInt(Layout.HEADER_HEADER_LENGTH);
        require(headerLength == Layout.HEADER_LENGTH, path, "header_length", headerLength);
        int features = (int) page.getLong(Layout.HEADER_REQUIRED_FEATURES); // only supported bits, as checked above
        require(features == 0 || Integer.bitCount(features) == 1, path, "required_features", features);
        Kind kind = Kind.of(page.getInt(Layout.HEADER_KIND));
        require(kind != null, path, "kind", page.getInt(Layout.HEADER_KIND));
        int alignment = page.getInt(Layout.HEADER_ALIGNMENT);
        require(alignment == 8 || alignment == 64, path, "alignment", alignment);
        int capacity = page.getInt(Layout.HEADER_CAPACITY);
        require(capacity >= Layout.MIN_CAPACITY && capacity <= Layout.MAX_CAPACITY && Integer.bitCount(capacity) == 1,
            path, "capacity", capacity);
        int publishers = page.getInt(Layout.HEADER_PUBLISHERS);
        require(publishers >= (kind == Kind.QUEUE ? Layout.MIN_QUEUE_SLOTS : 1)
            && publishers <= Layout.MAX_PUBLISHERS && (kind != Kind.SERVICE || publishers % 2 == 0), path, "publishers",
            publishers);
        int subscribers = page.getInt(Layout.HEADER_SUBSCRIBERS);
        require(kind == Kind.SERVICE ? subscribers == publishers / 2 + 1 : subscribers(kind, subscribers), path,
            "subscribers", subscribers);
        boolean service = kind == Kind.SERVICE;
        int delivery = service ? page.getInt(Layout.HEADER_DELIVERY) : 0;
        int outstanding = service ? page.getInt(Layout.HEADER_MAX_OUTSTANDING) : 0;
        int counters = page.getInt(Layout.HEADER_COUNTERS);
        require(counters >= 0 && counters <= Layout.MAX_COUNTERS, path, "counters", counters);
        long schemaLength = page.getLong(Layout.HEADER_SCHEMA_LENGTH);
        int schemaId = page.getInt(Layout.HEADER_SCHEMA_ID);
        int schemaVersion = page.getInt(Layout.HEADER_SCHEMA_VERSION);
        ByteBuffer id = page.duplicate().order(ByteOrder.BIG_ENDIAN);
        Header header = new Header(kind, capacity, alignment, foreign(features), publishers, subscribers, counters,
            schemaLength, schemaLength == 0 ? 0 : schemaId, schemaLength == 0 ? 0 : schemaVersion,
            new UUID(id.getLong(Layout.HEADER_CHANNEL_ID), id.getLong(Layout.HEADER_CHANNEL_ID + Long.BYTES)),
            page.getLong(Layout.HEADER_CREATED_AT), delivery, outstanding);
        same(page, Layout.HEADER_CONTROL_OFFSET, header.controlOffset, path, "control_offset");
        same(page, Layout.HEADER_CONTROL_LENGTH, header.controlLength, path, "control_length");
        same(page, Layout.HEADER_COUNTER_METADATA_OFFSET, header.counterMetadataOffset, path,
            "counter_metadata_offset");
        same(page, Layout.HEADER_COUNTER_METADATA_LENGTH, header.counterMetadataLength, path,
            "counter_metadata_length");
        same(page, Layout.HEADER_COUNTER_VALUES_OFFSET, header.counterValuesOffset, path, "counter_values_offset");
        same(page, Layout.HEADER_COUNTER_VALUES_LENGTH, header.counterValuesLength, path, "counter_values_length");
        same(page, Layout.HEADER_RINGS_OFFSET, header.ringsOffset, path, "rings_offset");
        same(page, Layout.HEADER_RING_STRIDE, header.ringStride, path, "ring_stride");
        same(page, Layout.HEADER_SCHEMA_OFFSET, header.schemaOffset, path, "schema_offset");
        require(schemaLength >= 0 && schemaLength <= Layout.MAX_SCHEMA_LENGTH, path, "schema_length", schemaLength);
        require(number(schemaId), path, "schema_id", schemaId);
        require(number(schemaVersion), path, "schema_version", schemaVersion);
        require(delivery == Layout.DELIVERY_AT_MOST_ONCE || delivery == Layout.DELIVERY_AT_LEAST_ONCE, path, "delivery",
            delivery);
        require(!service || outstanding >= 1 && outstanding <= Layout.HIGHEST_MAX_OUTSTANDING, path, "max_outstanding",
            outstanding);
        require(features == 0 || likeAgrona(header.kind, alignment, publishers, subscribers), path,
            "required_features", features);
        long fileLength = page.getLong(Layout.HEADER_FILE_LENGTH);
        require(header.fileLength <= fileLength, path, "file_length", fileLength);
        header.fileLength = fileLength;
        return header;
    }

    private static Foreign foreign(int features) {
        return (features & Foreign.PUBLISHER.feature) != 0 ? Foreign.PUBLISHER
            : (features & Foreign.SUBSCRIBER.feature) != 0 ? Foreign.SUBSCRIBER : Foreign.NONE;
    }

    private static void same(ByteBuffer page, int offset, long expected, String path, String field) {
        require(page.getLong(offset) == expected, path, field, page.getLong(offset));
    }

    private static void require(boolean good, String path, String field, long value) {
        if (!good) {
            throw new CorruptHeaderException(field, "The header of " + path + " is damaged: its field " + field
                + " is " + value + ", which the other fields do not allow. Create the channel again.");
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
