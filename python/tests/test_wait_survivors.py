# SPDX-License-Identifier: Apache-2.0
"""Waits that are ended or disturbed at any moment: by close, evict, signal, fork and death (spec/channel.md 6.16)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from conftest import Child, drain, fill, in_child, pair
from flyring import Action, Channel, ChannelReplacedError, ClosedError, FlyringError, SlotLostError, WaitSet, layout
from waits import Waits, data_asleep, room_asleep, sleeping_reader, until, word

# What ends a wait


def test_close_from_another_thread_ends_a_wait() -> None:
    for close in ("object", "channel"):
        with sleeping_reader(close) as (channel, subscriber, _, waits):
            start = time.monotonic()
            (subscriber if close == "object" else channel).close()
            with pytest.raises(ClosedError):
                waits.end()
            assert waits.ended - start < 1
    with pair() as (channel, publisher, _):
        fill(publisher)
        waits = Waits(lambda: publisher.send(b"x"))
        until(lambda: room_asleep(channel))
        publisher.close()
        with pytest.raises(ClosedError):
            waits.end()


@pytest.mark.parametrize("read_only", [False, True])
def test_close_ends_a_wait_of_a_lossy_reader(read_only: bool) -> None:
    with (
        Channel.create("lossy", "broadcast", capacity=4096) as channel,
        channel.publisher(),
        Channel.open("lossy", read_only=read_only) as other,
    ):
        reader = other.lossy_subscriber()
        waits = Waits(lambda: reader.take(timeout=None))
        time.sleep(0.02)
        if not read_only:
            until(lambda: data_asleep(channel))
        else:
            assert data_asleep(channel) == 0
        reader.close()
        with pytest.raises(ClosedError):
            waits.end()


def test_evict_ends_a_wait() -> None:
    with sleeping_reader() as (channel, subscriber, _, waits):
        start = time.monotonic()
        channel.evict(subscriber.slot)
        with pytest.raises(SlotLostError):
            waits.end()
        assert waits.ended - start < 1


def test_replace_ends_a_wait_and_the_object_works_on() -> None:
    with sleeping_reader() as (_, subscriber, publisher, waits):
        start = time.monotonic()
        with Channel.replace("sleeps", "broadcast"):
            with pytest.raises(ChannelReplacedError):
                waits.end()
            assert waits.ended - start < 1
            with pytest.raises(ChannelReplacedError):
                publisher.offer(b"told once")
            publisher.offer(b"still here")
            assert bytes(subscriber.take(timeout=1)) == b"still here"
    with pair() as (channel, publisher, subscriber):
        fill(publisher)
        waits = Waits(lambda: publisher.send(b"x"))
        until(lambda: room_asleep(channel))
        with Channel.replace("life", "broadcast"), pytest.raises(ChannelReplacedError):
            waits.end()


ENDS: dict[str, tuple[type[FlyringError], Callable[[Channel, Any], Any]]] = {
    "close": (ClosedError, lambda channel, subscriber: subscriber.close()),
    "close of the channel": (ClosedError, lambda channel, subscriber: channel.close()),
    "evict": (SlotLostError, lambda channel, subscriber: channel.evict(subscriber.slot)),
}


LONG_SPINS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "take": lambda publisher, subscriber, lossy: subscriber.take(None),
    "lossy take": lambda publisher, subscriber, lossy: lossy.take(None),
    "send": lambda publisher, subscriber, lossy: publisher.send(b"x"),
}


@pytest.mark.parametrize("wait", ["block", "spin", "yield", "backoff"])
@pytest.mark.parametrize("verb", LONG_SPINS)
def test_a_spin_looks_as_often_as_a_sleep(verb: str, wait: Any) -> None:
    with Channel.create("spins", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher(wait=wait)
        ends = publisher, channel.subscriber(wait=wait), channel.lossy_subscriber(wait=wait)
        for end in ends:
            end.set_spin(100)
        if verb == "send":
            fill(publisher)
        else:
            drain(ends[2])
        waits = Waits(lambda: LONG_SPINS[verb](*ends))
        os.unlink(channel.path)  # removed without a hint
        with Channel.create("spins", "broadcast", capacity=4096), pytest.raises(ChannelReplacedError):
            waits.end()


def test_a_wait_set_that_spins_looks_as_often_as_one_that_sleeps() -> None:
    with Channel.create("spins", "broadcast", capacity=4096) as channel:
        subscriber, waits = channel.subscriber(), WaitSet()
        waits.add(subscriber)
        waits.set_spin(100)
        ready = Waits(lambda: waits.wait(None))
        os.unlink(channel.path)
        with Channel.create("spins", "broadcast", capacity=4096):
            assert ready.end() == [subscriber]
            with pytest.raises(ChannelReplacedError):
                subscriber.take()


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_a_wait_may_come_at_any_moment(end: str) -> None:
    error, act = ENDS[end]
    random, longest = Random(1), []
    with Channel.create("ends", "broadcast", capacity=4096):
        for i in range(120):
            with Channel.open("ends") as channel:
                subscriber = channel.subscriber()
                subscriber.set_spin(0)
                waits = Waits(lambda subscriber=subscriber: subscriber.take(timeout=None))
                time.sleep(random.uniform(0, 0.001) if i % 2 else 0)
                act(channel, subscriber)
                start = time.monotonic()
                with pytest.raises(error):
                    waits.end()
                longest.append(waits.ended - start)
    assert sorted(longest)[60] < 0.05  # the cap is 100 ms
    assert max(longest) < 5


def test_a_publisher_that_waits_may_be_closed_at_any_moment() -> None:
    random = Random(2)
    with Channel.create("ends", "broadcast", capacity=4096) as channel:
        channel.subscriber("kept", kept=True).close()
        with channel.publisher() as publisher:
            fill(publisher)
        for _ in range(60):
            publisher = channel.publisher()
            publisher.set_spin(0)
            waits = Waits(lambda publisher=publisher: publisher.send(b"x" * 100))
            time.sleep(random.uniform(0, 0.001))
            publisher.close()
            with pytest.raises(ClosedError):
                waits.end()


def test_a_channel_may_be_closed_at_any_moment_of_a_wait_for_many() -> None:
    random = Random(4)
    for _ in range(60):
        with pair() as (channel, _, subscriber), Channel.create("other", "broadcast", capacity=4096) as other:
            reader, waits = other.subscriber(), WaitSet()
            waits.add(reader)
            waits.add(subscriber)
            waiting = Waits(waits.wait)
            time.sleep(random.uniform(0, 0.001))
            channel.close()
            assert waiting.end() == [subscriber]
            os.unlink(channel.path)
            os.unlink(other.path)


# Signals


def test_a_signals_handler_runs_during_a_wait() -> None:
    with pair() as (_, publisher, subscriber):
        seen: list[float] = []

        def on_alarm(*_: object) -> None:
            seen.append(time.monotonic())
            if len(seen) == 2:
                publisher.offer(b"from the handler")

        before = signal.signal(signal.SIGALRM, on_alarm)
        try:
            start = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            message = subscriber.take(timeout=10)
            took = time.monotonic() - start
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert message is not None
        assert len(seen) >= 2
        assert took < 5


WAITS: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda publisher, subscriber: subscriber.take(None),
    "flush": lambda publisher, subscriber: publisher.flush(),
    "next": lambda publisher, subscriber: next(subscriber),
}


@pytest.mark.parametrize("what", WAITS)
def test_an_exception_of_a_signals_handler_ends_a_wait(what: str) -> None:
    with pair() as (_, publisher, subscriber):

        def on_alarm(*_: object) -> None:
            raise KeyboardInterrupt

        if what == "flush":
            publisher.offer(b"x")
        before = signal.signal(signal.SIGALRM, on_alarm)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                WAITS[what](publisher, subscriber)
        finally:
            signal.signal(signal.SIGALRM, before)
        publisher.offer(b"y")
        assert subscriber.take()


class AlarmError(Exception):
    """The exception that the handler of SIGALRM raises."""


@contextmanager
def alarms() -> Iterator[Callable[[float], None]]:
    """Gives a function that sets the alarm in so many seconds; 0 cancels it, even if it comes late."""
    armed = False

    def on_alarm(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise AlarmError

    def alarm(seconds: float) -> None:
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        yield alarm
    finally:
        alarm(0)
        signal.signal(signal.SIGALRM, before)


LAST = 1_000_000_000


Read = Callable[[Any, Callable[[bytes], None]], Any]


READS: dict[str, Read] = {
    "take": lambda reader, got: got(bytes(reader.take(timeout=None))),
    "poll": lambda reader, got: reader.poll(lambda message: got(bytes(message)), 1, None),
    "next": lambda reader, got: got(bytes(next(reader))),
}


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("kind", ["subscriber", "lossy_subscriber"])
def test_a_signal_at_any_moment_of_a_read_loses_at_most_what_was_handed_out(kind: str, way: str) -> None:
    with Channel.create("signals", "broadcast", capacity=1 << 16) as channel:
        publisher, reader, random = channel.publisher(), getattr(channel, kind)(), Random(3)
        reader.set_spin(0)
        got: list[int] = []
        interrupts = 0

        def publish() -> int:
            count = 0
            while interrupts < 30:
                publisher.send(b"%d" % count, timeout=10)
                count += 1
                time.sleep(0.0005)
            while got[-1:] != [LAST]:  # LAST may be the message that is lost
                publisher.send(b"%d" % LAST, timeout=10)
                time.sleep(0.002)
            return count

        publishes = Waits(publish)
        with alarms() as alarm:
            while got[-1:] != [LAST]:
                try:
                    alarm(random.uniform(0.00005, 0.002))
                    READS[way](reader, lambda data: got.append(int(data)))
                    alarm(0)
                except AlarmError:
                    interrupts += 1
        count = publishes.end()
        assert got.pop() == LAST
        assert got == sorted(set(got))
        assert count - len(got) <= interrupts


@pytest.mark.parametrize("way", ["send", "claim", "send_batch"])
def test_a_signal_at_any_moment_of_a_send_publishes_all_or_nothing(way: str) -> None:
    with pair() as (channel, publisher, subscriber):
        random, stop, got, interrupts = Random(5), threading.Event(), [], 0
        publisher.set_spin(0)

        def claim(data: bytes) -> None:
            with publisher.claim(len(data)) as space:
                space[:] = data

        ways: dict[str, Callable[[bytes], Any]] = {
            "send": publisher.send,
            "claim": claim,
            "send_batch": lambda data: publisher.send_batch([data]),
        }

        def read() -> None:
            while not stop.wait(0.001):
                got.extend(drain(subscriber))

        reads = Waits(read)
        with alarms() as alarm:
            while interrupts < 30:
                number = channel.stats().publishers[0].messages  # the number of messages published so far
                try:
                    alarm(random.uniform(0.00005, 0.001))
                    while True:
                        ways[way](b"%d" % number * 50)
                        number += 1
                except AlarmError:
                    interrupts += 1
        stop.set()
        reads.end()
        got.extend(drain(subscriber))
        assert got == [b"%d" % i * 50 for i in range(channel.stats().publishers[0].messages)]


# Forks


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("what", ["take", "send", "flush", "wait set"])
def test_a_signals_handler_may_fork_during_a_wait(what: str) -> None:
    """The wait goes on in the parent. In the child the object is closed."""
    with pair() as (_, publisher, subscriber):
        waits = WaitSet()
        waits.add(subscriber)
        if what in ("send", "flush"):
            fill(publisher)
        calls: dict[str, Callable[[], Any]] = {
            "take": lambda: subscriber.take(timeout=None),
            "send": lambda: publisher.send(b"x"),
            "flush": publisher.flush,
            "wait set": lambda: waits.wait() == [subscriber] and subscriber.take(),
        }
        children: list[int] = []

        def on_alarm(*_: object) -> None:
            children.append(os.fork())
            if children[0] != 0 and what in ("take", "wait set"):
                publisher.offer(b"from the handler")
            elif children[0] != 0:
                drain(subscriber)

        before = signal.signal(signal.SIGALRM, on_alarm)
        status = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            result = calls[what]()
            assert children[0] != 0
            assert result is not None or what == "flush"
        except ClosedError:
            status = 0 if children[0] == 0 else 1
        finally:
            if children[0] == 0:
                os._exit(status)
            signal.signal(signal.SIGALRM, before)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("kind", ["subscriber", "lossy_subscriber"])
def test_a_handler_may_fork_in_a_poll_that_waited(kind: str, action: Action) -> None:
    """In the child the poll ends with ClosedError; the parent's object still works."""
    with Channel.create("forks", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        reader = getattr(channel, kind)()
        sends = Waits(lambda: (until(lambda: data_asleep(channel)), publisher.offer_batch([b"m", b"n"])))
        children: list[int] = []

        def handler(_: Any) -> Action:
            children.append(os.fork())
            return action

        status = 1
        try:
            reader.poll(handler, 1, 10)
        except ClosedError:
            with pytest.raises(ClosedError):
                reader.take(1)
            status = 0 if children == [0] else 1
        finally:
            if children == [0]:
                os._exit(status)
        sends.end()
        assert len(children) == 1
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
        assert drain(reader) == ([b"m", b"n"] if action is Action.ABORT else [b"n"])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("what", ["send", "flush", "take"])
def test_a_fork_in_the_middle_of_a_look_for_a_successor(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has no name any more, so Python code looks for the new file, during which a signal's handler may run.
    The child publishes nothing into its parent's ring."""
    with pair() as (channel, publisher, subscriber):
        os.unlink(channel.path)
        if what != "take":
            fill(publisher)
        calls: dict[str, Callable[[], Any]] = {
            "send": lambda: publisher.send(b"x"),
            "flush": publisher.flush,
            "take": lambda: subscriber.take(timeout=None),
        }
        children: list[int] = []

        def fork(_: Channel) -> None:
            if not children:
                if what != "take":
                    drain(subscriber)
                children.append(os.fork())
                if children[0] != 0 and what == "take":
                    publisher.offer(b"x")

        monkeypatch.setattr(Channel, "_check_replaced", fork)
        status = 1
        try:
            result = calls[what]()
            assert result is not None or what == "flush"
        except ClosedError:
            status = 0 if children == [0] else 1
        finally:
            if children == [0]:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
        assert publisher.offer(b"y")
        assert drain(subscriber)[-1:] == [b"y"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_beside_a_wait_leaves_the_wait_to_the_parent() -> None:
    with pair() as (channel, publisher, subscriber):
        waits = Waits(lambda: subscriber.take(timeout=None))
        until(lambda: data_asleep(channel))

        def work() -> None:
            with pytest.raises(ClosedError):
                subscriber.take()
            subscriber.close()
            channel.close()

        in_child(work)
        publisher.offer(b"parent's")
        assert waits.end() == b"parent's"


# The dead


def test_a_waker_that_dies_in_front_of_its_wake_delays_a_reader_by_the_cap() -> None:
    with Channel.create("cap", "broadcast", capacity=4096) as channel, Channel.open("cap", wake=False) as silent:
        subscriber, publisher = channel.subscriber(), silent.publisher()
        slot = channel.header.publisher_slot(publisher.ring)
        channel._attached.memory.store64(slot + layout.PUBLISHER_SLOT_WAKES, publisher.epoch)  # a false promise
        waits = Waits(lambda: subscriber.take(timeout=None))
        until(lambda: data_asleep(channel))
        start = time.monotonic()
        publisher.offer(b"late")
        assert bytes(waits.end()) == b"late"
        assert waits.ended - start < 1


def test_the_wait_of_a_publisher_retires_the_dead(child: Callable[..., Child]) -> None:
    code = """
        import sys, flyring
        channel = flyring.Channel.open(sys.argv[1])
        subscriber = channel.subscriber()
        print("owned", flush=True)
        sys.stdin.read()
    """
    with Channel.create("dead", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        reader = child(code, channel.path)
        assert reader.line() == "owned"
        fill(publisher)
        waits = Waits(lambda: publisher.send(b"x"))
        until(lambda: room_asleep(channel))
        start = time.monotonic()
        reader.kill()
        assert waits.end()
        assert waits.ended - start < 1


SLEEPER = """
    import sys, flyring
    with flyring.Channel.open(sys.argv[1]) as channel, channel.subscriber() as subscriber:
        subscriber.set_spin(0)
        print("ready", flush=True)
        for message in subscriber:
            print(bytes(message).decode(), flush=True)
"""


def test_a_stopped_sleeper_delays_no_other_and_misses_nothing(child: Callable[..., Child]) -> None:
    with Channel.create("stop", "broadcast", capacity=1 << 16) as channel:
        sleeper = child(SLEEPER, channel.path)
        assert sleeper.line() == "ready"
        publisher, subscriber = channel.publisher(), channel.subscriber()
        until(lambda: data_asleep(channel))
        sleeper.process.send_signal(signal.SIGSTOP)
        times = []
        for i in range(50):
            waits = Waits(lambda: subscriber.take(timeout=None))
            until(lambda: data_asleep(channel))
            start = time.monotonic()
            publisher.offer(b"%d" % i)
            assert waits.end() == b"%d" % i
            times.append(waits.ended - start)
        assert sorted(times)[25] < 0.05
        sleeper.process.send_signal(signal.SIGCONT)
        assert [sleeper.line() for _ in range(50)] == [str(i) for i in range(50)]
        publisher.close()
        assert sleeper.end() == 0


def test_a_killed_sleeper_costs_one_vain_wake_at_most(child: Callable[..., Child]) -> None:
    with Channel.create("kill", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        sleeper = child(SLEEPER, channel.path)
        assert sleeper.line() == "ready"
        until(lambda: data_asleep(channel))
        sleeper.kill()
        before = word(channel, layout.CONTROL_DATA_SEQUENCE)
        for _ in range(10):
            publisher.offer(b"x")
        assert (word(channel, layout.CONTROL_DATA_SEQUENCE), data_asleep(channel)) == (before + 1, 0)


def test_a_killed_publisher_that_slept_costs_one_vain_wake_at_most(child: Callable[..., Child]) -> None:
    code = """
        import sys, flyring
        with flyring.Channel.open(sys.argv[1]) as channel, channel.publisher() as publisher:
            while publisher.offer(b"x"):
                pass
            print("full", flush=True)
            publisher.send(b"x")
    """
    with Channel.create("kill", "broadcast", capacity=4096) as channel, channel.subscriber() as subscriber:
        sleeper = child(code, channel.path)
        assert sleeper.line() == "full"
        until(lambda: room_asleep(channel))
        sleeper.kill()
        before = word(channel, layout.CONTROL_ROOM_SEQUENCE)
        while subscriber.take():
            pass
        assert (word(channel, layout.CONTROL_ROOM_SEQUENCE), room_asleep(channel)) == (before + 1, 0)


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "os._exit(0)", "channel.close()"])
def test_the_helper_thread_is_gone_at_exit(child: Callable[..., Child], end: str) -> None:
    code = f"""
        import os, select, sys, flyring
        channel = flyring.Channel.open(sys.argv[1])
        subscriber = channel.subscriber()
        fd = subscriber.fileno()
        assert subscriber.take() is None
        assert not select.select([fd], [], [], 0.01)[0]
        assert len(os.listdir("/proc/self/task")) == 2
        {end}
    """
    with Channel.create("exit", "broadcast", capacity=4096) as channel:
        start = time.monotonic()
        assert child(code, channel.path).end() == 0
        assert time.monotonic() - start < 10
