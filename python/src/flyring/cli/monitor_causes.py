# SPDX-License-Identifier: Apache-2.0
"""What /proc says about the time of an outlier: the state of a process, its core, page faults, its wait for a core, and
the time that the machine below took away (steal)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from .curve import text
from .process import STATES

TICK = os.sysconf("SC_CLK_TCK")
GONE = ("", "Z", "X")
"""The letters of processes that will not run again; "": there is none."""
HALTED = ("T", "t")


@dataclass(frozen=True)
class Process:
    """A process at one moment. ``letter`` is "" if there is none, or it may not be seen."""

    letter: str = ""
    core: int = -1
    minor: int = 0
    major: int = 0
    used: int = 0
    """Processor time, in ticks."""
    delay: int = 0
    """For how long its threads have waited for a core, in ns."""
    started: int = 0
    """When it was started, in ns since 1970."""
    gives_way: bool = False
    """It has the policy SCHED_IDLE, so it holds no core against another process."""

    @property
    def state(self) -> str:
        return STATES.get(self.letter, self.letter)


def process(pid: int) -> Process:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return Process(
            words[0].decode("ascii"),
            int(words[36]),
            int(words[7]),
            int(words[9]),
            int(words[11]) + int(words[12]),
            sum(run_delay(pid, task) for task in os.listdir(f"/proc/{pid}/task")),
            boot_time() + int(words[19]) * (1_000_000_000 // TICK),
            int(words[38]) == os.SCHED_IDLE,
        )
    except (OSError, IndexError, ValueError):
        return Process()


def boot_time() -> int:
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def run_delay(pid: int, task: str | None = None) -> int:
    """Returns for how long the process, or one of its threads, has been ready without running, in ns; 0: not known."""
    try:
        with open(f"/proc/{pid}/task/{task or pid}/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def steals() -> dict[int, int]:
    """Returns {core: time that the machine below took away, in ns}; {} if it may not be read."""
    found = {}
    try:
        with open("/proc/stat", "rb") as file:
            for line in file:
                words = line.split()
                if words and words[0].startswith(b"cpu") and words[0] != b"cpu":
                    found[int(words[0][3:])] = int(words[8]) * (1_000_000_000 // TICK)
    except (OSError, IndexError, ValueError):
        return {}
    return found


def happened(before: Process, now: Process) -> list[str]:
    """Says what happened to a process between two moments."""
    if not before.letter or not now.letter:
        return []
    found = [f"on core {now.core}" if now.core == before.core else f"moved from core {before.core} to {now.core}"]
    if now.delay > before.delay:
        found.append(f"waited {text(now.delay - before.delay)} for a core")
    for kind, count in (("minor", now.minor - before.minor), ("major", now.major - before.major)):
        if count > 0:
            found.append(f"{count} {kind} page fault{'s' * (count != 1)}")
    if now.used == before.used:
        found.append("used no processor time")
    return found


def stolen(before: dict[int, int], now: dict[int, int], cores: Iterable[int] | None = None) -> list[str]:
    """Says how much time the machine below took away from these cores, or from all."""
    chosen = now if cores is None else cores
    found = [(core, now.get(core, 0) - before.get(core, 0)) for core in chosen if core in before]
    return [f"steal {text(much)} on core {core}" for core, much in found if much > 0]
