# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of services."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flyring import Channel, Client, ExpiredError, FlyringError, Request, Server, ServerGoneError, ServiceError, layout

Handler = Callable[[Request], Any]
LARGEST = 4096 // 4 - 24  # the largest answer, in rings of 4096 bytes


def service(name: str = "c", **options: Any) -> Channel:
    return Channel.create(name, "service", **({"clients": 2, "capacity": 4096, "counters": 4} | options))


def echo(request: Request) -> None:
    request.reply(request, request.type)


class Pair:
    """A channel with a server and a client, in one thread."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.server = channel.server("pricing")
        self.client = channel.client("desk")

    def answered_by(self, handler: Handler) -> bytes:
        """Returns the answer to one call, whose request ``handler`` gets."""
        call = self.client.start(b"price?", 7)
        assert self.server.poll(handler) == 1
        assert self.client.poll() == 1
        return bytes(call.result())

    def error_of(self, handler: Handler) -> str:
        """Returns the text of the error with which the call ends."""
        with pytest.raises(ServiceError) as caught:
            self.answered_by(handler)
        return caught.value.text


@contextmanager
def pair(**options: Any) -> Iterator[Pair]:
    with service(**options) as channel:
        yield Pair(channel)


def end_of(action: Callable[[], Any]) -> str:
    """Returns how a call ends: the error's code, and whether the request may have run."""
    try:
        action()
    except (ExpiredError, ServerGoneError) as error:
        return f"{error.code} {error.may_have_run}"
    except FlyringError as error:
        return error.code
    return "answer"


@contextmanager
def serving(server: Server, handler: Handler = echo) -> Iterator[None]:
    """Polls the server in another thread during a ``with`` block."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            server.serve(handler)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        if not server.closed:
            server.stop()
        thread.join(10)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def poke(channel: Channel, offset: int, form: str, value: int) -> None:
    """Writes to the mapped file, like a hostile process."""
    with open(channel.path, "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), struct.pack(form, value), offset)


def record_at(channel: Channel, ring: int, position: int) -> int:
    """Returns the file offset of a position in a ring."""
    return channel.header.ring(ring) + position % channel.capacity


def word(channel: Channel, offset: int) -> int:
    return channel._attached.memory.load32(channel.header.control_offset + offset)


def data_asleep(channel: Channel, ring: int) -> bool:
    return bool(word(channel, layout.CONTROL_DATA_ASLEEP) & 1 << ring)


def room_asleep(channel: Channel, ring: int) -> bool:
    return bool(word(channel, layout.CONTROL_ROOM_ASLEEP) & 1 << ring)


def settle(pair: Pair, seconds: float = 10) -> None:
    """Polls both sides until the server has nothing in hand."""
    give_up = time.monotonic() + seconds
    while pair.server.held.in_hand and time.monotonic() < give_up:
        pair.client.poll()
        pair.server.poll(echo)
    assert pair.server.held == (0, 0)


def is_asleep(client: Client, channel: Channel) -> bool:
    """Returns whether the client sleeps for a reply or a server."""
    return data_asleep(channel, channel.clients + client.number)
