# SPDX-License-Identifier: Apache-2.0
"""Answers the requests of a service (spec/api.md, spec/service.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from . import _core, layout
from .closing import Closing
from .errors import ClosedError
from .services import ServerPlace
from .stats import namespace_offset
from .wait import Wait

if TYPE_CHECKING:
    from .channel import Channel
    from .sbe.flyweight import Message


M = TypeVar("M", bound="Message")


def unknown(request: _core.Request) -> None:
    """A request of a type that no handler was named for."""
    request.fail(f"no handler for messages of type {request.type}")


class Held(NamedTuple):
    """What a server has: requests without a final reply, and replies that wait for room."""

    in_hand: int
    waiting: int


class Server(_core.Server, Closing):
    """Answers the requests of a service; there is one at a time. Made by ``Channel.server``; for one thread at a time,
    but ``stop`` and what answers a request; a context manager that closes.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the server was evicted,
    TwoThreadsError if another thread is inside or a handler calls back, ChannelReplacedError now and then while nothing
    comes, if another channel has got the name (the server works as before).
    """

    __slots__ = ("__weakref__", "_channel", "_handlers", "_lock", "_name")

    _channel: Channel
    _lock: _core.File
    _name: str
    _handlers: dict[type[Any], Callable[[Any, _core.Request], object]]

    def __new__(cls, channel: Channel, place: ServerPlace, wait: Wait) -> Self:
        attached = channel._attached
        header = attached.header
        self = super().__new__(
            cls,
            channel._data,
            attached.memory,
            header.geometry,
            place.lock,
            place.epoch,
            tuple((one.cursor, one.stored, one.count, one.repeat_end, one.damaged, *one.end) for one in place.sides),
            place.name.encode("ascii"),
            header.delivery == "at-least-once",
            header.max_outstanding,
            layout.TYPE_RAW if header.schema_length else 1,
            attached.identity.monotonic or 0,
            namespace_offset(),
            wait,
            attached.wakes,
        )
        self._channel = channel
        self._lock = place.lock
        self._name = place.name
        self._handlers = {}
        return self

    @property
    def name(self) -> str:
        """The name that it was made with."""
        return self._name

    @property
    def held(self) -> Held:
        """How many requests are in hand, and how many replies wait for room."""
        return Held(*self._held)

    def on(self, message: type[M], handler: Callable[[M, _core.Request], object]) -> Self:
        """Requests of this message class go to ``handler(decoder, request)``, in polls that are given no handler. Those
        that no handler was named for end with ServiceError."""
        from .sbe import dispatch

        self._handlers[message] = handler
        handlers: Any = self._handlers  # which return answers, and no actions
        otherwise: Any = unknown
        self._set_handler(dispatch(handlers, otherwise=otherwise))
        return self

    def serve(self, handler: Callable[[_core.Request], object] | None = None) -> None:
        """Polls until ``stop``, or until another thread closes it; without a handler: those of ``on``. Raises as
        ``poll`` does."""
        while not self._stopped():
            try:
                self.poll(handler, timeout=None)
            except ClosedError:
                if self._channel._forked:
                    raise
                return

    def _check_replaced(self) -> None:
        """Spec 6.13. The C core calls it."""
        self._channel._check_replaced()

    def __repr__(self) -> str:
        return f"<flyring.Server name={getattr(self, '_name', '')!r}{' closed' if self.closed else ''}>"
