# SPDX-License-Identifier: Apache-2.0
"""The header page of a channel (spec/channel.md 4.1, 4.2). It is written once at creation, and checked at each attach
(3.3)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from . import layout
from ._core import crc32c
from .errors import (
    CorruptHeaderError,
    InvalidArgumentError,
    NotAChannelError,
    TruncatedError,
    VersionTooNewError,
)

Kind = Literal["inbox", "broadcast", "queue", "service"]
Delivery = Literal["at-most-once", "at-least-once"]
"""Services: whether the next server runs a dead server's unanswered requests again (spec/service.md 8)."""
KINDS: dict[Kind, int] = {
    "inbox": layout.KIND_INBOX,
    "broadcast": layout.KIND_BROADCAST,
    "queue": layout.KIND_QUEUE,
    "service": layout.KIND_SERVICE,
}
KIND_NAMES: dict[int, Kind] = {number: kind for kind, number in KINDS.items()}
DELIVERIES: dict[Delivery, int] = {
    "at-most-once": layout.DELIVERY_AT_MOST_ONCE,
    "at-least-once": layout.DELIVERY_AT_LEAST_ONCE,
}
DELIVERY_NAMES: dict[int, Delivery] = {number: delivery for delivery, number in DELIVERIES.items()}
Foreign = Literal["publisher", "subscriber"]
"""The end of a channel at which a stock Agrona process is (spec/channel.md 6.15)."""
FEATURES: dict[Foreign | None, int] = {
    None: 0,
    "publisher": layout.FEATURE_FOREIGN_PUBLISHER,
    "subscriber": layout.FEATURE_FOREIGN_SUBSCRIBER,
}
NO_ID = uuid.UUID(int=0)
MAGIC = bytes.fromhex(layout.MAGIC_HEX)


def pages(length: int) -> int:
    """Returns ``length`` rounded up to a multiple of 4096 bytes."""
    return -(-length // layout.SECTION_ALIGNMENT) * layout.SECTION_ALIGNMENT


@dataclass(frozen=True)
class Header:
    """The dimensions of a channel; all offsets in the file follow from them."""

    kind: Kind
    capacity: int
    publishers: int
    subscribers: int
    alignment: int
    counters: int
    foreign: Foreign | None = None
    schema_length: int = 0
    schema_id: int = 0
    schema_version: int = 0
    delivery: Delivery = "at-most-once"
    """Services only; else "at-most-once"."""
    max_outstanding: int = 0
    """Services: how many calls one client may have under way at once; else 0."""
    channel_id: uuid.UUID = NO_ID
    created_at: int = 0
    minor: int = layout.MINOR
    longer: int = 0
    """How many bytes a newer minor version has put behind the schema."""

    @property
    def is_queue(self) -> bool:
        return self.kind == "queue"

    @property
    def producers(self) -> int:
        """Queues: the publisher slots, without that of the returns ring; else 0."""
        return self.publishers - 1 if self.is_queue else 0

    @property
    def workers(self) -> int:
        """Queues: the subscriber slots, without slot 0; else 0."""
        return self.subscribers - 1 if self.is_queue else 0

    @property
    def is_service(self) -> bool:
        return self.kind == "service"

    @property
    def clients(self) -> int:
        """Services: the number of clients; else 0."""
        return self.publishers // 2 if self.is_service else 0

    @property
    def header_length(self) -> int:
        return layout.HEADER_LENGTH

    @property
    def control_offset(self) -> int:
        return self.header_length

    @property
    def control_length(self) -> int:
        return pages(layout.CONTROL_SLOTS + layout.CONTROL_SLOT_LENGTH * (self.publishers + self.subscribers))

    @property
    def counter_metadata_offset(self) -> int:
        return self.control_offset + self.control_length

    @property
    def counter_metadata_length(self) -> int:
        return layout.COUNTER_METADATA_STRIDE * self.counters

    @property
    def counter_values_offset(self) -> int:
        return pages(self.counter_metadata_offset + self.counter_metadata_length)

    @property
    def counter_values_length(self) -> int:
        return layout.COUNTER_VALUE_STRIDE * self.counters

    @property
    def rings_offset(self) -> int:
        return pages(self.counter_values_offset + self.counter_values_length)

    @property
    def trailer_length(self) -> int:
        more = 0 if self.is_service else max(0, self.subscribers - 1)  # a service has one gate per ring (service.md 2)
        return pages(layout.TRAILER_LENGTH + layout.TRAILER_GATE_STRIDE * more)

    @property
    def ring_stride(self) -> int:
        return self.capacity + self.trailer_length

    @property
    def schema_offset(self) -> int:
        return self.rings_offset + self.publishers * self.ring_stride

    @property
    def sections_end(self) -> int:
        """The length of the sections that this version knows, which are mapped."""
        return pages(self.schema_offset + self.schema_length)

    @property
    def file_length(self) -> int:
        return self.sections_end + self.longer

    @property
    def end_word(self) -> int:
        """The offset in the trailer of the word that holds the end of what is published. A foreign publisher has only
        its tail (6.15)."""
        return layout.TRAILER_CLAIMED if self.foreign == "publisher" else layout.TRAILER_PUBLISHED

    # Offsets in the file

    def publisher_slot(self, slot: int) -> int:
        return self.control_offset + layout.CONTROL_SLOTS + layout.CONTROL_SLOT_LENGTH * slot

    def subscriber_slot(self, slot: int) -> int:
        return self.publisher_slot(self.publishers + slot)

    def ring(self, ring: int) -> int:
        """The offset of the ring's first data byte."""
        return self.rings_offset + self.ring_stride * ring

    def trailer(self, ring: int) -> int:
        return self.ring(ring) + self.capacity

    def gating(self, ring: int) -> range:
        """The subscriber slots that have a gate on this ring: all; in a service one (service.md 2)."""
        if not self.is_service:
            return range(self.subscribers)
        slot = 0 if ring < self.clients else 1 + ring - self.clients
        return range(slot, slot + 1)

    def rings_of(self, slot: int) -> range:
        """The rings on which a subscriber slot has a gate."""
        if not self.is_service:
            return range(self.publishers)
        if slot == 0:
            return range(self.clients)
        return range(self.clients + slot - 1, self.clients + slot)

    def gate(self, ring: int, slot: int) -> int:
        """The offset of the gate of a slot in a ring; the slot must be one of ``gating(ring)``."""
        if self.is_service:
            return self.trailer(ring) + layout.TRAILER_GATE
        offset = layout.TRAILER_MORE_GATES + layout.TRAILER_GATE_STRIDE * (slot - 1) if slot else layout.TRAILER_GATE
        return self.trailer(ring) + offset

    @property
    def geometry(self) -> tuple[int, int, int, int, int, int, int, int, int]:
        """The dimensions as the C core takes them."""
        return (
            self.publishers,
            self.subscribers,
            self.capacity,
            self.alignment,
            self.control_offset,
            self.rings_offset,
            self.ring_stride,
            FEATURES[self.foreign],
            KINDS[self.kind],
        )

    # Bytes

    def pack(self) -> bytes:
        page = bytearray(layout.HEADER_LENGTH)
        page[: len(MAGIC)] = MAGIC
        put = struct.pack_into
        put("<HHi", page, layout.HEADER_MAJOR, layout.MAJOR, self.minor, layout.HEADER_LENGTH)
        put("<Q", page, layout.HEADER_REQUIRED_FEATURES, FEATURES[self.foreign])
        put("<q", page, layout.HEADER_FILE_LENGTH, self.file_length)
        page[layout.HEADER_CHANNEL_ID : layout.HEADER_CHANNEL_ID + 16] = self.channel_id.bytes
        put("<q", page, layout.HEADER_CREATED_AT, self.created_at)
        for offset, size, name in FIELDS:
            value = getattr(self, name)
            if name == "kind":
                value = KINDS[self.kind]
            elif name == "delivery":
                value = DELIVERIES[self.delivery]
            put("<i" if size == 4 else "<q", page, offset, value)
        put("<I", page, layout.HEADER_CRC, crc32c(page[: layout.HEADER_CRC_LENGTH]))
        return bytes(page)

    @classmethod
    def parse(cls, page: bytes, size: int, path: str) -> Header:
        """Checks the header in the order of spec/channel.md 3.3. ``page``: the first 4096 bytes of the file, or fewer
        if the file is shorter. ``size``: the size of the file.

        Raises NotAChannelError, TruncatedError, VersionTooNewError, or CorruptHeaderError for the first invalid field.
        """
        return cls._check_fields(page, check_page(page, size, path, MAGIC), path)

    @classmethod
    def _check_fields(cls, page: bytes, file_length: int, path: str) -> Header:
        values = {name: struct.unpack_from("<i" if n == 4 else "<q", page, at)[0] for at, n, name in FIELDS}

        def check(field: str, valid: bool) -> None:
            if not valid:
                raise CorruptHeaderError(path, field, f"is {values[field]}, which cannot be")

        capacity, kind = values["capacity"], values["kind"]
        (features,) = struct.unpack_from("<Q", page, layout.HEADER_REQUIRED_FEATURES)
        check("header_length", values["header_length"] == layout.HEADER_LENGTH)
        if features not in FOREIGN:
            raise CorruptHeaderError(path, "required_features", f"is {features}, which cannot be: 0, 2 or 4 can")
        check("kind", kind in KINDS.values())
        check("alignment", values["alignment"] in (8, 64))
        check("capacity", valid_capacity(capacity))
        check("publishers", 1 <= values["publishers"] <= layout.MAX_PUBLISHERS)
        check("subscribers", 0 <= values["subscribers"] <= layout.MAX_SUBSCRIBERS)
        check("subscribers", kind != layout.KIND_INBOX or values["subscribers"] == layout.INBOX_SUBSCRIBERS)
        for slots in ("publishers", "subscribers"):
            check(slots, kind != layout.KIND_QUEUE or values[slots] >= layout.MIN_QUEUE_SLOTS)
        service = kind == layout.KIND_SERVICE
        if service:
            check("publishers", values["publishers"] >= 2 and values["publishers"] % 2 == 0)
            check("subscribers", values["subscribers"] == values["publishers"] // 2 + 1)
        check("counters", 0 <= values["counters"] <= layout.MAX_COUNTERS)
        delivery = values["delivery"] if service else layout.DELIVERY_AT_MOST_ONCE
        header = cls(
            kind=KIND_NAMES[kind],
            capacity=capacity,
            publishers=values["publishers"],
            subscribers=values["subscribers"],
            alignment=values["alignment"],
            counters=values["counters"],
            foreign=FOREIGN.get(features),
            schema_length=values["schema_length"],
            schema_id=values["schema_id"],
            schema_version=values["schema_version"],
            delivery=DELIVERY_NAMES.get(delivery, "at-most-once"),
            max_outstanding=values["max_outstanding"] if service else 0,
            channel_id=uuid.UUID(bytes=page[layout.HEADER_CHANNEL_ID : layout.HEADER_CHANNEL_ID + 16]),
            created_at=struct.unpack_from("<q", page, layout.HEADER_CREATED_AT)[0],
            minor=struct.unpack_from("<H", page, layout.HEADER_MINOR)[0],
        )
        for _, _, field in FIELDS:
            if field.endswith("_offset") or field in SECTION_LENGTHS:
                expected = getattr(header, field)
                if values[field] != expected:
                    raise CorruptHeaderError(path, field, f"is {values[field]}, but must be {expected}")
        check("schema_length", 0 <= values["schema_length"] <= layout.MAX_SCHEMA_LENGTH)
        check("schema_id", 0 <= values["schema_id"] <= 0xFFFF)
        check("schema_version", 0 <= values["schema_version"] <= 0xFFFF)
        if service:
            check("delivery", delivery in DELIVERY_NAMES)
            check("max_outstanding", 1 <= header.max_outstanding <= layout.HIGHEST_MAX_OUTSTANDING)
        if not may_be_foreign(header):
            why = f"one end may be foreign, of {FOREIGN_SHAPE}"
            raise CorruptHeaderError(path, "required_features", f"is {features}, which cannot be: {why}")
        if header.sections_end > file_length:
            raise CorruptHeaderError(
                path, "file_length", f"is {file_length}, but the sections end at {header.sections_end}"
            )
        return replace(header, longer=file_length - header.sections_end)


FOREIGN: dict[int, Foreign | None] = {feature: foreign for foreign, feature in FEATURES.items()}
FOREIGN_SHAPE = "an inbox of 1 publisher and 1 subscriber with alignment 8"
SECTION_LENGTHS = ("control_length", "counter_metadata_length", "counter_values_length", "ring_stride")

# Offset, size and name of header_length and of the fields behind created_at, in the order in which they are checked.
FIELDS: tuple[tuple[int, int, str], ...] = (
    (layout.HEADER_HEADER_LENGTH, 4, "header_length"),
    (layout.HEADER_KIND, 4, "kind"),
    (layout.HEADER_ALIGNMENT, 4, "alignment"),
    (layout.HEADER_CAPACITY, 4, "capacity"),
    (layout.HEADER_PUBLISHERS, 4, "publishers"),
    (layout.HEADER_SUBSCRIBERS, 4, "subscribers"),
    (layout.HEADER_COUNTERS, 4, "counters"),
    (layout.HEADER_CONTROL_OFFSET, 8, "control_offset"),
    (layout.HEADER_CONTROL_LENGTH, 8, "control_length"),
    (layout.HEADER_COUNTER_METADATA_OFFSET, 8, "counter_metadata_offset"),
    (layout.HEADER_COUNTER_METADATA_LENGTH, 8, "counter_metadata_length"),
    (layout.HEADER_COUNTER_VALUES_OFFSET, 8, "counter_values_offset"),
    (layout.HEADER_COUNTER_VALUES_LENGTH, 8, "counter_values_length"),
    (layout.HEADER_RINGS_OFFSET, 8, "rings_offset"),
    (layout.HEADER_RING_STRIDE, 8, "ring_stride"),
    (layout.HEADER_SCHEMA_OFFSET, 8, "schema_offset"),
    (layout.HEADER_SCHEMA_LENGTH, 8, "schema_length"),
    (layout.HEADER_SCHEMA_ID, 4, "schema_id"),
    (layout.HEADER_SCHEMA_VERSION, 4, "schema_version"),
    (layout.HEADER_DELIVERY, 4, "delivery"),
    (layout.HEADER_MAX_OUTSTANDING, 4, "max_outstanding"),
)


def valid_capacity(capacity: int) -> bool:
    return layout.MIN_CAPACITY <= capacity <= layout.MAX_CAPACITY and capacity & (capacity - 1) == 0


def may_be_foreign(header: Header) -> bool:
    """Returns whether the channel has no foreign end, or the shape that a foreign end needs (6.15)."""
    shape = (header.kind, header.publishers, header.subscribers, header.alignment)
    return header.foreign is None or shape == ("inbox", 1, 1, 8)


def check_page(
    page: bytes, size: int, path: str, magic: bytes, supported: int = layout.SUPPORTED_REQUIRED_FEATURES
) -> int:
    """Does checks 1 to 7 of spec/channel.md 3.3, which are the same for all types of file. Returns the file's length.
    ``supported``: the required features that are known."""
    if page[: len(magic)] != magic:
        raise NotAChannelError(path, "it does not begin with the magic" if page else "it is empty")
    check_version(page, path, supported)
    if len(page) < layout.HEADER_LENGTH:
        raise TruncatedError(path, layout.HEADER_LENGTH, size)
    (file_length,) = struct.unpack_from("<q", page, layout.HEADER_FILE_LENGTH)
    if file_length > size:
        raise TruncatedError(path, file_length, size)
    if file_length != size:
        raise CorruptHeaderError(path, "file_length", f"is {file_length}, but the file has {size} bytes")
    (crc,) = struct.unpack_from("<I", page, layout.HEADER_CRC)
    if crc != crc32c(page[: layout.HEADER_CRC_LENGTH]):
        raise CorruptHeaderError(path, "crc", "does not match the header's bytes")
    assert isinstance(file_length, int)
    return file_length


def check_version(page: bytes, path: str, supported: int = layout.SUPPORTED_REQUIRED_FEATURES) -> None:
    """Does checks 3 and 4 of spec/channel.md 3.3, as far as the page has the bytes."""
    if len(page) >= layout.HEADER_MAJOR + 2:
        (major,) = struct.unpack_from("<H", page, layout.HEADER_MAJOR)
        if major > layout.MAJOR:
            raise VersionTooNewError(path, "major", major, layout.MAJOR)
        if major < layout.MAJOR:
            raise CorruptHeaderError(path, "major", f"is {major}, which cannot be")
    if len(page) >= layout.HEADER_REQUIRED_FEATURES + 8:
        (features,) = struct.unpack_from("<Q", page, layout.HEADER_REQUIRED_FEATURES)
        if features & ~supported:
            raise VersionTooNewError(path, "required_features", features, supported)


def check_options(header: Header, given: Collection[str]) -> None:
    """Raises InvalidArgumentError for the first option that is out of range, or not allowed for this kind of channel
    (spec/api.md). ``given``: the names of the options that the caller gave."""

    def check(option: str, valid: bool, rule: str) -> None:
        if not valid:
            raise InvalidArgumentError(option, f"{getattr(header, option)!r} must be {rule}")

    def check_kind(option: str, wrong: bool, rule: str) -> None:
        if wrong and option in given:
            raise InvalidArgumentError(option, rule)

    check("kind", header.kind in KINDS, '"inbox", "broadcast", "queue" or "service"')
    check("capacity", valid_capacity(header.capacity), "a power of two from 4096 to 2^30 bytes")
    check_kind("publishers", header.is_queue, "a queue has producers: give their number instead")
    check_kind("subscribers", header.is_queue, "a queue has workers: give their number instead")
    check_kind("producers", not header.is_queue, "only a queue has producers: give publishers")
    check_kind("workers", not header.is_queue, "only a queue has workers: give subscribers")
    for option in ("publishers", "subscribers"):
        check_kind(option, header.is_service, "a service has clients: give their number instead")
    for option in ("clients", "delivery", "max_outstanding"):
        check_kind(option, not header.is_service, f"only a service has {option}")
    if header.is_service:
        check("clients", 1 <= header.clients <= layout.MAX_CLIENTS, "1 to 512")
        check("delivery", header.delivery in DELIVERIES, '"at-most-once" or "at-least-once"')
        check("max_outstanding", 1 <= header.max_outstanding <= layout.HIGHEST_MAX_OUTSTANDING, "1 to 65535")
    if header.is_queue:
        check("producers", 1 <= header.producers < layout.MAX_PUBLISHERS, "1 to 1023")
        check("workers", 1 <= header.workers < layout.MAX_SUBSCRIBERS, "1 to 1023")
    check("publishers", 1 <= header.publishers <= layout.MAX_PUBLISHERS, "1 to 1024")
    if header.kind == "inbox":
        check("subscribers", header.subscribers == layout.INBOX_SUBSCRIBERS, "1 for an inbox")
    check("subscribers", 0 <= header.subscribers <= layout.MAX_SUBSCRIBERS, "0 to 1024")
    check("alignment", header.alignment in (8, 64), "64 or 8")
    check("foreign", header.foreign in FEATURES, '"publisher", "subscriber" or None')
    check("foreign", may_be_foreign(header), f"None unless the channel is {FOREIGN_SHAPE}")
    check("counters", 0 <= header.counters <= layout.MAX_COUNTERS, "0 to 65536")
    check("schema_id", 0 <= header.schema_id <= 0xFFFF, "0 to 65535")
    check("schema_version", 0 <= header.schema_version <= 0xFFFF, "0 to 65535")
    if header.schema_length == 0:
        check("schema_id", header.schema_id == 0, "0 without a schema")
        check("schema_version", header.schema_version == 0, "0 without a schema")
    if header.schema_length > layout.MAX_SCHEMA_LENGTH:
        raise InvalidArgumentError("schema", f"{header.schema_length} bytes of UTF-8 must be 16 MiB at most")
