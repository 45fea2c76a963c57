# SPDX-License-Identifier: Apache-2.0
"""One round of the torture. Workers are started, stopped, continued, killed and replaced until the time is up. Then the
publishers end, the subscribers read the rest, and the verifier gets every worker's side file."""

import collections
import dataclasses
import time

import numpy
from worker import Worker
from side import (
    APPENDER,
    CALLER,
    CONSUMER,
    COUNTERS,
    FOLLOWER,
    KEPT,
    LOOKER,
    LOSSY,
    OPERATOR,
    PUBLISHER,
    PUTTER,
    SERVER,
    SUBSCRIBER,
    WORD_COUNT,
    WORKER,
    Kind,
    Phase,
)

PHASES = {
    "publisher": PUBLISHER + COUNTERS,
    "reliable": SUBSCRIBER + COUNTERS,
    "kept": tuple(p for p in SUBSCRIBER if p != "joining") + KEPT + COUNTERS,
    "lossy": LOSSY,
    "worker": WORKER,
    "server": SERVER,
    "caller": CALLER,
    "operator": OPERATOR,
    "putter": PUTTER,
    "looker": LOOKER,
    "appender": APPENDER,
    "follower": FOLLOWER,
    "consumer": CONSUMER,
}
LAST = ("kept", "worker", "server", "looker", "follower", "consumer")  # roles that look once more after all others
POOLED = 2  # started workers of each language that wait for orders
WORKED = 200  # entries in its log after which a worker counts as one that has worked
VACANT = 0.1  # seconds that a killed subscriber's role stays empty at most
EARLY = {
    Phase[p] for p in ("taking", "recovering", "joining", "resuming", "starting", "counting", "evicting", "seating")
}


MOST_ERRORS = 20  # errors in one round, as a broken worker would be started again and again


class Stuck(Exception):
    """A worker did not end when it was told to."""


@dataclasses.dataclass
class Actor:
    """A role, which workers of any language play one after another."""

    channel: int
    role: str
    name: str
    max_lag: int = 0  # the lag limit of a publisher
    worker: object = None
    killed: bool = False  # whether its last worker was killed
    again: bool = False  # whether it has had a worker
    due: float = 0  # when it may get the next worker


def seat(worker):
    """Returns the queue slot that the worker had last; 0: none."""
    entries = worker.side.entries()
    slots = entries[entries[:, 0] == Kind.SEATED, 1]
    return int(slots[-1]) if len(slots) else 0


def is_seated(worker):
    """Returns whether a server has its place now."""
    entries = worker.side.entries()
    places = entries[numpy.isin(entries[:, 0], (Kind.SEATED, Kind.LEFT, Kind.SLOT_LOST)), 0]
    return len(places) > 0 and places[-1] == Kind.SEATED


class Round:
    """The workers of one round, on existing channels."""

    def __init__(self, commands, folder, channels, actors, random, kills, least, fault=("", ""), every=True):
        self.commands, self.folder, self.channels, self.actors, self.random = commands, folder, channels, actors, random
        self.least, self.entries = least, collections.Counter()  # least: by role; entries: of logs
        self.fault = fault  # the fault's name, and the role or language that has it
        self.every = every  # whether each phase needs a kill in every language, or in any
        self.pool = {language: collections.deque() for language in commands}
        self.done, self.errors, self.kills = [], [], kills  # kills: number by phase, language, and whether napping
        self.pauses, self.number, self.played = 0, 0, 0.0  # played: in seconds
        self.evictions = (
            0.22 if any(a.role in ("worker", "server") for a in actors) else 0.18
        )  # of a die that is 0.15 or more

    # Workers

    def fill_pool(self):
        for language, waiting in self.pool.items():
            while len(waiting) < POOLED:
                self.number += 1
                waiting.append(Worker(language, self.commands[language], self.folder, self.number))

    def take(self, role):
        """Returns a waiting worker, or None. Chooses the language with the fault, or the one with the fewest kills, or
        (every other time) the one that has done the least in this role."""
        self.fill_pool()
        rank = collections.Counter()
        by_work = self.random.random() < 0.5
        for language in self.pool:
            losses = sum(n for (_, each, _), n in self.kills.items() if each == language)
            rank[language] = self.work(role, language) if by_work else losses
        if self.fault[1] in self.pool and self.random.random() < 0.5:
            rank[self.fault[1]] = -1
        for language in sorted(self.pool, key=lambda each: (rank[each], self.random.random())):
            for worker in self.pool[language]:
                if worker.ready():
                    self.pool[language].remove(worker)
                    return worker
                if not worker.alive():
                    raise Stuck(f"{worker.label} ended before it was ready: {worker.stderr_path.read_text()}")
        return None

    def start(self, actor, **more):
        """Gives a worker this role, if one is ready."""
        worker = self.take(actor.role)
        if not worker:
            return None
        fault = self.fault[0] if self.fault[1] in (worker.language, actor.role) else ""
        worker.order(
            actor,
            role=actor.role,
            channel=self.channels[actor.channel],
            name=actor.name,
            seed=self.random.getrandbits(32),
            side=worker.side.path,
            recovering=int(actor.killed),
            resuming=int(actor.again),
            max_lag=actor.max_lag,
            fault=fault,
            **more,
        )
        actor.worker, actor.again = worker, True
        return worker

    def finished(self, worker):
        """Counts a worker that was reaped, and keeps its log for the verifier."""
        actor = worker.actor
        if worker.killed:
            self.kills[worker.phase() or "starting up", worker.language, worker.side.napping()] += 1
        elif worker.process.returncode != 0:
            words = worker.stderr_path.read_text(errors="replace")[-400:].strip()
            self.errors.append(f"{worker.label} as {actor.role} {actor.name}: {worker.process.returncode}: {words}")
            if len(self.errors) > MOST_ERRORS:
                raise Stuck("\n".join(self.errors))
        self.entries[actor.role, worker.language] += worker.side.count()
        actor.worker, actor.killed = None, bool(worker.killed)
        if worker.killed and actor.role == "reliable":  # before its slot has the next owner
            actor.due = time.monotonic() + self.random.random() * VACANT
        self.done.append(worker.life())
        worker.side.close()  # at once, because a container's /dev/shm has no room for a round's logs

    def work(self, role, language):
        """Returns the number of log entries."""
        busy = [a.worker for a in self.actors if a.worker and a.role == role and a.worker.language == language]
        return self.entries[role, language] + sum(worker.side.count() for worker in busy)

    def done_enough(self):
        return all(self.work(role, each) >= least for role, least in self.least.items() for each in self.commands)

    # Kills, stops and evictions

    def evict(self, actor):
        """Lets an operator evict an owned slot. In a queue or service, its owner is stopped first."""
        mine = [a for a in self.actors if a.channel == actor.channel]
        servers = [a for a in mine if a.role == "server"]
        if servers:
            stopped = [a.worker for a in mine if a.worker and a.worker.stopped and a.role in ("server", "caller")]
            if stopped and self.random.random() < 0.8:
                return self.start(actor, slot=seat(self.random.choice(stopped)))
            callers = sum(a.role == "caller" for a in mine)
            return self.start(actor, slot=self.random.choice((0, 1 + self.random.randrange(callers))))
        workers = [a for a in mine if a.role == "worker"]
        if workers:
            stopped = [a.worker for a in workers if a.worker and a.worker.stopped]
            slot = seat(self.random.choice(stopped)) if stopped else 0
            return self.start(actor, slot=slot or 1 + self.random.randrange(len(workers)))
        slots = [a for a in mine if a.role in ("reliable", "kept")]
        return self.start(actor, slot=self.random.randrange(len(slots)))

    def struck(self):
        """Returns the number of kills by phase and language."""
        kills = collections.Counter()
        for (phase, language, _), n in self.kills.items():
            kills[phase, language] += n
        cells = sorted({(p, language) for a in self.actors for p in PHASES[a.role] for language in self.commands})
        return {cell: kills[cell] for cell in cells}

    def struck_enough(self):
        if self.every:
            return all(self.struck().values())
        return {phase for phase, _ in self.struck()} == {phase for (phase, _), n in self.struck().items() if n}

    def wanted(self):
        """Returns the (phase, language) to kill next: first phases without any kill, then cells without one, then the
        rarest."""
        cells = self.struck()
        phases = {phase for (phase, _), n in cells.items() if n}
        missing = [c for c in cells if c[0] not in phases]
        return missing or [c for c, n in cells.items() if n == min(cells.values())]

    def watch(self, seconds):
        """Looks at all workers until one seems to be in a wanted phase, and stops it. Its side file is then exact; if
        it is in the phase, kills it. It must have worked, unless the phase comes before that."""
        numbers = collections.defaultdict(set)
        for phase, language in self.wanted():
            numbers[language].add(Phase[phase].value)
        workers = [a.worker for a in self.actors if a.worker and not a.worker.stopped]
        targets = [(w.side.words, numbers[w.language], w) for w in workers]
        late = time.monotonic() + seconds
        while time.monotonic() < late:
            for words, phases, worker in targets:
                if words[0] in phases and (words[WORD_COUNT] > WORKED or words[0] in EARLY) and worker.alive():
                    if worker.stop() and words[0] in phases:
                        self.strike(worker)
                        return
                    worker.go_on()

    def strike(self, worker):
        worker.kill()
        self.finished(worker)

    def strike_at_work(self, workers):
        """Kills a random one of these that is not napping now, in any phase, and that has worked for a while. Otherwise
        workers that have just started, which rarely nap, would be chosen too often."""
        for worker in self.random.sample(workers, len(workers)):
            if worker.side.count() > WORKED:
                if worker.stop() and not worker.side.napping():
                    return self.strike(worker)
                worker.go_on()

    def act(self, paused):
        dice = self.random.random()
        busy = [a.worker for a in self.actors if a.worker and a.worker.phase() and not a.worker.stopped]
        busy = [worker for worker in busy if worker.alive()]
        operators = [a for a in self.actors if a.role == "operator" and not a.worker]
        if dice < 0.15 and busy:
            reliable = [w for w in busy if w.actor.role == "reliable"]  # because their death holds publishers back
            self.strike_at_work(reliable if reliable and self.random.random() < 0.5 else busy)
        elif operators and (dice < self.evictions or self.wanted()[0][0] == "evicting"):
            self.evict(self.random.choice(operators))
        elif dice < 0.4 and busy:
            worker = self.random.choice(busy)
            if worker.stop():
                self.pauses += 1
                paused.append((time.monotonic() + self.random.random() * 0.06, worker))
        elif dice < 0.5 and busy:
            role = self.random.choice(busy).actor.role
            others = [w for w in busy if w.actor.role == role]
            max(others, key=lambda w: self.work(role, w.language)).side.stop()  # to give slower languages more time

    def run(self, seconds, at_most):
        """Plays for so many seconds; longer if a kill is missing (unless a fault is planted), or a language has done
        too little."""
        begin, paused = time.monotonic(), []
        while True:
            self.played = played = time.monotonic() - begin
            if played > at_most or played > seconds and (self.fault[0] or self.struck_enough()) and self.done_enough():
                break
            for actor in self.actors:
                if actor.worker and not actor.worker.alive():
                    actor.worker.reap()
                    self.finished(actor.worker)
                if not actor.worker and actor.role != "operator" and actor.due <= time.monotonic():
                    self.start(actor)
            for due, worker in list(paused):
                if due < time.monotonic():
                    worker.go_on()
                    paused.remove((due, worker))
            self.act(paused)
            self.watch(self.random.random() * 0.02)
        for _, worker in paused:
            worker.go_on()
        self.end_all("publisher")
        self.end_all("putter")
        self.end_all("appender")
        self.end_all("operator")
        self.end_all("worker")  # their logs may be nearly full, so new workers empty the queues
        self.start_all("server")  # they answer the calls that are under way
        self.end_all("caller")
        self.end_all("server")
        for actor in self.actors:
            while actor.role in LAST and not actor.worker:
                self.start(actor)
                time.sleep(0.001)
        late = time.monotonic() + 10
        for worker in [a.worker for a in self.actors if a.role == "worker"]:
            while worker.alive() and not seat(worker) and time.monotonic() < late:
                time.sleep(0.001)  # a worker that is told to end before it has its slot would do nothing
        self.until_served(late)
        self.end_all()

    def start_all(self, role):
        for actor in self.actors:
            while actor.role == role and not actor.worker:
                self.start(actor)
                time.sleep(0.001)

    def until_served(self, late):
        """Waits until each service has a server, which handles the remaining requests."""
        for channel in {a.channel for a in self.actors if a.role == "server"}:
            mine = [a.worker for a in self.actors if a.role == "server" and a.channel == channel]
            while not any(is_seated(worker) for worker in mine) and time.monotonic() < late:
                time.sleep(0.001)

    def end_all(self, role=None):
        """Tells all of a role to end, and waits for it."""
        workers = [a.worker for a in self.actors if a.worker and (role is None or a.role == role)]
        for worker in workers:
            worker.final = role is None and not worker.side.stopping()
            worker.side.stop()
        late = time.monotonic() + 10
        for worker in workers:
            while worker.alive() and time.monotonic() < late:
                time.sleep(0.001)
            if worker.alive():
                actor = worker.actor
                self.errors.append(f"{worker.label} as {actor.role} {actor.name} does not end: {worker.phase()}")
                worker.process.kill()
            worker.reap()
            self.finished(worker)

    def close(self):
        """Ends all processes of this round."""
        for worker in [w for waiting in self.pool.values() for w in waiting] + [a.worker for a in self.actors]:
            if worker:
                worker.process.kill()
                worker.reap()
