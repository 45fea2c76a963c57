# SPDX-License-Identifier: Apache-2.0
"""A reader of chosen rings (spec/api.md, spec/channel.md 6.4 to 6.9)."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Self, SupportsIndex

from . import _core
from .errors import ClosedError, InvalidArgumentError
from .slots import SubscriberSlot, clear_name
from .system import control_lock
from .wait import Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy
    from numpy.typing import NDArray

    from .channel import Channel
    from .sbe.flyweight import Message


class Subscriber(_core.Subscriber):
    """Reads the rings that it chose. Made by ``Channel.subscriber``; single-threaded; a context manager that closes.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the slot was taken away,
    TwoThreadsError if another thread is inside or a handler calls back, ViewAliveError while an export of a message
    outlives its handler, CorruptRingError once for a ring that breaks the rules (the other rings go on),
    ChannelReplacedError now and then while nothing comes, if another channel has got the name (the subscriber works as
    before).
    """

    __slots__ = ("__weakref__", "_channel", "_lock", "_name")

    _channel: Channel
    _lock: _core.LockFile
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
        )
        self._channel = channel
        self._lock = slot.lock
        self._name = slot.name
        return self

    @property
    def name(self) -> str:
        """The name that it was made with."""
        return self._name

    def _look(self) -> None:
        self._channel._look()

    def poll_arrays(
        self,
        message: type[Message],
        handler: Callable[[NDArray[numpy.void]], object],
        limit: SupportsIndex = 65536,
        otherwise: Callable[[_core.Message], object] | None = None,
        timeout: float | None = 0,
    ) -> int:
        """Calls ``handler`` with each run of neighbouring messages of this class, of one version and length, as a numpy
        array with the fields of ``Message.dtype`` (spec/messages.md 3): how many messages were handed out.

        The array lies in the ring, read-only; nothing is copied. It is valid until its
        handler returns: ViewAliveError if it, or a view of it, is kept (``array.copy()`` may be). A run whose handler
        raised counts as consumed; its array lives as long as the traceback, and nothing can be read before that goes.

        Messages of older versions have only the fields that they have; of newer ones only the known fields are shown.
        Messages of other types go to ``otherwise``, or are skipped. ``limit`` counts messages; a run is at most an
        eighth of its ring. ``timeout`` as for ``poll``. InvalidArgumentError: a class with groups or data;
        BadMessageError: a message that is not what its type says; it is consumed, and the ring goes on.
        """
        from .sbe.dtype import fixed_records_of

        records = fixed_records_of(message)
        return self._poll_arrays(records.layout, records.view, handler, limit, otherwise, timeout)

    def forget(self) -> None:
        """Closes, and gives up a kept slot for good: it holds no publisher back any more.

        InvalidArgumentError if the publisher is foreign (spec 6.15): Agrona computes with the slot's position.
        """
        if self.closed:
            raise ClosedError("subscriber", self._channel._forked)
        if self._channel.foreign:
            raise InvalidArgumentError("foreign", "Agrona computes with the slot's position: it cannot be given up")
        attached = self._channel._attached
        with control_lock(self._lock, attached.path):
            self._unkeep()
            clear_name(attached, attached.header.subscriber_slot(self.slot))
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"rings={self.rings}"
        return f"<flyring.Subscriber slot={self.slot} name={self._name!r} {state}>"
