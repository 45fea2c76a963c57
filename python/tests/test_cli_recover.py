# SPDX-License-Identifier: Apache-2.0
"""``flyring recover`` and ``check`` on what the dead leave: every state of 6.1, and processes that were killed."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Child, fill
from flyring import Channel, Publisher, layout
from flyring.cli.check import examine
from flyring.cli.image import open_image
from flyring.cli.recover import Outcome, recover_channel
from flyring.cli.report import Finding

CAPACITY = 4096


def found(name: str = "dead") -> list[Finding]:
    with open_image(name) as image:
        return examine(image).found


def kinds(name: str = "dead") -> list[tuple[str, str]]:
    return sorted({(one.severity, one.kind) for one in found(name)})


def recovered(channel: Channel) -> Outcome:
    outcome = recover_channel(channel._attached)
    assert found() == []
    return outcome


class Dead:
    """Makes a ring of a publisher that wrote a few records and died: its lock is free, and it is not closed."""

    def __init__(self, alignment: int, laps: int) -> None:
        self.channel = Channel.create(
            "dead", "broadcast", capacity=CAPACITY, publishers=1, subscribers=2, counters=2, alignment=alignment
        )
        with self.channel.publisher("dead") as publisher:
            while publisher.position < laps * CAPACITY + 1000:
                publisher.offer(b"x" * 40)
            self.end, self.epoch = publisher.position, publisher.epoch
        self.memory, self.header = self.channel._attached.memory, self.channel.header
        self.trailer, self.slot = self.header.trailer(0), self.header.publisher_slot(0)
        self.memory.store32(self.slot + layout.PUBLISHER_SLOT_CLOSED, 0)
        self.word(layout.TRAILER_CLAIMED, self.end)
        self.record(self.end, 0, 0)
        self.count = self.memory.load64(self.trailer + layout.TRAILER_MESSAGES_DONE)

    def word(self, at: int, value: int) -> None:
        self.memory.store64(self.trailer + at, value)

    def record(self, position: int, length: int, kind: int) -> None:
        self.memory.write(self.header.ring(0) + position % CAPACITY, struct.pack("<ii", length, kind))


STEPS = ("nothing", "claimed", "cleared", "written", "committed", "begun", "published", "done")


@pytest.mark.parametrize("alignment", [64, 8])
@pytest.mark.parametrize("laps", [0, 3])
@pytest.mark.parametrize("messages", [1, 3])
@pytest.mark.parametrize("step", STEPS)
def test_a_publisher_that_died_in_each_step(step: str, messages: int, laps: int, alignment: int) -> None:
    dead = Dead(alignment, laps)
    n, reached = 64, STEPS.index(step)
    last = dead.end + n * messages
    if reached >= 1:
        dead.word(layout.TRAILER_CLAIMED, last)
    if reached >= 2:
        dead.record(last, 0, 0)
    if reached >= 3:
        for i in range(messages):
            dead.record(dead.end + n * i, 60 if i else 0, 5)
    if reached >= 4:
        dead.record(dead.end, 60, 5)
    if reached >= 5:
        dead.word(layout.TRAILER_MESSAGES_BEGUN, dead.count + messages)
    if reached >= 6:
        dead.word(layout.TRAILER_PUBLISHED, last)
    if reached >= 7:
        dead.word(layout.TRAILER_MESSAGES_DONE, dead.count + messages)
    expected = {
        "nothing": [],
        "claimed": [("left", "claim")],
        "cleared": [("left", "claim")],
        "written": [("left", "claim")],
        "committed": [("left", "unpublished")],
        "begun": [("left", "unpublished")],
        "published": [("left", "counts")],
        "done": [],
    }
    assert kinds() == expected[step]
    with dead.channel as channel:
        outcome = recovered(channel)
        assert [one["action"] for one in outcome.done] == (["ring"] if expected[step] else [])
        assert (outcome.failed, outcome.live) == ([], [])
        if step == "committed":
            assert f"{n * messages} committed bytes ({messages} messages)" in outcome.done[0]["what"]
        words = [
            dead.memory.load64(dead.trailer + at) for at in (layout.TRAILER_PUBLISHED, layout.TRAILER_MESSAGES_DONE)
        ]
        assert words == [last if reached >= 1 else dead.end, dead.count + (messages if reached >= 4 else 0)]
        with channel.subscriber() as subscriber, channel.publisher("dead") as publisher:
            assert publisher.offer(b"next")
            assert bytes(subscriber.take() or b"") == b"next"


class KilledError(Exception):
    pass


class Limited:
    """A memory that simulates a kill before its k-th store."""

    def __init__(self, memory: Any, stores: int) -> None:
        self.memory, self.left = memory, stores

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.memory, name)
        if name not in ("store32", "store64", "add64", "write"):
            return method

        def store(*arguments: Any) -> Any:
            if self.left == 0:
                raise KilledError
            self.left -= 1
            return method(*arguments)

        return store


def test_recover_may_be_killed_before_every_store() -> None:
    """After the kill, recover and the next owner can do it again with the same result."""
    results = set()
    for k in range(100):
        dead = Dead(64, 3)
        with dead.channel as channel:
            for i, length in enumerate((60, 60, 0)):
                dead.record(dead.end + 64 * i, length, 5)
            dead.word(layout.TRAILER_CLAIMED, dead.end + 64 * 4)
            leave_a_dead_subscriber(channel)
            memory, slot = dead.memory, channel.header.subscriber_slot(1)
            for at, value in (("KEPT", 1), ("EVICTING", 1), ("NAME_LENGTH", -1)):
                memory.store32(slot + getattr(layout, f"SUBSCRIBER_SLOT_{at}"), value)
            memory.store64(channel.header.gate(0, 1), dead.end)  # stored by the victim of an eviction before it died
            counter = channel.counters().allocate("freed", key=b"key")
            metadata = channel.header.counter_metadata_offset + 512 * counter.id
            memory.store32(metadata, layout.COUNTER_METADATA_STATE_RECLAIMED)
            assert {severity for severity, _ in kinds()} == {"left"}
            attached = replace(channel._attached, memory=Limited(memory, k))  # type: ignore[arg-type]
            try:
                recover_channel(attached)
                finished = True
            except KilledError:
                finished = False
            assert all(severity == "left" for severity, _ in kinds()), k
            recovered(channel)
            ring = memory.read(channel.header.rings_offset, channel.header.ring_stride)
            results.add(ring)
            Path(channel.path).unlink()
        if finished:
            break
    assert finished
    assert k > 12
    assert len(results) == 1


def leave_a_dead_subscriber(channel: Channel) -> None:
    """Leaves slot 0 like a subscriber that joined and died."""
    memory, header = channel._attached.memory, channel.header
    slot = header.subscriber_slot(0)
    memory.add64(slot + layout.SUBSCRIBER_SLOT_EPOCH, 1)
    for ring in range(header.publishers):
        published = memory.load64(header.trailer(ring) + layout.TRAILER_PUBLISHED)
        memory.store64(header.gate(ring, 0), published)


def test_a_ring_that_cannot_be_right_is_reported_and_not_touched() -> None:
    dead = Dead(64, 3)
    with dead.channel as channel:
        for words in (
            {layout.TRAILER_PUBLISHED: -64},
            {layout.TRAILER_PUBLISHED: 2**62},
            {layout.TRAILER_CLAIMED: dead.end - 64},
            {layout.TRAILER_CLAIMED: dead.end + 2 * CAPACITY},
            {layout.TRAILER_CLAIMED: dead.end + 65},
            {layout.TRAILER_CLAIMED: dead.end + 64, layout.TRAILER_MESSAGES_BEGUN: 5, 320: dead.end},
        ):
            before = dead.memory.read(dead.trailer, layout.TRAILER_LENGTH)
            for at, value in words.items():
                dead.word(at, value)
            dead.record(dead.end, 65, 5)
            damaged = Path(channel.path).read_bytes()
            outcome = recover_channel(channel._attached)
            assert [one["action"] for one in outcome.failed] == ["ring"], words
            assert Path(channel.path).read_bytes() == damaged
            assert any(one.severity == "broken" for one in found())
            dead.memory.write(dead.trailer, before)


def test_a_kept_slot_out_of_reach_is_reported_and_evict_helps() -> None:
    with Channel.create("dead", "broadcast", capacity=CAPACITY, publishers=1, subscribers=1) as channel:
        channel.subscriber("kept", kept=True).close()
        channel._attached.memory.store64(channel.header.gate(0, 0), 8 * CAPACITY)
        outcome = recover_channel(channel._attached)
        assert [one["action"] for one in outcome.failed] == ["kept"]
        assert kinds() == [("broken", "gate-range")]
        from flyring.cli import main

        assert main(["recover", "dead"]) == 1
        assert main(["evict", "dead", "0"]) == 0
        assert main(["recover", "dead"]) == 0
        assert found() == []
        with channel.subscriber("kept") as subscriber:
            assert (subscriber.slot, subscriber.kept) == (0, True)


def test_the_living_are_left_alone() -> None:
    with Channel.create("dead", "broadcast", capacity=CAPACITY, publishers=1, subscribers=2) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        other = channel.subscriber()
        publisher.offer(b"one")
        claim = publisher.claim(100)
        assert claim is not None
        before = Path(channel.path).read_bytes()
        outcome = recover_channel(channel._attached)
        assert outcome.live == ["subscriber 0", "subscriber 1", "publisher 0"]
        assert (outcome.done, outcome.failed) == ([], [])
        assert Path(channel.path).read_bytes() == before
        claim.commit()
        assert subscriber.poll(lambda message: None) == 2
        other.close()


PUBLISHER = """
import itertools, sys
from flyring import Channel
with Channel.open("dead") as channel:
    publisher = channel.publisher("victim")
    sequence = int(sys.argv[1])
    if len(sys.argv) > 2:
        claim = publisher.claim(200)
    print("ready", flush=True)
    if len(sys.argv) > 2:
        input()
    for i in itertools.count(sequence):
        way = i % 3
        data = b"%08d" % i + b"x" * (i * 7 % 150)
        if way == 0:
            while publisher.offer(data) is None: pass
        elif way == 1:
            while publisher.offer_batch([data]) == 0: pass
        else:
            while (claim := publisher.claim(len(data))) is None: pass
            claim[:] = data
            claim.commit()
"""


@pytest.mark.long
def test_publishers_killed_at_any_moment(child: Callable[..., Child]) -> None:
    """The leftovers break no rule, recover removes them, and a kept subscriber sees every message once."""
    left: set[str] = set()
    chance = random.Random(4)
    with Channel.create("dead", "broadcast", capacity=CAPACITY, publishers=1, subscribers=1) as channel:
        subscriber = channel.subscriber("all", kept=True)
        expected = 0

        def read(message: Any) -> None:
            nonlocal expected
            assert bytes(message)[:8] == b"%08d" % expected
            expected += 1

        for turn in range(12):
            victim = child(PUBLISHER, str(expected), *["with an open claim"][: turn == 5])
            assert victim.line() == "ready"
            end = time.monotonic() + chance.uniform(0.001, 0.05)
            while time.monotonic() < end:
                subscriber.poll(read)
            victim.kill()
            found_now = found()
            assert all(one.severity == "left" for one in found_now), found_now
            left |= {one.kind for one in found_now}
            outcome = recovered(channel)
            assert (outcome.failed, outcome.live) == ([], ["subscriber 0"])
            while subscriber.poll(read):
                pass
        assert expected > 0
        assert "claim" in left
        subscriber.close()


def test_killed_subscribers_hold_no_publisher_back_after_recover(child: Callable[..., Child]) -> None:
    code = """
    from flyring import Channel
    import sys
    with Channel.open("dead") as channel:
        subscriber = channel.subscriber(sys.argv[1], kept=sys.argv[1] == "kept")
        print(subscriber.slot, flush=True)
        while True:
            subscriber.take()
            input()
    """
    with Channel.create("dead", "broadcast", capacity=CAPACITY, publishers=2, subscribers=4) as channel:
        publisher = channel.publisher()
        children = [child(code, name) for name in ("kept", "plain", "alive")]
        slots = [int(one.line()) for one in children]
        publisher.offer(b"message")
        for one in children[:2]:
            one.kill()
        (gates,) = (one for one in found() if one.kind == "gate")
        assert gates.slot == f"subscriber {slots[1]}" and "rings 0, 1 " in gates.what
        outcome = recovered(channel)
        assert [(one["action"], one["where"]) for one in outcome.done] == [("retire", f"subscriber {slots[1]}")]
        assert outcome.live == [f"subscriber {slots[2]}", "publisher 0"]
        with channel.subscriber("kept") as kept:
            assert kept.slot == slots[0]
            assert bytes(kept.take() or b"") == b"message"
            held = publisher.held_by()
            assert held is not None
            assert held.slot != slots[1]


def test_recover_beside_a_publisher_that_waits(child: Callable[..., Child]) -> None:
    """A ring with a dead publisher's claim, and a dead gate, are freed while another process goes on."""
    with Channel.create("dead", "broadcast", capacity=CAPACITY, publishers=2, subscribers=2) as channel:
        publisher: Publisher = channel.publisher()
        victim = child(
            """
            from flyring import Channel
            with Channel.open("dead") as channel:
                subscriber, publisher = channel.subscriber(), channel.publisher()
                publisher.offer(b"x" * 200)
                claim = publisher.claim(500)
                print(publisher.ring, flush=True)
                input()
            """
        )
        assert victim.line() == "1"
        fill(publisher)
        victim.kill()
        assert kinds() == [("left", "claim"), ("left", "gate")]
        outcome = recover_channel(channel._attached)
        assert [one["action"] for one in outcome.done] == ["retire", "ring"]
        assert all(publisher.offer(b"%d" % i) for i in range(200))  # no gate holds the publisher back
        assert found() == []
