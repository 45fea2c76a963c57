# SPDX-License-Identifier: Apache-2.0
"""``flyring table``: shows, reads, writes, checks and copies tables (spec/api.md, Table)."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..errors import FlyringError, InvalidArgumentError, NeedsRecoveryError, NoFreeSlotError
from ..sbe.json import from_dict, to_dict
from ..system import table_path
from ..table import Table
from ..table_check import broken_rules
from .report import print_json, printable

PATIENCE = 1.0  # s: how long a change waits for the writer's slot
SUFFIX = ".table"


def add_arguments(command: argparse.ArgumentParser) -> None:
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str) -> argparse.ArgumentParser:
        return verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)

    one = verb("ls", "list the tables of a folder; status 1 if a .table file is not a valid table")
    one.add_argument("folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    one.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    one = verb("info", "show what a table holds: header, keys, index, writer")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    one = verb("get", "print values as JSON lines; status 1 if a key is absent")
    one.add_argument("name", metavar="NAME")
    one.add_argument("keys", metavar="KEY", nargs="*", help="default: all keys")
    one = verb("dump", "print all keys and values as JSON lines, which load reads")
    one.add_argument("name", metavar="NAME")
    one = verb("put", "put a value")
    one.add_argument("name", metavar="NAME")
    one.add_argument("key", metavar="KEY")
    one.add_argument("value", metavar="VALUE", help="text; with a schema: the message as JSON")
    one.add_argument("--hex", action="store_true", help="VALUE is bytes in hexadecimal")
    one = verb("remove", "remove keys; status 1 if one is absent")
    one.add_argument("name", metavar="NAME")
    one.add_argument("keys", metavar="KEY", nargs="+")
    one = verb("load", "put JSON lines in the format of dump; status 1 if a line was refused")
    one.add_argument("name", metavar="NAME")
    one.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    one = verb("watch", "print each change live, as JSON lines")
    one.add_argument("name", metavar="NAME")
    one.add_argument("keys", metavar="KEY", nargs="*", help="default: all keys")
    one.add_argument("--count", metavar="N", type=int, help="end after N lines")
    one = verb("check", "check a table against the layout's rules; status 1 if one is broken")
    one.add_argument("name", metavar="NAME")
    one = verb("snapshot", "write a whole copy of a table")
    one.add_argument("name", metavar="NAME")
    one.add_argument("path", metavar="PATH")
    one.add_argument("--any-file-system", action="store_true", help="also allow file systems not known to work")
    one = verb("grow", "put a larger file in the place of a table")
    one.add_argument("name", metavar="NAME")
    one.add_argument("capacity", metavar="CAPACITY", type=int, help="how many keys fit then")


def table(options: argparse.Namespace) -> int:
    verb = VERBS[options.verb]
    return verb(options)


def opened(name: str, read_only: bool = True) -> Table:
    return Table.open(name, read_only=read_only, any_file_system=True)


# Keys and values as JSON


def parse_key(one: Table, text: str) -> Any:
    if one.key_type == "integer":
        try:
            return int(text, 0)
        except ValueError:
            raise InvalidArgumentError("key", f"{text!r} is not an integer, which the keys of this table are") from None
    return os.fsencode(text) if one.key_type == "bytes" else text


def line_of(one: Table, key: Any, value: bytes, version: int) -> str:
    """Returns a line of dump. A key of bytes is in hexadecimal, as ``key_hex``."""
    line: dict[str, Any] = {"key_hex": key.hex()} if isinstance(key, bytes) else {"key": key}
    line["version"] = version
    if one.schema is not None:
        line["message"] = to_dict(one.message.decode(value))
    elif (text := text_of(value)) is not None:
        line["text"] = text
    else:
        line["data"] = value.hex()
    return json.dumps(line, ensure_ascii=False)


def text_of(value: bytes) -> str | None:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def parsed(one: Table, text: str) -> tuple[Any, bytes]:
    """Returns key and value of a line of dump. ValueError."""
    line = json.loads(text)
    if not isinstance(line, dict) or not line.keys() & {"key", "key_hex"}:
        raise ValueError("it is not an object with a key")
    if not line.keys() & {"text", "data", "message"}:
        raise ValueError("it has no text, data or message")
    key = bytes.fromhex(line["key_hex"]) if "key_hex" in line else line["key"]
    if "message" in line:
        return key, bytes(from_dict(one.message, line["message"]))
    return key, line["text"].encode() if "text" in line else bytes.fromhex(line["data"])


def print_line(one: Table, key: Any, value: bytes, version: int) -> None:
    print(line_of(one, key, value, version), flush=True)


# Verbs


def ls(options: argparse.Namespace) -> int:
    folder = options.folder or os.path.dirname(table_path("any"))
    found, status = [], 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith(SUFFIX) or name.startswith("."):
            continue
        try:
            with opened(os.path.join(folder, name)) as one:
                try:
                    found.append({"name": name.removesuffix(SUFFIX), **asdict(one.stats()), "key_type": one.key_type})
                except NeedsRecoveryError as error:
                    found.append({"name": name.removesuffix(SUFFIX), "error": str(error)})
        except (FlyringError, OSError) as error:
            found.append({"name": name.removesuffix(SUFFIX), "error": str(error)})
            status = 1
    if options.json:
        print_json({"tables": found})
        return status
    for line in found:
        if "error" in line:
            print(printable(f"{line['name']}  {line['error']}"))
        else:
            writer = f"writer {line['writer_name']!r} (pid {line['writer_pid']})" if line["has_writer"] else "no writer"
            print(printable(f"{line['name']}  {line['key_type']}  {line['size']} of {line['capacity']} keys  {writer}"))
    return status


def info(options: argparse.Namespace) -> int:
    with opened(options.name) as one:
        header, stats = one.header, one.stats()
        shown: dict[str, Any] = {
            **asdict(stats),
            "id": str(one.id),
            "key_type": header.key_type,
            "key_bytes": header.key_bytes,
            "value_bytes": header.value_bytes,
            "checked": header.checked,
            "cells": header.cells,
            "file_length": header.file_length,
            "created_at": header.created_at,
            "message": one.message.NAME if one.schema is not None else None,
        }
    if options.json:
        print_json(shown)
        return 0
    for name, value in shown.items():
        print(printable(f"{name:14} {value}"))
    if stats.has_writer and stats.writer_since:
        print(f"the writer has the table for {(time.time_ns() - stats.writer_since) / 1e9:.0f} s")
    return 0


def get(options: argparse.Namespace) -> int:
    if not options.keys:
        return dump(options)
    status = 0
    with opened(options.name) as one:
        for text in options.keys:
            key = parse_key(one, text)
            found = one.get_versioned(key)
            if found is None:
                print(f"flyring: there is no key {printable(text)!r}", file=sys.stderr)
                status = 1
            else:
                print_line(one, key, *found)
    return status


def dump(options: argparse.Namespace) -> int:
    with opened(options.name) as one:
        for key, value, version in one._each():
            print_line(one, key, value, version)
    return 0


def put(options: argparse.Namespace) -> int:
    with opened(options.name, read_only=False) as one:
        if options.hex:
            value = bytes.fromhex(options.value)
        elif one.schema is not None:
            value = bytes(from_dict(one.message, json.loads(options.value)))
        else:
            value = options.value.encode()
        print(one.put(parse_key(one, options.key), value, timeout=PATIENCE))
    return 0


def remove(options: argparse.Namespace) -> int:
    status = 0
    with opened(options.name, read_only=False) as one:
        for text in options.keys:
            if not one.remove(parse_key(one, text), timeout=PATIENCE):
                print(f"flyring: there is no key {printable(text)!r}", file=sys.stderr)
                status = 1
    return status


def load(options: argparse.Namespace) -> int:
    status = count = 0
    with opened(options.name, read_only=False) as one, one.writer("flyring-load", timeout=PATIENCE) as writer:
        for number, text in enumerate(lines(options.file), 1):
            try:
                key, value = parsed(one, text)
                writer.put(key, value)
                count += 1
            except (ValueError, KeyError, TypeError, FlyringError) as error:
                print(f"flyring: line {number}: {printable(str(error) or repr(error))}", file=sys.stderr)
                status = 1
    print(f"put {count} keys")
    return status


def lines(file: str | None) -> Iterator[str]:
    if file is None:
        yield from (line for line in sys.stdin if line.strip())
        return
    with open(file, encoding="utf-8") as text:
        yield from (line for line in text if line.strip())


def watch(options: argparse.Namespace) -> int:
    with opened_for_waiting(options.name) as one:
        wanted = [parse_key(one, text) for text in options.keys]
        seen: dict[Any, int] = {}
        left = options.count
        while left is None or left > 0:
            before = one.version
            now = {key: (value, version) for key, value, version in one._each() if not wanted or key in wanted}
            gone = [key for key in seen if key not in now]
            for key in gone:
                del seen[key]
                name = {"key_hex": key.hex()} if isinstance(key, bytes) else {"key": key}
                print(json.dumps({**name, "version": 0}, ensure_ascii=False), flush=True)
                left = None if left is None else left - 1
            for key, (value, version) in now.items():
                if seen.get(key) != version and (left is None or left > 0):
                    seen[key] = version
                    print_line(one, key, value, version)
                    left = None if left is None else left - 1
            if left is None or left > 0:
                one.wait_changed(before)
    return 0


def opened_for_waiting(name: str) -> Table:
    """Opens the table so that it sleeps, if this process may write to it."""
    try:
        return opened(name, read_only=False)
    except PermissionError:
        return opened(name)


def check(options: argparse.Namespace) -> int:
    with opened(options.name, read_only=False) as one:
        try:
            with one.writer("flyring-check", timeout=PATIENCE):
                broken = list(broken_rules(one))
        except NoFreeSlotError as error:
            raise FlyringError(f"a table is checked while no process writes: {error}") from error
    for rule in broken:
        print(printable(rule))
    print(f"{len(broken)} rules are broken" if broken else "no rule is broken")
    return 1 if broken else 0


def snapshot(options: argparse.Namespace) -> int:
    with opened(options.name) as one:
        path = options.path if "/" in options.path else f"./{options.path}"
        count = one.snapshot(path, any_file_system=options.any_file_system)
    print(f"wrote {count} keys to {printable(options.path)}")
    return 0


def grow(options: argparse.Namespace) -> int:
    with opened(options.name, read_only=False) as one:
        one.grow(options.capacity, timeout=PATIENCE)
        print(f"{printable(one.path)} takes {one.capacity} keys now")
    return 0


VERBS = {
    "ls": ls,
    "info": info,
    "get": get,
    "dump": dump,
    "put": put,
    "remove": remove,
    "load": load,
    "watch": watch,
    "check": check,
    "snapshot": snapshot,
    "grow": grow,
}
