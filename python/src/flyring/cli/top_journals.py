# SPDX-License-Identifier: Apache-2.0
"""What ``flyring top`` knows about a journal. Two ``stats()`` give the rates, and show that a writer died."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..journal import Journal
from .journal_show import described
from .process import Processes
from .report import size_text
from .top_row import Row


@dataclass
class JournalSeen:
    """The last ``stats()`` of a journal, as a dictionary, and what follows from a comparison with the one before."""

    stats: dict[str, Any]
    at: float
    messages: float = 0.0
    bytes: float = 0.0
    consumed: dict[int, float] = field(default_factory=dict)
    """Messages a second, by the consumer's slot."""


def look_at(path: str) -> dict[str, Any]:
    with Journal.open(path, read_only=True, any_file_system=True) as one:
        return described(one)


def compare_journal(before: JournalSeen | None, stats: dict[str, Any], now: float) -> tuple[JournalSeen, list[str]]:
    """Returns the new ``JournalSeen``, and sentences that say what happened in between."""
    seen = JournalSeen(stats, now)
    if before is None:
        return seen, []
    old = before.stats
    if old["id"] != stats["id"]:
        return seen, ["REPLACED by another journal"]
    seconds = max(1e-3, now - before.at)
    seen.messages = max(0, stats["messages"] - old["messages"]) / seconds
    seen.bytes = max(0, stats["published"] - old["published"]) / seconds
    pending = {one["slot"]: old["messages"] - one["behind"] for one in old["consumers"] if one["behind"] >= 0}
    for one in stats["consumers"]:
        if one["behind"] >= 0 and one["slot"] in pending:
            seen.consumed[one["slot"]] = max(0, stats["messages"] - one["behind"] - pending[one["slot"]]) / seconds
    happened = []
    if stats["trimmed"] > old["trimmed"]:
        happened.append(f"trimmed to position {stats['trimmed']}")
    if stats["failed"] and not old["failed"]:
        happened.append("a SYNC FAILED")
    if old["needs_recovery"] and not stats["needs_recovery"]:
        happened.append("recovered")
    return seen, happened


def journal_rows(title: str, seen: JournalSeen, processes: Processes) -> Iterator[Row]:
    one = seen.stats
    states = []
    if one["successor"]:
        states.append("REMOVED")
    if one["needs_recovery"]:
        states.append("NEEDS RECOVERY")
    if one["failed"]:
        states.append("SYNC FAILED")
    process = processes.state(one["pid"]) if one["writing"] else "-"
    if process == "STOPPED":
        states.append("STOPPED")
    notes = [*states, f"{one['segments']} segments, {size_text(one['bytes'])}, {size_text(one['disk_free'])} free"]
    if one["unsynced_bytes"]:
        notes.append(f"{size_text(one['unsynced_bytes'])} not synced")
    yield Row(
        title, "jrnl", 0, one["writer"] if one["writing"] else "", one["pid"] if one["writing"] else 0, process,
        seen.messages, seen.bytes, -1, 0, 0.0, ", ".join(notes), tuple(states),
    )  # fmt: skip
    for consumer in one["consumers"]:
        lost = (f"lost {consumer['lost']} messages",) if consumer["lost"] > 0 else ()
        state = processes.state(consumer["pid"]) if consumer["live"] else "away"
        yield Row(
            title, "cons", consumer["slot"], consumer["name"], consumer["pid"] if consumer["live"] else 0, state,
            seen.consumed.get(consumer["slot"], 0.0), 0, consumer["behind"], consumer["behind_bytes"], 0.0,
            ", ".join(lost), ("LOST",) if lost else (),
        )  # fmt: skip
