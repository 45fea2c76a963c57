# SPDX-License-Identifier: Apache-2.0
"""The helper: a thread that makes segments before the writer needs them, syncs, and trims (spec/journal.md 4, 5, 8)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from . import layout
from ._core import Memory
from .errors import FlyringError, IoError, NoSpaceError
from .journal_file import CONTROL, HELPER_LOCK, UNIT, JournalFiles
from .journal_segment import map_segment, prepare
from .journal_sync import make_durable
from .journal_trim import consumed_limit, trim_by_policy
from .system import new_lock

if TYPE_CHECKING:
    from collections.abc import Callable

WORK = CONTROL + layout.JOURNAL_CONTROL_WORK_SEQUENCE
CAP = 0.1  # s
PAUSE = 0.1  # s, after an error


class Helper:
    """The helper of a journal, if no other process has one. It ends with its writer."""

    def __init__(self, files: JournalFiles, ahead: int, failed: Callable[[int], None]) -> None:
        """``failed``: called with the error number of a sync that failed."""
        self._files, self._ahead, self._failed = files, ahead, failed
        self._pid = os.getpid()
        self._stopped = False
        self._next_look = 0.0  # when it looks for segments that are too old
        self._mapped: dict[int, Memory] = {}
        self._guard = threading.Lock()
        self.error: Exception | None = None
        self._lock = new_lock(files.file, files.path)
        self._helps = self._take_over()
        self._thread = threading.Thread(target=self._run, name="flyring-journal-helper", daemon=True)
        try:
            self._thread.start()
        except BaseException:  # the error refers to this object, and so to the lock
            self._lock.close()
            raise

    def take_mapped(self, position: int) -> Memory | None:
        """A segment that the helper has mapped and touched for the writer."""
        with self._guard:
            return self._mapped.pop(position, None)

    def stop(self) -> None:
        """Ends the thread, and waits for it. Does nothing in a forked child."""
        if self._pid != os.getpid():
            return
        self._stopped = True
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            with contextlib.suppress(FlyringError):
                self._files.wake_helper()
            self._thread.join()  # an interrupt ends this wait; the thread ends all the same

    def _run(self) -> None:
        try:
            self._help()
        finally:
            with self._guard:
                self._mapped.clear()
            self._lock.close()

    def _help(self) -> None:
        while not self._stopped:
            try:
                sequence = self._files.memory.announce_sleep(WORK)  # the loads below come after this
                self._helps = self._helps or self._take_over()
                pause = self._work()
                if not self._stopped:
                    self._files.memory.sleep(WORK, sequence, pause)
            except (FlyringError, OSError) as error:
                self.error = error
                if self._stopped or self._files.memory_is_closed:
                    return
                threading.Event().wait(PAUSE)

    def _take_over(self) -> bool:
        """Whether no other process is the helper, or it has gone: this one helps from now on. If the lock cannot be
        asked for, it does not help yet."""
        with contextlib.suppress(OSError):
            return self._lock.try_lock(HELPER_LOCK)
        return False

    def _work(self) -> float:
        """Does what is due. Returns how long the helper may sleep, in seconds. While another process is the helper, it
        only touches the pages of what is ready."""
        files = self._files
        if files.unlinked or not files.is_of_this_boot():
            return CAP
        here = files.segment_of(max(0, files.published - UNIT))
        self._make_ahead(here)
        if not self._helps:
            return CAP
        every = files.policy.sync_every
        if not files.failed and self._sync_is_due(every):
            self._sync()
        self._trim()
        return min(CAP, every / 1e9) if every > 0 else CAP

    def _sync(self) -> None:
        try:
            make_durable(self._files)
        except IoError as error:
            if self._files.failed:
                self._failed(error.errno or 0)
            self.error = error

    def _trim(self) -> None:
        """Removes what the options say: by age once a second, by size when there is more."""
        files, policy, now = self._files, self._files.policy, time.monotonic()
        by_age = policy.max_age > 0 and now >= self._next_look
        if by_age:
            self._next_look = now + 1
        by_size = 0 < policy.max_size < files.ready - files.trimmed
        by_gates = policy.trim_consumed and files.segment_of(consumed_limit(files)) > files.trimmed
        if by_age or by_size or by_gates:
            trim_by_policy(files, self._lock)

    def _sync_is_due(self, every: int) -> bool:
        """With an interval, when there is a check that is not synced; else when the writer has entered a segment. It
        stays due until it is done."""
        files = self._files
        checked, synced = files.word(layout.JOURNAL_CONTROL_CHECKED), files.synced
        if every > 0:
            return checked > synced
        return every == layout.JOURNAL_SYNC_NEVER and files.segment_of(checked) > files.segment_of(synced)

    def _make_ahead(self, here: int) -> None:
        """Keeps segments ready behind that of ``published``, and touches their pages for the writer."""
        files = self._files
        for i in range(1, self._ahead + 1):
            position = here + i * files.size
            if position >= layout.MAX_POSITION - 2 * files.size:
                return
            if self._helps and files.ready < position + files.size:
                try:
                    prepare(files, position)
                except (NoSpaceError, IoError) as error:  # the writer finds that when it needs the segment
                    self.error = error
                    return
            if files.ready >= position + files.size and position not in self._mapped:
                memory = map_segment(files, position, writable=True)
                if memory is not None:
                    memory.populate(layout.HEADER_LENGTH, files.size)
                    with self._guard:
                        self._mapped = {at: other for at, other in self._mapped.items() if at > here} | {
                            position: memory
                        }
            if self._stopped or files.segment_of(max(0, files.published - UNIT)) != here:
                return  # the next round begins with the segment that the writer needs first
