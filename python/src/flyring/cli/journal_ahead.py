# SPDX-License-Identifier: Apache-2.0
"""Reads a journal's files ahead of a walk over them, so that the disk is at work while checksums are computed."""

from __future__ import annotations

import mmap
import os
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from ..journal_file import JournalFiles

PIECE = 1 << 20
AHEAD = 32 << 20  # bytes: what was read must still be in the page cache when the walk comes
NAP = 0.001  # s: with the disk so far ahead


class ReadAhead(threading.Thread):
    """Reads what lies before ``end`` into the page cache, up to AHEAD bytes in front of the walk. It changes nothing,
    and the walk tells of errors."""

    def __init__(self, files: JournalFiles, begin: int, end: int) -> None:
        super().__init__(name="read-ahead", daemon=True)
        self.files, self.begin, self.until = files, begin, end
        self.done = 0  # bytes, by the walk
        self.over = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over = True
        self.join()

    def progress(self, done: int, _: int) -> None:
        self.done = done

    def run(self) -> None:
        size = self.files.size
        with mmap.mmap(-1, PIECE) as buffer:
            for segment in range(self.begin, self.until, size):
                with suppress(OSError):
                    self.read(segment, min(size, self.until - segment), buffer)
                if self.over:
                    return

    def read(self, segment: int, length: int, buffer: mmap.mmap) -> None:
        """Reads a segment's file. OSError."""
        file = os.open(self.files.segment_path(segment), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            for at in range(0, length, PIECE):
                while segment + at - self.begin > self.done + AHEAD and not self.over:
                    time.sleep(NAP)
                if self.over or os.preadv(file, [buffer], at) == 0:
                    return
        finally:
            os.close(file)
