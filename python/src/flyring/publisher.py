# SPDX-License-Identifier: Apache-2.0
"""The one writer of one ring (spec/api.md, spec/channel.md 6.1 to 6.3)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from . import _core, layout
from .closing import Closing
from .errors import BackPressuredError, ClosedError, InvalidArgumentError
from .loops import Readable
from .slots import PublisherSlot, read_slot
from .system import is_locked
from .wait import Wait, check_timeout

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from .channel import Channel
    from .sbe.flyweight import Message


@dataclass(frozen=True)
class Holder:
    """The subscriber that holds a publisher back: the slot with the smallest position.

    ``position`` is its gate, in bytes; ``live`` whether a process owns the slot now; ``kept`` whether it keeps its
    place without one; ``name`` and ``pid`` are of the slot's last owner (the pid in its own pid namespace). A foreign
    subscriber (spec 6.15) has no name and pid 0, and counts as live.
    """

    slot: int
    name: str
    pid: int
    live: bool
    kept: bool
    position: int


class Publisher(_core.Publisher, Closing):
    """Publishes into its own ring. Made by ``Channel.publisher``; single-threaded; a context manager that closes.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the slot was taken away,
    TwoThreadsError if another thread is inside, ViewAliveError while a claim is open, ChannelReplacedError now and then
    while held back, if another channel has got the name (nothing was published then; the publisher works as before).
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
        """How many subscribers read this ring: slots with a position in it that a process owns (a foreign one counts).
        Of a queue: how many workers there are.

        Tests the locks of all slots: not for a hot path.
        """
        if self.closed:
            raise ClosedError("publisher", self._channel._forked)
        attached = self._channel._attached
        header, memory = attached.header, attached.memory
        gating = [k for k in range(header.subscribers) if memory.load64(header.gate(self.ring, k)) >= 0]
        if header.foreign:
            return len(gating)
        if header.is_queue:  # whatever they have in hand
            gating = list(range(1, header.subscribers))
        locks = (header.subscriber_slot(k) + layout.CONTROL_SLOT_LOCK for k in gating)
        return sum(is_locked(self._lock, at, attached.path) for at in locks)

    @property
    def name(self) -> str:
        """The name under which the same ring can be had again; empty if it was taken without one."""
        return self._name

    def _check_replaced(self) -> None:
        """Spec 6.13. The C core calls it."""
        self._channel._check_replaced()

    def offer_array(self, message: type[Message], array: NDArray[numpy.void]) -> int:
        """Publishes each row of a structured array with ``Message.dtype`` as one message, headers included: how many
        were taken, 0 to all, as ``offer_batch``.

        An array with the same fields in other types, or places, is cast, by name. InvalidArgumentError for a class with
        groups or data, and if a field is missing, unknown, or would lose something; MessageTooLargeError.
        """
        return self._publish_array(message, array, 0)

    def send_array(self, message: type[Message], array: NDArray[numpy.void], timeout: float | None = None) -> int:
        """As ``offer_array``, but waits for room as often as it must: how many were taken, all of them unless
        ``timeout`` seconds passed first (None: no limit)."""
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
        """``send`` in the event loop that runs (asyncio's, uvloop or trio): the ring's new end position in bytes.
        BackPressuredError if there was no room within ``timeout`` seconds (None: no limit). One that is cancelled has
        published nothing. ``type``: None as if it was not given to ``send``.

        For one task at a time (TwoThreadsError).
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
                raise BackPressuredError(self.held_by())
            if self._arm(began):
                await readable.wait(self, left)
        return position

    def held_by(self) -> Holder | None:
        """The subscriber slot with the smallest position, or None if no slot gates this ring. Of a queue: the worker
        whose job holds it back, or slot 0: jobs that no worker has taken."""
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
        """Slot ``k`` of them, and its position, or what it is now. The C core calls it, too."""
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
