# SPDX-License-Identifier: Apache-2.0
"""Journals: files and options, append, batches, claims, rolling (spec/journal.md 2 to 4)."""

from __future__ import annotations

import fcntl
import os
import pickle
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flyring import (
    AccessDeniedError,
    BusyError,
    ChannelDiffersError,
    ChannelExistsError,
    ClosedError,
    CorruptHeaderError,
    InvalidArgumentError,
    Journal,
    JournalReader,
    JournalWriter,
    MessageTooLargeError,
    NoFreeSlotError,
    NoSuchChannelError,
    NotAChannelError,
    SlotLostError,
    TimedOutError,
    ViewAliveError,
    journal_path,
    journal_writer,
    layout,
)
from flyring._core import crc32c
from journals import Folder, Z, made, payloads, read_all


@pytest.fixture
def journal() -> Iterator[Journal]:
    with made() as one:
        yield one


@pytest.fixture
def writer(journal: Journal) -> Iterator[JournalWriter]:
    with journal.writer("w", helper=False) as one:
        yield one


# Files


def test_create(folder: Path) -> None:
    with made("prices", consumers=3) as journal:
        assert journal.path == str(folder / "prices.journal") == journal_path("prices")
        assert journal.segment_size == Z and journal.header.consumers == 3 and journal.schema is None
        there = Folder(journal.path)
        assert sorted(os.listdir(there.path)) == ["0000000000000000000.seg", "control"]
        assert there.path.stat().st_mode & 0o777 == 0o700
        assert there.segment(0).stat().st_size == 4096 + Z
        assert (there.path / "control").stat().st_size == 4096 + 4096
        assert [record.type for record in there.records()] == [-3]
        words = {
            layout.JOURNAL_CONTROL_CLAIMED: 64,
            layout.JOURNAL_CONTROL_PUBLISHED: 64,
            layout.JOURNAL_CONTROL_CHECKED: 0,
            layout.JOURNAL_CONTROL_READY: Z,
            layout.JOURNAL_CONTROL_SYNCED: 0,
            layout.JOURNAL_CONTROL_TRIMMED: 0,
        }
        assert {offset: there.word(offset) for offset in words} == words
    with pytest.raises(ChannelExistsError) as error:
        made("prices")
    assert error.value.path == str(folder / "prices.journal")


@pytest.mark.parametrize(
    ("mode", "wanted"), [(0o600, 0o700), (0o640, 0o750), (0o660, 0o770), (0o664, 0o775), (0o620, 0o730)]
)
def test_the_folder_is_open_to_those_that_may_use_the_files(folder: Path, mode: int, wanted: int) -> None:
    for bits in (0, 0o2000):
        there = folder / "j.journal"
        if bits:  # the user's own folder keeps the bits that it has
            there.mkdir()
            there.chmod(bits | 0o700)
        made(mode=mode).close()
        assert there.stat().st_mode & 0o7777 == wanted | bits
        assert {file.stat().st_mode & 0o7777 for file in there.iterdir()} == {mode}
        Journal.unlink("j")


@contextmanager
def held(path: Path, action: Callable[[], object]) -> Iterator[Future[object]]:
    """Holds a folder as a create or unlink does, while a thread does something that waits for it."""
    with ThreadPoolExecutor(1) as pool:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            doing = pool.submit(action)
            time.sleep(0.1)
            assert not doing.done()
            yield doing
        finally:
            os.close(descriptor)
        doing.result(10)


def test_a_create_that_looked_too_early_replaces_nothing(monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
    """Another process may make the journal between the first look and the lock of the folder."""
    with journal.writer(helper=False) as writer:
        writer.append(b"kept")
        monkeypatch.setattr(os.path, "lexists", lambda _: False)
        with pytest.raises(ChannelExistsError):
            Journal.create(journal.path, segment_size=Z)
        writer.append(b"this, too")
    assert read_all(journal) == [b"kept", b"this, too"]
    with Journal.open(journal.path) as again:
        assert read_all(again) == [b"kept", b"this, too"]


def test_an_unlink_waits_for_another_create_or_unlink(folder: Path, journal: Journal) -> None:
    there = folder / "j.journal"
    with held(there, lambda: Journal.unlink("j")):
        assert (there / "control").exists()
        assert journal.stats().successor == 0
    assert not there.exists()


def test_a_create_makes_a_folder_again_that_was_removed_meanwhile(folder: Path) -> None:
    there = folder / "j.journal"
    there.mkdir()
    with held(there, lambda: made().close()):
        there.rmdir()
    with Journal.open("j") as journal:
        assert journal.push(b"x") == 64


def test_segment_header(journal: Journal) -> None:
    page = Folder(journal.path).segment(0).read_bytes()[:4096]
    assert page[:8] == b"FLYSEGM\0"
    assert struct.unpack_from("<HHi", page, 8) == (1, 0, 4096)
    assert page[16:32] == journal.id.bytes
    assert struct.unpack_from("<qq", page, 32) == (0, Z)
    assert struct.unpack_from("<I", page, 4092)[0] == crc32c(page[:4092])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("segment_size", 65535),
        ("segment_size", 2**31),
        ("segment_size", 32768),
        ("consumers", 1025),
        ("consumers", -1),
        ("content", 2),
        ("sync", "now"),
        ("sync", 0.0001),
        ("sync", 4000),
        ("max_age", -1),
        ("max_size", -1),
        ("schema_id", 3),
        ("mode", 0o1000),
    ],
)
def test_invalid_option(option: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        made(**{option: value})
    assert error.value.argument == option
    with pytest.raises(NoSuchChannelError):
        Journal.open("j")


def test_unknown_option() -> None:
    with pytest.raises(TypeError):
        made(capacity=1)


def test_open_errors(folder: Path, journal: Journal) -> None:
    with pytest.raises(NoSuchChannelError) as error:
        Journal.open("nothing")
    assert error.value.path == str(folder / "nothing.journal") and "journal" in str(error.value)
    control = Path(journal.path) / "control"
    journal.close()
    data = bytearray(control.read_bytes())
    data[200] ^= 1
    control.write_bytes(data)
    with pytest.raises(CorruptHeaderError) as corrupt:
        Journal.open("j")
    assert corrupt.value.field == "crc"
    control.write_bytes(b"FLYRING\0" + bytes(8184))
    with pytest.raises(NotAChannelError):
        Journal.open("j")
    with pytest.raises(NotAChannelError):
        Journal.unlink("j")
    assert control.exists()


@pytest.mark.parametrize(
    ("offset", "size", "value", "field"),
    [
        (layout.JOURNAL_HEADER_CONTENT, 4, 2, "content"),
        (layout.JOURNAL_HEADER_CONSUMERS, 4, 1025, "consumers"),
        (layout.JOURNAL_HEADER_SEGMENT_SIZE, 8, 65537, "segment_size"),
        (layout.JOURNAL_HEADER_CONTROL_LENGTH, 8, 4096, "control_length"),
        (layout.JOURNAL_HEADER_SCHEMA_LENGTH, 8, -1, "schema_length"),
        (layout.JOURNAL_HEADER_SCHEMA_VERSION, 4, 65536, "schema_version"),
    ],
)
def test_bad_field(offset: int, size: int, value: int, field: str) -> None:
    with made(consumers=16) as journal:
        control = Path(journal.path) / "control"
    data = bytearray(control.read_bytes())
    data[offset : offset + size] = value.to_bytes(size, "little", signed=True)
    data[4092:4096] = crc32c(bytes(data[:4092])).to_bytes(4, "little")
    control.write_bytes(data)
    with pytest.raises(CorruptHeaderError) as error:
        Journal.open("j")
    assert error.value.field in (field, "schema_offset", "file_length")


def test_open_or_create() -> None:
    with Journal.open_or_create("j", segment_size=Z, sync="each", max_size=1 << 20) as journal:
        with Journal.open_or_create("j") as again:  # what was not given is not compared
            assert again.id == journal.id
        for option, value, expected, actual in (
            ("segment_size", 2 * Z, "131072", "65536"),
            ("consumers", 4, "4", "16"),
            ("content", 1, "recording", "messages"),
            ("sync", 1.0, "1000000000 ns", "each"),
            ("max_age", 5.0, "5000000000", "0"),
            ("max_size", 5, "5", "1048576"),
            ("trim_consumed", True, "true", "false"),
        ):
            options: dict[str, Any] = {option: value}
            with pytest.raises(ChannelDiffersError) as error:
                Journal.open_or_create("j", **options)
            found = error.value
            assert (found.field, found.expected, found.actual) == (option, expected, actual)


def test_wait_for() -> None:
    with pytest.raises(TimedOutError):
        Journal.wait_for("j", 0.01)
    with made() as journal, Journal.wait_for("j", 1) as other:
        assert other.id == journal.id


def test_folder_with_other_files(folder: Path) -> None:
    (folder / "j.journal").mkdir()
    (folder / "j.journal" / "mine.txt").write_text("x")
    with pytest.raises(NotAChannelError):
        made()
    assert os.listdir(folder / "j.journal") == ["mine.txt"]


def test_segments_of_an_earlier_journal_are_replaced(folder: Path) -> None:
    with made("other") as other, other.writer(helper=False) as writer:
        for payload in payloads(1000):
            writer.append(payload)
    (folder / "other.journal" / "control").unlink()
    os.rename(folder / "other.journal", folder / "j.journal")
    with made() as journal:
        assert read_all(journal) == []
        with journal.writer(helper=False) as writer:
            for payload in payloads(1000, 90):
                writer.append(payload)
        assert read_all(journal) == payloads(1000, 90)
        assert Folder(journal.path).messages() == payloads(1000, 90)


def test_unlink(folder: Path, journal: Journal) -> None:
    with journal.writer(helper=False) as writer:
        writer.append(b"x")
        reader = journal.reader()
        with pytest.raises(NoFreeSlotError) as error:
            Journal.unlink("j")
        assert error.value.kind == "writer"
    Journal.unlink("j")
    assert not (folder / "j.journal").exists()
    assert journal.stats().successor == layout.SUCCESSOR_UNLINKED
    with pytest.raises(NoSuchChannelError):
        journal.writer()
    with pytest.raises(NoSuchChannelError):
        journal.reader()
    with pytest.raises(NoSuchChannelError):
        Journal.unlink("j")
    reader.close()


def test_pickle(journal: Journal) -> None:
    with pickle.loads(pickle.dumps(journal)) as other:
        assert other.id == journal.id


def test_closed(journal: Journal) -> None:
    writer, reader = journal.writer(), journal.reader()
    journal.close()
    journal.close()
    assert writer.closed and reader.closed
    for call in (journal.writer, journal.reader, journal.stats, lambda: journal.push(b""), lambda: writer.append(b"")):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        reader.take()


def test_read_only(journal: Journal) -> None:
    journal.push(b"one")
    with Journal.open("j", read_only=True) as other:
        assert read_all(other) == [b"one"]
        assert other.stats().messages == 1
        for call in (
            other.writer,
            lambda: other.consumer("c"),
            lambda: other.push(b"x"),
            lambda: other.trim(consumed=True),
            lambda: other.change(max_size=1),
            lambda: other.forget("c"),
        ):
            with pytest.raises(AccessDeniedError):
                call()


def test_crc_of_long_bytes() -> None:
    """The core computes it in lanes."""

    def by_bits(data: bytes) -> int:
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return crc ^ 0xFFFFFFFF

    data = os.urandom(7000)
    for length in (0, 1, 7, 8, 9, 3071, 3072, 3073, 6144, 6999, 7000):
        assert crc32c(data[:length]) == by_bits(data[:length]), length


# Append


def test_append(journal: Journal, writer: JournalWriter) -> None:
    first = writer.append(b"hello", 7)
    second = writer.append(b"", time=123)
    third = writer.append(bytearray(b"x" * 1000))
    assert (first, second, third) == (64, 128, 192)
    assert writer.position == 192 + 1024 and writer.number == 3
    records = Folder(journal.path).records()
    assert [(one.position, one.length, one.type) for one in records] == [
        (0, 64, -3),
        (64, 21, 7),
        (128, 16, 1),
        (192, 1016, 1),
    ]
    assert records[1].payload == b"hello" and records[2].time == 123
    assert records[1].time > 10**18


def test_append_errors(writer: JournalWriter) -> None:
    assert writer.max_message_length == Z // 4 - 16
    with pytest.raises(MessageTooLargeError) as error:
        writer.append(bytes(Z // 4 - 15))
    assert (error.value.length, error.value.limit) == (Z // 4 - 15, Z // 4 - 16)
    for kind in (0, -1, 2**31):
        with pytest.raises(InvalidArgumentError):
            writer.append(b"", kind)
    with pytest.raises(InvalidArgumentError):
        writer.append(b"", time=-1)
    with pytest.raises(TypeError):
        writer.append(5)  # type: ignore[arg-type]
    assert writer.position == 64
    writer.append(bytes(Z // 4 - 16))


def test_checks_every_64_kib() -> None:
    with made(segment_size=4 * Z) as journal, journal.writer(helper=False) as writer:
        for _ in range(3000):
            writer.append(bytes(48))
        position = writer.position
    data = b"".join(path.read_bytes()[4096:] for path in sorted(Path(journal.path).glob("*.seg")))
    checks, at, since = [], 0, 0
    while at < position:
        length, kind = struct.unpack_from("<ii", data, at)
        size = (length + 63) // 64 * 64
        if kind == -3:
            checks.append(at)
            assert since <= Z + 64
            since = 0
        else:
            since += size
        at += size
    assert checks[:3] == [0, 64 + Z, 2 * (64 + Z)]


def test_roll(journal: Journal, writer: JournalWriter) -> None:
    wanted = payloads(5000, 150)
    positions = [writer.append(payload) for payload in wanted]
    there = Folder(journal.path)
    assert len(there.segments()) == positions[-1] // Z + 1
    assert there.messages() == wanted
    assert read_all(journal) == wanted
    assert all(position % Z + 192 <= Z - 64 for position in positions)


def test_last_64_bytes_are_for_a_check(journal: Journal, writer: JournalWriter) -> None:
    while writer.position < Z - 128:
        writer.append(bytes(48))
    assert writer.position == Z - 128
    writer.append(bytes(48))  # ends at Z - 64
    assert writer.position == Z - 64
    writer.sync()
    assert writer.position == Z
    writer.append(b"next")
    there = Folder(journal.path)
    assert there.records()[-1].payload == b"next" and there.records()[-1].position == Z + 64
    assert len(there.messages()) == len(read_all(journal))


def test_append_many(journal: Journal, writer: JournalWriter) -> None:
    wanted = payloads(3000, 70)
    assert writer.append_many(wanted, 9, time=5) == 3000
    assert writer.append_many([]) == 0
    with pytest.raises(MessageTooLargeError):
        writer.append_many([b"x", bytes(Z)])
    records = [one for one in Folder(journal.path).records() if one.type > 0]
    assert [one.payload for one in records] == wanted
    assert {(one.type, one.time) for one in records} == {(9, 5)}
    assert writer.number == 3000
    assert read_all(journal) == wanted


def test_large_batches(journal: Journal, writer: JournalWriter) -> None:
    wanted = [bytes([i]) * (Z // 4 - 16) for i in range(20)]
    writer.append_many(wanted)
    assert Folder(journal.path).messages() == wanted == read_all(journal)


def test_claim(journal: Journal, writer: JournalWriter) -> None:
    claim = writer.claim(5, 3)
    claim[:] = b"hello"
    for call in (lambda: writer.append(b""), lambda: writer.claim(1), lambda: writer.append_many([]), writer.sync):
        with pytest.raises(ViewAliveError):
            call()
    assert read_all(journal) == []
    assert claim.commit() == 64
    with pytest.raises(ClosedError):
        claim.commit()
    with writer.claim(2) as second:
        second[:] = b"ab"
    third = writer.claim(100)
    assert third.abort() == 192
    assert [(one.type, one.payload) for one in Folder(journal.path).records()] == [
        (-3, b""),
        (3, b"hello"),
        (1, b"ab"),
        (-1, b""),
    ]
    writer.append(b"z")
    writer.sync()
    assert Folder(journal.path).messages() == [b"hello", b"ab", b"z"]


def test_claim_is_aborted_by_close(journal: Journal) -> None:
    writer = journal.writer(helper=False)
    writer.append(b"one")
    claim = writer.claim(4)
    view = claim.data
    with pytest.raises(ViewAliveError):
        writer.close()
    view.release()
    writer.close()
    assert writer.closed and Folder(journal.path).messages() == [b"one"]
    with pytest.raises(ClosedError):
        claim.commit()


def test_one_writer(journal: Journal, writer: JournalWriter) -> None:
    with pytest.raises(NoFreeSlotError) as error:
        journal.writer("other", timeout=0.02)
    assert error.value.kind == "writer" and error.value.owners[0].name == "w"
    with pytest.raises(BusyError, match="this very object"):
        journal.push(b"x")
    with Journal.open(journal.path) as other, pytest.raises(NoFreeSlotError):
        other.push(b"x", timeout=0)
    writer.close()
    with journal.writer() as second:
        assert second.epoch == writer.epoch + 1


def test_slot_lost(journal: Journal, writer: JournalWriter) -> None:
    journal._files.memory.add64(layout.HEADER_LENGTH + layout.JOURNAL_CONTROL_SLOT, 1)
    with pytest.raises(SlotLostError):
        writer.append(b"x")
    writer.close()


def test_errors_in_their_order(journal: Journal) -> None:
    reading = Journal.open(journal.path, read_only=True)
    for first, second in ((InvalidArgumentError, AccessDeniedError), (ClosedError, ClosedError)):
        wrong: list[Any] = [
            lambda: reading.writer("a b"),
            lambda: reading.writer(ahead=0),
            lambda: reading.writer(ahead=17),
            lambda: reading.writer(timeout=-1),
            lambda: reading.consumer(""),
            lambda: reading.forget("a b"),
            lambda: reading.trim(position=-1),
            lambda: reading.push(b"x", 0),
            lambda: reading.change(max_age=-1),
        ]
        right: list[Any] = [
            reading.writer,
            lambda: reading.consumer("c"),
            lambda: reading.forget("c"),
            lambda: reading.trim(consumed=True),
            lambda: reading.push(b"x"),
            lambda: reading.change(max_size=1),
        ]
        for call, error in [(call, first) for call in wrong] + [(call, second) for call in right]:
            with pytest.raises(error):
                call()
        reading.close()


def test_push(journal: Journal) -> None:
    assert journal.push(b"one") == 64
    assert journal.push(b"two", 5) == 128
    with journal.writer("name") as writer:
        writer.append(b"three")
    journal.push(b"four")
    assert journal.stats().writer == "name"  # a push has no name
    assert Folder(journal.path).messages() == [b"one", b"two", b"three", b"four"]


def test_writers_follow_each_other(journal: Journal) -> None:
    wanted = payloads(2000, 60)
    for i in range(0, 2000, 100):
        with journal.writer(helper=bool(i % 200)) as writer:
            assert writer.number == i
            for payload in wanted[i : i + 100]:
                writer.append(payload)
    assert Folder(journal.path).messages() == wanted


def test_fork(journal: Journal, writer: JournalWriter) -> None:
    writer.append(b"one")
    pid = os.fork()
    if pid == 0:
        try:
            writer.append(b"child")
        except ClosedError:
            os._exit(0 if writer.closed and journal.closed else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    writer.append(b"two")
    assert Folder(journal.path).messages() == [b"one", b"two"]


def test_stats(journal: Journal) -> None:
    stats = journal.stats()
    assert (stats.messages, stats.published, stats.segments, stats.bytes) == (0, 64, 1, 4096 + Z)
    assert (stats.writing, stats.writer, stats.attached_at, stats.consumers) == (False, "", 0, ())
    assert stats.sync == "never" and not stats.needs_recovery and not stats.failed and stats.unsynced_since == 0
    with journal.writer("w", helper=False) as writer, journal.consumer("c") as consumer:
        writer.append(b"one", time=10)
        writer.append(b"two", time=20)
        stats = journal.stats()
        assert stats.writing and stats.writer == "w" and stats.pid == os.getpid() and stats.epoch == 1
        assert stats.messages == 2 and stats.unsynced_since > 0 and stats.oldest == 10
        (one,) = stats.consumers
        assert (one.name, one.position, one.behind, one.lost, one.live) == ("c", 0, 2, 0, True)
        consumer.take()
        writer.sync()
        stats = journal.stats()
        assert stats.consumers[0].behind == 1 and stats.unsynced_since == 0 and stats.newest == 20
    assert not journal.stats().writing and not journal.stats().consumers[0].live


def in_another_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def assert_let_go(closed: Journal, journal: Journal) -> None:
    assert closed.closed and closed._files.memory_is_closed
    assert "flyring-journal-helper" not in [thread.name for thread in threading.enumerate()]
    assert not journal.stats().writing and not journal.stats().helping
    journal.writer(helper=False).close()


@pytest.mark.parametrize("step", ["begin", "occupy", "Helper", "made"])
def test_a_writer_whose_journal_is_closed_while_it_is_made_is_closed(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made() as journal:
        closed = Journal.open("j")

        class Users(weakref.WeakSet[Any]):
            def add(self, item: Any) -> None:
                in_another_thread(closed.close)
                super().add(item)

        if step == "made":
            closed._users = Users()
        else:
            real = getattr(journal_writer, step)

            def close_first(*arguments: Any) -> Any:
                in_another_thread(closed.close)
                return real(*arguments)

            monkeypatch.setattr(journal_writer, step, close_first)
        with pytest.raises(ClosedError):
            closed.writer()
        monkeypatch.undo()
        assert_let_go(closed, journal)


def test_a_writer_that_is_made_while_its_journal_is_closed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = JournalReader.close
    with made() as journal:
        closed = Journal.open("j")
        reader = closed.reader()
        writers: list[JournalWriter] = []

        def close(reader: JournalReader) -> None:
            in_another_thread(lambda: writers.append(closed.writer()))
            real(reader)

        monkeypatch.setattr(JournalReader, "close", close)
        closed.close()
        monkeypatch.undo()
        assert reader.closed and writers[0].closed
        with pytest.raises(ClosedError):
            writers[0].append(b"x")
        assert_let_go(closed, journal)
