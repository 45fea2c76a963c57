# SPDX-License-Identifier: Apache-2.0
"""What ``flyring check`` says of bytes that version 1.0 leaves zero: a stray write shows there (spec 4, 10)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import layout
from .._core import Memory
from ..header import Header
from .image import Image
from .report import Findings

Range = tuple[int, int]  # offsets in the file: first, and behind the last

SLOT_FIELDS = (
    (layout.PUBLISHER_SLOT_EPOCH, 8), (layout.PUBLISHER_SLOT_START, 8), (layout.PUBLISHER_SLOT_CLOSED, 4),
    (layout.PUBLISHER_SLOT_NAME_LENGTH, 4), (layout.PUBLISHER_SLOT_NAME, layout.MAX_NAME_LENGTH),
    (layout.PUBLISHER_SLOT_PID, 4), (layout.PUBLISHER_SLOT_ATTACHED_AT, 8),
)  # fmt: skip
TRAILER_FIELDS = (
    (layout.TRAILER_BOUNDARY, layout.BOUNDARIES * layout.TRAILER_BOUNDARY_STRIDE), (layout.TRAILER_CLAIMED, 8),
    (layout.TRAILER_PUBLISHED, 8), (layout.TRAILER_MESSAGES_BEGUN, 8), (layout.TRAILER_MESSAGES_DONE, 8),
)  # fmt: skip
AGRONA_FIELDS = (
    (layout.TRAILER_HEAD_CACHE, 8), (layout.TRAILER_CORRELATION, 8), (layout.TRAILER_HEARTBEAT, 8),
)  # fmt: skip


def check_zeros(image: Image, header: Header, memory: Memory, findings: Findings) -> None:
    for section, begin, end in reserved(header):
        if not image.covers(begin, end - begin):
            continue
        data = memory.read(begin, end - begin)
        if any(data):
            offset = begin + len(data) - len(data.lstrip(b"\0"))
            what = f"a byte that nobody writes in version 1.0 is {data[offset - begin]:#04x}"
            do = "harmless in itself; find out who writes to this file"
            findings.broken("not-zero", section, offset, what, do)


def reserved(header: Header) -> Iterator[tuple[str, int, int]]:
    """Section of the spec, first byte, byte behind the last."""
    yield "4.2", layout.HEADER_SCHEMA_VERSION + 4, layout.HEADER_CRC
    control = header.control_offset
    yield "4.3", control + 16, control + layout.CONTROL_SLOTS
    for k in range(header.publishers + header.subscribers):
        for begin, end in gaps(SLOT_FIELDS, layout.CONTROL_SLOT_LENGTH):
            yield "4.4", header.publisher_slot(k) + begin, header.publisher_slot(k) + end
    yield "4.1", header.subscriber_slot(header.subscribers), header.counter_metadata_offset
    yield "4.1", header.counter_values_offset + header.counter_values_length, header.rings_offset
    fields = TRAILER_FIELDS + (AGRONA_FIELDS if header.foreign else ())
    gates = tuple((header.gate(0, slot) - header.trailer(0), 8) for slot in range(header.subscribers))
    between = list(gaps(fields + gates, header.trailer_length))
    for ring in range(header.publishers):
        for begin, end in between:
            yield "4.7", header.trailer(ring) + begin, header.trailer(ring) + end
    yield "4.1", header.schema_offset + header.schema_length, header.sections_end


def gaps(fields: tuple[Range, ...], length: int) -> Iterator[Range]:
    """What lies between fields (offset, size), up to ``length``."""
    at = 0
    for offset, size in sorted(fields):
        if offset > at:
            yield at, offset
        at = offset + size
    if at < length:
        yield at, length
