# SPDX-License-Identifier: Apache-2.0
"""Tests what a binding does between two steps of a sleep and of a wake (channel.md 6.16), from outside. Part of
driven.py, which tests the operations on rings."""

import time

from driver import Refused
from harness import Wrong, equal, true
from sleepers import serving, until_asleep, File as Sleepers
from tracer import Watcher, Word

CONTROL = 4096
SEQUENCE = {"data": CONTROL + 64, "room": CONTROL + 128}
ASLEEP = {pair: at + 4 for pair, at in SEQUENCE.items()}
OPTIONS = {"kind": "broadcast", "capacity": 4096, "publishers": 2, "subscribers": 3, "counters": 0}
LATEST = 1  # seconds; a sleeper looks again after 100 ms at most
LONG = 10  # seconds: a time-out that should not be reached
# The points at which a message or room comes while the waiting side falls asleep: after the load of `sequence`, after
# the store to `asleep`, before the membarrier, after the first look that follows, and before the futex call
POINTS = ("sequence", "asleep", "membarrier", "look", "futex wait")


class World:
    """A channel with the watched peer, and another peer, in Python, which has the publisher of ring 0."""

    def __init__(self, run, language):
        self.run, self.name = run, run.name("asleep")
        self.victim, self.other = run.fresh(language), run.peer("python", 2)
        self.other.call("create", channel=self.name, name=self.name, **OPTIONS)
        self.other.call("publisher", channel=self.name, publisher=self.name, name="other")
        self.victim.call("open", channel=self.name, name=self.name)
        path = run.folder / f"{self.name}.ring"
        self.file, self.watcher = Sleepers(path), Watcher(self.victim.pid, run.folder, path)
        self.sequence, self.asleep = Word("sequence", SEQUENCE["data"], 4), Word("asleep", ASLEEP["data"], 4)

    def reads(self):
        """Gives the victim a subscriber that waits for messages."""
        self.victim.call("subscriber", channel=self.name, subscriber=self.name, rings=[0])

    def publishes(self):
        """Gives the victim a publisher that found no room. The other peer reads."""
        ring = self.victim.call("publisher", channel=self.name, publisher=self.name)["ring"]
        self.slot = self.other.call("subscriber", channel=self.name, subscriber=self.name, rings=[ring])["slot"]
        while self.victim.call("offer", publisher=self.name, data="0b" * 500, type=1)["position"] > 0:
            pass
        self.ring = ring

    def waits(self, pair):
        """Returns (op, its fields, the word that it reads) of the victim's wait."""
        if pair == "data":
            cursor = self.victim.call("positions", subscriber=self.name)["positions"]["0"]
            at = self.file.rings + cursor % self.file.capacity
            return "take", {"subscriber": self.name}, Word("look", at, 4, reads=True)
        at = self.file.rings + self.ring * self.file.stride + self.file.capacity
        at += 384 if self.slot == 0 else 768 + 128 * (self.slot - 1)
        return "offer", {"publisher": self.name, "data": "0b" * 500, "type": 1}, Word("look", at, 8, reads=True)

    def gives(self, pair):
        """Gives the victim the message or room for which it waits."""
        if pair == "data":
            return self.offer() > 0
        return self.other.call("poll", subscriber=self.name, limit=1)["messages"]

    def offer(self):
        return self.other.call("offer", publisher=self.name, data="0a", type=1)["position"]

    def killed(self):
        self.run.forget(self.victim)

    def end(self):
        self.file.bytes.close()
        self.other.call("close", channel=self.name)


def reached(seen, point):
    """Returns whether the last recorded step is this point of falling asleep."""
    return seen[-1] == point and (point != "look" or "membarrier" in seen)


def watch_sleep(world, pair, point, act):
    """Lets the victim wait, and calls `act()` once at the point. Returns the steps before and after, and whether it was
    killed."""
    op, fields, look = world.waits(pair)
    words = [Word("asleep", ASLEEP[pair], 4), look]
    if point == "sequence":
        words = [Word("sequence", SEQUENCE[pair], 4, reads=True), words[0]]
    seen, acted = [], []

    def hit(word):
        seen.append(word.name)
        if acted or not reached(seen, point):
            return False
        acted.append(len(seen))
        return act()

    send = lambda: world.victim.send(op, timeout=LONG, **fields)  # noqa: E731
    killed = world.watcher.watch(send, words, hit, calls=True)
    true(f"it comes to the point {point}", acted, seen)
    return seen[: acted[0]], seen[acted[0] :], killed


def falling_asleep(run, language):
    """The steps of a sleep come in order, and a message or room that comes between two of them ends the sleep."""
    for pair in ("data", "room"):
        world = World(run, language)
        world.reads() if pair == "data" else world.publishes()
        for point in POINTS:
            given = []
            before, behind, _ = watch_sleep(world, pair, point, lambda w=world, p=pair, g=given: g.append(w.gives(p)))
            true("it was given", given[0], given)
            in_order(before, behind, point)
            answer = world.victim.receive(LONG + 5)
            got = answer["message"]["data"] == "0a" if pair == "data" else answer["position"] > 0
            true(f"{pair} that came behind {point}", got, answer)
            true(f"no sleep for {pair} until the cap, after it came behind {point}", "timed out" not in behind, behind)
        world.end()


def in_order(before, behind, point):
    """Checks the order of 6.16. The message or room came between the steps `before` and `behind`."""
    seen = before if point in ("look", "futex wait") else before + behind
    first = {name: seen.index(name) for name in dict.fromkeys(seen)}
    order = [name for name in ("sequence", "asleep", "membarrier", "futex wait") if name in first]
    equal("steps of a sleep (6.16)", sorted(order, key=first.get), order)
    if point in ("look", "futex wait"):
        true("a look behind the membarrier", "look" in before[first["membarrier"] :], before)


def killed_asleep(run, language):
    """Kills a sleeper after the steps that leave a bit: at most one wake is in vain, and then no bit is set."""
    for point in ("asleep", "look", "futex wait"):
        world = World(run, language)
        world.reads()
        before = world.file.sequence("data")
        *_, killed = watch_sleep(world, "data", point, lambda: True)
        true("killed", killed, killed)
        world.killed()
        true("at most one bit is left", world.file.asleep("data") in (0, 1), world.file.asleep("data"))
        left = world.file.asleep("data")
        for _ in range(3):
            true("published", world.offer() > 0, "not")
        equal(f"wakes in vain after a kill behind {point}", world.file.sequence("data") - before, left)
        equal("which processes are said to sleep", world.file.asleep("data"), 0)
        world.end()


def sleeper(world, ring):
    """Starts a peer that sleeps until a message of this ring comes."""
    peer = world.run.peer("python", 3)
    peer.call("open", channel=world.name, name=world.name)
    peer.call("subscriber", channel=world.name, subscriber=world.name, rings=[ring])
    thread = serving(peer)
    peer.send("take", subscriber=world.name, timeout=LONG)
    until_asleep(thread, world.file, "data")
    return peer


def waking_readers(run, language):
    """The steps of a wake come in order. The publisher is killed after each, and the sleeper still gets the message."""
    for kill in (None, "asleep", "sequence"):
        world = World(run, language)
        taken = world.victim.call("publisher", channel=world.name, publisher=world.name, name="mine")
        reader, seen, before = sleeper(world, taken["ring"]), [], world.file.sequence("data")
        bit = 1 << taken["ring"]

        def hit(word, seen=seen, world=world, bit=bit, kill=kill):
            seen.append((word.name, bool(world.file.asleep("data") & bit), world.file.sequence("data")))
            return word.name == kill

        request = {"publisher": world.name, "data": "0b", "type": 1}
        words = [world.asleep, world.sequence]
        killed = world.watcher.watch(
            lambda world=world, r=request: world.victim.send("offer", **r), words, hit, calls=True
        )
        begin = time.monotonic()
        steps = [("asleep", False, before), ("sequence", False, before + 1), ("futex wake", False, before + 1)]
        equal("steps of a wake (6.16)", seen, steps[: [*(s[0] for s in steps)].index(kill) + 1] if kill else steps)
        equal("killed", killed, kill is not None)
        equal("what the sleeper gets", reader.receive(LONG + 5)["message"]["data"], "0b")
        true(f"it gets it within {LATEST} s", time.monotonic() - begin < LATEST, time.monotonic() - begin)
        if killed:
            world.killed()
            heir, before = world.other, world.file.sequence("data")
            heir.call("publisher", channel=world.name, publisher="heir", name="mine")
            true("the next owner wakes all", world.file.sequence("data") > before, before)
        else:
            true("a position", world.victim.receive()["position"] > 0, "none")
            world.victim.call("close", channel=world.name)
        reader.call("close", channel=world.name)
        world.end()


def waking_publishers(run, language):
    """The same for a reader that makes room: after its gate store, it wakes a waiting publisher."""
    for kill in (None, "asleep", "sequence"):
        world = World(run, language)
        slot = world.victim.call("subscriber", channel=world.name, subscriber=world.name, rings=[0])["slot"]
        count = 0
        while world.other.call("offer", publisher=world.name, data="0c" * 500, type=1)["position"] > 0:
            count += 1
        thread = serving(world.other)
        world.other.send("offer", publisher=world.name, data="0d" * 500, type=1, timeout=LONG)
        until_asleep(thread, world.file, "room")
        seen, cursor = [], world.file.gate(slot)

        def hit(word, seen=seen, world=world, kill=kill, slot=slot, cursor=cursor):
            # The publisher looks every 4 ms anyway, and may find the new room itself, so only the first wake counts.
            if len(seen) < 3:
                seen.append((word.name, world.file.gate(slot) > cursor))
            return word.name == kill and (word.name, True) in seen

        words = [Word("asleep", ASLEEP["room"], 4), Word("sequence", SEQUENCE["room"], 4)]
        request = {"subscriber": world.name, "limit": 256}
        killed = world.watcher.watch(
            lambda world=world, r=request: world.victim.send("poll", **r), words, hit, calls=True
        )
        begin = time.monotonic()
        steps = [(name, True) for name in ("asleep", "sequence", "futex wake")]
        equal("steps of a wake (6.16), behind the gate", seen, steps[: len(seen)] if kill else steps)
        equal("killed", killed, kill is not None)
        true("room for who slept", world.other.receive(LONG + 5)["position"] > 0, "none")
        true(f"room within {LATEST} s", time.monotonic() - begin < LATEST, time.monotonic() - begin)
        if killed:
            world.killed()
        else:
            got = len(world.victim.receive()["messages"])
            true(f"{count} messages, and perhaps that of who slept", got - count in (0, 1), got)
            world.victim.call("close", channel=world.name)
        world.end()


def in_vain(run, language):
    """A bit that a dead sleeper left costs exactly one futex call; without such a bit there is none."""
    world = World(run, language)
    ring = world.victim.call("publisher", channel=world.name, publisher=world.name)["ring"]
    world.victim.call("subscriber", channel=world.name, subscriber=world.name, rings=[0])
    reader = world.run.fresh("python")
    reader.call("open", channel=world.name, name=world.name)
    reader.call("subscriber", channel=world.name, subscriber=world.name, rings=[ring])
    thread = serving(reader)
    reader.send("take", subscriber=world.name, timeout=LONG)
    until_asleep(thread, world.file, "data")
    reader.kill()
    publisher = world.run.fresh("python")
    publisher.call("open", channel=world.name, name=world.name)
    world.other.call("close", publisher=world.name)
    publisher.call("publisher", channel=world.name, publisher=world.name, name="other")
    while publisher.call("offer", publisher=world.name, data="0c" * 500, type=1)["position"] > 0:
        pass
    thread = serving(publisher)
    publisher.send("offer", publisher=world.name, data="0d" * 500, type=1, timeout=LONG)
    until_asleep(thread, world.file, "room")
    publisher.kill()

    def wakes(op, **fields):
        calls = []
        world.watcher.watch(
            lambda: world.victim.send(op, **fields), [], lambda word: calls.append(word.name), calls=True
        )
        try:
            world.victim.receive()
        except Refused as e:
            raise Wrong(str(e)) from None
        return calls.count("futex wake")

    made = [wakes("offer", publisher=world.name, data="0b", type=1) for _ in range(3)]
    equal("calls of a publisher to wake a dead reader", made, [1, 0, 0])
    made = [wakes("poll", subscriber=world.name, limit=1) for _ in range(3)]
    equal("calls of a reader to wake a dead publisher", made, [1, 0, 0])
    equal("which processes are said to sleep", [world.file.asleep(pair) for pair in ("data", "room")], [0, 0])
    world.victim.call("close", channel=world.name)
    world.end()


TESTS = (falling_asleep, killed_asleep, waking_readers, waking_publishers, in_vain)
