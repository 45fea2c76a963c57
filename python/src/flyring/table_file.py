# SPDX-License-Identifier: Apache-2.0
"""Makes table files: fills new ones, copies them for ``snapshot`` and ``grow``, and tells the processes that use a file
that its name changes (spec/table.md 2, 7)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from . import _core, layout
from ._core import File, Memory, file_system_type
from ._identity import Identity
from .attaching import header_of
from .errors import FlyringError, InvalidArgumentError
from .system import create_file, failed, open_file
from .table_header import TableHeader

if TYPE_CHECKING:
    from .table import Table
    from .table_base import TableWalk

# The numbers of these file systems in ``statfs``.
TMPFS, RAMFS = 0x01021994, 0x858458F6
# Offsets in the file: of the control section, and of the writer's slot.
CONTROL = layout.HEADER_LENGTH
SLOT = CONTROL + layout.TABLE_CONTROL_SLOT


def is_checked(file: File) -> bool:
    """The default of ``checked``. False on a file system in memory (tmpfs, ramfs), which does not outlast a power loss;
    else True."""
    return file_system_type(file.fileno()) not in (TMPFS, RAMFS)


def fill_in(file: File, header: TableHeader, schema: bytes, identity: Identity, checked: bool) -> TableHeader:
    """Writes header, boot id and schema into a new table's file, in which all other bytes are zero. Returns the header
    with ``checked`` set."""
    header = replace(header, checked=checked)
    for offset, data in (
        (0, header.pack()),
        (CONTROL + layout.TABLE_CONTROL_BOOT_ID, identity.this_boot().bytes),
        (header.schema_offset, schema),
    ):
        view = memoryview(data)
        while view:
            written = os.pwrite(file.fileno(), view, offset)
            view, offset = view[written:], offset + written
    return header


def copy_into(table: Table, path: str) -> int:
    """Writes a snapshot to ``path``. Returns how many keys it has. Raises InvalidArgumentError if the table itself has
    this path."""
    there = table_at(path)
    if there is not None and there.table_id == table.id:
        raise InvalidArgumentError("path", "it is the table itself; give the copy another name")
    identity, size, walk = table._identity, 0, table._walk()
    header = replace(table.header, table_id=identity.new_channel_id(), created_at=identity.creation_time(), longer=0)

    def make(file: File) -> None:
        nonlocal size
        final = fill_in(file, header, table._schema_bytes, identity, is_checked(file))
        size = copy_cells(table, walk, file, final, path, clean=True)

    create_file(path, header.file_length, mode_of(table), True, True, make, True, lambda: successor(path))
    return size


def copy_cells(table: Table, walk: TableWalk, file: File, header: TableHeader, path: str, clean: bool) -> int:
    """Copies all keys, values and versions into a new file. ``clean``: marks that table clean. Returns how many keys
    were copied."""
    memory = Memory(file, header.sections_end, True, path)
    try:
        to = _core.Table(file, memory, header.shape, path, False, True)
        walk.copy(to)
        stamp, changed = CONTROL + layout.TABLE_CONTROL_STAMP, CONTROL + layout.TABLE_CONTROL_CHANGED
        # The stamp of the source, read after the walk; at least that of each copied version, and never too large.
        latest = max(memory.load64(stamp), min(table._memory.load64(stamp), layout.MAX_POSITION))
        memory.store64(stamp, latest)
        memory.store64(changed, latest)
        size = memory.load64(CONTROL + layout.TABLE_CONTROL_SIZE)
        if clean:
            memory.store32(CONTROL + layout.TABLE_CONTROL_CLEAN, 1)
        to._shut()
    finally:
        memory.close()
    return size


def larger_file(
    table: Table, capacity: int, with_file: Callable[[File, TableHeader], None]
) -> tuple[File, TableHeader]:
    """Copies the table into a larger file, and gives that file the table's name (spec/table.md 7, grow). The caller
    holds the writer's slot. ``with_file(file, header)`` is called when the copy is synced, before it gets the name.
    Returns the new file and its header."""
    header, old = replace(table.header, capacity=capacity, longer=0), table._memory
    walk = table._walk()
    made: list[tuple[File, TableHeader]] = []

    def make(file: File) -> None:
        final = fill_in(file, header, table._schema_bytes, table._identity, header.checked)
        copy_cells(table, walk, file, final, table.path, clean=False)
        os.fsync(file.fileno())
        with_file(file, final)
        made.append((file, final))

    create_file(table.path, header.file_length, mode_of(table), True, True, make, True, lambda: hint(old))
    return made[0]


def table_at(path: str) -> TableHeader | None:
    """Returns the header of the table that has this path; None if there is no valid table."""
    with contextlib.suppress(FlyringError, OSError), contextlib.closing(open_file(path, True)) as file:
        return header_of(file, path, TableHeader.parse)
    return None


def mode_of(table: Table) -> int:
    """The permission bits of the table's file. Raises IoError."""
    file = table._file  # keeps it open, if another thread goes on in a larger file
    try:
        return os.fstat(file.fileno()).st_mode & 0o777
    except OSError as error:
        raise failed("fstat", error, table.path) from error


def same_but_larger(old: TableHeader, new: TableHeader) -> bool:
    """Whether the new file is the grown copy of the old one: only the capacity differs."""
    return new == replace(old, capacity=new.capacity, longer=new.longer)


@contextlib.contextmanager
def successor(path: str, what: int = layout.SUCCESSOR_REPLACED) -> Iterator[None]:
    """Tells the processes that have the table at ``path`` open that its name changes. The caller renames or removes the
    file within the block. ``what`` is the value for ``successor`` (spec/channel.md 3.2). Does nothing if there is no
    valid table, and ignores its own errors, because this is only a hint."""
    old: Memory | None = None
    with contextlib.suppress(FlyringError, OSError, ValueError):
        file = open_file(path)
        try:
            header_of(file, path, TableHeader.parse)
            old = Memory(file, CONTROL + layout.TABLE_CONTROL_LENGTH, True, path)
        finally:
            file.close()
    if old is None:
        yield
        return
    try:
        with hint(old, what):
            yield
    finally:
        old.close()


@contextlib.contextmanager
def hint(old: Memory, what: int = layout.SUCCESSOR_REPLACED) -> Iterator[None]:
    """Stores ``successor`` in the old file, runs the block, and stores it again. Then wakes the processes that wait for
    a change of any key, or for an absent key."""
    old.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, what)
    try:
        yield
    finally:
        # Again: a process that took the slot within the block found the old name, and stored 0 (spec/table.md 7).
        old.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, what)
        old.wake_all(CONTROL + layout.TABLE_CONTROL_DATA_SEQUENCE)
