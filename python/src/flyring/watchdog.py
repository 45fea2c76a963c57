# SPDX-License-Identifier: Apache-2.0
"""Watchdogs and canaries, which report what runs late (spec/api.md, "Watchdog")."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from . import layout
from .closing import Context
from .errors import ClosedError, InvalidArgumentError
from .heartbeat import running
from .stats import HEARTBEAT_KEY

if TYPE_CHECKING:
    from .channel import Channel

LARGEST = 2**63 / 1e9  # s


@dataclass(frozen=True)
class Missed:
    """What a watchdog has found."""

    kind: Literal["heartbeat", "canary", "watchdog"]
    """``heartbeat``: a thread does not beat. ``canary``: a stretch of code takes longer than expected. ``watchdog``:
    the watchdog itself slept too long."""
    label: str
    """The name of the heartbeat or the label of the canary."""
    pid: int
    """The process id, in the pid namespace of the thread."""
    interval: int
    """What was promised or expected, in ns."""
    late: int
    """By how much the time exceeds ``interval``, in ns."""
    times: int
    """How often it happened since it was last reported; then ``late`` is the largest."""
    running: bool
    """Whether the thread or the stretch is still late."""
    stack: str
    """The stack of the thread; empty if it is not known."""

    def __str__(self) -> str:
        label = "".join(" " if one < " " or one == "\x7f" else one for one in self.label)  # other processes write it
        what = f"flyring: {label} of process {self.pid}"
        total = duration(self.interval + self.late)
        if self.kind == "heartbeat":
            line = f"{what} has not beaten for {total}; it promises a beat every {duration(self.interval)}"
        elif self.kind == "watchdog":
            line = f"{what} slept {duration(self.late)} too long; that time counts against no thread"
        elif self.running:
            line = f"{what} has run for {total}; expected {duration(self.interval)}"
        else:
            line = f"{what} took {total}; expected {duration(self.interval)}"
        if self.times > 1:
            line += f" (the worst of {self.times})"
        return f"{line}\n{self.stack}" if self.stack else line


def duration(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.3f} s" if nanoseconds >= 1_000_000_000 else f"{nanoseconds / 1e6:.3f} ms"


def to_stderr(missed: Missed) -> None:
    print(missed, file=sys.stderr, flush=True)


class Canary:
    """Watches a stretch of code that has an expected duration. Make it once, because the watchdog keeps it until the
    watchdog is closed. Then run the stretch in ``with canary:``, in one thread at a time, and not nested.

    A stretch that takes longer is reported to the callback of the watchdog: with its stack while it runs, and again
    when it has ended. It costs two reads of the clock. ``Canary.OFF`` does nothing.
    """

    __slots__ = ("_expected", "_over", "_round", "_start", "_thread", "expected", "label")

    OFF: ClassVar[Off]
    """Stands for a canary where nothing is to be watched."""

    def __init__(self, watchdog: Watchdog, label: str, expected: float) -> None:
        """``expected``: the longest duration that is expected, in seconds.

        Raises InvalidArgumentError, and ClosedError if the watchdog is closed.
        """
        if not 0 < expected < LARGEST:
            raise InvalidArgumentError("expected", f"{expected} s must be above 0")
        self.label = label
        self.expected = expected
        self._expected = round(expected * 1e9)
        self._start = 0
        self._thread = 0
        self._round = 0  # grows each time the watchdog has reported what is in _over
        self._over = (0, 0, 0)  # how many stretches were too long, the longest of the round, the round
        watchdog._add(self)

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        self._start = time.monotonic_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        took = time.monotonic_ns() - self._start
        self._start = 0
        if took > self._expected:
            times, worst, of = self._over
            now = self._round
            self._over = (times + 1, max(worst, took) if of == now else took, now)


class Off:
    """A canary that watches nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


Canary.OFF = Off()


class Seen:
    """What the watchdog remembers of a heartbeat, of a canary, or of itself. Times are of CLOCK_MONOTONIC, in ns."""

    __slots__ = ("since", "times", "told", "value")

    def __init__(self, value: int, since: int) -> None:
        self.value = value  # number of beats; start of the stretch
        self.since = since  # when the value last changed, plus the time that the watchdog overslept
        self.told: int | None = None  # when the callback last heard of it
        self.times = 0  # how many stretches were too long when they were last reported


class Watchdog(Context):
    """A thread that reports what runs late: heartbeats of a channel, of all processes, that miss their promised
    interval, and canaries of this process. For a thread of this process it also shows the stack.

    Time that the watchdog itself slept too long counts against none of them; it reports itself instead. Close it before
    the channel. In a forked child it does not run, and ``close`` does nothing.
    """

    def __init__(
        self,
        channel: Channel,
        on_missed: Callable[[Missed], object] = to_stderr,
        *,
        every: float = 0.1,
        repeat: float = 10.0,
    ) -> None:
        """``on_missed`` runs in the thread of the watchdog; if it raises, the watchdog prints the traceback and goes
        on. By default it writes to standard error. ``every``: the time between two looks, in seconds. ``repeat``: the
        shortest time between two reports of the same thread or stretch, in seconds.

        Raises InvalidArgumentError, and ClosedError if the channel is closed.
        """
        if not 0 < every < threading.TIMEOUT_MAX:
            raise InvalidArgumentError("every", f"{every} s must be above 0")
        if not 0 <= repeat < LARGEST:
            raise InvalidArgumentError("repeat", f"{repeat} s must not be below 0")
        channel.counters()  # raises ClosedError
        self._channel = channel
        self._on_missed = on_missed
        self._every = round(every * 1e9)
        self._repeat = round(repeat * 1e9)
        self._pid = os.getpid()
        self._stop = threading.Event()
        self._canaries: dict[Canary, Seen] = {}
        self._new: list[Canary] = []  # those that the thread has not taken over yet
        self._hearts: dict[tuple[int, int, str, int], Seen] = {}
        self._itself = Seen(0, 0)
        self._worst = 0
        self._thread = threading.Thread(target=self._run, name="flyring-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Reports stretches that have ended too late and were not reported yet, and ends the thread. A second close
        does nothing."""
        if self._pid == os.getpid():
            self._stop.set()
            if threading.current_thread() is not self._thread:
                self._thread.join()

    def _add(self, canary: Canary) -> None:
        if self._pid != os.getpid() or not self._thread.is_alive() or self._stop.is_set():
            raise ClosedError("watchdog", self._pid != os.getpid())
        self._new.append(canary)

    def _run(self) -> None:
        before = time.monotonic_ns()
        stopped = False
        while not stopped:
            stopped = self._stop.wait(self._every / 1e9)
            now = time.monotonic_ns()
            overslept = 0 if stopped else max(0, now - before - self._every)
            if overslept > self._every:
                self._itself.times += 1
                self._worst = max(self._worst, overslept)
            if self._itself.times and self._may_tell(self._itself, now, stopped):
                times, worst = self._itself.times, self._worst
                self._itself.times = self._worst = 0
                self._tell("watchdog", "watchdog", self._pid, self._every, self._every + worst, times)
            if not self._look_at_canaries(now, overslept, stopped):
                return
            if not stopped and not self._look_at_hearts(now, overslept):
                stopped = True
                self._look_at_canaries(now, 0, stopped)
            before = time.monotonic_ns()

    def _look_at_hearts(self, now: int, overslept: int) -> bool:
        """Returns False if the channel is closed."""
        hearts: dict[tuple[int, int, str, int], Seen] = {}
        try:
            for counter in self._channel.counters():
                try:
                    if counter.type_id != layout.COUNTER_METADATA_TYPE_HEARTBEAT:
                        continue
                    pid, interval, started_at = HEARTBEAT_KEY.unpack_from(counter.key)
                    label, beats = counter.label, counter.get()
                except ClosedError:
                    continue  # it was freed meanwhile
                key = (counter.id, started_at, label, pid)
                seen = hearts[key] = self._hearts.get(key) or Seen(beats, now)
                seen.since = min(now, seen.since + overslept)
                if beats != seen.value:
                    seen.value, seen.since = beats, now
                elif 0 < interval < now - seen.since and self._may_tell(seen, now):
                    thread = running(self._channel.id, counter)
                    stack = "" if thread is None else stack_of(thread)
                    self._tell("heartbeat", label, pid, interval, now - seen.since, 1, True, stack)
        except ClosedError:
            return False
        self._hearts = hearts
        return True

    def _look_at_canaries(self, now: int, overslept: int, last: bool) -> bool:
        while self._new:
            self._canaries[self._new.pop()] = Seen(0, now)
        for canary, seen in self._canaries.items():
            times, worst, _ = canary._over
            if times != seen.times and self._may_tell(seen, now, last):
                canary._round += 1
                many, seen.times = times - seen.times, times
                self._tell("canary", canary.label, self._pid, canary._expected, worst, many)
            start = canary._start
            if start != seen.value:
                seen.value, seen.since = start, start
            seen.since = min(now, seen.since + overslept)
            if start and now - seen.since > canary._expected and self._may_tell(seen, now):
                stack = stack_of(canary._thread)
                if canary._start == start:  # else it has ended, and the next look reports it
                    self._tell("canary", canary.label, self._pid, canary._expected, now - seen.since, 1, True, stack)
                else:
                    seen.told = None
        return not last

    def _may_tell(self, seen: Seen, now: int, last: bool = False) -> bool:
        if seen.told is not None and now - seen.told < self._repeat and not last:
            return False
        seen.told = now
        return True

    def _tell(
        self,
        kind: Literal["heartbeat", "canary", "watchdog"],
        label: str,
        pid: int,
        interval: int,
        took: int,
        times: int,
        still: bool = False,
        stack: str = "",
    ) -> None:
        try:
            self._on_missed(Missed(kind, label, pid, interval, took - interval, times, still, stack))
        except Exception:
            traceback.print_exc()

    def __repr__(self) -> str:
        return f"<flyring.Watchdog of {self._channel!r}>"


def stack_of(thread: int) -> str:
    frame: Any = sys._current_frames().get(thread)
    return "" if frame is None else "".join(traceback.format_stack(frame)).rstrip("\n")
