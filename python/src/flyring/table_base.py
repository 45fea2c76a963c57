# SPDX-License-Identifier: Apache-2.0
"""The base class of ``Table``: switches to the larger file when a table has grown, and recovers a table after a reboot
(spec/table.md 7, 9)."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from . import _core, layout
from ._core import File, Memory
from ._identity import Identity
from .attaching import header_of
from .errors import (
    AccessDeniedError,
    BusyError,
    ChannelReplacedError,
    ClosedError,
    FlyringError,
    IoError,
    NeedsRecoveryError,
    NoFreeSlotError,
    SlotOwner,
)
from .slots import read_slot
from .system import failed, open_file
from .table_file import CONTROL, SLOT, same_but_larger
from .table_header import TableHeader

if TYPE_CHECKING:
    from .sbe.flyweight import Message
    from .table_writer import TableWriter

Progress = Callable[[int, int], object]


class TableBase(_core.Table):
    """The part of ``Table`` that deals with its file."""

    header: TableHeader
    """The file's header: dimensions and offsets. Its values were checked."""
    path: str
    """The absolute path of the file."""
    _pid: int
    _file: File
    _memory: Memory
    _identity: Identity
    _any_file_system: bool
    _read_only: bool
    _wake: bool
    _progress: Progress | None
    _schema_bytes: bytes
    _message: type[Message] | None
    _replaced: UUID | None
    _writers: weakref.WeakSet[TableWriter]
    _following: threading.RLock
    """Held while the table switches to another file, from the rename of ``grow`` on."""

    def __new__(
        cls,
        file: File,
        path: str,
        header: TableHeader,
        schema: bytes,
        identity: Identity,
        any_file_system: bool,
        wake: bool,
        read_only: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Internal: use the class methods. The new table owns ``file`` once this returns."""
        memory = Memory(file, header.sections_end, not read_only, path)
        self = super().__new__(cls, file, memory, header.shape, path, wake, not read_only)
        self._pid = os.getpid()
        self.path = path
        self.header = header
        self._file, self._memory = file, memory
        self._identity, self._any_file_system = identity, any_file_system
        self._read_only, self._wake, self._progress = read_only, wake, progress
        self._schema_bytes = schema
        self._message = None
        self._replaced = None
        self._writers = weakref.WeakSet()
        self._following = threading.RLock()
        return self

    @property
    def id(self) -> UUID:
        """The table's UUID, made at creation; ``grow`` keeps it."""
        return self.header.table_id

    def _walk(self) -> TableWalk:
        """Returns a walk over all cells of the present file. Raises ClosedError or NeedsRecoveryError."""
        while True:
            self._version_of(None)  # checks that the table can be read, and switches to a grown file
            memory = self._memory
            try:
                return TableWalk(self)
            except ClosedError:
                if self.closed or memory is self._memory:
                    raise  # else another thread has gone on in a larger file

    def _present(self) -> tuple[File, Memory, TableHeader]:
        """The file, its mapping and its header. They belong together, although another thread may go on in a larger
        file meanwhile: that thread changes them at once."""
        while True:
            file, memory, header = self._file, self._memory, self.header
            if memory is self._memory:
                return file, memory, header

    def _check_boot(self) -> None:
        """Raises NeedsRecoveryError if the table needs recovery (spec/table.md 9)."""
        if not self._is_whole():
            raise NeedsRecoveryError(self.path, self.header.checked)
        self._memory.fence()  # pairs with the fence in _renew_boot
        self._ready = True

    def _is_whole(self) -> bool:
        """Whether the table needs no recovery: it has the id of this boot, or ``clean`` is 1."""
        at = CONTROL
        boot = self._this_boot()

        def is_ours() -> bool:
            return self._memory.read(at + layout.TABLE_CONTROL_BOOT_ID, 16) == boot

        # A writer stores this boot's id before it clears `clean`. If it does both between the first two looks, the
        # third one finds this boot's id.
        return is_ours() or self._memory.load32(at + layout.TABLE_CONTROL_CLEAN) == 1 or is_ours()

    def _this_boot(self) -> bytes:
        """The id of the present boot."""
        try:
            return self._identity.this_boot().bytes
        except OSError as error:
            raise failed("open", error, str(error.filename)) from error

    def _renew_boot(self) -> None:
        """Take 2 of spec/table.md 5.1: recovers the table after a reboot, and clears ``clean``. The caller holds the
        writer's slot. Raises NeedsRecoveryError or IoError."""
        boot, at, damaged = self._this_boot(), CONTROL, 0
        if self._memory.read(at + layout.TABLE_CONTROL_BOOT_ID, 16) != boot:
            if not self._is_whole():
                if not self.header.checked:
                    raise NeedsRecoveryError(self.path, False)
                damaged = self._recover(self._progress)
            self._memory.fence()  # the boot id comes last; pairs with the fence in _check_boot
            self._memory.write(at + layout.TABLE_CONTROL_BOOT_ID, boot)
        if self._memory.load32(at + layout.TABLE_CONTROL_CLEAN):
            self._set_clean(False)
        self._renewed = True
        if damaged:
            warnings.warn(
                f"the table at {self.path} was recovered after a reboot: {damaged} of {self.header.cells} cells "
                "had only torn values, and their keys are lost",
                RuntimeWarning,
                stacklevel=2,
            )

    def _follow(self) -> None:
        """Switches to the file that has the name now if it is the grown table (spec/table.md 7). If another table has
        the name, stays in the old file, because reads go on there, and stores the other's id in ``_replaced``."""
        if self._replaced is None and self._has_no_name() and self._following.acquire(blocking=False):
            try:  # else another thread follows, or makes the grown file
                with contextlib.suppress(IoError):  # a later look finds out
                    self._look_at_name()
            finally:
                self._following.release()

    def _has_no_name(self) -> bool:
        """Whether the file has lost its name: it was replaced, grown or unlinked."""
        with contextlib.suppress(OSError):
            file = self._file  # keeps it open, if another thread goes on in a larger file
            return os.fstat(file.fileno()).st_nlink == 0
        return False

    def _check_replaced(self) -> None:
        """Switches to a grown file. Raises ChannelReplacedError if another table has the name now (spec/channel.md
        6.13), and IoError if the process cannot tell."""
        self._replaced = None
        if self._has_no_name():
            with self._following:
                self._look_at_name()
        if self._replaced is not None:
            raise ChannelReplacedError(self.path, self._replaced)

    def _settle_successor(self) -> None:
        """Called by the slot's new owner if ``successor`` is not 0. Switches to a grown file, or raises
        ChannelReplacedError. If the file still has its name, the process of a ``grow`` was killed before its rename:
        then the hint is wrong, and 0 is stored."""
        memory = self._memory
        self._check_replaced()
        if memory is self._memory and not self._has_no_name():
            memory.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, 0)

    def _look_at_name(self) -> None:
        """Opens the file that has the name now, and switches to it or sets ``_replaced``. The caller holds
        ``_following``. Raises IoError if this process has no descriptor left; ignores other errors."""
        if not self._has_no_name():
            return  # another thread was faster
        try:
            file = open_file(self.path, self._read_only)
        except (FlyringError, OSError) as error:
            if isinstance(error, IoError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            return
        try:
            header = header_of(file, self.path, TableHeader.parse)
            if same_but_larger(self.header, header):
                self._adopt(file, header)
                return
            if header.table_id != self.id:
                self._replaced = header.table_id
        except (FlyringError, OSError):
            pass
        file.close()

    def _adopt(self, file: File, header: TableHeader) -> None:
        """Switches to ``file``, which the table owns from now on. The old mapping goes at once, or when the last walk
        or wait in it has ended. Its descriptor goes with the last reference: another thread may be in a call. Raises
        IoError."""
        old_memory = self._memory
        try:
            memory = Memory(file, header.sections_end, not self._read_only, self.path)
        except OSError as error:
            raise failed("mmap", error, self.path) from error
        attached = True
        try:
            self._attach(file, memory, header.shape)
        except Exception:
            attached = False  # but a KeyboardInterrupt comes after it
            raise
        finally:
            if attached:
                try:
                    self.__dict__.update(_file=file, _memory=memory, header=header)  # at once: see _present
                finally:  # a KeyboardInterrupt may come when the old file is closed
                    old_memory.close()

    def _raise_no_free_slot(self) -> None:
        """Raises NoFreeSlotError, which names the last TableWriter that held the slot."""
        fields = read_slot(self._memory, SLOT)
        owner = SlotOwner(0, fields.name if fields else "", fields.pid if fields else 0)
        label = repr(owner.name) if owner.name else "without a name"
        last = f"the last TableWriter was {label} (pid {owner.pid}); " if owner.pid else ""
        raise NoFreeSlotError(
            "writer",
            1,
            (owner,),
            f"the writer's slot of the table at {self.path} is taken; {last}"
            "wait longer, close that writer, or kill its process if it is stopped",
        )

    # State

    @property
    def _forked(self) -> bool:
        return self._pid != os.getpid()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("table", self._forked)

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise AccessDeniedError(self.path, "the table was opened for reading only; open it for writing")


class TableWalk(_core.Table):
    """One file of a table, for a walk over its cells. If the table grows, the walk stays in the old file, because cells
    have other numbers in the grown one. The old file keeps what the table held when it grew."""

    _table: TableBase

    def __new__(cls, table: TableBase) -> Self:
        file, memory, header = table._present()
        self = super().__new__(cls, file, memory, header.shape, table.path, False, False)
        self._table = table
        self._ready = True
        return self

    def _follow(self) -> None:
        pass

    def scan(self, cell: int) -> tuple[int, list[tuple[Any, bytes, int]]]:
        """Reads some cells from ``cell`` on. Returns the cell to go on with (-1: the end), and a list of (key, value,
        version)."""
        with self._counted():
            return self._scan(cell)

    def copy(self, to: _core.Table) -> None:
        """Copies all cells into the file of a new table."""
        cell = 0
        while cell >= 0:
            self._table._check_open()
            with self._counted():
                cell = self._copy(to, cell)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a BusyError of the walk in ``Table.stats``."""
        try:
            yield
        except BusyError:
            self._table._busy += 1
            raise
