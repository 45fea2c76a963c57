# SPDX-License-Identifier: Apache-2.0
"""The demo with ``--typed`` (bench/DEMOS.md): the messages are ``PriceUpdate`` of spec/sbe/prices.xml."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from importlib import resources
from typing import Any

from .. import BackPressuredError, Message, Publisher, Subscriber, sbe
from . import DemoError

LENGTH = 70  # of the payload, in bytes
PROBE_INTERVAL = 0.05
PROBE = 0
STOP = 0xFFFFFFFF
MOST = STOP - 1  # messages of a run

SCHEMA: Any = sbe.Schema.parse(resources.files(__package__).joinpath("prices.xml").read_text("utf-8"))
PriceUpdate = SCHEMA.PriceUpdate
STOCK = PriceUpdate.instrument.type.kind.type.STOCK
OPENING, CLOSING = PriceUpdate.flags.type.opening, PriceUpdate.flags.type.closing
FLAGS = [(0 if s % 2 else OPENING) | (0 if s % 3 else CLOSING) for s in range(6)]
BUY, SELL = PriceUpdate.lastSide.type.BUY, PriceUpdate.lastSide.type.SELL
SIDES = (BUY, BUY, SELL, None)


def fill(update: Any, sequence: int, send_time: int, answer: bool) -> None:
    """Writes every field of ping's message, or of pong's answer, in which bid and ask are exchanged."""
    bid, bid_size, ask_size = 100_000_000 + sequence, sequence % 1000 + 1, sequence % 777 + 1
    instrument = update.instrument
    instrument.id = 42
    instrument.symbol = "FLYR"
    instrument.exchange = "XFLY"
    instrument.currency = "EUR"
    instrument.kind = STOCK
    update.timestamp = send_time
    update.bid, update.ask = (bid + 1000, bid) if answer else (bid, bid + 1000)
    update.bidSize, update.askSize = (ask_size, bid_size) if answer else (bid_size, ask_size)
    update.sequence = sequence
    update.flags = FLAGS[sequence % 6]
    update.lastSide = SIDES[sequence % 4]


def check(update: Any, send_time: int | None, answer: bool) -> int:
    """Returns the sequence if every field is right, else raises DemoError with the name of the first wrong field."""
    sequence: int = update.sequence
    bid, bid_size, ask_size = 100_000_000 + sequence, sequence % 1000 + 1, sequence % 777 + 1
    if answer:
        bid, ask, bid_size, ask_size = bid + 1000, bid, ask_size, bid_size
    else:
        ask = bid + 1000
    instrument = update.instrument
    got = (
        *(instrument.id, instrument.symbol, instrument.exchange, instrument.currency, instrument.kind),
        *(update.bid, update.ask, update.bidSize, update.askSize, update.flags, update.lastSide),
    )
    want = (42, "FLYR", "XFLY", "EUR", STOCK, bid, ask, bid_size, ask_size, FLAGS[sequence % 6], SIDES[sequence % 4])
    if got != want or (send_time is not None and update.timestamp != send_time):
        names = ("instrument.id", "instrument.symbol", "instrument.exchange", "instrument.currency", "instrument.kind",
                 "bid", "ask", "bidSize", "askSize", "flags", "lastSide", "timestamp")  # fmt: skip
        ours, theirs = (*want, send_time), (*got, update.timestamp)
        name, right, wrong = next(one for one in zip(names, ours, theirs, strict=True) if one[1] != one[2])
        raise DemoError(f"{name} of message {sequence} came as {wrong!r}, not {right!r}")
    return sequence


class TypedPing:
    """The asking side: publishes a message, waits for its answer, and checks every field of it."""

    def __init__(self, options: argparse.Namespace, publisher: Publisher, subscriber: Subscriber) -> None:
        self.rate: float = options.rate
        self.timeout: float = options.timeout
        self.publisher, self.poll = publisher, subscriber.poll
        self.handler = sbe.dispatch({PriceUpdate: self.on_answer})
        self.sequence = PROBE
        self.send_time: int | None = None
        self.waiting = False

    def on_answer(self, update: Any, message: Message) -> None:
        if self.sequence != PROBE and update.sequence == PROBE:
            check(update, None, True)  # an answer to an old probe
        elif update.sequence != self.sequence:
            raise DemoError(f"sequence of message {self.sequence} came back as {update.sequence}")
        else:
            check(update, self.send_time, True)
            self.waiting = False

    def send(self, sequence: int, send_time: int) -> None:
        try:
            update = self.publisher.claim(PriceUpdate, 0, self.timeout)
        except BackPressuredError as error:
            raise DemoError(f"the other side did not read for {self.timeout:g} s") from error
        fill(update, sequence, send_time, False)
        update.commit()

    def connect(self) -> None:
        """Publishes probes until one is answered."""
        give_up = time.monotonic() + self.timeout
        self.waiting = True
        while time.monotonic() < give_up:
            self.send(PROBE, time.monotonic_ns())
            self.poll(self.handler, 256, PROBE_INTERVAL)
            if not self.waiting:
                return
        raise DemoError(f"no answer within {self.timeout:g} s; is the other side running?")

    def round_trip(self, sequence: int, send_time: int) -> None:
        self.sequence, self.send_time, self.waiting = sequence, send_time, True
        self.send(sequence, send_time)
        while self.waiting:
            if self.poll(self.handler, 1, self.timeout) == 0:
                raise DemoError(f"no answer to message {sequence} within {self.timeout:g} s")

    def untimed(self, count: int) -> float:
        """Does `count` round trips. Returns their mean in nanoseconds, from two readings of the clock."""
        first = self.sequence + 1
        start = time.monotonic_ns()
        for sequence in range(first, first + count):
            self.round_trip(sequence, start)
        return (time.monotonic_ns() - start) / max(count, 1)

    def timed(self, count: int, record: Callable[[int], object]) -> float:
        """Does `count` round trips, and calls `record` with the nanoseconds of each. Returns their mean."""
        first, clock, total = self.sequence + 1, time.monotonic_ns, 0
        begin = clock()
        for i in range(count):
            start = clock()
            if self.rate:
                due = begin + int(i * 1e9 / self.rate)
                while start < due:
                    start = clock()
                start = due
            self.round_trip(first + i, start)
            taken = clock() - start
            total += taken
            record(taken)
        return total / count

    def stop(self) -> None:
        with contextlib.suppress(BackPressuredError), self.publisher.claim(PriceUpdate, 0, 1) as update:
            fill(update, STOP, time.monotonic_ns(), False)


def pong(options: argparse.Namespace, publisher: Publisher, subscriber: Subscriber) -> None:
    """The answering side. Ends with the message STOP."""
    claim, prefetch, poll, timeout = publisher.claim, publisher.prefetch, subscriber.poll, options.timeout
    ended = False

    def on_question(update: Any, message: Message) -> None:
        nonlocal ended
        prefetch()  # for the answer
        sequence = check(update, None, False)
        if sequence == STOP:
            ended = True
            return
        try:
            answer = claim(PriceUpdate, 0, timeout)
        except BackPressuredError as error:
            raise DemoError(f"the other side did not read for {timeout:g} s") from error
        fill(answer, sequence, update.timestamp, True)
        answer.commit()

    handler = sbe.dispatch({PriceUpdate: on_question})
    while not ended:
        if poll(handler, 256, timeout) == 0:
            raise DemoError(f"no message for {timeout:g} s; is the other side running?")
