// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayList;
import java.util.List;

/** Collects {@link Stats}. It takes no lock and writes nothing, so it works on a channel opened read-only too. */
final class Look {
    private final Channel channel;
    private final ChannelFile file;
    private final Header header;
    private final Memory control;
    private final Slots slots;
    private final List<Memory> trailers;
    /** The published position's offset in a trailer. A foreign publisher stores only claimed (spec/channel.md 6.15). */
    private final int publishedAt;

    Look(Channel channel) {
        this.channel = channel;
        this.file = channel.file();
        this.header = channel.header();
        this.control = channel.control();
        this.slots = channel.slots();
        this.trailers = channel.readableTrailers();
        this.publishedAt = header.foreign == Foreign.PUBLISHER ? Layout.TRAILER_CLAIMED : Layout.TRAILER_PUBLISHED;
    }

    /** Releases the mappings that were made for this object. */
    void close() {
        if (trailers != channel.trailersIfMapped()) {
            trailers.forEach(file::release);
        }
    }

    Stats stats() {
        List<PublisherStats> publishers = new ArrayList<>();
        for (int slot = 0; slot < header.publishers; slot++) {
            publishers.add(publisher(slot));
        }
        List<SubscriberStats> subscribers = new ArrayList<>();
        for (int slot = 0; slot < header.subscribers; slot++) {
            subscribers.add(subscriber(slot));
        }
        List<CounterStats> counters = new ArrayList<>();
        channel.counters().forEach(counter -> {
            try {
                counters.add(new CounterStats(counter.id(), counter.label(), counter.typeId(), counter.key(),
                    counter.get()));
            } catch (ClosedException freedMeanwhile) {
                channel.checkOpen();
            }
        });
        return new Stats(channel.path(), header.id, header.kind, header.capacity, header.alignment, header.foreign,
            header.createdAt, header.clients(), header.isService() ? channel.delivery() : null,
            header.isService() ? header.maxOutstanding : 0,
            header.isService() ? control.getLongAcquire(Layout.CONTROL_SERVING) : 0, // pairs with: take server 7
            control.getIntOpaque(Layout.CONTROL_SUCCESSOR), List.copyOf(publishers),
            List.copyOf(subscribers), List.copyOf(counters));
    }

    private SlotState state(boolean foreign, int at, long epoch, boolean closed) {
        if (foreign) {
            return SlotState.FOREIGN;
        }
        if (file.locked(header.controlOffset + at)) {
            return SlotState.LIVE;
        }
        return epoch == 0 ? SlotState.UNUSED : closed ? SlotState.CLOSED : SlotState.AWAY;
    }

    private PublisherStats publisher(int slot) {
        int at = header.publisherSlot(slot);
        Memory trailer = trailers.get(slot);
        Slots.Fields fields = slots.fields(at);
        boolean foreign = header.foreign == Foreign.PUBLISHER;
        SlotState state = header.isReturns(slot) ? SlotState.RETURNS
            : state(foreign, at, fields.epoch(), slots.closed(slot));
        // pairs with: recompute 5
        long since = Math.max(0, control.getLongAcquire(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE));
        long length = Math.max(0, control.getLongOpaque(at + Layout.PUBLISHER_SLOT_BLOCKED_LENGTH));
        List<Integer> holders = since > 0 && state == SlotState.LIVE ? holders(slot, trailer, length) : List.of();
        if (holders.isEmpty()) { // the readers have made room, but the publisher has not looked since
            since = 0;
            length = 0;
        }
        return new PublisherStats(slot, state, fields.epoch(), fields.name(), fields.pid(), fields.attachedAt(),
            control.getLongOpaque(at + Layout.PUBLISHER_SLOT_START), trailer.getLongAcquire(publishedAt),
            trailer.getLongOpaque(Layout.TRAILER_CLAIMED),
            foreign ? Layout.COUNT_UNKNOWN : trailer.getLongAcquire(Layout.TRAILER_MESSAGES_DONE), since,
            since > 0 ? Math.max(0, Identity.REAL.monotonicNow() - since) : 0, length, holders);
    }

    /** The slots with a gate that leaves no room for a record of {@code length} bytes (6.2, 5). */
    private List<Integer> holders(int ring, Memory trailer, long length) {
        List<Integer> holders = new ArrayList<>();
        for (int slot = header.firstGate(ring); slot < header.endOfGates(ring); slot++) {
            long gate = trailer.getLongAcquire(header.gateAt(slot)); // pairs with: poll 4
            long published = trailer.getLongAcquire(publishedAt); // pairs with: publish 7
            if (gate >= 0 && gate < published + length + Layout.RECORD_HEADER_LENGTH - header.capacity) {
                holders.add(slot);
            }
        }
        return List.copyOf(holders);
    }

    /** Counts the messages that the shared slot 0 has not taken (spec/channel.md 6.5). -1 for workers: not known. */
    private long untaken(int ring, int slot) {
        if (header.isQueue() && slot >= header.firstSubscriber()) {
            return Layout.COUNT_UNKNOWN;
        }
        Memory whole = file.map(header.ringOffset(ring), header.ringStride, true);
        try {
            return new MessageCount(whole, header).unread(slot);
        } finally {
            file.release(whole);
        }
    }

    private SubscriberStats subscriber(int slot) {
        int at = header.subscriberSlot(slot);
        Slots.Fields fields = slots.fields(at);
        List<GateStats> gates = new ArrayList<>();
        for (int ring = 0; ring < header.publishers; ring++) {
            if (!header.mayGate(ring, slot)) {
                continue;
            }
            Memory trailer = trailers.get(ring);
            long gate = trailer.getLongAcquire(header.gateAt(slot)); // pairs with: poll 4
            long count = trailer.getLongOpaque(header.gateAt(slot) + Layout.GATE_COUNT);
            if (gate >= 0) {
                boolean known = count >= 0 && header.foreign == Foreign.NONE;
                long done = trailer.getLongAcquire(Layout.TRAILER_MESSAGES_DONE); // pairs with: publish 7
                gates.add(new GateStats(ring, gate, Math.max(0, trailer.getLongAcquire(publishedAt) - gate),
                    header.isQueue() || header.isService() && slot == 0 ? untaken(ring, slot)
                    : known ? Math.max(0, done - count) : Layout.COUNT_UNKNOWN));
            }
        }
        long discarded = control.getLongOpaque(at + Layout.SUBSCRIBER_SLOT_DISCARDED);
        boolean client = header.isService() && slot > 0;
        Memory beside = client ? trailers.get(header.clients() + slot - 1) : null;
        boolean shared = slot < header.firstSubscriber();
        InHandStats inHand = header.isQueue() && !shared ? Adoption.inHand(header, control, trailers, slot) : null;
        return new SubscriberStats(slot, shared ? SlotState.SHARED
            : state(header.foreign == Foreign.SUBSCRIBER, at, fields.epoch(), false),
            fields.epoch(), fields.name(), fields.pid(), fields.attachedAt(), slots.kept(slot), slots.evicting(slot),
            Math.max(0, discarded), inHand,
            client ? Math.max(0, beside.getIntOpaque(Layout.TRAILER_GATE + Layout.GATE_OUTSTANDING)) : -1,
            client ? Math.max(0, beside.getLongOpaque(Layout.TRAILER_GATE + Layout.GATE_EXPIRED)) : -1,
            List.copyOf(gates));
    }
}
