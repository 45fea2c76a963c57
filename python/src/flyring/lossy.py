# SPDX-License-Identifier: Apache-2.0
"""A reader that owns nothing and holds nobody back (spec/api.md, spec/channel.md 6.10)."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, SupportsIndex

from . import _core
from .errors import InvalidArgumentError
from .slots import check_rings
from .wait import Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy
    from numpy.typing import NDArray

    from .channel import Channel
    from .sbe.flyweight import Message

Start = Literal["now", "oldest"]
"""``now``: what is published from now on. ``oldest``: from the oldest message that is known to be still there."""


class LossySubscriber(_core.LossySubscriber):
    """Reads the rings that it chose, needs no slot, and counts what was overwritten before it was read.

    Made by ``Channel.lossy_subscriber``; single-threaded; a context manager that closes. All methods raise ClosedError
    after ``close`` and in a forked child, TwoThreadsError if another thread is inside or a handler calls back,
    ViewAliveError while an export of a message outlives its handler (or of a message peeked at, what comes after it),
    CorruptRingError once for a ring that breaks the rules (the other rings go on), ChannelReplacedError now and then
    while nothing comes, if another channel has got the name.

    One poll follows each ring over at most two losses; what it did not reach is for the next one.
    """

    __slots__ = ("__weakref__", "_channel")

    _channel: Channel

    def __new__(cls, channel: Channel, rings: Iterable[int] | None, start: Start, wait: Wait) -> Self:
        header = channel.header
        chosen = check_rings(rings, header.publishers)
        if start not in ("now", "oldest"):
            raise InvalidArgumentError("start", f'{start!r} must be "now" or "oldest"')
        numbers = tuple(range(header.publishers) if chosen is None else chosen)
        self = super().__new__(cls, channel._data, header.geometry, numbers, start == "oldest", wait)
        self._channel = channel
        return self

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

        The array is a private copy that was whole when it was made. It is valid until its
        handler returns: ViewAliveError if it, or a view of it, is kept (``array.copy()`` may be). A run whose handler
        raised counts as consumed; its array lives as long as the traceback, and nothing can be read before that goes.

        Messages of older versions have only the fields that they have; of newer ones only the known fields are shown.
        Messages of other types go to ``otherwise``, or are skipped. ``limit`` counts messages; a run is at most an
        eighth of its ring, or 256 KiB. ``timeout`` as for ``poll``. InvalidArgumentError: a class with groups or data;
        BadMessageError: a message that is not what its type says; it is consumed, and the ring goes on.
        """
        from .sbe.dtype import fixed_records_of

        records = fixed_records_of(message)
        return self._poll_arrays(records.layout, records.view, handler, limit, otherwise, timeout)

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
        return f"<flyring.LossySubscriber {state}>"
