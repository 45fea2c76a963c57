# SPDX-License-Identifier: Apache-2.0
"""The header page of a journal's control file, and the options of a journal (spec/journal.md 2.1)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from . import layout
from ._core import crc32c
from .content import schema_of_options
from .errors import CorruptHeaderError, InvalidArgumentError
from .header import NO_ID, check_page, pages

if TYPE_CHECKING:
    from ._identity import Identity
    from .sbe.schema import Schema

JOURNAL_MAGIC = bytes.fromhex(layout.JOURNAL_MAGIC_HEX)
Sync = Literal["never", "each"] | float
"""When what was appended is made durable. "never": when the writer has left a segment, by the helper or a push. "each":
before an append returns. A number: an interval in seconds, 0.001 to 3600, by the helper or a push, while there are
appends."""
SHORTEST_INTERVAL, LONGEST_INTERVAL = 1_000_000, 3600 * 1_000_000_000


class JournalOptions(TypedDict, total=False):
    """The options of a new journal, with their defaults in parentheses."""

    segment_size: int
    """Bytes of a segment, the unit in which disk space is taken and freed: a power of two, 64 KiB to 1 GiB (64 MiB).
    A message has at most a fourth of it, less 16 bytes."""
    consumers: int
    """How many names of consumers there may be: 0 to 1024 (16)."""
    content: int
    """0: messages of the user; 1: a recording (0)."""
    sync: Sync
    """When what was appended is made durable ("never")."""
    max_age: float
    """In seconds: segments whose messages are all older are removed, whatever consumers need; 0: no limit (0)."""
    max_size: int
    """The oldest segments beyond this many bytes are removed, whatever consumers need; 0: no limit (0)."""
    trim_consumed: bool
    """Segments that all consumers have consumed are removed (False). This and the two limits above are carried out by
    the helper of a writer, and without one by a push."""
    schema: str | Schema
    """The schema of the messages: text in UTF-8, or a ``flyring.sbe.Schema``, which also gives the id and version
    (none)."""
    schema_id: int
    """0 to 65535 (0). Not together with a ``Schema``."""
    schema_version: int
    """0 to 65535 (0). Not together with a ``Schema``."""
    mode: int
    """Permission bits of the files (0o600)."""
    any_file_system: bool
    """With True, file systems outside the list of spec/channel.md 3.1 are allowed, too (False)."""
    wake: bool
    """With False, what is made from this object does not wake sleeping processes (True)."""
    recovery_progress: Callable[[int, int], object]
    """Called with the bytes checked and an estimate of all bytes, while a writer recovers the journal (none)."""


@dataclass(frozen=True)
class JournalHeader:
    """The dimensions of a journal; all offsets in the control file follow from them."""

    segment_size: int
    consumers: int
    content: int = layout.JOURNAL_CONTENT_MESSAGES
    schema_length: int = 0
    schema_id: int = 0
    schema_version: int = 0
    journal_id: uuid.UUID = NO_ID
    created_at: int = 0
    minor: int = layout.MINOR
    optional_features: int = 0
    longer: int = 0
    """How many bytes a newer minor version has put behind the schema."""

    header_length = layout.HEADER_LENGTH
    control_offset = layout.HEADER_LENGTH

    @property
    def control_length(self) -> int:
        return pages(layout.JOURNAL_CONTROL_CONSUMERS + layout.JOURNAL_CONSUMER_SIZE * self.consumers)

    @property
    def schema_offset(self) -> int:
        return self.control_offset + self.control_length

    @property
    def sections_end(self) -> int:
        return pages(self.schema_offset + self.schema_length)

    @property
    def file_length(self) -> int:
        return self.sections_end + self.longer

    def consumer(self, slot: int) -> int:
        """The offset of a consumer's slot."""
        return self.control_offset + layout.JOURNAL_CONTROL_CONSUMERS + layout.JOURNAL_CONSUMER_SIZE * slot

    def pack(self) -> bytes:
        page = bytearray(layout.HEADER_LENGTH)
        page[: len(JOURNAL_MAGIC)] = JOURNAL_MAGIC
        put = struct.pack_into
        put("<HHi", page, layout.JOURNAL_HEADER_MAJOR, layout.MAJOR, self.minor, layout.HEADER_LENGTH)
        put("<Q", page, layout.JOURNAL_HEADER_OPTIONAL_FEATURES, self.optional_features)
        put("<q", page, layout.JOURNAL_HEADER_FILE_LENGTH, self.file_length)
        page[layout.JOURNAL_HEADER_JOURNAL_ID : layout.JOURNAL_HEADER_JOURNAL_ID + 16] = self.journal_id.bytes
        put("<q", page, layout.JOURNAL_HEADER_CREATED_AT, self.created_at)
        for offset, size, name in FIELDS:
            put("<i" if size == 4 else "<q", page, offset, getattr(self, name))
        put("<I", page, layout.JOURNAL_HEADER_CRC, crc32c(page[: layout.JOURNAL_HEADER_CRC]))
        return bytes(page)

    @classmethod
    def parse(cls, page: bytes, size: int, path: str) -> JournalHeader:
        """Checks the header in the order of spec/channel.md 3.3. ``page``: the first 4096 bytes of the file, or fewer
        if the file is shorter. ``size``: the size of the file.

        NotAChannelError, TruncatedError, VersionTooNewError, CorruptHeaderError (for the first invalid field).
        """
        file_length = check_page(page, size, path, JOURNAL_MAGIC, supported=0)
        values = {name: struct.unpack_from("<i" if n == 4 else "<q", page, at)[0] for at, n, name in FIELDS}

        def check(field: str, valid: bool) -> None:
            if not valid:
                raise CorruptHeaderError(path, field, f"is {values[field]}, which cannot be")

        check("header_length", values["header_length"] == layout.HEADER_LENGTH)
        check("content", values["content"] in CONTENTS)
        check("consumers", 0 <= values["consumers"] <= layout.JOURNAL_MAX_CONSUMERS)
        check("segment_size", valid_segment_size(values["segment_size"]))
        header = cls(
            segment_size=values["segment_size"],
            consumers=values["consumers"],
            content=values["content"],
            schema_length=values["schema_length"],
            schema_id=values["schema_id"],
            schema_version=values["schema_version"],
            journal_id=uuid.UUID(bytes=page[layout.JOURNAL_HEADER_JOURNAL_ID : layout.JOURNAL_HEADER_JOURNAL_ID + 16]),
            created_at=struct.unpack_from("<q", page, layout.JOURNAL_HEADER_CREATED_AT)[0],
            minor=struct.unpack_from("<H", page, layout.JOURNAL_HEADER_MINOR)[0],
            optional_features=struct.unpack_from("<Q", page, layout.JOURNAL_HEADER_OPTIONAL_FEATURES)[0],
        )
        for field in ("control_offset", "control_length", "schema_offset"):
            if values[field] != getattr(header, field):
                raise CorruptHeaderError(path, field, f"is {values[field]}, but must be {getattr(header, field)}")
        check("schema_length", 0 <= values["schema_length"] <= layout.MAX_SCHEMA_LENGTH)
        for field in ("schema_id", "schema_version"):
            check(field, 0 <= values[field] <= 0xFFFF)
        if header.sections_end > file_length:
            raise CorruptHeaderError(
                path, "file_length", f"is {file_length}, but the sections end at {header.sections_end}"
            )
        return replace(header, longer=file_length - header.sections_end)


CONTENTS = (layout.JOURNAL_CONTENT_MESSAGES, layout.JOURNAL_CONTENT_RECORDING)

# Offset, size and name of header_length and of the fields behind created_at, in the order in which they are checked.
FIELDS: tuple[tuple[int, int, str], ...] = (
    (layout.JOURNAL_HEADER_HEADER_LENGTH, 4, "header_length"),
    (layout.JOURNAL_HEADER_CONTENT, 4, "content"),
    (layout.JOURNAL_HEADER_CONSUMERS, 4, "consumers"),
    (layout.JOURNAL_HEADER_SEGMENT_SIZE, 8, "segment_size"),
    (layout.JOURNAL_HEADER_CONTROL_OFFSET, 8, "control_offset"),
    (layout.JOURNAL_HEADER_CONTROL_LENGTH, 8, "control_length"),
    (layout.JOURNAL_HEADER_SCHEMA_OFFSET, 8, "schema_offset"),
    (layout.JOURNAL_HEADER_SCHEMA_LENGTH, 8, "schema_length"),
    (layout.JOURNAL_HEADER_SCHEMA_ID, 4, "schema_id"),
    (layout.JOURNAL_HEADER_SCHEMA_VERSION, 4, "schema_version"),
)


def valid_segment_size(size: int) -> bool:
    return layout.JOURNAL_MIN_SEGMENT_SIZE <= size <= layout.JOURNAL_MAX_SEGMENT_SIZE and size & (size - 1) == 0


@dataclass(frozen=True)
class Policy:
    """The options that ``Journal.change`` changes, as the control section has them."""

    sync_every: int = layout.JOURNAL_SYNC_NEVER
    """0 never, -1 each append, else ns."""
    max_age: int = 0
    """ns; 0: no limit."""
    max_size: int = 0
    trim_consumed: int = 0


def policy_of(options: JournalOptions, before: Policy | None = None) -> Policy:
    """Returns what these options say, and what ``before`` says of the others. InvalidArgumentError."""
    before = before or Policy()
    every, age = before.sync_every, before.max_age
    if "sync" in options:
        every = sync_every_of(options["sync"])
    if "max_age" in options:
        seconds = options["max_age"]
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < 2**63 / 1e9:
            raise InvalidArgumentError("max_age", f"{seconds!r} must be seconds, 0 or more")
        age = round(seconds * 1e9)
    size = options.get("max_size", before.max_size)
    if not isinstance(size, int) or not 0 <= size < layout.MAX_POSITION:
        raise InvalidArgumentError("max_size", f"{size!r} must be bytes, 0 or more")
    return Policy(every, age, size, int(bool(options.get("trim_consumed", before.trim_consumed))))


def sync_every_of(sync: Sync) -> int:
    """Returns the word ``sync_every``. InvalidArgumentError."""
    if sync == "never":
        return layout.JOURNAL_SYNC_NEVER
    if sync == "each":
        return layout.JOURNAL_SYNC_EACH
    if isinstance(sync, (int, float)) and SHORTEST_INTERVAL <= round(sync * 1e9) <= LONGEST_INTERVAL:
        return round(sync * 1e9)
    raise InvalidArgumentError("sync", f'{sync!r} must be "never", "each", or 0.001 to 3600 seconds')


def sync_of(every: int) -> Sync:
    """The inverse of sync_every_of, for any word (spec/journal.md 10)."""
    if every == layout.JOURNAL_SYNC_EACH:
        return "each"
    return every / 1e9 if every > 0 else "never"


def describe_journal(options: JournalOptions, identity: Identity) -> tuple[JournalHeader, bytes, Policy]:
    """Returns the header for these options, the schema's bytes, and the policy. InvalidArgumentError."""
    unknown = set(options) - JournalOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {sorted(unknown)}")

    def whole(option: str, default: int, most: int) -> int:
        value = {**options}.get(option, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise InvalidArgumentError(option, f"{value!r} must be 0 to {most}")
        return value

    segment_size = whole("segment_size", layout.JOURNAL_DEFAULT_SEGMENT_SIZE, layout.JOURNAL_MAX_SEGMENT_SIZE)
    if not valid_segment_size(segment_size):
        raise InvalidArgumentError("segment_size", f"{segment_size} must be a power of two from 65536 to 2^30 bytes")
    consumers = whole("consumers", layout.JOURNAL_DEFAULT_CONSUMERS, layout.JOURNAL_MAX_CONSUMERS)
    content = whole("content", layout.JOURNAL_CONTENT_MESSAGES, max(CONTENTS))
    policy = policy_of(options)
    text, schema_id, schema_version = schema_of_options(
        options.get("schema"), options.get("schema_id"), options.get("schema_version")
    )
    schema = text.encode("utf-8")
    if len(schema) > layout.MAX_SCHEMA_LENGTH:
        raise InvalidArgumentError("schema", f"{len(schema)} bytes of UTF-8 must be 16 MiB at most")
    for option, number in (("schema_id", schema_id), ("schema_version", schema_version)):
        if not 0 <= number <= 0xFFFF:
            raise InvalidArgumentError(option, f"{number!r} must be 0 to 65535")
        if not schema and number:
            raise InvalidArgumentError(option, f"{number!r} must be 0 without a schema")
    whole("mode", 0o600, 0o777)
    header = JournalHeader(
        segment_size=segment_size,
        consumers=consumers,
        content=content,
        schema_length=len(schema),
        schema_id=schema_id,
        schema_version=schema_version,
        journal_id=identity.new_channel_id(),
        created_at=identity.creation_time(),
    )
    return header, schema, policy
