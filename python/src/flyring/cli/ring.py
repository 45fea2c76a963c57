# SPDX-License-Identifier: Apache-2.0
"""The part of ``flyring check`` for one ring (spec/channel.md 4.6, 4.7, 6, 9).

The ring may be written at full speed during the check. So words are read in an order in which the rules hold at any
moment: gates, boundaries and start before ``published``, and ``published`` before ``claimed``. Records are read as a
lossy subscriber reads them (6.10): bytes that may have been overwritten before they were read are only counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import layout
from .._core import Memory
from ..errors import CorruptRingError
from ..header import Header
from ..slots import committed, has_job
from .image import Image
from .report import Findings
from .walk import Walk

MAKE_ANEW = "replace the channel; nothing in this ring can be trusted"
RECOVER = "flyring recover"
ADOPTED = "the next worker that looks takes it over"


@dataclass(frozen=True)
class Words:
    """The words of a ring, in the order in which they were read."""

    head_cache: int
    gates: list[int]
    boundaries: list[tuple[int, int]]
    done: int
    published: int
    claimed: int
    published_again: int
    begun: int
    gates_again: list[int]

    @property
    def quiet(self) -> bool:
        return self.published == self.claimed == self.published_again


def read_words(header: Header, memory: Memory, ring: int) -> Words:
    trailer = header.trailer(ring)
    gate_offsets = [header.gate(ring, slot) for slot in header.gating(ring)]
    return Words(
        head_cache=memory.load64(trailer + layout.TRAILER_HEAD_CACHE),
        gates=[memory.load64(at) for at in gate_offsets],
        boundaries=[read_boundary(memory, trailer + layout.TRAILER_BOUNDARY_STRIDE * e) for e in range(8)],
        done=memory.load64(trailer + layout.TRAILER_MESSAGES_DONE),
        published=memory.load64(trailer + layout.TRAILER_PUBLISHED),
        claimed=memory.load64(trailer + layout.TRAILER_CLAIMED),
        published_again=memory.load64(trailer + layout.TRAILER_PUBLISHED),
        begun=memory.load64(trailer + layout.TRAILER_MESSAGES_BEGUN),
        gates_again=[memory.load64(at) for at in gate_offsets],
    )


def read_boundary(memory: Memory, at: int) -> tuple[int, int]:
    """Reads a boundary's position and count as in 6.10; (-1, 0) if they are being written."""
    position = memory.load64(at)
    count = memory.load64_plain(at + layout.TRAILER_BOUNDARY_COUNT)
    memory.fence()
    return (position, count) if memory.load64_plain(at) == position else (-1, 0)


class RingCheck:
    """Checks one ring. ``words`` keeps what was read, so that a caller can see what changed since."""

    def __init__(self, image: Image, header: Header, memory: Memory, ring: int, findings: Findings) -> None:
        self.image, self.header, self.memory, self.ring, self.findings = image, header, memory, ring, findings
        self.trailer = header.trailer(ring)
        self.slot = header.publisher_slot(ring)

    def run(self) -> None:
        words = self.read()
        if not self.positions():
            return
        boundaries = self.boundaries()
        gates = self.gates()
        if words.done > words.begun:
            self.broken(
                "counts", "4.7", layout.TRAILER_MESSAGES_DONE, f"messages_done {words.done} is above {words.begun}"
            )
        start = self.start_of_epoch()
        counted = self.walk().run(words.published, boundaries, gates, start)
        self.ends(counted)

    def walk(self) -> Walk:
        return Walk(self.header, self.memory, self.ring, self.findings)

    # The words

    def read(self) -> Words:
        self.start = self.memory.load64(self.slot + layout.PUBLISHER_SLOT_START)
        self.words = read_words(self.header, self.memory, self.ring)
        return self.words

    def broken(self, kind: str, section: str, at: int, what: str, do: str = MAKE_ANEW, **where: Any) -> None:
        self.findings.broken(kind, section, self.trailer + at, what, do, ring=self.ring, **where)

    def left(self, kind: str, section: str, at: int, what: str, do: str = RECOVER, **where: Any) -> None:
        self.findings.left(kind, section, self.trailer + at, what, do, ring=self.ring, **where)

    def is_position(self, value: int) -> bool:
        return 0 <= value < layout.MAX_POSITION and value % self.header.alignment == 0

    def positions(self) -> bool:
        words, header = self.words, self.header
        for name, at, value in (
            ("published", layout.TRAILER_PUBLISHED, words.published),
            ("published", layout.TRAILER_PUBLISHED, words.published_again),
            ("claimed", layout.TRAILER_CLAIMED, words.claimed),
        ):
            if not self.is_position(value):
                self.broken(name, "9", at, f"{name} is {value}, no multiple of {header.alignment} from 0 to 2^62")
                return False
        if words.claimed < words.published:
            what = f"claimed is {words.claimed}, below published {words.published}"
        elif words.claimed > (words.published_again | header.capacity - 1) + 1:
            what = f"claimed is {words.claimed}, beyond the end of the lap that holds published {words.published_again}"
        else:
            return True
        self.broken("claimed", "6.8", layout.TRAILER_CLAIMED, what)
        return False

    def boundaries(self) -> dict[int, int]:
        """Checks the boundaries. Returns the valid ones: position -> count."""
        header, words = self.header, self.words
        shift = (header.capacity // layout.BOUNDARIES).bit_length() - 1
        good: dict[int, int] = {}
        for e, (position, count) in enumerate(words.boundaries):
            if position == -1:
                continue
            if not self.is_position(position):
                what = f"boundary[{e}] is {position}, no position"
            elif (position >> shift) & (layout.BOUNDARIES - 1) != e:
                what = f"boundary[{e}] is {position}, which lies in another eighth of the ring"
            elif position > words.published:
                what = f"boundary[{e}] is {position}, above published {words.published}"
            elif not 0 <= count <= words.begun:
                what = f"boundary_count[{e}] is {count}, of {words.begun} messages"
            else:
                good[position] = count
                continue
            do = "lossy subscribers with start=oldest may start at a wrong place; the next lap replaces the boundary"
            self.broken("boundary", "4.7", layout.TRAILER_BOUNDARY_STRIDE * e, what, do)
        return dict(sorted(good.items()))

    def gates(self) -> dict[int, int]:
        """Checks the gates. Returns those from which a subscriber can continue: position -> slot."""
        header, words = self.header, self.words
        good: dict[int, int] = {}
        for slot, gate, again in zip(header.gating(self.ring), words.gates, words.gates_again, strict=True):
            at = header.gate(self.ring, slot) - self.trailer
            where: dict[str, Any] = {"slot": f"subscriber {slot}", "position": gate}
            evict = MAKE_ANEW if header.foreign or (header.is_queue and slot == 0) else f"flyring evict, slot {slot}"
            if gate == layout.NOT_GATING:
                if header.foreign:
                    what = f"the gate is {gate}, but Agrona needs a position there"
                    self.broken("gate", "6.15", at, what, evict, **where)
                continue
            if gate < 0 or not self.is_position(gate):
                what = f"the gate is {gate}, which is neither {layout.NOT_GATING} nor a position"
                self.broken("gate", "9", at, what, evict, **where)
                continue
            resumes, live = self.owner(slot)
            if not live and self.memory.load64(self.trailer + at) != gate:
                continue  # its owner has just left
            if gate > words.claimed:
                what = f"the gate is {gate}, above claimed {words.claimed}: no subscriber can have read that far"
                self.broken("gate-range", "9", at, what, evict, **where)
            elif words.claimed + layout.RECORD_HEADER_LENGTH > gate + header.capacity and gate == again:
                what = f"the gate is {gate}, a lap or more below claimed {words.claimed}: what it guards is overwritten"
                if header.is_queue and slot:
                    self.left("gate-range", "queue 5", at, what + ": the job was done", ADOPTED, **where)
                elif live and not header.foreign:
                    self.left(
                        "gate-range", "6.11", at, what + " (its owner was evicted, or is joining)", evict, **where
                    )
                elif resumes:
                    self.broken("gate-range", "9", at, what, evict, **where)
                else:
                    self.left("gate-range", "6.7", at, what, **where)
            elif header.is_queue and slot:
                good[gate] = slot
                if not live:
                    self.of_dead_worker(slot, at, where)
            elif not live and not resumes:
                what = f"the owner died; its gate holds publishers back {words.published - gate} bytes behind"
                self.left("gate", "6.7", at, what + " until one of them retires the slot", **where)
                good[gate] = slot
            else:
                good[gate] = slot
        return dict(sorted(good.items()))

    def of_dead_worker(self, slot: int, at: int, where: dict[str, Any]) -> None:
        if has_job(self.header, self.memory, self.ring, slot):
            self.left("job", "queue 5", at, "the worker died with a job in hand", ADOPTED, **where)
        else:
            what = "the worker died after it announced a job and before it took it"
            self.left("announced", "queue 5", at, what, f"{RECOVER} clears this; so does a worker", **where)

    def owner(self, slot: int) -> tuple[bool, bool]:
        """Returns whether the next owner of a subscriber slot resumes at its gates, and whether a process owns it."""
        at, memory = self.header.subscriber_slot(slot), self.memory
        live = self.image.locked(at + layout.CONTROL_SLOT_LOCK)
        evicted = memory.load32(at + layout.SUBSCRIBER_SLOT_EVICTING) != 0
        kept = memory.load32(at + layout.SUBSCRIBER_SLOT_KEPT) != 0 and not evicted
        return kept or self.header.foreign is not None, live

    def start_of_epoch(self) -> tuple[int, int] | None:
        """Returns (start, epoch) of the slot's last owner; None if it never had one, or its fields are changing."""
        epoch = self.memory.load64(self.slot + layout.PUBLISHER_SLOT_EPOCH)
        again = self.memory.load64(self.slot + layout.PUBLISHER_SLOT_START)
        if epoch <= 0 or again != self.start:
            return None
        if not self.is_position(self.start) or self.start > self.words.published:
            what = f"start is {self.start}, which is no position up to published {self.words.published}"
            offset = self.slot + layout.PUBLISHER_SLOT_START
            do = "new subscribers do not know the senders of this ring until a publisher takes it"
            self.findings.broken("start", "4.4", offset, what, do, ring=self.ring, slot=f"publisher {self.ring}")
            return None
        return self.start, epoch

    # The bytes behind published

    def ends(self, counted: int | None) -> None:
        header, memory, words = self.header, self.memory, self.words
        live = self.image.locked(self.slot + layout.CONTROL_SLOT_LOCK) or self.image.control_locked()
        at = header.ring(self.ring) + (words.published & (header.capacity - 1))
        length = memory.load32(at + layout.RECORD_LENGTH)
        now = read_words(header, memory, self.ring)
        if (now.published, now.claimed, now.begun, now.done) != (
            words.published,
            words.claimed,
            words.begun,
            words.done,
        ):
            return  # a publisher is at work: nothing here can be judged
        if words.quiet and length > 0:
            what = f"there is a record of {length} bytes at published {words.published}, but nothing is claimed there"
            do = "a new subscriber would read stale bytes; replace the channel"
            where = {"ring": self.ring, "position": words.published}
            self.findings.broken("zero-behind", "6.1", at, what, do, **where)
            return
        if counted is not None and counted not in (words.begun, words.done):
            what = f"{words.done} messages are counted, but {counted} were published up to {words.published}"
            do = "only counts of lost messages are wrong"
            self.broken("counts", "4.7", layout.TRAILER_MESSAGES_DONE, what, do)
        if not live:
            self.left_by_the_dead(length)

    def left_by_the_dead(self, length: int) -> None:
        """Looks for what 6.8 recovers. No process holds the publisher slot's lock."""
        words, where = self.words, {"position": self.words.published}
        try:
            end, messages = committed(self.header, self.memory, self.ring, words.published, words.claimed)
        except CorruptRingError as error:
            offset = self.header.ring(self.ring) + (error.position & (self.header.capacity - 1))
            what = f"behind published: {error.reason}"
            self.findings.broken("record", "6.8", offset, what, MAKE_ANEW, ring=self.ring, position=error.position)
            return
        if end > words.published:
            what = f"{end - words.published} bytes ({messages} messages) were committed, but not yet published"
            self.left("unpublished", "6.1", layout.TRAILER_PUBLISHED, what, RECOVER + " publishes them", **where)
        elif words.begun != words.done:
            what = f"messages_begun is {words.begun}, messages_done {words.done}: the owner died in between"
            self.left("counts", "6.1", layout.TRAILER_MESSAGES_DONE, what)
        closed = self.memory.load32(self.slot + layout.PUBLISHER_SLOT_CLOSED)
        if end < words.claimed and not closed:
            what = f"an unfinished claim of {words.claimed - end} bytes (or space cleared ahead)"
            self.left("claim", "6.1", layout.TRAILER_CLAIMED, what, RECOVER + " frees it", **where)
