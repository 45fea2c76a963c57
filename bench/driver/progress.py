# SPDX-License-Identifier: Apache-2.0
"""One line with the progress of a run and its remaining time."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Has an estimate for all steps, and corrects the rest by the times of the finished steps. On a terminal the line
    is overwritten; elsewhere a new line is printed every ten seconds."""

    def __init__(self, estimate: float) -> None:
        self.estimate = estimate
        self.done = 0.0
        self.taken = 0.0
        self.said = 0.0
        self.terminal = sys.stderr.isatty()

    @contextlib.contextmanager
    def step(self, seconds: float, what: str) -> Iterator[None]:
        self.show(what)
        start = time.monotonic()
        try:
            yield
        finally:
            self.taken += time.monotonic() - start
            self.done += seconds

    def more(self, seconds: float) -> None:
        """Adds a step."""
        self.estimate += seconds

    def left(self) -> float:
        """Returns the remaining seconds. The estimate counts as half a minute of measured time."""
        pace = (self.taken + 30) / (self.done + 30)
        return max(0.0, self.estimate - self.done) * pace

    def show(self, what: str) -> None:
        text = f"{100 * self.done / max(self.estimate, 1):3.0f} %, {minutes(self.left())} left · {what}"
        if self.terminal:
            sys.stderr.write(f"\r\x1b[K{text[:150]}")
            sys.stderr.flush()
        elif time.monotonic() - self.said >= 10:
            self.said = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Prints a text that stays on the screen."""
        print(("\r\x1b[K" if self.terminal else "") + text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.terminal:
            sys.stderr.write("\r\x1b[K")
