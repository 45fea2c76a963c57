# SPDX-License-Identifier: Apache-2.0
"""``flyring table create`` and ``rm``: make tables, and remove their names."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..errors import FlyringError, InvalidArgumentError
from ..sbe import Schema
from ..system import table_path
from ..table import Table
from .create import octal, size
from .report import print_json, printable, size_text
from .table_image import open_table

GIVEN = ("capacity", "key", "key_bytes", "value_bytes", "message", "checked", "mode")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds the options of ``Table.create``; their defaults are those of spec/api.md."""
    command.add_argument("--key", required=True, choices=("text", "bytes", "integer"), help="the type of the keys")
    command.add_argument("--capacity", required=True, metavar="K", type=int, help="how many keys fit")
    command.add_argument("--key-bytes", metavar="N", type=size, help="the longest key; default 32")
    command.add_argument("--value-bytes", metavar="N", type=size, help="the longest value, such as 48 or 4KiB")
    command.add_argument("--schema", metavar="FILE", help="an SBE schema")
    command.add_argument("--message", metavar="NAME", help="the message of the schema that each value is")
    command.add_argument(
        "--checked",
        action=argparse.BooleanOptionalAction,
        help="whether values have checksums, which a recovery after a power loss needs; default: on a disk",
    )
    command.add_argument("--mode", metavar="OCTAL", type=octal, help="permission bits of the file; default 0600")
    command.add_argument("--any-file-system", action="store_true", help="also allow file systems not known to work")
    command.add_argument("--replace", action="store_true", help="replace a table of that name")


def create(options: argparse.Namespace) -> int:
    given: Any = {name: value for name in GIVEN if (value := getattr(options, name)) is not None}
    if options.schema is not None:
        given["schema"] = Schema.load(options.schema)
    elif options.value_bytes is None:
        raise InvalidArgumentError("value-bytes", "give the longest value, such as --value-bytes 48")
    if options.any_file_system:
        given["any_file_system"] = True
    with (Table.replace if options.replace else Table.create)(options.name, **given) as one:
        length, header = one.header.file_length, one.header
    if options.json:
        print_json({"path": one.path, "id": str(one.id), "capacity": header.capacity, "file_length": length})
    else:
        print(f"{printable(one.path)}: {header.capacity} {header.key_type} keys, {size_text(length)}")
    return 0


def rm(options: argparse.Namespace) -> int:
    """Removes names. If the first name exists and another one does not, removes nothing: the user may have meant
    ``remove``, which removes keys."""
    paths = [table_path(name) for name in options.names]
    if len(paths) > 1 and os.path.exists(paths[0]):
        for name, path in zip(options.names[1:], paths[1:], strict=True):
            if not os.path.exists(path):
                what = f"there is no table {name!r}, so none is removed"
                do = f"a key is removed by: flyring table remove {options.names[0]} {name}"
                raise InvalidArgumentError("name", f"{what}; {do}")
    done = [remove(path, options.force) for path in paths]
    if options.json:
        print_json({"tables": done})
    for one in done:
        if one["error"] is not None:
            print(f"flyring: {printable(str(one['error']))}", file=sys.stderr)
        elif not options.json:
            print(f"{printable(str(one['path']))}: removed")
    return 1 if any(one["error"] is not None for one in done) else 0


def remove(path: str, force: bool) -> dict[str, str | None]:
    try:
        if not force and (writer := held_by(path)):
            return {"path": path, "error": f"{path} is in use by {writer}; stop it, or give --force"}
        Table.unlink(path)
    except (FlyringError, OSError) as error:
        return {"path": path, "error": str(error)}
    return {"path": path, "error": None}


def held_by(path: str) -> str:
    """Returns the writer of a table as text; empty if there is none, or the file is not a valid table."""
    try:
        with open_table(path) as image:
            stats = image.stats()
    except FlyringError:
        return ""
    return f"its writer {stats.writer or 'without a name'} (pid {stats.pid})" if stats.writing else ""
