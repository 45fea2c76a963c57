# SPDX-License-Identifier: Apache-2.0
"""The operations of golden files on a service (spec/golden/README.md), for test_golden.py."""

from __future__ import annotations

from typing import Any

import flyring
from flyring import Call, Channel, Client, Request, Server


def bytes_of(data: Any) -> bytes:
    if isinstance(data, str):
        return bytes.fromhex(data)
    return bytes((data["pattern"] + 7 * i) & 0xFF for i in range(data["length"]))


def described(request: Request) -> dict[str, Any]:
    fields = {name: getattr(request, name) for name in ("client", "sequence", "type", "repeat")}
    return fields | {"data": bytes(request).hex()}


def with_data(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the entries with their data as hexadecimal digits."""
    return [{**one, "data": bytes_of(one["data"]).hex()} if "data" in one else one for one in entries]


def in_order(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts requests by client, and keeps the order of each client's."""
    return sorted(requests, key=lambda request: request["client"])


def happened(call: Call) -> dict[str, Any]:
    """Returns what a callback reports: the next item, or the end of the call."""
    stream = call._stream
    item = call.next(0) if call._has_item else None
    if item is not None:
        return {"is": "item", "type": item.type, "data": bytes(item).hex(), "repeat": item.repeat}
    try:
        answer = call.result()
    except flyring.ServiceError as error:
        return {"is": error.code, "text": error.text}
    except (flyring.ExpiredError, flyring.ServerGoneError) as error:
        return {"is": error.code, "may_have_run": error.may_have_run}
    except (flyring.ClosedError, flyring.SlotLostError) as error:  # golden files do not contain this
        return {"is": error.code}
    if stream:
        return {"is": "end-of-stream"}
    return {"is": "answer", "type": answer.type, "data": bytes(answer).hex(), "repeat": answer.repeat}


def act(request: Request, handler: dict[str, Any]) -> None:
    """Answers a request as the golden file says; does not handle keep."""
    if "reply" in handler:
        request.reply(bytes_of(handler["reply"]), handler["type"])
    elif "fail" in handler:
        request.fail(handler["fail"])
    else:
        request.stream([bytes_of(item) for item in handler["stream"]], handler["type"])


class ServiceActor:
    """The part of test_golden.py's Actor for services."""

    channel: Channel
    objects: dict[str, Any]

    def __init__(self, channel: Channel) -> None:
        self.calls: dict[str, Call] = {}
        self.kept: dict[str, Request] = {}
        self.found: dict[str, list[dict[str, Any]]] = {}

    def server(self, name: str, epoch: int, **handle: str) -> None:
        server = self.objects[handle["as"]] = self.channel.server(name)
        assert (server.epoch, server.slot) == (epoch, 0)

    def client(self, name: str, number: int, epoch: int, **handle: str) -> None:
        client = self.objects[handle["as"]] = self.channel.client(name)
        assert (client.number, client.epoch, client.slot) == (number, epoch, 1 + number)

    def start(self, client: str, type: int, data: Any, timeout: int, credit: int, started: bool, **handle: str) -> None:
        on: Client = self.objects[client]
        seconds = timeout / 1e9 if timeout else None
        name = handle["as"]

        def callback(call: Call) -> None:
            self.found.setdefault(client, []).append({"call": name, **happened(call)})

        try:
            if credit:
                self.calls[name] = on.stream(bytes_of(data), type, credit, seconds, callback)
            else:
                self.calls[name] = on.start(bytes_of(data), type, seconds, callback)
        except flyring.BusyError:
            assert not started
        else:
            assert started

    def poll_client(self, client: str, found: list[dict[str, Any]]) -> None:
        self.objects[client].poll()
        assert self.found.pop(client, []) == with_data(found)

    def cancel(self, call: str) -> None:
        self.calls[call].cancel()

    def serve(self, server: str, limit: int, handler: dict[str, Any], requests: list[dict[str, Any]]) -> None:
        found: list[dict[str, Any]] = []

        def handle(request: Request) -> None:
            if "keep" in handler:
                self.kept[f"{handler['keep']}{len(found)}"] = request.keep()
            else:
                act(request, handler)
            found.append(described(request))

        self.objects[server].poll(handle, limit)
        assert in_order(found) == in_order(with_data(requests))

    def later(self, server: str, request: str, handler: dict[str, Any]) -> None:
        act(self.kept.pop(request), handler)

    def clock(self, monotonic: int) -> None:
        for one in self.objects.values():
            if isinstance(one, Server | Client):
                one._set_clock(monotonic)


def requests_left(server: Server) -> list[dict[str, Any]]:
    """Returns the requests that a poll hands out; all are kept until the end."""
    kept: list[Request] = []
    server.poll(lambda request: kept.append(request.keep()))
    found = in_order([described(request) for request in kept])
    server.close()
    return found
