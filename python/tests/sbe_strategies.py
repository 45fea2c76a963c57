# SPDX-License-Identifier: Apache-2.0
"""Random SBE schemas and random messages of them, for hypothesis.

``schemas()`` gives the XML of a valid schema, with every feature that sbe-tool knows; ``models()`` the same, parsed;
``bodies(message)`` a message's content in the form of spec/messages.md 4, as ``from_dict`` takes it.
All names are unique, and valid in Java and C++, so that sbe-tool can generate codecs from each schema.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from flyring.sbe.errors import SchemaWarning
from flyring.sbe.model import (
    PRIMITIVES,
    Composite,
    Data,
    Encoded,
    Enum,
    Field,
    Group,
    Message,
    Presence,
    Primitive,
    SchemaModel,
    Set,
)
from flyring.sbe.parse import parse

Body = dict[str, Any]

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
SCALARS = (*INTEGERS, "float", "double", "char")
NAMESPACES = ("http://fixprotocol.io/2016/sbe", "http://www.fixprotocol.org/ns/simple/1.0")
DESCRIPTIONS = ("What it is", 'Of "it" & <others>', "Größe in µm", "Two\nlines", "", '"""quoted"""', "ends with \\")
ENCODINGS = ("US-ASCII", "UTF-8", "ISO-8859-1")
# Names that are keywords in Python, or that flyweights or enums use themselves, but that are free in C++ and Java.
AWKWARD = (
    "from",
    "lambda",
    "None",
    "with",
    "dtype",
    "encode",
    "decode",
    "mro",
    "self",
    "_model",
    "def",
    "schema",
    "real",
)


class _Writer:
    """Draws a schema, and writes its XML."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.version = draw(st.integers(0, 3))
        self.named: dict[str, list[str]] = {"type": [], "enum": [], "set": [], "composite": []}
        self.values: dict[str, tuple[Primitive, list[str]]] = {}  # of the named enums
        self.constants: set[str] = set()
        self.count = 0
        self.awkward = list(AWKWARD)

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def seldom(self) -> bool:
        return self.draw(st.integers(0, 4)) == 4

    def name(self, kind: str) -> str:
        self.count += 1
        if self.awkward and self.draw(st.integers(0, 19)) == 19:
            return str(self.awkward.pop(self.draw(st.integers(0, len(self.awkward) - 1))))
        return f"{kind}{self.count}"

    def element(self, tag: str, attributes: dict[str, object], *content: str) -> str:
        written = "".join(f" {key}={quoteattr(str(value))}" for key, value in attributes.items() if value is not None)
        return f"<{tag}{written}>{''.join(content)}</{tag}>" if content else f"<{tag}{written}/>"

    def common(self, name: str) -> dict[str, object]:
        return {"name": name, "description": self.pick(DESCRIPTIONS) if self.seldom() else None}

    # types

    def limits(self, primitive: Primitive, optional: bool) -> dict[str, object]:
        """Draws nullValue, minValue and maxValue, or none. The null value is never one that a message needs."""
        if primitive is Primitive.CHAR:
            return {}
        found: dict[str, object] = {}
        if self.seldom():
            low, high = sorted(self.draw(st.lists(st.integers(0, 100), min_size=2, max_size=2, unique=True)))
            found = {"minValue": low, "maxValue": high}
        if optional and self.seldom():
            found["nullValue"] = self.pick((101, 0, 120))
        return found

    def encoded(self, name: str, *, constants: bool = True, arrays: bool = True) -> str:
        """Draws a <type> of any form."""
        attributes = self.common(name)
        primitive = PRIMITIVES[self.pick(SCALARS)]
        attributes["primitiveType"] = primitive.text
        form = self.draw(st.integers(0, 7))
        if form == 7 and constants:
            self.constants.add(name)
            attributes["presence"] = "constant"
            same = [f"{enum}.{names[0]}" for enum, (encoding, names) in self.values.items() if encoding is primitive]
            if same and self.pick((False, True)):
                attributes["valueRef"] = self.pick(same)
                return self.element("type", attributes)
            if primitive is Primitive.CHAR:
                text = self.pick(("X", "EUR", "<&>"))
                attributes["length"] = self.pick((None, len(text), len(text) + 2))
                return self.element("type", attributes, escape(text))
            return self.element("type", attributes, str(self.draw(st.integers(0, 100))))
        if form in (5, 6) and arrays:
            attributes["length"] = self.draw(st.integers(2, 9))
            if primitive is Primitive.CHAR:
                attributes["characterEncoding"] = self.pick((*ENCODINGS, None))
        elif form in (3, 4):
            attributes["presence"] = "optional"
        attributes |= self.limits(primitive, form in (3, 4))
        return self.element("type", attributes)

    def since(self, lowest: int = 0) -> dict[str, object]:
        if self.version == 0 or not self.draw(st.booleans()):
            return {"sinceVersion": lowest or None}
        return {"sinceVersion": self.draw(st.integers(lowest, self.version))}

    def enum(self, name: str, top: bool) -> tuple[list[str], str]:
        """Draws an <enum>, and the named type that it needs, if any."""
        encoding = self.pick(("uint8", "char", "int8", "uint16", "int16", "int32", "uint32", "int64"))
        primitive = PRIMITIVES[encoding]
        needed: list[str] = []
        if encoding in ("uint32", "int64") or (top and self.seldom()):
            own = self.name("Code")
            needed.append(self.element("type", {"name": own, "primitiveType": encoding}))
            encoding = own
        attributes = self.common(name) | {"encodingType": encoding}
        if self.draw(st.booleans()):
            attributes["presence"] = "optional"
        if primitive is not Primitive.CHAR and self.seldom():
            attributes["nullValue"] = 99
        numbers = st.integers(65, 90) if primitive is Primitive.CHAR else st.integers(0, 98)
        values = self.draw(st.lists(numbers, min_size=1, max_size=4, unique=True))
        names = [self.name("V") for _ in values]
        if top:
            self.values[name] = (primitive, names)
        content = [
            self.element(
                "validValue",
                self.common(one) | self.since(),
                chr(value) if primitive is Primitive.CHAR else str(value),
            )
            for one, value in zip(names, values, strict=True)
        ]
        return needed, self.element("enum", attributes, *content)

    def set(self, name: str) -> str:
        encoding = self.pick(("uint8", "uint16", "uint32", "uint64"))
        bits = st.integers(0, 8 * PRIMITIVES[encoding].size - 1)
        content = [
            self.element("choice", self.common(self.name("c")) | self.since(), str(bit))
            for bit in self.draw(st.lists(bits, min_size=1, max_size=5, unique=True))
        ]
        return self.element("set", self.common(name) | {"encodingType": encoding}, *content)

    def composite(self, name: str, depth: int = 0) -> tuple[list[str], str]:
        needed: list[str] = []
        content: list[str] = []
        for _ in range(self.draw(st.integers(1, 4))):
            member = self.name("m")
            known = [one for names in self.named.values() for one in names]
            match self.draw(st.integers(0, 7 if depth < 2 else 6)):
                case 0 | 1 | 2:
                    content.append(self.encoded(member))
                case 3 | 4 if known:
                    content.append(self.element("ref", {"name": member, "type": self.pick(known)} | self.since()))
                case 5:
                    more, written = self.enum(member, top=False)
                    needed += more
                    content.append(written)
                case 6:
                    content.append(self.set(member))
                case 7:
                    more, written = self.composite(member, depth + 1)
                    needed += more
                    content.append(written)
                case _:
                    content.append(self.element("type", {"name": member, "primitiveType": self.pick(SCALARS)}))
        return needed, self.element("composite", self.common(name), *content)

    def types(self) -> list[str]:
        written: list[str] = []
        for _ in range(self.draw(st.integers(0, 6))):
            kind = self.pick(("type", "enum", "set", "composite"))
            name = self.name(kind.title())
            if kind == "type":
                written.append(self.encoded(name))
            elif kind == "set":
                written.append(self.set(name))
            else:
                needed, one = self.enum(name, top=True) if kind == "enum" else self.composite(name)
                written += [*needed, one]
            self.named[kind].append(name)
        return written

    # messages

    def field(self, name: str, field_id: int, since: int, small: bool) -> str:
        attributes = self.common(name) | {"id": field_id} | ({"sinceVersion": since} if since else {})
        if self.draw(st.integers(0, 9)) == 9:
            attributes |= {
                "deprecated": self.version,
                "timeUnit": "nanosecond",
                "epoch": "unix",
                "semanticType": "Time",
            }
        named = [] if small else [one for names in self.named.values() for one in names]
        if not named or self.draw(st.booleans()):
            attributes |= {"type": self.pick(SCALARS), "presence": self.pick((None, "required", "optional"))}
            return self.element("field", attributes)
        of_type = self.pick(named)
        attributes["type"] = of_type
        attributes.pop("semanticType", None)
        if of_type in self.named["enum"]:
            presence = self.pick((None, "required", "optional", "constant"))
            attributes["presence"] = presence
            if presence == "constant":
                attributes["valueRef"] = f"{of_type}.{self.pick(self.values[of_type][1])}"
        elif of_type in self.named["type"] and of_type not in self.constants:
            attributes["presence"] = self.pick((None, "optional"))
        return self.element("field", attributes)

    def members(self, depth: int, small: bool) -> list[str]:
        written: list[str] = []
        member_id = 0
        kinds: tuple[tuple[str, int], ...] = (("field", 5), ("group", 2 if depth < 2 else 0), ("data", 2))
        for kind, most in kinds:
            since = 0
            for _ in range(self.draw(st.integers(0, most))):
                member_id += 1
                since = self.draw(st.integers(since, self.version))
                name = self.name(kind[0])
                if kind == "field":
                    written.append(self.field(name, member_id, since, small))
                elif kind == "group":
                    written.append(self.group(name, member_id, since, depth))
                else:
                    encoding = self.pick(("var8", "var16", "var32", "varString", "varChar"))
                    attributes = self.common(name) | {"id": member_id, "type": encoding, "sinceVersion": since or None}
                    written.append(self.element("data", attributes))
        return written

    def group(self, name: str, group_id: int, since: int, depth: int) -> str:
        dimension = self.pick((None, "groupSizeEncoding", "small", "large", "odd"))
        attributes = self.common(name) | {"id": group_id, "dimensionType": dimension, "sinceVersion": since or None}
        return self.element("group", attributes, *self.members(depth + 1, dimension == "small"))


def _composite(name: str, *members: str) -> str:
    written = []
    for member in members:
        key, primitive, *rest = member.split()
        written.append(f'<type name="{key}" primitiveType="{primitive}" {" ".join(rest)}/>')
    return f'<composite name="{name}">{"".join(written)}</composite>'


HEADERS = (
    ("blockLength uint16", "templateId uint16", "schemaId uint16", "version uint16"),
    ("templateId uint16", "version uint16", "blockLength uint16", "schemaId uint16", "sequence uint32"),
    ("blockLength uint32", "templateId uint16", "schemaId uint32", "version uint8"),
    ("blockLength uint16", 'templateId uint16 offset="4"', "schemaId uint16", 'version uint16 offset="10"'),
)
SIZES = (
    _composite("groupSizeEncoding", "blockLength uint16", "numInGroup uint16"),
    _composite("small", "blockLength uint8", "numInGroup uint8"),
    _composite("large", "blockLength uint16", 'numInGroup uint32 maxValue="2147483647"'),
    _composite("odd", "numInGroup uint8", 'blockLength uint16 offset="3"', "numGroups uint16"),
    _composite("var8", "length uint8", 'varData uint8 length="0"'),
    _composite("var16", "length uint16", 'varData uint8 length="0"'),
    _composite("var32", 'length uint32 maxValue="1073741824"', 'varData uint8 length="0"'),
    _composite("varString", "length uint16", 'varData uint8 length="0" characterEncoding="UTF-8"'),
    _composite("varChar", "length uint8", 'varData char length="0"'),
)


@st.composite
def schemas(draw: DrawFn) -> str:
    """Draws the XML of a schema that is valid for Flyring and for sbe-tool."""
    writer = _Writer(draw)
    header = draw(st.sampled_from(HEADERS))
    header_type = writer.pick(("messageHeader", "Head"))
    types = [_composite(header_type, *header), *SIZES, *writer.types()]
    if writer.draw(st.booleans()):  # a type may come after its use, in another <types>
        types = draw(st.permutations(types))
    cut = draw(st.integers(0, len(types)))
    blocks = ["".join(types[:cut]), "".join(types[cut:])]
    prefix = writer.pick(("sbe:", "", "ns2:"))
    messages = []
    for template_id in draw(st.lists(st.integers(1, 200), min_size=1, max_size=3, unique=True)):
        attributes: dict[str, object] = writer.common(writer.name("Message")) | {"id": template_id} | writer.since()
        attributes["blockLength"] = writer.pick((None, None, 600))
        messages.append(writer.element(f"{prefix}message", attributes, *writer.members(0, False)))
    attributes = {
        f"xmlns:{prefix[:-1]}" if prefix else "xmlns:unused": writer.pick(NAMESPACES),
        "package": "random.schemas",
        "id": draw(st.integers(1, 60000)),
        "version": writer.version or None,
        "byteOrder": writer.pick((None, "littleEndian", "bigEndian")),
        "headerType": None if header_type == "messageHeader" else header_type,
        "description": writer.pick(DESCRIPTIONS),
    }
    content = [f"<types>{block}</types>\n" for block in blocks] + [f"{message}\n" for message in messages]
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + writer.element(
        f"{prefix}messageSchema", attributes, "\n", *content
    )


def _parse(text: str) -> SchemaModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        return parse(text)


def models() -> SearchStrategy[SchemaModel]:
    """Draws a schema and parses it; ``model.text`` is the XML. Warnings are not shown."""
    return schemas().map(_parse)


# bodies


def _number(encoded: Encoded, optional: bool) -> SearchStrategy[Any]:
    low, high = encoded.min_value, encoded.max_value
    if encoded.primitive is Primitive.CHAR:
        codes = st.integers(int(low), int(high)).filter(lambda code: code != encoded.null_value)
        return codes.map(chr)
    if encoded.primitive.is_float:
        is_float = encoded.primitive is Primitive.FLOAT
        floats: SearchStrategy[Any] = st.floats(low, high, width=32 if is_float else 64, allow_nan=False)
        if not optional or encoded.null_value == encoded.null_value:
            standard = low == encoded.primitive.min_value  # a NaN is not within any limits
            floats = st.one_of(floats, st.just("NaN")) if standard else floats
        return floats.filter(lambda value: not optional or value != encoded.null_value)
    return st.integers(int(low), int(high)).filter(lambda value: not optional or value != encoded.null_value)


def _text(encoding: str, most: int) -> SearchStrategy[str]:
    alphabet = st.characters(codec=encoding, exclude_characters="\0")
    return st.text(alphabet, max_size=most).filter(lambda text: len(text.encode(encoding)) <= most)


def _encoded(encoded: Encoded, optional: bool) -> SearchStrategy[Any]:
    if not encoded.is_array:
        value = _number(encoded, optional)
        return st.one_of(st.none(), value) if optional else value
    if encoded.primitive is Primitive.CHAR:
        return _text(encoded.character_encoding or "US-ASCII", encoded.length)
    return st.lists(_number(encoded, optional), min_size=encoded.length, max_size=encoded.length)


def _constant(field: Field) -> Any:
    if isinstance(field.type, Enum):
        return next(value.name for value in field.type.values if value.value == field.constant)
    return field.constant


def _value(field: Field) -> SearchStrategy[Any]:
    type_ = field.type
    if field.presence is Presence.CONSTANT:
        return st.just(_constant(field))
    if isinstance(type_, Encoded):
        return _encoded(type_, field.is_optional)
    if isinstance(type_, Enum):
        names = st.sampled_from([value.name for value in type_.values])
        return st.one_of(st.none(), names) if field.is_optional else names
    if isinstance(type_, Set):
        return st.fixed_dictionaries({choice.name: st.booleans() for choice in type_.choices})
    assert isinstance(type_, Composite)
    return st.fixed_dictionaries({member.name: _value(member) for member in type_.fields})


def _data(data: Data) -> SearchStrategy[str]:
    if data.character_encoding is None:
        return st.binary(max_size=20).map(bytes.hex)
    return _text(data.character_encoding, 20)


def bodies(block: Message | Group) -> SearchStrategy[Body]:
    """Draws the contents of a message of this kind, constants included, at the schema's own version."""
    parts: dict[str, SearchStrategy[Any]] = {field.name: _value(field) for field in block.fields}
    parts |= {group.name: st.lists(bodies(group), max_size=3) for group in block.groups}
    parts |= {data.name: _data(data) for data in block.data}
    return st.fixed_dictionaries(parts)


@st.composite
def typed_messages(draw: DrawFn) -> tuple[SchemaModel, Message, Body]:
    """Draws a schema, one of its messages, and the contents of that message."""
    model = draw(models())
    message = draw(st.sampled_from(model.messages))
    return model, message, draw(bodies(message))
