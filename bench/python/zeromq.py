# SPDX-License-Identifier: Apache-2.0
"""pyzmq over ipc: PUSH and PULL; for several consumers XPUB, set not to drop, and SUB; REQ and REP.

Small messages are copied (pyzmq's guide: zero-copy costs more than it saves below copy_threshold, 64 KiB).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import zmq
from harness import BenchError, Contender, Setup

SEND_ONE = """
    send(message)
    if (got := recv()) != message:
        foreign(got)
"""
SEND_SOME = """
    if len(sent) == under_way and (got := recv_parts()[1]) != oldest():
        foreign(got)
    send_parts((b"", message))
    keep(message)
"""


def foreign(answer: bytes) -> None:
    raise BenchError(f"another question's answer: {answer.hex()}")


class PushPull(Contender):
    waits = ("block", "spin")
    many_producers = many_consumers = True
    send = "send(message)"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.receive = "got = recv()"
        if setup.wait == "spin":
            self.receive = """
                while True:
                    try:
                        got = recv(NOBLOCK)
                        break
                    except Again:
                        pass
            """
        self.context = zmq.Context()
        broadcast = setup.consumers > 1
        self.out = self.into = None
        if setup.producer or not setup.streaming:
            self.out = self.context.socket(zmq.XPUB if broadcast else zmq.PUSH)
            if broadcast:
                self.out.setsockopt(zmq.XPUB_NODROP, 1)
                self.out.setsockopt(zmq.XPUB_VERBOSE, 1)  # reports the second subscriber, too
        if not setup.producer or not setup.streaming:
            self.into = self.context.socket(zmq.SUB if broadcast else zmq.PULL)
            if broadcast:
                self.into.setsockopt(zmq.SUBSCRIBE, b"")
        # The single side binds: the consumer, or the producer if it broadcasts.
        for to_b, socket in ((setup.producer, self.out), (not setup.producer, self.into)):
            if socket is not None:
                binds = broadcast if socket is self.out else not broadcast
                (socket.bind if binds else socket.connect)(f"ipc://{setup.path('zmq-b' if to_b else 'zmq-a')}")

    def connect(self) -> None:
        if self.setup.consumers > 1 and self.out is not None:
            for _ in range(self.setup.consumers):
                self.out.recv()  # a subscription

    def names(self) -> dict[str, Any]:
        names: dict[str, Any] = {"NOBLOCK": zmq.NOBLOCK, "Again": zmq.Again}
        if self.out is not None:
            names["send"] = self.out.send
        if self.into is not None:
            names["recv"] = self.into.recv
        return names

    def close(self) -> None:
        self.context.destroy(linger=0)

    def version(self) -> str:
        return f"{zmq.pyzmq_version()}, libzmq {zmq.zmq_version()}"


class ReqRep(Contender):
    """REQ and REP: one question, one answer. With several under way (option `outstanding`) a DEALER asks, which puts
    the empty frame in front of each question that a REQ has there, too; every answer is compared."""

    scenarios = ("rtt", "stream")
    waits = ("block",)
    send = "send(message)"
    receive = "got = recv()"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.context = zmq.Context()
        self.under_way = int(setup.options.get("outstanding", 1))
        many = self.under_way > 1
        self.socket = self.context.socket(zmq.REP if not setup.producer else zmq.DEALER if many else zmq.REQ)
        (self.socket.connect if setup.producer else self.socket.bind)(f"ipc://{setup.path('zmq')}")
        if setup.streaming and setup.producer:
            self.send = SEND_SOME if many else SEND_ONE
        if setup.streaming and not setup.producer:
            self.receive = "got = recv()\nsend(got)"

    def names(self) -> dict[str, Any]:
        sent: deque[bytes] = deque()
        names: dict[str, Any] = {"send": self.socket.send, "recv": self.socket.recv, "foreign": foreign}
        names |= {"send_parts": self.socket.send_multipart, "recv_parts": self.socket.recv_multipart}
        return names | {"sent": sent, "oldest": sent.popleft, "keep": sent.append, "under_way": self.under_way}

    def close(self) -> None:
        self.context.destroy(linger=0)

    def version(self) -> str:
        return f"{zmq.pyzmq_version()}, libzmq {zmq.zmq_version()}"


class Jobs(Contender):
    """PUSH and several PULL: the sender distributes messages in turn, up to 1000 ahead to each, and sleeps when all are
    full."""

    scenarios = ("jobs",)
    waits = ("block",)
    send = receive = "raise NotImplementedError"  # only the slices below are used

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PUSH if setup.producer else zmq.PULL)
        (self.socket.bind if setup.producer else self.socket.connect)(f"ipc://{setup.path('zmq')}")

    def put(self) -> Callable[[bytes], Any]:
        return self.socket.send

    def look(self) -> Callable[[Callable[[Any], None]], int]:
        recv, flag, again = self.socket.recv, zmq.NOBLOCK, zmq.Again

        def look(handler: Callable[[Any], None]) -> int:
            try:
                got = recv(flag)
            except again:
                return 0
            handler(got)
            return 1

        return look

    def look_within(self, handler: Callable[[Any], None], seconds: float) -> int:
        if not self.socket.poll(1000 * seconds):
            return 0
        handler(self.socket.recv())
        return 1

    def close(self) -> None:
        self.context.destroy(linger=0)

    def version(self) -> str:
        return f"{zmq.pyzmq_version()}, libzmq {zmq.zmq_version()}"
