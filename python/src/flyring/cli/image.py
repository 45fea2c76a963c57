# SPDX-License-Identifier: Apache-2.0
"""A channel's file as it is, valid or not: opened and mapped for reading only, never changed (spec/channel.md 3.3, 4).

Words are read through the mapping, because only aligned loads cannot tear while another process writes (section 1).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import layout
from .._core import File, Memory, crc32c
from ..errors import FlyringError, NoSuchChannelError, NotAChannelError
from ..header import Header
from ..stats import Look
from ..system import channel_path, check_folder, failed


@dataclass(frozen=True)
class Image:
    """The readable part of a file. ``problem``: the error that attaching would raise, or None.

    ``header`` is None if even the dimensions are invalid. ``memory`` is None if there is nothing to map. A truncated
    file is mapped up to its end; ``covers`` tells whether a range is there.
    """

    path: str
    file: File | None
    size: int
    page: bytes
    header: Header | None
    problem: FlyringError | None
    memory: Memory | None

    def covers(self, offset: int, length: int) -> bool:
        return self.memory is not None and offset >= 0 and offset + length <= self.memory.length

    def locked(self, at: int, length: int = 1) -> bool:
        """Returns whether a process holds a lock on these bytes. A read-only descriptor is enough."""
        return self.file is not None and self.file.is_locked(at, length)

    def control_locked(self) -> bool:
        return self.locked(layout.HEADER_LENGTH + layout.CONTROL_CONTROL_LOCK)

    def attached(self) -> bool:
        """Returns whether a process owns a slot, or changes one. A foreign end holds no lock, and counts as attached
        (6.15)."""
        header = self.header
        return header is not None and bool(header.foreign or self.locked(header.control_offset, header.control_length))

    def look(self) -> Look | None:
        """Returns the reader of the channel's Stats; None without a usable header."""
        if self.header is None or self.memory is None or self.file is None:
            return None
        return Look(self.header, self.memory, self.file)

    def another_boot(self) -> bool:
        """Returns whether the file was last written in an earlier boot, or on another machine (5.5)."""
        at = layout.HEADER_LENGTH + layout.CONTROL_BOOT_ID
        if self.memory is None or not self.covers(at, 16):
            return False
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return self.memory.read(at, 16).hex() != boot.replace("-", "")


@contextlib.contextmanager
def open_image(name: str) -> Iterator[Image]:
    """Opens a file for a ``with`` block. Raises NoSuchChannelError, AccessDeniedError, IoError or InvalidArgumentError;
    any other fault becomes the image's ``problem``."""
    path = channel_path(name)
    check_folder(path, create=False)
    try:
        file = File(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSuchChannelError(path) from error
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise failed("open", error, path) from error
        what = "it is a symbolic link" if error.errno == errno.ELOOP else "it is not a regular file"
        yield Image(path, None, 0, b"", None, NotAChannelError(path, what), None)
        return
    try:
        image = read_image(file, path)
        try:
            yield image
        finally:
            if image.memory is not None:
                image.memory.close()
    finally:
        file.close()


def read_image(file: File, path: str) -> Image:
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return Image(path, file, 0, b"", None, NotAChannelError(path, "it is not a regular file"), None)
        page = os.pread(file.fileno(), layout.HEADER_LENGTH, 0)
        header, problem = parse(page, status.st_size, path)
        length = min(status.st_size, header.sections_end) if header else 0
        memory = Memory(file, length, False, path) if length else None
    except OSError as error:
        raise error if isinstance(error, FlyringError) else failed("read", error, path) from error
    return Image(path, file, status.st_size, page, header, problem, memory)


def parse(page: bytes, size: int, path: str) -> tuple[Header | None, FlyringError | None]:
    """Returns the header, and the error in it. A header with a wrong length or checksum is still used if its fields are
    consistent."""
    try:
        return Header.parse(page, size, path), None
    except FlyringError as error:
        if len(page) < layout.HEADER_LENGTH:
            return None, error
        (length,) = struct.unpack_from("<q", page, layout.HEADER_FILE_LENGTH)
        crc = struct.pack("<I", crc32c(page[: layout.HEADER_CRC_LENGTH]))
        try:
            return Header.parse(page[: layout.HEADER_CRC] + crc, max(length, 0), path), error
        except FlyringError:
            return None, error
