# SPDX-License-Identifier: Apache-2.0
"""``flyring create``: makes a channel (spec/channel.md 3.2)."""

from __future__ import annotations

import argparse
import re

from ..channel import Channel
from ..sbe import Schema
from .report import print_json, printable, size_text

UNITS = {"": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
NUMBERS = ("publishers", "subscribers", "producers", "workers", "clients", "max-outstanding", "alignment", "counters")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds the options of ``Channel.create``; their defaults are those of spec/api.md."""
    command.add_argument("name", metavar="NAME")
    command.add_argument("--kind", required=True, choices=("inbox", "broadcast", "queue", "service"))
    command.add_argument(
        "--capacity", metavar="BYTES", type=size, help="the size of each ring, a power of two, such as 65536 or 64KiB"
    )
    for name in NUMBERS:
        command.add_argument(f"--{name}", metavar="N", type=int)
    command.add_argument("--delivery", choices=("at-most-once", "at-least-once"), help="services only")
    command.add_argument(
        "--foreign", choices=("publisher", "subscriber"), help="the end at which a stock Agrona process is"
    )
    command.add_argument("--schema", metavar="FILE", help="an SBE schema")
    command.add_argument("--mode", metavar="OCTAL", type=octal, help="permission bits of the file; default 0600")
    command.add_argument("--any-file-system", action="store_true", help="also allow file systems not known to work")


def size(text: str) -> int:
    """Parses a size like ``4096``, ``1MiB`` or, in short, ``1M``; returns bytes."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 65536, 64KiB, 1MiB or 1GiB")
    return int(match[1]) * UNITS[match[2]]


def octal(text: str) -> int:
    try:
        return int(text, 8)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an octal number; write 0600 or 0660") from None


def create(options: argparse.Namespace) -> int:
    names = ("capacity", *(name.replace("-", "_") for name in NUMBERS), "delivery", "foreign", "mode")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.schema is not None:
        given["schema"] = Schema.load(options.schema)
    if options.any_file_system:
        given["any_file_system"] = True
    with Channel.create(options.name, options.kind, **given) as channel:
        length = channel.header.file_length
    if options.json:
        print_json({"path": channel.path, "id": str(channel.id), "kind": channel.kind, "file_length": length})
    else:
        print(f"{printable(channel.path)}: {channel.kind}, {size_text(length)}")
    return 0
