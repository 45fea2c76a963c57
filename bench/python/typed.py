# SPDX-License-Identifier: Apache-2.0
"""Typed messages in Python, nanoseconds per message: python typed.py [-o results.json]

Writes and reads eight fields of PriceUpdate (spec/sbe/prices.xml): in place by flyring.sbe, in a buffer and in a ring,
and by other libraries. A pyperf program: its options are pyperf's; --quick takes less than half a minute. Needs msgpack
and protobuf (requirements-peers.txt). One process is both publisher and subscriber; a ring is filled or emptied outside
of the time that counts.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flyring
import msgpack
import numpy
import pyperf
from flyring import sbe
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCHEMA = sbe.Schema.load(Path(__file__).parents[2] / "spec" / "sbe" / "prices.xml")
PRICE = SCHEMA.PriceUpdate
NAMES = ("id", "timestamp", "bid", "ask", "bidSize", "askSize", "sequence", "flags")
VALUES = (42, 1_700_000_000_000_000_000, 100_000_001, 100_001_001, 5, 7, 12345, 1)
FORMAT = struct.Struct("<Qxxxxxxxxxxxxxxxx QqqIIIB x".replace(" ", ""))
PART = 2048  # messages of 128 bytes: a quarter of the ring
Write, Read = Callable[[], Any], Callable[[], tuple[Any, ...]]


def write(update: Any, instrument: Any) -> None:
    instrument.id, update.timestamp, update.bid, update.ask = VALUES[:4]
    update.bidSize, update.askSize, update.sequence, update.flags = VALUES[4:]


def read(update: Any) -> tuple[Any, ...]:
    return (update.instrument.id, update.timestamp, update.bid, update.ask, update.bidSize, update.askSize,
            update.sequence, update.flags)  # fmt: skip


# Ways to encode, and to decode what was encoded


def by_sbe() -> tuple[Write, Read]:
    buffer = bytearray(PRICE.BLOCK_LENGTH + 8)

    def encode() -> Any:
        update = PRICE.encode(buffer)
        write(update, update.instrument)

    return encode, lambda: read(PRICE.decode(buffer))


def by_struct() -> tuple[Write, Read]:
    buffer = bytearray(FORMAT.size)
    return lambda: FORMAT.pack_into(buffer, 0, *VALUES), lambda: FORMAT.unpack_from(buffer)


def by_msgpack() -> tuple[Write, Read]:
    packer, packed = msgpack.Packer(), msgpack.packb(dict(zip(NAMES, VALUES, strict=True)))

    def decode() -> tuple[Any, ...]:
        r = msgpack.unpackb(packed)
        return tuple([r[name] for name in NAMES])

    return lambda: packer.pack(dict(zip(NAMES, VALUES, strict=True))), decode


def by_pickle() -> tuple[Write, Read]:
    pickled = pickle.dumps(dict(zip(NAMES, VALUES, strict=True)), pickle.HIGHEST_PROTOCOL)

    def decode() -> tuple[Any, ...]:
        r = pickle.loads(pickled)
        return tuple([r[name] for name in NAMES])

    return lambda: pickle.dumps(dict(zip(NAMES, VALUES, strict=True)), pickle.HIGHEST_PROTOCOL), decode


def by_protobuf() -> tuple[Write, Read]:
    file = descriptor_pb2.FileDescriptorProto(name="price.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Price")
    for number, name in enumerate(NAMES, 1):
        message.field.add(
            name=name,
            number=number,
            type=descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
            label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Price"))
    encoded = cls(**dict(zip(NAMES, VALUES, strict=True))).SerializeToString()

    def encode() -> Any:
        m = cls()
        m.id, m.timestamp, m.bid, m.ask, m.bidSize, m.askSize, m.sequence, m.flags = VALUES
        return m.SerializeToString()

    def decode() -> tuple[Any, ...]:
        m = cls.FromString(encoded)
        return m.id, m.timestamp, m.bid, m.ask, m.bidSize, m.askSize, m.sequence, m.flags

    return encode, decode


# In a ring


class Ring:
    """A channel with its publisher and its subscriber."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as path:
            self.channel = flyring.Channel.create(f"{path}/typed.ring", "broadcast", publishers=1, subscribers=1)
        self.publisher, self.subscriber = self.channel.publisher(), self.channel.subscriber()
        self.rows = numpy.zeros(PART, PRICE.dtype)

    def publish(self, count: int) -> None:
        for _ in range(count):
            update = self.publisher.claim(PRICE)
            assert update is not None
            write(update, update.instrument)
            update.commit()

    def offer_array(self, count: int) -> None:
        assert self.publisher.offer_array(PRICE, self.rows[:count]) == count

    def poll(self, count: int) -> None:
        def look(update: Any, message: flyring.Message) -> None:
            read(update)

        handler = sbe.dispatch({PRICE: look})
        got = 0
        while got < count:
            got += self.subscriber.poll(handler)
        assert got == count

    def poll_arrays(self, count: int) -> None:
        def add(rows: Any) -> None:
            int(rows["bid"].sum()) + int(rows["askSize"].sum())

        got = 0
        while got < count:
            got += self.subscriber.poll_arrays(PRICE, add)
        assert got == count

    def drain(self, count: int) -> None:
        while self.subscriber.poll(lambda message: None):
            pass


def in_parts(before: Callable[[Ring, int], None], timed: Callable[[Ring, int], None]) -> Callable[[int], float]:
    def measure(loops: int) -> float:
        ring, spent = Ring(), 0
        for left in range(loops, 0, -PART):
            count = min(left, PART)
            before(ring, count)
            start = time.perf_counter_ns()
            timed(ring, count)
            spent += time.perf_counter_ns() - start
            ring.drain(count)
        ring.channel.close()
        return spent / 1e9

    return measure


def main() -> None:
    quick = "--quick" in sys.argv
    if quick:
        sys.argv.remove("--quick")
    runner = pyperf.Runner(**({"processes": 1, "values": 5, "warmups": 1, "min_time": 0.02} if quick else {}))
    runner.metadata["flyring_version"] = flyring.__version__
    for name, way in (
        ("flyring.sbe", by_sbe),
        ("struct", by_struct),
        ("msgpack", by_msgpack),
        ("pickle", by_pickle),
        ("protobuf", by_protobuf),
    ):
        encode, decode = way()
        encode()
        assert tuple(int(value) for value in decode()) == VALUES, name
        runner.bench_func(f"encode: {name}", encode)
        runner.bench_func(f"decode: {name}", decode)
    for name, before, timed in (
        ("claim, 8 fields, commit", lambda ring, count: None, Ring.publish),
        ("poll, dispatch, 8 fields", Ring.publish, Ring.poll),
        ("offer_array", lambda ring, count: None, Ring.offer_array),
        ("poll_arrays, sums of two fields", Ring.offer_array, Ring.poll_arrays),
    ):
        runner.bench_time_func(f"ring: {name}", in_parts(before, timed))


if __name__ == "__main__":
    main()
