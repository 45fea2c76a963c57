# SPDX-License-Identifier: Apache-2.0
"""Checks the words of a table against spec/table.md, and says which rule is broken, and where."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import layout
from ._core import Memory, xxhash64
from .table_file import CONTROL
from .table_header import TableHeader

if TYPE_CHECKING:
    from .table import Table


class Walk:
    """Reads the words of a table, while no process writes."""

    def __init__(self, header: TableHeader, memory: Memory) -> None:
        self.header, self.memory = header, memory
        self.copy = self.word(layout.TABLE_CONTROL_GENERATION) & 1
        self.top = memory.load32(CONTROL + layout.TABLE_CONTROL_TOP) & 0xFFFFFFFF
        self.fresh = memory.load32(CONTROL + layout.TABLE_CONTROL_FRESH) & 0xFFFFFFFF

    def word(self, offset: int) -> int:
        """A word of 64 bits of the control section."""
        return self.memory.load64(CONTROL + offset)

    def is_usable(self, cell: int) -> bool:
        stride = self.header.cell_stride
        return cell * stride // layout.TABLE_PIECE == ((cell + 1) * stride - 1) // layout.TABLE_PIECE

    def index(self, copy: int) -> tuple[int, ...]:
        """All entries of copy 0 or 1 of the index."""
        entries = self.header.entries
        at = self.header.index_offset + copy * self.header.index_stride
        return struct.unpack(f"<{entries}Q", self.memory.read(at, 8 * entries))

    def at(self, cell: int) -> int:
        """The offset of a cell in the file."""
        return self.header.cells_offset + cell * self.header.cell_stride

    def body(self, cell: int, number: int) -> int:
        """The offset of body 0 or 1 of a cell in the file."""
        return self.at(cell) + self.header.body_offset + number * self.header.body_stride

    def version(self, cell: int) -> int:
        return self.memory.load64(self.at(cell) + layout.TABLE_CELL_VERSION)

    def seq(self, cell: int, number: int) -> int:
        return self.memory.load64(self.body(cell, number) + layout.TABLE_BODY_SEQ)

    def length(self, cell: int) -> int:
        """The length of the cell's present value; -1: the cell holds no key."""
        version = self.version(cell)
        if version <= 0:
            return layout.TABLE_REMOVED
        return self.memory.load32(self.body(cell, version & 1) + layout.TABLE_BODY_LENGTH)

    def key(self, cell: int) -> bytes | None:
        """The key in the cell; None if its length is not valid."""
        length = self.memory.load32(self.at(cell) + layout.TABLE_CELL_KEY_LENGTH)
        if not 0 <= length <= self.header.key_bytes:
            return None
        return self.memory.read(self.at(cell) + layout.TABLE_CELL_KEY, length)

    def entry_of(self, cell: int, key: bytes) -> int:
        """The entry of the index that leads from this key to this cell."""
        return (xxhash64(key) >> 32) << 32 | (cell + 1)

    def places(self, index: tuple[int, ...], entry: int) -> list[int]:
        """The places in ``index`` at which a search for the key of ``entry`` finds this entry."""
        entries, found = self.header.entries, []
        at = (entry >> 32) * entries >> 32
        for _ in range(entries):
            if index[at] == 0:
                break
            if index[at] == entry:
                found.append(at)
            at = (at + 1) % entries
        return found

    def free(self) -> tuple[list[int], str]:
        """The cells on the stack of free cells, and what is wrong with the stack; empty if nothing is."""
        cells: list[int] = []
        seen, top = set(), self.top
        while top:
            cell = top - 1
            if cell >= min(self.fresh, self.header.cells) or not self.is_usable(cell):
                return cells, f"leads to cell {cell}, which was never used"
            if cell in seen:
                return cells, f"leads to cell {cell} twice"
            seen.add(cell)
            cells.append(cell)
            top = self.memory.load32(self.at(cell) + layout.TABLE_CELL_NEXT) & 0xFFFFFFFF
        return cells, ""


def broken_rules(table: Table) -> Iterator[str]:
    """Yields a sentence for each broken rule. The caller holds the writer's slot, or no process writes."""
    walk = Walk(table.header, table._memory)
    header = table.header
    index = walk.index(walk.copy)
    stamp, changed = walk.word(layout.TABLE_CONTROL_STAMP), walk.word(layout.TABLE_CONTROL_CHANGED)
    if not 0 <= changed <= stamp <= layout.MAX_POSITION:
        yield f"changed ({changed}) and stamp ({stamp}) are not 0 to 2^62, in this order (section 2.2)"
    if walk.fresh > header.cells:
        yield f"fresh is {walk.fresh}, but there are {header.cells} cells (section 10)"
        return
    free, wrong = walk.free()
    if wrong:
        yield f"the stack of free cells {wrong} (section 10)"
    on_stack = set(free)
    keys: dict[bytes, int] = {}
    live = 0
    for cell in range(header.cells):
        if not walk.is_usable(cell):
            continue
        length, key = walk.length(cell), walk.key(cell)
        version = walk.version(cell)
        if length >= 0 or (version > 0 and length != layout.TABLE_REMOVED):
            yield from cell_rules(walk, cell, version, length, key, stamp)
        if length < 0:
            if cell < walk.fresh and cell not in on_stack and not wrong:
                yield f"cell {cell} is not live, and not on the stack of free cells (section 5)"
            if cell in on_stack and (seq := walk.seq(cell, ~version & 1)):
                yield f"cell {cell} is free, and its old body has seq {seq}, not 0 (section 5)"
            continue
        live += 1
        if cell in on_stack:
            yield f"cell {cell} is live, and on the stack of free cells (section 5)"
        if cell >= walk.fresh:
            yield f"cell {cell} is live, but fresh is {walk.fresh} (section 5)"
        if key is None:
            continue
        if key in keys:
            yield f"cells {keys[key]} and {cell} have the same key (section 5)"
        keys[key] = cell
        found = walk.places(index, walk.entry_of(cell, key))
        if len(found) != 1:
            yield f"cell {cell} has {len(found)} entries of the index that a search meets, not 1 (section 5)"
    leading = [entry for entry in index if entry not in (0, layout.TABLE_TOMBSTONE)]
    if len(leading) != live:
        yield f"{len(leading)} entries of the index lead to cells, but {live} cells are live (section 5)"
    filled = walk.word(layout.TABLE_CONTROL_FILLED_OTHER if walk.copy else layout.TABLE_CONTROL_FILLED)
    if filled < sum(entry != 0 for entry in index):
        yield f"filled is {filled}, which is too low (section 5)"
    if walk.word(layout.TABLE_CONTROL_SIZE) != live:
        yield f"size is {walk.word(layout.TABLE_CONTROL_SIZE)}, but {live} cells are live (section 5)"


def cell_rules(walk: Walk, cell: int, version: int, length: int, key: bytes | None, stamp: int) -> Iterator[str]:
    """Yields a sentence for each rule that a cell breaks on its own."""
    header, memory = walk.header, walk.memory
    if version >> 1 > stamp:
        yield f"the version of cell {cell} is of change {version >> 1}, but stamp is {stamp} (section 3)"
    if key is None:
        yield f"key_length of cell {cell} is not 0 to {header.key_bytes} (section 2.3)"
    elif header.key_type == "text":
        try:
            key.decode("utf-8")
        except UnicodeDecodeError:
            yield f"the key of cell {cell} is not UTF-8 (section 2.1)"
    if not layout.TABLE_REMOVED <= length <= header.value_bytes:
        yield f"length of cell {cell} is {length}, not -1 to {header.value_bytes} (section 2.3)"
        return
    body = walk.body(cell, version & 1)
    seq = memory.load64(body + layout.TABLE_BODY_SEQ)
    if seq != version:
        yield f"cell {cell} has version {version}, but its body has {seq} (section 3)"
    elif header.checked and key is not None:
        value = memory.read(body + layout.TABLE_BODY_VALUE, max(0, length))
        if memory.load32(body + layout.TABLE_BODY_CRC) & 0xFFFFFFFF != body_crc(key, seq, length, value):
            yield f"the crc of cell {cell} is wrong (section 9)"


def body_crc(key: bytes, seq: int, length: int, value: bytes) -> int:
    """The CRC-32C that a body must have (spec/table.md 9)."""
    from ._core import crc32c

    return crc32c(struct.pack("<i", len(key)) + key + struct.pack("<qi", seq, length) + value)
