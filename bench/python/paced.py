# SPDX-License-Identifier: Apache-2.0
"""Scenario `paced` of bench/PEER.md: one process sends a message every 1 / rate seconds to another, whose reader
sleeps.

Measures the reader's share of a core, and the latency of messages.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import platform
import struct
import sys
import threading
import time
from typing import Any

import flyring
from harness import WORD, BenchError, Setup

MESSAGE = struct.Struct("<QQ16x")  # its number, and the time when it was sent
SETTLE = 0.05  # seconds before the first message, so that the reader sleeps
clock = time.perf_counter_ns


class Paced:
    """One way to pass messages. Opens what it can open alone in __init__. `publish` sends one message. `consume` passes
    each message to `took`, and returns after the last one."""

    def __init__(self, setup: Setup) -> None:
        if setup.wait != "block" or setup.size != MESSAGE.size:
            raise BenchError(f"cannot: {setup.contender}: paced is --wait block --size {MESSAGE.size}")
        self.setup = setup
        if setup.core >= 0:
            os.sched_setaffinity(0, [setup.core])
        self.samples = array.array("I")
        self.began = self.cpu = self.cpu_began = 0
        self.files = 0

    def connect(self) -> None:
        """Opens everything that needs the other side."""

    def publish(self, message: bytes) -> None:
        raise NotImplementedError

    def consume(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Called at the end of input."""

    def version(self) -> str:
        raise NotImplementedError

    def run(self) -> None:
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        opened = {"thread": threading.get_native_id(), "runtime": runtime, "version": self.version()}
        answer({"opened": True, "clock_ns": 0.0, **opened})
        for line in sys.stdin:
            words = line.split()
            if words == ["connect"]:
                self.connect()
                answer({"connected": True})
            elif len(words) == 3 and words[0] == "turn" and int(words[1]) > 0 and words[2] == "paced":
                answer(self.send_all(int(words[1])) if self.setup.producer else self.receive_all())
            else:
                raise BenchError(f"unknown command: {line.strip()}")
        self.close()

    def send_all(self, count: int) -> dict[str, Any]:
        period = 1e9 / self.setup.rate
        start = clock() + int(1e9 * SETTLE)
        for number in range(count):
            left = start + int(number * period) - clock()
            if left > 0:
                time.sleep(left / 1e9)
            self.publish(MESSAGE.pack(number, clock()))
        ns = clock() - start
        self.publish(MESSAGE.pack(WORD, 0))
        return {"count": count, "ns": ns}

    def receive_all(self) -> dict[str, Any]:
        self.samples = array.array("I")
        self.consume()
        ns, cpu = clock() - self.began, time.process_time_ns() - self.cpu_began
        name = f"samples-{self.files}"
        self.files += 1
        with open(self.setup.path(name), "wb") as file:
            self.samples.tofile(file)
        return {"count": len(self.samples), "ns": ns, "cpu_ns": cpu, "samples": name}

    def took(self, message: Any) -> bool:
        """Records a message. Returns whether it was the last."""
        now = clock()
        number, sent = MESSAGE.unpack(message)
        if number == WORD:
            return True
        if number != len(self.samples):
            raise BenchError(f"message {len(self.samples)} has the number {number}")
        if number == 0:
            self.began, self.cpu_began = now, time.process_time_ns()
        self.samples.append(min(now - sent, 2**32 - 1))
        return False


class Flyring(Paced):
    """Waiting calls that sleep without a spin."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        path = setup.path("channel.ring")
        self.channel = flyring.Channel.open_or_create(path, "broadcast", publishers=1, subscribers=2, counters=0)
        if setup.producer:
            self.publisher = self.channel.publisher()
        else:
            self.subscriber = self.channel.subscriber()
            self.subscriber.set_spin(0)

    def publish(self, message: bytes) -> None:
        self.publisher.send(message)

    def consume(self) -> None:
        take, took = self.subscriber.take, self.took
        while not took(take(None)):
            pass

    def close(self) -> None:
        self.channel.close()

    def version(self) -> str:
        return flyring.__version__


class FlyringAsync(Flyring):
    """`async for` in asyncio's own event loop."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.loop = asyncio.new_event_loop()

    def consume(self) -> None:
        self.loop.run_until_complete(self.read())

    async def read(self) -> None:
        async for message in self.subscriber:
            if self.took(message):
                return


class Zeromq(Paced):
    """PUB and SUB with a blocking recv. Uses XPUB instead of PUB, because it reports the reader's subscription."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        import zmq

        self.zmq = zmq
        self.context = self.new_context()
        self.socket = self.context.socket(zmq.XPUB if setup.producer else zmq.SUB)
        address = f"ipc://{setup.path('zmq')}"
        if setup.producer:
            self.socket.bind(address)
        else:
            self.socket.setsockopt(zmq.SUBSCRIBE, b"")
            self.socket.connect(address)

    def new_context(self) -> Any:
        return self.zmq.Context()

    def connect(self) -> None:
        if self.setup.producer:
            self.socket.recv()  # the subscription

    def publish(self, message: bytes) -> None:
        self.socket.send(message)

    def consume(self) -> None:
        recv, took = self.socket.recv, self.took
        while not took(recv()):
            pass

    def close(self) -> None:
        self.context.destroy(linger=0)

    def version(self) -> str:
        return f"{self.zmq.pyzmq_version()}, libzmq {self.zmq.zmq_version()}"


class ZeromqAsync(Zeromq):
    """zmq.asyncio in asyncio's own event loop."""

    def new_context(self) -> Any:
        import zmq.asyncio

        self.loop = asyncio.new_event_loop()
        return zmq.Context() if self.setup.producer else zmq.asyncio.Context()

    def consume(self) -> None:
        self.loop.run_until_complete(self.read())

    async def read(self) -> None:
        recv, took = self.socket.recv, self.took
        while not took(await recv()):
            pass


def answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)
