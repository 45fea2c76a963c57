# SPDX-License-Identifier: Apache-2.0
"""Reads the sessions in a worker's log: the owners of rings and the readers of slots, one after another."""

import dataclasses

import numpy
from side import Kind, Phase


@dataclasses.dataclass
class Published:
    """The messages of one owner of a ring. Message n was acknowledged with the first entry i whose counts[i] > n."""

    ring: int
    epoch: int
    start: int
    publisher: int
    begin: int
    life: object
    counts: numpy.ndarray
    ends: numpy.ndarray
    attempted: int
    closed: int  # ns; 0: not closed
    max_lag: int
    times: numpy.ndarray = None  # times of the acknowledgements, in ns

    @property
    def acknowledged(self):
        return int(self.counts[-1]) if len(self.counts) else 0


@dataclasses.dataclass
class Read:
    """The messages that one owner of a subscriber slot, or one lossy subscriber, saw."""

    life: object
    slot: int
    epoch: int
    kept: bool
    lossy: bool
    asked: int  # ns, before the take
    begin: int  # ns, after the take
    cursors: dict
    messages: numpy.ndarray
    left: int = 0  # ns; 0: not left
    forgot: bool = False
    drained: bool = False
    last: bool = False  # whether it is the last of its process
    slot_lost: bool = False
    noticed: int = 0  # ns, when it noticed that its slot was lost
    lost: dict = None  # losses by ring, at the end: messages, position, bytes
    first: dict = None  # by ring: bytes lost before the first message


def gone(life):
    """Returns the earliest time at which this process did not own its slot any more."""
    if life.phase in (Phase.closing, Phase.leaving, Phase.forgetting):
        return 0  # it may have closed, and was killed before the log entry
    return life.killed or life.ended


def sessions(life, first, last):
    """Yields the parts of the log from an entry of kind `first` to the next one. Leaves out the part before the
    first."""
    kinds = life.entries[:, 0]
    begins = [i for i in numpy.flatnonzero(kinds == first) if i == 0 or kinds[i - 1] != first]
    for begin, end in zip(begins, [*begins, len(kinds)][1:]):
        rows = life.entries[begin:end]
        yield rows, rows[rows[:, 0] == last], end == len(kinds)


def published_by(life):
    for rows, closed, last in sessions(life, Kind.TAKEN, Kind.CLOSED):
        acks = rows[rows[:, 0] == Kind.ACKNOWLEDGED]
        _, ring, epoch, start, begin, publisher, lag = (int(x) for x in rows[0, :7])
        ended = int(closed[0, 4]) if len(closed) else 0
        acknowledged = int(acks[-1, 1]) if len(acks) else 0
        attempted = max(life.attempted, acknowledged) if last and not ended else acknowledged
        counts, ends, times = acks[:, 1], acks[:, 2], acks[:, 4]
        yield Published(ring, epoch, start, publisher, begin, life, counts, ends, attempted, ended, lag, times)


def read_by(life):
    for rows, left, last in sessions(life, Kind.JOINED, Kind.LEFT):
        lost_slot = rows[rows[:, 0] == Kind.SLOT_LOST]
        joined = rows[rows[:, 0] == Kind.JOINED]
        _, _, slot, _, epoch, kept, begin, asked = (int(x) for x in joined[0])
        cursors = {int(j[1]): int(j[3]) for j in joined}
        read = Read(life, slot, epoch, bool(kept), life.role == "lossy", asked, begin, cursors, None)
        read.messages, read.last = rows[rows[:, 0] == Kind.MESSAGE], last
        if len(left):
            read.forgot, read.drained, read.left = bool(left[0, 1]), bool(left[0, 2]), int(left[0, 4])
        read.lost = {int(r[1]): (int(r[2]), int(r[3]), int(r[4])) for r in rows[rows[:, 0] == Kind.LOST]}
        read.first = {int(r[1]): int(r[2]) for r in rows[rows[:, 0] == Kind.FIRST]}
        if len(lost_slot):
            read.slot_lost, read.noticed = True, int(lost_slot[0, 3])
            read.left = max(begin, int(lost_slot[0, 4]))  # the loss may come before the first poll
            read.messages = read.messages[: len(read.messages) - int(lost_slot[0, 2])]
        yield read
