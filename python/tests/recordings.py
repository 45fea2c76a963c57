# SPDX-License-Identifier: Apache-2.0
"""``flyring record`` as a process, and what a recording holds."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

from flyring import Channel, Journal, Publisher
from flyring.cli.recording import Lost, Recorded, recorded
from flyring.journal_stats import JournalStats

WAIT = 60.0  # s: a process that starts may wait long for a processor


class Command:
    """A command of flyring as a process."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flyring.cli", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )

    def end(self, number: int | None = signal.SIGINT) -> tuple[int, str, str]:
        """Ends the command. Returns its status and its output."""
        if number is not None:
            self.process.send_signal(number)
        out, error = self.process.communicate(timeout=WAIT)
        return self.process.returncode, out, error

    def kill(self) -> None:
        self.end(signal.SIGKILL)


def run(*arguments: object) -> tuple[int, str, str]:
    return Command(*arguments).end(None)


def lines(*arguments: object) -> list[dict[str, Any]]:
    status, out, error = run("journal", "cat", *arguments)
    assert status == 0, error
    return [json.loads(line) for line in out.splitlines()]


def until_kept(channel: Channel, name: str) -> None:
    """Waits until a process owns the kept slot, and has joined: `kept` is stored after the gates."""
    until(lambda: any(one.name == name and one.state == "live" and one.kept for one in channel.stats().subscribers))


def until(done: Any) -> None:
    end = time.monotonic() + WAIT
    while not done():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.002)


def stats(name: str) -> JournalStats:
    with Journal.open(name, read_only=True) as journal:
        return journal.stats()


def publish(publishers: list[Publisher], first: int, count: int) -> None:
    """Numbers as payloads; each publisher gets all of them."""
    for number in range(first, first + count):
        for publisher in publishers:
            publisher.send(number.to_bytes(8, "little") * (1 + number % 9), 1 + number % 3, timeout=WAIT)


def what_is_in(name: str) -> tuple[dict[tuple[str, str], list[int]], list[Lost]]:
    """The numbers of each channel and sender, in the order of the recording, and the losses."""
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    losses: list[Lost] = []
    with Journal.open(name, read_only=True) as journal:
        for one in recorded(journal):
            if isinstance(one, Recorded):
                number = int.from_bytes(one.payload[:8], "little")
                assert one.payload == number.to_bytes(8, "little") * (1 + number % 9)
                assert one.type == 1 + number % 3
                numbers[one.source.name, one.sender].append(number)
            else:
                losses.append(one)
    return numbers, losses


RANDOM = random.Random(27)
