# SPDX-License-Identifier: Apache-2.0
"""The requests of survivors.py in a journal (spec/journal.md). What an append returned is there once and in order; a
full disk is *no space*, and changes nothing; a sync that fails ends the writer with *io*; the next writer, readers and
consumers go on."""

import errno
import fcntl
import os
import struct

from harness import equal, true
from tracer import OFD_GETLK
from worlds import SMALL, Scenario, World, new, nothing, same

SEGMENT = 65536
OPTIONS = {"segment_size": SEGMENT, "consumers": 3}
CONTROL, SLOTS = 4096, 4096 + 1024
FOREIGN = "00112233-4455-4677-8899-aabbccddeeff"  # the id of another boot
LARGE = "00" * 8000  # eight of these nearly fill a segment


def number(message):
    return SMALL.unpack_from(bytes.fromhex(message["data"]))[0]


class JournalWorld(World):
    """A journal in which the observer has a consumer, and appends while the victim has no writer."""

    KIND, BESIDE, EXPECTED = "journal", False, {"consumer 0"}
    CLOSES = (None, "io", "closed", "bad-request")  # a writer that cannot sync says so, and has closed

    def make(self):
        self.path = self.run.folder / f"{self.name}.journal" / "control"
        self.create()
        self.observer.call("consumer", journal="o", consumer="keeper", name="keeper")
        self.written, self.before, self.ended = [], [], False

    def create(self, **more):
        self.observer.call("create", journal="o", name=self.name, **OPTIONS | more)

    def __exit__(self, *_):
        self.observer.call("close", journal="o")

    def locks(self):
        """Returns the names of the locked bytes."""
        found = set()
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return found
        try:
            bytes_ = {"control": CONTROL, "helper": CONTROL + 33, "writer": CONTROL + 768}
            bytes_ |= {f"consumer {k}": SLOTS + 256 * k for k in range(OPTIONS["consumers"])}
            for name, byte in bytes_.items():
                asked = struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
                answer = fcntl.fcntl(fd, OFD_GETLK, asked)
                if struct.unpack("hhxxxxqqixxxx", answer)[0] != fcntl.F_UNLCK:
                    found.add(name)
        finally:
            os.close(fd)
        return found

    def open(self):
        self.victim.call("open", journal="v", name=self.name)

    def filled(self, messages):
        """Messages of the observer: the journal's first ones."""
        for _ in range(messages):
            data = self.data()
            self.observer.call("push", journal="o", data=data + LARGE)
            self.written.append(self.sequence)

    def writer(self):
        self.open()
        self.victim.call("writer", journal="v", writer="w", name="pub", helper=False)

    def appended(self, messages=3):
        self.writer()
        for _ in range(messages):
            data = self.data()
            self.victim.call("append", writer="w", data=data + LARGE, type=1)
            self.written.append(self.sequence)

    def full(self):
        """The next message goes into another segment."""
        self.appended(8)

    def each(self):
        self.observer.call("change", journal="o", sync="each")
        self.appended(2)

    def reader(self, **options):
        self.filled(20)
        self.open()
        self.victim.call("reader", journal="v", reader="r", **options)

    def consumer(self):
        self.filled(20)
        self.open()
        self.victim.call("consumer", journal="v", consumer="c", name="reader")
        self.before = [number(m) for m in self.victim.call("poll", consumer="c", limit=3)["messages"]]

    def away(self):
        self.consumer()
        self.victim.call("close", consumer="c")

    def other_boot(self):
        """What was written in another boot, with an end that no check proves."""
        self.observer.call("close", journal="o")
        self.name = self.run.name("survivors")
        self.path = self.run.folder / f"{self.name}.journal" / "control"
        self.create(inject={"boot_id": FOREIGN})
        self.filled(20)
        self.observer.call("writer", journal="o", writer="x", helper=False)
        self.observer.call("close", writer="x")  # it syncs
        self.observer.call("consumer", journal="o", consumer="keeper", name="keeper")
        self.observer.call("close", journal="o")
        self.observer.call("open", journal="o", name=self.name)
        self.EXPECTED = set()  # its consumer is away until the journal is recovered
        self.open()

    def note(self, scenario, sequence, code, answer):
        failing, self.failing = getattr(self, "failing", None), None
        if failing:  # the system call that failed, and its error
            name, error = failing
            if name == "fallocate" and error == errno.ENOSPC:
                equal("a full disk", code, "no-space")
            if name == "fdatasync" and error == errno.EIO and scenario.op in ("sync", "append") and scenario.ends:
                equal("a sync that fails", code, "io")
                self.ended = True
        elif self.ended and scenario.op in ("sync", "append"):
            equal("the writer has ended", code, "io")
        if scenario.publishes:
            if code is None:
                self.written.append(sequence)
            elif scenario.prepare is JournalWorld.each or code == "interrupted":
                self.written.append(sequence)
                self.uncertain.add(sequence)  # appended, and not durable; or not appended
        if scenario.op in ("poll", "take", "pop") and code is None:
            messages = answer["messages"] if scenario.op == "poll" else [answer["message"]]
            self.before += [number(m) for m in messages if m]

    def check(self, scenario):
        """Checks after the victim's end: the journal has what it must, and the others go on."""
        if scenario.removes_name:
            return
        observer = self.observer
        taken = observer.call("writer", journal="o", writer="heir", name="pub", timeout=1, helper=False)
        data = self.data()
        observer.call("append", writer="heir", data=data, type=1)
        self.written.append(self.sequence)
        observer.call("sync", writer="heir")
        observer.call("close", writer="heir")
        data = self.data()
        observer.call("push", journal="o", data=data, timeout=1)
        self.written.append(self.sequence)
        observer.call("reader", journal="o", reader="all")
        found = []
        while messages := observer.call("poll", reader="all", limit=256)["messages"]:
            found += messages
        sequences = [number(m) for m in found]
        expected = [s for s in self.written if s not in self.uncertain or s in sequences]
        lost = observer.call("positions", reader="all")["lost"]
        if scenario.op == "trim":
            expected = expected[-len(sequences) :]
        else:
            equal("the numbers", [m["number"] for m in found], list(range(len(found))))
        equal("what is in the journal", sequences, expected)
        equal("lost", lost, 0)
        stats = observer.call("stats", journal="o")["stats"]
        equal("stats", (stats["failed"], stats["needs_recovery"], stats["writing"]), (False, False, False))
        true("a number", taken["number"] <= stats["messages"], taken)
        for name in ("keeper", "reader", "new"):
            if name != "keeper" or not self.EXPECTED:
                observer.call("consumer", journal="o", consumer=name, name=name)
            got = []
            while messages := observer.call("poll", consumer=name, limit=256)["messages"]:
                got += [number(m) for m in messages]
            equal(f"{name}: what it got is the end", got, sequences[len(sequences) - len(got) :])
            if name == "reader" and self.before:
                true("nothing is left out", not got or got[0] <= max(self.before) + 1, (got[:1], self.before))


def message(world):
    return {"data": world.data()}


def large(world):
    return {"data": world.data() + LARGE}


def scenarios():
    def scenario(name, op, fields, prepare, **more):
        return Scenario(f"journal, {name}", op, fields, prepare, world=JournalWorld, **more)

    def written(world):
        world.appended(1)

    def claimed(world):
        world.writer()
        world.victim.call("claim", writer="w", length=32, type=1)

    def some(world):
        world.filled(20)
        world.open()

    def consumed(world):
        """Several segments that the consumer has consumed, and that are synced."""
        world.filled(40)
        world.observer.call("writer", journal="o", writer="x", helper=False)
        world.observer.call("close", writer="x")
        while world.observer.call("poll", consumer="keeper", limit=256)["messages"]:
            pass
        world.open()

    def cold(world):
        world.reader()

    def tail(world):
        world.filled(1)
        world.open()
        world.victim.call("reader", journal="v", reader="r", start="newest")
        world.filled(1)

    def empty(world):
        world.open()
        world.victim.call("reader", journal="v", reader="r")

    def everything(world):
        world.consumer()
        world.victim.call("reader", journal="v", reader="r")
        world.victim.call("writer", journal="v", writer="w", helper=False)

    append, takes = {"writer": "w", "type": 1}, {"takes": True}
    writer = {"journal": "v", "writer": "w", "name": "pub", "helper": False}
    consumer = {"journal": "v", "consumer": "c", "name": "reader"}
    ends, publishes = {"ends": True}, {"publishes": True}
    return [
        scenario("create", "create", {"journal": "v", **OPTIONS, "more": new}, nothing, **takes),
        scenario("open", "open", {"journal": "v", "more": same}, nothing, **takes),
        scenario("writer", "writer", writer, JournalWorld.open, **takes),
        scenario("writer, after another boot", "writer", writer, JournalWorld.other_boot, **takes),
        scenario("append", "append", append | {"more": message}, written, **publishes),
        scenario("append, next segment", "append", append | {"more": large}, JournalWorld.full, **publishes),
        scenario("append, each synced", "append", append | {"more": message}, JournalWorld.each, **ends, **publishes),
        scenario("sync", "sync", {"writer": "w"}, JournalWorld.full, **ends),
        scenario("commit", "commit", {"writer": "w", "more": message}, claimed, **publishes),
        scenario("push", "push", {"journal": "v", "type": 1, "timeout": 0.5, "more": message}, some, **publishes),
        scenario("close writer", "close", {"writer": "w"}, written),
        scenario("reader", "reader", {"journal": "v", "reader": "r"}, some, **takes),
        scenario("reader, a number", "reader", {"journal": "v", "reader": "r", "start": {"number": 17}}, some, **takes),
        scenario("seek", "seek", {"reader": "r", "start": {"number": 11}}, cold),
        scenario("poll, cold", "poll", {"reader": "r", "limit": 64}, cold),
        scenario("take, tail", "take", {"reader": "r"}, tail),
        scenario("wait, take", "take", {"reader": "r", "timeout": 0.05}, empty),
        scenario("consumer", "consumer", consumer, some, **takes),
        scenario("consumer, resumed", "consumer", consumer, JournalWorld.away, **takes),
        scenario("poll, consumer", "poll", {"consumer": "c", "limit": 64}, JournalWorld.consumer),
        scenario("pop", "pop", {"consumer": "c"}, JournalWorld.consumer),
        scenario("sync, consumer", "sync", {"consumer": "c"}, JournalWorld.consumer),
        scenario("close consumer", "close", {"consumer": "c"}, JournalWorld.consumer),
        scenario("forget", "forget", {"journal": "v", "name": "reader"}, JournalWorld.away),
        scenario("trim", "trim", {"journal": "v", "consumed": True}, consumed),
        scenario("change", "change", {"journal": "v", "max_size": 0}, some),
        scenario("stats", "stats", {"journal": "v"}, some),
        scenario("unlink", "unlink", {"journal": True, "more": same}, nothing, removes_name=True),
        scenario("close journal", "close", {"journal": "v"}, everything, once=True),
    ]
