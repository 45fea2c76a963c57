// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.UUID;

/** What a {@link Channel} was created with, and how it is attached: it stays as it is until the channel goes. */
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
     * @return its path, as it was when the channel was attached.
     */
    public String path() {
        return path;
    }

    /**
     * Whether the channel is attached read-only.
     *
     * @return true if what writes is {@link AccessDeniedException}.
     */
    public boolean readOnly() {
        return file.readOnly();
    }

    /**
     * The channel's id.
     *
     * @return a new one at each creation.
     */
    public UUID id() {
        return header.id;
    }

    /**
     * The channel's kind.
     *
     * @return inbox, broadcast or queue.
     */
    public Kind kind() {
        return header.kind;
    }

    /**
     * Size of one ring.
     *
     * @return bytes.
     */
    public int capacity() {
        return header.capacity;
    }

    /**
     * How many publishers there can be at a time, which is the number of rings. A queue has one more, for jobs that
     * were released.
     *
     * @return from 1.
     */
    public int publishers() {
        return header.publishers;
    }

    /**
     * How many subscribers there can be at a time. A queue has one slot more than workers.
     *
     * @return from 0.
     */
    public int subscribers() {
        return header.subscribers;
    }

    /**
     * How many publishers a queue can have at a time.
     *
     * @return from 1; 0 if the channel is no queue.
     */
    public int producers() {
        return header.isQueue() ? header.producers() : 0;
    }

    /**
     * How many workers a queue can have at a time.
     *
     * @return from 1; 0 if the channel is no queue.
     */
    public int workers() {
        return header.isQueue() ? header.subscribers - 1 : 0;
    }

    /**
     * How many clients a service can have.
     *
     * @return the number; 0 if it is no service.
     */
    public int clients() {
        return header.clients();
    }

    /**
     * What becomes of a service's requests whose server dies.
     *
     * @return which of the two; at most once if it is no service.
     */
    public Delivery delivery() {
        return header.atLeastOnce() ? Delivery.AT_LEAST_ONCE : Delivery.AT_MOST_ONCE;
    }

    /**
     * How many calls of one client of a service may be under way at once.
     *
     * @return the number; 0 if it is no service.
     */
    public int maxOutstanding() {
        return header.maxOutstanding;
    }

    /**
     * Where records may start.
     *
     * @return 64 or 8, bytes.
     */
    public int alignment() {
        return header.alignment;
    }

    /**
     * Which end a stock Agrona process has.
     *
     * @return none if both ends are Flyring's.
     */
    public Foreign foreign() {
        return header.foreign;
    }

    /**
     * How many counters the channel can have.
     *
     * @return from 0.
     */
    public int counterSlots() {
        return header.counters;
    }

    /**
     * Size of the channel's file.
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
     * @return its XML, empty if the channel has none.
     */
    public String schema() {
        return schema;
    }

    /**
     * Id of the schema.
     *
     * @return 0 to 65535, 0 if the channel has none.
     */
    public int schemaId() {
        return header.schemaId;
    }

    /**
     * Version of the schema.
     *
     * @return 0 to 65535.
     */
    public int schemaVersion() {
        return header.schemaVersion;
    }
}
