# SPDX-License-Identifier: Apache-2.0
"""The part of ``flyring check`` for the control section (spec/channel.md 4.3 to 4.5, 5)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import layout
from .._core import Memory
from ..header import Header
from ..system import NAME
from .image import Image
from .report import Findings

TAKE_AGAIN = "run flyring recover, or let the next owner write it again"


def check_control(image: Image, header: Header, memory: Memory, findings: Findings) -> None:
    """Checks that the names by which slots are found again are unique."""
    if header.is_service:
        return  # names of a service are only labels (service.md 3)
    for kind, slots, section in (("publisher", publishers(header), "5.2"), ("subscriber", kept(header, memory), "5.3")):
        seen: dict[bytes, int] = {}
        for k, slot in slots:
            length = memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH)
            if not 0 < length <= layout.MAX_NAME_LENGTH:
                continue
            name = memory.read(slot + layout.PUBLISHER_SLOT_NAME, length)
            if name in seen:
                what = f"the name {name.decode('latin-1')!r} is also that of slot {seen[name]}"
                offset = slot + layout.PUBLISHER_SLOT_NAME
                do = "that name always gets the first of these slots; close one and take it without a name"
                findings.broken("name", section, offset, what, do, slot=f"{kind} {k}")
            seen.setdefault(name, k)


def publishers(header: Header) -> Iterator[tuple[int, int]]:
    return ((k, header.publisher_slot(k)) for k in range(header.publishers))


def kept(header: Header, memory: Memory) -> Iterator[tuple[int, int]]:
    for k in range(header.subscribers):
        slot = header.subscriber_slot(k)
        if memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT) == 1:
            yield k, slot


def check_slots(image: Image, header: Header, memory: Memory, findings: Findings) -> None:
    for k in range(header.publishers):
        slot = header.publisher_slot(k)
        check_slot(image, memory, slot, f"publisher {k}", "4.4", findings)
        flag(memory, slot + layout.PUBLISHER_SLOT_CLOSED, "closed", f"publisher {k}", "4.4", findings)
    for k in range(header.subscribers):
        slot, where = header.subscriber_slot(k), f"subscriber {k}"
        check_slot(image, memory, slot, where, "4.5", findings)
        flag(memory, slot + layout.SUBSCRIBER_SLOT_KEPT, "kept", where, "4.5", findings)
        never_owned = memory.load64(slot + layout.SUBSCRIBER_SLOT_EPOCH) == 0
        if k == 0 and (header.is_queue or (header.kind == "inbox" and (never_owned or header.foreign))):
            kept_from_creation(memory, slot, header.kind, findings)
        flag(memory, slot + layout.SUBSCRIBER_SLOT_EVICTING, "evicting", where, "4.5", findings)


def check_slot(image: Image, memory: Memory, slot: int, where: str, section: str, findings: Findings) -> None:
    """Checks a slot's epoch and name, loaded as in 6.12. Fields that changed meanwhile are left to the next try."""
    epoch = memory.load64(slot + layout.PUBLISHER_SLOT_EPOCH)
    length = memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH)
    raw = memory.read(slot + layout.PUBLISHER_SLOT_NAME, layout.MAX_NAME_LENGTH)
    memory.fence()
    if (
        memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH) != length
        or memory.load64(slot + layout.PUBLISHER_SLOT_EPOCH) != epoch
    ):
        return
    if epoch < 0:
        what = f"the epoch is {epoch}"
        findings.broken("epoch", section, slot + layout.PUBLISHER_SLOT_EPOCH, what, TAKE_AGAIN, slot=where)
    offset = slot + layout.PUBLISHER_SLOT_NAME_LENGTH
    if length == -1:
        if not image.control_locked():
            what = "an owner died while it changed the slot's fields"
            findings.left("name", "5.2", offset, what, TAKE_AGAIN, slot=where)
        return
    if not 0 <= length <= layout.MAX_NAME_LENGTH:
        findings.broken("name", section, offset, f"the name's length is {length}", TAKE_AGAIN, slot=where)
        return
    name = raw[:length].decode("latin-1")
    at = slot + layout.PUBLISHER_SLOT_NAME
    if name and not NAME.fullmatch(name):
        what = f"{name!r} is not a valid name"
        findings.broken("name", "3.1", at, what, TAKE_AGAIN, slot=where)
    elif raw[length:].strip(b"\0"):
        what = f"the name {name!r} is not followed by zeros"
        findings.broken("name", section, at + length, what, TAKE_AGAIN, slot=where)


def flag(memory: Memory, offset: int, name: str, where: str, section: str, findings: Findings) -> None:
    value = memory.load32(offset)
    if value not in (0, 1):
        what = f"{name} is {value}, neither 0 nor 1"
        findings.broken(name, section, offset, what, "replace the channel, or forget the slot", slot=where)


def kept_from_creation(memory: Memory, slot: int, kind: str, findings: Findings) -> None:
    if memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT) == 0:
        what = f"slot 0 of a channel of kind {kind} is kept from creation, but this one is not"
        do = "what was published before the first subscriber may be lost"
        findings.broken("kept", "4.2", slot + layout.SUBSCRIBER_SLOT_KEPT, what, do, slot="subscriber 0")
