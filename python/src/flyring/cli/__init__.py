# SPDX-License-Identifier: Apache-2.0
"""The command ``flyring``, for people and scripts that operate channels (spec/api.md).

Exit status: 0: done, and no fault was found. 1: done, but a fault was found. 2: not possible, or wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from .. import layout
from ..errors import FlyringError
from . import call as calling
from . import create as creating
from . import journal as journals
from . import metrics as measuring
from . import monitor as monitoring
from . import ping as pinging
from . import record as recording
from . import replay as replaying
from . import table as tables
from . import top as topping
from .call import call
from .check import check
from .create import create
from .doctor import doctor
from .evict import evict
from .info import info
from .ls import ls
from .metrics import metrics
from .publish import publish
from .recover import recover
from .report import printable
from .rm import rm
from .sbe import add_arguments, sbe
from .table_image import hint
from .tail import tail
from .top import top as run_top

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
    if options.command in (
        "create",
        "ls",
        "top",
        "metrics",
        "doctor",
        "ping",
        "sbe",
        "monitor",
        "journal",
        "record",
        "replay",
    ):
        return ""
    if options.command == "table" and options.verb in ("create", "ls"):
        return ""
    return hint(options.command, getattr(options, "names", None) or [options.name])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    top = parser()
    options, rest = top.parse_known_args(arguments)
    if options.command == "call":  # argparse does not accept positional arguments after options
        options.fields += [word for word in rest if not word.startswith("-")]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def run(options: argparse.Namespace) -> int:
    match options.command:
        case "ls":
            return ls(options.folder, options.json)
        case "info":
            return info(options.name, options.json, options.fields)
        case "check":
            return check(options.name, options.json)
        case "recover":
            return recover(options.name, options.json)
        case "tail":
            return tail(
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
            return publish(options.name, options.file, options.as_name)
        case "call":
            return call(options)
        case "sbe":
            return sbe(options)
        case "table":
            return tables.table(options)
        case "journal":
            return journals.journal(options)
        case "record":
            return recording.record(options)
        case "replay":
            return replaying.replay(options)
        case "create":
            return create(options)
        case "metrics":
            return metrics(options)
        case "rm":
            return rm(options.names, options.force, options.json)
        case "ping":
            return pinging.ping(options)
        case "doctor":
            return doctor(options.folder, options.json)
        case "monitor":
            return monitoring.monitor(options)
        case "top":
            return run_top(options)
        case _:
            return evict(options.name, options.slot, options.json)


def parser() -> argparse.ArgumentParser:
    from .. import __version__

    top = argparse.ArgumentParser(
        prog="flyring",
        description="Shows, checks and manages Flyring channels: files through which processes pass messages.",
        epilog="Exit status: 0: no fault found; 1: a fault found (see each command); 2: not possible, or wrong usage. "
        "NAME is a channel's name or path.",
        allow_abbrev=False,
    )

    top.add_argument(
        "--version", action="version", version=f"flyring {__version__} (layout {layout.MAJOR}.{layout.MINOR})"
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        one.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        return one

    def line_command(name: str, text: str) -> argparse.ArgumentParser:
        """Adds a command without --json."""
        return commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)

    one = command("doctor", "say what of this machine does not suit, and what to do; status 1 if a line is BAD")
    one.add_argument("folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    pinging.add_arguments(command("ping", "measure round trips to another process; status 1 if it does not answer"))
    topping.add_arguments(command("top", "show rates, lags, blocked publishers, and owners that came and went, live"))
    monitoring.add_arguments(
        line_command("monitor", "watch hiccups of cores, heartbeats and probes; status 1 if a heartbeat is missed")
    )
    one = command("ls", "list the channels of a folder; status 1 if a .ring file is not a valid channel")
    one.add_argument("folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    one = command("info", "show header, slots, positions and counters; status 1 if the header is not valid")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--fields", action="store_true", help="also show every field of the file, by its layout name")
    one = command(
        "check",
        "check a file against the layout's rules, and show leftovers of dead owners; status 1 if a rule is broken",
    )
    one.add_argument("name", metavar="NAME")
    one = command(
        "recover",
        "free what dead owners hold, without touching live ones; status 1 if that was not possible everywhere",
    )
    one.add_argument("name", metavar="NAME")
    creating.add_arguments(command("create", "create a channel"))
    one = command("rm", "remove names of channels; status 1 if one was refused, such as one that is in use")
    one.add_argument("names", metavar="NAME", nargs="+")
    one.add_argument("--force", action="store_true", help="also remove channels that are in use")
    one = command("evict", "take a subscriber slot away from its owner, alive or dead")
    one.add_argument("name", metavar="NAME")
    one.add_argument("slot", metavar="SLOT", type=int, help="the number of the slot, as info shows it")
    one = line_command(
        "tail", "print the messages of a channel live, without holding publishers back; status 1 if messages were lost"
    )
    one.add_argument("name", metavar="NAME")
    one.add_argument("--table", action="store_true", help="print aligned columns instead of JSON lines")
    one.add_argument("--since-start", action="store_true", help="begin with the oldest message still in the ring")
    one.add_argument(
        "--message", metavar="NAME", action="append", default=[], help="only messages of this name; may be repeated"
    )
    one.add_argument(
        "--where",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="only messages whose FIELD has this VALUE; also != < <= > >=; a.b is a field of a composite; may be "
        "repeated",
    )
    one.add_argument("--count", metavar="N", type=int, help="end after N messages")
    one.add_argument("--ring", metavar="K", type=int, help="only messages of this ring")
    one.add_argument(
        "--read-only",
        action="store_true",
        help="open the channel for reading only; look for messages every millisecond instead of sleeping",
    )
    one = line_command("publish", "publish JSON lines in the format of tail; status 1 if a line was refused")
    one.add_argument("name", metavar="NAME")
    one.add_argument("file", nargs="?", metavar="FILE", help="default: standard input")
    one.add_argument("--name", dest="as_name", metavar="PUBLISHER", default="", help="the publisher's name")
    calling.add_arguments(
        line_command("call", "call a service, and print the answer as JSON; status 1 if the call ended without one")
    )
    measuring.add_arguments(
        line_command("metrics", "print statistics for Prometheus; status 1 if a channel is missing or not valid")
    )
    tables.add_arguments(
        line_command("table", "make, show, read, write, check and copy tables: the latest value of each key")
    )
    journals.add_arguments(
        line_command("journal", "list, show, check, read, trim, copy and export journals: history on disk")
    )
    recording.add_arguments(line_command("record", "record channels into a journal; status 1 if messages were lost"))
    replaying.add_arguments(
        line_command("replay", "publish the messages of a recording again; status 1 if some are damaged")
    )
    add_arguments(line_command("sbe", "generate a Python module from an SBE schema, or check the schema"))
    return top
