// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** The dimensions of a channel to be created. What is not set has its default. */
public final class ChannelOptions {
    final Kind kind;
    /** Null: not given; and so are the next seven. */
    Integer capacity;
    Integer publishers;
    Integer subscribers;
    Integer producers;
    Integer workers;
    Integer clients;
    Delivery delivery;
    Integer maxOutstanding;
    int alignment = Layout.DEFAULT_ALIGNMENT;
    Foreign foreign = Foreign.NONE;
    int counters = Layout.DEFAULT_COUNTERS;
    byte[] schema = new byte[0];
    int schemaId;
    int schemaVersion;
    int mode = 0600;
    boolean anyFileSystem;
    boolean wake = true;
    Identity identity = Identity.REAL;

    private ChannelOptions(Kind kind) {
        this.kind = kind;
    }

    /**
     * An inbox: subscriber slot 0 is kept from creation, so that what comes before the first subscriber waits for it.
     *
     * @return options with every default.
     */
    public static ChannelOptions inbox() {
        return new ChannelOptions(Kind.INBOX).subscribers(Layout.INBOX_SUBSCRIBERS);
    }

    /**
     * A broadcast: nothing is kept for anybody who has not joined.
     *
     * @return options with every default.
     */
    public static ChannelOptions broadcast() {
        return new ChannelOptions(Kind.BROADCAST);
    }

    /**
     * A queue: each message is a job that one worker gets, whichever is free.
     *
     * @return options with every default.
     */
    public static ChannelOptions queue() {
        return new ChannelOptions(Kind.QUEUE);
    }

    /**
     * Question and answer: clients call one server.
     *
     * @return options with the defaults of a service.
     */
    public static ChannelOptions service() {
        return new ChannelOptions(Kind.SERVICE);
    }

    /**
     * Size of one ring; default 1 MiB. Values are checked when the channel is created.
     *
     * @param bytes a power of two, 4 KiB to 1 GiB.
     * @return this.
     */
    public ChannelOptions capacity(int bytes) {
        capacity = bytes;
        return this;
    }

    /**
     * How many publishers there can be at a time; default 4. Not of a queue, which has {@link #producers(int)}.
     *
     * @param count 1 to 1024.
     * @return this.
     */
    public ChannelOptions publishers(int count) {
        publishers = count;
        return this;
    }

    /**
     * How many reliable subscribers there can be at a time; default 4. Not of a queue, which has
     * {@link #workers(int)}.
     *
     * @param count 0 to 1024, for an inbox at least 1.
     * @return this.
     */
    public ChannelOptions subscribers(int count) {
        subscribers = count;
        return this;
    }

    /**
     * How many publishers a queue can have at a time; default 4. Only of a queue.
     *
     * @param count 1 to 1023.
     * @return this.
     */
    public ChannelOptions producers(int count) {
        producers = count;
        return this;
    }

    /**
     * How many workers a queue can have at a time; default 4. Only of a queue.
     *
     * @param count 1 to 1023.
     * @return this.
     */
    public ChannelOptions workers(int count) {
        workers = count;
        return this;
    }

    /**
     * How many clients a service can have, 1 to 512; 16 if it is not given.
     *
     * @param count the number.
     * @return this.
     */
    public ChannelOptions clients(int count) {
        clients = count;
        return this;
    }

    /**
     * What becomes of a service's requests whose server dies; at most once if it is not given.
     *
     * @param value which of the two.
     * @return this.
     */
    public ChannelOptions delivery(Delivery value) {
        delivery = Objects.requireNonNull(value, "value");
        return this;
    }

    /**
     * How many calls of one client of a service may be under way at once, 1 to 65535; 64 if it is not given.
     *
     * @param count the number.
     * @return this.
     */
    public ChannelOptions maxOutstanding(int count) {
        maxOutstanding = count;
        return this;
    }

    int ringCapacity() {
        return given(capacity, kind == Kind.SERVICE ? Layout.DEFAULT_SERVICE_CAPACITY : Layout.DEFAULT_CAPACITY);
    }

    int deliveryCode() {
        return delivery == null ? Layout.DELIVERY_AT_MOST_ONCE : delivery.code;
    }

    /** Of a service: calls of one client under way; 0 elsewhere. */
    int calls() {
        return kind == Kind.SERVICE ? given(maxOutstanding, Layout.DEFAULT_MAX_OUTSTANDING) : 0;
    }

    private int clientPlaces() {
        return given(clients, Layout.DEFAULT_CLIENTS);
    }

    /** P: publishers, or of a queue producers and the returns ring. */
    int publisherSlots() {
        return kind == Kind.SERVICE ? 2 * Math.max(0, Math.min(clientPlaces(), Layout.MAX_CLIENTS + 1))
            : kind == Kind.QUEUE ? given(producers, Layout.DEFAULT_PRODUCERS) + 1
            : given(publishers, Layout.DEFAULT_PUBLISHERS);
    }

    /** S: subscribers, or of a queue workers and the shared slot. */
    int subscriberSlots() {
        return kind == Kind.SERVICE ? Math.max(0, Math.min(clientPlaces(), Layout.MAX_CLIENTS + 1)) + 1
            : kind == Kind.QUEUE ? given(workers, Layout.DEFAULT_WORKERS) + 1
            : given(subscribers, Layout.DEFAULT_SUBSCRIBERS);
    }

    private static int given(Integer value, int absent) {
        return value == null ? absent : value;
    }

    /**
     * Where records may start; default 64, a cache line. 8 is compact.
     *
     * @param bytes 64 or 8.
     * @return this.
     */
    public ChannelOptions alignment(int bytes) {
        alignment = bytes;
        return this;
    }

    /**
     * Which end a stock Agrona process has; default none. Such a channel must be an inbox with 1 publisher, 1
     * subscriber and alignment 8: its ring is an Agrona {@code OneToOneRingBuffer} then. Spec 6.15.
     *
     * @param end the end that is not Flyring's.
     * @return this.
     */
    public ChannelOptions foreign(Foreign end) {
        foreign = Objects.requireNonNull(end, "end");
        return this;
    }

    /**
     * How many shared counters the channel has; default 64.
     *
     * @param count 0 to 65536.
     * @return this.
     */
    public ChannelOptions counters(int count) {
        counters = count;
        return this;
    }

    /**
     * The SBE schema of the messages, stored in the file; default none.
     *
     * @param text the schema's XML, at most 16 MiB in UTF-8.
     * @param id the schema's id, 0 to 65535.
     * @param version the schema's version, 0 to 65535.
     * @return this.
     */
    public ChannelOptions schema(String text, int id, int version) {
        schema = Objects.requireNonNull(text, "text").getBytes(StandardCharsets.UTF_8);
        schemaId = id;
        schemaVersion = version;
        return this;
    }

    /**
     * The SBE schema of the messages, stored in the file; default none.
     *
     * @param value the schema.
     * @return this.
     */
    public ChannelOptions schema(Schema value) {
        return schema(value.text(), value.id(), value.version());
    }

    /**
     * Permission bits of the file; default 0600.
     *
     * @param bits 0 to 0777.
     * @return this.
     */
    public ChannelOptions mode(int bits) {
        mode = bits;
        return this;
    }

    /**
     * Whether any file system will do; default false: only those on which sharing memory is known to work.
     *
     * @param any true to accept every one.
     * @return this.
     */
    public ChannelOptions anyFileSystem(boolean any) {
        anyFileSystem = any;
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
    public ChannelOptions wake(boolean value) {
        wake = value;
        return this;
    }

    /** Who attaches, and when; for tests. What the channel makes has the same identity. */
    ChannelOptions identity(Identity values) {
        identity = values;
        return this;
    }

    /** Throws {@link ChannelDiffersException} for the first field in which a channel is not what these ask for. */
    void compare(Header header, String path) {
        same("kind", kind, header.kind, path);
        same("capacity", ringCapacity(), header.capacity, path);
        if (kind == Kind.SERVICE) {
            same("clients", clientPlaces(), header.clients(), path);
            same("delivery", deliveryCode(), header.delivery, path);
            same("max_outstanding", calls(), header.maxOutstanding, path);
        }
        int shared = kind == Kind.QUEUE ? 1 : 0; // of each, one more than was asked for
        same(shared > 0 ? "producers" : "publishers", publisherSlots() - shared, header.publishers - shared, path);
        same(shared > 0 ? "workers" : "subscribers", subscriberSlots() - shared, header.subscribers - shared, path);
        same("alignment", alignment, header.alignment, path);
        same("foreign", foreign, header.foreign, path);
        same("counters", counters, header.counters, path);
        same("schema_id", schemaId, header.schemaId, path);
        if (header.schemaVersion < schemaVersion) { // a newer one will do
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
