# SPDX-License-Identifier: Apache-2.0
"""iceoryx2 request-response, nothing lost: no safe overflow, and sides that retry until they have delivered. Copied in
and out as in iceoryx.py; the next request is loaned once one was sent. Streams: up to `outstanding` (option) requests
are under way, and every response is compared. iceoryx2-request-event: an event per request and response."""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections import deque
from typing import Any

import iceoryx2 as iox2
from harness import BenchError, Contender, Setup

EVENTS = ("into-b", "back-to-a")
REQUEST = """
    memmove(request.payload_ptr, message, size)
    pending = request.assume_init().send()
    {notify}
    request = loan(length_in_words)
"""
RESPONSE = """
    while (got := pending.receive()) is None:
        {wait}
"""
COMPARE = """
    {response}
    if string_at(got.payload_ptr, size) != sent:
        foreign(got.payload_ptr)
    got.delete()
    pending.delete()
"""
RESPOND = """
    response = got.loan_slice_uninit(length_in_words)
    memmove(response.payload_ptr, {what}, size)
    response.assume_init().send()
    {notify}
    got.delete()
"""


def lines(text: str, depth: int = 0) -> str:
    """The text, its lines so deep."""
    stripped = text.strip("\n").split("\n")
    first = min(len(line) - len(line.lstrip()) for line in stripped)
    return "\n".join(" " * depth + line[first:] for line in stripped).lstrip()


class RequestResponse(Contender):
    scenarios = ("rtt", "stream")
    content = "string_at(got.payload_ptr, size)"
    same = "string_at(got.payload_ptr, size) == expected"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        block = setup.wait == "block"
        self.under_way = int(setup.options.get("outstanding", 1)) if setup.streaming else 1
        iox2.set_log_level(iox2.LogLevel.Error)
        config = iox2.config.default()
        config.global_cfg.prefix = iox2.FileName.new(setup.unique("iox2-"))
        config.global_cfg.root_path = iox2.Path.new(setup.path("iceoryx2"))
        self.node = iox2.NodeBuilder.new().config(config).create(iox2.ServiceType.Ipc)
        words = iox2.Slice[ctypes.c_uint64]
        builder = self.node.service_builder(iox2.ServiceName.new("service")).request_response(words, words)
        builder = builder.enable_safe_overflow_for_requests(False).enable_safe_overflow_for_responses(False)
        builder = builder.max_active_requests_per_client(self.under_way + 1).max_response_buffer_size(1)
        service = builder.max_servers(1).max_clients(1).open_or_create()
        events = [self.node.service_builder(iox2.ServiceName.new(name)).event().open_or_create() for name in EVENTS]
        into_b, back_to_a = events
        retry = iox2.BackpressureStrategy.RetryUntilDelivered
        notify, wait = ("notify()", "wait()") if block else ("pass", "pass")
        if setup.producer:
            self.notifier, self.listener = into_b.notifier_builder().create(), back_to_a.listener_builder().create()
            asking = service.client_builder().initial_max_slice_len(setup.size // 8)
            self.client = asking.backpressure_strategy(retry).create()
            self.load, self.save = "request = loans.pop()", "loans.append(request)"
            self.asking(notify, wait)
        else:
            self.notifier, self.listener = back_to_a.notifier_builder().create(), into_b.listener_builder().create()
            answering = service.server_builder().initial_max_slice_len(setup.size // 8)
            self.server = answering.backpressure_strategy(retry).create()
            self.receive = RESPONSE.format(wait=wait).replace("pending.receive", "receive")
            if setup.streaming:
                self.release = RESPOND.format(what="got.payload_ptr", notify=notify)
                self.send = "pass"
            else:
                self.send = RESPOND.format(what="message", notify=notify)

    def asking(self, notify: str, wait: str) -> None:
        request, response = REQUEST.format(notify=notify), RESPONSE.format(wait=wait)
        if not self.setup.streaming:
            self.send, self.receive, self.release = request, response, "got.delete()\npending.delete()"
            return
        compare = COMPARE.format(response=lines(response, 4))
        if self.under_way == 1:
            self.send = "\n".join((lines(request), "sent = message", lines(compare)))
        else:
            before = f"if len(calls) == under_way:\n    pending, sent = oldest()\n    {lines(compare, 4)}"
            self.send = "\n".join((before, lines(request), "keep((pending, message))"))

    def names(self) -> dict[str, Any]:
        size, words = self.setup.size, self.setup.size // 8
        names: dict[str, Any] = {"memmove": ctypes.memmove, "string_at": ctypes.string_at, "size": size}
        names["length_in_words"] = words
        names |= {"notify": self.notifier.notify, "wait": self.listener.blocking_wait}
        if not self.setup.producer:
            return names | {"receive": self.server.receive}
        calls: deque[tuple[Any, bytes]] = deque()
        names |= {"calls": calls, "oldest": calls.popleft, "keep": calls.append, "under_way": self.under_way}
        loan = self.client.loan_slice_uninit
        return names | {"loan": loan, "loans": [loan(words)], "foreign": self.foreign}

    def foreign(self, at: int) -> None:
        raise BenchError(f"another request's response: {ctypes.string_at(at, self.setup.size).hex()}")

    def version(self) -> str:
        return importlib.metadata.version("iceoryx2")


class RequestResponseEvent(RequestResponse):
    waits = ("block",)
