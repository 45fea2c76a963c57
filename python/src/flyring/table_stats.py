# SPDX-License-Identifier: Apache-2.0
"""What a table holds at one moment (spec/api.md, Table)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import UUID

from . import layout
from ._core import File, Memory
from .slots import read_slot
from .system import is_locked
from .table_file import CONTROL, SLOT
from .table_header import TableHeader

if TYPE_CHECKING:
    from .table import Table

CLEAN = 1


@dataclass(frozen=True)
class TableStats:
    """What a table holds at one moment. Made by ``Table.stats``."""

    path: str
    id: UUID
    capacity: int
    """How many keys fit."""
    size: int
    """How many keys there are."""
    version: int
    """The number of the last completed change."""
    entries: int
    """Entries of one copy of the index."""
    filled: int
    """Entries of the current copy of the index that are not empty. Above 3/4 a rebuild begins."""
    rebuild: int
    """0: no rebuild of the index is under way. Else its next step, 1 to 2 * entries + 1."""
    writing: bool
    """Whether a process has the writer's slot."""
    closed: bool
    """Whether the last TableWriter has closed, and no process has taken the slot since."""
    unfinished: bool
    """Whether a process died during a change. The next writer completes the change."""
    writer: str
    """The name of the last TableWriter; may be empty. Changes without a TableWriter store no name."""
    pid: int
    """The id of the process of that TableWriter."""
    attached_at: int
    """When that TableWriter took the slot, in ns since 1970-01-01 UTC; 0: there was none."""
    epoch: int
    """How often the writer's slot was taken."""
    successor: int
    """1: another file has the table's name. 2: the name was removed. 0: neither."""
    needs_recovery: bool
    """Whether the table was last written before a reboot, and not closed with ``sync``. A writer must recover it before
    it can be read."""
    clean: bool
    """Whether nothing was changed since a close with ``sync``."""
    damaged: int
    """How many cells had only torn values in the last recovery. Their keys are lost."""
    busy: int
    """How many reads through this object raised BusyError."""

    @classmethod
    def of(cls, table: Table) -> Self:
        file, memory, header = table._present()
        return cls.read(table.path, header, file, memory, table._this_boot(), table._busy)

    @classmethod
    def read(cls, path: str, header: TableHeader, file: File, memory: Memory, boot: bytes, busy: int = 0) -> Self:
        """Reads the statistics from a mapped file. ``memory``: at least header and control section. ``boot``: the id of
        the present boot."""

        def word(offset: int) -> int:
            return memory.load64_plain(CONTROL + offset)

        def acquired(offset: int) -> int:
            return memory.load64(CONTROL + offset)

        rebuild, steps = word(layout.TABLE_CONTROL_REBUILD), 2 * header.entries + 1
        copy = acquired(layout.TABLE_CONTROL_GENERATION) & 1
        fields = read_slot(memory, SLOT)
        clean = memory.load32(CONTROL + layout.TABLE_CONTROL_CLEAN) == CLEAN
        epoch = memory.load64(SLOT + layout.PUBLISHER_SLOT_EPOCH)
        writing = is_locked(file, SLOT + layout.CONTROL_SLOT_LOCK, path)
        changed = acquired(layout.TABLE_CONTROL_CHANGED)
        begun = acquired(layout.TABLE_CONTROL_INTENT) != 0 or acquired(layout.TABLE_CONTROL_STAMP) != changed
        # The slot was free when its lock was looked at. With the same epoch now, no process has taken it since.
        unfinished = begun and not writing and memory.load64(SLOT + layout.PUBLISHER_SLOT_EPOCH) == epoch
        return cls(
            path=path,
            id=header.table_id,
            capacity=header.capacity,
            size=max(0, word(layout.TABLE_CONTROL_SIZE)),
            version=changed,
            entries=header.entries,
            filled=word(layout.TABLE_CONTROL_FILLED_OTHER if copy else layout.TABLE_CONTROL_FILLED),
            rebuild=rebuild if 0 <= rebuild <= steps else 0,
            writing=writing,
            closed=not writing and memory.load32(SLOT + layout.PUBLISHER_SLOT_CLOSED) != 0,
            unfinished=unfinished,
            writer=fields.name if fields else "",
            pid=fields.pid if fields else 0,
            attached_at=fields.attached_at if fields else 0,
            epoch=epoch,
            successor=memory.load32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR),
            needs_recovery=not clean and memory.read(CONTROL + layout.TABLE_CONTROL_BOOT_ID, 16) != boot,
            clean=clean,
            damaged=max(0, word(layout.TABLE_CONTROL_DAMAGED)),
            busy=busy,
        )
