# SPDX-License-Identifier: Apache-2.0
"""Messages as JSON lines (spec/messages.md 4), as ``flyring tail`` prints and ``flyring publish`` reads them."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from .. import Message
from ..sbe import Schema, from_dict
from ..sbe.errors import SbeError
from .report import printable_text

Json = dict[str, Any]


def typed_line(message: Message, name: str, body: Json) -> Json:
    return _where(message) | {"message": name, "body": body}


def raw_line(message: Message) -> Json:
    payload = bytes(message)
    text = printable_text(payload)
    content = {"data": payload.hex()} if text is None else {"text": text}
    return _where(message) | {"type": message.type} | content


def _where(message: Message) -> Json:
    return {"ring": message.ring, "sender": message.sender.name, "position": message.position}


class RefusedLineError(ValueError):
    """A line that cannot be published, with the reason."""


def parse_line(line: bytes, schema: Schema | None) -> tuple[bytes, int]:
    """Returns the payload and type of a line. RefusedLineError, or SbeError with message and field."""
    try:
        given = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RefusedLineError(f"it is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise RefusedLineError("it is not a JSON object")
    if "message" in given:
        return _typed(given, schema)
    if "data" in given or "text" in given:
        return _raw(given)
    raise RefusedLineError('it has neither "message" and "body", nor "type" and "data" or "text"')


def _refuse(name: str) -> NoReturn:
    raise RefusedLineError(f'{name} is not JSON: write "{name}"')


def _typed(given: Json, schema: Schema | None) -> tuple[bytes, int]:
    name = given["message"]
    if schema is None:
        raise RefusedLineError(f"the channel has no schema, so there is no message {name!r}")
    if not isinstance(name, str) or name not in schema.messages:
        raise RefusedLineError(f"there is no message {name!r} in the schema, but {', '.join(schema.messages)}")
    message = schema.messages[name]
    if "body" not in given:
        raise SbeError('the line has no "body"', name)
    return from_dict(message, given["body"]), message.TEMPLATE_ID


def _raw(given: Json) -> tuple[bytes, int]:
    kind = given.get("type", 1)
    if not isinstance(kind, int) or isinstance(kind, bool):
        raise RefusedLineError(f'"type" must be an integer, not {kind!r}')
    content = given["data"] if "data" in given else given["text"]
    if not isinstance(content, str):
        raise RefusedLineError(f'"data" and "text" must be strings, not {content!r}')
    try:
        return (bytes.fromhex(content) if "data" in given else content.encode("utf-8")), kind
    except UnicodeEncodeError as error:
        raise RefusedLineError(f'"text" cannot be written: {error}') from None
    except ValueError:
        raise RefusedLineError(f'"data" must be hexadecimal digits, not {content!r}') from None
