# SPDX-License-Identifier: Apache-2.0
"""The steps of a service (spec/service.md), as part of the simulation. Numbers in comments are sections of service.md.
A lock in `locked` is held by a live process."""

import struct

from simulation import Channel, Publisher, Subscriber, crc32c

CALL, CANCEL, CREDIT = range(3)
OK, ERROR, EXPIRED, NOT_RUN = range(4)
MORE, REPEAT = 1, 2
RAW = 65536
U32 = 0xFFFFFFFF


class Call:
    def __init__(self, handle, sequence, position, deadline, credit):
        self.handle, self.sequence, self.position, self.deadline = handle, sequence, position, deadline
        self.credit, self.consumed, self.ended, self.cancel = credit, 0, False, False


class Client:
    def __init__(self, number, epoch, publisher, reader):
        self.number, self.epoch, self.publisher, self.reader = number, epoch, publisher, reader
        self.known, self.sequence, self.expired, self.late, self.calls = 0, 0, 0, 0, {}


class Request:
    def __init__(self, number, position, count, sequence, client_epoch, kind, data, repeat, credit, deadline):
        self.number, self.position, self.count, self.sequence = number, position, count, sequence
        self.client_epoch, self.kind, self.data, self.repeat = client_epoch, kind, data, repeat
        self.credit, self.deadline, self.cancelled, self.items = credit, deadline, False, None

    def facts(self):
        return {
            "client": self.number,
            "sequence": self.sequence,
            "type": self.kind,
            "repeat": self.repeat,
            "data": self.data.hex(),
        }


class Server:
    def __init__(self, epoch, publishers):
        self.epoch, self.publishers = epoch, publishers
        self.cursors, self.counts, self.repeat_end = [], [], []
        self.hand = [[] for _ in publishers]  # for each client: requests without a final reply, in order
        self.waiting = [[] for _ in publishers]  # (request, status, type, payload)
        self.last, self.client_gone = -1, 0


class Service(Channel):
    def __init__(self, options, inject):
        """Makes a service (2)."""
        self.clients = options.get("clients", 16)
        self.least = options.get("delivery", "at-most-once") == "at-least-once"
        self.bound = options.get("max_outstanding", 64)
        raw = {"capacity": 65536} | options | {"publishers": 2 * self.clients, "subscribers": self.clients + 1}
        super().__init__({k: v for k, v in raw.items() if k not in ("clients", "delivery", "max_outstanding")}, inject)
        struct.pack_into("<iiI", self.b, 176, self.least, self.bound, 0)
        struct.pack_into("<I", self.b, 4092, crc32c(self.b[:4092]))
        for k in range(self.clients):
            self.set_gate(0, k, 64 * k % 4096)
        self.put32(self.subscriber_slot(0) + 16, 1)

    # --- words ------------------------------------------------------------------------------------------------------

    SERVING = 4096 + 56

    def reader_of(self, ring):
        return 0 if ring < self.clients else 1 + ring - self.clients

    def gate_at(self, j, k):
        return self.trailer(k) + 384

    def gate(self, j, k):
        return super().gate(j, k) if self.reader_of(k) == j else -1

    def set_gate(self, j, k, value):
        if self.reader_of(k) == j:
            super().set_gate(j, k, value)

    def set_count(self, j, k, value):
        if self.reader_of(k) == j:
            super().set_count(j, k, value)

    def taken_end(self, k):
        return self.get64(self.gate_at(0, k) + 16)

    def set_outstanding(self, c):
        self.put32(self.gate_at(0, self.clients + c.number) + 28, len(c.calls))

    def set_expired(self, c):
        self.put64(self.gate_at(0, self.clients + c.number) + 32, c.expired)

    def count_of(self, k, g):
        """Returns the count of a position (channel.md 6.5) in a ring whose publisher may have died at any point."""
        boundaries = [
            (self.get64(self.trailer(k) + 16 * e), self.get64(self.trailer(k) + 16 * e + 8)) for e in range(8)
        ]
        found = [x for x in boundaries if x[0] >= g and x[0] + self.C >= self.get_trailer(k, "claimed") + 8]
        if not found and self.count_of_published(k) < 0:
            return -1
        b, m = min(found, default=(self.get_trailer(k, "published"), self.count_of_published(k)))
        while g < b:
            kind, _, g = self.read(k, g)
            m -= kind > 0
        return m if g == b and m >= 0 else -1

    def epoch_of(self, j):
        return self.get64(self.subscriber_slot(j))

    def now(self):
        return self.inject["monotonic"]

    # --- 3: a client ------------------------------------------------------------------------------------------------

    def take_client(self, name):
        locked = self.locked
        k = next(
            k for k in range(self.clients) if ("publisher", k) not in locked and ("subscriber", 1 + k) not in locked
        )
        locked |= {("publisher", k), ("subscriber", 1 + k)}
        self.same_boot()
        published, count = self.recover(k)
        slot = self.publisher_slot(k)
        p = Publisher(k, name.encode(), self.new_owner(slot, name.encode(), published), published, count)
        slot = self.subscriber_slot(1 + k)
        epoch, ring = self.new_owner(slot, name.encode()), self.clients + k
        s = Subscriber(1 + k, epoch)
        for _ in range(2):  # 6.4
            self.set_gate(1 + k, ring, self.get_trailer(ring, "published"))
        s.cursors = {ring: self.gate(1 + k, ring)}
        s.counts = {ring: self.count_of_published(ring)}
        self.set_count(1 + k, ring, s.counts[ring])
        c = Client(k, epoch, p, s)
        with self.in_any_order(self.gate_at(0, ring) + 28):
            self.set_outstanding(c)
            self.set_expired(c)
        if self.get32(slot + 8):
            self.put32(slot + 8, 0)
        self.wake_all("data", "room")
        return c

    def close_client(self, c):
        k = c.number
        self.put32(self.publisher_slot(k) + 16, 1)
        self.wake_all("data")
        if self.epoch_of(1 + k) != c.epoch:
            self.put32(self.subscriber_slot(1 + k) + 8, 1)  # 5.4
        self.set_gate(1 + k, self.clients + k, -1)
        self.wake_all("room")
        self.locked -= {("publisher", k), ("subscriber", 1 + k)}

    # --- 4: the server ----------------------------------------------------------------------------------------------

    def take_server(self, name):
        mine = {("subscriber", 0)} | {("publisher", self.clients + k) for k in range(self.clients)}
        assert not mine & self.locked, "no free slot: no golden file needs that"
        self.put64(self.SERVING, 0)
        self.locked |= mine
        self.same_boot()
        epoch, publishers = self.new_owner(self.subscriber_slot(0), name.encode()), []
        for ring in range(self.clients, self.P):
            published, count = self.recover(ring)
            own = self.new_owner(self.publisher_slot(ring), name.encode(), published)
            publishers.append(Publisher(ring, name.encode(), own, published, count))
        server = Server(epoch, publishers)
        for k in range(self.clients):  # resume
            gate, taken_end = self.gate(0, k), self.taken_end(k)
            if not gate <= taken_end <= self.get_trailer(k, "claimed"):
                taken_end = gate
            cursor = gate if self.least else taken_end
            server.cursors.append(cursor)
            server.repeat_end.append(taken_end)
            server.counts.append(self.count_of(k, cursor))
            if cursor != gate:
                self.set_count(0, k, server.counts[k])
                self.set_gate(0, k, cursor)
        self.put64(self.SERVING, epoch)
        self.wake_all("data", "room")
        return server

    def same_boot(self):
        assert bytes(self.b[4096:4112]).hex() == self.inject["boot_id"].replace("-", "")

    def close_server(self, server):
        if self.epoch_of(0) == server.epoch:
            self.retry(server)
            for p in server.publishers:
                self.put32(self.publisher_slot(p.ring) + 16, 1)
            self.wake_all("data", "room")
        self.locked -= {("subscriber", 0)} | {("publisher", self.clients + k) for k in range(self.clients)}

    def evict(self, j):
        """Evicts the server or a client (9)."""
        if j > 0:
            return super().evict(j)
        rings = range(self.clients)
        unread = sum(self.count_of_published(k) - self.count_of(k, self.gate(0, k)) for k in rings)
        self.put64(self.subscriber_slot(0), self.epoch_of(0) + 1)
        self.wake_all("data", "room")
        return unread

    # --- 5: poll and reply ------------------------------------------------------------------------------------------

    def serve(self, server, limit, handler):
        """Does one poll. The handler returns for each request: ("reply", type, data), ("fail", text), ("keep",) or
        ("stream", type, items). Returns the requests."""
        assert self.epoch_of(0) == server.epoch
        self.retry(server)
        for k in range(self.clients):
            for request in list(server.hand[k]):
                if request.items is not None:
                    self.go_on(server, request)
        handed = []
        rings = [(server.last + 1 + i) % self.clients for i in range(self.clients)]
        for k in rings:
            while len(handed) < limit and (record := self.read(k, server.cursors[k])) is not None:
                if not self.take(server, k, record, handler, handed):
                    break
                if server.cursors[k] - self.gate(0, k) >= self.C // 8:
                    self.give_back(server, k)
            self.give_back(server, k)
        assert len(handed) < limit or sum(self.read(k, server.cursors[k]) is not None for k in rings) <= 1
        return handed

    def take(self, server, k, record, handler, handed):
        """Takes one record (5, poll 1 to 8). False: it stays in the ring."""
        kind, data, end = record
        position, count = server.cursors[k], server.counts[k]

        def behind():
            server.cursors[k], server.counts[k] = end, count + (kind > 0) if count >= 0 else -1

        if kind < 0:
            behind()
            return True
        sequence, operation, credit, deadline, client_epoch, server_epoch = struct.unpack_from("<IHHqII", data)
        if operation != CALL:
            behind()
            for request in list(server.hand[k]):
                if (request.client_epoch, request.sequence) == (client_epoch, sequence):
                    request.cancelled |= operation == CANCEL
                    request.credit = min(65535, request.credit + (credit if operation == CREDIT else 0))
                    if request.items is not None:
                        self.go_on(server, request)
            return True
        if len(server.hand[k]) >= self.bound:
            return False
        repeat = self.least and position < server.repeat_end[k]
        request = Request(
            k, position, count, sequence, client_epoch, kind, data[24:], repeat, 0 if self.least else credit, deadline
        )
        server.hand[k].append(request)
        if not self.least and server_epoch != server.epoch & U32:
            self.reply(server, request, NOT_RUN, RAW, b"")
        elif 0 < deadline <= self.now():
            self.reply(server, request, EXPIRED, RAW, b"")
        else:
            if position >= server.repeat_end[k]:
                self.put64(self.gate_at(0, k) + 16, end)
            handed.append(request)
            server.last = k
            self.act(server, request, handler(request))
        behind()
        return True

    def act(self, server, request, does):
        """Does the action of a handler."""
        if does[0] == "reply":
            self.reply(server, request, OK, does[1], does[2])
        elif does[0] == "fail":
            self.reply(server, request, ERROR, RAW, does[1].encode()[:1024])
        elif does[0] == "stream":
            assert request.credit > 0
            request.items, request.kind_of_items = list(does[2]), does[1]
            self.go_on(server, request)
        else:
            assert does == ("keep",)

    def reply(self, server, request, status, kind, data, flags=0):
        """Sends a reply (5, reply). False: an item of a stream that found no room."""
        k, p = request.number, server.publishers[request.number]
        if self.epoch_of(1 + k) & U32 != request.client_epoch or self.get32(self.publisher_slot(k) + 16) != 0:
            server.client_gone += 1
            if flags & MORE:
                request.cancelled = True
                return False
        else:
            began = status == EXPIRED and request.items is not None
            flags |= REPEAT if request.repeat or began else 0
            payload = struct.pack("<IIii", request.client_epoch, request.sequence, status, flags) + data
            if server.waiting[k] or self.offer(p, kind, payload) < 0:
                if not flags & MORE:
                    server.waiting[k].append((request, status, kind, data))
                return False
        if not flags & MORE:
            server.hand[k].remove(request)
        return True

    def retry(self, server):
        for k in range(self.clients):
            waiting, server.waiting[k] = server.waiting[k], []
            for what in waiting:
                self.reply(server, *what)
            if waiting:
                self.give_back(server, k)

    def go_on(self, server, request):
        """Continues a stream (7)."""
        while request.items and request.credit > 0 and not request.cancelled:
            if not self.reply(server, request, OK, request.kind_of_items, request.items[0], MORE):
                break
            request.items.pop(0)
            request.credit -= 1
        if request.items and 0 < request.deadline <= self.now():
            self.reply(server, request, EXPIRED, RAW, b"")
        elif not request.items or request.cancelled:
            self.reply(server, request, OK, RAW, b"")

    def reply_later(self, server, request, does):
        self.act(server, request, does)
        if self.least:
            self.give_back(server, request.number)

    def give_back(self, server, k):
        """Stores the gate (5, poll 8)."""
        at, count = server.cursors[k], server.counts[k]
        if self.least and server.hand[k]:
            at, count = server.hand[k][0].position, server.hand[k][0].count
        if at != self.gate(0, k):
            self.set_count(0, k, count)
            self.set_gate(0, k, at)
            self.wake("room", k)

    # --- 6: call, drain, gone ---------------------------------------------------------------------------------------

    def lives(self, e):
        return e > 0 and ("subscriber", 0) in self.locked and self.get64(self.SERVING) == e

    def start(self, c, handle, kind, data, timeout=0, credit=0):
        """Starts a call (6). Returns it, or the error. Calls that *gone?* ends are returned by the next poll."""
        assert self.epoch_of(1 + c.number) == c.epoch
        if len(c.calls) == self.bound:
            self.drain(c)
        if len(c.calls) == self.bound:
            return "busy"
        e = self.epoch_of(0)
        if e != c.known:
            assert self.least or not c.calls, "what ends here has no golden file"
            assert self.lives(e), "waits for a server"
            c.known = e
        c.sequence = (c.sequence + 1) & U32
        deadline = self.now() + timeout if timeout else 0
        at = self.publish(c, c.sequence, CALL, credit, deadline, kind, data)
        assert at is not None, "waits for room"
        call = c.calls[c.sequence] = Call(handle, c.sequence, at, deadline, credit)
        self.set_outstanding(c)
        return call

    def publish(self, c, sequence, operation, credit, deadline, kind, data):
        """Publishes a message to the server. Returns the record's position, or None."""
        prefix = struct.pack("<IHHqII", sequence, operation, credit, deadline, c.epoch & U32, c.known & U32)
        end = self.offer(c.publisher, kind, prefix + data)
        return None if end < 0 else end - self.align(8 + 24 + len(data))

    def drain(self, c):
        """Takes replies (6, drain). Returns the calls that ended, and the items that came."""
        ring, s, found = self.clients + c.number, c.reader, []
        while (record := self.read(ring, s.cursors[ring])) is not None:
            kind, data, end = record
            if kind > 0:
                s.counts[ring] += s.counts[ring] >= 0
                self.received(c, kind, data, found)
            s.cursors[ring] = end
            if end - self.gate(s.slot, ring) >= self.C // 8:
                self.store_gate(s, ring)
        if s.cursors[ring] != self.gate(s.slot, ring):
            self.store_gate(s, ring)
        return found

    def received(self, c, kind, data, found):
        client_epoch, sequence, status, flags = struct.unpack_from("<IIii", data)
        call = c.calls.get(sequence)
        if client_epoch != c.epoch & U32 or call is None:
            c.late += 1
            return
        answer = {"type": kind, "data": data[16:].hex(), "repeat": bool(flags & REPEAT)}
        if flags & MORE:
            call.consumed += 1
            if not call.ended:
                found.append({"call": call.handle, "is": "item"} | answer)
            return
        if not call.ended:
            if status == OK:
                self.end(
                    c, call, found, "end-of-stream" if call.credit else "answer", **({} if call.credit else answer)
                )
            elif status == EXPIRED:
                self.end(c, call, found, "expired", may_have_run=bool(flags & REPEAT))
            elif status == NOT_RUN:
                self.end(c, call, found, "server-gone", may_have_run=False)
            else:
                self.end(c, call, found, "service-error", text=data[16:].decode())
        del c.calls[sequence]
        self.set_outstanding(c)

    def end(self, c, call, found, how, **facts):
        call.ended = True
        found.append({"call": call.handle, "is": how} | facts)
        if how == "expired":
            c.expired += 1
            self.set_expired(c)

    def poll_client(self, c):
        """Does a client's poll (6): drain; expired calls; gone?, if the epoch differs; cancel and credit."""
        found = self.drain(c)
        for call in c.calls.values():
            if not call.ended and 0 < call.deadline <= self.now():
                self.end(c, call, found, "expired", may_have_run=True)
        if c.known and self.epoch_of(0) != c.known:
            self.gone(c, found)
        for call in c.calls.values():
            if call.cancel:
                call.cancel = self.publish(c, call.sequence, CANCEL, 0, 0, RAW, b"") is None
            elif not call.ended and call.credit and 2 * call.consumed >= call.credit:
                if self.publish(c, call.sequence, CREDIT, call.consumed, 0, RAW, b"") is not None:
                    call.consumed = 0
        return found

    def gone(self, c, found):
        free = ("subscriber", 0) not in self.locked
        found += self.drain(c)
        if not self.least:
            for call in c.calls.values():
                if not call.ended:
                    ran = not (free and call.position >= self.taken_end(c.number))
                    self.end(c, call, found, "server-gone", may_have_run=ran)
            c.calls = {}
            self.set_outstanding(c)
        c.known = 0

    def cancel(self, c, call):
        """Cancels a call (7), which ends at once."""
        call.ended = True
        call.cancel = self.publish(c, call.sequence, CANCEL, 0, 0, RAW, b"") is None

    # --- what a reader should find ----------------------------------------------------------------------------------

    def expected(self):
        found = super().expected()
        found["header"] |= {"delivery": int(self.least), "max_outstanding": self.bound}
        for j, slot in enumerate(found["subscribers"]):
            rings = range(self.clients) if j == 0 else [self.clients + j - 1]
            slot["gates"], slot["counts"] = [self.gate(j, k) for k in rings], [self.count(j, k) for k in rings]
            if j == 0:
                slot["taken_ends"] = [self.taken_end(k) for k in rings]
            else:
                slot["outstanding"] = self.get32(self.gate_at(j, rings[0]) + 28)
                slot["expired"] = self.get64(self.gate_at(j, rings[0]) + 32)
        found["unread"] = []
        return found | {"serving": self.get64(self.SERVING), "requests": self.left()}

    def left(self):
        """Returns the requests that a server hands out, and keeps, that takes its place in the stored file."""
        other = Service.__new__(Service)
        other.__dict__ |= self.__dict__ | {"b": bytearray(self.b), "locked": set(), "on_store": None}
        server = other.take_server("")
        return [request.facts() for request in other.serve(server, 256, lambda request: ("keep",))]
