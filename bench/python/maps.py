# SPDX-License-Identifier: Apache-2.0
"""The maps of Flyring and of Python itself, for scenario `map`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import flyring
from harness import Setup
from map_runner import VALUE, Map, value_of


class Dict(Map):
    """A dict of this process."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.map: dict[int, bytes] = {}

    def fill(self, keys: list[int]) -> None:
        for key in keys:
            self.map[key] = value_of(key, 0)

    def getter(self) -> Callable[[Any], Any]:
        return self.map.get

    def putter(self) -> Callable[[Any, bytes], Any]:
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

    def getter(self) -> Callable[[Any], Any]:
        return self.table.get

    def putter(self) -> Callable[[Any, bytes], Any]:
        return self.writer.put

    def version(self) -> str:
        return flyring.__version__


class FlyringEntries(FlyringTable):
    """An entry for each place of the sequence."""

    def handles(self, sequence: list[int]) -> list[Any]:
        return [self.table.entry(key) for key in sequence]

    def getter(self) -> Callable[[Any], Any]:
        return methodcaller("get")
