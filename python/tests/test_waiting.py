# SPDX-License-Identifier: Apache-2.0
"""Sleeping until a message or room is there, and being woken (spec/channel.md 6.16; spec/api.md, Waiting)."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from conftest import SPEC, Child, drain, fill, pair
from flyring import (
    BackPressuredError,
    Channel,
    ChannelReplacedError,
    ClosedError,
    CorruptRingError,
    InvalidArgumentError,
    NoFreeSlotError,
    NoSuchChannelError,
    Publisher,
    TimedOutError,
    TwoThreadsError,
    layout,
)
from flyring.sbe import Schema
from waits import Waits, data_asleep, room_asleep, sleeping_reader, until, word

PRICES: Any = Schema.load(SPEC / "sbe" / "prices.xml")
Start = Callable[..., Child]


# Waking


def test_a_message_wakes_a_sleeper() -> None:
    with sleeping_reader() as (channel, _, publisher, waits):
        before = word(channel, layout.CONTROL_DATA_SEQUENCE)
        publisher.offer(b"awake")
        assert bytes(waits.end()) == b"awake"
        assert data_asleep(channel) == 0
        assert word(channel, layout.CONTROL_DATA_SEQUENCE) == before + 1


def test_each_way_to_publish_wakes() -> None:
    trade: Any = Schema.load(SPEC / "sbe" / "prices.xml").Trade
    with Channel.create("ways", "broadcast", capacity=4096) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        rows = numpy.zeros(1, trade.dtype)

        def in_place() -> None:
            with publisher.claim(8):
                pass

        ways: list[Callable[[], Any]] = [
            lambda: publisher.offer(b"x"),
            lambda: publisher.send(b"x"),
            lambda: publisher.offer_batch([b"x"]),
            lambda: publisher.send_batch([b"x"]),
            lambda: publisher.offer_array(trade, rows),
            lambda: publisher.send_array(trade, rows),
            in_place,
        ]
        for way in ways:
            waits = Waits(lambda: subscriber.poll(lambda message: None, timeout=None))
            until(lambda: data_asleep(channel))
            way()
            assert waits.end() == 1
            assert data_asleep(channel) == 0


def test_without_sleepers_there_are_no_wakes() -> None:
    with pair() as (channel, publisher, subscriber):
        before = word(channel, layout.CONTROL_DATA_SEQUENCE), word(channel, layout.CONTROL_ROOM_SEQUENCE)
        for _ in range(200):
            assert publisher.offer(bytes(100))
            assert subscriber.take()
        assert (word(channel, layout.CONTROL_DATA_SEQUENCE), word(channel, layout.CONTROL_ROOM_SEQUENCE)) == before


def test_an_aborted_claim_wakes_no_sleeper() -> None:
    with sleeping_reader() as (channel, _, publisher, waits):
        publisher.claim(8).abort()
        assert data_asleep(channel)
        publisher.offer(b"x")
        waits.end()


@pytest.mark.parametrize("how", ["send", "claim", "send_batch"])
def test_room_wakes_a_sleeper(how: str) -> None:
    with pair() as (channel, publisher, subscriber):
        fill(publisher)
        calls: dict[str, Callable[[], Any]] = {
            "send": lambda: publisher.send(b"x"),
            "claim": lambda: publisher.claim(1).commit(),
            "send_batch": lambda: publisher.send_batch([b"x"]),
        }
        waits = Waits(calls[how])
        until(lambda: room_asleep(channel))
        while subscriber.take():
            pass
        assert waits.end()


def test_a_batch_that_waits_has_woken_its_reader_before() -> None:
    messages = [b"%04d" % i * 100 for i in range(100)]
    with Channel.create("batch", "broadcast", capacity=4096) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        start = time.monotonic()
        waits = Waits(lambda: publisher.send_batch(messages))
        got = []
        while len(got) < len(messages):
            message = subscriber.take(timeout=None)
            assert message
            got.append(bytes(message))
        assert waits.end() == len(messages)
        assert got == messages
        assert time.monotonic() - start < 5  # with the cap of 100 ms for each part it would be more


def test_an_error_in_the_middle_of_a_batch_is_raised_and_what_was_taken_stays() -> None:
    rows = numpy.zeros(200, PRICES.Trade.dtype)
    ways: list[Callable[[Publisher], Any]] = [
        lambda publisher: publisher.send_batch([bytes(500)] * 20),
        lambda publisher: publisher.send_array(PRICES.Trade, rows),
    ]
    for i, way in enumerate(ways):
        with Channel.create(f"batch{i}", "broadcast", capacity=4096) as channel:
            publisher, subscriber = channel.publisher(), channel.subscriber()
            waits = Waits(lambda way=way, publisher=publisher: way(publisher))
            until(lambda channel=channel: room_asleep(channel))
            with Channel.replace(f"batch{i}", "broadcast"), pytest.raises(ChannelReplacedError):
                waits.end()
            assert len(drain(subscriber)) > 1
            assert subscriber.position(0) == publisher.position  # position tells how much was published
            assert publisher.offer(b"goes on")
            assert subscriber.take() == b"goes on"


def test_a_batch_gives_the_number_taken_at_the_time_out() -> None:
    with pair() as (_, publisher, subscriber):
        assert publisher.send_batch([bytes(500)] * 20, timeout=0.01) == 7
        assert publisher.send_batch([], timeout=0) == 0
        assert subscriber.poll(lambda message: None) == 7


def test_a_subscriber_of_many_rings_is_woken_by_each() -> None:
    with Channel.create("many", "broadcast", publishers=40, capacity=4096, counters=0) as channel:
        publishers = [channel.publisher() for _ in range(40)]
        subscriber = channel.subscriber(rings=[3, 35, 39])
        for ring in (3, 35, 39):
            waits = Waits(lambda: subscriber.take(timeout=None))
            until(lambda: word(channel, layout.CONTROL_DATA_ASLEEP) & 0x88 == 0x88)
            publishers[ring].offer(b"%d" % ring)
            assert bytes(waits.end()) == b"%d" % ring


def test_a_ring_that_is_corrupt_lets_its_publisher_go() -> None:
    """Setting the gate to -1 (6.9) wakes the publisher like any gate store."""
    with pair() as (channel, publisher, subscriber):
        fill(publisher)
        waits = Waits(lambda: publisher.send(b"x"))
        until(lambda: room_asleep(channel))
        before = word(channel, layout.CONTROL_ROOM_SEQUENCE)
        channel._attached.memory.store32(channel.header.ring(0), 7)  # a record of 7 bytes
        with pytest.raises(CorruptRingError):
            subscriber.take()
        assert word(channel, layout.CONTROL_ROOM_SEQUENCE) == before + 1
        assert waits.end()


# What the slots say


def test_wakes_is_the_epoch_unless_the_owner_opted_out() -> None:
    with Channel.create("says", "broadcast") as channel, Channel.open("says", wake=False) as silent:
        load = channel._attached.memory.load64
        for made, wakes in ((channel, True), (silent, False), (channel, True)):
            with made.publisher("p") as publisher, made.subscriber("s") as subscriber:
                at = channel.header.publisher_slot(publisher.ring), channel.header.subscriber_slot(subscriber.slot)
                assert [load(slot + layout.PUBLISHER_SLOT_WAKES) for slot in at] == [
                    publisher.epoch * wakes,
                    subscriber.epoch * wakes,
                ]


def test_sleepers_look_each_millisecond_for_an_end_with_wake_off() -> None:
    with Channel.create("silent", "broadcast", capacity=4096, wake=False) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        times = []
        for _ in range(10):
            waits = Waits(lambda: subscriber.take(timeout=None))
            until(lambda: data_asleep(channel))
            time.sleep(0.003)
            start = time.monotonic()
            publisher.offer(b"x")
            waits.end()
            times.append(waits.ended - start)
            assert data_asleep(channel)  # the bit is not cleared
        assert sorted(times)[5] < 0.05  # with the cap of 100 ms, half of them would take longer


def test_an_end_with_wake_off_sleeps_as_long_as_others() -> None:
    with (
        Channel.create("asymmetric", "broadcast", capacity=4096) as channel,
        Channel.open("asymmetric", wake=False) as silent,
    ):
        publisher, subscriber = channel.publisher(), silent.subscriber()
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        assert subscriber.take(timeout=0.3) is None
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 50  # of 300 naps
        waits = Waits(lambda: subscriber.take(timeout=None))
        publisher.offer(b"x")
        assert waits.end() == b"x"


def test_a_process_is_registered_before_the_control_lock_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from flyring import slots

    asked: list[bool] = []
    with Channel.create("registers", "broadcast") as channel, Channel.open("registers", wake=False) as silent:
        lock = slots.new_lock(channel._attached.file, channel.path)
        control = channel.header.control_offset + layout.CONTROL_CONTROL_LOCK

        def register() -> bool:
            asked.append(lock.is_locked(control))
            return True

        monkeypatch.setattr(slots, "register_waker", register)
        channel.publisher().close()
        channel.subscriber().close()
        assert asked == [False, False]
        silent.publisher().close()
        silent.subscriber().close()
        assert len(asked) == 2
        lock.close()


def test_no_sleep_is_lost_with_one_message_outstanding(child: Start) -> None:
    code = """
        import sys, flyring
        with flyring.Channel.open(sys.argv[1]) as channel:
            reader, writer = channel.subscriber(rings=[0]), channel.publisher("back")
            reader.set_spin(0), writer.set_spin(0)
            print("there", flush=True)
            while message := reader.take(timeout=30):
                writer.send(message)
                if message == b"end":
                    break
    """
    with Channel.create("one", "broadcast", capacity=4096, publishers=2) as channel:
        publisher = channel.publisher("forth")
        echo = child(code, channel.path)
        assert echo.line() == "there"
        subscriber = channel.subscriber(rings=[1])
        subscriber.set_spin(0)
        late = 0
        for i in range(3000):
            start = time.monotonic()
            publisher.send(b"%d" % i)
            message = subscriber.take(timeout=30)
            assert message == b"%d" % i
            late += time.monotonic() - start > 0.095  # reached the cap
        publisher.send(b"end")
        assert subscriber.take(timeout=30) == b"end"
        assert late <= 2, f"{late} waits reached the cap"  # a busy machine may stop a process for that long


# The verbs


def test_iteration_ends_with_the_last_publisher() -> None:
    with Channel.create("for", "broadcast", capacity=4096) as channel:
        subscriber, first, second = channel.subscriber(), channel.publisher(), channel.publisher()

        def publish() -> None:
            for i in range(100):
                (first, second)[i % 2].send(b"%d" % i)
            first.close()
            time.sleep(0.02)
            second.send(b"last")
            second.close()

        waits = Waits(publish)
        got = [bytes(message) for message in subscriber]
        waits.end()
        assert sorted(got) == sorted([b"%d" % i for i in range(100)] + [b"last"])
        assert list(subscriber) == []
        with channel.publisher() as again:
            again.offer(b"more")
        assert [bytes(message) for message in subscriber] == [b"more"]


def test_iteration_waits_for_the_first_publisher() -> None:
    for lossy in (False, True):
        with Channel.create(f"for{lossy}", "broadcast", capacity=4096) as channel:
            reader: Any = channel.lossy_subscriber() if lossy else channel.subscriber()
            waits = Waits(lambda reader=reader: [bytes(message) for message in reader])
            until(lambda: data_asleep(channel))
            with channel.publisher() as publisher:
                publisher.offer(b"x")
            assert waits.end() == [b"x"]
            reader.close()
            with pytest.raises(ClosedError):
                next(iter(reader))


def test_flush_beside_an_open_claim() -> None:
    with pair() as (channel, publisher, subscriber):
        publisher.offer(b"x")
        with publisher.claim(4) as claim:
            with pytest.raises(TimedOutError):
                publisher.flush(0.01)
            waits = Waits(publisher.flush)
            until(lambda: room_asleep(channel))
            with pytest.raises(TwoThreadsError):
                claim.abort()  # the claim stays open
            assert subscriber.take()
            waits.end()
            assert subscriber.take() is None  # nothing of the claim is published
            claim[:] = b"done"
        assert subscriber.take() == b"done"
        publisher.offer(b"y")
        publisher.claim(4)  # dropped, which aborts it
        claim = publisher.claim(4)
        waits = Waits(publisher.flush)
        until(lambda: room_asleep(channel))
        publisher.close()
        with pytest.raises(ClosedError):
            waits.end()
        with pytest.raises(ClosedError):
            claim.commit()
        assert subscriber.take() == b"y"
        assert subscriber.take() is None
        assert subscriber.ended(0)


def test_flush_waits_for_readers_with_an_owner_only() -> None:
    with Channel.create("flush", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher()
        publisher.flush(0)
        channel.subscriber("kept", kept=True).close()
        publisher.offer(b"x")
        publisher.flush(0)  # the kept slot has no owner
        one, other = channel.subscriber(), channel.subscriber()
        publisher.offer(b"y")
        with pytest.raises(TimedOutError) as caught:
            publisher.flush(0.01)
        assert caught.value.code == "timed-out"
        assert isinstance(caught.value, TimeoutError)
        waits = Waits(publisher.flush)
        until(lambda: room_asleep(channel))
        assert one.take()
        assert not waits.ended
        assert other.take()
        waits.end()
        publisher.offer(b"z")
        waits = Waits(publisher.flush)
        until(lambda: room_asleep(channel))
        one.close()
        other.close()
        waits.end()
        with pytest.raises(InvalidArgumentError):
            publisher.flush(-1)


def test_wait_for_opens_a_channel_as_soon_as_there_is_one() -> None:
    with pytest.raises(TimedOutError, match="later"):
        Channel.wait_for("later", 0.01)
    with pytest.raises(NoSuchChannelError):
        Channel.open("later")
    waits = Waits(lambda: Channel.wait_for("later"))
    time.sleep(0.01)
    with Channel.create("later", "broadcast") as channel:
        with waits.end() as found:
            assert found.id == channel.id
        with Channel.wait_for("later", 0, read_only=True) as again:
            assert again.id == channel.id
    with pytest.raises(InvalidArgumentError):
        Channel.wait_for("later", -1)


def test_a_subscriber_waits_for_its_slot() -> None:
    with Channel.create("slot", "broadcast", subscribers=1) as channel:
        first = channel.subscriber()
        with pytest.raises(NoFreeSlotError):
            channel.subscriber(timeout=0.03)
        with pytest.raises(InvalidArgumentError):
            channel.subscriber(timeout=-1)
        waits = Waits(lambda: channel.subscriber(timeout=None))
        time.sleep(0.03)
        first.close()
        waits.end().close()


def test_a_time_out_of_send_names_the_reader_that_holds_it_back() -> None:
    with pair() as (_, publisher, subscriber):
        fill(publisher)
        with pytest.raises(BackPressuredError) as caught:
            publisher.send(b"x", timeout=0.01)
        assert caught.value.holder is not None
        assert caught.value.holder.slot == subscriber.slot
        assert caught.value.holder.pid == os.getpid()


def test_a_spin_is_a_time() -> None:
    with pair() as (_, publisher, subscriber):
        for each in (publisher, subscriber):
            each.set_spin(0.001)
            each.set_spin(0)
            for wrong in (-1, math.nan, math.inf, -math.inf):
                with pytest.raises(InvalidArgumentError) as caught:
                    each.set_spin(wrong)
                assert caught.value.argument == "spin"
        subscriber.set_spin(1e300)
        assert subscriber.take(timeout=0.01) is None
        subscriber.set_spin(0.02)
        start = time.monotonic()
        assert subscriber.take(timeout=0.03) is None
        assert time.monotonic() - start >= 0.03
