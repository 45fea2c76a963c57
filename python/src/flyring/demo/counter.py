# SPDX-License-Identifier: Apache-2.0
"""The counter demo (bench/DEMOS.md): two processes increment one mapped 64-bit counter in turn, by compare-and-set."""

from __future__ import annotations

import contextlib
import os
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from .._core import File, Memory
from . import DemoError

FILE_LENGTH = 4096
COUNTER = 0
STOP = -1


def pause(strategy: str) -> Callable[[int], None]:
    """Returns the function to call after the n-th read without a change. A change of the counter wakes no process, so
    "block" is the same as "backoff"."""
    if strategy == "spin":
        return lambda reads: None
    if strategy == "yield":
        return lambda reads: os.sched_yield()
    return lambda reads: time.sleep(min(1e-6 * 2 ** (reads // 100), 1e-3)) if reads > 100 else None


def map_counter(path: Path) -> Memory:
    return Memory(File(str(path), os.O_RDWR), FILE_LENGTH, True)


def create_counter(path: Path) -> Memory:
    """Makes a new file under a temporary name, and renames it when it is complete."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.posix_fallocate(fd, 0, FILE_LENGTH)
    os.close(fd)
    temporary.rename(path)
    return map_counter(path)


class ReplacedError(Exception):
    """Another file has the path now."""


def wait_for(memory: Memory, value: int, options: Namespace, still_there: Callable[[], bool] = lambda: True) -> int:
    """Waits until the counter is `value` or negative, and returns its value."""
    load, idle = memory.load64_volatile, pause(options.wait)
    reads, give_up = 0, 0.0
    while True:
        found = load(COUNTER)
        if found == value or found < 0:
            return found
        reads += 1
        idle(reads)
        if reads % 1000 == 0:
            now = time.monotonic()
            give_up = give_up or now + options.timeout
            if now > give_up:
                raise DemoError(f"the counter stood still for {options.timeout:g} s; is the other side running?")
            if not still_there():
                raise ReplacedError


def round_trips(memory: Memory, first: int, count: int, options: Namespace) -> float:
    """Does `count` round trips, starting with the counter at 2 * first. Returns their mean in nanoseconds."""
    load, raise_to = memory.load64_volatile, memory.compare_and_set64
    start = time.monotonic_ns()
    for even in range(2 * first, 2 * (first + count), 2):
        if not raise_to(COUNTER, even, even + 1):
            raise DemoError(f"the counter is {load(COUNTER)}, not {even}: another process changes it too")
        if load(COUNTER) != even + 2:
            wait_for(memory, even + 2, options)
    return (time.monotonic_ns() - start) / count


def ping(
    path: Path, options: Namespace, report: Callable[[float], None], record: Callable[[int], object] | None
) -> None:
    """Makes the counter odd; `record` gets the nanoseconds of each round trip, `report` the mean."""
    memory = create_counter(path)
    try:
        done = max(options.warmup, 1)
        round_trips(memory, 0, done, options)
        if record is None:
            report(round_trips(memory, done, options.count, options))
            return
        clock, total = time.monotonic_ns, 0
        begin = clock()
        for i in range(options.count):
            start = clock()
            if options.rate:
                due = begin + int(i * 1e9 / options.rate)
                while clock() < due:
                    pass
                start = due
            round_trips(memory, done + i, 1, options)
            taken = clock() - start
            total += taken
            record(taken)
        report(total / options.count)
    finally:
        memory.store64_volatile(COUNTER, STOP)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def pong(path: Path, options: Namespace) -> None:
    """Makes the counter even until it is negative."""
    give_up = time.monotonic() + options.timeout
    while True:
        with contextlib.suppress(
            FileNotFoundError, ReplacedError
        ):  # an earlier run's file: take the one that came instead
            raise_even(path, options)
            return
        if time.monotonic() > give_up:
            raise DemoError(f"there is no {path} after {options.timeout:g} s; is the other side running?")
        time.sleep(0.01)


def raise_even(path: Path, options: Namespace) -> None:
    memory, file = map_counter(path), path.stat().st_ino
    load, raise_to = memory.load64_volatile, memory.compare_and_set64

    def still_there() -> bool:
        try:
            return path.stat().st_ino == file
        except FileNotFoundError:
            return True  # ping has ended, and said so in the counter

    odd = 1
    while True:
        value = load(COUNTER)
        if value != odd:
            value = wait_for(memory, odd, options, still_there)
        if value < 0:
            return
        if not raise_to(COUNTER, odd, odd + 1):
            if load(COUNTER) < 0:
                return
            raise DemoError(f"the counter is {load(COUNTER)}, not {odd}: another process changes it too")
        odd += 2
