# SPDX-License-Identifier: Apache-2.0
"""Opens existing files: the steps that channels and tables share (spec/channel.md 3.3)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from . import layout
from .content import check_is_schema, check_schema
from .errors import ChannelExistsError, FlyringError, NoSuchChannelError, TimedOutError
from .system import check_file_system, check_folder, failed, open_file, test_locks
from .wait import check_timeout

if TYPE_CHECKING:
    from ._core import File
    from .header import Header
    from .journal_header import JournalHeader
    from .sbe.schema import Schema
    from .table_header import TableHeader

    AnyHeader = TypeVar("AnyHeader", Header, TableHeader, JournalHeader)
Made = TypeVar("Made")


class Closable(Protocol):
    def close(self) -> None: ...


One = TypeVar("One", bound=Closable)


def header_of(file: File, path: str, parse: Callable[[bytes, int, str], AnyHeader]) -> AnyHeader:
    """Reads and checks the header of an open file. Raises what ``parse`` raises, and OSError."""
    return parse(os.pread(file.fileno(), layout.HEADER_LENGTH, 0), os.fstat(file.fileno()).st_size, path)


def attached(
    path: str,
    parse: Callable[[bytes, int, str], AnyHeader],
    make: Callable[[File, AnyHeader, bytes], Made],
    *,
    read_only: bool,
    schema: Schema | None,
    min_schema_version: int,
    any_file_system: bool,
    file_name: str = "",
) -> Made:
    """Opens and checks the file. Returns ``make(file, header, schema_bytes)``; the result owns the file. Closes the
    file if anything raises. ``file_name``: the file's name in the folder ``path``, which may not lie on an overlay
    then."""
    if schema is not None:
        check_is_schema(schema)
    check_folder(path, create=False)
    file = open_file(path, read_only, file_name)
    try:
        header = header_of(file, path, parse)
        check_file_system(file, path, any_file_system, read_only, overlay=not file_name)
        if not read_only:
            test_locks(file, path)
        check_schema(path, header, None if schema is None else schema.id, min_schema_version)
        return make(file, header, os.pread(file.fileno(), header.schema_length, header.schema_offset))
    except BaseException as error:
        file.close()
        if isinstance(error, OSError) and not isinstance(error, FlyringError):
            raise failed("attach", error, path) from error
        raise


def once_there(noun: str, timeout: float | None, open_it: Callable[[], Made]) -> Made:
    """Calls ``open_it`` until the file exists, and returns its result. Raises TimedOutError, which names the file with
    ``noun``, after ``timeout`` seconds (None: no limit)."""
    give_up = time.monotonic() + check_timeout(timeout)
    nap = 0.001
    while True:
        try:
            return open_it()
        except NoSuchChannelError as error:
            left = give_up - time.monotonic()
            if left <= 0:
                raise TimedOutError(f"a {noun} at {error.path}") from None
        time.sleep(min(nap, left))
        nap = min(2 * nap, 0.016)


def opened_or_created(open_it: Callable[[], One], compare: Callable[[One], None], create: Callable[[], One]) -> One:
    """Opens the file and compares it, or creates it if there is none. Tries again if another process creates or removes
    it meanwhile."""
    while True:
        with contextlib.suppress(NoSuchChannelError):
            one = open_it()
            try:
                compare(one)
            except BaseException:
                one.close()
                raise
            return one
        with contextlib.suppress(ChannelExistsError):
            return create()
