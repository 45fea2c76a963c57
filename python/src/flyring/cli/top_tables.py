# SPDX-License-Identifier: Apache-2.0
"""What ``flyring top`` knows about a table. Two ``stats()`` give the rate of changes, and show that a writer died."""

from __future__ import annotations

from dataclasses import dataclass

from ..table_stats import TableStats
from .process import Processes
from .top_row import Row


@dataclass
class TableSeen:
    """The last ``stats()`` of a table, and what follows from a comparison with earlier ones."""

    stats: TableStats
    at: float
    changed_at: float
    """When the last change was seen; -1: there was none since the first look."""
    rate: float = 0.0
    """Changes a second."""
    held: int = 0
    """The epoch of a writer that had the slot at two looks in a row (a single change is shorter). 0: none."""

    @property
    def died(self) -> bool:
        """Whether the writer that held the slot is gone, and did not close, and no process has taken the slot since."""
        return self.held == self.stats.epoch > 0 and not self.stats.writing and not self.stats.closed


def compare_table(before: TableSeen | None, stats: TableStats, now: float) -> tuple[TableSeen, list[str]]:
    """Compares ``stats`` with those of the look before. Returns the new ``TableSeen``, and sentences that say what
    happened in between."""
    old = before.stats if before is not None else None
    if before is None or old is None or old.id != stats.id:
        return TableSeen(stats, now, -1), ["REPLACED by another table"] if old is not None else []
    changed = stats.version - old.version
    seen = TableSeen(stats, now, now if changed else before.changed_at, max(0, changed) / max(1e-3, now - before.at))
    same = stats.epoch == old.epoch
    seen.held = stats.epoch if same and old.writing and stats.writing else before.held if same else 0
    happened = []
    if stats.capacity > old.capacity:
        happened.append(f"grown from {old.capacity} to {stats.capacity} keys")
    who = f"writer {stats.writer or '(no name)'} (pid {stats.pid})"
    if seen.held and not before.held:
        happened.append(f"{who} has come")
    elif before.held and same and old.writing and not stats.writing:
        happened.append(f"{who} closed" if stats.closed else f"{who} DIED")
    return seen, happened


def table_row(table: str, seen: TableSeen, processes: Processes) -> Row:
    stats = seen.stats
    held = stats.writing and seen.held == stats.epoch
    process = processes.state(stats.pid) if stats.writing else "closed" if stats.closed else "-"
    states: list[str] = []
    notes: list[str] = []

    def wrong(state: str, note: str = "") -> None:
        states.append(state)
        notes.append(note or state)

    if stats.successor:
        wrong("REPLACED" if stats.successor == 1 else "REMOVED")
    if stats.needs_recovery:
        wrong("NEEDS RECOVERY")
    if seen.died or stats.unfinished:
        process = "away"
        wrong("DEAD", "DEAD during a change: the next writer completes it" if stats.unfinished else "DEAD")
    elif stats.writing and process == "STOPPED":
        wrong("STOPPED")
    full = stats.size >= stats.capacity
    if full:
        states.append("FULL")
    notes.append(f"{'FULL: ' if full else ''}{stats.size} of {stats.capacity} keys")
    if seen.changed_at >= 0:
        notes.append(f"changed {seen.at - seen.changed_at:.0f} s ago")
    if stats.rebuild:
        notes.append("rebuilds its index")
    if stats.damaged:
        notes.append(f"{stats.damaged} values lost in a recovery")
    return Row(
        table, "table", 0, stats.writer if held or seen.died or stats.unfinished else "",
        stats.pid if held or seen.died or stats.unfinished else 0, process, seen.rate, -1, -1, 0,
        seen.at - seen.changed_at if held and seen.changed_at >= 0 else 0.0, ", ".join(notes), tuple(states),
        stats.size, stats.capacity,
    )  # fmt: skip
