# SPDX-License-Identifier: Apache-2.0
"""What /proc says about processes: their states and containers."""

from __future__ import annotations

import re

STATES = {"R": "running", "S": "sleeping", "D": "disk", "T": "STOPPED", "t": "traced", "Z": "zombie", "X": "dead"}
CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


class Processes:
    """The states of processes. Reads one file of each process for each look, however many slots it owns. The pid of a
    slot is in its owner's pid namespace, so here it may be that of another process."""

    def __init__(self) -> None:
        self._now: dict[int, tuple[str, int]] = {}
        self._before: dict[int, tuple[str, int]] = {}
        self._containers: dict[int, str] = {}

    def begin(self) -> None:
        """Begins a new look."""
        self._before, self._now = self._now, {}
        self._containers = {pid: name for pid, name in self._containers.items() if pid in self._before}

    def state(self, pid: int) -> str:
        """Returns "running", "sleeping", "STOPPED" and so on; "?" if there is no such process, or it may not be seen. A
        process that has used processor time since the last look is running."""
        if pid not in self._now:
            self._now[pid] = read(pid)
        letter, ticks = self._now[pid]
        used = pid in self._before and ticks > self._before[pid][1]
        return "running" if used and letter == "S" else STATES.get(letter, letter or "?")

    def container(self, pid: int) -> str:
        """Returns the first 12 digits of the container's id; "" if it is not known."""
        if pid not in self._containers:
            self._containers[pid] = container_of(pid)
        return self._containers[pid]


def read(pid: int) -> tuple[str, int]:
    """Returns the letter of the process's state, and its processor time in ticks; "" if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return words[0].decode("ascii"), int(words[11]) + int(words[12])
    except (OSError, IndexError, ValueError):
        return "", 0


def container_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="ascii", errors="replace") as file:
            found = CONTAINER.search(file.read())
    except OSError:
        return ""
    return found[1] if found else ""
