# SPDX-License-Identifier: Apache-2.0
"""Waiting with a timeout, with each strategy, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Child
from flyring import BackPressuredError, Channel, InvalidArgumentError

STRATEGIES: list[Any] = ["block", "spin", "yield", "backoff"]


@pytest.mark.parametrize("wait", STRATEGIES)
def test_time_outs_last_as_long_as_they_say(wait: Any) -> None:
    with Channel.create("times", "broadcast", capacity=4096) as channel:
        subscriber, publisher = channel.subscriber(wait=wait), channel.publisher(wait=wait)
        for timeout in (1e-6, 0.05):
            start = time.monotonic()
            assert subscriber.take(timeout=timeout) is None
            assert subscriber.poll(print, timeout=timeout) == 0
            while publisher.offer(bytes(1000)):
                pass
            sends: list[Callable[[], Any]] = [
                lambda timeout=timeout: publisher.send(bytes(1000), timeout=timeout),
                lambda timeout=timeout: publisher.claim(1000, timeout=timeout),
            ]
            for send in sends:
                with pytest.raises(BackPressuredError):
                    send()
            assert publisher.send_batch([bytes(1000)], timeout=timeout) == 0
            assert 5 * timeout <= time.monotonic() - start < 5 * timeout + 2
            while subscriber.take():
                pass


@pytest.mark.parametrize("wait", STRATEGIES)
def test_a_waiting_reader_and_writer_go_on_when_they_can(wait: Any) -> None:
    with Channel.create("wakes", "broadcast", capacity=4096) as channel:
        subscriber, publisher = channel.subscriber(wait=wait), channel.publisher(wait=wait)
        done = []

        def publish() -> None:
            for i in range(200):
                if i % 50 == 0:
                    time.sleep(0.01)
                assert publisher.send(b"%d" % i * 50, timeout=None)
            done.append(True)

        thread = threading.Thread(target=publish)
        thread.start()
        got: list[bytes] = []
        while len(got) < 200:
            if len(got) % 70 == 0:
                time.sleep(0.01)
            if len(got) % 3:
                message = subscriber.take(timeout=10)
                assert message is not None
                got.append(bytes(message))
            else:
                assert subscriber.poll(lambda message: got.append(bytes(message)), 1, timeout=None) == 1
        thread.join()
        assert got == [b"%d" % i * 50 for i in range(200)]
        assert done == [True]


@pytest.mark.parametrize("wait", STRATEGIES)
@pytest.mark.parametrize(
    "call", ["s.take(timeout=None)", "s.poll(print, timeout=None)", "p.send(bytes(500), timeout=None)"]
)
def test_control_c_ends_a_wait(child: Callable[..., Child], wait: str, call: str) -> None:
    code = """
        import sys, flyring
        with flyring.Channel.open(sys.argv[1]) as channel:
            p, s = channel.publisher(wait=sys.argv[2]), channel.subscriber(wait=sys.argv[2])
            if call := sys.argv[3]:
                while call[0] == "p" and p.offer(bytes(500)):
                    pass
            print("waiting", flush=True)
            try:
                eval(call)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            print(p.closed, s.closed, flush=True)
    """
    with Channel.create("interrupt", "broadcast", capacity=4096) as channel:
        other = child(code, channel.path, wait, call)
        assert other.line() == "waiting"
        time.sleep(0.05)
        other.process.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert other.line() == "interrupted"
        assert time.monotonic() - start < 2
        assert other.line() == "False False"


def test_waiting_lets_other_threads_run() -> None:
    with Channel.create("gil", "broadcast") as channel, channel.subscriber(wait="spin") as subscriber:
        thread = threading.Thread(target=lambda: subscriber.take(timeout=0.3))
        thread.start()
        turns = 0
        while thread.is_alive():
            turns += 1
        assert turns > 1000


def test_bad_timeouts_and_strategies_are_refused() -> None:
    with Channel.create("bad", "broadcast") as channel:
        subscriber = channel.subscriber()
        for bad in (-1, float("nan"), -1e-9):
            with pytest.raises(InvalidArgumentError, match="timeout"):
                subscriber.take(timeout=bad)
        with pytest.raises(TypeError):
            subscriber.take(timeout="1")  # type: ignore[arg-type]
        takes: list[Callable[..., Any]] = [channel.publisher, channel.subscriber]
        for take in takes:
            with pytest.raises(InvalidArgumentError, match="wait"):
                take(wait="sleep")
        channel.publisher().close()
