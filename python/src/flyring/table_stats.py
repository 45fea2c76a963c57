# SPDX-License-Identifier: Apache-2.0
"""What a table holds at one moment (spec/api.md, Table)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from . import layout
from .slots import read_slot
from .table_file import CONTROL, SLOT

if TYPE_CHECKING:
    from .table import Table


@dataclass(frozen=True)
class TableStats:
    """What a table holds at one moment. Made by ``Table.stats``."""

    path: str
    capacity: int
    """How many keys fit."""
    size: int
    """How many keys there are."""
    filled: int
    """Entries of the current copy of the index that are not empty."""
    entries: int
    """Entries of one copy of the index."""
    rebuild: int
    """0: no rebuild of the index is under way; else its next step, of ``2 * entries + 1``."""
    version: int
    """The last completed change."""
    has_writer: bool
    """Whether a process holds the writer's slot."""
    writer_name: str
    """The name of the last writer that held the slot for long; may be empty."""
    writer_pid: int
    writer_since: int
    """When that writer took the slot, in ns since 1970; 0: never."""
    clean: bool
    """Whether nothing was changed since a synced close."""
    damaged: int
    """Cells that the last recovery found without a whole value."""
    busy: int
    """Reads through this object that were refused as busy."""

    @classmethod
    def of(cls, table: Table) -> Self:
        memory = table._memory

        def word(offset: int) -> int:
            return memory.load64_plain(CONTROL + offset)

        copy = memory.load64(CONTROL + layout.TABLE_CONTROL_GENERATION) & 1
        rebuild, entries = word(layout.TABLE_CONTROL_REBUILD), table.header.entries
        fields = read_slot(memory, SLOT)
        return cls(
            path=table.path,
            capacity=table.capacity,
            size=len(table),
            filled=word(layout.TABLE_CONTROL_FILLED_OTHER if copy else layout.TABLE_CONTROL_FILLED),
            entries=entries,
            rebuild=rebuild if 0 <= rebuild <= 2 * entries + 1 else 0,
            version=table.version,
            has_writer=table._has_writer(),
            writer_name=fields.name if fields else "",
            writer_pid=fields.pid if fields else 0,
            writer_since=fields.attached_at if fields else 0,
            clean=memory.load32(CONTROL + layout.TABLE_CONTROL_CLEAN) == 1,
            damaged=max(0, word(layout.TABLE_CONTROL_DAMAGED)),
            busy=table._busy,
        )
