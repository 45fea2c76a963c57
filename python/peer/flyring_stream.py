# SPDX-License-Identifier: Apache-2.0
"""Makes and checks the messages of the deterministic stream of interop-tests/PEER.md."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flyring import LossySubscriber, Message, Subscriber

MASK = 2**64 - 1
SEED_STEP = 0x9E3779B97F4A7C15
MESSAGE_STEP = 0xD1B54A32D192ED03
NUMBER = 8  # bytes of a number


def mix(state: int) -> int:
    """Returns SplitMix64's output for a state that was already advanced."""
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@functools.cache
def lanes(count: int) -> tuple[int, int, int]:
    """Constants for `count` numbers at once, each in 128 bits of one large integer: ones, 64-bit masks, and steps."""
    ones = sum(1 << 128 * k for k in range(count))
    steps = sum((k * SEED_STEP & MASK) << 128 * k for k in range(count))
    return ones, ones * MASK, steps


def words(state: int, count: int) -> bytes:
    """Returns `count` outputs, the first for `state`, as little-endian bytes."""
    ones, masks, steps = lanes(count)
    x = (ones * state + steps) & masks
    z = ((x ^ (x >> 30 & masks)) * 0xBF58476D1CE4E5B9) & masks
    z = ((z ^ (z >> 27 & masks)) * 0x94D049BB133111EB) & masks
    z ^= z >> 31 & masks
    return memoryview(z.to_bytes(16 * count, "little")).cast("Q")[::2].tobytes()


def message_at(
    seed: int, i: int, least: int, most: int, fixed_type: int | None = None, numbered: bool = False
) -> tuple[int, bytes]:
    """Returns type and payload of message i. ``numbered``: the payload begins with i."""
    state = (seed * SEED_STEP + i * MESSAGE_STEP + SEED_STEP) & MASK
    length = least + mix(state) % (most - least + 1)
    state = (state + SEED_STEP) & MASK
    kind = 1 + mix(state) % 1000 if fixed_type is None else fixed_type
    if length == 0:
        return kind, b""
    data = words((state + SEED_STEP) & MASK, (length + 7) // 8)[:length]
    return kind, i.to_bytes(NUMBER, "little") + data[NUMBER:] if numbered else data


class BadStreamError(ValueError):
    """The parameters of a stream are invalid."""


@dataclass(frozen=True)
class Stream:
    """The parameters of a stream, as a request gives them."""

    seed: int
    least: int
    most: int
    fixed_type: int | None
    numbered: bool

    @classmethod
    def of(cls, request: dict[str, Any]) -> Stream:
        stream = cls(
            request["seed"], request["min"], request["max"], request.get("type"), bool(request.get("numbered", False))
        )
        if not (NUMBER if stream.numbered else 0) <= stream.least <= stream.most:
            raise BadStreamError("min must be 0 (of a numbered stream: 8) to max")
        return stream

    def message(self, i: int) -> tuple[int, bytes]:
        return message_at(self.seed, i, self.least, self.most, self.fixed_type, self.numbered)


def die() -> None:
    """Ends the process by SIGKILL, so that no cleanup runs."""
    os.kill(os.getpid(), signal.SIGKILL)


class StreamMismatchError(Exception):
    """The first difference from the expected stream."""

    def __init__(self, ring: int, sequence: int, what: str) -> None:
        super().__init__(f"ring {ring}, message {sequence}: {what}")
        self.ring, self.sequence, self.what = ring, sequence, what


class RingStream:
    """The expected and received messages of one ring. ``lost``: how many messages its subscriber has lost so far."""

    def __init__(self, request: dict[str, Any], lost: Callable[[int], int]) -> None:
        self.ring = int(request["ring"])
        self.stream = Stream.of(request)
        first = request.get("first", 0)
        if first is None and not self.stream.numbered:
            raise BadStreamError("where a stream is joined can be seen only if it is numbered")
        self.next: int | None = first  # None: joined in the middle, and no message was received yet
        self.end = (first or 0) + int(request["count"])
        self.first: int | None = None
        self.seen = self.lost = 0
        self.lost_now, self.lost_before = lost, lost(self.ring)

    def skip_lost(self) -> None:
        """Skips the messages that were lost since the last call."""
        now = self.lost_now(self.ring)
        if now == self.lost_before:
            return
        gap, self.lost_before = now - self.lost_before, now
        self.lost += gap
        if self.next is None:
            return
        if not self.stream.numbered:
            raise StreamMismatchError(self.ring, self.next, f"{gap} messages were lost of a stream without numbers")
        self.next += gap
        if self.next > self.end:
            raise StreamMismatchError(self.ring, self.end, f"{gap} messages were lost, more than there were")

    @property
    def missing(self) -> int:
        """Returns how many messages are still to come, at least."""
        return 1 if self.next is None else self.end - self.next

    def check(self, message: Message) -> None:
        self.skip_lost()
        if self.next is None:
            self.next = int.from_bytes(bytes(message)[:NUMBER], "little")
        sequence, data = self.next, bytes(message)
        if sequence >= self.end:
            raise StreamMismatchError(self.ring, sequence, "one message more than the stream has")
        kind, expected = self.stream.message(sequence)
        if self.stream.numbered and data[:NUMBER] != expected[:NUMBER]:
            number = int.from_bytes(data[:NUMBER], "little")
            raise StreamMismatchError(self.ring, sequence, f"it is number {number}, {self.lost} were lost until now")
        if len(data) != len(expected):
            raise StreamMismatchError(self.ring, sequence, f"{len(data)} bytes, not {len(expected)}")
        if message.type != kind:
            raise StreamMismatchError(self.ring, sequence, f"type {message.type}, not {kind}")
        if data != expected:
            at = next(i for i, (a, b) in enumerate(zip(data, expected, strict=True)) if a != b)
            raise StreamMismatchError(self.ring, sequence, f"byte {at} is {data[at]:#04x}, not {expected[at]:#04x}")

    def count(self) -> None:
        """Counts the last message as right."""
        assert self.next is not None
        self.first = self.next if self.first is None else self.first
        self.next += 1
        self.seen += 1


class Verifier:
    """Checks the messages that a subscriber gets; each ring has one stream."""

    def __init__(
        self,
        subscriber: Subscriber | LossySubscriber,
        streams: list[dict[str, Any]],
        die_at: int | None,
        timeout: float = 0,
    ) -> None:
        self.subscriber, self.die_at, self.timeout = subscriber, die_at, timeout
        lost = subscriber.lost_messages if isinstance(subscriber, LossySubscriber) else lambda ring: 0
        self.streams = {int(stream["ring"]): RingStream(stream, lost) for stream in streams}
        self.count = 0

    @property
    def missing(self) -> int:
        """Returns how many messages are still to come, at least, without lost ones."""
        for stream in self.streams.values():
            stream.skip_lost()
        return sum(stream.missing for stream in self.streams.values())

    def turn(self, take: bool, limit: int) -> bool:
        """Takes or polls some messages. Returns whether there were any."""
        if take and self.count != self.die_at:  # a message from take counts as consumed
            message = self.subscriber.take(self.timeout)
            if message is not None:
                self.check(message)
            return message is not None
        return self.subscriber.poll(self.check, 1 if take else limit, self.timeout) > 0

    def check(self, message: Message) -> None:
        stream = self.streams.get(message.ring)
        if stream is None:
            what = f"a message of {len(message)} bytes from a ring without a stream"
            raise StreamMismatchError(message.ring, 0, what)
        stream.check(message)
        if self.count == self.die_at:
            die()
        stream.count()
        self.count += 1

    def counts(self) -> dict[str, int]:
        """Returns how many messages of each ring were right."""
        return {str(ring): stream.seen for ring, stream in self.streams.items()}

    def rings(self) -> dict[str, dict[str, int | None]]:
        return {
            str(ring): {"first": stream.first, "next": stream.next, "seen": stream.seen, "lost": stream.lost}
            for ring, stream in self.streams.items()
        }


def described(message: Message) -> dict[str, Any]:
    return {
        "data": bytes(message).hex(),
        "type": message.type,
        "ring": message.ring,
        "position": message.position,
        "sender": {"name": message.sender.name, "epoch": message.sender.epoch},
    }
