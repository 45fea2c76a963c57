# SPDX-License-Identifier: Apache-2.0
"""What a binding does between two steps of a sleep and of a wake (channel.md 6.16), driven from outside; of driven.py,
which has the tests of the ring's own operations."""

import time

from driver import Refused
from harness import Wrong, equal, true
from sleepers import serving, until_asleep, File as Sleepers
from tracer import Watcher, Word

CONTROL = 4096
SEQUENCE = {"data": CONTROL + 64, "room": CONTROL + 128}
ASLEEP = {pair: at + 4 for pair, at in SEQUENCE.items()}
OPTIONS = {"kind": "broadcast", "capacity": 4096, "publishers": 2, "subscribers": 3, "counters": 0}
PROMPT, TRIES = 0.05, 3  # seconds: half of what a lost wake-up costs; a busy machine gets another try
LATEST = 1  # seconds; a sleeper looks after 100 ms at the latest
LONG = 10  # seconds: a time-out that does not come
# Where a message comes while its reader falls asleep: behind the load of `sequence`, ...
POINTS = ("sequence", "asleep", "membarrier", "look", "futex wait")


class World:
    """A channel with the peer that is watched, and another one, in Python, with a publisher (ring 0) in it."""

    def __init__(self, run, language):
        self.run, self.name = run, run.name("asleep")
        self.victim, self.other = run.fresh(language), run.peer("python", 2)
        self.other.call("create", channel=self.name, name=self.name, **OPTIONS)
        self.other.call("publisher", channel=self.name, publisher=self.name, name="other")
        self.victim.call("open", channel=self.name, name=self.name)
        path = run.folder / f"{self.name}.ring"
        self.file, self.watcher = Sleepers(path), Watcher(self.victim.pid, run.folder, path)
        self.sequence, self.asleep = Word("sequence", SEQUENCE["data"], 4), Word("asleep", ASLEEP["data"], 4)

    def offer(self, **more):
        return self.other.call("offer", publisher=self.name, data="0a", type=1, **more)["position"]

    def length(self, position, ring=0):
        """The word behind which a reader knows whether a message is there."""
        at = self.file.rings + ring * self.file.stride + position % self.file.capacity
        return Word("length", at, 4, reads=True)

    def killed(self):
        self.run.forget(self.victim)

    def end(self):
        self.file.bytes.close()
        self.other.call("close", channel=self.name)


def reached(seen, point):
    """Whether the last one of what was seen is this point of falling asleep."""
    if point == "look":
        return seen[-1] == "length" and "membarrier" in seen
    return seen[-1] == point


def watch_sleep(world, point, act):
    """The victim takes a message; at the point `act()`, once. What was seen in order, whether it was killed."""
    cursor = world.victim.call("positions", subscriber=world.name)["positions"]["0"]
    words = [world.asleep, world.length(cursor)]
    if point == "sequence":
        words = [Word("sequence", SEQUENCE["data"], 4, reads=True), world.asleep]
    seen, acted = [], []

    def hit(word):
        seen.append(word.name)
        if acted or not reached(seen, point):
            return False
        acted.append(point)
        return act()

    request = {"subscriber": world.name, "timeout": LONG}
    killed = world.watcher.watch(lambda: world.victim.send("take", **request), words, hit, calls=True)
    true(f"it comes to the point {point}", acted, seen)
    return seen, killed


def falling_asleep(run, language):
    """The steps of a sleep come in their order, and a message that comes between two of them is not slept through."""
    world = World(run, language)
    world.victim.call("subscriber", channel=world.name, subscriber=world.name, rings=[0])
    for point in POINTS:
        times = []
        while not times or min(times) >= PROMPT:
            if len(times) == TRIES:
                raise Wrong(f"a message behind {point}: expected it within {PROMPT} s in one of {TRIES}, found {times}")
            came = []
            seen, _ = watch_sleep(world, point, lambda: came.append((world.offer(), time.monotonic())))
            equal(f"the message that came behind {point}", world.victim.receive()["message"]["data"], "0a")
            times.append(time.monotonic() - came[0][1])
            in_order(seen, point)
    world.end()


def in_order(seen, point):
    """Behind `point` a message has come: only what was seen until then must be there."""
    first = {name: seen.index(name) for name in dict.fromkeys(seen)}
    order = [name for name in ("sequence", "asleep", "membarrier", "futex wait") if name in first]
    equal("steps of a sleep (6.16)", sorted(order, key=first.get), order)
    if point in ("look", "futex wait"):
        between = seen[first["membarrier"] : first.get("futex wait", len(seen))]
        true("a look behind the membarrier", "length" in between, seen)


def killed_asleep(run, language):
    """Killed behind the steps of a sleep that leave something: at most one wake is in vain, and then nobody is said to
    sleep."""
    for point in ("asleep", "look", "futex wait"):
        world = World(run, language)
        world.victim.call("subscriber", channel=world.name, subscriber=world.name, rings=[0])
        before = world.file.sequence("data")
        _, killed = watch_sleep(world, point, lambda: True)
        true("killed", killed, killed)
        world.killed()
        true("at most one bit is left", world.file.asleep("data") in (0, 1), world.file.asleep("data"))
        left = world.file.asleep("data")
        for _ in range(3):
            true("published", world.offer() > 0, "not")
        equal(f"wakes in vain after a kill behind {point}", world.file.sequence("data") - before, left)
        equal("who is said to sleep", world.file.asleep("data"), 0)
        world.end()


def sleeper(world, ring):
    """A peer that sleeps until a message of this ring comes."""
    peer = world.run.peer("python", 3)
    peer.call("open", channel=world.name, name=world.name)
    peer.call("subscriber", channel=world.name, subscriber=world.name, rings=[ring])
    thread = serving(peer)
    peer.send("take", subscriber=world.name, timeout=LONG)
    until_asleep(thread, world.file, "data")
    return peer


def waking_readers(run, language):
    """The steps of a wake come in their order; behind each the publisher is killed, and who sleeps gets the message."""
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
    """The same for a reader that makes room: behind its gate store it wakes who waits for room."""
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
            # It looks every 4 ms itself, and may find the room that was just made: only the first wake counts.
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
    """A bit that a dead sleeper left costs one call, and no more; without one there is none."""
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
    equal("who is said to sleep", [world.file.asleep(pair) for pair in ("data", "room")], [0, 0])
    world.victim.call("close", channel=world.name)
    world.end()


TESTS = (falling_asleep, killed_asleep, waking_readers, waking_publishers, in_vain)
