# SPDX-License-Identifier: Apache-2.0
"""``flyring journal copy``: copies a journal, also a live one, up to its last check."""

from __future__ import annotations

import argparse
import os
import struct
import time
from contextlib import closing

from .. import layout
from .._core import JournalWalk
from ..errors import ChannelExistsError, DamagedError, FlyringError, InvalidArgumentError
from ..journal import Journal
from ..journal_file import CONTROL, CONTROL_FILE
from ..journal_seek import start_at
from ..journal_segment import open_segment
from ..system import failed, journal_path
from .report import print_json, printable, size_text

PIECE = 1 << 20


def copy(options: argparse.Namespace) -> int:
    """Runs the command. The copy has the same id, no writer and no consumer."""
    target = journal_path(options.path)
    with Journal.open(options.name, read_only=True, any_file_system=True) as one:
        began = time.monotonic()
        try:
            checked, count, copied = copy_to(one, target)
        except OSError as error:
            raise error if isinstance(error, FlyringError) else failed("write", error, target) from error
    with Journal.open(target, read_only=True, any_file_system=True) as there:
        messages = there.stats().messages
    if options.json:
        print_json({"path": target, "checked": checked, "messages": messages, "bytes": copied})
    else:
        seconds = max(time.monotonic() - began, 1e-9)
        print(f"{printable(target)}: {count} messages so far, {size_text(copied)} in {seconds:.2g} s, "
              f"up to position {checked}")  # fmt: skip
    return 0


def copy_to(one: Journal, target: str) -> tuple[int, int, int]:
    """Copies segments first, and the control file last: a journal exists when it has one."""
    files = one._files
    if not files.is_of_this_boot():
        raise InvalidArgumentError("name", f"{one.path} needs recovery: let a writer recover it, then copy it")
    os.makedirs(target, mode=0o700, exist_ok=True)
    if os.listdir(target):
        raise ChannelExistsError(target)
    trimmed, checked = files.trimmed, files.word(layout.JOURNAL_CONTROL_CHECKED)
    walk = JournalWalk(files.size)
    if not start_at(files, walk, checked):
        raise DamagedError(files.path, checked, files.published, -1)
    count = walk.count
    copied = 0
    for position in range(trimmed, checked + 1, files.size):
        copied += copy_segment(one, position, checked + layout.JOURNAL_CHECK_SIZE, target)
    sync_folder_at(target)
    page = bytearray(os.pread(files.file.fileno(), one.header.sections_end, 0))
    at = CONTROL + layout.JOURNAL_CONTROL_SLOT
    page[at : CONTROL + one.header.control_length] = bytes(CONTROL + one.header.control_length - at)
    end = checked + layout.JOURNAL_CHECK_SIZE
    last = checked // files.size * files.size
    put = struct.pack_into
    for offset, value in (
        (layout.JOURNAL_CONTROL_CLAIMED, end),
        (layout.JOURNAL_CONTROL_PUBLISHED, end),
        (layout.JOURNAL_CONTROL_MESSAGES, count),
        (layout.JOURNAL_CONTROL_CHECKED, checked),
        (layout.JOURNAL_CONTROL_READY, last + files.size),
        (layout.JOURNAL_CONTROL_SYNCED, checked),
        (layout.JOURNAL_CONTROL_TRIMMED, trimmed),
    ):
        put("<q", page, CONTROL + offset, value)
    for offset in (layout.JOURNAL_CONTROL_FAILED, layout.JOURNAL_CONTROL_SUCCESSOR,
                   layout.JOURNAL_CONTROL_DATA_ASLEEP, layout.JOURNAL_CONTROL_WORK_ASLEEP):  # fmt: skip
        put("<i", page, CONTROL + offset, 0)
    write_file(os.path.join(target, CONTROL_FILE), bytes(page), files.file.fileno(), one.header.file_length)
    sync_folder_at(target)
    return checked, count, copied


def write_file(path: str, head: bytes, source: int, length: int) -> None:
    """Writes a file and syncs it before it gets its name. Behind ``head`` it is as the source."""
    hidden = path + ".new"
    with open(hidden, "xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(head)
        rest = length - len(head)
        while rest > 0 and (piece := os.pread(source, min(PIECE, rest), length - rest)):
            file.write(piece)
            rest -= len(piece)
        file.truncate(length)
        file.flush()
        os.fsync(file.fileno())
    os.rename(hidden, path)


def copy_segment(one: Journal, position: int, end: int, target: str) -> int:
    """Copies a segment up to a position. What lies behind it stays zero."""
    files = one._files
    source = open_segment(files, position)
    if source is None:
        if files.trimmed > position:
            raise InvalidArgumentError("name", f"{one.path} was trimmed meanwhile: copy it again")
        return 0  # a cut leads over it
    with closing(source):
        whole = layout.HEADER_LENGTH + files.size
        used = min(whole, layout.HEADER_LENGTH + end - position)
        path = os.path.join(target, os.path.basename(files.segment_path(position)))
        with open(path, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            os.posix_fallocate(file.fileno(), 0, whole)
            at = 0
            while at < used and (piece := os.pread(source.fileno(), min(PIECE, used - at), at)):
                os.pwrite(file.fileno(), piece, at)
                at += len(piece)
            os.fsync(file.fileno())
    return used


def sync_folder_at(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
