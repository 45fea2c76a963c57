# SPDX-License-Identifier: Apache-2.0
"""Broken and hostile journals (spec/journal.md 10)."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from collections.abc import Iterator

import pytest

from flyring import (
    CorruptJournalError,
    DamagedError,
    FlyringError,
    InvalidArgumentError,
    Journal,
    JournalStart,
    JournalWriter,
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


def test_file_of_another_size_is_never_mapped(journal: Journal) -> None:
    journal.push(b"x")
    os.truncate(Folder(journal.path).segment(0), 4096)
    with pytest.raises(DamagedError):
        journal.reader()
    with pytest.raises(CorruptJournalError):
        journal.writer()


def test_corrupt_tail(journal: Journal, writer: JournalWriter) -> None:
    writer.append_many(payloads(3))
    there = Folder(journal.path)
    with journal.reader() as reader:
        reader.take()
        there.write(64 + 128, (1 << 20).to_bytes(4, "little"))
        with pytest.raises(CorruptJournalError) as error:
            reader.take()
        assert error.value.position == 64 + 128


def test_hostile_published(journal: Journal, writer: JournalWriter) -> None:
    """A reader takes it for the end of the last whole segment at most."""
    writer.append_many(payloads(3))
    with journal.reader() as reader:
        for _ in range(3):
            assert reader.take() is not None
        for value in (2**62, 2**63 - 1, -5, 7):
            journal._files.store(layout.JOURNAL_CONTROL_PUBLISHED, value)
            try:
                assert reader.take() is None
            except DamagedError as error:
                assert error.to <= 2**63
        journal._files.store(layout.JOURNAL_CONTROL_PUBLISHED, writer.position)


def test_random_bytes_in_a_segment(journal: Journal, writer: JournalWriter) -> None:
    """Whatever lies in a segment: no reader crashes, hangs, or hands out what is not proven."""
    writer.append_many(payloads(400))
    writer.sync()
    writer.close()
    there = Folder(journal.path)
    whole = there.segment(0).read_bytes()
    wanted = set(payloads(400))
    chance = random.Random(11)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = 4096 + chance.randrange(0, 50_000, 4)
            data[at : at + 4] = chance.choice((-1, -2, -3, -4, 0, 1, 64, 2**31 - 1, chance.getrandbits(31))).to_bytes(
                4, "little", signed=True
            )
        there.segment(0).write_bytes(data)
        for skip in (False, True):
            found: list[bytes] = []
            with contextlib.suppress(DamagedError, CorruptJournalError), journal.reader(skip_damaged=skip) as reader:
                for _ in range(100):
                    if reader.poll(lambda message, found=found: found.append(bytes(message))) == 0:  # type: ignore[misc]
                        break
            assert set(found) <= wanted and len(set(found)) == len(found)
        with contextlib.suppress(DamagedError, CorruptJournalError, InvalidArgumentError):
            journal.reader(JournalStart.at_number(chance.randrange(400))).close()
        with contextlib.suppress(DamagedError, CorruptJournalError, InvalidArgumentError):
            journal.reader(JournalStart.at_position(64 * chance.randrange(1000))).close()


def test_random_words(journal: Journal, writer: JournalWriter) -> None:
    """Whatever the control section holds: an error of this package, or nothing."""
    writer.append_many(payloads(400))
    writer.close()
    with journal.consumer("c") as consumer:
        consumer.take()
    there = Folder(journal.path)
    whole = (there.path / "control").read_bytes()
    chance = random.Random(12)
    offsets = [
        layout.JOURNAL_CONTROL_CLAIMED,
        layout.JOURNAL_CONTROL_PUBLISHED,
        layout.JOURNAL_CONTROL_MESSAGES,
        layout.JOURNAL_CONTROL_CHECKED,
        layout.JOURNAL_CONTROL_READY,
        layout.JOURNAL_CONTROL_SYNCED,
        layout.JOURNAL_CONTROL_TRIMMED,
        layout.JOURNAL_CONTROL_SYNC_EVERY,
        layout.JOURNAL_CONTROL_MAX_AGE,
        layout.JOURNAL_CONTROL_MAX_SIZE,
        layout.JOURNAL_CONTROL_FAILED,
        1024 + 128,
        1024 + 144,
    ]
    segment = there.segment(0).read_bytes()
    for _ in range(150):
        for path in there.path.glob("*.seg"):
            if path != there.segment(0):
                path.unlink()
        there.segment(0).write_bytes(segment)
        (there.path / "control").write_bytes(whole)
        for _ in range(chance.randint(1, 3)):
            value = chance.choice((-1, 0, 1, 63, 64, 128, Z, Z + 64, 2**40, 2**62, -(2**63), 2**63 - 1))
            there.store(chance.choice(offsets), value)
        with Journal.open("j") as one:
            one.stats()
            for call in (
                lambda one=one: read_all(one),
                lambda one=one: read_all(one, start="newest"),
                lambda one=one: read_all(one, durable=True),
                lambda one=one: read_all(one, skip_damaged=True),
                lambda one=one: one.consumer("c").close(),
                lambda one=one: one.consumer("d", "newest").close(),
                lambda one=one: one.trim(consumed=True),
                lambda one=one: one.push(b"x"),
                lambda one=one: one.writer(helper=False).close(),
            ):
                with contextlib.suppress(FlyringError):
                    call()


def test_fake_cuts(journal: Journal, writer: JournalWriter) -> None:
    """A cut that leads back, or in a circle, is not followed without end."""
    writer.append_many(payloads(10))
    writer._make_check()
    there = Folder(journal.path)
    at = writer.position
    for next_ in (0, 64, Z, 2**62, -Z, 3 * Z):
        record = struct.pack("<iiqqqqi", 64, -4, at, 10, next_, at, 1).ljust(60, b"\0")
        there.write(at, record + crc32c(record).to_bytes(4, "little"))
        with journal.reader() as reader, contextlib.suppress(CorruptJournalError, DamagedError):
            while reader.take() is not None:
                pass
            assert reader.take() is None
        with contextlib.suppress(FlyringError):
            journal.reader(JournalStart.at_number(10)).close()
    there.write(at, bytes(64))
