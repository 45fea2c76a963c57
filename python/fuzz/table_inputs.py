# SPDX-License-Identifier: Apache-2.0
"""Makes the input files of tables: golden tables, whole ones and those of dead writers, with some words changed."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import folders
from inputs import number, put

from flyring import Table, layout
from flyring._core import crc32c
from flyring.table_header import FIELDS, TableHeader

FOLDER = Path(__file__).parents[2] / "spec" / "golden" / "table"
CONTROL = layout.HEADER_LENGTH
MOST_CELLS = 70  # of a larger table only the first cells are changed


def written(data: bytes, runs: list[tuple[int, str]]) -> bytes:
    changed = bytearray(data)
    for at, text in runs:
        changed[at : at + len(text) // 2] = bytes.fromhex(text)
    return bytes(changed)


def dead() -> Iterator[bytes]:
    """Yields what dead writers left: of each operation every third point."""
    for path in sorted(FOLDER.glob("dead/*.json")):
        golden = json.loads(path.read_text("utf-8"))
        base = written(bytes(golden["file_length"]), golden["base"])
        for point in golden["dead"][::3]:
            yield written(base, point["left"])


def whole_pages() -> Iterator[bytes]:
    """Yields tables whose last cell ends where the file ends, so that each read behind it is found."""
    folder = folders.make("flyring-fuzz-seeds")
    try:
        for key, checked in (("text", False), ("bytes", True), ("integer", True)):
            path = folder / f"{key}.table"
            keys = {"text": str, "bytes": lambda k: b"%d" % k, "integer": int}[key]
            with Table.create(path, capacity=64, key=key, value_bytes=40, checked=checked) as table:  # type: ignore[arg-type]
                for k in range(64):
                    table[keys(k)] = bytes(k % 41)
                for k in range(0, 64, 9):
                    del table[keys(k)]
            yield path.read_bytes()
    finally:
        shutil.rmtree(folder)


SEEDS = [path.read_bytes() for path in sorted(FOLDER.glob("1.0/*.table"))]
DEAD, PAGES = [*dead()], [*whole_pages()]
HEADERS: dict[bytes, TableHeader] = {}  # by the page

WORDS = (
    [(getattr(layout, f"TABLE_CONTROL_{name}"), 8) for name in
     ("STAMP", "CHANGED", "SIZE", "GENERATION", "INTENT", "INTENT_SIZE", "REBUILD", "FILLED", "FILLED_OTHER")]
    + [(getattr(layout, f"TABLE_CONTROL_{name}"), 4) for name in ("SUCCESSOR", "CLEAN", "DATA_SEQUENCE", "DATA_ASLEEP")]
    + [(layout.TABLE_CONTROL_TOP, 4), (layout.TABLE_CONTROL_FRESH, 4)] * 3
    + [(layout.TABLE_CONTROL_SLOT + at, size) for at, size in ((0, 8), (16, 4), (20, 4), (24, 8), (88, 4), (104, 8))]
)  # fmt: skip


def header_of(seed: bytes) -> TableHeader:
    page = seed[: layout.HEADER_LENGTH]
    if page not in HEADERS:
        HEADERS[page] = TableHeader.parse(page, len(seed), "seed")
    return HEADERS[page]


def files(random: Random) -> bytes:
    """Returns a golden table with up to 6 changes. Most files have a valid header."""
    seed = random.choice(random.choice((SEEDS, DEAD, PAGES)))
    header, content = header_of(seed), bytearray(seed)
    for _ in range(random.randint(0, 6)):
        change(random, content, header)
    if random.randrange(4):
        if random.randrange(8):
            content[: layout.HEADER_LENGTH] = seed[: layout.HEADER_LENGTH]
        struct.pack_into("<I", content, layout.TABLE_HEADER_CRC, crc32c(content[: layout.TABLE_HEADER_CRC]))
    if random.randrange(20) == 0:
        del content[random.randint(0, len(content)) :]
    return bytes(content)


def change(random: Random, content: bytearray, header: TableHeader) -> None:
    cell = header.cells_offset + random.randrange(min(header.cells, MOST_CELLS)) * header.cell_stride
    body = cell + header.body_offset + random.randrange(2) * header.body_stride
    match random.randrange(8):
        case 0:
            at, size, _ = random.choice(FIELDS)
            put(content, at, number(random), size)
        case 1 | 2:
            at, size = random.choice(WORDS)
            put(content, CONTROL + at, small(random, header), size)
        case 3:  # an entry of the index: of any cell, also beyond the last one
            copy, at = random.randrange(2), random.randrange(header.entries)
            entry = random.getrandbits(32) << 32 | (small(random, header) & 0xFFFFFFFF)
            place = header.index_offset + copy * header.index_stride + 8 * at
            old = struct.unpack_from("<Q", content, place)[0]
            put(content, place, old >> 32 << 32 | entry & 0xFFFFFFFF if random.randrange(2) else entry, 8)
        case 4:
            at, size = random.choice(((layout.TABLE_CELL_VERSION, 8), (layout.TABLE_CELL_NEXT, 4),
                                      (layout.TABLE_CELL_KEY_LENGTH, 4), (layout.TABLE_CELL_KEY, 8)))  # fmt: skip
            put(content, cell + at, small(random, header), size)
        case 5:
            at, size = random.choice(((layout.TABLE_BODY_SEQ, 8), (layout.TABLE_BODY_LENGTH, 4),
                                      (layout.TABLE_BODY_LENGTH, 4), (layout.TABLE_BODY_CRC, 4)))  # fmt: skip
            put(content, body + at, small(random, header), size)
        case 6:  # a cell as another one
            other = header.cells_offset + random.randrange(min(header.cells, MOST_CELLS)) * header.cell_stride
            content[cell : cell + header.cell_stride] = content[other : other + header.cell_stride]
        case _:
            at = random.randrange(len(content))
            new = random.randbytes(random.randint(1, 16))[: len(content) - at]
            content[at : at + len(new)] = new


def small(random: Random, header: TableHeader) -> int:
    """A number that is often near a limit of this table."""
    if random.randrange(2):
        return number(random)
    limits = (0, header.cells, header.capacity, header.entries, 2 * header.entries + 1, header.value_bytes)
    return random.choice(limits) + random.randint(-2, 2)
