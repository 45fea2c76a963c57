# SPDX-License-Identifier: Apache-2.0
"""Slots: their owners, and what dead owners leave (spec/channel.md 5, 6.7, 6.8)."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import Child, drain
from flyring import (
    BackPressuredError,
    Channel,
    ChannelDiffersError,
    CorruptRingError,
    InvalidArgumentError,
    NoFreeSlotError,
    SlotLostError,
    layout,
    slots,
)
from flyring._identity import Identity
from flyring.system import new_lock

Start = Callable[..., Child]

OWNER = """
    import sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    owned = eval(sys.argv[2])
    print("owned", flush=True)
    sys.stdin.read()
"""


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.001)


def test_when_all_slots_are_owned_there_is_no_free_slot() -> None:
    with Channel.create("full", "broadcast", publishers=2, subscribers=1) as channel:
        one, two, subscriber = channel.publisher("a"), channel.publisher(), channel.subscriber()
        for take, kind, count in ((channel.publisher, "publisher", 2), (channel.subscriber, "subscriber", 1)):
            with pytest.raises(NoFreeSlotError) as caught:
                take()
            assert (caught.value.kind, caught.value.slots) == (kind, count)
        with pytest.raises(NoFreeSlotError, match="'a'"):
            channel.publisher("a")
        one.close()
        subscriber.close()
        with channel.publisher("b") as again, channel.subscriber() as reader:
            assert (again.ring, reader.slot) == (one.ring, 0)
        two.close()


def test_a_channel_without_subscriber_slots_takes_any_number_of_messages() -> None:
    with Channel.create("none", "broadcast", subscribers=0, capacity=4096) as channel, channel.publisher() as publisher:
        with pytest.raises(NoFreeSlotError, match="no subscriber slots"):
            channel.subscriber()
        for _ in range(1000):
            assert publisher.offer(bytes(100))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_slot_is_free_again_when_its_owner_is_gone(child: Start, how: int) -> None:
    with Channel.create("gone", "broadcast", publishers=1, subscribers=1) as channel:
        for what in ("channel.publisher()", "channel.subscriber()"):
            owner = child(OWNER, channel.path, what)
            assert owner.line() == "owned"
            with pytest.raises(NoFreeSlotError):
                eval(what)
            owner.process.send_signal(how)
            owner.process.wait()
            eval(what).close()


def test_a_name_gives_the_same_ring_back() -> None:
    with Channel.create("names", "broadcast") as channel:
        with channel.publisher("a") as a, channel.publisher("b") as b:
            rings = {"a": a.ring, "b": b.ring}
            b.offer(b"x")
        cleared = 64 + 64 + 2048  # start of ring 1, owner record, and the window W, cleared ahead (publish 3)
        with channel.publisher() as unnamed:
            assert unnamed.ring not in rings.values()
            with channel.publisher("b") as b:
                assert (b.ring, b.epoch, b.name, b.position) == (rings["b"], 2, "b", cleared)
                with channel.publisher("a") as a:
                    assert a.ring == rings["a"]
                    third = channel.publisher("c")
                    assert channel.publishers == 4
                    assert third.ring not in (*rings.values(), unnamed.ring)
        with pytest.raises(InvalidArgumentError):
            channel.publisher("a b")


def test_a_new_owner_of_a_ring_announces_itself_in_an_owner_record() -> None:
    with Channel.create("owner", "broadcast", alignment=8, capacity=4096) as channel:
        with channel.publisher("first") as first:
            first.offer(b"1")
        channel.publisher("second").close()
        with channel.publisher("first") as again:
            again.offer(b"2")
            memory, at = channel._attached.memory, channel.header.ring(0)
        records = []
        position = 0
        while (length := memory.load32(at + position)) > 0:
            kind = memory.load32(at + position + 4)
            records.append((kind, memory.read(at + position + 8, length - 8)))
            position += -(-length // 8) * 8
        assert records == [
            (layout.TYPE_OWNER, struct.pack("<qi", 1, 5) + b"first"),
            (1, b"1"),
            (layout.TYPE_OWNER, struct.pack("<qi", 2, 5) + b"first"),
            (1, b"2"),
        ]


KILLED_IN_A_CLAIM = """
    import os, signal, sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher = channel.publisher("p")
    for i in range(int(sys.argv[2])):
        publisher.offer(b"committed %d" % i)
    claim = publisher.claim(500)
    claim[:] = b"\\xff" * 500
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("alignment", [64, 8])
@pytest.mark.parametrize("count", range(0, 40, 3))
def test_a_publisher_killed_within_a_claim_leaves_what_it_committed(child: Start, count: int, alignment: int) -> None:
    with Channel.create("dies", "broadcast", capacity=4096, alignment=alignment, publishers=1) as channel:
        subscriber = channel.subscriber()
        victim = child(KILLED_IN_A_CLAIM, channel.path, str(count))
        assert victim.process.wait() == -signal.SIGKILL
        with channel.publisher() as heir:
            assert heir.name == ""
            heir.offer(b"next")
            messages = []
            while message := subscriber.take():
                messages.append(bytes(message))
        assert messages == [b"committed %d" % i for i in range(count)] + [b"next"]


def test_a_ring_whose_last_record_was_committed_but_not_published_loses_nothing() -> None:
    with Channel.create("between", "broadcast", capacity=4096, publishers=1) as channel:
        subscriber = channel.subscriber()
        with channel.publisher() as publisher:
            publisher.offer(b"one")
            before = publisher.position
            publisher.offer_batch([b"two", b"three"])
        memory, trailer = channel._attached.memory, channel.header.trailer(0)
        memory.store64(trailer + layout.TRAILER_PUBLISHED, before)  # as if killed between publish 6 and 7
        memory.store64(trailer + layout.TRAILER_MESSAGES_DONE, 1)
        with channel.publisher() as heir:
            assert heir.position == 64 + 512  # the owner record and W, which was cleared ahead
            assert memory.load64(trailer + layout.TRAILER_MESSAGES_DONE) == 3
            heir.offer(b"four")
            got = [bytes(m) for _ in range(5) if (m := subscriber.take())]
        assert got == [b"one", b"two", b"three", b"four"]


def test_a_recovery_that_was_killed_half_way_is_done_again_with_the_right_count() -> None:
    with Channel.create("again", "broadcast", capacity=4096, publishers=1) as channel:
        subscriber = channel.subscriber()
        with channel.publisher() as publisher:
            publisher.offer(b"one")
            end = publisher.position
        memory, trailer, data = channel._attached.memory, channel.header.trailer(0), channel.header.ring(0)
        claimed = memory.load64(trailer + layout.TRAILER_CLAIMED)
        memory.store64(trailer + layout.TRAILER_MESSAGES_DONE, 1)
        # As if a recovery was killed after its step 4: the padding is there, but published is not moved yet.
        memory.store32(data + end + layout.RECORD_TYPE, layout.TYPE_PADDING)
        memory.store32(data + end + layout.RECORD_LENGTH, claimed - end)
        with channel.publisher() as heir:
            assert (heir.position, memory.load64(trailer + layout.TRAILER_MESSAGES_DONE)) == (claimed, 1)
            heir.offer(b"two")
        assert [bytes(m) for _ in range(3) if (m := subscriber.take())] == [b"one", b"two"]


def test_an_owner_killed_before_its_last_count_loses_none() -> None:
    with Channel.create("count", "broadcast", capacity=4096, publishers=1) as channel:
        with channel.publisher() as publisher:
            publisher.offer(b"one")
        memory, trailer = channel._attached.memory, channel.header.trailer(0)
        memory.store64(trailer + layout.TRAILER_MESSAGES_DONE, 0)  # as if killed in publish 7, before its last store
        with channel.publisher():
            assert memory.load64(trailer + layout.TRAILER_MESSAGES_DONE) == 1


def test_a_dead_subscriber_does_not_hold_its_publisher_back(child: Start) -> None:
    with Channel.create("dead", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        reader = child(OWNER, channel.path, "channel.subscriber('reader')")
        assert reader.line() == "owned"
        while publisher.offer(bytes(100)):
            pass
        time.sleep(0.005)
        assert publisher.offer(bytes(100)) is None
        reader.process.send_signal(signal.SIGSTOP)
        time.sleep(0.005)
        assert publisher.offer(bytes(100)) is None  # stopped, but not dead
        reader.kill()
        start = time.monotonic()
        assert publisher.send(bytes(100), timeout=10)
        assert time.monotonic() - start < 5
        assert publisher.held_by() is None
        until(lambda: publisher.offer(bytes(100)) is not None)


def test_a_dead_kept_subscriber_is_waited_for(child: Start) -> None:
    with Channel.create("deadkept", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        reader = child(OWNER, channel.path, "channel.subscriber('log', kept=True)")
        assert reader.line() == "owned"
        pid = reader.process.pid
        sent = 0
        while publisher.offer(b"%d" % sent):
            sent += 1
        reader.kill()
        with pytest.raises(BackPressuredError):
            publisher.send(b"more", timeout=0.05)
        holder = publisher.held_by()
        assert holder is not None
        assert (holder.name, holder.live, holder.kept, holder.pid) == ("log", False, True, pid)
        with channel.subscriber("log") as log:
            assert [bytes(log.take() or b"") for _ in range(sent)] == [b"%d" % i for i in range(sent)]


def test_a_subscriber_that_lost_its_slot_is_told_and_writes_nothing_more() -> None:
    with Channel.create("lost", "broadcast", capacity=4096) as channel:
        memory, header = channel._attached.memory, channel.header
        subscriber, publisher = channel.subscriber(), channel.publisher()
        publisher.offer(b"x")
        memory.add64(header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_EPOCH, 1)
        for _ in range(2):
            for attempt in (subscriber.take, lambda: subscriber.poll(print)):
                with pytest.raises(SlotLostError) as caught:
                    attempt()
                assert (caught.value.kind, caught.value.slot) == ("subscriber", 0)
        assert [memory.load64(header.gate(ring, 0)) for ring in range(4)] == [-1] * 4
        with channel.subscriber() as next_one:
            assert next_one.slot == 0
            claim = publisher.claim(8)
            assert claim is not None
            memory.add64(header.publisher_slot(0) + layout.PUBLISHER_SLOT_EPOCH, 1)
            before = Path(channel.path).read_bytes()
            with pytest.raises(SlotLostError) as lost:
                claim.commit()
            assert (lost.value.kind, lost.value.slot) == ("publisher", 0)
            uses: list[Callable[[], Any]] = [
                lambda: publisher.offer(b""),
                lambda: publisher.claim(1),
                lambda: publisher.offer_batch([]),
            ]
            for use in uses:
                with pytest.raises(SlotLostError):
                    use()
            publisher.close()
            assert Path(channel.path).read_bytes() == before
            assert next_one.take() is None


def test_a_file_of_another_boot_is_taken_over(folder: Path) -> None:
    with Channel.create("boot", "inbox", capacity=4096) as channel, channel.publisher("p") as publisher:
        publisher.offer(b"before the reboot")
        claim = publisher.claim(10)
        assert claim is not None
        frozen = Path(channel.path).read_bytes()
        claim.abort()
    (folder / "boot.ring").write_bytes(frozen)
    at = layout.HEADER_LENGTH + layout.CONTROL_BOOT_ID
    with (folder / "boot.ring").open("r+b") as raw:
        raw.seek(at)
        raw.write(bytes(16))
    with Channel.open("boot") as channel, channel.publisher("p") as publisher:
        assert Path(channel.path).read_bytes()[at : at + 16] == Identity().this_boot().bytes
        publisher.offer(b"after it")
        with channel.subscriber() as subscriber:
            got = [bytes(m) for _ in range(3) if (m := subscriber.take())]
    assert got == [b"before the reboot", b"after it"]


@pytest.mark.parametrize(
    ("published", "claimed"),
    [(-64, -64), (64, 0), (8, 64), (0, 8192), (0, 4096 + 64), (2**62, 2**62), (64, 65), (2**63 - 64, 0)],
)
def test_a_ring_that_cannot_be_right_is_not_taken(published: int, claimed: int) -> None:
    with Channel.create("wrong", "broadcast", capacity=4096, publishers=2) as channel:
        memory, trailer = channel._attached.memory, channel.header.trailer(0)
        memory.store64(trailer + layout.TRAILER_PUBLISHED, published)
        memory.store64(trailer + layout.TRAILER_CLAIMED, claimed)
        with pytest.raises(CorruptRingError) as caught:
            channel.publisher()
        assert caught.value.ring == 0
        if published % 64 or published < 0 or published >= 2**62:
            with pytest.raises(CorruptRingError):
                channel.subscriber()
            assert [memory.load64(channel.header.gate(ring, 0)) for ring in range(2)] == [-1, -1]


def test_a_slot_that_becomes_free_in_ten_milliseconds_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tries come every millisecond, and the control lock is free between them (5.2, 2)."""
    with Channel.create("patience", "broadcast", publishers=1, subscribers=1) as channel:
        again: Any
        waits: list[float] = []
        owner: list[Any] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            lock = new_lock(channel._attached.file, channel.path)
            assert lock.try_lock(channel.header.control_offset)
            lock.close()
            if len(waits) == 3 and owner:
                owner.pop().close()

        clock = SimpleNamespace(sleep=sleep, monotonic=lambda: sum(waits))
        monkeypatch.setattr(slots, "time", clock)
        for take in (channel.publisher, channel.subscriber):
            first: Any = take()
            owner.append(first)
            again = take()
            assert (waits, again.epoch) == ([0.001] * 3, first.epoch + 1)
            waits.clear()
            with pytest.raises(NoFreeSlotError):
                take()
            assert waits[:10] == [0.001] * 10 and len(waits) <= 11
            waits.clear()
            again.close()


def test_the_control_lock_is_free_after_failures(child: Start) -> None:
    with Channel.create("control", "broadcast", publishers=1) as channel:
        first = channel.publisher()
        for _ in range(3):
            with pytest.raises(NoFreeSlotError):
                channel.publisher()
        with pytest.raises(InvalidArgumentError):
            channel.subscriber(kept=True)
        start = time.monotonic()
        channel.subscriber().close()
        assert time.monotonic() - start < 1
        first.close()
    assert os.environ["FLYRING_DIR"]


def test_a_kept_slot_resumes_where_it_was() -> None:
    with Channel.create("kept", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher()
        with channel.subscriber("log", kept=True, rings=[0, 2]) as log:
            slot = log.slot
            publisher.offer(b"seen")
            assert drain(log) == [b"seen"]
        publisher.offer(b"while away")
        with channel.subscriber("other") as other:
            assert other.slot != slot
        with pytest.raises(ChannelDiffersError, match="rings"):
            channel.subscriber("log", rings=[1])
        with channel.subscriber("log") as log:
            assert (log.slot, log.kept, log.rings) == (slot, True, (0, 2))
            with pytest.raises(NoFreeSlotError):
                channel.subscriber("log")
            assert drain(log) == [b"while away"]
        while publisher.offer(bytes(500)):
            pass
        with channel.subscriber("log") as log:
            log.forget()
            assert log.closed
        assert publisher.offer(bytes(500))
        with channel.subscriber() as anybody:
            assert (anybody.slot, anybody.kept) == (slot, False)
        with pytest.raises(InvalidArgumentError, match="name"):
            channel.subscriber(kept=True)
