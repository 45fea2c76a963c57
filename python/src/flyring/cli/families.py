# SPDX-License-Identifier: Apache-2.0
"""The metrics of channels, tables and journals, made from their Stats with the library prometheus-client.
docs/metrics.md lists them.

Labels are bounded: a table has one set, and a channel a fixed number of slots, rings and counters. Names and process
ids, which change, are labels of the ``_info`` metrics alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    StateSetMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.registry import Collector

from .. import __version__, layout
from ..stats import NOT_KNOWN, PublisherStats, Stats, SubscriberStats
from ..table_stats import TableStats
from .families_journal import METRICS as JOURNALS
from .families_journal import journal
from .metrics import Found

UNITS = ("bytes", "seconds", "messages", "jobs", "calls")
ATTACHED = ("live", "foreign")
PUBLISHER_STATES = ("live", "closed", "away", "foreign", "returns")
SUBSCRIBER_STATES = ("live", "away", "foreign", "shared")
TYPES: dict[str, Any] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "info": InfoMetricFamily,
    "stateset": StateSetMetricFamily,
    "unknown": UnknownMetricFamily,
}
CHANNEL = ("channel",)
TABLE = ("table",)
PUBLISHER = ("channel", "publisher")
SUBSCRIBER = ("channel", "subscriber")
HEARTBEAT = ("channel", "counter")
GATE = ("channel", "publisher", "subscriber")
# name, without the suffixes _total and _info: (type, labels, help)
METRICS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "flyring_build": ("info", (), "The version of Flyring and of its layout."),
    "flyring_channel_up": ("gauge", CHANNEL, "1: the file is a valid channel. 0: it is missing, or not valid."),
    "flyring_channel": ("info", CHANNEL, "The id, kind, foreign end and delivery of the channel."),
    "flyring_channel_created_timestamp_seconds": ("gauge", CHANNEL, "When the channel was created."),
    "flyring_channel_replaced": ("gauge", CHANNEL, "1: another channel has the name. 2: the name was removed. 0: no."),
    "flyring_channel_attached_publishers": ("gauge", CHANNEL, "Publisher slots that a process owns."),
    "flyring_channel_attached_subscribers": ("gauge", CHANNEL, "Subscriber slots that a process owns."),
    "flyring_channel_ownerless_slots": ("gauge", CHANNEL, "Subscriber slots that are kept, and that no process owns."),
    "flyring_ring_capacity_bytes": ("gauge", CHANNEL, "The size of each ring."),
    "flyring_publisher": ("info", PUBLISHER, "The name and process id of the last owner."),
    "flyring_publisher_state": ("stateset", PUBLISHER, "Whether a process owns the slot. away: its owner died."),
    "flyring_publisher_owners": ("counter", PUBLISHER, "Owners that the slot has had."),
    "flyring_publisher_messages": ("counter", PUBLISHER, "Messages published."),
    "flyring_publisher_bytes": ("counter", PUBLISHER, "Bytes published: messages, record headers and padding."),
    "flyring_publisher_blocked_seconds": (
        "gauge",
        PUBLISHER,
        "For how long the publisher has found no room. 0: it has.",
    ),
    "flyring_publisher_blocked_by": ("gauge", GATE, "1: the subscriber holds the publisher back."),
    "flyring_subscriber": ("info", SUBSCRIBER, "The name and process id of the last owner."),
    "flyring_subscriber_state": ("stateset", SUBSCRIBER, "Whether a process owns the slot. away: it died or left."),
    "flyring_subscriber_owners": ("counter", SUBSCRIBER, "Owners that the slot has had."),
    "flyring_subscriber_kept": ("gauge", SUBSCRIBER, "1: the slot keeps its position without an owner."),
    "flyring_subscriber_evicted": ("gauge", SUBSCRIBER, "1: the slot was evicted, and has no new owner yet."),
    "flyring_subscriber_discarded_messages": ("counter", SUBSCRIBER, "Unread messages that evictions have lost."),
    "flyring_subscriber_bytes": ("counter", GATE, "Bytes read: the gate of the subscriber in the publisher's ring."),
    "flyring_subscriber_lag_bytes": ("gauge", GATE, "Bytes published and not read."),
    "flyring_subscriber_lag_messages": ("gauge", GATE, "Messages published and not read."),
    "flyring_queue_waiting_jobs": ("gauge", PUBLISHER, "Jobs that no worker has taken."),
    "flyring_queue_in_hand_jobs": ("gauge", CHANNEL, "Workers, alive or dead, that have a job in hand."),
    "flyring_worker_busy_seconds": ("gauge", SUBSCRIBER, "For how long the worker has had its batch. 0: it has none."),
    "flyring_worker_job_attempts": ("gauge", SUBSCRIBER, "How often dead or evicted workers had the job in hand."),
    "flyring_service_up": ("gauge", CHANNEL, "1: a server serves. 0: no server does."),
    "flyring_service_max_outstanding_calls": ("gauge", CHANNEL, "Calls that one client may have under way."),
    "flyring_client_outstanding_calls": ("gauge", SUBSCRIBER, "The client's calls without a final reply."),
    "flyring_client_expired_calls": ("counter", SUBSCRIBER, "The client's calls that ended as expired."),
    "flyring_heartbeat": ("info", HEARTBEAT, "The name and process id of the thread."),
    "flyring_heartbeat_beats": ("counter", HEARTBEAT, "How often the thread has beaten."),
    "flyring_heartbeat_interval_seconds": ("gauge", HEARTBEAT, "The longest time between two beats. 0: no promise."),
    "flyring_table_up": ("gauge", TABLE, "1: the file is a valid table. 0: it is missing, or not valid."),
    "flyring_table": ("info", TABLE, "The id of the table."),
    "flyring_table_keys": ("gauge", TABLE, "How many keys there are."),
    "flyring_table_capacity": ("gauge", TABLE, "How many keys fit."),
    "flyring_table_changes": ("counter", TABLE, "The number of the last change. A recovery adds 2^44."),
    "flyring_table_owners": ("counter", TABLE, "How often the writer's slot was taken, also for single changes."),
    "flyring_table_writer": ("info", TABLE, "The name and process id of the last TableWriter."),
    "flyring_table_writer_up": ("gauge", TABLE, "1: a process has the writer's slot."),
    "flyring_table_writer_closed": ("gauge", TABLE, "1: the last writer has closed, and nothing was changed since."),
    "flyring_table_unfinished": ("gauge", TABLE, "1: a process died during a change. The next writer completes it."),
    "flyring_table_needs_recovery": ("gauge", TABLE, "1: changed before a reboot, and not recovered yet."),
    "flyring_table_damaged_values": ("gauge", TABLE, "Values that the last recovery has lost."),
    "flyring_table_replaced": ("gauge", TABLE, "1: another table has the name. 2: the name was removed. 0: no."),
    **JOURNALS,
    "flyring_application_value": ("unknown", ("channel", "counter", "type_id", "label"), "The value of a counter."),
}


class Families:
    """Collects samples, and yields those families that have any."""

    def __init__(self) -> None:
        self.families: dict[str, Any] = {}

    def add(self, name: str, labels: Iterable[object], value: Any) -> None:
        """Adds a sample. A number that is not known is left out."""
        if value == NOT_KNOWN:
            return
        if name not in self.families:
            kind, names, text = METRICS[name]
            unit = name.rpartition("_")[2]
            more = {"unit": unit} if kind in ("gauge", "counter") and unit in UNITS else {}
            self.families[name] = TYPES[kind](name, text, labels=names, **more)
        self.families[name].add_metric([str(label) for label in labels], value)

    def __iter__(self) -> Iterator[Metric]:
        return (self.families[name] for name in METRICS if name in self.families)


class Channels(Collector):
    """Reads the channels again at each scrape. ``find()`` returns them."""

    def __init__(self, find: Any) -> None:
        self.find = find

    def collect(self) -> Iterable[Metric]:
        return families(self.find())


def families(found: Iterable[Found]) -> Families:
    to = Families()
    to.add("flyring_build", (), {"version": __version__, "layout": f"{layout.MAJOR}.{layout.MINOR}"})
    for one in found:
        if one.is_journal:
            to.add("flyring_journal_up", (one.name,), int(one.journal is not None))
            if one.journal is not None:
                journal(to.add, one.name, one.journal)
            continue
        if one.is_table:
            to.add("flyring_table_up", (one.name,), int(one.stats is not None))
            if isinstance(one.stats, TableStats):
                table(to, one.name, one.stats)
            continue
        to.add("flyring_channel_up", (one.name,), int(one.stats is not None))
        if isinstance(one.stats, Stats):
            channel(to, one.name, one.stats)
    return to


def table(to: Families, name: str, stats: TableStats) -> None:
    to.add("flyring_table", (name,), {"id": str(stats.id)})
    to.add("flyring_table_keys", (name,), stats.size)
    to.add("flyring_table_capacity", (name,), stats.capacity)
    to.add("flyring_table_changes", (name,), stats.version)
    to.add("flyring_table_owners", (name,), stats.epoch)
    to.add("flyring_table_writer", (name,), {"name": stats.writer, "pid": str(stats.pid) if stats.pid else ""})
    to.add("flyring_table_writer_up", (name,), int(stats.writing))
    to.add("flyring_table_writer_closed", (name,), int(stats.closed))
    to.add("flyring_table_unfinished", (name,), int(stats.unfinished))
    to.add("flyring_table_needs_recovery", (name,), int(stats.needs_recovery))
    to.add("flyring_table_damaged_values", (name,), stats.damaged)
    to.add("flyring_table_replaced", (name,), stats.successor)


def channel(to: Families, name: str, stats: Stats) -> None:
    service, queue = stats.kind == "service", stats.kind == "queue"
    about = {"id": str(stats.id), "kind": stats.kind, "foreign": stats.foreign or ""}
    to.add("flyring_channel", (name,), about | {"delivery": stats.delivery if service else ""})
    to.add("flyring_channel_created_timestamp_seconds", (name,), stats.created_at / 1e9)
    to.add("flyring_channel_replaced", (name,), stats.successor)
    attached = sum(slot.state in ATTACHED for slot in stats.publishers)
    to.add("flyring_channel_attached_publishers", (name,), attached)
    to.add("flyring_channel_attached_subscribers", (name,), sum(s.state in ATTACHED for s in stats.subscribers))
    ownerless = sum(slot.kept and slot.state in ("unused", "away") for slot in stats.subscribers)
    to.add("flyring_channel_ownerless_slots", (name,), ownerless)
    to.add("flyring_ring_capacity_bytes", (name,), stats.capacity)
    for ring in stats.publishers:
        if ring.state != "unused":
            publisher(to, name, ring)
    for slot in stats.subscribers:
        if slot.state != "unused" or slot.kept or slot.gates:
            subscriber(to, name, slot, stats)
    if queue:
        to.add("flyring_queue_in_hand_jobs", (name,), sum(slot.in_hand is not None for slot in stats.subscribers))
    if service and stats.subscribers:
        server = stats.subscribers[0]
        to.add("flyring_service_up", (name,), int(server.state == "live" and server.epoch == stats.serving))
        to.add("flyring_service_max_outstanding_calls", (name,), stats.max_outstanding)
    for heart in stats.heartbeats:
        to.add("flyring_heartbeat", (name, heart.id), {"name": heart.name, "pid": str(heart.pid)})
        to.add("flyring_heartbeat_beats", (name, heart.id), heart.beats)
        to.add("flyring_heartbeat_interval_seconds", (name, heart.id), heart.interval / 1e9)
    for counter in stats.counters:
        if counter.type_id == layout.COUNTER_METADATA_TYPE_HEARTBEAT:
            continue
        to.add("flyring_application_value", (name, counter.id, counter.type_id, counter.label), counter.value)


def publisher(to: Families, name: str, ring: PublisherStats) -> None:
    labels = (name, ring.slot)
    to.add("flyring_publisher", labels, owner(ring))
    to.add("flyring_publisher_state", labels, {state: ring.state == state for state in PUBLISHER_STATES})
    to.add("flyring_publisher_owners", labels, ring.epoch)
    to.add("flyring_publisher_messages", labels, ring.messages)
    to.add("flyring_publisher_bytes", labels, ring.published)
    to.add("flyring_publisher_blocked_seconds", labels, ring.blocked_for / 1e9)
    for holder in ring.blocked_by:
        to.add("flyring_publisher_blocked_by", (*labels, holder), 1)


def subscriber(to: Families, name: str, slot: SubscriberStats, stats: Stats) -> None:
    labels = (name, slot.slot)
    to.add("flyring_subscriber", labels, owner(slot))
    to.add("flyring_subscriber_state", labels, {state: slot.state == state for state in SUBSCRIBER_STATES})
    to.add("flyring_subscriber_owners", labels, slot.epoch)
    to.add("flyring_subscriber_kept", labels, int(slot.kept))
    to.add("flyring_subscriber_evicted", labels, int(slot.evicting))
    to.add("flyring_subscriber_discarded_messages", labels, slot.discarded)
    queue = stats.kind == "queue"
    for gate in slot.gates:
        if stats.publishers[gate.ring].state == "unused":
            continue  # the ring never had a publisher
        where = (name, gate.ring, slot.slot)
        to.add("flyring_subscriber_bytes", where, gate.position)
        to.add("flyring_subscriber_lag_bytes", where, gate.lag)
        if queue and slot.slot == 0:
            to.add("flyring_queue_waiting_jobs", where[:2], gate.lag_messages)
        else:
            to.add("flyring_subscriber_lag_messages", where, gate.lag_messages)
    if queue and slot.slot > 0:
        job = slot.in_hand
        to.add("flyring_worker_busy_seconds", labels, job.busy_for / 1e9 if job else 0)
        if job:
            to.add("flyring_worker_job_attempts", labels, job.attempts)
    to.add("flyring_client_outstanding_calls", labels, slot.outstanding)
    to.add("flyring_client_expired_calls", labels, slot.expired)


def owner(slot: PublisherStats | SubscriberStats) -> dict[str, str]:
    return {"name": slot.name, "pid": str(slot.pid) if slot.pid else ""}
