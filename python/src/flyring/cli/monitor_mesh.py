# SPDX-License-Identifier: Apache-2.0
"""A mesh, as ``flyring monitor --mesh`` watches it (spec/channel.md 8.2): how late each member wakes, for each pair the
interval between receipts and the time that beats are under way, and verdicts on members that are silent.

The members took the times, so none of them depends on when the monitor runs."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import Channel, LossySubscriber, Message, PublisherStats
from ..errors import ChannelReplacedError, CorruptRingError, FlyringError
from ..mesh import BEAT, RECEIPT, TYPE
from ..system import channel_path
from .curve import text
from .monitor_beats import SLACK, Own, Sinks
from .monitor_causes import HALTED, Process, happened, process, steals, stolen
from .top_model import title

SETTLE = 100_000_000
"""A member that woke late is judged after this time, in ns: by then the beats of the others have arrived."""
UNKNOWN = 1_000_000_000
"""How long a member may be silent before its first beat, which says how often it beats; in ns."""
LIMIT = 4096


@dataclass
class Member:
    """A member, and what is known since its last beat."""

    ring: int
    name: str
    pid: int
    epoch: int
    last: int
    """When it last beat, in ns of CLOCK_MONOTONIC."""
    every: int = 0
    sequence: int = -1
    verdict: str = ""
    """"": it beats. Else ``tardy``, ``stopped`` or ``dead``."""
    received: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Of each ring: the sequence of the last beat that it received, and when."""
    process: Process = field(default_factory=Process)
    steals: dict[int, int] = field(default_factory=dict)


@dataclass
class Late:
    """A member woke at ``end``, and should have woken at ``begin``. ``told``: its silence was reported before."""

    member: Member
    begin: int
    end: int
    told: bool


@dataclass
class Slow:
    """A beat was under way for long."""

    sender: str
    member: Member
    begin: int
    end: int


@dataclass
class Meshed:
    """A mesh. It is opened for reading only, and again when its name has got another file."""

    name: str
    own: Own
    tick: int
    sinks: Sinks
    members: dict[int, Member] = field(default_factory=dict)
    _late: deque[Late] = field(default_factory=deque)
    _slow: deque[Slow] = field(default_factory=deque)
    _wakes: deque[Late] = field(default_factory=lambda: deque(maxlen=1000))
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _channel: Channel | None = None
    _reader: LossySubscriber | None = None
    _now: int = 0

    def __post_init__(self) -> None:
        self.path = channel_path(self.name)
        self.title = title(self.path)
        self.open(time.monotonic_ns())

    def open(self, now: int) -> None:
        """Raises FlyringError if there is no valid channel."""
        self.close()
        self._channel = self._open.enter_context(Channel.open(self.path, read_only=True))
        self._reader = self._open.enter_context(self._channel.lossy_subscriber())
        self.look(now)

    def close(self) -> None:
        self._reader = self._channel = None
        self._open.close()
        self.members.clear()

    def pids(self) -> Iterator[tuple[int, str]]:
        """Yields (pid, name) of the members."""
        for one in self.members.values():
            yield one.pid, one.name

    def glance(self, now: int) -> None:
        """Takes the beats that have come, and judges which members are silent. ``now``: the time before the beats are
        taken."""
        self._now = now
        if self._reader is None:
            return
        try:
            with contextlib.suppress(CorruptRingError):  # the other rings go on
                while self._reader.poll(self._take, LIMIT) == LIMIT:
                    pass
        except ChannelReplacedError:
            self.sinks.line(f"mesh {self.title}", f"GONE {self.title}: its name was removed, or is another's now", 0)
            self.close()
            return
        for one in [*self.members.values()]:
            if not one.verdict and self._silent(one) > self._patience(one):
                self._judge(one)
        self._settle()

    def look(self, now: int) -> None:
        """Looks at the slots and processes of the members, and judges those again that are silent."""
        self._now = now
        if self._channel is None:
            with contextlib.suppress(FlyringError):
                self.open(now)
                self.sinks.line(f"mesh {self.title}", f"REPLACED {self.title}: it is watched again", 0)
            return
        stolen_now = steals()
        for slot in self._channel.stats().publishers:
            one = self.members.get(slot.slot)
            if slot.state in ("live", "away") and slot.name and (one is None or one.epoch < slot.epoch):
                one = Member(slot.slot, slot.name, slot.pid, slot.epoch, now)
                self.members[slot.slot] = one
            elif one is None:
                continue
            elif slot.state == "closed" and slot.epoch == one.epoch:
                self._left(one)
                continue
            one.pid = slot.pid
            if slot.state == "away" or one.verdict:
                self._judge(one, slot)
            elif self._silent(one) <= self._patience(one):
                one.process, one.steals = process(one.pid), stolen_now

    def _take(self, message: Message) -> None:
        if message.type != TYPE or len(message) < BEAT.size:
            return
        sequence, every, due, woke, sent, count = BEAT.unpack_from(message.data)
        one, epoch = self.members.get(message.ring), message.sender.epoch
        if one is None or epoch > one.epoch:
            name = message.sender.name or f"ring {message.ring}"
            one = self.members[message.ring] = Member(message.ring, name, 0, epoch, sent)
        elif 0 < epoch < one.epoch:  # of the one that had the place before
            return
        there = min(count, (len(message) - BEAT.size) // RECEIPT.size)
        for i in range(max(0, there)):
            self._received(one, *RECEIPT.unpack_from(message.data, BEAT.size + i * RECEIPT.size))
        if sequence < 0:
            return
        late = woke - due
        self.sinks.record(f"wake.{one.name}", late)
        if late > self.sinks.threshold:
            self._late.append(Late(one, due, woke, bool(one.verdict)))
            self._wakes.append(self._late[-1])
        if one.verdict:
            who, quiet = self._who(one), sent - one.last
            self.sinks.line(f"{who} again", f"BEATS {who} again, after {text(quiet)}; it was {one.verdict}", quiet)
        one.every, one.sequence, one.last, one.verdict = every, sequence, sent, ""

    def _received(self, one: Member, ring: int, sequence: int, sent: int, received: int) -> None:
        sender = self.members.get(ring)
        if sender is None:
            return
        pair = f"{sender.name}.to.{one.name}"
        self.sinks.record(f"way.{pair}", received - sent)
        if received - sent > self.sinks.threshold:
            self._slow.append(Slow(sender.name, one, sent, received))
        before, at = one.received.get(ring, (-1, 0))
        if before >= 0 and sequence == before + 1:
            self.sinks.record(f"interval.{pair}", received - at)
        one.received[ring] = sequence, received

    def _silent(self, one: Member) -> int:
        """Returns for how long it has not beaten, without the time in which the monitor did not run, in ns."""
        missed = sum(end - max(begin, one.last) for begin, end in self.own.gaps if end > one.last)
        return self._now - one.last - missed

    def _patience(self, one: Member) -> int:
        return max(self.sinks.threshold, 3 * one.every or UNKNOWN) + SLACK * self.tick

    def _judge(self, one: Member, slot: PublisherStats | None = None) -> None:
        if slot is None:
            if self._channel is None:
                return
            slot = self._channel.stats().publishers[one.ring]
        one.pid = slot.pid
        if slot.epoch != one.epoch:
            return  # another process has its place, and its beats come
        if slot.state == "closed":
            self._left(one)
            return
        at = process(one.pid)
        verdict = "tardy" if slot.state == "live" else "dead"
        if verdict == "tardy" and at.letter in HALTED:
            verdict = "stopped"
        if verdict == one.verdict or (verdict == "tardy" and one.verdict):  # it goes on, and has not beaten yet
            return
        one.verdict = verdict
        who, quiet = self._who(one), self._silent(one)
        why = "its process has ended" if verdict == "dead" else self._why(one, at)
        self.sinks.line(f"{who} {verdict}", f"{verdict.upper()} {who}: no beat for {text(quiet)}; {why}", quiet)

    def _left(self, one: Member) -> None:
        del self.members[one.ring]
        self.sinks.line(f"{self._who(one)} left", f"LEFT {self._who(one)}: it has closed its place in the mesh", 0)

    def _why(self, one: Member, at: Process) -> str:
        found = [f"the process is {at.state}" if at.letter else "the process cannot be seen here"]
        found += happened(one.process, at)
        found += stolen(one.steals, steals())
        found += self.sinks.hiccups(one.last, self._now)
        return ", ".join(found)

    def _settle(self) -> None:
        """Says of each member that woke late whether it alone did, or the whole machine."""
        while self._late and self._late[0].end < self._now - SETTLE:
            first = self._late.popleft()
            together = [first, *(one for one in self._late if one.begin < first.end and first.begin < one.end)]
            begin, end = max(one.begin for one in together), min(one.end for one in together)
            alive = {one.ring for one in self.members.values() if one.verdict != "dead"}
            stood = [gap for gap in self.own.gaps if gap[0] < end and begin < gap[1]]
            if len(alive) > 1 and alive <= {one.member.ring for one in together} and stood:
                line = f"MACHINE stood still for {text(end - begin)}: "
                line += f"all {len(alive)} members of {self.title} and the monitor woke late at the same time"
                self.sinks.line(f"machine {self.title}", line, end - begin)
                for one in together[1:]:
                    self._late.remove(one)
            elif not first.told:
                self._late_line(first, len(alive - {one.member.ring for one in together}))
        while self._slow and self._slow[0].end < self._now - SETTLE:
            slow = self._slow.popleft()
            if not any(one.member is slow.member and one.begin < slow.end and slow.begin < one.end
                       for one in self._wakes):  # fmt: skip
                kind, way = f"way.{slow.sender}.to.{slow.member.name}", text(slow.end - slow.begin)
                line = f"SLOW {slow.sender} to {slow.member.name}: a beat was under way for {way}"
                self.sinks.line(kind, line, slow.end - slow.begin)

    def _late_line(self, late: Late, others: int) -> None:
        who, took = self._who(late.member), late.end - late.begin
        found = [f"{others} other member{'s' * (others != 1)} beat meanwhile"] if others else []
        found += self.sinks.hiccups(late.begin, late.end)
        self.sinks.line(f"{who} late", f"LATE {who}: it woke {text(took)} late; {', '.join(found)}".rstrip("; "), took)

    def _who(self, one: Member) -> str:
        return f"{one.name} of {self.title} (pid {one.pid})"
