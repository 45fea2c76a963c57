# SPDX-License-Identifier: Apache-2.0
"""The caller's side of a service (spec/api.md, spec/service.md)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self

from . import _core, layout
from .closing import Closing
from .loops import Readable, Signal
from .services import ClientPlace
from .slots import read_slot
from .stats import namespace_offset
from .wait import Wait, check_timeout

if TYPE_CHECKING:
    from .channel import Channel


class ServerInfo(NamedTuple):
    """The running server of a service, as ``Client.server`` returns it."""

    name: str
    """The name that the server was made with; may be empty."""
    epoch: int
    """Counts the servers that this service has had, this one included."""


class Client(_core.Client, Closing):
    """Calls the server of a service. Made by ``Channel.client``.

    A client is a context manager: leaving the ``with`` block closes it. It is not thread-safe. Concurrent use is
    detected on a best-effort basis and raises TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the client was evicted, and
    CorruptRingError if the server's ring is damaged. A method that waits raises ChannelReplacedError if another channel
    has the name now; the client still works, and its calls go on.
    """

    __slots__ = ("__weakref__", "_channel", "_lock", "_name", "_pumping", "_readable", "_tasks")

    _channel: Channel
    _lock: _core.File
    _name: str
    _readable: Readable
    _pumping: bool
    _tasks: list[Signal]

    def __new__(cls, channel: Channel, place: ClientPlace, wait: Wait) -> Self:
        attached = channel._attached
        header = attached.header
        self = super().__new__(
            cls,
            channel._data,
            attached.memory,
            header.geometry,
            place.lock,
            place.number,
            place.epoch,
            place.publisher_epoch,
            *place.end,
            *place.cursor,
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
        self._pumping = False
        self._tasks = []
        return self

    @property
    def name(self) -> str:
        """The name that the client was made with."""
        return self._name

    @property
    def server(self) -> ServerInfo | None:
        """The running server, or None. Tests a lock with a system call, so keep it off the hot path."""
        epoch = self._server_epoch
        attached = self._channel._attached
        fields = read_slot(attached.memory, attached.header.subscriber_slot(0)) if epoch else None
        return ServerInfo(fields.name, epoch) if fields and fields.epoch == epoch else None

    def close(self) -> None:
        """Gives the place back. Calls under way end with ClosedError, but the server still runs their requests. Closing
        twice does nothing. Raises ViewAliveError inside a callback."""
        super().close()
        self._tell_rest()

    async def call_async(
        self, data: _core.Bytes | _core.MessageFlyweight, type: int | None = None, timeout: float | None = None
    ) -> _core.Answer:
        """Like ``call``, in the running event loop (asyncio, uvloop or trio). Many tasks of one loop may call at once;
        calls beyond the service's ``max_outstanding`` raise BusyError. Cancelling the task cancels the call."""
        call = await self._start_async(data, type, timeout, None)
        try:
            await self._until(lambda: call.done, math.inf)
        except BaseException:
            if not self.closed:
                call.cancel()
            raise
        return call.result()

    async def stream_async(
        self,
        data: _core.Bytes | _core.MessageFlyweight,
        type: int | None = None,
        credit: int = 64,
        timeout: float | None = None,
    ) -> _core.Call:
        """Like ``stream``, in the running event loop: ``async for item in await client.stream_async(...)``."""
        return await self._start_async(data, type, timeout, credit)

    async def _start_async(
        self,
        data: _core.Bytes | _core.MessageFlyweight,
        type: int | None,
        timeout: float | None,
        credit: int | None,
    ) -> _core.Call:
        give_up = time.monotonic() + check_timeout(timeout)
        left = timeout
        try:
            while (call := self._start_now(data, type, left, credit, self._wake)) is None:
                await self._until(None, math.inf if timeout is None else max(0.0, give_up - time.monotonic()))
                left = None if timeout is None else max(0.0, give_up - time.monotonic())
        except BaseException:
            self._want_nothing()
            raise
        return call

    def _wake(self, _: _core.Call) -> None:
        """Wakes all waiting tasks, because something happened to a call, and one of them waits for it."""
        for task in self._tasks:
            task.set()

    async def _until(self, is_done: Callable[[], bool] | None, seconds: float) -> None:
        """Waits until ``is_done()`` is true; with None, until something has happened or ``seconds`` have passed. One of
        the tasks waits for the descriptor, and wakes the others."""
        try:
            readable = self._readable
        except AttributeError:
            readable = self._readable = Readable(self.fileno(), "client")
        await readable.give_others_a_turn()
        while is_done is None or not is_done():
            if self._pumping:
                signal = Signal()
                self._tasks.append(signal)
                try:
                    await signal.wait(seconds)
                finally:
                    self._tasks.remove(signal)
            else:
                self._pumping = True
                try:
                    if self.poll() == 0 and not (is_done is not None and is_done()):
                        await readable.wait(self, seconds)
                        self.poll()
                finally:
                    self._pumping = False
                    for task in self._tasks:  # one of them waits for the descriptor from now on
                        task.set()
            if is_done is None:
                return

    def _check_replaced(self) -> None:
        """Raises ChannelReplacedError if another channel has the name now (spec/channel.md 6.13). Called by the C
        core."""
        self._channel._check_replaced()

    def __repr__(self) -> str:
        name = getattr(self, "_name", "")
        return f"<flyring.Client number={self.number} name={name!r}{' closed' if self.closed else ''}>"


class Items:
    """The asynchronous iterator of ``async for item in call``: the items of a stream."""

    __slots__ = ("_call",)

    def __init__(self, call: _core.Call) -> None:
        self._call = call

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _core.Answer:
        call = self._call
        while (item := call.next(0)) is None:
            client = call._client
            if call.done or client is None:
                raise StopAsyncIteration
            call._set_callback(client._wake)
            await client._until(lambda: call.done or call._has_item, math.inf)
        return item
