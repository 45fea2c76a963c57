# SPDX-License-Identifier: Apache-2.0
"""The part of ``flyring doctor`` about journals. Its only source is ``Journal.stats``, and the room of the disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .report import size_text

LONG_UNSYNCED = 60.0  # s


def left_of_journal(one: dict[str, Any], now: int) -> Iterator[tuple[bool, str, str]]:
    """Yields what is to be done about a journal, as ``journal_show.described`` shows it: (whether it is BAD, what,
    how)."""
    title = one["name"]
    if one["failed"]:
        yield (
            True,
            "a sync has failed: the disk did not take what was written",
            f"see the kernel's log; the next writer writes it again: flyring journal info {title}",
        )
    if one["needs_recovery"]:
        yield (
            False,
            "was last written before this boot: the next writer recovers it, consumers wait for that",
            f"flyring journal check {title}",
        )
    needed = 2 * one["segment_size"]
    if one["disk_free"] < needed:
        text = f"its disk has {size_text(one['disk_free'])} free, less than two segments"
        yield True, text, f"make room, or flyring journal trim {title} --consumed"
    if one["unsynced_since"] and one["sync"] != "never":
        age = (now - one["unsynced_since"]) / 1e9
        if age > LONG_UNSYNCED:
            text = f"{size_text(one['unsynced_bytes'])} are not synced for {age:.0f} s; its sync is {one['sync']}"
            yield False, text, "its writer must call sync when it stops appending"
    for consumer in one["consumers"]:
        if consumer["lost"] > 0:
            text = f"the consumer {consumer['name']} has lost {consumer['lost']} messages"
            yield False, text, "raise max_size or max_age, or let it read faster"
        if not consumer["live"] and one["trim_consumed"] and consumer["behind_bytes"] > one["segment_size"]:
            text = f"no process has the consumer {consumer['name']}: it keeps {size_text(consumer['behind_bytes'])}"
            yield False, text, f"start it again, or forget it: Journal.forget({consumer['name']!r})"
