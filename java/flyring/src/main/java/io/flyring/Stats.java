// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;
import java.util.UUID;

/**
 * A snapshot of a channel, for people and programs that monitor it; made by {@link Channel#stats()}. It is read without
 * a lock, so two numbers may be of different moments; each alone is what the file said.
 *
 * @param path the channel's file.
 * @param id the channel's id.
 * @param kind the channel's kind.
 * @param capacity bytes of one ring.
 * @param alignment the alignment of records, in bytes.
 * @param foreign which end a stock Agrona process has.
 * @param createdAt when the channel was created, in ns since 1970-01-01 UTC.
 * @param clients of a service: the largest number of clients; else 0.
 * @param delivery of a service: whether requests of a server that died go to the next one; else null.
 * @param maxOutstanding of a service: the largest number of calls that one client may have under way; else 0.
 * @param serving of a service: the epoch of the server that serves; if it is not slot 0's epoch, no server does. Else
 *     0.
 * @param successor 1 if Flyring has replaced the channel, 2 if Flyring has removed its name, else 0.
 * @param publishers the publisher slots and their rings.
 * @param subscribers the subscriber slots.
 * @param counters the allocated counters.
 */
public record Stats(String path, UUID id, Kind kind, int capacity, int alignment, Foreign foreign, long createdAt,
    int clients, Delivery delivery, int maxOutstanding, long serving, int successor,
    List<PublisherStats> publishers, List<SubscriberStats> subscribers, List<CounterStats> counters) {

    /**
     * The counters that are heartbeats.
     *
     * @return the heartbeats.
     */
    public List<HeartbeatStats> heartbeats() {
        return counters.stream().filter(each -> each.typeId() == Layout.COUNTER_METADATA_TYPE_HEARTBEAT)
            .map(HeartbeatStats::of).toList();
    }
}
