# SPDX-License-Identifier: Apache-2.0
"""The command line and the reports of the demo programs."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import Channel, FlyringError, NoSuchChannelError, channel_path, unlink
from . import DemoError, counter, typed
from . import __doc__ as demo_text
from .ping import MESSAGE, Ping, pong

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

LONGEST_NS = 60_000_000_000
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


def run_ping(options: argparse.Namespace) -> None:
    with open_channel(options) as channel:
        publisher = channel.publisher("ping", wait=options.wait)
        subscriber = channel.subscriber("ping", rings=[1 - publisher.ring], wait=options.wait)
        ping = (typed.TypedPing if options.typed else Ping)(options, publisher, subscriber)
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
        (typed.pong if options.typed else pong)(options, publisher, subscriber)


def counter_path(options: argparse.Namespace) -> Path:
    """Returns <folder>/<NAME>.counter. For a channel given by its path: the path with .counter instead of .ring."""
    return Path(channel_path(options.channel).removesuffix(".ring") + ".counter")


def run_counter_ping(options: argparse.Namespace) -> None:
    histogram = None if options.untimed else new_histogram()
    counter.ping(
        counter_path(options),
        options,
        lambda mean: report("counter ping", options, mean, histogram),
        None if histogram is None else recorder(histogram),
    )


def run_counter_pong(options: argparse.Namespace) -> None:
    counter.pong(counter_path(options), options)


def open_channel(options: argparse.Namespace) -> Channel:
    return Channel.open_or_create(
        options.channel,
        kind="broadcast",
        capacity=options.capacity,
        alignment=options.alignment,
        publishers=2,
        subscribers=2,
        counters=0,
        schema=typed.SCHEMA if options.typed else "",
    )


def recorder(histogram: HdrHistogram) -> Callable[[int], object]:
    """Returns a function that records nanoseconds, limited to the histogram's range."""
    record, highest = histogram.record_value, LONGEST_NS
    return lambda taken: record(min(max(taken, 1), highest))


def new_histogram() -> HdrHistogram:
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise DemoError("the hdrhistogram package is missing: pip install 'flyring[demo]', or --untimed") from error
    return HdrHistogram(1, LONGEST_NS, 3)


def report(program: str, options: argparse.Namespace, mean: float, histogram: HdrHistogram | None) -> None:
    """Prints the table, or one JSON object, and writes the histogram if asked to."""
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
    parser = argparse.ArgumentParser(prog="python -m flyring.demo", description=demo_text)
    parser.add_argument("program", nargs="+", help="ping or pong, or counter ping, or counter pong")
    parser.add_argument("--channel", default="demo", metavar="NAME", help="channel name or path (demo)")
    parser.add_argument("--size", type=int, metavar="BYTES", help="message size, 32 or more (32)")
    parser.add_argument("--typed", action="store_true", help="send PriceUpdate messages of spec/sbe/prices.xml")
    parser.add_argument("--count", type=int, default=1_000_000, metavar="N", help="measured round trips (1000000)")
    parser.add_argument("--warmup", type=int, default=100_000, metavar="N", help="round trips before those (100000)")
    parser.add_argument("--rate", type=float, default=0, metavar="R", help="messages per second; 0: no schedule (0)")
    parser.add_argument("--core", type=int, default=-1, metavar="N", help="pin the process to this core; -1: do not")
    parser.add_argument("--wait", choices=("block", "spin", "yield", "backoff"), default="spin")
    parser.add_argument("--capacity", type=int, default=1 << 20, metavar="BYTES")
    parser.add_argument("--alignment", type=int, choices=(64, 8), default=64)
    parser.add_argument("--timeout", type=float, default=30, metavar="S", help="give up after S seconds of silence")
    parser.add_argument("--histogram", metavar="FILE", help="write the recorded times as an HdrHistogram V2, base64")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--untimed", action="store_true", help="read the clock twice only: mean and count")
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
    if options.typed and options.warmup + options.count > typed.MOST:
        parser.error(f"--typed takes {typed.MOST} messages at most")
    if options.size is None:
        options.size = typed.LENGTH if options.typed else MESSAGE.size
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
    except (DemoError, FlyringError, OSError) as error:
        print(f"flyring.demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
