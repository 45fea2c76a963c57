# SPDX-License-Identifier: Apache-2.0
"""The records of a recording (spec/journal.md 9): written by ``flyring record``, read by ``replay`` and ``journal``.
core/recorder.h has the same types and offsets."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from .. import layout
from .._core import JournalMessage
from ..errors import InvalidArgumentError
from ..journal import Journal
from ..journal_seek import JournalStart
from .journal_damage import Damages

SOURCE, MESSAGE, SENDER, LOSS, STATE = 1, 2, 3, 4, 5
KINDS = {
    layout.KIND_INBOX: "inbox",
    layout.KIND_BROADCAST: "broadcast",
    layout.KIND_QUEUE: "queue",
    layout.KIND_SERVICE: "service",
}
CODES = {kind: code for code, kind in KINDS.items()}
_SOURCE = struct.Struct("<iiiiii16s16sii")
_MESSAGE = struct.Struct("<HHiq")
_SENDER = struct.Struct("<HHiqqq")
_LOSS = struct.Struct("<HHiqqq")
_STATE = struct.Struct("<q")
LOOK = 0.5  # s: the longest wait for more
_BACK = 16384  # messages: how far from the end the last state is looked for at first


@dataclass(frozen=True)
class Source:
    """A channel of the recording."""

    number: int
    kind: str
    schema_id: int
    schema_version: int
    clients: int
    channel_id: UUID
    boot_id: UUID
    name: str
    schema: bytes

    def encode(self) -> bytes:
        name = self.name.encode("utf-8")
        return (
            _SOURCE.pack(self.number, CODES[self.kind], self.schema_id, self.schema_version, self.clients, 0,
                         self.channel_id.bytes, self.boot_id.bytes, len(name), len(self.schema))
            + name + self.schema
        )  # fmt: skip

    @classmethod
    def decode(cls, payload: bytes) -> Source:
        fields = _SOURCE.unpack_from(payload)
        number, code, schema_id, version, clients, _, channel, boot, length, schema_length = fields
        at = _SOURCE.size
        name = payload[at : at + length].decode("utf-8", "replace")
        schema = payload[at + length : at + length + schema_length]
        kind = KINDS.get(code, "broadcast")
        return cls(number, kind, schema_id, version, clients, UUID(bytes=channel), UUID(bytes=boot), name, schema)


@dataclass
class RingState:
    """What the recording has of one ring."""

    next: int = -1
    """Messages below this position of the ring are there."""
    number: int = -1
    """The number of the next message; -1: not known."""
    epoch: int = 0
    sender: str = ""

    def encode(self, source: int, ring: int) -> bytes:
        name = self.sender.encode("ascii", "replace")
        return _SENDER.pack(source, ring, len(name), self.epoch, self.next, self.number) + name


@dataclass(frozen=True, slots=True)
class Recorded:
    """A message of a recording."""

    time: int
    source: Source
    ring: int
    sender: str
    epoch: int
    position: int
    number: int
    type: int
    payload: bytes
    at: int
    """The position in the journal."""
    count: int
    """The number in the journal."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A place where messages were lost."""

    time: int
    source: Source
    ring: int
    begin: int
    end: int
    messages: int
    at: int


@dataclass
class Decoder:
    """Follows sources and senders from a state on."""

    sources: dict[int, Source] = field(default_factory=dict)
    rings: dict[tuple[int, int], RingState] = field(default_factory=dict)
    state_begin: int = -1
    unknown: int = 0
    """Messages whose source is not known: the recording is damaged, or reading began without a state."""

    def feed(self, message: JournalMessage) -> Recorded | Lost | None:
        payload = bytes(message)
        match message.type:
            case 2:
                number, ring, type_, position = _MESSAGE.unpack_from(payload)
                source = self.sources.get(number)
                if source is None:
                    self.unknown += 1
                    return None
                state = self.rings.setdefault((number, ring), RingState())
                counted = state.number
                state.next = position + 1
                if counted >= 0:
                    state.number += 1
                return Recorded(
                    message.time, source, ring, state.sender, state.epoch, position, counted, type_,
                    payload[_MESSAGE.size :], message.position, message.number,
                )  # fmt: skip
            case 1:
                source = Source.decode(payload)
                before = self.sources.get(source.number)
                if before is not None and before.channel_id != source.channel_id:
                    self.rings = {key: state for key, state in self.rings.items() if key[0] != source.number}
                self.sources[source.number] = source
            case 3:
                number, ring, length, epoch, position, counted = _SENDER.unpack_from(payload)
                name = payload[_SENDER.size : _SENDER.size + length].decode("ascii", "replace")
                state = self.rings.setdefault((number, ring), RingState())
                state.next = max(state.next, position)
                state.number, state.epoch, state.sender = counted, epoch, name
            case 4:
                number, ring, _, begin, end, messages = _LOSS.unpack_from(payload)
                state = self.rings.setdefault((number, ring), RingState())
                if state.number >= 0:
                    state.number += messages
                if number in self.sources:
                    return Lost(message.time, self.sources[number], ring, begin, end, messages, message.position)
            case 5:
                (self.state_begin,) = _STATE.unpack_from(payload)
        return None


def source_and_ring(payload: bytes) -> tuple[int, int]:
    """Of a message."""
    source, ring, *_ = _MESSAGE.unpack_from(payload)
    return source, ring


def state_record(begin: int) -> bytes:
    return _STATE.pack(begin)


def check_content(journal: Journal) -> None:
    """Raises InvalidArgumentError unless the journal is a recording."""
    if journal.header.content != layout.JOURNAL_CONTENT_RECORDING:
        raise InvalidArgumentError("name", f"{journal.path} has messages of its own, and is no recording")


def read_until(journal: Journal, start: JournalStart, end: int, feed: Callable[[JournalMessage], object]) -> None:
    """Feeds the messages from ``start`` up to the position ``end``."""
    with journal.reader(start, skip_damaged=True) as reader:
        done = False

        def each(message: JournalMessage) -> None:
            nonlocal done
            if message.position >= end:
                done = True
            elif not done:
                feed(message)

        while not done and reader.position < end:
            if reader.poll(each, 4096) == 0:
                return


def state_before(journal: Journal, number: int, position: int) -> Decoder:
    """Returns a decoder that knows the sources and senders at a place: the message with this number and position. It
    reads from the last state before that."""
    back, stats = _BACK, journal.stats()
    with journal.reader() as reader:
        oldest = reader.number
    limit = min(position, stats.published)
    while True:
        first = max(oldest, number - back)
        found = Decoder()
        start = JournalStart.at_number(first) if first < number else None
        if start is not None:
            read_until(journal, start, limit, found.feed)
        if found.state_begin >= 0:
            complete = Decoder()
            read_until(journal, JournalStart.at_position(found.state_begin), limit, complete.feed)
            return complete
        if first <= oldest:
            found.unknown = 0
            return found
        back *= 8


def recorded(
    journal: Journal, start: JournalStart | None = None, follow: bool = False, damages: Damages | None = None
) -> Iterator[Recorded | Lost]:
    """Yields what a recording holds, from a place on up to its end. ``follow``: and then what comes. ``damages``: gets
    what is missing."""
    decoder = Decoder()
    damages = Damages(journal.path) if damages is None else damages
    with damages.reader(journal, start or "oldest") as reader:
        if start is not None:
            decoder = state_before(journal, reader.number, reader.position)
        end = 2**63 if follow else journal.stats().published
        items: list[Recorded | Lost] = []

        def each(message: JournalMessage) -> None:
            if message.position < end and (item := decoder.feed(message)) is not None:
                items.append(item)

        while reader.position < end and (reader.poll(each, 1024, timeout=LOOK if follow else 0) or follow):
            yield from items
            items.clear()
        damages.end(reader, decoder.unknown)
