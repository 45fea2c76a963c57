# SPDX-License-Identifier: Apache-2.0
"""Walks the records of a ring that may be written at the same time, as a lossy subscriber would (spec/channel.md 4.6
and 6.10)."""

from __future__ import annotations

import struct

from .. import layout
from .._core import Memory
from ..header import Header
from ..system import NAME
from .report import Findings

WINDOW = 1 << 18  # bytes copied at once
RECORD = struct.Struct("<ii")
OWNER = struct.Struct("<qi")
ANOTHER_RECORD = "replace the channel; subscribers stop at this record"
NOT_A_RECORD = "a program wrote there that must not; take the slot again, or replace the channel"


class Walk:
    """One walk. ``count``: the number of messages published before the current record (None: not known)."""

    def __init__(self, header: Header, memory: Memory, ring: int, findings: Findings) -> None:
        self.header, self.memory, self.ring, self.findings = header, memory, ring, findings
        self.data, self.mask = header.ring(ring), header.capacity - 1
        self.window, self.window_at = b"", 0
        self.floor = 0  # bytes below this position may have been overwritten before they were read
        self.epoch = 0  # of the last owner record
        self.count: int | None = None

    def run(
        self, end: int, boundaries: dict[int, int], gates: dict[int, int], start: tuple[int, int] | None
    ) -> int | None:
        """Walks to ``end``, where a record ends, from the oldest known start of a record. Each boundary, gate and start
        in between must be the start of a record. Returns how many messages were published up to ``end``; None: not
        known."""
        self.boundaries, self.start = boundaries, start
        self.load(end, end)
        known = [b for b in boundaries if b >= self.floor]
        first = known[0] if known else end
        marks = dict.fromkeys(boundaries, "a boundary") | {g: f"the gate of slot {s}" for g, s in gates.items()}
        if start is not None:
            marks[start[0]] = "the publisher's start"
        self.marks = {p: what for p, what in marks.items() if self.floor <= p < end}
        earliest = min((g for g in gates if g >= self.floor), default=end)
        self.skip_to(min(earliest, first))
        if earliest < first and not self.segment(earliest, first):
            self.skip_to(first)
        if not self.segment(first, end):
            return None
        for position, what in self.marks.items():
            text = f"{what} is {position}, where no record begins"
            self.broken("not-a-boundary", "4.7", position, text, NOT_A_RECORD)
        return self.count

    def skip_to(self, position: int) -> None:
        self.marks = {p: what for p, what in self.marks.items() if p >= position}
        if self.start is not None and self.start[0] < position:
            self.start = None

    def broken(self, kind: str, section: str, position: int, what: str, do: str = ANOTHER_RECORD) -> None:
        offset = self.data + (position & self.mask)
        self.findings.broken(kind, section, offset, what, do, ring=self.ring, position=position)

    def load(self, position: int, end: int) -> None:
        """Copies the bytes at ``position``, and then finds from where on the copy is valid (6.10, 4)."""
        length = min(WINDOW, end - position, self.header.capacity - (position & self.mask))
        self.window, self.window_at = self.memory.read(self.data + (position & self.mask), length), position
        self.memory.fence()
        self.floor = max(self.floor, self.lowest())

    def lowest(self) -> int:
        claimed = self.memory.load64_plain(self.header.trailer(self.ring) + layout.TRAILER_CLAIMED)
        return claimed + layout.RECORD_HEADER_LENGTH - self.header.capacity

    def resume_at(self, end: int) -> int:
        return min((b for b in self.boundaries if self.floor <= b <= end), default=end)

    def segment(self, begin: int, end: int) -> bool:
        """Walks from ``begin`` to ``end``. Returns False if a rule is broken. If bytes were overwritten, notes that,
        and continues at a later boundary."""
        position, self.count = begin, self.boundaries.get(begin)
        while position < end:
            if not self.window_at <= position < self.window_at + len(self.window):
                self.load(position, end)
            if position < self.floor:
                later = self.resume_at(end)
                self.findings.notes.append(f"ring {self.ring}: {later - position} bytes were overwritten while walked")
                self.skip_to(later)
                position, self.count = later, self.boundaries.get(later)
                continue
            n = self.record(position, end)
            if n == 0:
                return False
            position += n
        return True

    def record(self, position: int, end: int) -> int:
        """Checks one record. Returns how many bytes it takes, or 0 if it breaks a rule."""
        length: int
        kind: int
        length, kind = RECORD.unpack_from(self.window, position - self.window_at)
        n = -(-length // self.header.alignment) * self.header.alignment
        if length < layout.RECORD_HEADER_LENGTH:
            self.broken("record", "4.6", position, f"a length of {length} before published {end}")
            return 0
        if (position & self.mask) + n > self.header.capacity:
            self.broken("record", "4.6", position, f"a record of {length} bytes would cross the ring's end")
            return 0
        if position + n > end:
            self.broken("record", "4.6", position, f"a record of {length} bytes would reach beyond {end}")
            return 0
        if kind != layout.TYPE_PADDING and n > self.header.capacity // layout.MAX_MESSAGE_DIVISOR:
            self.broken("record", "4.6", position, f"a record of {length} bytes is longer than a quarter of the ring")
            return 0
        if kind not in (layout.TYPE_PADDING, layout.TYPE_OWNER) and kind < 1:
            self.broken("record", "4.6", position, f"there is no record type {kind}")
            return 0
        self.findings.records += 1
        self.marks.pop(position, None)
        self.counts(position)
        if self.start is not None and position >= self.start[0] and kind != layout.TYPE_PADDING:
            self.first_of_epoch(position, kind, self.start[1])
        if kind == layout.TYPE_OWNER:
            self.owner(position, length)
        elif kind > 0 and self.count is not None:
            self.count += 1
        return n

    def counts(self, position: int) -> None:
        """Compares the count of a boundary with the records since the last boundary."""
        expected = self.boundaries.get(position)
        if expected is None:
            return
        if self.count is not None and self.count != expected:
            what = f"the boundary at {position} counts {expected} messages before it, the records {self.count}"
            self.broken("counts", "4.7", position, what, "only counts of lost messages are wrong")
        self.count = expected

    def first_of_epoch(self, position: int, kind: int, epoch: int) -> None:
        """Checks that the first record of an owner is its owner record (6.1)."""
        self.start = None
        if kind != layout.TYPE_OWNER:
            what = f"the publisher's epoch {epoch} begins with a record of type {kind}, not with an owner record"
            self.broken("owner", "6.1", position, what, "subscribers do not know the sender of the next messages")

    def owner(self, position: int, length: int) -> None:
        size = min(length - layout.RECORD_PAYLOAD, OWNER.size + layout.MAX_NAME_LENGTH)
        payload = self.memory.read(self.data + (position & self.mask) + layout.RECORD_PAYLOAD, size)
        self.memory.fence()
        claimed = self.memory.load64_plain(self.header.trailer(self.ring) + layout.TRAILER_CLAIMED)
        if position + self.header.capacity >= claimed + layout.RECORD_HEADER_LENGTH:  # else overwritten meanwhile
            self.owner_payload(position, payload)

    def owner_payload(self, position: int, payload: bytes) -> None:
        do = "subscribers do not know the sender of the next messages"
        if len(payload) < OWNER.size:
            return self.broken("owner", "4.6", position, f"an owner record of only {len(payload)} bytes", do)
        epoch, length = OWNER.unpack_from(payload)
        name = payload[OWNER.size : OWNER.size + max(length, 0)]
        text = name.decode("latin-1")
        if not 0 <= length <= layout.MAX_NAME_LENGTH or len(name) != length or (text and not NAME.fullmatch(text)):
            return self.broken("owner", "4.6", position, f"an owner record with a name of {length} bytes: {text!r}", do)
        # The slot's epoch was raised before the record was written, so it is loaded after.
        newest = self.memory.load64(self.header.publisher_slot(self.ring) + layout.PUBLISHER_SLOT_EPOCH)
        if not self.epoch < epoch <= newest:
            what = f"an owner record of epoch {epoch} after {self.epoch or 'none'}; the slot's is {newest}"
            return self.broken("owner", "4.6", position, what, do)
        self.epoch = epoch
        return None
