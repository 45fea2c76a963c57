# SPDX-License-Identifier: Apache-2.0
"""``flyring journal mcap`` and ``parquet``: exports a journal or a recording to files that other tools open."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from .. import layout
from ..errors import InvalidArgumentError
from ..journal import Journal
from ..sbe import Schema
from .journal_damage import Damages
from .journal_lines import Choice, Texts, chosen, own_messages, payload_of
from .json_schema import schema_of_message
from .recording import Lost
from .report import print_json, printable, size_text

NO_MCAP = "an export to MCAP needs the library mcap: pip install 'flyring[mcap]'"
NO_PARQUET = "an export to Parquet needs the library pyarrow: pip install 'flyring[parquet]'"
ROWS = 65536  # of a row group of Parquet
SAFE = 2**53  # JSON readers keep integers up to here


class Item(NamedTuple):
    """One message to export."""

    channel: str
    schema: Schema | None
    time: int
    type: int
    payload: bytes
    where: dict[str, Any]


def items(one: Journal, options: argparse.Namespace, texts: Texts, damages: Damages) -> Iterator[Item]:
    choice = Choice(options, texts)
    if one.header.content == layout.JOURNAL_CONTENT_RECORDING:
        for item in chosen(one, options, choice, damages):
            if not isinstance(item, Lost):
                where = {"ring": item.ring, "sender": item.sender, "position": item.position, "number": item.count}
                schema = texts.schema_of(item.source.schema)
                yield Item(item.source.name, schema, item.time, item.type, payload_of(item), where)
        return
    schema = texts.schema_of((one.schema or "").encode("utf-8"))
    title = os.path.basename(one.path).removesuffix(".journal")
    for message in own_messages(one, options, damages):
        payload = bytes(message)
        if choice.message(message.type, payload, schema):
            where = {"position": message.position, "number": message.number}
            yield Item(title, schema, message.time, message.type, payload, where)


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[tuple[Journal, str]]:
    """Opens the journal. The export gets its name when it is whole, and nothing half is left."""
    hidden = f"{options.file}.part"
    with Journal.open(options.name, read_only=True, any_file_system=True) as one:
        try:
            yield one, hidden
        finally:
            with suppress(FileNotFoundError):
                os.unlink(hidden)


def told(options: argparse.Namespace, messages: int, texts: Texts, damages: Damages) -> int:
    size = os.stat(options.file).st_size
    if options.json:
        print_json({"path": options.file, "messages": messages, "bytes": size, "not_decoded": texts.not_decoded,
                    "damages": [damage.json() for damage in damages.found]})  # fmt: skip
    else:
        print(f"{printable(options.file)}: {messages} messages, {size_text(size)}")
        if texts.not_decoded:
            print(f"not decoded: {texts.not_decoded} messages")
    return 1 if texts.not_decoded or damages else 0


def safe(value: Any) -> Any:
    """Integers that JSON readers would round become text."""
    if isinstance(value, dict):
        return {key: safe(one) for key, one in value.items()}
    if isinstance(value, list):
        return [safe(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE:
        return str(value)
    return value


def to_mcap(options: argparse.Namespace) -> int:
    try:
        from mcap.writer import Writer
    except ImportError as error:
        raise InvalidArgumentError("mcap", NO_MCAP) from error
    texts = Texts()
    channels: dict[tuple[str, int | str], int] = {}
    with opened(options) as (one, hidden), open(hidden, "wb") as file:
        damages = Damages(one.path)
        writer = Writer(file)
        writer.start(profile="", library="flyring")
        messages = latest = 0
        for item in items(one, options, texts, damages):
            latest = max(latest, item.time)  # viewers want log times that do not go back
            if options.raw:
                content: dict[str, Any] = {}
                data, key = item.payload, (item.channel, item.type)
            else:
                content = texts.content(item.payload, item.type, item.schema)
                body = content.get("body", {name: content[name] for name in ("text", "data") if name in content})
                data = json.dumps(safe(body)).encode("utf-8")
                key = (item.channel, content.get("message", item.type))
            if key not in channels:
                channels[key] = register(writer, item, content, options.raw)
            writer.add_message(channels[key], latest, data, item.time, messages & 0xFFFFFFFF)
            messages += 1
        writer.finish()  # type: ignore[no-untyped-call]
        file.flush()
        os.replace(hidden, options.file)
    return told(options, messages, texts, damages)


def register(writer: Any, item: Item, content: dict[str, Any], raw: bool) -> int:
    """Registers a channel of MCAP: one for each channel and message name."""
    name = content.get("message") or message_name(item)
    if raw:
        text = item.schema.text.encode("utf-8") if item.schema is not None else b""
        schema = writer.register_schema(name, "sbe", text) if text else 0
    else:
        model = schema_of_message(item.schema, name if "message" in content else None)
        schema = writer.register_schema(name, "jsonschema", json.dumps(model).encode("utf-8"))
    topic = f"/{item.channel}/{name}"
    encoding = ("sbe" if item.schema is not None else "") if raw else "json"
    made: int = writer.register_channel(topic, encoding, schema, {"type": str(item.type)})
    return made


def message_name(item: Item) -> str:
    for message in item.schema.messages.values() if item.schema is not None else ():
        if item.type == message.TEMPLATE_ID:
            return message.NAME
    return f"type-{item.type}"


def to_parquet(options: argparse.Namespace) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InvalidArgumentError("parquet", NO_PARQUET) from error
    texts = Texts()
    writer: Any = None
    chosen_type: tuple[Schema | None, int] | None = None
    rows: list[dict[str, Any]] = []
    messages = 0
    with opened(options) as (one, hidden):
        damages = Damages(one.path)
        for item in items(one, options, texts, damages):
            if chosen_type is None:
                chosen_type = item.schema, item.type
                table_schema = columns(pyarrow, item)
                writer = parquet.ParquetWriter(hidden, table_schema)
            if chosen_type[1] != item.type:
                text = f"a file of Parquet has messages of one type; {message_name(item)} is another: use --message"
                raise InvalidArgumentError("message", text)
            content = texts.content(item.payload, item.type, item.schema)
            if "body" not in content:
                continue
            rows.append({"time": item.time, "channel": item.channel, "ring": None, "sender": None}
                        | item.where | flat(content["body"]))  # fmt: skip
            messages += 1
            if len(rows) == ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=table_schema))
                rows.clear()
        if writer is None:
            raise InvalidArgumentError("name", f"{one.path} has no such message")
        if rows:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=table_schema))
        writer.close()
        os.replace(hidden, options.file)
    return told(options, messages, texts, damages)


def flat(body: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The fields of composites and sets as columns a.b."""
    found: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def columns(pyarrow: Any, item: Item) -> Any:
    """The schema of the file."""
    name = message_name(item)
    if item.schema is None or name not in item.schema.messages:
        raise InvalidArgumentError(
            "name", "Parquet has columns, and messages without an SBE schema have none: use mcap"
        )
    model = next(one for one in item.schema.model.messages if one.name == name)
    if model.groups or model.data:
        parts = ", ".join([*(group.name for group in model.groups), *(data.name for data in model.data)])
        text = f"{name} has parts of variable length ({parts}), which have no columns: use mcap"
        raise InvalidArgumentError("message", text)
    fields = [("time", pyarrow.timestamp("ns", "UTC")), ("channel", pyarrow.string()), ("ring", pyarrow.int32()),
              ("sender", pyarrow.string()), ("position", pyarrow.int64()), ("number", pyarrow.int64())]  # fmt: skip
    described = schema_of_message(item.schema, name)
    fields += list(typed(pyarrow, described["properties"], ""))
    return pyarrow.schema(fields)


def typed(pyarrow: Any, properties: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, one in properties.items():
        if "properties" in one:
            yield from typed(pyarrow, one["properties"], f"{prefix}{name}.")
        elif one.get("x-sbe") in ARROW:
            kind = getattr(pyarrow, ARROW[one["x-sbe"]])()
            yield prefix + name, pyarrow.list_(kind) if one["type"] == "array" else kind
        else:
            yield prefix + name, pyarrow.bool_() if one["type"] == "boolean" else pyarrow.string()


ARROW = {"int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16",
         "uint32": "uint32", "uint64": "uint64", "float": "float32", "double": "float64"}  # fmt: skip
