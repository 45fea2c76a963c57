# SPDX-License-Identifier: Apache-2.0
"""Counters in Agrona's layout, which all attached processes share (spec/channel.md 8)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import layout
from .errors import ClosedError, InvalidArgumentError, NoSpaceError
from .system import control_lock, new_lock

if TYPE_CHECKING:
    from .channel import Channel

IN_USE = 2**63 - 1


class Counter:
    """One signed 64-bit counter. Thread-safe, and any number of processes may use it at once. Values wrap.

    All methods raise ClosedError after the channel was closed, in a forked child, and after any process has freed the
    counter.
    """

    __slots__ = ("_counters", "_registration", "_value", "id")

    def __init__(self, counters: Counters, number: int) -> None:
        self._counters = counters
        self._value = counters._value_at(number)
        self._registration = counters._registration(number)
        self.id = number

    def _check(self) -> None:
        """Raises ClosedError if the counter was freed since it was allocated or found (spec/channel.md 8)."""
        if self._counters._registration(self.id) != self._registration:
            raise ClosedError("counter", detail="it was freed")

    @property
    def label(self) -> str:
        """The text given at allocation."""
        self._check()
        return self._counters._label(self.id)

    @property
    def type_id(self) -> int:
        """The type id given at allocation."""
        self._check()
        return self._counters._memory.load32(self._counters._metadata_at(self.id) + layout.COUNTER_METADATA_TYPE_ID)

    @property
    def key(self) -> bytes:
        """The key given at allocation, filled with zeros to 112 bytes."""
        self._check()
        at = self._counters._metadata_at(self.id) + layout.COUNTER_METADATA_KEY
        return self._counters._memory.read(at, layout.COUNTER_METADATA_KEY_LENGTH)

    def get(self) -> int:
        """Returns the value, by a plain load."""
        self._check()
        return self._counters._memory.load64_plain(self._value)

    def get_volatile(self) -> int:
        """Returns the value, by a sequentially consistent load."""
        self._check()
        return self._counters._memory.load64_volatile(self._value)

    def set(self, value: int) -> None:
        """Sets the value, by a plain store."""
        self._check()
        self._counters._memory.store64_plain(self._value, value)

    def set_volatile(self, value: int) -> None:
        """Sets the value, by a sequentially consistent store."""
        self._check()
        self._counters._memory.store64_volatile(self._value, value)

    def set_release(self, value: int) -> None:
        """Sets the value, by a release store: a reader of the value also sees earlier writes of this thread."""
        self._check()
        self._counters._memory.store64(self._value, value)

    def get_and_add(self, delta: int) -> int:
        """Adds ``delta`` and returns the previous value. Atomic and sequentially consistent."""
        self._check()
        return self._counters._memory.add64(self._value, delta)

    def compare_and_set(self, expected: int, new: int) -> bool:
        """Sets the value to ``new`` if it is ``expected``, and returns whether it was. Atomic and sequentially
        consistent."""
        self._check()
        return self._counters._memory.compare_and_set64(self._value, expected, new)

    def free(self) -> None:
        """Frees the counter. The next ``allocate``, in any process, may use it again."""
        self._counters._free(self.id, self._registration)

    def __repr__(self) -> str:
        freed = self._counters._registration(self.id) != self._registration
        return f"<flyring.Counter {self.id} {'freed' if freed else repr(self.label)}>"


class Counters:
    """The counters of a channel. Made by ``Channel.counters``. Iteration yields the allocated counters."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._attached = channel._attached
        self._memory = channel._attached.memory
        self._count = channel.header.counters

    def __len__(self) -> int:
        """The number of counters in the file, allocated or not."""
        return self._count

    def allocate(self, label: str, type_id: int = 0, key: bytes = b"") -> Counter:
        """Allocates a counter with the value 0.

        Raises NoSpaceError if all counters are in use; InvalidArgumentError for a label of more than 380 bytes in
        UTF-8, a key of more than 112 bytes, or a ``type_id`` that is not a 32-bit integer; AccessDeniedError if the
        channel is read-only.
        """
        text = label.encode("utf-8")
        if len(text) > layout.COUNTER_METADATA_LABEL_MAX_LENGTH:
            raise InvalidArgumentError("label", f"{len(text)} bytes of UTF-8 must be 380 at most")
        if len(key) > layout.COUNTER_METADATA_KEY_LENGTH:
            raise InvalidArgumentError("key", f"{len(key)} bytes must be 112 at most")
        if not -(2**31) <= type_id < 2**31:
            raise InvalidArgumentError("type_id", f"{type_id} must be a 32-bit integer")
        self._channel._check_writable()  # also checks that the descriptor still belongs to the file
        memory = self._memory
        lock = new_lock(self._attached.file, self._attached.path)
        try:
            with control_lock(lock, self._attached.path):
                number = self._unused()
                value, metadata = self._value_at(number), self._metadata_at(number)
                memory.store64(value + layout.COUNTER_VALUE_OWNER_ID, 0)
                memory.store64(value + layout.COUNTER_VALUE_REFERENCE_ID, 0)
                memory.store64(value + layout.COUNTER_VALUE_VALUE, 0)
                memory.store32(metadata + layout.COUNTER_METADATA_TYPE_ID, type_id)
                memory.store64(metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE, IN_USE)
                memory.write(
                    metadata + layout.COUNTER_METADATA_KEY, bytes(key).ljust(layout.COUNTER_METADATA_KEY_LENGTH, b"\0")
                )
                memory.write(metadata + layout.COUNTER_METADATA_LABEL, text)
                memory.store32(metadata + layout.COUNTER_METADATA_LABEL_LENGTH, len(text))
                # Last: a reader that sees ALLOCATED (walk, acquire) sees the other fields.
                memory.store32(metadata + layout.COUNTER_METADATA_STATE, layout.COUNTER_METADATA_STATE_ALLOCATED)
        finally:
            lock.close()
        return Counter(self, number)

    def counter(self, number: int) -> Counter:
        """Returns the counter with this id. Raises InvalidArgumentError if it is not allocated."""
        if not 0 <= number < self._count or self._state(number) != layout.COUNTER_METADATA_STATE_ALLOCATED:
            raise InvalidArgumentError("id", f"counter {number} of {self._count} is not allocated")
        return Counter(self, number)

    def find(self, label: str) -> Counter | None:
        """Returns the first allocated counter with this label, or None."""
        # _label, not label: any process may free the counter meanwhile, and then it is another one's label, or none.
        return next((counter for counter in self if self._label(counter.id) == label), None)

    def __iter__(self) -> Iterator[Counter]:
        for number in range(self._count):
            state = self._state(number)
            if state == layout.COUNTER_METADATA_STATE_UNUSED:
                return
            if state == layout.COUNTER_METADATA_STATE_ALLOCATED:
                yield Counter(self, number)

    def _metadata_at(self, number: int) -> int:
        return self._attached.header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * number

    def _value_at(self, number: int) -> int:
        return self._attached.header.counter_values_offset + layout.COUNTER_VALUE_STRIDE * number

    def _registration(self, number: int) -> int:
        return self._memory.load64_plain(self._value_at(number) + layout.COUNTER_VALUE_REGISTRATION_ID)

    def _state(self, number: int) -> int:
        return self._memory.load32(self._metadata_at(number) + layout.COUNTER_METADATA_STATE)  # pairs with allocate

    def _label(self, number: int) -> str:
        metadata = self._metadata_at(number)
        length = self._memory.load32(metadata + layout.COUNTER_METADATA_LABEL_LENGTH)
        if not 0 <= length <= layout.COUNTER_METADATA_LABEL_MAX_LENGTH:
            length = 0
        return self._memory.read(metadata + layout.COUNTER_METADATA_LABEL, length).decode("utf-8", "replace")

    def _unused(self) -> int:
        now = self._attached.identity.wall_clock() // 1_000_000
        for number in range(self._count):
            state = self._state(number)
            if state == layout.COUNTER_METADATA_STATE_UNUSED:
                return number
            if state == layout.COUNTER_METADATA_STATE_RECLAIMED:
                at = self._metadata_at(number) + layout.COUNTER_METADATA_FREE_FOR_REUSE
                if self._memory.load64(at) <= now:
                    return number
        raise NoSpaceError(self._attached.path, 1, 0, "counters")

    def _free(self, number: int, registration: int) -> None:
        self._channel._check_writable()
        metadata = self._metadata_at(number)
        lock = new_lock(self._attached.file, self._attached.path)
        try:
            with control_lock(lock, self._attached.path):
                allocated = self._state(number) == layout.COUNTER_METADATA_STATE_ALLOCATED
                if not allocated or self._registration(number) != registration:
                    raise ClosedError("counter", detail="it was freed")
                self._memory.store32(metadata + layout.COUNTER_METADATA_STATE, layout.COUNTER_METADATA_STATE_RECLAIMED)
                self._memory.write(metadata + layout.COUNTER_METADATA_KEY, bytes(layout.COUNTER_METADATA_KEY_LENGTH))
                following = (registration + 1 + 2**63) % 2**64 - 2**63  # wraps
                self._memory.store64(self._value_at(number) + layout.COUNTER_VALUE_REGISTRATION_ID, following)
                now = struct.pack("<q", self._attached.identity.wall_clock() // 1_000_000)
                self._memory.write(metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE, now)
        finally:
            lock.close()
