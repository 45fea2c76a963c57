# SPDX-License-Identifier: Apache-2.0
"""What the next owner of the writer's slot does in the same boot (spec/journal.md 3.4, 5). "resume 2" is step 2 of the
operation resume there."""

from __future__ import annotations

from dataclasses import dataclass

from . import layout
from ._core import JournalWalk
from .errors import CorruptJournalError
from .journal_file import UNIT, JournalFiles
from .journal_segment import END, EVERYTHING, LIMIT, NOTHING, RIGHT, map_segment, open_segment
from .system import failed

CRC_BEGIN = 0xFFFFFFFF


@dataclass(frozen=True)
class JournalRecovery:
    """What the recovery of a journal found, as ``JournalWriter.recovery`` has it."""

    position: int
    """The end of what was proven: behind it, everything is gone."""
    next: int
    """Where the journal goes on."""
    messages: int
    """How many messages lie before that."""
    reached: int
    """How far the records reached that were found and not proven: ``reached - position`` bytes were cut off."""
    reason: int
    """1: a power loss; 2: a sync failed."""


@dataclass(frozen=True)
class Ready:
    """Where a new writer begins."""

    end: int
    count: int
    latest: int
    """The largest time of a message."""
    since: int = 0
    crc: int = CRC_BEGIN
    """Of the bytes since the last check."""
    recovery: JournalRecovery | None = None


def resume(files: JournalFiles) -> Ready:
    """Mends what a dead writer left. CorruptJournalError; nothing is changed then. IoError."""
    published, claimed = files.published, files.claimed
    checked, size = files.word(layout.JOURNAL_CONTROL_CHECKED), files.size
    valid = 0 <= published <= claimed < layout.MAX_POSITION and published % UNIT == claimed % UNIT == 0
    most = size // 4 + layout.JOURNAL_ANNOUNCE_AHEAD + UNIT
    if not valid or claimed > files.segment_of(published) + size or claimed - published > most:
        raise CorruptJournalError(files.path, published, f"claimed is {claimed}, which cannot be")
    if not 0 <= checked <= published or checked % UNIT:
        raise CorruptJournalError(files.path, published, f"checked is {checked}, which cannot be")
    end = zero_claimed(files, published, claimed) if claimed > published else published
    files.store(layout.JOURNAL_CONTROL_PUBLISHED, end)
    files.store(layout.JOURNAL_CONTROL_CLAIMED, end)
    return walk_to_end(files, checked, end)


def zero_claimed(files: JournalFiles, published: int, claimed: int) -> int:
    """Finds the end of what was committed, and zeroes what the dead writer claimed behind it (resume 2 and 3). Returns
    the end."""
    segment = files.segment_of(published)
    file = open_segment(files, segment)
    if file is None:
        raise CorruptJournalError(files.path, published, "its segment is missing")
    try:
        walk = JournalWalk(files.size)
        walk.use(file, segment)
        end, bad = walk.pass_records(published, claimed)
    except OSError as error:
        raise failed("read", error, files.segment_path(segment)) from error
    finally:
        file.close()
    if bad or end > claimed:
        raise CorruptJournalError(files.path, end, "a record cannot be here")
    if end < claimed:
        memory = map_segment(files, segment, writable=True)
        if memory is None:
            raise CorruptJournalError(files.path, published, "its segment is missing")
        try:
            memory.write(layout.HEADER_LENGTH + end - segment, bytes(claimed - end))
        finally:
            memory.close()
    return end


def walk_to_end(files: JournalFiles, start: int, end: int) -> Ready:
    """Walks from a check to the end: finds count, crc and largest time, and stores each check that it meets in
    ``checked`` (resume 4)."""
    walk = JournalWalk(files.size)
    try:
        use(files, walk, files.segment_of(start))
        walk.begin(start, 0, 0, True)
        if walk.scan(end) != RIGHT or walk.at != start:
            raise CorruptJournalError(files.path, start, "there is no check where the last one should be")
        walk.begin(start + UNIT, walk.check_count, walk.check_time)
        while True:
            found = walk.scan(end)
            if found == END:
                found = go_on(files, walk)
            elif found == RIGHT:
                files.store(layout.JOURNAL_CONTROL_CHECKED, walk.at)
                walk.begin(walk.at + UNIT, walk.check_count, walk.time)
            if found == LIMIT:
                files.store(layout.JOURNAL_CONTROL_MESSAGES, walk.count)
                return Ready(end, walk.count, walk.time, end - walk.start, walk.crc)
            if found != RIGHT:
                raise CorruptJournalError(files.path, walk.at, "a record cannot be here")
    except OSError as error:
        raise failed("read", error, files.path) from error
    finally:
        walk.forget()


def go_on(files: JournalFiles, walk: JournalWalk) -> int:
    """Goes on in the next segment, whose first record is the check that ends the span (resume 4). Returns RIGHT if that
    is right, else what was found. OSError."""
    segment = walk.at
    file = open_segment(files, segment)
    if file is None:
        return NOTHING
    found = walk.judge(file)
    if found != RIGHT:
        return found
    files.store(layout.JOURNAL_CONTROL_CHECKED, segment)
    count, time = walk.check_count, walk.time
    walk.use(file, segment)
    walk.begin(segment + UNIT, count, time)
    return RIGHT


def use(files: JournalFiles, walk: JournalWalk, segment: int) -> None:
    file = open_segment(files, segment)
    if file is None:
        raise CorruptJournalError(files.path, segment, "its segment is missing")
    walk.use(file, segment)


def prove_from(files: JournalFiles, start: int, end: int) -> bool:
    """Whether each check from ``start`` on is right up to ``end`` (5, after a failed sync). OSError."""
    walk = JournalWalk(files.size)
    try:
        use(files, walk, files.segment_of(start))
        walk.begin(start, 0, 0, True)
        if walk.scan(EVERYTHING) != RIGHT or walk.at != start:
            return False
        walk.begin(start + UNIT, walk.check_count, walk.check_time)
        while True:
            found = walk.scan(end)
            if found == LIMIT:
                return True
            if found == RIGHT:
                walk.begin(walk.at + UNIT, walk.check_count, walk.time)
            elif found == END:
                segment = walk.at
                file = open_segment(files, segment)
                if file is None:
                    return False
                if walk.judge(file) != RIGHT:
                    return False
                count = walk.check_count
                walk.use(file, segment)
                walk.begin(segment + UNIT, count, walk.time)
            else:
                return False
    finally:
        walk.forget()
