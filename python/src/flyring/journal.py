# SPDX-License-Identifier: Apache-2.0
"""A journal: history on disk, larger than memory (spec/api.md, spec/journal.md)."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack
from uuid import UUID

from . import layout
from ._core import File, Memory
from ._identity import REAL, Identity
from .attaching import attached, once_there, opened_or_created
from .closing import Closing
from .errors import (
    AccessDeniedError,
    BusyError,
    ChannelDiffersError,
    ChannelReplacedError,
    ClosedError,
    InvalidArgumentError,
    NoSuchChannelError,
    ViewAliveError,
)
from .journal_consumer import JournalConsumer, forget
from .journal_file import (
    CONTROL_FILE,
    JournalFiles,
    create_journal,
    id_at,
    unlink_journal,
)
from .journal_header import JournalHeader, JournalOptions, Policy, Sync, describe_journal, policy_of, sync_of
from .journal_reader import JournalReader
from .journal_recover import Progress
from .journal_seek import Start
from .journal_segment import make_first_segment
from .journal_stats import JournalStats
from .journal_trim import age_limit, consumed_limit, size_limit, trim
from .journal_writer import JournalWriter
from .slots import check_name
from .system import control_lock, failed, journal_path, new_lock
from .wait import Wait, check_timeout, check_wait

if TYPE_CHECKING:
    from ._core import Bytes, MessageFlyweight
    from .sbe.schema import Schema

COMPARED = ("segment_size", "consumers", "content", "sync", "max_age", "max_size", "trim_consumed", "schema_id")


class Journal(Closing):
    """An attached journal: messages in files, in the order in which one writer appended them.

    Made by ``create``, ``open``, ``open_or_create`` or ``wait_for``. The ``name`` argument of these methods is a name
    or a path, as of a channel; a name stands for the folder ``<folder>/<name>.journal``.

    Any number of processes read, from any place, also while it grows, and hold no writer back. One process at a time
    writes. A consumer has a name, by which it goes on where it stopped, also after a restart. A journal may be larger
    than memory.

    A journal is a context manager: leaving the ``with`` block closes it. Unpickling a journal opens its path again. In
    a forked child process every journal is closed.
    """

    def __init__(
        self,
        file: File,
        path: str,
        header: JournalHeader,
        schema: bytes,
        identity: Identity,
        any_file_system: bool,
        wake: bool,
        read_only: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Internal: use the class methods. The new journal owns ``file`` once this returns."""
        self._pid = os.getpid()
        self._closed = True  # until it is whole: the mapping may fail
        memory = Memory(file, header.sections_end, not read_only, path)
        self._files = JournalFiles(path, header, file, memory, identity, wake, read_only)
        self._schema_bytes, self._any_file_system, self._progress = schema, any_file_system, progress
        self._telling = 0  # the thread in which ``recovery_progress`` runs
        self._users: weakref.WeakSet[JournalWriter | JournalReader] = weakref.WeakSet()
        self._work: set[object] = set()  # one object for each thread that takes the writer's slot, or pushes
        self._closed = False

    # Making

    @classmethod
    def create(
        cls, name: str | os.PathLike[str], *, _identity: Identity = REAL, **options: Unpack[JournalOptions]
    ) -> Self:
        """Makes the journal's folder and files, and attaches to it. ``options``: see ``flyring.JournalOptions``.

        Raises InvalidArgumentError, ChannelExistsError, NotAChannelError (the folder holds other files), NoSpaceError,
        UnsuitableFileSystemError, AccessDeniedError or IoError.
        """
        return cls._create(journal_path(name), describe_journal(options, _identity), options, _identity)

    @classmethod
    def open(
        cls,
        name: str | os.PathLike[str],
        *,
        read_only: bool = False,
        schema: Schema | None = None,
        min_schema_version: int = 0,
        any_file_system: bool = False,
        wake: bool = True,
        recovery_progress: Progress | None = None,
        _identity: Identity = REAL,
    ) -> Self:
        """Attaches to an existing journal, after a full check of its header (spec/channel.md 3.3).

        ``read_only``: opens and maps the files for reading only: readers and ``stats`` work, and every method that
        would write raises AccessDeniedError. ``schema``: the journal must have a schema with the same id.
        ``min_schema_version``: and at least this version. ``wake``: with False, what is made from this object does not
        wake sleeping processes. ``recovery_progress``: called with the bytes checked and an estimate of all bytes,
        while a writer recovers the journal after another boot.

        Raises NoSuchChannelError, AccessDeniedError, NotAChannelError, TruncatedError, VersionTooNewError,
        CorruptHeaderError, UnsuitableFileSystemError, ChannelDiffersError, InvalidArgumentError or IoError.
        """
        path = journal_path(name)
        return attached(
            path,
            JournalHeader.parse,
            lambda file, header, text: cls(
                file, path, header, text, _identity, any_file_system, wake, read_only, recovery_progress
            ),
            read_only=read_only,
            schema=schema,
            min_schema_version=min_schema_version,
            any_file_system=any_file_system,
            file_name=CONTROL_FILE,
        )

    @classmethod
    def wait_for(
        cls,
        name: str | os.PathLike[str],
        timeout: float | None = None,
        *,
        read_only: bool = False,
        schema: Schema | None = None,
        min_schema_version: int = 0,
        any_file_system: bool = False,
        wake: bool = True,
        recovery_progress: Progress | None = None,
        _identity: Identity = REAL,
    ) -> Self:
        """Waits until the journal exists, then opens it like ``open``. Raises TimedOutError if it does not exist within
        ``timeout`` seconds (None: no limit). Raises the other errors of ``open`` at once."""
        return once_there(
            "journal",
            timeout,
            lambda: cls.open(
                name,
                read_only=read_only,
                schema=schema,
                min_schema_version=min_schema_version,
                any_file_system=any_file_system,
                wake=wake,
                recovery_progress=recovery_progress,
                _identity=_identity,
            ),
        )

    @classmethod
    def open_or_create(
        cls, name: str | os.PathLike[str], *, _identity: Identity = REAL, **options: Unpack[JournalOptions]
    ) -> Self:
        """Attaches to the journal if it exists, else creates it.

        Raises the errors of ``open`` and ``create``, except NoSuchChannelError and ChannelExistsError. Raises
        ChannelDiffersError, which names the first differing field, if the existing journal does not match the options.
        Only options that were given are compared.
        """
        path = journal_path(name)
        description = describe_journal(options, _identity)
        return opened_or_created(
            lambda: cls.open(
                path,
                any_file_system=options.get("any_file_system", False),
                wake=options.get("wake", True),
                recovery_progress=options.get("recovery_progress"),
                _identity=_identity,
            ),
            lambda journal: journal._compare(description, options),
            lambda: cls._create(path, description, options, _identity),
        )

    @classmethod
    def _create(
        cls,
        path: str,
        description: tuple[JournalHeader, bytes, Policy],
        options: JournalOptions,
        identity: Identity,
    ) -> Self:
        header, schema, policy = description
        any_file_system, mode = options.get("any_file_system", False), options.get("mode", 0o600)
        file = create_journal(path, header, schema, policy, identity, mode, any_file_system, make_first_segment)
        try:
            return cls(
                file,
                path,
                header,
                schema,
                identity,
                any_file_system,
                options.get("wake", True),
                False,
                options.get("recovery_progress"),
            )
        except BaseException as error:
            file.close()
            if isinstance(error, OSError):
                raise failed("mmap", error, path) from error
            raise

    def _compare(self, description: tuple[JournalHeader, bytes, Policy], options: JournalOptions) -> None:
        wanted, _, policy = description
        actual = self._files.policy
        values: dict[str, tuple[object, object]] = {
            "content": (content_text(wanted.content), content_text(self.header.content)),
            "sync": (sync_text(policy.sync_every), sync_text(actual.sync_every)),
            "max_age": (policy.max_age, actual.max_age),
            "max_size": (policy.max_size, actual.max_size),
            "trim_consumed": (boolean_text(policy.trim_consumed), boolean_text(actual.trim_consumed)),
        }
        for field in COMPARED:
            if field not in options and not (field == "schema_id" and "schema" in options):
                continue
            expected, found = values.get(field) or (getattr(wanted, field), getattr(self.header, field))
            if expected != found:
                raise ChannelDiffersError(self.path, field, expected, found)
        if self.header.schema_version < wanted.schema_version:
            raise ChannelDiffersError(self.path, "schema_version", wanted.schema_version, self.header.schema_version)

    @staticmethod
    def unlink(name: str | os.PathLike[str]) -> None:
        """Removes a journal: its files and its folder. Readers that have a segment open read it to its end.

        Raises NoSuchChannelError; NoFreeSlotError (``kind`` "writer") while it has a writer; NotAChannelError if the
        control file does not begin with the magic number, in which case nothing is removed; AccessDeniedError, IoError.
        """
        unlink_journal(journal_path(name))

    # What is made from a journal

    def writer(
        self, name: str = "", *, helper: bool = True, ahead: int = 1, timeout: float | None = 0
    ) -> JournalWriter:
        """Takes the writer's slot, and holds it until its ``close``. Waits up to ``timeout`` seconds (0: does not wait;
        None: no limit) until the slot is free. Mends what a dead writer left, and recovers the journal after a power
        loss (``JournalWriter.recovery``).

        ``helper``: starts a thread that makes segments before they are needed, syncs and trims, if no other process
        does. Without one, an append that needs a new segment makes it, which takes milliseconds. ``ahead``: how many
        segments the helper keeps ready, 1 to 16.

        Raises NoFreeSlotError (``kind`` is "writer"), which names the owner; AccessDeniedError if the journal is
        read-only; CorruptJournalError; NoSpaceError, IoError; InvalidArgumentError for a name that is not valid.
        """
        self._check_open()
        check_name(name)
        if not isinstance(ahead, int) or not 1 <= ahead <= 16:
            raise InvalidArgumentError("ahead", f"{ahead!r} must be 1 to 16")
        patience = check_timeout(timeout)
        self._check_writable()
        with self._at_work():
            writer = JournalWriter(self, name, patience, helper, ahead)
            self._users.add(writer)
            if self._closed:  # meanwhile, by another thread
                writer.close(sync=False)
                self._check_open()
            return writer

    def reader(
        self,
        start: Start = "oldest",
        *,
        durable: bool = False,
        skip_damaged: bool = False,
        wait: Wait = "block",
    ) -> JournalReader:
        """Returns a reader. ``start``: "oldest", "newest", or a ``JournalStart``: a position, a number or a time.
        ``durable``: reads only what is synced. ``skip_damaged``: counts damaged messages as lost and goes on, instead
        of raising DamagedError. ``wait``: how its methods wait, see ``flyring.Wait``.

        Raises InvalidArgumentError, NoSuchChannelError (it was unlinked), DamagedError, CorruptJournalError, IoError.
        """
        self._check_open()
        check_wait(wait)
        if self._files.unlinked:
            raise NoSuchChannelError(self.path)
        reader = JournalReader(self, durable, skip_damaged, wait)
        try:
            reader._go_to(reader._find(start))
        except BaseException:
            reader.close()
            raise
        self._users.add(reader)
        return reader

    def consumer(
        self, name: str, start: Start = "oldest", *, skip_damaged: bool = False, wait: Wait = "block"
    ) -> JournalConsumer:
        """Returns the consumer of this name. A new name begins at ``start``; any other goes on where it stopped.

        Raises NoFreeSlotError (``kind`` is "consumer") if a process has it, or all names are taken;
        InvalidArgumentError; AccessDeniedError; NeedsRecoveryError after a power loss, until a writer has recovered the
        journal; CorruptJournalError, DamagedError, IoError.
        """
        self._check_open()
        if not name:
            raise InvalidArgumentError("name", "a consumer needs a name, by which it goes on")
        check_name(name)
        check_wait(wait)
        self._check_writable()
        consumer = JournalConsumer(self, name, start, skip_damaged, wait)
        self._users.add(consumer)
        return consumer

    # Verbs

    def push(self, data: Bytes | MessageFlyweight, type: int | None = None, *, timeout: float | None = None) -> int:
        """Appends one message, for which it takes the writer's slot; waits up to ``timeout`` seconds (None: no
        limit) until that is free. Returns the message's position. If no process has a helper, it syncs when a sync is
        due, and trims by the options when it has entered another segment.

        Raises BusyError while this object has a writer open, for which the push would wait; NoFreeSlotError at the
        time-out; and the errors of ``writer`` and ``append``. IoError also if that sync fails: the message is appended.
        """
        self._check_open()
        if type is not None and (not isinstance(type, int) or not 1 <= type < 2**31):
            raise InvalidArgumentError("type", f"{type!r} must be 1 to 2147483647")
        patience = check_timeout(timeout)
        self._check_writable()
        if any(isinstance(user, JournalWriter) and not user.closed for user in list(self._users)):
            raise BusyError(None, own_writer=True, what="journal")
        with self._at_work():
            writer = JournalWriter(self, None, patience, False, 1)
            try:
                return writer._push(data, type)
            finally:
                writer.close(sync=False)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """While a thread takes the writer's slot, or pushes: a close in another thread leaves the files to it."""
        work = object()
        self._work.add(work)
        try:
            self._check_open()
            yield
        finally:
            self._work.discard(work)
            self._close_files()

    def forget(self, name: str) -> None:
        """Removes the name of a consumer. InvalidArgumentError if there is none; BusyError while a process has it;
        NeedsRecoveryError, IoError."""
        self._check_open()
        check_name(name)
        self._check_writable()
        self._check_linked()
        forget(self._files, name)

    def trim(
        self,
        *,
        consumed: bool = False,
        position: int | None = None,
        before: int | None = None,
        size: int | None = None,
    ) -> int:
        """Removes the oldest segments, but none that a consumer needs or that is not synced. Returns how many bytes
        became free. One of: ``consumed``, what all consumers have consumed; ``position``, up to a position;
        ``before``, what is older than a time (ns since 1970); ``size``, until this many bytes are left.

        Raises InvalidArgumentError, NeedsRecoveryError, IoError.
        """
        self._check_open()
        files = self._files
        if sum(value is not None for value in (position, before, size)) + bool(consumed) != 1:
            raise InvalidArgumentError("consumed", "give one of consumed, position, before and size")
        for option, value in (("position", position), ("before", before), ("size", size)):
            if value is not None and (not isinstance(value, int) or (value < 0 and option != "before")):
                raise InvalidArgumentError(option, f"{value!r} must be 0 or more")
        self._check_writable()
        self._check_linked()
        if position is not None:
            limit = position
        elif before is not None:
            limit = age_limit(files, before)
        elif size is not None:
            limit = size_limit(files, size)
        else:
            limit = consumed_limit(files)
        lock = new_lock(files.file, files.path)
        try:
            return trim(files, lock, limit, True)
        finally:
            lock.close()

    def change(
        self,
        *,
        sync: Sync | None = None,
        max_age: float | None = None,
        max_size: int | None = None,
        trim_consumed: bool | None = None,
    ) -> None:
        """Changes these options of the journal, for all processes; they are durable when it returns. None: as it is.
        InvalidArgumentError, IoError."""
        self._check_open()
        files = self._files
        options: JournalOptions = {}
        if sync is not None:
            options["sync"] = sync
        if max_age is not None:
            options["max_age"] = max_age
        if max_size is not None:
            options["max_size"] = max_size
        if trim_consumed is not None:
            options["trim_consumed"] = trim_consumed
        policy_of(options)  # checks before the lock
        self._check_writable()
        lock = new_lock(files.file, files.path)
        try:
            with control_lock(lock, files.path):
                files.store_policy(policy_of(options, files.policy))
            files.sync_control()
        finally:
            lock.close()
        files.wake_helper()

    def stats(self) -> JournalStats:
        """What the journal holds now (spec/api.md). Takes no lock and writes nothing. Works before a recovery, too."""
        self._check_open()
        return JournalStats.of(self._files)

    # Properties

    @property
    def header(self) -> JournalHeader:
        """The checked header of the control file."""
        return self._files.header

    @property
    def path(self) -> str:
        """The absolute path of the folder."""
        return self._files.path

    @property
    def id(self) -> UUID:
        """The journal's UUID, made at creation."""
        return self.header.journal_id

    @property
    def segment_size(self) -> int:
        """Bytes of a segment."""
        return self.header.segment_size

    @property
    def consumers(self) -> int:
        """How many names of consumers the journal has room for."""
        return self.header.consumers

    @property
    def content(self) -> int:
        """0: messages of the user; 1: a recording."""
        return self.header.content

    @property
    def schema_id(self) -> int:
        """0 without a schema."""
        return self.header.schema_id

    @property
    def schema_version(self) -> int:
        """0 without a schema."""
        return self.header.schema_version

    @property
    def created_at(self) -> int:
        """In ns since 1970."""
        return self.header.created_at

    @property
    def schema(self) -> str | None:
        """The schema of the messages, as text, or None."""
        return self._schema_bytes.decode("utf-8", "replace") if self._schema_bytes else None

    # State

    def close(self) -> None:
        """Closes the journal and everything made from it. Closing twice does nothing. Raises ViewAliveError inside a
        handler or ``recovery_progress``, and IoError if a writer's last sync fails. A ``push`` of another thread that
        has the slot already appends its message; one that still waits for the slot raises ClosedError, and so does a
        ``writer``."""
        if self._closed:
            return
        if self._telling == threading.get_ident():
            raise ViewAliveError(f"{self.path} is being recovered by this thread; close it after that")
        error: BaseException | None = None
        for user in sorted(self._users, key=lambda user: type(user).__name__):  # in one order, whatever their hashes
            try:
                user.close()
            except BaseException as raised:
                if not user.closed:
                    raise
                error = error or raised
        self._closed = True
        for user in list(self._users):  # a writer that another thread has taken since
            if isinstance(user, JournalWriter) and not user.closed:
                user.close(sync=False)
        self._close_files()
        if error is not None:
            try:
                raise error
            finally:
                del error  # else its traceback, which refers to this frame, keeps what the sync had open

    def _tell_progress(self, done: int, all_bytes: int) -> None:
        if self._progress is not None:
            self._telling = threading.get_ident()
            try:
                self._progress(done, all_bytes)
            finally:
                self._telling = 0

    def _close_files(self) -> None:
        """Closes the files of a closed journal, unless a thread is at work: then the last one does it."""
        if self._closed and not self._work:
            self._files.memory.close()
            self._files.file.close()

    @property
    def closed(self) -> bool:
        """True after ``close``, and in a forked child process."""
        return self._closed or self._forked

    @property
    def _forked(self) -> bool:
        return self._pid != os.getpid()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("journal", self._forked)

    def _check_writable(self) -> None:
        self._check_open()
        if self._files.read_only:
            raise AccessDeniedError(self.path, "the journal was opened for reading only")

    def _check_linked(self) -> None:
        if self._files.unlinked:
            raise NoSuchChannelError(self.path)

    def _check_replaced(self) -> None:
        """Raises ChannelReplacedError if another journal has the name (spec/channel.md 6.13)."""
        there = id_at(self.path)
        if there is not None and there != self.id:
            raise ChannelReplacedError(self.path, there)

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (type(self), self.path, self._any_file_system, self._files.read_only, self._files.wakes)

    def __repr__(self) -> str:
        return f"<flyring.Journal {self.path}{' closed' if self.closed else ''}>"


def content_text(content: int) -> str:
    return "recording" if content == layout.JOURNAL_CONTENT_RECORDING else "messages"


def sync_text(every: int) -> str:
    sync = sync_of(every)
    return sync if isinstance(sync, str) else f"{every} ns"


def boolean_text(word: int) -> str:
    return "true" if word else "false"


def reopen(cls: type[Journal], path: str, any_file_system: bool, read_only: bool, wake: bool) -> Journal:
    """Opens the journal again when it is unpickled."""
    return cls.open(path, any_file_system=any_file_system, read_only=read_only, wake=wake)
