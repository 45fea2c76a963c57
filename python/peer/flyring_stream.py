# SPDX-License-Identifier: Apache-2.0
"""The deterministic stream of interop-tests/PEER.md: making its messages, and checking them."""

from __future__ import annotations

import functools
from typing import Any

from flyring import Message

MASK = 2**64 - 1
SEED_STEP = 0x9E3779B97F4A7C15
MESSAGE_STEP = 0xD1B54A32D192ED03


def mix(state: int) -> int:
    """SplitMix64's output for a state that was already advanced."""
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@functools.cache
def lanes(count: int) -> tuple[int, int, int]:
    """For `count` numbers at once, each in 128 bits of one large integer: ones, masks of 64 bits, and the steps."""
    ones = sum(1 << 128 * k for k in range(count))
    steps = sum((k * SEED_STEP & MASK) << 128 * k for k in range(count))
    return ones, ones * MASK, steps


def words(state: int, count: int) -> bytes:
    """`count` outputs, the first for `state`, as little-endian bytes."""
    ones, masks, steps = lanes(count)
    x = (ones * state + steps) & masks
    z = ((x ^ (x >> 30 & masks)) * 0xBF58476D1CE4E5B9) & masks
    z = ((z ^ (z >> 27 & masks)) * 0x94D049BB133111EB) & masks
    z ^= z >> 31 & masks
    return memoryview(z.to_bytes(16 * count, "little")).cast("Q")[::2].tobytes()


def message_at(seed: int, i: int, least: int, most: int, fixed_type: int | None) -> tuple[int, bytes]:
    """Type and payload of message i."""
    state = (seed * SEED_STEP + i * MESSAGE_STEP + SEED_STEP) & MASK
    length = least + mix(state) % (most - least + 1)
    state = (state + SEED_STEP) & MASK
    kind = 1 + mix(state) % 1000 if fixed_type is None else fixed_type
    if length == 0:
        return kind, b""
    return kind, words((state + SEED_STEP) & MASK, (length + 7) // 8)[:length]


class StreamMismatchError(Exception):
    """The first wrong thing."""

    def __init__(self, ring: int, sequence: int, what: str) -> None:
        super().__init__(f"ring {ring}, message {sequence}: {what}")
        self.ring, self.sequence, self.what = ring, sequence, what


class Verifier:
    """Checks messages, of one stream per ring, as they come."""

    def __init__(self, streams: list[dict[str, Any]]) -> None:
        self.streams = {int(stream["ring"]): stream for stream in streams}
        self.next = {ring: int(stream.get("first", 0)) for ring, stream in self.streams.items()}
        self.missing = sum(int(stream["count"]) for stream in streams)
        self.count = 0

    def counts(self) -> dict[str, int]:
        """How many messages of each ring were right."""
        return {str(ring): self.next[ring] - int(stream.get("first", 0)) for ring, stream in self.streams.items()}

    def check(self, message: Message) -> None:
        ring = message.ring
        stream = self.streams.get(ring)
        if stream is None:
            raise StreamMismatchError(ring, 0, f"a message of {len(message)} bytes from a ring without a stream")
        sequence = self.next[ring]
        if sequence >= int(stream.get("first", 0)) + int(stream["count"]):
            raise StreamMismatchError(ring, sequence, "one message more than the stream has")
        kind, data = message_at(stream["seed"], sequence, stream["min"], stream["max"], stream.get("type"))
        if len(message) != len(data):
            raise StreamMismatchError(ring, sequence, f"{len(message)} bytes, not {len(data)}")
        if message.type != kind:
            raise StreamMismatchError(ring, sequence, f"type {message.type}, not {kind}")
        if bytes(message) != data:
            at = next(i for i, (a, b) in enumerate(zip(bytes(message), data, strict=True)) if a != b)
            raise StreamMismatchError(ring, sequence, f"byte {at} is {bytes(message)[at]:#04x}, not {data[at]:#04x}")
        self.next[ring] = sequence + 1
        self.count += 1
        self.missing -= 1
