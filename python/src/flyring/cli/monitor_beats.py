# SPDX-License-Identifier: Apache-2.0
"""The heartbeats of a channel, as ``flyring monitor`` watches them: intervals, and verdicts on the threads that miss
their promise. The time in which the monitor itself did not run counts for no verdict."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from .. import layout
from ..errors import FlyringError
from ..stats import HeartbeatStats, Look, Stats
from ..system import channel_path
from .curve import text
from .image import Image, open_image
from .monitor_causes import GONE, HALTED, Process, happened, process, steals, stolen
from .monitor_states import States
from .top_model import title

STATS = 1_000_000_000
"""The time between two snapshots of a channel, in ns. It is long, because a snapshot takes cache lines of the rings
from the cores of their users."""
SLACK = 2
"""A heartbeat is late when its promise has passed by this many looks of the monitor."""


@dataclass
class Own:
    """What the monitor knows about itself: the total time in which it should have looked and did not, in ns."""

    missed: int = 0
    gaps: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=100))
    """The last intervals (begin, end) in which it did not run."""

    def add(self, last: int, now: int, tick: float, was_stopped: bool = False) -> int:
        """Takes the time between two glances, which should be ``tick`` seconds. Returns by how much it was too long."""
        gap = now - last - round(tick * 1e9)
        if gap > tick * 1e9 or was_stopped:
            self.missed += max(gap, 0)
            self.gaps.append((last, now))
        return max(gap, 0)


@dataclass
class Beating:
    """A heartbeat, and what is known since its last beat."""

    stats: HeartbeatStats
    beats: int
    last: int
    """When the number of beats was last seen to grow, in ns of CLOCK_MONOTONIC."""
    missed: int
    """``Own.missed`` at that time."""
    seen: int
    """The number of beats at the last call of ``look``."""
    process: Process
    steals: dict[int, int]
    verdict: str = ""
    """"": it beats. Else ``tardy``, ``stopped`` or ``dead``."""
    began: bool = False
    """Whether a beat was seen; the interval before the first one is not known."""

    def quiet(self, now: int, own: Own) -> int:
        """Returns for how long it did not beat while the monitor looked, in ns."""
        return now - self.last - (own.missed - self.missed)


@dataclass
class Sinks:
    """Where the measured values and the lines go."""

    record: Callable[[str, int], object]
    line: Callable[[str, str, float], object]
    threshold: int
    hiccups: Callable[[int, int], Iterable[str]]
    """Says which cores woke late in this time."""


@dataclass
class Watched:
    """A channel. It is opened for reading only, and again when its name has got another file."""

    name: str
    own: Own
    tick: int
    sinks: Sinks
    stats: Stats | None = None
    beating: dict[int, Beating] = field(default_factory=dict)
    _image: Image | None = None
    _look: Look | None = None
    _file: tuple[int, int] = (0, 0)
    _due: int = 0
    """When the next snapshot is due."""
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self.path = channel_path(self.name)
        self.title = title(self.path)
        self.states = States(self.title, self.sinks.line, lambda *when: list(self.sinks.hiccups(*when)),
                             self.sinks.threshold)  # fmt: skip
        self.open()

    def open(self) -> None:
        """Raises FlyringError if there is no valid channel."""
        self.close()
        image = self._open.enter_context(open_image(self.path))
        if image.problem is not None:
            raise image.problem
        status = os.fstat(image.file.fileno()) if image.file else os.stat(self.path)
        self._file = status.st_dev, status.st_ino
        self._image, self._look = image, image.look()

    def close(self) -> None:
        self._look = self.stats = None
        self._due = 0
        self._open.close()
        self.beating.clear()

    def pids(self) -> Iterator[tuple[int, str]]:
        """Yields (pid, name) of heartbeats and of live owners."""
        for one in self.beating.values():
            yield one.stats.pid, one.stats.name
        if self.stats is not None:
            for slot in (*self.stats.publishers, *self.stats.subscribers):
                if slot.state == "live":
                    yield slot.pid, slot.name

    def glance(self, now: int) -> None:
        """Reads the counters of the known heartbeats. Cheap: this comes often."""
        if self._look is None:
            return
        for one in self.beating.values():
            beats = self._look.counter_value(one.stats.id)
            if beats != one.beats:
                self._grew(one, beats, now)
            elif not one.verdict and 0 < one.stats.interval < one.quiet(now, self.own) - SLACK * self.tick:
                self._judge(one, now, process(one.stats.pid))

    def look(self, now: int) -> None:
        """Looks at the processes of the heartbeats, and once a second at the channel's stats."""
        if not self._still_there() or self._look is None:
            return
        stolen_now = steals()
        if now >= self._due:
            self._due = now + STATS
            self.stats = self._look.stats(self.path)
            self.states.look(self.stats, now)
            self._find(self.stats.heartbeats, now, stolen_now)
        for one in self.beating.values():
            at = process(one.stats.pid)
            if one.beats != one.seen:
                one.seen, one.process, one.steals = one.beats, at, stolen_now
            elif one.quiet(now, self.own) > SLACK * self.tick and self._verdict(one, at) != "tardy":
                self._judge(one, now, at)

    def _find(self, heartbeats: Iterable[HeartbeatStats], now: int, stolen_now: dict[int, int]) -> None:
        """Begins to watch the heartbeats that have come, and ends with those that have gone."""
        found = {one.id: one for one in heartbeats}
        for number in [k for k, one in self.beating.items() if not same(found.get(k), one.stats)]:
            del self.beating[number]
        for number, one in found.items():
            if number not in self.beating:
                at = process(one.pid)
                known = Beating(one, one.beats, now, self.own.missed, one.beats, at, stolen_now)
                self.beating[number] = known
                if self._gone(known, at) is not None:  # it died before the monitor came
                    self._judge(known, now, at)

    def _still_there(self) -> bool:
        """Notices that the channel's name was removed, or has another file now."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
            if (status.st_dev, status.st_ino) == self._file and self._look is not None:
                return True
            there = self._owners_now()
            self.open()
        except (FlyringError, OSError):
            if self._look is not None:
                self.sinks.line(f"channel {self.title}", f"GONE {self.title}: the channel has no valid file now", 0)
                self.states.end(time.monotonic_ns())
            self.close()
            self._file = (0, 0)
            return False
        self.states.end(time.monotonic_ns())
        who = f"; the old one is still open in {', '.join(there)}" if there else ""
        self.sinks.line(f"channel {self.title}", f"REPLACED {self.title}: another channel has the name now{who}", 0)
        return True

    def _owners_now(self) -> list[str]:
        """Says which processes own a slot of the file that is open here."""
        if self._look is None:
            return []
        stats = self._look.stats(self.path)
        owners = {slot.pid: slot.name for slot in (*stats.publishers, *stats.subscribers) if slot.state == "live"}
        return [f"{name or 'a process'} (pid {pid})" for pid, name in owners.items()]

    def _grew(self, one: Beating, beats: int, now: int) -> None:
        interval, quiet = now - one.last, one.quiet(now, self.own)
        if one.began and self.own.missed == one.missed:  # else the monitor did not see the whole interval
            self.sinks.record(f"beat.{self.title}.{one.stats.name}", interval)
        who = self._who(one)
        if one.verdict:
            self.sinks.line(f"{who} again", f"BEATS {who} again, after {text(quiet)}; it was {one.verdict}", quiet)
        elif one.began and quiet > max(self.sinks.threshold, one.stats.interval):
            why = self._why(one, now, process(one.stats.pid))
            self.sinks.line(f"{who} interval", f"LATE {who}: {text(quiet)} between two beats; {why}", quiet)
        one.beats, one.last, one.missed, one.verdict, one.began = beats, now, self.own.missed, "", True

    def _judge(self, one: Beating, now: int, at: Process) -> None:
        verdict = self._verdict(one, at)
        if verdict == one.verdict:
            return
        one.verdict = verdict
        quiet = one.quiet(now, self.own)
        who = self._who(one)
        promise = f", promised {text(one.stats.interval)}" if one.stats.interval > 0 else ""
        head = f"{verdict.upper()} {who}: no beat for {text(quiet)}{promise}"
        reason = self._gone(one, at) if verdict == "dead" else self._why(one, now, at)
        self.sinks.line(f"{who} {verdict}", f"{head}; {reason}", quiet)

    def _verdict(self, one: Beating, at: Process) -> str:
        if self._gone(one, at) is not None:
            return "dead"
        return "stopped" if at.letter in HALTED else "tardy"

    def _gone(self, one: Beating, at: Process) -> str | None:
        """Returns why the process will not beat again; None if it may. A slot that it owns is locked in the kernel, and
        so proves that it lives, also in another pid namespace."""
        if self._owns(one.stats.pid):
            return None
        if at.letter in GONE:
            return "it ended, and its parent has not noticed" if at.letter else "there is no such process"
        if at.started > one.stats.started_at + 1_000_000_000 and one.stats.started_at > 0:
            return "another process has its pid now"
        return None

    def _owns(self, pid: int) -> bool:
        """Returns whether the process owns a slot, by the slot's lock now."""
        if self.stats is None or self._image is None or self._image.header is None:
            return False
        header = self._image.header
        at = [header.publisher_slot(one.slot) for one in self.stats.publishers if one.pid == pid]
        at += [header.subscriber_slot(one.slot) for one in self.stats.subscribers if one.pid == pid]
        return any(self._image.locked(slot + layout.CONTROL_SLOT_LOCK) for slot in at)

    def _why(self, one: Beating, now: int, at: Process) -> str:
        found = [f"the process is {at.state}" if at.letter else "the process cannot be seen here"]
        found += happened(one.process, at)
        found += stolen(one.steals, steals())
        found += self.sinks.hiccups(one.last, now)
        return ", ".join(found)

    def _who(self, one: Beating) -> str:
        return f"{one.stats.name} of {self.title} (pid {one.stats.pid})"


def same(one: HeartbeatStats | None, other: HeartbeatStats) -> bool:
    return one is not None and (one.name, one.pid, one.started_at) == (other.name, other.pid, other.started_at)


class HasPids(Protocol):
    """A channel or a mesh that is watched."""

    def pids(self) -> Iterator[tuple[int, str]]:
        """Yields (pid, name) of its processes."""


def processes(channels: Iterable[HasPids]) -> Iterator[tuple[str, Process]]:
    """Yields the processes of heartbeats and of owners, with their names."""
    for pid, name in {pid: name for channel in channels for pid, name in channel.pids()}.items():
        if pid > 0:
            yield f"{name or 'a process'} (pid {pid})", process(pid)


def halted(channels: Iterable[HasPids]) -> list[str]:
    """Says which processes of the channels are stopped now."""
    return [f"{who} was {at.state}" for who, at in processes(channels) if at.letter in HALTED]


def running(channels: Iterable[HasPids], core: int) -> list[str]:
    """Says which processes of the channels run on this core now, and do not give way to others."""
    found = [who for who, at in processes(channels) if at.letter == "R" and at.core == core and not at.gives_way]
    return [f"{who} ran on it" for who in found]
