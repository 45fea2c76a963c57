# SPDX-License-Identifier: Apache-2.0
"""What a push does without a helper: syncs and trims (spec/journal.md 5, 8)."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from time import monotonic

import pytest

from flyring import ClosedError, IoError, Journal, JournalWriter, NoFreeSlotError, NoSpaceError, layout
from flyring._identity import Identity
from flyring.journal_file import HELPER_LOCK, SLOT_LOCK
from flyring.system import CONTROL_LOCK_PATIENCE, control_lock, new_lock
from journals import Folder, Z, made, payloads, read_all
from journals_power import Disk
from waits import Waits, until

HOUR = 3600 * 10**9
START = 10**6 * HOUR


def push_at(time: int) -> int:
    """Pushes at this time of the wall clock."""
    with Journal.open("j", _identity=Identity(now=time)) as journal:
        return journal.push(b"x")


def push_to(journal: Journal, segment: int) -> None:
    """Pushes until a message lies in this segment."""
    while journal.push(bytes(4000)) < segment:
        pass


class Words(Folder):
    @property
    def synced(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_SYNCED)

    @property
    def synced_at(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_SYNCED_AT)

    @property
    def checked(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_CHECKED)

    @property
    def published(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_PUBLISHED)

    @property
    def trimmed(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_TRIMMED)

    @property
    def all_is_synced(self) -> bool:
        return self.synced == self.published - 64


def test_a_push_syncs_when_the_interval_has_passed_since_the_last_sync() -> None:
    with made(sync=3600) as journal:
        words = Words(journal.path)
    assert push_at(START) == 64  # there was no sync yet
    assert words.all_is_synced and words.synced_at == START
    first = words.synced
    assert push_at(START + 1) == 192  # behind the check of the sync
    assert push_at(START + HOUR - 1) == 256
    assert words.published == 320  # and no check
    assert words.synced == first
    assert push_at(START + HOUR) == 320
    assert words.all_is_synced and words.synced_at == START + HOUR
    assert push_at(START + HOUR + 1) == 448
    assert not words.all_is_synced


def test_a_clock_that_was_set_makes_one_sync() -> None:
    with made(sync=3600) as journal:
        words = Words(journal.path)
    for time in (START, START - 10 * HOUR, START + 10 * HOUR, 1):
        push_at(time)
        assert words.all_is_synced, time
        for i in range(1, 4):
            push_at(time + i)
            assert not words.all_is_synced, time
    for hostile in (-(2**63), -1, 2**63 - 1):
        words.store(layout.JOURNAL_CONTROL_SYNCED_AT, hostile)
        push_at(START)
        assert words.all_is_synced, hostile


@pytest.mark.parametrize("sync", ["never", 3600])
def test_a_push_syncs_when_it_enters_another_segment(sync: float) -> None:
    with made(sync=sync) as journal:
        words = Words(journal.path)
        journal.push(b"x")
        before = words.synced  # with an interval the first push syncs
        while words.published < Z - 5000:
            journal.push(bytes(4000))
            assert words.synced == before
        push_to(journal, Z)
        assert words.all_is_synced
        entered = words.synced
        journal.push(b"x")
        assert words.synced == entered


def test_a_push_syncs_what_a_writer_has_left() -> None:
    with made() as journal:
        words = Words(journal.path)
        writer = journal.writer(helper=False)
        while writer.position < 2 * Z + 100:
            writer.append(bytes(4000))
        writer.close(sync=False)  # as one that is killed
        assert words.synced == 0
        journal.push(b"x")
        assert words.all_is_synced


def test_a_push_trims_when_it_enters_another_segment() -> None:
    with made() as journal, journal.consumer("c") as consumer:
        words = Words(journal.path)
        push_to(journal, 2 * Z)
        while consumer.pop() is not None:
            pass
        journal.change(trim_consumed=True)
        journal.push(b"x")
        assert words.trimmed == 0  # within a segment
        push_to(journal, 3 * Z)
        assert words.trimmed == 2 * Z
        push_to(journal, 4 * Z)
        assert words.trimmed == 2 * Z  # that of the gate
        assert consumer.lost == 0
        journal.change(trim_consumed=False, max_size=2 * Z)
        push_to(journal, 5 * Z)
        assert words.trimmed == 4 * Z
        journal.change(max_size=0, max_age=1e-9)
        push_to(journal, 6 * Z)
        assert words.trimmed == 6 * Z and words.segments() == [6 * Z]


def test_a_push_leaves_syncs_and_trims_to_a_helper() -> None:
    with made(sync=3600, max_size=Z) as journal, Journal.open("j") as other:
        words = Words(journal.path)
        lock = new_lock(other._files.file, other.path)
        assert lock.try_lock(HELPER_LOCK)  # as another process has it
        push_at(START)
        assert words.synced == 0
        assert words.checked > 0  # which the helper would sync
        words.store(layout.JOURNAL_CONTROL_WORK_ASLEEP, 1, 4)
        push_at(START + HOUR)
        assert words.word(layout.JOURNAL_CONTROL_WORK_SEQUENCE) >> 32 == 0  # it is woken
        push_to(journal, 2 * Z)
        assert words.synced == words.trimmed == 0
        lock.close()
        push_to(journal, 3 * Z)
        assert words.all_is_synced and words.trimmed == 3 * Z


def test_a_push_whose_sync_fails_is_io_and_has_appended(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    disk = Disk(monkeypatch, folder / "j.journal")
    with made(sync=3600) as journal:
        disk.fail_at = 0
        for text in (b"one", b"two"):  # the second one cannot write again what was before
            with pytest.raises(IoError):
                journal.push(text)
            assert journal.stats().failed
        disk.fail_at = None
        assert journal.stats().synced == 0
        journal.push(b"three")  # writes again, and syncs
        assert not journal.stats().failed and journal.stats().synced > 0
        assert read_all(journal) == [b"one", b"three"]


def test_a_push_on_a_full_disk_trims(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.posix_fallocate
    with made(trim_consumed=True) as journal, journal.consumer("c") as consumer:
        words = Words(journal.path)
        push_to(journal, 2 * Z)
        while words.published % Z < Z - 5000:
            journal.push(bytes(4000))

        def allocate(fd: int, at: int, length: int) -> None:
            if words.segment(0).exists():
                raise OSError(errno.ENOSPC, "full")
            real(fd, at, length)

        monkeypatch.setattr(os, "posix_fallocate", allocate)
        end = words.published
        with pytest.raises(NoSpaceError):  # the consumer needs it all
            push_to(journal, 3 * Z)
        assert end <= words.published < 3 * Z
        while consumer.pop() is not None:
            pass
        with Journal.open("j") as other:
            lock = new_lock(other._files.file, other.path)
            assert lock.try_lock(HELPER_LOCK)  # as another process has it
            with pytest.raises(NoSpaceError):  # the helper trims
                push_to(journal, 3 * Z)
            assert words.trimmed == 0
            lock.close()
        push_to(journal, 3 * Z)
        assert consumer.lost == 0


def test_a_trim_that_fails_is_no_error_of_a_push(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise OSError(errno.EIO, "no")

    with made(max_size=Z) as journal:
        words = Words(journal.path)
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", fail)
            push_to(journal, Z)
        assert words.segment(0).exists()
        push_to(journal, 2 * Z)
        assert words.segments() == [2 * Z] and words.trimmed == 2 * Z


def test_a_new_owner_counts_the_interval_from_the_last_sync() -> None:
    with made(sync=3600) as journal:
        words = Words(journal.path)

    def checks_at(time: int) -> bool:
        before = words.checked
        with Journal.open("j", _identity=Identity(now=time)) as journal:
            writer = journal.writer(helper=False)
            writer.append(b"x")
            writer.close(sync=False)
        return words.checked > before

    assert checks_at(START)  # there was no sync yet
    push_at(START)
    assert not checks_at(START + HOUR // 2)
    assert checks_at(START + HOUR)
    assert checks_at(START - 1)  # the clock was set back


def test_messages_of_pushes_are_all_there() -> None:
    with made(sync=0.001, max_size=4 * Z) as journal:
        for payload in payloads(300, 500):
            journal.push(payload)
        assert read_all(journal) == payloads(300, 500)


def test_a_push_whose_journal_is_closed_meanwhile_returns_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its caller pushes again, and the message is there twice."""
    real = JournalWriter._sync_is_due

    def close_first(writer: JournalWriter) -> bool:
        thread = threading.Thread(target=journal.close)
        thread.start()
        thread.join()
        return real(writer)

    monkeypatch.setattr(JournalWriter, "_sync_is_due", close_first)
    journal = made()
    there, memory = Words(journal.path), journal._files.memory
    assert journal.push(b"x") == 64
    assert journal.closed and journal._files.memory_is_closed
    assert there.messages() == [b"x"]
    with pytest.raises(ClosedError):
        memory.load32(0)
    with pytest.raises(ClosedError):
        journal.push(b"y")
    assert there.messages() == [b"x"]


def test_a_push_that_waits_while_its_journal_is_closed_appends_nothing() -> None:
    with made() as journal, journal.writer(helper=False):
        other = Journal.open("j")
        push = Waits(lambda: other.push(b"x"))
        until(lambda: other._work)
        other.close()
        with pytest.raises(ClosedError):
            push.end()
        assert other._files.memory_is_closed
        assert Words(journal.path).messages() == []


def test_writers_do_not_take_the_control_lock() -> None:
    """It may be held for long: by a consumer that walks to its gate, or a trim that waits for the disk."""
    with made() as journal:
        lock = new_lock(journal._files.file, journal.path)
        with control_lock(lock, journal.path):
            began = monotonic()
            journal.push(b"one")
            with journal.writer(helper=False) as writer:
                writer.append(b"two")
            assert monotonic() - began < CONTROL_LOCK_PATIENCE
        lock.close()
        assert read_all(journal) == [b"one", b"two"]


def test_a_push_in_the_way_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with made() as journal:
        lock = new_lock(journal._files.file, journal.path)
        assert lock.try_lock(SLOT_LOCK)  # as a push has it
        with pytest.raises(NoFreeSlotError, match=r"j\.journal is taken; wait longer"):
            journal.writer()
        lock.close()
        journal.writer("w", helper=False).close()
        lock = new_lock(journal._files.file, journal.path)
        assert lock.try_lock(SLOT_LOCK)
        text = rf"is taken; the last JournalWriter was 'w' \(pid {os.getpid()}\); wait longer"
        with pytest.raises(NoFreeSlotError, match=text):
            journal.push(b"x", timeout=0)
        lock.close()
