# SPDX-License-Identifier: Apache-2.0
"""grpcio over a Unix socket: one method, of which request and answer are bytes (its generic API, without protobuf,
whose cost is that of a codec). The server's threads answer, and side b's own waits meanwhile. With several calls under
way (option `outstanding`) they are futures."""

from __future__ import annotations

import os
import threading
import time
import traceback
from concurrent import futures
from typing import Any

import asking
import grpc
from harness import BenchError, Contender, Setup
from loops import Endless

METHOD = "/flyring.bench/Echo"
BEFORE_START = """
    if message is end:
        while calls:
            before, sent = oldest()
            if (got := before.result()) != sent:
                foreign(got)
"""


class Echo(grpc.GenericRpcHandler):
    """Compares the requests of a slice with what should come, and answers with them. Requests that are under way
    together come in any order: a later one waits in `early`; the end is only sent when all others are answered."""

    def __init__(self, contender: Grpc) -> None:
        self.contender = contender
        self.method = grpc.unary_unary_rpc_method_handler(self.answer)
        self.lock = threading.Lock()
        self.ended = threading.Semaphore(0)
        self.received = self.ns = 0  # of the slice before
        self.start()

    def start(self) -> None:
        self.arriving = Endless.over(self.contender.expected(self.contender.messages(0)))
        self.expected = next(self.arriving)
        self.early: set[bytes] = set()
        self.count = self.began = 0

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self.method

    def answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            with self.lock:
                self.take(request)
        except BaseException:  # in a thread of gRPC, which would hide it
            traceback.print_exc()
            os._exit(1)
        return request

    def take(self, request: bytes) -> None:
        if request == self.expected:
            self.began = self.began or time.perf_counter_ns()
            self.count += 1
            self.expected = next(self.arriving)
            while self.early and self.expected in self.early:
                self.early.remove(self.expected)
                self.count += 1
                self.expected = next(self.arriving)
        elif request == self.contender.end:
            if self.early:
                raise BenchError(f"{len(self.early)} messages came out of order, or twice")
            self.received, self.ns = self.count, time.perf_counter_ns() - self.began
            self.start()
            self.ended.release()
        elif len(self.early) < self.contender.under_way and request in self.contender.known:
            self.early.add(request)
        else:
            raise BenchError(f"message {self.count} of this slice is wrong: {request.hex()}")


class Grpc(Contender):
    scenarios = ("rtt", "stream")
    waits = ("block",)
    send = "pass"  # the handler has answered
    receive = ""
    texts = {
        "serve": """
            wait()
            result = None
        """,
        "consume": """
            wait()
            result = echo.received, echo.received - 1, echo.ns
        """,
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.under_way = int(setup.options.get("outstanding", 1))
        address = f"unix:{setup.path('grpc')}"
        self.server: Any = None
        self.channel: Any = None
        if setup.producer:
            self.send = asking.text(setup, self.under_way, BEFORE_START)
            self.channel = grpc.insecure_channel(address)
            return
        messages = self.messages(0)
        self.known, self.end = frozenset(messages.whole), messages.end
        self.echo = Echo(self)
        self.server = grpc.server(futures.ThreadPoolExecutor(1), [self.echo])
        self.server.add_insecure_port(address)
        self.server.start()

    def connect(self) -> None:
        if self.channel:
            grpc.channel_ready_future(self.channel).result(10)

    def names(self) -> dict[str, Any]:
        if self.server:
            return {"wait": self.echo.ended.acquire, "echo": self.echo}
        call = self.channel.unary_unary(METHOD)
        return asking.names(call, call.future, self.under_way)

    def close(self) -> None:
        if self.channel:
            self.channel.close()
        if self.server:
            self.server.stop(None).wait()

    def version(self) -> str:
        return f"grpcio {grpc.__version__}"
