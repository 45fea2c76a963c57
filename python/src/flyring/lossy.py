# SPDX-License-Identifier: Apache-2.0
"""LossySubscriber: a reader without a slot, which holds no publisher back (spec/api.md, spec/channel.md 6.10)."""

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
"""``now``: begin with the next published message. ``oldest``: begin with the oldest message still in the ring."""
WhenLapped = Literal["oldest", "newest"]
"""Where a reader continues after a publisher has overwritten what it had not read. ``oldest``: at the oldest message
that still leaves a quarter of the ring before the next overwrite. ``newest``: at the next published message."""


class LossySubscriber(_core.LossySubscriber, Reader):
    """Reads the messages of chosen rings without a slot, and counts the messages that were overwritten before it read
    them. Made by ``Channel.lossy_subscriber``.

    A lossy subscriber is a context manager: leaving the ``with`` block closes it. It is not thread-safe. Concurrent
    use, and a call from inside a handler, are detected on a best-effort basis and raise TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child. They raise ViewAliveError while a memoryview or
    array is alive of a message from ``peek``, or of a message whose handler has returned. A damaged ring raises
    CorruptRingError once; the other rings go on. A method that waits raises ChannelReplacedError if another channel has
    the name now.

    One poll accepts at most two losses in each ring, and then leaves the rest of that ring to the next poll.
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
