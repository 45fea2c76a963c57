// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Takes the places of clients and of the server, all slots of a place or none (service.md 3, 4); evicts a server (9).
 */
final class ServiceSlots {
    private static final long TAKE_NANOS = 10_000_000;
    private static final long RETRY_NANOS = 1_000_000;

    private final Channel channel;
    private final Header header;
    private final Slots slots;
    private final Lock lock;
    private final List<Memory> mapped = new ArrayList<>();
    /** The subscriber slot of a client, once its gate may be set; else 0. */
    private int joined;

    private ServiceSlots(Channel channel, Lock lock) {
        this.channel = channel;
        this.header = channel.header();
        this.slots = channel.slots();
        this.lock = lock;
    }

    static Client client(Channel channel, String name) {
        synchronized (channel) {
            byte[] bytes = begin(channel, name);
            ServiceSlots places = new ServiceSlots(channel, channel.file().newLock());
            Client client = null;
            try {
                client = places.takeClient(name, bytes);
                return client;
            } finally {
                places.end(client == null ? null : client.seat());
            }
        }
    }

    static Server server(Channel channel, String name) {
        synchronized (channel) {
            byte[] bytes = begin(channel, name);
            ServiceSlots places = new ServiceSlots(channel, channel.file().newLock());
            Server server = null;
            try {
                server = places.takeServer(name, bytes);
                return server;
            } finally {
                places.end(server == null ? null : server.seat());
            }
        }
    }

    private static byte[] begin(Channel channel, String name) {
        channel.checkWritable();
        if (!channel.header().isService()) {
            throw new InvalidArgumentException("kind", channel.path() + " is a " + channel.kind()
                + ", no service: it has neither server nor clients. Create it with ChannelOptions.service().");
        }
        channel.trailers();
        return Slots.name(name);
    }

    /** Ends a take: without a seat, gives everything that was taken or mapped back. */
    private void end(Seat seat) {
        if (seat == null) {
            if (joined > 0) {
                channel.joining().stopGating(joined); // else its gate would hold the server back
            }
            mapped.forEach(channel.file()::release);
            lock.close();
        } else {
            channel.took(seat);
        }
    }

    private Memory map(int ring, boolean readOnly) {
        Memory memory = channel.file().map(header.ringOffset(ring), header.ringStride, readOnly);
        mapped.add(memory);
        return memory;
    }

    private long publisherByte(int slot) {
        return header.controlOffset + header.publisherSlot(slot);
    }

    private long subscriberByte(int slot) {
        return header.controlOffset + header.subscriberSlot(slot);
    }

    private int takeClientPlace() {
        for (int k = 0; k < header.clients(); k++) {
            if (lock.tryLock(publisherByte(k))) {
                if (lock.tryLock(subscriberByte(1 + k))) {
                    return k;
                }
                lock.unlock(publisherByte(k));
            }
        }
        return -1;
    }

    private int takeServerPlace() {
        if (!lock.heldByAnother(subscriberByte(0))) { // before the lock, else callers take this server for the last one
            channel.control().putLongRelease(Layout.CONTROL_SERVING, 0); // 2; pairs with: gone? 1
        }
        if (!lock.tryLock(subscriberByte(0))) {
            return -1;
        }
        for (int ring = header.clients(); ring < header.publishers; ring++) {
            if (!lock.tryLock(publisherByte(ring))) {
                while (--ring >= header.clients()) {
                    lock.unlock(publisherByte(ring));
                }
                lock.unlock(subscriberByte(0));
                return -1;
            }
        }
        return 0;
    }

    /** Takes the control lock and the locks of a place: steps 1 and 2 of take client and take server. */
    private int take(boolean server) {
        final long since = System.nanoTime();
        lock.lockControl(header);
        while (true) {
            int place = server ? takeServerPlace() : takeClientPlace();
            if (place >= 0) {
                return place;
            }
            if (System.nanoTime() - since > TAKE_NANOS) {
                throw noFreeSlot(server);
            }
            lock.unlockControl(header);
            Pause.nanos(RETRY_NANOS);
            lock.lockControl(header);
        }
    }

    private NoFreeSlotException noFreeSlot(boolean server) {
        List<NoFreeSlotException.Owner> owners = new ArrayList<>();
        int end = server ? 1 : header.subscribers;
        for (int slot = server ? 0 : 1; slot < end; slot++) {
            if (lock.heldByAnother(subscriberByte(slot))) {
                Slots.Fields fields = slots.fields(header.subscriberSlot(slot));
                owners.add(new NoFreeSlotException.Owner(slot, fields.name(), fields.pid()));
            }
        }
        String kind = server ? "server" : "client";
        int number = server ? 1 : header.clients();
        return new NoFreeSlotException(kind, number, owners,
            NoFreeSlotException.text(channel.path(), kind, number, owners, List.of(), false));
    }

    /** After another boot: drops all requests (service.md 9), then writes the boot id (channel.md 5.5). */
    private void adoptBoot() {
        byte[] boot = channel.identity().boot();
        byte[] there = new byte[boot.length];
        channel.control().getBytes(Layout.CONTROL_BOOT_ID, there, 0, there.length);
        if (!Arrays.equals(boot, there)) {
            for (int ring = 0; ring < header.clients(); ring++) {
                Memory trailer = channel.trailers().get(ring);
                long published = trailer.getLongAcquire(Layout.TRAILER_PUBLISHED); // pairs with: publish 7
                if (Recovery.isPosition(published, header.alignment)) {
                    trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_COUNT, Layout.COUNT_UNKNOWN);
                    trailer.putLongRelease(Layout.TRAILER_GATE, published); // pairs with: recompute 2
                }
            }
        }
        slots.adoptBoot();
    }

    /** The mappings of a client for one place. */
    private record Place(int number, Memory ring, Memory answers, Memory trailer) {
    }

    private Place place(int k) {
        final int replies = header.clients() + k;
        Memory ring = map(k, false);
        Memory answers = map(replies, true);
        Memory trailer = channel.mapTrailer(replies);
        mapped.add(trailer);
        return new Place(k, ring, answers, trailer);
    }

    /** Maps a place that seems to be free, before the control lock is taken; null if there is none. */
    private Place likelyPlace() {
        for (int k = 0; k < header.clients(); k++) {
            if (!lock.heldByAnother(publisherByte(k)) && !lock.heldByAnother(subscriberByte(1 + k))) {
                return place(k);
            }
        }
        return null;
    }

    private Client takeClient(String name, byte[] bytes) {
        Waker data = new Waker(slots.data(), slots.wakes()); // before the locks: this may take some milliseconds
        Waker room = new Waker(slots.room(), slots.wakes());
        Place place = likelyPlace();
        final int k = take(false);
        if (place == null || place.number != k) { // another client has taken that place
            mapped.forEach(channel.file()::release);
            mapped.clear();
            place = place(k);
        }
        adoptBoot();
        final Memory ring = place.ring;
        RingReader reader = new RingReader(channel, header.clients() + k, 1 + k, place.answers, place.trailer, room);
        Recovery.check(ring, k, header);
        reader.check(false); // 3
        long count = Recovery.recover(ring, k, header); // 4
        long start = ring.getLongAcquire(header.capacity + Layout.TRAILER_PUBLISHED); // our own store
        long publisherEpoch = slots.enterPublisher(k, bytes, start);
        long epoch = slots.enterSubscriber(1 + k, bytes); // 5
        reader.owner(epoch);
        joined = 1 + k;
        reader.gateAtPublished();
        RingReader.joinFence();
        reader.join(new MessageCount(place.answers, header));
        reader.storeCount();
        reader.learnSender(slots);
        place.trailer.putIntOpaque(Layout.TRAILER_GATE + Layout.GATE_OUTSTANDING, 0);
        place.trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_EXPIRED, 0);
        if (slots.evicting(1 + k)) {
            slots.evicting(1 + k, false); // last
        }
        slots.wakeReaders(); // 6
        slots.room().wakeAll();
        lock.unlockControl(header);
        Seat seat = new Seat(channel, lock, 1 + k, false, name, epoch, false).with(k, k + 1);
        mapped.forEach(seat::uses);
        ServiceWriter writer = new ServiceWriter(channel, ring, new Room(channel, k, lock, false), data,
            publisherEpoch, bytes, count);
        ring.prefault();
        reader.prefault();
        Client client = new Client(channel, name, k, seat, epoch, writer, reader, place.trailer);
        seat.ownedBy(client);
        return client;
    }

    private Server takeServer(String name, byte[] bytes) {
        final int clients = header.clients();
        Waker data = new Waker(slots.data(), slots.wakes());
        Waker room = new Waker(slots.room(), slots.wakes());
        Memory[] replies = new Memory[clients]; // all memory before the locks
        Lane[] lanes = new Lane[clients];
        Memory[] requests = new Memory[clients];
        Memory[] trailers = new Memory[clients];
        for (int k = 0; k < clients; k++) {
            replies[k] = map(clients + k, false);
            requests[k] = map(k, true);
            trailers[k] = channel.mapTrailer(k);
            mapped.add(trailers[k]);
        }
        take(true);
        adoptBoot();
        for (int k = 0; k < clients; k++) { // 3
            Recovery.check(replies[k], clients + k, header);
        }
        final long epoch = slots.enterSubscriber(0, bytes); // 4
        for (int k = 0; k < clients; k++) { // 5
            long count = Recovery.recover(replies[k], clients + k, header);
            long start = replies[k].getLongAcquire(header.capacity + Layout.TRAILER_PUBLISHED); // our own store
            long publisherEpoch = slots.enterPublisher(clients + k, bytes, start);
            ServiceWriter writer = new ServiceWriter(channel, replies[k], new Room(channel, clients + k, lock, false),
                data, publisherEpoch, bytes, count);
            lanes[k] = new Lane(channel, k, requests[k], trailers[k], room, writer);
        }
        for (int k = 0; k < clients; k++) { // 6
            lanes[k].resume();
        }
        channel.control().putLongRelease(Layout.CONTROL_SERVING, epoch); // 7; pairs with: call 2
        slots.wakeReaders(); // 8
        slots.room().wakeAll();
        lock.unlockControl(header);
        for (int k = 0; k < clients; k++) {
            lanes[k].prefault();
        }
        Seat seat = new Seat(channel, lock, 0, false, name, epoch, true).with(clients, header.publishers);
        mapped.forEach(seat::uses);
        Server server = new Server(channel, name, seat, epoch, lanes);
        seat.ownedBy(server);
        return server;
    }

    /** Evicts the server, under the control lock (9). Returns how many requests it had not taken; -1 if not known. */
    static long evictServer(Channel channel) {
        long unread = channel.joining().unread(0);
        channel.slots().evictServer();
        return unread;
    }
}
