# SPDX-License-Identifier: Apache-2.0
"""The worker of a queue in the SIGKILL torture (interop-tests/torture/WORKER.md)."""

from __future__ import annotations

import time
from typing import Final

import flyring
from flyring._core import crc32c
from flyring_torture_worker import HEADER, Kind, Phase, Worker, publisher_number

LONGEST: Final = 0.4  # seconds: a time-out longer than what a death may cost
SHORTEST_IDLE: Final = 20_000_000  # ns: shorter idle times are not logged


class BrokenError(Exception):
    """The exception that a handler raises."""


class JobWorker(Worker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.handed = 0  # jobs of this poll
        self.begun = 0  # when it began, ns
        self.unfinished = False  # the last job is not ended yet
        self.returned = False  # its handler has returned: the job is done unless an exception follows
        self.silent = self.breaks = False  # silent: the job is not logged; breaks: this poll ends early
        self.last: tuple[int, ...] = ()

    def session(self) -> None:
        side, asked = self.side, time.monotonic_ns()
        self.enter(Phase.SEATING, 2)
        worker = self.channel.worker(self.orders["name"], timeout=5)
        self.linger(2)
        side.log(Kind.SEATED, worker.slot, worker.epoch, time.monotonic_ns(), asked)
        self.unfinished = False
        try:
            self.work(worker)
        except flyring.SlotLostError:
            lost = int(self.unfinished and not self.silent)
            returned = int(self.unfinished and self.returned)
            side.log(Kind.SLOT_LOST, worker.slot, lost, time.monotonic_ns(), self.begun, returned)
            worker.close()
        side.phase(Phase.WORKING)

    def work(self, worker: flyring.Worker) -> None:
        side = self.side
        polls = self.below(10) if self.below(10) == 0 else self.below(300)
        drained = leaves = False
        while not side.full() and not drained and not leaves and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()  # read before the poll, so that the last poll begins after all jobs were sent
            timeout = LONGEST if last else (0, 0.002, 0.02, LONGEST)[self.below(4)]
            side.phase(Phase.FETCHING)
            self.handed, self.begun = 0, time.monotonic_ns()
            if self.below(3) == 0:
                leaves = self.take(worker, timeout)
            else:
                self.poll(worker, timeout)
            if self.handed == 0:
                self.idle()
            drained = last and self.handed == 0
            side.phase(Phase.IDLE)
            if (timeout == 0 and self.handed == 0) or self.below(100) == 0:
                side.nap(self.random.random() * 2e-3)
        begins = time.monotonic_ns()
        self.enter(Phase.LEAVING, 2)
        worker.close()
        self.linger(2)
        side.log(Kind.LEFT, 0, drained, 0, begins)

    def idle(self) -> None:
        if self.fault("deaf", 1):
            time.sleep(0.6)
        end = time.monotonic_ns()
        if end - self.begun > SHORTEST_IDLE:
            self.side.log(Kind.IDLE, self.begun, end)

    def take(self, worker: flyring.Worker, timeout: float) -> bool:
        """Takes a job. Returns True if the worker must leave with the job in hand."""
        job = worker.take(timeout)
        if job is None:
            return False
        self.begin(job)
        dice = self.below(32)
        if dice == 0:
            self.give_back()
            return True
        if dice < 5:
            self.release(job)
        else:
            self.done(job)
        return False

    def poll(self, worker: flyring.Worker, timeout: float) -> None:
        limit = 1 if self.below(2) == 0 else 1 + self.below(8)
        self.breaks = self.below(8) == 0
        try:
            worker.poll(self.handle, limit, timeout)
        except BrokenError:
            return
        self.went_on()

    def handle(self, job: flyring.Job) -> flyring.Action | None:
        self.went_on()
        self.begin(job)
        dice = self.below(32)
        if dice < 2:
            self.release(job)
        elif dice == 2:
            self.give_back()
            raise BrokenError
        elif dice == 3:
            self.give_back()
            return flyring.Action.ABORT
        elif dice == 4:
            self.done(job)
        else:
            self.enter(Phase.FINISHING, 50)
            self.returned = True
        return flyring.Action.BREAK if self.breaks else None

    def begin(self, job: flyring.Job) -> None:
        self.side.phase(Phase.HANDLING)
        self.handed += 1
        epoch = sequence = 0
        state = 1  # 0 right, 1 torn, 2 wrong sender, 3 sender not known
        if len(job) >= HEADER.size:
            with job.data as data:
                checksum, length, publisher, epoch, sequence = HEADER.unpack_from(data)
                state = int(length != len(job) or checksum != crc32c(data[4:]))
            sender = job.sender
            if not state and sender.epoch == 0:
                state = 3
            elif not state and (sender.epoch, publisher_number(sender.name)) != (epoch, publisher):
                state = 2
        self.linger(30)  # the job is read, but not logged
        self.silent = bool(self.fault("drop"))
        self.last = (job.ring, job.position, epoch, sequence, job.attempts, state)
        self.note(Kind.JOB, *self.last, time.monotonic_ns())
        self.unfinished = True
        self.returned = False
        self.linger(30)

    def note(self, kind: Kind, *values: int) -> None:
        if not self.silent:
            self.side.log(kind, *values)

    def done(self, job: flyring.Job) -> None:
        self.enter(Phase.FINISHING, 50)
        job.done()
        self.linger(50)
        self.went_on()

    def went_on(self) -> None:
        """Logs the last job as done, unless its handler ended it otherwise."""
        if not self.unfinished:
            return
        self.unfinished = False
        self.note(Kind.DONE, time.monotonic_ns())
        twice = self.fault("twice")
        if twice or self.fault("forget"):
            more = 1 if twice else -self.last[4]
            self.note(Kind.JOB, *self.last[:4], self.last[4] + more, self.last[5], time.monotonic_ns())
            self.note(Kind.DONE, time.monotonic_ns())

    def give_back(self) -> None:
        self.note(Kind.GIVING, time.monotonic_ns())
        self.unfinished = False
        self.enter(Phase.GIVING_BACK, 20)

    def release(self, job: flyring.Job) -> None:
        self.give_back()
        given = job.release()
        self.linger(20)
        self.note(Kind.GIVEN, given, time.monotonic_ns())
