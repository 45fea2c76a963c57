# SPDX-License-Identifier: Apache-2.0
"""The options of a new channel, its header, and the bytes of its file that are not zero (spec/channel.md 3.2, 4)."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, TypedDict

from . import layout
from ._core import File
from ._identity import Identity
from .errors import ChannelDiffersError, InvalidArgumentError
from .header import Delivery, Foreign, Header, Kind, check_options

if TYPE_CHECKING:
    from .journal_header import JournalHeader
    from .sbe.schema import Schema
    from .table_header import TableHeader


class Options(TypedDict, total=False):
    """The options of a new channel, with their defaults in parentheses."""

    capacity: int
    """The size of each ring in bytes: a power of two from 4 KiB to 1 GiB (1 MiB; for a service 64 KiB)."""
    publishers: int
    """The number of publisher slots and rings: 1 to 1024 (4). Not for a queue or service."""
    subscribers: int
    """The number of subscriber slots: 0 to 1024 (4); for an inbox 1. Not for a queue or service."""
    producers: int
    """Queues only: the number of publishers, 1 to 1023 (4)."""
    workers: int
    """Queues only: the number of workers, 1 to 1023 (4)."""
    clients: int
    """Services only: the number of clients, 1 to 512 (16)."""
    delivery: Delivery
    """Services only: "at-most-once" or "at-least-once", see spec/service.md 8 ("at-most-once")."""
    max_outstanding: int
    """Services only: how many calls one client may have under way at once, 1 to 65535 (64)."""
    alignment: int
    """The alignment of records in bytes: 64 or 8 (64)."""
    foreign: Foreign | None
    """The end at which a stock Agrona process is: "publisher" or "subscriber" (None). Needs the kind "inbox",
    1 publisher, 1 subscriber and alignment 8 (spec/channel.md 6.15)."""
    counters: int
    """The number of counters: 0 to 65536 (64)."""
    schema: str | Schema
    """The schema of the messages: text of at most 16 MiB in UTF-8, or a ``flyring.sbe.Schema``, which also gives the id
    and version (none)."""
    schema_id: int
    """0 to 65535 (0). Not together with a ``Schema``."""
    schema_version: int
    """0 to 65535 (0). Not together with a ``Schema``."""
    mode: int
    """Permission bits of the file (0o600)."""
    any_file_system: bool
    """With True, file systems outside the list of spec/channel.md 3.1 are allowed, too (False)."""
    wake: bool
    """With False, objects made from this channel do not wake sleeping processes; see ``Channel.open`` (True)."""


def check_schema(
    path: str, header: Header | TableHeader | JournalHeader, schema_id: int | None, min_schema_version: int
) -> None:
    """Checks the schema that ``open`` was asked for (spec/messages.md 2). ChannelDiffersError, InvalidArgumentError."""
    if not 0 <= min_schema_version <= 0xFFFF:
        raise InvalidArgumentError("min_schema_version", f"{min_schema_version!r} must be 0 to 65535")
    if schema_id is not None and header.schema_length == 0:
        raise ChannelDiffersError(path, "schema", schema_id, None)
    if schema_id is not None and header.schema_id != schema_id:
        raise ChannelDiffersError(path, "schema_id", schema_id, header.schema_id)
    if header.schema_version < min_schema_version:
        raise ChannelDiffersError(path, "schema_version", min_schema_version, header.schema_version)


def schema_of(options: Options) -> tuple[str, int, int]:
    """Returns the schema's text, id and version. InvalidArgumentError."""
    return schema_of_options(options.get("schema"), options.get("schema_id"), options.get("schema_version"))


def schema_of_options(
    schema: str | Schema | None, schema_id: int | None, schema_version: int | None
) -> tuple[str, int, int]:
    """Returns the schema's text, id and version. None: the option was not given. InvalidArgumentError."""
    schema = schema or ""
    if isinstance(schema, str):
        return schema, schema_id or 0, schema_version or 0
    for option, given in (("schema_id", schema_id), ("schema_version", schema_version)):
        if given is not None:
            raise InvalidArgumentError(option, "is the schema's own: give the one or the other")
    check_is_schema(schema)
    return schema.text, schema.id, schema.version


def check_is_schema(schema: object) -> None:
    from .sbe.schema import Schema

    if not isinstance(schema, Schema):
        raise InvalidArgumentError("schema", f"{schema!r} must be a flyring.sbe.Schema")


def describe(kind: Kind, options: Options, identity: Identity) -> tuple[Header, bytes]:
    """Returns the header for these options, and the schema's bytes. InvalidArgumentError."""
    text, schema_id, schema_version = schema_of(options)
    schema = text.encode("utf-8")
    if kind == "queue":  # plus the returns ring and the shared slot
        publishers = options.get("producers", layout.DEFAULT_PRODUCERS) + 1
        subscribers = options.get("workers", layout.DEFAULT_WORKERS) + 1
    elif kind == "service":
        clients = options.get("clients", layout.DEFAULT_CLIENTS)
        publishers, subscribers = 2 * clients, clients + 1
    else:
        publishers = options.get("publishers", layout.DEFAULT_PUBLISHERS)
        default = layout.INBOX_SUBSCRIBERS if kind == "inbox" else layout.DEFAULT_SUBSCRIBERS
        subscribers = options.get("subscribers", default)
    service = kind == "service"
    header = Header(
        kind=kind,
        capacity=options.get("capacity", layout.DEFAULT_SERVICE_CAPACITY if service else layout.DEFAULT_CAPACITY),
        publishers=publishers,
        subscribers=subscribers,
        alignment=options.get("alignment", layout.DEFAULT_ALIGNMENT),
        foreign=options.get("foreign"),
        counters=options.get("counters", layout.DEFAULT_COUNTERS),
        schema_length=len(schema),
        schema_id=schema_id,
        schema_version=schema_version,
        delivery=options.get("delivery", "at-most-once"),
        max_outstanding=options.get("max_outstanding", layout.DEFAULT_MAX_OUTSTANDING if service else 0),
        channel_id=identity.new_channel_id(),
        created_at=identity.creation_time(),
    )
    unknown = set(options) - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {sorted(unknown)}")
    check_options(header, options.keys())
    return header, schema


def write_content(file: File, header: Header, schema: bytes, identity: Identity) -> None:
    """Writes all bytes of a new file that are not zero (spec/channel.md 3.2 and 4; 4.7 for the rings)."""

    def put(offset: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(file.fileno(), view, offset)
            view, offset = view[written:], offset + written

    def word(offset: int, value: int) -> None:
        struct.pack_into("<q", trailer, offset, value)

    put(0, header.pack())
    put(header.control_offset + layout.CONTROL_BOOT_ID, identity.this_boot().bytes)
    if header.kind in ("inbox", "queue", "service"):
        put(header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_KEPT, struct.pack("<i", 1))
    trailer = bytearray(header.trailer_length)
    for slot in header.gating(0):
        word(header.gate(0, slot) - header.trailer(0), layout.NOT_GATING)
        if header.foreign:
            word(header.gate(0, slot) - header.trailer(0) + layout.GATE_COUNT, layout.COUNT_UNKNOWN)
    for ring in range(header.publishers):
        start = layout.START_STRIDE * ring % layout.START_MODULUS
        for eighth in range(layout.BOUNDARIES):
            here = eighth == start // (header.capacity // layout.BOUNDARIES) and header.foreign != "subscriber"
            word(layout.TRAILER_BOUNDARY + layout.TRAILER_BOUNDARY_STRIDE * eighth, start if here else -1)
        word(layout.TRAILER_CLAIMED, start)
        word(layout.TRAILER_PUBLISHED, start)
        if header.kind in ("inbox", "queue") or (header.is_service and ring < header.clients):
            word(layout.TRAILER_GATE, start)
        elif header.is_service:
            word(layout.TRAILER_GATE, layout.NOT_GATING)
        put(header.trailer(ring), bytes(trailer))
    if schema:
        put(header.schema_offset, schema)
