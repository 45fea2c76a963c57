# SPDX-License-Identifier: Apache-2.0
"""The demo program (bench/DEMOS.md): ``python -m flyring.demo [counter] ping|pong [options]``.

Start both sides, in any order, in two terminals; the other side may be the Java or the C++ one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import (
    Channel,
    FlyringError,
    Message,
    NoSuchChannelError,
    Publisher,
    Subscriber,
    channel_path,
    demo_counter,
    demo_typed,
    unlink,
)

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

MESSAGE = struct.Struct("<qqdq")  # sequence, send time (ns), price, quantity
PATTERN = bytes(range(256)) * 2
PROBE_INTERVAL = 0.05
PROBE = 0
STOP = -1
LONGEST_NS = 60_000_000_000
FIELDS = ("sequence", "send_time", "price", "quantity")
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


class DemoError(Exception):
    """Ends the demo with status 1 and this text on standard error."""


def filler(sequence: int, size: int) -> bytes:
    """What follows the struct: byte i of the message is (sequence + i) & 0xff."""
    start = (sequence + MESSAGE.size) & 0xFF
    length = size - MESSAGE.size
    return (PATTERN * (length // 256 + 1))[start : start + length]


class Ping:
    """The asking side: publishes a message, waits for its answer, checks every byte of it. See also TypedPing."""

    def __init__(self, options: argparse.Namespace, publisher: Publisher, subscriber: Subscriber) -> None:
        self.size: int = options.size
        self.rate: float = options.rate
        self.timeout: float = options.timeout
        self.offer, self.take = publisher.offer, subscriber.take
        self.sequence = 0

    def connect(self) -> None:
        """Publishes probes until one is answered."""
        give_up = time.monotonic() + self.timeout
        while time.monotonic() < give_up:
            self.offer(content(PROBE, time.monotonic_ns(), 1, self.size))
            if self.take(PROBE_INTERVAL) is not None:
                return
        raise DemoError(f"no answer within {self.timeout:g} s; is the other side running?")

    def send(self, sequence: int, send_time: int) -> bytes:
        """Publishes a message; returns the answer to expect, made up while the message is on its way."""
        if self.offer(content(sequence, send_time, 1, self.size), 1, self.timeout) < 0:
            raise DemoError(f"the other side did not read for {self.timeout:g} s")
        return content(sequence, send_time, -1, self.size)

    def receive(self, sequence: int, expected: bytes, answer: Message | None) -> None:
        """For an answer that is not the expected one: skips answers to old probes, else DemoError with the field."""
        while True:
            if answer is None:
                raise DemoError(f"no answer to message {sequence} within {self.timeout:g} s")
            if answer == expected:
                return
            if len(answer) != self.size:
                raise DemoError(f"the answer to message {sequence} has {len(answer)} bytes, not {self.size}")
            got, want = MESSAGE.unpack_from(answer), MESSAGE.unpack_from(expected)
            if got[0] != PROBE:
                for field, ours, theirs in zip(FIELDS, want, got, strict=True):
                    if ours != theirs:
                        raise DemoError(f"{field} of message {sequence} came back as {theirs}, not {ours}")
                raise DemoError(f"the bytes after the struct of message {sequence} came back wrong")
            answer = self.take(self.timeout)

    def untimed(self, count: int) -> float:
        """Mean nanoseconds of `count` round trips, by two looks at the clock."""
        first = self.sequence + 1
        self.sequence += count
        offer, take, size, timeout = self.offer, self.take, self.size, self.timeout
        start = time.monotonic_ns()
        question = content(first, start, 1, size)
        for sequence in range(first, first + count):
            if offer(question, 1, timeout) < 0:
                raise DemoError(f"the other side did not read for {timeout:g} s")
            expected = content(sequence, start, -1, size)  # while the message is on its way, as the next one is made
            question = content(sequence + 1, start, 1, size)
            answer = take(timeout)
            if answer is None or answer != expected:
                self.receive(sequence, expected, answer)
        return (time.monotonic_ns() - start) / max(count, 1)

    def timed(self, count: int, record: Callable[[int], object]) -> float:
        """The same; `record` gets the nanoseconds of each."""
        first = self.sequence + 1
        self.sequence += count
        clock, send, take, timeout = time.monotonic_ns, self.send, self.take, self.timeout
        total = 0
        begin = clock()
        for i in range(count):
            sequence, start = first + i, clock()
            if self.rate:
                due = begin + int(i * 1e9 / self.rate)
                while start < due:
                    start = clock()
                start = due
            expected = send(sequence, start)
            answer = take(timeout)
            taken = clock() - start
            if answer is None or answer != expected:
                self.receive(sequence, expected, answer)
            total += taken
            record(taken)
        return total / count

    def stop(self) -> None:
        self.offer(content(STOP, time.monotonic_ns(), 1, self.size), 1, 1)


def content(sequence: int, send_time: int, sign: int, size: int, pack: Callable[..., bytes] = MESSAGE.pack) -> bytes:
    """A message of ping (sign 1), or pong's answer to it (sign -1)."""
    data = pack(sequence, send_time, 100 + (sequence % 1000) / 8.0, sign * sequence * 10)
    return data if size == 32 else data + filler(sequence, size)


def run_ping(options: argparse.Namespace) -> None:
    with open_channel(options) as channel:
        publisher = channel.publisher("ping", wait=options.wait)
        subscriber = channel.subscriber("ping", rings=[1 - publisher.ring], wait=options.wait)
        ping = (demo_typed.TypedPing if options.typed else Ping)(options, publisher, subscriber)
        try:
            ping.connect()
            ping.untimed(options.warmup)
            if options.untimed:
                report("ping", options, ping.untimed(options.count), None)
            else:
                histogram = new_histogram()
                report("ping", options, ping.timed(options.count, recorder(histogram)), histogram)
        finally:
            ping.stop()
            with contextlib.suppress(NoSuchChannelError):
                unlink(options.channel)


def run_pong(options: argparse.Namespace) -> None:
    with open_channel(options) as channel:
        publisher = channel.publisher("pong", wait=options.wait)
        subscriber = channel.subscriber("pong", rings=[1 - publisher.ring], wait=options.wait)
        if options.typed:
            demo_typed.pong(options, publisher, subscriber)
            return
        take, offer, prefetch = subscriber.take, publisher.offer, publisher.prefetch
        unpack, pack = MESSAGE.unpack_from, MESSAGE.pack
        timeout: float = options.timeout
        while (message := take(timeout)) is not None:
            prefetch()  # for the answer
            sequence, send_time, price, quantity = unpack(message)
            if sequence == STOP:
                return
            answer = pack(sequence, send_time, price, -quantity)
            if len(message) != 32:
                answer += message.data[MESSAGE.size :]
            if offer(answer, 1, timeout) < 0:
                raise DemoError(f"the other side did not read for {timeout:g} s")
        raise DemoError(f"no message for {timeout:g} s; is the other side running?")


def counter_path(options: argparse.Namespace) -> Path:
    """<folder>/<NAME>.counter; for a channel given by its path, the path with .counter in the place of .ring."""
    return Path(channel_path(options.channel).removesuffix(".ring") + ".counter")


def run_counter_ping(options: argparse.Namespace) -> None:
    histogram = None if options.untimed else new_histogram()
    demo_counter.ping(
        counter_path(options),
        options,
        lambda mean: report("counter ping", options, mean, histogram),
        None if histogram is None else recorder(histogram),
    )


def run_counter_pong(options: argparse.Namespace) -> None:
    demo_counter.pong(counter_path(options), options)


def open_channel(options: argparse.Namespace) -> Channel:
    return Channel.open_or_create(
        options.channel,
        kind="broadcast",
        capacity=options.capacity,
        alignment=options.alignment,
        publishers=2,
        subscribers=2,
        counters=0,
        schema=demo_typed.SCHEMA if options.typed else "",
    )


def recorder(histogram: HdrHistogram) -> Callable[[int], object]:
    """Records nanoseconds, within what the histogram takes."""
    record, highest = histogram.record_value, LONGEST_NS
    return lambda taken: record(min(max(taken, 1), highest))


def new_histogram() -> HdrHistogram:
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise DemoError("the hdrhistogram package is missing: pip install 'flyring[demo]', or --untimed") from error
    return HdrHistogram(1, LONGEST_NS, 3)


def report(program: str, options: argparse.Namespace, mean: float, histogram: HdrHistogram | None) -> None:
    """Prints the table, or one JSON object, and writes the histogram where asked to."""
    values: dict[str, float] = {}
    if histogram is not None:
        for percentile in PERCENTILES:
            values[f"p{percentile:g}"] = histogram.get_value_at_percentile(percentile)
        values["max"] = histogram.get_max_value()
    values["mean"] = round(mean, 1)
    values["count"] = options.count
    if options.json:
        result: dict[str, Any] = {
            "program": program,
            "language": "python",
            "size": options.size,
            "count": options.count,
            "rate": options.rate,
            "wait": options.wait,
            "core": options.core,
            "unit": "ns",
        }
        if options.typed:
            result["typed"] = True
        print(json.dumps(result | values))
    else:
        pace = f"{options.rate:g} per second" if options.rate else "closed loop"
        print(
            f"{program} python: {options.count} round trips of {options.size} bytes, {pace}, "
            f"wait {options.wait}, core {options.core}"
        )
        print("".join(f"{name:>10}" for name in values))
        print("".join(f"{round(value):>10}" for value in values.values()) + "   ns")
    if options.histogram and histogram is not None:
        encoded = histogram.encode()
        Path(options.histogram).write_text(encoded.decode() + "\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m flyring.demo", description=__doc__)
    parser.add_argument("program", nargs="+", help="ping or pong, or counter ping, or counter pong")
    parser.add_argument("--channel", default="demo", metavar="NAME", help="channel name or path (demo)")
    parser.add_argument("--size", type=int, metavar="BYTES", help="message size, 32 or more (32)")
    parser.add_argument("--typed", action="store_true", help="messages are PriceUpdate of prices.xml, field by field")
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N", help="measured round trips (1000000)")
    parser.add_argument("--warmup", type=int, default=100_000, metavar="N", help="round trips before them (100000)")
    parser.add_argument("--rate", type=float, default=0, metavar="R", help="messages per second; 0: no schedule (0)")
    parser.add_argument("--core", type=int, default=-1, metavar="N", help="pin the process to this core; -1: do not")
    parser.add_argument("--wait", choices=("spin", "yield", "backoff"), default="spin")
    parser.add_argument("--capacity", type=int, default=1 << 20, metavar="BYTES")
    parser.add_argument("--alignment", type=int, choices=(64, 8), default=64)
    parser.add_argument("--timeout", type=float, default=30, metavar="S", help="give up after this silence (30)")
    parser.add_argument("--histogram", metavar="FILE", help="write the recorded times as an HdrHistogram V2, base64")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--untimed", action="store_true", help="look at the clock twice only: mean and count")
    options = parser.parse_args(arguments)
    programs = {
        "ping": ["ping"],
        "pong": ["pong"],
        "counter-ping": ["counter", "ping"],
        "counter-pong": ["counter", "pong"],
    }
    named = [name for name, words in programs.items() if words == options.program]
    if not named:
        parser.error("say ping, pong, counter ping or counter pong")
    options.program = named[0]
    if options.typed and (options.size is not None or len(options.program.split("-")) > 1):
        parser.error("--typed is for ping and pong, and has a size of its own")
    if options.typed and options.warmup + options.count > demo_typed.MOST:
        parser.error(f"--typed takes {demo_typed.MOST} messages at most")
    if options.size is None:
        options.size = demo_typed.LENGTH if options.typed else MESSAGE.size
    if options.size < MESSAGE.size:
        parser.error(f"--size must be {MESSAGE.size} or more")
    if options.count < 1:
        parser.error("--count must be 1 or more")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(sys.argv[1:] if arguments is None else arguments)
    programs: dict[str, Callable[[argparse.Namespace], None]] = {
        "ping": run_ping,
        "pong": run_pong,
        "counter-ping": run_counter_ping,
        "counter-pong": run_counter_pong,
    }
    try:
        if options.core >= 0:
            os.sched_setaffinity(0, {options.core})
        programs[options.program](options)
    except (DemoError, demo_counter.CounterError, demo_typed.TypedError, FlyringError, OSError) as error:
        print(f"flyring.demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
