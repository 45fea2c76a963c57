# SPDX-License-Identifier: Apache-2.0
"""Does the steps of a journal (spec/journal.md) literally on the bytes of its files, in one thread, as simulation.py
does those of a channel. Section numbers in comments are those of journal.md. Stores are made one by one in the order of
the steps. `on_store` is called after each, and `sync` where a step writes a file to the disk."""

import functools
import struct
import uuid
from contextlib import contextmanager

from simulation import CRC_OF, up

HEADER = (  # 2.1: offset, struct format, name
    (0, "8s", "magic"),
    (8, "H", "major"),
    (10, "H", "minor"),
    (12, "i", "header_length"),
    (16, "Q", "required_features"),
    (24, "Q", "optional_features"),
    (32, "q", "file_length"),
    (40, "16s", "journal_id"),
    (56, "q", "created_at"),
    (64, "i", "content"),
    (68, "i", "consumers"),
    (72, "q", "segment_size"),
    (80, "q", "control_offset"),
    (88, "q", "control_length"),
    (96, "q", "schema_offset"),
    (104, "q", "schema_length"),
    (112, "i", "schema_id"),
    (116, "i", "schema_version"),
    (4092, "I", "crc"),
)
CONTROL = {  # 2.2: offset, struct format
    "successor": (40, "i"),
    "failed": (48, "i"),
    "data_sequence": (64, "I"),
    "data_asleep": (68, "I"),
    "work_sequence": (128, "I"),
    "work_asleep": (132, "I"),
    "claimed": (192, "q"),
    "published": (256, "q"),
    "messages": (264, "q"),
    "checked": (272, "q"),
    "ready": (320, "q"),
    "synced": (384, "q"),
    "synced_at": (392, "q"),
    "trimmed": (448, "q"),
    "sync_every": (512, "q"),
    "max_age": (520, "q"),
    "max_size": (528, "q"),
    "trim_consumed": (536, "i"),
}
SLOT = {  # channel.md 4.4, 4.5
    "epoch": (0, "q"),
    "kept": (16, "i"),  # of a consumer; of the writer: closed
    "name_length": (20, "i"),
    "name": (24, "64s"),
    "pid": (88, "i"),
    "attached_at": (96, "q"),
    "wakes": (104, "q"),
    "gate": (128, "q"),
}
WRITER_AT, CONSUMERS_AT, CONSUMER_SIZE, PAIRS_AT = 768, 1024, 256, (144, 176)
PADDING, CHECK, CUT, PAGE, UNIT, AHEAD, CHECK_EVERY = -1, -3, -4, 4096, 64, 4096, 65536


@functools.lru_cache(maxsize=4096)
def crc32c(data, crc=0):
    """Returns the CRC-32C of bytes that follow those of `crc`."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = CRC_OF[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class TooLarge(Exception):
    code = "too-large"


class Journal:
    def __init__(self, options, inject):
        self.inject, self.files, self.on_store, self.on_sync = inject, {}, None, None
        self.Z, self.S = options.get("segment_size", 65536), options.get("consumers", 16)
        schema = options.get("schema", "").encode()
        control_length = up(1024 + 256 * self.S, PAGE)
        values = {
            "magic": b"FLYJRNL\0",
            "major": 1,
            "header_length": PAGE,
            "file_length": up(PAGE + control_length + len(schema), PAGE),
            "journal_id": uuid.UUID(inject["channel_id"]).bytes,
            "created_at": inject["created_at"],
            "content": options.get("content", 0),
            "consumers": self.S,
            "segment_size": self.Z,
            "control_offset": PAGE,
            "control_length": control_length,
            "schema_offset": PAGE + control_length,
            "schema_length": len(schema),
            "schema_id": options.get("schema_id", 0),
            "schema_version": options.get("schema_version", 0),
        }
        b = self.files["control"] = bytearray(values["file_length"])
        for offset, kind, name in HEADER[:-1]:
            struct.pack_into("<" + kind, b, offset, values.get(name, 0))
        struct.pack_into("<I", b, PAGE - 4, crc32c(bytes(b[: PAGE - 4])))
        b[PAGE + control_length : PAGE + control_length + len(schema)] = schema
        b[PAGE : PAGE + 16] = self.boot()
        for name in ("sync_every", "max_age", "max_size", "trim_consumed"):
            self.set(name, options.get(name, 0))
        self.set("claimed", UNIT)
        self.set("published", UNIT)
        self.prepare(0, self.check_record(0, 0, 0, 0))

    # --- bytes

    def boot(self):
        return uuid.UUID(self.inject["boot_id"]).bytes

    def store_bytes(self, name, at, data):
        self.files[name][at : at + len(data)] = data
        if self.on_store:
            self.on_store(name, at)

    @contextmanager
    def together(self, name, at):
        """Stores that the page does not order among each other count as one."""
        told, self.on_store = self.on_store, None
        try:
            yield
        finally:
            self.on_store = told
        if told:
            told(name, at)

    def sync(self, *names):
        if self.on_sync:
            self.on_sync(names)

    def get(self, at, kind):
        return struct.unpack_from("<" + kind, self.files["control"], at)[0]

    def store(self, at, kind, value):
        self.store_bytes("control", at, struct.pack("<" + kind, value))

    def word(self, name):
        offset, kind = CONTROL[name]
        return self.get(PAGE + offset, kind)

    def set(self, name, value):
        offset, kind = CONTROL[name]
        self.store(PAGE + offset, kind, value)

    def of_slot(self, at, name):
        offset, kind = SLOT[name]
        return self.get(PAGE + at + offset, kind)

    def set_slot(self, at, name, value):
        offset, kind = SLOT[name]
        self.store(PAGE + at + offset, kind, value)

    # --- segments (2.3)

    def base(self, position):
        return position - position % self.Z

    @staticmethod
    def name(base):
        return f"{base:019d}.seg"

    def segments(self):
        return sorted(int(name[:19]) for name in self.files if name.endswith(".seg"))

    def segment_header(self, base):
        page = bytearray(PAGE)
        journal_id, created_at = uuid.UUID(self.inject["channel_id"]).bytes, self.inject["created_at"]
        struct.pack_into("<8sHHi16sqqq", page, 0, b"FLYSEGM\0", 1, 0, PAGE, journal_id, base, self.Z, created_at)
        struct.pack_into("<I", page, PAGE - 4, crc32c(bytes(page[: PAGE - 4])))
        return bytes(page)

    def whole(self, base):
        file = self.files.get(self.name(base), b"")
        if len(file) != PAGE + self.Z or file[:10] != b"FLYSEGM\0\1\0" or file[12:16] != struct.pack("<i", PAGE):
            return False
        journal_id = uuid.UUID(self.inject["channel_id"]).bytes
        wanted = journal_id + struct.pack("<qq", base, self.Z)
        return file[16:48] == wanted and file[PAGE - 4 : PAGE] == struct.pack("<I", crc32c(bytes(file[: PAGE - 4])))

    def prepare(self, p, first=b""):
        """Does 4. A file that is not whole is replaced; `first`: of a recovery, which knows that none is there."""
        if not self.whole(p):
            file = bytearray(PAGE + self.Z)
            file[:PAGE], file[PAGE : PAGE + len(first)] = self.segment_header(p), first
            self.sync(self.name(p))
            self.files[self.name(p)] = file
            if self.on_store:
                self.on_store(self.name(p), 0)
        else:
            self.sync(self.name(p))
        self.sync("")
        if self.word("ready") < p + self.Z:
            self.set("ready", p + self.Z)

    def place(self, position):
        return self.name(self.base(position)), PAGE + position % self.Z

    def bytes_at(self, position, length):
        name, at = self.place(position)
        return bytes(self.files[name][at : at + length])

    def write(self, position, data):
        name, at = self.place(position)
        self.store_bytes(name, at, data)

    # --- records (3)

    def record(self, position):
        """Returns length and type, (0, 0) if nothing is there, None if its segment is missing or it is not sound."""
        if not self.whole(self.base(position)):
            return None
        length, kind = struct.unpack("<ii", self.bytes_at(position, 8))
        if length == 0:
            return 0, 0
        valid = {PADDING: length >= 8, CHECK: length == UNIT, CUT: length == UNIT}
        if not valid.get(kind, kind > 0 and 16 <= length <= self.Z // 4) or position % self.Z + up(length, 64) > self.Z:
            return None
        return length, kind

    @staticmethod
    def with_crc(record):
        record = record.ljust(UNIT - 4, b"\0")
        return record + struct.pack("<I", crc32c(record))

    def check_record(self, position, count, time, span_crc):
        return self.with_crc(struct.pack("<iiqqqI", UNIT, CHECK, position, count, time, span_crc))

    def landmark(self, position):
        """Returns count, time, next and span_crc of a check or cut whose own crc is right; next: of a cut, else 0."""
        record = self.record(position)
        if record is None or record[1] not in (CHECK, CUT):
            return None
        data = self.bytes_at(position, UNIT)
        if data != self.with_crc(data[:-4]) or struct.unpack_from("<q", data, 8)[0] != position:
            return None
        count, x = struct.unpack_from("<qq", data, 16)
        if record[1] == CUT:
            return (count, 0, x, 0) if x > position and x % self.Z == 0 else None
        return count, x, 0, struct.unpack_from("<I", data, 32)[0]

    def summed(self, position, length, kind, crc):
        """Adds a record to the CRC of its span (3.2)."""
        if kind == CHECK:
            return crc
        return crc32c(self.bytes_at(position, 8 if kind == PADDING else up(length, 64)), crc)

    # --- the writer: append (3.1)

    def publish(self, length, size, messages=0):
        """Does 5 and 6 for the record at t, whose other bytes are there."""
        self.write(self.t, struct.pack("<i", length))
        self.t, self.count = self.t + size, self.count + messages
        self.set("published", self.t)
        self.set("messages", self.count)

    def announce(self, to):
        if to > self.word("claimed"):
            self.set("claimed", to)

    def padding(self, length):
        size = up(length, UNIT)
        self.announce(self.t + size)
        self.write(self.t + 4, struct.pack("<i", PADDING))
        at = self.t
        self.publish(length, size)
        self.crc = self.summed(at, length, PADDING, self.crc)

    def check(self):
        t = self.t
        self.announce(t + UNIT)
        record = self.check_record(t, self.count, self.largest, self.crc)
        self.write(t + 4, record[4:])
        self.publish(UNIT, UNIT)
        self.set("checked", t)
        self.since, self.crc = self.t, 0

    def make_ready(self, p):
        if self.word("ready") < p + self.Z:
            self.prepare(p)

    def reserve(self, n):
        """Does 1 to 3."""
        if n > self.Z // 4:
            raise TooLarge
        if self.t % self.Z and self.t % self.Z + n > self.Z - UNIT:
            following = self.base(self.t) + self.Z
            self.make_ready(following)
            self.padding(following - self.t)
        if self.t % self.Z == 0:
            self.make_ready(self.t)
            self.check()
            self.wake("work")
        self.announce(min(self.t + n + AHEAD, self.base(self.t) + self.Z - UNIT) if self.t + n > self.claimed() else 0)

    def claimed(self):
        return self.word("claimed")

    def message(self, position, data, kind, time):
        """Does 4: all of a record but its length."""
        name, at = self.place(position)
        with self.together(name, at + 4):
            self.write(position + 8, struct.pack("<q", time) + data)
            self.write(position + 4, struct.pack("<i", kind))

    def committed(self, position, size, time, messages):
        """Does 7 to 9, of the records from `position` on."""
        self.largest = max(self.largest, time)
        end = self.t
        while position < end:
            length, kind = self.record(position)
            self.crc = self.summed(position, length, kind, self.crc)
            position += up(length, UNIT)
        self.check_long()
        self.wake("data")
        if self.word("sync_every") == -1:
            self.sync_records()

    def check_long(self):
        if self.t - self.since >= CHECK_EVERY:
            self.check()

    def append(self, data, kind=1, time=None):
        n = up(16 + len(data), UNIT)
        self.reserve(n)
        time = self.inject["now"] if time is None else time
        at = self.t
        self.message(at, data, kind, time)
        self.publish(16 + len(data), n, 1)
        self.committed(at, n, time, 1)
        return at

    def claim(self, length, kind):
        self.reserve(up(16 + length, UNIT))
        self.open = length, kind

    def commit(self, data):
        length, kind = self.open
        at, n, time = self.t, up(16 + length, UNIT), self.inject["now"]
        self.message(at, data, kind, time)
        self.publish(16 + length, n, 1)
        self.committed(at, n, time, 1)
        return at

    def abort(self):
        self.padding(16 + self.open[0])
        self.check_long()

    def batch(self, messages, kind):
        """A batch that fits: its records 2, 3, ... whole, then record 1 and its length."""
        time, at = self.inject["now"], self.t
        sizes = [up(16 + len(m), UNIT) for m in messages]
        self.reserve(sizes[0])
        at = self.t
        assert at + sum(sizes) <= self.claimed(), "which `claimed` a longer batch stores is not in the page"
        p = at + sizes[0]
        for size, m in zip(sizes[1:], messages[1:], strict=True):
            name, offset = self.place(p)
            with self.together(name, offset):
                self.message(p, m, kind, time)
                self.write(p, struct.pack("<i", 16 + len(m)))
            p += size
        self.message(at, messages[0], kind, time)
        self.publish(16 + len(messages[0]), sum(sizes), len(messages))
        self.committed(at, sum(sizes), time, len(messages))
        return len(messages)

    def wake(self, pair):
        """channel.md 6.16."""
        if self.word(pair + "_asleep") & 1:
            self.set(pair + "_asleep", self.word(pair + "_asleep") & ~1)
            self.set(pair + "_sequence", self.word(pair + "_sequence") + 1)

    def wake_all(self, pair):
        self.set(pair + "_sequence", self.word(pair + "_sequence") + 1)

    # --- sync (5)

    def sync_records(self):
        if self.since != self.t:
            if self.t % self.Z == 0:
                self.make_ready(self.t)
            self.check()
        self.make_durable()

    def make_durable(self):
        """Does 2 to 4, as any process may."""
        x = self.word("checked")
        if x <= self.word("synced"):
            return
        for base in self.segments():
            if self.base(self.word("synced")) <= base <= x:
                self.sync(self.name(base))
        self.set("synced", x)
        self.set("synced_at", self.inject["now"])
        self.wake_all("data")

    # --- the writer's slot (channel.md 5.2; 3.4)

    def take(self, name=None):
        """Takes the slot; name None: for one push. Returns the epoch and what a recovery reports, or None."""
        recovered = None
        if self.files["control"][PAGE : PAGE + 16] != self.boot():
            recovered = self.recover()
        else:
            self.resume()
        self.take_slot(WRITER_AT, None if name is None else name.encode(), True)
        self.wake_all("data")
        return self.of_slot(WRITER_AT, "epoch"), recovered

    def take_slot(self, at, name, writer):
        epoch = self.of_slot(at, "epoch") + 1
        n = self.of_slot(at, "name_length")
        renamed = name is not None and (n != len(name) or self.of_slot(at, "name")[: max(0, n)] != name)
        if renamed:
            self.set_slot(at, "name_length", -1)
        with self.together("control", PAGE + at + SLOT["pid"][0]):
            if writer:
                self.set_slot(at, "kept", 0)  # closed
            if name is not None:
                self.set_slot(at, "pid", self.inject["pid"])
                self.set_slot(at, "attached_at", self.inject["now"])
            if renamed:
                self.set_slot(at, "name", name)
            self.set_slot(at, "wakes", epoch)
        self.set_slot(at, "epoch", epoch)
        if renamed:
            self.set_slot(at, "name_length", len(name))

    def close_writer(self, synced=True):
        if synced:
            self.sync_records()
        self.set_slot(WRITER_AT, "kept", 1)
        self.wake_all("data")

    def push(self, data, kind):
        self.take()
        at = self.append(data, kind)
        self.help(at)
        self.close_writer(False)
        return at

    def help(self, at):
        """What a push does behind its append, as no process has the helper lock (5)."""
        if self.sync_is_due():
            self.sync_records()
        if at % self.Z == UNIT and self.word("trim_consumed"):
            self.trim(None)

    def sync_is_due(self):
        every, last = self.word("sync_every"), self.word("synced_at")
        behind = self.base(self.word("checked")) > self.base(self.word("synced"))
        return behind or (every > 0 and not last <= self.inject["now"] < last + every)

    def resume(self):
        p, q, x = (self.word(name) for name in ("published", "claimed", "checked"))  # 1
        assert 0 <= p <= q <= self.base(p) + self.Z and q - p <= self.Z // 4 + AHEAD + UNIT and x <= p
        r = p
        while r < q and self.record(r)[0]:  # 2
            r += up(self.record(r)[0], UNIT)
        if r < q:  # 3
            self.write(r, bytes(q - r))
        self.set("published", r)
        self.set("claimed", r)
        self.count, self.largest, _, _ = self.landmark(x)  # 4
        at, self.crc = x + UNIT, 0
        self.since = at
        while at < r:
            length, kind = self.record(at)
            if kind == CHECK:
                self.set("checked", at)
                self.since, self.crc = at + UNIT, 0
            elif kind > 0:
                self.count += 1
                self.largest = max(self.largest, struct.unpack("<q", self.bytes_at(at + 8, 8))[0])
            self.crc = self.summed(at, length, kind, self.crc)
            at += up(length, UNIT)
        self.t = r
        self.set("messages", self.count)

    # --- recovery (7)

    def span(self, at):
        """Reads the records of a span. Returns how it ends ("right", "cut", "wrong"), and where."""
        crc = 0
        while True:
            record = self.record(at)
            if record is None or record[0] == 0:
                return "wrong", at
            length, kind = record
            if kind in (CHECK, CUT):
                found = self.landmark(at)
                right = found and (kind == CUT or found[3] == crc)
                return ("wrong" if not right else "right" if kind == CHECK else "cut"), at
            crc = self.summed(at, length, kind, crc)
            at += up(length, UNIT)

    def recover(self):
        begin = max(self.word("synced"), self.word("trimmed"))  # 1
        k, largest, _, _ = self.landmark(begin)
        c = at = begin + UNIT
        passed = {self.base(begin)}
        while True:
            found, end = self.span(at)
            if self.whole(self.base(at)):
                passed.add(self.base(at))
            if found == "wrong":
                break
            if found == "cut":
                at = self.landmark(end)[2]
                continue
            passed.add(self.base(end))
            k, largest, _, _ = self.landmark(end)
            c = at = end + UNIT
        reached = max(c, end)
        h = self.goes_on(c)  # 2
        self.prepare(h, self.check_record(h, k, largest, 0))
        for slot in range(self.S):  # 3
            at = CONSUMERS_AT + CONSUMER_SIZE * slot
            if not self.of_slot(at, "kept"):
                continue
            gate = self.of_slot(at, "gate")
            lost = self.proof(at)[1] if self.proof(at) else 0
            if gate > c:
                self.store_gate(at, h, k, lost)
            else:
                self.store_gate(at, gate, self.count_at(gate), lost)
        self.sync("control")
        if c < h:  # 4
            cut = self.with_crc(struct.pack("<iiqqqqi", UNIT, CUT, c, k, h, reached, 1))
            self.write(c + 4, cut[4:])
            self.write(c, cut[:4])
        for base in sorted(passed):
            if self.whole(base):
                self.sync(self.name(base))
        for base in self.strays(begin, c, h, passed):  # 5
            del self.files[self.name(base)]
            if self.on_store:
                self.on_store(self.name(base), 0)
        self.sync("")
        with self.together("control", PAGE + CONTROL["synced"][0]):  # 6
            values = {"synced": h, "checked": h, "ready": h + self.Z, "claimed": h + UNIT, "published": h + UNIT}
            for name, value in values.items():
                self.set(name, value)
            self.set("messages", k)
        self.sync("control")  # 7
        self.store_bytes("control", PAGE, self.boot())
        self.t = self.since = h + UNIT
        self.count, self.largest, self.crc = k, largest, 0
        return {"position": c, "next": h, "messages": k, "reached": reached, "reason": 1}

    def goes_on(self, c):
        """Returns h (2): behind the highest whole segment; c, if there is no whole segment at c."""
        whole = [base for base in self.segments() if self.whole(base)]
        return whole[-1] + self.Z if self.base(c) in whole else c

    def strays(self, begin, c, h, passed):
        """Returns the segments that 5 unlinks."""
        above = [b for b in self.segments() if b > begin and b != h and (b > self.base(c) or b not in passed)]
        return above + [base for base in self.segments() if base + self.Z <= self.word("trimmed")]

    # --- consumers (6)

    def pair(self, at, which):
        position, count, lost, crc = struct.unpack_from("<qqqI", self.files["control"], PAGE + at + PAIRS_AT[which])
        data = struct.pack("<qqq", position, count, lost)
        return (position, count, lost) if crc == crc32c(data) else None

    def proving(self, at):
        """Returns which pair proves the gate; -1: none does."""
        gate = self.of_slot(at, "gate")
        return next((k for k in (0, 1) if self.pair(at, k) and self.pair(at, k)[0] == gate), -1)

    def proof(self, at):
        which = self.proving(at)
        return None if which < 0 else self.pair(at, which)[1:]

    def store_gate(self, at, position, count, lost):
        to = PAGE + at + PAIRS_AT[1 if self.proving(at) == 0 else 0]
        self.store(to, "q", -1)
        with self.together("control", to + 8):
            self.store(to + 8, "q", count)
            self.store(to + 16, "q", lost)
            self.store(to + 24, "I", crc32c(struct.pack("<qqq", position, count, lost)))
        self.store(to, "q", position)
        self.set_slot(at, "gate", position)

    def find_consumer(self, name):
        for slot in range(self.S):
            at = CONSUMERS_AT + CONSUMER_SIZE * slot
            wanted = name.encode()
            found = self.of_slot(at, "name")[: max(0, self.of_slot(at, "name_length"))]
            if self.of_slot(at, "kept") and found == wanted:
                return slot, True
        free = (k for k in range(self.S) if not self.of_slot(CONSUMERS_AT + CONSUMER_SIZE * k, "kept"))
        return next(free, None), False

    def join(self, name, start="oldest"):
        """Returns the slot, where the consumer begins, the number there, and how many messages it has lost."""
        slot, known = self.find_consumer(name)
        at = CONSUMERS_AT + CONSUMER_SIZE * slot
        if not known:
            position = self.word("trimmed") if start == "oldest" else self.word("published")
            count, lost = self.count_at(position), 0
            self.take_slot(at, name.encode(), False)
            self.store_gate(at, position, count, lost)
            self.set_slot(at, "kept", 1)
        else:
            position, (count, lost) = self.of_slot(at, "gate"), self.proof(at)
            trimmed = self.word("trimmed")
            moved = position < trimmed
            if moved:
                lost += self.landmark(trimmed)[0] - count
                position, count = trimmed, self.landmark(trimmed)[0]
            self.take_slot(at, name.encode(), False)
            if moved:
                self.store_gate(at, position, count, lost)
        self.sync("control")
        return slot, position, count, lost

    def consume(self, slot, limit):
        """One poll: returns the messages, and stores the gate behind the last one."""
        at = CONSUMERS_AT + CONSUMER_SIZE * slot
        gate, found = self.of_slot(at, "gate"), []
        count, lost = self.proof(at)
        for message in self.messages(gate, count):
            if len(found) == limit:
                break
            found.append(message)
        if found:
            end = found[-1]["position"] + up(16 + found[-1]["length"], UNIT)
            self.store_gate(at, end, count + len(found), lost)
        return found

    def forget(self, slot):
        self.set_slot(CONSUMERS_AT + CONSUMER_SIZE * slot, "kept", 0)
        self.sync("control")

    # --- trim (8)

    def gates(self):
        slots = [CONSUMERS_AT + CONSUMER_SIZE * slot for slot in range(self.S)]
        return [self.of_slot(at, "gate") for at in slots if self.of_slot(at, "kept")]

    def trim(self, limit):
        """Returns how many segments it has removed. limit None: what consumers have consumed."""
        if limit is None:
            limit = min(self.gates(), default=0)
        x = self.base(min([limit, self.word("synced"), *self.gates()]))
        x = max((base for base in self.segments() if base <= x and self.whole(base)), default=0)
        if x <= self.word("trimmed"):
            return 0
        self.sync("control")
        self.set("trimmed", x)
        self.sync("control")
        below = [base for base in self.segments() if base < x]
        for base in below:
            del self.files[self.name(base)]
            if self.on_store:
                self.on_store(self.name(base), 0)
        return len(below)

    # --- what is in it

    def records(self, at, count=None):
        """Yields position, length, type and the number of messages before it, of all records from a position on."""
        while (record := self.record(at)) and record[0]:
            length, kind = record
            if kind in (CHECK, CUT):
                found = self.landmark(at)
                assert found and count in (None, found[0]), at
                count = found[0]
                if kind == CUT:
                    at = found[2]
                    continue
            yield at, length, kind, count
            count = None if count is None else count + (kind > 0)
            at += up(length, UNIT)

    def messages(self, at=None, count=None):
        at = self.word("trimmed") if at is None else at
        for position, length, kind, number in self.records(at, count):
            if kind > 0:
                body = self.bytes_at(position, length)
                time, data = struct.unpack_from("<q", body, 8)[0], body[16:]
                yield {
                    "position": position,
                    "number": number,
                    "type": kind,
                    "time": time,
                    "length": len(data),
                    "crc": crc32c(data),
                }

    def count_at(self, position):
        """How many messages lie before a position, by a walk from the first record of its segment."""
        if not self.whole(self.base(position)):
            return self.word("messages")
        at = count = self.base(position)
        if at == position:
            return self.landmark(at)[0] if self.landmark(at) else self.word("messages")
        for at, length, kind, number in self.records(self.base(position), None):
            if at >= position:
                return number
            count = number + (kind > 0)
            if at + up(length, UNIT) == position:
                return count
        return count

    def behind(self, base):
        """Where the first span of a segment begins."""
        _, _, following, _ = self.landmark(base)
        return following or base + UNIT

    def check_all(self):
        """Checks what holds while no operation is under way."""
        found = list(self.records(self.word("trimmed")))
        end = found[-1][0] + up(found[-1][1], UNIT)
        assert end == self.word("published") <= self.word("claimed"), (end, self.word("published"))
        assert found[-1][3] + (found[-1][2] > 0) == self.word("messages")
        assert [at for at, _, kind, _ in found if kind == CHECK][-1] == self.word("checked")
        at = self.behind(self.word("trimmed"))
        while True:  # each span is proven by its check, or not ended yet
            what, at = self.span(at)
            if what == "right":
                at += UNIT
            elif what == "cut":
                at = self.landmark(at)[2]
            else:
                break
        assert at == end, (at, end)

    def expected(self):
        header = {}
        for offset, kind, name in HEADER[1:]:
            value = self.get(offset, kind)
            header[name] = str(uuid.UUID(bytes=value)) if name == "journal_id" else value
        writer = {"closed" if k == "kept" else k: self.of_slot(WRITER_AT, k) for k in SLOT if k not in ("name", "gate")}
        length = writer.pop("name_length")
        writer["name"] = self.of_slot(WRITER_AT, "name")[:length].decode()
        consumers = []
        for slot in range(self.S):
            at = CONSUMERS_AT + CONSUMER_SIZE * slot
            if self.of_slot(at, "kept"):
                name = self.of_slot(at, "name")[: self.of_slot(at, "name_length")].decode()
                count, lost = self.proof(at)
                gate = self.of_slot(at, "gate")
                consumers.append({"slot": slot, "name": name, "gate": gate, "count": count, "lost": lost})
        return {
            "header": header,
            "control": {name: self.word(name) for name in CONTROL},
            "writer": writer,
            "consumers": consumers,
            "segments": self.segments(),
            "messages": list(self.messages()),
        }
