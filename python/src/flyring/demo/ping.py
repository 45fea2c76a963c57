# SPDX-License-Identifier: Apache-2.0
"""Ping and pong. A message is a fixed struct, followed by filler bytes."""

from __future__ import annotations

import argparse
import contextlib
import struct
import time
from collections.abc import Callable, Iterator

from .. import BackPressuredError, Message, Publisher, Subscriber
from . import DemoError

MESSAGE = struct.Struct("<qqdq")  # sequence, send time (ns), price, quantity
PATTERN = bytes(range(256)) * 2
PROBE_INTERVAL = 0.05
PROBE = 0
STOP = -1
TIMED = -2
"""The sequence of a message whose answer has, as its quantity, when pong received it, in ns of CLOCK_MONOTONIC."""
FIELDS = ("sequence", "send_time", "price", "quantity")


def filler(sequence: int, size: int) -> bytes:
    """Returns the bytes behind the struct: byte i of the message is (sequence + i) & 0xff."""
    start = (sequence + MESSAGE.size) & 0xFF
    length = size - MESSAGE.size
    return (PATTERN * (length // 256 + 1))[start : start + length]


class Ping:
    """The asking side: publishes a message, waits for its answer, and checks every byte of it. See also TypedPing."""

    def __init__(self, options: argparse.Namespace, publisher: Publisher, subscriber: Subscriber) -> None:
        self.size: int = options.size
        self.rate: float = options.rate
        self.timeout: float = options.timeout
        self.publish, self.take = publisher.send, subscriber.take
        self.sequence = 0

    def connect(self) -> None:
        """Publishes probes until one is answered."""
        give_up = time.monotonic() + self.timeout
        while time.monotonic() < give_up:
            self.publish(content(PROBE, time.monotonic_ns(), 1, self.size), 1, self.timeout)
            if self.take(PROBE_INTERVAL) is not None:
                return
        raise DemoError(f"no answer within {self.timeout:g} s; is the other side running?")

    def send(self, sequence: int, send_time: int) -> bytes:
        """Publishes a message. Returns the expected answer, which is computed while the message is on its way."""
        try:
            self.publish(content(sequence, send_time, 1, self.size), 1, self.timeout)
        except BackPressuredError as error:
            raise DemoError(f"the other side did not read for {self.timeout:g} s") from error
        return content(sequence, send_time, -1, self.size)

    def receive(self, sequence: int, expected: bytes, answer: Message | None) -> None:
        """Handles an answer that is not the expected one: skips answers to old probes, else raises DemoError with the
        name of the wrong field."""
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
        """Does `count` round trips. Returns their mean in nanoseconds, from two readings of the clock."""
        first = self.sequence + 1
        self.sequence += count
        publish, take, size, timeout = self.publish, self.take, self.size, self.timeout
        start = time.monotonic_ns()
        question = content(first, start, 1, size)
        with not_read(timeout):
            for sequence in range(first, first + count):
                publish(question, 1, timeout)
                expected = content(sequence, start, -1, size)  # computed while the message is on its way
                question = content(sequence + 1, start, 1, size)
                answer = take(timeout)
                if answer is None or answer != expected:
                    self.receive(sequence, expected, answer)
        return (time.monotonic_ns() - start) / max(count, 1)

    def timed(self, count: int, record: Callable[[int], object]) -> float:
        """Does `count` round trips, and calls `record` with the nanoseconds of each. Returns their mean."""
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
        with contextlib.suppress(BackPressuredError):
            self.publish(content(STOP, time.monotonic_ns(), 1, self.size), 1, 1)


@contextlib.contextmanager
def not_read(timeout: float) -> Iterator[None]:
    """Turns BackPressuredError into DemoError."""
    try:
        yield
    except BackPressuredError as error:
        raise DemoError(f"the other side did not read for {timeout:g} s") from error


def content(sequence: int, send_time: int, sign: int, size: int, pack: Callable[..., bytes] = MESSAGE.pack) -> bytes:
    """Returns a message of ping (sign 1), or pong's answer to it (sign -1)."""
    data = pack(sequence, send_time, 100 + (sequence % 1000) / 8.0, sign * sequence * 10)
    return data if size == 32 else data + filler(sequence, size)


def pong(options: argparse.Namespace, publisher: Publisher, subscriber: Subscriber) -> None:
    """The answering side."""
    take, publish, prefetch = subscriber.take, publisher.send, publisher.prefetch
    unpack, pack = MESSAGE.unpack_from, MESSAGE.pack
    timeout: float = options.timeout
    with not_read(timeout):
        while (message := take(timeout)) is not None:
            prefetch()  # for the answer
            sequence, send_time, price, quantity = unpack(message)
            if sequence == STOP:
                return
            answer = pack(sequence, send_time, price, time.monotonic_ns() if sequence == TIMED else -quantity)
            if len(message) != 32:
                answer += message.data[MESSAGE.size :]
            publish(answer, 1, timeout)
    raise DemoError(f"no message for {timeout:g} s; is the other side running?")
