# SPDX-License-Identifier: Apache-2.0
"""The requests of survivors.py in a channel, and the checks of the channel at the end."""

import os
import struct
import time
from dataclasses import dataclass

from harness import equal, true

OPTIONS = {"kind": "broadcast", "capacity": 4096, "publishers": 3, "subscribers": 4, "counters": 4}
SMALL = struct.Struct("<q")


class World:
    """A channel with the peer that must survive, and an observer in another process."""

    OBSERVER = "python"  # the observer's language
    KIND = "channel"  # of the handle "v"
    BESIDE = True  # whether another thread of the victim can act on it
    CLOSES = (None,)  # how a close of it may end

    def __init__(self, run, victim, observer):
        self.run, self.victim, self.observer = run, victim, observer
        self.name = run.name("survivors")
        self.path = run.folder / f"{self.name}.ring"
        self.published, self.uncertain, self.sequence = [], set(), 0
        victim.call("hello")  # Java: clears an interrupt
        self.make()

    def make(self):
        self.observer.call("create", channel="o", name=self.name, **OPTIONS)
        self.observer.call("subscriber", channel="o", subscriber="keeper", name="keeper", kept=True)
        self.observer.call("publisher", channel="o", publisher="other", name="other")

    def data(self):
        """Returns the payload of the next message, and notes that it may be published."""
        self.sequence += 1
        return (SMALL.pack(self.sequence) * 4).hex()

    def open(self):
        self.victim.call("open", channel="v", name=self.name)

    def publisher(self):
        self.open()
        self.victim.call("publisher", channel="v", publisher="p", name="pub")

    def subscriber(self, **options):
        self.open()
        self.victim.call("subscriber", channel="v", subscriber="s", **options)

    def unread(self, messages):
        for _ in range(messages):
            self.observer.call("offer", publisher="other", data=(SMALL.pack(0) * 4).hex(), type=9)

    def fill(self):
        """Fills the victim's ring, which a dead reader holds back."""
        dead = self.run.fresh("python")
        dead.call("open", channel="d", name=self.name)
        dead.call("subscriber", channel="d", subscriber="gone", rings=[1])
        while True:
            data = self.data()
            if self.victim.call("offer", publisher="p", data=data, type=1)["position"] < 0:
                self.sequence -= 1
                break
            self.published.append(self.sequence)
            self.drain()
        dead.kill()
        time.sleep(0.002)

    def drain(self):
        """Returns the messages of the victim's ring that the keeper gets."""
        got = []
        while messages := self.observer.call("poll", subscriber="keeper", limit=256)["messages"]:
            got += [SMALL.unpack_from(bytes.fromhex(m["data"]))[0] for m in messages if m["ring"] == 1]
        self.got = getattr(self, "got", []) + got

    EVICTED, EXPECTED = 1, {"publisher 0", "subscriber 0"}  # the victim's subscriber slot; the observer's locks

    def note(self, scenario, sequence, code, answer):
        """Notes what the victim's answer says about its messages."""
        if scenario.publishes and (answer is None or answer["position"] > 0):
            self.published.append(sequence)
            if code is not None:
                self.uncertain.add(sequence)

    def check(self, scenario):
        """Checks after the victim's end: the others go on, and nothing is lost."""
        if scenario.removes_name:
            return
        observer = self.observer
        for i in range(300):  # three laps, so nothing holds the others back
            deadline = time.monotonic() + 1
            while observer.call("offer", publisher="other", data=(SMALL.pack(0) * 4).hex(), type=9)["position"] < 0:
                self.drain()
                for slot in range(1, 4):
                    if "reader" in self.kept(slot):
                        observer.call("evict", channel="o", slot=slot)
                true("the observer's publisher goes on within 1 s", time.monotonic() < deadline, f"held back at {i}")
        self.drain()
        for n in range(2):
            observer.call("publisher", channel="o", publisher=f"n{n}", name=("pub", "new")[n])
            observer.call("offer", publisher=f"n{n}", data=SMALL.pack(-1 - n).hex(), type=1)
        for n in range(3):
            observer.call("subscriber", channel="o", subscriber=f"m{n}", name=("reader", "", "")[n])
        self.drain()
        got = [s for s in self.got if s > 0]
        expected = [s for s in self.published if s not in self.uncertain or s in got]
        equal("the messages of the victim that the keeper got", got, expected)

    def kept(self, slot):
        at = 4096 + 256 + 256 * (OPTIONS["publishers"] + slot)
        with open(self.path, "rb") as file:
            content = os.pread(file.fileno(), 256, at)
        return content[24:88].rstrip(b"\0").decode() if int.from_bytes(content[16:20], "little") else ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.observer.call("close", channel="o")


@dataclass
class Scenario:
    name: str
    op: str
    fields: dict
    prepare: object = World.open
    publishes: bool = False
    """Whether its data is a message of the victim."""
    again: tuple = ()
    """(op, fields) of the request to do after it; without this, the same request again."""
    takes: bool = False
    """Whether it makes an object: it is closed with the channel, and a repetition needs another handle."""
    removes_name: bool = False
    evictable: bool = False
    once: bool = False
    """Whether it cannot be repeated, because its object is gone."""
    code: str | None = None
    """The error with which it ends if it is not disturbed."""
    world: type = World
    ends: bool = False
    """Whether a sync that fails in it ends the writer of a journal."""


def new(world):
    """Makes a name that no file has."""
    return {"name": world.name + "-new"}


def same(world):
    return {"name": world.name}


def message(world):
    return {"data": world.data()}


def nothing(world):
    """Opens no channel."""


def scenarios():
    prepared = World.publisher

    def claimed(world):
        world.publisher()
        world.victim.call("claim", publisher="p", length=32, type=1)

    def full(world):
        world.publisher()
        world.fill()

    def joined(world):
        world.subscriber(name="reader")
        world.unread(5)

    def kept(world):
        world.subscriber(name="reader", kept=True)
        world.unread(5)

    def away(world):
        world.subscriber(name="reader", kept=True)
        world.unread(5)
        world.victim.call("close", subscriber="s")

    def lossy(world):
        world.unread(5)
        world.open()
        world.victim.call("lossy_subscriber", channel="v", subscriber="s", start="oldest")

    def counter(world):
        world.open()
        world.victim.call("counter_allocate", channel="v", label="c", type_id=1, key="")

    def two(world):
        world.publisher()
        world.victim.call("subscriber", channel="v", subscriber="s", name="reader", kept=True)
        world.victim.call("subscriber", channel="v", subscriber="t")

    def empty(world):
        world.subscriber(name="reader")

    def lossy_end(world):
        world.open()
        world.victim.call("lossy_subscriber", channel="v", subscriber="s")

    take = {"takes": True}
    return [
        # Requests that wait (channel.md 6.16). Their system calls are points, too.
        Scenario("wait, take", "take", {"subscriber": "s", "timeout": 0.05}, empty, evictable=True),
        Scenario("wait, poll", "poll", {"subscriber": "s", "limit": 256, "timeout": 0.05}, empty, evictable=True),
        Scenario("wait, lossy", "take", {"subscriber": "s", "timeout": 0.05}, lossy_end),
        Scenario("wait, send", "offer", {"publisher": "p", "type": 1, "timeout": 5, "more": message}, full, True),
        Scenario("wait, flush", "flush", {"publisher": "p", "timeout": 0.05}, full),
        Scenario("wait, subscriber", "subscriber", {"channel": "v", "subscriber": "s", "timeout": 0.05}, **take),
        Scenario("wait, open", "open", {"channel": "v", "timeout": 1, "more": same}, nothing, **take),
        Scenario("create", "create", {"channel": "v", **OPTIONS, "more": new}, nothing, **take),
        Scenario("open", "open", {"channel": "v", "more": same}, nothing, **take),
        Scenario("open-or-create", "open_or_create", {"channel": "v", **OPTIONS, "more": new}, nothing, **take),
        Scenario("open-or-create, there", "open_or_create", {"channel": "v", **OPTIONS, "more": same}, nothing, **take),
        Scenario("replace", "replace", {"channel": "v", **OPTIONS, "more": same}, nothing, removes_name=True, **take),
        Scenario("unlink", "unlink", {"more": same}, nothing, removes_name=True),
        Scenario("publisher", "publisher", {"channel": "v", "publisher": "p", "name": "pub"}, **take),
        Scenario("subscriber", "subscriber", {"channel": "v", "subscriber": "s"}, **take),
        Scenario(
            "subscriber, kept",
            "subscriber",
            {"channel": "v", "subscriber": "s", "name": "reader", "kept": True},
            **take,
        ),
        Scenario(
            "subscriber, resumed", "subscriber", {"channel": "v", "subscriber": "s", "name": "reader"}, away, **take
        ),
        Scenario("lossy", "lossy_subscriber", {"channel": "v", "subscriber": "s", "start": "oldest"}, **take),
        Scenario("offer, held back by the dead", "offer", {"publisher": "p", "type": 1, "more": message}, full, True),
        Scenario("offer", "offer", {"publisher": "p", "type": 1, "more": message}, prepared, True),
        Scenario("commit", "commit", {"publisher": "p", "more": message}, claimed, True),
        Scenario("held-by", "held_by", {"publisher": "p"}, full),
        Scenario("poll", "poll", {"subscriber": "s", "limit": 256}, joined, evictable=True),
        Scenario("take", "take", {"subscriber": "s"}, kept, evictable=True),
        Scenario("lossy poll", "poll", {"subscriber": "s", "limit": 256}, lossy),
        Scenario("close publisher", "close", {"publisher": "p"}, claimed),
        Scenario("close subscriber", "close", {"subscriber": "s"}, joined, evictable=True),
        Scenario("close kept", "close", {"subscriber": "s"}, kept, evictable=True),
        Scenario("forget", "forget", {"subscriber": "s"}, kept, evictable=True),
        Scenario("evict", "evict", {"channel": "v", "slot": 1}, kept),
        Scenario("allocate", "counter_allocate", {"channel": "v", "label": "c", "type_id": 1, "key": ""}),
        Scenario("free", "counter_free", {"channel": "v", "counter": 0}, counter),
        Scenario("close channel", "close", {"channel": "v"}, two, once=True),
    ]
