#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what a binding does between two of its stores, from outside. Works with any peer (PEER.md), also in a fourth
language. See README.md.

driven.py [--language L]...   The last line is "N passed, N failed"."""

import argparse
import mmap
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import driven_asleep
import driven_queue
import driven_table
from driver import ROOT, commands
from harness import Run, drain, equal, refused, true
from tracer import Watcher, Word

CAPACITY, HEADER, SLOTS, SLOT = 4096, 4096, 256, 256
OPTIONS = {"kind": "broadcast", "capacity": CAPACITY, "publishers": 2, "subscribers": 3, "counters": 0}


class File:
    """The words of one channel by their names in channel.md, read and written through its file."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        (self.rings,) = struct.unpack_from("<q", self.bytes, 136)
        (self.stride,) = struct.unpack_from("<q", self.bytes, 144)
        (self.publishers,) = struct.unpack_from("<i", self.bytes, 76)

    def trailer(self, ring, offset):
        return self.rings + ring * self.stride + CAPACITY + offset

    def word(self, name, ring=0):
        return Word(name, self.trailer(ring, {"claimed": 128, "published": 320, "messages_done": 336}[name]))

    def gate(self, slot, ring=0, **how):
        return Word("gate", self.trailer(ring, 384 if slot == 0 else 768 + 128 * (slot - 1)), **how)

    def length(self, position, ring=0, name="length", **how):
        return Word(name, self.rings + ring * self.stride + (position & (CAPACITY - 1)), 4, **how)

    def get(self, word):
        return struct.unpack_from("<i" if word.size == 4 else "<q", self.bytes, word.offset)[0]

    def put(self, word, value):
        struct.pack_into("<i" if word.size == 4 else "<q", self.bytes, word.offset, value)


def made(run, language):
    """Makes a channel. Returns it with its file, the peer, and an observer with the first publisher slot and a kept
    reader."""
    victim, observer, name = run.fresh(language), run.peer("python", 2), run.name("driven")
    observer.call("create", channel=name, name=name, **OPTIONS)
    observer.call("publisher", channel=name, publisher=name, name="other")
    observer.call("subscriber", channel=name, subscriber=name, name="keeper", kept=True)
    victim.call("open", channel=name, name=name)
    path = run.folder / f"{name}.ring"
    return victim, observer, name, File(path), Watcher(victim.pid, run.folder, path)


def publishing(run, language):
    """The stores of a publication come in the order of 6.1. The publisher is killed after each of them."""
    for first in range(4):
        for kill in (False, True):
            publish_once(run, language, first, kill)


def publish_once(run, language, first, kill):
    """Publishes once, watching two words: a peer may map each of them twice, and there are four debug registers."""
    victim, observer, name, file, watcher = made(run, language)
    ring = victim.call("publisher", channel=name, publisher=name, name="mine")["ring"]
    for data in ("01", "02"):
        victim.call("offer", publisher=name, data=data, type=1)
    t = victim.call("positions", publisher=name)["position"]
    end = t + 512
    stores = [
        (file.word("claimed", ring), end),
        (file.length(end, ring, "zero"), 0),
        (file.length(t, ring), 508),
        (file.word("published", ring), end),
    ][first : first + 2]
    seen = []

    def hit(word):
        seen.append((word.name, file.get(word)))
        return kill

    data = "33" * 500
    request = {"publisher": name, "data": data, "type": 3}
    killed = watcher.watch(lambda: victim.send("offer", **request), [word for word, _ in stores], hit)
    expected = [(word.name, value) for word, value in stores]
    equal("stores of a publication (6.1), in order", seen, expected[:1] if kill else expected)
    equal("killed", killed, kill)
    if killed:
        run.forget(victim)
        heir = run.peer("python", 3)
        heir.call("open", channel=name, name=name)
        heir.call("publisher", channel=name, publisher=name, name="mine")
        heir.call("offer", publisher=name, data="04", type=4)
        heir.call("close", channel=name)
    else:
        equal("position", victim.receive()["position"], end)
    got = [m["data"] for m in drain(observer, name) if m["ring"] == ring]
    whole = not killed or first >= 2  # after the store of its length, the message is published
    equal("what a reader got", got, ["01", "02"] + [data] * whole + ["04"] * killed)
    equal("messages counted", file.get(file.word("messages_done", ring)), len(got))
    observer.call("close", channel=name)


def joining(run, language):
    """A message that is published between the two gate stores of a join is not delivered, and the ring still works."""
    victim, observer, name, file, watcher = made(run, language)
    observer.call("offer", publisher=name, data="01", type=1)
    slot, values = 1, []

    def hit(word):
        values.append(file.get(word))
        if len(values) == 1:
            observer.call("offer", publisher=name, data="02", type=1)

    watcher.watch(lambda: victim.send("subscriber", channel=name, subscriber=name), [file.gate(slot)], hit)
    cursor = victim.receive()["positions"]["0"]
    published = file.get(file.word("published"))
    values = [value for value in values if value >= 0]
    equal("gate stores of a join (6.4, 2 and 4)", values, [published - 64, published])
    equal("where it begins", cursor, published)
    observer.call("offer", publisher=name, data="03", type=1)
    equal("what it gets", [m["data"] for m in drain(victim, name)], ["03"])
    victim.call("close", channel=name)
    observer.call("close", channel=name)


def evicted_in_a_poll(run, language):
    """A slot is evicted while a poll reads. The gate that the poll stores is taken back (6.9, 5)."""
    victim, observer, name, file, watcher = made(run, language)
    slot = victim.call("subscriber", channel=name, subscriber=name)["slot"]
    begin = file.get(file.word("published"))
    for i in range(3):
        observer.call("offer", publisher=name, data=f"0{i}", type=1)
    stops = []

    def hit(word):
        stops.append(word.name)
        if len(stops) == 1:
            observer.call("evict", channel=name, slot=slot)

    words = [file.length(begin + 64, reads=True)]
    watcher.watch(lambda: victim.send("poll", subscriber=name, limit=256), words, hit)
    true("it reads the record that is watched", stops, "no stop")
    answer = receive(victim)
    equal("the poll ends", answer.get("error"), "slot-lost")
    equal("its gates", [file.get(file.gate(slot, ring)) for ring in (0, 1)], [-1, -1])
    for i in range(200):
        drain(observer, name)
        above = observer.call("offer", publisher=name, data="aa", type=1)["position"]
        true("the publisher goes on", above > 0, f"held back at {i}")
    refused("slot-lost", victim, "poll", subscriber=name, limit=1)
    victim.call("close", channel=name)
    observer.call("close", channel=name)


def receive(peer):
    from driver import Refused

    try:
        return peer.receive()
    except Refused as e:
        return e.answer


def lapped_and_empty(run, language):
    """A lapped lossy reader's cursor looks empty, because the bytes there are cleared ahead, not written yet (6.10,
    2)."""
    victim, observer, name, file, _ = made(run, language)
    victim.call("lossy_subscriber", channel=name, subscriber=name, rings=[0])
    begin = file.get(file.word("published"))
    count = 0
    while file.get(file.word("published")) < begin + CAPACITY - 64:
        count += 1
        observer.call("offer", publisher=name, data=f"{count:04x}", type=1)
        drain(observer, name)
    while file.get(file.length(begin)) > 0:  # until its record is overwritten or cleared
        count += 1
        observer.call("offer", publisher=name, data=f"{count:04x}", type=1)
        drain(observer, name)
    true("it is lapped", begin + CAPACITY < file.get(file.word("claimed")) + 8, begin)
    messages = victim.call("poll", subscriber=name, limit=256)["messages"]
    lost = victim.call("lost", subscriber=name, ring=0)["messages"]
    true("it jumps and reads what is still there", len(messages) > 0, lost)
    equal("received and lost", len(messages) + lost, count)
    equal("the last one", messages[-1]["data"], f"{count:04x}")
    victim.call("close", channel=name)
    observer.call("close", channel=name)


def retiring(run, language):
    """A live reader is never retired, even if it is stopped for long. A dead one is retired after a millisecond."""
    victim, observer, name, _file, _ = made(run, language)
    observer.call("close", subscriber=name)
    observer.call("evict", channel=name, slot=0)
    reader = run.fresh("python")
    reader.call("open", channel=name, name=name)
    reader.call("subscriber", channel=name, subscriber=name)
    ring = victim.call("publisher", channel=name, publisher=name)["ring"]
    sent = 0
    while victim.call("offer", publisher=name, data="aa" * 100, type=1)["position"] > 0:
        sent += 1
    deadline = time.monotonic() + 0.05
    while time.monotonic() < deadline:
        equal("held back", victim.call("offer", publisher=name, data="aa" * 100, type=1)["position"], -1)
    equal("what the reader gets", len([m for m in drain(reader, name) if m["ring"] == ring]), sent)
    while victim.call("offer", publisher=name, data="aa" * 100, type=1)["position"] > 0:
        pass
    reader.kill()
    run.temporary.remove(reader)
    deadline, position = time.monotonic() + 1, -1
    while position < 0 and time.monotonic() < deadline:
        position = victim.call("offer", publisher=name, data="aa" * 100, type=1)["position"]
    true("it goes on when the reader is dead", position > 0, position)
    victim.call("close", channel=name)
    observer.call("close", channel=name)


def of_queue(test):
    """Returns a test of driven_queue.py with File as its argument."""

    def named(run, language):
        test(run, language, File)

    named.__name__ = f"queue_{test.__name__}"
    return named


QUEUE = tuple(map(of_queue, driven_queue.TESTS))
TESTS = (
    publishing,
    joining,
    evicted_in_a_poll,
    lapped_and_empty,
    retiring,
    *driven_asleep.TESTS,
    *QUEUE,
    *driven_table.TESTS,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", action="append")
    parser.add_argument("--only", default="", help="the tests whose names begin so")
    parser.add_argument("--peer", help="this program instead of that language's in peers.toml")
    arguments = parser.parse_args()
    logs = ROOT / "build" / "log" / "driven"
    logs.mkdir(parents=True, exist_ok=True)
    peers = commands()
    if arguments.peer:
        peers[arguments.language[0]] = [arguments.peer]
    run = Run(peers, logs)
    try:
        for language in arguments.language or run.commands:
            for test in TESTS:
                if (name := test.__name__.replace("_", " ")).startswith(arguments.only):
                    run.test(f"{language}: {name}", test, language)
    finally:
        run.end()
    print(f"{run.passed} passed, {len(run.failed)} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
