# SPDX-License-Identifier: Apache-2.0
"""``flyring ping``: measures round trips to another process, and answers them (``--answer``). The other side may be the
demo program of any language (bench/DEMOS.md), or another ``flyring ping --answer``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any

from .. import Channel, unlink
from ..demo import DemoError
from ..demo.__main__ import open_channel
from ..demo.ping import MESSAGE, Ping, pong
from ..errors import ChannelDiffersError, InvalidArgumentError, NoFreeSlotError, NoSuchChannelError
from .report import print_json, printable

NAME = "demo"
"""The demo programs' default channel. So a demo program answers without the option ``--channel``."""
WARM_UP = 100
PERCENTILES = (50.0, 90.0, 99.0)


def add_arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("folder", nargs="?", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    one.add_argument("--answer", action="store_true", help="be the other side: answer until the asking side ends")
    one.add_argument("--channel", default=NAME, metavar="NAME", help=f"channel, removed at the end ({NAME})")
    one.add_argument("--count", type=int, default=1000, metavar="N", help="measured round trips (1000)")
    one.add_argument("--size", type=int, default=MESSAGE.size, metavar="BYTES", help=f"message size ({MESSAGE.size})")
    one.add_argument("--rate", type=float, default=0, metavar="R", help="messages per second; 0: no schedule (0)")
    one.add_argument(
        "--wait", choices=("block", "spin", "yield", "backoff"), default="block", help="how to wait (block)"
    )
    one.add_argument("--timeout", type=float, default=10, metavar="S", help="give up after S seconds of silence (10)")


def ping(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if no answer came, or a wrong one."""
    if options.count < 1:
        raise InvalidArgumentError("count", f"{options.count} must be 1 or more")
    if options.size < MESSAGE.size:
        raise InvalidArgumentError("size", f"{options.size} must be {MESSAGE.size} or more")
    if options.folder is not None:
        options.channel = os.path.join(os.path.abspath(options.folder), f"{options.channel}.ring")
    options.capacity, options.alignment, options.typed = 1 << 20, 64, False
    try:
        with open_channel(options) as channel:
            return answer(channel, options) if options.answer else ask(channel, options)
    except ChannelDiffersError as error:
        raise InvalidArgumentError("channel", f"{options.channel} is in use for something else: {error}") from error
    except DemoError as error:
        print(f"flyring: {printable(str(error))}: flyring ping --answer in another terminal, or a demo program's pong",
              file=sys.stderr)  # fmt: skip
        return 1


def answer(channel: Channel, options: argparse.Namespace) -> int:
    with (
        channel.publisher("pong", wait=options.wait) as publisher,
        channel.subscriber("pong", rings=[1 - publisher.ring], wait=options.wait) as subscriber,
    ):
        pong(options, publisher, subscriber)
    return 0


def ask(channel: Channel, options: argparse.Namespace) -> int:
    taken: list[int] = []
    with contextlib.ExitStack() as stack:
        try:
            publisher = stack.enter_context(channel.publisher("ping", wait=options.wait))
            reader = channel.subscriber("ping", rings=[1 - publisher.ring], wait=options.wait)
            side = Ping(options, publisher, stack.enter_context(reader))
        except NoFreeSlotError as error:
            raise DemoError(f"another ping runs on {channel.path}: {error}") from error
        try:
            side.connect()
            pid = channel.stats().publishers[1 - publisher.ring].pid
            side.untimed(WARM_UP)
            side.timed(options.count, taken.append)
        finally:
            side.stop()
            with contextlib.suppress(NoSuchChannelError):
                unlink(options.channel)
    taken.sort()
    show(channel, options, pid, taken)
    return 0


def show(channel: Channel, options: argparse.Namespace, pid: int, taken: list[int]) -> None:
    values: dict[str, Any] = {f"p{p:g}": taken[min(len(taken) - 1, int(len(taken) * p / 100))] for p in PERCENTILES}
    values |= {"max": taken[-1], "mean": round(sum(taken) / len(taken), 1), "count": len(taken)}
    if options.json:
        print_json({"version": 1, "path": channel.path, "pid": pid, "size": options.size, "unit": "ns"} | values)
        return
    print(f"{len(taken)} round trips of {options.size} bytes to pid {pid}, wait {options.wait}, in microseconds:")
    names = [*values][:-1]
    print("".join(f"{name:>10}" for name in names))
    print("".join(f"{values[name] / 1000:>10.1f}" for name in names))
