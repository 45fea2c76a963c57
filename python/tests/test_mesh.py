# SPDX-License-Identifier: Apache-2.0
"""Meshes: members that beat by messages, and note when they received the beats of the others (spec/channel.md 8.2)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from conftest import SPEC, in_child
from flyring import Channel, ClosedError, InvalidArgumentError, Mesh, Message, NoFreeSlotError
from flyring.mesh import BEAT, RECEIPT, TYPE, encode


def mesh_channel(publishers: int = 3) -> Channel:
    return Channel.create("m", "broadcast", capacity=16384, publishers=publishers, subscribers=0, counters=0)


def collect(channel: Channel, enough: Callable[[list[Message]], bool]) -> list[Message]:
    found: list[Message] = []
    give_up = time.monotonic() + 30
    with channel.lossy_subscriber(start="oldest") as reader:
        while not enough(found):
            assert time.monotonic() < give_up
            if (message := reader.take(1)) is not None:
                found.append(message)
    return found


def test_the_bytes_are_as_the_spec_says() -> None:
    golden = json.loads((SPEC / "golden/mesh.json").read_text())
    receipts = [(one["ring"], one["sequence"], one["sent"], one["received"]) for one in golden["receipts"]]
    assert encode(*golden["beat"].values(), receipts).hex() == golden["bytes"]
    assert TYPE == 1111834964


def test_members_beat_and_note_receipts() -> None:
    with mesh_channel() as channel, Mesh(channel, "a", 0.005) as a, Mesh(channel, "b", 0.005) as b:
        sent: dict[int, dict[int, int]] = {a.ring: {}, b.ring: {}}
        noted: dict[int, list[tuple[int, int, int, int]]] = {a.ring: [], b.ring: []}
        messages = collect(channel, lambda found: a.beats > 20 and b.beats > 20 and len(found) > 60)
        for message in messages:
            assert message.type == TYPE
            sequence, every, due, woke, at, count = BEAT.unpack_from(message.data)
            assert every == 5_000_000
            assert len(message) == BEAT.size + count * RECEIPT.size
            assert due <= woke <= at
            assert sequence == len(sent[message.ring])  # none is left out
            sent[message.ring][sequence] = at
            noted[message.ring] += [RECEIPT.unpack_from(message.data, BEAT.size + 32 * i) for i in range(count)]
        for own, other in ((a.ring, b.ring), (b.ring, a.ring)):
            assert len(noted[own]) > 10
            first = noted[own][0][1]
            for i, (ring, sequence, at, received) in enumerate(noted[own]):
                assert (ring, sequence) == (other, first + i)
                assert sent[other].get(sequence, at) == at <= received


def test_close_leaves_the_mesh() -> None:
    with mesh_channel() as channel:
        one = Mesh(channel, "a")
        assert channel.stats().publishers[one.ring].state == "live"
        begin = time.monotonic()
        one.close()
        one.close()
        assert time.monotonic() - begin < 5
        assert channel.stats().publishers[one.ring].state == "closed"


def test_the_close_of_the_channel_ends_the_thread() -> None:
    channel = mesh_channel()
    one = Mesh(channel, "a")
    channel.close()
    one._thread.join(30)
    assert not one._thread.is_alive()
    one.close()


def test_what_is_refused() -> None:
    with mesh_channel(2) as channel, mesh_channel_of("one", "broadcast", 1) as single, mesh_channel_of("i") as inbox:
        for argument, call in (
            ("name", lambda: Mesh(channel, "")),
            ("name", lambda: Mesh(channel, "a b")),
            ("every", lambda: Mesh(channel, "a", 0)),
            ("kind", lambda: Mesh(inbox, "a")),
            ("publishers", lambda: Mesh(single, "a")),
        ):
            with pytest.raises(InvalidArgumentError) as caught:
                call()
            assert caught.value.argument == argument
        with Mesh(channel, "a"), Mesh(channel, "b"), pytest.raises(NoFreeSlotError):
            Mesh(channel, "c")
    with pytest.raises(ClosedError):
        Mesh(channel, "a")


def mesh_channel_of(name: str, kind: str = "inbox", publishers: int = 2) -> Channel:
    return Channel.create(name, kind, capacity=4096, publishers=publishers, counters=0)  # type: ignore[arg-type]


def test_a_forked_child_is_no_member() -> None:
    with mesh_channel() as channel, Mesh(channel, "a") as one:
        in_child(one.close)
        beats = one.beats
        collect(channel, lambda found: one.beats > beats + 3)
