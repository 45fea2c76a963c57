// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;
import java.util.UUID;

/**
 * What a channel holds at one moment, for people and programs that look after it; made by {@link Channel#stats()}.
 * Nothing is locked for it, so two numbers may be of different moments; each alone is what the file said.
 *
 * @param path the channel's file.
 * @param id the channel's id.
 * @param kind what it is for.
 * @param capacity bytes of one ring.
 * @param alignment where records may start, in bytes.
 * @param foreign which end a stock Agrona process has.
 * @param createdAt when the channel was created, ns since 1970.
 * @param clients how many clients a service can have; 0: it is none.
 * @param delivery of a service: what becomes of requests whose server dies; else null.
 * @param maxOutstanding of a service: calls of one client that may be under way at once; else 0.
 * @param serving of a service: the epoch of the server that serves; another one than slot 0's: none does. Else 0.
 * @param successor 0; 1: Flyring has replaced the channel; 2: Flyring has removed its name.
 * @param publishers the publisher slots and their rings.
 * @param subscribers the subscriber slots.
 * @param counters the allocated counters.
 */
public record Stats(String path, UUID id, Kind kind, int capacity, int alignment, Foreign foreign, long createdAt,
    int clients, Delivery delivery, int maxOutstanding, long serving, int successor,
    List<PublisherStats> publishers, List<SubscriberStats> subscribers, List<CounterStats> counters) {
}
