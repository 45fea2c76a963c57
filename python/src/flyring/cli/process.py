# SPDX-License-Identifier: Apache-2.0
"""What /proc says about a process: its state and its container."""

from __future__ import annotations

import os
import re

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "disk",
    "T": "STOPPED",
    "t": "traced",
    "Z": "zombie",
    "I": "idle",
    "X": "dead",
}
CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


def state_of(pid: int) -> str:
    """Returns "running", "sleeping", "STOPPED" and so on; "?" if this process may not see it.

    A process counts as running if one of its threads does. The pid is in the owner's pid namespace, so it may be that
    of another process here.
    """
    try:
        letters = [letter(f"/proc/{pid}/task/{thread}/stat") for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return "?"
    letters = [one for one in letters if one]
    for first in ("T", "t", "R", "D"):
        if first in letters:
            return STATES[first]
    return STATES.get(letters[0], letters[0]) if letters else "?"


def letter(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii")
    except (OSError, IndexError):
        return ""  # the thread has ended


def container_of(pid: int) -> str:
    """Returns the first 12 digits of the container's id; "" if the process is in none, or in this one."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="ascii", errors="replace") as file:
            found = CONTAINER.search(file.read())
    except OSError:
        return ""
    return found[1] if found else ""
