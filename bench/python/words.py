# SPDX-License-Identifier: Apache-2.0
"""The page `words` in the sides' folder (PEER.md, jobs, burst and append): 64-bit words, a cache line each. Correct only on
x86, see memoryviews.py."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness import Setup

LENGTH, LINE = 4096, 8
SENT = 0  # the number of messages sent, over all slices
SLICES = LINE  # the number of slices all of whose messages or jobs were sent
FIRST = 2 * LINE  # at FIRST + k * LINE: the number of messages that consumer k has finished
BURST = 4096  # the number of messages for which there is room


def mapped(setup: Setup) -> memoryview:
    """Maps the page, which the first side makes."""
    fd = os.open(setup.path("words"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, LENGTH)
        return memoryview(mmap.mmap(fd, LENGTH, mmap.MAP_SHARED)).cast("Q")
    finally:
        os.close(fd)
