# SPDX-License-Identifier: Apache-2.0
"""One wait for many subscribers and publishers (spec/api.md, Waiting)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from conftest import Child, drain, fill, in_child, pair
from flyring import Channel, ChannelReplacedError, ClosedError, InvalidArgumentError, Message, TwoThreadsError, WaitSet
from waits import Waits, data_asleep, room_asleep, until


def make_set(*members: Any) -> WaitSet:
    waits = WaitSet()
    for member in members:
        waits.add(member)
    return waits


def test_it_returns_the_ready_members_of_several_channels() -> None:
    with Channel.create("a", "broadcast") as first, Channel.create("b", "broadcast", publishers=2) as second:
        one, two, three = first.publisher(), second.publisher(), second.publisher()
        reader, other, lossy = first.subscriber(), second.subscriber(rings=[1]), second.lossy_subscriber([0])
        waits = make_set(reader, other, lossy)
        assert len(waits) == 3
        assert waits.wait(0) == []
        for publisher, member in ((one, reader), (three, other), (two, lossy)):
            waiting = Waits(waits.wait)
            until(lambda: data_asleep(first) and data_asleep(second))
            publisher.offer(b"x")
            assert waiting.end() == [member]
            assert waits.wait(0) == [member]  # ready for as long as there is a message
            assert member.take()
        one.offer(b"x")
        two.offer(b"x")
        assert waits.wait() == [reader, lossy]
        waits.remove(lossy)
        assert waits.wait() == [reader]
        waits.remove(reader)
        assert waits.wait(0.001) == []


def test_a_blocked_publisher_is_ready_when_there_is_room() -> None:
    with pair() as (channel, publisher, subscriber):
        waits = make_set(publisher)
        assert waits.wait(0) == [publisher]
        for _ in range(3):
            fill(publisher)
            assert waits.wait(0) == []
            waiting = Waits(waits.wait)
            until(lambda: room_asleep(channel))
            drain(subscriber)
            assert waiting.end() == [publisher]
            assert publisher.offer(b"x")


def test_a_dead_subscriber_holds_no_publisher_of_a_set_back(child: Callable[..., Child]) -> None:
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
        waiting = Waits(make_set(publisher).wait)
        until(lambda: room_asleep(channel))
        reader.kill()
        assert waiting.end() == [publisher]
        assert publisher.offer(b"x")


def test_wake_ends_the_wait_that_is_under_way_or_the_next_one() -> None:
    with pair() as (channel, _, subscriber):
        waits = make_set(subscriber)
        waiting = Waits(waits.wait)
        until(lambda: data_asleep(channel))
        waits.wake()
        assert waiting.end() == []
        waits.wake()
        assert waits.wait() == []
        assert waits.wait(0.001) == []
    empty = WaitSet()
    waiting = Waits(empty.wait)
    time.sleep(0.01)
    empty.wake()
    assert waiting.end() == []


def test_what_is_closed_or_lost_is_ready() -> None:
    with pair() as (channel, publisher, subscriber):
        other = channel.subscriber()
        waits = make_set(subscriber, other)
        waiting = Waits(waits.wait)
        until(lambda: data_asleep(channel))
        subscriber.close()
        assert waiting.end() == [subscriber]
        with pytest.raises(ClosedError):
            subscriber.take()
        waits.remove(subscriber)
        waiting = Waits(waits.wait)
        time.sleep(0.01)
        channel.evict(other.slot)
        assert waiting.end() == [other]
        waits = make_set(publisher)
        channel.close()
        assert waits.wait() == [publisher]


def test_close_of_a_channel_ends_a_wait_and_leaves_nothing_mapped() -> None:
    with Channel.create("closes", "broadcast") as channel:
        members = [channel.subscriber(), channel.lossy_subscriber(), channel.publisher()]
        members[2].offer(b"x")
        drain(members[0])
        while members[1].take():
            pass
        waits = make_set(*members[:2])
        waiting = Waits(waits.wait)
        until(lambda: data_asleep(channel))
        channel.close()
        assert set(waiting.end()) <= set(members[:2])
        assert waiting.result


@pytest.mark.parametrize("by_flyring", [True, False])
def test_members_of_a_replaced_channel_are_ready_and_say_so(by_flyring: bool) -> None:
    """Also if another program moves another file to the name, which leaves no hint in the old channel."""
    with Channel.create("life", "broadcast", capacity=4096) as channel, Channel.create("stays", "broadcast") as other:
        own, publisher = other.subscriber(), channel.publisher()
        channel.subscriber("s", kept=True).close()  # it holds the publisher back
        fill(publisher)
        subscriber, lossy = channel.subscriber(), channel.lossy_subscriber()
        waits = make_set(own, subscriber, lossy, publisher)
        waiting = Waits(waits.wait)
        until(lambda: data_asleep(channel) and room_asleep(channel) and data_asleep(other))
        if by_flyring:
            Channel.replace("life", "broadcast").close()
        else:
            with Channel.create("new", "broadcast") as new:
                os.rename(new.path, channel.path)
        ready = set(waiting.end())
        for _ in range(100):  # members look at different times, so one wait may return only some of them
            assert ready <= {subscriber, lossy, publisher}
            if len(ready) == 3:
                break
            ready |= set(waits.wait(5))
        assert len(ready) == 3
        calls: list[Callable[[], Any]] = [subscriber.take, lossy.take, lambda: publisher.offer(b"x")]
        for call in calls:
            with pytest.raises(ChannelReplacedError):
                call()


@pytest.mark.parametrize("spin", ["0", "1e300"])
def test_control_c_ends_a_wait_at_once(child: Callable[..., Child], spin: str) -> None:
    code = """
        import sys, flyring
        with flyring.Channel.open(sys.argv[1]) as channel, channel.publisher() as publisher:
            subscriber, waits = channel.subscriber(), flyring.WaitSet()
            waits.add(subscriber)
            waits.set_spin(float(sys.argv[2]))
            for i in range(5):
                print("waiting", flush=True)
                try:
                    waits.wait()
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
            publisher.offer(b"x")
            assert waits.wait() == [subscriber]
            print(bytes(subscriber.take()), flush=True)
    """
    with Channel.create("interrupt", "broadcast", capacity=4096) as channel:
        other, times = child(code, channel.path, spin), []
        for _ in range(5):
            assert other.line() == "waiting"
            time.sleep(0.03)
            other.process.send_signal(signal.SIGINT)
            start = time.monotonic()
            assert other.line() == "interrupted"
            times.append(time.monotonic() - start)
        assert other.line() == "b'x'"
        assert sorted(times)[2] < 0.05


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_members_of_a_forked_child_are_closed() -> None:
    with pair() as (channel, publisher, subscriber):
        waits = make_set(subscriber)
        waiting = Waits(waits.wait)
        until(lambda: data_asleep(channel))

        def work() -> None:
            own = make_set(publisher)
            assert own.wait() == [publisher]
            with pytest.raises(ClosedError):
                publisher.offer(b"x")

        in_child(work)
        publisher.offer(b"x")
        assert waiting.end() == [subscriber]


def test_its_members_are_in_use_while_it_waits() -> None:
    with pair() as (channel, publisher, subscriber):
        waits = make_set(subscriber)
        waiting = Waits(waits.wait)
        until(lambda: data_asleep(channel))
        refused: list[Callable[[], Any]] = [
            subscriber.take,
            lambda: subscriber.poll(print),
            waits.wait,
            lambda: waits.add(publisher),
            lambda: waits.remove(subscriber),
            lambda: waits.set_spin(0),
        ]
        for use in refused:
            with pytest.raises(TwoThreadsError):
                use()
        publisher.offer(b"x")
        assert waiting.end() == [subscriber]

        def inside(message: Message) -> None:
            with pytest.raises(TwoThreadsError):
                waits.wait(0)

        assert subscriber.poll(inside) == 1


def test_what_cannot_be_waited_for_is_refused() -> None:
    with pair() as (channel, _, subscriber):
        waits = make_set(subscriber)
        wrong: list[Any] = [None, channel, 7]
        for member in wrong:
            with pytest.raises(InvalidArgumentError):
                waits.add(member)
        with pytest.raises(InvalidArgumentError):
            waits.add(subscriber)
        with channel.lossy_subscriber() as other, pytest.raises(InvalidArgumentError):
            waits.remove(other)
        for timeout in (-1, float("nan")):
            with pytest.raises(InvalidArgumentError):
                waits.wait(timeout)
        for spin in (-1, float("nan"), float("inf")):
            with pytest.raises(InvalidArgumentError) as caught:
                waits.set_spin(spin)
            assert caught.value.argument == "spin"
        waits.set_spin(1e300)


def test_more_than_127_pairs_of_words_are_waited_for_in_naps() -> None:
    with ExitStack() as stack:
        waits, readers, publishers = WaitSet(), [], []
        for i in range(128):
            channel = stack.enter_context(
                Channel.create(f"c{i}", "broadcast", capacity=4096, publishers=1, subscribers=1, counters=0)
            )
            readers.append(channel.subscriber())
            publishers.append(channel.publisher())
            if i == 126:
                for reader in readers:
                    waits.add(reader)
                assert not waits.naps
                publishers[100].offer(b"x")
                assert waits.wait() == [readers[100]]
                assert readers[100].take()
        waits.add(readers[127])
        assert waits.naps
        waiting = Waits(waits.wait)
        time.sleep(0.01)
        publishers[127].offer(b"x")
        assert waiting.end() == [readers[127]]


def test_where_futex_waitv_is_refused_it_naps(child: Callable[..., Child]) -> None:
    code = """
        import errno, select, sys, flyring
        sys.path.insert(0, sys.argv[2])
        import refused_calls
        refused_calls.refuse(refused_calls.FUTEX_WAITV, errno.ENOSYS)
        with flyring.Channel.open(sys.argv[1]) as channel:
            subscriber, waits = channel.subscriber(), flyring.WaitSet()
            waits.add(subscriber)
            print(waits.naps, flush=True)
            for i in range(20):
                assert waits.wait(10) == [subscriber]
                print(bytes(subscriber.take()).decode(), flush=True)
            fd = subscriber.fileno()
            for i in range(20):
                while (message := subscriber.take()) is None:
                    assert select.select([fd], [], [], 10)[0]
                print(bytes(message).decode(), flush=True)
    """
    with Channel.create("naps", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        other = child(code, channel.path, os.path.dirname(__file__))
        assert other.line() == "True"
        times = []
        for i in range(40):
            start = time.monotonic()
            publisher.offer(b"%d" % i)
            assert other.line() == str(i)
            times.append(time.monotonic() - start)
            time.sleep(0.002)  # time for the wait to begin
        for part in times[:20], times[20:]:
            assert sorted(part)[10] < 0.02  # a nap lasts 1 ms; the cap of a sleep would be 100 ms


def test_messages_in_turn_through_two_sets() -> None:
    with Channel.create("forth", "broadcast", capacity=4096) as forth, Channel.create("back", "broadcast") as back:
        asks, answers = forth.publisher(), back.publisher()
        asked, answered = forth.subscriber(), back.subscriber()

        def echo() -> None:
            waits = make_set(asked)
            for _ in range(2000):
                (ready,) = waits.wait(10)
                assert answers.offer(ready.take())

        thread = threading.Thread(target=echo)
        thread.start()
        waits = make_set(answered)
        for i in range(2000):
            asks.offer(b"%d" % i)
            (ready,) = waits.wait(10)
            assert ready.take() == b"%d" % i
        thread.join()
