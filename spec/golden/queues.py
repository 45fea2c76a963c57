# SPDX-License-Identifier: Apache-2.0
"""The steps of a queue (spec/queue.md), as part of the simulation. Numbers in comments are sections of queue.md. One
thread does everything, so no compare-and-set fails."""

import struct

from simulation import Channel, Publisher


class Worker:
    def __init__(self, slot, epoch):
        self.slot, self.epoch = slot, epoch
        self.looked = False  # whether it looked for jobs of dead workers; time stands still, so it looks once
        self.hand = []  # the jobs that it took and has not done, in order


class Job:
    """One job in the hand of a worker. Its record lies in ring `lies_in`, from `at` to `end`."""

    def __init__(self, lies_in, at, end, kind, ring, position, attempts, data):
        self.lies_in, self.at, self.end, self.kind = lies_in, at, end, kind
        self.ring, self.position, self.attempts, self.data = ring, position, attempts, data

    def facts(self):
        return {
            "ring": self.ring,
            "position": self.position,
            "attempts": self.attempts,
            "repeat": self.attempts > 0,
            "type": self.kind,
            "data": self.data.hex(),
        }


class Queue(Channel):
    def __init__(self, options, inject):
        """Makes a queue (2), whose slot 0 is shared."""
        raw = {"publishers": options["producers"] + 1, "subscribers": options["workers"] + 1}
        super().__init__(
            {key: value for key, value in options.items() if key not in ("producers", "workers")} | raw, inject
        )
        self.returns, self.releasing = self.P - 1, False
        for k in range(self.P):
            self.set_gate(0, k, 64 * k % 4096)
        self.put32(self.subscriber_slot(0) + 16, 1)

    # --- words ------------------------------------------------------------------------------------------------------

    HANDOVERS, BUSY_SINCE = 4096 + 48, 128

    def taken_end(self, w, k):
        return self.get64(self.gate_at(w, k) + 16)

    def attempts(self, w, k):
        return self.get32(self.gate_at(w, k) + 24)

    def set_attempts(self, w, k, value):
        self.put32(self.gate_at(w, k) + 24, value)

    def set_busy(self, w, busy):
        self.put64(self.subscriber_slot(w.slot) + self.BUSY_SINCE, self.inject["monotonic"] if busy else 0)

    # --- producers --------------------------------------------------------------------------------------------------

    def take_publisher(self, name, max_lag=0):
        publisher = super().take_publisher(name, max_lag)
        self.wake_all("jobs")  # queue.md 10
        return publisher

    def close_publisher(self, p):
        super().close_publisher(p)
        self.wake_all("jobs")  # queue.md 10

    def recompute(self, p, n, first):
        """Recomputes the limit (4). No job changes hands meanwhile."""
        gates = [g for w in range(self.S) if (g := self.gate(w, p.ring)) >= 0]
        p.limit = max(p.limit, self.C + min([p.t, *gates]))
        if p.ring == self.returns:
            return  # 8: a release does not wait, and stores no blocked_since
        self.note_room(p, first)

    def ahead(self, n):
        """Returns how far to clear ahead. Nothing in the returns ring (8), whose owners publish only one message
        each."""
        return 0 if self.releasing else super().ahead(n)

    def wake(self, pair, k):
        """Wakes sleepers, with workers as in 10."""
        if pair == "data":
            super().wake("jobs", 0)
        super().wake(pair, k)

    # --- workers ----------------------------------------------------------------------------------------------------

    def take_worker(self, name):
        """Takes a worker's slot (6)."""
        w = self.lock_first("subscriber", range(1, self.S))
        slot = self.subscriber_slot(w)
        worker = Worker(w, self.new_owner(slot, name.encode(), worker=True))
        for k in range(self.P):
            p, e = self.gate(w, k), self.taken_end(w, k)
            if p < 0:
                continue
            if p < e <= self.gate(0, k):
                self.set_attempts(w, k, self.attempts(w, k) + 1)
                self.set_busy(worker, True)
                worker.hand = self.jobs_of(worker, k, p, e)
            else:
                self.set_gate(w, k, -1)
        if self.get32(slot + 8):
            self.put32(slot + 8, 0)
        self.wake_all("room", "jobs")
        return worker

    def jobs_of(self, worker, k, p, e):
        """Returns the jobs of a batch."""
        jobs = []
        while p < e:
            kind, data, end = self.read(k, p)
            assert kind > 0
            ring, position, attempts = k, p, self.attempts(worker.slot, k)
            if k == self.returns:
                ring, before, position = struct.unpack_from("<iiq", data)
                attempts, data = attempts + before, data[16:]
            jobs.append(Job(k, p, end, kind, ring, position, attempts, data))
            p = end
        return jobs

    def take(self, worker, limit=1):
        """Takes jobs (3); the first time, looks for jobs to adopt before (5). Returns the jobs, which stay in hand."""
        if not worker.hand and not worker.looked:
            worker.looked = True
            for other in range(1, self.S):
                if other != worker.slot and not worker.hand:
                    self.adopt(worker, other)
        ready = [k for k in range(self.P) if not worker.hand and self.unread(k, self.gate(0, k))]
        assert len(ready) <= 1, "which ring comes first would matter"
        for k in range(self.P):
            if not worker.hand:
                self.take_of(worker, k, limit)
        return worker.hand

    def take_of(self, worker, k, limit):
        while (record := self.read(k, self.gate(0, k))) is not None and record[0] < 0:
            self.set_gate(0, k, record[2])  # 1
            self.wake("room", k)
        if record is None:
            return
        p, e = self.gate(0, k), record[2]
        for _ in range(limit - 1):
            record = self.read(k, e)
            if record is None or record[0] < 0 or record[2] - p > self.C // 8:
                break
            e = record[2]
        self.set_attempts(worker.slot, k, 0)  # 2
        self.put64(self.gate_at(worker.slot, k) + 16, e)
        self.set_gate(worker.slot, k, p)
        self.set_gate(0, k, e)  # 3
        self.set_busy(worker, True)
        worker.hand = self.jobs_of(worker, k, p, e)

    def poll_jobs(self, worker, limit):
        """Takes and finishes jobs, until there were `limit` or there are no more."""
        jobs = []
        while len(jobs) < limit and (worker.hand or self.take(worker, limit - len(jobs))):
            jobs.append(worker.hand[0])
            self.done(worker)
        return jobs

    def done(self, worker):
        """Finishes the worker's first job (3, 5)."""
        job = worker.hand.pop(0)
        self.set_gate(worker.slot, job.lies_in, worker.hand[0].at if worker.hand else -1)
        if not worker.hand:
            self.set_busy(worker, False)
        self.wake("room", job.lies_in)

    def adopt(self, worker, other):
        """Adopts a job of `other` (5), which is dead if its slot's lock is not held in the simulation."""
        evicting = self.get32(self.subscriber_slot(other) + 8)
        dead = ("subscriber", other) not in self.locked
        for k in range(self.P):
            p, e, g = self.gate(other, k), self.taken_end(other, k), self.gate(0, k)
            if p < 0 or not (dead or evicting) or (not dead and p >= g):
                continue
            if p < e <= g:
                self.set_attempts(worker.slot, k, self.attempts(other, k) + 1)
                self.put64(self.gate_at(worker.slot, k) + 16, e)
                self.set_gate(worker.slot, k, p)
                self.put64(self.HANDOVERS, self.get64(self.HANDOVERS) + 1)
            self.set_gate(other, k, -1)
            if p < e <= g:
                self.set_busy(worker, True)
                worker.hand = self.jobs_of(worker, k, p, e)
                return
            self.wake("room", k)

    def release(self, worker):
        """Releases a job (8). False: there is no room for it."""
        job = worker.hand[0]
        assert ("publisher", self.returns) not in self.locked
        published, count = self.recover(self.returns)
        p = Publisher(self.returns, b"", 0, published, count)
        p.owner_pending = False
        data = struct.pack("<iiq", job.ring, job.attempts + 1, job.position) + job.data
        self.releasing = True
        released = self.offer(p, job.kind, data) > 0
        self.releasing = False
        if released:
            self.done(worker)
        else:  # it stays in hand, and the next take hands it out again
            w, k = worker.slot, job.lies_in
            self.set_attempts(w, k, self.attempts(w, k) + 1)
            raise AssertionError("what comes after that has no golden file")
        return released

    def close_subscriber(self, worker):
        """Closes a worker (7)."""
        while worker.hand:
            self.release(worker)
        self.locked.remove(("subscriber", worker.slot))

    def evict(self, w):
        """Evicts a worker (7)."""
        slot = self.subscriber_slot(w)
        assert w > 0
        self.put64(slot, self.get64(slot) + 1)
        self.put32(slot + 8, 1)
        self.wake_all("jobs")
        return int(any(0 <= self.gate(w, k) < self.gate(0, k) for k in range(self.P)))

    # --- what a reader should find ----------------------------------------------------------------------------------

    def expected(self):
        found = super().expected()
        for w, slot in enumerate(found["subscribers"]):
            slot["busy_since"] = self.get64(self.subscriber_slot(w) + self.BUSY_SINCE)
            slot["taken_ends"] = [self.taken_end(w, k) for k in range(self.P)]
            slot["attempts"] = [self.attempts(w, k) for k in range(self.P)]
        found["unread"] = []
        found["still_there"] = [ring for ring in found["still_there"] if ring["ring"] != self.returns]
        return found | {"handovers": self.get64(self.HANDOVERS), "jobs": self.left()}

    def left(self):
        """Returns the jobs that a worker gets that attaches to the stored file, when all other workers are dead."""
        other = Queue.__new__(Queue)
        other.__dict__ |= self.__dict__ | {"b": bytearray(self.b), "locked": set(), "on_store": None}
        jobs, worker = [], other.take_worker("")
        while True:
            for k in range(other.P):
                if not worker.hand:
                    other.take_of(worker, k, 1)
            if not worker.hand:
                break
            jobs.append({"from": worker.hand[0].lies_in} | worker.hand[0].facts())
            other.done(worker)
        for dead in range(1, other.S):
            other.adopt(worker, dead)
            while worker.hand:
                jobs.append({"from": worker.hand[0].lies_in} | worker.hand[0].facts())
                other.done(worker)
        return jobs
