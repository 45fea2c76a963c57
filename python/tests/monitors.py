# SPDX-License-Identifier: Apache-2.0
"""``flyring monitor`` in a process of its own, for the tests that read its lines."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar


class Monitor:
    """Runs until ``end``; all lines that it has printed so far are in ``lines``."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "flyring.cli", "monitor", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []

    def until(self, wanted: Callable[[str], object], what: str) -> str:
        """Reads lines up to one that is wanted, and returns that one. ``what``: for the error text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if wanted(line):
                return line
        raise AssertionError(f"there is no line with {what!r}: {self.lines}")

    def end(self) -> int:
        """Ends it as Ctrl-C does, reads the rest, and returns the exit status."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        self.lines += [line.rstrip() for line in self.process.stdout]
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


Started = TypeVar("Started", bound=Monitor)


@contextmanager
def started(kind: Callable[..., Started]) -> Iterator[Callable[..., Started]]:
    """Yields a function that starts monitors; all of them are killed at the end."""
    every: list[Started] = []

    def start(*arguments: str) -> Started:
        every.append(kind(*arguments))
        return every[-1]

    try:
        yield start
    finally:
        for one in every:
            one.kill()
