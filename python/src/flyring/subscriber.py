# SPDX-License-Identifier: Apache-2.0
"""A reader of chosen rings (spec/api.md, spec/channel.md 6.4 to 6.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from . import _core
from .errors import InvalidArgumentError
from .reader import Reader
from .slots import SubscriberSlot, clear_name
from .system import control_lock
from .wait import Wait

if TYPE_CHECKING:
    from .channel import Channel


class Subscriber(_core.Subscriber, Reader):
    """Reads the rings that it chose. Made by ``Channel.subscriber``; single-threaded; a context manager that closes.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the slot was taken away,
    TwoThreadsError if another thread is inside or a handler calls back, ViewAliveError while an export of a message
    outlives its handler, CorruptRingError once for a ring that breaks the rules (the other rings go on),
    ChannelReplacedError now and then while nothing comes, if another channel has got the name (the subscriber works as
    before).
    """

    __slots__ = ("__weakref__", "_channel", "_lock", "_name", "_readable")

    _lock: _core.File
    _name: str

    def __new__(cls, channel: Channel, slot: SubscriberSlot, wait: Wait) -> Self:
        attached = channel._attached
        self = super().__new__(
            cls,
            channel._data,
            attached.memory,
            attached.header.geometry,
            slot.lock,
            slot.slot,
            slot.epoch,
            slot.cursors,
            slot.kept,
            wait,
            attached.wakes,
        )
        self._channel = channel
        self._lock = slot.lock
        self._name = slot.name
        return self

    @property
    def name(self) -> str:
        """The name that it was made with."""
        return self._name

    def forget(self) -> None:
        """Closes, and gives up a kept slot for good: it holds no publisher back any more.

        InvalidArgumentError if the publisher is foreign (spec 6.15): Agrona computes with the slot's position.
        """
        self._check_idle()
        if self._channel.foreign:
            raise InvalidArgumentError("foreign", "Agrona computes with the slot's position: it cannot be given up")
        if self._channel.kind == "inbox":
            raise InvalidArgumentError("kind", "an inbox has one reader, whose slot is always kept; evict it")
        self._check()
        attached = self._channel._attached
        with control_lock(self._lock, attached.path):
            self._unkeep()
            clear_name(attached, attached.header.subscriber_slot(self.slot))
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"rings={self.rings}"
        return f"<flyring.Subscriber slot={self.slot} name={getattr(self, '_name', '')!r} {state}>"
