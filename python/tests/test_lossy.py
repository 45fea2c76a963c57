# SPDX-License-Identifier: Apache-2.0
"""Reading without a slot: delivered messages are intact, and lost ones are counted exactly (spec/channel.md 6.10)."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Child, in_child
from flyring import (
    Channel,
    ClosedError,
    InvalidArgumentError,
    LossySubscriber,
    Message,
    Publisher,
    TwoThreadsError,
    ViewAliveError,
    layout,
)

Read = Callable[[LossySubscriber, Callable[[Message], None]], bool]


def by_poll(reader: LossySubscriber, handler: Callable[[Message], None]) -> bool:
    return reader.poll(handler, 7) > 0


def by_take(reader: LossySubscriber, handler: Callable[[Message], None]) -> bool:
    message = reader.take()
    if message is not None:
        handler(message)
    return message is not None


def by_peek(reader: LossySubscriber, handler: Callable[[Message], None]) -> bool:
    message = reader.peek()
    if message is None:
        return False
    position, copy = message.position, bytes(message)
    if reader.valid():
        handler(Whole(position, copy))  # type: ignore[arg-type]
    return True


class Whole:
    def __init__(self, position: int, data: bytes) -> None:
        self.position, self.data = position, data

    def __bytes__(self) -> bytes:
        return self.data

    def __len__(self) -> int:
        return len(self.data)


READS: list[Any] = [by_poll, by_take, by_peek]


RAMP = bytes(range(256)) * 5


def numbered(i: int, length: int) -> bytes:
    """Returns a number, followed by bytes that are unique to it."""
    return i.to_bytes(4, "little") + RAMP[i * 31 & 0xFF :][:length]


def append_number(to: list[int]) -> Callable[[Message], None]:
    return lambda message: to.append(int.from_bytes(message.data[:4], "little"))


class Truth:
    """Compares the delivered messages, and the counts of lost ones, with the published messages."""

    def __init__(self, reader: LossySubscriber, alignment: int, published: int = 0) -> None:
        self.reader, self.alignment = reader, alignment
        self.next = self.first = published
        self.start = reader.position(0)
        self.sent: dict[int, tuple[int, bytes]] = {}  # number: position, payload
        self.delivered = self.laps = self.bytes = 0

    def check(self, message: Message) -> None:
        data = bytes(message)
        number = int.from_bytes(data[:4], "little")
        position, payload = self.sent[number]
        assert (message.position, data) == (position, payload)
        assert number >= self.next
        self.delivered += 1
        self.next = number + 1
        # The skipped messages, and no others, are counted as lost.
        assert self.reader.lost_messages(0) == self.next - self.first - self.delivered
        self.laps = max(self.laps, self.reader.lost_bytes(0))
        self.bytes += -(-(8 + len(message)) // self.alignment) * self.alignment


def publish(publisher: Publisher, truth: Truth, count: int, rng: random.Random, longest: int = 900) -> None:
    for _ in range(count):
        number = truth.first + len(truth.sent)
        payload = numbered(number, rng.randrange(longest))
        end = publisher.offer(payload)
        truth.sent[number] = end - -(-(8 + len(payload)) // truth.alignment) * truth.alignment, payload


@pytest.mark.parametrize("alignment", [64, 8])
@pytest.mark.parametrize("read", READS)
def test_what_is_lost_is_counted_exactly(alignment: int, read: Read) -> None:
    rng = random.Random(alignment)
    with Channel.create("exact", "broadcast", capacity=4096, alignment=alignment, publishers=2) as channel:
        publisher, reader = channel.publisher("feed"), channel.lossy_subscriber()
        truth = Truth(reader, alignment)
        for _ in range(1500):
            publish(publisher, truth, rng.choice((0, 1, 2, 3, 20, 70)), rng)
            for _ in range(rng.randrange(8)):
                read(reader, truth.check)
        while read(reader, truth.check):
            pass
        assert reader.position(0) == publisher.position
        assert truth.delivered + reader.lost_messages(0) == len(truth.sent)
        assert truth.delivered > 1000
        assert truth.laps > 100 * 4096
        # Bytes that were neither lost nor delivered are padding, or the owner record.
        rest = publisher.position - truth.start - reader.lost_bytes(0) - truth.bytes
        assert 0 <= rest < publisher.position / 4
        assert (reader.lost_messages(1), reader.lost_bytes(1)) == (0, 0)


@pytest.mark.parametrize("alignment", [64, 8])
def test_the_bytes_lost_are_those_between_two_positions(alignment: int) -> None:
    with Channel.create("bytes", "broadcast", capacity=4096, alignment=alignment, publishers=1) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber(when_lapped="newest")
        for _ in range(1000):
            publisher.offer(bytes(48))
        assert reader.take() is None
        assert (reader.lost_messages(0), reader.lost_bytes(0)) == (1000, publisher.position)
        publisher.offer(b"next")
        assert bytes(reader.take() or b"") == b"next"
        assert reader.lost_messages(0) == 1000


PUBLISHER = """
    import random, sys, zlib, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher = channel.publisher("fast")
    rng, i = random.Random(5), 0
    bodies = [rng.randbytes(rng.randrange(900)) for _ in range(64)]
    bodies = [(zlib.crc32(body).to_bytes(4, "little"), body) for body in bodies]
    print("ready", flush=True)
    for line in sys.stdin:  # so many at full speed
        for i in range(i, i + int(line)):
            crc, body = bodies[i & 63]
            publisher.offer(i.to_bytes(4, "little") + crc + body)
        i += 1
        print(i, flush=True)
    publisher.close()
    print("closed", flush=True)
"""


@pytest.mark.parametrize("alignment", [64, 8])
@pytest.mark.parametrize("read", READS)
def test_a_publisher_at_full_speed_in_another_process(child: Callable[..., Child], alignment: int, read: Read) -> None:
    with (
        Channel.create("speed", "broadcast", capacity=65536, alignment=alignment, publishers=1) as channel,
        Channel.open("speed", read_only=True) as read_only,
    ):
        reader = read_only.lossy_subscriber()
        other = child(PUBLISHER, channel.path)
        assert other.line() == "ready"
        delivered, next_number, jumps = 0, 0, 0
        published = channel.header.trailer(0) + layout.TRAILER_PUBLISHED

        def check(message: Message) -> None:
            nonlocal delivered, next_number, jumps
            data = bytes(message)
            number = int.from_bytes(data[:4], "little")
            assert zlib.crc32(data[8:]) == int.from_bytes(data[4:8], "little"), "torn"
            assert number >= next_number
            jumps += number > next_number
            delivered += 1
            next_number = number + 1
            assert reader.lost_messages(0) == next_number - delivered

        for turn in range(12):
            # Fewer messages than the ring holds: all are delivered.
            before = delivered
            other.say("20")
            total = int(other.line())
            while read(reader, check):
                pass
            assert delivered == before + 20
            # Several laps: the reader loses some.
            other.say("1000")
            total = int(other.line())
            while read(reader, check):
                pass
            assert delivered + reader.lost_messages(0) == total
            # Several laps while it reads: all losses are counted.
            total += 1000 + 500 * turn
            other.say(str(1000 + 500 * turn))
            while delivered + reader.lost_messages(0) < total:
                read(reader, check)
            assert int(other.line()) == total
            assert reader.position(0) == channel._attached.memory.load64(published)
        assert not reader.ended(0)
        other.process.stdin.close()  # type: ignore[union-attr]
        assert other.line() == "closed"
        assert reader.ended(0)
        assert jumps >= 11  # after the last laps, a loss may not show in any message
        assert reader.lost_bytes(0) > 12 * 65536


def test_lapped_while_the_ring_looks_empty() -> None:
    with Channel.create("empty", "broadcast", capacity=4096, publishers=1) as channel:
        memory, header = channel._attached.memory, channel.header
        with channel.publisher() as publisher:
            publisher.offer(b"the owner record is before this one")
            reader = channel.lossy_subscriber(when_lapped="newest")
            cursor = reader.position(0)
            sent = 0
            # Cleared ahead up to the reader's cursor: the length 0 there belongs to the next lap.
            while memory.load64(header.trailer(0) + layout.TRAILER_CLAIMED) < cursor + 4096:
                publisher.offer(b"x")
                sent += 1
            assert memory.load32(header.ring(0) + cursor % 4096) == 0
            assert publisher.position < cursor + 4096
            assert reader.take() is None
            assert (reader.lost_messages(0), reader.position(0)) == (sent, publisher.position)
            publisher.offer(b"after")
            assert bytes(reader.take() or b"") == b"after"


@pytest.mark.parametrize("read", READS)
def test_the_very_lap_counts_for_the_zero_behind_it_is_written_first(read: Read) -> None:
    with Channel.create("edge", "broadcast", capacity=4096, publishers=1) as channel, channel.publisher() as publisher:
        reader = channel.lossy_subscriber()
        for _ in range(3):
            publisher.offer(b"x")
        got: list[Message] = []
        memory, claimed = channel._attached.memory, channel.header.trailer(0) + layout.TRAILER_CLAIMED
        assert read(reader, got.append) and got  # over the owner record, too
        cursor = reader.position(0)
        delivered = len(got)
        memory.store64(claimed, cursor + 4096 - 64)
        if delivered < 3:
            assert read(reader, got.append)
            assert (len(got), reader.lost_messages(0)) == (delivered + 1, 0)
        publisher.offer(b"y")
        cursor, delivered = reader.position(0), len(got)
        memory.store64(claimed, cursor + 4096)  # the zero of the next lap may be at the cursor already
        while read(reader, got.append):
            pass
        assert (len(got), reader.lost_messages(0)) == (delivered, 4 - delivered)


# Where it starts


@pytest.mark.parametrize("alignment", [64, 8])
def test_the_oldest_message_that_is_still_there(alignment: int) -> None:
    rng = random.Random(alignment)
    with Channel.create("oldest", "broadcast", capacity=4096, alignment=alignment, publishers=1) as channel:
        publisher = channel.publisher("feed")
        everything = Truth(channel.lossy_subscriber(), alignment)
        late = 0
        for _ in range(300):
            publish(publisher, everything, rng.randrange(1, 20), rng, 300)
            with channel.lossy_subscriber(start="oldest") as reader:
                got: list[int] = []
                start = reader.position(0)
                reader.poll(append_number(got))
                assert got == list(range(len(everything.sent) - len(got), len(everything.sent)))
                assert (reader.lost_messages(0), reader.lost_bytes(0)) == (0, 0)
                late += start > 0
                # At most an eighth, the bytes cleared ahead, and the ring's unused end are given up.
                if late:
                    assert publisher.position - start >= 4096 - 512 - 512 - 320 - 512
            with channel.lossy_subscriber(start="now") as reader:
                assert reader.take() is None
        assert late > 200


def test_losses_after_a_start_at_the_oldest_are_exact_too() -> None:
    rng = random.Random(1)
    with Channel.create("since", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, first = channel.publisher(), channel.lossy_subscriber(when_lapped="newest")
        everything = Truth(first, 64)
        publish(publisher, everything, 200, rng)
        with channel.lossy_subscriber(start="oldest", when_lapped="newest") as reader:
            start = reader.position(0)
            older = sum(position < start for position, _ in everything.sent.values())
            assert 150 < older < 200
            publish(publisher, everything, 100, rng)
            assert reader.poll(lambda message: None) == 0
            assert reader.lost_messages(0) == 300 - older


def test_rings_and_starts_that_cannot_be() -> None:
    with Channel.create("args", "broadcast", publishers=2) as channel:
        for rings in ([], [2], [-1]):
            with pytest.raises(InvalidArgumentError, match="rings"):
                channel.lossy_subscriber(rings)
        with pytest.raises(InvalidArgumentError, match="start"):
            channel.lossy_subscriber(start="then")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="wait"):
            channel.lossy_subscriber(wait="sleep")  # type: ignore[arg-type]
        with channel.lossy_subscriber([1, 1]) as reader:
            assert reader.rings == (1,)
            for ask in (reader.position, reader.lost_messages, reader.lost_bytes, reader.ended):
                with pytest.raises(InvalidArgumentError, match="ring"):
                    ask(0)


def test_it_needs_no_slot_and_holds_no_publisher_back() -> None:
    with Channel.create("noslot", "broadcast", capacity=4096, subscribers=0) as channel:
        readers = [channel.lossy_subscriber(when_lapped="newest") for _ in range(20)]
        publisher = channel.publisher()
        for _ in range(1000):
            assert publisher.offer(bytes(500))
        assert publisher.held_by() is None
        assert all(reader.take() is None and reader.lost_messages(publisher.ring) == 1000 for reader in readers)


# Peek


def test_a_message_peeked_at_is_consumed_by_valid_only() -> None:
    with Channel.create("peek", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, reader = channel.publisher("feed"), channel.lossy_subscriber()
        with pytest.raises(InvalidArgumentError, match="peeked"):
            reader.valid()
        assert reader.peek() is None
        publisher.offer(b"one", 5)
        publisher.offer(b"two")
        for _ in range(3):
            message = reader.peek()
            assert message is not None
            assert (bytes(message), message.type, message.ring, message.position) == (b"one", 5, 0, 64)
        assert reader.valid()
        assert message is not None
        with pytest.raises(ClosedError):
            bytes(message)
        with pytest.raises(InvalidArgumentError):
            reader.valid()
        assert reader.peek() == b"two"
        assert bytes(reader.take() or b"") == b"two"  # a take instead of valid
        with pytest.raises(InvalidArgumentError):
            reader.valid()


def test_a_message_overwritten_while_it_was_peeked_at_is_not_valid() -> None:
    with Channel.create("over", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber(when_lapped="newest")
        for i in range(3):
            publisher.offer(b"%d" % i)
        assert reader.take() == b"0"
        message = reader.peek()
        assert message == b"1"
        for _ in range(100):
            publisher.offer(b"later")
        assert message is not None
        assert bytes(message) != b"1"  # the message lies in the ring
        assert not reader.valid()
        assert (reader.lost_messages(0), reader.position(0)) == (102, publisher.position)
        publisher.offer(b"next")
        assert reader.peek() == b"next"
        assert reader.valid()
        assert reader.lost_messages(0) == 102


# Views, threads, forks, closing


@pytest.mark.parametrize("keep", [memoryview, lambda message: message.data[:2]])
def test_views_that_outlive_their_handler_are_reported(keep: Callable[[Message], memoryview]) -> None:
    with Channel.create("views", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber(when_lapped="newest")
        publisher.offer(b"precious")
        kept: list[memoryview] = []
        with pytest.raises(ViewAliveError):
            reader.poll(lambda message: kept.append(keep(message)))
        for i in range(100):
            publisher.offer(b"%08d" % i)
        uses: list[Callable[[], Any]] = [reader.take, reader.peek, lambda: reader.poll(print), reader.close]
        for use in uses:
            with pytest.raises(ViewAliveError):
                use()
        assert b"precious".startswith(bytes(kept[0]))
        kept[0].release()
        publisher.offer(b"on")
        assert reader.take() is None
        publisher.offer(b"on")
        message = reader.peek()
        assert message is not None
        view = message.data
        assert reader.valid()  # valid may be called while the export is alive
        for use in uses:
            with pytest.raises(ViewAliveError):
                use()
        assert bytes(view) == b"on"
        with pytest.raises(ClosedError):
            message.data  # noqa: B018
        view.release()
        assert reader.take() is None
        reader.close()


def test_a_view_keeps_its_reader_and_the_mapping() -> None:
    channel = Channel.create("keeps", "broadcast", capacity=4096, publishers=1)
    publisher, reader = channel.publisher(), channel.lossy_subscriber()
    publisher.offer(b"still there")
    message = reader.peek()
    assert message is not None
    view = message.data
    del message
    with pytest.raises(ViewAliveError):
        channel.close()
    assert bytes(view) == b"still there"
    view.release()
    channel.close()
    assert reader.closed


def test_a_handler_neither_calls_back_nor_closes_and_its_error_gets_out() -> None:
    with Channel.create("rules", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber()
        publisher.offer(b"x")
        publisher.offer(b"y")
        seen: list[type[Exception]] = []

        def handler(message: Message) -> None:
            uses: list[Callable[[], Any]] = [reader.take, reader.peek, reader.valid, lambda: reader.poll(print)]
            for use in uses:
                with pytest.raises(TwoThreadsError):
                    use()
            with pytest.raises(ViewAliveError):
                reader.close()
            seen.append(LookupError)
            raise LookupError(bytes(message).decode())

        for text in ("x", "y"):
            with pytest.raises(LookupError, match=text):
                reader.poll(handler)
        assert len(seen) == 2
        assert reader.take() is None


def test_a_forked_child_and_a_closed_reader_are_told() -> None:
    with Channel.create("forks", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber()
        publisher.offer(b"x")
        uses: list[Callable[[], Any]] = [
            reader.take,
            reader.peek,
            reader.valid,
            lambda: reader.poll(print),
            lambda: reader.ended(0),
            channel.lossy_subscriber,
        ]

        def all_closed(match: str) -> None:
            for use in uses:
                with pytest.raises(ClosedError, match=match):
                    use()

        in_child(lambda: all_closed("parent"))
        assert bytes(reader.take() or b"") == b"x"
    all_closed("closed")
    reader.close()
    assert (reader.lost_messages(0), "closed" in repr(reader)) == (0, True)


@pytest.mark.parametrize("wait", ["block", "spin", "yield", "backoff"])
def test_waiting(child: Callable[..., Child], wait: Any) -> None:
    with Channel.create("waits", "broadcast", publishers=1) as channel:
        reader = channel.lossy_subscriber(wait=wait)
        start = time.monotonic()
        assert reader.take(timeout=0.02) is None
        assert reader.poll(print, timeout=0.02) == 0
        assert 0.04 <= time.monotonic() - start < 2
        other = child(PUBLISHER, channel.path)
        assert other.line() == "ready"
        other.say("20")
        assert reader.poll(lambda message: None, 1, timeout=10) == 1
        assert reader.take(timeout=10) is not None


def test_nothing_leaks_and_a_poll_allocates_nothing_for_a_message() -> None:
    import gc
    import sys

    with Channel.create("leaks", "broadcast", capacity=65536, publishers=1) as channel:
        publisher, reader = channel.publisher("p"), channel.lossy_subscriber()
        kept: list[Message] = []

        def keep(message: Message) -> None:
            kept.append(message)
            assert message.sender

        def everything() -> None:
            publisher.offer(b"12345678")
            publisher.offer(b"1")
            publisher.offer(b"12")
            publisher.offer(b"123")
            assert reader.take() == b"12345678"
            reader.peek()
            message = reader.peek()
            assert message is not None
            assert message.data.nbytes == 1
            assert reader.valid()
            assert message.sender.name == "p"
            reader.poll(keep)
            assert [message.sender.epoch for message in kept] == [1, 1]
            kept.clear()
            with channel.lossy_subscriber(start="oldest") as other:
                other.peek()

        def counted(rounds: int) -> tuple[int, int]:
            for _ in range(rounds):
                everything()
            gc.collect()
            return sys.getrefcount(None), sys.getallocatedblocks()

        counted(100)
        before, after = counted(100), counted(600)
        assert all(abs(a - b) < 200 for a, b in zip(before, after, strict=True)), (before, after)
