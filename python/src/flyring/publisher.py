# SPDX-License-Identifier: Apache-2.0
"""Publisher: the only writer of its ring (spec/api.md, spec/channel.md 6.1 to 6.3)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from . import _core, layout
from .closing import Closing
from .errors import BackPressuredError, ClosedError, InvalidArgumentError, IoError
from .loops import Readable
from .slots import PublisherSlot, read_slot
from .system import control_lock, is_locked
from .wait import Wait, check_timeout

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy
    from numpy.typing import NDArray

    from .channel import Channel
    from .sbe.flyweight import Message


@dataclass(frozen=True)
class Holder:
    """The subscriber that holds a publisher back: the one with the smallest position.

    A subscriber that is a stock Agrona process (spec/channel.md 6.15) has no name and pid 0, and counts as live.
    """

    slot: int
    name: str
    """The name of the slot's last owner; may be empty."""
    pid: int
    """The process id of the slot's last owner, in that process's own pid namespace."""
    live: bool
    """Whether a process owns the slot now."""
    kept: bool
    """Whether the slot keeps its position without an owner."""
    position: int
    """Up to where the subscriber has read, in bytes: its gate."""


class Publisher(_core.Publisher, Closing):
    """Publishes messages into its own ring. Made by ``Channel.publisher``.

    A publisher is a context manager: leaving the ``with`` block closes it. It is not thread-safe: give each thread a
    publisher of its own. Concurrent use is detected on a best-effort basis and raises TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the slot was taken away, and
    ViewAliveError while a claim is open. A method that finds no room raises ChannelReplacedError if another channel has
    the name now; then nothing was published, and the publisher still works.
    """

    __slots__ = ("__weakref__", "_channel", "_lock", "_name", "_readable")

    _channel: Channel
    _lock: _core.File
    _name: str
    _readable: Readable

    def __new__(cls, channel: Channel, slot: PublisherSlot, wait: Wait, max_lag: int) -> Self:
        attached = channel._attached
        self = super().__new__(
            cls,
            attached.memory,
            attached.header.geometry,
            slot.lock,
            slot.slot,
            slot.epoch,
            slot.position,
            slot.count,
            slot.name,
            wait,
            max_lag,
            attached.identity.monotonic or 0,
            layout.TYPE_RAW if attached.header.schema_length else 1,
            attached.wakes,
        )
        self._channel = channel
        self._lock = slot.lock
        self._name = slot.name.decode("ascii")
        return self

    @property
    def readers(self) -> int:
        """The number of subscribers that read this ring now: live owners of slots with a gate in it. Each of them
        gets every message that is published from now on. A stock Agrona subscriber counts. On a queue, the number of
        live workers.

        Tests the lock of each slot with a system call, so keep it off the hot path. Waits while another process takes
        a slot; if such a process is stopped, IoError (EAGAIN) after 5 s.
        """
        if self.closed:
            raise ClosedError("publisher", self._channel._forked)
        attached = self._channel._attached
        header, memory = attached.header, attached.memory

        def count(slots: Iterable[int]) -> int:
            locks = (header.subscriber_slot(k) + layout.CONTROL_SLOT_LOCK for k in slots)
            return sum(is_locked(self._lock, at, attached.path) for at in locks)

        if header.is_queue:  # all workers, with or without a job in hand; a worker gets earlier jobs, too
            return count(range(1, header.subscribers))
        gating = (k for k in range(header.subscribers) if memory.load64(header.gate(self.ring, k)) >= 0)
        if header.foreign:
            return sum(1 for _ in gating)
        try:
            with control_lock(self._lock, attached.path):  # so that no join is under way (spec/channel.md 6.4)
                return count(gating)
        except IoError:
            if self.closed:  # by another thread
                raise ClosedError("publisher", self._channel._forked) from None
            raise

    @property
    def name(self) -> str:
        """The name that the publisher was made with; may be empty. The next publisher of that name gets the same
        ring."""
        return self._name

    def _check_replaced(self) -> None:
        """Raises ChannelReplacedError if another channel has the name (spec/channel.md 6.13). Called by the core."""
        self._channel._check_replaced()

    def offer_array(self, message: type[Message], array: NDArray[numpy.void]) -> int:
        """Publishes each row of a structured array as one message of the class ``message``, with its header. Does not
        wait. Returns how many rows were published, from the first on: 0 to all.

        The array has the dtype ``message.dtype``. An array with the same fields in other types or at other offsets is
        cast, field by field.

        Raises InvalidArgumentError for a class with groups or data, and if a field is missing, unknown, or would lose
        information in the cast; MessageTooLargeError.
        """
        return self._publish_array(message, array, 0)

    def send_array(self, message: type[Message], array: NDArray[numpy.void], timeout: float | None = None) -> int:
        """Like ``offer_array``, but waits for room. Returns how many rows were published: all of them, unless
        ``timeout`` seconds (None: no limit) passed first."""
        return self._publish_array(message, array, timeout)

    def _publish_array(self, message: type[Message], array: NDArray[numpy.void], timeout: float | None) -> int:
        from .sbe.dtype import fixed_records_of

        try:
            records = fixed_records_of(message)
            rows = records.rows(array)
        except InvalidArgumentError:
            self._check_idle()
            raise
        return self._offer_array(records.layout, rows, timeout)

    async def send_async(
        self, data: _core.Bytes | _core.MessageFlyweight, type: int | None = None, timeout: float | None = None
    ) -> int:
        """Like ``send``, in the running event loop (asyncio, uvloop or trio). Returns the ring's new end position, in
        bytes. If the task is cancelled, nothing was published. ``type`` None: the default of ``send``.

        Raises BackPressuredError if there was no room within ``timeout`` seconds (None: no limit), and TwoThreadsError
        if another task waits in this publisher.
        """
        self._check_idle()
        began = time.monotonic_ns()
        give_up = began / 1e9 + check_timeout(timeout)
        try:
            readable = self._readable
        except AttributeError:
            readable = self._readable = Readable(self._fileno(), "publisher")
        await readable.give_others_a_turn()
        while (position := self.offer(data) if type is None else self.offer(data, type)) is None:
            left = give_up - time.monotonic()
            if left <= 0:
                raise BackPressuredError(self.held_by(), self._channel.header.is_queue)
            if self._arm(began):
                await readable.wait(self, left)
        return position

    def held_by(self) -> Holder | None:
        """Returns the subscriber with the smallest position in this ring, or None if no subscriber has a gate in it.
        On a queue, this is the worker with the oldest unfinished job, or slot 0, which stands for jobs that no worker
        has taken."""
        if self.closed:
            raise ClosedError("publisher", self._channel._forked)
        attached = self._channel._attached
        header, memory = attached.header, attached.memory
        gates = [(memory.load64(header.gate(self.ring, k)), k) for k in range(header.subscribers)]
        gating = [(gate, k) for gate, k in gates if gate >= 0]
        if not gating:
            return None
        position, k = min(gating)
        return self._holder(k, position)

    def _holder(self, k: int, position: int | None = None) -> Holder:
        """Returns slot ``k`` as a Holder; without a ``position``, with the gate that is stored now. The C core calls
        it, too."""
        attached = self._channel._attached
        header, memory = attached.header, attached.memory
        if position is None:
            position = memory.load64(header.gate(self.ring, k))
        if header.foreign:
            return Holder(slot=k, name="", pid=0, live=True, kept=True, position=position)
        slot = header.subscriber_slot(k)
        fields = read_slot(memory, slot)
        return Holder(
            slot=k,
            name=fields.name if fields else "",
            pid=fields.pid if fields else 0,
            live=is_locked(self._lock, slot + layout.CONTROL_SLOT_LOCK, attached.path),
            kept=memory.load32(slot + layout.SUBSCRIBER_SLOT_KEPT) != 0,
            position=position,
        )

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self.position}"
        return f"<flyring.Publisher ring={self.ring} name={getattr(self, '_name', '')!r} {state}>"
