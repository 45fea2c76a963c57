# SPDX-License-Identifier: Apache-2.0
"""The command ``flyring``, for people and scripts that operate channels (spec/api.md).

Exit status: 0: done, and no fault was found. 1: done, but a fault was found. 2: not possible, or wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from .. import layout
from ..errors import FlyringError
from .report import printable

NOT_POSSIBLE = 2
NAMELESS = ("create", "ls", "top", "metrics", "doctor", "ping", "sbe", "monitor", "journal", "record", "replay")
"""Commands that do not take the name of an existing channel or table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status. ``arguments``: without the program's name (None: those of this
    process)."""
    options = parse(arguments)
    try:
        if text := wrong_kind(options):
            print(f"flyring: {text}", file=sys.stderr)
            return NOT_POSSIBLE
        status = run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's last flush does not fail
        return 0
    except KeyboardInterrupt:
        return 130
    except (FlyringError, OSError) as error:
        print(f"flyring: {printable(str(error))}", file=sys.stderr)
        return NOT_POSSIBLE
    return status


def wrong_kind(options: argparse.Namespace) -> str:
    """Returns what to do if a table was named where a channel is needed, or the other way round; else ""."""
    if options.command in NAMELESS or (options.command == "table" and options.verb in ("create", "ls")):
        return ""
    from .table_image import hint

    return hint(options.command, getattr(options, "names", None) or [options.name])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = sys.argv[1:] if arguments is None else arguments
    top = parser(next((word for word in words if not word.startswith("-")), ""))
    options, rest = top.parse_known_args(arguments)
    if options.command == "call":  # argparse does not accept positional arguments after options
        options.fields += [word for word in rest if not word.startswith("-")]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def run(options: argparse.Namespace) -> int:
    name = options.command
    status: int
    match name:
        case "ls":
            from .ls import ls

            status = ls(options.folder, options.json)
        case "info":
            from .info import info

            status = info(options.name, options.json, options.fields)
        case "check":
            from .check import check

            status = check(options.name, options.json)
        case "recover":
            from .recover import recover

            status = recover(options.name, options.json)
        case "tail":
            from .tail import tail

            status = tail(
                options.name,
                as_table=options.table,
                since_start=options.since_start,
                messages=options.message,
                where=options.where,
                count=options.count,
                ring=options.ring,
                read_only=options.read_only,
            )
        case "publish":
            from .publish import publish

            status = publish(options.name, options.file, options.as_name)
        case "rm":
            from .rm import rm

            status = rm(options.names, options.force, options.json)
        case "doctor":
            from .doctor import doctor

            status = doctor(options.folder, options.json)
        case "evict":
            from .evict import evict

            status = evict(options.name, options.slot, options.json)
        case _:
            status = getattr(module_of(name), name)(options)
    return status


def module_of(command: str) -> ModuleType:
    """The module of a command that has add_arguments, and a function of the command's name."""
    return import_module(f".{command}", __name__)


# Each command's text, and whether it has --json.
COMMANDS = {
    "doctor": ("say what of this machine does not suit, and what to do; status 1 if a line is BAD", True),
    "ping": ("measure round trips to another process; status 1 if it does not answer", True),
    "top": ("show rates, lags, blocked publishers, and owners that came and went, live", True),
    "monitor": ("watch hiccups of cores, heartbeats and probes; status 1 if a heartbeat is missed", False),
    "ls": ("list the channels of a folder; status 1 if a .ring file is not a valid channel", True),
    "info": ("show header, slots, positions and counters; status 1 if the header is not valid", True),
    "check": (
        "check a file against the layout's rules, and show leftovers of dead owners; status 1 if a rule is broken",
        True,
    ),
    "recover": (
        "free what dead owners hold, without touching live ones; status 1 if that was not possible everywhere",
        True,
    ),
    "create": ("create a channel", True),
    "rm": ("remove names of channels; status 1 if one was refused, such as one that is in use", True),
    "evict": ("take a subscriber slot away from its owner, alive or dead", True),
    "tail": (
        "print the messages of a channel live, without holding publishers back; status 1 if messages were lost",
        False,
    ),
    "publish": ("publish JSON lines in the format of tail; status 1 if a line was refused", False),
    "call": ("call a service, and print the answer as JSON; status 1 if the call ended without one", False),
    "metrics": (
        "print statistics for Prometheus; status 1 if a channel, table or journal is missing or not valid",
        False,
    ),
    "table": ("make, show, read, write, check and copy tables: the latest value of each key", False),
    "journal": ("list, show, check, read, trim, copy and export journals: history on disk", False),
    "record": ("record channels into a journal; status 1 if messages were lost", False),
    "replay": ("publish the messages of a recording again; status 1 if some are damaged", False),
    "sbe": ("generate a Python module from an SBE schema, or check the schema", False),
}


class Version(argparse.Action):
    """Looks the version up only when it is asked for, because that takes as long as half of the other imports."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from .. import __version__

        print(f"flyring {__version__} (layout {layout.MAJOR}.{layout.MINOR})")
        parser.exit()


def parser(command: str) -> argparse.ArgumentParser:
    """Makes the parser. Only this command has its arguments: those of the others would be imports for nothing."""
    top = argparse.ArgumentParser(
        prog="flyring",
        description="Shows, checks and manages Flyring's channels, tables and journals.",
        epilog="Exit status: 0: no fault found; 1: a fault found (see each command); 2: not possible, or wrong usage. "
        "NAME is the name or path of a channel, table or journal.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action=Version, nargs=0, help="show program's version number and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, has_json) in COMMANDS.items():
        one = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        if has_json:
            one.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        if name == command:
            add_arguments(name, one)
    return top


def add_arguments(name: str, one: argparse.ArgumentParser) -> None:
    match name:
        case "doctor" | "ls":
            one.add_argument(
                "folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>"
            )
        case "info":
            one.add_argument("name", metavar="NAME")
            one.add_argument(
                "--fields", action="store_true", help="also show every field of the file, by its layout name"
            )
        case "check" | "recover":
            one.add_argument("name", metavar="NAME")
        case "rm":
            one.add_argument("names", metavar="NAME", nargs="+")
            one.add_argument("--force", action="store_true", help="also remove channels that are in use")
        case "evict":
            one.add_argument("name", metavar="NAME")
            one.add_argument("slot", metavar="SLOT", type=int, help="the number of the slot, as info shows it")
        case "tail":
            one.add_argument("name", metavar="NAME")
            one.add_argument("--table", action="store_true", help="print aligned columns instead of JSON lines")
            one.add_argument(
                "--since-start", action="store_true", help="begin with the oldest message still in the ring"
            )
            one.add_argument(
                "--message", metavar="NAME", action="append", default=[],
                help="only messages of this name; may be repeated",
            )  # fmt: skip
            one.add_argument(
                "--where", metavar="FIELD=VALUE", action="append", default=[],
                help="only messages whose FIELD has this VALUE; also != < <= > >=; a.b is a field of a composite; may "
                "be repeated",
            )  # fmt: skip
            one.add_argument("--count", metavar="N", type=int, help="end after N messages")
            one.add_argument("--ring", metavar="K", type=int, help="only messages of this ring")
            one.add_argument(
                "--read-only",
                action="store_true",
                help="open the channel for reading only; look for messages every millisecond instead of sleeping",
            )
        case "publish":
            one.add_argument("name", metavar="NAME")
            one.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
            one.add_argument("--name", dest="as_name", metavar="PUBLISHER", default="", help="the publisher's name")
        case _:
            module_of(name).add_arguments(one)
