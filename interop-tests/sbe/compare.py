# SPDX-License-Identifier: Apache-2.0
"""Converts Java's values into the form of Python's, and compares the JSON printer's text with ``to_dict``."""

from __future__ import annotations

import json
from typing import Any

from values import FLOATS, Described, Values, bits, charset_of, constant, member_value, null


class Different(Exception):
    """Two values that must be equal differ."""


def expect(what: str, actual: Any, expected: Any) -> None:
    if actual != expected:
        raise Different(f"{what}: expected {shortened(expected)}, found {shortened(actual)}")


def shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else text[:400] + "..."


def first_difference(actual: Any, expected: Any, path: str = "") -> None:
    """Raises Different with the path of the first difference."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        expect(f"{path or 'message'} has other fields", sorted(actual), sorted(expected))
        for name in expected:
            first_difference(actual[name], expected[name], f"{path}.{name}" if path else name)
    elif isinstance(actual, list) and isinstance(expected, list) and path:
        expect(f"length of {path}", len(actual), len(expected))
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            first_difference(one, other, f"{path}[{i}]")
    else:
        expect(path, actual, expected)


def from_java(values: Values, described: Described, version: int) -> Values:
    """Converts enums to their encoded values (and checks their names), and fields that the acting version lacks to
    None."""
    result: Values = {}
    for field in described["fields"]:
        name = field["name"]
        if constant(field):
            continue
        value = _from_java(values[name], field["type"], name)
        if field["since"] > version:
            if value is not None and any(one != null(field["type"]) for one in _elements(value)):
                raise Different(
                    f"{name} is of version {field['since']}, but sbe-tool's decoder reads {value} of {version}"
                )
            value = None
        result[name] = value
    for group in described["groups"]:
        result[group["name"]] = [from_java(entry, group, version) for entry in values[group["name"]]]
    for data in described["data"]:
        result[data["name"]] = values[data["name"]]
    return result


def _elements(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _from_java(value: Any, kind: Described, path: str) -> Any:
    match kind["kind"]:
        case "composite" if value is not None:
            members = (m for m in kind["members"] if m["presence"] != "CONSTANT")
            return {m["name"]: _from_java(value[m["name"]], m, f"{path}.{m['name']}") for m in members}
        case "enum":
            names = {member_value(m, kind["primitive"]): m["name"] for m in kind["members"]}
            expected = names.get(value["raw"], "NULL_VAL")
            if value.get("name") not in (expected, expected + "_"):
                raise Different(
                    f"{path} of value {value['raw']} is {value.get('name')} for Java, but should be {expected}"
                )
            return value["raw"]
    return value


def printer_reads(described: Described) -> bool:
    """Returns whether sbe-tool's on-the-fly decoder can read the message. It takes the first number of a dimension as
    the block length and the second as the number of entries, regardless of their names."""
    return all(
        [member["name"] for member in group["dimension"]["members"][:2]] == ["blockLength", "numInGroup"]
        and printer_reads(group)
        for group in described["groups"]
    )


def printed(text: str, form: Values, described: Described, version: int) -> None:
    """Checks that the printer's text is equal to ``to_dict``, except for the known differences of spec/messages.md
    4."""
    _printed_body(json.loads(text), form, described, version, "")


def _printed_body(theirs: Values, ours: Values, described: Described, version: int, path: str) -> None:
    expect(f"names in {path or 'message'}", list(ours), list(theirs))
    for field in described["fields"]:
        name = field["name"]
        if field["since"] > version and not constant(field):
            expect(f"{path}{name} of a newer version", ours[name], None)  # the printer reads bytes behind the block
        else:
            _printed(theirs[name], ours[name], field["type"], field["presence"], path + name)
    for group in described["groups"]:
        name = group["name"]
        expect(f"entries of {path}{name}", len(ours[name]), len(theirs[name]))
        for i, (one, other) in enumerate(zip(theirs[name], ours[name], strict=True)):
            _printed_body(one, other, group, version, f"{path}{name}[{i}].")
    for data in described["data"]:
        theirs_, ours_ = theirs[data["name"]], ours[data["name"]]
        charset = charset_of(data)
        expect(path + data["name"], ours_, theirs_ if charset else theirs_.lower())


def _printed(theirs: Any, ours: Any, kind: Described, presence: str, path: str) -> None:
    primitive = kind.get("primitive")
    match kind["kind"]:
        case "composite":
            expect(f"names in {path}", list(ours), list(theirs))
            for member in kind["members"]:
                name = member["name"]
                _printed(theirs[name], ours[name], member, member["presence"], f"{path}.{name}")
            return
        case "enum":
            expect(path, "null" if ours is None else ours, theirs)
            return
        case "set":
            expect(path, ours, theirs)
            return
    if isinstance(theirs, list):
        expect(f"elements of {path}", len(ours), len(theirs))
        for i, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            _number(one, other, kind, "REQUIRED", f"{path}[{i}]")
    elif primitive == "char" and kind["count"] != 1:
        if ours is None:
            expect(path, theirs, "")
        elif ours.isascii():  # the printer stops at the first byte that is not ASCII
            expect(path, ours, theirs.rstrip("\0") if presence == "CONSTANT" else theirs)
        else:
            expect(path, ours.startswith(theirs), True)
    else:
        _number(theirs, ours, kind, presence, path)


def _number(theirs: Any, ours: Any, kind: Described, presence: str, path: str) -> None:
    primitive = kind["primitive"]
    if primitive in FLOATS:
        special = {"0/0": "NaN", "1/0": "Infinity", "-1/0": "-Infinity"}
        text = special.get(theirs, theirs) if isinstance(theirs, str) else theirs
        if isinstance(text, str):
            raw = bits(primitive, float(text))
            expected: Any = None if presence == "OPTIONAL" and raw == null(kind) else text
            expect(path, ours, expected)
            return
        raw = bits(primitive, text)
        if presence == "OPTIONAL" and raw == null(kind):
            expect(path, ours, None)
        else:
            expect(path, bits(primitive, ours), raw)
            expect(f"digits of {path}", len(repr(ours)) <= len(repr(text)), True)
    elif primitive == "char":
        raw = ord(theirs)
        expect(path, ours, None if presence == "OPTIONAL" and raw == null(kind) else theirs)
    else:
        raw = theirs & 0xFFFFFFFFFFFFFFFF if primitive == "uint64" else theirs  # the printer shows it signed
        expect(path, ours, None if presence == "OPTIONAL" and raw == null(kind) else raw)
