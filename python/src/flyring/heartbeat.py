# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: counters by which threads show that they run (spec/channel.md 8.1)."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING
from uuid import UUID

from . import layout
from .closing import Context
from .counters import Counter
from .errors import ClosedError, InvalidArgumentError
from .stats import HEARTBEAT_KEY
from .system import NAME

if TYPE_CHECKING:
    from .channel import Channel

TYPE_ID = layout.COUNTER_METADATA_TYPE_HEARTBEAT

HEARTS: weakref.WeakValueDictionary[tuple[UUID, int, int], Heartbeat] = weakref.WeakValueDictionary()
"""The heartbeats of this process, by channel, counter and its registration id, for watchdogs."""


def running(channel: UUID, counter: Counter) -> int | None:
    """Returns the identity of the thread of this process that made the heartbeat; None if there is none."""
    heart = HEARTS.get((channel, counter.id, counter._registration))
    if heart is None or heart._pid != os.getpid() or not heart._thread.is_alive():
        return None
    return heart._thread.ident


class Heartbeat(Context):
    """A counter of the channel by which one thread shows that it runs.

    The thread calls ``beat()`` in its loop; monitors see the number of beats, and when it last grew. Close the
    heartbeat before the channel. If the channel is closed first, or the process dies, the counter stays allocated. The
    next heartbeat of the same name frees it, and then ``beat()`` of an older one raises ClosedError.
    """

    __slots__ = ("__weakref__", "_counter", "_pid", "_thread", "beats", "interval", "name")

    def __init__(self, channel: Channel, name: str, interval: float = 1.0) -> None:
        """``name``: the thread's name, valid as a channel's name. ``interval``: the longest time between two beats
        that the thread promises, in seconds; 0: no promise.

        Raises InvalidArgumentError, NoSpaceError (no counter is free), AccessDeniedError (read-only), ClosedError.
        """
        if not NAME.fullmatch(name):
            raise InvalidArgumentError("name", f"{name!r} must be 1 to 64 of A-Z a-z 0-9 . _ -")
        if not 0 <= interval < 2**63 / 1e9:
            raise InvalidArgumentError("interval", f"{interval} s must not be below 0")
        counters = channel.counters()
        for counter in counters:
            with contextlib.suppress(ClosedError):  # freed meanwhile
                if counter.type_id == TYPE_ID and counter.label == name:
                    counter.free()
        identity = channel._attached.identity
        key = HEARTBEAT_KEY.pack(identity.process_id(), round(interval * 1e9), identity.wall_clock())
        self._counter: Counter = counters.allocate(name, TYPE_ID, key)
        self._pid = os.getpid()
        self._thread = threading.current_thread()
        HEARTS[channel.id, self._counter.id, self._counter._registration] = self
        self.name = name
        self.interval = interval
        self.beats = 0
        """How often it has beaten."""

    def beat(self) -> None:
        """Shows that the thread runs. Raises ClosedError after a close of this object or of the channel, in a forked
        child, and after another heartbeat has taken the name."""
        self._counter.set(self.beats + 1)
        self.beats += 1

    @property
    def id(self) -> int:
        """The id of its counter."""
        return self._counter.id

    def close(self) -> None:
        """Frees the counter. A second close does nothing."""
        with contextlib.suppress(ClosedError):
            self._counter.free()

    def __repr__(self) -> str:
        return f"<flyring.Heartbeat {self.name!r}: {self.beats} beats>"
