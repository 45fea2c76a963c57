# SPDX-License-Identifier: Apache-2.0
"""Calls and streams in event loops: asyncio, uvloop and trio (spec/api.md)."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio

from flyring import (
    BusyError,
    CancelledError,
    Channel,
    ClosedError,
    ExpiredError,
    InvalidArgumentError,
    Request,
    ServerGoneError,
    ServiceError,
    SlotLostError,
)
from services import LARGEST, echo, pair, service, serving

LOOPS = [("asyncio", {}), ("asyncio", {"use_uvloop": True}), ("trio", {})]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[Any]]], Any]:
    backend, options = request.param
    return lambda main: anyio.run(main, backend=backend, backend_options=options)


Run = Callable[[Callable[[], Awaitable[Any]]], Any]


def test_a_call_is_awaited(run: Run) -> None:
    with pair() as both, serving(both.server):

        async def main() -> None:
            for i in range(300):
                assert await both.client.call_async(b"%d" % i) == b"%d" % i

        run(main)


def test_many_tasks_of_one_client(run: Run) -> None:
    """One of the tasks waits, and wakes the others."""
    with pair(capacity=65536) as both:
        ended: list[int] = []

        def handler(request: Request) -> None:
            kept.append(request.keep())
            if len(kept) == 20:  # answers them in reverse order
                time.sleep(0.01)
                while kept:
                    one = kept.pop()
                    one.reply(one)

        kept: list[Request] = []

        async def one(i: int) -> None:
            for k in range(5):
                assert await both.client.call_async(b"%d %d" % (i, k)) == b"%d %d" % (i, k)
            ended.append(i)

        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for i in range(20):
                    tasks.start_soon(one, i)

        with serving(both.server, handler):
            run(main)
        assert sorted(ended) == list(range(20))


def test_a_task_that_is_cancelled_cancels_its_call(run: Run) -> None:
    with pair() as both:
        kept: list[Request] = []

        async def main() -> None:
            with anyio.move_on_after(0.05):
                await both.client.call_async(b"hang")
            assert both.client.outstanding == 1

        with serving(both.server, lambda request: kept.append(request.keep()) if request == b"hang" else echo(request)):
            run(main)
            deadline = time.monotonic() + 10
            while not kept[0].cancelled and time.monotonic() < deadline:
                time.sleep(0.001)
            assert kept[0].cancelled
            kept[0].reply(b"late")
            assert both.client.call(b"x", timeout=10) == b"x"
            assert (both.client.late, both.client.outstanding) == (1, 0)


def test_the_others_go_on_when_the_one_that_waits_is_cancelled(run: Run) -> None:
    with pair() as both:
        kept: list[Request] = []
        answers: list[bytes] = []

        async def waits_first(scope: Any) -> None:
            with scope:
                await both.client.call_async(b"first")

        async def other() -> None:
            answers.append(bytes(await both.client.call_async(b"other")))

        async def main() -> None:
            scope = anyio.CancelScope()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(waits_first, scope)
                await anyio.sleep(0.02)
                tasks.start_soon(other)
                await anyio.sleep(0.02)
                scope.cancel()
                await anyio.sleep(0.02)
                kept[1].reply(b"here")

        with serving(both.server, lambda request: kept.append(request.keep())):
            run(main)
        assert answers == [b"here"]


def test_how_an_awaited_call_ends(run: Run) -> None:
    def handler(request: Request) -> bytes | None:
        if request == b"fail":
            raise RuntimeError("failed")
        kept.append(request.keep())
        return None

    kept: list[Request] = []
    with pair() as both, serving(both.server, handler):
        client = both.client

        async def main() -> None:
            with pytest.raises(ServiceError) as caught:
                await client.call_async(b"fail")
            assert caught.value.text == "failed"
            start = time.monotonic()
            with pytest.raises(ExpiredError) as expired:
                await client.call_async(b"hang", timeout=0.03)
            assert expired.value.may_have_run
            assert 0.03 <= time.monotonic() - start < 0.3
            with pytest.raises(InvalidArgumentError):
                await client.call_async(b"x", 0)
            with pytest.raises(InvalidArgumentError):
                await client.call_async(b"x", timeout=-1)

        run(main)


def test_an_awaited_call_whose_server_goes(run: Run) -> None:
    kept: list[Request] = []

    def handler(request: Request) -> None:
        kept.append(request.keep())

    with pair() as both:
        client = both.client

        async def gone() -> None:
            threading.Timer(0.05, both.channel.evict, (0,)).start()
            start = time.monotonic()
            with pytest.raises(ServerGoneError):
                await client.call_async(b"hang")
            assert time.monotonic() - start < 0.5

        async def nobody() -> None:
            with pytest.raises(ExpiredError) as expired:
                await client.call_async(b"x", timeout=0.03)
            assert not expired.value.may_have_run

        with pytest.raises(SlotLostError), serving(both.server, handler):  # the server lost its slot
            run(gone)
            time.sleep(0.2)
        run(nobody)


def test_the_close_of_its_client_ends_a_call(run: Run) -> None:
    with pair() as both:

        async def main() -> None:
            threading.Timer(0.03, both.client.close).start()
            with pytest.raises(ClosedError):
                await both.client.call_async(b"x")

        run(main)


def test_a_call_waits_for_a_server(run: Run) -> None:
    with service() as channel, channel.client() as client:
        answers: list[bytes] = []

        async def one(i: int) -> None:
            answers.append(bytes(await client.call_async(b"%d" % i, timeout=20)))

        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for i in range(3):
                    tasks.start_soon(one, i)
                await anyio.sleep(0.03)
                server = channel.server()
                thread = threading.Thread(target=lambda: server.serve(echo))
                thread.start()
                while len(answers) < 3:
                    await anyio.sleep(0.001)
                server.stop()
                thread.join()
                server.close()

        run(main)
        assert sorted(answers) == [b"0", b"1", b"2"]


def test_calls_wait_for_room(run: Run) -> None:
    with pair(clients=1, max_outstanding=1000) as both:
        large = bytes(both.client.max_message_length)
        ended = 0

        async def one() -> None:
            nonlocal ended
            assert len(await both.client.call_async(large, timeout=20)) == len(large)
            ended += 1

        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for _ in range(30):
                    tasks.start_soon(one)

        with serving(both.server):
            run(main)
        assert ended == 30


def test_busy(run: Run) -> None:
    with pair(max_outstanding=1) as both:
        call = both.client.start(b"x")

        async def main() -> None:
            with pytest.raises(BusyError) as caught:
                await both.client.call_async(b"y")
            assert caught.value.outstanding == 1

        run(main)
        call.cancel()
        with pytest.raises(CancelledError):
            call.result()


def test_a_stream_in_an_event_loop(run: Run) -> None:
    with pair() as both, serving(both.server, lambda request: request.stream(b"%d" % i for i in range(300))):

        async def main() -> None:
            call = await both.client.stream_async(b"go", credit=7)
            assert [bytes(item) async for item in call] == [b"%d" % i for i in range(300)]
            assert call.done
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(whole)

        async def whole() -> None:
            call = await both.client.stream_async(b"go", credit=100)
            assert len([item async for item in call]) == 300

        run(main)


def test_a_stream_that_fails_in_an_event_loop(run: Run) -> None:
    def torn() -> Any:
        yield b"one"
        raise RuntimeError("torn")

    with pair() as both, serving(both.server, lambda request: request.stream(torn())):

        async def main() -> None:
            seen: list[bytes] = []
            with pytest.raises(ServiceError):
                async for item in await both.client.stream_async(b"go"):
                    seen.append(bytes(item))
            assert seen == [b"one"]

        run(main)


def test_fileno_of_a_client_and_a_server() -> None:
    with pair() as both:

        def readable(one: Any, seconds: float) -> bool:
            return bool(select.select([one], [], [], seconds)[0])

        assert readable(both.server, 0)  # before the first poll
        assert readable(both.client, 0)
        assert both.server.poll(echo) == 0
        assert both.client.poll() == 0
        assert not readable(both.server, 0.02)
        assert not readable(both.client, 0.02)
        both.client.start(b"x")
        assert readable(both.server, 5)
        both.server.poll(echo)
        assert readable(both.client, 5)
        assert both.client.poll() == 1
        both.client.start(b"y", timeout=0.03)
        assert both.client.poll() == 0
        start = time.monotonic()
        assert readable(both.client, 5)  # readable at the deadline
        assert 0.02 < time.monotonic() - start < 0.3
        assert both.client.poll() == 1
        lost = both.client.start(b"z")
        assert both.client.poll() == 0
        both.server.close()
        start = time.monotonic()
        while not lost.done:
            assert readable(both.client, 5)
            both.client.poll()
        assert time.monotonic() - start < 0.5


def test_a_server_in_an_event_loop_answers_replies_that_wait() -> None:
    with pair() as both:
        calls = [both.client.start(b"x") for _ in range(12)]
        stop = threading.Event()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.add_reader(both.server.fileno(), lambda: both.server.poll(lambda request: bytes(LARGEST)))
            while not stop.is_set():
                await asyncio.sleep(0.005)
            loop.remove_reader(both.server.fileno())

        thread = threading.Thread(target=asyncio.run, args=(main(),))
        thread.start()
        try:
            assert [len(call.result(20)) for call in calls] == [LARGEST] * 12
        finally:
            stop.set()
            thread.join()


def test_loops_one_after_the_other() -> None:
    with pair() as both, serving(both.server):

        async def main() -> None:
            assert await both.client.call_async(b"x") == b"x"

        asyncio.run(main())
        trio.run(main)
        asyncio.run(main())


def test_another_channel_has_the_name(run: Run) -> None:
    from flyring import ChannelReplacedError

    with pair() as both:

        async def main() -> None:
            threading.Timer(0.05, lambda: Channel.replace("c", "service").close()).start()
            with pytest.raises(ChannelReplacedError):
                await both.client.call_async(b"x")

        run(main)
