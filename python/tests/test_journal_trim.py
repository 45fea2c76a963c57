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
from flyring.journal_file import HELPER_LOCK, JournalFiles
from flyring.journal_segment import open_segment, prepare
from flyring.system import new_lock
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


class Locks:
    """A file description whose locks fail for a while."""

    fail = True

    def __init__(self, file: Any) -> None:
        self._file = file

    def try_lock(self, at: int) -> bool:
        if Locks.fail:
            raise OSError(errno.ENOLCK, "no locks")
        return bool(self._file.try_lock(at))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_writer_without_its_helper_lock(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flyring.journal_helper.new_lock", lambda file, path: Locks(new_lock(file, path)))
    monkeypatch.setattr(Locks, "fail", True)
    with journal.writer() as writer:
        writer.append(b"x")
        assert not journal.stats().helping
        monkeypatch.setattr(Locks, "fail", False)
        eventually(lambda: journal.stats().helping)


def test_a_thread_that_does_not_start_gives_the_helper_lock_back(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError) as error:
        journal.writer()
    assert not journal.stats().helping and not journal.stats().writing
    del error  # up to here it keeps what its traceback refers to
    with journal.writer(helper=False) as writer:
        writer.append(b"x")


def is_mapped(position: int) -> bool:
    return f"/{position:019d}.seg" in Path("/proc/self/maps").read_text()


def test_helper_maps_all_segments_that_it_keeps_ahead(journal: Journal) -> None:
    with journal.writer(ahead=3) as writer:
        eventually(lambda: all(is_mapped(i * Z) for i in (1, 2, 3)))
        while writer.position < 2 * Z + 64:
            writer.append(b"x" * 200)
            time.sleep(1e-5)  # the helper needs the interpreter, too
        eventually(lambda: all(is_mapped(i * Z) for i in (3, 4, 5)))
        eventually(lambda: not is_mapped(0) and not is_mapped(Z))  # what the writer has left
        assert writer.unprepared == 0
    assert not any(is_mapped(i * Z) for i in range(6))


def test_of_two_helpers_one_helps(journal: Journal) -> None:
    with Journal.open(journal.path) as other:
        lock = new_lock(other._files.file, other.path)
        assert lock.try_lock(HELPER_LOCK)  # as another process has it
        journal.change(sync=0.001)
        with journal.writer(ahead=2) as writer:
            prepare(other._files, Z)
            eventually(lambda: is_mapped(Z))  # it brings in the pages for its own writer
            assert Folder(journal.path).segments() == [0, Z]  # and makes none
            writer.append(b"x")  # makes a check
            time.sleep(0.2)
            assert journal.stats().synced == 0  # and syncs nothing
            lock.close()
            eventually(lambda: is_mapped(2 * Z))


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
                assert "trim the journal, or make room on the disk" in str(error.value)
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
        synced: list[str] = []
        monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
        writer.sync()
        assert [Path(name).name for name in synced] == [f"{p:019d}.seg" for p in Folder(journal.path).segments()]


def test_sync_interval() -> None:
    with made(sync=0.02) as journal, journal.writer() as writer:
        writer.append(b"one")
        time.sleep(0.03)
        writer.append(b"two")  # makes a check, which the helper syncs
        eventually(lambda: journal.stats().synced > 64)
        assert journal.stats().sync == 0.02
        there = Folder(journal.path)
        assert there.word(layout.JOURNAL_CONTROL_SYNCED) in [one.position for one in there.records() if one.type == -3]


def test_never_syncs_what_is_full(journal: Journal) -> None:
    with journal.writer() as writer:
        for payload in payloads(1500):
            writer.append(payload)
        here = writer.position // Z * Z
        eventually(lambda: journal.stats().synced >= here - 2 * Z)
        writer.close(sync=False)


def test_change(journal: Journal) -> None:
    journal.change(sync="each", max_age=5, max_size=100, trim_consumed=True)
    stats = journal.stats()
    assert (stats.sync, stats.max_age, stats.max_size, stats.trim_consumed) == ("each", 5, 100, True)
    journal.change(sync=0.5)
    stats = journal.stats()
    assert (stats.sync, stats.max_age, stats.max_size, stats.trim_consumed) == (0.5, 5, 100, True)
    journal.change(sync="never", max_age=0, trim_consumed=False)
    for options in ({"sync": "x"}, {"max_age": -1}, {"max_size": -1}):
        with pytest.raises(InvalidArgumentError):
            journal.change(**options)  # type: ignore[arg-type]
    journal._files.store(layout.JOURNAL_CONTROL_SYNC_EVERY, -7)  # hostile: counts as never
    assert journal.stats().sync == "never"
    journal.push(b"x")


# Trims


def filled(journal: Journal, count: int = 3000) -> None:
    with journal.writer(helper=False) as writer:
        for i, payload in enumerate(payloads(count)):
            writer.append(payload, time=1000 + i)


def first(journal: Journal) -> int:
    with journal.reader() as reader:
        return reader.number


def test_trim_to_a_position(journal: Journal) -> None:
    filled(journal)
    there = Folder(journal.path)
    with journal.reader() as behind, journal.reader() as reader:
        freed = journal.trim(position=3 * Z + 500)
        assert freed >= 3 * Z and there.segments()[0] == 3 * Z == journal.stats().trimmed
        number = first(journal)
        assert read_all(journal) == payloads(3000)[number:]
        message = behind.take()
        assert message is not None and message.number == number and behind.lost == number
        with pytest.raises(InvalidArgumentError):
            reader.seek(JournalStart.at_position(2 * Z + 65))
        reader.seek(JournalStart.at_position(2 * Z))
        assert reader.number == number
        reader.seek(JournalStart.at_number(5))
        assert reader.number == number and reader.lost == number - 5
    assert journal.trim(position=0) == 0
    assert journal.trim(position=2**60) > 0
    assert journal.stats().segments == 1 and journal.stats().messages == 3000


def test_trim_is_bounded_by_gates_and_synced(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        filled(journal)
        assert journal.trim(position=2**60) == 0
        for _ in range(1500):
            consumer.take()
        assert journal.trim(consumed=True) > 0
        assert journal.stats().trimmed == consumer.position // Z * Z
        assert consumer.take() == payloads(3000)[1500]
    with made("other") as other, other.writer(helper=False) as writer:
        for payload in payloads(3000):
            writer.append(payload)
        assert other.trim(position=2**60) == 0  # nothing is synced
        assert other.trim(consumed=True) == 0  # and there is no consumer


def test_what_a_killed_trim_left(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = Path(journal.path) / f"{0:019d}.seg"
    with journal.writer(helper=False) as writer:
        while writer.position < 3 * Z:
            writer.append(bytes(1000))
        writer.sync()
        data = oldest.read_bytes()
        assert journal.trim(position=Z) == Z + 4096
        assert journal.trim(position=Z) == 0
        oldest.write_bytes(data)  # as if the kill had come before the unlink
        there: list[bool] = []
        real = os.fdatasync

        def sync(fd: int) -> None:
            there.append(oldest.exists())
            real(fd)

        monkeypatch.setattr(os, "fdatasync", sync)
        assert journal.trim(position=Z) == Z + 4096
        assert there == [True] and not oldest.exists()  # the control file is synced before it goes
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


def test_reader_at_the_place_where_the_journal_begins_loses_nothing(journal: Journal) -> None:
    with journal.writer(helper=False) as writer, journal.reader() as reader:
        writer.append(bytes(1000))
        while writer.position < 2 * Z:  # of the second segment: all messages, and not the padding behind them
            reader.poll(lambda message: None)
            writer.append(bytes(1000))
        assert reader.number == writer.number - 1
        while writer.position < 4 * Z:
            writer.append(bytes(1000))
        writer.sync()
        journal.trim(position=2 * Z)
        assert journal.stats().trimmed == 2 * Z
        while reader.poll(lambda message: None):
            pass
        assert (reader.number, reader.lost) == (writer.number, 0)


def test_newest_message_that_is_trimmed_meanwhile_leads_to_the_oldest(journal: Journal) -> None:
    with journal.writer(helper=False) as writer, open(f"{journal.path}/control", "r+b", buffering=0) as control:
        while writer.position < Z + 1000:
            writer.append(bytes(1000))
        words = os.pread(control.fileno(), 24, 4096 + 256)  # published, messages, checked
        while writer.position < 3 * Z:
            writer.append(bytes(1000))
        writer.sync()
        journal.trim(position=2 * Z)
        os.pwrite(control.fileno(), words, 4096 + 256)  # as a reader sees them that stands still behind its loads
        with journal.reader("newest") as reader:
            assert reader.position == 2 * Z


def use() -> tuple[int, int, int]:
    """Open descriptors, mappings of segments, and KiB of memory of this process."""
    status = Path("/proc/self/status").read_text()
    anonymous = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    maps = Path("/proc/self/maps").read_text().splitlines()
    return len(os.listdir("/proc/self/fd")), sum(".seg" in line for line in maps), anonymous


def test_long_run_keeps_memory_descriptors_and_mappings_flat() -> None:
    """FLYRING_LONG_JOURNAL: how many bytes, for the nightly run (./dev journals)."""
    wanted = os.environ.get("FLYRING_LONG_JOURNAL")
    end, large = (int(wanted), 64 << 20) if wanted else (64 << 20, 4 << 20)  # a container has 64 MiB of shared memory
    first = None
    with (
        made(segment_size=large, max_size=2 * large) as journal,
        journal.writer() as writer,
        journal.reader() as reader,
    ):
        payload = bytes(large // 64)
        while writer.position < end:
            writer.append(payload)
            while reader.poll(lambda message: None):
                pass
            if first is None and writer.position > large + large // 2:
                first = use()
        assert reader.number == writer.number and reader.lost == 0
        eventually(lambda: journal.stats().bytes <= 2 * (large + 4096))
        eventually(lambda: use()[1] <= 4)
        last = use()
        assert first is not None
        assert last[0] <= first[0] + 2
        assert last[2] <= first[2] + 8192


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

        def first() -> int:
            with journal.reader() as reader:
                message = reader.take()
                assert message is not None
                return message.number

        eventually(lambda: first() > 1000)  # the helper may have met only a part of the old ones at its first look


def test_reader_meets_a_trim(journal: Journal) -> None:
    filled(journal)
    found: list[Any] = []
    with journal.reader() as reader:
        reader.poll(lambda message: found.append(message.number), limit=700)
        journal.trim(position=4 * Z)
        while reader.poll(lambda message: found.append(message.number)):
            pass
        assert found[-1] == 2999 and len(found) + reader.lost == 3000 and found == sorted(set(found))


def test_helper_tries_a_sync_again_that_found_no_descriptor(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that cannot be opened is no sync that failed."""
    failures = 0

    def fail_once(files: JournalFiles, position: int, writable: bool = False) -> Any:
        nonlocal failures
        if failures == 0:
            failures += 1
            raise IoError("open", errno.EMFILE, files.segment_path(position))
        return open_segment(files, position, writable)

    monkeypatch.setattr("flyring.journal_sync.open_segment", fail_once)
    with journal.writer() as writer:
        while writer.position < Z:
            writer.append(bytes(4000))
        eventually(lambda: journal.stats().synced == Z)
        assert failures == 1
        writer.append(b"x")
