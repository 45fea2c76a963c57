# SPDX-License-Identifier: Apache-2.0
"""The maps of Flyring and of Python itself, for scenario `map`."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Callable
from typing import Any

import flyring
from harness import Setup
from map_runner import VALUE, Map, value_of

SPIN = 3600.0  # seconds; longer than any run takes, so a wait never sleeps


class Dict(Map):
    """A dict of this process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.map: dict[int, bytes] = {}

    def fill(self, keys: list[int]) -> None:
        for key in keys:
            self.map[key] = value_of(key, 0)

    def getter(self) -> Callable[[int], Any] | None:
        return self.map.get

    def putter(self) -> Callable[[int, bytes], Any]:
        return self.map.__setitem__

    def version(self) -> str:
        return platform.python_version()


class FlyringTable(Map):
    """A Flyring table. Puts are those of a writer that holds the slot."""

    beside = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.path = setup.path("map.table")
        if setup.producer:
            self.table = flyring.Table.create(
                self.path, capacity=int(setup.options["keys"]), key="integer", value_bytes=VALUE.size
            )

    def fill(self, keys: list[int]) -> None:
        with self.table.writer("bench") as writer:
            for key in keys:
                writer.put(key, value_of(key, 0))

    def ready(self) -> None:
        if self.setup.options.get("operation") == "put":
            self.writer = self.table.writer("bench")

    def join(self) -> None:
        self.table = flyring.Table.open(self.path)
        self.writer = self.table.writer("bench")

    def getter(self) -> Callable[[int], Any] | None:
        return self.table.get

    def putter(self) -> Callable[[int, bytes], Any]:
        return self.writer.put

    def version(self) -> str:
        return flyring.__version__


class FlyringEntries(FlyringTable):
    """An entry for each place of the sequence."""

    def handles(self, sequence: list[int]) -> list[Any]:
        entries = [self.table.entry(key) for key in sequence]
        return [entry.get for entry in entries if entry is not None]

    def getter(self) -> None:
        return None


class FlyringServer(Map):
    """A key-value server: a Flyring service in front of a table, which the server's process alone opens. Up to
    `outstanding` calls are under way. Both sides spin. An absent key has an empty answer."""

    server = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.table_path, self.service_path = setup.path("map.table"), setup.path("service.ring")
        self.under_way = int(setup.options.get("outstanding", 64))
        self.calls: deque[flyring.Call] = deque()
        if setup.producer:
            self.table = flyring.Table.create(
                self.table_path, capacity=int(setup.options["keys"]), key="integer", value_bytes=VALUE.size
            )
            self.channel = flyring.Channel.create(self.service_path, "service")
            self.client = self.channel.client()
            self.client.set_spin(SPIN)

    def fill(self, keys: list[int]) -> None:
        with self.table.writer("bench") as writer:
            for key in keys:
                writer.put(key, value_of(key, 0))

    def join(self) -> None:
        self.table = flyring.Table.open(self.table_path)
        self.channel = flyring.Channel.open(self.service_path)
        self.service = self.channel.server()
        self.service.set_spin(SPIN)

    def handles(self, sequence: list[int]) -> list[Any]:
        return [key.to_bytes(8, "little", signed=True) for key in sequence]

    def lookup(self, keys: list[Any]) -> Any:
        start, calls, under_way = self.client.start, self.calls, self.under_way
        value = None
        for key in keys:
            if len(calls) == under_way:
                value = calls.popleft().result()
            calls.append(start(key))
        while calls:
            value = calls.popleft().result()
        return bytes(value) if value else None

    def serve(self) -> None:
        self.service.poll(self.answer, 256, 0)

    def answer(self, request: flyring.Request) -> bytes:
        found: bytes = self.table.get(int.from_bytes(request, "little", signed=True), b"")
        return found

    def version(self) -> str:
        return flyring.__version__
