# SPDX-License-Identifier: Apache-2.0
"""JournalWriter: the one writer of a journal (spec/api.md, spec/journal.md 3 to 5)."""

from __future__ import annotations

import errno
import math
import os
import time
import weakref
from typing import TYPE_CHECKING, Self

from . import _core, layout
from ._core import File, Memory, register_waker
from .closing import Closing
from .errors import CorruptJournalError, FlyringError, IoError, NoSpaceError, NoSuchChannelError
from .journal_file import CONTROL, HELPER_LOCK, SLOT, SLOT_LOCK, JournalFiles, no_free_writer
from .journal_helper import Helper
from .journal_recover import Progress, recover
from .journal_resume import JournalRecovery, Ready, prove_from, resume
from .journal_segment import map_segment, prepare
from .journal_sync import make_durable, note_failed, write_again
from .journal_trim import trim_by_policy
from .slots import change_slot
from .system import control_lock, failed, is_locked, new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._core import Bytes, MessageFlyweight
    from .journal import Journal

RETRY = 0.001  # s: between two tries to take the slot


class JournalWriter(_core.JournalWriter, Closing):
    """Appends messages to a journal, and holds its one writer's slot until ``close``. Made by ``Journal.writer``.

    A writer never waits for readers. What ``append`` has returned is there however the process ends; it survives a
    power loss after the next sync: see the option ``sync``. A writer is a context manager: leaving the ``with``
    block closes it. It is not thread-safe. Concurrent use is detected on a best-effort basis and raises
    TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, ViewAliveError while a claim is open, and
    SlotLostError if the slot was taken away. After a sync that failed, also one of another process, they raise
    IoError: close the writer and take another one.
    """

    __slots__ = ("__weakref__", "_files", "_helper", "_journal", "_lock", "_name", "_recovery", "_unprepared")

    _files: JournalFiles
    _helper: Helper | None
    _journal: Journal
    _lock: File
    _name: str | None
    _recovery: JournalRecovery | None
    _unprepared: int

    def __new__(cls, journal: Journal, name: str | None, patience: float, helper: bool, ahead: int) -> Self:
        """Internal: use ``Journal.writer``. ``name`` None: for one append."""
        files = journal._files
        if files.wakes:
            register_waker()  # before the slot says that this process wakes sleepers
        lock = take_lock(journal, patience)
        try:
            again = files.failed and files.is_of_this_boot()
            ready = begin(files, lock, journal._tell_progress)
            epoch = occupy(files, name)
            files.wake_readers()
            self = super().__new__(
                cls,
                files.memory,
                lock,
                files.path,
                files.size,
                epoch,
                ready.end,
                ready.count,
                ready.latest,
                ready.since,
                ready.crc,
                layout.TYPE_RAW if files.header.schema_length else 1,
                files.synced_at,
                files.identity.now or 0,
                files.wakes,
            )
        except BaseException:
            lock.close()
            raise
        self._files, self._journal, self._lock, self._name = files, journal, lock, name
        self._recovery, self._helper, self._unprepared = ready.recovery, None, 0
        try:
            if again and ready.recovery is None:
                self._write_again()
            if helper:
                self._helper = Helper(files, ahead, failure_of(weakref.ref(self)))
        except BaseException:
            self._shut()
            raise
        return self

    @property
    def name(self) -> str:
        """The name that the writer was made with; may be empty."""
        return self._name or ""

    @property
    def journal(self) -> Journal:
        """The journal that this appends to."""
        return self._journal

    @property
    def recovery(self) -> JournalRecovery | None:
        """What was cut off when this writer recovered the journal after a power loss, or after a sync that had failed;
        None if it did not have to."""
        return self._recovery

    @property
    def unprepared(self) -> int:
        """How many segments this writer had to make itself, because none was ready when it needed one: each took it
        milliseconds. A larger ``ahead`` makes them fewer."""
        return self._unprepared

    def sync(self) -> None:
        """Writes to the disk what was appended, and returns when it is durable. On tmpfs nothing is durable.

        Raises IoError if the disk cannot be written. That ends the writer, and the sync is never tried again, because
        the kernel may have dropped what it could not write. Raises IoError also if a segment was removed by hand; then
        the writer goes on.
        """
        self._make_check()
        self._sync_now()

    def close(self, sync: bool = True) -> None:
        """Gives the slot back; aborts an open claim. ``sync``: what was appended is made durable first. Closing twice
        does nothing.

        Raises IoError if that sync fails (the writer is closed), and ViewAliveError while a memoryview of a claim is
        alive.
        """
        self._may_close()
        try:
            if sync and self._is_owner():
                self._drop_claim()
                self.sync()
        finally:
            try:
                if self._helper is not None:
                    self._helper.stop()
            finally:  # also after an interrupt
                self._shut()

    def _push(self, data: Bytes | MessageFlyweight, type: int | None) -> int:
        """Appends one message, and does what a helper would do, if no process has the helper lock (spec/journal.md 5).
        Returns the message's position. IoError if its sync fails: the message is appended."""
        files = self._files

        def append() -> int:
            return self.append(data) if type is None else self.append(data, type)

        try:
            position = append()  # push 1
        except NoSpaceError:
            if self._has_helper() or not self._trim():
                raise
            position = append()
        syncs, trims = self._sync_is_due(), position % files.size == layout.JOURNAL_CHECK_SIZE
        if (syncs or trims) and not self._has_helper():
            if syncs:
                self.sync()  # push 2
            if trims:
                self._trim()  # push 3
        return position

    def _has_helper(self) -> bool:
        """Whether a process has the helper lock. If that cannot be found out, this push helps: it does no harm if two
        processes help at once."""
        try:
            return is_locked(self._files.file, HELPER_LOCK, self._files.path)
        except FlyringError:
            return False

    def _sync_is_due(self) -> bool:
        """Whether a push has to make a sync that a helper would make."""
        files = self._files
        every, checked = files.policy.sync_every, files.word(layout.JOURNAL_CONTROL_CHECKED)
        if every == layout.JOURNAL_SYNC_EACH:
            return False  # the append has synced
        if files.segment_of(checked) > files.segment_of(files.synced):
            return True
        return every > 0 and not 0 <= files.identity.wall_clock() - files.synced_at < every

    def _trim(self) -> int:
        """Trims by the options. If that fails, nothing is lost: the next push that enters a segment tries again."""
        try:
            return trim_by_policy(self._files, self._lock)
        except FlyringError:
            return 0

    def _sync_now(self) -> None:
        try:
            if not make_durable(self._files):  # a sync of another process has failed just now
                raise IoError("fdatasync", errno.EIO, self._files.path)
        except IoError as error:
            if self._files.failed:
                self._fail(error.errno or 0)
            raise

    # What the core calls

    def _sync_each(self) -> None:
        self._sync_now()

    def _enter(self, position: int) -> Memory:
        """Returns the segment at this position, ready and mapped. NoSpaceError, IoError; nothing is changed then."""
        files = self._files
        if files.unlinked:
            raise NoSuchChannelError(files.path)
        memory = self._helper.take_mapped(position) if self._helper is not None else None
        if memory is not None and os.path.lexists(files.segment_path(position)):  # else it was removed by hand
            return memory
        if files.ready < position + files.size:
            self._unprepared += 1
            prepare(files, position)
        memory = map_segment(files, position, writable=True)
        if memory is None:  # it was removed by hand
            prepare(files, position)
            memory = map_segment(files, position, writable=True)
        if memory is None:
            raise IoError("open", errno.ENOENT, files.segment_path(position))
        return memory

    # After a sync that failed

    def _write_again(self) -> None:
        """Writes what is not durable once more, and syncs it (spec/journal.md 5). IoError: the writer has ended."""
        files = self._files
        try:
            write_again(files, files.synced, self.position)
            self._make_check()
            make_durable(files, by_writer=True)
        except IoError as error:
            if error.call == "pwrite":
                note_failed(files)
            self._fail(error.errno or 0)
            raise
        files.memory.store32(CONTROL + layout.JOURNAL_CONTROL_FAILED, 0)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self.position}"
        return f"<flyring.JournalWriter {self.name!r} of {self._files.path} {state}>"


def begin(files: JournalFiles, lock: File, progress: Progress | None) -> Ready:
    """Mends what is there, in this boot or after another one. The caller has the writer's slot, by ``lock``."""

    def recovered(reason: int) -> Ready:
        with control_lock(lock, files.path):
            return recover(files, progress, reason)

    if not files.is_of_this_boot():
        return recovered(layout.JOURNAL_CUT_POWER_LOSS)
    try:
        ready = resume(files)
    except CorruptJournalError:
        if not files.failed:
            raise
        return recovered(layout.JOURNAL_CUT_FAILED_SYNC)  # the kernel has dropped pages
    if files.failed:
        try:
            proven = prove_from(files, files.synced, ready.end)
        except OSError as error:
            raise failed("read", error, files.path) from error
        if not proven:  # the kernel has dropped pages
            return recovered(layout.JOURNAL_CUT_FAILED_SYNC)
    return ready


def failure_of(writer: weakref.ref[JournalWriter]) -> Callable[[int], None]:
    """What a helper calls when its sync has failed. It does not keep the writer."""

    def note(number: int) -> None:
        there = writer()
        if there is not None:
            there._fail(number)

    return note


def occupy(files: JournalFiles, name: str | None) -> int:
    """Writes the slot's fields. Returns the new epoch. ``name`` None: name and pid stay as they are."""
    memory = files.memory
    if name is not None:
        return change_slot(files, SLOT, name.encode("ascii"), 0)
    before = memory.load64(SLOT + layout.PUBLISHER_SLOT_EPOCH)
    epoch = before + 1 if 0 <= before <= layout.MAX_EPOCH else 1
    memory.store32(SLOT + layout.PUBLISHER_SLOT_CLOSED, 0)
    memory.store64_plain(SLOT + layout.PUBLISHER_SLOT_WAKES, epoch if files.wakes else 0)
    memory.store64(SLOT + layout.PUBLISHER_SLOT_EPOCH, epoch)
    return epoch


def take_lock(journal: Journal, patience: float) -> File:
    """Locks the writer's slot. NoFreeSlotError, NoSuchChannelError, IoError."""
    files = journal._files
    give_up = math.inf if patience == math.inf else time.monotonic() + patience
    while True:
        journal._check_open()
        lock = new_lock(files.file, files.path)
        try:
            if lock.try_lock(SLOT_LOCK):
                if files.unlinked:
                    raise NoSuchChannelError(files.path)
                return lock
        except OSError as error:
            lock.close()
            raise failed("fcntl(F_OFD_SETLK)", error, files.path) from error
        except BaseException:
            lock.close()
            raise
        lock.close()
        if time.monotonic() >= give_up:
            raise no_free_writer(files.path, files.memory)
        time.sleep(RETRY)
