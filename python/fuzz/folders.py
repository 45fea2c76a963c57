# SPDX-License-Identifier: Apache-2.0
"""Folders of fuzzers in shared memory. They are named /dev/shm/NAME-PID-..., because fuzzers are often killed: the next
one removes what dead ones left."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def make(name: str) -> Path:
    """Makes a folder, and removes those of dead processes first."""
    for left in MEMORY.glob(f"{name}-*"):
        if (found := re.fullmatch(rf"{name}-(\d+)-.+", left.name)) and not lives(int(found[1])):
            shutil.rmtree(left, ignore_errors=True)  # another program may remove it, too
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir=MEMORY))
