# SPDX-License-Identifier: Apache-2.0
"""A writer of tables that dies at any store."""

from __future__ import annotations

from collections.abc import Iterator

from flyring import Table, layout
from flyring._core import xxhash64
from flyring.table_check import Walk

CONTROL = layout.HEADER_LENGTH


class DyingWriter:
    """Does the steps of spec/table.md 3, 5 and 7 from Python, and yields after each store, so that the writer can die
    there. It is written from the page alone, without the core."""

    def __init__(self, table: Table) -> None:
        self.header, self.memory = table.header, table._memory
        self.walk = Walk(table.header, table._memory)

    def word(self, offset: int) -> int:
        return self.memory.load64(CONTROL + offset)

    def set64(self, at: int, value: int) -> Iterator[None]:
        self.memory.store64(at, value - 2**64 if value >= 2**63 else value)
        yield

    def set32(self, at: int, value: int) -> Iterator[None]:
        self.memory.store32(at, value - 2**32 if value >= 2**31 else value)
        yield

    def control(self, offset: int, value: int) -> Iterator[None]:
        yield from self.set64(CONTROL + offset, value)

    def write(self, cell: int, key: bytes | None, value: bytes | None) -> Iterator[None]:
        walk = self.walk
        stamp = self.word(layout.TABLE_CONTROL_STAMP) + 1
        yield from self.control(layout.TABLE_CONTROL_STAMP, stamp)
        version = stamp << 1 | 1 - (walk.version(cell) & 1)
        body = walk.body(cell, version & 1)
        yield from self.set64(body + layout.TABLE_BODY_SEQ, 0)
        if key is not None:
            yield from self.set32(walk.at(cell) + layout.TABLE_CELL_KEY_LENGTH, len(key))
            self.memory.write(walk.at(cell) + layout.TABLE_CELL_KEY, key)
            yield
        if value is not None:
            half = len(value) // 2
            self.memory.write(body + layout.TABLE_BODY_VALUE, value[:half])
            yield
            self.memory.write(body + layout.TABLE_BODY_VALUE + half, value[half:])
            yield
        yield from self.set32(body + layout.TABLE_BODY_LENGTH, -1 if value is None else len(value))
        yield from self.set64(body + layout.TABLE_BODY_SEQ, version)
        yield from self.set64(walk.at(cell) + layout.TABLE_CELL_VERSION, version)

    def copies(self) -> list[int]:
        current = self.word(layout.TABLE_CONTROL_GENERATION) & 1
        moves = self.word(layout.TABLE_CONTROL_REBUILD) > self.header.entries
        return [current, 1 - current] if moves else [current]

    def entry_address(self, copy: int, at: int) -> int:
        return self.header.index_offset + copy * self.header.index_stride + 8 * at

    def changed(self) -> Iterator[None]:
        yield from self.control(layout.TABLE_CONTROL_CHANGED, self.word(layout.TABLE_CONTROL_STAMP))

    def put(self, key: bytes, value: bytes) -> Iterator[None]:
        for cell in range(self.header.cells):
            if self.walk.length(cell) >= 0 and self.walk.key(cell) == key:
                yield from self.write(cell, None, value)
                yield from self.changed()
                return
        yield from self.insert(key, value)

    def insert(self, key: bytes, value: bytes) -> Iterator[None]:
        size, top = self.word(layout.TABLE_CONTROL_SIZE), self.memory.load32(CONTROL + layout.TABLE_CONTROL_TOP)
        cell = top - 1 if top else self.memory.load32(CONTROL + layout.TABLE_CONTROL_FRESH)
        entry = (xxhash64(key) >> 32) << 32 | cell + 1
        yield from self.control(layout.TABLE_CONTROL_INTENT_SIZE, size + 1)
        yield from self.control(layout.TABLE_CONTROL_INTENT, entry)
        if top:
            below = self.memory.load32(self.walk.at(cell) + layout.TABLE_CELL_NEXT)
            yield from self.set32(CONTROL + layout.TABLE_CONTROL_TOP, below)
        else:
            yield from self.set32(CONTROL + layout.TABLE_CONTROL_FRESH, cell + 1)
        for copy in self.copies():
            index, at = self.walk.index(copy), (entry >> 32) * self.header.entries >> 32
            while index[at] not in (0, layout.TABLE_TOMBSTONE):
                at = (at + 1) % self.header.entries
            if index[at] == 0:
                name = layout.TABLE_CONTROL_FILLED_OTHER if copy else layout.TABLE_CONTROL_FILLED
                yield from self.control(name, self.word(name) + 1)
            yield from self.set64(self.entry_address(copy, at), entry)
        yield from self.write(cell, key, value)
        yield from self.changed()
        yield from self.control(layout.TABLE_CONTROL_SIZE, size + 1)
        yield from self.control(layout.TABLE_CONTROL_INTENT, 0)

    def remove(self, key: bytes) -> Iterator[None]:
        (cell,) = (c for c in range(self.header.cells) if self.walk.length(c) >= 0 and self.walk.key(c) == key)
        size, entry = self.word(layout.TABLE_CONTROL_SIZE), (xxhash64(key) >> 32) << 32 | cell + 1
        yield from self.control(layout.TABLE_CONTROL_INTENT_SIZE, size)
        yield from self.control(layout.TABLE_CONTROL_INTENT, entry)
        yield from self.write(cell, None, None)
        for copy in self.copies():
            for at in self.walk.places(self.walk.index(copy), entry):
                yield from self.set64(self.entry_address(copy, at), layout.TABLE_TOMBSTONE)
        old = self.walk.body(cell, ~self.walk.version(cell) & 1)
        yield from self.set64(old + layout.TABLE_BODY_SEQ, 0)
        top = self.memory.load32(CONTROL + layout.TABLE_CONTROL_TOP)
        yield from self.set32(self.walk.at(cell) + layout.TABLE_CELL_NEXT, top)
        yield from self.set32(CONTROL + layout.TABLE_CONTROL_TOP, cell + 1)
        yield from self.changed()
        yield from self.control(layout.TABLE_CONTROL_SIZE, size - 1)
        yield from self.control(layout.TABLE_CONTROL_INTENT, 0)


def die_at(steps: Iterator[None], store: int) -> bool:
    """Does the first stores. Returns whether the change ended before."""
    return all(next(steps, steps) is None for _ in range(store))
