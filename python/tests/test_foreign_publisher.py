# SPDX-License-Identifier: Apache-2.0
"""A foreign publisher (spec/channel.md 6.15): Flyring reads the messages of stock Agrona."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from agrona import INSUFFICIENT_CAPACITY, OneToOneRingBuffer
from conftest import Child
from flyring import (
    CorruptRingError,
    FlyringError,
    Sender,
    SlotLostError,
    layout,
)
from test_foreign import Got, make, polled, word


def test_we_read_what_agrona_writes_over_many_laps() -> None:
    rng = random.Random(7)
    with make("publisher") as channel:
        writer, sent, got = OneToOneRingBuffer(channel), Got(), Got()
        subscriber = channel.subscriber("reader")
        refused = aborted = resumed = 0
        for i in range(6000):
            data = rng.randbytes(rng.choice((0, 1, 7, 8, 9, 100, 300, writer.max_message_length)))
            kind = 1 + i % 1000
            if i % 4:
                if writer.write(kind, data):
                    sent.append((kind, data))
                else:
                    refused += 1
            elif (index := writer.try_claim(kind, len(data))) != INSUFFICIENT_CAPACITY:
                while i % 40 == 0 and polled(subscriber, got):
                    pass
                assert i % 40 or got == sent  # records that are only claimed are not read
                writer.memory.write(writer.base + index, data)
                if i % 3:
                    writer.commit(index)
                    sent.append((kind, data))
                else:
                    writer.abort(index)
                    aborted += 1
            if rng.random() < 0.15:
                polled(subscriber, got, rng.choice((1, 2, 10)))
            if rng.random() < 0.05:
                subscriber.close()
                position = word(channel, "gate")
                subscriber = channel.subscriber("reader")
                assert (subscriber.position(0), subscriber.kept) == (position, True)
                resumed += 1
            assert 0 <= word(channel, "claimed") - word(channel, "gate") <= channel.capacity
        while polled(subscriber, got):
            pass
        assert got == sent
        assert min(len(sent), refused, aborted, resumed) > 100
        assert word(channel, "claimed") > 50 * channel.capacity
        assert (word(channel, "published"), word(channel, "messages_done"), subscriber.ended(0)) == (0, 0, False)
        subscriber.close()


def test_claims_that_are_committed_in_another_order_come_in_the_order_of_the_ring() -> None:
    with make("publisher") as channel, channel.subscriber() as subscriber:
        writer, got = OneToOneRingBuffer(channel), Got()
        first, second = writer.try_claim(1, 5), writer.try_claim(2, 6)
        writer.commit(second)
        assert polled(subscriber, got) == 0
        assert word(channel, "gate") == 0
        writer.commit(first)
        assert polled(subscriber, got) == 2
        assert [kind for kind, _ in got] == [1, 2]


def test_padding_without_a_message_is_passed() -> None:
    """Agrona may leave padding at the ring's end even if it refuses the message, because the ring's start is not
    free."""
    with make("publisher") as channel, channel.subscriber() as subscriber:
        writer, got = OneToOneRingBuffer(channel), Got()
        while writer.write(1, bytes(504)):
            pass
        polled(subscriber, got, 1)  # 512 bytes are free at the ring's start, which is not enough
        claimed = word(channel, "claimed")
        assert not writer.write(2, bytes(508))
        assert word(channel, "claimed") == 4096 > claimed
        polled(subscriber, got)
        assert word(channel, "gate") == 4096
        assert writer.write(2, bytes(508))
        assert polled(subscriber, got) == 1


def test_the_subscriber_resumes_where_a_dead_one_stored_its_gate(child: Callable[..., Child]) -> None:
    with make("publisher") as channel:
        writer = OneToOneRingBuffer(channel)
        for i in range(20):
            assert writer.write(1 + i, b"%d" % i)
        reader = child(
            """
            from flyring import Channel
            channel = Channel.open("agrona")
            subscriber = channel.subscriber("reader")
            assert subscriber.take() == b"0"
            seen = []
            assert subscriber.poll(lambda message: seen.append(bytes(message)), 4) == 4
            print("read", flush=True)
            input()
            """
        )
        assert reader.line() == "read"
        with pytest.raises(FlyringError, match="is owned by pid"):
            channel.subscriber("reader")
        reader.kill()
        with channel.subscriber("reader") as subscriber:
            assert subscriber.epoch == 2
            assert subscriber.take() == b"5"


def test_the_sender_is_not_known_and_the_ring_never_ends() -> None:
    with make("publisher") as channel:
        memory, slot = channel._attached.memory, channel.header.publisher_slot(0)
        memory.store64(slot, 9)  # the slot's word does not matter, because no process takes the slot
        memory.store32(slot + layout.PUBLISHER_SLOT_CLOSED, 1)
        with channel.subscriber() as subscriber:
            assert not subscriber.ended(0)
            assert OneToOneRingBuffer(channel).write(1, b"x")
            message = subscriber.take()
            assert message is not None
            assert message.sender == Sender(0, "", 0)
            memory.store64(channel.header.trailer(0) + layout.TRAILER_PUBLISHED, subscriber.position(0))
            assert not subscriber.ended(0)


def test_it_resumes_even_if_the_slot_is_marked_as_evicted() -> None:
    with make("publisher") as channel:
        memory, slot = channel._attached.memory, channel.header.subscriber_slot(0)
        assert OneToOneRingBuffer(channel).write(1, b"first")
        memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 1)
        memory.store32(slot + layout.SUBSCRIBER_SLOT_KEPT, 0)
        with channel.subscriber() as subscriber:
            assert subscriber.take() == b"first"
            assert word(channel, "gate") == 16
        assert word(channel, "gate") == 16  # close left the gate


@pytest.mark.parametrize("gate", [-1, -8, 4, 24, 4096, 2**62])
def test_a_gate_that_cannot_be_is_a_corrupt_ring(gate: int) -> None:
    with make("publisher") as channel:
        assert OneToOneRingBuffer(channel).write(1, b"first")
        channel._attached.memory.store64(channel.header.gate(0, 0), gate)
        with pytest.raises(CorruptRingError) as caught:
            channel.subscriber()
        assert caught.value.position == gate


def test_a_many_to_one_ring_cannot_be_the_publisher() -> None:
    """A many to one ring stores no zero behind its record, because its own reader zeroes the bytes that it has read."""
    with make("publisher") as channel, channel.subscriber() as subscriber:
        writer, memory, data = OneToOneRingBuffer(channel), channel._attached.memory, channel.header.ring(0)
        while word(channel, "claimed") < channel.capacity:
            assert writer.write(1, b"\xff\xff\xff\x7f" * 14) and subscriber.take()
        memory.store64(channel.header.trailer(0) + layout.TRAILER_CLAIMED, channel.capacity + 16)
        memory.store32(data + 4, 1)
        memory.store32(data, 16)
        assert subscriber.take() == b"\xff\xff\xff\x7f" * 2
        with pytest.raises(CorruptRingError, match=r"2147483647 bytes cannot be here; .* must be a one to one ring"):
            subscriber.take()


@pytest.mark.parametrize("behind", [4096, 4104])
def test_a_gate_more_than_a_lap_below_the_tail_is_a_corrupt_ring(behind: int) -> None:
    with make("publisher") as channel:
        with channel.subscriber() as subscriber:
            writer = OneToOneRingBuffer(channel)
            while word(channel, "claimed") < 3 * 4096:
                assert writer.write(1, bytes(56)) and subscriber.take()
        channel._attached.memory.store64(channel.header.gate(0, 0), word(channel, "claimed") - behind)
        if behind <= channel.capacity:
            channel.subscriber().close()
        else:
            with pytest.raises(CorruptRingError):
                channel.subscriber()


@pytest.mark.parametrize("lost", [False, True])
def test_nothing_that_happens_to_our_subscriber_takes_the_gate_from_agrona(lost: bool) -> None:
    with make("publisher") as channel:
        memory = channel._attached.memory
        writer, subscriber = OneToOneRingBuffer(channel), channel.subscriber()
        assert writer.write(1, b"first") and writer.write(1, b"second")
        assert subscriber.take() == b"first"
        if lost:
            memory.add64(channel.header.subscriber_slot(0), 1)
        else:
            memory.store32(channel.header.ring(0) + 16, 7)
        with pytest.raises(SlotLostError if lost else CorruptRingError):
            subscriber.take()
        subscriber.close()
        assert word(channel, "gate") == 16
