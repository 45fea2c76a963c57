# SPDX-License-Identifier: Apache-2.0
"""A reader of chosen rings (spec/api.md, spec/channel.md 6.4 to 6.9)."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Self

from . import _core
from .errors import InvalidArgumentError
from .reader import Reader
from .slots import SubscriberSlot, clear_name
from .system import control_lock, new_lock
from .wait import Wait

if TYPE_CHECKING:
    from .channel import Channel


class Subscriber(_core.Subscriber, Reader):
    """Reads the messages of chosen rings. Made by ``Channel.subscriber``.

    A subscriber is a context manager: leaving the ``with`` block closes it. It is not thread-safe. Concurrent use, and
    a call from inside a handler, are detected on a best-effort basis and raise TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the slot was taken away, and
    ViewAliveError while a memoryview or array of a message outlives the message's handler. A damaged ring raises
    CorruptRingError once; the other rings go on. A method that waits raises ChannelReplacedError if another channel has
    the name now; the subscriber still works.
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
        """The name that the subscriber was made with."""
        return self._name

    def forget(self) -> None:
        """Closes the subscriber and gives up its kept slot, which then holds no publisher back.

        Raises InvalidArgumentError for an inbox, whose slot is always kept, and if the publisher is a stock Agrona
        process, which needs the slot's position (spec/channel.md 6.15).
        """
        self._check_idle()
        if self._channel.foreign:
            raise InvalidArgumentError("foreign", "Agrona needs the slot's position, so the slot cannot be given up")
        if self._channel.kind == "inbox":
            raise InvalidArgumentError("kind", "an inbox has one reader, whose slot is always kept; evict it")
        self._check()
        attached = self._channel._attached
        # A description of its own: a close of another thread does not drop its lock, so no process takes the slot.
        with closing(new_lock(attached.file, attached.path)) as lock, control_lock(lock, attached.path):
            self._unkeep()
            clear_name(attached, attached.header.subscriber_slot(self.slot))
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"rings={self.rings}"
        return f"<flyring.Subscriber slot={self.slot} name={getattr(self, '_name', '')!r} {state}>"
