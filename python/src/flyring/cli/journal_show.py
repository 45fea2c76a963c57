# SPDX-License-Identifier: Apache-2.0
"""``flyring journal ls`` and ``info``: what journals hold. Their only source is ``Journal.stats``."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from typing import Any

from ..errors import FlyringError, NoSuchChannelError
from ..journal import Journal
from ..journal_stats import JournalStats
from ..system import default_folder
from .ls import entries
from .report import age_text, print_json, printable, size_text, table, time_text

SUFFIX = ".journal"
VERSION = 1
"""The version of the JSON document of ``info``. It grows if a field changes its meaning or is removed."""


def described(one: Journal) -> dict[str, Any]:
    """The statistics, and what the file system has: as a dictionary for JSON."""
    stats = asdict(one.stats())
    room = os.statvfs(one.path)
    unsynced = max(0, stats["published"] - stats["synced"])
    return stats | {
        "id": str(stats["id"]),
        "created_at": one.created_at,
        "schema_length": len(one.schema or ""),
        "unsynced_bytes": unsynced if stats["unsynced_since"] else 0,
        "disk_free": room.f_bavail * room.f_frsize,
    }


def paths(folder: str, must_exist: bool = False) -> list[str]:
    found = sorted(entries(folder, must_exist=must_exist, suffix=SUFFIX))
    return [os.path.join(os.path.abspath(folder), name) for name in found]


def look(folder: str, must_exist: bool = False) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The journals of a folder, and the folders of that suffix that are none."""
    journals: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for path in paths(folder, must_exist):
        title = os.path.basename(path).removesuffix(SUFFIX)
        try:
            with Journal.open(path, read_only=True, any_file_system=True) as one:
                journals.append({"name": title, **described(one)})
        except NoSuchChannelError:
            continue  # unlinked meanwhile
        except FlyringError as error:
            others.append({"name": title, "path": path, "code": error.code, "reason": str(error)})
    return journals, others


def ls(options: argparse.Namespace) -> int:
    """Runs ``flyring journal ls``. Returns the exit status."""
    folder = options.folder or os.environ.get("FLYRING_DIR") or default_folder()
    journals, others = look(folder, options.folder is not None)
    if options.json:
        print_json({"folder": folder, "journals": journals, "not_whole": others})
        return 1 if others else 0
    if not journals and not others:
        print(f"there is no journal in {printable(folder)}")
    if journals:
        titles = ("NAME", "CONTENT", "MESSAGES", "SEGMENTS", "SIZE", "OLDEST", "NEWEST", "CONSUMERS", "WRITER")
        print(table(titles, [row(one) for one in journals]))
    for one in others:
        print(f"not valid: {printable(one['reason'])}")
    return 1 if others else 0


def row(one: dict[str, Any]) -> tuple[object, ...]:
    writer = f"{one['writer'] or 'no name'} (pid {one['pid']})" if one["writing"] else "-"
    return (
        one["name"],
        "recording" if one["content"] else "messages",
        one["messages"],
        one["segments"],
        size_text(one["bytes"]),
        age_text(one["oldest"]),
        age_text(one["newest"]),
        len(one["consumers"]),
        "NEEDS RECOVERY" if one["needs_recovery"] else "SYNC FAILED" if one["failed"] else writer,
    )


def info(options: argparse.Namespace) -> int:
    """Runs ``flyring journal info``."""
    with Journal.open(options.name, read_only=True, any_file_system=True) as one:
        stats, document = one.stats(), described(one)
    if options.json:
        print_json({"version_of_document": VERSION, **document})
        return 0
    print(printable(stats.path))
    print(f"  id         {stats.id}, created {time_text(document['created_at'])}")
    print(f"  content    {'a recording' if stats.content else 'messages'}: {stats.messages} "
          f"messages so far")  # fmt: skip
    print(f"  positions  {stats.trimmed} to {stats.published}, synced to {stats.synced}")
    segments = f"{stats.segments} segment{'' if stats.segments == 1 else 's'}"
    print(f"  files      {segments} of {size_text(stats.segment_size)}: {size_text(stats.bytes)}; "
          f"{size_text(document['disk_free'])} free")  # fmt: skip
    print(f"  times      oldest {time_text(stats.oldest)}, newest {time_text(stats.newest)}")
    print(f"  keeps      {limits(stats)}; sync {stats.sync if isinstance(stats.sync, str) else f'each {stats.sync} s'}")
    print(f"  not synced {unsynced(stats, document)}")
    who = f"{stats.writer or 'no name'} (pid {stats.pid})" if stats.writing else "none"
    print(printable(f"  writer     {who}, epoch {stats.epoch}; helper {'yes' if stats.helping else 'no'}"))
    if stats.needs_recovery:
        print("  NEEDS RECOVERY: it is of another boot; the next writer recovers it")
    if stats.failed:
        print("  SYNC FAILED: the next writer writes again what is not synced")
    if stats.consumers:
        titles = ("CONSUMER", "POSITION", "BEHIND", "BYTES", "LOST", "PID")
        rows = [(c.name, c.position, shown(c.behind), size_text(c.behind_bytes), shown(c.lost),
                 c.pid if c.live else "-") for c in stats.consumers]  # fmt: skip
        print(table(titles, rows))
    return 0


def shown(value: int) -> object:
    return value if value >= 0 else "?"


def limits(stats: JournalStats) -> str:
    parts = []
    if stats.max_age:
        parts.append(f"{stats.max_age:g} s")
    if stats.max_size:
        parts.append(size_text(stats.max_size))
    if stats.trim_consumed:
        parts.append("what a consumer needs")
    return ", ".join(parts) or "everything"


def unsynced(stats: JournalStats, document: dict[str, Any]) -> str:
    if not stats.unsynced_since:
        return "nothing"
    age = max(0, time.time_ns() - stats.unsynced_since) / 1e9
    return f"{size_text(document['unsynced_bytes'])} for {age:.3g} s"
