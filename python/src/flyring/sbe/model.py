# SPDX-License-Identifier: Apache-2.0
"""The model of a resolved SBE schema. ``parse`` makes it from XML; flyweights, dtypes, JSON and modules are made from
it.

No reference is left: every offset, length, version, null value, limit and constant stands where it is used.

Values are those on the wire: integers for the integer primitives **and for char** (the byte), ``float`` for float and
double. Only constants are values as a user sees them (see ``Field.constant``). All lengths and offsets are in bytes.
An offset counts from the start of the block or composite that holds the field.

A named type is one object, even if many fields use it. A type written inside a composite belongs to that composite
only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


class Primitive(enum.Enum):
    """A primitive type: its name, size, ``struct`` code, and the standard's limits and null value."""

    CHAR = ("char", 1, "B", 0x20, 0x7E, 0)
    INT8 = ("int8", 1, "b", -(2**7) + 1, 2**7 - 1, -(2**7))
    INT16 = ("int16", 2, "h", -(2**15) + 1, 2**15 - 1, -(2**15))
    INT32 = ("int32", 4, "i", -(2**31) + 1, 2**31 - 1, -(2**31))
    INT64 = ("int64", 8, "q", -(2**63) + 1, 2**63 - 1, -(2**63))
    UINT8 = ("uint8", 1, "B", 0, 2**8 - 2, 2**8 - 1)
    UINT16 = ("uint16", 2, "H", 0, 2**16 - 2, 2**16 - 1)
    UINT32 = ("uint32", 4, "I", 0, 2**32 - 2, 2**32 - 1)
    UINT64 = ("uint64", 8, "Q", 0, 2**64 - 2, 2**64 - 1)
    FLOAT = ("float", 4, "f", -3.4028234663852886e38, 3.4028234663852886e38, float("nan"))
    DOUBLE = ("double", 8, "d", -1.7976931348623157e308, 1.7976931348623157e308, float("nan"))

    def __init__(self, text: str, size: int, code: str, min_value: float, max_value: float, null_value: float) -> None:
        self.text = text
        self.size = size
        self.code = code
        self.min_value = min_value
        self.max_value = max_value
        self.null_value = null_value

    @property
    def is_float(self) -> bool:
        return self in (Primitive.FLOAT, Primitive.DOUBLE)

    @property
    def is_unsigned(self) -> bool:
        return self in (Primitive.UINT8, Primitive.UINT16, Primitive.UINT32, Primitive.UINT64)

    @property
    def lowest(self) -> int:
        """The smallest number that an integer primitive can hold, including the null value."""
        return 0 if self.is_unsigned or self is Primitive.CHAR else -(1 << (8 * self.size - 1))

    @property
    def highest(self) -> int:
        return self.lowest + (1 << (8 * self.size)) - 1


PRIMITIVES: Mapping[str, Primitive] = {primitive.text: primitive for primitive in Primitive}


class Presence(enum.Enum):
    REQUIRED = "required"
    OPTIONAL = "optional"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A ``<type>``: a primitive, or ``length`` of them in a row."""

    name: str
    primitive: Primitive
    length: int  # 1: one value, not an array. 0: an empty array
    presence: Presence  # of the type; a field may differ, see Field.presence
    min_value: int | float  # the type's own, or the primitive's
    max_value: int | float
    null_value: int | float  # used only if Field.presence is OPTIONAL, or the acting version lacks the field
    character_encoding: str | None = None  # always set for char; as the schema spells it, known to Python
    constant: int | float | str | None = None  # if presence is CONSTANT; see Field.constant
    description: str = ""
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int = 0  # 0: not deprecated

    @property
    def is_array(self) -> bool:
        return self.length != 1

    @property
    def encoded_length(self) -> int:
        return 0 if self.presence is Presence.CONSTANT else self.primitive.size * self.length


@dataclass(frozen=True, slots=True)
class ValidValue:
    """One value of an enum (``value``: the value on the wire), or one choice of a set (``value``: its bit, 0 to 63)."""

    name: str
    value: int
    description: str = ""
    since_version: int = 0
    deprecated: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    primitive: Primitive
    values: tuple[ValidValue, ...]
    null_value: int | float
    presence: Presence
    description: str = ""
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int = 0
    nullable: bool = False  # its encoding type is optional, so null may be written with any presence of the field

    @property
    def encoded_length(self) -> int:
        return self.primitive.size


@dataclass(frozen=True, slots=True)
class Set:
    """A ``<set>``; its value has ``1 << choice.value`` for each choice that is set."""

    name: str
    primitive: Primitive
    choices: tuple[ValidValue, ...]
    presence: Presence
    description: str = ""
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int = 0

    @property
    def encoded_length(self) -> int:
        return self.primitive.size


@dataclass(frozen=True, slots=True)
class Composite:
    name: str
    fields: tuple[Field, ...]  # refs, inline types and constants, in the schema's order; ids are 0
    encoded_length: int
    presence: Presence
    description: str = ""
    semantic_type: str | None = None
    since_version: int = 0
    deprecated: int = 0

    def __getitem__(self, name: str) -> Field:
        for member in self.fields:
            if member.name == name:
                return member
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(member.name == name for member in self.fields)


Type: TypeAlias = Encoded | Enum | Set | Composite


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a block, or a member of a composite."""

    name: str  # the schema's; the ref's name where a composite refers to a type
    type: Type
    offset: int
    encoded_length: int  # 0 for a constant
    presence: Presence  # the field's own, else its type's
    id: int = 0
    # The value of a constant, as a user reads it: int or float; str for char and char arrays, without trailing zeros;
    # for an enum the wire value, as ValidValue.value. None if presence is not CONSTANT.
    constant: int | float | str | None = None
    # The newer of the field's own and its type's. A member of a composite is read by the version of the field that
    # holds the composite instead.
    since_version: int = 0
    deprecated: int = 0
    description: str = ""  # the field's own, else its type's
    semantic_type: str | None = None
    epoch: str | None = None
    time_unit: str | None = None

    @property
    def is_optional(self) -> bool:
        """Whether a null value may be written. (A field that the acting version lacks also reads as null.)"""
        if isinstance(self.type, Enum) and self.type.nullable:
            return self.presence is not Presence.CONSTANT
        return self.presence is Presence.OPTIONAL


@dataclass(frozen=True, slots=True)
class Data:
    """A ``<data>``: a length, directly followed by that many bytes."""

    name: str
    id: int
    length: Encoded  # its max_value is the largest length that may be written
    character_encoding: str | None  # None: bytes
    type: Composite  # "length" and "varData", and any other members in the schema
    since_version: int = 0
    deprecated: int = 0
    description: str = ""
    semantic_type: str | None = None
    epoch: str | None = None
    time_unit: str | None = None

    @property
    def header_length(self) -> int:
        return self.length.primitive.size


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    id: int
    dimension: Composite  # has blockLength and numInGroup, at their offsets, with the limits of their types
    block_length: int
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    data: tuple[Data, ...]
    since_version: int = 0
    deprecated: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    id: int
    block_length: int
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    data: tuple[Data, ...]
    since_version: int = 0
    deprecated: int = 0
    description: str = ""
    semantic_type: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaModel:
    package: str
    id: int
    version: int
    byte_order: str  # "<" or ">", as struct has it
    header: Composite  # has blockLength, templateId, schemaId, version; perhaps more
    messages: tuple[Message, ...]  # in the schema's order
    types: Mapping[str, Type] = field(default_factory=dict)  # the named ones, without the primitives' own names
    text: str = ""  # the XML with every XInclude resolved
    description: str = ""
    semantic_version: str = ""
