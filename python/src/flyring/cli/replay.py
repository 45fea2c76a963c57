# SPDX-License-Identifier: Apache-2.0
"""``flyring replay``: publishes the messages of a recording again (spec/journal.md 9). They move in the C core."""

from __future__ import annotations

import argparse
import sys
import time

from .. import Channel, Publisher
from .._core import Replay
from ..errors import InvalidArgumentError
from ..journal import Journal
from ..journal_reader import JournalReader
from .journal_damage import Damages
from .journal_lines import Choice, Texts, add_choice, add_range, chosen, start_of, within
from .record import duration, stopping
from .recording import (
    SENDER,
    SOURCE,
    Decoder,
    Lost,
    Recorded,
    Source,
    check_content,
    source_and_ring,
    state_before,
)
from .report import printable

LATE = 1_000_000  # ns: a message that is published later than this after its time is late
SPIN = 200_000  # ns: the last part of a wait, without sleep
TURN = 65536  # messages: between two looks at the clock for the progress
NEVER = 2**63 - 1
LIMIT, NOTHING, END, OTHER, ROUTE, DUE, BLOCKED = range(7)  # why a step of the core ended (core/replay.c)
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
        self.core: Replay | None = None
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
        if self.options.step or self.choice.reads_content:
            self.once_one_by_one()
            return
        given = self.options
        with self.damages.reader(self.journal, start_of(given) or "oldest") as reader:
            decoder = state_before(self.journal, reader.number, reader.position) if start_of(given) else Decoder()
            end = self.journal.stats().published
            until_time = NEVER if given.to_time is None else given.to_time
            until_number = NEVER if given.to_number is None else given.to_number
            speed = 0.0 if given.fast else given.speed
            core = self.core = Replay(reader, tuple(given.type), end, until_time, until_number, speed)
            while not self.stop:
                why = core.step(TURN)
                self.progress()
                if why in (NOTHING, END):
                    break
                if why == OTHER and not self.pass_other(reader, decoder, core):
                    break
                if why == ROUTE:
                    self.add_route(reader, decoder, core)
                elif why == DUE:
                    self.sleep_until(core.due)
            self.damages.end(reader, decoder.unknown)
            self.core = None
            self.published += core.published
            self.late += core.late
            self.latest = max(self.latest, core.latest)

    def pass_other(self, reader: JournalReader, decoder: Decoder, core: Replay) -> bool:
        """Passes a record that is no message. False: it lies behind the chosen part."""
        message = reader.take(0)
        assert message is not None
        item = decoder.feed(message)
        if message.type in (SOURCE, SENDER):
            core.forget_routes()
        if isinstance(item, Lost):
            if not within(self.options, item.time, -1):
                return False
            self.lost += item.messages if self.choice.source(item) else 0
        return True

    def add_route(self, reader: JournalReader, decoder: Decoder, core: Replay) -> None:
        """Finds where messages of a ring go, of which the next message is the first."""
        message = reader._peek()
        assert message is not None
        number, ring = source_and_ring(bytes(message))
        source = decoder.sources.get(number)
        if source is None:  # its record is damaged
            reader.take(0)
            decoder.feed(message)
            return
        state = decoder.rings.get((number, ring))
        sender = "" if state is None else state.sender
        chosen = self.choice.ring(source, ring) and self.choice.sender(sender)
        core.route(number, ring, self.publisher_of(source, ring, sender) if chosen else None)

    def sleep_until(self, due: int) -> None:
        """Sleeps most of the time until then. The core looks at the clock again."""
        left = due - time.monotonic_ns()
        if left > SPIN:
            time.sleep(min((left - SPIN) / 1e9, 0.1))

    def once_one_by_one(self) -> None:
        """The same for a choice by content, and in steps."""
        first: int | None = None
        begun = 0
        for item in chosen(self.journal, self.options, self.choice, self.damages):
            if self.stop:
                return
            if isinstance(item, Lost):
                self.lost += item.messages
                continue
            publisher = self.publisher_of(item.source, item.ring, item.sender)
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
            self.sleep_until(due)

    def publish(self, publisher: Publisher, item: Recorded) -> None:
        while publisher.offer(item.payload, item.type) is None:
            if self.stop:
                return
            self.progress()
            time.sleep(0.0001)
        self.published += 1
        if self.published & 1023 == 0:
            self.progress()

    def publisher_of(self, source: Source, ring: int, sender: str) -> Publisher:
        """One publisher for each sender that was recorded, with its name."""
        title = self.names.get(source.name) or self.one or source.name
        key = (title, ring, sender) if title != self.one else (title, 0, "replay")
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
        core = self.core  # of the turn that runs
        published = self.published + (core.published if core else 0)
        late, latest = self.late + (core.late if core else 0), max(self.latest, core.latest if core else 0)
        text = f"{published} messages, {published / max(now - self.began, 1e-9):.0f}/s"
        if late:
            text += f"; {late} late, at most {latest / 1e6:.3g} ms"
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
