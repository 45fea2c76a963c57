# SPDX-License-Identifier: Apache-2.0
"""The header page of a table, and its options (spec/table.md 2)."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from . import layout
from ._core import crc32c
from .content import check_is_schema
from .errors import CorruptHeaderError, InvalidArgumentError
from .header import NO_ID, check_page, pages

if TYPE_CHECKING:
    from ._identity import Identity
    from .sbe.flyweight import Message
    from .sbe.schema import Schema

KeyType = Literal["bytes", "text", "integer"]
KEY_TYPES: dict[KeyType, int] = {
    "bytes": layout.TABLE_KEY_TYPE_BYTES,
    "text": layout.TABLE_KEY_TYPE_TEXT,
    "integer": layout.TABLE_KEY_TYPE_INTEGER,
}
KEY_TYPE_NAMES: dict[int, KeyType] = {number: name for name, number in KEY_TYPES.items()}
TABLE_MAGIC = bytes.fromhex(layout.TABLE_MAGIC_HEX)
DEFAULT_KEY_BYTES = 32


class TableOptions(TypedDict, total=False):
    """The options of a new table, with their defaults in parentheses."""

    capacity: int
    """How many keys fit: 1 to 2^30. Must be given."""
    key: KeyType
    """The type of the keys: "bytes", "text" or "integer" (signed, 64 bits). Must be given."""
    key_bytes: int
    """The longest key in bytes: 1 to 1024 (32; integer: 8)."""
    value_bytes: int
    """The longest value in bytes: 0 to 16 MiB. Must be given, unless a ``message`` of fixed size gives it."""
    schema: Schema
    """The schema of the values: a ``flyring.sbe.Schema`` (none)."""
    message: str
    """The name of the schema's message that each value is. Must be given with a schema."""
    checked: bool
    """True: values carry a checksum, and survive a power loss (False on tmpfs and ramfs, else True)."""
    mode: int
    """Permission bits of the file (0o600)."""
    any_file_system: bool
    """With True, file systems outside the list of spec/channel.md 3.1 are allowed, too (False)."""
    wake: bool
    """With False, changes that are made through this table do not wake sleeping processes (True)."""
    recovery_progress: Callable[[int, int], object]
    """A function ``f(checked, total)``. It is called with numbers of cells while a change through this table recovers
    it after a reboot (none)."""


def up_to(length: int, alignment: int) -> int:
    """Rounds up to a multiple of ``alignment``."""
    return -(-length // alignment) * alignment


@dataclass(frozen=True)
class TableHeader:
    """The header of a table: its dimensions, from which all offsets in the file follow. Lengths and offsets are in
    bytes."""

    key_type: KeyType
    key_bytes: int
    value_bytes: int
    capacity: int
    checked: bool = False
    schema_length: int = 0
    schema_id: int = 0
    schema_version: int = 0
    value_template: int = 0
    table_id: uuid.UUID = NO_ID
    created_at: int = 0
    minor: int = layout.MINOR
    optional_features: int = 0
    longer: int = 0
    """How many bytes follow the schema: a newer minor version of the layout may have put them there."""

    header_length = layout.HEADER_LENGTH
    control_offset = layout.HEADER_LENGTH
    index_offset = layout.HEADER_LENGTH + layout.TABLE_CONTROL_LENGTH

    @property
    def body_offset(self) -> int:
        """The offset of body 0 in a cell."""
        return up_to(layout.TABLE_CELL_KEY + self.key_bytes, layout.TABLE_BODY_ALIGNMENT)

    @property
    def body_stride(self) -> int:
        """The distance from body 0 to body 1 in a cell."""
        return up_to(layout.TABLE_BODY_VALUE + self.value_bytes, layout.TABLE_BODY_ALIGNMENT)

    @property
    def cell_stride(self) -> int:
        return self.body_offset + 2 * self.body_stride

    @property
    def cells(self) -> int:
        """How many cells the file has room for: ``capacity``, and those that are never used because they cross a
        multiple of 1 GiB (spec/table.md 2)."""
        period = self.cell_stride // math.gcd(self.cell_stride, layout.TABLE_PIECE)
        cells = 0
        more = self.capacity
        while cells != more:
            cells = more
            borders = (cells * self.cell_stride - 1) // layout.TABLE_PIECE
            more = self.capacity + borders - borders // period  # no cell crosses a border that a cell begins at
        return cells

    @property
    def entries(self) -> int:
        """The number of entries of one copy of the index."""
        return max(layout.TABLE_MIN_ENTRIES, up_to(self.capacity + self.capacity // 2, 8))

    @property
    def index_stride(self) -> int:
        """The distance from copy 0 to copy 1 of the index."""
        return pages(8 * self.entries)

    @property
    def cells_offset(self) -> int:
        return self.index_offset + 2 * self.index_stride

    @property
    def schema_offset(self) -> int:
        return pages(self.cells_offset + self.cells * self.cell_stride)

    @property
    def sections_end(self) -> int:
        """Where the last section that this version knows ends."""
        return pages(self.schema_offset + self.schema_length)

    @property
    def file_length(self) -> int:
        return self.sections_end + self.longer

    @property
    def shape(self) -> tuple[int, int, int, bool, int, int, int]:
        """The dimensions as the C core takes them."""
        return (
            KEY_TYPES[self.key_type],
            self.key_bytes,
            self.value_bytes,
            self.checked,
            self.capacity,
            self.cells,
            self.entries,
        )

    def pack(self) -> bytes:
        """The header page of the file: 4096 bytes."""
        page = bytearray(layout.HEADER_LENGTH)
        page[: len(TABLE_MAGIC)] = TABLE_MAGIC
        put = struct.pack_into
        put("<HHi", page, layout.TABLE_HEADER_MAJOR, layout.MAJOR, self.minor, layout.HEADER_LENGTH)
        put("<Q", page, layout.TABLE_HEADER_OPTIONAL_FEATURES, self.optional_features)
        put("<q", page, layout.TABLE_HEADER_FILE_LENGTH, self.file_length)
        page[layout.TABLE_HEADER_TABLE_ID : layout.TABLE_HEADER_TABLE_ID + 16] = self.table_id.bytes
        put("<q", page, layout.TABLE_HEADER_CREATED_AT, self.created_at)
        for offset, size, name in FIELDS:
            value = getattr(self, name)
            if name == "key_type":
                value = KEY_TYPES[self.key_type]
            put("<i" if size == 4 else "<q", page, offset, value)
        put("<I", page, layout.TABLE_HEADER_CRC, crc32c(page[: layout.TABLE_HEADER_CRC]))
        return bytes(page)

    @classmethod
    def parse(cls, page: bytes, size: int, path: str) -> TableHeader:
        """Checks the header in the order of spec/channel.md 3.3. ``page``: the first 4096 bytes of the file, or fewer
        if the file is shorter. ``size``: the size of the file.

        Raises NotAChannelError, TruncatedError, VersionTooNewError, or CorruptHeaderError (for the first invalid
        field).
        """
        file_length = check_page(page, size, path, TABLE_MAGIC, supported=0)
        values = {name: struct.unpack_from("<i" if n == 4 else "<q", page, at)[0] for at, n, name in FIELDS}

        def check(field: str, valid: bool) -> None:
            if not valid:
                raise CorruptHeaderError(path, field, f"is {values[field]}, which cannot be")

        integer = values["key_type"] == layout.TABLE_KEY_TYPE_INTEGER
        check("header_length", values["header_length"] == layout.HEADER_LENGTH)
        check("key_type", values["key_type"] in KEY_TYPE_NAMES)
        check("key_bytes", 1 <= values["key_bytes"] <= layout.TABLE_MAX_KEY_BYTES)
        check("key_bytes", not integer or values["key_bytes"] == layout.TABLE_INTEGER_KEY_BYTES)
        check("value_bytes", 0 <= values["value_bytes"] <= layout.TABLE_MAX_VALUE_BYTES)
        check("checked", values["checked"] in (0, 1))
        check("capacity", 1 <= values["capacity"] <= layout.TABLE_MAX_CAPACITY)
        header = cls(
            key_type=KEY_TYPE_NAMES[values["key_type"]],
            key_bytes=values["key_bytes"],
            value_bytes=values["value_bytes"],
            capacity=values["capacity"],
            checked=bool(values["checked"]),
            schema_length=values["schema_length"],
            schema_id=values["schema_id"],
            schema_version=values["schema_version"],
            value_template=values["value_template"],
            table_id=uuid.UUID(bytes=page[layout.TABLE_HEADER_TABLE_ID : layout.TABLE_HEADER_TABLE_ID + 16]),
            created_at=struct.unpack_from("<q", page, layout.TABLE_HEADER_CREATED_AT)[0],
            minor=struct.unpack_from("<H", page, layout.TABLE_HEADER_MINOR)[0],
            optional_features=struct.unpack_from("<Q", page, layout.TABLE_HEADER_OPTIONAL_FEATURES)[0],
        )
        for _, _, field in FIELDS:
            if field in COMPUTED and values[field] != getattr(header, field):
                raise CorruptHeaderError(path, field, f"is {values[field]}, but must be {getattr(header, field)}")
        check("schema_length", 0 <= values["schema_length"] <= layout.MAX_SCHEMA_LENGTH)
        for field in ("schema_id", "schema_version", "value_template"):
            check(field, 0 <= values[field] <= 0xFFFF)
        if header.sections_end > file_length:
            raise CorruptHeaderError(
                path, "file_length", f"is {file_length}, but the sections end at {header.sections_end}"
            )
        return replace(header, longer=file_length - header.sections_end)


# Offset, size and name of header_length and of the fields after created_at, in the order in which they are checked.
FIELDS: tuple[tuple[int, int, str], ...] = (
    (layout.TABLE_HEADER_HEADER_LENGTH, 4, "header_length"),
    (layout.TABLE_HEADER_KEY_TYPE, 4, "key_type"),
    (layout.TABLE_HEADER_KEY_BYTES, 4, "key_bytes"),
    (layout.TABLE_HEADER_VALUE_BYTES, 4, "value_bytes"),
    (layout.TABLE_HEADER_CHECKED, 4, "checked"),
    (layout.TABLE_HEADER_CAPACITY, 8, "capacity"),
    (layout.TABLE_HEADER_CELLS, 8, "cells"),
    (layout.TABLE_HEADER_CELL_STRIDE, 8, "cell_stride"),
    (layout.TABLE_HEADER_ENTRIES, 8, "entries"),
    (layout.TABLE_HEADER_CONTROL_OFFSET, 8, "control_offset"),
    (layout.TABLE_HEADER_INDEX_OFFSET, 8, "index_offset"),
    (layout.TABLE_HEADER_INDEX_STRIDE, 8, "index_stride"),
    (layout.TABLE_HEADER_CELLS_OFFSET, 8, "cells_offset"),
    (layout.TABLE_HEADER_SCHEMA_OFFSET, 8, "schema_offset"),
    (layout.TABLE_HEADER_SCHEMA_LENGTH, 8, "schema_length"),
    (layout.TABLE_HEADER_SCHEMA_ID, 4, "schema_id"),
    (layout.TABLE_HEADER_SCHEMA_VERSION, 4, "schema_version"),
    (layout.TABLE_HEADER_VALUE_TEMPLATE, 4, "value_template"),
)
# The fields that follow from the others; ``parse`` compares them with the properties of these names.
COMPUTED = ("cells", "cell_stride", "entries") + tuple(
    field for _, _, field in FIELDS if field.endswith("_offset") or field == "index_stride"
)


def describe_table(options: TableOptions, identity: Identity) -> tuple[TableHeader, bytes]:
    """Returns the header for these options, and the schema's bytes. If ``checked`` was not given, it is False in the
    header: the file system decides later. Raises InvalidArgumentError, and TypeError for an unknown option."""
    unknown = set(options) - TableOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {sorted(unknown)}")

    def whole(option: str, default: int | None, least: int, most: int) -> int:
        value = {**options}.get(option, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidArgumentError(option, f"{value!r} must be {least} to {most}")
        return value

    capacity = whole("capacity", None, 1, layout.TABLE_MAX_CAPACITY)
    key = options.get("key")
    if key not in KEY_TYPES:
        raise InvalidArgumentError("key", f'{key!r} must be "bytes", "text" or "integer"')
    if key == "integer":
        eight = layout.TABLE_INTEGER_KEY_BYTES
        key_bytes = whole("key_bytes", eight, eight, eight)
    else:
        key_bytes = whole("key_bytes", DEFAULT_KEY_BYTES, 1, layout.TABLE_MAX_KEY_BYTES)
    schema, message = options.get("schema"), message_of(options)
    length = None if message is None else fixed_length(message)
    value_bytes = whole("value_bytes", length, 0, layout.TABLE_MAX_VALUE_BYTES)
    text = b"" if schema is None else schema.text.encode("utf-8")
    if len(text) > layout.MAX_SCHEMA_LENGTH:
        raise InvalidArgumentError("schema", f"{len(text)} bytes of UTF-8 must be 16 MiB at most")
    whole("mode", 0o600, 0, 0o777)
    header = TableHeader(
        key_type=key,
        key_bytes=key_bytes,
        value_bytes=value_bytes,
        capacity=capacity,
        checked=bool(options.get("checked", False)),
        schema_length=len(text),
        schema_id=0 if schema is None else schema.id,
        schema_version=0 if schema is None else schema.version,
        value_template=0 if message is None else message.TEMPLATE_ID,
        table_id=identity.new_channel_id(),
        created_at=identity.creation_time(),
    )
    return header, text


def message_of(options: TableOptions) -> type[Message] | None:
    """Returns the message class of the values, or None without a schema. Raises InvalidArgumentError."""
    schema, name = options.get("schema"), options.get("message")
    if schema is None:
        if name is not None:
            raise InvalidArgumentError("message", "needs a schema")
        return None
    check_is_schema(schema)
    if name is None or name not in schema.messages:
        raise InvalidArgumentError("message", f"{name!r} must be a message of the schema: {', '.join(schema.messages)}")
    return schema.messages[name]


def fixed_length(message: type[Message]) -> int | None:
    """Returns the length in bytes of such a message with its header, or None if the message has groups or data."""
    parts = [field for field in message.FIELDS.values() if field.kind in ("group", "data")]
    return None if parts else message.SCHEMA.model.header.encoded_length + message.BLOCK_LENGTH
