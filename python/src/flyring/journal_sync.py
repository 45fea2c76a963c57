# SPDX-License-Identifier: Apache-2.0
"""Syncs of a journal, and what follows one that failed (spec/journal.md 5)."""

from __future__ import annotations

import errno
import os

from . import layout
from .errors import CorruptJournalError, IoError
from .journal_file import CONTROL, SLOT, JournalFiles, sync_failed
from .journal_segment import open_segment

CHUNK = 1 << 20


def make_durable(files: JournalFiles, by_writer: bool = False) -> bool:
    """Syncs all segments from that of ``synced`` to that of the last check, and raises ``synced`` (sync 2 to 4).
    Returns whether it did: after a failed sync it does not, unless the next writer does it (``by_writer``).

    IoError if a sync fails: then the writer has lost its slot, whichever process it is. IoError, too, if a segment was
    removed by hand: ``synced`` stays, and the writer goes on.
    """
    if files.failed and not by_writer:
        return False
    last = files.word(layout.JOURNAL_CONTROL_CHECKED)
    first = files.synced
    if first < 0 or last < 0:
        raise CorruptJournalError(files.path, first, f"synced is {first} and checked {last}, which cannot be")
    if last <= first and not by_writer:
        return True
    position = files.segment_of(first)
    while position <= last:
        if sync_segment(files, position):
            position += files.size
        else:
            # Another process may have synced it, and a trim removed it. Loaded after it was not found.
            synced = files.segment_of(files.synced)
            if synced <= position:
                raise IoError("open", errno.ENOENT, files.segment_path(position))
            position = synced
    if files.failed and not by_writer:  # another process's sync: the kernel tells each error once
        return False
    files.grow(layout.JOURNAL_CONTROL_SYNCED, last)
    files.memory.store64_plain(CONTROL + layout.JOURNAL_CONTROL_SYNCED_AT, files.identity.wall_clock())
    files.wake_readers()  # those that read what is durable
    return True


def segments_between(files: JournalFiles, first: int, end: int) -> list[int]:
    """The segments there are from that of ``first`` to that before ``end``."""
    return [position for position in files.positions() if files.segment_of(first) <= position < end]


def sync_segment(files: JournalFiles, position: int) -> bool:
    """Syncs a segment; False if it is not there. The sync is never tried again: the kernel may mark pages as clean that
    it could not write. IoError."""
    file = open_segment(files, position, writable=True)
    if file is None:
        return False
    try:
        os.fdatasync(file.fileno())
    except OSError as error:
        note_failed(files)
        raise sync_failed("fdatasync", error, files.path) from error
    finally:
        file.close()
    return True


def note_failed(files: JournalFiles) -> None:
    """Ends the writer, whichever process it is."""
    files.memory.store32(CONTROL + layout.JOURNAL_CONTROL_FAILED, 1)
    files.memory.add64(SLOT + layout.PUBLISHER_SLOT_EPOCH, 1)


def write_again(files: JournalFiles, first: int, end: int) -> None:
    """Writes all bytes from ``first`` to ``end`` once more as they are, because the kernel may have dropped them from
    its list of what it has to write. IoError."""
    for segment in segments_between(files, first, end):
        position, until = max(first, segment), min(end, segment + files.size)
        file = open_segment(files, segment, writable=True)
        try:
            while file is not None and position < until:
                at = layout.HEADER_LENGTH + position - segment
                data = os.pread(file.fileno(), min(CHUNK, until - position), at)
                if not data:
                    break
                position += os.pwrite(file.fileno(), data, at)
        except OSError as error:
            raise sync_failed("pwrite", error, files.segment_path(segment)) from error
        finally:
            if file is not None:
                file.close()
