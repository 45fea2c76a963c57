# SPDX-License-Identifier: Apache-2.0
"""The segments of a journal: finding, opening, preparing and removing them (spec/journal.md 2.3, 4)."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from dataclasses import dataclass

from . import layout
from ._core import File, JournalWalk, Memory, crc32c
from .errors import ChannelExistsError, IoError, NoSpaceError
from .journal_file import JournalFiles, sync_failed
from .system import control_lock, create_file, failed, new_lock, sync_folder

SEGMENT_MAGIC = bytes.fromhex(layout.JOURNAL_SEGMENT_MAGIC_HEX)
TRIES = 100  # of a name that other processes take and remove

# The results of a JournalWalk's scan (core/journal.h).
RIGHT, LIMIT, NOTHING, END, WRONG, CUT = range(6)
EVERYTHING = 2**63 - 1  # a limit of a walk


def pack_header(files: JournalFiles, position: int) -> bytes:
    page = bytearray(layout.HEADER_LENGTH)
    page[: len(SEGMENT_MAGIC)] = SEGMENT_MAGIC
    put = struct.pack_into
    put("<HHi", page, layout.JOURNAL_SEGMENT_MAJOR, layout.MAJOR, layout.MINOR, layout.HEADER_LENGTH)
    at = layout.JOURNAL_SEGMENT_JOURNAL_ID
    page[at : at + 16] = files.header.journal_id.bytes
    put("<qqq", page, layout.JOURNAL_SEGMENT_POSITION, position, files.size, files.identity.creation_time())
    put("<I", page, layout.JOURNAL_SEGMENT_CRC, crc32c(page[: layout.JOURNAL_SEGMENT_CRC]))
    return bytes(page)


def is_whole(files: JournalFiles, position: int, file: File) -> bool:
    """Whether this file is the journal's segment at this position."""
    if os.fstat(file.fileno()).st_size != layout.HEADER_LENGTH + files.size:
        return False
    page = os.pread(file.fileno(), layout.HEADER_LENGTH, 0)
    if len(page) != layout.HEADER_LENGTH or page[:8] != SEGMENT_MAGIC:
        return False
    major, _, length = struct.unpack_from("<HHi", page, layout.JOURNAL_SEGMENT_MAJOR)
    at, size = struct.unpack_from("<qq", page, layout.JOURNAL_SEGMENT_POSITION)
    journal_id = page[layout.JOURNAL_SEGMENT_JOURNAL_ID : layout.JOURNAL_SEGMENT_JOURNAL_ID + 16]
    (crc,) = struct.unpack_from("<I", page, layout.JOURNAL_SEGMENT_CRC)
    valid = (major, length, at, size) == (layout.MAJOR, layout.HEADER_LENGTH, position, files.size)
    return valid and journal_id == files.header.journal_id.bytes and crc == crc32c(page[: layout.JOURNAL_SEGMENT_CRC])


def open_segment(files: JournalFiles, position: int, writable: bool = False) -> File | None:
    """Opens a whole segment; None if there is none. AccessDeniedError, IoError."""
    access = os.O_RDWR if writable else os.O_RDONLY
    path = files.segment_path(position)
    try:
        file = File(path, access | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO):
            return None
        raise failed("open", error, path) from error
    try:
        if is_whole(files, position, file):
            return file
    except OSError as error:
        file.close()
        raise failed("read", error, path) from error
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def map_segment(files: JournalFiles, position: int, writable: bool = False) -> Memory | None:
    """Maps a whole segment; None if there is none. A file of another size is never mapped."""
    file = open_segment(files, position, writable)
    if file is None:
        return None
    try:
        return Memory(file, layout.HEADER_LENGTH + files.size, writable, files.path)
    except OSError as error:
        raise failed("mmap", error, files.segment_path(position)) from error
    finally:
        file.close()


def exists(files: JournalFiles, position: int) -> bool:
    file = open_segment(files, position)
    if file is None:
        return False
    file.close()
    return True


def highest_whole(files: JournalFiles, most: int = EVERYTHING) -> int:
    """The position of the highest whole segment at or below ``most``; -1: there is none."""
    return next((p for p in reversed(files.positions()) if p <= most and exists(files, p)), -1)


@dataclass(frozen=True)
class First:
    """The first record of a segment."""

    count: int
    time: int
    next: int
    """Of a cut; 0: it is a check."""


def first_record(files: JournalFiles, position: int, walk: JournalWalk | None = None) -> First | None:
    """Reads the first record of a whole segment; None if that is no right check or cut. IoError."""
    file = open_segment(files, position)
    if file is None:
        return None
    walk = walk or JournalWalk(files.size)
    try:
        walk.use(file, position)
        walk.begin(position, 0, 0, True)
        found = walk.scan(position + layout.JOURNAL_CHECK_SIZE)
        if found == RIGHT:
            return First(walk.check_count, walk.check_time, 0)
        return First(walk.cut_count, 0, walk.cut_next) if found == CUT else None
    except OSError as error:
        raise failed("read", error, files.segment_path(position)) from error
    finally:
        walk.forget()
        file.close()


# Preparing


def prepare(files: JournalFiles, position: int, first: bytes = b"", locked: bool = False) -> None:
    """Makes a segment ready: when this returns, its file, name and size are on the disk (spec/journal.md 4).
    ``first``: the bytes of its first record. ``locked``: the caller has the control lock, or is alone.

    NoSpaceError, IoError, AccessDeniedError; nothing is changed then.
    """
    for _ in range(TRIES):
        file = open_segment(files, position, writable=True)
        if file is not None:  # its maker may have been killed before it synced
            sync_found(files, position, file)
            break
        try:
            if not os.path.lexists(files.segment_path(position)):
                make_segment(files, position, first, replace=False)
            elif locked:
                make_segment(files, position, first, replace=True)
            else:
                replace_stray(files, position, first)
            break
        except ChannelExistsError:
            continue  # another process made it meanwhile
    else:
        raise IoError("link", errno.EEXIST, files.segment_path(position))
    files.grow(layout.JOURNAL_CONTROL_READY, position + files.size)


def replace_stray(files: JournalFiles, position: int, first: bytes) -> None:
    """Replaces a file that is not the journal's segment. Under the control lock, so that no process replaces a segment
    which another one has just made."""
    lock = new_lock(files.file, files.path)
    try:
        with control_lock(lock, files.path):
            if not exists(files, position):
                make_segment(files, position, first, replace=True)
    finally:
        lock.close()


def make_segment(files: JournalFiles, position: int, first: bytes, replace: bool) -> None:
    path, made = files.segment_path(position), []

    def make(file: File) -> None:
        os.pwrite(file.fileno(), pack_header(files, position), 0)
        if first:
            os.pwrite(file.fileno(), first, layout.HEADER_LENGTH)
        made.append(file)

    try:
        create_file(path, layout.HEADER_LENGTH + files.size, files.mode, True, replace, make, synced=True)
    except NoSpaceError as error:
        if first:  # of a new journal, or of a recovery: a trim cannot help
            raise
        raise NoSpaceError(files.path, error.needed, error.free, next_segment=True) from error
    finally:
        for file in made:
            file.close()


def sync_found(files: JournalFiles, position: int, file: File) -> None:
    """Syncs a segment that another process has made. If that fails it loses its name, because a second sync would prove
    nothing. IoError."""
    path = files.segment_path(position)
    try:
        os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise sync_failed("fsync", error, path) from error
    finally:
        file.close()
    sync_names(files)


def sync_names(files: JournalFiles) -> None:
    try:
        sync_folder(files.path)
    except OSError as error:
        raise sync_failed("fsync", error, files.path) from error


def remove_segments(files: JournalFiles, below: int) -> int:
    """Unlinks the segments below a position, the lowest first. Returns how many bytes became free."""
    freed = 0
    for position in files.positions():
        if position >= below:
            break
        freed += remove_segment(files, position)
    return freed


def remove_segment(files: JournalFiles, position: int) -> int:
    path = files.segment_path(position)
    try:
        os.unlink(path)
        return layout.HEADER_LENGTH + files.size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise failed("unlink", error, path) from error


def make_first_segment(files: JournalFiles) -> None:
    """Makes segment 0 of a new journal with its first check (spec/journal.md 2, create)."""
    prepare(files, 0, JournalWalk.make_check(0, 0, 0), locked=True)
