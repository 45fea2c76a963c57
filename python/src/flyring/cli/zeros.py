# SPDX-License-Identifier: Apache-2.0
"""The part of ``flyring check`` for bytes that version 1.0 leaves zero; a stray write shows there (spec/channel.md 4
and 10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from .. import layout
from .._core import Memory
from ..header import Header
from .fields import size as type_size
from .image import Image
from .report import Findings

Range = tuple[int, int]  # offsets in the file: first, and behind the last

QUEUES = {"handovers", "jobs_sequence", "jobs_asleep", "busy_since", "taken_end", "attempts"}
SERVICES = {"serving", "taken_end", "outstanding", "expired"}
AGRONA = {"head_cache", "correlation", "heartbeat"}


def check_zeros(image: Image, header: Header, memory: Memory, findings: Findings) -> None:
    for section, begin, end in reserved(header):
        if not image.covers(begin, end - begin):
            continue
        data = memory.read(begin, end - begin)
        if any(data):
            offset = begin + len(data) - len(data.lstrip(b"\0"))
            what = f"a byte that version 1.0 never writes is {data[offset - begin]:#04x}"
            do = "harmless in itself; find out which program writes to this file"
            findings.broken("not-zero", section, offset, what, do)


def reserved(header: Header) -> Iterator[tuple[str, int, int]]:
    """Yields each range of reserved bytes: the section of the spec, the first byte, and the byte behind the last."""
    of_kind = QUEUES if header.is_queue else SERVICES if header.is_service else set()
    unwritten: set[str] = (QUEUES | SERVICES) - of_kind  # fields of other kinds, which no process writes here
    known = layout.HEADER_MAX_OUTSTANDING if header.is_service else layout.HEADER_SCHEMA_VERSION
    yield "4.2", known + 4, layout.HEADER_CRC
    control = header.control_offset
    for begin, end in gaps(written("control", unwritten), layout.CONTROL_SLOTS):
        yield "4.3", control + begin, control + end
    slots = (("4.4", "publisher_slot", header.publishers), ("4.5", "subscriber_slot", header.subscribers))
    for section, table, count in slots:
        for k in range(count):
            slot = header.publisher_slot(k) if table == "publisher_slot" else header.subscriber_slot(k)
            for begin, end in gaps(written(table, unwritten), layout.CONTROL_SLOT_LENGTH):
                yield section, slot + begin, slot + end
    yield "4.1", header.subscriber_slot(header.subscribers), header.counter_metadata_offset
    yield "4.1", header.counter_values_offset + header.counter_values_length, header.rings_offset
    fields = set(written("trailer", unwritten | (AGRONA if not header.foreign else set())))
    for slot in header.gating(0):
        gate = header.gate(0, slot) - header.trailer(0)
        fields |= {(gate, 8)} | {(gate + offset, size) for offset, size in written("gate", unwritten)}
    between = list(gaps(fields, header.trailer_length))
    for ring in range(header.publishers):
        for begin, end in between:
            yield "4.7", header.trailer(ring) + begin, header.trailer(ring) + end
    yield "4.1", header.schema_offset + header.schema_length, header.sections_end


def written(table: str, unwritten: AbstractSet[str]) -> Iterator[Range]:
    """Yields (offset, size) of the fields of a table in layout.toml, without the fields named in ``unwritten``."""
    for name, offset, kind, count, stride in layout.FIELDS[table]:
        if name not in unwritten:
            for i in range(count):
                yield offset + i * stride, type_size(kind)


def gaps(fields: Iterable[Range], length: int) -> Iterator[Range]:
    """Yields the gaps between fields, which are (offset, size), up to ``length``."""
    at = 0
    for offset, size in sorted(fields):
        if offset > at:
            yield at, offset
        at = offset + size
    if at < length:
        yield at, length
