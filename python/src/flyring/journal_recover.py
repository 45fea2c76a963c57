# SPDX-License-Identifier: Apache-2.0
"""The recovery of a journal after a power loss, or after a sync that failed (spec/journal.md 7). "recover 3" is step 3
of the operation recover there."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from . import layout
from ._core import JournalWalk, crc32c
from .errors import CorruptJournalError
from .journal_file import CONTROL, UNIT, JournalFiles
from .journal_gate import NOT_KNOWN, Gate, kept_gates, lock_of, store_gate
from .journal_resume import JournalRecovery, Ready
from .journal_segment import (
    CUT,
    END,
    EVERYTHING,
    NOTHING,
    RIGHT,
    exists,
    highest_whole,
    map_segment,
    open_segment,
    prepare,
    remove_segment,
    sync_names,
)
from .journal_sync import sync_segment, write_again
from .system import failed, is_locked

Progress = Callable[[int, int], object]


@dataclass
class Walked:
    """A walk from a durable check over what follows, as long as each check is right (recover 1)."""

    start: int
    end: int = 0
    """Behind the last right check, or at a cut that leads nowhere (c)."""
    count: int = 0
    time: int = 0
    reached: int = 0
    passed: list[int] = field(default_factory=list)
    """The segments of the walk."""
    begun: int = 0
    """The messages before ``start``."""
    cuts: int = 0


def walk_proven(files: JournalFiles, progress: Progress | None = None, start: int | None = None) -> Walked:
    """Walks from the last durable check, or that at ``start``, to the first check that is not right.
    CorruptJournalError, IoError."""
    if start is None:
        start = max(files.synced, files.trimmed)
    if start < 0 or start % UNIT or start >= layout.MAX_POSITION:
        raise CorruptJournalError(files.path, start, "synced or trimmed cannot be there")
    walk = JournalWalk(files.size)
    walked = Walked(start)
    try:
        if not begin_at(files, walk, start):
            raise CorruptJournalError(files.path, start, "there is no check where the last sync was")
        highest = highest_whole(files) + files.size
        walked.begun = walk.count
        found = RIGHT
        while found == RIGHT:
            found = walk.spans(EVERYTHING)
            note(walked, walk, files)
            if progress is not None:
                progress(walked.end - start, max(walked.end, highest) - start)
            if found == RIGHT:
                walk.begin(walk.at + UNIT, walk.check_count, walk.time)
            elif found == END:
                segment = walk.at
                found = next_segment(files, walk)
                walked.cuts += found == RIGHT and walk.at != segment + UNIT
            elif found == CUT:
                found = RIGHT if begin_at(files, walk, walk.cut_next) else CUT
                walked.cuts += found == RIGHT
        walked.reached = max(walked.end, walk.at)  # the walk ends at the first record that is not proven
        return walked
    except OSError as error:
        raise failed("read", error, files.path) from error
    finally:
        walk.forget()


def note(walked: Walked, walk: JournalWalk, files: JournalFiles) -> None:
    """The walk stands at the begin of a span: all before it is proven."""
    walked.end, walked.count, walked.time = walk.start, walk.start_count, walk.start_time
    for position in (files.segment_of(walk.start - UNIT), files.segment_of(walk.start)):
        if position not in walked.passed:
            walked.passed.append(position)


def begin_at(files: JournalFiles, walk: JournalWalk, position: int) -> bool:
    """Begins behind the check at this position, or behind that to which a cut there leads. OSError."""
    for _ in range(len(files.positions()) + 1):  # at most one cut for each segment
        segment = files.segment_of(position)
        file = open_segment(files, segment)
        if file is None:
            return False
        walk.use(file, segment)
        walk.begin(position, 0, 0, True)
        found = walk.scan(EVERYTHING)
        if found == RIGHT and walk.at == position:
            walk.begin(position + UNIT, walk.check_count, walk.check_time)
            return True
        if found != CUT or walk.at != position:
            return False
        position = walk.cut_next
    return False


def next_segment(files: JournalFiles, walk: JournalWalk) -> int:
    """Goes on at a segment's end with the check, or behind the cut, that the next segment begins with. Returns RIGHT if
    there is one. OSError."""
    segment = walk.at
    file = open_segment(files, segment)
    if file is None:
        return NOTHING
    found = walk.judge(file)
    if found == RIGHT:
        count, time = walk.check_count, walk.time
        walk.use(file, segment)
        walk.begin(segment + UNIT, count, time)
    elif found == CUT and begin_at(files, walk, walk.cut_next):
        return RIGHT
    return found


def recover(files: JournalFiles, progress: Progress | None, reason: int = layout.JOURNAL_CUT_POWER_LOSS) -> Ready:
    """Recovers the journal. The caller has the writer's slot and the control lock. A recovery that is killed is done
    again.

    CorruptJournalError, NoSpaceError, IoError.
    """
    walked = walk_proven(files, progress)
    end, count = walked.end, walked.count
    there = exists(files, files.segment_of(end))
    goes_on = max(highest_whole(files) + files.size, end) if there else end  # h
    if goes_on > layout.MAX_POSITION - 2 * files.size:
        raise CorruptJournalError(files.path, end, "its position nears 2^62")
    prepare(files, goes_on, JournalWalk.make_check(goes_on, count, walked.time), locked=True)  # recover 2
    failed_before = files.failed
    if failed_before:
        write_again(files, max(files.synced, files.trimmed), end)
    mend_gates(files, end, goes_on, count, reason)  # recover 3
    files.sync_control()
    if end < goes_on:
        write_cut(files, end, count, goes_on, walked.reached, reason)  # recover 4
    for position in walked.passed:
        sync_segment(files, position)
    for position in files.positions():  # recover 5
        stray = position > files.segment_of(walked.start) and position not in walked.passed and position != goes_on
        if stray or position + files.size <= files.trimmed:
            remove_segment(files, position)
    sync_names(files)
    end_of_first = goes_on + layout.JOURNAL_CHECK_SIZE
    for offset, value in (  # recover 6
        (layout.JOURNAL_CONTROL_SYNCED, goes_on),
        (layout.JOURNAL_CONTROL_CHECKED, goes_on),
        (layout.JOURNAL_CONTROL_READY, goes_on + files.size),
        (layout.JOURNAL_CONTROL_CLAIMED, end_of_first),
        (layout.JOURNAL_CONTROL_PUBLISHED, end_of_first),
        (layout.JOURNAL_CONTROL_MESSAGES, count),
    ):
        files.store(offset, value)
    files.memory.store32(CONTROL + layout.JOURNAL_CONTROL_FAILED, 0)
    files.sync_control()  # recover 7
    files.memory.write(CONTROL + layout.JOURNAL_CONTROL_BOOT_ID, files.this_boot())
    recovery = JournalRecovery(end, goes_on, count, max(walked.reached, end), reason)
    return Ready(end_of_first, count, walked.time, recovery=recovery)


def write_cut(files: JournalFiles, position: int, count: int, next_: int, reached: int, reason: int) -> None:
    """Writes a cut record: all but its length first."""
    record = bytearray(layout.JOURNAL_CUT_SIZE)
    struct.pack_into("<ii", record, 0, layout.JOURNAL_CUT_SIZE, layout.JOURNAL_TYPE_CUT)
    struct.pack_into("<qqqqi", record, layout.JOURNAL_CUT_POSITION, position, count, next_, reached, reason)
    struct.pack_into("<I", record, layout.JOURNAL_CUT_CRC, crc32c(record[: layout.JOURNAL_CUT_CRC]))
    segment = files.segment_of(position)
    memory = map_segment(files, segment, writable=True)
    if memory is None:
        raise CorruptJournalError(files.path, position, "its segment has gone")
    try:
        at = layout.HEADER_LENGTH + position - segment
        memory.write(at + 4, bytes(record[4:]))
        memory.store32(at, layout.JOURNAL_CUT_SIZE)
    finally:
        memory.close()


def mend_gates(files: JournalFiles, end: int, goes_on: int, count: int, reason: int) -> None:
    """A consumer whose gate lies behind the end had confirmed what is gone: it goes on at ``goes_on``. For the others,
    the messages before the gate are counted again, because a pair may be older than its gate. After a failed sync a
    consumer may be at work: it follows the cut by itself."""
    for gate in kept_gates(files):
        if reason == layout.JOURNAL_CUT_FAILED_SYNC and is_locked(files.file, lock_of(files, gate.slot), files.path):
            continue
        if gate.position > end:
            store_gate(files, gate.slot, goes_on, count, max(0, gate.lost))
        elif gate.position >= files.trimmed and gate.position % UNIT == 0:
            counted = count if gate.position == end else count_at(files, gate)
            if counted != NOT_KNOWN:
                store_gate(files, gate.slot, gate.position, counted, max(0, gate.lost))


def count_at(files: JournalFiles, gate: Gate) -> int:
    """How many messages lie before a gate, by a walk from the first record of its segment; NOT_KNOWN if the gate leads
    nowhere."""
    found = count_to(files, gate.position)
    return NOT_KNOWN if found is None else found


def count_to(files: JournalFiles, position: int) -> int | None:
    from .journal_seek import SEEK_POSITION, seek_in_segment

    place = seek_in_segment(files, JournalWalk(files.size), files.segment_of(position), SEEK_POSITION, position)
    return place.number if place is not None and place.position == position else None
