# SPDX-License-Identifier: Apache-2.0
"""``flyring publish``: publishes JSON lines in the format of ``flyring tail`` (spec/api.md, spec/messages.md 4)."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import BinaryIO

from .. import Channel
from ..errors import InvalidArgumentError, MessageTooLargeError
from ..sbe import Schema
from ..sbe.errors import SbeError
from .lines import RefusedLineError, parse_line
from .report import printable


def publish(name: str, file: str | None, as_name: str = "") -> int:
    """Runs the command. Prints each refused line's number and the reason, publishes the others, and returns status 1 if
    a line was refused."""
    with Channel.open(name) as channel:
        schema = Schema.of(channel) if channel.schema is not None else None
        with open(file, "rb") if file is not None else nullcontext(sys.stdin.buffer) as lines:
            return _publish(channel, schema, lines, as_name)


def _publish(channel: Channel, schema: Schema | None, lines: BinaryIO, as_name: str) -> int:
    refused = 0
    with channel.publisher(as_name) as publisher:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                payload, kind = parse_line(line, schema)
                publisher.send(payload, kind)
            except (RefusedLineError, SbeError, MessageTooLargeError, InvalidArgumentError) as error:
                refused += 1
                print(f"flyring: line {number} is refused: {printable(str(error))}", file=sys.stderr, flush=True)
    if refused:
        print(f"flyring: {refused} {'line was' if refused == 1 else 'lines were'} refused", file=sys.stderr)
    return 1 if refused else 0
