# SPDX-License-Identifier: Apache-2.0
"""faster-fifo with custom serialisers (see its README, v1.3.1): bytes are passed unchanged, without pickle."""

from __future__ import annotations

import importlib.metadata
import queue
from typing import Any

import faster_fifo
from harness import Setup
from standard import Shared


class FasterFifo(Shared):
    """put and get."""

    many_producers = True
    send = "put(message)"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.receive = "got = get()"
        if setup.wait == "spin":
            self.receive = """
                while True:
                    try:
                        got = get_nowait()
                        break
                    except Empty:
                        pass
            """

    def make(self) -> Any:
        # Its default of 1 MB, or more, so that it holds as many messages as other queues.
        size = max(1_000_000, self.setup.slots * (self.setup.size + 8))
        return faster_fifo.Queue(size, loads=bytes, dumps=bytes)

    def names(self) -> dict[str, Any]:
        names = {"put": self.out.put, "get": self.into.get, "get_nowait": self.into.get_nowait, "Empty": queue.Empty}
        return names | {"get_many": self.into.get_many, "put_many": self.out.put_many}

    def version(self) -> str:
        return importlib.metadata.version("faster-fifo")


class FasterFifoMany(FasterFifo):
    """put_many with up to 64 messages per call, and get_many: "for the price of a single lock"."""

    scenarios = ("stream",)
    waits = ("block",)
    many_producers = False
    texts = {
        "produce": """
            start = clock()
            for left in range(n, 0, -batch):
                put_many(messages if left >= batch else messages[:left])
            result = clock() - start
            put(end)
        """,
        "consume": """
            number = first = start = ended = 0
            while not ended:
                some = get_many()
                if not start:
                    start, first = clock(), len(some)
                for got, expected in zip(some, arriving):
                    if not ({same}):
                        must_be_end(arriving.given() - 1, got)
                        ended = 1
                number += len(some)
            result = number - 1, number - 1 - first, clock() - start
        """,
    }

    def names(self) -> dict[str, Any]:
        messages = self.messages(0).whole
        return super().names() | {"messages": messages, "batch": len(messages)}
