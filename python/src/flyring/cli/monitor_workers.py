# SPDX-License-Identifier: Apache-2.0
"""The processes that measure for ``flyring monitor``: one for each core, and one that sends probes.

Each has a process of its own, because threads of one Python process wait for each other. It sends what it measured
through a pipe, and ends after the monitor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from .monitor_causes import run_delay

RECORD = struct.Struct("<qqqq")
BATCH = 100
"""How many records one write has. They are less than PIPE_BUF bytes, so the write is never torn."""
FLUSH = 100_000_000
"""The longest time between two writes, in ns."""
KEEP = 100_000
"""How many records are kept while the pipe is full, that is, while the monitor itself does not run."""

STOPPED, NO_ANSWER, ONE_WAY = 1, 2, 4


class Sample(NamedTuple):
    """What a worker measured once."""

    at: int
    """When it ended, in ns of CLOCK_MONOTONIC."""
    value: int
    """How late the core woke the process, or how long the probe was under way, in ns."""
    delay: int
    """For how long the worker waited for the core meanwhile, in ns; -1: not looked at."""
    flags: int


class Sender:
    """A worker's end of the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        os.set_blocking(fd, False)
        self._parent = os.getppid()
        self._waiting: list[bytes] = []
        self._flushed = 0

    def add(self, at: int, value: int, delay: int = -1, flags: int = 0) -> bool:
        """Returns whether the records were sent now."""
        if len(self._waiting) < KEEP:
            self._waiting.append(RECORD.pack(at, value, delay, flags))
        if len(self._waiting) < BATCH and at - self._flushed < FLUSH:
            return False
        self._flushed = at
        if os.getppid() != self._parent:  # the monitor was killed
            os._exit(0)
        while self._waiting:
            try:
                os.write(self._fd, b"".join(self._waiting[:BATCH]))
            except BlockingIOError:
                return True
            del self._waiting[:BATCH]
        return True


class Worker:
    """A forked process that runs ``work``, as the monitor sees it."""

    def __init__(self, tag: str, work: Callable[[Sender], object]) -> None:
        self.tag = tag
        self._rest = b""
        self.status: int | None = None
        """The exit status; None while it runs."""
        self._fd, theirs = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._fd)
            run(work, theirs)
        os.close(theirs)
        os.set_blocking(self._fd, False)

    def samples(self) -> list[Sample]:
        """Returns what has come since the last call."""
        while self.status is None:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self._rest += data
        whole = len(self._rest) // RECORD.size * RECORD.size
        found = [Sample(*values) for values in RECORD.iter_unpack(self._rest[:whole])]
        self._rest = self._rest[whole:]
        return found

    def close(self, by: int = signal.SIGKILL) -> None:
        """Ends the process."""
        os.close(self._fd)
        if self.status is None:
            os.kill(self.pid, by)
            os.kill(self.pid, signal.SIGCONT)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run(work: Callable[[Sender], object], fd: int) -> NoReturn:
    """Runs the work of a forked worker, and ends the process."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the monitor ends its workers
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        status = int(bool(work(Sender(fd))))
    except BaseException as error:
        print(f"flyring: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


class Continued:
    """Notices that this process was stopped, by the signal SIGCONT that ends the stop."""

    def __init__(self) -> None:
        self.count = 0
        signal.signal(signal.SIGCONT, self._went_on)

    def _went_on(self, *_: object) -> None:
        self.count += 1

    def take(self) -> bool:
        """Returns whether this process was stopped since the last call."""
        was, self.count = self.count > 0, 0
        return was


def hiccups(core: int, interval: int, threshold: int) -> Callable[[Sender], None]:
    """Returns the work of a core's process: sleeps for ``interval`` ns again and again, and measures how late it wakes.
    If that is more than ``threshold`` ns, it also measures for how long the process waited for the core."""

    def work(sender: Sender) -> None:
        os.sched_setaffinity(0, {core})
        with contextlib.suppress(OSError), open("/proc/self/timerslack_ns", "w") as file:
            file.write("1")  # by default the kernel may wake a process 50 us later
        continued = Continued()
        me = os.getpid()
        clock, sleep, add = time.monotonic_ns, time.sleep, sender.add
        seconds = interval / 1e9
        waited = run_delay(me)
        while True:
            before = clock()
            sleep(seconds)
            now = clock()
            late = max(0, now - before - interval)
            if late > threshold or continued.count:
                total = run_delay(me)
                add(now, late, total - waited, STOPPED * continued.take())
                waited = total
            elif add(now, late):
                waited = run_delay(me)

    return work
