# SPDX-License-Identifier: Apache-2.0
"""In event loops: fileno, receive, async for, send_async, with asyncio, uvloop, trio and anyio."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import threading
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing
import uvloop

from conftest import drain, fill, in_child, pair
from flyring import (
    BackPressuredError,
    Channel,
    ChannelReplacedError,
    ClosedError,
    FlyringError,
    InvalidArgumentError,
    SlotLostError,
    Subscriber,
    TwoThreadsError,
)
from waits import Waits, data_asleep, room_asleep, until

Main = Callable[[], Awaitable[Any]]


def run_uvloop(main: Main) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())  # type: ignore[arg-type]


def run_asyncio(main: Main) -> None:
    asyncio.run(main())  # type: ignore[arg-type]


def run_trio(main: Main) -> None:
    trio.run(main)


def run_anyio(main: Main) -> None:
    anyio.run(main)


LOOPS: list[Any] = [run_asyncio, run_uvloop, run_trio, run_anyio]


def is_readable(fd: int, seconds: float = 0) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])


# fileno


def test_fileno_is_readable_while_something_may_be_there() -> None:
    with Channel.create("fd", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        makers: list[Callable[[], Any]] = [channel.subscriber, channel.lossy_subscriber]
        for make in makers:
            reader = make()
            fd = reader.fileno()
            assert reader.fileno() == fd
            assert is_readable(fd)  # readable until a poll finds nothing
            for _ in range(20):
                assert reader.take() is None
                assert not is_readable(fd)
                publisher.offer(b"one")
                assert is_readable(fd, 10)
                publisher.offer(b"two")
                assert reader.take()
                assert is_readable(fd)
                assert reader.poll(lambda message: None) == 1
                assert reader.poll(lambda message: None) == 0
                assert not is_readable(fd)
            reader.close()
            assert is_readable(fd)
            with pytest.raises(ClosedError):
                reader.fileno()


def test_a_message_that_is_there_already_leaves_it_readable() -> None:
    with pair() as (_, publisher, subscriber):
        fd = subscriber.fileno()
        for i in range(500):
            publisher.offer(b"%d" % i)
            assert is_readable(fd, 10)
            assert subscriber.take() == b"%d" % i
            if i % 2:
                assert subscriber.take() is None


def test_messages_of_an_end_with_wake_off_are_found_all_the_same() -> None:
    with (
        Channel.create("silent", "broadcast", wake=False) as channel,
        channel.publisher() as publisher,
        Channel.open("silent", read_only=True) as read_only,
    ):
        makers: list[Callable[[], Any]] = [channel.subscriber, read_only.lossy_subscriber]
        for make in makers:
            reader = make()
            fd = reader.fileno()
            assert reader.take() is None
            assert not is_readable(fd, 0.01)
            publisher.offer(b"x")
            assert is_readable(fd, 10)
            assert reader.take()
            reader.close()


def test_evict_makes_it_readable() -> None:
    with pair() as (channel, _, subscriber):
        fd = subscriber.fileno()
        assert subscriber.take() is None
        channel.evict(subscriber.slot)
        assert is_readable(fd, 10)
        with pytest.raises(SlotLostError):
            subscriber.take()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns of forks with threads
def test_a_forked_child_has_no_helper_until_it_needs_one() -> None:
    with pair() as (_, publisher, subscriber):
        fd = subscriber.fileno()
        assert subscriber.take() is None

        def work() -> None:
            with pytest.raises(ClosedError):
                subscriber.fileno()
            assert len(os.listdir("/proc/self/task")) == 1
            with Channel.open("life") as own, own.subscriber() as reader, own.publisher() as writer:
                own_fd = reader.fileno()
                assert reader.take() is None
                writer.offer(b"child's")
                assert is_readable(own_fd, 10)
                assert reader.take() == b"child's"

        in_child(work)
        while subscriber.take():
            pass
        assert not is_readable(fd)
        publisher.offer(b"x")
        assert is_readable(fd, 10)


def test_one_helper_thread_serves_all() -> None:
    def helpers() -> int:
        names = []
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{task}/comm") as file:
                names.append(file.read().strip())  # the thread may have ended meanwhile
        return names.count("flyring-waits")

    until(lambda: helpers() == 0)  # that of the test before may still end
    with pair() as (channel, publisher, subscriber), Channel.create("other", "broadcast") as second:
        readers = [subscriber, channel.subscriber(), channel.lossy_subscriber(), second.subscriber()]
        fds = [reader.fileno() for reader in readers]
        assert [reader.take() for reader in readers] == [None] * 4
        assert helpers() == 1
        publisher.offer(b"x")
        assert all(is_readable(fd, 10) for fd in fds[:3])
        assert not is_readable(fds[3])
    until(lambda: helpers() == 0)  # there is nothing to watch


# receive, async for


@pytest.mark.parametrize("run", LOOPS)
def test_receive_waits_for_a_message(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        with pair() as (channel, publisher, subscriber):
            start = time.monotonic()
            assert await subscriber.receive(0.02) is None
            assert time.monotonic() - start >= 0.02
            assert await subscriber.receive(0) is None
            waits = Waits(lambda: until(lambda: data_asleep(channel)) or publisher.offer(b"later"))
            assert await subscriber.receive() == b"later"
            waits.end()
            for i in range(300):
                publisher.offer(b"%d" % i)
                assert await subscriber.receive() == b"%d" % i
            with pytest.raises(InvalidArgumentError):
                await subscriber.receive(-1)
            subscriber.close()
            with pytest.raises(ClosedError):
                await subscriber.receive()

    run(main)


@pytest.mark.parametrize("run", LOOPS)
def test_async_for_ends_with_the_last_publisher(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        with Channel.create("for", "broadcast", capacity=4096) as channel:
            subscriber = channel.subscriber()

            def publish() -> None:
                until(lambda: data_asleep(channel))
                with channel.publisher() as publisher:
                    for i in range(500):
                        publisher.send(b"%d" % i)
                        if i % 100 == 0:
                            time.sleep(0.002)

            waits = Waits(publish)
            got = [bytes(message) async for message in subscriber]
            waits.end()
            assert got == [b"%d" % i for i in range(500)]
            assert [message async for message in subscriber] == []

    run(main)


@pytest.mark.parametrize("run", [run_asyncio, run_uvloop])
def test_a_receive_that_is_cancelled_has_consumed_nothing(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        with pair() as (_, publisher, subscriber):
            got: list[bytes] = []
            sent = 0
            for i in range(300):
                task = asyncio.ensure_future(subscriber.receive())
                for _ in range(i % 4):
                    await asyncio.sleep(0)
                if i % 3:
                    publisher.offer(b"%d" % sent)
                    sent += 1
                if i % 5:
                    await asyncio.sleep(0.0002 * (i % 3))
                if not task.done():
                    task.cancel()
                try:
                    message = await task
                    assert message is not None
                    got.append(bytes(message))
                except asyncio.CancelledError:
                    pass
                if i % 20 == 19:
                    got += drain(subscriber)
            got += drain(subscriber)
            assert got == [b"%d" % i for i in range(sent)]

    run(main)


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize("way", ["receive", "async for"])
def test_cancelled_at_random_each_message_comes_once(run: Callable[[Main], None], way: str) -> None:
    """Cancels with anyio, which works in each of the loops."""
    count = 300

    async def main() -> None:
        with Channel.create("cancel", "broadcast", capacity=1 << 16) as channel:
            publisher, subscriber, random = channel.publisher(), channel.subscriber(), Random(9)
            got: list[int] = []
            cancelled = 0

            async def next_message() -> int:
                if way == "receive":
                    message = await subscriber.receive()
                    assert message is not None
                    return int(bytes(message))
                async for message in subscriber:
                    return int(bytes(message))
                raise AssertionError("it ended")

            def publish() -> None:
                for i in range(count):
                    publisher.send(b"%d" % i)
                    if i % 3:
                        time.sleep(random.uniform(0, 0.001))

            publishes = Waits(publish)
            while len(got) < count:
                with anyio.move_on_after(random.choice((0, 0.00005, 0.0002, 0.001))) as scope:
                    got.append(await next_message())
                cancelled += scope.cancelled_caught
            publishes.end()
            assert got == list(range(count))
            assert cancelled >= 20

    run(main)


@pytest.mark.parametrize("run", LOOPS)
def test_cancelled_at_random_a_send_publishes_all_or_nothing(run: Callable[[Main], None]) -> None:
    count = 200

    async def main() -> None:
        with pair() as (channel, publisher, subscriber):
            random, stop, got = Random(10), threading.Event(), []
            cancelled = 0

            def read() -> None:
                while not stop.wait(0.0005):
                    got.extend(drain(subscriber))

            reads = Waits(read)
            while (number := channel.stats().publishers[0].messages) < count:
                with anyio.move_on_after(random.choice((0, 0.0001, 0.0005))) as scope:
                    while number < count:
                        await publisher.send_async(b"%d" % number * 100)
                        number += 1
                cancelled += scope.cancelled_caught
            stop.set()
            reads.end()
            got.extend(drain(subscriber))
            assert got == [b"%d" % i * 100 for i in range(count)]
            assert cancelled >= 10

    run(main)


@pytest.mark.parametrize("run", [run_asyncio, run_uvloop])
def test_a_wait_for_that_times_out_at_any_moment_loses_nothing(run: Callable[[Main], None]) -> None:
    """asyncio.wait_for around both ends: each message that was sent comes once, and in order."""
    count = 200

    async def main() -> None:
        with Channel.create("wait-for", "broadcast", capacity=4096) as channel:
            publisher, subscriber, random = channel.publisher(), channel.subscriber(), Random(11)
            got: list[bytes] = []
            timeouts = {"send": 0, "receive": 0}

            async def send() -> None:
                while (number := channel.stats().publishers[0].messages) < count:
                    try:
                        await asyncio.wait_for(publisher.send_async(b"%d" % number * 100), random.uniform(0, 0.001))
                    except TimeoutError:
                        timeouts["send"] += 1
                    if number // 50 % 2 == 0:
                        await asyncio.sleep(random.uniform(0, 0.001))  # there is nothing to read

            async def receive() -> None:
                while len(got) < count:
                    awaitable = subscriber.receive() if len(got) % 2 else anext(subscriber)
                    try:
                        message = await asyncio.wait_for(awaitable, random.uniform(0, 0.001))
                        assert message is not None
                        got.append(bytes(message))
                    except TimeoutError:
                        timeouts["receive"] += 1
                    if len(got) // 50 % 2 == 1:
                        await asyncio.sleep(random.uniform(0, 0.002))  # there is no room

            await asyncio.gather(send(), receive())
            assert got == [b"%d" % i * 100 for i in range(count)]
            assert min(timeouts.values()) >= 3, timeouts

    run(main)


def test_a_receive_that_trio_cancels_has_consumed_nothing() -> None:
    async def main() -> None:
        with pair() as (_, publisher, subscriber):
            with trio.move_on_after(0.01) as scope:
                await subscriber.receive()
            assert scope.cancelled_caught
            publisher.offer(b"x")
            with trio.move_on_after(0):
                await trio.lowlevel.checkpoint()
            assert await subscriber.receive() == b"x"

    trio.run(main)


@pytest.mark.parametrize("run", LOOPS)
def test_what_ends_a_wait_ends_receive(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        def after_sleep(channel: Channel, action: Callable[[], Any]) -> Waits:
            return Waits(lambda: until(lambda: data_asleep(channel)) or action())

        with pair() as (channel, publisher, subscriber):
            waits = after_sleep(channel, subscriber.close)
            with pytest.raises(ClosedError):
                await subscriber.receive()
            waits.end()
            other = channel.subscriber()
            waits = Waits(lambda: time.sleep(0.02) or channel.evict(other.slot))
            with pytest.raises(SlotLostError):
                await other.receive()
            waits.end()
        with Channel.create("replaced", "broadcast") as channel:
            publisher, subscriber = channel.publisher(), channel.subscriber()
            publisher.offer(b"room is there")
            assert subscriber.take()
            waits = after_sleep(channel, lambda: Channel.replace("replaced", "broadcast").close())
            with pytest.raises(ChannelReplacedError):
                await subscriber.receive()
            waits.end()
            waits = Waits(lambda: time.sleep(0.01) or publisher.offer(b"still here"))
            message = None
            while message is None:
                with contextlib.suppress(ChannelReplacedError):  # raised again after 100 ms
                    message = await subscriber.receive()
            assert message == b"still here"
            waits.end()

    run(main)


def rename_another_over(channel: Channel) -> None:
    """Replaces the file as a program other than Flyring does, without a hint."""
    with Channel.create("another", "broadcast") as another:
        os.rename(another.path, channel.path)


ASYNC_WAITS: dict[str, Callable[[Any, Any], Any]] = {
    "receive": lambda _, subscriber: subscriber.receive(),
    "async for": lambda _, subscriber: anext(subscriber),
    "send_async": lambda publisher, _: publisher.send_async(b"x"),
}
ASYNC_ENDS: dict[str, tuple[type[FlyringError], Callable[[Any, Any], Any]]] = {
    "close": (ClosedError, lambda _, waiting: waiting.close()),
    "close of the channel": (ClosedError, lambda channel, _: channel.close()),
    "evict": (SlotLostError, lambda channel, subscriber: channel.evict(subscriber.slot)),
    "replace": (ChannelReplacedError, lambda channel, _: Channel.replace(channel.path, "broadcast").close()),
    "another file": (ChannelReplacedError, lambda channel, _: rename_another_over(channel)),
}


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize("end", ASYNC_ENDS)
def test_what_ends_a_wait_ends_each_asynchronous_one(run: Callable[[Main], None], end: str) -> None:
    error, act = ASYNC_ENDS[end]

    async def main() -> None:
        for verb, wait in ASYNC_WAITS.items():
            if (verb, end) == ("send_async", "evict"):
                continue  # publishers are not evicted
            with Channel.create(f"ends-{verb[:2]}", "broadcast", capacity=4096) as channel:
                publisher, subscriber = channel.publisher(), channel.subscriber()
                publisher.offer(b"x")
                drain(subscriber)
                asleep, waiting = (data_asleep, subscriber) if verb != "send_async" else (room_asleep, publisher)
                if waiting is publisher:
                    fill(publisher)
                acts = Waits(lambda: (until(lambda: asleep(channel)), act(channel, waiting)))  # noqa: B023
                with pytest.raises(error):
                    await wait(publisher, subscriber)
                ended = time.monotonic()
                acts.end()
                assert ended - acts.ended < 1  # the limit is 100 ms; for room 20 ms

    run(main)


@pytest.mark.parametrize("kind", ["subscriber", "lossy_subscriber"])
@pytest.mark.parametrize("end", ASYNC_ENDS)
def test_what_ends_a_wait_makes_fileno_readable(end: str, kind: str) -> None:
    error, act = ASYNC_ENDS[end]
    if (end, kind) == ("evict", "lossy_subscriber"):
        return  # a lossy subscriber has no slot
    with Channel.create("select", "broadcast") as channel:
        reader = getattr(channel, kind)()
        fd = reader.fileno()
        assert reader.take() is None
        assert not is_readable(fd)
        start = time.monotonic()
        act(channel, reader)
        assert is_readable(fd, 10)
        assert time.monotonic() - start < 1  # the limit is 100 ms
        with pytest.raises(error):
            reader.take()


def test_a_file_that_was_only_removed_ends_no_asynchronous_wait() -> None:
    async def main() -> None:
        with pair() as (channel, publisher, subscriber):
            os.unlink(channel.path)
            waits = Waits(lambda: time.sleep(0.25) or publisher.offer(b"still here"))
            assert await subscriber.receive() == b"still here"
            waits.end()

    run_asyncio(main)


def test_two_tasks_in_one_subscriber_are_told() -> None:
    async def main() -> None:
        with pair() as (_, publisher, subscriber):
            first = asyncio.ensure_future(subscriber.receive())
            await asyncio.sleep(0)
            with pytest.raises(TwoThreadsError):
                await subscriber.receive()
            publisher.offer(b"x")
            assert await first == b"x"

    run_asyncio(main)


def test_two_tasks_of_trio_in_one_subscriber_are_told() -> None:
    async def main() -> None:
        with pair() as (_, publisher, subscriber):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscriber.receive)
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(TwoThreadsError):
                    await subscriber.receive()
                publisher.offer(b"x")

    run_trio(main)


def test_a_busy_publisher_leaves_other_tasks_their_turn() -> None:
    async def main() -> None:
        with Channel.create("busy", "broadcast") as channel:
            publisher, subscriber = channel.publisher(), channel.subscriber()
            publisher.offer_batch([b"x"] * 1000)
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(other())
            for _ in range(1000):
                assert await subscriber.receive()
            assert turns >= 10
            task.cancel()

    run_asyncio(main)


def test_one_subscriber_in_one_loop_after_another() -> None:
    with pair() as (_, publisher, subscriber):

        async def main() -> None:
            assert await subscriber.receive(0.001) is None
            publisher.offer(b"x")
            assert await subscriber.receive() == b"x"

        for run in (run_asyncio, run_trio, run_uvloop, run_asyncio):
            run(main)


def test_many_subscribers_in_one_loop() -> None:
    async def main() -> None:
        with Channel.create("many", "broadcast", subscribers=20) as channel:
            readers = [channel.subscriber() for _ in range(20)]

            async def read(reader: Subscriber) -> int:
                return sum([int(bytes(message)) async for message in reader])

            tasks = [asyncio.ensure_future(read(reader)) for reader in readers]
            await asyncio.sleep(0.01)

            def publish() -> None:
                with channel.publisher() as publisher:
                    for i in range(200):
                        publisher.send(b"%d" % i)

            thread = threading.Thread(target=publish)
            thread.start()
            assert await asyncio.gather(*tasks) == [sum(range(200))] * 20
            thread.join()

    run_asyncio(main)


# send_async


@pytest.mark.parametrize("run", LOOPS)
def test_send_async_waits_for_room(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        with pair() as (_, publisher, subscriber):
            assert await publisher.send_async(b"x") > 0
            fill(publisher)
            with pytest.raises(BackPressuredError) as caught:
                await publisher.send_async(b"y", timeout=0.02)
            assert caught.value.holder is not None
            waits = Waits(lambda: time.sleep(0.02) or drain(subscriber))
            assert await publisher.send_async(b"last", 7) > 0
            waits.end()
            message = subscriber.take(timeout=10)
            assert message is not None
            assert (bytes(message), message.type) == (b"last", 7)
            with pytest.raises(InvalidArgumentError):
                await publisher.send_async(b"", timeout=math.nan)
            fill(publisher)
            waits = Waits(lambda: time.sleep(0.02) or publisher.close())
            with pytest.raises(ClosedError):
                await publisher.send_async(b"y")
            waits.end()

    run(main)


def test_a_send_that_is_cancelled_has_published_nothing() -> None:
    async def main() -> None:
        with pair() as (_, publisher, subscriber):
            count = fill(publisher)
            task = asyncio.ensure_future(publisher.send_async(b"never"))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(drain(subscriber)) == count
            assert subscriber.take() is None

    run_asyncio(main)


def test_two_tasks_ask_and_answer() -> None:
    async def main() -> None:
        with Channel.create("tasks", "broadcast", capacity=4096, publishers=2) as channel:
            asks, answers = channel.publisher(), channel.publisher()
            asked, answered = channel.subscriber(rings=[0]), channel.subscriber(rings=[1])

            async def echo() -> None:
                async for message in asked:
                    await answers.send_async(message)

            task = asyncio.ensure_future(echo())
            for i in range(500):
                await asks.send_async(b"%d" % i)
                assert await answered.receive(10) == b"%d" % i
            asks.close()
            await task

    run_asyncio(main)
