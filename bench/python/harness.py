# SPDX-License-Identifier: Apache-2.0
"""Turns and slices of bench/PEER.md, the same for every contender.

A contender gives Python source text for sending and receiving one message, from which loops.py makes the loops, as
timeit does with its statements. So a loop calls the contender's own bound method from a local variable, without a
wrapper. The messages are bytes objects made beforehand. The cyclic garbage collector is off.
"""

from __future__ import annotations

import array
import ctypes
import gc
import json
import os
import platform
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import loops
import words

FACTOR = 0x9E3779B97F4A7C15
WORD = 2**64 - 1
DIFFERENT = 64  # the number of different messages of a producer
MOST_TIMED = 2_000_000
LIBRARY = Path(__file__).resolve().parent / "../../build/bench-cpp/probe/libflyring_probe.so"


class BenchError(Exception):
    """Ends the program with status 1 and this text on standard error."""


@dataclass
class Setup:
    """The parameters from the driver."""

    contender: str
    side: str
    scenario: str
    size: int
    mode: str
    wait: str
    core: int
    dir: str
    sides: int
    rate: float
    time_slice: float
    options: dict[str, str] = field(default_factory=dict)

    @property
    def producer(self) -> bool:
        """Whether this side is a producer, or the client in round trips."""
        return self.side[0] == "a"

    @property
    def number(self) -> int:
        """The number of this producer or consumer: 0 or 1."""
        return len(self.side) - 1

    @property
    def streaming(self) -> bool:
        """Whether messages go only from a to b."""
        return self.scenario not in ("rtt", "schedule")

    @property
    def whole(self) -> bool:
        """Whether every byte is written and compared; else only word 0."""
        return self.mode == "write"

    @property
    def producers(self) -> int:
        return int(self.options.get("producers", 1))

    @property
    def consumers(self) -> int:
        return int(self.options.get("consumers", 1))

    @property
    def slots(self) -> int:
        """The capacity of queues that count messages: the same as in the other languages."""
        return 1024 if self.size < 65536 else 64

    def path(self, name: str) -> str:
        return f"{self.dir}/{name}"

    def unique(self, name: str) -> str:
        """Returns a unique name, for mechanisms with their own namespace."""
        return f"{os.path.basename(self.dir.rstrip('/'))}-{name}"


class Messages:
    """The messages of one producer, and the values that a receiver expects (bench/PEER.md, messages)."""

    def __init__(self, producer: int, size: int, whole: bool) -> None:
        tags = [DIFFERENT * producer + s for s in range(DIFFERENT)]
        words = range(1, size // 8) if whole else ()
        full = [
            b"".join(word.to_bytes(8, "little") for word in [t, *[(t + i) * FACTOR & WORD for i in words]])
            for t in tags
        ]
        self.tags = tags
        self.whole = [m.ljust(size, b"\0") for m in full]
        self.words = [t.to_bytes(8, "little") for t in tags]
        self.end = (b"\xff" * size) if whole else (b"\xff" * 8).ljust(size, b"\0")


class Contender:
    """One way to pass messages. Opens what it can open alone in __init__, and the rest in connect.

    The texts are Python statements (`same`, `same_word`, `content`: expressions) that loops.py puts into its loops.
    They find there as local variables what `names` gives.
    """

    scenarios: tuple[str, ...] = ("rtt", "schedule", "stream")
    waits: tuple[str, ...] = ("spin",)
    many_producers = many_consumers = False

    load = ""  # at the start of a slice
    send = ""  # sends `message`, waiting for room
    receive = ""  # waits for one message, and stores it in `got`
    same = "got == expected"  # whether every byte is as expected
    same_word = "word0(got) == expected"  # whether its first word is as expected
    content = "bytes(got)"  # the bytes of an unexpected message
    release = ""  # after the message was looked at
    save = ""  # at the end of a slice
    texts: dict[str, str] = {}  # loops that replace those of loops.py

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def connect(self) -> None:
        """Opens everything that needs the other sides."""

    def slice_ends(self) -> None:
        """Called at the end of a slice, outside of all clocks, for a contender that keeps messages."""

    def close(self) -> None:
        """Called at the end of input."""

    def names(self) -> dict[str, Any]:
        return {}

    def messages(self, producer: int) -> Messages:
        return Messages(producer, self.setup.size, self.setup.whole)

    def outgoing(self, messages: Messages) -> tuple[list[Any], Any]:
        """Returns the values of `message` for `send`, one after the other, and the end message."""
        return messages.whole, messages.end

    def expected(self, messages: Messages) -> list[Any]:
        """Returns the values of `expected` for `same` or `same_word`."""
        return messages.whole if self.setup.whole else [(tag,) for tag in messages.tags]

    def version(self) -> str:
        return "raw"


def load_probe() -> ctypes.CDLL:
    probe = ctypes.CDLL(os.environ.get("FLYRING_BENCH_PROBE", str(LIBRARY)), use_errno=True)
    probe.bench_map.argtypes, probe.bench_map.restype = [ctypes.c_char_p], ctypes.c_void_p
    probe.bench_pin.argtypes, probe.bench_pin.restype = [ctypes.c_int], ctypes.c_int
    probe.bench_probe.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    probe.bench_probe.restype = ctypes.c_double
    probe.bench_barrier.argtypes, probe.bench_barrier.restype = [ctypes.c_void_p, ctypes.c_int], None
    return probe


def clock_cost() -> float:
    clock, count = time.perf_counter_ns, 100_000
    start = clock()
    for _ in range(count):
        clock()
    return (clock() - start) / count


class Runner:
    """One contender in one process."""

    def __init__(self, setup: Setup, contender: type[Contender]) -> None:
        for name, value, allowed in (
            ("scenario", setup.scenario, contender.scenarios),
            ("wait", setup.wait, contender.waits),
            ("producers", setup.producers, (1, 2) if contender.many_producers else (1,)),
            ("consumers", setup.consumers, range(1, 1000) if contender.many_consumers else (1,)),
        ):
            if value not in allowed:
                raise BenchError(f"{setup.contender} has {name} {' or '.join(map(str, allowed))}, not {value}")
        self.setup = setup
        self.probe_library = load_probe()
        if setup.core >= 0 and self.probe_library.bench_pin(setup.core) != 0:
            raise BenchError(f"cannot pin to core {setup.core}")
        self.shared = self.probe_library.bench_map(setup.dir.encode())
        if not self.shared:
            raise BenchError(f"cannot map {setup.path('shared')}: {os.strerror(ctypes.get_errno())}")
        self.contender = contender(setup)
        self.rate, self.last, self.files = 0.0, 16, 0
        self.slices = 0
        self.words = words.mapped(setup) if setup.scenario in ("append", "replay") else None
        self.jobs: Any = None
        if setup.scenario == "jobs":
            import jobs

            self.jobs = jobs.Jobs(self.contender)
        self.samples = None
        if setup.producer and setup.scenario in ("rtt", "schedule"):
            self.samples = array.array("Q", bytes(8 * MOST_TIMED))

    def run(self) -> None:
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        opened = {"thread": threading.get_native_id(), "clock_ns": round(clock_cost(), 1)}
        opened |= {"runtime": runtime, "version": self.contender.version()}
        answer({"opened": True, **opened})
        for line in sys.stdin:
            command = line.split()
            if command == ["connect"]:
                self.connect()
                answer({"connected": True})
            elif len(command) == 3 and command[0] == "turn" and int(command[1]) > 0 and command[2] in ("mean", "timed"):
                slices, timed = int(command[1]), command[2] == "timed"
                answer(self.idle() if self.setup.scenario == "idle" else self.turn(slices, timed))
            else:
                raise BenchError(f"unknown command: {line.strip()}")
        self.contender.close()

    def connect(self) -> None:
        self.contender.connect()
        self.loops = loops.compile_all(self.contender, {"mistake": wrong, "must_be_end": self.must_be_end})

    def must_be_end(self, number: int, content: bytes) -> None:
        """Checks that an unexpected message is the end."""
        length = self.setup.size if self.setup.whole else 8
        if content[:length] != b"\xff" * length:
            wrong(number, content)

    def turn(self, slices: int, timed: bool) -> dict[str, Any]:
        probes: list[float] = []
        results: list[dict[str, Any]] = []
        gc.collect()
        gc.disable()
        self.probe(probes)
        for _ in range(slices):
            self.barrier()
            result = self.slice(timed)
            self.contender.slice_ends()
            if result:
                results.append(result)
            self.barrier()
            self.probe(probes)
        self.barrier()
        return {"probes": probes, "slices": results}

    def idle(self) -> dict[str, Any]:
        """Idle: the sender sends the end at once, and a receiver waits for it."""
        self.loops["send_end" if self.setup.producer else "receive_end"]()
        return {"probes": [], "slices": []}

    def barrier(self) -> None:
        self.probe_library.bench_barrier(self.shared, self.setup.sides)

    def probe(self, probes: list[float]) -> None:
        if self.setup.number != 0:
            return
        ns = self.probe_library.bench_probe(self.shared, 0 if self.setup.producer else 1, 20_000)
        if self.setup.producer:
            probes.append(ns)

    def slice(self, timed: bool) -> dict[str, Any] | None:
        setup = self.setup
        if setup.scenario == "jobs":
            return self.send_jobs() if setup.producer else self.jobs.work()
        if setup.scenario == "burst":
            return self.bursts() if setup.producer else {"kind": "mean", "count": self.loops["consume_bursts"]()}
        if self.words is not None:
            return self.append(self.words) if setup.producer else self.consume_behind(self.words)
        if setup.streaming:
            return self.produce() if setup.producer else self.consume()
        if not setup.producer:
            self.loops["serve"]()
            return None
        return self.schedule() if setup.scenario == "schedule" else self.round_trips(timed)

    def count(self, timed: bool) -> int:
        """Returns the number of messages in the next slice."""
        n = max(64, min(int(self.rate * self.setup.time_slice), 4 * self.last))
        return min(n, MOST_TIMED) if timed else n

    def ran(self, n: int, ns: int) -> None:
        self.last, self.rate = n, n * 1e9 / max(ns, 1)

    def round_trips(self, timed: bool) -> dict[str, Any]:
        n = self.count(timed)
        ns = self.loops["timed"](n=n, samples=self.samples) if timed else self.loops["mean"](n=n)
        self.ran(n, ns)
        return self.timed(n, ns) if timed else {"kind": "mean", "count": n, "ns": ns}

    def schedule(self) -> dict[str, Any]:
        n = max(64, min(int(self.setup.rate * self.setup.time_slice), MOST_TIMED))
        ns = self.loops["schedule"](n=n, samples=self.samples, period=1e9 / self.setup.rate)
        return self.timed(n, ns)

    def timed(self, n: int, ns: int) -> dict[str, Any]:
        assert self.samples is not None
        name = f"samples-{self.files}"
        self.files += 1
        with open(self.setup.path(name), "wb") as file:
            array.array("I", [min(ns, 2**32 - 1) for ns in self.samples[:n]]).tofile(file)
        return {"kind": "timed", "count": n, "ns": ns, "samples": name}

    def produce(self) -> dict[str, Any]:
        n = self.count(False)
        self.ran(n, self.loops["produce"](n=n))
        return {"kind": "mean", "count": n}

    def append(self, page: memoryview) -> dict[str, Any]:
        """Sends, then lets the reader begin. The clock runs while it sends."""
        n = self.count(False)
        ns = self.loops["produce"](n=n)
        self.ran(n, ns)
        self.slices += 1
        page[words.SLICES] = self.slices
        return {"kind": "mean", "count": n, "ns": ns}

    def consume_behind(self, page: memoryview) -> dict[str, Any]:
        self.slices += 1
        beside = self.setup.options.get("beside", "0") != "0"
        while not beside and page[words.SLICES] != self.slices:
            time.sleep(0.0002)
        return self.consume()

    def send_jobs(self) -> dict[str, Any]:
        n = self.count(False)
        self.ran(n, self.jobs.send(n))
        return {"kind": "mean", "count": n}

    def bursts(self) -> dict[str, Any]:
        n = self.count(False)
        ns = self.loops["produce_bursts"](n=n)
        self.ran(n, ns)
        return {"kind": "mean", "count": n, "ns": ns}

    def consume(self) -> dict[str, Any]:
        received, timed, ns = self.loops["consume" if self.setup.producers == 1 else "consume_several"]()
        return {"kind": "mean", "count": received, "ns": ns, "lost": 0, "timed": timed}


def answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def wrong(number: int, content: bytes) -> None:
    """Ends the slice, and the program, because of an unexpected message."""
    word = struct.unpack_from("<Q", content)[0] if len(content) >= 8 else -1
    found = f"begins with word {word:x} or has wrong bytes ({len(content)} of them)"
    raise BenchError(f"message {number} of this slice, tag {number % DIFFERENT}, {found}")
