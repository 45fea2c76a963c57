# SPDX-License-Identifier: Apache-2.0
"""A table: the latest value of each key (spec/api.md, spec/table.md)."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast, overload

from . import layout
from ._core import File, TableWait
from ._identity import REAL, Identity
from .attaching import attached, once_there, opened_or_created
from .errors import (
    ChannelDiffersError,
    ClosedError,
    InvalidArgumentError,
    NoFreeSlotError,
    TimedOutError,
)
from .loops import Readable
from .slots import check_name
from .system import (
    create_file,
    failed,
    remove,
    table_path,
    test_locks,
)
from .table_base import Progress, TableBase
from .table_file import copy_into, fill_in, is_checked, successor
from .table_header import TABLE_MAGIC, KeyType, TableHeader, TableOptions, describe_table
from .table_stats import TableStats
from .table_writer import Entry, TableWriter
from .wait import check_timeout

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from .sbe.flyweight import Message
    from .sbe.schema import Schema

Key = bytes | str | int
"""A table's key. The table was created for one of these three types."""
Result = TypeVar("Result")
# The header fields that ``open_or_create`` compares, in this order. The schema version follows.
COMPARED = ("key_type", "key_bytes", "value_bytes", "capacity", "checked", "schema_id")


class Table(TableBase, MutableMapping[Any, bytes]):
    """An attached table: a mapping of keys to values in a file, which other processes share and which outlasts them.

    Made by ``create``, ``open``, ``open_or_create``, ``replace`` or ``wait_for``. The ``name`` argument of these
    methods is a name or a path, as of a channel; a name stands for the file ``<folder>/<name>.table``.

    A table is a ``MutableMapping`` of keys to ``bytes``: ``table[key]``, ``table[key] = value``, ``del``, ``in``,
    ``len``, iteration. Values are copies. Each key has a version, which grows with each change of the key.

    Any number of processes read; reads take no lock and never wait. One process at a time writes: the one that holds
    the writer's slot. A ``TableWriter``, made by ``writer``, holds the slot until it is closed. ``put`` and the other
    methods that change the table hold it for one change.

    A table is a context manager: leaving the ``with`` block closes it. In a forked child process every table is closed.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # Making

    @classmethod
    def create(
        cls, name: str | os.PathLike[str], *, _identity: Identity = REAL, **options: Unpack[TableOptions]
    ) -> Self:
        """Creates the table's file and attaches to it. ``options``: see ``flyring.TableOptions``; ``capacity``, ``key``
        and ``value_bytes`` must be given.

        Raises InvalidArgumentError, ChannelExistsError, NoSpaceError, UnsuitableFileSystemError, AccessDeniedError or
        IoError.
        """
        return cls._create(table_path(name), describe_table(options, _identity), options, _identity, replace=False)

    @classmethod
    def replace(
        cls, name: str | os.PathLike[str], *, _identity: Identity = REAL, **options: Unpack[TableOptions]
    ) -> Self:
        """Like ``create``, but replaces an existing file of that name. Processes that have the old file open keep it.
        Their next wait or change raises ChannelReplacedError; their reads go on in the old file."""
        return cls._create(table_path(name), describe_table(options, _identity), options, _identity, replace=True)

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
        """Attaches to an existing table, after a full check of its header (spec/channel.md 3.3).

        ``read_only``: opens and maps the file for reading only; a method that would write raises AccessDeniedError.
        ``schema``: the table must have a schema with the same id. ``min_schema_version``: the table's schema must have
        at least this version.
        ``wake``: with False, changes that are made through this table do not wake sleeping processes.
        ``recovery_progress``: a function ``f(checked, total)``. It is called with numbers of cells while a change
        through this table recovers it after a reboot.

        Raises NoSuchChannelError, AccessDeniedError, NotAChannelError, TruncatedError, VersionTooNewError,
        CorruptHeaderError, UnsuitableFileSystemError, ChannelDiffersError, InvalidArgumentError or IoError.
        """
        path = table_path(name)
        return attached(
            path,
            TableHeader.parse,
            lambda file, header, text: cls(
                file, path, header, text, _identity, any_file_system, wake, read_only, recovery_progress
            ),
            read_only=read_only,
            schema=schema,
            min_schema_version=min_schema_version,
            any_file_system=any_file_system,
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
        """Waits until the table exists, then opens it like ``open``. Raises TimedOutError if it does not exist within
        ``timeout`` seconds (None: no limit). Raises the other errors of ``open`` at once."""
        return once_there(
            "table",
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
        cls, name: str | os.PathLike[str], *, _identity: Identity = REAL, **options: Unpack[TableOptions]
    ) -> Self:
        """Attaches to the table if it exists, else creates it.

        Raises the errors of ``open`` and ``create``, except NoSuchChannelError and ChannelExistsError. Raises
        ChannelDiffersError, which names the first differing field, if the existing table does not match the options.
        ``checked`` is compared only if it is given. The capacity of the existing table may be larger, because the table
        may have grown.
        """
        path = table_path(name)
        description = describe_table(options, _identity)
        return opened_or_created(
            lambda: cls.open(
                path,
                any_file_system=options.get("any_file_system", False),
                wake=options.get("wake", True),
                recovery_progress=options.get("recovery_progress"),
                _identity=_identity,
            ),
            lambda table: table._compare(description[0], "checked" in options),
            lambda: cls._create(path, description, options, _identity, replace=False),
        )

    @classmethod
    def _create(
        cls,
        path: str,
        description: tuple[TableHeader, bytes],
        options: TableOptions,
        identity: Identity,
        replace: bool,
    ) -> Self:
        """Makes the file, fills it, and returns the attached table. ``replace``: over an existing file of that name."""
        header, schema = description
        any_file_system = options.get("any_file_system", False)
        made: list[Self] = []

        def make(file: File) -> None:
            checked = options.get("checked")
            final = fill_in(file, header, schema, identity, is_checked(file) if checked is None else checked)
            wake, progress = options.get("wake", True), options.get("recovery_progress")
            made.append(cls(file, path, final, schema, identity, any_file_system, wake, False, progress))
            test_locks(file, path)

        try:
            mode = options.get("mode", 0o600)
            create_file(path, header.file_length, mode, any_file_system, replace, make, naming=lambda: successor(path))
        except BaseException:
            for table in made:
                table.close()
            raise
        return made[0]

    def _compare(self, wanted: TableHeader, with_checked: bool) -> None:
        """Raises ChannelDiffersError, with the first differing field, if the table does not match ``wanted``."""
        for field in COMPARED:
            expected, actual = getattr(wanted, field), getattr(self.header, field)
            fits = actual >= expected if field == "capacity" else actual == expected  # it may have grown
            if not fits and (field != "checked" or with_checked):
                raise ChannelDiffersError(self.path, field, expected, actual)
        if self.header.schema_version < wanted.schema_version:
            raise ChannelDiffersError(self.path, "schema_version", wanted.schema_version, self.header.schema_version)

    @staticmethod
    def unlink(name: str | os.PathLike[str]) -> None:
        """Removes a table's name. Processes that have the table open keep working.

        Raises NoSuchChannelError, AccessDeniedError, or NotAChannelError. The latter means that the file does not begin
        with the magic number of tables; nothing is removed then.
        """
        path = table_path(name)
        remove(path, lambda: successor(path, layout.SUCCESSOR_UNLINKED), TABLE_MAGIC)

    # Reading

    def entry(self, key: Key) -> Entry | None:
        """Returns a handle that remembers where the key lies, so that later reads skip the search. Returns None if the
        key is absent."""
        entry = Entry(self, key)
        return entry if entry.version else None

    def decode(self, key: Key) -> Any:
        """Returns a copy of the value as a typed message, or None if the key is absent. The table must have a schema.

        Raises the errors of ``Message.decode`` if the value is not a message of that type.
        """
        value = self.get(key)
        return None if value is None else self.message.decode(value)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _, _ in self._each())

    def _each(self) -> Iterator[tuple[Any, bytes, int]]:
        """Yields (key, value, version). A key that is there all the time is yielded exactly once, with a value that is
        not torn. A key that is put or removed meanwhile may or may not be yielded."""
        walk, cell = self._walk(), 0
        while cell >= 0:
            self._check_open()
            cell, found = walk.scan(cell)
            yield from found

    def items(self) -> ItemsView[Any, bytes]:
        """The keys with copies of their values. A key that is there during the whole iteration is yielded exactly once.
        A key that is put or removed meanwhile may or may not be yielded."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Copies of the values. The rules of ``items`` hold for the iteration."""
        return _Values(self)

    def keys(self) -> KeysView[Any]:
        """The keys. The rules of ``items`` hold for the iteration."""
        return KeysView(self)

    @property
    def version(self) -> int:
        """The number of the last completed change of the table. The version of a key, shifted right by one, is the
        number of the key's last change."""
        return self._version_of(None)

    @property
    def capacity(self) -> int:
        """How many keys fit."""
        return self.header.capacity

    @property
    def key_type(self) -> KeyType:
        """ "bytes", "text" or "integer"."""
        return self.header.key_type

    @property
    def schema(self) -> str | None:
        """The schema of the values, as text, or None."""
        return self._schema_bytes.decode("utf-8", "replace") if self._schema_bytes else None

    @property
    def message(self) -> type[Message]:
        """The message class of the values, made from the schema in the file. Raises InvalidArgumentError if the table
        has no schema."""
        if self._message is None:
            from .sbe.schema import Schema

            if not self._schema_bytes:
                raise InvalidArgumentError("message", f"the table at {self.path} has no schema: its values are bytes")
            messages = Schema.parse(self.schema or "").messages.values()
            template = self.header.value_template
            found = [one for one in messages if template == one.TEMPLATE_ID]
            if not found:
                raise InvalidArgumentError("message", f"the table's schema has no message with template id {template}")
            self._message = found[0]
        return self._message

    # Waiting

    @overload
    def wait_changed(self, version: int, /, *, timeout: float | None = None) -> int: ...
    @overload
    def wait_changed(self, key: Key, version: int, /, *, timeout: float | None = None) -> int: ...
    def wait_changed(self, key: Any, version: int | None = None, /, *, timeout: float | None = None) -> int:
        """``wait_changed(key, version)`` waits until the version of the key differs from ``version``. It returns the
        new one, or 0 if the key was removed. With version 0 it waits until the key is there.

        ``wait_changed(version)`` waits until the ``version`` of the table differs, because any key was changed. It
        returns the new one.

        Raises TimedOutError after ``timeout`` seconds (None: no limit), and ChannelReplacedError if another table has
        the name.
        """
        if version is None:
            return self._wait_changed(None, key, timeout)
        if key is None:
            raise InvalidArgumentError("key", "None is not a key")
        return self._wait_changed(key, version, timeout)

    async def changed(self, key: Key | None = None, version: int | None = None, timeout: float | None = None) -> int:
        """Async form of ``wait_changed``, for asyncio, uvloop or trio. ``key`` None waits for a change of any key.
        ``version`` None means the present version, so that this waits for the next change."""
        give_up = time.monotonic() + check_timeout(timeout)
        wait = TableWait(self, key, self._version_of(key) if version is None else version)
        readable = Readable(wait.fileno(), "table")
        try:
            while (found := wait.look()) is None:
                left = give_up - time.monotonic()
                if left <= 0:
                    raise TimedOutError("a change of the table" if key is None else "a change of the key")
                await readable.wait(wait, left)
            return found
        finally:
            readable.end()
            wait.stop()

    # Writing

    def writer(self, name: str = "", *, timeout: float | None = 0) -> TableWriter:
        """Takes the writer's slot, and returns a TableWriter that holds the slot until its ``close``. Waits up to
        ``timeout`` seconds (0: does not wait; None: no limit) until the slot is free.

        The first writer after a reboot recovers the table, if need be. While the TableWriter is open, other processes
        and other Table objects wait for the slot. Methods of this Table that change it raise BusyError; call those of
        the TableWriter instead.

        Raises NoFreeSlotError (``kind`` is "writer"), which names the owner; AccessDeniedError if the table is
        read-only; NeedsRecoveryError; ChannelReplacedError; InvalidArgumentError for a name that is not valid.
        """
        self._check_writable()
        check_name(name)
        return self._writer(name, timeout)

    def _writer(self, name: str | None, timeout: float | None) -> TableWriter:
        """Opens a writer and remembers it for ``close``. ``name`` None: the writer serves one change and stores no
        name."""
        self._check_single(name is not None)
        writer = TableWriter(self, name, check_timeout(timeout))
        self._writers.add(writer)
        return writer

    @overload  # type: ignore[override]
    def update(self, key: Key, handler: Callable[[Any], object], /, *, timeout: float | None = None) -> int: ...
    @overload
    def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /, **values: Any) -> None: ...
    def update(self, key: Any = (), handler: Callable[[Any], object] | None = None, /, **values: Any) -> int | None:
        """``update(key, handler)`` changes a value. ``handler`` gets a copy and changes it; then the copy is put. The
        copy is a typed flyweight, or a ``bytearray`` if the table has no schema. The writer's slot is held meanwhile.
        Returns the new version.

        If the handler raises, the value stays as it was. Raises KeyError if the key is absent, and ViewAliveError if
        the handler changes or closes this table. ``timeout``: how many seconds to wait for the slot (None: no limit).

        ``update(mapping)`` puts all items of the mapping, as ``dict.update`` does."""
        if handler is not None:
            with self._writer(None, values.pop("timeout", None)) as writer:
                if values:
                    raise TypeError(f"update(key, handler, timeout=None) has no argument {next(iter(values))!r}")
                return writer.update(key, handler)
        with self._writer(None, None) as writer:
            for each, value in dict(key, **values).items():
                writer.put(each, value)
        return None

    def setdefault(self, key: Key, default: Buffer = b"") -> bytes:
        """Returns the value of the key; puts ``default`` first if the key is absent."""
        while True:
            value: bytes | None = self.get(key)
            if value is not None:
                return value
            self.put_if_absent(key, default)

    def clear(self, timeout: float | None = None) -> int:  # type: ignore[override]
        """Removes all keys, one after the other. Returns how many were removed. ``timeout``: how many seconds to wait
        for the writer's slot (None: no limit)."""
        with self._writer(None, timeout) as writer:
            return writer.clear()

    def snapshot(self, path: str | os.PathLike[str]) -> int:
        """Writes a full copy of the table to a temporary file in the same folder, syncs it, and renames it to ``path``.
        Returns how many keys the copy has. No value is torn, but values may be of different moments. Only
        ``TableWriter.snapshot`` copies all values as of one moment.

        Raises InvalidArgumentError if ``path`` is the table's own, NoSpaceError, AccessDeniedError or IoError.
        """
        self._check_open()
        return copy_into(self, table_path(path))

    def grow(self, capacity: int, timeout: float | None = None) -> None:
        """Copies the table into a larger file, which gets the table's name. Keys keep their versions. Other processes
        switch to the larger file at their next read, wait or change.

        ``timeout``: how many seconds to wait for the writer's slot (None: no limit). Raises InvalidArgumentError if
        ``capacity`` is below the present capacity, NoFreeSlotError, NoSpaceError or IoError.
        """
        with self._writer(None, timeout) as writer:
            writer.grow(capacity)

    def sync(self) -> None:
        """Writes all changes to the disk. Raises IoError, and AccessDeniedError if the table is read-only."""
        self._check_writable()
        file = self._file  # keeps it open, if another thread goes on in a larger file
        try:
            os.fsync(file.fileno())
        except OSError as error:
            raise failed("fsync", error, self.path) from error

    def close(self, sync: bool = False) -> None:
        """Closes the table and the writers made from it, and ends their waits. Closing twice does nothing.

        ``sync``: first writes all changes to the disk, and marks the table clean, so that it needs no recovery after a
        reboot. If another process holds the writer's slot, this call syncs but does not mark the table clean; a synced
        close by that process does.

        Raises ViewAliveError inside the handler of an ``update`` of this table. With ``sync`` also raises IoError, and
        AccessDeniedError if the table is read-only."""
        if self.closed and not self._forked:
            self._memory.close()  # if a signal ended an earlier close
            self._file.close()
            return
        self._check_handler()
        if sync:
            self._close_synced()
        for writer in list(self._writers):
            writer.close()
        try:
            self._shut()
        finally:  # also after a KeyboardInterrupt
            if self.closed:
                self._memory.close()
                self._file.close()

    def _close_synced(self) -> None:
        """Syncs, and marks the table clean if this process has or gets the writer's slot; otherwise only syncs."""
        for writer in list(self._writers):
            if not writer.closed:
                writer.close(sync=True)
                return
        try:
            writer = self._writer(None, 0)
        except NoFreeSlotError:
            self.sync()
            return
        writer.close(sync=True)

    def stats(self) -> TableStats:
        """What the table holds now (spec/api.md). Takes no lock and writes nothing. Also works for a table that needs
        recovery."""
        self._check_open()
        self._follow()
        while True:
            memory = self._memory
            try:
                return TableStats.of(self)
            except ClosedError:
                if self.closed or memory is self._memory:
                    raise  # else another thread has gone on in a larger file

    # Typed values as arrays

    def to_numpy(self) -> NDArray[numpy.void]:
        """Returns all values as a structured array of shape (number of keys,), with the fields ``key``, ``version`` and
        ``value``. The dtype of ``value`` is ``message.dtype``. The dtype of ``key`` is int64 for integers, U for text,
        and S for bytes; U and S drop zeros at the end.

        The table must have a schema, and a message of fixed size. Raises InvalidArgumentError if it has none, or if a
        value was written with an older schema version that has fewer fields.
        """
        from .table_arrays import to_numpy

        return to_numpy(self)

    def to_pandas(self) -> Any:
        """Returns all values as a ``pandas.DataFrame`` with the keys as its index. It has the column ``version``, and a
        column for each field of the message. A field of a composite has a column named ``composite.field``. The table
        must have a schema, and a message of fixed size; see ``to_numpy`` for the errors."""
        from .table_arrays import to_pandas

        return to_pandas(self)

    # Special methods

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and hasattr(self, "_writers"):
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:
                self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (type(self), self.path, self._any_file_system, self._read_only, self._wake)

    def __repr__(self) -> str:
        return f"<flyring.Table {self.path} of {self.key_type} keys{' closed' if self.closed else ''}>"


class _Items(ItemsView[Any, bytes]):
    def __iter__(self) -> Iterator[tuple[Any, bytes]]:
        return ((key, value) for key, value, _ in cast(Any, self)._mapping._each())


class _Values(ValuesView[bytes]):
    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value, _ in cast(Any, self)._mapping._each())


def reopen(cls: type[Table], path: str, any_file_system: bool, read_only: bool, wake: bool) -> Table:
    """Opens the table again when it is unpickled."""
    return cls.open(path, any_file_system=any_file_system, read_only=read_only, wake=wake)
