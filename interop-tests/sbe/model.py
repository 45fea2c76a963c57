# SPDX-License-Identifier: Apache-2.0
"""Compares Python's resolved model with sbe-tool's: every offset, length, version, limit and null value."""

from __future__ import annotations

from typing import Any

from compare import expect
from values import FLOATS, Described, bits, charset_of, constant, length_of

from flyring.sbe import model

KINDS = {model.Encoded: "encoding", model.Enum: "enum", model.Set: "set", model.Composite: "composite"}


def compare(ours: model.SchemaModel, theirs: Described) -> None:
    expect("id", ours.id, theirs["id"])
    expect("version", ours.version, theirs["version"])
    expect("package", ours.package, theirs["package"])
    expect("byte order", ours.byte_order, "<" if theirs["byte_order"] == "LITTLE_ENDIAN" else ">")
    _type(ours.header, theirs["header"], "header")
    expect("messages", sorted(m.name for m in ours.messages), sorted(m["name"] for m in theirs["messages"]))
    by_name = {message.name: message for message in ours.messages}
    for message in theirs["messages"]:
        mine = by_name[message["name"]]
        expect(f"since of {mine.name}", mine.since_version, message["since"])
        _body(mine, message, mine.name)


def _body(ours: Any, theirs: Described, path: str) -> None:
    expect(f"id of {path}", ours.id, theirs["id"])
    expect(f"block length of {path}", ours.block_length, theirs["block_length"])
    for what, mine in (("fields", ours.fields), ("groups", ours.groups), ("data", ours.data)):
        expect(f"{what} of {path}", [one.name for one in mine], [one["name"] for one in theirs[what]])
        for one, other in zip(mine, theirs[what], strict=True):
            here = f"{path}.{one.name}"
            expect(f"id of {here}", one.id, other["id"])
            expect(f"since of {here}", one.since_version, other["since"])
            if what == "fields":
                expect(f"presence of {here}", one.presence.name, "CONSTANT" if constant(other) else other["presence"])
                if not constant(other):
                    expect(f"offset of {here}", one.offset, other["offset"])
                _type(one.type, other["type"], here)
            elif what == "groups":
                _type(one.dimension, other["dimension"], here + " (dimension)")
                _body(one, other, here)
            else:
                length = length_of(other)
                expect(f"length type of {here}", one.length.primitive.text, length["primitive"])
                expect(f"max length of {here}", one.length.max_value, int(length["max"]))
                expect(f"character encoding of {here}", one.character_encoding, charset_of(other))


def _type(ours: model.Type, theirs: Described, path: str) -> None:
    expect(f"kind of {path}", KINDS[type(ours)], theirs["kind"])
    if isinstance(ours, model.Composite):
        expect(f"length of {path}", ours.encoded_length, theirs["length"])
        expect(f"members of {path}", [one.name for one in ours.fields], [one["name"] for one in theirs["members"]])
        for one, other in zip(ours.fields, theirs["members"], strict=True):
            here = f"{path}.{one.name}"
            if other["kind"] == "encoding":  # sbe-tool does not keep it for an enum or set inside a composite
                expect(f"presence of {here}", one.presence.name, other["presence"])
            if other["presence"] != "CONSTANT":
                expect(f"offset of {here}", one.offset, other["offset"])
            _type(one.type, other, here)
        return
    expect(f"primitive of {path}", ours.primitive.text, theirs["primitive"])
    if isinstance(ours, model.Encoded):
        if theirs["presence"] != "CONSTANT":
            expect(f"length of {path}", ours.length, theirs["count"])
            for what, mine in (("null", ours.null_value), ("min", ours.min_value), ("max", ours.max_value)):
                _same_value(f"{what} of {path}", mine, theirs[what], ours.primitive.text)
        if theirs["charset"]:
            expect(f"character encoding of {path}", ours.character_encoding, theirs["charset"])
    elif isinstance(ours, model.Enum):
        _same_value(f"null of {path}", ours.null_value, theirs["null"], ours.primitive.text)
        _members(path, ours.values, theirs)
    else:
        _members(path, ours.choices, theirs)


def _members(path: str, ours: tuple[model.ValidValue, ...], theirs: Described) -> None:
    mine = sorted((one.name, one.value, one.since_version) for one in ours)
    expect(f"values of {path}", mine, sorted((m["name"], int(m["const"]), m["since"]) for m in theirs["members"]))


def _same_value(what: str, ours: int | float, theirs: str, primitive: str) -> None:
    if primitive in FLOATS:
        expect(what, bits(primitive, ours), bits(primitive, float(theirs)))
    else:
        expect(what, ours, int(theirs))
