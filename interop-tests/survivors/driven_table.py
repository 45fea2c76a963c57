# SPDX-License-Identifier: Apache-2.0
"""Tests what a table's writer does between two of its stores (spec/table.md 3, 5), from outside. Part of driven.py,
which tests the operations on rings."""

import struct

from harness import equal, refused
from tracer import Watcher, Word

CAPACITY, VALUE = 6, 16  # keys; bytes of a value
CONTROL, KEY, BODY = 4096, 24, 64
OPTIONS = {"key": "text", "key_bytes": 8, "value_bytes": VALUE, "capacity": CAPACITY, "checked": False}
OLD, NEW = "11" * VALUE, "22" * VALUE
ABSENT = None


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
        self.file.seek(word.offset)
        return int.from_bytes(self.file.read(word.size), "little", signed=True)

    def control(self, name):
        at = {"stamp": 128, "changed": 136, "size": 144, "intent": 256, "intent_size": 264, "top": 272, "fresh": 276}
        return Word(name, CONTROL + at[name], 4 if name in ("top", "fresh") else 8)

    def cell(self, number, name, body=0):
        at = {"version": 0, "next": 16, "key": KEY, "seq": BODY + 64 * body, "other seq": BODY + 64 * (1 - body)}
        at["value"] = BODY + 64 * body + 16
        return Word(name, self.cells + number * self.stride + at[name], 4 if name == "next" else 8)

    def entry(self, number):
        """Returns the word of the entry that leads to this cell."""
        for i in range(self.entries):
            word = Word("entry", self.index + 8 * i)
            if self.value_at(word) & 0xFFFFFFFF == number + 1:
                return word
        return None

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
        tombstone = (self.entry(number), 2**32 - 1)
        return [*intent, *write, tombstone, changed, *freed, *end]

    def watch(self, change, words, hit):
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


def in_order(run, language, change):
    """Compares each two neighbours of the stores."""
    count = len(World(run, language).stores(change))
    for i in range(count - 1):
        world, seen = World(run, language), []
        stores = world.stores(change)
        words = [stores[i][0]] + ([] if same(stores[i][0], stores[i + 1][0]) else [stores[i + 1][0]])

        def hit(word):
            seen.append((word.name, world.value_at(word)))
            return False

        world.watch(change, words, hit)
        world.victim.receive()
        expected = [(word.name, value) for word, value in stores if any(same(word, one) for one in words)]
        found = [(name, None if name == "intent" and value else value) for name, value in seen]
        equal(f"stores of a {change}, in order", found, expected)
        world.end()


def killed_after_each(run, language, change):
    """Kills the writer after each store. A reader finds the old or the new value at once; the next writer finishes,
    changes nothing that the reader sees, and no cell is lost."""
    count = len(World(run, language).stores(change))
    for i in range(count):
        world = World(run, language)
        stores = world.stores(change)
        word, hits = stores[i][0], 0
        turn = sum(same(word, one) for one, _ in stores[:i])

        def hit(_):
            nonlocal hits
            hits += 1
            return hits == turn + 1

        equal(f"killed after store {i}, {word.name}", world.watch(change, [word], hit), True)
        world.run.forget(world.victim)
        done = i >= next(n for n, (one, _) in enumerate(stores) if one.name == "version")
        old, new = {"put": (OLD, NEW), "insert": (ABSENT, NEW), "remove": (OLD, ABSENT)}[change]
        key = "d" if change == "insert" else "b"
        what = f"{change}, killed after {word.name} ({i})"
        heir = run.peer("python", 3)
        heir.call("open", table=world.name, name=world.name)
        equal(f"{what}: a reader", world.found(world.reader, key), new if done else old)
        heir.call("writer", table=world.name, writer=world.name, name="heir")
        equal(f"{what}: after the next writer's take", world.found(world.reader, key), new if done else old)
        live = {"a", "b", "c"} | ({key} if change == "insert" and done else set())
        live -= {key} if change == "remove" and done else set()
        equal(f"{what}: size", world.reader.call("size", table=world.name)["size"], len(live))
        for n in range(CAPACITY - len(live)):
            heir.call("put", writer=world.name, key=f"n{n}", value=OLD)
        refused("no-space", heir, "put", writer=world.name, key="more", value=OLD)
        equal(f"{what}: keys", world.reader.call("size", table=world.name)["size"], CAPACITY)
        heir.call("close", table=world.name)
        world.end()


def table_put(run, language):
    """The stores of a put in their order, and a kill after each."""
    in_order(run, language, "put")
    killed_after_each(run, language, "put")


def table_insert(run, language):
    """The stores of an insert in their order, and a kill after each."""
    in_order(run, language, "insert")
    killed_after_each(run, language, "insert")


def table_remove(run, language):
    """The stores of a remove in their order, and a kill after each."""
    in_order(run, language, "remove")
    killed_after_each(run, language, "remove")


TESTS = (table_put, table_insert, table_remove)
