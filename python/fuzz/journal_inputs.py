# SPDX-License-Identifier: Apache-2.0
"""Makes the inputs of journals: folders of several files in one, whole ones and those of dead writers, with some words
changed."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from random import Random

import folders
from inputs import number, put

from flyring import Journal, layout
from flyring._core import crc32c

MAGIC = b"FLYFUZZJ"
SEGMENT = 65536
CONTROL = layout.HEADER_LENGTH

Files = dict[str, tuple[int, bytearray]]  # name: length, and the bytes up to the zeros at the end


def pack(files: Files) -> bytes:
    parts = [MAGIC]
    for name, (length, data) in sorted(files.items()):
        parts.append(struct.pack("<BII", len(name), length, len(data)) + name.encode("ascii") + data)
    return b"".join(parts)


def unpack(content: bytes) -> Files:
    files, at = {}, len(MAGIC)
    while at < len(content):
        named, length, stored = struct.unpack_from("<BII", content, at)
        at += 9
        name = content[at : at + named].decode("ascii")
        files[name] = length, bytearray(content[at + named : at + named + stored])
        at += named + stored
    return files


def read(folder: Path) -> Files:
    files = {}
    for path in folder.iterdir():
        data = path.read_bytes()
        files[path.name] = len(data), bytearray(data.rstrip(b"\0"))
    return files


def seeds() -> list[bytes]:
    """Journals: a small one, one of several segments with consumers, one that was trimmed, one cut off in an append."""
    folder = folders.make("flyring-fuzz-seeds")
    found = []
    try:
        path = folder / "seed.journal"
        with Journal.create(path, segment_size=SEGMENT, consumers=3) as journal:
            with journal.writer(helper=False) as writer, journal.consumer("one") as one, journal.consumer("two"):
                for i in range(30):
                    writer.append(bytes([i]) * (i * 7))
                    if i % 8 == 0:
                        writer.sync()
                    one.take()
                found.append(pack(read(path)))
                writer.append_many([bytes(200)] * 40)
                claim = writer.claim(1000)
                claim[:4] = b"dead"
                found.append(pack(read(path)))
                claim.abort()
                for i in range(700):
                    writer.append(bytes([i % 251]) * 150, time=1000 + i)
                writer.close(sync=False)
                found.append(pack(read(path)))
            with journal.writer(helper=False) as writer:
                writer.sync()
            journal.forget("two")
            with journal.consumer("one") as one:
                while one.take() is not None:
                    pass
            journal.trim(consumed=True)
            found.append(pack(read(path)))
    finally:
        shutil.rmtree(folder)
    return found


SEEDS = seeds()
WORDS = [
    (getattr(layout, f"JOURNAL_CONTROL_{name}"), 8)
    for name in (
        "CLAIMED", "PUBLISHED", "MESSAGES", "CHECKED", "READY", "SYNCED", "TRIMMED", "SYNC_EVERY", "MAX_AGE",
        "MAX_SIZE", "BOOT_ID",
    )
] + [(getattr(layout, f"JOURNAL_CONTROL_{name}"), 4) for name in ("SUCCESSOR", "FAILED", "TRIM_CONSUMED")]  # fmt: skip
CONSUMER = [(0, 8), (12, 4), (16, 4), (20, 4), (128, 8), (144, 8), (152, 8), (160, 8), (168, 4), (176, 8), (184, 8)]


def files(random: Random) -> bytes:
    """Returns a journal with up to 6 changes. Most control files have a valid header."""
    found = unpack(random.choice(SEEDS))
    for _ in range(random.randint(0, 6)):
        change(random, found)
    length, control = found["control"]
    if random.randrange(4) and len(control) >= CONTROL:
        struct.pack_into("<I", control, layout.JOURNAL_HEADER_CRC, crc32c(control[: layout.JOURNAL_HEADER_CRC]))
    if random.randrange(20) == 0:
        found["control"] = random.randint(0, length), control
    return pack(found)


def change(random: Random, found: Files) -> None:
    _, control = found["control"]
    segments = [name for name in found if name.endswith(".seg")]
    match random.randrange(9):
        case 0:
            put(control, random.randrange(0, 120, 4), number(random), 4)
        case 1 | 2:
            at, size = random.choice(WORDS)
            put(control, CONTROL + at, small(random), size)
        case 3:
            at, size = random.choice(CONSUMER)
            place = CONTROL + layout.JOURNAL_CONTROL_CONSUMERS + 256 * random.randrange(3) + at
            control.extend(bytes(max(0, place + size - len(control))))
            put(control, place, small(random), size)
        case 4 | 5 if segments:  # a record's length or type, or a word of a check
            length, data = found[random.choice(segments)]
            if len(data) > CONTROL + 128:
                at = CONTROL + 64 * random.randrange((len(data) - CONTROL - 64) // 64) + 4 * random.randrange(4)
                put(data, at, random.choice((-4, -3, -2, -1, 0, 1, 8, 16, 64, small(random))), 4)
        case 6 if segments:  # some bytes
            length, data = found[random.choice(segments)]
            at = random.randrange(len(data))
            new = random.randbytes(random.randint(1, 16))[: len(data) - at]
            data[at : at + len(new)] = new
        case 7 if segments:  # a segment that is cut, missing or another one's
            name = random.choice(segments)
            if random.randrange(2):
                del found[name]
            else:
                length, data = found[name]
                found[name] = random.choice((0, 100, CONTROL, max(0, length - 1), length + 1)), data
        case _ if segments:  # a cut that is right by its own crc
            _, data = found[random.choice(segments)]
            base = struct.unpack_from("<q", data, 32)[0] if len(data) > 40 else 0
            at = CONTROL + 64 * random.randrange(max(1, (len(data) - CONTROL) // 64))
            record = struct.pack("<iiqqqqi", 64, -4, base + at - CONTROL, random.randrange(800), small(random), 0, 1)
            record = record.ljust(60, b"\0")
            data.extend(bytes(max(0, at + 64 - len(data))))
            data[at : at + 64] = record + struct.pack("<I", crc32c(record))
        case _:
            pass


def small(random: Random) -> int:
    """A number that is often near a place in these journals."""
    if random.randrange(3) == 0:
        return number(random)
    return random.choice((0, 1, 2)) * SEGMENT + 64 * random.randint(-2, 200)
