# SPDX-License-Identifier: Apache-2.0
"""Waiting servers and clients: their wake-ups, and the other ends of their waits (spec/service.md 6, channel.md
6.16)."""

from __future__ import annotations

import contextlib
import resource
import signal
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from flyring import (
    Channel,
    ChannelReplacedError,
    ClosedError,
    FlyringError,
    Request,
    ServerGoneError,
    ServiceError,
    SlotLostError,
    TwoThreadsError,
    ViewAliveError,
    WaitSet,
)
from services import LARGEST, Pair, data_asleep, echo, end_of, is_asleep, pair, room_asleep, service, serving
from waits import Waits, until

SOON = 0.1 + 0.2  # the cap, plus the delay of a busy machine


def test_a_caller_sleeps_until_its_answer_comes_and_a_server_until_a_request() -> None:
    with pair() as both:
        both.client.set_spin(0)
        both.server.set_spin(0)
        times: list[float] = []

        def handler(request: Request) -> bytes:
            time.sleep(0.005)  # time for the caller to fall asleep
            return bytes(request)

        with serving(both.server, handler):
            for _ in range(20):
                time.sleep(0.005)
                start = time.monotonic()
                assert both.client.call(b"x", timeout=10) == b"x"
                times.append(time.monotonic() - start)
        assert statistics.median(times) < 0.05


def test_a_call_waits_for_a_server() -> None:
    with service() as channel, channel.client() as client:
        client.set_spin(0)
        waits = Waits(lambda: client.call(b"x", timeout=20))
        until(lambda: is_asleep(client, channel))
        with channel.server() as server, serving(server):
            start = time.monotonic()
            assert waits.end() == b"x"
            assert time.monotonic() - start < SOON


def test_a_call_waits_for_room_and_takes_replies_meanwhile() -> None:
    with pair(clients=1, max_outstanding=1000) as both:
        large = bytes(both.client.max_message_length)
        both.client.set_spin(0)

        def caller() -> list[str]:
            calls = [both.client.start(large, 1, 20) for _ in range(20)]
            return [end_of(lambda call=call: call.result(20)) for call in calls]

        waits = Waits(caller)
        until(lambda: room_asleep(both.channel, 0))
        ring = both.channel.stats().publishers[0]
        assert ring.blocked_since > 0
        assert ring.blocked_by == (0,)
        # The answers are as large as the requests, so the ring of replies is full, too, until the caller drains it.
        give_up, answered = time.monotonic() + 20, 0
        while (answered < 20 or both.server.held.waiting) and time.monotonic() < give_up:
            answered += both.server.poll(echo, timeout=0.01)
        assert waits.end() == ["answer"] * 20


ENDS: list[tuple[type[FlyringError], Callable[[Pair], Any]]] = [
    (ClosedError, lambda both: both.client.close()),
    (ClosedError, lambda both: both.channel.close()),
    (SlotLostError, lambda both: both.channel.evict(1)),
    (ServerGoneError, lambda both: both.channel.evict(0)),
    (ServerGoneError, lambda both: both.server.close()),
    (ServiceError, lambda both: both.server.poll(lambda request: None)),
]


@pytest.mark.parametrize(("error", "action"), ENDS)
@pytest.mark.parametrize("how", ["call", "result", "poll", "next"])
def test_what_ends_a_call_that_sleeps(how: str, error: type[FlyringError], action: Callable[[Pair], Any]) -> None:
    with pair() as both:
        client = both.client
        client.set_spin(0)
        if how == "call":
            waits = Waits(lambda: client.call(b"x"))
        elif how == "result":
            waits = Waits(client.start(b"x").result)
        elif how == "next":
            waits = Waits(client.stream(b"x").next)
        else:
            call = client.start(b"x")

            def poll() -> None:
                while client.poll(None) == 0:
                    pass
                call.result()

            waits = Waits(poll)
        until(lambda: is_asleep(client, both.channel))
        time.sleep(0.01)
        start = time.monotonic()
        action(both)
        with pytest.raises(error):
            waits.end()
        assert time.monotonic() - start < SOON


@pytest.mark.parametrize("action", [ENDS[0], ENDS[1], ENDS[2]])
def test_what_ends_a_wait_for_room_or_a_server(action: tuple[type[FlyringError], Callable[[Pair], Any]]) -> None:
    for has_server in (True, False):
        with pair(clients=1, max_outstanding=1000) as both:
            client = both.client
            client.set_spin(0)
            large = bytes(client.max_message_length)
            if not has_server:
                both.server.close()

            def fill(client: Any = client, large: bytes = large) -> None:
                while True:
                    client.start(large)

            waits = Waits(fill)
            until(lambda b=both, s=has_server: room_asleep(b.channel, 0) if s else data_asleep(b.channel, 1))
            time.sleep(0.01)
            start = time.monotonic()
            action[1](both)
            with pytest.raises(action[0]):
                waits.end()
            assert time.monotonic() - start < SOON
            both.channel.close()
        Channel.replace("c", "service").close()
        import flyring

        flyring.unlink("c")


def test_replaced_ends_the_wait_and_not_the_call() -> None:
    with pair() as both:
        both.client.set_spin(0)
        call = both.client.start(b"x")
        waits = Waits(call.result)
        until(lambda: is_asleep(both.client, both.channel))
        start = time.monotonic()
        with Channel.replace("c", "service"):
            with pytest.raises(ChannelReplacedError):
                waits.end()
            assert time.monotonic() - start < SOON
            assert not call.done
            both.server.poll(echo)
            assert call.result(10) == b"x"


def replace(_: Pair) -> None:
    Channel.replace("c", "service").close()


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (None, lambda both: both.server.stop()),
        (None, lambda both: both.server.close()),
        (None, lambda both: both.channel.close()),
        (SlotLostError, lambda both: both.channel.evict(0)),
        (ChannelReplacedError, replace),
    ],
)
def test_what_ends_a_server_that_sleeps(error: type[FlyringError] | None, action: Callable[[Pair], Any]) -> None:
    with pair() as both:
        both.server.set_spin(0)
        waits = Waits(lambda: both.server.serve(echo))
        until(lambda: data_asleep(both.channel, 0))
        start = time.monotonic()
        action(both)
        if error is None:
            waits.end()
        else:
            with pytest.raises(error):
                waits.end()
        assert time.monotonic() - start < SOON


def test_stop_before_serve_and_verbs_inside_of_a_handler() -> None:
    with pair() as both:
        both.server.stop()
        both.server.serve(echo)  # stopped before it began
        assert both.server.poll(echo, timeout=0.001) == 0

        def handler(request: Request) -> bytes:
            for close in (both.server.close, both.channel.close):
                with pytest.raises(ViewAliveError):
                    close()
            with pytest.raises(TwoThreadsError):
                both.server.poll(echo)
            return b"y"

        assert both.answered_by(handler) == b"y"


def test_a_reply_that_waits_goes_when_its_client_reads() -> None:
    with pair() as both:
        both.server.set_spin(0)
        calls = [both.client.start(b"x") for _ in range(12)]
        with serving(both.server, lambda request: bytes(LARGEST)):
            until(lambda: both.server.held.waiting)
            time.sleep(0.03)
            start = time.monotonic()
            assert [len(call.result(20)) for call in calls] == [LARGEST] * 12
            assert time.monotonic() - start < 12 * 0.03 + 0.2


def test_an_item_that_finds_no_room_goes_when_its_client_reads() -> None:
    with pair() as both:
        both.client.set_spin(0)
        both.server.set_spin(0)
        timers: list[threading.Timer] = []

        def handler(request: Request) -> None:
            items = (bytes(LARGEST) for _ in range(60))
            if bytes(request) == b"at once":
                request.stream(items)
                return
            kept = request.keep()
            timers.append(threading.Timer(0.02, lambda: kept.stream(items)))  # while the server sleeps
            timers[0].start()

        with serving(both.server, handler):
            for when in (b"at once", b"later"):
                start = time.monotonic()
                call = both.client.stream(when, credit=64)  # more credit than fits into the ring
                assert [len(item) for item in call] == [LARGEST] * 60
                assert time.monotonic() - start < 0.8, when  # 4 fit into the ring at once
        timers[0].join()


def test_a_stream_that_is_held_back_and_ends_lets_the_server_sleep() -> None:
    with pair() as both:
        both.server.set_spin(0)
        stream = both.client.stream(b"stream", credit=64)
        both.client.start(b"call")

        def handler(request: Request) -> bytes | None:
            if request.is_stream:
                request.stream(bytes(LARGEST) for _ in range(100))
                return None
            both.client.poll()
            stream.cancel()
            return b"y"

        # The stream finds no room, and ends later in the same poll, so that nothing is in hand at the next one.
        assert both.server.poll(handler) == 2
        assert both.server.held == (0, 0)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        assert both.server.poll(echo, timeout=0.35) == 0
        # With the cap of room it sleeps for 4 ms at a time.
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 30


def test_an_answer_of_another_thread_lets_a_full_server_go_on() -> None:
    with pair(clients=1, max_outstanding=2) as both:
        kept: list[Request] = []
        both.server.set_spin(0)

        def handler(request: Request) -> bytes | None:
            if len(kept) == 2:
                return b"at once"
            kept.append(request.keep())
            return None

        with serving(both.server, handler):
            first, second = both.client.start(b"a"), both.client.start(b"b")
            until(lambda: both.server.held.in_hand == 2)
            first.cancel()  # the cancel lies behind them, and is taken nevertheless
            until(lambda: kept[0].cancelled)
            kept[0].reply(b"late")
            kept[1].reply(b"b")
            assert second.result(10) == b"b"
            assert both.client.call(b"c", timeout=10) == b"at once"


def test_without_wakes_each_looks_every_millisecond() -> None:
    service().close()
    with Channel.open("c", wake=False) as channel, channel.server() as server, channel.client() as client:
        client.set_spin(0)
        server.set_spin(0)
        times: list[float] = []
        with serving(server):
            for _ in range(20):
                start = time.monotonic()
                assert client.call(b"x", timeout=10) == b"x"
                times.append(time.monotonic() - start)
        assert statistics.median(times) < 0.02


def test_a_wait_set_has_servers_and_clients() -> None:
    with pair() as both:
        waits = WaitSet()
        waits.add(both.server)
        waits.add(both.client)
        assert waits.wait(0.005) == []
        both.client.start(b"x")
        assert waits.wait(10) == [both.server]
        both.server.poll(echo)
        assert waits.wait(10) == [both.client]
        assert both.client.poll() == 1
        timed = both.client.start(b"y", 1, 0.03)
        waits.remove(both.server)
        start = time.monotonic()
        assert waits.wait(10) == [both.client]
        assert 0.02 <= time.monotonic() - start < 0.03 + SOON
        assert both.client.poll() == 1
        assert end_of(timed.result) == "expired True"
        lost = both.client.start(b"z")  # the server leaves
        closes = threading.Timer(0.02, both.server.close)
        closes.start()
        start = time.monotonic()
        while not lost.done:
            waits.wait(10)
            both.client.poll()
        assert time.monotonic() - start < 0.02 + SOON
        closes.join()
        assert end_of(lost.result) == "server-gone False"


def test_a_signal_interrupts_a_call_and_a_server() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)  # not SIGINT, which may be ignored in the test environment
    with contextlib.ExitStack() as stack, pair() as both:
        stack.callback(signal.signal, signal.SIGUSR1, before)
        for verb in (lambda: both.client.call(b"x"), lambda: both.server.serve(lambda request: None)):
            timer = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                verb()
            timer.join()
        assert both.client.outstanding == 1  # the call goes on without a waiting caller
        both.client.poll()
        assert both.client.outstanding == 0
        assert both.answered_by(echo) == b"price?"


@pytest.mark.parametrize("wait", ["spin", "yield", "backoff"])
def test_other_ways_to_wait(wait: Any) -> None:
    with service() as channel, channel.server(wait=wait) as server, channel.client(wait=wait) as client:
        with serving(server):
            for _ in range(3):
                assert client.call(b"x", timeout=10) == b"x"
        assert end_of(lambda: client.call(b"x", timeout=0.01)) == "expired True"


def test_a_wait_for_an_answer_ends_at_the_deadline_of_another_call() -> None:
    with pair() as both:
        both.client.set_spin(0)
        told: list[float] = []
        both.client.start(b"y", 1, 0.03, lambda call: told.append(time.monotonic()))
        start = time.monotonic()
        assert end_of(lambda: both.client.call(b"x", timeout=0.5)) == "expired True"
        assert told[0] - start < 0.3  # before the next cap and before the end
