# SPDX-License-Identifier: Apache-2.0
"""Two programs of bench/journal.py: a writer that is killed, and one that takes its place."""

from __future__ import annotations

import signal
import sys
import time

import flyring
from harness import Setup, answer

MOST_BYTES = 4 << 30


def run(setup: Setup) -> None:
    if setup.producer:
        append_until_killed(setup.dir)
    else:
        take_over()


def append_until_killed(path: str) -> None:
    """Appends to the journal until it is killed, or has appended 4 GiB."""
    with flyring.Journal.open_or_create(path) as journal, journal.writer("bench") as writer:
        message = bytes(32)
        writer.append(message)
        answer({"opened": True})
        while writer.position < MOST_BYTES:
            writer.append(message)
        while True:
            signal.pause()


def take_over() -> None:
    """For each path on standard input: takes the writer's slot of that journal, and appends a message."""
    answer({"opened": True})
    for line in sys.stdin:
        start = time.perf_counter_ns()
        with flyring.Journal.open(line.strip()) as journal, journal.writer("bench") as writer:
            writer.append(b"after the kill")
            ns = time.perf_counter_ns() - start
            before = writer.number - 1
        answer({"ns": ns, "messages": before})
