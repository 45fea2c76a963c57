# SPDX-License-Identifier: Apache-2.0
"""``flyring sbe``: generates a Python module from an SBE schema, and checks schemas."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from ..sbe import model
from ..sbe.errors import SchemaError, SchemaWarning
from ..sbe.generate import generate
from ..sbe.parse import load
from .report import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="sbe_command", required=True, metavar="COMMAND")
    text = "write a typed Python module with the classes of a schema's messages"
    one = commands.add_parser("generate", help=text, description=f"{text.capitalize()}.", allow_abbrev=False)
    one.add_argument("schema", metavar="SCHEMA", help="an XML file")
    one.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    text = "print the errors and the contents of a schema; status 1 if it is not valid"
    one = commands.add_parser("check", help=text, description=f"{text.capitalize()}.", allow_abbrev=False)
    one.add_argument("schema", metavar="SCHEMA", help="an XML file")
    one.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def sbe(options: argparse.Namespace) -> int:
    if options.sbe_command == "generate":
        return _generate(options.schema, options.output)
    return _check(options.schema, options.json)


def _read(path: str) -> tuple[model.SchemaModel | None, tuple[str, ...], list[str]]:
    """Returns the schema (None if there are problems), the problems, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SchemaWarning)
        try:
            return load(path), (), [str(one.message) for one in caught]
        except SchemaError as error:
            return None, error.problems, [str(one.message) for one in caught]


def _generate(path: str, output: str | None) -> int:
    schema, problems, warned = _read(path)
    for text in warned:
        print(f"flyring: warning: {printable(text)}", file=sys.stderr)
    for text in problems:
        print(f"flyring: {printable(text)}", file=sys.stderr)
    if schema is None:
        return 2
    source = generate(schema)
    if output is None:
        sys.stdout.write(source)
    else:
        with open(output, "w", encoding="utf-8") as file:
            file.write(source)
    return 0


def _check(path: str, as_json: bool) -> int:
    schema, problems, warned = _read(path)
    if as_json:
        holds = {} if schema is None else _schema_json(schema)
        print(json.dumps({"valid": schema is not None, "problems": problems, "warnings": warned, **holds}, indent=2))
    else:
        for text in problems:
            print(f"WRONG   {printable(text)}")
        for text in warned:
            print(f"warning {printable(text)}")
        for line in () if schema is None else _schema_text(schema):
            print(printable(line))
    return 0 if schema is not None else 1


def _schema_text(schema: model.SchemaModel) -> Iterator[str]:
    order = "little" if schema.byte_order == "<" else "big"
    yield f"schema {schema.id} version {schema.version}: package {schema.package}, {order}-endian"
    yield f"header {schema.header.name}: {schema.header.encoded_length} bytes"
    for message in schema.messages:
        yield ""
        yield f"message {message.name}: template {message.id}, block of {message.block_length} bytes{_since(message)}"
        yield from _block_text(message, "  ")


def _block_text(block: model.Message | model.Group, margin: str) -> Iterator[str]:
    width = max((len(field.name) for field in block.fields), default=0)
    for field in block.fields:
        place = f"{field.offset:5}{field.encoded_length:5}  {field.name:{width}}  {_type_name(field.type)}"
        constant = f" = {field.constant!r}" if field.presence is model.Presence.CONSTANT else ""
        yield f"{margin}{place}{constant}{' optional' if field.is_optional else ''}{_since(field)}"
    for group in block.groups:
        yield f"{margin}group {group.name}: entries of {group.block_length} bytes{_since(group)}"
        yield from _block_text(group, margin + "  ")
    for data in block.data:
        kind = data.character_encoding or "bytes"
        yield f"{margin}data {data.name}: {kind}, {data.length.primitive.text} length{_since(data)}"


def _since(what: model.Message | model.Group | model.Field | model.Data) -> str:
    return f", since version {what.since_version}" if what.since_version else ""


def _type_name(kind: model.Type) -> str:
    if isinstance(kind, model.Encoded) and kind.name != kind.primitive.text:
        return f"{kind.name} ({kind.primitive.text}{f'[{kind.length}]' if kind.is_array else ''})"
    return kind.name


def _schema_json(schema: model.SchemaModel) -> dict[str, Any]:
    return {
        "package": schema.package,
        "id": schema.id,
        "version": schema.version,
        "byte_order": "little" if schema.byte_order == "<" else "big",
        "header_length": schema.header.encoded_length,
        "messages": [_block_json(message) for message in schema.messages],
    }


def _block_json(block: model.Message | model.Group) -> dict[str, Any]:
    return {
        "name": block.name,
        "id": block.id,
        "block_length": block.block_length,
        "since_version": block.since_version,
        "fields": [
            {
                "name": field.name,
                "type": field.type.name,
                "offset": field.offset,
                "length": field.encoded_length,
                "presence": field.presence.value,
                "since_version": field.since_version,
            }
            for field in block.fields
        ],
        "groups": [_block_json(group) for group in block.groups],
        "data": [
            {"name": data.name, "encoding": data.character_encoding, "since_version": data.since_version}
            for data in block.data
        ],
    }
