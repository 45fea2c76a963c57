# SPDX-License-Identifier: Apache-2.0
"""The slots of a journal's consumers: their gates, and the pairs that prove them (spec/journal.md 2.2.1, 6)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from . import layout
from ._core import File, Memory, crc32c
from .errors import NoFreeSlotError, SlotOwner
from .journal_file import UNIT, JournalFiles
from .slots import name_at, read_slot
from .system import failed, is_locked

NOT_KNOWN = -1
MOST_SHOWN = 8  # names in an error


@dataclass(frozen=True)
class Pair:
    """What lies before a position."""

    position: int
    count: int
    lost: int


@dataclass(frozen=True)
class Gate:
    """A consumer's gate, as the file has it."""

    slot: int
    """The number of its slot."""
    at: int
    """The offset of its slot in the file."""
    position: int
    proof: Pair | None
    """The pair that proves the gate."""
    newest: Pair | None
    """The whole pair with the largest position, which tells what was lost when no pair proves the gate."""

    @property
    def count(self) -> int:
        return self.proof.count if self.proof is not None else NOT_KNOWN

    @property
    def lost(self) -> int:
        pair = self.proof or self.newest
        return pair.lost if pair is not None else 0


def read_pair(memory: Memory, at: int) -> Pair | None:
    """None if its crc is not right."""
    data = memory.read(at, layout.JOURNAL_PAIR_SIZE)
    position, count, lost, crc = struct.unpack_from("<qqqI", data)
    return Pair(position, count, lost) if crc == crc32c(data[: layout.JOURNAL_PAIR_CRC]) else None


def read_gate(files: JournalFiles, slot: int) -> Gate:
    at, memory = files.header.consumer(slot), files.memory
    position = memory.load64(at + layout.JOURNAL_CONSUMER_GATE)
    offsets = (layout.JOURNAL_CONSUMER_PAIR_0, layout.JOURNAL_CONSUMER_PAIR_1)
    pairs = [pair for pair in (read_pair(memory, at + offset) for offset in offsets) if pair is not None]
    proof = next((pair for pair in pairs if pair.position == position), None)
    newest = max(pairs, key=lambda pair: pair.position, default=None)
    return Gate(slot, at, position, proof, newest)


def is_kept(files: JournalFiles, slot: int) -> bool:
    """Whether the slot has a registered name."""
    return files.memory.load32(files.header.consumer(slot) + layout.SUBSCRIBER_SLOT_KEPT) != 0


def kept_gates(files: JournalFiles) -> list[Gate]:
    """The gates of all registered consumers."""
    return [read_gate(files, slot) for slot in range(files.header.consumers) if is_kept(files, slot)]


def store_gate(files: JournalFiles, slot: int, position: int, count: int, lost: int) -> None:
    """Stores a gate with the pair that proves it: first the pair that does not prove the gate of before."""
    gate, memory = read_gate(files, slot), files.memory
    first, second = gate.at + layout.JOURNAL_CONSUMER_PAIR_0, gate.at + layout.JOURNAL_CONSUMER_PAIR_1
    before = read_pair(memory, first)
    at = second if before is not None and before.position == gate.position else first
    words = struct.pack("<qqq", position, count, lost)
    memory.store64(at + layout.JOURNAL_PAIR_POSITION, -1)
    memory.store64(at + layout.JOURNAL_PAIR_COUNT, count)
    memory.store64(at + layout.JOURNAL_PAIR_LOST, lost)
    memory.write(at + layout.JOURNAL_PAIR_CRC, struct.pack("<I", crc32c(words)))
    memory.store64(at + layout.JOURNAL_PAIR_POSITION, position)
    memory.store64(gate.at + layout.JOURNAL_CONSUMER_GATE, position)  # pairs with trim 1 and 3


def is_position(files: JournalFiles, gate: int) -> bool:
    """Whether a gate may be where it is (spec/journal.md 10). One below ``trimmed`` has lost messages. One above
    ``published`` lies behind a record that is committed and not yet published: append 5 and 6."""
    return 0 <= gate <= max(files.published, files.claimed) and gate % UNIT == 0


def find_consumer(files: JournalFiles, name: str) -> int | None:
    """The slot of a registered name."""
    wanted = name.encode("ascii")
    for slot in range(files.header.consumers):
        if is_kept(files, slot) and name_at(files.memory, files.header.consumer(slot)) == wanted:
            return slot
    return None


def lock_of(files: JournalFiles, slot: int) -> int:
    return files.header.consumer(slot) + layout.CONTROL_SLOT_LOCK


def try_lock(lock: File, files: JournalFiles, slot: int) -> bool:
    try:
        return lock.try_lock(lock_of(files, slot))
    except OSError as error:
        raise failed("fcntl(F_OFD_SETLK)", error, files.path) from error


def no_free_consumer(files: JournalFiles, lock: File, name: str, known: int | None) -> NoFreeSlotError:
    """``known``: the slot that has the name, which a process has; None: no slot is free for a new name."""
    count, owners, names = files.header.consumers, [], []
    for slot in range(count) if known is None else (known,):
        fields = read_slot(files.memory, files.header.consumer(slot))
        names.append(repr(fields.name if fields else ""))
        if is_locked(lock, lock_of(files, slot), files.path):
            owners.append(SlotOwner(slot, fields.name if fields else "", fields.pid if fields else 0))
    if count == 0:
        reason = f"the journal at {files.path} has no consumers: it was created with 0; create one with some"
    elif known is None:
        shown = ", ".join(names[:MOST_SHOWN]) + (f" and {count - MOST_SHOWN} more" if count > MOST_SHOWN else "")
        reason = (
            f"all {count} names of consumers of the journal at {files.path} are taken: {shown}; forget one, or create "
            "the journal with more"
        )
    else:
        owner = f"owned by pid {owners[0].pid}" if owners else "owned by a process"
        reason = f"the consumer {name!r} of the journal at {files.path} is {owner}; close it there, or use another name"
    return NoFreeSlotError("consumer", count, owners, reason)
