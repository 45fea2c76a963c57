# SPDX-License-Identifier: Apache-2.0
"""Does Flyring's steps (spec/channel.md, layout 1.0) literally on a bytearray, in one thread: an independent
implementation for making golden files. Section numbers in comments are those of channel.md. Locks are a set of names,
memory orderings do not matter, and time stands still at the injected values. Stores are made one by one in the order of
the steps, and `on_store` is called after each. So dead.py knows the file that a process leaves that is killed there."""

import contextlib
import itertools
import struct
import uuid

MAX_I64 = 2**63 - 1
MAJOR, MINOR = 1, 0  # the layout version that is simulated here
KINDS = {"inbox": 1, "broadcast": 2, "queue": 3, "service": 4}
FOREIGN = {None: 0, "publisher": 2, "subscriber": 4}  # required_features, 6.15
DEFAULTS = {
    "capacity": 1 << 20,
    "publishers": 4,
    "subscribers": 4,
    "alignment": 64,
    "foreign": None,
    "counters": 64,
    "schema": "",
    "schema_id": 0,
    "schema_version": 0,
}
HEADER = (  # 4.2: offset, struct format, name
    (0, "8s", "magic"),
    (8, "H", "major"),
    (10, "H", "minor"),
    (12, "i", "header_length"),
    (16, "Q", "required_features"),
    (24, "Q", "optional_features"),
    (32, "q", "file_length"),
    (40, "16s", "channel_id"),
    (56, "q", "created_at"),
    (64, "i", "kind"),
    (68, "i", "alignment"),
    (72, "i", "capacity"),
    (76, "i", "publishers"),
    (80, "i", "subscribers"),
    (84, "i", "counters"),
    (88, "q", "control_offset"),
    (96, "q", "control_length"),
    (104, "q", "counter_metadata_offset"),
    (112, "q", "counter_metadata_length"),
    (120, "q", "counter_values_offset"),
    (128, "q", "counter_values_length"),
    (136, "q", "rings_offset"),
    (144, "q", "ring_stride"),
    (152, "q", "schema_offset"),
    (160, "q", "schema_length"),
    (168, "i", "schema_id"),
    (172, "i", "schema_version"),
    (4092, "I", "crc"),
)


def up(n, to):
    return (n + to - 1) // to * to


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_OF[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def crc_of(byte):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC_OF = [crc_of(byte) for byte in range(256)]


WAITING = {"data": 64, "room": 128, "jobs": 192}  # 4.3: `sequence`, and 4 bytes behind it `asleep`


class Publisher:
    """The state that section 6 calls private to a publisher."""

    def __init__(self, ring, name, epoch, t, count):
        self.ring, self.name, self.epoch, self.t, self.count = ring, name, epoch, t, count
        self.limit, self.cleared = 0, t
        self.owner_pending = True
        self.lag = None  # L of 6.2
        self.blocked = False  # 6.2, 5: held back since an earlier recompute
        self.claim = None  # (record length, type, bytes reserved) while one is open


class Subscriber:
    def __init__(self, slot, epoch):
        self.slot, self.epoch, self.cursors, self.counts = slot, epoch, {}, {}


class Channel:
    def __init__(self, options, inject):
        """Writes all bytes of a new file that are not zero (3.2, step 4)."""
        o = DEFAULTS | ({"subscribers": 1} if options["kind"] == "inbox" else {}) | options
        assert o["kind"] != "inbox" or o["subscribers"] == 1
        schema = o["schema"].encode()
        self.inject, self.locked = inject, set()
        self.on_store, self.quiet = None, False
        self.C, self.P, self.S, self.A, self.N = (
            o["capacity"],
            o["publishers"],
            o["subscribers"],
            o["alignment"],
            o["counters"],
        )
        self.foreign, self.inbox = o["foreign"], o["kind"] == "inbox"
        self.takeable = self.P - (o["kind"] == "queue")  # publisher slots
        assert self.foreign is None or (o["kind"], self.A, self.P, self.S) == ("inbox", 8, 1, 1)
        self.window = min(2048, self.C // 8) if self.A == 64 else 0  # W of 6.1
        control_length = up(256 + 256 * (self.P + self.S), 4096)
        self.metadata = 4096 + control_length
        self.values = up(self.metadata + 512 * self.N, 4096)
        self.rings = up(self.values + 128 * self.N, 4096)
        gates = 1 if o["kind"] == "service" else self.S  # per ring
        self.stride = self.C + up(768 + 128 * max(0, gates - 1), 4096)
        schema_offset = up(self.rings + self.P * self.stride, 4096)
        self.b = bytearray(up(schema_offset + len(schema), 4096))
        fields = {
            "magic": b"FLYRING\0",
            "major": MAJOR,
            "minor": MINOR,
            "header_length": 4096,
            "required_features": FOREIGN[self.foreign],
            "optional_features": 0,
            "file_length": len(self.b),
            "channel_id": uuid.UUID(inject["channel_id"]).bytes,
            "created_at": inject["created_at"],
            "kind": KINDS[o["kind"]],
            "alignment": self.A,
            "capacity": self.C,
            "publishers": self.P,
            "subscribers": self.S,
            "counters": self.N,
            "control_offset": 4096,
            "control_length": control_length,
            "counter_metadata_offset": self.metadata,
            "counter_metadata_length": 512 * self.N,
            "counter_values_offset": self.values,
            "counter_values_length": 128 * self.N,
            "rings_offset": self.rings,
            "ring_stride": self.stride,
            "schema_offset": schema_offset,
            "schema_length": len(schema),
            "schema_id": o["schema_id"],
            "schema_version": o["schema_version"],
        }
        for offset, kind, name in HEADER[:-1]:
            struct.pack_into("<" + kind, self.b, offset, fields[name])
        struct.pack_into("<I", self.b, 4092, crc32c(self.b[:4092]))
        self.b[4096:4112] = uuid.UUID(inject["boot_id"]).bytes
        for k in range(self.P):  # 4.7
            start = 64 * k % 4096
            self.set_trailer(k, "claimed", start)
            self.set_trailer(k, "published", start)
            first = (
                -1 if self.foreign == "subscriber" else start // (self.C // 8)
            )  # the boundary in the eighth of `start`; with a foreign subscriber none (6.15)
            for e in range(8):
                self.put64(self.trailer(k) + 16 * e, start if e == first else -1)
            for j in range(self.S):
                self.set_gate(j, k, start if o["kind"] == "inbox" else -1)
                self.set_count(j, k, -1 if self.foreign else 0)
        if o["kind"] == "inbox":
            self.put32(self.subscriber_slot(0) + 16, 1)
        self.b[schema_offset : schema_offset + len(schema)] = schema

    # --- words and places -------------------------------------------------------------------------------------------

    def get32(self, at):
        return struct.unpack_from("<i", self.b, at)[0]

    def put32(self, at, value):
        self.put(at, struct.pack("<i", value))

    def get64(self, at):
        return struct.unpack_from("<q", self.b, at)[0]

    def put64(self, at, value):
        self.put(at, struct.pack("<q", value))

    def put(self, at, data):
        self.b[at : at + len(data)] = data
        if self.on_store and not self.quiet:
            self.on_store(at)

    @contextlib.contextmanager
    def in_any_order(self, at):
        """Groups plain stores, which the spec does not order, into one store at this offset."""
        self.quiet = True
        yield
        self.quiet = False
        self.put(at, b"")

    def publisher_slot(self, k):
        return 4096 + 256 + 256 * k

    def subscriber_slot(self, j):
        return 4096 + 256 + 256 * self.P + 256 * j

    def trailer(self, k):
        return self.rings + k * self.stride + self.C

    TRAILER = {"claimed": 128, "published": 320, "messages_begun": 328, "messages_done": 336}

    def get_trailer(self, k, word):
        return self.get64(self.trailer(k) + self.TRAILER[word])

    def set_trailer(self, k, word, value):
        self.put64(self.trailer(k) + self.TRAILER[word], value)

    def gate_at(self, j, k):
        return self.trailer(k) + (384 if j == 0 else 768 + 128 * (j - 1))

    def gate(self, j, k):
        return self.get64(self.gate_at(j, k))

    def set_gate(self, j, k, value):
        self.put64(self.gate_at(j, k), value)

    def count(self, j, k):
        """Returns the count beside a gate (4.7.1)."""
        return self.get64(self.gate_at(j, k) + 8)

    def set_count(self, j, k, value):
        self.put64(self.gate_at(j, k) + 8, value)

    def record(self, k, position):
        """Returns the file offset of a position."""
        return self.rings + k * self.stride + (position & (self.C - 1))

    def align(self, n):
        return up(n, self.A)

    def slot_name(self, slot):
        return bytes(self.b[slot + 24 : slot + 24 + max(0, self.get32(slot + 20))])

    # --- 5.2, 5.3: owning slots -------------------------------------------------------------------------------------

    def lock_first(self, kind, candidates):
        for i in candidates:
            if (kind, i) not in self.locked:
                self.locked.add((kind, i))
                return i
        raise AssertionError("no free slot: no golden file needs that")

    def new_owner(self, slot, name, start=None, worker=False):
        """Writes a slot's fields for a new owner (5.2, 4; without `start` 5.3, 4; for a worker queue.md 6)."""
        same = self.get32(slot + 20) == len(name) and self.slot_name(slot) == name
        if not same:
            self.put32(slot + 20, -1)
        with self.in_any_order(slot + 88):
            if start is not None:
                self.put64(slot + 8, start)
                self.put32(slot + 16, 0)
            if start is not None or worker:
                self.put64(slot + 128, 0)  # blocked_since, or busy_since
            self.put32(slot + 88, self.inject["pid"])
            self.put64(slot + 96, self.inject["now"])
            self.put64(slot + 104, self.get64(slot) + 1)  # 6.16: this owner wakes sleepers
            if not same:
                self.put(slot + 24, name.ljust(64, b"\0"))
        self.put64(slot, self.get64(slot) + 1)
        if not same:
            self.put32(slot + 20, len(name))
        return self.get64(slot)

    # --- 6.16: waking -----------------------------------------------------------------------------------------------

    def wake_all(self, *pairs):
        for pair in pairs:
            sequence = 4096 + WAITING[pair]
            self.put32(sequence, (self.get32(sequence) + 1) & 0x7FFFFFFF)

    def wake(self, pair, k):
        asleep = 4096 + WAITING[pair] + 4
        bits = self.get32(asleep) & 0xFFFFFFFF
        if bits >> k % 32 & 1:
            bits &= ~(1 << k % 32)
            self.put32(asleep, bits - (bits >> 31 << 32))
            self.wake_all(pair)

    def fall_asleep(self, pair, rings):
        """Does step 2 of a sleep. Returns its stores."""
        stores, asleep = [], 4096 + WAITING[pair] + 4
        bits = self.get32(asleep) & 0xFFFFFFFF
        for k in rings:
            bits |= 1 << k % 32
        self.foreign_store(stores, asleep, bits - (bits >> 31 << 32), 4)
        return stores

    def take_publisher(self, name, max_lag=0):
        assert self.foreign != "publisher" and not (self.foreign and max_lag)
        name = name.encode()
        names = [self.slot_name(self.publisher_slot(k)) for k in range(self.takeable)]
        if name and name in names:
            k = self.lock_first("publisher", [names.index(name)])
        else:
            slots = range(self.takeable)
            k = self.lock_first("publisher", [k for k in slots if not names[k]] + [k for k in slots if names[k]])
        published, count = self.recover(k)
        slot = self.publisher_slot(k)
        p = Publisher(k, name, self.new_owner(slot, name, published), published, count)
        self.wake_all("data")
        p.lag = max_lag or None
        p.owner_pending = self.foreign != "subscriber"  # 6.15: Agrona's reader does not know owner records
        return p

    def recover(self, k):
        """Recovers a ring (6.8)."""
        p, q = (self.get_trailer(k, w) for w in ("published", "claimed"))
        assert 0 <= p <= q <= p + self.C // 4 + self.window and (p & (self.C - 1)) + q - p <= self.C
        if p == q or self.get32(self.record(k, p)) <= 0:
            count = self.get_trailer(k, "messages_begun")
            self.set_trailer(k, "messages_done", count)
        else:
            count = self.get_trailer(k, "messages_done")
        r = p
        while r < q and (length := self.get32(self.record(k, r))) > 0:
            assert 8 <= length and self.align(length) <= q - r
            count += self.get32(self.record(k, r) + 4) > 0
            r += self.align(length)
        if r < q:
            self.put32(self.record(k, q), 0)
            self.put32(self.record(k, r) + 4, -1)
            self.put32(self.record(k, r), q - r)
        self.set_trailer(k, "messages_begun", count)
        self.set_trailer(k, "published", q)
        self.set_trailer(k, "messages_done", count)
        return q, count

    def close_publisher(self, p):
        if p.claim:
            self.abort(p)
        self.put32(self.publisher_slot(p.ring) + 16, 1)
        self.wake_all("data")
        self.locked.remove(("publisher", p.ring))

    def take_subscriber(self, name, kept, rings):
        assert self.foreign != "subscriber"
        name = name.encode()
        slots = [
            (self.get32(self.subscriber_slot(j) + 16), self.slot_name(self.subscriber_slot(j))) for j in range(self.S)
        ]
        if self.inbox:
            candidates = [0]
        elif name and (1, name) in slots:
            candidates = [slots.index((1, name))]
        else:
            candidates = [j for j in range(self.S) if not (slots[j][0] and slots[j][1])]
        j = self.lock_first("subscriber", candidates)
        slot = self.subscriber_slot(j)
        gating = [k for k in range(self.P) if self.gate(j, k) >= 0]
        is_kept, evicted = self.get32(slot + 16), self.get32(slot + 8)
        resumes = is_kept and gating and not evicted
        assert not resumes or rings is None or rings == gating, "differs (rings): no golden file needs that"
        s = Subscriber(j, self.new_owner(slot, name))
        if resumes:  # 6.5
            s.cursors = {k: self.gate(j, k) for k in gating}
            s.counts = {k: self.count_of(k, c) for k, c in s.cursors.items()}
            self.wake_all("room")
            return s
        if is_kept:
            self.put32(slot + 8, 1)
        chosen = list(range(self.P)) if rings is None else rings  # 6.4 join
        for k in range(self.P):
            if k not in chosen:
                self.set_gate(j, k, -1)
        for _ in range(2):
            for k in chosen:
                self.set_gate(j, k, self.get_trailer(k, "published"))
        s.cursors = {k: self.get_trailer(k, "published") for k in chosen}
        s.counts = {k: self.count_of_published(k) for k in chosen}
        if is_kept:
            known = [k for k in chosen if self.count(j, k) >= 0 and s.counts[k] >= 0]
            lost = sum(max(0, s.counts[k] - self.count(j, k)) for k in known)
            self.put64(slot + 136, self.get64(slot + 136) + lost)
        for k in chosen:
            self.set_count(j, k, s.counts[k])
        if kept:
            self.put32(slot + 16, 1)
        if self.get32(slot + 8):
            self.put32(slot + 8, 0)
        self.wake_all("room")
        return s

    def count_of_published(self, k):
        """Returns the count of a consistent read (6.10); -1 if the publisher died between its stores."""
        count = self.get_trailer(k, "messages_done")
        return count if count == self.get_trailer(k, "messages_begun") else -1

    def count_of(self, k, g):
        """Returns the count of position g in ring k (6.5)."""
        if self.foreign == "publisher":
            return -1  # Agrona counts nothing
        boundaries = [
            (self.get64(self.trailer(k) + 16 * e), self.get64(self.trailer(k) + 16 * e + 8)) for e in range(8)
        ]
        b, m = min([x for x in boundaries if x[0] >= g and x[0] + self.C >= self.get_trailer(k, "claimed") + 8],
                   default=(self.get_trailer(k, "published"), self.get_trailer(k, "messages_done")))  # fmt: skip
        while g < b:
            kind, _, g = self.read(k, g)
            m -= kind > 0
        assert g == b and m >= 0
        return m

    def close_subscriber(self, s):
        lost = self.get64(self.subscriber_slot(s.slot)) != s.epoch  # 5.4: takes back what it stored since
        if lost or not self.get32(self.subscriber_slot(s.slot) + 16):
            for k in range(self.P):  # 6.6 leave
                self.set_gate(s.slot, k, -1)
            self.wake_all("room")
        self.locked.remove(("subscriber", s.slot))

    def forget(self, s):
        assert not self.inbox
        slot = self.subscriber_slot(s.slot)
        self.put32(slot + 16, 0)
        for k in range(self.P):
            self.set_gate(s.slot, k, -1)
        self.put32(slot + 20, -1)
        self.put(slot + 24, bytes(64))
        self.put32(slot + 20, 0)
        self.close_subscriber(s)

    # --- 6.1 to 6.3: publishing -------------------------------------------------------------------------------------

    def evict(self, j):
        """Evicts a subscriber (6.11). Returns how many messages it had not read."""
        assert not self.foreign
        slot = self.subscriber_slot(j)
        unread = sum(
            self.get_trailer(k, "messages_done") - self.count_of(k, self.gate(j, k))
            for k in range(self.P)
            if self.gate(j, k) >= 0
        )
        self.put64(slot, self.get64(slot) + 1)
        self.put32(slot + 8, 1)
        for k in range(self.P):
            self.set_gate(j, k, -1)
        self.wake_all("room", "data")
        return unread

    def recompute(self, p, n, first):
        """Recomputes the limit (6.2). Leaves out step 4, because each gating subscriber here is alive or kept. first: n
        of step 5."""
        gates = {j: g for j in range(self.S) if (g := self.gate(j, p.ring)) >= 0}
        if self.foreign:  # 6.15
            self.put64(self.trailer(p.ring) + 256, gates[0])
        room = min(self.C, p.lag or self.C)
        p.limit = min([self.C + p.t] + [g + room for g in gates.values()])
        behind = [j for j, g in gates.items() if p.lag and p.t + n + 8 > g + p.lag]
        for j in behind:
            self.evict(j)
        if behind:
            self.recompute(p, n, first)
            return
        self.note_room(p, first)

    def note_room(self, p, first):
        """Clears blocked_since (6.2, 5)."""
        slot, room = self.publisher_slot(p.ring), p.t + first + 8 <= p.limit
        if not room and not p.blocked:
            self.put64(slot + 136, first)
            self.put64(slot + 128, self.inject["monotonic"])
        elif room and p.blocked:
            self.put64(slot + 128, 0)
        p.blocked = not room

    def has_room(self, p, n):
        """Returns whether there is room for n bytes (6.1, step 2)."""
        if p.t + n + 8 > p.limit:
            self.recompute(p, n, n)
        return p.t + n + 8 <= p.limit

    def begin(self, p, n):
        """Announces n bytes and stores a zero behind them (6.1, steps 3 and 4)."""
        if p.t + n > p.cleared:
            self.clear(p, p.t + n, p.t + n + self.ahead(n))

    def ahead(self, n):
        """Returns w(n) of 6.1: nothing is cleared ahead after a long record."""
        return self.window if n <= self.window // 8 else 0

    def clear(self, p, first, q):
        """Does the stores of 6.1, steps 4 and 9, up to q or as far as the limit allows."""
        q = min(q, p.t // self.C * self.C + self.C, (p.limit - 8) // self.A * self.A)
        if q > p.cleared:
            self.set_trailer(p.ring, "claimed", q)
            for x in range(max(first, p.cleared + self.A), q + 1, self.A):
                self.put32(self.record(p.ring, x), 0)
            p.cleared = q

    def write(self, p, position, record_length, kind, payload):
        """Does step 5, and stores a record's length."""
        at = self.record(p.ring, position)
        with self.in_any_order(at + 4):
            if payload is not None:
                self.put(at + 8, payload)
            self.put32(at + 4, kind)
        self.put32(at, record_length)

    def finish(self, p, n, messages):
        """Publishes n bytes (6.1, steps 7 to 9)."""
        p.count += messages
        self.set_trailer(p.ring, "messages_begun", p.count)
        self.set_trailer(p.ring, "published", p.t + n)
        self.set_trailer(p.ring, "messages_done", p.count)
        s = self.C.bit_length() - 1 - 3
        e = ((p.t + n) >> s) & 7
        if p.t >> s != (p.t + n) >> s and (e or self.foreign != "subscriber"):  # 6.15
            at = self.trailer(p.ring) + 16 * e
            self.put64(at, -1)
            self.put64(at + 8, p.count)
            self.put64(at, p.t + n)
        p.t += n
        if p.cleared - p.t < self.ahead(n) // 2:
            self.clear(p, p.t, p.t + self.window)

    def pad_to_end(self, p):
        n = self.C - (p.t & (self.C - 1))
        if not self.has_room(p, n):
            return False
        self.begin(p, n)
        self.write(p, p.t, n, -1, None)
        self.finish(p, n, 0)
        return True

    def fits_before_end(self, p, n):
        return (p.t & (self.C - 1)) + n <= self.C

    def owner_record(self, p):
        """Publishes the owner record (6.1), before a new owner's first record and its padding."""
        if not p.owner_pending:
            return True
        payload = struct.pack("<qi", p.epoch, len(p.name)) + p.name
        n = self.align(8 + len(payload))
        if not (self.fits_before_end(p, n) or self.pad_to_end(p)) or not self.has_room(p, n):
            return False
        p.owner_pending = False
        self.begin(p, n)
        self.write(p, p.t, 8 + len(payload), -2, payload)
        self.finish(p, n, 0)
        return True

    def claim(self, p, length, kind):
        reserved = self.reserve(p, length, kind)
        if reserved:
            self.put32(self.record(p.ring, p.t) + 4, kind)
        return reserved

    def reserve(self, p, length, kind):
        """Reserves room (6.1, steps 1 to 4)."""
        assert p.claim is None and kind > 0
        n = self.align(8 + length)
        assert n <= self.C // 4
        if not self.owner_record(p) or not (self.fits_before_end(p, n) or self.pad_to_end(p)):
            return False
        if not self.has_room(p, n):
            return False
        self.begin(p, n)
        p.claim = (length, kind, n)
        return True

    def commit(self, p, data):
        length, kind, n = p.claim
        assert len(data) == length
        self.write(p, p.t, 8 + length, kind, data)
        self.finish(p, n, 1)
        self.wake("data", p.ring)
        p.claim = None
        return p.t

    def abort(self, p):
        length, _, n = p.claim
        self.write(p, p.t, 8 + length, -1, None)
        self.finish(p, n, 0)
        p.claim = None
        return p.t

    def offer(self, p, kind, data):
        return self.commit(p, data) if self.reserve(p, len(data), kind) else -1

    def offer_batch(self, p, kind, messages):
        taken = 0
        while taken < len(messages):
            sizes = [self.align(8 + len(m)) for m in messages[taken:]]
            if not self.owner_record(p):
                break
            if not self.fits_before_end(p, sizes[0]) and not self.pad_to_end(p):
                break
            ends = list(itertools.accumulate(sizes))  # the size of the first 1, 2, 3 ... messages
            ends = [n for n in ends if self.fits_before_end(p, n) and n <= self.C // 4]
            if p.t + ends[-1] + 8 > p.limit:
                self.recompute(p, ends[-1], ends[0])
                ends = [n for n in ends if p.t + n + 8 <= p.limit]
            if not ends:
                break
            m, n = len(ends), ends[-1]
            self.begin(p, n)
            with self.in_any_order(self.record(p.ring, p.t + ends[0])):
                for i in range(1, m):
                    data, at = messages[taken + i], self.record(p.ring, p.t + ends[i - 1])
                    self.put(at, struct.pack("<ii", 8 + len(data), kind) + data)
            self.write(p, p.t, 8 + len(messages[taken]), kind, messages[taken])
            self.finish(p, n, m)
            taken += m
        if taken:
            self.wake("data", p.ring)
        return taken

    # --- 6.9: poll --------------------------------------------------------------------------------------------------

    def read(self, k, c):
        """Returns the record at c: (type, payload, position behind it); None if there is none yet."""
        at = self.record(k, c)
        length, kind = self.get32(at), self.get32(at + 4)
        if length <= 0:
            return None
        assert length >= 8 and (c & (self.C - 1)) + self.align(length) <= self.C and (kind > 0 or kind in (-1, -2))
        return kind, bytes(self.b[at + 8 : at + length]), c + self.align(length)

    def unread(self, k, c):
        """Returns the messages from cursor c on in ring k: [(type, payload, position)]."""
        messages = []
        while (r := self.read(k, c)) is not None:
            if r[0] > 0:
                messages.append((r[0], r[1], c))
            c = r[2]
        return messages

    def poll(self, s, limit):
        ready = [k for k in s.cursors if self.unread(k, s.cursors[k])]
        messages = []
        for k in s.cursors:
            while len(messages) < limit and (r := self.read(k, s.cursors[k])) is not None:
                if r[0] > 0:
                    messages.append((r[0], r[1], s.cursors[k]))
                    s.counts[k] += s.counts[k] >= 0
                s.cursors[k] = r[2]
                if s.cursors[k] - self.gate(s.slot, k) >= self.C // 8:
                    self.store_gate(s, k)
            if s.cursors[k] != self.gate(s.slot, k):
                self.store_gate(s, k)
        assert len(ready) <= 1 or len(messages) < limit, "which ring comes first would matter"
        return messages

    def store_gate(self, s, k):
        self.set_count(s.slot, k, s.counts[k])
        self.set_gate(s.slot, k, s.cursors[k])
        self.wake("room", k)

    # --- 6.10, 6.14: what a lossy reader finds that starts at what is still there ------------------------------------

    def still_there(self, k):
        assert self.foreign != "publisher"  # 6.15: no lossy subscribers
        claimed, published = self.get_trailer(k, "claimed"), self.get_trailer(k, "published")
        boundaries = [self.get64(self.trailer(k) + 16 * e) for e in range(8)]
        c = min([b for b in boundaries if b >= 0 and b + self.C >= claimed + 8], default=published)
        slot = self.publisher_slot(k)
        sender = {"name": "", "epoch": 0}
        if self.get64(slot) > 0 and self.get64(slot + 8) <= c:
            sender = {"name": self.slot_name(slot).decode(), "epoch": self.get64(slot)}
        messages = []
        while (r := self.read(k, c)) is not None:
            kind, payload, end = r
            if kind == -2:
                epoch, length = struct.unpack_from("<qi", payload)
                sender = {"name": payload[12 : 12 + length].decode(), "epoch": epoch}
            if kind > 0:
                messages.append({"type": kind, "position": c, "data": payload.hex(), "sender": sender})
            c = end
        return {"ring": k, "ended": self.get32(slot + 16) == 1, "messages": messages}

    # --- 6.15: the foreign end, like Agrona 2.6.0's OneToOneRingBuffer. Each operation returns a list of its stores:
    # (offset in the file, bytes) -------------------------------------------------------------------------------------

    def foreign_store(self, stores, at, value, size=8):
        stores.append((at, value.to_bytes(size, "little", signed=True)))
        self.b[at : at + size] = stores[-1][1]

    def foreign_write(self, kind, data):
        """Does write(). Returns its stores, and whether it accepted the message; padding may be left even if not."""
        head, cache, tail = self.trailer(0) + 384, self.trailer(0) + 256, self.trailer(0) + 128
        record_length = 8 + len(data)
        n, stores = self.align(record_length), []
        assert self.foreign == "publisher" and len(data) <= self.C // 8
        t, h = self.get64(tail), self.get64(cache)
        if n + 8 > self.C - (t - h):
            h = self.get64(head)
            if n + 8 > self.C - (t - h):
                return stores, False
            self.foreign_store(stores, cache, h)
        to_end, index, next_tail, padding = self.C - (t & (self.C - 1)), t & (self.C - 1), t + n, 0
        if n != to_end and n + 8 > to_end:
            index, padding = 0, to_end
            if n + 8 > h & (self.C - 1):
                h = self.get64(head)
                if n + 8 > h & (self.C - 1):
                    index, next_tail = None, t
                self.foreign_store(stores, cache, h)
            next_tail += padding
        self.foreign_store(stores, tail, next_tail)
        if padding or n == to_end:
            self.foreign_store(stores, self.record(0, 0), 0)
        if padding:
            self.foreign_store(stores, self.record(0, t), -padding, 4)
            self.foreign_store(stores, self.record(0, t) + 4, -1, 4)
            self.foreign_store(stores, self.record(0, t), padding, 4)
        if index is None:
            return stores, False
        if n != to_end:
            self.foreign_store(stores, self.record(0, index + n), 0)
        at = self.record(0, index)
        self.foreign_store(stores, at, -record_length, 4)
        stores.append((at + 8, data))
        self.b[at + 8 : at + 8 + len(data)] = data
        self.foreign_store(stores, at + 4, kind, 4)
        self.foreign_store(stores, at, record_length, 4)
        return stores, True

    def foreign_read(self, limit):
        """Does read(). Returns its stores, and the number of messages. It never reads over the ring's end."""
        assert self.foreign == "subscriber"
        c, count, stores = self.gate(0, 0), 0, []
        end = c // self.C * self.C + self.C
        while c < end and count < limit and (r := self.read(0, c)) is not None:
            assert r[0] != -2
            count += r[0] > 0
            c = r[2]
        if c > self.gate(0, 0):
            self.foreign_store(stores, self.gate_at(0, 0), c)
        return stores, count

    # --- 8: counters ------------------------------------------------------------------------------------------------

    def counter_allocate(self, label, type_id, key):
        now = self.inject["now"] // 1_000_000
        for i in range(self.N):
            m, v = self.metadata + 512 * i, self.values + 128 * i
            state = self.get32(m)
            if state == 0 or (state == -1 and self.get64(m + 8) <= now):
                break
        else:
            raise AssertionError("no space: no golden file needs that")
        label = label.encode()
        assert len(label) >= self.get32(m + 128), "what becomes of the rest of a longer old label is a choice"
        for word in (16, 24, 0):
            self.put64(v + word, 0)
        self.put32(m + 4, type_id)
        self.put64(m + 8, MAX_I64)
        self.b[m + 16 : m + 128] = key.ljust(112, b"\0")
        self.b[m + 132 : m + 132 + len(label)] = label
        self.put32(m + 128, len(label))
        self.put32(m, 1)
        return i

    def counter_set(self, i, value):
        self.put64(self.values + 128 * i, value)

    def counter_add(self, i, delta):
        """Does get_and_add. Returns the previous value; wraps."""
        old = self.get64(self.values + 128 * i)
        self.put64(self.values + 128 * i, (old + delta + 2**63) % 2**64 - 2**63)
        return old

    def counter_free(self, i):
        m = self.metadata + 512 * i
        self.put32(m, -1)
        self.b[m + 16 : m + 128] = bytes(112)
        self.put64(self.values + 128 * i + 8, self.get64(self.values + 128 * i + 8) + 1)
        self.put64(m + 8, self.inject["now"] // 1_000_000)

    # --- what a reader should find ----------------------------------------------------------------------------------

    def expected(self):
        header = {}
        for offset, kind, name in HEADER[1:]:
            value = struct.unpack_from("<" + kind, self.b, offset)[0]
            header[name] = str(uuid.UUID(bytes=value)) if name == "channel_id" else value
        publishers, subscribers, unread, counters = [], [], [], []
        for k in range(self.P):
            slot, trailer = self.publisher_slot(k), self.trailer(k)
            publishers.append(
                {
                    "ring": k,
                    "epoch": self.get64(slot),
                    "start": self.get64(slot + 8),
                    "closed": self.get32(slot + 16),
                    "name": self.slot_name(slot).decode(),
                    "pid": self.get32(slot + 88),
                    "attached_at": self.get64(slot + 96),
                    "blocked_since": self.get64(slot + 128),
                    "blocked_length": self.get64(slot + 136),
                    "claimed": self.get_trailer(k, "claimed"),
                    "published": self.get_trailer(k, "published"),
                    "messages": self.get_trailer(k, "messages_done"),
                    "boundaries": [[self.get64(trailer + 16 * e), self.get64(trailer + 16 * e + 8)] for e in range(8)],
                }
            )
        for j in range(self.S):
            slot = self.subscriber_slot(j)
            name, kept, gates = (
                self.slot_name(slot).decode(),
                self.get32(slot + 16),
                [self.gate(j, k) for k in range(self.P)],
            )
            subscribers.append(
                {
                    "slot": j,
                    "epoch": self.get64(slot),
                    "evicting": self.get32(slot + 8),
                    "kept": kept,
                    "name": name,
                    "pid": self.get32(slot + 88),
                    "attached_at": self.get64(slot + 96),
                    "discarded": self.get64(slot + 136),
                    "gates": gates,
                    "counts": [self.count(j, k) for k in range(self.P)],
                }
            )
            for k in range(self.P if kept and self.foreign != "subscriber" else 0):
                if gates[k] >= 0:
                    unread.append(
                        {
                            "slot": j,
                            "name": name,
                            "ring": k,
                            "messages": [
                                {"type": t, "position": at, "data": data.hex()}
                                for t, data, at in self.unread(k, gates[k])
                            ],
                        }
                    )
        for i in range(self.N):
            m = self.metadata + 512 * i
            if self.get32(m) == 0:
                break
            if self.get32(m) == 1:
                counters.append(
                    {
                        "id": i,
                        "label": self.b[m + 132 : m + 132 + self.get32(m + 128)].decode(),
                        "type_id": self.get32(m + 4),
                        "key": self.b[m + 16 : m + 128].hex(),
                        "value": self.get64(self.values + 128 * i),
                    }
                )
        at, length = header["schema_offset"], header["schema_length"]
        return {
            "header": header,
            "boot_id": str(uuid.UUID(bytes=bytes(self.b[4096:4112]))),
            "schema": self.b[at : at + length].decode(),
            "publishers": publishers,
            "subscribers": subscribers,
            "unread": unread,
            "still_there": [self.still_there(k) for k in range(self.P) if self.foreign != "publisher"],
            "counters": counters,
        }
