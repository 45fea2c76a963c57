// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** The kind and dimensions of a channel to be created. Each option that is not set has its default. */
public final class ChannelOptions {
    final Kind kind;
    /** Null if not given; so are the next seven fields. */
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
     * An inbox: has one subscriber, with a slot that is kept from creation. Messages that arrive before the first
     * subscriber wait for it.
     *
     * @return options with every default.
     */
    public static ChannelOptions inbox() {
        return new ChannelOptions(Kind.INBOX).subscribers(Layout.INBOX_SUBSCRIBERS);
    }

    /**
     * A broadcast: a subscriber receives what is published after it has joined.
     *
     * @return options with every default.
     */
    public static ChannelOptions broadcast() {
        return new ChannelOptions(Kind.BROADCAST);
    }

    /**
     * A queue: each message is a job for one free worker.
     *
     * @return options with every default.
     */
    public static ChannelOptions queue() {
        return new ChannelOptions(Kind.QUEUE);
    }

    /**
     * A service: clients call one server.
     *
     * @return options with the defaults of a service.
     */
    public static ChannelOptions service() {
        return new ChannelOptions(Kind.SERVICE);
    }

    /**
     * The size of one ring; default 1 MiB, of a service 64 KiB. All options are validated when the channel is created.
     *
     * @param bytes a power of two, 4 KiB to 1 GiB.
     * @return this.
     */
    public ChannelOptions capacity(int bytes) {
        capacity = bytes;
        return this;
    }

    /**
     * The largest number of publishers at a time; default 4. Not for a queue, which has {@link #producers(int)}, nor
     * for a service.
     *
     * @param count 1 to 1024.
     * @return this.
     */
    public ChannelOptions publishers(int count) {
        publishers = count;
        return this;
    }

    /**
     * The largest number of reliable subscribers at a time; default 4. Not for a queue, which has
     * {@link #workers(int)}, nor for a service.
     *
     * @param count 0 to 1024; for an inbox 1.
     * @return this.
     */
    public ChannelOptions subscribers(int count) {
        subscribers = count;
        return this;
    }

    /**
     * The largest number of publishers of a queue at a time; default 4. Only for a queue.
     *
     * @param count 1 to 1023.
     * @return this.
     */
    public ChannelOptions producers(int count) {
        producers = count;
        return this;
    }

    /**
     * The largest number of workers of a queue at a time; default 4. Only for a queue.
     *
     * @param count 1 to 1023.
     * @return this.
     */
    public ChannelOptions workers(int count) {
        workers = count;
        return this;
    }

    /**
     * The largest number of clients of a service at a time; default 16. Only for a service.
     *
     * @param count 1 to 512.
     * @return this.
     */
    public ChannelOptions clients(int count) {
        clients = count;
        return this;
    }

    /**
     * Whether the requests of a server that died go to the next server; default {@link Delivery#AT_MOST_ONCE}. Only for
     * a service.
     *
     * @param value the delivery.
     * @return this.
     */
    public ChannelOptions delivery(Delivery value) {
        delivery = Objects.requireNonNull(value, "value");
        return this;
    }

    /**
     * The largest number of calls that one client may have under way at once; default 64. Only for a service.
     *
     * @param count 1 to 65535.
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

    /** The largest number of outstanding calls of one client of a service; 0 for other kinds. */
    int calls() {
        return kind == Kind.SERVICE ? given(maxOutstanding, Layout.DEFAULT_MAX_OUTSTANDING) : 0;
    }

    private int clientPlaces() {
        return given(clients, Layout.DEFAULT_CLIENTS);
    }

    /** P: the publishers; of a queue the producers and the returns ring. */
    int publisherSlots() {
        return kind == Kind.SERVICE ? 2 * Math.max(0, Math.min(clientPlaces(), Layout.MAX_CLIENTS + 1))
            : kind == Kind.QUEUE ? given(producers, Layout.DEFAULT_PRODUCERS) + 1
            : given(publishers, Layout.DEFAULT_PUBLISHERS);
    }

    /** S: the subscribers; of a queue the workers and the shared slot. */
    int subscriberSlots() {
        return kind == Kind.SERVICE ? Math.max(0, Math.min(clientPlaces(), Layout.MAX_CLIENTS + 1)) + 1
            : kind == Kind.QUEUE ? given(workers, Layout.DEFAULT_WORKERS) + 1
            : given(subscribers, Layout.DEFAULT_SUBSCRIBERS);
    }

    private static int given(Integer value, int absent) {
        return value == null ? absent : value;
    }

    /**
     * The alignment of records; default 64, a cache line. 8 takes less space.
     *
     * @param bytes 64 or 8.
     * @return this.
     */
    public ChannelOptions alignment(int bytes) {
        alignment = bytes;
        return this;
    }

    /**
     * Which end of the channel a stock Agrona process has; default none. A channel with a foreign end must be an inbox
     * with 1 publisher, 1 subscriber and alignment 8: its ring is an Agrona {@code OneToOneRingBuffer}. Spec channel.md
     * 6.15.
     *
     * @param end the foreign end.
     * @return this.
     */
    public ChannelOptions foreign(Foreign end) {
        foreign = Objects.requireNonNull(end, "end");
        return this;
    }

    /**
     * The number of shared counters; default 64.
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
     * The permission bits of the file; default 0600.
     *
     * @param bits 0 to 0777.
     * @return this.
     */
    public ChannelOptions mode(int bits) {
        mode = bits;
        return this;
    }

    /**
     * Whether any file system is accepted; default false: only file systems on which shared memory is known to work.
     *
     * @param any true to accept every file system.
     * @return this.
     */
    public ChannelOptions anyFileSystem(boolean any) {
        anyFileSystem = any;
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
    public ChannelOptions wake(boolean value) {
        wake = value;
        return this;
    }

    /** Sets identity and clocks, for tests. Everything that the channel makes uses them. */
    ChannelOptions identity(Identity values) {
        identity = values;
        return this;
    }

    /** Throws {@link ChannelDiffersException} for the first field in which a channel differs from these options. */
    void compare(Header header, String path) {
        same("kind", kind, header.kind, path);
        same("capacity", ringCapacity(), header.capacity, path);
        if (kind == Kind.SERVICE) {
            same("clients", clientPlaces(), header.clients(), path);
            same("delivery", deliveryCode(), header.delivery, path);
            same("max_outstanding", calls(), header.maxOutstanding, path);
        }
        int shared = kind == Kind.QUEUE ? 1 : 0; // the file has one publisher slot and one subscriber slot more
        same(shared > 0 ? "producers" : "publishers", publisherSlots() - shared, header.publishers - shared, path);
        same(shared > 0 ? "workers" : "subscribers", subscriberSlots() - shared, header.subscribers - shared, path);
        same("alignment", alignment, header.alignment, path);
        same("foreign", foreign, header.foreign, path);
        same("counters", counters, header.counters, path);
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
