# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: counters by which threads show that they run (spec/channel.md 8.1)."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable

import pytest

from conftest import Child, in_child
from flyring import (
    AccessDeniedError,
    Channel,
    ClosedError,
    Heartbeat,
    HeartbeatStats,
    InvalidArgumentError,
    NoSpaceError,
    layout,
)

BEATER = """
import sys
from flyring import Channel, Heartbeat
channel = Channel.open("c")
heart = Heartbeat(channel, "loop", interval=0.25)
for _ in range(5):
    heart.beat()
print("ready", flush=True)
sys.stdin.readline()
"""


def channel(counters: int = 3) -> Channel:
    return Channel.create("c", "broadcast", capacity=4096, counters=counters)


def only(of: Channel) -> HeartbeatStats:
    (one,) = of.stats().heartbeats
    return one


def test_stats_show_name_pid_interval_and_beats() -> None:
    before = time.time_ns()
    with channel() as one, Channel.open("c", read_only=True) as other:
        counter = one.counters().allocate("loop")  # another counter of this label, which stays
        heart = Heartbeat(one, "loop", interval=0.5)
        shown = only(other)
        assert (shown.id, shown.name, shown.pid) == (heart.id, "loop", os.getpid())
        assert (shown.interval, shown.beats) == (500_000_000, 0)
        assert before <= shown.started_at <= time.time_ns()
        for _ in range(3):
            heart.beat()
        assert only(other).beats == heart.beats == 3
        assert (heart.name, heart.interval) == ("loop", 0.5)
        assert counter.get() == 0
        heart.close()


def test_the_counter_is_as_the_spec_says() -> None:
    with channel() as one, Heartbeat(one, "loop") as heart:
        counter = one.counters().counter(heart.id)
        assert (counter.type_id, counter.label) == (1111834964, "loop")
        pid, zero, interval = struct.unpack_from("<iiq", counter.key)
        assert (pid, zero, interval) == (os.getpid(), 0, 1_000_000_000)
        assert counter.key[24:] == bytes(layout.COUNTER_METADATA_KEY_LENGTH - 24)


def test_close_frees_the_counter() -> None:
    with channel(counters=1) as one:
        heart = Heartbeat(one, "loop")
        with pytest.raises(NoSpaceError):
            Heartbeat(one, "other")
        heart.close()
        heart.close()
        with pytest.raises(ClosedError):
            heart.beat()
        assert heart.beats == 0
        assert one.stats().heartbeats == ()
        Heartbeat(one, "other").close()


def test_the_next_one_of_the_name_takes_it_over() -> None:
    with channel() as one, Channel.open("c") as two:
        old, another = Heartbeat(one, "loop"), Heartbeat(one, "another")
        old.beat()
        new = Heartbeat(two, "loop", interval=0)
        with pytest.raises(ClosedError):
            old.beat()
        old.close()  # frees nothing: the counter is the new one's
        new.beat()
        another.beat()
        assert sorted((each.name, each.beats, each.interval) for each in one.stats().heartbeats) == [
            ("another", 1, 1_000_000_000),
            ("loop", 1, 0),
        ]
        new.close()
        another.close()


def test_a_killed_process_leaves_it_until_the_next_one(child: Callable[..., Child]) -> None:
    with channel(counters=1) as one:
        beater = child(BEATER)
        beater.line()
        beater.kill()
        shown = only(one)
        assert (shown.name, shown.pid, shown.beats, shown.interval) == ("loop", beater.process.pid, 5, 250_000_000)
        with Heartbeat(one, "loop"):
            assert (only(one).pid, only(one).beats) == (os.getpid(), 0)
        assert one.stats().heartbeats == ()


def test_the_channel_is_closed_first() -> None:
    one = channel(counters=1)
    heart = Heartbeat(one, "loop")
    heart.beat()
    one.close()
    with pytest.raises(ClosedError):
        heart.beat()
    heart.close()
    with pytest.raises(ClosedError):
        Heartbeat(one, "loop")
    with Channel.open("c") as two:
        assert only(two).beats == 1
        Heartbeat(two, "loop").close()
        assert two.stats().heartbeats == ()


def test_a_forked_child_does_not_beat_for_its_parent() -> None:
    with channel() as one, Heartbeat(one, "loop") as heart:
        heart.beat()

        def work() -> None:
            with pytest.raises(ClosedError):
                heart.beat()
            heart.close()

        in_child(work)
        assert only(one).beats == 1
        heart.beat()
        assert only(one).beats == 2


def test_arguments() -> None:
    with channel(counters=1) as one, Channel.open("c", read_only=True) as reader:
        for name in ("", "no name", "x" * 65):
            with pytest.raises(InvalidArgumentError) as caught:
                Heartbeat(one, name)
            assert caught.value.argument == "name"
        with pytest.raises(InvalidArgumentError) as caught:
            Heartbeat(one, "loop", interval=-0.001)
        assert caught.value.argument == "interval"
        with pytest.raises(AccessDeniedError):
            Heartbeat(reader, "loop")
        assert one.stats().counters == ()


def test_a_key_of_another_program() -> None:
    with channel() as one:
        one.counters().allocate("größe", layout.COUNTER_METADATA_TYPE_HEARTBEAT, b"\xff" * 112).set(-1)
        shown = only(one)
        assert (shown.name, shown.pid, shown.interval, shown.started_at, shown.beats) == ("größe", -1, -1, -1, -1)
