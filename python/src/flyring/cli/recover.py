# SPDX-License-Identifier: Apache-2.0
"""``flyring recover``: frees what dead owners hold (spec/channel.md 5, 6.7, 6.8).

Each slot is checked under the control lock and the slot's own lock. If the slot's lock is held, its owner is alive, and
the slot is left alone. After a kill at any point, the command can be run again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from .. import layout
from .._core import File
from ..channel import Channel
from ..errors import CorruptRingError
from ..slots import Attached, clear_name, committed, has_job
from ..slots import recover as recover_ring
from ..system import control_lock, new_lock
from .check import examine
from .counters import NEVER
from .image import open_image
from .report import print_json, printable


@dataclass
class Outcome:
    """The result: what was recovered, what could not be recovered, and which owners are alive."""

    done: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    live: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    """Queues: dead workers whose job waits for another worker."""


def recover(name: str, as_json: bool) -> int:
    """Runs the command. Returns status 1 if something could not be recovered."""
    with Channel.open(name, any_file_system=True) as channel:
        outcome = recover_channel(channel._attached)
    with open_image(channel.path) as image:
        broken = sum(finding.severity == "broken" for finding in examine(image).found)
    if as_json:
        document = {"path": channel.path, "done": outcome.done, "failed": outcome.failed, "live": outcome.live}
        print_json(document | ({"jobs": outcome.jobs} if channel.kind == "queue" else {}) | {"broken": broken})
    else:
        for one in outcome.done:
            print(f"{one['where']}: {printable(one['what'])}")
        for one in outcome.failed:
            print(f"NOT RECOVERED {one['where']}: {printable(one['what'])}")
        if outcome.live:
            print(f"alive, left alone: {', '.join(outcome.live)}")
        if outcome.jobs:
            print(f"died with a job in hand, which the next worker takes over: {', '.join(outcome.jobs)}")
        if broken:
            print(f"{broken} broken rules are left, which recover cannot repair: see flyring check")
        elif not outcome.done and not outcome.failed and not outcome.jobs:
            print("there was nothing to recover")
    return 1 if outcome.failed or broken else 0


def recover_channel(channel: Attached) -> Outcome:
    header, outcome = channel.header, Outcome()
    lock = new_lock(channel.file, channel.path)
    try:
        if header.foreign:
            outcome.live.append(f"{header.foreign} 0 (foreign)")  # a foreign end has no lock to test (6.15)
        for k in range(header.subscribers) if header.foreign != "subscriber" else ():
            with control_lock(lock, channel.path):
                if header.is_queue and k == 0:
                    continue  # the shared slot has no owner
                free = drop_announcements if header.is_queue else retire
                recover_slot(channel, lock, header.subscriber_slot(k), f"subscriber {k}", outcome, free, k)
        for k in range(header.publishers) if header.foreign != "publisher" else ():
            with control_lock(lock, channel.path):
                recover_slot(channel, lock, header.publisher_slot(k), f"publisher {k}", outcome, free_ring, k)
        with control_lock(lock, channel.path):
            end_frees(channel, outcome)
    finally:
        lock.close()
    return outcome


def recover_slot(
    channel: Attached, lock: File, slot: int, where: str, outcome: Outcome, body: Any, number: int
) -> None:
    """Calls ``body`` under the slot's lock if no process owns the slot. The caller holds the control lock."""
    if not lock.try_lock(slot + layout.CONTROL_SLOT_LOCK):
        outcome.live.append(where)
        return
    try:
        length = channel.memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH)
        if not 0 <= length <= layout.MAX_NAME_LENGTH:  # counts as no name (5.2, 2)
            clear_name(channel, slot)
            outcome.done.append({"action": "name", "where": where, "what": "a half-changed name was cleared"})
        body(channel, number, where, outcome)
    finally:
        lock.unlock(slot + layout.CONTROL_SLOT_LOCK)


def free_ring(channel: Attached, ring: int, where: str, outcome: Outcome) -> None:
    """Recovers a ring (6.8), under the publisher slot's lock. A ring that its owner closed needs nothing."""
    header, memory = channel.header, channel.memory
    trailer = header.trailer(ring)
    published = memory.load64(trailer + layout.TRAILER_PUBLISHED)
    claimed = memory.load64(trailer + layout.TRAILER_CLAIMED)
    begun = memory.load64(trailer + layout.TRAILER_MESSAGES_BEGUN)
    done = memory.load64(trailer + layout.TRAILER_MESSAGES_DONE)
    if published == claimed and begun == done and published >= 0:
        return
    try:
        end, messages = published, 0
        if 0 <= published <= claimed <= published + header.capacity:
            end, messages = committed(header, memory, ring, published, claimed)
        closed = memory.load32(header.publisher_slot(ring) + layout.PUBLISHER_SLOT_CLOSED) == 1
        if closed and end == published and begun == done and 0 <= claimed - published <= header.capacity:
            return
        recover_ring(channel, ring)
    except CorruptRingError as error:
        outcome.failed.append({"action": "ring", "where": where, "ring": ring, "what": str(error)})
        return
    what = (
        f"{end - published} committed bytes ({messages} messages) are now published, {claimed - end} bytes were freed"
    )
    outcome.done.append({"action": "ring", "where": where, "ring": ring, "what": what})


def retire(channel: Attached, k: int, where: str, outcome: Outcome) -> None:
    """Retires a slot (6.7), under its lock. Leaves kept slots that were not evicted, and the slot of a foreign end
    (6.15)."""
    header, memory = channel.header, channel.memory
    gates = {ring: memory.load64(header.gate(ring, k)) for ring in header.rings_of(k)}
    slot = header.subscriber_slot(k)
    evicted = memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING) != 0
    server = header.is_service and k == 0  # its gates stay, because they guard unread requests (service.md 9)
    if header.foreign or server or (memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT) and not evicted):
        for ring, gate in gates.items():
            claimed = memory.load64(header.trailer(ring) + layout.TRAILER_CLAIMED)
            lowest = max(0, claimed - header.capacity + 1)
            if (gate >= 0 or header.foreign) and (gate % header.alignment or not lowest <= gate <= claimed):
                do = "replace the channel" if header.foreign else "evict the slot"
                what = f"the gate of ring {ring} is {gate}, out of reach (claimed {claimed}); {do}"
                outcome.failed.append({"action": "kept", "where": where, "ring": ring, "what": what})
        return
    if all(gate == layout.NOT_GATING for gate in gates.values()):
        return
    memory.add64(slot + layout.SUBSCRIBER_SLOT_EPOCH, 1)
    for ring in gates:
        memory.store64(header.gate(ring, k), layout.NOT_GATING)
    channel.wake_publishers()
    rings = [ring for ring, gate in gates.items() if gate != layout.NOT_GATING]
    outcome.done.append({"action": "retire", "where": where, "what": f"it no longer holds back rings {rings}"})


def drop_announcements(channel: Attached, k: int, where: str, outcome: Outcome) -> None:
    """Drops jobs that a dead worker announced but never took (queue.md 6), under its slot's lock. A job in its hand
    stays for the worker that adopts it."""
    header, memory = channel.header, channel.memory
    for ring in range(header.publishers):
        gate = header.gate(ring, k)
        position = memory.load64(gate)
        if position < 0:
            continue
        if has_job(header, memory, ring, k):
            outcome.jobs.append(where)
        elif memory.compare_and_set64(gate, position, layout.NOT_GATING):
            channel.wake_publishers()
            what = f"it had announced a job of ring {ring} and never took it, and no longer holds that ring back"
            outcome.done.append({"action": "announced", "where": where, "ring": ring, "what": what})


def end_frees(channel: Attached, outcome: Outcome) -> None:
    """Finishes interrupted frees of counters (8), so that these can be allocated again."""
    header, memory = channel.header, channel.memory
    for i in range(header.counters):
        metadata = header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * i
        state = memory.load32(metadata + layout.COUNTER_METADATA_STATE)
        at = metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE
        if state == layout.COUNTER_METADATA_STATE_RECLAIMED and memory.load64(at) == NEVER:
            memory.write(metadata + layout.COUNTER_METADATA_KEY, bytes(layout.COUNTER_METADATA_KEY_LENGTH))
            value = header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * i
            memory.add64(value + layout.COUNTER_VALUE_REGISTRATION_ID, 1)
            memory.write(at, struct.pack("<q", channel.identity.wall_clock() // 1_000_000))
            outcome.done.append(
                {"action": "counter", "where": f"counter {i}", "what": "an interrupted free is finished"}
            )
