# SPDX-License-Identifier: Apache-2.0
"""Waits of journals' readers: timeouts, iteration, event loops, wait sets (spec/journal.md 3.3, channel.md 6.16)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from conftest import Child
from flyring import ClosedError, Journal, JournalWriter, WaitSet, layout
from journals import Folder, Z, made, payloads


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


@pytest.mark.parametrize("sync", ["never", "each"])
def test_padding_and_checks_wake_no_reader(sync: Literal["never", "each"]) -> None:
    with made("padded", sync=sync) as journal, journal.writer("w", helper=False) as writer:
        folder = Folder(journal.path)
        writer.append(b"x")
        folder.store(layout.JOURNAL_CONTROL_DATA_ASLEEP, 1, 4)

        def wakes() -> tuple[int, int]:
            word = folder.word(layout.JOURNAL_CONTROL_DATA_SEQUENCE)  # both, of 4 bytes each
            return word & 0xFFFFFFFF, word >> 32

        before, synced = wakes()[0], folder.word(layout.JOURNAL_CONTROL_SYNCED)
        for _ in range(20):
            writer.claim(16000).abort()
        assert folder.word(layout.JOURNAL_CONTROL_CHECKED) > 3 * Z
        assert wakes() == (before, 1)
        assert folder.word(layout.JOURNAL_CONTROL_SYNCED) == synced  # no sync is due by an abort
        writer.sync()
        assert wakes() == (before + 1, 1)  # all, at its end; its check wakes no reader
        writer.append(b"y")
        assert wakes() == (before + (3 if sync == "each" else 2), 0)  # the message, and its sync


def test_a_check_that_is_due_wakes_the_helper() -> None:
    with made("due", sync=0.001) as journal, journal.writer("w", helper=False) as writer:
        folder = Folder(journal.path)
        writer.append(b"x")
        time.sleep(0.002)
        folder.store(layout.JOURNAL_CONTROL_WORK_ASLEEP, 1, 4)
        checked = folder.word(layout.JOURNAL_CONTROL_CHECKED)
        writer.append(b"y")
        assert folder.word(layout.JOURNAL_CONTROL_CHECKED) > checked
        assert folder.word(layout.JOURNAL_CONTROL_WORK_SEQUENCE) >> 32 == 0


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
