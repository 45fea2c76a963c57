# SPDX-License-Identifier: Apache-2.0
"""``flyring table ls`` and ``info``: what tables hold. Both only read. They also work for a table that needs
recovery."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from typing import Any

from ..errors import FlyringError, NoSuchChannelError
from ..sbe import Schema
from ..sbe.errors import SbeError
from ..system import default_folder
from ..table_stats import TableStats
from .ls import entries
from .report import age_text, print_json, printable, size_text, table, time_text
from .table_image import SUFFIX, TableImage, open_table

VERSION = 1
"""The version of the JSON document of ``info``. It grows if a field changes its meaning or is removed, not if a field
is added."""
# The header fields that the JSON documents show.
FILE = ("key_type", "key_bytes", "value_bytes", "checked", "minor", "created_at", "file_length", "cells", "cell_stride",
        "schema_length", "schema_id", "schema_version")  # fmt: skip


def ls(options: argparse.Namespace) -> int:
    """Runs ``flyring table ls``. Returns the exit status: 1 if a file is not a valid table."""
    folder = options.folder or os.environ.get("FLYRING_DIR") or default_folder()
    tables: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for name in sorted(entries(folder, must_exist=options.folder is not None, suffix=SUFFIX)):
        path = os.path.join(os.path.abspath(folder), name)
        title = name.removesuffix(SUFFIX)
        try:
            with open_table(path) as image:
                tables.append({"name": title, **described(image)})
        except NoSuchChannelError:
            continue  # unlinked meanwhile
        except FlyringError as error:
            others.append({"name": title, "path": path, "code": error.code, "reason": str(error)})
    if options.json:
        print_json({"folder": folder, "tables": tables, "not_whole": others})
        return 1 if others else 0
    if not tables and not others:
        print(f"there is no table in {printable(folder)}")
    if tables:
        titles = ("NAME", "KEY", "KEYS", "CAPACITY", "VALUE", "SIZE", "CHANGES", "WRITER", "AGE")
        print(table(titles, [row(one) for one in tables]))
    for one in others:
        print(f"not valid: {printable(one['reason'])}")
    return 1 if others else 0


def row(one: dict[str, Any]) -> tuple[object, ...]:
    """The columns of one table in the list."""
    key = one["key_type"] if one["key_type"] == "integer" else f"{one['key_type']} {one['key_bytes']}"
    writer = f"{one['writer'] or 'no name'} (pid {one['pid']})" if one["writing"] else "-"
    return (
        one["name"],
        key,
        one["size"],
        one["capacity"],
        size_text(one["value_bytes"]),
        size_text(one["file_length"]),
        one["version"],
        "NEEDS RECOVERY" if one["needs_recovery"] else writer,
        age_text(one["created_at"]),
    )


def described(image: TableImage) -> dict[str, Any]:
    """Returns the statistics and some header fields as a dictionary. The header fields have their names in
    layout.toml."""
    stats = asdict(image.stats())
    return stats | {"id": str(stats["id"])} | {field: getattr(image.header, field) for field in FILE}


def info(options: argparse.Namespace) -> int:
    """Runs ``flyring table info``. Returns the exit status."""
    with open_table(options.name) as image:
        stats, document = image.stats(), described(image)
        document["message"] = message_name(image)
    if options.json:
        print_json({"version_of_document": VERSION, **document})
        return 0
    print(printable(stats.path))
    minor, created = document["minor"], time_text(document["created_at"])
    print(f"  id         {stats.id}, layout 1.{minor}, created {created}")
    longest = "" if document["key_type"] == "integer" else f" of up to {document['key_bytes']} bytes"
    print(f"  keys       {stats.size} of {stats.capacity}, {document['key_type']}{longest}")
    of = f"messages {document['message']}, " if document["message"] else ""
    sums = "with checksums" if document["checked"] else "without checksums"
    print(printable(f"  values     {of}up to {document['value_bytes']} bytes, {sums}"))
    print(f"  file       {size_text(document['file_length'])} ({document['file_length']} bytes)")
    print(f"  index      {stats.filled} of {stats.entries} entries used{rebuild_text(stats)}")
    print(f"  changes    {stats.version}; the writer's slot was taken {stats.epoch} times")
    print(printable(f"  writer     {writer_text(stats)}"))
    if stats.needs_recovery:
        do = (
            "; change it from any process, or run flyring table check, which recovers it"
            if document["checked"]
            else ", and without checksums it cannot be recovered; replace or unlink it"
        )
        print(f"  NEEDS RECOVERY: last changed before a reboot, and not closed with sync{do}")
    if stats.damaged:
        print(f"  damaged    {stats.damaged} values were lost in the last recovery")
    if stats.successor:
        what = "replaced   another table has the name" if stats.successor == 1 else "unlinked   the name was removed"
        print(f"  {what}; processes that have this file open still use it")
    return 0


def message_name(image: TableImage) -> str | None:
    """Returns the name of the values' message; None if the table has no schema, or a broken one."""
    header = image.header
    if not header.schema_length:
        return None
    text = os.pread(image.file.fileno(), header.schema_length, header.schema_offset)
    try:
        messages = Schema.parse(text.decode("utf-8", "replace")).messages
    except SbeError:
        return None
    return next((name for name, one in messages.items() if header.value_template == one.TEMPLATE_ID), None)


def rebuild_text(stats: TableStats) -> str:
    """How far the rebuild of the index is; empty if none is under way."""
    steps = 2 * stats.entries + 1
    return f", a rebuild is at {100 * stats.rebuild // steps} %" if 0 < stats.rebuild <= steps else ""


def writer_text(stats: TableStats) -> str:
    """Describes the present writer, or the last one."""
    process = f"{stats.writer or 'no name'} (pid {stats.pid})"
    last = f"; the last TableWriter was {process}" if stats.attached_at else ""
    if stats.writing:
        if not stats.attached_at:
            return "a process changes the table now"
        return f"{process}, for {(time.time_ns() - stats.attached_at) / 1e9:.0f} s"
    if stats.unfinished:
        return f"none; a process died during a change, which the next writer completes{last}"
    return f"none{last}"
