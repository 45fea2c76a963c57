# SPDX-License-Identifier: Apache-2.0
"""Converts messages to and from JSON objects, as ``json.dumps`` takes and ``json.loads`` gives them (spec/messages.md
4).

The form is that of sbe-tool's JSON printer:
- Composites are dicts, groups are lists of dicts, and sets are dicts of bools. Constants are included.
- Enums are the names of their values; a value that the enum does not know is its number.
- Char arrays are strings without trailing zeros, and other arrays are lists of numbers.
- The null value, and a field that the acting version does not have, is None.
- NaN, which JSON does not have, is the string "NaN" unless it is the null value. Infinity is "Infinity" or "-Infinity".
- Data without a character encoding is a string of hexadecimal digits.
- A byte that is invalid in a text's character encoding is a lone surrogate, which ``json.dumps`` escapes. It is written
  as that byte again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from . import fields, model
from .errors import OutOfRangeError, SbeError, UnknownValueError, WrongTypeError
from .flyweight import Message

__all__ = ["from_dict", "to_dict"]

Json = dict[str, Any]
_REQUIRED = object()
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_forms: WeakKeyDictionary[type[Any], _Form] = WeakKeyDictionary()


def to_dict(message: Message) -> Json:
    """Returns a decoded message as a dict, in the schema's order. Raises the errors that its attributes raise."""
    return _form_of(type(message)).read(message)


def from_dict(message: type[Message], mapping: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a message of this class, with its header, from a mapping such as ``to_dict`` makes.

    Optional fields, groups and data may be missing; all other fields are required. Constants may be given with their
    own value. Raises SbeError, which names ``Message.field``, for a field that is missing, not in the schema, or cannot
    be written.
    """
    form = _form_of(message)
    buffer = bytearray(message.SCHEMA.model.header.encoded_length + form.block_length + form.room(mapping))
    with message.encode(buffer) as flyweight:
        form.write(flyweight, mapping, message.NAME)
        return bytes(flyweight)


@dataclass(frozen=True, slots=True)
class _Part:
    """A field, group or data: how to read it from its block, and how to write it."""

    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any, Any, str], None]
    """Called with the block, the value, and the path for errors."""
    default: Any = _REQUIRED
    """The value to write if the mapping has none."""
    room: Callable[[Any], int] | None = None
    """Returns the largest number of bytes that a value needs behind the block."""


@dataclass(frozen=True, slots=True)
class _Form:
    """All parts of a message, group entry or composite."""

    parts: tuple[_Part, ...]
    block_length: int

    def read(self, block: Any) -> Json:
        return {part.name: part.read(block) for part in self.parts}

    def write(self, block: Any, mapping: Any, path: str) -> None:
        if not isinstance(mapping, Mapping):
            raise WrongTypeError(f"an object is expected, not {mapping!r}", path)
        known = 0
        for part in self.parts:
            value = mapping.get(part.name, part.default)
            known += part.name in mapping
            if value is _REQUIRED:
                raise SbeError("it is missing", f"{path}.{part.name}")
            part.write(block, value, f"{path}.{part.name}")
        if known != len(mapping):
            unknown = ", ".join(str(name) for name in mapping if all(name != part.name for part in self.parts))
            raise SbeError(f"the schema knows no such field: {unknown}", path)

    def room(self, mapping: Any) -> int:
        if not isinstance(mapping, Mapping):
            return 0  # writing raises the error
        return sum(part.room(mapping.get(part.name)) for part in self.parts if part.room is not None)


def _form_of(cls: type[Any]) -> _Form:
    form = _forms.get(cls)
    if form is None:
        described = next(one for one in cls.SCHEMA.model.messages if one.id == cls.TEMPLATE_ID)
        form = _forms[cls] = _block(cls, described, cls.SCHEMA.model.byte_order)
    return form


def _block(cls: type[Any], described: model.Message | model.Group | model.Composite, byte_order: str) -> _Form:
    attributes = {field.name: attribute for attribute, field in cls.FIELDS.items()}
    parts = [_field(cls, attributes.get(one.name, ""), one, byte_order) for one in described.fields]
    if isinstance(described, model.Composite):
        return _Form(tuple(parts), 0)
    parts += [_group(cls, attributes[one.name], one, byte_order) for one in described.groups]
    parts += [_data(attributes[one.name], one) for one in described.data]
    return _Form(tuple(parts), described.block_length)


def _field(cls: type[Any], attribute: str, field: model.Field, byte_order: str) -> _Part:
    kind = field.type
    if field.presence is model.Presence.CONSTANT:
        return _constant(field)
    if isinstance(kind, model.Composite):
        return _composite(field.name, attribute, _block(cls.FIELDS[attribute].type, kind, byte_order))
    default = None if field.is_optional else _REQUIRED
    if isinstance(kind, model.Enum):
        return _enum(cls, attribute, field, kind, byte_order, default)
    to_json, from_json = _set(cls.FIELDS[attribute].type, kind) if isinstance(kind, model.Set) else _encoded(kind)

    def read(block: Any) -> Any:
        value = getattr(block, attribute)
        return None if value is None else to_json(value)

    def write(block: Any, value: Any, path: str) -> None:
        setattr(block, attribute, None if value is None else from_json(value, path))

    return _Part(field.name, read, write, default)


def _encoded(kind: model.Encoded) -> tuple[Callable[[Any], Any], Callable[[Any, str], Any]]:
    if kind.is_array and kind.primitive is model.Primitive.UINT8:
        return list, _octets
    to_json: Callable[[Any], Any] = _as_it_is
    from_json: Callable[[Any, str], Any] = _as_it_was
    if kind.primitive.is_float:
        to_json, from_json = _float(kind.primitive is model.Primitive.FLOAT)
    if kind.is_array and kind.primitive is not model.Primitive.CHAR:
        return _each(to_json), _each_from(from_json)
    return to_json, from_json


def _as_it_is(value: Any) -> Any:
    return value


def _as_it_was(value: Any, path: str) -> Any:
    if isinstance(value, bool):  # a bool is an int in Python
        raise WrongTypeError(f"a number or text is expected, not {value!r}", path)
    return value


def _octets(value: Any, path: str) -> bytes:
    try:
        return bytes(_as_it_was(one, path) for one in _sequence(value, path))
    except (TypeError, ValueError):
        raise WrongTypeError(f"an array of integers from 0 to 255 is expected, not {value!r}", path) from None


def _each(to_json: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [to_json(value) for value in values]


def _each_from(from_json: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda values, path: tuple(
        from_json(value, f"{path}[{i}]") for i, value in enumerate(_sequence(values, path))
    )


def _sequence(value: Any, path: str) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return value
    raise WrongTypeError(f"an array is expected, not {value!r}", path)


def _float(single: bool) -> tuple[Callable[[Any], Any], Callable[[Any, str], Any]]:
    def to_json(value: float) -> float | str:
        if math.isfinite(value):
            return _shortest(value) if single else value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def from_json(value: Any, path: str) -> Any:
        return _SPECIAL.get(value, value) if isinstance(value, str) else _as_it_was(value, path)

    return to_json, from_json


def _shortest(value: float) -> float:
    """Returns the number with the fewest digits that has the same 32-bit form: 49.9, not 49.900001525878906."""
    packed = struct.pack("<f", value)
    for digits in (6, 7, 8):
        rounded = float(f"{value:.{digits}g}")
        try:
            if struct.pack("<f", rounded) == packed:
                return rounded
        except OverflowError:
            pass
    return float(f"{value:.9g}")


def _constant(field: model.Field) -> _Part:
    constant: Any = field.constant
    if isinstance(field.type, model.Enum):
        constant = next(one.name for one in field.type.values if one.value == constant)

    def write(block: Any, value: Any, path: str) -> None:
        if value != constant or isinstance(value, bool):
            raise OutOfRangeError(f"it is constant, {constant!r}, and cannot be {value!r}", path)

    return _Part(field.name, lambda block: constant, write, constant)


def _composite(name: str, attribute: str, form: _Form) -> _Part:
    def read(block: Any) -> Json | None:
        value = getattr(block, attribute)
        return None if value is None else form.read(value)

    def write(block: Any, value: Any, path: str) -> None:
        form.write(getattr(block, attribute), value, path)

    return _Part(name, read, write, _REQUIRED)


def _enum(cls: type[Any], attribute: str, field: model.Field, kind: model.Enum, byte_order: str, default: Any) -> _Part:
    is_char = kind.primitive is model.Primitive.CHAR
    members = {one.name: cls.FIELDS[attribute].type(chr(one.value) if is_char else one.value) for one in kind.values}
    names = {member: name for name, member in members.items()}
    raw = fields.integer(
        field.name,
        "uint8" if is_char else kind.primitive.text,
        field.offset,
        since=cls.FIELDS[attribute].since,  # of a member of a composite 0, as its flyweight has it
        byte_order=byte_order,
    )

    def read(block: Any) -> str | int | None:
        try:
            value = getattr(block, attribute)
        except UnknownValueError:
            number: int = raw.__get__(block, cls)
            return number
        return None if value is None else names[value]

    def write(block: Any, value: Any, path: str) -> None:
        if value is not None and (not isinstance(value, str) or value not in members):
            raise UnknownValueError(f"{value!r} is none of {', '.join(members)}", path)
        setattr(block, attribute, None if value is None else members[value])

    return _Part(field.name, read, write, default)


def _set(cls: type[Any], kind: model.Set) -> tuple[Callable[[Any], Any], Callable[[Any, str], Any]]:
    bits = {one.name: 1 << one.value for one in kind.choices}

    def to_json(value: int) -> dict[str, bool]:
        return {name: bool(value & bit) for name, bit in bits.items()}

    def from_json(value: Any, path: str) -> Any:
        if not isinstance(value, Mapping) or not all(isinstance(one, bool) for one in value.values()):
            raise WrongTypeError(f"an object of booleans is expected, not {value!r}", path)
        unknown = ", ".join(str(name) for name in value if name not in bits)
        if unknown:
            raise UnknownValueError(f"{unknown} is none of its choices, {', '.join(bits)}", path)
        return cls(sum(bits[name] for name, chosen in value.items() if chosen))

    return to_json, from_json


def _group(cls: type[Any], attribute: str, group: model.Group, byte_order: str) -> _Part:
    form = _block(cls.FIELDS[attribute].type, group, byte_order)

    def read(block: Any) -> list[Json]:
        return [form.read(entry) for entry in getattr(block, attribute)]

    def write(block: Any, value: Any, path: str) -> None:
        entries = _sequence(value, path)
        written = getattr(block, attribute).encode(len(entries))
        for i, (entry, one) in enumerate(zip(written, entries, strict=True)):
            form.write(entry, one, f"{path}[{i}]")

    def room(value: Any) -> int:
        entries = value if isinstance(value, Sequence) else ()
        return group.dimension.encoded_length + sum(form.block_length + form.room(entry) for entry in entries)

    return _Part(group.name, read, write, (), room)


def _data(attribute: str, data: model.Data) -> _Part:
    encoding = data.character_encoding

    def read(block: Any) -> str:
        value = getattr(block, attribute)
        text: str = value if encoding else value.hex()
        return text

    def write(block: Any, value: Any, path: str) -> None:
        if not encoding:
            try:
                value = bytes.fromhex(value)
            except (TypeError, ValueError):
                raise WrongTypeError(f"a string of hexadecimal digits is expected, not {value!r}", path) from None
        setattr(block, attribute, value)

    def room(value: Any) -> int:
        if not isinstance(value, str):
            return data.header_length
        return data.header_length + len(value.encode(encoding, "replace") if encoding else value)

    return _Part(data.name, read, write, "", room)
