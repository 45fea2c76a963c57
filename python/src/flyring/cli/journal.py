# SPDX-License-Identifier: Apache-2.0
"""``flyring journal``: lists, shows, checks, reads, trims, removes and exports journals (spec/api.md, Journal)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .. import layout
from .._core import JournalMessage
from ..errors import DamagedError, FlyringError, InvalidArgumentError
from ..journal import Journal
from ..journal_recover import walk_proven
from ..journal_seek import JournalStart
from ..system import journal_path
from . import journal_copy, journal_show
from .create import size
from .journal_ahead import ReadAhead
from .journal_damage import Damages
from .journal_lines import Choice, Texts, add_choice, add_range, chosen, iso, line_of, own_messages, time_of
from .report import print_json, printable, size_text


def add_arguments(command: argparse.ArgumentParser) -> None:
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, run: Callable[[argparse.Namespace], int], *, named: bool = True) -> Any:
        one = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        one.set_defaults(run=run)
        if named:
            one.add_argument("name", metavar="NAME", help="the journal's name or path")
        return one

    def with_json(one: Any) -> Any:
        one.add_argument("--json", action="store_true", help="print one JSON document instead of text")
        return one

    one = with_json(
        verb("ls", "list the journals of a folder; status 1 if a .journal folder is not one", journal_show.ls,
             named=False)
    )  # fmt: skip
    one.add_argument("folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    with_json(verb("info", "show what a journal holds: segments, writer, consumers, what is not synced",
                   journal_show.info))  # fmt: skip
    with_json(verb("check", "prove every record by its check; status 1 if one is damaged", check))
    one = verb("cat", "print messages as JSON lines; status 1 if some are damaged or were not decoded", cat)
    add_range(one)
    add_choice(one)
    one.add_argument("--count", metavar="N", type=int, help="end after N lines")
    one.add_argument("--follow", action="store_true", help="go on with what is appended, until Ctrl-C")
    one = with_json(verb("trim", "remove the oldest segments, but none that a consumer needs", trim))
    kind = one.add_mutually_exclusive_group(required=True)
    kind.add_argument("--consumed", action="store_true", help="what all consumers have consumed")
    kind.add_argument("--before", metavar="TIME", type=time_of, help="what is older than this time")
    kind.add_argument("--position", metavar="P", type=int, help="what lies before this position")
    kind.add_argument("--size", metavar="SIZE", type=size, help="until this many bytes are left, such as 256MiB")
    one = with_json(verb("rm", "remove journals with all their messages; status 1 if one was refused", rm, named=False))
    one.add_argument("names", metavar="NAME", nargs="+")
    one.add_argument("--force", action="store_true", help="also remove journals whose consumers are open")
    one = with_json(verb("copy", "copy a journal, also a live one up to its last check", journal_copy.copy))
    one.add_argument("path", metavar="PATH", help="the copy: a name, or a path")
    mcap = verb("mcap", "export to MCAP: decoded JSON with its JSON schema", to_mcap)
    parquet = verb("parquet", "export messages of one type with fields of fixed size to Parquet", to_parquet)
    for one in (mcap, parquet):
        one.add_argument("file", metavar="FILE", help="is made, or replaced when it is whole")
        with_json(one)
        add_range(one)
        add_choice(one)
    mcap.add_argument("--raw", action="store_true", help="keep the SBE messages as they are, with their SBE schema")


def journal(options: argparse.Namespace) -> int:
    """Runs the command."""
    status: int = options.run(options)
    return status


def opened(name: str) -> Journal:
    return Journal.open(name, read_only=True, any_file_system=True)


def check(options: argparse.Namespace) -> int:
    """Proves everything up to the end. Each damage is one line."""
    messages = 0

    def count(_: JournalMessage) -> None:
        nonlocal messages
        messages += 1

    with opened(options.name) as one:
        damages = Damages(one.path, tell=False)
        end = one.stats().published
        begin, start, cuts = one._files.trimmed, None, 0
        if one._files.is_of_this_boot():
            # What cannot begin is told by the reader.
            with suppress(FlyringError), ReadAhead(one._files, begin, end) as ahead:
                walked = walk_proven(one._files, ahead.progress, begin)
                start, messages, cuts = walked.end, walked.count - walked.begun, walked.cuts
        # The walk is that of the core. A reader tells of the rest: damages, and what has no check yet.
        with damages.reader(one, "oldest" if start is None else JournalStart.at_position(start)) as reader:
            while reader.position < end and reader.poll(count, 1 << 20):
                pass
            checked, cuts = reader.position - begin, cuts + reader.cuts
        path = one.path
    status = 1 if damages.found else 0
    if options.json:
        print_json({"path": path, "from": begin, "to": begin + checked, "messages": messages, "cuts": cuts,
                    "damages": [damage.json() for damage in damages.found]})  # fmt: skip
        return status
    print(printable(path))
    print(f"  {messages} messages, {size_text(checked)} from position {begin}")
    for damage in damages.found:
        print(f"  {damage}")
    if cuts:
        print(f"  {cuts} times a power loss or a failed sync took the end: what follows it is whole")
    print("  damaged" if damages.found else "  every check is right")
    return status


def cat(options: argparse.Namespace) -> int:
    texts = Texts()
    choice = Choice(options, texts)
    left = options.count
    if left is not None and left < 1:
        raise InvalidArgumentError("count", f"{left} must be 1 or more")
    with opened(options.name) as one:
        damages = Damages(one.path)
        lines = recorded_lines if one.header.content == layout.JOURNAL_CONTENT_RECORDING else own_lines
        unreadable = False
        try:
            for line in lines(one, options, choice, texts, damages):
                print(json.dumps(line), flush=options.follow)
                if left is not None:
                    left -= 1
                    if left == 0:
                        break
        except KeyboardInterrupt:
            if not options.follow:
                raise
        except DamagedError as error:  # of the place where it was to begin
            unreadable = True
            damages.say(str(error))
    if texts.not_decoded:
        print(f"flyring: not decoded: {texts.not_decoded} messages", file=sys.stderr)
    return 1 if damages or unreadable or texts.not_decoded else 0


def recorded_lines(one: Journal, options: argparse.Namespace, choice: Choice, texts: Texts, damages: Damages) -> Any:
    for item in chosen(one, options, choice, damages):
        yield line_of(item, texts)


def own_lines(one: Journal, options: argparse.Namespace, choice: Choice, texts: Texts, damages: Damages) -> Any:
    schema = texts.schema_of((one.schema or "").encode("utf-8"))
    for message in own_messages(one, options, damages):
        payload = bytes(message)
        content = texts.content(payload, message.type, schema)
        if choice.message(message.type, payload, schema, content):
            yield {"time": iso(message.time), "position": message.position, "number": message.number, **content}


def to_mcap(options: argparse.Namespace) -> int:
    from . import journal_export

    return journal_export.to_mcap(options)


def to_parquet(options: argparse.Namespace) -> int:
    from . import journal_export

    return journal_export.to_parquet(options)


def trim(options: argparse.Namespace) -> int:
    with Journal.open(options.name, any_file_system=True) as one:
        free = one.trim(consumed=options.consumed, position=options.position, before=options.before, size=options.size)
        path, trimmed = one.path, one.stats().trimmed
    if options.json:
        print_json({"path": path, "freed": free, "trimmed": trimmed})
    else:
        print(f"{printable(path)}: {size_text(free)} became free; it begins at position {trimmed}")
    return 0


def rm(options: argparse.Namespace) -> int:
    """Removes journals. One that has a writer is refused in any case: ``unlink`` takes the writer's slot."""
    done = [removed(name, options.force) for name in options.names]
    if options.json:
        print_json({"journals": done})
    for one in done:
        if one["error"] is not None:
            print(f"flyring: {printable(str(one['error']))}", file=sys.stderr)
        elif not options.json:
            print(f"{printable(str(one['path']))}: removed")
    return 1 if any(one["error"] is not None for one in done) else 0


def removed(name: str, force: bool) -> dict[str, str | None]:
    path = name
    try:
        path = journal_path(name)
        if not force and (users := consumers_of(path)):
            return {"path": path, "error": f"{path} is in use by {users}; stop them, or give --force"}
        Journal.unlink(path)
    except (FlyringError, OSError) as error:
        return {"path": path, "error": str(error)}
    return {"path": path, "error": None}


def consumers_of(path: str) -> str:
    """Returns the open consumers of a journal as text; empty if there are none, or it is not a valid journal."""
    try:
        with opened(path) as one:
            live = [f"consumer {c.name} (pid {c.pid})" for c in one.stats().consumers if c.live]
    except FlyringError:
        return ""
    return ", ".join(live[:8]) + (f" and {len(live) - 8} more" if len(live) > 8 else "")
