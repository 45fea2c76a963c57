# SPDX-License-Identifier: Apache-2.0
"""The ops of a service (interop-tests/PEER.md)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import flyring
from flyring import Call, Channel, Client, FlyringError, Message, Server
from flyring_stream import Stream, die

CARRIED = ("may_have_run", "text", "name", "pid", "what_for", "path", "ring", "position", "reason", "slot")

Request = dict[str, Any]
Answer = dict[str, Any]


class BadRequestError(Exception):
    """The peer does not understand the request."""


class RefusedError(Exception):
    """An answer with ok = false that is not an error of the binding."""

    def __init__(self, code: str, text: str, **more: Any) -> None:
        super().__init__(text)
        self.answer = {"error": code, "message": text, **more}


class HandlerError(Exception):
    """The exception that a handler raises."""


def described_request(request: flyring.Request) -> Answer:
    sender = {"name": request.sender.name, "epoch": request.sender.epoch}
    facts = ("client", "type", "repeat", "cancelled", "is_stream")
    return {"data": bytes(request).hex(), "sender": sender} | {name: getattr(request, name) for name in facts}


def described_answer(answer: flyring.Answer) -> Answer:
    return {"type": answer.type, "data": bytes(answer).hex(), "repeat": answer.repeat}


def carried(error: FlyringError) -> Answer:
    """Returns the fields that an error of a call carries."""
    return {name: value for name in CARRIED if (value := getattr(error, name, None)) is not None}


def items_of(handler: Request) -> Iterator[bytes]:
    for item in handler["stream"]:
        yield bytes.fromhex(item)
    if "throw" in handler:
        raise HandlerError(handler["throw"])


def act(request: flyring.Request, handler: Request) -> None:
    """Answers a request as ``handler`` says; does not handle keep."""
    if "stream" in handler:
        request.stream(items_of(handler), handler["type"])
    elif "reply" in handler:
        request.reply(bytes.fromhex(handler["reply"]), handler["type"])
    elif "echo" in handler:
        request.reply(request, request.type)
    elif "fail" in handler:
        request.fail(handler["fail"])
    elif "throw" in handler:
        raise HandlerError(handler["throw"])
    elif "nothing" not in handler:
        raise BadRequestError(f"handler: {handler}")


class Caller:
    """A client, its calls by their handles, and the events that poll_client reports."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls: dict[str, Call] = {}
        self.streams: dict[str, bool] = {}
        self.told: set[str] = set()
        self.heard: list[str] = []
        self.found: list[Answer] = []
        self.telling = False

    def hear(self, name: str) -> None:
        """Notes that something happened to a call."""
        call = self.calls.get(name)
        if call is None:
            return  # the call was dropped
        told: Answer = {"call": name}
        try:
            item = call.next(0)
            if item is not None:
                told |= {"is": "item"} | described_answer(item)
            elif call.done and name not in self.told:
                self.told.add(name)
                answer = call.result()
                told |= {"is": "end-of-stream"} if self.streams[name] else {"is": "answer"} | described_answer(answer)
            else:
                return  # result or next has reported it already
        except FlyringError as error:
            self.told.add(name)
            told |= carried(error) | {"is": error.code}
        self.found.append(told)


class Services:
    """The part of the peer for services."""

    channels: dict[str, Channel]

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.clients: dict[str, Caller] = {}
        self.kept: dict[str, flyring.Request] = {}

    def op_server(self, request: Request) -> Answer:
        channel = self.channels[request["channel"]]
        server = channel.server(request.get("name") or "", timeout=request.get("timeout", 0))
        self.servers[request["server"]] = server
        return {"epoch": server.epoch}

    def op_client(self, request: Request) -> Answer:
        self.clients.pop(request["client"], None)
        channel = self.channels[request["channel"]]
        client = channel.client(request.get("name") or "", timeout=request.get("timeout", 0))
        self.clients[request["client"]] = Caller(client)
        return {"number": client.number, "epoch": client.epoch}

    def op_serve(self, request: Request) -> Answer:
        handler, requests = request["handler"], list[Answer]()

        def handle(one: flyring.Request) -> None:
            requests.append(described_request(one))
            if "keep" in handler:
                self.kept[f"{handler['keep']}{len(requests) - 1}"] = one.keep()
            else:
                act(one, handler)

        server = self.servers[request["server"]]
        server.poll(handle, request.get("limit", 256), request.get("timeout", 0))
        return {"requests": requests}

    def op_later(self, request: Request) -> Answer:
        kept, handler = self.kept[request["request"]], request["handler"]
        if "throw" in handler and "stream" not in handler:
            kept.fail(handler["throw"])
        else:
            act(kept, handler)
        if kept.answered:
            del self.kept[request["request"]]
        return {}

    def op_request(self, request: Request) -> Answer:
        return {"cancelled": self.kept[request["request"]].cancelled}

    def op_held(self, request: Request) -> Answer:
        server = self.servers[request["server"]]
        counts = {name: getattr(server, name) for name in ("client_gone", "expired", "not_run", "damaged")}
        return server.held._asdict() | counts

    def op_call(self, request: Request) -> Answer:
        client = self.clients[request["client"]].client
        answer = client.call(bytes.fromhex(request["data"]), request.get("type", 1), request.get("timeout"))
        return {"answer": described_answer(answer)}

    def op_start(self, request: Request) -> Answer:
        caller, name = self.clients[request["client"]], request["call"]
        credit, data = request.get("credit", 0), bytes.fromhex(request["data"])

        def heard(_: Call) -> None:
            if caller.telling:
                caller.hear(name)
            else:
                caller.heard.append(name)

        for other in self.clients.values():
            other.calls.pop(name, None)
        caller.told.discard(name)
        caller.streams[name] = credit != 0
        kind, timeout = request.get("type", 1), request.get("timeout")
        if credit:
            caller.calls[name] = caller.client.stream(data, kind, credit, timeout, heard)
        else:
            caller.calls[name] = caller.client.start(data, kind, timeout, heard)
        return {}

    def _call(self, request: Request) -> Call:
        for caller in self.clients.values():
            if request["call"] in caller.calls:
                return caller.calls[request["call"]]
        raise BadRequestError(f"there is no call {request['call']}")

    def op_result(self, request: Request) -> Answer:
        return {"answer": described_answer(self._call(request).result(request.get("timeout")))}

    def op_next(self, request: Request) -> Answer:
        call = self._call(request)
        item = call.next(request.get("timeout"))
        if item is None and not call.done:
            raise flyring.TimedOutError("an item")
        return {"item": None if item is None else described_answer(item)}

    def op_cancel(self, request: Request) -> Answer:
        self._call(request).cancel()
        return {}

    def op_poll_client(self, request: Request) -> Answer:
        caller = self.clients[request["client"]]
        heard, caller.heard = caller.heard, []
        for name in heard:
            caller.hear(name)
        caller.telling = True
        try:
            caller.client.poll(0 if caller.found else request.get("timeout", 0))
        finally:
            caller.telling = False
        found, caller.found = caller.found, []
        return {"found": found}

    def op_calls(self, request: Request) -> Answer:
        client = self.clients[request["client"]].client
        server = client.server
        return {
            "outstanding": client.outstanding,
            "late": client.late,
            "server": None if server is None else server._asdict(),
        }

    def op_serve_many(self, request: Request) -> Answer:
        server = self.servers[request["server"]]
        end = time.monotonic() + request.get("seconds", 60)
        most, die_at, silent = request.get("count", math.inf), request.get("die_at", -1), request.get("silent", False)
        if "spin" in request:
            server.set_spin(request["spin"] / 1e9)
        count = 0

        def handle(one: flyring.Request) -> Message | None:
            nonlocal count
            number = count
            count += 1
            if silent and 0 <= die_at <= number:
                self.kept[f"silent{number}"] = one.keep()
                return None
            if number == die_at:
                die()
            one.reply(one, one.type)
            return None

        while count < most and (left := end - time.monotonic()) > 0:
            server.poll(handle, int(min(most - count, 256)), left)
        while server.held.waiting and time.monotonic() < end:  # polls send the replies that wait for room
            server.poll(handle, 0)
            time.sleep(5e-5)
        return {"count": count}

    def op_call_many(self, request: Request) -> Answer:
        many = ManyCalls(self.clients[request["client"]].client, request)
        if "spin" in request:
            many.client.set_spin(request["spin"] / 1e9)
        many.run()
        answer = {
            "ends": many.ends,
            "may_have_run": many.may_have_run,
            "wrong": many.wrong,
            "seconds": time.monotonic() - many.began,
        }
        if request.get("window", 1) <= 1:
            answer |= {"longest": many.longest, "late": many.late}
        return answer


class ManyCalls:
    """The state of one ``call_many``."""

    def __init__(self, client: Client, request: Request) -> None:
        self.client, self.request = client, request
        self.ends: dict[str, int] = {}
        self.may_have_run = self.wrong = self.under_way = 0
        self.longest = self.late = 0  # ns, calls
        self.began = time.monotonic()
        self.end = self.began + request.get("seconds", 60)

    def note(self, error: FlyringError) -> None:
        self.ends[error.code] = self.ends.get(error.code, 0) + 1
        self.may_have_run += bool(getattr(error, "may_have_run", False))

    def check(self, answer: flyring.Answer, kind: int, data: bytes) -> None:
        self.ends["answer"] = self.ends.get("answer", 0) + 1
        self.wrong += (answer.type, bytes(answer)) != (kind, data)

    def in_time(self) -> None:
        if time.monotonic() >= self.end:
            raise RefusedError("timeout", "not all calls ended in time")

    def start(self, kind: int, data: bytes, timeout: float | None) -> None:
        def ended(call: Call) -> None:
            self.under_way -= 1
            try:
                self.check(call.result(), kind, data)
            except FlyringError as error:
                self.note(error)

        self.client.start(data, kind, timeout, ended)
        self.under_way += 1

    def run(self) -> None:
        request = self.request
        stream = Stream.of(request | {"numbered": True})
        timeout, window, first = request.get("timeout"), request.get("window", 1), request.get("first", 0)
        for i in range(first, first + request["count"]):
            self.in_time()
            if i == request.get("die_at", -1):
                die()
            kind, data = stream.message(i)
            try:
                if window <= 1:
                    before = time.monotonic_ns()
                    answer = self.client.call(data, kind, timeout)
                    took = time.monotonic_ns() - before
                    self.longest = max(self.longest, took)
                    self.late += took >= request.get("late", 50_000_000)
                    self.check(answer, kind, data)
                    continue
                while self.under_way >= window:
                    self.client.poll(0.1)
                self.start(kind, data, timeout)
            except FlyringError as error:
                self.note(error)
        while self.under_way > 0:
            self.in_time()
            self.client.poll(0.1)
