# SPDX-License-Identifier: Apache-2.0
"""Journals for tests: a reading of the files that is written from spec/journal.md alone, without the core."""

from __future__ import annotations

import shutil
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyring import Journal, layout
from flyring._core import crc32c
from flyring._identity import Identity

Z = 65536  # the segment size of the tests
CONTROL = layout.HEADER_LENGTH
THIS_BOOT = Identity(boot_id=uuid.UUID(int=1))
OTHER_BOOT = Identity(boot_id=uuid.UUID(int=2))
THIRD_BOOT = Identity(boot_id=uuid.UUID(int=3))


def made(name: str = "j", **options: Any) -> Journal:
    return Journal.create(name, **{"segment_size": Z, **options})


@dataclass
class Record:
    position: int
    length: int
    type: int
    time: int
    payload: bytes


class Folder:
    """The files of a journal as bytes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def word(self, offset: int) -> int:
        with (self.path / "control").open("rb") as file:
            file.seek(CONTROL + offset)
            return int.from_bytes(file.read(8), "little", signed=True)

    def store(self, offset: int, value: int, size: int = 8) -> None:
        with (self.path / "control").open("r+b") as file:
            file.seek(CONTROL + offset)
            file.write(value.to_bytes(size, "little", signed=True))

    def segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.seg"))

    def segment(self, position: int) -> Path:
        return self.path / f"{position - position % Z:019d}.seg"

    def read(self, position: int, length: int) -> bytes:
        with self.segment(position).open("rb") as file:
            file.seek(4096 + position % Z)
            return file.read(length)

    def write(self, position: int, data: bytes) -> None:
        with self.segment(position).open("r+b") as file:
            file.seek(4096 + position % Z)
            file.write(data)

    def flip(self, position: int) -> None:
        self.write(position, bytes([self.read(position, 1)[0] ^ 1]))

    def records(self, start: int = 0, end: int | None = None) -> list[Record]:
        """All records, checked by the rules of the page: types, lengths, counts and crcs of checks."""
        end = self.word(layout.JOURNAL_CONTROL_PUBLISHED) if end is None else end
        found: list[Record] = []
        at, count, span, latest = start, None, b"", 0
        known = False
        while at < end:
            length, kind = struct.unpack("<ii", self.read(at, 8))
            assert length > 0, at
            size = (length + 63) // 64 * 64
            assert at % Z + size <= Z
            body = self.read(at, size)
            if at % Z == 0:
                assert kind in (-3, -4)
            if kind == -3:
                position, number, time, span_crc = struct.unpack_from("<qqqI", body, 8)
                assert length == 64 and position == at
                assert struct.unpack_from("<I", body, 60)[0] == crc32c(body[:60])
                if known:
                    assert span_crc == crc32c(span), at
                    assert number == count
                    assert time >= latest
                count, span, known = number, b"", True
            elif kind == -4:
                position, number, next_, _, _ = struct.unpack_from("<qqqqi", body, 8)
                assert length == 64 and position == at and next_ > at and next_ % Z == 0
                assert struct.unpack_from("<I", body, 60)[0] == crc32c(body[:60])
                assert count in (None, number)
                found.append(Record(at, length, kind, 0, b""))
                at, span, known = next_, b"", False
                count = number
                continue
            elif kind == -1:
                span += body[:8]
            else:
                assert kind > 0 and 16 <= length <= Z // 4
                span += body
                count = None if count is None else count + 1
                (time,) = struct.unpack_from("<q", body, 8)
                latest = max(latest, time)
            payload = body[16:length] if kind > 0 else b""
            (time,) = struct.unpack_from("<q", body, 8) if kind > 0 else (0,)
            found.append(Record(at, length, kind, time, payload))
            at += size
        return found

    def messages(self) -> list[bytes]:
        start = self.word(layout.JOURNAL_CONTROL_TRIMMED)
        return [record.payload for record in self.records(start) if record.type > 0]

    def copy(self, to: str) -> Folder:
        """The folder as a process that is killed now would leave it."""
        target = self.path.parent / f"{to}.journal"
        shutil.copytree(self.path, target)
        return Folder(target)


class DyingWriter:
    """Does the steps of spec/journal.md 3.1 and 3.2 with the files alone, and yields after each store, so that the
    writer can die there. The next segment is made whole: making it is a matter of syncs."""

    def __init__(self, there: Folder) -> None:
        self.there = there
        self.end = there.word(layout.JOURNAL_CONTROL_PUBLISHED)
        self.count = there.word(layout.JOURNAL_CONTROL_MESSAGES)
        self.committed = False

    def store(self, offset: int, value: int) -> Iterator[None]:
        self.there.store(offset, value)
        yield

    def write(self, at: int, data: bytes) -> Iterator[None]:
        self.there.write(at, data)
        yield

    def announce(self, to: int) -> Iterator[None]:
        if self.there.word(layout.JOURNAL_CONTROL_CLAIMED) < to:
            yield from self.store(layout.JOURNAL_CONTROL_CLAIMED, to)

    def publish(self, length: int, size: int) -> Iterator[None]:
        yield from self.write(self.end, length.to_bytes(4, "little"))
        yield from self.store(layout.JOURNAL_CONTROL_PUBLISHED, self.end + size)
        yield from self.store(layout.JOURNAL_CONTROL_MESSAGES, self.count)
        self.end += size

    def check(self) -> Iterator[None]:
        at, span, latest, begun = self.end, b"", 0, self.there.word(layout.JOURNAL_CONTROL_CHECKED)
        for record in self.there.records(begun, at):
            size = (record.length + 63) // 64 * 64
            if record.type > 0:
                span += self.there.read(record.position, size)
                latest = max(latest, record.time)
            elif record.type == -1:
                span += self.there.read(record.position, 8)
        (time,) = struct.unpack("<q", self.there.read(begun + 24, 8))
        body = struct.pack("<iiqqqI", 64, -3, at, self.count, max(time, latest), crc32c(span)).ljust(60, b"\0")
        body += crc32c(body).to_bytes(4, "little")
        yield from self.announce(at + 64)
        yield from self.write(at + 4, body[4:30])
        yield from self.write(at + 30, body[30:])
        yield from self.publish(64, 64)
        yield from self.store(layout.JOURNAL_CONTROL_CHECKED, at)

    def append(self, payload: bytes) -> Iterator[None]:
        size = (16 + len(payload) + 63) // 64 * 64
        rest = Z - self.end % Z
        if rest < Z and size > rest - 64:
            yield from self.announce(self.end + rest)
            yield from self.write(self.end + 4, b"\xff\xff\xff\xff")
            yield from self.publish(rest, rest)
        if self.end % Z == 0:
            yield from self.check()
        yield from self.announce(min(self.end + size + 4096, self.end // Z * Z + Z - 64))
        half = len(payload) // 2
        yield from self.write(self.end + 8, struct.pack("<q", 5) + payload[:half])
        yield from self.write(self.end + 16 + half, payload[half:])
        yield from self.write(self.end + 4, struct.pack("<i", 1))
        self.count += 1
        steps = self.publish(16 + len(payload), size)
        next(steps)
        self.committed = True
        yield
        yield from steps


def payloads(count: int, length: int = 100) -> list[bytes]:
    return [i.to_bytes(8, "little").ljust(length, bytes([i % 251])) for i in range(count)]


def read_all(journal: Journal, **options: Any) -> list[bytes]:
    with journal.reader(**options) as reader:
        found: list[bytes] = []
        while reader.poll(lambda message: found.append(bytes(message))):
            pass
        return found
