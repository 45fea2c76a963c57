# SPDX-License-Identifier: Apache-2.0
"""``flyring replay``: publishes the messages of a recording again (spec/journal.md 9)."""

from __future__ import annotations

import argparse
import sys
import time

from .. import Channel, Publisher
from ..errors import InvalidArgumentError
from ..journal import Journal
from .journal_damage import Damages
from .journal_lines import Choice, Texts, add_choice, add_range, chosen
from .record import duration, stopping
from .recording import Lost, Recorded, check_content
from .report import printable

LATE = 1_000_000  # ns: a message that is published later than this after its time is late
SPIN = 200_000  # ns: the last part of a wait, without sleep
LOOK = 1.0  # s


def add_arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("name", metavar="JOURNAL", help="the recording")
    one.add_argument(
        "--to",
        dest="to_names",
        metavar="[NAME=]CHANNEL",
        action="append",
        default=[],
        help="publish to another channel: all, or what was recorded of NAME; may be repeated",
    )
    one.add_argument("--speed", metavar="N", type=float, default=1.0, help="N times the recorded pace (default 1)")
    one.add_argument("--fast", action="store_true", help="as fast as it goes")
    one.add_argument("--step", action="store_true", help="publish one message for each line of standard input")
    one.add_argument("--loop", metavar="N", type=int, nargs="?", const=0, default=1,
                     help="play it N times (without N: until Ctrl-C)")  # fmt: skip
    one.add_argument("--wait-for-readers", metavar="TIME", type=duration,
                     help="begin when each channel has a subscriber, or after this time")  # fmt: skip
    one.add_argument("--quiet", action="store_true", help="print no progress")
    add_range(one)
    add_choice(one)


def replay(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if messages of the recording are damaged."""
    if options.speed <= 0:
        raise InvalidArgumentError("speed", f"{options.speed} must be above 0")
    if options.loop < 0:
        raise InvalidArgumentError("loop", f"{options.loop} must be 1 or more")
    with Journal.open(options.name, read_only=True, any_file_system=True) as journal, stopping() as stop:
        check_content(journal)
        player = Player(journal, options, stop)
        try:
            player.run()
        finally:
            player.close()
        return 1 if player.damages else 0


class Player:
    def __init__(self, journal: Journal, options: argparse.Namespace, stop: list[int]) -> None:
        self.journal, self.options, self.stop = journal, options, stop
        self.texts, self.damages = Texts(), Damages(journal.path)
        self.choice = Choice(options, self.texts)
        self.names, self.one = names_of(options.to_names)
        self.channels: dict[str, Channel] = {}
        self.publishers: dict[tuple[str, int, str], Publisher] = {}
        self.published = self.late = self.latest = self.lost = 0
        self.began = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def run(self) -> None:
        left = self.options.loop
        while not self.stop:
            self.once()
            left -= 1
            if left == 0:
                return

    def once(self) -> None:
        first: int | None = None
        begun = 0
        for item in chosen(self.journal, self.options, self.choice, self.damages):
            if self.stop:
                return
            if isinstance(item, Lost):
                self.lost += item.messages
                continue
            publisher = self.publisher_of(item)
            if self.options.step:
                if not sys.stdin.readline():
                    self.stop.append(0)
                    return
            elif not self.options.fast:
                if first is None:
                    first, begun = item.time, time.monotonic_ns()
                # A wall clock that went back makes no wait: what is due is published at once.
                self.wait_until(begun + int((item.time - first) / self.options.speed))
            self.publish(publisher, item)

    def wait_until(self, due: int) -> None:
        while not self.stop:
            left = due - time.monotonic_ns()
            if left <= 0:
                if left < -LATE:
                    self.late += 1
                    self.latest = max(self.latest, -left)
                return
            self.progress()
            if left > SPIN:
                time.sleep(min((left - SPIN) / 1e9, 0.1))

    def publish(self, publisher: Publisher, item: Recorded) -> None:
        while publisher.offer(item.payload, item.type) is None:
            if self.stop:
                return
            self.progress()
            time.sleep(0.0001)
        self.published += 1
        if self.published & 1023 == 0:
            self.progress()

    def publisher_of(self, item: Recorded) -> Publisher:
        """One publisher for each sender that was recorded, with its name."""
        title = self.names.get(item.source.name) or self.one or item.source.name
        key = (title, item.ring, item.sender) if title != self.one else (title, 0, "replay")
        publisher = self.publishers.get(key)
        if publisher is None:
            channel = self.channels.get(title)
            if channel is None:
                channel = self.channels[title] = Channel.open(title)
                if channel.kind == "service":
                    raise InvalidArgumentError("name", f"{title} is a service: its calls are not played again")
                if self.options.wait_for_readers is not None:
                    self.wait_for_readers(channel)
            for other in [one for one in self.publishers if one[:2] == key[:2]]:
                self.publishers.pop(other).close()  # the ring had another sender before
            publisher = self.publishers[key] = channel.publisher(key[2])
        return publisher

    def wait_for_readers(self, channel: Channel) -> None:
        end = time.monotonic() + self.options.wait_for_readers
        while not self.stop and time.monotonic() < end:
            if any(one.state == "live" for one in channel.stats().subscribers):
                return
            time.sleep(0.01)

    def progress(self, last: bool = False) -> None:
        now = time.monotonic()
        if self.options.quiet or (not last and now - self.shown < LOOK):
            return
        self.shown = now
        rate = self.published / max(now - self.began, 1e-9)
        text = f"{self.published} messages, {rate:.0f}/s"
        if self.late:
            text += f"; {self.late} late, at most {self.latest / 1e6:.3g} ms"
        if self.lost:
            text += f"; {self.lost} were lost when they were recorded"
        if self.terminal:
            print("\r" + text, end="\n" if last else "", file=sys.stderr, flush=True)
        elif last:
            print(f"flyring: {printable(text)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        self.progress(last=True)
        for publisher in self.publishers.values():
            publisher.close()
        for channel in self.channels.values():
            channel.close()


def names_of(given: list[str]) -> tuple[dict[str, str], str]:
    """The channels to publish to: by the recorded name, and for all others."""
    names: dict[str, str] = {}
    every = ""
    for text in given:
        name, found, other = text.partition("=")
        if not found:
            every = text
        elif name and other:
            names[name] = other
        else:
            raise InvalidArgumentError("to", f"{text!r} must be CHANNEL or NAME=CHANNEL")
    return names, every
