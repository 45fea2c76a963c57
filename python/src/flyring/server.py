# SPDX-License-Identifier: Apache-2.0
"""The answering side of a service (spec/api.md, spec/service.md)."""

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
    """Fails a request whose type has no handler."""
    request.fail(f"no handler for messages of type {request.type}")


class Held(NamedTuple):
    """The work that a server holds, as ``Server.held`` returns it."""

    in_hand: int
    """Requests without a final reply."""
    waiting: int
    """Replies that wait for room in their rings."""


class Server(_core.Server, Closing):
    """Answers the requests of a service, which has one server at a time. Made by ``Channel.server``.

    A server is a context manager: leaving the ``with`` block closes it. It is not thread-safe, except for ``stop`` and
    the methods of ``Request``. Concurrent use, and a call from inside a handler, are detected on a best-effort basis
    and raise TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, and SlotLostError if the server was evicted. A
    method that waits raises ChannelReplacedError if another channel has the name now; the server still works.
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
        """The name that the server was made with."""
        return self._name

    @property
    def held(self) -> Held:
        """The number of requests in hand, and of replies that wait for room."""
        return Held(*self._held)

    def on(self, message: type[M], handler: Callable[[M, _core.Request], object]) -> Self:
        """Registers ``handler(decoder, request)`` for requests of this message class. It applies to ``poll`` and
        ``serve`` without a handler of their own. A request of a class without a handler ends with ServiceError. Returns
        the server."""
        from .sbe import dispatch

        self._handlers[message] = handler
        handlers: Any = self._handlers  # which return answers, and no actions
        otherwise: Any = unknown
        self._set_handler(dispatch(handlers, otherwise=otherwise))
        return self

    def serve(self, handler: Callable[[_core.Request], object] | None = None) -> None:
        """Polls until ``stop`` is called or another thread closes the server. Without a ``handler``, uses those of
        ``on``. Raises the errors of ``poll``."""
        while not self._stopped():
            try:
                self.poll(handler, timeout=None)
            except ClosedError:
                if self._channel._forked:
                    raise
                return

    def _check_replaced(self) -> None:
        """Raises ChannelReplacedError if another channel has the name now (spec/channel.md 6.13). Called by the C
        core."""
        self._channel._check_replaced()

    def __repr__(self) -> str:
        return f"<flyring.Server name={getattr(self, '_name', '')!r}{' closed' if self.closed else ''}>"
