# SPDX-License-Identifier: Apache-2.0
"""Finding a place in a journal: by position, number or time (spec/journal.md 3.3, where to begin)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Literal

from . import layout
from ._core import JournalWalk
from .errors import CorruptJournalError, DamagedError, InvalidArgumentError
from .journal_file import UNIT, JournalFiles
from .journal_segment import (
    CUT,
    END,
    EVERYTHING,
    NOTHING,
    RIGHT,
    WRONG,
    First,
    first_record,
    highest_whole,
    map_segment,
    open_segment,
)
from .system import failed

SEEK_POSITION, SEEK_NUMBER, SEEK_TIME = range(3)
KINDS = {"position": SEEK_POSITION, "number": SEEK_NUMBER, "time": SEEK_TIME}


@dataclass(frozen=True)
class JournalStart:
    """A place in a journal at which a reader begins. Made by ``at_position``, ``at_number`` and ``at_time``."""

    kind: Literal["position", "number", "time"]
    value: int

    @classmethod
    def at_position(cls, position: int) -> JournalStart:
        """The message or record that begins at this position, in bytes: a message's ``position``, or that of a reader
        or writer."""
        return cls("position", position)

    @classmethod
    def at_number(cls, number: int) -> JournalStart:
        """The message before which so many messages lie."""
        return cls("number", number)

    @classmethod
    def at_time(cls, time: int) -> JournalStart:
        """The first message whose time is not smaller, in ns since 1970. A time beyond all messages: what is appended
        from now on."""
        return cls("time", time)


Start = Literal["oldest", "newest"] | JournalStart
"""Where a reader begins: at the oldest message there is, behind the newest one, or at a place."""


@dataclass(frozen=True)
class Place:
    """Where reading goes on."""

    position: int
    number: int
    span: int
    """Where the span that holds the position begins."""
    span_count: int
    fresh: bool = False
    """The span's beginning is not known."""
    cuts: int = 0
    """How many cuts lie between."""
    lost: int = 0


def end_of_committed(files: JournalFiles) -> int:
    """The end of what is committed. Records may lie above ``published`` for a moment, or until there is another writer
    (append 5 and 6), and a tail hands them out: so a start that a reader has from a message may lie there. IoError."""
    published = files.published
    segment = files.segment_of(published)
    memory = None if published < 0 or published % UNIT else map_segment(files, segment)
    if memory is None:
        return published
    end = published
    with closing(memory):
        while end < segment + files.size:
            length = memory.load32(layout.HEADER_LENGTH + end - segment)  # pairs with append 5
            if length <= 0:
                break
            end += -(-length // UNIT) * UNIT
    if end == published:
        return published
    file = open_segment(files, segment)
    if file is None:
        return published
    walk = JournalWalk(files.size)
    try:
        walk.use(file, segment)
        return walk.pass_records(published, end)[0]  # only sound ones
    except OSError as error:
        raise failed("read", error, files.segment_path(segment)) from error
    finally:
        walk.forget()


def place_at_segment(files: JournalFiles, position: int, walk: JournalWalk) -> Place | None:
    """The first record of a segment, which is a check or a cut; None if it is neither."""
    first = first_record(files, position, walk)
    return None if first is None else Place(position, first.count, position, first.count, fresh=True)


def seek_in_segment(
    files: JournalFiles, walk: JournalWalk, segment: int, kind: int, value: int, limit: int = EVERYTHING
) -> Place | None:
    """Walks from the first record of a whole segment to a place in it. None: the place does not lie in it, or it cannot
    be walked to. A place behind a cut is the cut's position, with ``cuts`` 1: reading goes on there.

    InvalidArgumentError (start) for a position within a record; IoError.
    """
    file = open_segment(files, segment)
    if file is None:
        return None
    try:
        walk.use(file, segment)
        walk.begin(segment, 0, 0, True)
        if kind == SEEK_POSITION and value == segment:
            found = walk.scan(limit)
            count = walk.check_count if found == RIGHT else walk.cut_count
            return Place(segment, count, segment, count, fresh=True) if found in (RIGHT, CUT) else None
        while True:
            found = walk.scan(limit)
            if not walk.start == walk.at == segment:
                hit, position, count = walk.seek(kind, value)
                if hit == 1:
                    return Place(position, count, walk.start, walk.start_count)
                if hit == 2:
                    raise InvalidArgumentError("start", f"position {value} lies within a record")
            if kind == SEEK_POSITION and walk.at == value:
                return Place(value, walk.count, walk.start, walk.start_count)
            if found == CUT:
                return Place(walk.at, walk.cut_count, walk.at, walk.cut_count, cuts=1)
            if found == WRONG or (found == NOTHING and limit != EVERYTHING):  # damaged: a later check may be right
                at = walk.find_check(walk.start, limit)
                if at < 0:
                    return None
                if kind == SEEK_POSITION and value < at:
                    raise DamagedError(files.path, value, at, -1)
                walk.begin(at, walk.check_count, walk.check_time, True)
                walk.scan(at + UNIT)
                found = RIGHT
            if found != RIGHT:
                return None
            walk.begin(walk.at + UNIT, walk.check_count, walk.time)
    except OSError as error:
        raise failed("read", error, files.segment_path(segment)) from error
    finally:
        walk.forget()


def find_place(files: JournalFiles, start: Start, walk: JournalWalk, limit: int, end: Callable[[], Place]) -> Place:
    """Finds where reading begins. ``limit``: up to where it may read; ``end``: gives the place behind the newest
    message.

    InvalidArgumentError (start), DamagedError, CorruptJournalError, IoError.
    """
    if start == "newest":
        return end()
    if start == "oldest":
        return oldest(files, walk)
    if not isinstance(start, JournalStart) or start.kind not in KINDS or not isinstance(start.value, int):
        raise InvalidArgumentError("start", f'{start!r} must be "oldest", "newest" or a JournalStart')
    kind, value = KINDS[start.kind], start.value
    if value < 0:
        raise InvalidArgumentError("start", f"{value} must not be below 0")
    if kind == SEEK_POSITION:
        return at_position(files, walk, value, limit, end)
    return at_number_or_time(files, walk, kind, value, limit, end)


def oldest(files: JournalFiles, walk: JournalWalk) -> Place:
    """At ``trimmed``, which may move meanwhile. CorruptJournalError, DamagedError."""
    while True:
        trimmed = files.trimmed
        if trimmed % files.size or trimmed < 0:
            raise CorruptJournalError(files.path, trimmed, f"trimmed is no multiple of {files.size}")
        place = place_at_segment(files, trimmed, walk)
        if place is not None:
            return place
        if files.trimmed == trimmed:
            raise damaged_at(files, walk, trimmed, files.published)


def at_position(files: JournalFiles, walk: JournalWalk, position: int, limit: int, end: Callable[[], Place]) -> Place:
    if position % UNIT:
        raise InvalidArgumentError("start", f"position {position} is not a multiple of {UNIT}")
    if position > limit:
        raise InvalidArgumentError("start", f"position {position} lies beyond {limit}, where the journal ends")
    segment = highest_whole(files, files.segment_of(position))
    place = None
    if segment >= 0:
        if position < segment + files.size:
            place = seek_in_segment(files, walk, segment, SEEK_POSITION, position, limit)
        else:  # a cut may lead over it
            with suppress(DamagedError):
                place = seek_in_segment(files, walk, segment, SEEK_POSITION, EVERYTHING - UNIT + 1, limit)
    if place is not None and (place.position == position or place.cuts):
        return place
    if position < files.trimmed:
        return oldest(files, walk)
    if position == limit:
        return end()
    raise damaged_at(files, walk, position, limit)


def at_number_or_time(
    files: JournalFiles, walk: JournalWalk, kind: int, value: int, limit: int, end: Callable[[], Place]
) -> Place:
    trimmed = files.trimmed
    places = [p for p in files.positions() if trimmed <= p < limit]
    seen: dict[int, First | None] = {}

    def first_check(position: int) -> First | None:
        if position not in seen:
            seen[position] = first_record(files, position, walk)
        first = seen[position]
        return None if first is None or first.next else first  # a cut has no time

    def key(position: int) -> int:
        """What the first check says; a segment without one counts as the one before."""
        first = first_check(position)
        if first is None:
            return -1 if position == places[0] else key(places[places.index(position) - 1])
        return first.count if kind == SEEK_NUMBER else first.time

    # The last segment whose first check has at most this number, or a smaller time.
    find = bisect_right if kind == SEEK_NUMBER else bisect_left
    at = max(0, find(places, value, key=key) - 1)
    while at > 0 and first_check(places[at]) is None:  # the place may lie before it
        at -= 1
    for position in places[at:]:
        place = seek_in_segment(files, walk, position, kind, value, limit)
        if place is not None and not place.cuts:
            lost = place.number - value if kind == SEEK_NUMBER else 0
            return Place(place.position, place.number, place.span, place.span_count, lost=max(0, lost))
    last = end()
    if kind == SEEK_NUMBER and value > last.number:
        raise InvalidArgumentError("start", f"number {value} lies beyond {last.number}, where the journal ends")
    if kind == SEEK_NUMBER:  # it was trimmed meanwhile
        return replace(last, lost=last.number - value)
    return last


def end_place(files: JournalFiles, walk: JournalWalk, limit: int) -> Place:
    """The place behind the newest message, at ``limit``: a walk from the last check. CorruptJournalError, IoError."""
    start = min(files.word(layout.JOURNAL_CONTROL_CHECKED), limit)
    place = walk_between(files, walk, start, limit) if start >= 0 and start % UNIT == 0 else None
    if place is None:  # the word is wrong, or a writer recovered meanwhile
        segment = highest_whole(files, files.segment_of(max(0, limit - UNIT)))
        place = seek_in_segment(files, walk, segment, SEEK_POSITION, limit, limit) if segment >= 0 else None
    if place is None and files.segment_of(max(0, limit - UNIT)) < files.trimmed:  # it was trimmed meanwhile
        place = oldest(files, walk)
    if place is None:
        raise CorruptJournalError(files.path, limit, "published cannot be there")
    return place


def walk_between(files: JournalFiles, walk: JournalWalk, start: int, limit: int) -> Place | None:
    """Walks from the check at ``start`` to ``limit``, where a record begins or nothing is yet."""
    try:
        walk_on = start_at(files, walk, start)
        while walk_on:
            found = walk.scan(limit)
            if walk.at == limit:
                return Place(limit, walk.count, walk.start, walk.start_count)
            if found == END:
                walk_on = start_at(files, walk, walk.at)
            elif found == RIGHT:
                walk.begin(walk.at + UNIT, walk.check_count, walk.time)
                if walk.at == limit:
                    return Place(limit, walk.count, limit, walk.count)
            else:
                walk_on = False
        return None
    except OSError as error:
        raise failed("read", error, files.path) from error
    finally:
        walk.forget()


def start_at(files: JournalFiles, walk: JournalWalk, position: int) -> bool:
    """Begins a walk behind the check at this position. OSError."""
    file = open_segment(files, files.segment_of(position))
    if file is None:
        return False
    walk.use(file, files.segment_of(position))
    walk.begin(position, 0, 0, True)
    if walk.scan(position + UNIT) != RIGHT or walk.at != position:
        return False
    walk.begin(position + UNIT, walk.check_count, walk.check_time)
    return True


def damaged_at(files: JournalFiles, walk: JournalWalk, position: int, limit: int) -> DamagedError:
    """No walk leads to this position. IoError."""
    try:
        found = next_check(files, walk, position, limit)
    except OSError as error:
        raise failed("read", error, files.path) from error
    return DamagedError(files.path, position, max(position, limit) if found is None else found[0], -1)


def behind_damage(files: JournalFiles, damage: DamagedError, limit: int, before: int = -1, skip: bool = True) -> Place:
    """Where reading goes on behind what is damaged. ``before``: how many messages lie before it; -1: not known. Without
    ``skip``, and without a right check behind it, it is DamagedError. IoError."""
    try:
        found = next_check(files, JournalWalk(files.size), damage.from_, limit)
    except OSError as error:
        raise failed("read", error, files.path) from error
    gone = -1 if found is None or before < 0 else max(0, found[1] - before)
    if found is None or not skip:
        raise DamagedError(files.path, damage.from_, damage.to, gone) from None
    position, count = found
    return Place(position + UNIT, count, position + UNIT, count, lost=max(0, gone))


def next_check(files: JournalFiles, walk: JournalWalk, position: int, limit: int) -> tuple[int, int] | None:
    """The next check that is right by its own crc: at or behind ``position`` in its segment, or at the begin of a later
    one. Returns its position and count. OSError."""
    segment = files.segment_of(position)
    file = open_segment(files, segment)
    if file is not None:
        walk.use(file, segment)
        at = walk.find_check(position, limit)
        count = walk.check_count
        walk.forget()
        if at >= 0:
            return at, count
    for later in files.positions():
        if segment < later < limit:
            first = first_record(files, later, walk)
            if first is not None and not first.next:
                return later, first.count
    return None


def cut_over(files: JournalFiles, walk: JournalWalk, position: int) -> Place | None:
    """Looks for a cut in the highest whole segment at or below a position that leads beyond it. Returns where it
    leads."""
    segment = highest_whole(files, files.segment_of(position))
    if segment < 0:
        return None
    place = seek_in_segment(files, walk, segment, SEEK_NUMBER, EVERYTHING)
    if place is None or not place.cuts:
        return None
    first = cut_at(files, walk, place.position)
    if first is None or first <= position:
        return None
    return Place(first, place.number, first, place.number, fresh=True, cuts=1)


def cut_at(files: JournalFiles, walk: JournalWalk, position: int) -> int | None:
    """Where the cut at this position leads."""
    segment = files.segment_of(position)
    file = open_segment(files, segment)
    if file is None:
        return None
    try:
        walk.use(file, segment)
        walk.begin(position, 0, 0, True)
        return walk.cut_next if walk.scan(position + UNIT) == CUT else None
    except OSError as error:
        raise failed("read", error, files.segment_path(segment)) from error
    finally:
        walk.forget()
