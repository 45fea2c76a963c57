# SPDX-License-Identifier: Apache-2.0
"""Mappings between pages that nobody may touch, so that one byte read or written outside of a file ends the process.

The C core takes any buffer that begins at a page. ``install`` makes ``flyring.channel`` and the command map files so;
nothing in the package knows of it.
"""

from __future__ import annotations

import ctypes
import mmap as real
import os
from typing import Any

import flyring.channel
import flyring.cli.image

PAGE = 4096
GUARD = 1 << 20  # on both sides
NONE, FIXED, ANONYMOUS, NORESERVE = 0, 0x10, 0x20, 0x4000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Mapped:
    """What the package asks of an ``mmap.mmap``, for a mapping between guard pages."""

    def madvise(self, *ignored: int) -> None:
        """Populating is of no use here."""

    def close(self) -> None:
        """Everything, guards too, is unmapped: what is read later ends the process as well."""
        if not self.closed:
            self.closed = True
            libc.munmap(self.outer, self.outer_length)

    closed = False
    outer = 0
    outer_length = 0


TYPES: dict[int, Any] = {}  # length -> class; ctypes arrays export their memory as a buffer


def guarded(fd: int, length: int, flags: int, protection: int) -> Any:
    """As ``mmap.mmap``."""
    if not 0 < length <= os.fstat(fd).st_size:
        raise ValueError(f"a mapping of {length} bytes is not what is to be tested")
    outer = libc.mmap(None, length + 2 * GUARD, NONE, real.MAP_PRIVATE | ANONYMOUS | NORESERVE, -1, 0)
    inner = libc.mmap(outer + GUARD, length, protection, flags | FIXED, fd, 0)
    if inner != outer + GUARD:
        raise OSError(ctypes.get_errno(), "mmap")
    if length not in TYPES:
        TYPES[length] = type("Guarded", (Mapped, ctypes.c_char * length), {})
    mapping = TYPES[length].from_address(inner)
    mapping.outer, mapping.outer_length = outer, length + 2 * GUARD
    return mapping


class Module:
    """Stands for the module ``mmap`` in those that map files."""

    mmap = staticmethod(guarded)
    MAP_SHARED, PROT_READ, PROT_WRITE = real.MAP_SHARED, real.PROT_READ, real.PROT_WRITE


def install() -> None:
    flyring.channel.mmap = flyring.cli.image.mmap = Module  # type: ignore[attr-defined]
