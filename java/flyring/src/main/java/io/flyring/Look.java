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
    /** Whether each slot has an owner: publisher slots, then subscriber slots. */
    private final boolean[] live;
    /** The time on the clock of blocked_since; 0 until it is asked for. */
    private long now;

    Look(Channel channel) {
        this.channel = channel;
        this.file = channel.file();
        this.header = channel.header();
        this.control = channel.control();
        this.slots = channel.slots();
        this.trailers = channel.readableTrailers();
        this.live = file.lockedEach(header.controlOffset + header.publisherSlot(0), Layout.CONTROL_SLOT_LENGTH,
            header.publishers + header.subscribers);
        this.publishedAt = header.foreign == Foreign.PUBLISHER ? Layout.TRAILER_CLAIMED : Layout.TRAILER_PUBLISHED;
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

    private long age(long since) {
        if (since <= 0) {
            return 0;
        }
        now = now != 0 ? now : Identity.REAL.monotonicNow();
        return Math.max(0, now - since);
    }

    /** How many subscribers with an owner read a ring; in a queue, how many workers live. */
    private int readers(int ring, Memory trailer) {
        int count = 0;
        int first = Math.max(header.firstGate(ring), header.firstSubscriber());
        for (int slot = first; slot < header.endOfGates(ring); slot++) {
            if ((live[header.publishers + slot] || header.foreign == Foreign.SUBSCRIBER)
                && (header.isQueue() || trailer.getLongAcquire(header.gateAt(slot)) >= 0)) {
                count++;
            }
        }
        return count;
    }

    private static SlotState state(boolean foreign, boolean live, long epoch, boolean closed) {
        if (foreign) {
            return SlotState.FOREIGN;
        }
        if (live) {
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
            : state(foreign, live[slot], fields.epoch(), slots.closed(slot));
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
            age(since), length, holders, readers(slot, trailer));
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
        return new MessageCount(channel.readableRings().get(ring), header).unread(slot);
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
            : state(header.foreign == Foreign.SUBSCRIBER, live[header.publishers + slot], fields.epoch(), false),
            fields.epoch(), fields.name(), fields.pid(), fields.attachedAt(), slots.kept(slot), slots.evicting(slot),
            Math.max(0, discarded), inHand,
            client ? Math.max(0, beside.getIntOpaque(Layout.TRAILER_GATE + Layout.GATE_OUTSTANDING)) : -1,
            client ? Math.max(0, beside.getLongOpaque(Layout.TRAILER_GATE + Layout.GATE_EXPIRED)) : -1,
            List.copyOf(gates));
    }
}
