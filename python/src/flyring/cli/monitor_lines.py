# SPDX-License-Identifier: Apache-2.0
"""The lines of ``flyring monitor`` about outliers, each with a limit on how often it repeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from .curve import text
from .report import printable


@dataclass
class Left:
    """What was left out since the last line of a kind."""

    printed: float
    count: int = 0
    longest: float = 0


class Lines:
    """Prints a line for each outlier. Of each kind at most one in ``repeat`` seconds; the next one says how many were
    left out, and the longest of them."""

    def __init__(self, show: Callable[[str], object], repeat: float) -> None:
        self._show, self._repeat = show, repeat
        self._kinds: dict[str, Left] = {}

    def add(self, kind: str, line: str, value: float = 0) -> None:
        """``kind``: lines of one kind are about the same thing, such as a core. ``value``: the outlier's, in ns."""
        now = time.monotonic()
        left = self._kinds.get(kind)
        if left is not None and now - left.printed < self._repeat:
            left.count += 1
            left.longest = max(left.longest, value)
            return
        self._print(line, left)
        self._kinds[kind] = Left(now)

    def close(self) -> None:
        """Says how many lines were left out at the end."""
        for kind, left in self._kinds.items():
            if left.count:
                self._print(f"{kind}:", left)
        self._kinds.clear()

    def _print(self, line: str, left: Left | None) -> None:
        if left is not None and left.count:
            longest = f", the longest {text(left.longest)}" if left.longest else ""
            line += f" ({left.count} more line{'s' * (left.count != 1)} like this left out{longest})"
        self._show(f"{time.strftime('%H:%M:%S')} {printable(line)}")
