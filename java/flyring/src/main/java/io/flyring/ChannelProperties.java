// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.UUID;

/** The properties with which a {@link Channel} was created and attached. They never change. */
abstract class ChannelProperties {
    final String path;
    final ChannelFile file;
    final Header header;
    private final String schema;

    ChannelProperties(String path, ChannelFile file, Header header) {
        this.path = path;
        this.file = file;
        this.header = header;
        this.schema = new String(file.read(header.schemaOffset, (int) header.schemaLength), StandardCharsets.UTF_8);
    }

    final Header header() {
        return header;
    }

    final ChannelFile file() {
        return file;
    }

    /**
     * The channel's file.
     *
     * @return the file's path at the time of the attach.
     */
    public String path() {
        return path;
    }

    /**
     * Whether the channel is attached read-only.
     *
     * @return true if every method that would write throws {@link AccessDeniedException}.
     */
    public boolean readOnly() {
        return file.readOnly();
    }

    /**
     * The channel's id.
     *
     * @return a UUID; every channel that is created gets a new one.
     */
    public UUID id() {
        return header.id;
    }

    /**
     * The channel's kind.
     *
     * @return inbox, broadcast, queue or service.
     */
    public Kind kind() {
        return header.kind;
    }

    /**
     * The size of one ring.
     *
     * @return bytes.
     */
    public int capacity() {
        return header.capacity;
    }

    /**
     * The number of publisher slots, which is the number of rings. A queue has one more than producers, for jobs that
     * were released. A service has two for each client.
     *
     * @return the number, from 1.
     */
    public int publishers() {
        return header.publishers;
    }

    /**
     * The number of subscriber slots. A queue has one more than workers, a service one more than clients.
     *
     * @return the number, from 0.
     */
    public int subscribers() {
        return header.subscribers;
    }

    /**
     * The largest number of publishers of a queue at a time.
     *
     * @return the number, from 1; 0 if the channel is not a queue.
     */
    public int producers() {
        return header.isQueue() ? header.producers() : 0;
    }

    /**
     * The largest number of workers of a queue at a time.
     *
     * @return the number, from 1; 0 if the channel is not a queue.
     */
    public int workers() {
        return header.isQueue() ? header.subscribers - 1 : 0;
    }

    /**
     * The largest number of clients of a service at a time.
     *
     * @return the number, from 1; 0 if the channel is not a service.
     */
    public int clients() {
        return header.clients();
    }

    /**
     * Whether the requests of a server that died go to the next server.
     *
     * @return the delivery; {@link Delivery#AT_MOST_ONCE} if the channel is not a service.
     */
    public Delivery delivery() {
        return header.atLeastOnce() ? Delivery.AT_LEAST_ONCE : Delivery.AT_MOST_ONCE;
    }

    /**
     * The largest number of calls that one client of a service may have under way at once.
     *
     * @return the number, from 1; 0 if the channel is not a service.
     */
    public int maxOutstanding() {
        return header.maxOutstanding;
    }

    /**
     * The alignment of records.
     *
     * @return 64 or 8, in bytes.
     */
    public int alignment() {
        return header.alignment;
    }

    /**
     * Which end of the channel a stock Agrona process has.
     *
     * @return {@link Foreign#NONE} if both ends are Flyring's.
     */
    public Foreign foreign() {
        return header.foreign;
    }

    /**
     * The number of counters that the channel has space for.
     *
     * @return the number, from 0.
     */
    public int counterSlots() {
        return header.counters;
    }

    /**
     * The size of the channel's file.
     *
     * @return bytes.
     */
    public long fileLength() {
        return header.fileLength;
    }

    /**
     * When the channel was created.
     *
     * @return nanoseconds since 1970-01-01 UTC.
     */
    public long createdAt() {
        return header.createdAt;
    }

    /**
     * The SBE schema of the messages.
     *
     * @return the schema's XML; empty if the channel has no schema.
     */
    public String schema() {
        return schema;
    }

    /**
     * The id of the schema.
     *
     * @return 0 to 65535; 0 if the channel has no schema.
     */
    public int schemaId() {
        return header.schemaId;
    }

    /**
     * The version of the schema.
     *
     * @return 0 to 65535; 0 if the channel has no schema.
     */
    public int schemaVersion() {
        return header.schemaVersion;
    }
}
