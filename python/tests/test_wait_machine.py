# SPDX-License-Identifier: Apache-2.0
"""Waits where the kernel refuses calls, with many sleepers, and with hostile words (spec/channel.md 6.16)."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from conftest import Child, drain, fill, pair
from flyring import BackPressuredError, Channel, layout
from waits import Waits, data_asleep, until, word


@pytest.mark.parametrize("refused", ["here", "there", "both"])
def test_works_where_membarrier_is_refused(child: Callable[..., Child], refused: str) -> None:
    """Each side is a child of its own, because the filter stays until a process ends."""
    code = """
        import sys, flyring
        sys.path.insert(0, sys.argv[4])
        import refused_calls
        if sys.argv[3] == "refused":
            refused_calls.refuse(refused_calls.MEMBARRIER)
        asks = sys.argv[2] == "asks"
        with flyring.Channel.open(sys.argv[1]) as channel:
            writer = channel.publisher(sys.argv[2])
            reader = channel.subscriber(rings=[1 - writer.ring])
            writer.set_spin(0), reader.set_spin(0)
            print(writer.ring, flush=True)
            sys.stdin.readline()
            for i in range(300):
                if asks:
                    writer.send(b"%d" % i)
                message = reader.take(timeout=30)
                assert message == b"%d" % i, message
                if not asks:
                    writer.send(message)
            print("done", flush=True)
    """
    tests = os.path.dirname(__file__)
    with Channel.create("refused", "broadcast", capacity=4096, publishers=2) as channel:
        sides = [
            child(code, channel.path, side, "refused" if refused in (where, "both") else "allowed", tests)
            for side, where in (("asks", "here"), ("answers", "there"))
        ]
        assert sorted(side.line() for side in sides) == ["0", "1"]
        for side in reversed(sides):
            side.say()
        start = time.monotonic()
        assert [side.line() for side in sides] == ["done", "done"]
        assert time.monotonic() - start < 15  # 60 s if each of the 600 sleeps lasted its longest, 100 ms


def test_64_sleepers_of_one_ring_are_woken_by_one_message() -> None:
    with Channel.create("many", "broadcast", capacity=4096, subscribers=64) as channel, ExitStack() as stack:
        publisher = channel.publisher()
        readers = [stack.enter_context(channel.subscriber()) for _ in range(64)]
        for i in range(3):
            waits = [Waits(lambda reader=reader: reader.take(timeout=None)) for reader in readers]
            until(lambda: data_asleep(channel))
            time.sleep(0.05)
            before, start = word(channel, layout.CONTROL_DATA_SEQUENCE), time.monotonic()
            publisher.offer(b"%d" % i)
            assert [bytes(one.end()) for one in waits] == [b"%d" % i] * 64
            assert word(channel, layout.CONTROL_DATA_SEQUENCE) == before + 1  # one wake
            assert sorted(one.ended - start for one in waits)[32] < 0.09


# Hostile words


WORDS = (
    layout.CONTROL_DATA_SEQUENCE,
    layout.CONTROL_DATA_ASLEEP,
    layout.CONTROL_ROOM_SEQUENCE,
    layout.CONTROL_ROOM_ASLEEP,
)


def test_hostile_words_do_no_more_than_delay() -> None:
    with pair() as (channel, publisher, subscriber):
        memory, control = channel._attached.memory, channel.header.control_offset
        slots = channel.header.publisher_slot(0), channel.header.subscriber_slot(0)
        times = []
        for value in (-1, 1, 2**31 - 1, -(2**31), 0):
            for offset in WORDS:
                memory.store32(control + offset, value)
            for wakes in (-1, 0, 2**63 - 1, publisher.epoch):
                for slot in slots:
                    memory.store64(slot + layout.PUBLISHER_SLOT_WAKES, wakes)
                assert subscriber.take(timeout=0.0005) is None
                publisher.offer(b"x")
                start = time.monotonic()
                assert subscriber.take(timeout=10)
                fill(publisher)
                with pytest.raises(BackPressuredError):
                    publisher.send(b"x", timeout=0.0005)
                drain(subscriber)
                assert publisher.send(b"x", timeout=10)
                assert subscriber.take(timeout=10)
                times.append(time.monotonic() - start)
        assert sorted(times)[len(times) // 2] < 0.05


def test_it_goes_on_while_the_words_are_overwritten() -> None:
    with pair() as (channel, publisher, subscriber):
        memory, control, random = channel._attached.memory, channel.header.control_offset, Random(7)
        stop = threading.Event()

        def scribble() -> None:
            while not stop.wait(0.00005):
                for offset in WORDS:
                    memory.store32(control + offset, random.randrange(-(2**31), 2**31))

        scribbler = Waits(scribble)
        sender = Waits(lambda: [publisher.send(b"%d" % i, timeout=10) for i in range(200)])
        subscriber.set_spin(0)
        for i in range(200):
            assert subscriber.take(timeout=10) == b"%d" % i
        sender.end()
        stop.set()
        scribbler.end()


def test_a_ring_of_nothing_but_padding_holds_no_wait_beyond_its_time_out() -> None:
    with Channel.create("padding", "broadcast", capacity=4096) as channel:
        readers = channel.subscriber(), channel.lossy_subscriber()
        memory, ring = channel._attached.memory, channel.header.ring(0)
        for at in range(0, 4096, 64):
            memory.store32(ring + at + layout.RECORD_TYPE, layout.TYPE_PADDING)
            memory.store32(ring + at, 64)
        for reader in readers:
            start = time.monotonic()
            assert reader.take(timeout=0.02) is None
            assert reader.poll(print, timeout=0.02) == 0
            assert 0.04 <= time.monotonic() - start < 1


@pytest.mark.parametrize("when_lapped", ["newest", "oldest"])
def test_a_lapped_reader_of_a_publisher_that_died_between_its_counts_sleeps(when_lapped: Any) -> None:
    with Channel.create("lapped", "broadcast", capacity=4096) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber(when_lapped=when_lapped)
        for _ in range(200):
            publisher.offer(b"x")
        memory, begun = channel._attached.memory, channel.header.trailer(0) + layout.TRAILER_MESSAGES_BEGUN
        memory.add64(begun, 1)
        found = 0
        while reader.take():  # the messages behind a boundary
            found += 1
        assert (found > 0) == (when_lapped == "oldest")
        before = resource.getrusage(resource.RUSAGE_THREAD)
        assert reader.take(timeout=0.15) is None
        after = resource.getrusage(resource.RUSAGE_THREAD)
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.05
        assert after.ru_nvcsw - before.ru_nvcsw < 20
        publisher.offer(b"y")  # after this the counts agree again
        reader.take()
        assert reader.lost_messages(0) > 0
        publisher.offer(b"z")
        assert reader.take(timeout=5) == b"z"
