# SPDX-License-Identifier: Apache-2.0
"""The common base of ``Subscriber`` and ``LossySubscriber``, and its part that journals use, too (spec/api.md)."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Self, SupportsIndex

from . import _core
from .closing import Closing
from .errors import InvalidArgumentError
from .loops import Readable
from .wait import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy
    from numpy.typing import NDArray

    from .action import Action
    from .channel import Channel
    from .sbe.flyweight import Message


class AsyncReader(Closing, _core.Reader):
    """A reader in an event loop."""

    __slots__ = ()

    _readable: Readable

    def _get_readable(self) -> Readable:
        try:
            return self._readable
        except AttributeError:
            self._readable = Readable(self.fileno(), "subscriber")
            return self._readable

    async def receive(self, timeout: float | None = None) -> _core.Message | None:
        """Like ``take``, in the running event loop (asyncio, uvloop or trio). Returns one message that owns its bytes,
        or None if none came within ``timeout`` seconds (None: no limit). If the task is cancelled, nothing was
        consumed.

        Raises TwoThreadsError if another task waits in this subscriber.
        """
        self._check_idle()
        give_up = time.monotonic() + check_timeout(timeout)
        readable = self._get_readable()
        await readable.give_others_a_turn()
        while (message := self.take()) is None:
            left = give_up - time.monotonic()
            if left <= 0:
                return None
            await readable.wait(self, left)
        return message

    def __aiter__(self) -> Self:
        """Like ``for message in subscriber``, in the running event loop."""
        return self

    async def __anext__(self) -> _core.Message:
        readable = self._get_readable()
        await readable.give_others_a_turn()
        while (message := self.take()) is None:
            if self._have_ended():
                raise StopAsyncIteration
            await readable.wait(self, math.inf)
        return message


class Reader(AsyncReader):
    """The methods that ``Subscriber`` and ``LossySubscriber`` share."""

    __slots__ = ()

    _channel: Channel

    def _check_replaced(self) -> None:
        """Raises ChannelReplacedError if another channel has the name (spec/channel.md 6.13). Called by the core."""
        self._channel._check_replaced()

    def poll_arrays(
        self,
        message: type[Message],
        handler: Callable[[NDArray[numpy.void]], Action | None],
        limit: SupportsIndex = 65536,
        otherwise: Callable[[_core.Message], Action | None] | None = None,
        timeout: float | None = 0,
    ) -> int:
        """Calls ``handler(array)`` with runs of adjacent messages of the class ``message``. Returns how many messages
        were handed out.

        Each array is a numpy array with the fields of ``message.dtype`` (spec/messages.md 3), one row for each message.
        All messages of a run have one schema version and one length. A run is at most an eighth of its ring; for a
        lossy subscriber also at most 256 KiB.

        The array of a subscriber is a read-only view of the ring, without a copy. The array of a lossy subscriber is a
        private copy. An array is valid until its handler returns; keeping it, or a view of it, raises ViewAliveError
        (``array.copy()`` may be kept). If the handler raises, its run counts as consumed. The traceback then keeps the
        array alive, and the next poll raises ViewAliveError until the traceback is gone.

        Arrays of messages with an older schema version have only the fields of that version. Arrays of messages with a
        newer version have only the fields that ``message`` knows.

        ``limit``: the largest number of messages. ``otherwise``: called with each message of another type; None skips
        them. ``timeout``: as in ``poll``. ``handler`` and ``otherwise`` may return an ``Action``, as in ``poll``; the
        action of ``handler`` applies to the whole run.

        Raises InvalidArgumentError for a class with groups or data, and BadMessageError for a message that does not
        match its type; that message is consumed, and the ring goes on.
        """
        from .sbe.dtype import fixed_records_of

        try:
            records = fixed_records_of(message)
        except InvalidArgumentError:
            self._check_idle()
            raise
        return self._poll_arrays(records.layout, records.view, handler, limit, otherwise, timeout)
