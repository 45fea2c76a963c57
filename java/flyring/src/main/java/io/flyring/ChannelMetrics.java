// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;
import javax.management.ObjectName;

/**
 * A channel's {@link Stats} in the platform's MBean server, for JMX agents. Its attributes are open types, so an agent
 * needs no class of Flyring. It costs nothing until an agent asks.
 *
 * <p>The object's name is {@code io.flyring:type=Channel,name=NAME,id=ID}. Attributes: {@code Path}, {@code Id},
 * {@code Kind}, {@code Capacity}, {@code CreatedAt}, {@code Successor}, {@code AttachedPublishers},
 * {@code AttachedSubscribers}, {@code OwnerlessSlots}, {@code MaxLag}, {@code MaxLagMessages}, {@code MaxBlockedFor};
 * {@code Publishers}, {@code Subscribers}, {@code Gates} and {@code Counters} are tables.
 */
public final class ChannelMetrics implements AutoCloseable {
    private final ObjectName name;

    private ChannelMetrics(ObjectName name) {
        this.name = name;
    }

    /**
     * Registers a channel in the platform's MBean server.
     *
     * @param channel the channel; it may be attached read-only.
     * @return the registration, which its close ends. The close of the channel does not end it.
     * @throws InvalidArgumentException if the channel is registered already.
     * @throws ClosedException if the channel is closed.
     */
    public static ChannelMetrics register(Channel channel) {
        channel.checkOpen();
        return new ChannelMetrics(bean(channel).register(channel.path(), ".ring", channel.id()));
    }

    /**
     * The name in the MBean server.
     *
     * @return the name.
     */
    public ObjectName name() {
        return name;
    }

    /** Unregisters the channel. A second close does nothing. */
    @Override
    public void close() {
        StatsBean.unregister(name);
    }

    /** One gate: a row of the table Gates. */
    private record Gate(int subscriber, int ring, long position, long lag, long lagMessages) {
    }

    private static StatsBean<Stats> bean(Channel channel) {
        return new StatsBean<Stats>("Channel", channel::stats)
            .text("Path", "The channel's file.", Stats::path)
            .text("Id", "The channel's id.", Stats::id)
            .text("Kind", "The channel's kind.", Stats::kind)
            .small("Capacity", "Bytes of one ring.", Stats::capacity)
            .number("CreatedAt", "When the channel was created, in ns since 1970.", Stats::createdAt)
            .small("Successor", "1: replaced; 2: its name was removed; 0: neither.", Stats::successor)
            .number("AttachedPublishers", "Publisher slots that a process owns.",
                stats -> stats.publishers().stream().filter(slot -> attached(slot.state())).count())
            .number("AttachedSubscribers", "Subscriber slots that a process owns.",
                stats -> stats.subscribers().stream().filter(slot -> attached(slot.state())).count())
            .number("OwnerlessSlots", "Subscriber slots that are kept, and that no process owns.",
                stats -> stats.subscribers().stream().filter(slot -> slot.kept() && ownerless(slot.state())).count())
            .number("MaxLag", "Bytes that the slowest subscriber has not read of a ring.",
                stats -> gates(stats).stream().mapToLong(Gate::lag).max().orElse(0))
            .number("MaxLagMessages", "Messages that the slowest subscriber has not read of a ring.",
                stats -> Math.max(0, gates(stats).stream().mapToLong(Gate::lagMessages).max().orElse(0)))
            .number("MaxBlockedFor", "For how long the longest blocked publisher has found no room, in ns.",
                stats -> stats.publishers().stream().mapToLong(PublisherStats::blockedFor).max().orElse(0))
            .table("Publishers", "The publisher slots and their rings.", PublisherStats.class, Stats::publishers,
                "slot")
            .table("Subscribers", "The subscriber slots.", SubscriberStats.class, Stats::subscribers, "slot")
            .table("Gates", "How far each subscriber slot has read each ring.", Gate.class, ChannelMetrics::gates,
                "subscriber", "ring")
            .table("Counters", "The allocated counters.", CounterStats.class, Stats::counters, "id");
    }

    private static List<Gate> gates(Stats stats) {
        return stats.subscribers().stream().flatMap(slot -> slot.gates().stream().map(gate ->
            new Gate(slot.slot(), gate.ring(), gate.position(), gate.lag(), gate.lagMessages()))).toList();
    }

    private static boolean attached(SlotState state) {
        return state == SlotState.LIVE || state == SlotState.FOREIGN;
    }

    private static boolean ownerless(SlotState state) {
        return state == SlotState.UNUSED || state == SlotState.AWAY;
    }
}
