# SPDX-License-Identifier: Apache-2.0
"""Who is attached: the slots and counters of an image as values to show (spec 4.4, 4.5, 4.8, 6.12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import layout
from .._core import Memory
from ..header import Header
from ..slots import SlotFields, read_slot
from .image import Image

CHANGING = SlotFields(epoch=-1, flag=False, name="", pid=0, attached_at=0)


def publishers(image: Image, header: Header, memory: Memory) -> Iterator[dict[str, Any]]:
    """State: live (somebody has the lock, or it is foreign: 6.15), closed (properly), away (died, or was never closed),
    unused. A foreign publisher counts no messages."""
    for k in range(header.publishers):
        slot, trailer = header.publisher_slot(k), header.trailer(k)
        if not image.covers(slot, layout.CONTROL_SLOT_LENGTH):
            return
        fields = fields_of(memory, slot)
        foreign = header.foreign == "publisher"
        live = foreign or image.locked(slot + layout.CONTROL_SLOT_LOCK)
        state = "live" if live else "unused" if fields.epoch == 0 else "closed" if fields.flag else "away"
        words = image.covers(trailer, header.trailer_length)
        yield {
            "slot": k,
            "ring": k,
            "state": state,
            "epoch": fields.epoch,
            "name": fields.name,
            "pid": fields.pid,
            "attached_at": fields.attached_at,
            "closed": fields.flag,
            "start": memory.load64(slot + layout.PUBLISHER_SLOT_START),
            "messages": memory.load64(trailer + layout.TRAILER_MESSAGES_DONE) if words and not foreign else None,
            "published": memory.load64(trailer + header.end_word) if words else None,
            "claimed": memory.load64(trailer + layout.TRAILER_CLAIMED) if words else None,
        }


def subscribers(image: Image, header: Header, memory: Memory) -> Iterator[dict[str, Any]]:
    """State: live (somebody has the lock, or it is foreign: 6.15), away, unused. ``gates``: of the rings that the slot
    holds back."""
    for k in range(header.subscribers):
        slot = header.subscriber_slot(k)
        if not image.covers(slot, layout.CONTROL_SLOT_LENGTH):
            return
        fields = fields_of(memory, slot)
        live = header.foreign == "subscriber" or image.locked(slot + layout.CONTROL_SLOT_LOCK)
        yield {
            "slot": k,
            "state": "live" if live else "unused" if fields.epoch == 0 else "away",
            "epoch": fields.epoch,
            "name": fields.name,
            "pid": fields.pid,
            "attached_at": fields.attached_at,
            "kept": fields.flag,
            "evicting": memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING) != 0,
            "gates": list(gates(image, header, memory, k)),
        }


def gates(image: Image, header: Header, memory: Memory, k: int) -> Iterator[dict[str, int]]:
    """The lag is in bytes; the gate is loaded first, so that it is never too small."""
    for ring in range(header.publishers):
        if not image.covers(header.trailer(ring), header.trailer_length):
            return
        position = memory.load64(header.gate(ring, k))
        published = memory.load64(header.trailer(ring) + header.end_word)
        if position >= 0:
            yield {"ring": ring, "position": position, "lag": max(0, published - position)}


def fields_of(memory: Memory, slot: int) -> SlotFields:
    """Epoch -1 stands for a slot whose fields are changing, or whose owner died while it changed them."""
    return read_slot(memory, slot) or CHANGING


def counters(image: Image, header: Header, memory: Memory) -> Iterator[dict[str, Any]]:
    """The walk of spec 8."""
    for i in range(header.counters):
        metadata = header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * i
        value = header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * i
        if not image.covers(value, layout.COUNTER_VALUE_STRIDE):
            return
        state = memory.load32(metadata + layout.COUNTER_METADATA_STATE)
        if state == layout.COUNTER_METADATA_STATE_UNUSED:
            return
        if state != layout.COUNTER_METADATA_STATE_ALLOCATED:
            continue
        length = memory.load32(metadata + layout.COUNTER_METADATA_LABEL_LENGTH)
        label = memory.read(
            metadata + layout.COUNTER_METADATA_LABEL, min(max(length, 0), layout.COUNTER_METADATA_LABEL_MAX_LENGTH)
        )
        key = memory.read(metadata + layout.COUNTER_METADATA_KEY, layout.COUNTER_METADATA_KEY_LENGTH)
        yield {
            "id": i,
            "label": label.decode("utf-8", "backslashreplace"),
            "type_id": memory.load32(metadata + layout.COUNTER_METADATA_TYPE_ID),
            "key": key.rstrip(b"\0").hex(),
            "value": memory.load64(value),
        }
