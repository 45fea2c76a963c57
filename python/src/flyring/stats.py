# SPDX-License-Identifier: Apache-2.0
"""What a channel holds at one moment, for people and programs that look after it (spec/api.md, Stats). Nothing is
locked or written, so two numbers may be of different moments; each alone is what the file said."""

from __future__ import annotations

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
CHANGING = SlotFields(epoch=-1, flag=False, name="", pid=0, attached_at=0)
State = Literal["unused", "live", "closed", "away", "foreign", "returns", "shared"]


@dataclass(frozen=True)
class GateStats:
    """How far a subscriber slot has read one ring."""

    ring: int
    position: int
    lag: int
    """Bytes from here to what is published; messages, padding and owner records."""
    lag_messages: int
    """-1: not known."""


@dataclass(frozen=True)
class JobStats:
    """The job that a worker of a queue has in hand. ``end``: of the batch of which it is the first that is not done.
    ``attempts``: how often it was handed out since its record was published."""

    ring: int
    position: int
    end: int
    attempts: int
    busy_since: int
    """ns of CLOCK_MONOTONIC; 0: not known."""
    busy_for: int
    """ns"""


@dataclass(frozen=True)
class SlotStats:
    """What slots of both kinds have. ``state``: ``away`` is one whose owner died or went; ``foreign`` is stock
    Agrona's; of a queue ``returns`` is the last publisher slot, ``shared`` subscriber slot 0.
    ``epoch`` -1: its fields are changing, or its owner died while it changed them."""

    slot: int
    state: State
    epoch: int
    name: str
    pid: int
    attached_at: int


@dataclass(frozen=True)
class SubscriberStats(SlotStats):
    """A subscriber slot."""

    kept: bool
    evicting: bool
    discarded: int
    """Messages that evictions of this slot lost."""
    in_hand: JobStats | None
    """Of a worker that has a job, dead or not."""
    gates: tuple[GateStats, ...]
    """Of the rings that it holds back."""
    outstanding: int = NOT_KNOWN
    """Of a client of a service: its calls without a final reply; else -1."""
    expired: int = NOT_KNOWN
    """Of a client of a service: its calls that ended as expired; else -1."""


@dataclass(frozen=True)
class PublisherStats(SlotStats):
    """A publisher slot and its ring, which has the same number. ``state``: ``closed`` properly; ``away``: its owner
    died. Of a foreign publisher's ring ``messages`` is -1."""

    start: int
    published: int
    claimed: int
    messages: int
    blocked_since: int
    """ns of CLOCK_MONOTONIC; 0: not held back."""
    blocked_for: int
    """ns; 0: not held back."""
    blocked_length: int
    """Bytes of the record that found no room; 0: not held back."""
    blocked_by: tuple[int, ...]
    """The subscriber slots that hold it back."""


@dataclass(frozen=True)
class CounterStats:
    """An allocated counter."""

    id: int
    label: str
    type_id: int
    key: bytes
    value: int


@dataclass(frozen=True)
class Stats:
    """A channel. ``successor``: 0; 1: it was replaced; 2: its name was removed."""

    path: str
    id: UUID
    kind: str
    capacity: int
    alignment: int
    foreign: str | None
    created_at: int
    successor: int
    publishers: tuple[PublisherStats, ...]
    subscribers: tuple[SubscriberStats, ...]
    counters: tuple[CounterStats, ...]
    clients: int = 0
    """Of a service, as the next three."""
    delivery: str = "at-most-once"
    max_outstanding: int = 0
    serving: int = 0
    """The epoch of the server that serves; another one than that of subscriber slot 0: none does."""


class Look:
    """Reads a mapped file. ``locked``: whether a process has the lock on a byte of it. What lies beyond ``length``, of
    a file that was cut, is left out."""

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
            if not holders:  # they have made room; the publisher has not looked yet
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
        """The slots whose gate leaves no room for a record of ``wanted`` bytes (spec 6.2, 5)."""
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
        """Of a client: those outstanding, and those that expired."""
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
        """The gate is loaded first, so that the lag is never too small."""
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
                if header.is_queue and k == 0:  # nobody counts there: the jobs that nobody has taken
                    behind = messages_after(header, memory, ring, position)
                yield GateStats(ring, position, max(0, published - position), behind)

    def counters(self) -> Iterator[CounterStats]:
        """The walk of spec 8."""
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
    """Epoch -1 stands for a slot whose fields are changing, or whose owner died while it changed them."""
    return read_slot(memory, slot) or CHANGING


def monotonic() -> int:
    """The clock of ``blocked_since``, in ns (spec 6.2, 5)."""
    return time.monotonic_ns() - namespace_offset()


def namespace_offset() -> int:
    """How far a time namespace has shifted CLOCK_MONOTONIC, in ns."""
    try:
        words = Path("/proc/self/timens_offsets").read_text("ascii").split()
        seconds, nanoseconds = words[words.index("monotonic") + 1 :][:2]
        return int(seconds) * 1_000_000_000 + int(nanoseconds)
    except (OSError, ValueError):
        return 0  # the kernel has no time namespaces
