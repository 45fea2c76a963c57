# SPDX-License-Identifier: Apache-2.0
"""Tests what a table's writer does between two of its stores (spec/table.md 3, 5), from outside. Part of driven.py,
which tests the operations on rings."""

import os
import struct
import time

from harness import equal, refused
from tracer import Watcher, Word

CAPACITY, VALUE = 6, 16  # keys; bytes of a value
CONTROL, KEY, BODY = 4096, 24, 64
OPTIONS = {"key": "text", "key_bytes": 8, "value_bytes": VALUE, "capacity": CAPACITY, "checked": False}
OLD, NEW = "11" * VALUE, "22" * VALUE
ABSENT, TOMBSTONE = None, 2**32 - 1


class World:
    """A table with the keys a, b and c in the cells 0, 1 and 2, and the watched writer, which holds the slot."""

    def __init__(self, run, language):
        self.run, self.name = run, run.name("driven-table")
        self.victim, self.reader = run.fresh(language), run.peer("python", 2)
        self.reader.call("create", table=self.name, name=self.name, **OPTIONS)
        for key in "abc":
            self.reader.call("put", table=self.name, key=key, value=OLD)
        self.victim.call("open", table=self.name, name=self.name)
        self.victim.call("writer", table=self.name, writer=self.name)
        path = run.folder / f"{self.name}.table"
        self.file, self.watcher = open(path, "rb"), Watcher(self.victim.pid, run.folder, path)
        header = self.file.read(4096)
        self.entries, self.stride = (struct.unpack_from("<q", header, at)[0] for at in (104, 96))
        self.index, self.cells = (struct.unpack_from("<q", header, at)[0] for at in (120, 136))

    def value_at(self, word):
        return int.from_bytes(os.pread(self.file.fileno(), word.size, word.offset), "little", signed=True)

    def control(self, name):
        at = {"stamp": 128, "changed": 136, "size": 144, "intent": 256, "intent_size": 264, "top": 272, "fresh": 276}
        return Word(name, CONTROL + at[name], 4 if name in ("top", "fresh") else 8)

    def cell(self, number, name, body=0):
        at = {"version": 0, "next": 16, "key": KEY, "seq": BODY + 64 * body, "other seq": BODY + 64 * (1 - body)}
        at["value"] = BODY + 64 * body + 16
        return Word(name, self.cells + number * self.stride + at[name], 4 if name == "next" else 8)

    def entry(self, number):
        """Returns the word of the entry that leads to this cell."""
        words = [Word("entry", self.index + 8 * i) for i in range(self.entries)]
        return next(word for word in words if self.value_at(word) & 0xFFFFFFFF == number + 1)

    def stores(self, change):
        """Returns the stores of a change in their order: (word, value)."""
        number = 3 if change == "insert" else 1
        body, stamp = 1 if change == "insert" else 0, 4
        version, size = stamp << 1 | body, 4 if change == "insert" else 3
        write = [
            (self.control("stamp"), stamp),
            (self.cell(number, "seq", body), 0),
            *([(self.cell(number, "key"), ord("d"))] if change == "insert" else []),
            *([(self.cell(number, "value", body), int(NEW[:16], 16))] if change != "remove" else []),
            (self.cell(number, "seq", body), version),
            (self.cell(number, "version"), version),
        ]
        changed = (self.control("changed"), stamp)
        if change == "put":
            return [*write, changed]
        intent = [(self.control("intent_size"), size), (self.control("intent"), None)]
        end = [(self.control("size"), 4 if change == "insert" else 2), (self.control("intent"), 0)]
        if change == "insert":
            return [*intent, (self.control("fresh"), 4), *write, changed, *end]
        freed = [(self.cell(number, "other seq", body), 0), (self.cell(number, "next"), 0), (self.control("top"), 2)]
        tombstone = (self.entry(number), TOMBSTONE)
        return [*intent, *write, tombstone, *freed, changed, *end]

    def watch(self, change, words, hit):
        """Lets the writer make the change. Returns whether it was killed."""
        key = {"put": "b", "insert": "d", "remove": "b"}[change]
        request = {"writer": self.name, "key": key} | ({} if change == "remove" else {"value": NEW})
        op = "remove" if change == "remove" else "put"
        return self.watcher.watch(lambda: self.victim.send(op, **request), words, hit)

    def found(self, peer, key):
        return peer.call("get", table=self.name, key=key)["value"]

    def end(self):
        self.file.close()
        self.reader.call("close", table=self.name)


def same(word, other):
    return word.offset == other.offset


def killed_after_each(run, language, change):
    """Kills the writer after each store: the stores before it were made, and those behind it were not. A reader finds
    the old or the new value at once; the next writer finishes, changes nothing that the reader sees, and loses no
    cell. In Java, whose start takes long, a third of the stores: each day another one."""
    world = World(run, language)
    points = range(len(world.stores(change)))
    world.end()
    for i in points[time.localtime().tm_yday % 3 :: 3] if language == "java" else points:
        killed_after(run, language, change, i)


def killed_after(run, language, change, i):
    world = World(run, language)
    stores = world.stores(change)
    before = [world.value_at(word) for word, _ in stores]
    what = f"{change}, killed after {stores[i][0].name} (store {i})"
    left = sum(same(stores[i][0], word) for word, _ in stores[: i + 1])

    def hit(_):
        nonlocal left
        left -= 1
        return left == 0

    equal(what, world.watch(change, [stores[i][0]], hit), True)
    world.run.forget(world.victim)
    for n, (word, _) in enumerate(stores):
        made = [value for other, value in stores[: i + 1] if same(word, other)]
        value = world.value_at(word)
        if made and made[-1] is None:  # an intent
            equal(f"{what}: an intent", value != 0, True)
        else:
            equal(f"{what}: {word.name} (store {n})", value, made[-1] if made else before[n])
    done = i >= next(n for n, (word, _) in enumerate(stores) if word.name == "version")
    old, new = {"put": (OLD, NEW), "insert": (ABSENT, NEW), "remove": (OLD, ABSENT)}[change]
    key = "d" if change == "insert" else "b"
    heir = run.peer("python", 3)
    heir.call("open", table=world.name, name=world.name)
    equal(f"{what}: a reader", world.found(world.reader, key), new if done else old)
    heir.call("writer", table=world.name, writer=world.name, name="heir")
    equal(f"{what}: after the next writer's take", world.found(world.reader, key), new if done else old)
    live = 3 + (done if change == "insert" else -done if change == "remove" else 0)
    equal(f"{what}: size", world.reader.call("size", table=world.name)["size"], live)
    for n in range(CAPACITY - live):
        heir.call("put", writer=world.name, key=f"n{n}", value=OLD)
    refused("no-space", heir, "put", writer=world.name, key="more", value=OLD)
    equal(f"{what}: keys", world.reader.call("size", table=world.name)["size"], CAPACITY)
    heir.call("close", table=world.name)
    world.end()


def table_put(run, language):
    """The stores of a put (3) in their order, and a kill after each."""
    killed_after_each(run, language, "put")


def table_insert(run, language):
    """The stores of an insert (5) in their order, and a kill after each."""
    killed_after_each(run, language, "insert")


def table_remove(run, language):
    """The stores of a remove (5) in their order, and a kill after each."""
    killed_after_each(run, language, "remove")


TESTS = (table_put, table_insert, table_remove)
