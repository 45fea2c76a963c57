# SPDX-License-Identifier: Apache-2.0
"""The errors of Flyring: one base, one class and one stable ``code`` for each cause (spec/api.md, Errors).

Each text says what is wrong, where, and what to do. The attributes of an error have the same names in every language.
Where Python has an exception for the same thing, the class derives from it too, so that ``except FileNotFoundError``
works as well.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from .publisher import Holder


def _rebuild(cls: type[FlyringError], message: str, state: dict[str, Any]) -> FlyringError:
    error = cls.__new__(cls)
    FlyringError.__init__(error, message)
    error.__dict__.update(state)
    return error


class FlyringError(Exception):
    """The base class of all errors of this package."""

    code: ClassVar[str] = "error"
    """A stable name of the cause, the same in every language."""
    _errno: ClassVar[int] = errno.EIO
    """The ``errno`` of the errors that are also an OSError."""
    message: str

    def __init__(self, message: str) -> None:
        self.message = message
        if isinstance(self, OSError):
            OSError.__init__(self, self._errno, message)
        else:
            super().__init__(message)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


class ChannelExistsError(FlyringError, FileExistsError):
    """A file of that name exists already. Carries ``path``."""

    code = "exists"
    _errno = errno.EEXIST

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"there is already a file at {path}; open it, or use open_or_create or replace")


class NoSuchChannelError(FlyringError, FileNotFoundError):
    """There is no file of that name. Carries ``path``."""

    code = "no-such-channel"
    _errno = errno.ENOENT

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"there is no {noun(path)} at {path}; create it first, or use open_or_create")


def noun(path: str) -> str:
    """Returns what a path names in a text."""
    if path.endswith((".journal", ".journal/control", ".seg")):
        return "journal"
    return "table" if path.endswith(".table") else "channel"


def shortened(value: object) -> str:
    """Returns the value as text of at most 200 characters."""
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:197] + "..."


class ChannelDiffersError(FlyringError):
    """An existing channel differs from the one that was asked for. Carries ``path``, and ``field``, ``expected`` and
    ``actual``: texts of at most 200 characters."""

    code = "differs"

    def __init__(self, path: str, field: str, expected: object, actual: object) -> None:
        self.path, self.field = path, field
        self.expected, self.actual = shortened(expected), shortened(actual)
        super().__init__(
            f"the {noun(path)} at {path} has {field} = {self.actual}, but {self.expected} was asked for; "
            f"ask for the same, or replace the {noun(path)}"
        )


class NotAChannelError(FlyringError):
    """The file is not a Flyring channel. Carries ``path``."""

    code = "not-a-channel"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(f"{path} is not a Flyring {noun(path)}: {reason}")


class VersionTooNewError(FlyringError):
    """The file needs a newer version of Flyring. Carries ``path``, ``field``, ``found`` and ``supported``."""

    code = "version-too-new"

    def __init__(self, path: str, field: str, found: int, supported: int) -> None:
        self.path, self.field, self.found, self.supported = path, field, found, supported
        super().__init__(
            f"{path} has {field} = {found:#x}, but this version of Flyring knows {supported:#x}; use a newer Flyring"
        )


class TruncatedError(FlyringError):
    """The file is shorter than its header says. Carries ``path``, and ``expected`` and ``actual`` in bytes."""

    code = "truncated"

    def __init__(self, path: str, expected: int, actual: int) -> None:
        self.path, self.expected, self.actual = path, expected, actual
        super().__init__(f"{path} is {actual} bytes long, but should be {expected}; it was cut: create it again")


class CorruptHeaderError(FlyringError):
    """A field of the header is invalid. Carries ``path`` and ``field``, which is the name in spec/layout.toml."""

    code = "corrupt-header"

    def __init__(self, path: str, field: str, reason: str) -> None:
        self.path, self.field = path, field
        super().__init__(f"the header of {path} is corrupt: {field} {reason}; create the {noun(path)} again")


class CorruptRingError(FlyringError):
    """A ring is damaged; the other rings go on. Carries ``ring``, ``position`` in bytes, and ``reason``."""

    code = "corrupt-ring"

    def __init__(self, ring: int, position: int, reason: str) -> None:
        self.ring, self.position, self.reason = ring, position, reason
        super().__init__(f"ring {ring} is corrupt at position {position}: {reason}")


class CorruptTableError(FlyringError):
    """A word of a table is damaged (spec/table.md 10). Carries ``cell`` (-1: it is in no cell) and ``reason``."""

    code = "corrupt-table"

    def __init__(self, cell: int, reason: str) -> None:
        self.cell, self.reason = cell, reason
        where = f"cell {cell} of the table" if cell >= 0 else "the table"
        super().__init__(
            f"{where} is corrupt: {reason}; "
            "run flyring table check, which lists all that is broken, then replace the table"
        )


class CorruptJournalError(FlyringError):
    """A word or record of a journal is damaged (spec/journal.md 10). Carries ``path``, ``position`` in bytes, and
    ``reason``."""

    code = "corrupt-journal"

    def __init__(self, path: str, position: int, reason: str) -> None:
        self.path, self.position, self.reason = path, position, reason
        super().__init__(
            f"the journal at {path} is corrupt at position {position}: {reason}; copy what a reader with "
            "skip_damaged=True can read, and create it again"
        )


class DamagedError(FlyringError):
    """Messages of a journal cannot be read: a segment is missing, or its bytes have changed (spec/journal.md 3.3).
    Carries ``path``, ``from_`` and ``to``, the positions between which they lay, in bytes, and ``messages``, how many
    they were (-1: not known)."""

    code = "damaged"

    def __init__(self, path: str, from_: int, to: int, messages: int) -> None:
        self.path, self.from_, self.to, self.messages = path, from_, to, messages
        many = "it is not known how many" if messages < 0 else str(messages)
        super().__init__(
            f"the journal at {path} is damaged from position {from_} to {to}: {many} messages are lost; a reader with "
            "skip_damaged=True goes on behind them"
        )


class NeedsRecoveryError(FlyringError):
    """The table was last written before a reboot, and not closed with ``sync`` (spec/table.md 9). The next writer
    recovers it, if its values carry checksums. A journal is recovered by its next writer after each reboot
    (spec/journal.md 7). Carries ``path``."""

    code = "needs-recovery"

    def __init__(self, path: str, checked: bool) -> None:
        self.path = path
        if noun(path) == "journal":
            super().__init__(
                f"the machine went down since the journal at {path} was written; take a writer: it recovers it"
            )
            return
        advice = (
            "; open it for writing and take a writer, which recovers it"
            if checked
            else ", and it has no checksums to find them; replace or unlink it"
        )
        super().__init__(
            f"the table at {path} was last changed before a reboot, and not closed with sync: "
            f"its values may be torn{advice}"
        )


class NoSpaceError(FlyringError, OSError):
    """There is not enough space. Carries ``path``, ``needed``, ``free``, and their ``unit``: "bytes", "counters" or
    "keys"."""

    code = "no-space"
    _errno = errno.ENOSPC

    def __init__(self, path: str, needed: int, free: int, unit: str = "bytes", next_segment: bool = False) -> None:
        """``next_segment``: that of the journal at ``path``, which an append needs."""
        self.path, self.needed, self.free, self.unit = path, needed, free, unit
        if unit == "keys":
            super().__init__(
                f"the table at {path} is full: it holds as many keys as its capacity; remove keys, or grow it"
            )
            return
        if next_segment:
            hint = "trim the journal, or make room on the disk"
        elif unit == "bytes":
            hint = f"make the {noun(path)} smaller, or its file system larger (docker run --shm-size)"
        else:
            hint = "free some, or create the channel with more"
        what = f"for the next segment of the journal at {path}" if next_segment else f"in {path}"
        super().__init__(f"no space {what}: {needed} {unit} needed, {free} free; {hint}")


class UnsuitableFileSystemError(FlyringError, OSError):
    """The file system cannot hold a channel. Carries ``path`` and ``reason``."""

    code = "file-system"
    _errno = errno.ENOTSUP

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} cannot hold a {noun(path)}: {reason}")


class AccessDeniedError(FlyringError, PermissionError):
    """The permission is missing, or the folder cannot be trusted. Carries ``path`` and ``reason``."""

    code = "access-denied"
    _errno = errno.EACCES

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"access to {path} was denied: {reason}")


class SlotOwner(NamedTuple):
    """The owner of a slot, in NoFreeSlotError."""

    slot: int
    name: str
    """The name that the owner gave; may be empty."""
    pid: int
    """The process id of the owner in its own pid namespace."""

    def __str__(self) -> str:
        return f"{self.slot} by {self.name!r} (pid {self.pid})"


class NoFreeSlotError(FlyringError):
    """No slot is free. Carries ``kind`` ("publisher", "subscriber", "writer" of a table or journal, or "consumer" of a
    journal), ``slots`` (how many there are), and ``owners``: a SlotOwner for each wanted slot that is owned."""

    code = "no-free-slot"

    def __init__(self, kind: str, slots: int, owners: Iterable[SlotOwner] = (), reason: str = "") -> None:
        self.kind, self.slots, self.owners = kind, slots, tuple(owners)
        super().__init__(reason or self._reason())

    def _reason(self) -> str:
        if self.slots == 0:
            return f"the channel has no {self.kind} slots; create it with some"
        shown = ", ".join(map(str, self.owners[:8]))
        more = f" and {len(self.owners) - 8} more" if len(self.owners) > 8 else ""
        return (
            f"all {self.slots} {self.kind} slots are owned: {shown}{more}; close one, or create the channel with more"
        )


def described(holder: Holder, queue: bool) -> str:
    """Returns what a back-pressured publisher is told about its holder."""
    name = f" ({holder.name!r})" if holder.name else ""
    state = f"pid {holder.pid}" if holder.live else "which no process owns"
    if not queue:
        return f"subscriber slot {holder.slot}{name}, {state}, has read up to {holder.position}; wait, or evict it"
    if holder.slot == 0:
        return f"no worker has taken the jobs from position {holder.position} on; wait, or start more workers"
    return f"worker {holder.slot}{name}, {state}, has a job in hand at {holder.position}; wait, or evict it"


class BackPressuredError(FlyringError):
    """The ring has no room for the message. Carries ``holder``: the ``Holder`` of the slowest reader, or None if that
    reader has gone meanwhile."""

    code = "back-pressured"

    def __init__(self, holder: Holder | None, queue: bool = False) -> None:
        self.holder = holder
        who = (
            "the reader that held it back has gone meanwhile; try again" if holder is None else described(holder, queue)
        )
        super().__init__(f"there is no room in the ring: {who}")


class BusyError(FlyringError):
    """One of five causes. A wait for room in a queue would wait for a job that this thread has in hand: carries
    ``holder``, the thread's own worker. Or a client has as many calls under way as the service allows: carries
    ``outstanding``, their number, and ``holder`` is None. Or a table's cell changed all the time during a read, or a
    change of a table or a push to a journal would wait for this process's own writer, or a process has the consumer of
    a journal that is to be forgotten: then ``outstanding`` is 0, and ``holder`` is None.
    """

    code = "busy"

    def __init__(
        self,
        holder: Holder | None,
        outstanding: int = 0,
        own_writer: bool = False,
        in_use: str = "",
        what: str = "table",
    ) -> None:
        self.holder, self.outstanding = holder, outstanding
        if in_use:
            super().__init__(f"{in_use}; close it there first")
            return
        if own_writer:
            super().__init__(
                f"this {what} has a writer open that was made from this very object, so the change would wait for it; "
                "use that writer, or close it first"
            )
            return
        if holder is None and outstanding == 0:
            super().__init__("the value changed for a millisecond, faster than it could be read; read it again")
            return
        if holder is None:
            super().__init__(
                f"{outstanding} calls of this client are under way, which is the service's max_outstanding; poll, and "
                "wait until some have ended, or create the service with a greater one"
            )
            return
        super().__init__(
            f"there is no room in the ring until this thread has finished the job of its own worker {holder.slot}, at "
            f"{holder.position}: no other thread can make room; use offer, or publish when the job is done"
        )


class ServerGoneError(FlyringError, ConnectionError):
    """The server of a service died, closed or was evicted before it answered. Carries ``may_have_run`` (False: no
    handler got the request or will get it, so call again), and the ``name`` and ``pid`` of the server."""

    code = "server-gone"
    _errno = errno.ECONNRESET

    def __init__(self, may_have_run: bool, name: str, pid: int) -> None:
        self.may_have_run, self.name, self.pid = bool(may_have_run), name, pid
        run = "may have run" if may_have_run else "was not run: call again"
        super().__init__(f"the server{f' {name!r}' if name else ''} (pid {pid}) has gone; the request {run}")


class ExpiredError(FlyringError, TimeoutError):
    """The time-out of a call passed before its answer came. Carries ``may_have_run`` (False: no handler got the request
    or will get it)."""

    code = "expired"
    _errno = errno.ETIMEDOUT

    def __init__(self, may_have_run: bool) -> None:
        self.may_have_run = bool(may_have_run)
        run = "may have run" if may_have_run else "was not run"
        super().__init__(f"the time-out of the call came before its answer; the request {run}")


class ServiceError(FlyringError):
    """The handler of a service raised an error, called ``fail``, or did not answer. Carries ``text``: the error's
    text."""

    code = "service-error"

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"the service answered with an error: {text}")


class CancelledError(FlyringError):
    """The call was cancelled. Carries ``what_for``: what the wait was for."""

    code = "cancelled"

    def __init__(self, what_for: str) -> None:
        self.what_for = what_for
        super().__init__(f"cancelled while waiting for {what_for}")


class TimedOutError(FlyringError, TimeoutError):
    """A wait reached its time-out. Carries ``what_for``: what the wait was for."""

    code = "timed-out"
    _errno = errno.ETIMEDOUT

    def __init__(self, what_for: str) -> None:
        self.what_for = what_for
        super().__init__(f"timed out waiting for {what_for}; wait longer, or look at why it does not come")


class MessageTooLargeError(FlyringError, ValueError):
    """The message is longer than the ring allows, or the key or value is longer than the table allows. Carries
    ``length`` and ``limit``, in bytes of payload."""

    code = "too-large"

    def __init__(self, length: int, limit: int, what: str = "message") -> None:
        self.length, self.limit = length, limit
        if what == "journal":
            super().__init__(
                f"a message of {length} bytes is too large: this journal takes {limit}; "
                "split it, or create the journal with a greater segment_size"
            )
            return
        if what != "message":
            super().__init__(
                f"a {what} of {length} bytes is too large: this table takes {limit}; "
                f"shorten it, or create the table with greater {what}_bytes"
            )
            return
        super().__init__(
            f"a message of {length} bytes is too large: this channel takes {limit}; "
            "split it, or create the channel with a greater capacity"
        )


class InvalidArgumentError(FlyringError, ValueError):
    """An argument is invalid. Carries ``argument``, its name."""

    code = "invalid-argument"

    def __init__(self, argument: str, reason: str) -> None:
        self.argument = argument
        super().__init__(f"{argument}: {reason}")


class ClosedError(FlyringError):
    """The object is closed, or this process is a forked child of the one that made it."""

    code = "closed"

    def __init__(self, what: str, forked: bool = False, detail: str = "") -> None:
        if forked:
            super().__init__(f"this {what} belongs to the parent process; open the channel again after fork")
        else:
            super().__init__(f"this {what} is closed" + (f": {detail}" if detail else ""))


class SlotLostError(FlyringError):
    """The slot was taken away from this process. Carries ``kind`` ("publisher" or "subscriber") and ``slot``."""

    code = "slot-lost"

    def __init__(self, kind: str, slot: int) -> None:
        self.kind, self.slot = kind, slot
        super().__init__(f"{kind} slot {slot} was taken away from this process; close this object and take a new slot")


class TwoThreadsError(FlyringError):
    """Two threads use one object at once, or a handler used the object that called it."""

    code = "two-threads"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"this {what} is in use by another thread or by the handler that it called; "
            "give each thread a publisher or subscriber of its own"
        )


class ViewAliveError(FlyringError, BufferError):
    """The operation would invalidate memory that is still in use: a memoryview or array of a message or claim, or an
    open claim."""

    code = "view-alive"


class BadMessageError(FlyringError, ValueError):
    """A typed message does not match its schema (spec/messages.md 1). It was consumed; the ring goes on.

    Carries ``ring``, ``position`` in bytes, the record's ``type``, and ``reason``.
    """

    code = "bad-message"

    def __init__(self, ring: int, position: int, type: int, reason: str) -> None:
        self.ring, self.position, self.type, self.reason = ring, position, type, reason
        super().__init__(
            f"the message of type {type} at position {position} of ring {ring} is not what its type says: {reason}; "
            "it was skipped: look at its publisher"
        )


class ChannelReplacedError(FlyringError):
    """Another channel has the name now; the old one still works. Carries ``path``, and the new ``channel_id``."""

    code = "replaced"

    def __init__(self, path: str, channel_id: UUID) -> None:
        self.path, self.channel_id = path, channel_id
        super().__init__(
            f"{path} is another {noun(path)} now ({channel_id}): this one was replaced, and only the processes that "
            "have it attached still use it; close it and open the name again"
        )


class IoError(FlyringError, OSError):
    """A system call failed. Carries ``call``, ``errno`` and ``path``."""

    code = "io"

    def __init__(self, call: str, number: int, path: str) -> None:
        import os

        self.call, self.path = call, path
        super().__init__(f"{call} of {path} failed: {os.strerror(number)} (errno {number})")
        self.errno = number
