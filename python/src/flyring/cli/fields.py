# SPDX-License-Identifier: Apache-2.0
"""``flyring info --fields``: every field of the header, slots, trailers and used counters. Each has its name in
spec/layout.toml, its offset in the file, and its value."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from .. import layout
from .._core import Memory
from ..header import Header
from .image import Image


@dataclass(frozen=True)
class Field:
    """One field. ``place`` is the structure that has it: ``publisher_slot 0``, ``trailer 3``, ``gate 1 of ring 3``."""

    place: str
    name: str
    offset: int
    type: str
    value: int | str


def fields(image: Image) -> Iterator[Field]:
    """Yields the fields in the order of the file, up to its end if it was truncated."""
    header, memory = image.header, image.memory
    if header is None or memory is None:
        return
    for place, table, start in tables(header, memory):
        for name, offset, kind, count, stride in layout.FIELDS[table]:
            for i in range(count):
                at = start + offset + i * stride
                if image.covers(at, size(kind)):
                    yield Field(place, f"{name}[{i}]" if count > 1 else name, at, kind, read(memory, at, kind, name))
        if table == "trailer":
            for slot in range(1, header.subscribers if not header.is_service else 1):
                at = start + layout.TRAILER_MORE_GATES + layout.TRAILER_GATE_STRIDE * (slot - 1)
                if image.covers(at, 8):
                    yield Field(place, f"gate[{slot}]", at, "i64", memory.load64(at))


def tables(header: Header, memory: Memory) -> Iterator[tuple[str, str, int]]:
    """Yields each structure of the file: what to call it, its table in layout.toml, and its offset."""
    yield "header", "header", 0
    yield "control", "control", header.control_offset
    for slot in range(header.publishers):
        yield f"publisher_slot {slot}", "publisher_slot", header.publisher_slot(slot)
    for slot in range(header.subscribers):
        yield f"subscriber_slot {slot}", "subscriber_slot", header.subscriber_slot(slot)
    for counter in range(header.counters):
        at = header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * counter
        if at + layout.COUNTER_METADATA_STRIDE > memory.length:
            break
        if memory.load32(at + layout.COUNTER_METADATA_STATE) != layout.COUNTER_METADATA_STATE_UNUSED:
            yield f"counter_metadata {counter}", "counter_metadata", at
            value = header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * counter
            yield f"counter_value {counter}", "counter_value", value
    for ring in range(header.publishers):
        yield f"trailer {ring}", "trailer", header.trailer(ring)
        for slot in header.gating(ring):
            yield f"gate {slot} of ring {ring}", "gate", header.gate(ring, slot)


def size(kind: str) -> int:
    return int(kind[6:-1]) if kind.startswith("bytes") else int(kind[1:]) // 8


def read(memory: Memory, at: int, kind: str, name: str) -> int | str:
    if kind == "i64":
        return memory.load64(at)
    if kind == "i32":
        return memory.load32(at)
    content = memory.read(at, size(kind))
    if kind.startswith("u"):
        return int.from_bytes(content, "little")
    if name in ("channel_id", "boot_id"):
        return str(uuid.UUID(bytes=content))
    return content.rstrip(b"\0").decode("utf-8", "backslashreplace")
