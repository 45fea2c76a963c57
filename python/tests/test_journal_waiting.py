# SPDX-License-Identifier: Apache-2.0
"""Waits of journals' readers: timeouts, iteration, event loops, wait sets (spec/journal.md 3.3, channel.md 6.16)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from conftest import Child
from flyring import ClosedError, Journal, JournalWriter, WaitSet
from journals import made, payloads


@pytest.fixture
def journal() -> Iterator[Journal]:
    with made() as one:
        yield one


@pytest.fixture
def writer(journal: Journal) -> Iterator[JournalWriter]:
    with journal.writer("w", helper=False) as one:
        yield one


def test_take_waits(journal: Journal, writer: JournalWriter) -> None:
    with journal.reader() as reader:
        began = time.monotonic()
        assert reader.take(timeout=0.05) is None
        assert 0.04 < time.monotonic() - began < 2
        threading.Timer(0.05, writer.append, (b"x",)).start()
        assert reader.take(timeout=5) == b"x"
        threading.Timer(0.05, writer.append, (b"y",)).start()
        assert reader.poll(lambda message: None, timeout=5) == 1


def test_close_ends_a_wait(journal: Journal) -> None:
    reader = journal.reader()
    threading.Timer(0.05, reader.close).start()
    with pytest.raises(ClosedError):
        reader.take(timeout=None)


def test_iteration_ends_when_the_writer_has_closed(journal: Journal) -> None:
    writer = journal.writer()
    writer.append_many(payloads(500))
    threading.Timer(0.05, writer.close).start()
    with journal.reader() as reader:
        assert [bytes(message) for message in reader] == payloads(500)


def test_wake_across_processes(journal: Journal, child: Callable[..., Child]) -> None:
    one = child(
        """
        from flyring import Journal
        with Journal.open("j") as journal, journal.writer() as writer:
            print("ready", flush=True)
            input()
            writer.append(b"hello")
            print("done", flush=True)
            input()
        """
    )
    assert one.line() == "ready"
    with journal.reader() as reader:
        thread = threading.Timer(0.1, one.say)
        thread.start()
        began = time.monotonic()
        assert reader.take(timeout=10) == b"hello"
        assert time.monotonic() - began < 5
    one.say()


def test_asyncio(journal: Journal, writer: JournalWriter) -> None:
    async def run() -> list[bytes]:
        with journal.reader() as reader:
            assert await reader.receive(timeout=0.02) is None
            asyncio.get_running_loop().call_later(0.02, writer.append, b"one")
            first = await reader.receive(timeout=5)
            assert first is not None and first.number == 0
            writer.append(b"two")
            asyncio.get_running_loop().call_later(0.02, writer.close)
            return [bytes(first)] + [bytes(message) async for message in reader]

    assert asyncio.run(run()) == [b"one", b"two"]


def test_wait_set(journal: Journal, writer: JournalWriter) -> None:
    with journal.reader() as reader:
        ready = WaitSet()
        ready.add(reader)
        assert ready.wait(timeout=5) == [reader]  # the first check is there
        assert reader.take() is None
        assert ready.wait(timeout=0.02) == []
        threading.Timer(0.05, writer.append, (b"x",)).start()
        assert ready.wait(timeout=5) == [reader]
        ready.remove(reader)
