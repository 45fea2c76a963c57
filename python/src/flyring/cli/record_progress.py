# SPDX-License-Identifier: Apache-2.0
"""The progress of ``flyring record``: rates, losses, lag, and publishers that wait."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import Subscriber
from ..errors import FlyringError
from .report import printable, size_text

if TYPE_CHECKING:
    from .record import Session

QUIET_EVERY = 10  # times the interval: between two lines if standard error is no terminal


class Progress:
    def __init__(self, session: Session, options: argparse.Namespace) -> None:
        self.session, self.options = session, options
        self.terminal = sys.stderr.isatty()
        self.every = options.every if self.terminal or options.json else QUIET_EVERY * options.every
        self.at = self.began = time.monotonic()
        self.before = session.totals()
        self.width = 0

    def tick(self, now: float) -> None:
        if now - self.at >= self.every:
            self.show(now)

    def state(self, now: float) -> dict[str, Any]:
        messages, size, lost = self.session.totals()
        seconds = max(now - self.at, 1e-9)
        lag = lag_bytes = 0
        waiting = []
        for tap in self.session.taps:
            with suppress(FlyringError):
                stats = tap.channel.stats()
                cursors = {ring: (position, number) for ring, position, number in tap.recorder.cursors()}
                for one in stats.publishers:
                    position, number = cursors.get(one.slot, (one.published, one.messages))
                    lag_bytes += max(0, one.published - position)
                    lag += max(0, one.messages - number) if number >= 0 else 0
                    if one.blocked_for and isinstance(tap.reader, Subscriber) and tap.reader.slot in one.blocked_by:
                        waiting.append({"channel": tap.name, "ring": one.slot, "publisher": one.name,
                                        "seconds": round(one.blocked_for / 1e9, 3)})  # fmt: skip
        return {
            "channels": len(self.session.taps),
            "messages": messages,
            "bytes": size,
            "lost": lost,
            "messages_per_second": round((messages - self.before[0]) / seconds),
            "bytes_per_second": round((size - self.before[1]) / seconds),
            "lag": lag,
            "lag_bytes": lag_bytes,
            "waiting": waiting,
        }

    def show(self, now: float, last: bool = False) -> None:
        state = self.state(now)
        self.at, self.before = now, self.session.totals()
        if self.options.json:
            print(json.dumps({"time": time.time_ns(), "end": last, **state}), flush=True)
        elif not self.options.quiet:
            self.line(text(state), last)

    def line(self, line: str, last: bool) -> None:
        if not self.terminal:
            print(f"flyring: {line}", file=sys.stderr, flush=True)
            return
        print("\r" + line.ljust(self.width), end="\n" if last else "", file=sys.stderr, flush=True)
        self.width = len(line)

    def close(self) -> None:
        """The last line is about the whole time."""
        self.at, self.before = self.began, (0, 0, 0)
        self.show(time.monotonic(), last=True)


def text(state: dict[str, Any]) -> str:
    parts = [
        f"{state['messages']} messages, {size_text(state['bytes'])} of {state['channels']} channels",
        f"{state['messages_per_second']}/s, {size_text(state['bytes_per_second'])}/s",
        f"lost {state['lost']}",
        f"lag {state['lag']} ({size_text(state['lag_bytes'])})",
    ]
    if state["waiting"]:
        names = ", ".join(f"{one['publisher'] or one['ring']} of {one['channel']} for {one['seconds']} s"
                          for one in state["waiting"])  # fmt: skip
        parts.append(f"WAITING: {names}")
    return printable("; ".join(parts))
