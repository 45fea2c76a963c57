# SPDX-License-Identifier: Apache-2.0
"""The slices of scenario jobs (PEER.md): each job goes to one of the workers. A contender with jobs has three methods.

A worker keeps its jobs, and checks them after the slice: every byte, and that the numbers rise.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any, Protocol

import words
from harness import FACTOR, WORD, BenchError, Setup

WAIT = 0.002  # seconds
Handler = Callable[[Any], None]


class HasJobs(Protocol):
    setup: Setup

    def put(self) -> Callable[[bytes], Any]:
        """Returns a function that sends a job, and sleeps while there is no room."""

    def look(self) -> Callable[[Handler], int]:
        """Returns a function that hands out the waiting jobs, and returns how many."""

    def look_within(self, handler: Handler, seconds: float) -> int:
        """Hands out jobs; sleeps until there is one, or the time is up."""


def message(number: int, size: int) -> bytes:
    rest = [(number + i) * FACTOR & WORD for i in range(1, size // 8)]
    return struct.pack(f"<{size // 8}Q", number, *rest)


class Jobs:
    def __init__(self, contender: HasJobs) -> None:
        setup = contender.setup
        self.contender = contender
        self.size = setup.size
        self.words = words.mapped(setup)
        self.workers = int(setup.options.get("workers", 1))
        self.mine = words.FIRST + setup.number * words.LINE
        self.job = int(setup.options.get("job", 0))
        self.messages: list[bytes] = []
        self.slices = 0

    def send(self, n: int) -> int:
        """Sends n jobs. Returns the ns until all are done, not only in the queue."""
        self.messages += [message(i, self.size) for i in range(len(self.messages), n)]
        put, clock, mine = self.contender.put(), time.perf_counter_ns, self.messages[:n]
        start = clock()
        for each in mine:
            put(each)
        self.slices += 1
        self.words[words.SENT] += n
        self.words[words.SLICES] = self.slices
        while self.all_done() != self.words[words.SENT]:
            time.sleep(0.001)
        return clock() - start

    def work(self) -> dict[str, Any]:
        self.slices += 1
        look, clock, page = self.contender.look(), time.perf_counter_ns, self.words
        got: list[bytes] = []
        handler = self.handler(got)
        before = page[self.mine]
        start = end = noted = 0

        def first(job: Any) -> None:
            nonlocal start, now
            start = clock()
            now = handler
            handler(job)

        now = first
        while True:
            while look(now):
                pass
            if len(got) != noted:
                end, noted = clock(), len(got)
                page[self.mine] = before + noted
            if page[words.SLICES] == self.slices and self.all_done() == page[words.SENT]:
                break
            self.contender.look_within(now, WAIT)
        numbers = [struct.unpack_from("<Q", each)[0] for each in got]
        for number, after, each in zip(numbers, [*numbers[1:], WORD], got, strict=False):
            if number >= after or each != message(number, self.size):
                raise BenchError(f"job {number} came before {after}, or has wrong bytes: {each.hex()}")
        squares = sum(number * number for number in numbers) & WORD
        counted = {"count": len(got), "sum": sum(numbers) & WORD, "squares": squares}
        return {"kind": "mean", "start": start, "end": end, **counted}

    def handler(self, got: list[bytes]) -> Handler:
        append, clock, ns = got.append, time.perf_counter_ns, self.job

        def keep(job: Any) -> None:
            append(bytes(job))

        def keep_and_work(job: Any) -> None:
            append(bytes(job))
            due = clock() + ns
            while clock() < due:
                pass

        return keep_and_work if ns else keep

    def all_done(self) -> int:
        return sum(self.words[words.FIRST + k * words.LINE] for k in range(self.workers))
