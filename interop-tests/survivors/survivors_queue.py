# SPDX-License-Identifier: Apache-2.0
"""The requests of survivors.py in a queue (spec/queue.md): no job is lost, and repeated jobs are marked."""

import time

from harness import equal, true
from worlds import SMALL, Scenario, World, message, new, nothing

OPTIONS = {"kind": "queue", "capacity": 4096, "producers": 2, "workers": 3, "counters": 4}


def number(job):
    return SMALL.unpack_from(bytes.fromhex(job["data"]))[0]


class QueueWorld(World):
    """A queue in which the observer has a producer, and a worker that takes nothing while the victim works."""

    EVICTED, EXPECTED = 2, {"publisher 0", "subscriber 1"}

    def make(self):
        self.observer.call("create", channel="o", name=self.name, **OPTIONS)
        self.observer.call("publisher", channel="o", publisher="other", name="other")
        self.observer.call("worker", channel="o", worker="keeper", name="keeper")
        self.sent, self.had, self.done, self.got = [], set(), set(), []

    def worker(self):
        self.open()
        self.victim.call("worker", channel="v", worker="w", name="reader")

    def jobs(self, count):
        for _ in range(count):
            data = self.data()
            self.sent.append(self.sequence)
            self.observer.call("offer", publisher="other", data=data, type=9)

    def taken(self, count=1):
        """Gives the victim a job in hand."""
        self.worker()
        self.jobs(count)
        job = self.victim.call("take_job", worker="w")["job"]
        self.had.add(number(job))

    def left(self):
        """Lets a worker die with jobs in hand."""
        dead = self.run.fresh("python")
        dead.call("open", channel="d", name=self.name)
        dead.call("worker", channel="d", worker="gone")
        self.jobs(3)
        jobs = dead.call("poll_jobs", worker="gone", limit=3, action="BREAK")["jobs"]
        self.done |= set(map(number, jobs))
        self.had |= set(self.sent)
        dead.kill()

    def held_back(self):
        """Fills the victim's ring, which the job of a dead worker holds back."""
        self.open()
        self.victim.call("publisher", channel="v", publisher="p", name="pub")
        dead, data = self.run.fresh("python"), self.data()
        dead.call("open", channel="d", name=self.name)
        dead.call("worker", channel="d", worker="gone")
        self.victim.call("offer", publisher="p", data=data, type=1)
        self.sent.append(self.sequence)
        dead.call("take_job", worker="gone")
        self.had.add(self.sequence)
        while True:
            data = self.data()
            if self.victim.call("offer", publisher="p", data=data, type=1)["position"] < 0:
                self.sequence -= 1
                break
            self.sent.append(self.sequence)
            self.done |= set(map(number, dead_polls(self.observer)))
        dead.kill()
        time.sleep(0.002)

    def note(self, scenario, sequence, code, answer):
        if scenario.publishes:
            if code:
                self.uncertain.add(sequence)
            elif answer["position"] > 0:  # the dead worker's job still holds it back
                self.sent.append(sequence)
        if code is not None:
            self.had |= set(self.sent)  # a handler may have got any of them
            return
        if scenario.op == "take_job" and answer["job"]:
            self.had.add(number(answer["job"]))
        if scenario.op == "poll_jobs":
            jobs = set(map(number, answer["jobs"]))
            self.had |= set(self.sent) if answer.get("threw") else jobs
            self.done |= jobs if scenario.fields.get("action") is None else set()
        if scenario.op == "done":
            self.done |= self.had

    def work_off(self):
        self.got += dead_polls(self.observer)

    def check(self, scenario):
        observer = self.observer
        for i in range(300):  # three laps, so nothing holds the producer back
            deadline = time.monotonic() + 1
            while observer.call("offer", publisher="other", data=(SMALL.pack(0) * 4).hex(), type=9)["position"] < 0:
                self.work_off()
                true("the producer goes on within 1 s", time.monotonic() < deadline, f"held back at {i}")
        observer.call("publisher", channel="o", publisher="heir", name="pub")
        observer.call("offer", publisher="heir", data=(SMALL.pack(0) * 4).hex(), type=1)
        for n in range(2):
            observer.call("worker", channel="o", worker=f"w{n}", name=("reader", "")[n])
            self.got += dead_polls(observer, f"w{n}")
        self.work_off()
        for producer in ("other", "heir"):
            observer.call("close", publisher=producer)
        deadline = time.monotonic() + 3
        while not observer.call("jobs_ended", worker="keeper")["ended"]:
            self.work_off()
            true("the queue ends within 3 s", time.monotonic() < deadline, "not yet")
        self.count()

    def count(self):
        """Checks that no job is lost, and that only jobs that were in hand come again, marked as repeats."""
        seen = {}
        for job in self.got:
            seen.setdefault(number(job), []).append(job["attempts"])
        seen.pop(0, None)
        for sequence in self.sent:
            attempts = seen.pop(sequence, [])
            where = f"job {sequence}, victim had it: {sequence in self.had}, done: {sequence in self.done}"
            true(where, len(attempts) + (sequence in self.done) >= 1, "it is lost")
            if sequence not in self.had:
                equal(f"{where}: attempts", attempts, [] if sequence in self.done else [0])
            elif sequence in self.done or len(attempts) > 1:
                true(
                    f"{where}: handed out again",
                    min(attempts[1 if sequence not in self.done else 0 :], default=1) > 0,
                    attempts,
                )
        true("what nobody published", set(seen) <= self.uncertain, seen)


def dead_polls(peer, worker="keeper"):
    """Returns all jobs that a worker gets now."""
    jobs = []
    while more := peer.call("poll_jobs", worker=worker, limit=64)["jobs"]:
        jobs += more
    return jobs


def scenarios():
    def idle(world):
        world.worker()

    def some(world):
        world.worker()
        world.jobs(5)

    def adopting(world):
        world.worker()
        world.left()

    def owning(world):
        world.taken()
        world.victim.call("publisher", channel="v", publisher="p", name="pub")

    def in_hand(world):
        world.taken(3)

    def successor(world):
        """Takes the dead worker's slot; the first slot belongs to the observer."""
        world.open()
        world.left()

    def scenario(name, op, fields, prepare, **more):
        return Scenario(f"queue, {name}", op, fields, prepare, world=QueueWorld, **more)

    worker = {"channel": "v", "worker": "w", "name": "reader"}
    return [
        scenario(
            "create",
            "create",
            {"channel": "v", **OPTIONS, "more": new},
            nothing,
            takes=True,
        ),
        scenario("worker", "worker", worker, World.open, takes=True),
        scenario("worker, after a dead one", "worker", worker, successor, takes=True),
        scenario("wait, worker", "worker", {**worker, "timeout": 0.05}, World.open, takes=True),
        scenario("wait, take", "take_job", {"worker": "w", "timeout": 0.05}, idle, evictable=True),
        scenario("wait, poll", "poll_jobs", {"worker": "w", "limit": 4, "timeout": 0.05}, idle, evictable=True),
        scenario("take", "take_job", {"worker": "w"}, some, evictable=True),
        scenario("take, adopting", "take_job", {"worker": "w"}, adopting, evictable=True),
        scenario("poll, adopting", "poll_jobs", {"worker": "w", "limit": 4}, adopting, evictable=True),
        scenario("poll, throwing", "poll_jobs", {"worker": "w", "limit": 2, "action": "throw"}, some, evictable=True),
        scenario("done", "done", {"worker": "w"}, in_hand, evictable=True),
        scenario("release", "release", {"worker": "w"}, in_hand, evictable=True),
        scenario("drain", "drain", {"worker": "w"}, in_hand, evictable=True),
        scenario("ended", "jobs_ended", {"worker": "w"}, in_hand, evictable=True),
        scenario("close worker", "close", {"worker": "w"}, in_hand, evictable=True),
        scenario("evict", "evict", {"channel": "v", "slot": 2}, in_hand),
        scenario(
            "offer, held back by the dead",
            "offer",
            {"publisher": "p", "type": 1, "more": message},
            QueueWorld.held_back,
            publishes=True,
        ),
        scenario("close channel", "close", {"channel": "v"}, owning, once=True),
    ]
