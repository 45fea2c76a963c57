# SPDX-License-Identifier: Apache-2.0
"""A reader without a slot, which holds no publisher back (spec/api.md, spec/channel.md 6.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from . import _core
from .errors import InvalidArgumentError
from .reader import Reader
from .slots import check_rings
from .wait import Wait

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .channel import Channel

Start = Literal["now", "oldest"]
"""``now``: what is published from now on. ``oldest``: from the oldest message that is known to be still there."""
WhenLapped = Literal["oldest", "newest"]
"""Where a reader that was overtaken goes on: ``oldest``: at the oldest message that leaves it a quarter of the ring.
``newest``: at what is published next."""


class LossySubscriber(_core.LossySubscriber, Reader):
    """Reads the rings that it chose, needs no slot, and counts what was overwritten before it was read.

    Made by ``Channel.lossy_subscriber``; single-threaded; a context manager that closes. All methods raise ClosedError
    after ``close`` and in a forked child, TwoThreadsError if another thread is inside or a handler calls back,
    ViewAliveError while an export of a message outlives its handler (or of a message peeked at, what comes after it),
    CorruptRingError once for a ring that breaks the rules (the other rings go on), ChannelReplacedError now and then
    while nothing comes, if another channel has got the name.

    One poll follows each ring over at most two losses; what it did not reach is for the next one.
    """

    __slots__ = ("__weakref__", "_channel", "_readable")

    def __new__(
        cls, channel: Channel, rings: Iterable[int] | None, start: Start, when_lapped: WhenLapped, wait: Wait
    ) -> Self:
        header = channel.header
        readable = header.producers or header.publishers  # not the returns ring of a queue
        chosen = check_rings(rings, readable)
        if start not in ("now", "oldest"):
            raise InvalidArgumentError("start", f'{start!r} must be "now" or "oldest"')
        if when_lapped not in ("oldest", "newest"):
            raise InvalidArgumentError("when_lapped", f'{when_lapped!r} must be "oldest" or "newest"')
        numbers = tuple(range(readable) if chosen is None else chosen)
        self = super().__new__(
            cls,
            channel._data,
            channel._attached.memory,
            channel._attached.file,
            header.geometry,
            numbers,
            start == "oldest",
            when_lapped == "newest",
            wait,
        )
        self._channel = channel
        return self

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"rings={self.rings}"
        return f"<flyring.LossySubscriber {state}>"
