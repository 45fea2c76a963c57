# SPDX-License-Identifier: Apache-2.0
"""The part of ``flyring check`` for channels with a stock Agrona process at one end (spec/channel.md 6.15)."""

from __future__ import annotations

from .. import layout
from .._core import Memory
from ..header import Header
from .report import Findings
from .ring import MAKE_ANEW, RingCheck
from .walk import RECORD, Walk

UNTOUCHED = [(0, 0)] + [(-1, 0)] * (layout.BOUNDARIES - 1)


def check_foreign_slots(header: Header, memory: Memory, findings: Findings) -> None:
    """Checks that no process took the foreign end's slot, and that slot 0 was not evicted."""
    offset = header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_EVICTING
    if memory.load32(offset) == 1:
        what = "the slot is evicted, but Agrona needs its position"
        findings.broken("evicting", "6.15", offset, what, MAKE_ANEW, slot="subscriber 0")
    slot = header.publisher_slot(0) if header.foreign == "publisher" else header.subscriber_slot(0)
    epoch = memory.load64(slot + layout.PUBLISHER_SLOT_EPOCH)
    if epoch != 0:
        what = f"the {header.foreign} is foreign, but its slot was taken {epoch} times"
        findings.broken(
            "foreign", "6.15", slot, what, "find out which program writes to this file", slot=f"{header.foreign} 0"
        )


class ForeignRing(RingCheck):
    """The checks that apply with either end foreign."""

    def head_cache(self) -> None:
        """Checks that head_cache is a gate that the writer has seen, and recent enough for Agrona's 32-bit sums."""
        words, at = self.words, layout.TRAILER_HEAD_CACHE
        newest = self.memory.load64(self.trailer + at)  # was stored before the claimed that was read
        if not self.is_position(words.head_cache) or words.head_cache > words.gates[0] >= 0:
            what = f"head_cache is {words.head_cache}, which the gate ({words.gates[0]}) has never been"
        elif words.claimed - newest > self.header.capacity:
            what = f"head_cache is {newest}, more than a lap below claimed {words.claimed}"
        else:
            return
        self.broken("head-cache", "6.15", at, what, "a stock writer would overwrite unread messages, or stop")


class ReadByForeign(ForeignRing):
    """A ring that Agrona reads: it has no owner records."""

    def run(self) -> None:
        super().run()
        self.head_cache()
        position = self.words.boundaries[0][0]
        if position != layout.NOT_GATING:
            what = f"boundary[0] is {position}, but Agrona may take the trailer's first word for a record's length"
            self.broken("boundary", "6.15", layout.TRAILER_BOUNDARY, what, "its reader gets a false message")

    def walk(self) -> Walk:
        return WalkWithoutOwners(self.header, self.memory, self.ring, self.findings)


class WalkWithoutOwners(Walk):
    def first_of_epoch(self, position: int, kind: int, epoch: int) -> None:
        self.start = None

    def owner(self, position: int, length: int) -> None:
        self.broken("owner", "6.15", position, "an owner record, in a ring that Agrona reads", "its reader fails there")


class WrittenByForeign(ForeignRing):
    """A ring that Agrona writes: only its ``claimed`` is stored, and no lock tells whether its owner is alive."""

    def run(self) -> None:
        self.read()
        self.untouched()
        if not self.is_position(self.words.claimed):
            what = f"claimed is {self.words.claimed}, no multiple of {self.header.alignment} from 0 to 2^62"
            self.broken("claimed", "9", layout.TRAILER_CLAIMED, what)
            return
        self.head_cache()
        walk = WalkOfAgrona(self.header, self.memory, self.ring, self.findings)
        if self.gates() and walk.run_from_gate(self.words.claimed):
            self.zero_behind()

    def untouched(self) -> None:
        words, memory = self.words, self.memory
        for name, value in (
            ("published", memory.load64(self.trailer + layout.TRAILER_PUBLISHED)),
            ("messages_begun", words.begun),
            ("messages_done", words.done),
        ):
            if value != 0:
                what = f"{name} is {value}, but a foreign publisher never stores it"
                at = getattr(layout, f"TRAILER_{name.upper()}")
                self.broken("foreign", "6.15", at, what, "find out which program writes to this file")
        for e, found in enumerate(words.boundaries):
            if found != UNTOUCHED[e]:
                what = f"boundary[{e}] is {found[0]} with count {found[1]}, but a foreign publisher never stores it"
                at = layout.TRAILER_BOUNDARY_STRIDE * e
                self.broken("foreign", "6.15", at, what, "find out which program writes to this file")

    def zero_behind(self) -> None:
        claimed = self.words.claimed
        at = self.header.ring(self.ring) + (claimed & (self.header.capacity - 1))
        length = self.memory.load32(at + layout.RECORD_LENGTH)
        self.memory.fence()
        if length > 0 and self.memory.load64(self.trailer + layout.TRAILER_CLAIMED) == claimed:
            what = f"there is a record of {length} bytes at claimed {claimed}, where the next record will start"
            do = "the subscriber takes stale bytes for a message; replace the channel, write with a one to one ring"
            self.findings.broken("zero-behind", "6.15", at, what, do, ring=self.ring, position=claimed)


class WalkOfAgrona(Walk):
    """Walks from the gate to ``claimed``. Agrona does not announce overwriting, but never overwrites the bytes from the
    gate on."""

    unfinished = False

    def run_from_gate(self, end: int) -> bool:
        """Walks to ``end``. Returns whether every record is complete."""
        self.boundaries, self.start, self.marks = {}, None, {}
        self.load(end, end)
        return self.segment(min(self.floor, end), end) and not self.unfinished

    def lowest(self) -> int:
        return self.memory.load64(self.header.gate(self.ring, 0))

    def resume_at(self, end: int) -> int:
        return min(self.floor, end)

    def record(self, position: int, end: int) -> int:
        """Checks one record. Until a claim is committed, its length is 0 and then negative. Claims may be committed in
        any order."""
        length: int = RECORD.unpack_from(self.window, position - self.window_at)[0]
        if length > 0:
            return super().record(position, end)
        if not self.unfinished:
            self.unfinished = True
            what = f"an unfinished record of the foreign publisher at {position}: the subscriber waits there"
            self.findings.notes.append(f"ring {self.ring}: {what}")
        n = -(length // self.header.alignment) * self.header.alignment
        if length == 0:
            return end - position
        if -length < layout.RECORD_HEADER_LENGTH or (position & self.mask) + n > self.header.capacity:
            self.broken("record", "4.6", position, f"a claim of {-length} bytes cannot be here")
            return 0
        if position + n > end:
            self.broken("record", "4.6", position, f"a claim of {-length} bytes would reach beyond {end}")
            return 0
        return n
