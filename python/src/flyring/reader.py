# SPDX-License-Identifier: Apache-2.0
"""What ``Subscriber`` and ``LossySubscriber`` share (spec/api.md)."""

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


class Reader(Closing, _core.Reader):
    """The base of both."""

    __slots__ = ()

    _channel: Channel
    _readable: Readable

    def _get_readable(self) -> Readable:
        try:
            return self._readable
        except AttributeError:
            self._readable = Readable(self.fileno(), "subscriber")
            return self._readable

    async def receive(self, timeout: float | None = None) -> _core.Message | None:
        """``take`` in the event loop that runs (asyncio's, uvloop or trio): one message that owns its bytes, or None if
        there was none within ``timeout`` seconds (None: no limit). One that is cancelled has consumed nothing.

        For one task at a time (TwoThreadsError).
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
        """As ``for message in subscriber``, in the event loop that runs."""
        return self

    async def __anext__(self) -> _core.Message:
        readable = self._get_readable()
        await readable.give_others_a_turn()
        while (message := self.take()) is None:
            if self._have_ended():
                raise StopAsyncIteration
            await readable.wait(self, math.inf)
        return message

    def _check_replaced(self) -> None:
        """Spec 6.13. The C core calls it."""
        self._channel._check_replaced()

    def poll_arrays(
        self,
        message: type[Message],
        handler: Callable[[NDArray[numpy.void]], Action | None],
        limit: SupportsIndex = 65536,
        otherwise: Callable[[_core.Message], Action | None] | None = None,
        timeout: float | None = 0,
    ) -> int:
        """Calls ``handler`` with each run of neighbouring messages of this class, of one version and length, as a numpy
        array with the fields of ``Message.dtype`` (spec/messages.md 3): how many messages were handed out.

        The array of a subscriber lies in the ring, read-only; nothing is copied. That of a lossy subscriber is a
        private copy that was whole when it was made. It is valid until its handler returns: ViewAliveError if it, or a
        view of it, is kept (``array.copy()`` may be). A run whose handler raised counts as consumed; its array lives as
        long as the traceback, and nothing can be read before that goes.

        Messages of older versions have only the fields that they have; of newer ones only the known fields are shown.
        Messages of other types go to ``otherwise``, or are skipped. ``limit`` counts messages; a run is at most an
        eighth of its ring, and of a lossy subscriber at most 256 KiB. ``timeout`` as for ``poll``, and so is what
        ``handler`` and ``otherwise`` return: an ``Action`` goes for the whole run.
        InvalidArgumentError: a class with groups or data; BadMessageError: a message that is not what its type says; it
        is consumed, and the ring goes on.
        """
        from .sbe.dtype import fixed_records_of

        try:
            records = fixed_records_of(message)
        except InvalidArgumentError:
            self._check_idle()
            raise
        return self._poll_arrays(records.layout, records.view, handler, limit, otherwise, timeout)
