# SPDX-License-Identifier: Apache-2.0
"""Segments made ahead, syncs, trims and changed options (spec/journal.md 4, 5, 8)."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flyring import (
    InvalidArgumentError,
    IoError,
    Journal,
    JournalStart,
    NoSpaceError,
    layout,
)
from flyring.journal_segment import prepare
from journals import Folder, Z, made, payloads, read_all

READY = layout.JOURNAL_CONTROL_READY


@pytest.fixture
def journal() -> Iterator[Journal]:
    with made() as one:
        yield one


def eventually(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.005)


# Segments


def test_helper_makes_segments_ahead(journal: Journal) -> None:
    with journal.writer(ahead=2) as writer:
        assert journal.stats().helping
        eventually(lambda: Folder(journal.path).word(READY) == 3 * Z)
        for payload in payloads(600):
            writer.append(payload)
        here = writer.position // Z * Z
        eventually(lambda: Folder(journal.path).word(READY) >= here + 3 * Z)
        assert len(Folder(journal.path).segments()) == here // Z + 3
    assert not journal.stats().helping
    assert read_all(journal) == payloads(600)


def test_one_helper(journal: Journal) -> None:
    first = journal.writer()
    first.close()
    names = [thread.name for thread in threading.enumerate()]
    assert "flyring-journal-helper" not in names


def test_found_segment_is_synced(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(journal._files, Z)
    journal._files.store(READY, Z)  # its maker was killed before it said so
    synced: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd))[1])
    prepare(journal._files, Z)
    assert [Path(name).name for name in synced] == [f"{Z:019d}.seg", "j.journal"]
    assert Folder(journal.path).word(READY) == 2 * Z


def test_found_segment_whose_sync_fails_loses_its_name(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(journal._files, Z)
    journal._files.store(READY, Z)

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(IoError):
            prepare(journal._files, Z)
    assert Folder(journal.path).segments() == [0]


def test_stray_file_is_replaced(journal: Journal) -> None:
    stray = Folder(journal.path).segment(Z)
    stray.write_bytes(b"not a segment")
    with journal.writer(helper=False) as writer:
        for payload in payloads(1000):
            writer.append(payload)
    assert Folder(journal.path).messages() == payloads(1000)


def test_no_space(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal.writer(helper=False) as writer, journal.reader() as reader:
        while writer.position < Z - 300:
            writer.append(bytes(100))
        number, position = writer.number, writer.position

        def full(fd: int, at: int, length: int) -> None:
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", full)
            for _ in range(2):
                with pytest.raises(NoSpaceError) as error:
                    writer.append(bytes(1000))
                assert error.value.needed == 4096 + Z
                assert (writer.number, writer.position) == (number, position)
            with pytest.raises(NoSpaceError):
                writer.append_many([bytes(100), bytes(100), bytes(100), bytes(100)])
            assert writer.number > number  # those before it are appended
            writer.sync()  # always finds room for its check
            while reader.poll(lambda message: None):
                pass
            assert reader.number == writer.number
        writer.append(bytes(1000))  # goes on when there is room
    assert len(Folder(journal.path).messages()) == writer.number


# Syncs


def test_sync(journal: Journal) -> None:
    with journal.writer(helper=False) as writer:
        writer.append_many(payloads(1000))
        writer.sync()
        there = Folder(journal.path)
        synced = there.word(layout.JOURNAL_CONTROL_SYNCED)
        assert synced == there.word(layout.JOURNAL_CONTROL_CHECKED) == writer.position - 64
        assert there.word(layout.JOURNAL_CONTROL_SYNCED_AT) > 10**18
        writer.sync()  # nothing to do: no further check
        assert writer.position == synced + 64
        writer.append(b"x")
        writer.close(sync=False)
    assert Folder(journal.path).word(layout.JOURNAL_CONTROL_SYNCED) == synced


def test_each_segment_from_synced_on_is_synced(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    with journal.writer(helper=False) as writer:
        writer.append_many(payloads(2000))
        synced: list[int] = []
        real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(len(list(first.parent.glob("*.seg")))), real(fd)))
        assert journal.trim(position=Z) == Z + 4096
        assert synced[-1:] == [4] and not first.exists()  # the control file, before anything is removed
        assert journal.trim(position=2 * Z + 1) == Z + 4096


def test_reader_goes_over_five_rolls_while_a_trim_removes(journal: Journal) -> None:
    with journal.writer(helper=False) as writer, journal.reader() as reader, journal.reader() as behind:
        assert behind.take() is None
        for roll in range(1, 6):
            while writer.position < roll * Z + 1000:
                writer.append(bytes(1000))
            while reader.poll(lambda message: None):
                pass
            assert reader.number == writer.number
            writer.sync()
            journal.trim(position=reader.position)
            assert journal.stats().trimmed == roll * Z
        assert reader.lost == 0
        assert writer.unprepared == 5  # without a helper
        seen: list[int] = []
        while behind.poll(lambda message: seen.append(message.number)):
            pass
        assert behind.lost + len(seen) == writer.number and behind.lost and seen


def test_trim_by_time_and_size(journal: Journal) -> None:
    filled(journal)
    journal.trim(before=1000 + 1200)
    number = first(journal)
    assert 0 < number <= 1200
    journal.trim(size=3 * Z)
    assert journal.stats().segments == 3
    for options in ({}, {"size": 1, "before": 2}, {"consumed": True, "size": 1}, {"position": -1}):
        with pytest.raises(InvalidArgumentError):
            journal.trim(**options)


def test_consumer_that_lost_messages(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        filled(journal)
        for _ in range(10):
            consumer.take()
        journal.change(max_size=2 * Z)
        with journal.writer():
            eventually(lambda: journal.stats().trimmed > 0)
        got = 10
        while consumer.take() is not None:  # it has the rest of its segment open
            got += 1
        lost = consumer.lost
        assert lost > 0 and got + lost == 3000
        assert journal.stats().consumers[0].lost == lost
    with journal.consumer("c") as consumer:  # it does not count twice
        assert consumer.lost == lost and consumer.number == 3000


def test_consumer_resumes_below_trimmed(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        pass
    filled(journal)
    journal.change(max_size=2 * Z)
    with journal.writer():
        eventually(lambda: journal.stats().trimmed > 0)
    number = first(journal)
    for _ in range(2):
        with journal.consumer("c") as consumer:
            assert (consumer.number, consumer.lost) == (number, number)


def test_trim_consumed_by_the_helper() -> None:
    with made(trim_consumed=True) as journal, journal.writer() as writer, journal.consumer("c") as consumer:
        for payload in payloads(3000):
            writer.append(payload)
        writer.sync()
        while consumer.take() is not None:
            pass
        eventually(lambda: journal.stats().segments <= 3)
        assert journal.stats().trimmed > 0


def test_max_age() -> None:
    with made(max_age=1000) as journal, journal.writer() as writer:
        old = time.time_ns() - 2000 * 10**9
        for payload in payloads(2000):
            writer.append(payload, time=old)
        for payload in payloads(100):
            writer.append(payload)
        writer.sync()
        for payload in payloads(1000):
            writer.append(payload)
        eventually(lambda: journal.stats().trimmed > 0)
        with journal.reader() as reader:
            message = reader.take()
            assert message is not None and message.number > 1000


def test_reader_meets_a_trim(journal: Journal) -> None:
    filled(journal)
    found: list[Any] = []
    with journal.reader() as reader:
        reader.poll(lambda message: found.append(message.number), limit=700)
        journal.trim(position=4 * Z)
        while reader.poll(lambda message: found.append(message.number)):
            pass
        assert found[-1] == 2999 and len(found) + reader.lost == 3000 and found == sorted(set(found))
