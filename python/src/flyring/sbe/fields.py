# SPDX-License-Identifier: Apache-2.0
"""What message classes are made of: base classes and the constructors of their attributes.

``runtime.py`` calls them for a schema read at run time, a module made by ``flyring sbe generate`` for one known before:
both get the same classes. All offsets and lengths are in bytes; an offset counts from the start of the block (message,
group entry) or composite that holds the field. Values, limits and null values are those on the wire.

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
    """What stands before the entries of a group: where it has their length and number, (offset, primitive) each."""

    encoded_length: int
    block_length: tuple[int, str]
    num_in_group: tuple[int, str]
    minimum: int = 0
    """Of entries."""
    maximum: int = 65534


def attribute_names(names: Iterable[str]) -> dict[str, str]:
    """The Python attribute for each name of a block's or composite's fields, groups and data: a keyword, a name of the
    flyweight's own, and what begins with two underscores gets an underscore at its end."""
    return _spelled(names, RESERVED)


def member_names(names: Iterable[str]) -> dict[str, str]:
    """The same for the members of an enum or a set."""
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
    """An ``int``. ``null``: the wire's null value of an optional field, which reads and writes as None; without it the
    field is required. ``minimum``, ``maximum``: what may be written, if the schema says so (not the primitive's
    defaults). ``since``: the version that added the field; it reads as None from older messages. ``byte_order``: "<"
    or ">"."""
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
    """A ``float``, of the primitive "float" or "double"; the rest as ``integer``."""
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
    """A ``str`` of one character, in one byte."""
    return Field("char", name, offset, "char", 1, since, "<", null, minimum, maximum, None, _codec(name, encoding))


def text(
    name: str, offset: int, *, length: int, encoding: str = "US-ASCII", optional: bool = False, since: int = 0
) -> Field[Any, Any]:
    """A char array: a ``str``, without trailing zeros, zero-padded when written. If ``optional``, None writes zeros.

    A byte that the encoding does not have becomes a lone surrogate, and is written as it was:
    ``value.encode(encoding, "surrogateescape")`` gives the field's bytes."""
    null = 0 if optional else None
    return Field("text", name, offset, "char", length, since, "<", null, None, None, None, _codec(name, encoding))


def octets(name: str, offset: int, *, length: int, null: int | None = None, since: int = 0) -> Field[Any, Any]:
    """A uint8 array: ``bytes`` of exactly this length. With ``null``, writing None fills it with this byte."""
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
    """Any other array: a ``tuple`` of numbers. With ``null``, writing None fills it with this value; elements are read
    as they are."""
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
    """A member of ``cls``: an ``IntEnum`` of wire values, or for the primitive "char" an ``Enum`` of one-character
    strings. ``null`` reads as None, and None can be written if ``optional``. What is neither is UnknownValueError."""
    kind = "enum" if optional else "required enum"
    pairs = tuple((ord(member.value) if isinstance(member.value, str) else int(member.value), member) for member in cls)
    return Field(kind, name, offset, primitive, 1, since, byte_order, null, None, None, cls, None, pairs)


def flags(
    name: str, primitive: str, offset: int, cls: type[Any], *, since: int = 0, byte_order: str = "<"
) -> Field[Any, Any]:
    """A set: a member of ``cls``, an ``IntFlag``. Bits that ``cls`` does not know are not shown, and cannot be set."""
    known = functools.reduce(operator.or_, (member.value for member in cls), 0)
    return Field(
        "set", name, offset, primitive, 1, since, byte_order, None, None, None, cls, None, (known, _maker(cls))
    )


def composite(name: str, offset: int, cls: type[Composite], *, since: int = 0) -> Field[Any, Any]:
    """A flyweight of ``cls`` over its place. Assigning one of the same class copies its bytes."""
    return Field("composite", name, offset, "char", cls.ENCODED_LENGTH, since, "<", None, None, None, cls)


def group(
    name: str, cls: type[Entry], dimension: Dimension, *, since: int = 0, byte_order: str = "<"
) -> Field[Any, Any]:
    """A ``Group`` of ``cls``. Groups, then data, must be declared in the schema's order."""
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
    """Variable-length data after the primitive ``length``, of at most ``maximum`` bytes: ``str`` with an encoding, else
    ``bytes``."""
    codec = None if encoding is None else _codec(name, encoding)
    return Field("data", name, 0, length, 0, since, byte_order, None, 0, maximum, None, codec)


def _maker(cls: type[Any]) -> Callable[[int], Any]:
    """Members of a flag by value. ``enum`` keeps each combination that it ever made; publishers choose how many."""
    known = cls._value2member_map_

    def make(bits: int) -> Any:
        member = cls(bits)
        if len(known) > MOST_COMBINATIONS:
            known.pop(bits)
        return member

    return make


def _codec(name: str, encoding: str) -> str:
    """Python's own name of it; "ascii" and "utf-8" are what the core knows by heart."""
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise SchemaError(f"{name}: Python does not know the character encoding {encoding!r}") from None
