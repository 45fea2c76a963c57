# SPDX-License-Identifier: Apache-2.0
"""Waiting in an event loop: asyncio's (also uvloop, and anyio on it) or trio's."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from .errors import TwoThreadsError

if TYPE_CHECKING:
    import asyncio

TURNS = 64  # messages without a wait, after which other tasks get a turn


def trio_if_it_runs() -> Any:
    """Returns the module trio if the caller runs in one of its tasks, else None."""
    trio: Any = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return None
    return trio


class Readable:
    """Waits until the descriptor of a subscriber or publisher (the owner) is readable. Used by one task at a time."""

    def __init__(self, fd: int, what: str) -> None:
        self._fd, self._what = fd, what
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits = False
        self._turns = 0

    async def give_others_a_turn(self) -> None:
        """Lets other tasks run after every 64 calls. Call it before a message is taken, because it may be cancelled."""
        self._turns += 1
        if self._turns < TURNS:
            return
        self._turns = 0
        if (trio := trio_if_it_runs()) is not None:
            await trio.lowlevel.checkpoint()
        else:
            import asyncio

            await asyncio.sleep(0)

    async def wait(self, owner: Any, seconds: float) -> None:
        """Waits until the descriptor is readable, or ``seconds`` have passed. TwoThreadsError if another task waits."""
        self._turns = 0
        if self._waits:
            raise TwoThreadsError(self._what)
        self._waits = True
        try:
            if (trio := trio_if_it_runs()) is not None:
                with trio.move_on_after(seconds):
                    await trio.lowlevel.wait_readable(self._fd)
            else:
                await self._wait_in_asyncio(owner, seconds)
        finally:
            self._waits = False

    async def _wait_in_asyncio(self, owner: Any, seconds: float) -> None:
        loop = self._registered(owner)
        self._waiter = waiter = loop.create_future()
        timer = None if seconds == math.inf else loop.call_later(seconds, end, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _registered(self, owner: Any) -> asyncio.AbstractEventLoop:
        """Returns the running loop, with the descriptor added to it. The descriptor stays there from one wait to the
        next, which saves system calls."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            loop.add_reader(self._fd, self._on_readable, owner)  # keeps the owner and its descriptor alive
            self._loop = loop
        return loop

    def end(self) -> None:
        """Forgets the descriptor, which its owner is about to close."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None

    def _on_readable(self, owner: Any) -> None:
        if owner._is_armed():
            return  # an old event: the owner has looked since and found nothing
        if self._waiter is not None:
            end(self._waiter)
        elif self._loop is not None:  # no task waits: without this, the loop would call again and again
            self._loop.remove_reader(self._fd)
            self._loop = None


def end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Signal:
    """Wakes the one task that waits for it, once."""

    __slots__ = ("_trio", "_waiter")

    def __init__(self) -> None:
        self._trio: Any = None
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        if self._trio is not None:
            self._trio.set()
        elif self._waiter is not None:
            end(self._waiter)

    async def wait(self, seconds: float) -> None:
        """Waits until ``set`` is called, or ``seconds`` have passed."""
        if (trio := trio_if_it_runs()) is not None:
            self._trio = trio.Event()
            with trio.move_on_after(seconds):
                await self._trio.wait()
            return
        import asyncio

        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if seconds == math.inf else loop.call_later(seconds, end, self._waiter)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
