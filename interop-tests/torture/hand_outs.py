# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of a queue's workers: which slots they had, which jobs they got, and how each job ended."""

import dataclasses
import typing

from sessions import gone
from side import Kind, Phase


@dataclasses.dataclass(eq=False)
class Seat:
    """One owner of a worker's slot."""

    life: object
    slot: int
    epoch: int
    asked: int  # ns, before the take
    begin: int  # ns, after the take
    end: int = 2**62  # ns: the earliest end of the ownership
    noticed: int = 2**62  # ns: from here on it could get no more jobs
    how: str = ""  # how it ended: left, lost (the slot), killed; empty: the process ended otherwise
    jobs: list = dataclasses.field(default_factory=list)
    idle: list = dataclasses.field(default_factory=list)  # (begin, end) of polls that found nothing, ns
    drained: bool = False


@dataclasses.dataclass(eq=False)
class HandOut:
    """One hand-out of a job to a worker."""

    seat: Seat
    key: tuple  # ring, epoch, sequence
    position: int
    attempts: int
    wrong: int
    time: int  # ns, at the begin of the handler
    done: int = 0  # ns, after done
    giving: int = 0  # ns, before release
    given: int = 0  # ns, after release; 0: not known
    others_may: bool = False  # the result of release
    end: int = 2**62  # ns: the end of the hand-out
    last: bool = False  # whether it is the last of its seat
    returned: bool = False  # whether its handler had returned when the slot was lost

    @property
    def cut_off(self):
        """Whether its worker was killed before it ended the job."""
        return self.last and self.seat.how == "killed" and not (self.done or self.giving)

    @property
    def lost(self):
        """Whether its worker was evicted before it ended the job."""
        return self.last and self.seat.how == "lost" and not (self.done or self.giving)

    @property
    def perhaps_done(self):
        return self.cut_off and self.seat.life.phase == Phase.finishing or self.lost and self.returned


class Eviction(typing.NamedTuple):
    slot: int
    begin: int
    end: int
    sure: bool  # whether its operator survived it


def seats(life):
    """Returns the seats in its log."""
    seat = job = None
    for kind, *words in life.entries.tolist():
        if kind == Kind.SEATED:
            seat, job = Seat(life, words[0], words[1], words[3], words[2]), None
            yield seat
        elif kind == Kind.JOB:
            ring, position, epoch, sequence, attempts, wrong, time = words
            job = HandOut(seat, (ring, epoch, sequence), position, attempts, wrong, time)
            seat.jobs.append(job)
        elif kind == Kind.DONE and job:
            job.done = job.end = words[0]
        elif kind == Kind.GIVING and job:
            job.giving = job.end = words[0]
        elif kind == Kind.GIVEN and job:
            job.others_may, job.given = bool(words[0]), words[1]
        elif kind == Kind.IDLE:
            seat.idle.append((words[0], words[1]))
        elif kind == Kind.LEFT and seat:
            seat.how, seat.end, seat.noticed, seat.drained = "left", words[3], words[3], bool(words[1])
        elif kind == Kind.SLOT_LOST and seat:
            seat.how, seat.noticed, seat.end = "lost", words[2], words[3]
            if job and words[1]:
                job.end, job.returned = words[2], bool(words[4])


def seats_of(life):
    """Yields the seats of one worker process, in order. The end of the process tells the last one's end."""
    mine = list(seats(life))
    for seat in mine:
        for job in seat.jobs[-1:]:
            job.last = True
    if mine and not mine[-1].how:
        last = mine[-1]
        last.how = "killed" if life.killed else ""
        last.end, last.noticed = gone(life), life.killed or life.ended
        for job in last.jobs[-1:]:
            if not (job.done or job.giving):
                job.end = life.killed or life.ended
    return mine


def evictions_of(lives):
    for life in lives:
        rows = life.entries[life.entries[:, 0] == Kind.EVICTED][-1:].tolist()
        yield from (Eviction(slot, begin, end or life.ended, end > 0) for _, slot, begin, end, *_ in rows)
