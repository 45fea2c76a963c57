# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a channel, for people and programs that monitor it (spec/api.md, Stats).

Reading takes no lock and writes nothing. Each number alone is right, but two numbers may be of different moments.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

from . import layout
from ._core import Memory
from .header import Header
from .slots import SlotFields, has_job, messages_after, read_slot

NOT_KNOWN = -1
HEARTBEAT_KEY = struct.Struct("<ixxxxqq")
CHANGING = SlotFields(epoch=-1, flag=False, name="", pid=0, attached_at=0)
State = Literal["unused", "live", "closed", "away", "foreign", "returns", "shared"]


@dataclass(frozen=True)
class GateStats:
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
    """A heartbeat: a counter by which a thread shows that it runs (spec 8.1)."""

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


class Look:
    """Reads the statistics from a mapped file. ``locked(byte)`` tells whether a process holds the lock on that byte.
    Slots and rings beyond the end of a truncated file are left out."""

    def __init__(self, header: Header, memory: Memory, locked: Callable[[int], bool]) -> None:
        self.header, self.memory, self.locked, self.length = header, memory, locked, memory.length

    def stats(self, path: str) -> Stats:
        header = self.header
        at = header.control_offset + layout.CONTROL_SUCCESSOR
        return Stats(
            path,
            header.channel_id,
            header.kind,
            header.capacity,
            header.alignment,
            header.foreign,
            header.created_at,
            self.memory.load32(at) if at + 4 <= self.length else 0,
            tuple(self.publishers()),
            tuple(self.subscribers()),
            tuple(self.counters()),
            header.clients,
            header.delivery,
            header.max_outstanding,
            self.serving(),
        )

    def serving(self) -> int:
        at = self.header.control_offset + layout.CONTROL_SERVING
        return self.memory.load64(at) if self.header.is_service and at + 8 <= self.length else 0

    def publishers(self) -> Iterator[PublisherStats]:
        header, memory = self.header, self.memory
        for k in range(header.publishers):
            slot, trailer = header.publisher_slot(k), header.trailer(k)
            if slot + layout.CONTROL_SLOT_LENGTH > self.length:
                return
            fields = fields_of(memory, slot)
            foreign = header.foreign == "publisher"
            live = not foreign and self.locked(slot + layout.CONTROL_SLOT_LOCK)
            gone: State = "closed" if memory.load32(slot + layout.PUBLISHER_SLOT_CLOSED) else "away"
            there = trailer + header.trailer_length <= self.length
            since = max(0, memory.load64(slot + layout.PUBLISHER_SLOT_BLOCKED_SINCE)) if live and there else 0
            wanted = max(0, memory.load64(slot + layout.PUBLISHER_SLOT_BLOCKED_LENGTH)) if since else 0
            holders = tuple(self.holders(k, wanted)) if since else ()
            if not holders:  # there is room by now, but the publisher has not noticed yet
                since = wanted = 0
            yield PublisherStats(
                k,
                "returns" if header.is_queue and k == header.publishers - 1 else state_of(foreign, live, fields, gone),
                fields.epoch,
                fields.name,
                fields.pid,
                fields.attached_at,
                memory.load64(slot + layout.PUBLISHER_SLOT_START),
                memory.load64(trailer + header.end_word) if there else NOT_KNOWN,
                memory.load64(trailer + layout.TRAILER_CLAIMED) if there else NOT_KNOWN,
                memory.load64(trailer + layout.TRAILER_MESSAGES_DONE) if there and not foreign else NOT_KNOWN,
                since,
                max(0, monotonic() - since) if since else 0,
                wanted,
                holders,
            )

    def holders(self, ring: int, wanted: int) -> Iterator[int]:
        """Yields the slots whose gate leaves no room for a record of ``wanted`` bytes (spec 6.2, 5)."""
        header, memory = self.header, self.memory
        gates = [(memory.load64(header.gate(ring, k)), k) for k in header.gating(ring)]
        published = memory.load64(header.trailer(ring) + header.end_word)
        for gate, k in gates:
            if gate >= 0 and gate + header.capacity < published + wanted + layout.RECORD_HEADER_LENGTH:
                yield k

    def subscribers(self) -> Iterator[SubscriberStats]:
        header, memory = self.header, self.memory
        for k in range(header.subscribers):
            slot = header.subscriber_slot(k)
            if slot + layout.CONTROL_SLOT_LENGTH > self.length:
                return
            fields = fields_of(memory, slot)
            foreign = header.foreign == "subscriber"
            live = not foreign and self.locked(slot + layout.CONTROL_SLOT_LOCK)
            yield SubscriberStats(
                k,
                "shared" if header.is_queue and k == 0 else state_of(foreign, live, fields, "away"),
                fields.epoch,
                fields.name,
                fields.pid,
                fields.attached_at,
                memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT) != 0,
                memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING) != 0,
                max(0, memory.load64(slot + layout.SUBSCRIBER_SLOT_DISCARDED)),
                self.in_hand(k, slot) if header.is_queue and k > 0 else None,
                tuple(self.gates(k)),
                *(self.calls(k) if header.is_service and k > 0 else (NOT_KNOWN, NOT_KNOWN)),
            )

    def calls(self, k: int) -> tuple[int, int]:
        """Returns how many calls of a client are outstanding, and how many expired."""
        header, memory = self.header, self.memory
        ring = header.rings_of(k)[0]
        if header.trailer(ring) + header.trailer_length > self.length:
            return NOT_KNOWN, NOT_KNOWN
        gate = header.gate(ring, k)
        expired = memory.load64_plain(gate + layout.GATE_EXPIRED)
        return max(0, memory.load32(gate + layout.GATE_OUTSTANDING)), max(0, expired)

    def in_hand(self, k: int, slot: int) -> JobStats | None:
        header, memory = self.header, self.memory
        for ring in range(header.publishers):
            if header.trailer(ring) + header.trailer_length > self.length:
                return None
            found = has_job(header, memory, ring, k)
            if found is None:
                continue
            attempts = max(0, memory.load32(header.gate(ring, k) + layout.GATE_ATTEMPTS))
            since = max(0, memory.load64(slot + layout.SUBSCRIBER_SLOT_BUSY_SINCE))
            return JobStats(ring, *found, attempts, since, max(0, monotonic() - since) if since else 0)
        return None

    def gates(self, k: int) -> Iterator[GateStats]:
        """Yields the gates of slot ``k``. Loads each gate before ``published``, so that no lag is too small."""
        header, memory = self.header, self.memory
        for ring in header.rings_of(k):
            trailer = header.trailer(ring)
            if trailer + header.trailer_length > self.length:
                return
            gate = header.gate(ring, k)
            position, count = memory.load64(gate), memory.load64(gate + layout.GATE_COUNT)
            published = memory.load64(trailer + header.end_word)
            done = memory.load64(trailer + layout.TRAILER_MESSAGES_DONE)
            if position >= 0:
                known = count >= 0 and header.foreign is None and not header.is_queue
                behind = max(0, done - count) if known else NOT_KNOWN
                if header.is_queue and k == 0:  # slot 0 has no count, so count the jobs that no worker has taken
                    behind = messages_after(header, memory, ring, position)
                yield GateStats(ring, position, max(0, published - position), behind)

    def counters(self) -> Iterator[CounterStats]:
        """Walks the allocated counters (spec 8)."""
        header, memory = self.header, self.memory
        for i in range(header.counters):
            metadata = header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * i
            value = header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * i
            if value + layout.COUNTER_VALUE_STRIDE > self.length:
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


def state_of(foreign: bool, live: bool, fields: SlotFields, gone: State) -> State:
    if foreign:
        return "foreign"
    if live:
        return "live"
    return "unused" if fields.epoch == 0 else gone


def fields_of(memory: Memory, slot: int) -> SlotFields:
    """Returns the slot's fields; with epoch -1 if they are changing, or the owner died while it changed them."""
    return read_slot(memory, slot) or CHANGING


def monotonic() -> int:
    """Returns the time of the clock that ``blocked_since`` uses, in ns (spec 6.2, 5)."""
    return time.monotonic_ns() - namespace_offset()


def namespace_offset() -> int:
    """Returns by how much this process's time namespace shifts CLOCK_MONOTONIC, in ns."""
    try:
        words = Path("/proc/self/timens_offsets").read_text("ascii").split()
        seconds, nanoseconds = words[words.index("monotonic") + 1 :][:2]
        return int(seconds) * 1_000_000_000 + int(nanoseconds)
    except (OSError, ValueError):
        return 0  # the kernel has no time namespaces
