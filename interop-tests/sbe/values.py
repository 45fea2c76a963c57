# SPDX-License-Identifier: Apache-2.0
"""Random values for a message, made from sbe-tool's model of the schema, so that they do not depend on Python's model.

Values have the neutral form that the Java side takes and gives: integers, floating point as raw bits, arrays (of char
too) as lists of these, enums as encoded values, sets as dicts of booleans, composites as dicts, groups as lists of
dicts, data as hex digits.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Any

Described = dict[str, Any]
Values = dict[str, Any]

LARGEST_FLOAT = 3.4e38  # about the largest finite float: a field with this maximum also allows NaN and infinity
FLOATS = {"float": ("<f", "<I"), "double": ("<d", "<Q")}
TEXTS = {  # texts that a character encoding can hold
    "US-ASCII": "abcXYZ09 ~!",
    "ASCII": "abcXYZ09 ~!",
    "ISO-8859-1": "abc\u00e9\u00fc\u00ff",
    "UTF-8": 'abc\u00e9\u20ac\U0001f600"\\\n',
}


def bits(primitive: str, value: float) -> int:
    as_float, as_bits = FLOATS[primitive]
    result: int = struct.unpack(as_bits, struct.pack(as_float, value))[0]
    return result


def from_bits(primitive: str, raw: int) -> float:
    as_float, as_bits = FLOATS[primitive]
    result: float = struct.unpack(as_float, struct.pack(as_bits, raw))[0]
    return result


def null(kind: Described) -> int:
    """Returns the raw null value."""
    text = kind["null"]
    primitive = kind["primitive"]
    if primitive in FLOATS:
        return bits(primitive, float(text))
    value = int(text)
    return value & 0xFF if primitive == "char" else value


def member_value(value: Described, primitive: str) -> int:
    """Returns the raw value of an enum's value or a set's choice."""
    raw = int(value["const"])
    return raw & 0xFF if primitive == "char" else raw


def length_of(data: Described) -> Described:
    return next(member for member in data["type"]["members"] if member["name"] == "length")


def limits_of(group: Described) -> tuple[int, int]:
    """Returns the limits for the number of entries."""
    count = next(member for member in group["dimension"]["members"] if member["name"] == "numInGroup")
    return int(count["min"]), int(count["max"])


def charset_of(data: Described) -> str | None:
    content = next(member for member in data["type"]["members"] if member["name"] == "varData")
    charset: str | None = content["charset"]
    return charset


def characters(random_: random.Random, charset: str | None, most: int) -> bytes:
    alphabet = TEXTS.get((charset or "US-ASCII").upper(), TEXTS["US-ASCII"])
    text = "".join(random_.choice(alphabet) for _ in range(random_.choice((0, most, random_.randint(0, most)))))
    encoded = text.encode(charset or "US-ASCII")
    while len(encoded) > most:
        text = text[:-1]
        encoded = text.encode(charset or "US-ASCII")
    return encoded


class Maker:
    def __init__(self, seed: int | str, most_entries: int = 3) -> None:
        self.random = random.Random(seed)
        self.most_entries = most_entries

    def message(self, message: Described) -> Values:
        return self._body(message, self.most_entries)

    def _body(self, body: Described, entries: int) -> Values:
        values = {f["name"]: self._field(f["type"], f["presence"]) for f in body["fields"] if not constant(f)}
        for group in body["groups"]:
            least, most = limits_of(group)
            count = min(max(least, self.random.randint(0, entries)), most)
            values[group["name"]] = [self._body(group, max(1, entries - 1)) for _ in range(count)]
        for data in body["data"]:
            values[data["name"]] = self._data(data).hex()
        return values

    def _data(self, data: Described) -> bytes:
        most = min(int(length_of(data)["max"]), 300 if self.random.random() < 0.1 else 12)
        if charset_of(data):
            return characters(self.random, charset_of(data), most)
        return self.random.randbytes(self.random.randint(0, most))

    def _field(self, kind: Described, presence: str) -> Any:
        match kind["kind"]:
            case "composite":
                members = (m for m in kind["members"] if m["presence"] != "CONSTANT")
                return {m["name"]: self._field(m, m["presence"]) for m in members}
            case "enum":
                if not kind["members"] or (presence == "OPTIONAL" and self.random.random() < 0.3):
                    return null(kind)
                return member_value(self.random.choice(kind["members"]), kind["primitive"])
            case "set":
                return {choice["name"]: self.random.random() < 0.5 for choice in kind["members"]}
        if kind["count"] == 1:
            if presence == "OPTIONAL" and self.random.random() < 0.3:
                return null(kind)
            return self._number(kind)
        if kind["primitive"] == "char":
            return list(characters(self.random, kind["charset"], kind["count"]).ljust(kind["count"], b"\0"))
        return [self._number(kind) for _ in range(kind["count"])]

    def _number(self, kind: Described) -> int:
        primitive = kind["primitive"]
        low, high = kind["min"], kind["max"]
        if primitive in FLOATS:
            least, most = float(low), float(high)
            value = self.random.choice((0.0, 1.0, 1.5, 1e-30, 123456.75, 1e30, self.random.random() * 100, most))
            if most >= LARGEST_FLOAT and self.random.random() < 0.3:  # values that JSON has no numbers for
                return bits(primitive, self.random.choice((math.nan, math.inf, -math.inf)))
            raw = bits(primitive, value)
            return raw if least <= from_bits(primitive, raw) <= most else bits(primitive, most)
        least, most = int(low), int(high)
        inner = self.random.randint(least, most)
        return self.random.choice((least, most, inner, max(least, min(most, self.random.randint(-9, 99)))))


def constant(field: Described) -> bool:
    return "CONSTANT" in (field["presence"], field["type"]["presence"])
