# SPDX-License-Identifier: Apache-2.0
"""Meshes: processes that beat by messages, and note when they received the beats of others (spec/channel.md 8.2)."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
from typing import TYPE_CHECKING

from . import layout
from .closing import Context
from .errors import ChannelReplacedError, ClosedError, CorruptRingError, InvalidArgumentError
from .system import NAME

if TYPE_CHECKING:
    from ._core import Message
    from .channel import Channel

TYPE = layout.BEAT_TYPE
BEAT = struct.Struct("<qqqqqi4x")  # sequence, every, due, woke, sent, receipts
RECEIPT = struct.Struct("<i4xqqq")  # ring, sequence, sent, received
LONGEST_WAIT = 50_000_000
"""In ns. The thread checks at least this often whether it must end."""


def encode(
    sequence: int, every: int, due: int, woke: int, sent: int, receipts: list[tuple[int, int, int, int]]
) -> bytes:
    """Returns the bytes of a beat, or, with sequence -1, of a message that has only receipts."""
    return BEAT.pack(sequence, every, due, woke, sent, len(receipts)) + b"".join(RECEIPT.pack(*one) for one in receipts)


class Mesh(Context):
    """Makes this process a member of a mesh: one thread beats in the channel, and notes when it received the beats of
    the other members. ``flyring monitor --mesh`` shows how late each member wakes and how long beats take between each
    two, and names members that are tardy, stopped or dead.

    Close it before the channel. The thread ends when the channel is closed or replaced. In a forked child there is no
    member, and ``close`` does nothing.
    """

    def __init__(self, channel: Channel, name: str, every: float = 0.01) -> None:
        """``channel``: a broadcast channel that has no other use, with a publisher slot for each member and no
        subscribers.
        ``name``: the member's, valid as a channel's name. ``every``: the time between two beats, in seconds.

        Raises InvalidArgumentError, NoFreeSlotError, AccessDeniedError (read-only), ClosedError.
        """
        if not NAME.fullmatch(name):
            raise InvalidArgumentError("name", f"{name!r} must be 1 to 64 of A-Z a-z 0-9 . _ -")
        if not 0 < every < 2**63 / 1e9:
            raise InvalidArgumentError("every", f"{every} s must be above 0")
        header = channel.header
        if header.kind != "broadcast":
            raise InvalidArgumentError("kind", f"a mesh needs a broadcast channel, and {channel.path} is {header.kind}")
        if header.publishers < 2:
            raise InvalidArgumentError("publishers", "a mesh needs a channel with 2 publishers or more")
        self.name = name
        self.every = every
        self._every = max(1, round(every * 1e9))
        self._publisher = channel.publisher(name)
        self.ring = self._publisher.ring
        """The member's number: that of its ring."""
        others = [ring for ring in range(header.publishers) if ring != self.ring]
        try:
            self._reader = channel.lossy_subscriber(others)
        except BaseException:
            self._publisher.close()
            raise
        fits = (self._publisher.max_message_length - BEAT.size) // RECEIPT.size
        self._most = min(layout.BEAT_MAX_RECEIPTS, fits)
        self._receipts: list[tuple[int, int, int, int]] = []
        self.beats = 0
        """How often it has beaten."""
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flyring-mesh", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leaves the mesh, and ends the thread within 50 ms. A second close does nothing."""
        if self._pid == os.getpid():
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic_ns()
        try:
            while not self._stop.is_set():
                now = time.monotonic_ns()
                if now >= due:
                    self._send(self.beats, due, now)
                    self.beats += 1
                    due = due + self._every if due + self._every > now else now + self._every
                else:
                    self._receive(min(due - now, LONGEST_WAIT) / 1e9)
                    if len(self._receipts) == self._most:
                        self._send(-1, 0, 0)
        except (ClosedError, ChannelReplacedError):
            pass  # the channel's
        finally:
            self._reader.close()
            self._publisher.close()

    def _send(self, sequence: int, due: int, woke: int) -> None:
        data = encode(sequence, self._every, due, woke, time.monotonic_ns(), self._receipts)
        self._publisher.offer(data, TYPE)  # without room it is dropped
        self._receipts.clear()

    def _receive(self, timeout: float) -> None:
        with contextlib.suppress(CorruptRingError):  # the other rings go on
            self._reader.poll(self._note, self._most - len(self._receipts), timeout)

    def _note(self, message: Message) -> None:
        received = time.monotonic_ns()
        if message.type == TYPE and len(message) >= BEAT.size:
            sequence, _, _, _, sent, _ = BEAT.unpack_from(message.data)
            if sequence >= 0:
                self._receipts.append((message.ring, sequence, sent, received))

    def __repr__(self) -> str:
        return f"<flyring.Mesh {self.name!r}: {self.beats} beats>"
