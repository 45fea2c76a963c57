# SPDX-License-Identifier: Apache-2.0
"""``flyring call``: calls a service and prints the answer as JSON (spec/api.md, spec/messages.md 4)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from .. import Answer, Channel, Client
from ..errors import (
    CancelledError,
    ClosedError,
    CorruptRingError,
    ExpiredError,
    FlyringError,
    InvalidArgumentError,
    ServerGoneError,
    ServiceError,
    SlotLostError,
)
from ..sbe import Schema, from_dict, model, to_dict
from ..sbe.errors import SbeError
from .lines import Json, raw_line, typed_line
from .report import printable
from .where import find_field, value_of

ENDS = (ServiceError, ExpiredError, ServerGoneError, CancelledError, ClosedError, SlotLostError, CorruptRingError)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME")
    command.add_argument("fields", metavar="FIELD=VALUE", nargs="*", help="a field of the request; a.b in a composite")
    command.add_argument("--message", metavar="M", help="the name of the request's message in the channel's schema")
    command.add_argument("--json", metavar="TEXT", dest="body", help="the message's body as JSON, instead of fields")
    command.add_argument("--type", metavar="N", type=int, help="the type of a request of raw bytes")
    command.add_argument("--hex", metavar="BYTES", help="a request of raw bytes, as hexadecimal digits")
    command.add_argument("--text", metavar="TEXT", help="a request of raw bytes, as UTF-8 text")
    command.add_argument("--timeout", metavar="SECONDS", type=float, default=5.0, help="default: 5")
    command.add_argument("--stream", action="store_true", help="ask for a stream, and print each item as a line")


def call(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if the call ended without an answer, and prints the error."""
    with Channel.open(options.name) as channel:
        schema = Schema.of(channel) if channel.schema is not None else None
        try:
            payload, kind = request_of(options, schema)
        except (SbeError, json.JSONDecodeError) as error:
            raise InvalidArgumentError("message", str(error)) from error
        with channel.client("flyring-call") as client:
            try:
                for answer in answers(client, payload, kind, options):
                    print(json.dumps(line_of(answer, schema)), flush=True)
            except ENDS as error:
                print(f"flyring: {error.code}: {printable(str(error))}", file=sys.stderr)
                return 1
    return 0


def answers(client: Client, payload: bytes, kind: int | None, options: argparse.Namespace) -> Iterator[Answer]:
    if options.stream:
        yield from client.stream(payload, kind, timeout=options.timeout)
    else:
        yield client.call(payload, kind, options.timeout)


def line_of(answer: Answer, schema: Schema | None) -> Json:
    """Returns the answer as a JSON object; an answer that cannot be decoded is shown raw."""
    classes = {} if schema is None else {one.TEMPLATE_ID: one for one in schema.messages.values()}
    if answer.type in classes:
        try:
            decoder = classes[answer.type].decode(answer)
            return typed_line(answer, decoder.NAME, to_dict(decoder))
        except (SbeError, FlyringError) as error:
            print(f"flyring: the answer cannot be decoded: {printable(str(error))}", file=sys.stderr)
    return raw_line(answer)


def request_of(options: argparse.Namespace, schema: Schema | None) -> tuple[bytes, int | None]:
    """Returns the request's payload and type. InvalidArgumentError, SbeError."""
    given = [name for name in ("message", "hex", "text") if getattr(options, name) is not None]
    if len(given) != 1:
        raise InvalidArgumentError("message", "say what the request is: --message, or --hex, or --text")
    if options.message is None:
        if options.fields or options.body is not None:
            raise InvalidArgumentError("fields", "raw bytes have no fields: give --message")
        return raw(options), options.type
    if options.type is not None:
        raise InvalidArgumentError("type", "that of a message is its template id")
    if schema is None:
        raise InvalidArgumentError("message", "the channel has no schema: give --type and --hex")
    if options.message not in schema.messages:
        known = ", ".join(schema.messages)
        raise InvalidArgumentError("message", f"there is no message {options.message!r} in the schema, but {known}")
    message = schema.messages[options.message]
    if options.body is not None:
        if options.fields:
            raise InvalidArgumentError("fields", "give fields, or --json, not both")
        body = json.loads(options.body)
    else:
        described = next(one for one in schema.model.messages if one.name == options.message)
        body = body_of(described, options.fields)
    return from_dict(message, body), message.TEMPLATE_ID


def raw(options: argparse.Namespace) -> bytes:
    if options.text is not None:
        return str(options.text).encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(options.hex)
    except ValueError:
        raise InvalidArgumentError("hex", f"{options.hex!r} is not an even number of hexadecimal digits") from None


def body_of(message: model.Message, fields: list[str]) -> dict[str, Any]:
    """Returns the message's body as given by arguments like ``a.b=VALUE``. Choices of sets that are not named are
    false."""
    body: dict[str, Any] = {}
    for part in message.fields:
        if isinstance(part.type, model.Set):
            body[part.name] = {choice.name: False for choice in part.type.choices}
    for field in fields:
        path, sign, text = field.partition("=")
        names = path.strip().split(".")
        if not sign:
            raise InvalidArgumentError("fields", f"{field!r} must be FIELD=VALUE")
        try:
            value = value_of(find_field(message, names), "=", text)
        except ValueError as error:
            raise InvalidArgumentError("fields", f"{field!r}: {error}") from None
        into = body
        for name in names[:-1]:
            into = into.setdefault(name, {})
        into[names[-1]] = value
    return body
