# SPDX-License-Identifier: Apache-2.0
"""Makes the message classes of a schema's model."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from typing import Any

from . import fields, model
from .flyweight import Composite, Entry, Header, Message

__all__ = ["message_classes"]

PYTHON = "flyring.sbe.runtime"


def message_classes(schema: model.SchemaModel) -> dict[str, type[Message]]:
    """Returns a class for each message, by its name in the schema."""
    return _Classes(schema).messages()


def _limits(kind: model.Encoded) -> dict[str, Any]:
    """Returns the limits that differ from those of the primitive."""
    given: dict[str, Any] = {}
    if kind.min_value != kind.primitive.min_value:
        given["minimum"] = kind.min_value
    if kind.max_value != kind.primitive.max_value:
        given["maximum"] = kind.max_value
    return given


class _Classes:
    def __init__(self, schema: model.SchemaModel) -> None:
        self.schema = schema
        self.order = schema.byte_order
        self.types: dict[int, Any] = {}  # by the id() of the model's type; the schema keeps the model alive

    def messages(self) -> dict[str, type[Message]]:
        header = self.header()
        classes: dict[str, type[Message]] = {}
        for message in self.schema.messages:
            namespace = self.block(message) | {"__doc__": message.description or None}
            given = {"header": header, "template_id": message.id, "block_length": message.block_length}
            classes[message.name] = _new_class(message.name, Message, namespace, given)
        return classes

    def header(self) -> Header:
        composite = self.schema.header
        return Header(
            schema_id=self.schema.id,
            version=self.schema.version,
            encoded_length=composite.encoded_length,
            block_length=_place(composite, "blockLength"),
            template_id=_place(composite, "templateId"),
            schema=_place(composite, "schemaId"),
            acting_version=_place(composite, "version"),
            byte_order=self.order,
        )

    def block(self, block: model.Message | model.Group) -> dict[str, Any]:
        """Returns the namespace of a class with these fields, groups and data."""
        parts: list[model.Field | model.Group | model.Data] = [*block.fields, *block.groups, *block.data]
        namespace: dict[str, Any] = {"__slots__": (), "__module__": PYTHON}
        for part, attribute in zip(parts, fields.attribute_names(part.name for part in parts).values(), strict=True):
            if isinstance(part, model.Group):
                namespace[attribute] = self.group(part)
            elif isinstance(part, model.Data):
                namespace[attribute] = fields.data(
                    part.name,
                    part.length.primitive.text,
                    maximum=int(part.length.max_value),
                    encoding=part.character_encoding,
                    since=part.since_version,
                    byte_order=self.order,
                )
            else:
                namespace[attribute] = self.field(part)
        return namespace

    def group(self, group: model.Group) -> Any:
        count = group.dimension["numInGroup"].type
        assert isinstance(count, model.Encoded)
        dimension = fields.Dimension(
            group.dimension.encoded_length,
            _place(group.dimension, "blockLength"),
            _place(group.dimension, "numInGroup"),
            int(count.min_value),
            int(count.max_value),
        )
        namespace = self.block(group) | {"__doc__": group.description or None}
        entry = _new_class(group.name, Entry, namespace, {"block_length": group.block_length})
        return fields.group(group.name, entry, dimension, since=group.since_version, byte_order=self.order)

    def field(self, field: model.Field, since: int | None = None) -> Any:
        """Returns the attribute of a field. ``since``: replaces the field's own version, for members of a composite."""
        kind, name, offset = field.type, field.name, field.offset
        version = field.since_version if since is None else since
        if field.presence is model.Presence.CONSTANT:
            return self.constant(field)
        if isinstance(kind, model.Composite):
            return fields.composite(name, offset, self.composite(kind), since=version)
        if isinstance(kind, model.Set):
            return fields.flags(
                name, kind.primitive.text, offset, self.flags(kind), since=version, byte_order=self.order
            )
        if isinstance(kind, model.Enum):
            return fields.enumeration(
                name,
                kind.primitive.text,
                offset,
                self.enumeration(kind),
                null=int(kind.null_value),
                optional=field.is_optional,
                since=version,
                byte_order=self.order,
            )
        return self.encoded(field, kind, version)

    def encoded(self, field: model.Field, kind: model.Encoded, since: int) -> Any:
        name, offset, primitive = field.name, field.offset, kind.primitive
        null: Any = kind.null_value if field.is_optional else None
        if primitive is model.Primitive.CHAR:
            encoding = kind.character_encoding or "US-ASCII"
            if kind.is_array:
                return fields.text(
                    name, offset, length=kind.length, encoding=encoding, optional=field.is_optional, since=since
                )
            return fields.char(name, offset, encoding=encoding, null=null, since=since, **_limits(kind))
        if kind.is_array and primitive is model.Primitive.UINT8:
            return fields.octets(name, offset, length=kind.length, null=null, since=since)
        given = _limits(kind) | {"null": null, "since": since, "byte_order": self.order}
        if kind.is_array:
            return fields.array(name, primitive.text, offset, length=kind.length, **given)
        if primitive.is_float:
            return fields.floating(name, primitive.text, offset, **given)
        return fields.integer(name, primitive.text, offset, **given)

    def constant(self, field: model.Field) -> Any:
        if not isinstance(field.type, model.Enum):
            return field.constant
        members = self.enumeration(field.type)
        return members(_member_value(field.type, field.constant))

    # Types that several fields may share

    def composite(self, composite: model.Composite) -> type[Composite]:
        if id(composite) not in self.types:
            spelled = fields.attribute_names(member.name for member in composite.fields)
            namespace: dict[str, Any] = {
                "__slots__": (),
                "__doc__": composite.description or None,
                "__module__": PYTHON,
            }
            namespace |= {spelled[member.name]: self.field(member, 0) for member in composite.fields}
            given = {"encoded_length": composite.encoded_length}
            self.types[id(composite)] = _new_class(composite.name, Composite, namespace, given)
        cls: type[Composite] = self.types[id(composite)]
        return cls

    def enumeration(self, kind: model.Enum) -> Any:
        if id(kind) not in self.types:
            base: Any = enum.Enum if kind.primitive is model.Primitive.CHAR else enum.IntEnum
            members = _members(kind.values, lambda one: _member_value(kind, one.value))
            self.types[id(kind)] = self.documented(base(kind.name, members, module=PYTHON), kind.description)
        return self.types[id(kind)]

    def flags(self, kind: model.Set) -> Any:
        if id(kind) not in self.types:
            base: Any = enum.IntFlag
            members = _members(kind.choices, lambda one: 1 << one.value)
            self.types[id(kind)] = self.documented(base(kind.name, members, module=PYTHON), kind.description)
        return self.types[id(kind)]

    @staticmethod
    def documented(cls: Any, description: str) -> Any:
        cls.__doc__ = description or None
        return cls


def _new_class(name: str, base: type[Any], namespace: dict[str, Any], given: dict[str, Any]) -> Any:
    return types.new_class(name, (base,), given, lambda empty: empty.update(namespace))


def _members(values: Iterable[model.ValidValue], value_of: Any) -> dict[str, Any]:
    values = list(values)
    spelled = fields.member_names(one.name for one in values)
    return {spelled[one.name]: value_of(one) for one in values}


def _member_value(kind: model.Enum, value: Any) -> Any:
    """Returns the value of an enum member: the character for a char enum, else the number."""
    return chr(value) if kind.primitive is model.Primitive.CHAR else value


def _place(composite: model.Composite, name: str) -> tuple[int, str]:
    field = composite[name]
    assert isinstance(field.type, model.Encoded)
    if field.presence is model.Presence.CONSTANT:
        return int(field.constant or 0), "constant"
    return field.offset, field.type.primitive.text
