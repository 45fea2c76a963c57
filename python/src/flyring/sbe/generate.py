# SPDX-License-Identifier: Apache-2.0
"""Generates a Python module from the model of a schema: the classes that ``runtime`` makes, as typed source.

The module needs only ``flyring.sbe``. It has an enum class for each enum and set, a class for each composite, group and
message that is used, and ``SCHEMA``, the ``Schema`` that knows the messages.
"""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Collection, Iterable, Iterator

from . import fields, model
from .model import Presence, Primitive
from .source import Code, call, docstring, literal, long_text, number

__all__ = ["generate"]

_IMPORTS = {
    "enum": "import enum",
    "Sequence": "from collections.abc import Sequence",
}
_NAMES = (*_IMPORTS, "Final", "Never")
# Names and texts come from the schema, so they need not follow Python's conventions.
_NOQA = "# ruff: noqa: E501, E741, N801, N815, N816, PIE796, RUF001, RUF002, RUF100, W291, W293"


def generate(schema: model.SchemaModel) -> str:
    """Returns the source of a module. The same schema always gives the same source."""
    return _Module(schema).source()


class _Module:
    def __init__(self, schema: model.SchemaModel) -> None:
        self.schema = schema
        self.order = {} if schema.byte_order == "<" else {"byte_order": schema.byte_order}
        self.taken = {*dir(builtins), *keyword.kwlist, "HEADER", "SCHEMA", "Schema", "annotations", "fields", *_NAMES}
        self.imported: set[str] = set()
        self.lines: list[str] = []
        self.messages = [(message, self.unique(message.name)) for message in schema.messages]
        used = list({id(kind): kind for message in schema.messages for kind in _types_of(message)}.values())
        named = {id(kind) for kind in schema.types.values()}
        self.types: dict[int, str] = {}  # the names of classes, by the identity of the model
        self.used: list[tuple[model.Type, str]] = []
        for kind in sorted(used, key=lambda one: id(one) not in named):  # the named types keep their names
            self.types[id(kind)] = self.unique(kind.name)
        self.used = [(kind, self.types[id(kind)]) for kind in used]

    def unique(self, name: str, hidden: Collection[str] = ()) -> str:
        while name in self.taken or name in hidden:
            name += "_"
        self.taken.add(name)
        return name

    def source(self) -> str:
        for kind, name in self.used:
            if isinstance(kind, model.Composite):
                _Class(self, name, kind.fields).composite(kind)
            elif isinstance(kind, model.Enum):
                self.enumeration(kind, name)
            elif isinstance(kind, model.Set):
                self.flags(kind, name)
        for message, name in self.messages:
            given = {"header": Code("HEADER"), "template_id": message.id, "block_length": message.block_length}
            own_name = {} if name == message.name else {"name": message.name}
            self.block(message, name, "Message", given | own_name)
        body = self.lines
        return "\n".join([*self.head(), *body, "", "", *self.tail(), ""])

    def head(self) -> list[str]:
        text = docstring(self.schema.description or f"The messages of {self.schema.package}.", 0)
        text[-1] = text[-1].removesuffix('"""').rstrip()
        text += ["", "Made by ``flyring sbe generate``: do not edit.", '"""']
        typing = ", ".join(name for name in ("Final", "Never") if name in self.imported)
        imports = [line for name, line in _IMPORTS.items() if name in self.imported]
        imports += [f"from typing import {typing}"] if typing else []
        lines = [*text, "", "# Names and texts are the schema's.", _NOQA, "", "from __future__ import annotations", ""]
        lines += [*imports, ""] if imports else []
        return [*lines, "from flyring.sbe import Schema, fields", "", *self.header()]

    def header(self) -> list[str]:
        header = self.schema.header
        places = [
            (name, _place(header, field))
            for name, field in (
                ("block_length", "blockLength"),
                ("template_id", "templateId"),
                ("schema", "schemaId"),
                ("acting_version", "version"),
            )
        ]
        given: dict[str, object] = {
            "schema_id": self.schema.id,
            "version": self.schema.version,
            "encoded_length": header.encoded_length,
        }
        return call("HEADER = ", "fields.Header", [], given | dict(places) | self.order, 0)

    def tail(self) -> list[str]:
        names = tuple(Code(name) for _, name in self.messages)
        lines = [f"SCHEMA = Schema(\n    {long_text(self.schema.text)},"]
        given: dict[str, object] = {
            "package": self.schema.package,
            "id": self.schema.id,
            "version": self.schema.version,
            "byte_order": self.schema.byte_order,
        }
        lines += [f"    {key}={literal(value)}," for key, value in given.items()]
        listed = f"    messages={literal(names)},"
        if len(listed) > 120:
            listed = "\n".join(["    messages=(", *(f"        {name}," for name in names), "    ),"])
        return [*lines, listed, ")"]

    def begin(self, declaration: list[str], description: str) -> None:
        self.lines += ["", "", *declaration, *docstring(description, 4)]

    def enumeration(self, kind: model.Enum, name: str) -> None:
        self.imported.add("enum")
        is_char = kind.primitive is Primitive.CHAR
        self.begin([f"class {name}(enum.{'Enum' if is_char else 'IntEnum'}):"], kind.description)
        self.members(kind.values, [chr(one.value) if is_char else one.value for one in kind.values], kind.description)

    def flags(self, kind: model.Set, name: str) -> None:
        self.imported.add("enum")
        self.begin([f"class {name}(enum.IntFlag):"], kind.description)
        self.members(kind.choices, [1 << one.value for one in kind.choices], kind.description)

    def members(self, values: tuple[model.ValidValue, ...], numbers: list[int | str], description: str) -> None:
        spelled = fields.member_names(one.name for one in values)
        if description.strip() and values:
            self.lines.append("")
        for one, value in zip(values, numbers, strict=True):
            self.lines.append(f"    {spelled[one.name]} = {literal(value)}")
            self.lines += docstring(one.description, 4)
        if not values and not description.strip():
            self.lines.append("    pass")

    def block(self, block: model.Message | model.Group, name: str, base: str, given: dict[str, object]) -> None:
        """Adds the class of a message or group entry, after the classes of its own groups."""
        entries = {}
        for group in block.groups:
            entry = entries[group.name] = self.unique(f"{name}{group.name[0].upper()}{group.name[1:]}")
            self.block(group, entry, "Entry", {"block_length": group.block_length, "name": group.name})
        _Class(self, name, (*block.fields, *block.groups, *block.data)).block(block, base, given, entries)


class _Class:
    """The source of one class."""

    def __init__(self, module: _Module, name: str, parts: Iterable[model.Field | model.Group | model.Data]) -> None:
        self.module = module
        self.name = name
        self.attributes = fields.attribute_names(part.name for part in parts)
        self.aliases: dict[str, str] = {}
        self.lines: list[str] = []

    def ref(self, name: str) -> Code:
        """Returns how a name of the module, or a builtin, is written inside the class, where an attribute may hide
        it."""
        if name in _NAMES:
            self.module.imported.add(name)
        if name not in self.attributes.values():
            return Code(name)
        if name not in self.aliases:
            private = name if name.startswith("_") else f"_{name}"  # two underscores would be mangled
            self.aliases[name] = self.module.unique(private, self.attributes.values())
        return Code(self.aliases[name])

    def composite(self, kind: model.Composite) -> None:
        for field in kind.fields:
            self.field(field, 0)
        self.finish("Composite", {"encoded_length": kind.encoded_length}, kind.description)

    def block(
        self, block: model.Message | model.Group, base: str, given: dict[str, object], entries: dict[str, str]
    ) -> None:
        for field in block.fields:
            self.field(field, field.since_version)
        for group in block.groups:
            self.group(group, entries[group.name])
        for data in block.data:
            self.data(data)
        self.finish(base, given, block.description)

    def finish(self, base: str, given: dict[str, object], description: str) -> None:
        module = self.module
        if self.aliases:
            module.lines += ["", "", *(f"{alias} = {name}" for name, alias in self.aliases.items())]
        declaration = call("class ", self.name, [Code(f"fields.{base}")], given, 0)
        declaration[-1] += ":"
        module.begin(declaration, description)
        module.lines += [*([""] if description.strip() else []), "    __slots__ = ()", *self.lines]

    def add(
        self, name: str, types: str, function: str, arguments: list[object], given: dict[str, object], doc: str
    ) -> None:
        base = self.ref("fields")
        start = f"{self.attributes[name]}: {base}.Field[{types}] = "
        self.lines += call(start, f"{base}.{function}", [name, *arguments], given, 4)
        self.lines += docstring(doc, 4)

    def field(self, field: model.Field, since: int) -> None:
        kind = field.type
        if field.presence is Presence.CONSTANT:
            self.constant(field)
            return
        given: dict[str, object] = {"since": since} if since else {}
        if isinstance(kind, model.Encoded):
            self.encoded(field, kind, given)
            return
        cls = self.ref(self.module.types[id(kind)])
        if isinstance(kind, model.Composite):
            self.add(
                field.name,
                f"{cls}{' | None' if since else ''}, {cls}",
                "composite",
                [field.offset, cls],
                given,
                field.description,
            )
            return
        arguments = [kind.primitive.text, field.offset, cls]
        if isinstance(kind, model.Set):
            types = f"{cls}{' | None' if since else ''}, {cls}"
            self.add(field.name, types, "flags", arguments, given | self.module.order, field.description)
            return
        own = {"null": int(kind.null_value)} | ({"optional": True} if field.is_optional else {})
        types = f"{cls} | None, {cls}{' | None' if field.is_optional else ''}"
        self.add(field.name, types, "enumeration", arguments, own | given | self.module.order, field.description)

    def encoded(self, field: model.Field, kind: model.Encoded, since: dict[str, object]) -> None:
        primitive, optional = kind.primitive, field.is_optional
        given: dict[str, object] = {}
        if kind.is_array:
            given["length"] = kind.length
        if primitive is Primitive.CHAR and kind.character_encoding not in (None, "US-ASCII"):
            given["encoding"] = kind.character_encoding
        if optional and kind.is_array and primitive is Primitive.CHAR:
            given["optional"] = True
        elif optional:
            given["null"] = self.number(kind.null_value)
        is_bytes = kind.is_array and primitive in (Primitive.CHAR, Primitive.UINT8)
        if not is_bytes and kind.min_value != primitive.min_value:
            given["minimum"] = self.number(kind.min_value)
        if not is_bytes and kind.max_value != primitive.max_value:
            given["maximum"] = self.number(kind.max_value)
        given |= since
        if primitive is not Primitive.CHAR and not is_bytes:
            given |= self.module.order
        number_type = "float" if primitive.is_float else "int"
        if primitive is Primitive.CHAR:
            function, get = "text" if kind.is_array else "char", self.ref("str")
        elif is_bytes:
            function, get = "octets", self.ref("bytes")
        elif kind.is_array:
            function, get = "array", Code(f"{self.ref('tuple')}[{self.ref(number_type)}, ...]")
        else:
            function, get = "floating" if primitive.is_float else "integer", self.ref(number_type)
        put = f"{self.ref('Sequence')}[{self.ref(number_type)}]" if function == "array" else get
        # An array has no null value: writing None fills the array, and reading gives its elements.
        reads_none = bool(since) or (optional and not kind.is_array)
        types = f"{get}{' | None' if reads_none else ''}, {put}{' | None' if optional else ''}"
        arguments: list[object] = (
            [field.offset] if primitive is Primitive.CHAR or is_bytes else [primitive.text, field.offset]
        )
        self.add(field.name, types, function, arguments, given, field.description)

    def number(self, value: float) -> Code:
        return number(value, "float" if math.isfinite(value) else self.ref("float"))

    def constant(self, field: model.Field) -> None:
        value: object = field.constant
        if isinstance(field.type, model.Enum):
            spelled = fields.member_names(one.name for one in field.type.values)
            name = next(one.name for one in field.type.values if one.value == field.constant)
            value = Code(f"{self.ref(self.module.types[id(field.type)])}.{spelled[name]}")
        elif isinstance(value, float):
            value = self.number(value)
        self.lines.append(f"    {self.attributes[field.name]}: {self.ref('Final')} = {literal(value)}")
        self.lines += docstring(field.description, 4)

    def group(self, group: model.Group, entry: str) -> None:
        count = group.dimension["numInGroup"].type
        assert isinstance(count, model.Encoded)
        cls, base = self.ref(entry), self.ref("fields")
        numbers = (
            group.dimension.encoded_length,
            _place(group.dimension, "blockLength"),
            _place(group.dimension, "numInGroup"),
            int(count.min_value),
            int(count.max_value),
        )
        given: dict[str, object] = {"since": group.since_version} if group.since_version else {}
        types = f"{base}.Group[{cls}], {self.ref('Never')}"
        dimension = Code(f"{base}.Dimension{literal(numbers)}")
        self.add(group.name, types, "group", [cls, dimension], given | self.module.order, group.description)

    def data(self, data: model.Data) -> None:
        given: dict[str, object] = {"maximum": int(data.length.max_value)}
        if data.character_encoding is not None:
            given["encoding"] = data.character_encoding
        if data.since_version:
            given["since"] = data.since_version
        kind = self.ref("bytes" if data.character_encoding is None else "str")
        arguments: list[object] = [data.length.primitive.text]
        self.add(data.name, f"{kind}, {kind}", "data", arguments, given | self.module.order, data.description)


def _types_of(block: model.Message | model.Group | model.Composite) -> Iterator[model.Type]:
    """Yields the types that need a class; a type that others need comes before these."""
    for field in block.fields:
        if isinstance(field.type, model.Composite):
            yield from _types_of(field.type)
        if not isinstance(field.type, model.Encoded):
            yield field.type
    for group in () if isinstance(block, model.Composite) else block.groups:
        yield from _types_of(group)


def _place(composite: model.Composite, name: str) -> tuple[int, str]:
    field = composite[name]
    assert isinstance(field.type, model.Encoded)
    if field.presence is model.Presence.CONSTANT:
        return int(field.constant or 0), "constant"
    return field.offset, field.type.primitive.text
