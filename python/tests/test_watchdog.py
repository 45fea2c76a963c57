# SPDX-License-Identifier: Apache-2.0
"""Watchdogs and canaries: what runs late is named (spec/api.md, "Watchdog")."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from conftest import Child, in_child
from flyring import Canary, Channel, ClosedError, Heartbeat, InvalidArgumentError, Missed, Watchdog

BEATER = """
import sys
from flyring import Channel, Heartbeat
channel = Channel.open("c")
heart = Heartbeat(channel, "loop", interval=0.25)
heart.beat()
print("ready", flush=True)
sys.stdin.readline()
"""

STOPPED = """
import sys, time
from flyring import Canary, Channel, Heartbeat, Watchdog
channel = Channel.open("c")
def tell(missed):
    print(missed.kind, missed.label, missed.times, missed.late // 1_000_000, flush=True)
watchdog = Watchdog(channel, tell, every=0.05, repeat=0)
canary = Canary(watchdog, "stretch", 2)
heart = Heartbeat(channel, "loop", interval=2)
with canary:
    time.sleep(0.2)
    print("ready", flush=True)
    sys.stdin.readline()
"""


class Told:
    """Collects what a watchdog tells."""

    def __init__(self) -> None:
        self.all: list[Missed] = []

    def __call__(self, missed: Missed) -> None:
        self.all.append(missed)

    def of(self, kind: str) -> list[Missed]:
        return [one for one in self.all if one.kind == kind]

    def first(self, kind: str) -> Missed:
        until(lambda: bool(self.of(kind)))
        return self.of(kind)[0]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def channel() -> Channel:
    return Channel.create("c", "broadcast", capacity=4096, counters=4)


def busy_for_ever(go_on: threading.Event) -> None:
    go_on.wait()


def test_a_thread_that_misses_its_promise_is_named() -> None:
    told, go_on = Told(), threading.Event()

    def work() -> None:
        heart = Heartbeat(one, "loop", interval=0.1)
        heart.beat()
        busy_for_ever(go_on)
        heart.close()

    with channel() as one, Watchdog(one, told, every=0.02):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        missed = told.first("heartbeat")
        go_on.set()
        thread.join()
    assert (missed.label, missed.pid, missed.interval) == ("loop", os.getpid(), 100_000_000)
    assert (missed.times, missed.running) == (1, True)
    assert 0 < missed.late < 20_000_000_000
    assert "in busy_for_ever" in missed.stack
    assert "in work" in missed.stack


def test_a_heartbeat_of_another_process_is_named(child: Callable[..., Child]) -> None:
    told = Told()
    with channel() as one, Watchdog(one, told, every=0.02):
        beater = child(BEATER)
        assert beater.line() == "ready"
        missed = told.first("heartbeat")
    assert (missed.label, missed.pid, missed.interval) == ("loop", beater.process.pid, 250_000_000)
    assert missed.stack == ""


def test_threads_that_beat_or_promise_nothing_are_not_named() -> None:
    told = Told()
    with (
        channel() as one,
        Heartbeat(one, "loop", interval=5) as heart,
        Heartbeat(one, "idle", interval=0),
        Heartbeat(one, "late", interval=0.05),
        Watchdog(one, told, every=0.02),
    ):
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            heart.beat()
            time.sleep(0.01)
        told.first("heartbeat")
    assert {missed.label for missed in told.of("heartbeat")} == {"late"}


def test_a_thread_that_beats_again_is_named_only_when_it_is_late_again() -> None:
    told = Told()
    with (
        channel() as one,
        Heartbeat(one, "loop", interval=0.4) as heart,
        Watchdog(one, told, every=0.02, repeat=0),
    ):
        told.first("heartbeat")
        heart.beat()
        time.sleep(0.1)
        many = len(told.of("heartbeat"))
        time.sleep(0.1)
        heart.beat()
        assert len(told.of("heartbeat")) == many
        until(lambda: len(told.of("heartbeat")) > many)


def test_the_same_is_not_told_again_for_a_while() -> None:
    told, often, at = Told(), Told(), list[float]()

    def tell(missed: Missed) -> None:
        if missed.kind == "heartbeat":
            at.append(time.monotonic())
        often(missed)

    with (
        channel() as one,
        Heartbeat(one, "loop", interval=0.05),
        Watchdog(one, told, every=0.02, repeat=60),
        Watchdog(one, tell, every=0.02, repeat=0.1),
    ):
        until(lambda: len(often.of("heartbeat")) >= 4 and len(told.of("heartbeat")) > 0)
    assert len(told.of("heartbeat")) == 1
    assert at[3] - at[0] >= 0.25


def test_a_slow_stretch_is_named_while_it_runs() -> None:
    told = Told()
    with channel() as one, Watchdog(one, told, every=0.02) as watchdog:
        canary = Canary(watchdog, "parse", 0.05)
        with canary:
            missed = told.first("canary")
    assert (missed.label, missed.pid, missed.interval) == ("parse", os.getpid(), 50_000_000)
    assert (missed.times, missed.running) == (1, True)
    assert missed.late > 0
    assert "in test_a_slow_stretch_is_named_while_it_runs" in missed.stack
    assert [one.running for one in told.of("canary")] == [True, False]  # close tells that it has ended


def test_slow_stretches_are_named_when_they_have_ended() -> None:
    told = Told()
    with channel() as one, Watchdog(one, told, every=0.02, repeat=60) as watchdog:
        canary = Canary(watchdog, "parse", 0.001)
        with canary:
            time.sleep(0.005)
        first = told.first("canary")
        for seconds in (0.003, 0.012, 0.003):
            with canary:
                time.sleep(seconds)
        time.sleep(0.1)
        assert len(told.all) == 1 + len(told.of("watchdog"))
    assert (first.label, first.interval) == ("parse", 1_000_000)
    last = told.of("canary")[-1]
    assert (last.times, last.running, last.stack) == (3, False, "")
    assert last.late >= 11_000_000


def test_a_stretch_in_time_is_not_named() -> None:
    told = Told()
    with channel() as one, Watchdog(one, told, every=0.02) as watchdog:
        canary = Canary(watchdog, "parse", 5)
        for _ in range(10):
            with canary:
                time.sleep(0.01)
        with pytest.raises(KeyError), canary:
            raise KeyError
    assert told.of("canary") == []


def test_a_watchdog_that_slept_too_long_reports_itself(child: Callable[..., Child]) -> None:
    with channel():
        stopped = child(STOPPED)
        while stopped.line() != "ready":
            pass
        os.kill(stopped.process.pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(stopped.process.pid, signal.SIGCONT)
        late: dict[str, int] = {}
        while not late.keys() >= {"loop", "stretch"}:
            kind, label, times, milliseconds = stopped.line().split()
            assert int(times) == 1
            late[label] = max(late.get(label, 0), int(milliseconds)) if kind == "watchdog" else int(milliseconds)
            if len(late) > 1 and "watchdog" not in late:
                pytest.fail("a thread is accused of the time of the stop")
        assert 2_000 <= late["watchdog"] <= 20_000
        assert late["loop"] < 900  # the 3 s of the stop do not count: else it is 1200 or more
        assert late["stretch"] < 900


def test_close_ends_the_thread() -> None:
    told = Told()
    before = threading.active_count()
    with channel() as one, Heartbeat(one, "loop", interval=0.05):
        watchdog = Watchdog(one, told, every=30)
        assert threading.active_count() == before + 1
        began = time.monotonic()
        watchdog.close()
        watchdog.close()
        assert time.monotonic() - began < 20
        assert threading.active_count() == before
        with pytest.raises(ClosedError):
            Canary(watchdog, "parse", 1)
    assert told.all == []


def test_the_callback_may_close() -> None:
    closed = threading.Event()
    with channel() as one, Heartbeat(one, "loop", interval=0.05):

        def close(_: Missed) -> None:
            watchdog.close()
            closed.set()

        watchdog = Watchdog(one, close, every=0.1, repeat=0)
        assert closed.wait(20)
        watchdog.close()
        assert not watchdog._thread.is_alive()


def test_the_channel_is_closed_first() -> None:
    told = Told()
    one = channel()
    watchdog = Watchdog(one, told, every=0.02)
    one.close()
    until(lambda: not watchdog._thread.is_alive())
    watchdog.close()
    with pytest.raises(ClosedError):
        Watchdog(one)
    with pytest.raises(ClosedError):
        Canary(watchdog, "parse", 1)
    assert told.all == []


def test_a_callback_that_throws(capsys: pytest.CaptureFixture[str]) -> None:
    told = Told()

    def throw(missed: Missed) -> None:
        told(missed)
        raise RuntimeError("thrown by the callback")

    with channel() as one, Heartbeat(one, "loop", interval=0.05), Watchdog(one, throw, every=0.02, repeat=0):
        until(lambda: len(told.of("heartbeat")) >= 2)
    assert "thrown by the callback" in capsys.readouterr().err


def test_a_forked_child() -> None:
    with channel() as one, Watchdog(one, every=0.02) as watchdog:
        canary = Canary(watchdog, "parse", 0.001)

        def use_all() -> None:
            with canary:
                time.sleep(0.01)
            with pytest.raises(ClosedError):
                Canary(watchdog, "parse", 1)
            watchdog.close()

        in_child(use_all)
        assert watchdog._thread.is_alive()


def test_arguments() -> None:
    with channel() as one, Watchdog(one) as watchdog:
        for every in (0, -1):
            with pytest.raises(InvalidArgumentError) as refused:
                Watchdog(one, every=every)
            assert refused.value.argument == "every"
        with pytest.raises(InvalidArgumentError) as refused:
            Watchdog(one, repeat=-1)
        assert refused.value.argument == "repeat"
        for expected in (0, -1):
            with pytest.raises(InvalidArgumentError) as refused:
                Canary(watchdog, "parse", expected)
            assert refused.value.argument == "expected"


def test_the_line(capfd: pytest.CaptureFixture[str]) -> None:
    heart = Missed("heartbeat", "a\nb", 7, 1_000_000_000, 250_000_000, 1, True, "")
    assert str(heart) == "flyring: a b of process 7 has not beaten for 1.250 s; it promises a beat every 1.000 s"
    runs = Missed("canary", "parse", 7, 1_000_000, 500_000, 1, True, "  a stack")
    assert str(runs) == "flyring: parse of process 7 has run for 1.500 ms; expected 1.000 ms\n  a stack"
    ended = Missed("canary", "parse", 7, 1_000_000, 500_000, 3, False, "")
    assert str(ended) == "flyring: parse of process 7 took 1.500 ms; expected 1.000 ms (the worst of 3)"
    itself = Missed("watchdog", "watchdog", 7, 100_000_000, 1_500_000_000, 1, False, "")
    assert str(itself) == ("flyring: watchdog of process 7 slept 1.500 s too long; that time counts against no thread")
    with channel() as one, Watchdog(one, every=0.02) as watchdog, Canary(watchdog, "parse", 0.001):
        time.sleep(0.005)
    assert f"flyring: parse of process {os.getpid()} " in capfd.readouterr().err


def test_off_does_nothing() -> None:
    off = Canary.OFF
    with off, off:
        pass
    with pytest.raises(KeyError), off:
        raise KeyError
