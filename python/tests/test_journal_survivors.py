# SPDX-License-Identifier: Apache-2.0
"""Journals after a writer was killed: at each store of an append, and by SIGKILL (spec/journal.md 3.4). What is left of
an object that is closed, and of an operation whose system call fails."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import shutil
import signal
import struct
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from conftest import Child
from flyring import CorruptJournalError, IoError, Journal, NoFreeSlotError, NoSpaceError, layout
from flyring._core import JournalWalk
from flyring.journal_file import JournalFiles
from flyring.journal_segment import open_segment, prepare
from journals import DyingWriter, Folder, Z, made, payloads, read_all

PUBLISHED, CLAIMED = layout.JOURNAL_CONTROL_PUBLISHED, layout.JOURNAL_CONTROL_CLAIMED


def stale(messages: int = 100) -> Folder:
    """A journal whose writer closed."""
    with made() as journal, journal.writer(helper=False) as writer:
        writer.append_many(payloads(messages))
        writer.close(sync=False)
    return Folder(journal.path)


def resumed(there: Folder, wanted: list[bytes], more: int = 1200) -> None:
    """The next writer goes on, and all is there."""
    with Journal.open("j") as journal:
        reader = journal.reader()
        with journal.writer(helper=False) as writer:
            assert writer.number == len(wanted)
            assert there.word(PUBLISHED) == there.word(CLAIMED) == writer.position
            writer.append(b"next")
            assert there.messages() == [*wanted, b"next"]
            with journal.reader("newest") as tail:  # what a dead writer claimed is zero
                assert tail.take() is None
            writer.append_many(payloads(more))
        assert there.messages() == [*wanted, b"next", *payloads(more)]
        found: list[bytes] = []
        while reader.poll(lambda message: found.append(bytes(message))):
            pass
        reader.close()
        assert found == there.messages()


def record(payload: bytes, length: bool) -> bytes:
    size = 16 + len(payload)
    return struct.pack("<iiq", size if length else 0, 1, 5) + payload


@pytest.mark.parametrize("kill_at", range(6))
def test_killed_in_append(kill_at: int) -> None:
    there = stale()
    end, wanted = there.word(PUBLISHED), payloads(100)
    if kill_at >= 1:
        there.store(CLAIMED, end + 128 + 4096)
    if kill_at >= 2:
        there.write(end, b"\0\0\0\0" + bytes([7]) * 60)  # torn
    if kill_at == 3:
        there.write(end + 64, bytes([9]) * 1000)
    if kill_at >= 4:
        there.write(end, record(b"committed".ljust(100, b"."), True))
        wanted.append(b"committed".ljust(100, b"."))
    if kill_at >= 5:
        there.store(PUBLISHED, end + 128)
    resumed(there, wanted)


@pytest.mark.parametrize("rolls", [False, True])
def test_killed_at_each_store(rolls: bool) -> None:
    """The writer dies at each store of an append, of a roll, and of a check."""
    wanted = payloads(500 if rolls else 3)
    with made() as journal, journal.writer(helper=False) as writer:
        writer.append_many(wanted)
        prepare(journal._files, Z)
        writer.close(sync=False)
    there = Folder(journal.path)
    before = there.copy("before")
    last = b"l" * (2000 if rolls else 150)
    for kill_at in range(100):
        shutil.rmtree(there.path)
        shutil.copytree(before.path, there.path)
        dying = DyingWriter(there)
        steps = chain(dying.append(last), dying.check())
        goes_on = all(next(steps, steps) is None for _ in range(kill_at))
        resumed(there, [*wanted, last] if dying.committed else wanted, 20)
        if not goes_on:
            break
    assert 10 < kill_at < 100


def test_killed_in_a_batch() -> None:
    there = stale()
    end = there.word(PUBLISHED)
    there.store(CLAIMED, end + 4096)
    there.write(end + 128, record(b"second", True))
    there.write(end + 192, record(b"third", True))
    resumed(there, payloads(100))


def test_killed_in_a_batch_that_was_committed() -> None:
    there = stale()
    end = there.word(PUBLISHED)
    there.store(CLAIMED, end + 4096)
    for i in range(3):
        there.write(end + 64 * i, record(bytes([i]) * 20, True))
    resumed(there, [*payloads(100), *(bytes([i]) * 20 for i in range(3))])


@pytest.mark.parametrize("kill_at", range(4))
def test_killed_at_a_check(kill_at: int) -> None:
    """Between padding and check, and between the stores of a check."""
    with made() as journal, journal.writer(helper=False) as writer:
        wanted = payloads(400)
        for payload in wanted:
            writer.append(payload)
        before = Folder(journal.path).copy("before")
        writer._make_check()
        writer.close(sync=False)
    there = Folder(journal.path)
    published = there.word(PUBLISHED)
    if kill_at <= 1:
        there.store(PUBLISHED, published - 64)
    if kill_at == 0:
        there.write(published - 64, bytes(4))
    if kill_at <= 2:
        there.store(layout.JOURNAL_CONTROL_CHECKED, before.word(layout.JOURNAL_CONTROL_CHECKED))
    resumed(there, wanted)


def test_killed_between_padding_and_check() -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        wanted = payloads(400, 160)
        for payload in wanted:
            writer.append(payload)
        writer.close(sync=False)
    there = Folder(journal.path)
    records = there.records()
    padding = next(one for one in records if one.type == -1)
    kept = [one.payload for one in records if one.type > 0 and one.position < padding.position]
    there.store(PUBLISHED, Z)
    there.store(CLAIMED, Z)
    there.store(layout.JOURNAL_CONTROL_CHECKED, max(o.position for o in records if o.type == -3 and o.position < Z))
    there.segment(Z).write_bytes(there.segment(Z).read_bytes()[:4096] + bytes(Z))
    assert len(kept) < len(wanted)
    resumed(there, kept)


def test_killed_before_the_padding_was_published() -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        for payload in payloads(300, 160):
            writer.append(payload)
        writer.close(sync=False)
    there = Folder(journal.path)
    end = there.word(PUBLISHED)
    there.store(CLAIMED, Z)
    if Z - end <= Z // 4 + 4096 + 64:
        there.write(end, struct.pack("<ii", Z - end, -1))
        resumed(there, payloads(300, 160))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        (PUBLISHED, -64),
        (PUBLISHED, 65),
        (PUBLISHED, 2**62),
        (CLAIMED, 0),
        (CLAIMED, 10**6),
        (layout.JOURNAL_CONTROL_CHECKED, -64),
        (layout.JOURNAL_CONTROL_CHECKED, 64),
        (layout.JOURNAL_CONTROL_CHECKED, 10**9),
    ],
)
def test_words_that_cannot_be(word: int, value: int) -> None:
    there = stale()
    before = there.word(PUBLISHED)
    there.store(word, value)
    with Journal.open("j") as journal:
        with pytest.raises(CorruptJournalError):
            journal.writer()
        with pytest.raises(CorruptJournalError):
            journal.push(b"x")
        assert not journal.stats().writing
    there.store(word, before)


def test_bad_record_behind_published() -> None:
    there = stale()
    end = there.word(PUBLISHED)
    there.store(CLAIMED, end + 4096)
    there.write(end, struct.pack("<ii", 1 << 20, 1))
    with Journal.open("j") as journal, pytest.raises(CorruptJournalError) as error:
        journal.writer()
    assert error.value.position == end


CHILD = """
import sys
from flyring import Journal
journal = Journal.open("j")
writer = journal.writer(helper={helper})
print("ready", flush=True)
number = writer.number
while True:
    if number % 7 == 3:
        batch = [(number + i).to_bytes(8, "little") * (i + 1) for i in range(5)]
        writer.append_many(batch)
        number += 5
    else:
        writer.append(number.to_bytes(8, "little") * (number % 40 + 1))
        number += 1
"""


@pytest.mark.parametrize("helper", [False, True])
def test_sigkill(helper: bool, child: Callable[..., Child]) -> None:
    """A writer that is killed again and again, while readers read: no message is lost, doubled or torn."""
    chance = random.Random(3)
    with made(segment_size=Z) as journal, journal.reader() as reader:
        found: list[int] = []

        def look(message: object) -> None:
            data = bytes(message)  # type: ignore[call-overload]
            assert data == data[:8] * (len(data) // 8)
            found.append(int.from_bytes(data[:8], "little"))

        for _ in range(6):
            one = child(CHILD.format(helper=helper))
            assert one.line() == "ready"
            give_up = time.monotonic() + chance.uniform(0.002, 0.02)
            while time.monotonic() < give_up:
                reader.poll(look)
            one.kill()
        journal.push(b"\xff" * 8)
        while reader.poll(look):
            pass
        assert found[:-1] == [*range(len(found) - 1)] and len(found) > 100
        assert len(read_all(journal)) == len(found)
        assert len(Folder(journal.path).messages()) == len(found)


def test_stopped_writer_keeps_its_slot(child: Callable[..., Child]) -> None:
    with made(segment_size=Z) as journal, journal.reader() as reader:
        one = child(CHILD.format(helper=True))
        assert one.line() == "ready"
        while journal.stats().messages < 100:
            time.sleep(0.001)
        os.kill(one.process.pid, signal.SIGSTOP)
        time.sleep(0.02)
        messages = journal.stats().messages
        with pytest.raises(NoFreeSlotError) as error:
            journal.writer(timeout=0.02)
        assert error.value.owners[0].pid == one.process.pid
        with pytest.raises(NoFreeSlotError):
            journal.push(b"x", timeout=0.02)
        assert journal.stats().writing
        while reader.poll(lambda message: None):  # it holds no reader back
            pass
        assert reader.number >= messages
        one.kill()
        with journal.writer(helper=False) as writer:
            writer.append(b"x")
            assert writer.number > messages


def test_walk_of_the_core() -> None:
    with pytest.raises(ValueError, match="segment"):
        JournalWalk(5)
    assert len(JournalWalk.make_check(0, 0, 0)) == 64


def held(folder: Path) -> int:
    """How many descriptors and mappings this process has of files in a folder."""
    count = sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            count += os.readlink(link).startswith(str(folder))
    return count


def test_closed_objects_hold_nothing(folder: Path) -> None:
    with made() as journal:
        before = held(folder)
        for helper in (False, True):
            writer = journal.writer(helper=helper)
            writer.append_many(payloads(500))
            writer.sync()
            cold, tail, consumer = journal.reader(), journal.reader("newest"), journal.consumer("c")
            assert cold.take() and consumer.pop()
            writer.append(b"x")
            assert tail.take()
            assert held(folder) > before + 4
            for one in (cold, tail, consumer, writer):
                one.close()
            assert held(folder) == before
        reader, writer = journal.reader(), journal.writer()
        assert reader.take()
        journal.close()
        assert held(folder) == 0
        assert reader.closed and writer.closed


def test_an_interrupt_during_a_close_leaves_nothing_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as journal:
        before = held(folder)
        writer = journal.writer(helper=True)
        writer.append_many(payloads(500))
        helper = writer._helper
        assert helper is not None
        join = helper._thread.join

        def interrupted() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(helper._thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
        join()
        assert writer.closed and held(folder) == before
        stats = journal.stats()
        assert not stats.writing and not stats.helping


def test_close_after_a_failure_holds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a traceback keeps what was in use when a call failed."""
    from flyring import journal_reader

    def failing(*ignored: object) -> None:
        raise IoError("open", errno.EMFILE, "x")

    with made() as journal, journal.writer(helper=False) as writer:
        writer.append(b"x")
        reader = journal.reader()
        with monkeypatch.context() as patch:
            patch.setattr(journal_reader, "map_segment", failing)
            with pytest.raises(IoError) as error:
                reader.take()
        assert error.value.__traceback__ is not None
        writer.close()
        before = held(folder)
        reader.close()
        assert held(folder) == before - 1
    assert held(folder) == 0


def test_close_that_fails_holds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its exception is gone, without a garbage collection."""
    from flyring import journal_sync

    def failing(files: JournalFiles, position: int) -> None:
        left = open_segment(files, position)  # as if an interrupt came before its close
        assert left is not None
        raise IoError("fdatasync", errno.EIO, f"{left.fileno()}")

    monkeypatch.setattr(journal_sync, "sync_segment", failing)
    journal = made()
    writer = journal.writer(helper=False)
    writer.append(b"x")
    gc.disable()
    try:
        with contextlib.suppress(IoError):
            journal.close()
        assert writer.closed and held(folder) == 0
    finally:
        gc.enable()


def test_failing_calls_are_errors_of_flyring(monkeypatch: pytest.MonkeyPatch) -> None:
    from flyring import journal

    def failing(*ignored: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "Memory", failing)
        with pytest.raises(IoError) as error:
            Journal.create("k", segment_size=Z)
        assert error.value.errno == errno.ENOMEM
    Journal.unlink("k")
    with made() as one, one.writer(helper=False) as writer:
        writer.append_many(payloads(100))
        real = os.fstat

        def fstat(fd: int) -> os.stat_result:
            if os.readlink(f"/proc/self/fd/{fd}").endswith("control") or "(deleted)" in os.readlink(
                f"/proc/self/fd/{fd}"
            ):
                raise OSError(errno.EIO, "bad")
            return real(fd)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fstat", fstat)
            with pytest.raises(IoError):
                for _ in range(1000):
                    writer.append(bytes(1000))
        writer.append_many([bytes(1000)] * 100)


@pytest.mark.parametrize("sync", ["never", "each"])
def test_batch_on_a_full_disk_says_how_far_it_came(sync: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*ignored: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with made(sync=sync) as journal, journal.writer(helper=False) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", full)
            for _ in range(2):
                with pytest.raises(NoSpaceError):
                    writer.append_many([bytes(1000)] * 100)
                assert 0 < writer.number < 100
        there = writer.number
        stats = journal.stats()
        assert stats.messages == there and (stats.unsynced_since == 0) == (sync == "each")
        assert writer.append_many([bytes(1000)] * 100) == 100
        assert len(read_all(journal)) == writer.number == there + 100
