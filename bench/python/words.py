# SPDX-License-Identifier: Apache-2.0
"""The page `words` of the sides' folder (PEER.md, jobs and burst): 64-bit words, a cache line each. Right on x86 only,
as memoryviews.py says."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness import Setup

LENGTH, LINE = 4096, 8
SENT = 0  # messages that are sent, of all slices
SLICES = LINE  # slices all of whose jobs are sent
FIRST = 2 * LINE  # of consumer k: FIRST + k * LINE, the messages that it is done with
BURST = 4096  # messages for which there is room


def mapped(setup: Setup) -> memoryview:
    """The first side makes it."""
    fd = os.open(setup.path("words"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, LENGTH)
        return memoryview(mmap.mmap(fd, LENGTH, mmap.MAP_SHARED)).cast("Q")
    finally:
        os.close(fd)
