# SPDX-License-Identifier: Apache-2.0
"""The files of the dead of a queue (spec/queue.md), like those of dead.py. A worker, a producer or an evicting process
is killed after one of its stores; the next worker then uses the file."""

from dead import DEAD, HEIR, Scene, differences, states_of, word
from queues import Queue

OPTIONS = {"kind": "queue", "capacity": 4096, "producers": 2, "workers": 4, "counters": 0}


class QueueScene(Scene):
    """A queue for two producers. The first is in its second lap, and has left jobs; the second never comes."""

    make, options = Queue, OPTIONS

    def prepare(self):
        publisher, worker = self.channel.take_publisher("pub"), self.channel.take_worker("")
        while publisher.t < 4096 + 5 * 4096 // 8:
            self.send(publisher)
            self.channel.poll_jobs(worker, 256)
        for _ in range(5):
            self.send(publisher)
        self.channel.close_publisher(publisher)
        self.channel.close_subscriber(worker)
        self.channel.inject = DEAD

    def worker(self, slot=2):
        """The worker that dies. Workers in lower slots die, too, before another process looks."""
        while True:
            worker = self.channel.take_worker("")
            if worker.slot == slot:
                return worker

    def with_job(self, slot=2, limit=1):
        worker = self.worker(slot)
        self.channel.take(worker, limit)
        return worker


def take(s, slot=2, limit=1):
    worker = s.worker(slot)
    return lambda: s.channel.take(worker, limit)


def take_padding(s):
    """The worker takes a job behind padding."""
    publisher, worker = s.pub(), s.worker()
    while publisher.t % 4096 + s.channel.align(8 + 300) <= 4096:
        s.send(publisher, 300)
        s.channel.poll_jobs(worker, 256)
    s.send(publisher, 300)
    return lambda: s.channel.take(worker)


def done(s, limit=1):
    worker = s.with_job(limit=limit)
    return lambda: s.channel.done(worker)


def adopt(s, attempts=0):
    """The process is killed while it adopts a job that was handed out `attempts` times before its last worker."""
    corpse, worker = s.with_job(3), None
    s.channel.locked.discard(("subscriber", 2))
    worker = s.worker(2)
    s.channel.locked.discard(("subscriber", corpse.slot))
    s.channel.set_attempts(corpse.slot, 0, attempts)
    return lambda: s.channel.take(worker)


def adopt_untaken(s):
    """The job's worker was killed after it announced the job and before it took it."""
    worker, corpse = s.worker(2), s.worker(3)
    s.channel.take(corpse)
    s.channel.set_gate(0, 0, s.channel.gate(3, 0))
    s.channel.locked.discard(("subscriber", 3))
    return lambda: s.channel.take(worker)


def release(s, again=False, limit=1):
    """The worker releases its last job."""
    worker = s.with_job(limit=limit)
    s.channel.poll_jobs(s.worker(3), 256)
    if again:
        s.channel.release(worker)
        s.channel.take(worker)
    return lambda: s.channel.release(worker)


def close(s):
    """The worker closes with two jobs left of a batch of three."""
    worker = s.with_job(limit=3)
    s.channel.done(worker)
    s.channel.poll_jobs(s.worker(3), 256)
    return lambda: s.channel.close_subscriber(worker)


def take_worker(s, evicted=False):
    """The last owner of the slot has a job in hand."""
    worker = s.with_job()
    if evicted:
        s.channel.evict(worker.slot)
    s.channel.locked.discard(("subscriber", worker.slot))
    return lambda: s.channel.take_worker("heir")


def evict(s):
    s.with_job()
    return lambda: s.channel.evict(2)


def wake_one(s):
    publisher = s.pub()
    for pair in ("data", "jobs"):
        s.channel.fall_asleep(pair, [0])
    return lambda: s.send(publisher, 30)


DYING = (
    ("queue-take", take, 64),
    ("queue-take-compact", take, 8),
    ("queue-take-own", lambda s: take(s, slot=1), 64),
    ("queue-take-batch", lambda s: take(s, limit=3), 64),
    ("queue-take-padding", take_padding, 64),
    ("queue-done", done, 64),
    ("queue-done-batch", lambda s: done(s, limit=3), 64),
    ("queue-adopt", adopt, 64),
    ("queue-adopt-again", lambda s: adopt(s, attempts=4), 64),
    ("queue-adopt-untaken", adopt_untaken, 64),
    ("queue-release", release, 64),
    ("queue-release-again", lambda s: release(s, again=True), 64),
    ("queue-release-batch", lambda s: release(s, limit=2), 8),
    ("queue-close", close, 64),
    ("queue-take-worker", take_worker, 64),
    ("queue-take-worker-evicted", lambda s: take_worker(s, evicted=True), 64),
    ("queue-evict", evict, 64),
    ("queue-wake-one", wake_one, 64),
)


def take_over(golden, releases):
    """Does the operations of the next worker, which takes a job and then releases it, and of the next producer."""
    golden.worker("reader", "heir")
    if golden.take_job("reader") and releases:
        golden.release("reader")
    if releases:
        golden.publisher("heir", "pub")
        assert golden.offer("heir", 99, b"heir".hex()) > 0


def finds(channel, worker):
    """Returns the jobs that a worker has in hand, and gets until there are no more. Finishes all."""
    jobs = []
    while True:
        for k in range(channel.P):
            if not worker.hand:
                channel.take_of(worker, k, 1)
        if not worker.hand:
            return jobs
        jobs.append({"from": worker.hand[0].lies_in} | worker.hand[0].facts())
        channel.done(worker)


def files_of(make):
    """Like dead.files_of."""
    files = {}
    for name, prepare, alignment in DYING:
        scene, points = QueueScene(alignment), []
        states = states_of(scene, prepare)
        base = states[0][1]
        for at, left in states:
            for releases in (False, True):
                channel = Queue(scene.options, HEIR)
                channel.b[:] = left
                golden = make(name, channel)
                take_over(golden, releases)
                points.append(
                    {
                        "last_store": word(channel, at),
                        "left": differences(base, left),
                        "operations": golden.operations,
                        "after": differences(left, bytes(channel.b)),
                        "finds": finds(channel, golden.objects["reader"]),
                    }
                )
        head = {"inject": HEIR, "file_length": len(base), "base": differences(bytes(len(base)), base)}
        files[f"dead/{name}"] = head | {"dead": points}
    return files
