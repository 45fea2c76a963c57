# SPDX-License-Identifier: Apache-2.0
"""Scenario `map` of bench/PEER.md. The loops call the map's own bound method, as a user's program would. Comparing a
value takes as long here as some maps take to find it: so one of CHUNK is compared."""

from __future__ import annotations

import array
import itertools
import os
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import words
from harness import FACTOR, WORD, BenchError, Runner, Setup

CHUNK = 256
VALUE = struct.Struct("<6Q")
# The words of the page: slices that side a has ended; whether the map is filled; slices that the writer beside has begun.
ENDED, FILLED, BEGUN = 0, words.LINE, 2 * words.LINE
clock = time.perf_counter_ns


def value_of(key: int, write: int) -> bytes:
    """Returns 48 bytes that tell which key they belong to, and which write they are of."""
    total = (key & WORD) ^ write
    return VALUE.pack(write, *((total + i * FACTOR) & WORD for i in range(1, 6)))


def belongs(value: bytes, key: int) -> bool:
    return len(value) == VALUE.size and bytes(value) == value_of(key, VALUE.unpack(value)[0])


class Map:
    """One kind of map. Opens what it can open alone in __init__."""

    scenarios = ("map",)
    waits = ("spin", "block")
    many_producers = many_consumers = False
    beside = False  # whether another process can write meanwhile
    server = False  # whether side b serves

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def fill(self, keys: list[int]) -> None:
        """Puts each key with its value of write 0. Side a."""
        raise NotImplementedError

    def ready(self) -> None:
        """Called when all keys are there. Side a."""

    def join(self) -> None:
        """Opens what side a has filled, to write. Side b."""

    def getter(self) -> Callable[[int], Any] | None:
        """Returns the function that gets a key's value, None if it is absent. None: each handle is such a function."""
        raise NotImplementedError

    def putter(self) -> Callable[[int, bytes], Any]:
        raise NotImplementedError

    def lookup(self, keys: list[Any]) -> Any:
        """Of a key-value server (option outstanding=N): asks for all of these keys, with so many questions under way.
        Returns the value of the last one."""
        raise BenchError(f"cannot: {self.setup.contender} is no server")

    def serve(self) -> None:
        """Of a key-value server whose sides are client and server: answers what has come. Side b."""
        raise NotImplementedError

    def handles(self, sequence: list[int]) -> list[Any]:
        """Returns for each place of the sequence its key, or the function that gets that key's value."""
        return sequence

    def slice_ends(self) -> None:
        """Called at the end of a slice, outside of all clocks."""

    def close(self) -> None:
        """Called at the end of input."""

    def version(self) -> str:
        raise NotImplementedError


class MapRunner(Runner):
    """One map in one process."""

    def __init__(self, setup: Setup, map_: type[Map]) -> None:
        self.writes_beside = setup.options.get("beside") == "1"
        if self.writes_beside and not map_.beside:
            raise BenchError(f"cannot: {setup.contender}: one process at a time")
        self.puts = setup.options.get("operation") == "put"
        self.page = words.mapped(setup)
        self.slices = self.at = self.writes = 0
        self.sequence = read(setup.path("sequence")) if setup.producer or self.writes_beside else []
        self.keys = read(setup.path("keys")) if setup.producer else []
        super().__init__(setup, map_)  # type: ignore[arg-type]
        self.map: Any = self.contender

    def connect(self) -> None:
        if self.setup.producer:
            self.map.fill(self.keys)
            self.map.ready()
            self.page[FILLED] = 1
        elif self.writes_beside or self.map.server:
            while self.page[FILLED] == 0:
                time.sleep(0.001)
            self.map.join()
        else:
            return
        if self.puts or self.writes_beside and not self.setup.producer:
            self.values = [value_of(key, 1 + i) for i, key in enumerate(self.sequence)]
            self.handles: list[Any] = self.sequence
            half = len(self.sequence) // 2  # a writer does not bring the reader's next keys into the cache
            pairs = list(zip(self.sequence, self.values, strict=True))
            self.pairs = itertools.cycle(pairs[half:] + pairs[:half])
        else:
            self.handles = self.map.handles(self.sequence)

    def slice(self, timed: bool) -> dict[str, Any] | None:
        if not self.setup.producer:
            if self.map.server:
                self.serve()
            return self.write_beside() if self.writes_beside else None
        n = -(-self.count(False) // CHUNK) * CHUNK
        while self.writes_beside and self.page[BEGUN] <= self.slices:
            pass
        ns = self.put(n) if self.puts else self.get(n)
        self.ran(n, ns)
        self.slices += 1
        self.page[ENDED] = self.slices
        return {"kind": "mean", "count": n, "ns": ns}

    def chunks(self, n: int) -> Iterator[int]:
        """Returns where each chunk of the sequence begins."""
        length = len(self.sequence)
        first = self.at
        self.at = (first + n) % length
        return (at % length for at in range(first, first + n, CHUNK))

    def get(self, n: int) -> int:
        misses, asks = self.setup.options.get("misses") == "1", "outstanding" in self.setup.options
        get, lookup = None if asks else self.map.getter(), self.map.lookup
        handles, sequence = self.handles, self.sequence
        ns = 0
        for at in self.chunks(n):
            part = handles[at : at + CHUNK]
            start = clock()
            if asks:
                value = lookup(part)
            elif get is None:
                for handle in part:
                    value = handle()
            else:
                for key in part:
                    value = get(key)
            ns += clock() - start
            key = sequence[at + CHUNK - 1]
            if (value is not None) if misses else (value is None or not belongs(value, key)):
                raise BenchError(f"key {key} has the value {value!r}")
        return ns

    def put(self, n: int) -> int:
        put = self.map.putter()
        keys, values = self.sequence, self.values
        ns = 0
        for at in self.chunks(n):
            part = list(zip(keys[at : at + CHUNK], values[at : at + CHUNK], strict=True))
            start = clock()
            for key, value in part:
                put(key, value)
            ns += clock() - start
        return ns

    def serve(self) -> None:
        serve, page = self.map.serve, self.page
        self.slices += 1
        while page[ENDED] < self.slices:
            serve()

    def write_beside(self) -> dict[str, Any]:
        put, page = self.map.putter(), self.page
        self.slices += 1
        start, count = clock(), 0
        pairs = self.pairs
        while page[ENDED] < self.slices:
            for key, value in itertools.islice(pairs, 64):
                put(key, value)
            count += 64
            if count == 64:
                page[BEGUN] = self.slices
        return {"kind": "mean", "count": count, "ns": clock() - start}


def read(path: str) -> list[int]:
    keys = array.array("q")
    with open(path, "rb") as file:
        keys.fromfile(file, os.fstat(file.fileno()).st_size // 8)
    return keys.tolist()
