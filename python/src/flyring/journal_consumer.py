# SPDX-License-Identifier: Apache-2.0
"""JournalConsumer: a reader whose place is kept by its name (spec/api.md, spec/journal.md 6)."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from . import layout
from ._core import File, JournalWalk, register_waker
from .errors import (
    BusyError,
    CorruptJournalError,
    DamagedError,
    InvalidArgumentError,
    NeedsRecoveryError,
    NoSuchChannelError,
)
from .journal_file import JournalFiles
from .journal_gate import (
    find_consumer,
    is_kept,
    is_position,
    lock_of,
    no_free_consumer,
    read_gate,
    store_gate,
    try_lock,
)
from .journal_reader import JournalReader
from .journal_seek import JournalStart, Place, Start, behind_damage, end_of_committed, end_place, find_place, oldest
from .slots import PATIENCE, RETRY, change_slot
from .system import control_lock, failed, new_lock
from .wait import Wait

if TYPE_CHECKING:
    from ._core import JournalMessage
    from .journal import Journal


class JournalConsumer(JournalReader):
    """Consumes the messages of a journal in order, and goes on where it stopped, also after a restart. Made by
    ``Journal.consumer``.

    A message is consumed when its handler has returned or raised, or when ``take`` or ``pop`` has returned it. The
    gate, the position of the first message that was not consumed, is stored at the end of each poll, and within a poll
    after each 64 KiB. If the process is killed, the next owner of the name gets again what was consumed since the last
    store. After a power loss it gets again what was consumed since the last ``sync``. Otherwise it is a JournalReader.

    A journal with one consumer is a queue on the disk: ``Journal.push`` appends, ``pop`` takes the oldest message.
    """

    __slots__ = ("_lock", "_name", "_slot")

    _lock: File
    _name: str
    _slot: int

    def __new__(cls, journal: Journal, name: str, start: Start, skip_damaged: bool, wait: Wait) -> Self:
        """Internal: use ``Journal.consumer``."""
        files = journal._files
        if files.wakes:
            register_waker()  # before the slot says that this process wakes sleepers
        lock = new_lock(files.file, files.path)
        try:
            slot, epoch, place, lost = take_consumer(journal, lock, name, start, skip_damaged)
            at = files.header.consumer(slot)
            self = super().__new__(cls, journal, False, skip_damaged, wait, lock, at, epoch, lost)
        except BaseException:
            lock.close()
            raise
        self._lock, self._name, self._slot = lock, name, slot
        self._go_to(replace(place, lost=0))  # it has it already
        return self

    @property
    def name(self) -> str:
        """The name by which its place is kept."""
        return self._name

    @property
    def slot(self) -> int:
        """The number of its slot."""
        return self._slot

    @property
    def epoch(self) -> int:
        """How many owners the slot has had, this one included."""
        return self._epoch

    @property
    def size(self) -> int:
        """How many messages it has not consumed."""
        self._check()
        return max(0, self._files.word(layout.JOURNAL_CONTROL_MESSAGES) - self.number)

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def pop(self, timeout: float | None = 0) -> JournalMessage | None:
        """Takes the oldest message that was not consumed: the same as ``take``."""
        return self.take(timeout)

    def peek(self) -> JournalMessage | None:
        """Returns a copy of the oldest message that was not consumed, or None. Does not consume it."""
        return self._peek()

    def seek(self, start: Start) -> None:
        """A consumer goes on where it stopped: InvalidArgumentError. Read with a ``Journal.reader`` instead."""
        self._check()
        raise InvalidArgumentError("start", "a consumer goes on where it stopped; use a reader, or another name")

    def sync(self) -> None:
        """Writes the gate to the disk: after a power loss nothing is handed out again that was consumed before.
        IoError."""
        self._check()
        self._files.sync_control()

    def forget(self) -> None:
        """Closes the consumer and removes its name, so that it holds no segment back. IoError."""
        self._check()
        files = self._files
        # A description of its own: a close of another thread does not drop its lock, so no process takes the slot.
        with closing(new_lock(files.file, files.path)) as lock, control_lock(lock, files.path):
            self._unkeep()
            files.sync_control()
            self.close()


def take_consumer(journal: Journal, lock: File, name: str, start: Start, skip: bool) -> tuple[int, int, Place, int]:
    """Takes the slot of a name, or the first free one. Returns the slot, its epoch, where the consumer goes on, and
    what it has lost. ``skip``: goes on behind what is damaged.

    NoFreeSlotError, NeedsRecoveryError, CorruptJournalError, DamagedError, InvalidArgumentError (start), IoError.
    """
    files = journal._files
    give_up = time.monotonic() + PATIENCE
    begin: Place | None = None
    while True:
        with control_lock(lock, files.path):  # so that no trim passes the gate
            if files.unlinked:
                raise NoSuchChannelError(files.path)
            if not files.is_of_this_boot():
                raise NeedsRecoveryError(files.path, True)
            known = find_consumer(files, name)
            walks = known is None and begin is None and start != "oldest"
            slots = (
                [known] if known is not None else [k for k in range(files.header.consumers) if not is_kept(files, k)]
            )
            for slot in slots if not walks else ():
                if try_lock(lock, files, slot):
                    try:
                        return take_slot(files, slot, name, begin, known is not None, skip)
                    except BaseException:
                        lock.unlock(lock_of(files, slot))
                        raise
        if walks:  # without the lock: the walk may be long, and trims, other consumers and recoveries wait for the lock
            limit = end_of_committed(files) if isinstance(start, JournalStart) else files.published
            begin = place_of(files, start, limit, skip)
            give_up = time.monotonic() + PATIENCE
            continue
        if time.monotonic() >= give_up:
            raise no_free_consumer(files, lock, name, known)
        time.sleep(RETRY)


def place_of(files: JournalFiles, start: Start, limit: int, skip: bool, before: int = -1) -> Place:
    """Where a start lies. Behind what is damaged, if it is to ``skip``; ``before``: see behind_damage."""
    walk = JournalWalk(files.size)
    try:
        return find_place(files, start, walk, limit, lambda: end_place(files, walk, limit))
    except DamagedError as damage:
        return behind_damage(files, damage, limit, before, skip)


def join_place(files: JournalFiles, begin: Place | None, skip: bool) -> Place:
    """Where a new name begins. The caller has the control lock, so that no trim passes it. ``begin``: where it was to
    begin before the lock was taken; None: at the oldest message."""
    if begin is not None and begin.position >= files.trimmed:
        return begin
    try:
        place = oldest(files, JournalWalk(files.size))
    except DamagedError as damage:
        place = behind_damage(files, damage, files.published, -1, skip)
    return place if begin is None else replace(place, lost=begin.lost + max(0, place.number - begin.number))


def take_slot(
    files: JournalFiles, slot: int, name: str, begin: Place | None, known: bool, skip: bool
) -> tuple[int, int, Place, int]:
    """The caller has the control lock and the slot's lock. ``begin``: see join_place."""
    at = files.header.consumer(slot)
    if known:
        gate = read_gate(files, slot)
        if not is_position(files, gate.position):
            raise CorruptJournalError(files.path, gate.position, f"the gate of {name!r} cannot be there")
        limit = max(files.published, gate.position)  # up to the gate records are committed: see is_position
        try:
            place = place_of(files, JournalStart.at_position(gate.position), limit, skip, gate.count)
        except InvalidArgumentError:
            reason = f"the gate of {name!r} lies within a record"
            raise CorruptJournalError(files.path, gate.position, reason) from None
        lost = max(0, gate.lost)
        if place.position > gate.position and not place.cuts and gate.count >= 0:  # it was trimmed
            lost += max(0, place.number - gate.count)
        epoch = change_slot(files, at, name.encode("ascii"), None)
        if place.position != gate.position or gate.count != place.number:
            store_gate(files, slot, place.position, place.number, lost)
    else:
        place = join_place(files, begin, skip)
        lost = place.lost
        epoch = change_slot(files, at, name.encode("ascii"), None)
        store_gate(files, slot, place.position, place.number, lost)
        files.memory.store32(at + layout.SUBSCRIBER_SLOT_KEPT, 1)
    files.sync_control()  # also if it is known: its owner may have been killed before it synced
    return slot, epoch, place, lost


def forget_slot(files: JournalFiles, slot: int) -> None:
    """The caller has the control lock and the slot's lock."""
    files.memory.store32(files.header.consumer(slot) + layout.SUBSCRIBER_SLOT_KEPT, 0)
    files.sync_control()


def forget(files: JournalFiles, name: str) -> None:
    """Removes the name of a consumer that no process has. InvalidArgumentError (name), BusyError, NeedsRecoveryError,
    IoError."""
    lock = new_lock(files.file, files.path)
    try:
        with control_lock(lock, files.path):
            if not files.is_of_this_boot():
                raise NeedsRecoveryError(files.path, True)
            slot = find_consumer(files, name)
            if slot is None:
                raise InvalidArgumentError("name", f"the journal has no consumer {name!r}")
            if not try_lock(lock, files, slot):
                raise BusyError(None, in_use=f"the consumer {name!r} of the journal at {files.path} is in use")
            forget_slot(files, slot)
    except OSError as error:
        raise failed("fcntl(F_OFD_SETLK)", error, files.path) from error
    finally:
        lock.close()
