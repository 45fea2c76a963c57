# SPDX-License-Identifier: Apache-2.0
"""Micro-benchmarks of the Python binding, and of ways to encode a record: python micro.py -o results.json

A pyperf program: its options are pyperf's (-o, --affinity, -b, --rigorous, ...), and --quick, for less than half a
minute. One process is both publisher and subscriber; only the calls named are timed, with their for loop (see "empty
loop").
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flyring
import pyperf

MESSAGE = bytes(range(32))
AT_ONCE = 4096  # messages of 32 bytes: a quarter of the ring
BATCH = 256


class Ring:
    """A channel with its publisher and its subscriber."""

    def __init__(self) -> None:
        folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
        with tempfile.TemporaryDirectory(dir=folder) as path:  # the mapping outlives its file
            self.channel = flyring.Channel.create(f"{path}/micro.ring", "broadcast", publishers=1, subscribers=1)
        self.publisher = self.channel.publisher(wait="spin")
        self.subscriber = self.channel.subscriber(wait="spin")

    def fill(self, count: int) -> None:
        for _ in range(count):
            assert self.publisher.offer(MESSAGE)

    def drain(self) -> None:
        while self.subscriber.poll(lambda message: None):
            pass


def in_parts(before: Callable[[Ring, int], object], timed: Callable[[Ring, range], int]) -> Callable[[int], float]:
    """Times calls in parts of a few thousand. `before` prepares each part, and the ring is drained after it."""

    def measure(loops: int) -> float:
        ring, total = Ring(), 0
        for left in range(loops, 0, -AT_ONCE):
            count = min(left, AT_ONCE)
            before(ring, count)
            total += timed(ring, range(count))
            ring.drain()
        ring.channel.close()
        return total / 1e9

    return measure


def nothing(ring: Ring, count: int) -> None:
    """Prepares nothing."""


def empty_loop(ring: Ring, rounds: range) -> int:
    start = time.perf_counter_ns()
    for _ in rounds:
        pass
    return time.perf_counter_ns() - start


def offer(ring: Ring, rounds: range) -> int:
    offer, message = ring.publisher.offer, MESSAGE
    start = time.perf_counter_ns()
    for _ in rounds:
        offer(message)
    return time.perf_counter_ns() - start


def claim_commit(ring: Ring, rounds: range) -> int:
    claim, message, pack_into = ring.publisher.claim, MESSAGE, struct.Struct("32s").pack_into
    start = time.perf_counter_ns()
    for _ in rounds:
        space = claim(32)
        pack_into(space, 0, message)
        space.commit()
    return time.perf_counter_ns() - start


def take(ring: Ring, rounds: range) -> int:
    take = ring.subscriber.take
    start = time.perf_counter_ns()
    for _ in rounds:
        take()
    return time.perf_counter_ns() - start


def take_nothing(ring: Ring, rounds: range) -> int:
    return take(ring, rounds)


def poll(ring: Ring, rounds: range) -> int:
    def handler(message: flyring.Message) -> None:
        pass

    poll = ring.subscriber.poll
    start = time.perf_counter_ns()
    while poll(handler, BATCH):
        pass
    return time.perf_counter_ns() - start


def offer_batch(ring: Ring, rounds: range) -> int:
    offer_batch, batch = ring.publisher.offer_batch, (MESSAGE,) * BATCH
    whole, rest = divmod(len(rounds), BATCH)
    start = time.perf_counter_ns()
    for _ in range(whole):
        offer_batch(batch)
    offer_batch(batch[:rest])
    return time.perf_counter_ns() - start


def a_message() -> flyring.Message:
    ring = Ring()
    ring.fill(1)
    message = ring.subscriber.take()
    assert message is not None
    ring.channel.close()
    return message


# The record of the encodings: written to bytes and read back, every field.

FORMAT = struct.Struct("<qqdqdii8s")
NAMES = ("sequence", "sent", "price", "quantity", "volume", "side", "flags", "symbol")
VALUES = (1, 1_700_000_000_000_000_000, 100.125, 10, 1e6, 1, 3, b"EURUSD\0\0")


class Fields(ctypes.LittleEndianStructure):
    _pack_ = 1
    _fields_ = list(
        zip(
            NAMES,
            (
                ctypes.c_int64,
                ctypes.c_int64,
                ctypes.c_double,
                ctypes.c_int64,
                ctypes.c_double,
                ctypes.c_int32,
                ctypes.c_int32,
                ctypes.c_char * 8,
            ),
            strict=True,
        )
    )


@dataclass(slots=True)
class Record:
    sequence: int
    sent: int
    price: float
    quantity: int
    volume: float
    side: int
    flags: int
    symbol: bytes


def by_struct() -> Callable[[], tuple[Any, ...]]:
    buffer = bytearray(FORMAT.size)
    pack_into, unpack_from, values = FORMAT.pack_into, FORMAT.unpack_from, VALUES

    def both() -> tuple[Any, ...]:
        pack_into(buffer, 0, *values)
        return unpack_from(buffer)

    return both


def by_ctypes() -> Callable[[], tuple[Any, ...]]:
    r = Fields.from_buffer(bytearray(ctypes.sizeof(Fields)))
    values = VALUES

    def both() -> tuple[Any, ...]:
        r.sequence, r.sent, r.price, r.quantity, r.volume, r.side, r.flags, r.symbol = values
        return r.sequence, r.sent, r.price, r.quantity, r.volume, r.side, r.flags, r.symbol

    return both


def by_pickle() -> Callable[[], tuple[Any, ...]]:
    dumps, loads, values = pickle.dumps, pickle.loads, VALUES

    def both() -> tuple[Any, ...]:
        r = loads(dumps(Record(*values), pickle.HIGHEST_PROTOCOL))
        return r.sequence, r.sent, r.price, r.quantity, r.volume, r.side, r.flags, r.symbol

    return both


def by_json() -> Callable[[], tuple[Any, ...]]:
    dumps, loads, names = json.dumps, json.loads, NAMES
    values = (*VALUES[:-1], VALUES[-1].decode())  # JSON has no bytes

    def both() -> tuple[Any, ...]:
        r = loads(dumps(dict(zip(names, values))).encode())
        return (
            r["sequence"],
            r["sent"],
            r["price"],
            r["quantity"],
            r["volume"],
            r["side"],
            r["flags"],
            r["symbol"].encode(),
        )

    return both


def check(both: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    values = [value.rstrip(b"\0") if isinstance(value, bytes) else value for value in both()]
    assert values == [*VALUES[:-1], VALUES[-1].rstrip(b"\0")], values
    return both


def main() -> None:
    quick = "--quick" in sys.argv
    if quick:
        sys.argv.remove("--quick")
    runner = pyperf.Runner(**({"processes": 1, "values": 5, "warmups": 1, "min_time": 0.02} if quick else {}))
    runner.metadata["flyring_version"] = flyring.__version__
    for name, before, timed in (
        ("empty loop", nothing, empty_loop),
        ("offer 32 B", nothing, offer),
        ("claim, pack_into and commit 32 B", nothing, claim_commit),
        ("take 32 B", Ring.fill, take),
        ("take, nothing there", nothing, take_nothing),
        ("poll 32 B, up to 256 a call", Ring.fill, poll),
        ("offer_batch 32 B, 256 a call", nothing, offer_batch),
    ):
        runner.bench_time_func(name, in_parts(before, timed))
    names = {"message": a_message(), "expected": MESSAGE, "unpack_from": struct.Struct("<4q").unpack_from}
    for statement in (
        "memoryview(message)",
        "message.data",
        "bytes(message)",
        "message == expected",
        "unpack_from(message)",
    ):
        runner.timeit(statement, statement, globals=names)
    for name, way in (
        ("record: struct.Struct", by_struct),
        ("record: ctypes.Structure", by_ctypes),
        ("record: dataclass, pickle", by_pickle),
        ("record: json", by_json),
    ):
        runner.bench_func(name, check(way()))


if __name__ == "__main__":
    main()
