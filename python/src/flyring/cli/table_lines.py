# SPDX-License-Identifier: Apache-2.0
"""Keys and values of tables as lines of JSON: those that ``flyring table dump`` prints and ``load`` reads."""

from __future__ import annotations

import json
import os
from typing import Any

from ..errors import BadMessageError, InvalidArgumentError
from ..sbe.errors import SbeError
from ..sbe.json import from_dict, to_dict
from ..table import Table


def key_of(table: Table, text: str, as_hex: bool = False) -> Any:
    """Converts a command-line argument to a key. Raises InvalidArgumentError."""
    if as_hex and table.key_type != "bytes":
        raise InvalidArgumentError("key-hex", f"the keys of this table are {table.key_type}; only bytes may be in hex")
    if as_hex:
        return bytes_of("key", text)
    if table.key_type == "integer":
        try:
            return int(text, 0)
        except ValueError:
            raise InvalidArgumentError("key", f"{text!r} is not an integer, which the keys of this table are") from None
    return os.fsencode(text) if table.key_type == "bytes" else text


def value_of(table: Table, text: str, as_hex: bool) -> bytes:
    """Converts a command-line argument to a value. The argument is text, bytes in hexadecimal, or a message as JSON.
    Raises InvalidArgumentError."""
    if as_hex:
        return bytes_of("value", text)
    if table.schema is None:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes(from_dict(table.message, json.loads(text)))
    except json.JSONDecodeError as error:
        what = f"the values of this table are messages {table.message.NAME}, as JSON: {error}"
        raise InvalidArgumentError("value", f"{what}; or give bytes with --hex") from None


def bytes_of(argument: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidArgumentError(argument, f"{text!r} is not hexadecimal, such as 00ff") from None


def key_field(key: Any) -> dict[str, Any]:
    """The JSON field of a key: ``key``, or ``key_hex`` (hexadecimal digits) if the key is bytes."""
    return {"key_hex": key.hex()} if isinstance(key, bytes) else {"key": key}


def line_of(table: Table, key: Any, value: bytes, version: int) -> str:
    line = {**key_field(key), "version": version, **value_field(table, value)}
    return json.dumps(line, ensure_ascii=False)


def value_field(table: Table, value: bytes) -> dict[str, Any]:
    """The JSON field of a value: ``message`` with a schema, ``text`` without. A value that is no such message or no
    printable text becomes ``data`` (hexadecimal digits)."""
    if table.schema is not None:
        try:
            return {"message": to_dict(table.message.decode(value))}
        except (SbeError, BadMessageError):
            return {"data": value.hex()}
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return {"data": value.hex()}
    return {"text": text} if text.isprintable() else {"data": value.hex()}


def parsed(table: Table, text: str) -> tuple[Any, bytes]:
    """Returns key and value of a line. Raises ValueError, KeyError, TypeError or FlyringError."""
    line = json.loads(text)
    if not isinstance(line, dict) or not line.keys() & {"key", "key_hex"}:
        raise ValueError('it is not an object with a "key" or "key_hex"')
    if not line.keys() & {"text", "data", "message"}:
        raise ValueError('it has no "text", "data" or "message"')
    key = bytes.fromhex(line["key_hex"]) if "key_hex" in line else line["key"]
    if "message" in line:
        return key, bytes(from_dict(table.message, line["message"]))
    return key, line["text"].encode() if "text" in line else bytes.fromhex(line["data"])
