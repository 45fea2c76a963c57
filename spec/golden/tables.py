# SPDX-License-Identifier: Apache-2.0
"""Does the steps of a table (spec/table.md) literally on a bytearray, in one thread, as simulation.py does those of a
channel. Section numbers in comments are those of table.md. Stores are made one by one in the order of the steps, and
`on_store` is called after each, and
`sync` where a step writes the file, or one page of it, to the disk."""

import struct
import uuid

from simulation import crc32c, up

MASK = (1 << 64) - 1
KEY_TYPES = {"bytes": 1, "text": 2, "integer": 3}
HEADER = (  # 2.1: offset, struct format, name
    (0, "8s", "magic"),
    (8, "H", "major"),
    (10, "H", "minor"),
    (12, "i", "header_length"),
    (16, "Q", "required_features"),
    (24, "Q", "optional_features"),
    (32, "q", "file_length"),
    (40, "16s", "table_id"),
    (56, "q", "created_at"),
    (64, "i", "key_type"),
    (68, "i", "key_bytes"),
    (72, "i", "value_bytes"),
    (76, "i", "checked"),
    (80, "q", "capacity"),
    (88, "q", "cells"),
    (96, "q", "cell_stride"),
    (104, "q", "entries"),
    (112, "q", "control_offset"),
    (120, "q", "index_offset"),
    (128, "q", "index_stride"),
    (136, "q", "cells_offset"),
    (144, "q", "schema_offset"),
    (152, "q", "schema_length"),
    (160, "i", "schema_id"),
    (164, "i", "schema_version"),
    (168, "i", "value_template"),
    (4092, "I", "crc"),
)
CONTROL = {  # 2.2: offset, struct format
    "successor": (40, "i"),
    "data_sequence": (64, "I"),
    "data_asleep": (68, "I"),
    "stamp": (128, "q"),
    "changed": (136, "q"),
    "size": (144, "q"),
    "generation": (192, "q"),
    "intent": (256, "Q"),
    "intent_size": (264, "q"),
    "top": (272, "I"),
    "fresh": (276, "I"),
    "rebuild": (280, "q"),
    "filled": (288, "q"),
    "filled_other": (296, "q"),
    "clean": (320, "i"),
    "damaged": (328, "q"),
}
SLOT = {  # channel.md 4.4
    "epoch": (0, "q"),
    "closed": (16, "i"),
    "name_length": (20, "i"),
    "name": (24, "64s"),
    "pid": (88, "i"),
    "attached_at": (96, "q"),
    "wakes": (104, "q"),
}
CELL = {"version": (0, "q"), "sequence": (8, "I"), "asleep": (12, "I"), "next": (16, "I"), "key_length": (20, "i")}
BODY = {"seq": (0, "q"), "length": (8, "i"), "crc": (12, "I")}
KEY, VALUE, SLOT_AT, PIECE, TOMBSTONE, REMOVED = 24, 16, 384, 1 << 30, (1 << 32) - 1, -1
STEPS, JUMP = 16, 1 << 44


def xxhash64(data):
    """https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, XXH64 with seed 0."""
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )

    def rotate(n, by):
        return ((n << by) | (n >> (64 - by))) & MASK

    def around(total, lane):
        return rotate((total + lane * p2) & MASK, 31) * p1 & MASK

    at, h = 0, p5
    if len(data) >= 32:
        sums = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        while len(data) - at >= 32:
            sums = [around(s, lane) for s, lane in zip(sums, struct.unpack_from("<4Q", data, at), strict=True)]
            at += 32
        h = sum(rotate(s, by) for s, by in zip(sums, (1, 7, 12, 18), strict=True)) & MASK
        for s in sums:
            h = ((h ^ around(0, s)) * p1 + p4) & MASK
    h = (h + len(data)) & MASK
    while len(data) - at >= 8:
        h = (rotate(h ^ around(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & MASK
        at += 8
    if len(data) - at >= 4:
        h = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * p1 & MASK, 23) * p2 + p3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * p5 & MASK, 11) * p1 & MASK
    h = (h ^ h >> 33) * p2 & MASK
    h = (h ^ h >> 29) * p3 & MASK
    return h ^ h >> 32


class Full(Exception):
    """The table has its keys."""


class Table:
    def __init__(self, options, inject):
        """Writes all bytes of a new file that are not zero."""
        o = {"schema": "", "schema_id": 0, "schema_version": 0, "value_template": 0, "checked": False} | options
        schema = o["schema"].encode()
        self.inject, self.on_store, self.kind, self.checked = inject, None, o["key"], o["checked"]
        self.K = o["capacity"]
        self.key_bytes = o.get("key_bytes", 8 if self.kind == "integer" else 32)
        self.value_bytes = o["value_bytes"]
        self.B, self.V = up(KEY + self.key_bytes, 64), up(VALUE + self.value_bytes, 64)
        self.stride = self.B + 2 * self.V
        self.C, usable = 0, 0
        while usable < self.K:
            usable += self.usable(self.C)
            self.C += 1
        self.N = max(16, up(self.K + self.K // 2, 8))
        self.index_stride = up(8 * self.N, 4096)
        self.cells = 8192 + 2 * self.index_stride
        schema_at = up(self.cells + self.C * self.stride, 4096)
        length = up(schema_at + len(schema), 4096)
        self.b = bytearray(length)
        header = {
            "magic": b"FLYTABL\0",
            "major": 1,
            "header_length": 4096,
            "file_length": length,
            "table_id": uuid.UUID(inject["channel_id"]).bytes,
            "created_at": inject["created_at"],
            "key_type": KEY_TYPES[self.kind],
            "key_bytes": self.key_bytes,
            "value_bytes": self.value_bytes,
            "checked": int(self.checked),
            "capacity": self.K,
            "cells": self.C,
            "cell_stride": self.stride,
            "entries": self.N,
            "control_offset": 4096,
            "index_offset": 8192,
            "index_stride": self.index_stride,
            "cells_offset": self.cells,
            "schema_offset": schema_at,
            "schema_length": len(schema),
        } | {name: o[name] for name in ("schema_id", "schema_version", "value_template")}
        for offset, kind, name in HEADER[:-1]:
            if name in header:
                struct.pack_into("<" + kind, self.b, offset, header[name])
        struct.pack_into("<I", self.b, 4092, crc32c(self.b[:4092]))
        self.b[4096:4112] = self.boot()
        self.b[schema_at : schema_at + len(schema)] = schema

    @classmethod
    def of_file(cls, data, inject=None):
        """Returns the table that a file holds; `inject`: of the next owner."""
        field = {name: struct.unpack_from("<" + kind, data, at)[0] for at, kind, name in HEADER}
        kinds = {number: kind for kind, number in KEY_TYPES.items()}
        t = cls.__new__(cls)
        t.inject, t.on_store, t.kind, t.checked = inject, None, kinds[field["key_type"]], field["checked"] == 1
        t.K, t.key_bytes, t.value_bytes = field["capacity"], field["key_bytes"], field["value_bytes"]
        t.B, t.V = up(KEY + t.key_bytes, 64), up(VALUE + t.value_bytes, 64)
        t.stride, t.C, t.N = field["cell_stride"], field["cells"], field["entries"]
        t.index_stride, t.cells, t.b = field["index_stride"], field["cells_offset"], bytearray(data)
        return t

    # --- words

    def boot(self):
        return uuid.UUID(self.inject["boot_id"]).bytes

    def usable(self, cell):
        return cell * self.stride // PIECE == (cell * self.stride + self.stride - 1) // PIECE

    def get(self, at, kind):
        return struct.unpack_from("<" + kind, self.b, at)[0]

    def store(self, at, kind, value):
        struct.pack_into("<" + kind, self.b, at, value)
        if self.on_store:
            self.on_store(at)

    def sync(self, at=0, length=None):
        """Writes bytes of the file to the disk (9)."""

    def store_bytes(self, at, data):
        self.b[at : at + len(data)] = data
        if self.on_store:
            self.on_store(at)

    def word(self, name):
        at, kind = CONTROL[name]
        return self.get(4096 + at, kind)

    def set(self, name, value):
        at, kind = CONTROL[name]
        self.store(4096 + at, kind, value)

    def slot(self, name):
        at, kind = SLOT[name]
        return self.get(4096 + SLOT_AT + at, kind)

    def set_slot(self, name, value):
        at, kind = SLOT[name]
        self.store(4096 + SLOT_AT + at, kind, value)

    def cell(self, c):
        return self.cells + c * self.stride

    def of_cell(self, c, name):
        at, kind = CELL[name]
        return self.get(self.cell(c) + at, kind)

    def set_cell(self, c, name, value):
        at, kind = CELL[name]
        self.store(self.cell(c) + at, kind, value)

    def body(self, c, b):
        return self.cell(c) + self.B + (b & 1) * self.V

    def of_body(self, c, b, name):
        at, kind = BODY[name]
        return self.get(self.body(c, b) + at, kind)

    def set_body(self, c, b, name, value):
        at, kind = BODY[name]
        self.store(self.body(c, b) + at, kind, value)

    def entry_at(self, copy, i):
        return 8192 + (copy & 1) * self.index_stride + 8 * i

    def entry(self, copy, i):
        return self.get(self.entry_at(copy, i), "Q")

    def filled(self, copy):
        return "filled_other" if copy & 1 else "filled"

    # --- keys

    def to_bytes(self, key):
        """Returns a key of the JSON file as it lies in the cell."""
        if self.kind == "integer":
            return struct.pack("<q", key)
        return key.encode() if self.kind == "text" else bytes.fromhex(key)

    def from_bytes(self, key):
        if self.kind == "integer":
            return struct.unpack("<q", key)[0]
        return key.decode() if self.kind == "text" else key.hex()

    def key(self, c):
        at = self.cell(c) + KEY
        return bytes(self.b[at : at + self.of_cell(c, "key_length")])

    def value(self, c):
        v = self.of_cell(c, "version")
        at = self.body(c, v) + VALUE
        return bytes(self.b[at : at + self.of_body(c, v, "length")])

    def live(self, c):
        v = self.of_cell(c, "version")
        return v > 0 and self.of_body(c, v, "length") >= 0

    # --- 6

    def search(self, entry):
        """Yields the places of a search."""
        home = (entry >> 32) * self.N >> 32
        for i in range(self.N):
            yield (home + i) % self.N

    def new_entry(self, key, c):
        return xxhash64(key) >> 32 << 32 | (c + 1)

    def leads(self, entry):
        """Whether an entry leads to a cell."""
        return entry not in (0, TOMBSTONE)

    def find(self, key):
        copy, wanted = self.word("generation"), self.new_entry(key, 0)
        for i in self.search(wanted):
            entry = self.entry(copy, i)
            if entry == 0:
                return None
            if not self.leads(entry) or entry >> 32 != wanted >> 32:
                continue
            c = (entry & TOMBSTONE) - 1
            if self.live(c) and self.key(c) == key:
                return c
        return None

    # --- 3

    def crc(self, c, b):
        length = self.of_body(c, b, "length")
        at = self.body(c, b) + VALUE
        return crc32c(
            struct.pack("<i", self.of_cell(c, "key_length"))
            + self.key(c)
            + struct.pack("<qi", self.crc_seq, length)
            + bytes(self.b[at : at + max(0, length)])
        )

    def write(self, c, key, value):
        """Does write 1 to 5. key: of an insert, else None; value None: removed."""
        stamp = self.word("stamp") + 1
        self.set("stamp", stamp)
        b = 1 - (self.of_cell(c, "version") & 1)
        v = stamp << 1 | b
        self.set_body(c, b, "seq", 0)
        if key is not None:
            self.set_cell(c, "key_length", len(key))
            self.store_bytes(self.cell(c) + KEY, key.ljust(up(len(key), 8), b"\0"))
        if value:
            self.store_bytes(self.body(c, b) + VALUE, value.ljust(up(len(value), 8), b"\0"))
        self.set_body(c, b, "length", REMOVED if value is None else len(value))
        self.crc_seq = v
        self.set_body(c, b, "crc", self.crc(c, b) if self.checked else 0)
        self.set_body(c, b, "seq", v)
        self.set_cell(c, "version", v)
        return v

    def tell(self):
        """Does write 6, without the wake."""
        self.set("changed", self.word("stamp"))

    def wake(self, c):
        """Does the wake of write 6; of an insert and a remove, behind their step 5 (8)."""
        at = self.cell(c)
        for sequence, asleep in ((at + 8, at + 12), (4096 + 64, 4096 + 68)):
            if self.get(asleep, "I") & 1:
                self.store(asleep, "I", self.get(asleep, "I") & ~1)
                self.store(sequence, "I", self.get(sequence, "I") + 1)

    # --- 4, 5

    def put(self, key, value, version=None):
        key = self.to_bytes(key)
        assert len(key) <= self.key_bytes and len(value) <= self.value_bytes
        c = self.find(key)
        if version is not None and version != (0 if c is None else self.of_cell(c, "version")):
            return 0
        if c is None:
            v = self.insert(key, value)
        else:
            v = self.write(c, None, value)
            self.tell()
            self.wake(c)
        self.rebuild()
        return v

    def remove(self, key):
        c = self.find(self.to_bytes(key))
        if c is None:
            return False
        self.remove_cell(c)
        self.rebuild()
        return True

    def clear(self):
        keys = [self.key(c) for c in range(self.word("fresh")) if self.usable(c) and self.live(c)]
        for key in keys:
            self.remove_cell(self.find(key))
            self.rebuild()
        return len(keys)

    def moving(self):
        return self.word("rebuild") > self.N

    def copies(self):
        g = self.word("generation")
        return [g, g ^ 1] if self.moving() else [g]

    def next_usable(self, c):
        while c < self.C and not self.usable(c):
            c += 1
        return c

    def insert(self, key, value):
        top = self.word("top")
        c = top - 1 if top else self.word("fresh")
        if c == self.C:
            raise Full
        entry, size = self.new_entry(key, c), self.word("size") + 1
        self.set("intent_size", size)
        self.set("intent", entry)
        if top:
            self.set("top", self.of_cell(c, "next"))
        else:
            self.set("fresh", self.next_usable(c + 1))
        for copy in self.copies():
            i = next(i for i in self.search(entry) if self.entry(copy, i) in (0, TOMBSTONE))
            self.enter(copy, i, entry)
        v = self.write(c, key, value)
        self.tell()
        self.set("size", size)
        self.set("intent", 0)
        self.wake(c)
        return v

    def enter(self, copy, i, entry):
        if self.entry(copy, i) == 0:
            self.set(self.filled(copy), self.word(self.filled(copy)) + 1)
        self.store(self.entry_at(copy, i), "Q", entry)

    def bury(self, entry):
        for copy in self.copies():
            for i in self.search(entry):
                there = self.entry(copy, i)
                if there == 0:
                    break
                if there == entry:
                    self.store(self.entry_at(copy, i), "Q", TOMBSTONE)

    def push(self, c):
        """Does remove 4."""
        self.set_body(c, 1 - (self.of_cell(c, "version") & 1), "seq", 0)
        self.set_cell(c, "next", self.word("top"))
        self.set("top", c + 1)

    def remove_cell(self, c):
        entry, size = self.new_entry(self.key(c), c), self.word("size")
        self.set("intent_size", size)
        self.set("intent", entry)
        self.write(c, None, None)
        self.bury(entry)
        self.push(c)
        self.tell()
        self.set("size", size - 1)
        self.set("intent", 0)
        self.wake(c)

    # --- 5.1

    def take(self, name=None):
        """Takes the slot, for a writer with this name, or for one change."""
        if self.b[4096:4112] != self.boot():
            if self.word("clean") == 1:
                self.store_bytes(4096, self.boot())
            else:
                self.recover()
        if self.word("clean"):
            self.set("clean", 2)
            self.sync(4096, 4096)
            self.set("clean", 0)
        epoch = self.slot("epoch") + 1
        if name is None:
            self.set_slot("closed", 0)
            self.set_slot("wakes", epoch)
            self.set_slot("epoch", epoch)
        else:
            self.take_slot(name.encode(), epoch)
        told = self.finish()
        if told or name is not None:
            self.store(4096 + 64, "I", self.word("data_sequence") + 1)
        return epoch

    def take_slot(self, name, epoch):
        n = self.slot("name_length")
        renamed = n != len(name) or self.slot("name")[: max(0, n)] != name
        if renamed:
            self.set_slot("name_length", -1)
        self.set_slot("closed", 0)
        self.set_slot("pid", self.inject["pid"])
        self.set_slot("attached_at", self.inject["now"])
        if renamed:
            self.set_slot("name", name)
        self.set_slot("wakes", epoch)
        self.set_slot("epoch", epoch)
        if renamed:
            self.set_slot("name_length", len(name))

    def finish(self):
        entry = self.word("intent")
        if entry:
            c, size = (entry & TOMBSTONE) - 1, self.word("intent_size")
            if not self.live(c):
                self.bury(entry)
                if self.word("top") != c + 1 and c < self.word("fresh"):
                    self.push(c)
                size -= 1
            self.set("size", size)
        told = self.word("changed") != self.word("stamp")
        if told:
            self.set("changed", self.word("stamp"))
        if entry:
            self.set("intent", 0)
        return told

    def close(self):
        self.set_slot("closed", 1)

    def close_synced(self):
        self.take()
        self.sync()
        self.set("clean", 1)
        self.sync(4096, 4096)

    # --- 7

    def rebuild(self):
        for _ in range(STEPS):
            g, r = self.word("generation"), self.word("rebuild")
            other = g ^ 1
            if r == 0:
                if self.word(self.filled(g)) <= 3 * self.N // 4:
                    return
                self.set(self.filled(other), 0)
                self.set("rebuild", 1)
            elif r <= self.N:
                self.store(self.entry_at(other, r - 1), "Q", 0)
                self.set("rebuild", r + 1)
            elif r <= 2 * self.N:
                entry = self.entry(g, r - self.N - 1)
                if self.leads(entry):
                    self.move(entry, other)
                self.set("rebuild", r + 1)
            else:
                self.set("rebuild", 0)
                self.set("generation", g + 1)
                return

    def move(self, entry, copy):
        for i in self.search(entry):
            there = self.entry(copy, i)
            if there == entry:
                return
            if there == 0:
                return self.enter(copy, i, entry)

    # --- 9

    def good(self, c, b):
        """Returns the seq of a body that is whole, else 0."""
        seq, length, key_length = self.of_body(c, b, "seq"), self.of_body(c, b, "length"), self.of_cell(c, "key_length")
        if seq <= 0 or seq & 1 != b or not REMOVED <= length <= self.value_bytes:
            return 0
        if not 0 <= key_length <= self.key_bytes:
            return 0
        self.crc_seq = seq
        return seq if self.crc(c, b) == self.of_body(c, b, "crc") else 0

    def recover(self):
        assert self.checked
        for copy in (0, 1):
            at = self.entry_at(copy, 0)
            self.store_bytes(at, bytes(8 * self.N))
            self.set(self.filled(copy), 0)
        self.set("generation", 0)
        self.set("rebuild", 0)
        self.set("size", 0)
        most, damaged = self.word("stamp"), 0
        if not 0 <= most <= (1 << 62) - 2:
            most = 0
        for c in filter(self.usable, range(self.C)):
            v = self.of_cell(c, "version")
            if v == 0 and not self.of_body(c, 0, "seq") and not self.of_body(c, 1, "seq"):
                continue
            good = [self.good(c, 0), self.good(c, 1)]
            most = max(most, good[0] >> 1, good[1] >> 1)
            best = 0 if v == 0 else v if good[v & 1] == v else max(good)
            damaged += v != 0 and best == 0
            if best == 0:
                self.drop(c)
                continue
            self.set_cell(c, "version", best)
            if self.live(c):
                self.add(c)
        self.set("damaged", damaged)
        self.make_stack()
        self.set("stamp", most + JUMP)
        self.set("changed", most + JUMP)
        self.set("intent", 0)
        self.set("intent_size", 0)
        self.sync(4096, 4096)
        self.store_bytes(4096, self.boot())

    def drop(self, c):
        self.set_cell(c, "version", 0)
        self.set_body(c, 0, "seq", 0)
        self.set_body(c, 1, "seq", 0)

    def add(self, c):
        key = self.key(c)
        entry = self.new_entry(key, c)
        for i in self.search(entry):
            there = self.entry(0, i)
            if there == 0:
                self.store(self.entry_at(0, i), "Q", entry)
                self.set("filled", self.word("filled") + 1)
                self.set("size", self.word("size") + 1)
                return
            other = (there & TOMBSTONE) - 1
            if there >> 32 != entry >> 32 or self.key(other) != key:
                continue
            if self.of_cell(other, "version") > self.of_cell(c, "version"):
                self.drop(c)
            else:
                self.drop(other)
                self.store(self.entry_at(0, i), "Q", entry)
            return

    def make_stack(self):
        used = [c for c in range(self.C) if self.of_cell(c, "version")]
        fresh = self.next_usable(max(used) + 1 if used else 0)
        self.set("fresh", fresh)
        self.set("top", 0)
        for c in reversed(range(fresh)):
            if self.usable(c) and not self.live(c):
                self.push(c)

    # --- what is in it

    def keys(self):
        """Returns every key with its value and version, by the cells and by the index."""
        found = []
        for c in range(min(self.word("fresh"), self.C)):
            if self.usable(c) and self.live(c):
                assert self.find(self.key(c)) == c, (c, self.key(c))
                found.append((self.key(c), self.value(c), self.of_cell(c, "version")))
        return [
            {"key": self.from_bytes(key), "value": value.hex(), "version": version}
            for key, value, version in sorted(found)
        ]

    def check(self):
        """Checks what holds between two changes."""
        g, live = self.word("generation"), [c for c in range(self.C) if self.live(c)]
        entries = sorted((e & TOMBSTONE) - 1 for i in range(self.N) if self.leads(e := self.entry(g, i)))
        assert entries == live, (entries, live)
        free, top = [], self.word("top")
        while top:
            free.append(top - 1)
            top = self.of_cell(top - 1, "next")
        below = filter(self.usable, range(self.word("fresh")))
        assert sorted(free) == [c for c in below if c not in live], (free, live)
        assert self.word("size") == len(live) and self.word("intent") == 0
        assert self.word("changed") == self.word("stamp")
        assert self.word(self.filled(g)) >= sum(self.entry(g, i) != 0 for i in range(self.N))

    def expected(self):
        header = {}
        for offset, kind, name in HEADER[1:]:
            value = self.get(offset, kind)
            header[name] = str(uuid.UUID(bytes=value)) if name == "table_id" else value
        name = self.slot("name")[: self.slot("name_length")]
        return {
            "header": header,
            "control": {name: self.word(name) for name in CONTROL},
            "writer": {k: self.slot(k) for k in ("epoch", "closed", "pid", "attached_at", "wakes")}
            | {"name": name.decode()},
            "keys": self.keys(),
        }
