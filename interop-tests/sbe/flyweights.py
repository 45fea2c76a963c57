# SPDX-License-Identifier: Apache-2.0
"""Writes values in the neutral form (values.py) to Python's flyweights, and reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from values import FLOATS, Described, Values, bits, charset_of, constant, from_bits, member_value, null

from flyring.sbe import Message

ROOM = 1 << 16


class Constant(Exception):
    """A constant differs from sbe-tool's."""


def attributes(cls: type[Any]) -> dict[str, str]:
    """Returns Python's attribute for each name in the schema."""
    return {field.name: attribute for attribute, field in cls.FIELDS.items()}


def encode(cls: type[Message], described: Described, values: Values, buffer: bytearray) -> bytes:
    """Returns the encoded header and message."""
    with cls.encode(buffer) as message:
        _write_body(message, described, values)
        return bytes(message)


def _write_body(block: Any, described: Described, values: Values) -> None:
    names = attributes(type(block))
    for field in described["fields"]:
        if not constant(field):
            _write(block, names[field["name"]], field["type"], field["presence"], values[field["name"]])
    for group in described["groups"]:
        entries = values[group["name"]]
        for entry, one in zip(getattr(block, names[group["name"]]).encode(len(entries)), entries, strict=True):
            _write_body(entry, group, one)
    for data in described["data"]:
        setattr(block, names[data["name"]], data_value(data, values[data["name"]]))


def data_value(data: Described, digits: str) -> str | bytes:
    charset = charset_of(data)
    return bytes.fromhex(digits).decode(charset) if charset else bytes.fromhex(digits)


def _write(block: Any, attribute: str, kind: Described, presence: str, value: Any) -> None:
    match kind["kind"]:
        case "composite":
            composite = getattr(block, attribute)
            names = attributes(type(composite))
            for member in kind["members"]:
                if member["presence"] != "CONSTANT":
                    _write(composite, names[member["name"]], member, member["presence"], value[member["name"]])
            return
        case "enum":
            result = None if value == null(kind) else _member(type(block).FIELDS[attribute].type, kind, value)
        case "set":
            result = _flags(type(block).FIELDS[attribute].type, kind, value)
        case _:
            result = _python(kind, presence, value)
    setattr(block, attribute, result)


def _member(cls: Any, kind: Described, raw: int) -> Any:
    return cls(chr(raw) if kind["primitive"] == "char" else raw)


def _flags(cls: Any, kind: Described, value: dict[str, bool]) -> Any:
    return cls(sum(1 << int(choice["const"]) for choice in kind["members"] if value[choice["name"]]))


def _python(kind: Described, presence: str, value: Any) -> Any:
    primitive = kind["primitive"]
    if kind["count"] == 1:
        if presence == "OPTIONAL" and value == null(kind):
            return None
        return _number(kind, value)
    if primitive == "char":
        return bytes(value).rstrip(b"\0").decode(kind["charset"] or "US-ASCII")
    if primitive == "uint8":
        return bytes(value)
    return tuple(_number(kind, one) for one in value)


def _number(kind: Described, raw: int) -> Any:
    if kind["primitive"] == "char":
        return bytes((raw,)).decode(kind["charset"] or "US-ASCII")
    return from_bits(kind["primitive"], raw) if kind["primitive"] in FLOATS else raw


def decode(message: Any, described: Described) -> Values:
    """Returns what Python reads, in the neutral form; None for fields that the acting version does not have."""
    return _read_body(message, described)


def _read_body(block: Any, described: Described) -> Values:
    names = attributes(type(block))
    values: Values = {}
    for field in described["fields"]:
        if constant(field):
            _check_constant(type(block), field)
        else:
            values[field["name"]] = _read(block, names[field["name"]], field["type"], field["presence"])
    for group in described["groups"]:
        values[group["name"]] = [_read_body(entry, group) for entry in _in_order(getattr(block, names[group["name"]]))]
    for data in described["data"]:
        value = getattr(block, names[data["name"]])
        charset = charset_of(data)
        values[data["name"]] = (value.encode(charset) if charset else value).hex()
    return values


def _in_order(group: Any) -> Iterator[Any]:
    length = len(group)
    entries = 0
    for entry in group:
        entries += 1
        yield entry
    assert entries == length, f"len() says {length}, but there are {entries} entries"


def _read(block: Any, attribute: str, kind: Described, presence: str) -> Any:
    value = getattr(block, attribute)
    if value is None:
        if block.acting_version < type(block).FIELDS[attribute].since:
            return None
        assert presence == "OPTIONAL" or kind["kind"] == "enum", f"{attribute} reads as None, but is required"
        return null(kind)
    match kind["kind"]:
        case "composite":
            names = attributes(type(value))
            members = kind["members"]
            for member in members:
                if member["presence"] == "CONSTANT":
                    _check_constant(type(value), {"name": member["name"], "type": member, "presence": "CONSTANT"})
            return {
                m["name"]: _read(value, names[m["name"]], m, m["presence"])
                for m in members
                if m["presence"] != "CONSTANT"
            }
        case "enum":
            return ord(value.value) if kind["primitive"] == "char" else int(value.value)
        case "set":
            return {choice["name"]: bool(value >> int(choice["const"]) & 1) for choice in kind["members"]}
    if kind["count"] == 1:
        return _raw(kind, value)
    if kind["primitive"] == "char":
        return list(value.encode(kind["charset"] or "US-ASCII").ljust(kind["count"], b"\0"))
    return [_raw(kind, one) for one in value]


def _raw(kind: Described, value: Any) -> int:
    if kind["primitive"] == "char":
        return value.encode(kind["charset"] or "US-ASCII")[0]  # type: ignore[no-any-return]
    return bits(kind["primitive"], value) if kind["primitive"] in FLOATS else int(value)


def _check_constant(cls: type[Any], field: Described) -> None:
    """Compares the class attribute with sbe-tool's constant. Names that Python cannot have end in an underscore."""
    kind, name = field["type"], field["name"]
    value = getattr(cls, name if name in vars(cls) else name + "_")
    if kind["kind"] == "enum":
        expected: Any = field.get("const", kind.get("const", "")).rpartition(".")[2]
        named = {member_value(m, kind["primitive"]): m["name"] for m in kind["members"]}
        actual: Any = named[ord(value.value) if kind["primitive"] == "char" else int(value.value)]
    elif isinstance(value, str):
        text = kind["const"].rstrip("\0")  # sbe-tool fills a constant with zeros up to its length
        expected, actual = (chr(int(text)) if kind["primitive"] == "char" and text.isdigit() else text), value
        if kind["count"] == 1 and len(value) == 1:
            expected = expected if len(expected) == 1 else chr(int(kind["const"]))
    else:
        expected, actual = float(kind["const"]), float(value)
    if expected != actual:
        raise Constant(f"{name} is {actual!r}, but sbe-tool says {expected!r}")
