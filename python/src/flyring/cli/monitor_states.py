# SPDX-License-Identifier: Apache-2.0
"""The states of docs/troubleshooting.md, as ``flyring monitor`` tells them: a line when one begins, with what it
coincided with, and a line when it ends. What is a state, ``top`` and the monitor decide alike (top_model.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..stats import PublisherStats, Stats, SubscriberStats
from .curve import text
from .monitor_causes import GONE, Process, happened, process, steals, stolen
from .process import Processes
from .report import size_text
from .top_model import Seen, compare, owner_text, rate_text, rows_of
from .top_row import Row

STATES = ("BLOCKED", "FULL", "HUNG", "STOPPED", "DEAD", "NO OWNER", "NO READERS", "LAPPED", "REPLACED", "REMOVED")
Key = tuple[str, str, int, int]
"""State, role, slot and pid."""


@dataclass
class States:
    """The states of one channel between two looks. ``line`` takes a kind, a line, and how long the state has lasted."""

    title: str
    line: Callable[[str, str, float], object]
    causes: Callable[[int, int], list[str]]
    """Says what happened to the machine in this time."""
    shortest: int
    """A publisher that was blocked for a shorter time, in ns, is no state: it is back-pressure at work."""
    _seen: Seen | None = None
    _at: int = 0
    _now: dict[Key, tuple[int, str]] = field(default_factory=dict)
    """With when it began, and whose it is."""
    _owners: dict[int, Process] = field(default_factory=dict)
    _steals: dict[int, int] = field(default_factory=dict)
    _processes: Processes = field(default_factory=Processes)

    def look(self, stats: Stats, now: int) -> None:
        """``now``: CLOCK_MONOTONIC in ns."""
        self._processes.begin()
        seen, _ = compare(self._seen, stats, now / 1e9)
        owners = {pid: process(pid) for pid in live(stats)}
        found = {}
        for row in rows_of(self.title, seen, self._processes):
            for state in row.states:
                if state not in ("BLOCKED", "FULL") or blocked_for(stats, state, row.slot) >= self.shortest:
                    found[state, row.role, row.slot, row.pid] = row
        for key in self._now.keys() - found.keys():
            self._ended(key, now)
        for key, row in found.items():
            if key not in self._now:
                who = f"{row.name or f'{row.role} {row.slot}'} of {self.title}"
                self._now[key] = now, f"{who} (pid {row.pid})" if row.pid else who
                self._began(key, row, seen, owners, now)
        self._seen, self._at, self._owners, self._steals = seen, now, owners, steals()

    def end(self, now: int) -> None:
        """The channel has no valid file now, or another one."""
        for key in list(self._now):
            self._ended(key, now)
        self._seen = None

    def _began(self, key: Key, row: Row, seen: Seen, owners: dict[int, Process], now: int) -> None:
        state, who = key[0], self._now[key][1]
        lasted, detail = self._detail(state, row, seen)
        about = self._holders(row, seen.stats) if state == "BLOCKED" else [(row.pid, "the process")]
        why = [reason for pid, name in about for reason in self._why(pid, name, owners)]
        why += stolen(self._steals, steals()) if self._steals else []
        why += self.causes(self._at or now - lasted, now)
        self.line(f"{state} {who}", f"{state} {who}: {detail}; {', '.join(why) or 'no cause is visible'}", lasted)

    def _ended(self, key: Key, now: int) -> None:
        began, who = self._now.pop(key)
        self.line(f"{key[0]} {who} ended", f"ENDED {key[0]} {who}, after {text(now - began)}", now - began)

    def _detail(self, state: str, row: Row, seen: Seen) -> tuple[int, str]:
        """Returns for how long the state is known to have lasted, in ns, and what it is."""
        unread = f"{size_text(row.lag)} not read"
        if row.lag_messages >= 0:
            unread = f"{row.lag_messages} message{'s' * (row.lag_messages != 1)}, {unread}"
        if state == "BLOCKED":
            ring = seen.stats.publishers[row.slot]
            holders = ", ".join(owner_text(seen.stats.subscribers[k], self._processes) for k in ring.blocked_by)
            return ring.blocked_for, f"by {holders} since {text(ring.blocked_for)}"
        if state == "FULL":
            return blocked_for(seen.stats, state, row.slot), unread
        if state == "HUNG":
            return round(row.unmoved * 1e9), f"{unread} since {text(row.unmoved * 1e9)}"
        if state == "NO OWNER":
            return 0, f"kept, {unread}"
        if state == "LAPPED":
            return 0, f"loses {rate_text(seen.lost[row.slot])} messages a second"
        return 0, {
            "STOPPED": unread if row.lag else f"{row.role} {row.slot}",
            "DEAD": "its owner died, and did not close it",
            "NO READERS": "no process reads it",
            "REPLACED": "another channel has the name now",
            "REMOVED": "the name was removed",
        }[state]

    def _holders(self, row: Row, stats: Stats) -> Iterator[tuple[int, str]]:
        for slot in (stats.subscribers[k] for k in stats.publishers[row.slot].blocked_by):
            if slot.state == "live":
                yield slot.pid, slot.name or f"slot {slot.slot}"

    def _why(self, pid: int, name: str, owners: dict[int, Process]) -> Iterator[str]:
        if not pid:
            return
        at = owners.get(pid) or process(pid)
        if at.letter in GONE:
            yield f"{name} has ended" if at.letter else f"there is no process {pid}"
            return
        yield f"{name} is {at.state}"
        before = self._owners.get(pid)
        yield from happened(before, at) if before and before.letter else [f"on core {at.core}"]


def blocked_for(stats: Stats, state: str, slot: int) -> int:
    """Returns for how long this publisher is BLOCKED, or the publisher for which this reader's ring is FULL, in ns."""
    if state == "BLOCKED":
        return stats.publishers[slot].blocked_for
    return max((ring.blocked_for for ring in stats.publishers if slot in ring.blocked_by), default=0)


def live(stats: Stats) -> set[int]:
    slots: tuple[PublisherStats | SubscriberStats, ...] = (*stats.publishers, *stats.subscribers)
    return {slot.pid for slot in slots if slot.state == "live" and slot.pid > 0}
