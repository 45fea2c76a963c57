# SPDX-License-Identifier: Apache-2.0
"""JournalReader: reads a journal from any place, also while it grows (spec/api.md, spec/journal.md 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from . import _core
from ._core import File, JournalWalk, Memory
from .errors import DamagedError, NoSuchChannelError
from .journal_file import UNIT, JournalFiles
from .journal_recover import walk_proven
from .journal_seek import (
    JournalStart,
    Place,
    Start,
    behind_damage,
    cut_over,
    end_of_committed,
    end_place,
    find_place,
    next_check,
    oldest,
)
from .journal_segment import (
    CUT,
    END,
    LIMIT,
    NOTHING,
    RIGHT,
    highest_whole,
    map_segment,
    open_segment,
)
from .reader import AsyncReader
from .system import failed
from .wait import Wait

if TYPE_CHECKING:
    from ._core import JournalMessage
    from .journal import Journal


class JournalReader(_core.JournalReader, AsyncReader):
    """Reads the messages of a journal in order. Made by ``Journal.reader``.

    A reader holds no slot: it holds no writer back, and other processes do not know it. Read permission is enough.
    Iteration ends when the last writer has closed and everything is read. A reader is a context manager: leaving the
    ``with`` block closes it. It is not thread-safe. Concurrent use, and a call from inside a handler, are detected on a
    best-effort basis and raise TwoThreadsError.

    All methods raise ClosedError after ``close`` and in a forked child, and ViewAliveError while a memoryview or array
    of a message outlives the message's handler. Reading raises DamagedError where a segment is missing or its bytes
    have changed, unless the reader was made with ``skip_damaged``; the reader stays where it is. CorruptJournalError:
    a record that cannot be there was found in the segment that is being written.
    """

    __slots__ = ("__weakref__", "_files", "_journal", "_readable", "_skip", "_walk")

    _journal: Journal
    _files: JournalFiles
    _walk: JournalWalk
    _skip: bool

    def __new__(
        cls,
        journal: Journal,
        durable: bool,
        skip_damaged: bool,
        wait: Wait,
        lock: File | None = None,
        slot: int = 0,
        epoch: int = 0,
        lost: int = 0,
    ) -> Self:
        """Internal: use the methods of ``Journal``."""
        files = journal._files
        walk = JournalWalk(files.size)
        self = super().__new__(
            cls, files.memory, files.file, walk, files.this_boot(), durable, wait, lock, slot, epoch, lost
        )
        self._journal, self._files, self._walk, self._skip = journal, files, walk, skip_damaged
        self._set_foreign(not files.is_of_this_boot(), False)
        return self

    def seek(self, start: Start) -> None:
        """Goes on at another place: see ``Journal.reader``. What is skipped does not count as lost.

        Raises InvalidArgumentError for a place that is none, and DamagedError.
        """
        self._check()
        self._go_to(self._find(start))

    def ended(self) -> bool:  # type: ignore[override]  # a journal has no rings to choose from
        """Returns whether the writer has closed and all its messages are consumed. Becomes False again when there are
        more."""
        self._check()
        return self._have_ended()

    def _find(self, start: Start) -> Place:
        files = self._files
        limit = files.synced + UNIT if self._foreign else self._limit()
        try:
            if self._foreign:
                return self._find_proven(start)
            if isinstance(start, JournalStart) and not self.durable:
                limit = end_of_committed(files)
            return find_place(
                files, start, JournalWalk(files.size), limit, lambda: end_place(files, JournalWalk(files.size), limit)
            )
        except DamagedError as damage:
            if not self._skip:
                raise
            return behind_damage(files, damage, limit)

    def _find_proven(self, start: Start) -> Place:
        """The same in another boot, where nothing counts but what is proven. What lies behind that waits for the
        recovery."""
        walked = walk_proven(self._files)
        end = Place(walked.end, walked.count, walked.end, walked.count)
        if isinstance(start, JournalStart) and start.kind == "position" and start.value >= walked.end:
            return end
        return find_place(self._files, start, JournalWalk(self._files.size), walked.end, lambda: end)

    def _go_to(self, place: Place) -> None:
        self._walk.forget()
        self._place(place.position, place.number, place.span, place.span_count, place.fresh)
        if place.lost:
            self._lose(place.lost)
        self._set_foreign(self._foreign, False)

    if TYPE_CHECKING:

        async def receive(self, timeout: float | None = None) -> JournalMessage | None: ...
        async def __anext__(self) -> JournalMessage: ...

    # What the core calls

    def _check_replaced(self) -> None:
        self._journal._check_replaced()

    def _advance(self, stuck: bool) -> bool:
        """Finds what lies at the cursor, when the core has nothing to hand out there: a span that is proven, the tail,
        or another place. ``stuck``: nothing lies at the cursor, although more was published. Returns whether the core
        shall look again."""
        files = self._files
        if self._foreign and files.is_of_this_boot():  # it was recovered meanwhile
            self._walk.forget()
            self._set_foreign(False, False)
        limit = self._limit()
        if stuck:
            return self._is_stuck(limit)
        if self.position >= limit:
            return not self.durable and self._map_tail(limit)
        try:
            return self._read_span(limit)
        except OSError as error:
            raise failed("read", error, files.path) from error

    def _read_span(self, limit: int) -> bool:
        """Reads the span at the cursor, and proves it. OSError."""
        files, walk = self._files, self._walk
        segment = files.segment_of(self.position)
        if walk.segment != segment:
            file = open_segment(files, segment)
            if file is None:
                return self._is_missing(limit)
            walk.use(file, segment)
        if self.position == segment:  # at the segment's first record, which proves itself
            walk.begin(segment, 0, 0, True)
            found = walk.scan(limit)
            if found == RIGHT and walk.at == segment:
                return self._pass_first(walk.check_count, limit)
            if found == CUT and walk.at == segment:
                return self._follow(walk.cut_next, walk.cut_count)
            return self._is_wrong(found, limit)
        walk.begin(self._span, self._span_count, 0, self._fresh)
        found = walk.scan(limit)
        if found == RIGHT and walk.at >= self.position:
            self._prove(walk.at, walk.at + UNIT)
            return True
        if found == END:
            return self._end_segment(limit)
        if found == LIMIT and not self.durable and not self._foreign:
            return self._map_tail(limit, segment)
        if found == CUT and walk.at == self.position:
            return self._follow(walk.cut_next, walk.cut_count)
        return self._is_wrong(found, limit)

    def _pass_first(self, count: int, limit: int) -> bool:
        if count != self.number and not self._fresh:
            return self._is_damaged(limit)
        behind = self.position + UNIT
        self._place(behind, count, behind, count, False)
        return True

    def _end_segment(self, limit: int) -> bool:
        """The span ends with its segment: the next one begins with its check. OSError."""
        files, walk = self._files, self._walk
        after = walk.at
        file = open_segment(files, after)
        if file is None:
            if self._foreign and after > max(files.synced, files.trimmed):
                return self._wait_for_recovery()
            if self._foreign or not self._is_to_come(after, limit):
                return self._lead_over(after) or self._is_damaged(limit)
            return self._map_tail(limit, files.segment_of(self.position))
        found = walk.judge(file)
        file.close()
        if found == RIGHT:
            self._prove(after, after + UNIT)
            return True
        if found == CUT and walk.start == after:
            return self._follow(walk.cut_next, walk.cut_count)
        return self._is_wrong(found, limit)

    def _is_to_come(self, position: int, limit: int) -> bool:
        """Whether a segment that is missing may not be there yet: a ``published`` that cannot be counts up to the last
        whole one (spec/journal.md 10)."""
        if limit > position:
            if self._files.published_can_be():
                return False
            highest = highest_whole(self._files)
            end = highest + self._files.size if highest >= 0 else 0
            if end > position:
                return False
            self._limit_to(end)
        return True

    def _map_tail(self, limit: int, segment: int = -1) -> bool:
        """Maps the segment at the cursor, to read it in place. Returns whether it is mapped now and was not before."""
        files = self._files
        if segment < 0:
            segment = files.segment_of(self.position)
            if self._mapped == segment:
                return False
        memory: Memory | None = None
        if self._mapped != segment:
            memory = map_segment(files, segment)
            if memory is None:
                return False
        self._map(memory, segment, limit)
        return True

    def _follow(self, next_: int, count: int) -> bool:
        """Goes over a cut: what lay behind it is gone."""
        if count != self.number and not self._fresh:
            return self._is_damaged(self._limit())
        self._place(next_, count, next_, count, False)
        self._count_cut()
        return True

    def _is_wrong(self, found: int, limit: int) -> bool:
        """What lies at the cursor is not right."""
        if self._foreign and self._walk.at >= max(self._files.synced, self._files.trimmed):
            return self._wait_for_recovery()
        if found == NOTHING:
            return self._is_stuck(limit)
        if found == CUT:  # a recovery has cut off the span in which the cursor lies
            return self._lead_over(self.position) or self._is_damaged(limit)
        if found == LIMIT:  # durable: its check comes with the sync
            self._wait_beyond(limit)
            return False
        return self._is_damaged(limit)

    def _wait_for_recovery(self) -> bool:
        """Nothing more is proven in another boot."""
        self._set_foreign(True, True)
        return False

    def _is_stuck(self, limit: int) -> bool:
        """Nothing lies at the cursor, although more was published: a recovery has cut it off, or it is damaged."""
        return self._lead_over(self.position) or self._is_trimmed() or self._is_damaged(limit)

    def _lead_over(self, position: int) -> bool:
        """Whether a cut leads over this position."""
        place = cut_over(self._files, JournalWalk(self._files.size), position)
        if place is None:
            return False
        self._go_to(place)
        self._count_cut()
        return True

    def _is_missing(self, limit: int) -> bool:
        """The segment at the cursor is missing."""
        if self._is_trimmed():
            return True
        if self._files.unlinked:
            raise NoSuchChannelError(self._files.path)
        if self._foreign:
            return self._wait_for_recovery()
        if self._is_to_come(self.position, limit):
            return False
        return self._lead_over(self.position) or self._is_damaged(limit)

    def _is_trimmed(self) -> bool:
        """Whether what lies at the cursor was trimmed: then goes on at ``trimmed``, which is loaded after the segment
        was not found."""
        files = self._files
        while self.position < files.trimmed:
            try:
                place = oldest(files, JournalWalk(files.size))
            except DamagedError as damage:
                place = behind_damage(files, damage, self._limit(), self.number, self._skip)
            if place.position >= self.position:
                lost = place.number - self.number
                self._go_to(place)
                self._lose(max(0, lost))
                self._store()
                return True
        return False

    def _is_damaged(self, limit: int) -> bool:
        """Skips what is damaged, or raises DamagedError."""
        files = self._files
        if self._is_trimmed():
            return True
        walk = JournalWalk(files.size)
        found = next_check(files, walk, self.position, limit)
        self._walk.forget()
        if found is None:
            end = min(limit, files.published)
            if self._skip:  # waits for a check
                self._skipped(end, -1)
                self._wait_beyond(limit)
                return False
            raise DamagedError(files.path, self.position, end, -1)
        position, count = found
        if not self._skip:
            raise DamagedError(files.path, self.position, position, count - self.number)
        lost = max(0, count - self.number)
        self._skipped(position, lost)
        behind = position + UNIT
        self._place(behind, count, behind, count, False)
        self._lose(lost)
        self._store()
        return True

    def _skipped(self, end: int, messages: int) -> None:
        """For the commands, which tell of what they skip: from the cursor up to ``end`` (-1: not known how many)."""

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self.position}"
        return f"<flyring.{type(self).__name__} {self._files.path} {state}>"
