# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a channel, for people and programs that monitor it (spec/api.md, Stats).

Reading takes no lock and writes nothing. Each number alone is right, but two numbers may be of different moments.
"""

from __future__ import annotations

import functools
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import UUID

from . import layout
from ._core import File, Memory, look
from .header import Header

NOT_KNOWN = -1
HEARTBEAT_KEY = struct.Struct("<ixxxxqq")
State = Literal["unused", "live", "closed", "away", "foreign", "returns", "shared"]


class GateStats(NamedTuple):
    """How far a subscriber slot has read one ring."""

    ring: int
    position: int
    """The gate: up to where the slot has read, in bytes."""
    lag: int
    """The published bytes that the slot has not read: messages, padding and owner records."""
    lag_messages: int
    """The published messages that the slot has not read; -1: not known."""


@dataclass(frozen=True)
class JobStats:
    """The job that a worker of a queue has in hand: the first unfinished job of its batch."""

    ring: int
    position: int
    """Where the job begins, in bytes."""
    end: int
    """Where the worker's batch ends, in bytes."""
    attempts: int
    """How often the job was handed out since its record was published."""
    busy_since: int
    """When the worker began, in ns of CLOCK_MONOTONIC; 0: not known."""
    busy_for: int
    """How long the worker has been busy, in ns."""


@dataclass(frozen=True)
class SlotStats:
    """The fields of both publisher and subscriber slots."""

    slot: int
    state: State
    """``unused``: never owned. ``live``: a process owns it. ``away``: its owner died or left. ``foreign``: a stock
    Agrona process owns it. In a queue, the last publisher slot is ``returns``, and subscriber slot 0 is ``shared``."""
    epoch: int
    """How many owners the slot has had. -1: its fields are changing, or its owner died while it changed them."""
    name: str
    """The name that the last owner gave; may be empty."""
    pid: int
    """The process id of the last owner, in its own pid namespace."""
    attached_at: int
    """When the last owner took the slot, in ns since 1970."""


@dataclass(frozen=True)
class SubscriberStats(SlotStats):
    """A subscriber slot."""

    kept: bool
    """Whether the slot keeps its position without an owner."""
    evicting: bool
    """Whether the slot was evicted and has no new owner yet."""
    discarded: int
    """How many unread messages evictions of this slot have lost."""
    in_hand: JobStats | None
    """Queues: the job that the worker, alive or dead, has in hand."""
    gates: tuple[GateStats, ...]
    """The gates of the rings that the slot reads."""
    outstanding: int = NOT_KNOWN
    """Services: the client's calls without a final reply; else -1."""
    expired: int = NOT_KNOWN
    """Services: the client's calls that ended as expired; else -1."""


@dataclass(frozen=True)
class PublisherStats(SlotStats):
    """A publisher slot and its ring, which has the same number. The ``state`` is ``closed`` after a proper close, and
    ``away`` if the owner died."""

    start: int
    """Where the first record of the last owner lies, in bytes."""
    published: int
    """The end of the published records, in bytes."""
    claimed: int
    """The end of the claimed space, in bytes."""
    messages: int
    """How many messages were published; -1 in a stock Agrona publisher's ring."""
    blocked_since: int
    """Since when the publisher has found no room, in ns of CLOCK_MONOTONIC; 0: it is not held back."""
    blocked_for: int
    """For how long the publisher has found no room, in ns; 0: it is not held back."""
    blocked_length: int
    """Bytes of the record that found no room; 0: the publisher is not held back."""
    blocked_by: tuple[int, ...]
    """The subscriber slots that hold the publisher back."""
    readers: int = NOT_KNOWN
    """How many subscribers with an owner read the ring; in a queue, how many workers live."""


@dataclass(frozen=True)
class CounterStats:
    """An allocated counter."""

    id: int
    label: str
    type_id: int
    key: bytes
    value: int


@dataclass(frozen=True)
class HeartbeatStats:
    """A heartbeat: a counter by which a thread shows that it runs (spec/channel.md 8.1)."""

    id: int
    """The id of its counter."""
    name: str
    pid: int
    """The process id, in the thread's own pid namespace."""
    interval: int
    """The longest time between two beats that the thread promises, in ns; 0: none."""
    started_at: int
    """When it began, in ns since 1970."""
    beats: int
    """How often it has beaten."""


@dataclass(frozen=True)
class Stats:
    """A snapshot of a channel, as ``Channel.stats`` returns it."""

    path: str
    id: UUID
    kind: str
    capacity: int
    alignment: int
    foreign: str | None
    created_at: int
    successor: int
    """0; 1: the channel was replaced; 2: its name was removed."""
    publishers: tuple[PublisherStats, ...]
    subscribers: tuple[SubscriberStats, ...]
    counters: tuple[CounterStats, ...]
    clients: int = 0
    """Services: the largest number of clients."""
    delivery: str = "at-most-once"
    """Services: "at-most-once" or "at-least-once"."""
    max_outstanding: int = 0
    """Services: how many calls one client may have under way at once."""
    serving: int = 0
    """Services: the epoch of the running server. If it differs from the epoch of subscriber slot 0, no server runs."""

    @property
    def heartbeats(self) -> tuple[HeartbeatStats, ...]:
        """The counters that are heartbeats."""
        found = []
        for one in self.counters:
            if one.type_id == layout.COUNTER_METADATA_TYPE_HEARTBEAT:
                pid, interval, started_at = HEARTBEAT_KEY.unpack_from(one.key)
                found.append(HeartbeatStats(one.id, one.label, pid, interval, started_at, one.value))
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """Returns the snapshot as ``flyring info --json`` prints it: dictionaries, lists, texts and numbers. The
        fields of a service are there only for a service."""
        document = shallow(self) | {"id": str(self.id)}
        document["publishers"] = [shallow(one) | {"blocked_by": list(one.blocked_by)} for one in self.publishers]
        document["subscribers"] = [
            shallow(one)
            | {
                "in_hand": None if one.in_hand is None else shallow(one.in_hand),
                "gates": [gate._asdict() for gate in one.gates],
            }
            for one in self.subscribers
        ]
        if self.kind != "service":
            for name in ("clients", "delivery", "max_outstanding", "serving"):
                del document[name]
        document["counters"] = [shallow(one) | {"key": one.key.rstrip(b"\0").hex()} for one in self.counters]
        document["heartbeats"] = [shallow(one) for one in self.heartbeats]
        return document


def shallow(one: Any) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(one)}


class Look:
    """Reads the statistics from a mapped file. Slots and rings beyond the end of a truncated file are left out."""

    def __init__(self, header: Header, memory: Memory, file: File) -> None:
        self.header, self.memory, self.file = header, memory, file
        self.geometry = header.geometry

    def stats(self, path: str) -> Stats:
        """Raises OSError if the locks cannot be tested."""
        header = self.header
        publishers, subscribers = look(
            self.file, self.memory, self.geometry, monotonic(), PublisherStats, SubscriberStats, GateStats, JobStats
        )
        return Stats(
            path,
            header.channel_id,
            header.kind,
            header.capacity,
            header.alignment,
            header.foreign,
            header.created_at,
            self.word(layout.CONTROL_SUCCESSOR, 4),
            publishers,
            subscribers,
            tuple(self.counters()) if header.counters else (),
            header.clients,
            header.delivery,
            header.max_outstanding,
            self.word(layout.CONTROL_SERVING, 8) if header.is_service else 0,
        )

    def word(self, offset: int, size: int) -> int:
        """Returns a word of the control section; 0 if the file ends before it."""
        at = self.header.control_offset + offset
        if at + size > self.memory.length:
            return 0
        return self.memory.load32(at) if size == 4 else self.memory.load64(at)

    def counter_value(self, number: int) -> int:
        """Returns the value of an allocated counter, which ``counters`` has yielded."""
        return self.memory.load64(self.header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * number)

    def counters(self) -> Iterator[CounterStats]:
        """Walks the allocated counters (spec/channel.md 8)."""
        header, memory = self.header, self.memory
        for i in range(header.counters):
            metadata = header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * i
            value = header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * i
            if value + layout.COUNTER_VALUE_STRIDE > self.memory.length:
                return
            state = memory.load32(metadata + layout.COUNTER_METADATA_STATE)
            if state == layout.COUNTER_METADATA_STATE_UNUSED:
                return
            if state != layout.COUNTER_METADATA_STATE_ALLOCATED:
                continue
            length = memory.load32(metadata + layout.COUNTER_METADATA_LABEL_LENGTH)
            known = 0 <= length <= layout.COUNTER_METADATA_LABEL_MAX_LENGTH
            label = memory.read(metadata + layout.COUNTER_METADATA_LABEL, length if known else 0)
            yield CounterStats(
                i,
                label.decode("utf-8", "backslashreplace"),
                memory.load32(metadata + layout.COUNTER_METADATA_TYPE_ID),
                memory.read(metadata + layout.COUNTER_METADATA_KEY, layout.COUNTER_METADATA_KEY_LENGTH),
                memory.load64(value),
            )


def monotonic() -> int:
    """Returns the time of the clock that ``blocked_since`` uses, in ns (spec/channel.md 6.2, 5)."""
    return time.monotonic_ns() - namespace_offset()


def namespace_offset() -> int:
    """Returns by how much this process's time namespace shifts CLOCK_MONOTONIC, in ns."""
    return offset_of(os.getpid())  # a forked child may have another time namespace


@functools.cache
def offset_of(pid: int) -> int:
    try:
        words = Path("/proc/self/timens_offsets").read_text("ascii").split()
        seconds, nanoseconds = words[words.index("monotonic") + 1 :][:2]
        return int(seconds) * 1_000_000_000 + int(nanoseconds)
    except (OSError, ValueError):
        return 0  # the kernel has no time namespaces
