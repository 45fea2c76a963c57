# SPDX-License-Identifier: Apache-2.0
"""``flyring table``: makes, shows, reads, writes, checks, copies and removes tables (spec/api.md, Table)."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from ..errors import ChannelReplacedError, FlyringError, NoFreeSlotError
from ..table import Table
from ..table_check import broken_rules
from . import table_make, table_show
from .report import print_json, printable
from .table_lines import key_field, key_of, line_of, parsed, value_of

PATIENCE = 1.0  # s: how long a change waits for the writer's slot
TOLD = 0.5  # s: between two lines about a recovery


def add_arguments(command: argparse.ArgumentParser) -> None:
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, run: Callable[[argparse.Namespace], int], *, named: bool = True) -> Any:
        one = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        one.set_defaults(run=run)
        if named:
            one.add_argument("name", metavar="NAME", help="the table's name or path")
        return one

    def with_json(one: Any) -> Any:
        one.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        return one

    def with_keys(one: Any, number: str, text: str | None = None) -> Any:
        one.add_argument("keys", metavar="KEY", nargs=number, help=text)
        one.add_argument("--key-hex", action="store_true", help="keys are bytes in hexadecimal")
        return one

    table_make.add_arguments(with_json(verb("create", "make a table", table_make.create)))
    one = with_json(verb("rm", "remove names of tables; status 1 if one was refused", table_make.rm, named=False))
    one.add_argument("names", metavar="NAME", nargs="+")
    one.add_argument("--force", action="store_true", help="also remove tables that have a writer")
    one = with_json(
        verb("ls", "list the tables of a folder; status 1 if a .table file is not one", table_show.ls, named=False)
    )
    one.add_argument("folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    with_json(verb("info", "show what a table holds: keys, sizes, index, writer", table_show.info))
    with_keys(verb("get", "print values as JSON lines; status 1 if a key is absent", get), "*", "default: all keys")
    verb("dump", "print all keys and values as JSON lines, which load reads", dump)
    one = verb("put", "put a value, and print the key's new version", put)
    one.add_argument("key", metavar="KEY")
    one.add_argument("value", metavar="VALUE", help="text; with a schema: the message as JSON")
    one.add_argument("--hex", action="store_true", help="VALUE is bytes in hexadecimal")
    one.add_argument("--key-hex", action="store_true", help="KEY is bytes in hexadecimal")
    with_keys(verb("remove", "remove keys; status 1 if one is absent", remove), "+")
    one = verb("load", "put JSON lines in the format of dump; status 1 if a line was refused", load)
    one.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    one = with_keys(verb("watch", "print each change live, as JSON lines", watch), "*", "default: all keys")
    one.add_argument("--count", metavar="N", type=int, help="end after N lines")
    with_json(verb("check", "check a table against the layout's rules; status 1 if one is broken", check))
    one = with_json(verb("snapshot", "write a full copy of a table, and sync it", snapshot))
    one.add_argument("path", metavar="PATH", help="the copy; an older one is replaced in one step")
    one.add_argument("--every", metavar="SECONDS", type=float, help="again each SECONDS, until Ctrl-C")
    one.add_argument("--count", metavar="N", type=int, help="with --every: end after N copies")
    one = with_json(verb("grow", "replace a table's file by a larger one", grow))
    one.add_argument("capacity", metavar="CAPACITY", type=int, help="the new capacity, in keys")


def table(options: argparse.Namespace) -> int:
    """Runs the command. Warnings, such as that of a recovery, become lines on standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = lambda message, *_: print(f"flyring: {printable(str(message))}", file=sys.stderr)
        status: int = options.run(options)
    return status


def opened(name: str, read_only: bool = True) -> Table:
    return Table.open(name, read_only=read_only, any_file_system=True, recovery_progress=Progress(name))


class Progress:
    """Prints on standard error how far a recovery is, if it takes long."""

    def __init__(self, name: str) -> None:
        self.name, self.next = name, time.monotonic() + TOLD

    def __call__(self, done: int, every: int) -> None:
        now = time.monotonic()
        if now >= self.next:
            self.next = now + TOLD
            text = (
                f"flyring: recovers {printable(self.name)}: {done} of {every} cells ({100 * done // max(1, every)} %)"
            )
            print(text, file=sys.stderr, flush=True)


def no_key(key: str) -> None:
    print(f"flyring: there is no key {printable(key)!r}", file=sys.stderr)


def print_line(one: Table, key: Any, value: bytes, version: int) -> None:
    print(line_of(one, key, value, version), flush=True)


def get(options: argparse.Namespace) -> int:
    if not options.keys:
        return dump(options)
    status = 0
    with opened(options.name) as one:
        keys = [(text, key_of(one, text, options.key_hex)) for text in options.keys]
        for text, key in keys:
            found = one.get_versioned(key)
            if found is None:
                no_key(text)
                status = 1
            else:
                print_line(one, key, *found)
    return status


def dump(options: argparse.Namespace) -> int:
    with opened(options.name) as one:
        for key, value, version in one._each():
            print(line_of(one, key, value, version))
    return 0


def put(options: argparse.Namespace) -> int:
    with opened(options.name, read_only=False) as one:
        value = value_of(one, options.value, options.hex)
        print(one.put(key_of(one, options.key, options.key_hex), value, timeout=PATIENCE))
    return 0


def remove(options: argparse.Namespace) -> int:
    status = 0
    with opened(options.name, read_only=False) as one:
        keys = [(text, key_of(one, text, options.key_hex)) for text in options.keys]
        for text, key in keys:
            if not one.remove(key, timeout=PATIENCE):
                no_key(text)
                status = 1
    return status


def load(options: argparse.Namespace) -> int:
    refused = count = 0
    with (
        opened(options.name, read_only=False) as one,
        open(options.file, encoding="utf-8", errors="surrogateescape")
        if options.file
        else nullcontext(sys.stdin) as text,
        one.writer("flyring-load", timeout=PATIENCE) as writer,
    ):
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                writer.put(*parsed(one, line))
                count += 1
            except (ValueError, KeyError, TypeError, AttributeError, FlyringError) as error:
                what = printable(str(error) or repr(error))
                print(f"flyring: line {number} is refused: {what}", file=sys.stderr, flush=True)
                refused += 1
    print(f"put {count} key{'s' * (count != 1)}")
    if refused:
        print(f"flyring: {refused} {'line was' if refused == 1 else 'lines were'} refused", file=sys.stderr)
    return 1 if refused else 0


def watch(options: argparse.Namespace) -> int:
    """Prints the present keys, and then each change. Returns status 1 if another table gets the name."""
    with opened_for_waiting(options.name) as one:
        keys = [key_of(one, text, options.key_hex) for text in options.keys]
        seen: dict[Any, int] = {}
        left = options.count
        while True:
            before = one.version
            for key, line in changes(one, keys, seen):
                if left is not None and left <= 0:
                    return 0
                print(line, flush=True)
                left = None if left is None else left - 1
                del key
            if left is not None and left <= 0:
                return 0
            try:
                one.wait_changed(before)
            except ChannelReplacedError as error:
                print(f"flyring: {printable(str(error))}", file=sys.stderr)
                return 1


def changes(one: Table, keys: list[Any], seen: dict[Any, int]) -> Iterator[tuple[Any, str]]:
    """Yields the keys that have another version than in ``seen``, with their lines, and brings ``seen`` up to date."""
    there = set()
    for key, value, version in some_of(one, keys) if keys else one._each():
        there.add(key)
        if seen.get(key) != version:
            seen[key] = version
            yield key, line_of(one, key, value, version)
    for key in [key for key in seen if key not in there]:
        del seen[key]
        yield key, json.dumps({**key_field(key), "version": 0}, ensure_ascii=False)


def some_of(one: Table, keys: list[Any]) -> Iterator[tuple[Any, bytes, int]]:
    for key in keys:
        if (found := one.get_versioned(key)) is not None:
            yield key, *found


def opened_for_waiting(name: str) -> Table:
    """Opens the table for writing, so that a wait can sleep until it is woken. If this process may not write to it,
    opens it for reading only; then a wait looks each millisecond."""
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
            raise FlyringError(f"a table can be checked only while no process writes: {error}") from error
        if options.json:
            print_json({"path": one.path, "broken": len(broken), "findings": broken})
    if not options.json:
        for rule in broken:
            print(printable(rule))
        print(f"{len(broken)} rules of spec/table.md are broken" if broken else "no rule is broken")
    return 1 if broken else 0


def snapshot(options: argparse.Namespace) -> int:
    """Writes one copy, or with ``--every`` one at each interval. There, if a copy fails, prints the error and goes on;
    the status is 1 at the end."""
    if options.every is None:
        copy(options)
        return 0
    status, made, due = 0, 0, time.monotonic()
    while True:
        try:
            copy(options)
        except (FlyringError, OSError) as error:
            print(f"flyring: {printable(str(error))}", file=sys.stderr, flush=True)
            status = 1
        made += 1
        if options.count is not None and made >= options.count:
            return status
        due = max(due + options.every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def copy(options: argparse.Namespace) -> None:
    with opened(options.name) as one:  # opened for each copy: another table may have the name
        path = options.path if "/" in options.path else f"./{options.path}"
        begun = time.monotonic()
        count = one.snapshot(path)
    took = time.monotonic() - begun
    if options.json:
        print_json({"path": path, "keys": count, "seconds": round(took, 3)})
    else:
        print(f"wrote {count} keys to {printable(options.path)} in {took:.2f} s", flush=True)


def grow(options: argparse.Namespace) -> int:
    with opened(options.name, read_only=False) as one:
        one.grow(options.capacity, timeout=PATIENCE)
        if options.json:
            print_json({"path": one.path, "capacity": one.capacity})
        else:
            print(f"{printable(one.path)} takes {one.capacity} keys now")
    return 0
