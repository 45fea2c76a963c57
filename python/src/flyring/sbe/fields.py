# SPDX-License-Identifier: Apache-2.0
"""The parts of message classes: base classes, and the constructors of their attributes.

``runtime.py`` uses them for a schema that is read at run time. A module made by ``flyring sbe generate`` uses them too,
and has the same classes. All offsets and lengths are in bytes. An offset counts from the start of the block or
composite that holds the field. Values, limits and null values are those on the wire.

    HEADER = Header(schema_id=7, version=1, encoded_length=8, block_length=(0, "uint16"), template_id=(2, "uint16"),
                    schema=(4, "uint16"), acting_version=(6, "uint16"))

    class Trade(Message, header=HEADER, template_id=2, block_length=49):
        instrument: Field[Instrument, Instrument] = composite("instrument", 0, Instrument)
        price: Field[int, int] = integer("price", "int64", 32)
        side: Field[Side | None, Side] = enumeration("side", "char", 44, Side, null=0)
        venueFee: Field[int | None, int | None] = integer("venueFee", "int32", 45, null=-(2**31), since=1)
        venue: ClassVar[Final] = "XFLY"  # a constant is a plain class attribute
"""

from __future__ import annotations

import codecs
import functools
import keyword
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._core import Field, Group
from .errors import SchemaError
from .flyweight import Composite, Entry, Header, Message

__all__ = [
    "Composite",
    "Dimension",
    "Entry",
    "Field",
    "Group",
    "Header",
    "Message",
    "array",
    "attribute_names",
    "char",
    "composite",
    "data",
    "enumeration",
    "flags",
    "floating",
    "group",
    "integer",
    "member_names",
    "octets",
    "text",
]

MOST_COMBINATIONS = 4096  # of a set's choices, remembered
RESERVED = frozenset(dir(Message)) | frozenset(dir(Composite)) | frozenset(dir(Entry))


@dataclass(frozen=True, slots=True)
class Dimension:
    """The header of a group: where the length and number of its entries are, (offset, primitive) each."""

    encoded_length: int
    block_length: tuple[int, str]
    num_in_group: tuple[int, str]
    minimum: int = 0
    """The smallest number of entries."""
    maximum: int = 65534


def attribute_names(names: Iterable[str]) -> dict[str, str]:
    """Returns the Python attribute for each name of fields, groups and data. An underscore is appended to keywords, to
    names of the flyweight's own attributes, and to names that begin with two underscores."""
    return _spelled(names, RESERVED)


def member_names(names: Iterable[str]) -> dict[str, str]:
    """Like ``attribute_names``, for the members of an enum or a set."""
    return _spelled(names, frozenset({"mro", "name", "value"}) | frozenset(dir(int)))


def _spelled(names: Iterable[str], reserved: frozenset[str]) -> dict[str, str]:
    names = list(names)
    spelled: dict[str, str] = {}
    for name in names:
        own = name
        bad = keyword.iskeyword(own) or own in reserved or own.startswith("__") or (own[0] == own[-1] == "_")
        while bad:
            own += "_"
            bad = own in reserved or own in names
        spelled[name] = own
    return spelled


def integer(
    name: str,
    primitive: str,
    offset: int,
    *,
    null: int | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
    since: int = 0,
    byte_order: str = "<",
) -> Field[Any, Any]:
    """An ``int`` field.

    ``null``: the null value on the wire of an optional field, which reads and writes as None; without it the field is
    required. ``minimum``, ``maximum``: the limits for writing if the schema gives any, else those of the primitive.
    ``since``: the version that added the field; in older messages the field reads as None. ``byte_order``: "<" or ">".
    """
    return Field("integer", name, offset, primitive, 1, since, byte_order, null, minimum, maximum)


def floating(
    name: str,
    primitive: str,
    offset: int,
    *,
    null: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    since: int = 0,
    byte_order: str = "<",
) -> Field[Any, Any]:
    """A ``float`` field, of the primitive "float" or "double". The arguments are those of ``integer``."""
    return Field("float", name, offset, primitive, 1, since, byte_order, null, minimum, maximum)


def char(
    name: str,
    offset: int,
    *,
    encoding: str = "US-ASCII",
    null: int | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
    since: int = 0,
) -> Field[Any, Any]:
    """A ``str`` field of one character, in one byte."""
    return Field("char", name, offset, "char", 1, since, "<", null, minimum, maximum, None, _codec(name, encoding))


def text(
    name: str, offset: int, *, length: int, encoding: str = "US-ASCII", optional: bool = False, since: int = 0
) -> Field[Any, Any]:
    """A char array, read as a ``str`` without trailing zeros, and padded with zeros when written. If ``optional``, None
    writes zeros.

    A byte that is invalid in the encoding becomes a lone surrogate, which is written as that byte again:
    ``value.encode(encoding, "surrogateescape")`` returns the field's bytes."""
    null = 0 if optional else None
    return Field("text", name, offset, "char", length, since, "<", null, None, None, None, _codec(name, encoding))


def octets(name: str, offset: int, *, length: int, null: int | None = None, since: int = 0) -> Field[Any, Any]:
    """A uint8 array, as ``bytes`` of exactly this length. With ``null``, writing None fills the array with this
    byte."""
    return Field("octets", name, offset, "uint8", length, since, "<", null)


def array(
    name: str,
    primitive: str,
    offset: int,
    *,
    length: int,
    null: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    since: int = 0,
    byte_order: str = "<",
) -> Field[Any, Any]:
    """Any other array, as a ``tuple`` of numbers. With ``null``, writing None fills the array with this value; elements
    with this value are read as numbers, not as None."""
    return Field("array", name, offset, primitive, length, since, byte_order, null, minimum, maximum)


def enumeration(
    name: str,
    primitive: str,
    offset: int,
    cls: type[Any],
    *,
    null: int,
    optional: bool = False,
    since: int = 0,
    byte_order: str = "<",
) -> Field[Any, Any]:
    """An enum field, whose values are members of ``cls``: an ``IntEnum`` of wire values, or, for the primitive "char",
    an
    ``Enum`` of one-character strings. ``null`` reads as None, and None can be written if ``optional``. Any other value
    raises UnknownValueError."""
    kind = "enum" if optional else "required enum"
    pairs = tuple((ord(member.value) if isinstance(member.value, str) else int(member.value), member) for member in cls)
    return Field(kind, name, offset, primitive, 1, since, byte_order, null, None, None, cls, None, pairs)


def flags(
    name: str, primitive: str, offset: int, cls: type[Any], *, since: int = 0, byte_order: str = "<"
) -> Field[Any, Any]:
    """A set field, whose values are members of ``cls``, an ``IntFlag``. Bits that ``cls`` does not have are hidden when
    read, and cannot be written."""
    known = functools.reduce(operator.or_, (member.value for member in cls), 0)
    return Field(
        "set", name, offset, primitive, 1, since, byte_order, None, None, None, cls, None, (known, _maker(cls))
    )


def composite(name: str, offset: int, cls: type[Composite], *, since: int = 0) -> Field[Any, Any]:
    """A composite field, read as a flyweight of ``cls`` over its bytes. Assigning an object of the same class copies
    its bytes."""
    return Field("composite", name, offset, "char", cls.ENCODED_LENGTH, since, "<", None, None, None, cls)


def group(
    name: str, cls: type[Entry], dimension: Dimension, *, since: int = 0, byte_order: str = "<"
) -> Field[Any, Any]:
    """A ``Group`` with entries of ``cls``. Declare groups, and then data, in the schema's order."""
    shape = (dimension.encoded_length, *dimension.block_length, *dimension.num_in_group)
    return Field(
        "group", name, 0, "char", 0, since, byte_order, None, dimension.minimum, dimension.maximum, cls, None, shape
    )


def data(
    name: str,
    length: str,
    *,
    maximum: int,
    encoding: str | None = None,
    since: int = 0,
    byte_order: str = "<",
) -> Field[Any, Any]:
    """Variable-length data of at most ``maximum`` bytes, behind its length of primitive ``length``. Read as ``str``
    with an encoding, else as ``bytes``."""
    codec = None if encoding is None else _codec(name, encoding)
    return Field("data", name, 0, length, 0, since, byte_order, None, 0, maximum, None, codec)


def _maker(cls: type[Any]) -> Callable[[int], Any]:
    """Returns a function that makes members of a flag by value. Unlike ``enum``, which keeps each combination that it
    ever made, the function keeps a bounded number, because the values come from publishers."""
    known = cls._value2member_map_

    def make(bits: int) -> Any:
        member = cls(bits)
        if len(known) > MOST_COMBINATIONS:
            known.pop(bits)
        return member

    return make


def _codec(name: str, encoding: str) -> str:
    """Returns Python's own name of the encoding. The core has "ascii" and "utf-8" built in."""
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise SchemaError(f"{name}: Python does not know the character encoding {encoding!r}") from None
