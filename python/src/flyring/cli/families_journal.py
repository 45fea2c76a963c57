# SPDX-License-Identifier: Apache-2.0
"""The metrics of journals. Their only source is ``Journal.stats``, and the room of the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

JOURNAL = ("journal",)
CONSUMER = ("journal", "consumer")
METRICS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "flyring_journal_up": ("gauge", JOURNAL, "1: the folder is a valid journal. 0: it is missing, or not valid."),
    "flyring_journal": ("info", JOURNAL, "The id and content of the journal."),
    "flyring_journal_messages": ("counter", JOURNAL, "Messages appended, those that were trimmed included."),
    "flyring_journal_bytes": ("counter", JOURNAL, "Where the next record begins, in bytes since the creation."),
    "flyring_journal_segments": ("gauge", JOURNAL, "How many segments there are."),
    "flyring_journal_disk_bytes": ("gauge", JOURNAL, "The bytes of the segments."),
    "flyring_journal_disk_free_bytes": ("gauge", JOURNAL, "The room that the disk has left."),
    "flyring_journal_oldest_timestamp_seconds": ("gauge", JOURNAL, "The time of the oldest message."),
    "flyring_journal_newest_timestamp_seconds": ("gauge", JOURNAL, "The largest time of a message."),
    "flyring_journal_unsynced_bytes": ("gauge", JOURNAL, "Bytes that a power loss would take."),
    "flyring_journal_unsynced_timestamp_seconds": ("gauge", JOURNAL, "The time of the oldest of these messages."),
    "flyring_journal_writer": ("info", JOURNAL, "The name and process id of the last writer."),
    "flyring_journal_writer_up": ("gauge", JOURNAL, "1: a process has the writer's slot."),
    "flyring_journal_helper_up": ("gauge", JOURNAL, "1: a process makes segments and syncs."),
    "flyring_journal_owners": ("counter", JOURNAL, "How often the writer's slot was taken."),
    "flyring_journal_sync_failed": ("gauge", JOURNAL, "1: a sync has failed, and no writer has mended it yet."),
    "flyring_journal_needs_recovery": ("gauge", JOURNAL, "1: written before a reboot, and not recovered yet."),
    "flyring_journal_consumer": ("info", CONSUMER, "The name and process id of the last owner."),
    "flyring_journal_consumer_up": ("gauge", CONSUMER, "1: a process has the consumer."),
    "flyring_journal_consumer_lag_messages": ("gauge", CONSUMER, "Messages that it has not consumed."),
    "flyring_journal_consumer_lag_bytes": ("gauge", CONSUMER, "Bytes that it has not consumed."),
    "flyring_journal_consumer_lost_messages": ("counter", CONSUMER, "Messages that it lost."),
}


def journal(add: Callable[[str, Iterable[object], Any], None], name: str, one: dict[str, Any]) -> None:
    """Adds the samples of a journal, as ``journal_show.described`` shows it. A number that is not known is -1."""
    where = (name,)
    add("flyring_journal", where, {"id": one["id"], "content": "recording" if one["content"] else "messages"})
    add("flyring_journal_messages", where, one["messages"])
    add("flyring_journal_bytes", where, one["published"])
    add("flyring_journal_segments", where, one["segments"])
    add("flyring_journal_disk_bytes", where, one["bytes"])
    add("flyring_journal_disk_free_bytes", where, one["disk_free"])
    for word in ("oldest", "newest"):
        if one[word]:
            add(f"flyring_journal_{word}_timestamp_seconds", where, one[word] / 1e9)
    add("flyring_journal_unsynced_bytes", where, one["unsynced_bytes"])
    if one["unsynced_since"]:
        add("flyring_journal_unsynced_timestamp_seconds", where, one["unsynced_since"] / 1e9)
    pid = str(one["pid"]) if one["pid"] else ""
    add("flyring_journal_writer", where, {"name": one["writer"], "pid": pid})
    add("flyring_journal_writer_up", where, int(one["writing"]))
    add("flyring_journal_helper_up", where, int(one["helping"]))
    add("flyring_journal_owners", where, one["epoch"])
    add("flyring_journal_sync_failed", where, int(one["failed"]))
    add("flyring_journal_needs_recovery", where, int(one["needs_recovery"]))
    for consumer in one["consumers"]:
        labels = (name, consumer["slot"])
        owner = {"name": consumer["name"], "pid": str(consumer["pid"]) if consumer["pid"] else ""}
        add("flyring_journal_consumer", labels, owner)
        add("flyring_journal_consumer_up", labels, int(consumer["live"]))
        add("flyring_journal_consumer_lag_messages", labels, consumer["behind"])
        add("flyring_journal_consumer_lag_bytes", labels, consumer["behind_bytes"])
        add("flyring_journal_consumer_lost_messages", labels, consumer["lost"])
