# SPDX-License-Identifier: Apache-2.0
"""What a new channel is like: its options, its header, what of its file is not zero (spec/channel.md 3.2, 4)."""

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
    from .sbe.schema import Schema


class Options(TypedDict, total=False):
    """What a new channel is like; what is not given has the default of spec/api.md."""

    capacity: int
    """Bytes of one ring: a power of two, 4 KiB to 1 GiB (1 MiB; of a service 64 KiB)."""
    publishers: int
    """Publisher slots, and so rings: 1 to 1024 (4). Not of a queue or service."""
    subscribers: int
    """Subscriber slots: 0 to 1024 (4); an inbox has 1. Not of a queue or service."""
    producers: int
    """Only of a queue: its publishers, 1 to 1023 (4)."""
    workers: int
    """Only of a queue: 1 to 1023 (4)."""
    clients: int
    """Only of a service: 1 to 512 (16)."""
    delivery: Delivery
    """Only of a service: "at-most-once" or "at-least-once", spec/service.md 8 ("at-most-once")."""
    max_outstanding: int
    """Only of a service: calls of one client that are under way at once, 1 to 65535 (64)."""
    alignment: int
    """Of records, in bytes: 64 or 8 (64)."""
    foreign: Foreign | None
    """"publisher" or "subscriber": a stock Agrona process is at that end (spec 6.15). Needs the kind "inbox",
    1 publisher, 1 subscriber and the alignment 8 (None)."""
    counters: int
    """0 to 65536 (64)."""
    schema: str | Schema
    """Text that describes the messages, at most 16 MiB of UTF-8; or a ``flyring.sbe.Schema``, which has id and version
    too (none)."""
    schema_id: int
    """0 to 65535 (0). Not with a ``Schema``."""
    schema_version: int
    """0 to 65535 (0). Not with a ``Schema``."""
    mode: int
    """Permission bits of the file (0o600)."""
    any_file_system: bool
    """True: do not insist on the file systems of spec 3.1 (False)."""
    wake: bool
    """False: nothing that is made from this channel wakes those who sleep; see ``Channel.open`` (True)."""


def check_schema(path: str, header: Header, schema_id: int | None, min_schema_version: int) -> None:
    """What ``open`` was asked to find (spec/messages.md 2)."""
    if not 0 <= min_schema_version <= 0xFFFF:
        raise InvalidArgumentError("min_schema_version", f"{min_schema_version!r} must be 0 to 65535")
    if schema_id is not None and header.schema_length == 0:
        raise ChannelDiffersError(path, "schema", schema_id, None)
    if schema_id is not None and header.schema_id != schema_id:
        raise ChannelDiffersError(path, "schema_id", schema_id, header.schema_id)
    if header.schema_version < min_schema_version:
        raise ChannelDiffersError(path, "schema_version", min_schema_version, header.schema_version)


def schema_of(options: Options) -> tuple[str, int, int]:
    """Text, id and version. InvalidArgumentError."""
    schema = options.get("schema") or ""
    if isinstance(schema, str):
        return schema, options.get("schema_id", 0), options.get("schema_version", 0)
    for option in ("schema_id", "schema_version"):
        if option in options:
            raise InvalidArgumentError(option, "is the schema's own: give the one or the other")
    check_is_schema(schema)
    return schema.text, schema.id, schema.version


def check_is_schema(schema: object) -> None:
    from .sbe.schema import Schema

    if not isinstance(schema, Schema):
        raise InvalidArgumentError("schema", f"{schema!r} must be a flyring.sbe.Schema")


def describe(kind: Kind, options: Options, identity: Identity) -> tuple[Header, bytes]:
    """The header that the options ask for, and the schema's bytes. InvalidArgumentError."""
    text, schema_id, schema_version = schema_of(options)
    schema = text.encode("utf-8")
    if kind == "queue":  # the returns ring and the shared slot more
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
    """All of a new file that is not zero (spec 3.2, 4; section 4.7 for the rings)."""

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
