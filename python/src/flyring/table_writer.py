# SPDX-License-Identifier: Apache-2.0
"""TableWriter, which holds the writer's slot of a table, and Entry, a handle of a key (spec/api.md, Table)."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from . import _core, layout
from ._core import File, Memory
from .closing import Closing
from .errors import ClosedError, FlyringError, InvalidArgumentError, NoSuchChannelError, SlotLostError
from .slots import CHANGING, name_at
from .system import failed, new_lock
from .table_file import CONTROL, SLOT, copy_into, larger_file
from .table_header import TableHeader

if TYPE_CHECKING:
    from .table import Key, Table

RETRY = 0.001  # s: between two tries to lock the slot (spec/table.md 5.1, take 1)


class TableWriter(_core.TableWriter, Closing):
    """The writer of a table: holds the writer's slot until ``close``. Made by ``Table.writer``.

    A writer is a context manager: leaving the ``with`` block closes it. All methods except ``close`` raise ClosedError
    after ``close`` and in a forked child, and SlotLostError if another writer has taken the slot.
    """

    __slots__ = ("__weakref__", "_lock", "_name", "_table")

    _lock: File
    _name: str | None
    _table: Table

    def __new__(cls, table: Table, name: str | None, patience: float) -> Self:
        """Internal: use ``Table.writer``. ``patience``: how many seconds to wait for the slot. ``name`` None: the
        writer serves one change and stores no name."""
        lock = take_lock(table, patience)
        try:
            self = super().__new__(cls, table, lock)
            self._table, self._lock, self._name = table, lock, name
            self._occupy(self, table._memory)
        except BaseException:
            lock.close()
            raise
        return self

    def _occupy(self, writer: _core.TableWriter, memory: Memory) -> None:
        """Take 3 and 4 of spec/table.md 5.1, for a process that has locked the slot. A writer that serves more than one
        change also stores the slot's fields (spec/channel.md 5.2, 4)."""
        if self._name is None:
            writer._take(False)
            return
        identity, name = self._table._identity, self._name.encode("ascii")
        length = memory.load32(SLOT + layout.PUBLISHER_SLOT_NAME_LENGTH)
        renamed = length != len(name) or name_at(memory, SLOT) != name
        if renamed:
            memory.store32(SLOT + layout.PUBLISHER_SLOT_NAME_LENGTH, CHANGING)
        memory.fence()  # pairs with the acquire fence of channel.md 6.12
        memory.store32(SLOT + layout.PUBLISHER_SLOT_PID, identity.process_id())
        memory.store64(SLOT + layout.PUBLISHER_SLOT_ATTACHED_AT, identity.wall_clock())
        if renamed:
            memory.write(SLOT + layout.PUBLISHER_SLOT_NAME, name.ljust(layout.MAX_NAME_LENGTH, b"\0"))
        try:
            writer._take(True)
        finally:
            if renamed:
                memory.store32(SLOT + layout.PUBLISHER_SLOT_NAME_LENGTH, len(name))

    @property
    def name(self) -> str:
        """The name that the writer was made with; may be empty."""
        return self._name or ""

    @property
    def table(self) -> Table:
        """The table that this writer changes."""
        return self._table

    def get(self, key: Key) -> bytes | None:
        """Returns a copy of the key's value, or None if it is absent."""
        self._check()
        value: bytes | None = self._table.get(key)
        return value

    def __getitem__(self, key: Key) -> bytes:
        self._check()
        value: bytes = self._table[key]
        return value

    def entry(self, key: Key) -> Entry | None:
        """Returns a handle of the key that can also put and update, or None if the key is absent. The handle puts as
        long as this writer is open."""
        self._check()
        entry = Entry(self._table, key, self)
        return entry if entry.version else None

    def update(self, key: Key, handler: Callable[[Any], object]) -> int:
        """Changes a value. ``handler`` gets a copy and changes it; then the copy is put. The copy is a typed flyweight,
        or a ``bytearray`` if the table has no schema. Returns the new version.

        If the handler raises, the value stays as it was. Raises KeyError if the key is absent, and ViewAliveError if
        the handler changes or closes the table."""
        self._check()
        table, buffer = self._table, bytearray(self[key])
        if not table._schema_bytes:
            table._handle(handler, buffer)
        else:
            with writable(table, buffer) as message:
                table._handle(handler, message)
        return self.put(key, buffer)

    def clear(self) -> int:
        """Removes all keys, one after the other. Returns how many were removed."""
        cell = removed = 0
        while cell >= 0:
            cell, some = self._clear(cell)
            removed += some
        return removed

    def snapshot(self, path: str | os.PathLike[str]) -> int:
        """Writes a full copy of the table to ``path``, with all values as of one moment. Returns how many keys it has.
        See ``Table.snapshot``."""
        from .system import table_path

        self._check()
        return copy_into(self._table, table_path(path))

    def grow(self, capacity: int) -> None:
        """Copies the table into a larger file, which gets the table's name; see ``Table.grow``. This writer goes on in
        the larger file. If an error occurs when the larger file has the name already, this writer is closed, and the
        table goes on in the larger file."""
        self._check()
        table = self._table
        table._check_handler()
        if not isinstance(capacity, int) or not table.capacity <= capacity <= layout.TABLE_MAX_CAPACITY:
            most = layout.TABLE_MAX_CAPACITY
            rule = f"must be {table.capacity} (the present capacity) to {most}"
            raise InvalidArgumentError("capacity", f"it is {capacity!r}, but {rule}")
        self._check_change()  # as before each change, so that this writer also gets ChannelReplacedError once
        table._check_replaced()
        if table._has_no_name():  # the larger file would bring back the name
            raise NoSuchChannelError(table.path)
        locks: list[File] = []
        writers: list[_core.TableWriter] = []
        old = table._memory

        def take(file: File, header: TableHeader) -> None:
            """Takes the writer's slot of the new file. No other thread switches to that file before this one."""
            following.enter_context(table._following)
            locks.append(new_lock(file, table.path))
            locks[0].try_lock(SLOT + layout.CONTROL_SLOT_LOCK)
            memory = Memory(file, header.sections_end, True, table.path)
            try:
                new = _core.Table(file, memory, header.shape, table.path, table._wake, True)
                writers.append(_core.TableWriter(new, locks[0]))
                self._occupy(writers[0], memory)
                new._shut()
            finally:
                memory.close()

        with contextlib.ExitStack() as following:
            try:
                file, header = larger_file(table, capacity, take)
                table._adopt(file, header)
                self._move(writers[0])  # gives up the slot of the old file
                self._lock = locks[0]
            except BaseException:
                for lock in locks:
                    lock.close()
                if table._memory is not old or table._has_no_name():  # a change in the old file would be lost
                    self.close()
                elif not self.closed:
                    old.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, 0)
                raise

    def sync(self) -> None:
        """Writes all changes to the disk. Raises IoError."""
        self._check()
        self._table.sync()

    def close(self, sync: bool = False) -> None:
        """Gives up the writer's slot. Closing twice does nothing. ``sync``: first writes all changes to the disk, and
        marks the table clean, so that it needs no recovery after a reboot.

        Raises ViewAliveError inside the handler of an ``update``. With ``sync`` also raises SlotLostError or
        IoError."""
        if self.closed:
            self._shut()
            return
        self._table._check_handler()
        if sync:
            self._check()
            self._table.sync()
            self._table._set_clean(True)
        self._shut()

    def _check(self) -> None:
        """Raises ClosedError or SlotLostError."""
        if self.closed:
            raise ClosedError("writer", self._table._forked)
        epoch = self._table._memory.load64(SLOT + layout.PUBLISHER_SLOT_EPOCH)
        if epoch != self.epoch:
            raise SlotLostError("writer", 0)

    def __repr__(self) -> str:
        return f"<flyring.TableWriter {self.name!r} of {self._table.path}{' closed' if self.closed else ''}>"


class Entry(_core.TableEntry):
    """A handle that remembers where a key lies, so that reads skip the search. Made by ``Table.entry`` and
    ``TableWriter.entry``; only an entry that a TableWriter made can put and update.

    It stays valid when the key is removed and put again, and when the table grows.
    """

    __slots__ = ()

    def update(self, handler: Callable[[Any], object]) -> int:
        """Like ``TableWriter.update`` of this key. Raises InvalidArgumentError if ``Table.entry`` made this entry."""
        writer = self._writer
        if not isinstance(writer, TableWriter):
            raise InvalidArgumentError("entry", "it can only read; make it with TableWriter.entry")
        return writer.update(self.key, handler)

    def __repr__(self) -> str:
        return f"<flyring.Entry {self.key!r}>"


def writable(table: Table, buffer: bytearray) -> Any:
    """Returns a typed flyweight that reads and writes the value in ``buffer``, after a check of its message header."""
    message = table.message
    with message.decode(buffer):  # checks the header
        pass
    return message.encode(buffer)


def take_lock(table: Table, patience: float) -> File:
    """Take 1 and 2 of spec/table.md 5.1: locks the writer's slot, and recovers the table if need be. Waits up to
    ``patience`` seconds. Returns the lock. Raises NoFreeSlotError, NeedsRecoveryError, ChannelReplacedError or
    IoError."""
    give_up = math.inf if patience == math.inf else time.monotonic() + patience
    while True:
        table._check_open()
        lock = new_lock(table._file, table.path)
        try:
            if lock.try_lock(SLOT + layout.CONTROL_SLOT_LOCK):
                memory = table._memory
                if memory.load32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR):
                    table._settle_successor()
                if memory is table._memory:
                    table._renew_boot()
                    return lock
                lock.close()  # it locks the old file; the table has switched to the grown one
                continue
        except OSError as error:
            lock.close()
            if isinstance(error, FlyringError):
                raise
            raise failed("fcntl(F_OFD_SETLK)", error, table.path) from error
        except BaseException:
            lock.close()
            raise
        lock.close()
        if time.monotonic() >= give_up:
            table._raise_no_free_slot()
        time.sleep(RETRY)
