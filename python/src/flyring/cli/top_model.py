# SPDX-License-Identifier: Apache-2.0
"""What ``flyring top`` knows. Two snapshots of each channel give rates, and how long each reader has not moved.

Everything about a channel comes from its Stats. The rest is /proc.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ..errors import FlyringError
from ..stats import PublisherStats, Stats, SubscriberStats
from ..system import channel_path, default_folder, journal_path, table_path
from ..table_stats import TableStats
from .image import Image, open_image
from .ls import JOURNALS, SUFFIX, TABLES, entries
from .process import Processes
from .table_image import TableImage, is_table, open_table
from .top_journals import JournalSeen, compare_journal, journal_rows, look_at
from .top_row import Row
from .top_tables import TableSeen, compare_table, table_row

Slot = PublisherStats | SubscriberStats
RECENT = 60.0
"""For how many seconds the coming and going of owners is shown."""
STUCK = 1.0
"""After how many seconds a reader with unread messages that does not move is marked."""


@dataclass
class Seen:
    """The last snapshot of a channel, and what its comparison with the earlier ones tells."""

    stats: Stats
    at: float
    moved: dict[tuple[str, int], tuple[tuple[int, ...], float]] = field(default_factory=dict)
    """{(role, slot): (positions, since when they have not changed)}"""
    rates: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    lost: dict[int, float] = field(default_factory=dict)
    """{counter id: its growth per second}"""


@dataclass(frozen=True)
class Event:
    at: float
    text: str


class Model:
    """Watches all channels and tables of a folder, or one. ``look`` takes the snapshots. Between two calls of ``look``
    the files stay open and mapped, because opening 100 channels costs more than reading them."""

    def __init__(self, folder: str | None, name: str | None) -> None:
        self.folder = folder or os.environ.get("FLYRING_DIR") or default_folder()
        self.name = name
        self.seen: dict[str, Seen] = {}
        self.events: deque[Event] = deque(maxlen=200)
        self.broken: dict[str, str] = {}
        self.processes = Processes()
        self.tables: dict[str, TableSeen] = {}
        self.journals: dict[str, JournalSeen] = {}
        self._images: dict[str, tuple[Image | TableImage, AbstractContextManager[object], tuple[int, int]]] = {}

    def paths(self) -> list[str]:
        if self.name is not None:
            path, table, journal = channel_path(self.name), table_path(self.name), journal_path(self.name)
            if os.path.isdir(journal) and not os.path.exists(path) and not os.path.exists(table):
                return [journal]
            return [table if os.path.exists(table) and not os.path.exists(path) else path]
        names = entries(self.folder, must_exist=False, suffix=(SUFFIX, TABLES, JOURNALS))
        return [os.path.join(self.folder, name) for name in sorted(names)]

    def look(self) -> None:
        now = time.monotonic()
        self.processes.begin()
        found: dict[str, Seen] = {}
        tables: dict[str, TableSeen] = {}
        journals: dict[str, JournalSeen] = {}
        self.broken = {}
        for path in self.paths():
            try:
                if path.endswith(JOURNALS) or os.path.isdir(path):
                    journals[path], happened = compare_journal(self.journals.get(path), look_at(path), now)
                    for text in happened:
                        self._note(now, f"{title(path)}: {text}")
                    continue
                stats = self._stats(path)
            except (FlyringError, OSError) as error:
                self.broken[path] = str(error)
                continue
            if isinstance(stats, TableStats):
                tables[path], happened = compare_table(self.tables.get(path), stats, now)
            elif stats is not None:
                found[path], happened = compare(self.seen.get(path), stats, now)
            else:
                continue
            for text in happened:
                self._note(now, f"{title(path)}: {text}")
        for path in self.journals.keys() - journals.keys():
            self._note(now, f"{title(path)}: the journal is gone")
        for noun, before, after in (("channel", self.seen, found), ("table", self.tables, tables)):
            for path in before.keys() - after.keys():
                self._note(now, f"{title(path)}: the {noun} is gone")
                self._forget(path)
        self.seen, self.tables, self.journals = found, tables, journals
        while self.events and self.events[0].at < now - RECENT:
            self.events.popleft()

    def close(self) -> None:
        for path in list(self._images):
            self._forget(path)

    def _stats(self, path: str) -> Stats | TableStats | None:
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            if self.name is not None:
                raise
            return None
        identity = status.st_dev, status.st_ino
        known = self._images.get(path)
        if known is not None and known[2] != identity:
            self._forget(path)
            if isinstance(known[0], Image):  # a table may have grown: compare_table tells
                self._note(time.monotonic(), f"{title(path)}: REPLACED by another channel")
                self.seen.pop(path, None)
            known = None
        if known is None:
            self._images[path] = known = *opened_file(path), identity
        image = known[0]
        if isinstance(image, TableImage):
            return image.stats()
        look = image.look()
        return None if look is None else look.stats(path)

    def _forget(self, path: str) -> None:
        known = self._images.pop(path, None)
        if known is not None:
            known[1].__exit__(None, None, None)

    def _note(self, now: float, text: str) -> None:
        self.events.append(Event(now, text))

    def rows(self) -> Iterator[Row]:
        for path, seen in self.seen.items():
            yield from rows_of(title(path), seen, self.processes)
        for path, table in self.tables.items():
            yield table_row(title(path), table, self.processes)
        for path, journal in self.journals.items():
            yield from journal_rows(title(path), journal, self.processes)
        for path, reason in self.broken.items():
            yield Row(title(path), "-", 0, "", 0, "NOT VALID", 0, 0, -1, 0, 0, reason, ("NOT VALID",))


def opened_file(path: str) -> tuple[Image | TableImage, AbstractContextManager[object]]:
    """Opens and maps a channel or a table. Returns its image, and the context manager that closes it. Raises a
    FlyringError if the file is not valid."""
    if is_table(path) or path.endswith(TABLES):
        table = open_table(path)
        return table.__enter__(), table
    channel = open_image(path)
    image = channel.__enter__()
    if image.problem is not None:
        channel.__exit__(None, None, None)
        raise image.problem
    return image, channel


def compare(before: Seen | None, stats: Stats, now: float) -> tuple[Seen, list[str]]:
    """Compares a snapshot with the one before. Returns it with rates and times, and what has happened to owners in
    between, as texts."""
    seen = Seen(stats, now)
    happened: list[str] = []
    old = before.stats if before and before.stats.id == stats.id else None
    elapsed = max(1e-3, now - before.at) if before else 1.0
    kinds: tuple[tuple[str, Sequence[Slot], Sequence[Slot]], ...] = (
        ("pub", stats.publishers, old.publishers if old else ()),
        ("sub", stats.subscribers, old.subscribers if old else ()),
    )
    for role, slots, olds in kinds:
        for k, slot in enumerate(slots):
            key, positions = (role, k), positions_of(slot)
            last = before.moved.get(key) if before and old else None
            seen.moved[key] = last if last and last[0] == positions else (positions, now)
            if old is not None and k < len(olds):
                seen.rates[key] = rates(stats, old, slot, olds[k], elapsed)
                happened += changes(slot, olds[k])
    values = {one.id: one.value for one in old.counters} if old else {}
    for one in stats.counters:
        if is_loss(one.label):
            seen.lost[one.id] = (one.value - values.get(one.id, one.value)) / elapsed
    return seen, happened


def title(path: str) -> str:
    return os.path.basename(path).removesuffix(SUFFIX).removesuffix(TABLES)


def is_loss(label: str) -> bool:
    """Returns whether a counter holds the losses of a lossy reader: its label is ``lost``, or ``lost`` and a name."""
    return label == "lost" or label.startswith("lost ")


def positions_of(slot: Slot) -> tuple[int, ...]:
    """Returns numbers that change when the owner of the slot makes progress. They include whether a reader has unread
    messages: if that changes, the time without progress begins again."""
    if isinstance(slot, PublisherStats):
        return (slot.epoch, slot.published)
    lag = any(gate.lag for gate in slot.gates)
    hand = () if slot.in_hand is None else (slot.in_hand.position,)
    return (slot.epoch, lag, *(gate.position for gate in slot.gates), *hand)


def rates(
    stats: Stats,
    old: Stats,
    slot: Slot,
    before: Slot,
    elapsed: float,
) -> tuple[float, float]:
    """Returns messages per second and bytes per second. Messages are -1 if they are not known."""
    if isinstance(slot, PublisherStats) and isinstance(before, PublisherStats):
        known = slot.messages >= 0 and before.messages >= 0
        messages = max(0, slot.messages - before.messages) / elapsed if known else -1.0
        return messages, max(0, slot.published - before.published) / elapsed
    assert isinstance(slot, SubscriberStats) and isinstance(before, SubscriberStats)
    read, known = 0, True
    position = {gate.ring: gate for gate in before.gates}
    size = 0
    for gate in slot.gates:
        last = position.get(gate.ring)
        if last is None:
            continue
        size += max(0, gate.position - last.position)
        if gate.lag_messages < 0 or last.lag_messages < 0:
            known = False
            continue
        came = stats.publishers[gate.ring].messages - old.publishers[gate.ring].messages
        read += max(0, came - gate.lag_messages + last.lag_messages)
    return (read / elapsed if known else -1.0), size / elapsed


def changes(slot: Slot, old: Slot) -> Iterator[str]:
    """Yields what happened to a slot's owner between two snapshots."""
    noun = "publisher" if isinstance(slot, PublisherStats) else "subscriber"
    who = f"{noun} {slot.slot} ({slot.name or 'no name'}, pid {slot.pid})"
    if slot.state == "live" and (old.state != "live" or old.epoch != slot.epoch):
        yield f"{who} came"
    elif old.state == "live" and slot.state == "away":
        yield f"{who} DIED" if isinstance(slot, PublisherStats) else f"{who} died or left"
    elif old.state == "live" and slot.state == "closed":
        yield f"{who} closed"
    elif old.state == "live" and slot.state == "unused":
        yield f"{noun} {slot.slot} ({old.name or 'no name'}, pid {old.pid}) left"
    if isinstance(slot, SubscriberStats) and isinstance(old, SubscriberStats):
        if slot.discarded > old.discarded:
            yield f"{who} was evicted and lost {slot.discarded - old.discarded} messages"
        elif slot.evicting and not old.evicting:
            yield f"{who} was evicted"


def owner_text(slot: Slot, processes: Processes) -> str:
    """Returns "name (pid 12)", with the container if it is known."""
    if slot.state == "shared":
        return "jobs that no worker has taken"
    name = slot.name or f"slot {slot.slot}"
    if slot.state not in ("live", "foreign"):
        return f"{name} (no process)"
    words = [f"pid {slot.pid}"]
    if container := processes.container(slot.pid):
        words.append(f"container {container}")
    if processes.state(slot.pid) == "STOPPED":
        words.append("STOPPED")
    return f"{name} ({', '.join(words)})"


def role_of(stats: Stats, slot: Slot) -> str:
    publisher = isinstance(slot, PublisherStats)
    if stats.kind == "queue":
        return (
            ("back" if slot.state == "returns" else "prod")
            if publisher
            else ("jobs" if slot.state == "shared" else "work")
        )
    if stats.kind == "service":
        if publisher:
            return "ask" if slot.slot < stats.clients else "reply"
        return "client" if slot.slot else "server"
    return "pub" if publisher else "sub"


def rows_of(channel: str, seen: Seen, processes: Processes) -> Iterator[Row]:
    stats = seen.stats
    for ring in stats.publishers:
        if (ring.state == "unused" and not ring.messages) or (ring.state == "returns" and not ring.messages):
            continue
        yield publisher_row(channel, seen, ring, processes)
    for slot in stats.subscribers:
        if slot.state == "unused" and not slot.gates:
            continue
        yield subscriber_row(channel, seen, slot, processes)
    for one in stats.counters:
        if is_loss(one.label):
            rate = seen.lost.get(one.id, 0.0)
            note = f"LAPPED: loses {rate_text(rate)} messages a second" if rate > 0 else f"lost {one.value} in all"
            name = one.label.removeprefix("lost").strip() or "lossy"
            yield Row(channel, "lossy", one.id, name, 0, "-", 0, 0, -1, 0, 0, note, ("LAPPED",) * (rate > 0))


def publisher_row(channel: str, seen: Seen, ring: PublisherStats, processes: Processes) -> Row:
    stats = seen.stats
    messages, size = seen.rates.get(("pub", ring.slot), (0.0, 0.0))
    states: list[str] = []
    note = ""
    process = processes.state(ring.pid) if ring.state == "live" else ring.state
    if ring.blocked_since:
        states.append("BLOCKED")
        holders = ", ".join(owner_text(stats.subscribers[k], processes) for k in ring.blocked_by)
        note = f"BLOCKED by {holders} since {ring.blocked_for / 1e9:.1f} s"
    elif ring.state == "away":
        states.append(note := "DEAD")
    elif process == "STOPPED":
        states.append(note := "STOPPED")
    elif ring.readers == 0 and ring.messages > 0 and ring.state == "live":
        waiting = sum(max(0, gate.lag) for slot in stats.subscribers for gate in slot.gates if gate.ring == ring.slot)
        note = "NO READERS"
        if waiting > 0 or stats.kind == "broadcast":
            states.append(note)
    if stats.successor:
        states.append("REPLACED" if stats.successor == 1 else "REMOVED")
        note = states[-1] + (f", {note}" if note else "")
    unmoved = seen.at - seen.moved[("pub", ring.slot)][1] if ring.blocked_since else 0.0
    return Row(
        channel, role_of(stats, ring), ring.slot, ring.name, ring.pid, process, messages, size, -1, 0, unmoved, note,
        tuple(states),
    )  # fmt: skip


def subscriber_row(channel: str, seen: Seen, slot: SubscriberStats, processes: Processes) -> Row:
    stats = seen.stats
    messages, size = seen.rates.get(("sub", slot.slot), (0.0, 0.0))
    lag = sum(gate.lag for gate in slot.gates)
    known = all(gate.lag_messages >= 0 for gate in slot.gates)
    behind = sum(gate.lag_messages for gate in slot.gates) if known else -1
    waits = behind > 0 or (behind < 0 and lag > 0)
    busy = waits or slot.in_hand is not None
    unmoved = seen.at - seen.moved[("sub", slot.slot)][1] if busy else 0.0
    process = processes.state(slot.pid) if slot.state == "live" else slot.state
    notes: list[str] = []
    states: list[str] = []

    def wrong(state: str, note: str) -> None:
        states.append(state)
        notes.append(note)

    if process == "STOPPED":
        wrong("STOPPED", "STOPPED")
    if slot.evicting:
        notes.append("EVICTED")
    if slot.state == "away" and slot.in_hand is not None:
        wrong("DEAD", "DEAD")
    elif slot.state == "away" and slot.kept and waits:
        wrong("NO OWNER", "kept, NO OWNER")
    if slot.state == "shared" and waits and not any(one.state == "live" for one in stats.subscribers):
        wrong("NO READERS", "NO READERS")
    if any(slot.slot in ring.blocked_by for ring in stats.publishers):
        most = max((gate.lag for gate in slot.gates), default=0)
        wrong("FULL", "FULL" if most >= stats.capacity // 2 else "holds back")
    elif slot.state == "live" and waits and unmoved >= STUCK and process != "STOPPED":
        wrong("HUNG", "does not read")
    if slot.in_hand is not None:
        notes.append(f"job of ring {slot.in_hand.ring} in hand for {slot.in_hand.busy_for / 1e9:.1f} s")
    if slot.outstanding > 0:
        notes.append(f"{slot.outstanding} calls out")
    if slot.expired > 0:
        notes.append(f"{slot.expired} expired")
    if slot.discarded:
        notes.append(f"lost {slot.discarded}")
    return Row(
        channel, role_of(stats, slot), slot.slot, slot.name, slot.pid, process, messages, size, behind, lag, unmoved,
        ", ".join(notes), tuple(states),
    )  # fmt: skip


def rate_text(rate: float) -> str:
    """Formats a number in four columns or five: 12, 1.2k, 34M."""
    if rate < 0:
        return "-"
    for unit in ("", "k", "M", "G"):
        if rate < 999.5:
            return f"{rate:.0f}{unit}" if rate >= 9.95 or not unit or rate == 0 else f"{rate:.1f}{unit}"
        rate /= 1000
    return f"{rate:.0f}T"
