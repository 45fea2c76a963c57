# SPDX-License-Identifier: Apache-2.0
"""Removing the oldest segments of a journal (spec/journal.md 8)."""

from __future__ import annotations

from itertools import pairwise

from . import layout
from ._core import File, JournalWalk
from .errors import NeedsRecoveryError
from .journal_file import UNIT, JournalFiles
from .journal_gate import is_position, kept_gates
from .journal_segment import exists, first_record, remove_segments
from .system import control_lock


def trim(files: JournalFiles, lock: File, limit: int, gates: bool) -> int:
    """Removes the segments below ``limit``, as far as they are synced and, with ``gates``, consumed. Returns how many
    bytes became free. ``lock``: an open file description of the control file, for the control lock.

    Raises NeedsRecoveryError and IoError.
    """
    if not files.is_of_this_boot():
        raise NeedsRecoveryError(files.path, True)
    target = bounded(files, limit, gates)
    if target <= files.trimmed:
        if not files.positions() or files.positions()[0] >= files.trimmed:
            return 0
        files.sync_control()  # a trim left segments when it was killed, perhaps before this sync
        return remove_segments(files, files.trimmed)
    files.sync_control()  # else a power loss brings back an older gate
    with control_lock(lock, files.path):  # a consumer may have joined meanwhile
        target = bounded(files, target, gates)
        if target <= files.trimmed or files.unlinked:
            return 0
        files.store(layout.JOURNAL_CONTROL_TRIMMED, target)
    files.sync_control()
    return remove_segments(files, target)


def bounded(files: JournalFiles, limit: int, gates: bool) -> int:
    """The highest segment that is there, at or below the limit, what is synced, and the gates."""
    lowest = min(limit, files.synced, files.segment_of(max(0, files.published - UNIT)))
    if gates:
        for gate in kept_gates(files):
            lowest = min(lowest, gate.position if is_position(files, gate.position) else 0)
    segment = files.segment_of(max(0, lowest))
    # A recovery may have left a gap there, so this takes the highest whole segment at or below it.
    return next((p for p in reversed(files.positions()) if p <= segment and exists(files, p)), 0)


def consumed_limit(files: JournalFiles) -> int:
    """The lowest gate; 0 without a consumer, so that nothing is removed."""
    return min((gate.position for gate in kept_gates(files)), default=0)


def age_limit(files: JournalFiles, before: int) -> int:
    """The first segment that may have a message of the time ``before`` (ns since 1970) or a later one, as the first
    check of the next segment says; at the latest the last segment."""
    walk = JournalWalk(files.size)
    places = [p for p in files.positions() if p >= files.trimmed]
    for position, successor in pairwise(places):
        first = first_record(files, successor, walk)
        for _ in places:  # no message of a segment comes after its cut
            if first is None or not first.next:
                break
            first = first_record(files, first.next, walk)
        if first is None or first.next or first.time >= before:
            return position
    return places[-1] if places else 0


def size_limit(files: JournalFiles, most: int) -> int:
    """The oldest of the newest segments, those made ahead included, that have at most ``most`` bytes together."""
    places = [p for p in files.positions() if p >= files.trimmed]
    if not places:
        return 0
    keep = max(1, most // files.size)
    return places[max(0, len(places) - keep)]


def trim_by_policy(files: JournalFiles, lock: File) -> int:
    """What the helper, or a push, removes by the journal's options. Returns how many bytes became free."""
    policy, freed = files.policy, 0
    if policy.max_age:
        freed += trim(files, lock, age_limit(files, files.identity.wall_clock() - policy.max_age), False)
    if policy.max_size:
        freed += trim(files, lock, size_limit(files, policy.max_size), False)
    if policy.trim_consumed:
        freed += trim(files, lock, consumed_limit(files), True)
    return freed
