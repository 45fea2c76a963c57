# SPDX-License-Identifier: Apache-2.0
"""The ``<enum>`` and ``<set>`` elements of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .attributes import common, integer, limit, number, presence_of, primitive_of, required, signed, warn
from .document import Element
from .model import PRIMITIVES, Encoded, Enum, Presence, Primitive, Set, ValidValue

if TYPE_CHECKING:
    from .parse_types import Types

_ENUM_ENCODINGS = ("char", "int8", "int16", "int32", "uint8", "uint16")
_SET_ENCODINGS = ("uint8", "uint16", "uint32", "uint64")


def _encoding(types: Types, element: Element, direct: tuple[str, ...]) -> tuple[Primitive, Element | None]:
    """Returns the primitive of an enum or set, and the ``<type>`` that its encodingType names, if it names one."""
    text = required(element, "encodingType")
    if text in direct:
        return PRIMITIVES[text], None
    named = types.first(text, ("type",))
    if named is None:
        raise element.error(f'encodingType="{text}" must be one of {", ".join(direct)}, or a <type> of one value')
    if integer(named, "length", 1) != 1:
        raise element.error(f'encodingType="{text}" must be of one value, but has length="{named.get("length")}"')
    return primitive_of(named), named


def enumeration(types: Types, element: Element) -> Enum:
    name, since, deprecated = common(element, types.version)
    primitive, named = _encoding(types, element, _ENUM_ENCODINGS)
    presence = presence_of(element, Presence.REQUIRED)
    low: int | float = primitive.min_value
    high: int | float = primitive.max_value
    null = limit(element, "nullValue", primitive)
    nullable = False
    if named is not None:
        of_type = types.resolve(named)
        assert isinstance(of_type, Encoded)
        low, high = of_type.min_value, of_type.max_value
        null = of_type.null_value if null is None else null
        nullable = of_type.presence is Presence.OPTIONAL
    null = primitive.null_value if null is None else null
    values = _values(types, element, "validValue", primitive)
    if primitive.is_float and values:
        raise element.error(f"its encodingType is a {primitive.text}: an enum needs an integer type or char")
    for value in values if primitive is not Primitive.CHAR else ():
        if value.value == null:
            raise element.error(f'its value "{value.name}" is the null value {null}: give it another, or nullValue')
        if not signed(low, primitive) <= signed(value.value, primitive) <= signed(high, primitive):
            raise element.error(
                f'its value "{value.name}" is {value.value}, which is not from {low} to {high}: '
                + ("give its encodingType a maxValue" if primitive is Primitive.UINT64 else "change it, or the type")
            )
    description = element.get("description") or ""
    semantic = element.get("semanticType")
    return Enum(name, primitive, values, null, presence, description, semantic, since, deprecated, nullable)


def flags(types: Types, element: Element) -> Set:
    name, since, deprecated = common(element, types.version)
    primitive, _ = _encoding(types, element, _SET_ENCODINGS)
    if not primitive.is_unsigned:
        raise element.error(f"its encodingType is {primitive.text}, but a set needs an unsigned integer type")
    presence = presence_of(element, Presence.REQUIRED)
    choices = _values(types, element, "choice", primitive)
    for choice in choices:
        if choice.value >= 8 * primitive.size:
            raise element.error(
                f'its choice "{choice.name}" is bit {choice.value}, but {primitive.text} has only the bits 0 to '
                f"{8 * primitive.size - 1}: use a larger encodingType"
            )
    description = element.get("description") or ""
    return Set(name, primitive, choices, presence, description, element.get("semanticType"), since, deprecated)


def _values(types: Types, element: Element, tag: str, primitive: Primitive) -> tuple[ValidValue, ...]:
    values: dict[str, ValidValue] = {}
    by_value: dict[int, str] = {}
    for child in element.children:
        if child.local_name != tag:
            warn(child, f"is skipped: only <{tag}> can stand here")
            continue
        if not child.text:
            raise child.error("has no value: write it between the tags, before any comment")
        name, since, deprecated = common(child, types.version)
        value = number(child, "its value", child.text, primitive)
        if value in by_value:
            warn(child, f'has the value of "{by_value[int(value)]}": both names mean the same')
        if name in values:
            warn(child, "has the name of one before it, which is lost: rename one")
        by_value[int(value)] = name
        values[name] = ValidValue(name, int(value), child.get("description") or "", since, deprecated)
    return tuple(values.values())
