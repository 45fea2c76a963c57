# SPDX-License-Identifier: Apache-2.0
"""What a journal holds at one moment (spec/api.md, Journal)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from . import layout
from ._core import JournalWalk
from .errors import FlyringError
from .journal_file import CONTROL, HELPER_LOCK, SLOT, SLOT_LOCK, UNIT, JournalFiles
from .journal_gate import Gate, kept_gates, lock_of
from .journal_header import Sync, sync_of
from .journal_seek import SEEK_TIME, start_at
from .journal_segment import open_segment
from .slots import read_slot
from .system import is_locked


@dataclass(frozen=True)
class JournalConsumerStats:
    """A registered consumer of a journal."""

    slot: int
    name: str
    position: int
    """Its gate: the position of the first message that it has not consumed."""
    behind: int
    """How many messages it has not consumed; -1: not known."""
    behind_bytes: int
    lost: int
    """How many messages it lost: trimmed before it consumed them, or skipped as damaged; -1: not known."""
    live: bool
    """Whether a process has it now."""
    pid: int
    """Of its last owner, in that process's own pid namespace."""
    attached_at: int
    """When that owner took it, in ns since 1970."""


@dataclass(frozen=True)
class JournalStats:
    """What a journal holds at one moment. Made by ``Journal.stats``."""

    path: str
    id: UUID
    segment_size: int
    content: int
    """0: messages of the user; 1: a recording."""
    sync: Sync
    max_age: float
    """In seconds; 0: no limit."""
    max_size: int
    """In bytes; 0: no limit."""
    trim_consumed: bool
    published: int
    """The position behind the newest record."""
    messages: int
    """How many messages the journal has had, those that were trimmed included."""
    synced: int
    """The position of the last check that is durable with all before it."""
    synced_at: int
    """When it was made durable, in ns since 1970; 0: never."""
    unsynced_since: int
    """The time of the oldest message that is not synced, in ns since 1970; 0: there is none."""
    trimmed: int
    """Where the journal begins now."""
    ready: int
    """The end of the last segment that is made and durable."""
    segments: int
    bytes: int
    """On the disk."""
    oldest: int
    """The time of the oldest message, in ns since 1970; 0: there is none."""
    newest: int
    """The largest time of a message, in ns since 1970; 0: there is none."""
    writer: str
    """The name of the last writer; may be empty. A ``push`` has no name."""
    pid: int
    attached_at: int
    """When that writer took the slot, in ns since 1970; 0: never."""
    epoch: int
    """How often the writer's slot was taken."""
    writing: bool
    """Whether a process has the writer's slot."""
    helping: bool
    """Whether a process has a helper."""
    failed: bool
    """Whether a sync has failed, so that the next writer must write once more what is not synced."""
    needs_recovery: bool
    """Whether the journal is of another boot, and a writer must recover it."""
    successor: int
    """2: the journal was unlinked; else 0."""
    consumers: tuple[JournalConsumerStats, ...]

    @classmethod
    def of(cls, files: JournalFiles) -> Self:
        """Takes no lock and stores nothing."""
        memory, header, policy = files.memory, files.header, files.policy
        fields = read_slot(memory, SLOT)
        published, messages = files.published, max(0, files.word(layout.JOURNAL_CONTROL_MESSAGES))
        synced, checked = files.synced, files.word(layout.JOURNAL_CONTROL_CHECKED)
        places = files.positions()
        needs_recovery = not files.is_of_this_boot()
        end = synced if needs_recovery else published
        unsynced = end > synced + layout.JOURNAL_CHECK_SIZE
        return cls(
            path=files.path,
            id=header.journal_id,
            segment_size=header.segment_size,
            content=header.content,
            sync=sync_of(policy.sync_every),
            max_age=policy.max_age / 1e9,
            max_size=policy.max_size,
            trim_consumed=bool(policy.trim_consumed),
            published=published,
            messages=messages,
            synced=synced,
            synced_at=max(0, files.word(layout.JOURNAL_CONTROL_SYNCED_AT)),
            unsynced_since=first_time(files, synced, end) if unsynced else 0,
            trimmed=files.trimmed,
            ready=files.ready,
            segments=len(places),
            bytes=sum(size_of(files.segment_path(p)) for p in places),
            oldest=first_time(files, files.trimmed, end),
            newest=newest_time(files, synced if needs_recovery else checked, end),
            writer=fields.name if fields else "",
            pid=fields.pid if fields else 0,
            attached_at=fields.attached_at if fields else 0,
            epoch=max(0, memory.load64(SLOT + layout.PUBLISHER_SLOT_EPOCH)),
            writing=is_locked(files.file, SLOT_LOCK, files.path),
            helping=is_locked(files.file, HELPER_LOCK, files.path),
            failed=files.failed,
            needs_recovery=needs_recovery,
            successor=memory.load32(CONTROL + layout.JOURNAL_CONTROL_SUCCESSOR),
            consumers=tuple(consumer_stats(files, gate, published, messages) for gate in kept_gates(files)),
        )


def consumer_stats(files: JournalFiles, gate: Gate, published: int, messages: int) -> JournalConsumerStats:
    fields = read_slot(files.memory, gate.at)
    return JournalConsumerStats(
        slot=gate.slot,
        name=fields.name if fields else "",
        position=gate.position,
        behind=max(0, messages - gate.count) if gate.count >= 0 else -1,
        behind_bytes=max(0, published - gate.position),
        lost=gate.lost if gate.proof is not None else -1,
        live=is_locked(files.file, lock_of(files, gate.slot), files.path),
        pid=fields.pid if fields else 0,
        attached_at=fields.attached_at if fields else 0,
    )


def size_of(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def newest_time(files: JournalFiles, checked: int, published: int) -> int:
    """The largest time up to the end, by a walk from the last check; 0 if there is none."""
    walk = JournalWalk(files.size)
    with contextlib.suppress(FlyringError, OSError):
        if checked >= 0 and checked % UNIT == 0 and start_at(files, walk, checked):
            walk.scan(published)
            return walk.time
    return 0


def first_time(files: JournalFiles, check: int, published: int) -> int:
    """The time of the first message behind a check; 0: there is none."""
    walk = JournalWalk(files.size)
    with contextlib.suppress(FlyringError, OSError):
        if check >= 0 and check % UNIT == 0 and start_at(files, walk, check):
            walk.scan(published)
            found, position, _ = walk.seek(SEEK_TIME, -(2**63))
            return time_of(files, position) if found == 1 else 0
    return 0


def time_of(files: JournalFiles, position: int) -> int:
    """The time of the message at a position. OSError."""
    segment = files.segment_of(position)
    file = open_segment(files, segment)
    if file is None:
        return 0
    try:
        at = layout.HEADER_LENGTH + position - segment + layout.JOURNAL_RECORD_TIME
        return int.from_bytes(os.pread(file.fileno(), 8, at), "little", signed=True)
    finally:
        file.close()
