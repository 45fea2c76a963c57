# SPDX-License-Identifier: Apache-2.0
"""Takes the jobs of a queue (spec/api.md, spec/queue.md)."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Self

from . import _core
from .closing import Closing
from .errors import FlyringError
from .loops import Readable
from .slots import WorkerSlot, recover
from .wait import Wait, check_timeout

if TYPE_CHECKING:
    from .channel import Channel


class Worker(_core.Worker, Closing):
    """Takes jobs from all rings of a queue. Made by ``Channel.worker``; single-threaded; a context manager that
    closes.

    All methods raise ClosedError after ``close`` and in a forked child, SlotLostError if the worker was evicted,
    TwoThreadsError if another thread is inside or a handler calls back, ViewAliveError while a job of ``take`` is
    neither done nor released and while an export of a job outlives it, CorruptRingError once for a ring that breaks the
    rules (the other rings go on), ChannelReplacedError now and then while nothing comes, if another channel has got the
    name (the worker works as before).
    """

    __slots__ = ("__weakref__", "_channel", "_lock", "_name", "_readable")

    _channel: Channel
    _lock: _core.File
    _name: str
    _readable: Readable

    def __new__(cls, channel: Channel, slot: WorkerSlot, wait: Wait) -> Self:
        attached = channel._attached
        self = super().__new__(
            cls,
            channel._data,
            attached.memory,
            attached.header.geometry,
            slot.lock,
            slot.slot,
            slot.epoch,
            *slot.batch,
            attached.identity.monotonic or 0,
            wait,
            attached.wakes,
        )
        self._channel = channel
        self._lock = slot.lock
        self._name = slot.name
        return self

    @property
    def name(self) -> str:
        """The name that it was made with."""
        return self._name

    def __iter__(self) -> Jobs:
        """Jobs, waiting for each. A job is done when the loop asks for the next one; it is released if the loop ends by
        an exception or a ``break``. The loop ends when the queue has ended, or the worker drains."""
        return Jobs(self)

    def __aiter__(self) -> AsyncJobs:
        """As ``for job in worker``, in the event loop that runs."""
        return AsyncJobs(self)

    async def receive(self, timeout: float | None = None) -> _core.Job | None:
        """``take`` in the event loop that runs (asyncio's, uvloop or trio): one job, or None if there was none within
        ``timeout`` seconds (None: no limit), or the worker drains. One that is cancelled has taken nothing.

        For one task at a time (TwoThreadsError).
        """
        self._check_idle()
        give_up = time.monotonic() + check_timeout(timeout)
        readable = self._get_readable()
        await readable.give_others_a_turn()
        while (job := self.take()) is None:
            left = give_up - time.monotonic()
            if left <= 0 or self._drains:
                return None
            await readable.wait(self, left)
        return job

    async def _receive_or_end(self) -> _core.Job | None:
        """One job; None if nothing more is to come."""
        readable = self._get_readable()
        await readable.give_others_a_turn()
        while (job := self.take()) is None:
            if self._have_ended():
                return None
            await readable.wait(self, math.inf)
        return job

    def _get_readable(self) -> Readable:
        try:
            return self._readable
        except AttributeError:
            self._readable = Readable(self.fileno(), "worker")
            return self._readable

    def _check_replaced(self) -> None:
        """Spec 6.13. The C core calls it."""
        self._channel._check_replaced()

    def _recover_returns(self) -> None:
        """Recovers the returns ring, whose last owner died, under the lock of its slot. The C core calls it."""
        attached = self._channel._attached
        recover(attached, attached.header.publishers - 1)

    def __repr__(self) -> str:
        return (
            f"<flyring.Worker slot={self.slot} name={getattr(self, '_name', '')!r}{' closed' if self.closed else ''}>"
        )


class OneByOne:
    """What both iterators share: the job that the loop has."""

    __slots__ = ("_job", "_worker")

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._job: _core.Job | None = None

    def _finish(self) -> None:
        job, self._job = self._job, None
        if job is not None and job._open:
            job.done()

    def __del__(self) -> None:
        """The loop was left by an exception, or a ``break``."""
        job = self._job
        if job is not None and job._open:
            with contextlib.suppress(FlyringError):  # a job that stays in hand is the worker's, as after each release
                job.release()


class Jobs(OneByOne):
    """``for job in worker``."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _core.Job:
        self._finish()
        self._job = self._worker._next()
        if self._job is None:
            raise StopIteration
        return self._job


class AsyncJobs(OneByOne):
    """``async for job in worker``."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _core.Job:
        self._finish()
        self._job = await self._worker._receive_or_end()
        if self._job is None:
            raise StopAsyncIteration
        return self._job
