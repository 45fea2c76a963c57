# SPDX-License-Identifier: Apache-2.0
"""Takes the places of a service's clients and server, in the steps of spec/service.md 3, 4 and 9. Numbers in comments
are steps of these sections. slots.py does the same for the other kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from . import layout
from ._core import File, Memory, register_waker
from .errors import FlyringError, NoFreeSlotError, SlotOwner
from .header import Header
from .slots import (
    LONGEST_NAP,
    PATIENCE,
    RETRY,
    Attached,
    change_slot,
    check_position,
    check_ring,
    count_of,
    join,
    messages_after,
    read_slot,
    renew_boot,
    slot_owners,
    store_recovered,
)
from .system import control_lock, failed, is_locked, new_lock


@dataclass(frozen=True)
class ClientPlace:
    lock: File
    number: int
    epoch: int  # of slot 1 + number
    publisher_epoch: int
    end: tuple[int, int]  # of ring `number`: its position and count
    cursor: tuple[int, int]  # in ring N + number: its position and count
    name: str


@dataclass(frozen=True)
class Side:
    """The state in which a new server finds one client."""

    cursor: int  # where the server reads next in the client's request ring
    stored: int  # the gate of that ring
    count: int  # of the cursor; -1: not known
    repeat_end: int  # requests below it were given to a handler before
    damaged: bool  # the request ring cannot be read
    end: tuple[int, int]  # of ring N + k: its position and count


@dataclass(frozen=True)
class ServerPlace:
    lock: File
    epoch: int
    sides: tuple[Side, ...]
    name: str


Place = TypeVar("Place", ClientPlace, ServerPlace)


def take_client_place(channel: Attached, name: str, patience: float = 0) -> ClientPlace:
    """Takes a client's place (service.md 3), waiting up to ``patience`` seconds. The caller has checked the name.
    Raises NoFreeSlotError, CorruptRingError or IoError."""
    wanted = name.encode("ascii")
    header, memory = channel.header, channel.memory

    def locks(k: int) -> list[int]:
        return [header.publisher_slot(k), header.subscriber_slot(1 + k)]

    def take(lock: File, k: int) -> ClientPlace:
        replies = header.clients + k
        slot = header.subscriber_slot(1 + k)
        renew_boot(channel)  # 3
        left = check_ring(header, memory, k)
        published = memory.load64(header.trailer(replies) + layout.TRAILER_PUBLISHED)
        check_position(header, replies, published, "published")
        end = store_recovered(header, memory, left)  # 4
        publisher_epoch = change_slot(channel, header.publisher_slot(k), wanted, end[0])
        epoch = change_slot(channel, slot, wanted, None)  # 5
        ((_, position, count),) = join(channel, 1 + k, [replies], False)
        gate = header.gate(replies, 1 + k)
        memory.store32(gate + layout.GATE_OUTSTANDING, 0)
        memory.store64_plain(gate + layout.GATE_EXPIRED, 0)
        if memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING):
            memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 0)  # pairs with 6.11 and the next owner's load
        channel.wake_readers()  # 6
        channel.wake_publishers()
        return ClientPlace(lock, k, epoch, publisher_epoch, end, (position, count), name)

    def refuse(lock: File) -> NoFreeSlotError:
        owners = slot_owners(channel, lock, range(1, 1 + header.clients), header.subscriber_slot)
        return NoFreeSlotError("subscriber", header.clients, owners)

    return take_place(channel, range(header.clients), locks, take, refuse, patience)


def take_server_place(channel: Attached, name: str, patience: float = 0) -> ServerPlace:
    """Takes the server's place (service.md 4), waiting up to ``patience`` seconds. The caller has checked the name.
    Raises NoFreeSlotError, CorruptRingError or IoError."""
    wanted = name.encode("ascii")
    header, memory = channel.header, channel.memory
    replies = range(header.clients, header.publishers)

    def locks(_: int) -> list[int]:
        # 2, before the locks; otherwise callers would take this server for the previous one. Pairs with "gone?" 1.
        if not is_locked(channel.file, header.subscriber_slot(0) + layout.CONTROL_SLOT_LOCK, channel.path):
            memory.store64(header.control_offset + layout.CONTROL_SERVING, 0)
        return [header.subscriber_slot(0)] + [header.publisher_slot(ring) for ring in replies]

    def take(lock: File, _: int) -> ServerPlace:
        renew_boot(channel)  # 3
        found = [check_ring(header, memory, ring) for ring in replies]
        epoch = change_slot(channel, header.subscriber_slot(0), wanted, None)  # 4
        ends = []
        for left in found:  # 5
            ends.append(store_recovered(header, memory, left))
            change_slot(channel, header.publisher_slot(left.ring), wanted, ends[-1][0])
        sides = tuple(resume(header, memory, k, ends[k]) for k in range(header.clients))  # 6
        memory.store64(header.control_offset + layout.CONTROL_SERVING, epoch)  # 7: pairs with "a server lives at e"
        channel.wake_readers()  # 8
        channel.wake_publishers()
        return ServerPlace(lock, epoch, sides, name)

    def refuse(_: File) -> NoFreeSlotError:
        fields = read_slot(memory, header.subscriber_slot(0))
        owner = SlotOwner(0, fields.name if fields else "", fields.pid if fields else 0)
        label = f" {owner.name!r}" if owner.name else ""
        why = f"there is a server{label}, pid {owner.pid}; a service has one: close that one, or evict slot 0"
        return NoFreeSlotError("subscriber", 1, (owner,), why)

    return take_place(channel, range(1), locks, take, refuse, patience)


def resume(header: Header, memory: Memory, k: int, end: tuple[int, int]) -> Side:
    """Finds where a new server resumes client k's request ring (service.md 4, "resume ring k")."""
    at = header.gate(k, 0)
    gate = memory.load64(at)  # pairs with poll 8
    published = memory.load64(header.trailer(k) + layout.TRAILER_PUBLISHED)  # pairs with publish 7
    claimed = memory.load64(header.trailer(k) + layout.TRAILER_CLAIMED)
    known = all(is_position(header, position) for position in (gate, published, claimed))
    if not known or not published - header.capacity <= gate <= claimed:  # a
        return Side(0, 0, layout.COUNT_UNKNOWN, 0, True, end)
    taken_end = memory.load64(at + layout.GATE_TAKEN_END)  # pairs with poll 6
    repeat_end = taken_end if is_position(header, taken_end) and gate <= taken_end <= claimed else gate  # b
    cursor = gate if header.delivery == "at-least-once" else repeat_end
    count = count_of(header, memory, k, cursor)
    if cursor != gate:  # c
        memory.store64_plain(at + layout.GATE_COUNT, count)
        memory.store64(at, cursor)  # pairs with 6.2, 2
    return Side(cursor, cursor, count, repeat_end, False, end)


def is_position(header: Header, position: int) -> bool:
    return 0 <= position < layout.MAX_POSITION and position % header.alignment == 0


def take_place(
    channel: Attached,
    places: Sequence[int],
    locks: Callable[[int], list[int]],
    take: Callable[[File, int], Place],
    refuse: Callable[[File], NoFreeSlotError],
    patience: float,
) -> Place:
    """Takes the first place whose locks are all free (steps 1 and 2 of service.md 3 and 4). All locks are on one file
    description, and the place is taken under the control lock."""
    if channel.wakes:
        register_waker()  # before the slot says that this process wakes sleepers
    lock = new_lock(channel.file, channel.path)
    try:
        nap, began = RETRY, time.monotonic()
        give_up = 0.0  # set after the first try, because waiting for the control lock may have taken long
        while True:
            with control_lock(lock, channel.path):
                for place in places:
                    if lock_all(lock, locks(place)):
                        return take(lock, place)
            now = time.monotonic()
            give_up = give_up or now + max(PATIENCE, patience)
            if now > give_up:
                break
            time.sleep(nap)
            nap = RETRY if now < began + PATIENCE else min(2 * nap, LONGEST_NAP)
        raise refuse(lock)
    except BaseException as error:
        lock.close()
        if isinstance(error, OSError) and not isinstance(error, FlyringError):
            raise failed("fcntl(F_OFD_SETLK)", error, channel.path) from error
        raise


def lock_all(lock: File, slots: list[int]) -> bool:
    """Locks all of these slots, or none. Returns whether it did."""
    for i, slot in enumerate(slots):
        if not lock.try_lock(slot):
            for taken in slots[:i]:
                lock.unlock(taken)
            return False
    return True


def give_client_back(channel: Attached, place: ClientPlace) -> None:
    """Gives back a client's place that was taken but cannot be used."""
    header, memory = channel.header, channel.memory
    memory.store32(header.publisher_slot(place.number) + layout.PUBLISHER_SLOT_CLOSED, 1)
    memory.store64(header.gate(header.clients + place.number, 1 + place.number), layout.NOT_GATING)
    channel.wake_readers()
    channel.wake_publishers()
    place.lock.close()


def give_server_back(channel: Attached, place: ServerPlace) -> None:
    """Gives back the server's place that was taken but cannot be used."""
    header, memory = channel.header, channel.memory
    for ring in range(header.clients, header.publishers):
        memory.store32(header.publisher_slot(ring) + layout.PUBLISHER_SLOT_CLOSED, 1)
    channel.wake_readers()
    channel.wake_publishers()
    place.lock.close()


def evict_server(channel: Attached) -> int:
    """Evicts the server (service.md 9). Returns how many requests lie above the gates of slot 0; -1: not known.
    Raises IoError."""
    header, memory = channel.header, channel.memory
    lock = new_lock(channel.file, channel.path)
    try:
        with control_lock(lock, channel.path):
            unread = [
                messages_after(header, memory, k, memory.load64(header.gate(k, 0))) for k in range(header.clients)
            ]
            memory.add64(header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_EPOCH, 1)  # pairs with gone 1, reply 1
            channel.wake_readers()
            channel.wake_publishers()
    finally:
        lock.close()
    return -1 if -1 in unread else sum(unread)
