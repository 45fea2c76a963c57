# SPDX-License-Identifier: Apache-2.0
"""``flyring check`` on a channel that is written at full speed: no false findings, but real faults are still found."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from conftest import Child
from flyring import Channel, layout
from flyring.cli.check import check_once, examine
from flyring.cli.image import open_image
from flyring.cli.ring import read_words

WRITER = """
import itertools, random, sys
from flyring import Channel
chance = random.Random(sys.argv[1])
batch = [bytes(chance.randrange(120)) for _ in range(64)]
with Channel.open("busy") as channel:
    for turn in itertools.count():
        with channel.publisher(sys.argv[1]) as publisher:
            if not turn:
                print("ready", flush=True)
            for _ in range(1000):
                if sys.argv[1] == "batches":
                    publisher.offer_batch(batch)
                else:
                    for data in batch:
                        publisher.offer(data, 7)
                    claim = publisher.try_claim(100)
                    if claim is not None:
                        claim.abort()
"""
READER = """
import itertools
from flyring import Channel
with Channel.open("busy") as channel:
    for turn in itertools.count():
        with channel.subscriber("reader") as subscriber:
            if not turn:
                print("ready", flush=True)
            for _ in range(3000):
                subscriber.poll(lambda message: None)
"""


@pytest.mark.parametrize("reader", [False, True])
@pytest.mark.parametrize(("alignment", "capacity", "looks"), [(64, 4096, 60), (64, 1 << 16, 60), (8, 1 << 18, 30)])
@pytest.mark.long
def test_nothing_is_wrong_with_a_busy_channel(
    alignment: int, capacity: int, looks: int, reader: bool, child: Callable[..., Child]
) -> None:
    with Channel.create(
        "busy", "broadcast", capacity=capacity, alignment=alignment, publishers=2, subscribers=2
    ) as channel:
        writers = [child(WRITER, "batches"), child(WRITER, "offers")]
        assert [one.line() for one in writers] == ["ready", "ready"]
        if reader:
            assert child(READER).line() == "ready"
        ends = [channel.header.trailer(k) + layout.TRAILER_PUBLISHED for k in (0, 1)]
        before = [channel._attached.memory.load64(end) for end in ends]

        def busy() -> bool:
            after = [channel._attached.memory.load64(end) for end in ends]
            return all(new > old + 3 * capacity for old, new in zip(before, after, strict=True))

        records, done, deadline = 0, 0, time.monotonic() + 30
        with open_image("busy") as image:
            while done < looks or (not busy() and time.monotonic() < deadline):  # four processes may share two cores
                findings = examine(image)
                assert findings.found == []
                records += findings.records
                done += 1
        assert records > looks
        assert busy()


def test_what_is_wrong_is_found_beside_a_busy_ring(child: Callable[..., Child]) -> None:
    with Channel.create("busy", "broadcast", capacity=4096, publishers=2, subscribers=2) as channel:
        with channel.publisher("quiet") as quiet:
            quiet.offer(b"one")
            quiet.offer(b"two")
        assert child(WRITER, "offers").line() == "ready"
        header, memory = channel.header, channel._attached.memory
        with open_image("busy") as image:
            assert examine(image).found == []
            memory.store64(header.gate(1, 1), 2**62)  # of the busy ring
            memory.store32(header.ring(0) + 64, 7)  # the second record of the quiet one
            assert [(one.kind, one.ring) for one in check_once(image).found] == [("record", 0), ("gate", 1)]
            assert [(one.kind, one.ring) for one in examine(image).found] == [("record", 0), ("gate", 1)]


@pytest.mark.long
def test_words_are_read_in_an_order_in_which_the_rules_hold(child: Callable[..., Child]) -> None:
    """Reads a ring's words thousands of times while they change. The rules hold each time, without a second look."""
    with Channel.create("busy", "broadcast", capacity=4096, publishers=2, subscribers=2) as channel:
        assert [child(WRITER, name).line() for name in ("batches", "offers")] == ["ready", "ready"]
        header, memory, seen = channel.header, channel._attached.memory, set()
        for i in range(2_000_000):
            if i >= 20_000 and len(seen) > 100:  # on a busy machine the writers may have had little time
                break
            words = read_words(header, memory, i % 2)
            seen.add(words.published)
            assert words.published <= words.claimed <= (words.published_again | header.capacity - 1) + 1
            assert words.done <= words.begun
            assert all(position <= words.published and count <= words.begun for position, count in words.boundaries)
        assert len(seen) > 100
