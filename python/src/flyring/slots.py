# SPDX-License-Identifier: Apache-2.0
"""Takes slots: locks, epochs, join, resume, recover, in the steps of spec/channel.md 5.2, 5.3, 6.4, 6.5, 6.8 and 6.12.

None of this is on the data path. Loads are acquire, stores are release, and ``fence`` is seq_cst, even where the spec
needs less. "pairs with" names the step that reads the store, or wrote the value that is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from . import layout
from ._core import File, Memory, register_waker
from ._identity import Identity
from .errors import (
    ChannelDiffersError,
    CorruptRingError,
    FlyringError,
    InvalidArgumentError,
    NoFreeSlotError,
    SlotOwner,
)
from .header import Header
from .system import NAME, control_lock, failed, new_lock

PATIENCE = 0.010  # s: how long every caller waits for a slot to become free
RETRY = 0.001  # s: between two tries
LONGEST_NAP = 0.016  # s: between two tries, for callers that wait longer than PATIENCE
CHANGING = -1  # name_length while the slot's fields change


@dataclass(frozen=True)
class Attached:
    """The parts of a channel that the operations on slots need."""

    path: str
    file: File
    header: Header
    memory: Memory  # read-only if the channel is
    identity: Identity
    wakes: bool  # whether objects of this channel wake sleepers (6.16)

    def wake_readers(self) -> None:
        """Wakes all sleepers of the pair ``data``."""
        self.memory.wake_all(self.header.control_offset + layout.CONTROL_DATA_SEQUENCE)

    def wake_workers(self) -> None:
        """Wakes all sleepers of the pair ``jobs``."""
        self.memory.wake_all(self.header.control_offset + layout.CONTROL_JOBS_SEQUENCE)

    def wake_publishers(self) -> None:
        """Wakes all sleepers of the pair ``room``."""
        self.memory.wake_all(self.header.control_offset + layout.CONTROL_ROOM_SEQUENCE)


class Owning(Protocol):
    """What a change of a slot's fields needs of a channel, table or journal."""

    @property
    def memory(self) -> Memory: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def wakes(self) -> bool: ...


@dataclass(frozen=True)
class PublisherSlot:
    lock: File
    slot: int
    epoch: int
    position: int
    count: int
    name: bytes


@dataclass(frozen=True)
class SubscriberSlot:
    lock: File
    slot: int
    epoch: int
    cursors: tuple[tuple[int, int, int], ...]  # (ring, position, count or -1), ascending
    kept: bool
    name: str


@dataclass(frozen=True)
class WorkerSlot:
    lock: File
    slot: int
    epoch: int
    batch: tuple[int, int, int, int]  # the last owner's batch: ring, begin, end, attempts; ring -1: there is none
    name: str


Slot = TypeVar("Slot", PublisherSlot, SubscriberSlot, WorkerSlot)
NO_BATCH = (-1, 0, 0, 0)


def check_name(name: str) -> None:
    """Checks a slot's name: empty, or valid as a channel's name. InvalidArgumentError."""
    if name and not NAME.fullmatch(name):
        raise InvalidArgumentError("name", f"{name!r} must be empty or 1 to 64 of A-Z a-z 0-9 . _ -")


def name_at(memory: Memory, slot: int) -> bytes:
    """Reads a slot's name, under the control lock. An impossible name counts as no name."""
    length = memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH)
    return memory.read(slot + layout.PUBLISHER_SLOT_NAME, length) if 0 < length <= layout.MAX_NAME_LENGTH else b""


def take_publisher_slot(channel: Attached, name: str) -> PublisherSlot:
    """Takes a publisher slot (spec/channel.md 5.2). The caller has checked the name. NoFreeSlotError, CorruptRingError,
    IoError."""
    wanted = name.encode("ascii")
    header, memory = channel.header, channel.memory

    def candidates() -> Sequence[int]:
        count = header.producers or header.publishers  # without the slot of the returns ring
        names = [name_at(memory, header.publisher_slot(k)) for k in range(count)]
        if wanted and wanted in names:
            return [names.index(wanted)]
        return [k for k, n in enumerate(names) if not n] + [k for k, n in enumerate(names) if n]

    def take(lock: File, k: int) -> PublisherSlot:
        slot = header.publisher_slot(k)
        renew_boot(channel)
        position, count = recover(channel, k)
        epoch = change_slot(channel, slot, wanted, position)
        channel.wake_readers()
        if header.is_queue:
            channel.wake_workers()
        return PublisherSlot(lock, k, epoch, position, count, wanted)

    return take_slot(channel, "publisher", name, candidates, header.publisher_slot, take)


def check_subscriber(header: Header, name: str, kept: bool, rings: Iterable[int] | None) -> list[int] | None:
    """Checks the arguments of a subscriber. Returns the chosen rings, ascending; None: all. InvalidArgumentError."""
    check_name(name)
    if kept and not name and header.kind != "inbox":
        raise InvalidArgumentError("name", "a kept subscriber needs a name, by which it gets its slot again")
    return check_rings(rings, header.publishers)


def take_subscriber_slot(
    channel: Attached, name: str, kept: bool, chosen: list[int] | None, patience: float = 0
) -> SubscriberSlot:
    """Takes a subscriber slot (spec/channel.md 5.3), waiting up to ``patience`` seconds, after ``check_subscriber``.
    NoFreeSlotError, CorruptRingError, ChannelDiffersError (rings), IoError."""
    wanted = name.encode("ascii")
    header, memory = channel.header, channel.memory

    def candidates() -> Sequence[int]:
        if header.kind == "inbox":
            return [0]
        free = []
        for k in range(header.subscribers):
            slot = header.subscriber_slot(k)
            if memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT):
                owner = name_at(memory, slot)
                if wanted and owner == wanted:
                    return [k]
                if owner:
                    continue
            free.append(k)
        return free

    def take(lock: File, k: int) -> SubscriberSlot:
        slot = header.subscriber_slot(k)
        renew_boot(channel)
        evicting = slot + layout.SUBSCRIBER_SLOT_EVICTING
        is_kept = bool(header.foreign or memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT))
        gates = {ring: memory.load64(header.gate(ring, k)) for ring in range(header.publishers)} if is_kept else {}
        resumed: list[tuple[int, int]] | None = None
        if header.foreign or (memory.load32(evicting) == 0 and any(gate >= 0 for gate in gates.values())):
            resumed = resume(channel, gates)  # a foreign publisher's reader always resumes (6.15)
            if chosen is not None and chosen != [ring for ring, _ in resumed]:
                raise ChannelDiffersError(channel.path, "rings", chosen, [ring for ring, _ in resumed])
        joined = list(range(header.publishers)) if chosen is None else chosen
        for ring in joined if resumed is None else ():  # before anything is changed
            published = memory.load64(header.trailer(ring) + layout.TRAILER_PUBLISHED)
            check_position(header, ring, published, "published")
        epoch = change_slot(channel, slot, wanted, None)
        if resumed is not None:
            cursors = [(ring, cursor, count_of(header, memory, ring, cursor)) for ring, cursor in resumed]
        else:
            if is_kept:  # so that a half-done join is not resumed after a kill
                memory.store32(evicting, 1)
            cursors = join(channel, k, joined, is_kept)
            if kept:
                memory.store32(slot + layout.SUBSCRIBER_SLOT_KEPT, 1)  # pairs with retire 6.7 (acquire)
                is_kept = True
            if memory.load32(evicting):
                memory.store32(evicting, 0)  # pairs with 6.11 and the next owner's load
        channel.wake_publishers()
        return SubscriberSlot(lock, k, epoch, tuple(cursors), is_kept, name)

    return take_slot(channel, "subscriber", name, candidates, header.subscriber_slot, take, patience)


def evict(channel: Attached, k: int) -> int:
    """Evicts a subscriber (spec/channel.md 6.11). Returns how many messages it had not read; -1: not known.
    InvalidArgumentError, IoError."""
    header, memory = channel.header, channel.memory
    if not isinstance(k, int) or not 0 <= k < header.subscribers:
        raise InvalidArgumentError("slot", f"{k!r} is not a subscriber slot: there are {header.subscribers}, from 0 on")
    slot = header.subscriber_slot(k)
    lock = new_lock(channel.file, channel.path)
    try:
        with control_lock(lock, channel.path):
            gates = [(ring, memory.load64(header.gate(ring, k))) for ring in header.rings_of(k)]
            unread = [messages_after(header, memory, ring, gate) for ring, gate in gates if gate >= 0]
            memory.add64(slot + layout.SUBSCRIBER_SLOT_EPOCH, 1)  # pairs with 5.4 and 6.9, 5
            memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 1)  # pairs with 5.3, 5 and 6.11
            for ring in header.rings_of(k):
                memory.store64(header.gate(ring, k), layout.NOT_GATING)  # pairs with 6.2, 2
            channel.wake_publishers()
            channel.wake_readers()  # the victim, if it sleeps
    finally:
        lock.close()
    return -1 if -1 in unread else sum(unread)


def has_job(header: Header, memory: Memory, ring: int, k: int) -> tuple[int, int] | None:
    """Returns the begin and end of worker k's batch on a ring. None: it has none there, or announced one that it never
    took (queue.md 6). Without the control lock, the result may be out of date."""
    gate = header.gate(ring, k)
    position = memory.load64(gate)  # pairs with take 2 and 5
    end = memory.load64(gate + layout.GATE_TAKEN_END)  # behind the gate; pairs with take 2
    shared = memory.load64(header.gate(ring, 0))  # pairs with take 3
    valid = 0 <= position < end <= shared and end < layout.MAX_POSITION
    return (position, end) if valid and position % header.alignment == end % header.alignment == 0 else None


def take_worker_slot(channel: Attached, name: str, patience: float = 0) -> WorkerSlot:
    """Takes a worker's slot (queue.md 6), waiting up to ``patience`` seconds. The caller has checked the name.
    NoFreeSlotError, IoError."""
    wanted = name.encode("ascii")
    header, memory = channel.header, channel.memory

    def take(lock: File, k: int) -> WorkerSlot:
        slot, batch = header.subscriber_slot(k), NO_BATCH
        renew_boot(channel)
        epoch = change_slot(channel, slot, wanted, None)
        for ring in range(header.publishers):
            gate = header.gate(ring, k)
            found = has_job(header, memory, ring, k)
            if found and batch is NO_BATCH:  # the last owner's batch: adopt it where it lies
                attempts = min(max(0, memory.load32(gate + layout.GATE_ATTEMPTS)) + 1, 2**31 - 1)
                memory.store32(gate + layout.GATE_ATTEMPTS, attempts)
                batch = ring, *found, attempts
            elif memory.load64(gate) != layout.NOT_GATING:  # never taken
                memory.store64(gate, layout.NOT_GATING)  # pairs with queue 4, 2b
        if batch is NO_BATCH:
            memory.store64_plain(slot + layout.SUBSCRIBER_SLOT_BUSY_SINCE, 0)
        if memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING):
            memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 0)  # last; pairs with queue 5, 1 and 7
        channel.wake_publishers()
        channel.wake_workers()  # so that they compute the cap of their sleep again
        return WorkerSlot(lock, k, epoch, batch, name)

    return take_slot(
        channel, "subscriber", name, lambda: range(1, header.subscribers), header.subscriber_slot, take, patience
    )


def evict_worker(channel: Attached, k: int) -> int:
    """Evicts a worker (queue.md 7). Returns 1 if it had a job, else 0. InvalidArgumentError, IoError."""
    header, memory = channel.header, channel.memory
    if not isinstance(k, int) or not 1 <= k < header.subscribers:
        raise InvalidArgumentError("slot", f"{k!r} is not a worker's slot: there are {header.workers}, from 1 on")
    slot = header.subscriber_slot(k)
    lock = new_lock(channel.file, channel.path)
    try:
        with control_lock(lock, channel.path):
            had = any(has_job(header, memory, ring, k) for ring in range(header.publishers))
            memory.add64(slot + layout.SUBSCRIBER_SLOT_EPOCH, 1)  # first; pairs with take 4 and 5
            memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 1)  # pairs with adopt 1
            channel.wake_workers()
    finally:
        lock.close()
    return int(had)


def check_max_lag(max_lag: int, capacity: int) -> None:
    least = capacity // layout.MIN_LAG_DIVISOR
    if max_lag != 0 and not least <= max_lag <= capacity:
        raise InvalidArgumentError("max_lag", f"{max_lag} must be 0, or {least} to {capacity} bytes (the capacity)")


def slot_owners(
    channel: Attached, lock: File, slots: Iterable[int], offset: Callable[[int], int]
) -> tuple[SlotOwner, ...]:
    """Returns the owners of these slots, without the slots that no process owns."""
    memory, owners = channel.memory, []
    for k in slots:
        if lock.is_locked(offset(k) + layout.CONTROL_SLOT_LOCK):
            fields = read_slot(memory, offset(k))
            owners.append(SlotOwner(k, fields.name if fields else "", fields.pid if fields else 0))
    return tuple(owners)


def no_free_slot(
    channel: Attached, lock: File, kind: str, name: str, chosen: Sequence[int], offset: Callable[[int], int]
) -> NoFreeSlotError:
    """Returns the error for when none of the chosen slots is free."""
    header, memory = channel.header, channel.memory
    rings, readers = header.producers or header.publishers, header.workers or header.subscribers
    count = rings if kind == "publisher" else readers
    owners = slot_owners(channel, lock, chosen, offset)
    inbox = kind == "subscriber" and header.kind == "inbox"
    if len(chosen) == 1 and owners and (inbox or (name and name_at(memory, offset(chosen[0])) == name.encode("ascii"))):
        slot, owner, pid = owners[0]
        label = f" ({owner!r})" if owner else ""
        return NoFreeSlotError(kind, count, owners, f"{kind} slot {slot}{label} is owned by pid {pid}; close it there")
    kept = [
        f"slot {k} is kept for {name_at(memory, offset(k)).decode('ascii', 'replace')!r}, which is not attached; "
        "forget it, or evict it with flyring evict and take it by its name"
        for k in range(count if kind == "subscriber" and not header.is_queue else 0)
        if k not in chosen and not lock.is_locked(offset(k) + layout.CONTROL_SLOT_LOCK)
    ]
    if not kept:
        everybody = owners if len(chosen) == count else slot_owners(channel, lock, range(count), offset)
        return NoFreeSlotError(kind, count, everybody)
    owned = f"owned: {', '.join(map(str, owners[:8]))}; " if owners else ""
    return NoFreeSlotError(kind, count, owners, f"no {kind} slot is free: {owned}{'; '.join(kept)}")


def check_rings(rings: Iterable[int] | None, publishers: int) -> list[int] | None:
    if rings is None:
        return None
    chosen = sorted(set(rings))
    if not chosen or chosen[0] < 0 or chosen[-1] >= publishers:
        raise InvalidArgumentError("rings", f"{chosen} must be one or more of 0 to {publishers - 1}")
    return chosen


def take_slot(
    channel: Attached,
    kind: str,
    name: str,
    candidates: Callable[[], Sequence[int]],
    offset: Callable[[int], int],
    take: Callable[[File, int], Slot],
    patience: float = 0,
) -> Slot:
    """Locks one of the candidates, and takes it under the control lock (steps 1, 2 and the last step of 5.2 and
    5.3)."""
    if channel.wakes:
        register_waker()  # before the slot says that this process wakes sleepers
    lock = new_lock(channel.file, channel.path)
    try:
        nap, began = RETRY, time.monotonic()
        give_up = 0.0  # set after the first try, because waiting for the control lock may have taken long
        while True:
            with control_lock(lock, channel.path):
                chosen = candidates()
                for k in chosen:
                    if lock.try_lock(offset(k)):
                        return take(lock, k)
            now = time.monotonic()
            give_up = give_up or now + max(PATIENCE, patience)
            if now > give_up:
                break
            time.sleep(nap)
            nap = RETRY if now < began + PATIENCE else min(2 * nap, LONGEST_NAP)
        raise no_free_slot(channel, lock, kind, name, chosen, offset)
    except BaseException as error:
        lock.close()
        if isinstance(error, OSError) and not isinstance(error, FlyringError):
            raise failed("fcntl(F_OFD_SETLK)", error, channel.path) from error
        raise


def change_slot(channel: Owning, slot: int, name: bytes, start: int | None) -> int:
    """Writes the slot's fields for a new owner (step 4 of 5.2, step 3 of 5.3). Returns the new epoch."""
    memory, identity = channel.memory, channel.identity
    length = memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH)
    renamed = length != len(name) or name_at(memory, slot) != name
    if renamed:  # an equal name is left alone: after a kill in between, a kept slot would lose its name (5.3, 3)
        memory.store32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH, CHANGING)
    memory.fence()  # pairs with the acquire fence of 6.12
    if start is not None:
        memory.store64(slot + layout.PUBLISHER_SLOT_START, start)
        memory.store32(slot + layout.PUBLISHER_SLOT_CLOSED, 0)
        memory.store64(slot + layout.PUBLISHER_SLOT_BLOCKED_SINCE, 0)
    memory.store32(slot + layout.PUBLISHER_SLOT_PID, identity.process_id())
    memory.store64(slot + layout.PUBLISHER_SLOT_ATTACHED_AT, identity.wall_clock())
    if renamed:
        memory.write(slot + layout.PUBLISHER_SLOT_NAME, name.ljust(layout.MAX_NAME_LENGTH, b"\0"))
    before = memory.load64(slot + layout.PUBLISHER_SLOT_EPOCH)  # stable: this process holds both locks
    epoch = before + 1 if 0 <= before <= layout.MAX_EPOCH else 1
    memory.store64_plain(slot + layout.PUBLISHER_SLOT_WAKES, epoch if channel.wakes else 0)
    memory.store64(slot + layout.PUBLISHER_SLOT_EPOCH, epoch)  # pairs with 5.4
    if renamed:
        memory.store32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH, len(name))  # pairs with 6.12 (acquire)
    return epoch


def renew_boot(channel: Attached) -> None:
    """Stores the id of this boot, if the file has another (spec/channel.md 5.5). The caller holds the control lock."""
    at = channel.header.control_offset + layout.CONTROL_BOOT_ID
    try:
        boot = channel.identity.this_boot().bytes
    except OSError as error:
        raise failed("open", error, str(error.filename)) from error
    if channel.memory.read(at, len(boot)) == boot:
        return
    header, memory = channel.header, channel.memory
    for ring in range(header.clients):  # service.md 9: drop the requests from before the boot
        published = memory.load64(header.trailer(ring) + layout.TRAILER_PUBLISHED)
        if 0 <= published < layout.MAX_POSITION and published % header.alignment == 0:
            memory.store64_plain(header.gate(ring, 0) + layout.GATE_COUNT, layout.COUNT_UNKNOWN)
            memory.store64(header.gate(ring, 0), published)  # pairs with 6.2, 2
    memory.write(at, boot)


def give_back(channel: Attached, slot: SubscriberSlot) -> None:
    """Gives back a slot that was taken but cannot be used."""
    if not slot.kept:
        for ring in range(channel.header.publishers):
            channel.memory.store64(channel.header.gate(ring, slot.slot), layout.NOT_GATING)  # pairs with 6.2, 2
        channel.wake_publishers()
    slot.lock.close()


# Positions


def check_position(header: Header, ring: int, position: int, what: str) -> None:
    if not 0 <= position < layout.MAX_POSITION or position % header.alignment:
        raise CorruptRingError(ring, position, f"{what} is not a position")


def consistent_count(header: Header, memory: Memory, ring: int) -> tuple[int, int] | None:
    """Returns ``published`` and its count (spec/channel.md 6.10); None if the publisher stopped or died between its
    stores."""
    trailer = header.trailer(ring)
    for _ in range(layout.LOSSY_TRIES):
        done = memory.load64(trailer + layout.TRAILER_MESSAGES_DONE)  # pairs with publish 7, the last
        published = memory.load64(trailer + layout.TRAILER_PUBLISHED)  # pairs with publish 7
        count = memory.load64_plain(trailer + layout.TRAILER_MESSAGES_BEGUN)
        if done == count:
            return published, count
    return None


def count_of(header: Header, memory: Memory, ring: int, position: int) -> int:
    """Returns how many messages lie below a gate's position (spec/channel.md 6.5), or -1."""
    if header.foreign == "publisher":
        return layout.COUNT_UNKNOWN  # Agrona counts nothing
    trailer, best = header.trailer(ring), None
    for eighth in range(layout.BOUNDARIES):
        at = trailer + layout.TRAILER_BOUNDARY + layout.TRAILER_BOUNDARY_STRIDE * eighth
        boundary = memory.load64(at)  # pairs with publish 8, the last
        count = memory.load64_plain(at + layout.TRAILER_BOUNDARY_COUNT)
        memory.fence()  # pairs with the release fence of publish 8
        if boundary < position or memory.load64_plain(at) != boundary or (best is not None and best[0] < boundary):
            continue
        if boundary + header.capacity >= memory.load64(trailer + layout.TRAILER_CLAIMED) + 8:
            best = boundary, count
    end = best or consistent_count(header, memory, ring)
    if end is None or position % header.alignment or not 0 <= end[0] - position <= header.capacity:
        return layout.COUNT_UNKNOWN
    stop, messages, bad = memory.walk(header.ring(ring), header.capacity, header.alignment, position, end[0], True)
    return end[1] - messages if not bad and stop == end[0] and end[1] >= messages else layout.COUNT_UNKNOWN


def messages_after(header: Header, memory: Memory, ring: int, gate: int) -> int:
    """Returns how many messages were published after this gate, or -1."""
    count, now = count_of(header, memory, ring, gate), consistent_count(header, memory, ring)
    return -1 if count < 0 or now is None else max(0, now[1] - count)


def join(channel: Attached, slot: int, chosen: list[int], is_kept: bool) -> list[tuple[int, int, int]]:
    """Joins a subscriber slot to the chosen rings at their ends (spec/channel.md 6.4). Returns its cursors."""
    header, memory = channel.header, channel.memory
    try:
        for ring in header.rings_of(slot):
            if ring not in chosen:
                memory.store64(header.gate(ring, slot), layout.NOT_GATING)  # 1
        for ring in chosen:
            published = memory.load64(header.trailer(ring) + layout.TRAILER_PUBLISHED)  # 2, pairs with publish 7
            check_position(header, ring, published, "published")
            memory.store64(header.gate(ring, slot), published)  # 2, pairs with 6.2, 2
        memory.fence()  # 3, pairs with 6.2, 1
        cursors = []
        for ring in chosen:
            found = consistent_count(header, memory, ring)  # 4
            if found is None:
                published = memory.load64(header.trailer(ring) + layout.TRAILER_PUBLISHED)  # pairs with publish 7
                found = published, layout.COUNT_UNKNOWN
            check_position(header, ring, found[0], "published")
            memory.store64(header.gate(ring, slot), found[0])  # 4, pairs with 6.2, 2
            cursors.append((ring, *found))
    except CorruptRingError:
        for ring in header.rings_of(slot):
            memory.store64(header.gate(ring, slot), layout.NOT_GATING)
        raise
    before = {ring: memory.load64_plain(header.gate(ring, slot) + layout.GATE_COUNT) for ring in chosen}
    if is_kept:  # 5
        at = header.subscriber_slot(slot) + layout.SUBSCRIBER_SLOT_DISCARDED
        lost = sum(count - before[ring] for ring, _, count in cursors if 0 <= before[ring] < count)
        memory.store64_plain(at, min(max(0, memory.load64_plain(at)) + lost, 2**63 - 1))
    for ring, _, count in cursors:  # 6
        memory.store64_plain(header.gate(ring, slot) + layout.GATE_COUNT, max(count, layout.COUNT_UNKNOWN))
    return cursors


def resume(channel: Attached, gates: dict[int, int]) -> list[tuple[int, int]]:
    """Resumes a kept slot at its gates (spec/channel.md 6.5). Returns (ring, position) of each gate."""
    header, memory = channel.header, channel.memory
    cursors = []
    for ring, gate in gates.items():
        if gate < 0 and not header.foreign:
            continue
        check_position(header, ring, gate, "the gate of the kept slot")
        published = memory.load64(header.trailer(ring) + header.end_word)  # pairs with publish 7
        claimed = memory.load64(header.trailer(ring) + layout.TRAILER_CLAIMED)
        # A gate may lie beyond published: the reader consumed a message before its publisher did step 7.
        if not published - header.capacity <= gate <= claimed:
            raise CorruptRingError(ring, gate, f"the gate of the kept slot is not within a lap below {claimed}")
        cursors.append((ring, gate))
    return cursors


@dataclass(frozen=True)
class Left:
    """The state in which the last owner of a ring left it, as ``check_ring`` found it."""

    ring: int
    published: int
    claimed: int
    end: int  # of the committed records
    messages: int  # committed messages beyond published


def check_ring(header: Header, memory: Memory, ring: int) -> Left:
    """Checks a ring before its recovery (spec/channel.md 6.8, steps 1 and 3). Stores nothing. The caller holds the
    publisher slot's lock. CorruptRingError."""
    trailer, mask = header.trailer(ring), header.capacity - 1
    published = memory.load64(trailer + layout.TRAILER_PUBLISHED)
    claimed = memory.load64(trailer + layout.TRAILER_CLAIMED)
    check_position(header, ring, published, "published")  # 1
    check_position(header, ring, claimed, "claimed")
    window = min(layout.CLEAR_AHEAD, header.capacity // layout.CLEAR_AHEAD_DIVISOR) if header.alignment == 64 else 0
    if claimed < published or (published & mask) + (claimed - published) > header.capacity:
        raise CorruptRingError(ring, published, f"claimed is {claimed}")
    if claimed - published > header.capacity // layout.MAX_MESSAGE_DIVISOR + window:
        raise CorruptRingError(ring, published, f"claimed ({claimed}) is too far ahead of published")
    end, messages = committed(header, memory, ring, published, claimed)  # 3
    return Left(ring, published, claimed, end, messages)


def store_recovered(header: Header, memory: Memory, left: Left) -> tuple[int, int]:
    """Recovers a ring that ``check_ring`` has checked (the other steps of spec/channel.md 6.8). Returns the new end of
    what is published, and the number of messages."""
    trailer, data, mask = header.trailer(left.ring), header.ring(left.ring), header.capacity - 1
    end, claimed = left.end, left.claimed
    if end == left.published:  # 2: nothing is committed there
        count = memory.load64(trailer + layout.TRAILER_MESSAGES_BEGUN)
        memory.store64(trailer + layout.TRAILER_MESSAGES_DONE, count)
    else:
        count = memory.load64(trailer + layout.TRAILER_MESSAGES_DONE)
    count = (count + left.messages + 2**63) % 2**64 - 2**63  # wraps, if the file says so
    if end < claimed:  # 4
        memory.store32(data + (claimed & mask) + layout.RECORD_LENGTH, 0)
        memory.store32(data + (end & mask) + layout.RECORD_TYPE, layout.TYPE_PADDING)
        memory.store32(data + (end & mask) + layout.RECORD_LENGTH, claimed - end)  # pairs with poll 1
    memory.store64(trailer + layout.TRAILER_MESSAGES_BEGUN, count)  # 5
    memory.store64(trailer + layout.TRAILER_PUBLISHED, claimed)  # pairs with join 2 and 4
    memory.store64(trailer + layout.TRAILER_MESSAGES_DONE, count)  # pairs with lossy 5
    return claimed, count


def recover(channel: Attached, ring: int) -> tuple[int, int]:
    """Recovers a ring (spec/channel.md 6.8). Returns the new end of what is published, and the number of messages. The
    caller holds the publisher slot's lock."""
    return store_recovered(channel.header, channel.memory, check_ring(channel.header, channel.memory, ring))


def committed(header: Header, memory: Memory, ring: int, start: int, end: int) -> tuple[int, int]:
    """Walks the committed records from ``start`` to ``end`` at most. Returns where they stop, and how many are
    messages."""
    check_position(header, ring, start, "published")
    stop, messages, bad = memory.walk(header.ring(ring), header.capacity, header.alignment, start, end)
    if bad:
        raise CorruptRingError(ring, stop, f"a record of {bad} bytes cannot be here")
    return stop, messages


# Reading the slots of other processes


@dataclass(frozen=True)
class SlotFields:
    """A slot as other processes see it (spec/channel.md 6.12). ``flag``: ``closed`` of a publisher, ``kept`` of a
    subscriber."""

    epoch: int
    flag: bool
    name: str
    pid: int
    attached_at: int


def read_slot(memory: Memory, slot: int) -> SlotFields | None:
    """Reads a slot's fields (spec/channel.md 6.12). None if they keep changing, or an owner died while changing
    them."""
    for _ in range(1000):
        epoch = raw = memory.load64(slot + layout.PUBLISHER_SLOT_EPOCH)  # pairs with change_slot (release)
        if not 1 <= epoch <= layout.MAX_EPOCH:
            epoch = 0  # 9
        length = memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH)
        if length == CHANGING:
            continue
        named = 0 < length <= layout.MAX_NAME_LENGTH  # 9
        fields = SlotFields(
            epoch=epoch,
            flag=bool(memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT)),
            name=memory.read(slot + layout.PUBLISHER_SLOT_NAME, length if named else 0).decode("ascii", "replace"),
            pid=memory.load32(slot + layout.PUBLISHER_SLOT_PID),
            attached_at=memory.load64(slot + layout.PUBLISHER_SLOT_ATTACHED_AT),
        )
        memory.fence()
        if (
            memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH) == length
            and memory.load64(slot + layout.PUBLISHER_SLOT_EPOCH) == raw
        ):
            return fields
    return None


def clear_name(channel: Owning, slot: int) -> None:
    """Clears the name of a slot for ``forget``. The caller holds the control lock and the slot's lock."""
    memory = channel.memory
    memory.store32(slot + layout.SUBSCRIBER_SLOT_NAME_LENGTH, CHANGING)
    memory.fence()  # pairs with 6.12
    memory.write(slot + layout.SUBSCRIBER_SLOT_NAME, bytes(layout.MAX_NAME_LENGTH))
    memory.store32(slot + layout.SUBSCRIBER_SLOT_NAME_LENGTH, 0)
