# SPDX-License-Identifier: Apache-2.0
"""Worker: takes the jobs of a queue (spec/api.md, spec/queue.md)."""

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
    """Takes jobs from all rings of a queue. Made by ``Channel.worker``.

    A worker is a context manager: leaving the ``with`` block closes it. It is not thread-safe, except for ``drain``.
    Concurrent use, and a call from inside a handler, are detected on a best-effort basis and raise TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, and SlotLostError if the worker was evicted.
    They raise ViewAliveError while a job from ``take`` is neither done nor released, and while a memoryview or array of
    a job outlives the job. A damaged ring raises CorruptRingError once; the other rings go on. A method that waits
    raises ChannelReplacedError if another channel has the name now; the worker still works.
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
        """The name that the worker was made with."""
        return self._name

    def __iter__(self) -> Jobs:
        """Iterates over jobs, and waits for each. A job is done when the loop asks for the next one. The job is
        released if the loop ends by an exception or a ``break``. The loop ends when the queue has ended or the worker
        drains."""
        return Jobs(self)

    def __aiter__(self) -> AsyncJobs:
        """Like ``for job in worker``, in the running event loop."""
        return AsyncJobs(self)

    async def receive(self, timeout: float | None = None) -> _core.Job | None:
        """Like ``take``, in the running event loop (asyncio, uvloop or trio). Returns one job, or None if none came
        within
        ``timeout`` seconds (None: no limit) or the worker drains. If the task is cancelled, no job was taken.

        Raises TwoThreadsError if another task waits in this worker.
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
        """Waits for one job; returns None at the end of the queue."""
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
        """Raises ChannelReplacedError if another channel has the name (spec/channel.md 6.13). Called by the core."""
        self._channel._check_replaced()

    def _recover_returns(self) -> None:
        """Recovers the returns ring, whose last owner died. The C core calls it, and holds the lock of the ring's
        slot."""
        attached = self._channel._attached
        recover(attached, attached.header.publishers - 1)

    def __repr__(self) -> str:
        return (
            f"<flyring.Worker slot={self.slot} name={getattr(self, '_name', '')!r}{' closed' if self.closed else ''}>"
        )


class OneByOne:
    """The base of both iterators: holds the job that the loop works on."""

    __slots__ = ("_job", "_worker")

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._job: _core.Job | None = None

    def _finish(self) -> None:
        job, self._job = self._job, None
        if job is not None and job._open:
            job.done()

    def __del__(self) -> None:
        """Releases the job when the loop was left by an exception or a ``break``."""
        job = self._job
        if job is not None and job._open:
            with contextlib.suppress(FlyringError):  # if it cannot be released now, the worker keeps it in hand
                job.release()


class Jobs(OneByOne):
    """The iterator of ``for job in worker``."""

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
    """The iterator of ``async for job in worker``."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _core.Job:
        self._finish()
        self._job = await self._worker._receive_or_end()
        if self._job is None:
            raise StopAsyncIteration
        return self._job
