# SPDX-License-Identifier: Apache-2.0
"""Tests what a queue's worker does between two of its stores (spec/queue.md 3, 5, 7, 8), from outside. Part of
driven.py, which tests the operations on rings."""

import time

from harness import equal, true
from tracer import Watcher, Word

OPTIONS = {"kind": "queue", "capacity": 4096, "producers": 2, "workers": 4, "counters": 0}
HANDOVERS, SLOTS, SLOT = 4096 + 48, 4096 + 256, 256
DEADLINE = 5  # seconds


class World:
    """A queue with the watched worker in slot 1, and another peer, in Python, with the producer of ring 0."""

    def __init__(self, run, language, file):
        self.run, self.name = run, run.name("driven-queue")
        self.victim, self.other = run.fresh(language), run.peer("python", 2)
        self.other.call("create", channel=self.name, name=self.name, **OPTIONS)
        self.other.call("publisher", channel=self.name, publisher=self.name, name="other")
        self.victim.call("open", channel=self.name, name=self.name)
        path = run.folder / f"{self.name}.ring"
        self.file, self.watcher = file(path), Watcher(self.victim.pid, run.folder, path)
        self.sent = []

    def publish(self, count):
        for _ in range(count):
            self.sent.append(f"{len(self.sent) + 1:04x}")
            self.other.call("offer", publisher=self.name, data=self.sent[-1], type=1)

    def pass_owner(self, slot):
        """Lets the watched worker do the first job. Returns the position of the next one."""
        self.victim.call("take_job", worker=self.name)
        self.victim.call("done", worker=self.name)
        equal("its gate", self.file.get(self.file.gate(slot)), -1)
        return self.file.get(self.file.gate(0))

    def worker(self, peer):
        return peer.call("worker", channel=self.name, worker=self.name)["slot"]

    def beside(self, name, slot, ring=0):
        """Returns a worker's word beside its gate."""
        gate = self.file.gate(slot, ring)
        return Word(name, gate.offset + {"taken_end": 16, "attempts": 24}[name], 4 if name == "attempts" else 8)

    def slot_word(self, name, slot):
        at = SLOTS + SLOT * (OPTIONS["producers"] + 1 + slot)
        return Word(name, at + {"epoch": 0, "evicting": 8}[name], 4 if name == "evicting" else 8)

    def dead(self, limit):
        """Lets a worker die after the first job of a batch, with the rest in hand. Returns its slot."""
        dead = self.run.fresh("python")
        dead.call("open", channel=self.name, name=self.name)
        slot = self.worker(dead)
        dead.call("poll_jobs", worker=self.name, limit=limit, action="BREAK")
        dead.kill()
        return slot

    def watch(self, op, fields, words, kill):
        """Returns the stores of a request, up to the one after which the peer is killed, and whether it was killed."""
        seen, last = [], {word.name: self.file.get(word) for word in words}

        def hit(word):
            value = self.file.get(word)
            if value == last[word.name]:  # a store of a recovery
                return False
            last[word.name] = value
            seen.append((word.name, value))
            return word.name == kill

        killed = self.watcher.watch(lambda: self.victim.send(op, **fields), words, hit)
        if killed:
            self.run.forget(self.victim)
        return seen, killed

    def left(self, count):
        """Returns what a new worker gets soon: [data, attempts]."""
        heir = self.run.peer("python", 3)
        heir.call("open", channel=self.name, name=self.name)
        heir.call("worker", channel=self.name, worker=self.name)
        got, deadline = [], time.monotonic() + DEADLINE
        while len(got) < count and time.monotonic() < deadline:
            got += [[j["data"], j["attempts"]] for j in heir.call("poll_jobs", worker=self.name, limit=8)["jobs"]]
        more = heir.call("poll_jobs", worker=self.name, limit=8, timeout=0.02)["jobs"]
        equal("jobs that come too often", more, [])
        heir.call("close", channel=self.name)
        return sorted(got)

    def end(self, killed):
        if not killed:
            self.victim.call("close", channel=self.name)
        self.file.bytes.close()
        self.other.call("close", channel=self.name)


def windows(names):
    """Yields (number of the first of two words to watch, the word after whose store the peer is killed, or None). Two
    words, because a peer may map each twice, and there are four debug registers."""
    plan = [(first, None) for first in range(len(names) - 1)]
    return plan + [(max(0, i - 1), name) for i, name in enumerate(names)]


def stores(seen, expected, kill):
    """Checks the stores, up to the last one before the kill."""
    names = [name for name, _ in expected]
    equal("stores, in order", seen, expected[: names.index(kill) + 1] if kill else expected)


def taking(run, language, file):
    """A take stores taken_end, gate, then gate[0] (3, 2 and 3). The worker is killed after each."""
    for first, kill in windows(("taken_end", "gate", "gate[0]")):
        world = World(run, language, file)
        slot = world.worker(world.victim)
        world.publish(2)
        begin = world.pass_owner(slot)
        words = [world.beside("taken_end", slot), world.file.gate(slot), Word("gate[0]", world.file.gate(0).offset)]
        seen, killed = world.watch("take_job", {"worker": world.name}, words[first : first + 2], kill)
        expected = [("taken_end", begin + 64), ("gate", begin), ("gate[0]", begin + 64)]
        stores(seen, expected[first : first + 2], kill)
        equal("killed", killed, kill is not None)
        if killed:
            taken = world.file.get(world.file.gate(0)) == begin + 64
            equal("what is left", world.left(1), [["0002", int(taken)]])
        else:
            world.victim.receive()
            world.victim.call("done", worker=world.name)
            equal("its gate", world.file.get(world.file.gate(slot)), -1)
        world.end(killed)


def adopting(run, language, file):
    """An adopter stores the job in its own gate and raises handovers before it clears the dead worker's gate (5, 5)."""
    for first, kill in windows(("attempts", "taken_end", "gate", "handovers", "its gate")):
        world = World(run, language, file)
        slot = world.worker(world.victim)
        world.publish(2)
        dead = world.dead(2)
        own, its = world.file.gate(slot), Word("its gate", world.file.gate(dead).offset)
        begin, end = world.file.get(its), world.file.get(world.beside("taken_end", dead))
        every = [
            (world.beside("attempts", slot), 1),
            (world.beside("taken_end", slot), end),
            (own, begin),
            (Word("handovers", HANDOVERS), 1),
            (its, -1),
        ]
        chosen = every[first : first + 2]
        seen, killed = world.watch("take_job", {"worker": world.name}, [word for word, _ in chosen], kill)
        stores(seen, [(word.name, value) for word, value in chosen], kill)
        equal("killed", killed, kill is not None)
        if killed:
            got = world.left(1)
            true("the job comes again, and says so", {data for data, _ in got} == {"0002"}, got)
            true("attempts", all(attempts > 0 for _, attempts in got), got)
        else:
            equal("attempts", world.victim.receive()["job"]["attempts"], 1)
            world.victim.call("done", worker=world.name)
        world.end(killed)


def releasing(run, language, file):
    """A released job is in the returns ring before it leaves the hand (8, 5). The worker is killed after each of both
    stores."""
    for kill in (None, "published", "gate"):
        world = World(run, language, file)
        slot = world.worker(world.victim)
        world.publish(1)
        world.victim.call("take_job", worker=world.name)
        returns = OPTIONS["producers"]
        published = world.file.word("published", returns)
        end = world.file.get(published) + 64
        word = published if kill == "published" else world.file.gate(slot)  # may be mapped three times
        seen, killed = world.watch("release", {"worker": world.name}, [word], kill)
        equal("stores", seen, [("published", end) if kill == "published" else ("gate", -1)])
        equal("killed", killed, kill is not None)
        equal("published, behind its store or that of the gate", world.file.get(published), end)
        if not killed:
            equal("released", world.victim.receive()["released"], True)
        got = [[job, attempts > 0] for job, attempts in world.left(2 if kill == "published" else 1)]
        equal("what comes again", got, [["0001", True]] * (2 if kill == "published" else 1))
        world.end(killed)


def evicting(run, language, file):
    """An eviction raises the epoch before it sets evicting (7), so after a kill in between, the victim still
    notices."""
    for kill in (None, "epoch", "evicting"):
        world = World(run, language, file)
        slot = world.worker(world.other)
        world.publish(1)
        world.other.call("take_job", worker=world.name)
        words = [world.slot_word("epoch", slot), world.slot_word("evicting", slot)]
        epoch = world.file.get(words[0])
        seen, killed = world.watch("evict", {"channel": world.name, "slot": slot}, words, kill)
        stores(seen, [("epoch", epoch + 1), ("evicting", 1)], kill)
        equal("killed", killed, kill is not None)
        code = None
        try:
            world.other.call("done", worker=world.name)
        except Exception as error:  # the driver's Refused
            code = getattr(error, "code", None)
        equal("its worker learns of it", code, "slot-lost")
        equal("what is left", world.left(1), [["0001", 1]])
        if not killed:
            world.victim.receive()
        world.end(killed)


def overtaken(run, language, file):
    """Another worker takes the job between the announcement and the compare-and-set. It is handed out once (3, 3)."""
    world = World(run, language, file)
    slot = world.worker(world.victim)
    world.worker(world.other)
    world.publish(2)
    world.other.call("take_job", worker=world.name)  # moves over the owner record
    world.other.call("done", worker=world.name)
    got, gates = [], []

    def hit(word):
        gates.append(world.file.get(word))
        if len(gates) == 1:
            got.append(world.other.call("take_job", worker=world.name)["job"])
            world.other.call("done", worker=world.name)

    world.watcher.watch(lambda: world.victim.send("take_job", worker=world.name), [world.file.gate(slot)], hit)
    equal("what the other one got", [got[0]["data"], got[0]["attempts"]], ["0002", 0])
    equal("what the watched one got", world.victim.receive()["job"], None)
    equal("its gate, behind both stores", [gates[0] >= 0, gates[-1]], [True, -1])
    world.end(False)


TESTS = (taking, adopting, releasing, evicting, overtaken)
