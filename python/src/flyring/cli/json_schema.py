# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of a message in the form of ``to_dict`` (spec/messages.md 4)."""

from __future__ import annotations

from typing import Any

from ..sbe import Schema, model

Json = dict[str, Any]


def schema_of_message(schema: Schema | None, name: str | None) -> Json:
    """Of a message of this name; without a name, of a message that was not decoded: its bytes."""
    found = None if schema is None else next((one for one in schema.model.messages if one.name == name), None)
    if found is None:
        return {"type": "object", "properties": {"text": {"type": "string"}, "data": {"type": "string"}}}
    return {"title": found.name, **block(found)}


def block(one: model.Message | model.Group | model.Composite) -> Json:
    properties = {field.name: field_schema(field) for field in one.fields}
    if not isinstance(one, model.Composite):
        for group in one.groups:
            properties[group.name] = {"type": "array", "items": block(group)}
        for data in one.data:
            properties[data.name] = {"type": "string"}
    return {"type": "object", "properties": properties}


def field_schema(field: model.Field) -> Json:
    kind = field.type
    if isinstance(kind, model.Composite):
        return block(kind)
    if isinstance(kind, model.Set):
        return {"type": "object", "properties": {one.name: {"type": "boolean"} for one in kind.choices}}
    if isinstance(kind, model.Enum):
        return {"type": "string"}
    if kind.primitive is model.Primitive.CHAR or (kind.is_array and kind.primitive is model.Primitive.UINT8):
        return {"type": "string"}
    one: Json = {"type": "number" if kind.primitive.is_float else "integer", "x-sbe": kind.primitive.text}
    if not kind.is_array:
        return one
    return {"type": "array", "items": {"type": one["type"]}, "x-sbe": kind.primitive.text}
