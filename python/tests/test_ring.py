# SPDX-License-Identifier: Apache-2.0
"""Messages arrive as they were sent: sizes, wraps, order, back-pressure, batches, claims, kept slots."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy
import pytest

import flyring
from conftest import SPEC, drain
from flyring import (
    Action,
    Channel,
    ClosedError,
    InvalidArgumentError,
    Message,
    MessageTooLargeError,
    Publisher,
    SlotLostError,
    TwoThreadsError,
    ViewAliveError,
    layout,
)
from flyring.sbe import Schema
from flyring.system import control_lock, new_lock

PRICES: Any = Schema.load(SPEC / "sbe" / "prices.xml")


@pytest.mark.parametrize("alignment", [64, 8])
@pytest.mark.parametrize("capacity", [4096, 1 << 20])
def test_messages_of_0_1_the_most_and_too_many_bytes(capacity: int, alignment: int) -> None:
    with Channel.create("sizes", "broadcast", capacity=capacity, alignment=alignment) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        most = publisher.max_message_length
        assert most == capacity // 4 - 8
        for length in (0, 1, most - 1, most):
            data = random.Random(length).randbytes(length)
            assert publisher.offer(data, type=length + 1)
            message = subscriber.take()
            assert message is not None
            assert (bytes(message), message.type, message.ring) == (data, length + 1, 0)
        before = publisher.position
        for attempt in (publisher.offer, lambda data: publisher.claim(len(data))):
            with pytest.raises(MessageTooLargeError) as caught:
                attempt(bytes(most + 1))
            assert (caught.value.length, caught.value.limit) == (most + 1, most)
        with pytest.raises(MessageTooLargeError):
            publisher.offer_batch([b"small", bytes(most + 1)])
        assert publisher.position == before
        assert subscriber.take() is None


@pytest.mark.parametrize("alignment", [64, 8])
def test_the_ring_wraps_at_every_possible_offset(alignment: int) -> None:
    padded = 0
    with Channel.create("wrap", "broadcast", capacity=4096, alignment=alignment, publishers=1) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        publisher.offer(b"the owner record comes first")
        drain(subscriber)
        for start in range(0, 4096, alignment):
            for length in (1016, 1, alignment - 8, 500):
                while publisher.position % 4096 != start:
                    publisher.offer(b"")
                    assert drain(subscriber) == [b""]
                data = random.Random(start).randbytes(length)
                size = -(-(8 + length) // alignment) * alignment
                padding = 4096 - start if start + size > 4096 else 0
                assert publisher.offer(data) % 4096 == (start + padding + size) % 4096
                assert drain(subscriber) == [data]
                padded += padding > 0
    assert padded > 1024 // alignment


def test_messages_of_random_sizes_come_in_order() -> None:
    rng = random.Random(7)
    with Channel.create("random", "broadcast", capacity=8192, publishers=1, alignment=8) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        sent: list[bytes] = []
        got: list[bytes] = []
        for i in range(20_000):
            data = struct.pack("<q", i) + rng.randbytes(rng.randrange(0, 700))
            while publisher.offer(data) is None:
                assert subscriber.poll(lambda message: got.append(bytes(message)), rng.randrange(1, 10)) > 0
            sent.append(data)
        got += drain(subscriber)
        assert got == sent


def test_position_is_where_the_record_begins() -> None:
    with Channel.create("position", "broadcast", capacity=4096) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        ends = [publisher.offer(b"x" * 100), publisher.offer(b"y")]
        first, second = subscriber.take(), subscriber.take()
        assert first is not None
        assert second is not None
        assert (first.position, second.position) == (64, ends[0])
        assert subscriber.position(0) == ends[1] == publisher.position
        with pytest.raises(InvalidArgumentError):
            subscriber.position(4)


@pytest.mark.parametrize("kind", [0, -1, -2, 2**31, -(2**31), 2**70])
def test_types_below_one_or_too_large_are_refused(kind: int) -> None:
    with Channel.create("types", "broadcast") as channel, channel.publisher() as publisher:
        calls: list[Callable[[], Any]] = [
            lambda: publisher.offer(b"", kind),
            lambda: publisher.claim(1, kind),
            lambda: publisher.offer_batch([b""], kind),
        ]
        for attempt in calls:
            with pytest.raises(InvalidArgumentError, match="type"):
                attempt()
        assert publisher.offer(b"", 2**31 - 1)


def test_any_buffer_can_be_offered_and_nothing_else() -> None:
    with Channel.create("buffers", "broadcast") as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        buffers: list[Any] = [b"abcd", bytearray(b"abcd"), memoryview(b"xabcdx")[1:5], memoryview(b"abcd").cast("I")]
        for data in buffers:
            publisher.offer(data)
            assert bytes(subscriber.take() or b"") == b"abcd"
        for bad in ("abcd", 4, None, memoryview(b"abcdabcd")[::2]):
            with pytest.raises((TypeError, BufferError)):
                publisher.offer(bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            publisher.offer()  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            publisher.offer(b"", 1, 0, 0)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="tipe"):
            publisher.offer(b"", tipe=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="twice"):
            publisher.offer(b"", data=b"")  # type: ignore[misc]
        with pytest.raises(TypeError):
            subscriber.poll(7)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError):
            subscriber.poll(print, 0)


@pytest.mark.parametrize("alignment", [64, 8])
def test_a_prefetch_changes_no_byte_whatever_the_publisher_is_doing(alignment: int) -> None:
    with Channel.create("prefetch", "broadcast", capacity=4096, alignment=alignment) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()

        def prefetch_changes_nothing() -> None:
            before = Path(channel.path).read_bytes()
            publisher.prefetch()
            assert Path(channel.path).read_bytes() == before

        prefetch_changes_nothing()
        for i in range(300):
            data = random.Random(i).randbytes(i * 37 % 1017)
            assert publisher.offer(data, 7)
            prefetch_changes_nothing()
            assert drain(subscriber) == [data]
        claim = publisher.claim(8, 9)
        assert claim is not None
        prefetch_changes_nothing()
        claim.commit()
        publisher.close()
        prefetch_changes_nothing()
    publisher.prefetch()  # after the file was unmapped


def test_a_slow_subscriber_holds_the_publisher_back_and_is_named() -> None:
    with Channel.create("slow", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher()
        assert publisher.held_by() is None
        fast, slow = channel.subscriber("fast"), channel.subscriber("slow")
        count = 0
        while publisher.offer(bytes(56)) is not None:
            count += 1
            fast.take()
        assert count == 62  # 64 records, without the owner record and the 8 bytes behind the last one
        holder = publisher.held_by()
        assert holder is not None
        assert (holder.slot, holder.name, holder.live, holder.kept) == (slow.slot, "slow", True, False)
        assert holder.position == slow.position(0)
        time.sleep(0.003)
        assert publisher.offer(bytes(56)) is None  # the reader is alive, so it is not evicted
        assert publisher.try_claim(56) is None
        with pytest.raises(flyring.BackPressuredError, match="'slow'") as caught:
            publisher.claim(56, timeout=0.001)
        assert (caught.value.code, caught.value.holder) == ("back-pressured", holder)
        assert publisher.readers == 2
        assert publisher.offer_batch([bytes(56)]) == 0
        assert slow.poll(lambda message: None, 100) == count
        assert publisher.offer(bytes(56))
        drain(fast)
        slow.close()
        assert publisher.held_by() == flyring.Holder(0, "fast", holder.pid, True, False, fast.position(0))


def test_readers_waits_for_a_join_that_is_under_way() -> None:
    """A joiner's first gate may lie before the place where it begins."""
    with Channel.create("joins", "broadcast", capacity=4096) as channel, ThreadPoolExecutor(1) as pool:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        lock = new_lock(channel._attached.file, channel.path)
        with control_lock(lock, channel.path):  # as a joiner holds it
            readers = pool.submit(lambda: publisher.readers)
            assert not wait([readers], 0.1).done
        assert readers.result() == 1
        with control_lock(lock, channel.path):  # the publisher gave it back
            readers = pool.submit(lambda: publisher.readers)
            assert not wait([readers], 0.1).done
            publisher.close()
            with pytest.raises(ClosedError):
                readers.result(2)
        lock.close()
        subscriber.close()


def test_an_inbox_keeps_what_comes_before_its_first_subscriber() -> None:
    with Channel.create("inbox", "inbox", capacity=4096) as channel:
        first, second = channel.publisher(), channel.publisher()
        first.offer(b"one")
        second.offer(b"two")
        while first.offer(bytes(1000)) is not None:
            pass
        holder = first.held_by()
        assert holder is not None
        assert (holder.slot, holder.live, holder.kept) == (0, False, True)
        with channel.subscriber() as subscriber:
            assert (subscriber.slot, subscriber.kept) == (0, True)
            got = drain(subscriber)
            assert sorted(got, key=len)[:2] == [b"one", b"two"]


def test_a_broadcast_keeps_nothing_for_later_subscribers() -> None:
    with Channel.create("now", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher()
        for _ in range(1000):
            assert publisher.offer(b"before")
        subscriber = channel.subscriber()
        assert subscriber.take() is None
        publisher.offer(b"after")
        assert bytes(subscriber.take() or b"") == b"after"


def test_a_subscriber_reads_the_rings_that_it_chose() -> None:
    with Channel.create("rings", "broadcast") as channel:
        publishers = [channel.publisher() for _ in range(4)]
        some = channel.subscriber(rings=[3, 1, 3])
        assert some.rings == (1, 3)
        for publisher in publishers:
            publisher.offer(bytes([publisher.ring]))
        assert sorted(drain(some)) == [b"\1", b"\3"]
        for bad in ([], [4], [-1]):
            with pytest.raises(InvalidArgumentError, match="rings"):
                channel.subscriber(rings=bad)


def test_rings_are_served_in_turn() -> None:
    with Channel.create("fair", "broadcast", publishers=3) as channel:
        publishers = [channel.publisher() for _ in range(3)]
        subscriber = channel.subscriber()
        for publisher in publishers:
            publisher.offer_batch([bytes([publisher.ring])] * 50)
        taken = [subscriber.take() for _ in range(6)]
        assert [message.ring for message in taken if message] == [0, 1, 2, 0, 1, 2]
        rings: list[int] = []
        for _ in range(3):
            assert subscriber.poll(lambda message: rings.append(message.ring), 10) == 10
        assert rings == [0] * 10 + [1] * 10 + [2] * 10


def test_a_publisher_and_a_subscriber_of_one_process_and_two_channels_on_one_file() -> None:
    with Channel.create("twice", "broadcast") as one, Channel.open("twice") as two:
        publisher, subscriber = one.publisher("a"), two.subscriber()
        other = two.publisher("b")
        assert (publisher.ring, other.ring) == (0, 1)
        publisher.offer(b"from one")
        other.offer(b"from two")
        assert drain(subscriber) == [b"from one", b"from two"]


def test_a_batch_is_taken_as_far_as_there_is_room() -> None:
    with Channel.create("batch", "broadcast", capacity=4096) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        messages = [struct.pack("<q", i) * (i % 5) for i in range(200)]
        sent = 0
        got: list[bytes] = []
        partial = 0
        while sent < len(messages):
            taken = publisher.offer_batch(iter(messages[sent:]), type=9)
            partial += taken < len(messages) - sent
            sent += taken
            got += drain(subscriber)
        assert got == messages
        assert partial > 0
        assert publisher.offer_batch([]) == 0
        with pytest.raises(TypeError):
            publisher.offer_batch([b"fine", "not"])  # type: ignore[list-item]
        assert drain(subscriber) == []


def test_claims_are_filled_in_place() -> None:
    with Channel.create("claims", "broadcast") as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        claim = publisher.claim(16, type=3)
        assert claim is not None
        assert len(claim) == 16
        struct.pack_into("<q", claim, 0, -5)
        claim[8:16] = b"abcdefgh"
        claim[8] = 0x41
        assert (claim[8], bytes(claim[9:11])) == (0x41, b"bc")
        assert subscriber.take() is None
        assert claim.commit() == publisher.position
        message = subscriber.take()
        assert message is not None
        assert (bytes(message), message.type) == (struct.pack("<q", -5) + b"Abcdefgh", 3)
        with pytest.raises(LookupError), publisher.claim(8) as aborted:
            aborted[:] = b"nonsense"
            raise LookupError
        with publisher.claim(4) as committed:
            committed[:] = b"next"
        assert drain(subscriber) == [b"next"]
        with pytest.raises(IndexError):
            publisher.claim(3)[3] = 1
        with pytest.raises(InvalidArgumentError):
            publisher.claim(-1)
        with publisher.claim(0) as empty:
            empty.commit()
        assert drain(subscriber) == [b""]


def test_an_empty_message_is_true() -> None:
    with Channel.create("truth", "broadcast") as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        publisher.offer(b"")
        message = subscriber.take()
        assert message
        assert len(message) == 0


def test_poll_hands_out_at_most_its_limit_and_reports_it() -> None:
    with Channel.create("limit", "broadcast") as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        for i in range(300):
            publisher.offer(bytes([i % 256]))
        seen: list[int] = []

        def handler(message: Message) -> None:
            seen.append(message.data[0])

        assert [subscriber.poll(handler, 7), subscriber.poll(handler), subscriber.poll(handler)] == [7, 256, 37]
        assert seen == [i % 256 for i in range(300)]


def test_two_publishers_of_one_process_have_rings_of_their_own() -> None:
    with Channel.create("two", "inbox", publishers=2) as channel:
        one, two = channel.publisher(), channel.publisher()
        assert isinstance(one, Publisher)
        for i in range(100):
            one.offer(struct.pack("<q", i), 1)
            two.offer(struct.pack("<q", -i), 2)
        with channel.subscriber() as subscriber:
            by_ring: dict[int, list[int]] = {0: [], 1: []}
            while message := subscriber.take():
                by_ring[message.ring].append(struct.unpack("<q", message)[0])
        assert by_ring == {0: list(range(100)), 1: [-i for i in range(100)]}


def test_a_message_equals_what_holds_the_same_bytes() -> None:
    with Channel.create("c", "broadcast", capacity=4096) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        for _ in range(2):
            assert publisher.offer(b"abc")
        one, two = subscriber.take(), subscriber.take()
        assert one is not None and two is not None
        assert one == b"abc" and one == two and bytearray(b"abc") == one
        assert one != b"abd" and one != b"ab" and one != "abc" and one is not two
        kept: list[Message] = []
        assert publisher.offer(b"")
        assert subscriber.poll(kept.append) == 1
        with pytest.raises(ClosedError):
            _ = kept[0] == b""
        with pytest.raises(TypeError):
            hash(one)


# Actions


def test_a_handler_may_return_an_action() -> None:
    for lossy in (False, True):
        with Channel.create(f"actions{lossy}", "broadcast", capacity=4096, publishers=2) as channel:
            first, second = channel.publisher(), channel.publisher()
            subscriber = channel.lossy_subscriber() if lossy else channel.subscriber()
            for data in (b"a", b"b", b"c", b"d"):
                first.offer(data)
            second.offer(b"e")
            seen: list[bytes] = []

            def poll(wanted: bytes, action: Any, subscriber: Any = subscriber, seen: list[bytes] = seen) -> str:
                def handler(message: Message) -> Action | None:
                    seen.append(bytes(message))
                    returned: Action | None = action if message == wanted else Action.CONTINUE
                    return returned

                seen.clear()
                count = subscriber.poll(handler)
                return b"".join(seen).decode() + str(count)

            assert poll(b"b", Action.ABORT) == "ab1"
            assert subscriber.position(0) == 128  # behind the owner record and the first message
            assert poll(b"b", Action.ABORT) == "b0"
            assert poll(b"b", Action.BREAK) == "b1"
            assert poll(b"c", Action.COMMIT) == "ecd3"
            for other in (0, True, "CONTINUE", Action):
                first.offer(b"x")
                with pytest.raises(InvalidArgumentError, match=f"type {type(other).__name__}; return None") as caught:
                    poll(b"x", other)
                assert caught.value.argument == "action"
                assert subscriber.take() is None  # the message counts as consumed
            if isinstance(subscriber, flyring.LossySubscriber):
                assert subscriber.lost_messages(0) == subscriber.lost_bytes(0) == 0


def gates(channel: Channel) -> tuple[int, int]:
    """Returns the gate of subscriber slot 0 on ring 0, and the count beside it."""
    at = channel.header.gate(0, 0)
    return channel._data.load64(at), channel._data.load64(at + layout.GATE_COUNT)


def test_commit_stores_the_gate_at_once_and_an_abort_leaves_it_in_front() -> None:
    with Channel.create("c", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        for _ in range(3):
            publisher.offer(b"x")
        handled: list[int] = []

        def commit(message: Message) -> Action:
            assert gates(channel) == (message.position if handled else 0, len(handled))
            handled.append(message.position)
            return Action.COMMIT

        assert subscriber.poll(commit) == 3
        publisher.offer(b"x")
        before = gates(channel)
        assert subscriber.poll(lambda message: Action.ABORT) == 0
        assert gates(channel) == before == (subscriber.position(0), 3)
        assert subscriber.poll(lambda message: Action.BREAK) == 1
        assert gates(channel) == (publisher.position, 4)


def test_a_poll_that_its_handler_aborts_does_not_wait() -> None:
    with Channel.create("c", "broadcast", capacity=4096, publishers=1) as channel:
        publisher = channel.publisher()
        for join in (channel.subscriber, channel.lossy_subscriber):
            with join() as subscriber:
                publisher.offer(b"x")
                calls: list[int] = []

                def abort(message: Message, calls: list[int] = calls) -> Action:
                    calls.append(message.position)
                    return Action.ABORT

                for timeout in (None, 0, 30):
                    assert subscriber.poll(abort, timeout=timeout) == 0
                assert len(calls) == 3
                assert subscriber.poll(lambda message: None, timeout=None) == 1
                assert subscriber.poll(abort, timeout=0.001) == 0
                assert len(calls) == 3


def test_a_handler_may_return_what_it_got_only_if_nothing_of_it_stays() -> None:
    with Channel.create("c", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        returned: list[Callable[[Message], Any]] = [lambda message: message, lambda message: message.data]
        for handler in returned:
            publisher.offer(b"x")
            with pytest.raises(InvalidArgumentError):
                subscriber.poll(handler)
            assert subscriber.poll(handler) == 0


# Which error comes first


def wrong_reads(subscriber: Any) -> list[Callable[[], Any]]:
    """Returns calls of a subscriber or lossy subscriber with invalid arguments."""
    return [
        lambda: subscriber.poll(print, 0),
        lambda: subscriber.poll(print, timeout=-1),
        lambda: subscriber.poll_arrays(PRICES.Trade, print, timeout=-1),
        lambda: subscriber.set_spin(-1),
        lambda: subscriber.poll(7),
        lambda: subscriber.poll(print, "all"),
        lambda: subscriber.poll(print, nobody=1),
        lambda: subscriber.take(-1),
        lambda: subscriber.take("soon"),
        lambda: subscriber.take(0, 1),
        lambda: subscriber.poll_arrays(PRICES.Book, print),
        lambda: subscriber.poll_arrays(PRICES.Trade, print, 0),
        lambda: subscriber.poll_arrays(PRICES.Trade, 7),
    ]


def wrong_offers(publisher: Any) -> list[Callable[[], Any]]:
    return [
        lambda: publisher.offer(b"", 0),
        lambda: publisher.offer(bytes(5000)),
        lambda: publisher.offer(7),
        lambda: publisher.send(b"", timeout=-1),
        lambda: publisher.send(b"", 0),
        lambda: publisher.send(bytes(5000)),
        lambda: publisher.send(7),
        lambda: publisher.claim(1, timeout=-1),
        lambda: publisher.claim(PRICES.Trade, timeout=-1),
        lambda: publisher.send_batch([b""], timeout=-1),
        lambda: publisher.send_batch([bytes(5000)]),
        lambda: publisher.send_batch([b""], 0),
        lambda: publisher.send_array(PRICES.Trade, numpy.zeros(1, PRICES.Trade.dtype), timeout=-1),
        lambda: publisher.send_array(PRICES.Trade, None),
        lambda: publisher.set_spin(-1),
        lambda: publisher.claim(-1),
        lambda: publisher.claim(5000),
        lambda: publisher.claim(2**70),
        lambda: publisher.claim(-(2**70)),
        lambda: publisher.claim("8"),
        lambda: publisher.try_claim(1, 0),
        lambda: publisher.claim(PRICES.Trade, -1),
        lambda: publisher.claim(PRICES.Trade, 5000),
        lambda: publisher.claim(Message),
        lambda: publisher.offer_batch([bytes(5000)]),
        lambda: publisher.offer_batch([b""], 0),
        lambda: publisher.offer_batch(7),
        lambda: publisher.offer_batch([7]),
        lambda: publisher.offer_array(PRICES.Book, None),
        lambda: publisher.offer_array(PRICES.Trade, None),
    ]


def wrong_flushes(publisher: Any) -> list[Callable[[], Any]]:
    """Returns flushes with invalid arguments; a valid flush is allowed while a claim is open."""
    return [
        lambda: publisher.flush(-1),
        lambda: publisher.flush("soon"),
        lambda: publisher.flush(0, 0),
    ]


def each_is(error: type[Exception] | tuple[type[Exception], ...], calls: list[Callable[[], Any]]) -> None:
    for i, call in enumerate(calls):
        try:
            result = call()
        except error:
            continue
        pytest.fail(f"call {i} gave {result!r}")


def test_what_is_wrong_with_the_object_comes_before_what_is_wrong_with_an_argument() -> None:
    argument = (InvalidArgumentError, MessageTooLargeError, TypeError)
    with Channel.create("order", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, readers = channel.publisher(), (channel.subscriber(), channel.lossy_subscriber())
        each_is(argument, wrong_offers(publisher) + wrong_flushes(publisher))
        with publisher.claim(8):
            each_is(ViewAliveError, wrong_offers(publisher))
            each_is(argument, wrong_flushes(publisher))
        for reader in readers:
            each_is(argument, wrong_reads(reader))
            for ring in (9, 2**70):
                for call in (reader.ended, reader.position):
                    with pytest.raises(InvalidArgumentError):
                        call(ring)
            assert reader.poll(lambda message: None, 2**70) > 0
            publisher.offer(b"x")
            seen: list[memoryview] = []

            def inside(message: Message, reader: Any = reader, seen: list[memoryview] = seen) -> None:
                each_is(TwoThreadsError, wrong_reads(reader))
                assert (reader.ended(0), reader.position(0) > 0) == (False, True)
                seen.append(message.data)

            with pytest.raises(ViewAliveError):
                reader.poll(inside)
            each_is(ViewAliveError, wrong_reads(reader))
            seen.pop().release()
            each_is(argument, wrong_reads(reader))
        peeking = channel.lossy_subscriber(start="oldest")
        publisher.offer(b"peeked at")
        peeked = peeking.peek()
        assert peeked is not None
        with memoryview(peeked):
            each_is(ViewAliveError, wrong_reads(peeking))
        for reader in readers:
            reader.close()
            each_is(ClosedError, wrong_reads(reader))
            for ring in (0, 9):
                with pytest.raises(ClosedError):
                    reader.ended(ring)
            assert reader.position(0) > 0
            with pytest.raises(InvalidArgumentError):
                reader.position(9)
        publisher.close()
        each_is(ClosedError, wrong_offers(publisher) + wrong_flushes(publisher))


def test_too_large_comes_before_slot_lost() -> None:
    with Channel.create("order", "broadcast", capacity=4096, publishers=1) as channel:
        publisher = channel.publisher()
        channel._attached.memory.add64(channel.header.publisher_slot(0), 1)
        large: list[Callable[[], Any]] = [
            lambda: publisher.offer(bytes(5000)),
            lambda: publisher.offer(bytearray(5000)),
            lambda: publisher.claim(5000),
            lambda: publisher.claim(PRICES.Trade, 5000),
            lambda: publisher.offer_batch([bytes(5000)]),
            lambda: publisher.send(bytes(5000)),
            lambda: publisher.send_batch([bytes(5000)]),
        ]
        each_is(MessageTooLargeError, large)
        each_is(InvalidArgumentError, [lambda: publisher.offer(bytes(5000), 0)])
        lost: list[Callable[[], Any]] = [
            lambda: publisher.offer(b""),
            lambda: publisher.offer_batch([b""]),
            lambda: publisher.send(b""),
            lambda: publisher.send_batch([b""]),
            publisher.flush,
        ]
        each_is(SlotLostError, lost)


def test_a_slot_is_not_touched_if_any_argument_is_wrong() -> None:
    with Channel.create("order", "broadcast", capacity=4096) as channel:
        before = channel._attached.memory.read(0, channel.header.schema_offset)
        wrong: Any = "sleep"
        calls: list[Callable[[], Any]] = [
            lambda: channel.publisher("a b", max_lag=1),
            lambda: channel.publisher("a", max_lag=1),
            lambda: channel.publisher("a", wait=wrong),
            lambda: channel.subscriber("", kept=True),
            lambda: channel.subscriber("a", rings=[]),
            lambda: channel.subscriber("a", rings=[4]),
            lambda: channel.subscriber("a", kept=True, wait=wrong),
            lambda: channel.lossy_subscriber([], wait=wrong),
            lambda: channel.lossy_subscriber(wait=wrong),
        ]
        named = ["name", "max_lag", "wait", "name", "rings", "rings", "wait", "rings", "wait"]
        for call, argument in zip(calls, named, strict=True):
            with pytest.raises(InvalidArgumentError) as caught:
                call()
            assert caught.value.argument == argument
        assert channel._attached.memory.read(0, channel.header.schema_offset) == before
