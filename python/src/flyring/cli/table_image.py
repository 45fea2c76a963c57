# SPDX-License-Identifier: Apache-2.0
"""Opens and maps a table's file for reading only, and never changes it. Only header and control section are mapped, so
the cost is the same for a table of any size. Also works for a table that needs recovery."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .. import layout
from .._core import File, Memory
from .._identity import REAL
from ..errors import FlyringError, NoSuchChannelError, NotAChannelError
from ..system import channel_path, check_folder, failed, journal_path, table_path
from ..table_header import TABLE_MAGIC, TableHeader
from ..table_stats import TableStats
from .report import printable

SUFFIX = ".table"
MAPPED = layout.HEADER_LENGTH + layout.TABLE_CONTROL_LENGTH


@dataclass(frozen=True)
class TableImage:
    path: str
    file: File
    header: TableHeader
    memory: Memory
    boot: bytes

    def stats(self) -> TableStats:
        return TableStats.read(self.path, self.header, self.file, self.memory, self.boot)


@contextlib.contextmanager
def open_table(name: str) -> Iterator[TableImage]:
    """Opens a table for a ``with`` block. Raises the errors of ``Table.open``."""
    path = table_path(name)
    check_folder(path, create=False)
    try:
        file = File(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSuchChannelError(path) from error
        if error.errno == errno.ELOOP:
            raise NotAChannelError(path, "it is a symbolic link") from error
        raise failed("open", error, path) from error
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotAChannelError(path, "it is not a regular file")
        header = TableHeader.parse(os.pread(file.fileno(), layout.HEADER_LENGTH, 0), status.st_size, path)
        memory = Memory(file, MAPPED, False, path)
        try:
            yield TableImage(path, file, header, memory, REAL.this_boot().bytes)
        finally:
            memory.close()
    except OSError as error:
        raise error if isinstance(error, FlyringError) else failed("read", error, path) from error
    finally:
        file.close()


def is_table(path: str) -> bool:
    """Returns whether a file begins with the magic number of tables."""
    try:
        file = File(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.pread(file.fileno(), len(TABLE_MAGIC), 0) == TABLE_MAGIC
    except OSError:
        return False
    finally:
        file.close()


WORDS = {"info": "info", "check": "check", "rm": "rm", "tail": "watch", "publish": "load"}
"""From a command for channels to the verb of ``flyring table`` that does the same for tables."""


JOURNAL_WORDS = {
    "info": "journal info",
    "check": "journal check",
    "rm": "journal rm",
    "tail": "journal cat --follow",
    "publish": "replay",
}
"""From a command for channels to the command that does the same for journals."""


def hint(command: str, names: Iterable[str]) -> str:
    """Returns advice for the user if one of the names is a table's where a channel is needed, or the other way round;
    else ""."""
    for name in names:
        try:
            channel, table = channel_path(name), table_path(name)
        except FlyringError:
            continue
        if command == "table":
            if not os.path.exists(table) and os.path.exists(channel):
                return f"{printable(name)} is a channel: flyring info {printable(name)}"
        elif not os.path.exists(channel) and not os.path.exists(table) and os.path.isdir(journal_path(name)):
            verb = JOURNAL_WORDS.get(command)
            text = f"{verb} {printable(name)}" if verb else "journal --help"
            return f"{printable(name)} is a journal: flyring {text}"
        elif is_table(channel if os.path.exists(channel) else table):
            return table_hint(command, name)
    return ""


def table_hint(command: str, name: str) -> str:
    verb = WORDS.get(command)
    return f"{printable(name)} is a table: flyring table {f'{verb} {printable(name)}' if verb else '--help'}"
