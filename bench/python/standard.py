# SPDX-License-Identifier: Apache-2.0
"""The standard library: multiprocessing.Pipe, Queue and SimpleQueue."""

from __future__ import annotations

import multiprocessing
import platform
import queue
from collections.abc import Callable
from typing import Any

from handover import Handover
from harness import Contender, Setup


class Shared(Contender):
    """Side b makes the shared objects: `into` leads to the consumer (the server), `back` to the client."""

    waits = ("block", "spin")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.handover = Handover(setup)
        self.both = (self.make(), self.make()) if setup.side == "b" else None

    def make(self) -> Any:
        raise NotImplementedError

    def connect(self) -> None:
        if self.both:
            self.handover.give(self.both)
        else:
            self.both = self.handover.take()
        into, back = self.both
        self.out, self.into = (into, back) if self.setup.producer else (back, into)

    def version(self) -> str:
        return f"Python {platform.python_version()}"


class Pipe(Shared):
    """send_bytes and recv_bytes, without pickle. Each direction has a pipe, or, for large messages, a duplex Pipe,
    which is a socket pair; each is faster for its sizes."""

    send = "send_bytes(message)"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        wait = "while not arrived():\n    pass\n" if setup.wait == "spin" else ""
        self.receive = wait + "got = recv_bytes()"

    def make(self) -> Any:
        return multiprocessing.Pipe(duplex=self.setup.size >= 65536)

    def names(self) -> dict[str, Any]:
        reader, writer = self.into[0], self.out[1]
        return {"send_bytes": writer.send_bytes, "recv_bytes": reader.recv_bytes, "arrived": reader.poll}


class Queue(Shared):
    """put and get. Bounded, because otherwise its feeder thread would hold a whole slice."""

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
        return multiprocessing.get_context("spawn").Queue(self.setup.slots)  # only queues of "spawn" can be handed over

    def names(self) -> dict[str, Any]:
        names = {"put": self.out.put, "get": self.into.get, "Empty": queue.Empty}
        return names | {"get_nowait": self.into.get_nowait}


class Jobs(Queue):
    """A Queue with several workers. A taken job is lost if its worker dies."""

    scenarios = ("jobs",)

    def put(self) -> Callable[[bytes], Any]:
        return self.out.put

    def look(self) -> Callable[[Callable[[Any], None]], int]:
        get, empty = self.into.get_nowait, queue.Empty

        def look(handler: Callable[[Any], None]) -> int:
            try:
                got = get()
            except empty:
                return 0
            handler(got)
            return 1

        return look

    def look_within(self, handler: Callable[[Any], None], seconds: float) -> int:
        try:
            got = self.into.get(timeout=seconds)
        except queue.Empty:
            return 0
        handler(got)
        return 1


class SimpleQueue(Shared):
    """put and get: a pipe with a lock."""

    many_producers = True
    send = "put(message)"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        wait = "while empty():\n    pass\n" if setup.wait == "spin" else ""
        self.receive = wait + "got = get()"

    def make(self) -> Any:
        return multiprocessing.get_context("spawn").SimpleQueue()

    def names(self) -> dict[str, Any]:
        return {"put": self.out.put, "get": self.into.get, "empty": self.into.empty}
