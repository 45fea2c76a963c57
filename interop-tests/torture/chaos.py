# SPDX-License-Identifier: Apache-2.0
"""One round of the torture: workers are started, stopped, continued, killed and replaced until the time is up; then the
publishers end, the subscribers read what is left, and every worker's side file is handed to the verifier."""

import collections
import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import time

from side import KEPT, LOSSY, OPERATOR, PUBLISHER, SUBSCRIBER, Life, Phase, Side

PHASES = {
    "publisher": PUBLISHER,
    "reliable": SUBSCRIBER,
    "kept": tuple(p for p in SUBSCRIBER if p != "joining") + KEPT,
    "lossy": LOSSY,
    "operator": OPERATOR,
}
POOLED = 2  # workers of each language that wait for orders


class Stuck(Exception):
    """A worker that does not end when it is told to."""


@dataclasses.dataclass
class Actor:
    """A place in the play; workers of any language follow each other in it."""

    channel: int
    role: str
    name: str
    worker: object = None
    killed: bool = False  # its last worker was
    again: bool = False  # it has had one


class Worker:
    """One process, waiting for its orders or at work."""

    def __init__(self, language, argv, folder, number):
        self.language, self.label = language, f"{language}-{number}"
        self.side, self.actor, self.stops, self.stopped = Side(folder / self.label), None, [], 0
        self.killed = self.ended = 0
        self.final = False  # the publishers had ended when it was told to
        self.stderr_path = folder / f"{self.label}.stderr"
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )

        os.setpriority(os.PRIO_PROCESS, self.process.pid, os.nice(0) + 5)  # who aims must be quicker

    def ready(self):
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def order(self, actor, **orders):
        self.actor, self.begun = actor, time.monotonic_ns()
        line = " ".join(f"{k}={v}" for k, v in orders.items())
        with contextlib.suppress(BrokenPipeError):  # its status will say why
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def phase(self):
        return Phase(self.side.phase()).name if self.side.phase() else ""

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        """SIGSTOP; true once it stands still, false if it had ended."""
        self.stopped = time.monotonic_ns()
        os.kill(self.process.pid, signal.SIGSTOP)
        status = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if status.si_code != os.CLD_STOPPED:
            self.stopped = 0
        return self.stopped != 0

    def go_on(self):
        if self.stopped and self.alive():
            os.kill(self.process.pid, signal.SIGCONT)
            os.waitid(os.P_PID, self.process.pid, os.WCONTINUED | os.WEXITED | os.WNOWAIT)
            self.stops.append((self.stopped, time.monotonic_ns()))
        self.stopped = 0

    def kill(self):
        self.killed = time.monotonic_ns()
        self.process.kill()
        self.reap()

    def reap(self):
        self.process.wait(10)
        self.ended = time.monotonic_ns()
        if self.stopped:
            self.stops.append((self.stopped, self.ended))
        if self.process.returncode != -signal.SIGKILL:
            self.killed = 0  # it was faster
        with contextlib.suppress(BrokenPipeError):  # orders that it never read
            self.process.stdin.close()
        self.process.stdout.close()

    def life(self):
        actor = self.actor
        return Life(
            f"{self.label} as {actor.role} {actor.name}",
            actor.role,
            self.language,
            actor.channel,
            self.side.entries(),
            self.side.attempted(),
            self.side.phase(),
            self.killed,
            self.ended,
            tuple(self.stops),
            self.final,
        )


class Round:
    """Workers of one round on channels that exist already."""

    def __init__(self, commands, folder, channels, actors, random, kills, fault=("", "")):
        self.commands, self.folder, self.channels, self.actors, self.random = commands, folder, channels, actors, random
        self.fault = fault  # name, and the role or language that has it
        self.pool = {language: collections.deque() for language in commands}
        self.done, self.errors, self.kills = [], [], kills
        self.pauses, self.number = 0, 0

    # Workers

    def fill_pool(self):
        for language, waiting in self.pool.items():
            while len(waiting) < POOLED:
                self.number += 1
                waiting.append(Worker(language, self.commands[language], self.folder, self.number))

    def take(self):
        """A worker that waits for orders, of the language with the fewest kills; None if none is ready."""
        self.fill_pool()
        losses = collections.Counter()
        for (_, language), n in self.kills.items():
            losses[language] += n
        for language in sorted(self.pool, key=lambda each: (losses[each], self.random.random())):
            for worker in self.pool[language]:
                if worker.ready():
                    self.pool[language].remove(worker)
                    return worker
                if not worker.alive():
                    raise Stuck(f"{worker.label} ended before it was ready: {worker.stderr_path.read_text()}")
        return None

    def start(self, actor, **more):
        """Gives a worker this part to play, if one is ready."""
        worker = self.take()
        if not worker:
            return None
        fault = self.fault[0] if self.fault[1] in (worker.language, actor.role) else ""
        worker.order(
            actor,
            role=actor.role,
            channel=self.channels[actor.channel],
            name=actor.name,
            id=1 + self.actors.index(actor),
            seed=self.random.getrandbits(32),
            side=worker.side.path,
            recovering=int(actor.killed),
            resuming=int(actor.again),
            fault=fault,
            **more,
        )
        actor.worker, actor.again = worker, True
        return worker

    def finished(self, worker):
        """It has been reaped: counted, kept for the verifier."""
        actor = worker.actor
        if worker.killed:
            self.kills[worker.phase() or "starting up", worker.language] += 1
        elif worker.process.returncode != 0:
            words = worker.stderr_path.read_text(errors="replace")[-400:].strip()
            self.errors.append(f"{worker.label} as {actor.role} {actor.name}: {worker.process.returncode}: {words}")
        actor.worker, actor.killed = None, bool(worker.killed)
        self.done.append(worker)

    # What happens to them

    def evict(self, actor):
        """An operator takes a slot away from whoever has it."""
        slots = [a for a in self.actors if a.channel == actor.channel and a.role in ("reliable", "kept")]
        self.start(actor, slot=self.random.randrange(len(slots)))

    def wanted(self):
        """The cells of the table (phase, language) to strike next: phases without a kill, then cells without one, then
        those with the fewest."""
        cells = sorted({(p, language) for a in self.actors for p in PHASES[a.role] for language in self.commands})
        phases = collections.Counter()
        for (phase, _), n in self.kills.items():
            phases[phase] += n
        missing = [c for c in cells if not phases[c[0]]]
        fewest = min(self.kills[c] for c in cells)
        return missing or [c for c in cells if self.kills[c] == fewest]

    def watch(self, seconds):
        """Looks at all workers until one seems to be in a wanted phase, stops it, and kills it if it really is: what a
        stopped process has written is what it was doing."""
        numbers = collections.defaultdict(set)
        for phase, language in self.wanted():
            numbers[language].add(Phase[phase].value)
        workers = [a.worker for a in self.actors if a.worker and not a.worker.stopped]
        targets = [(w.side.words, numbers[w.language], w) for w in workers]
        late = time.monotonic() + seconds
        while time.monotonic() < late:
            for words, phases, worker in targets:
                if words[0] in phases and worker.alive():
                    if worker.stop() and words[0] in phases:
                        self.strike(worker)
                        return
                    worker.go_on()

    def strike(self, worker):
        worker.kill()
        self.finished(worker)

    def act(self, paused):
        dice = self.random.random()
        busy = [a.worker for a in self.actors if a.worker and a.worker.phase() and not a.worker.stopped]
        busy = [worker for worker in busy if worker.alive()]
        operators = [a for a in self.actors if a.role == "operator" and not a.worker]
        if dice < 0.1 and busy:
            self.strike(self.random.choice(busy))
        elif operators and (dice < 0.13 or self.wanted()[0][0] == "evicting"):
            self.evict(self.random.choice(operators))
        elif dice < 0.4 and busy:
            worker = self.random.choice(busy)
            if worker.stop():
                self.pauses += 1
                paused.append((time.monotonic() + self.random.random() * 0.06, worker))
        elif dice < 0.45 and busy:
            self.random.choice(busy).side.stop()

    def run(self, seconds, at_most):
        """Plays for so many seconds; longer, if there is a phase without a kill."""
        begin, paused = time.monotonic(), []
        while True:
            played = time.monotonic() - begin
            if played > at_most or played > seconds and all(self.kills[c] for c in self.wanted()):
                break
            for actor in self.actors:
                if actor.worker and not actor.worker.alive():
                    actor.worker.reap()
                    self.finished(actor.worker)
                if not actor.worker and actor.role != "operator":
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
        for actor in self.actors:
            while actor.role == "kept" and not actor.worker:
                self.start(actor)
                time.sleep(0.001)
        self.end_all()

    def end_all(self, role=None):
        """Tells all of a role to end, and waits for it."""
        workers = [a.worker for a in self.actors if a.worker and (role is None or a.role == role)]
        for worker in workers:
            worker.side.stop()
            worker.final = role is None
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
        """No process of this round is left."""
        for worker in [w for waiting in self.pool.values() for w in waiting] + [a.worker for a in self.actors]:
            if worker:
                worker.process.kill()
                worker.reap()
