#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks for lost wake-ups: every language against every other one, with one message outstanding, so that no later
message wakes a sleeper.

    sleeping.py [--waits 100000] [--only TEXT] [--part K/N] [--languages A,B] [--peer LANGUAGE=COMMAND] [--logs FOLDER]

The peers do `ping_pong` (PEER.md), and then, with a service, `call_many` and `serve_many`, one call after the other.
Last they do `ping_pong` with a table: each puts its key, and waits until the other one's has changed. They go on until
both together have begun to sleep for --waits messages. In some runs both sleep for each message, which takes long,
because the other one has to wake up. In others one of them always spins, and its answer comes while the other one falls
asleep. In the rest both spin for about as long as a message takes. The two threads run on different cores, because
stores overtake loads only between cores.

A lost wake-up differs from a busy machine as follows. One of the two peers always has something to do. So if both are
asleep for 40 ms without a context switch, a wake-up was lost: a thread that was woken or preempted is runnable, not
asleep. The watch, a thread of this program, sees this on a busy machine, too. If the peers report no late message, no
wake-up was lost. Late messages without a finding of the watch are caused by the machine: they do not count, and are
replaced.

Each pair begins with a test of the watch: it must see a lost wake-up that this program plants by clearing `data_asleep`
while a reader sleeps.

The last line is `N passed, N failed`; the exit status is 0 if none failed and some passed."""

import argparse
import itertools
import os
import pathlib
import random
import shlex
import signal
import sys
import threading
import time

from driver import ROOT, commands
from harness import Run, Skip, Wrong, equal, part, true
from sleepers import File, TableFile, serving

MESSAGES = 3000  # messages each way per request
LATE = 50_000_000  # ns; without a wake, a sleeper looks after 100 ms
LOOK, STUCK = 0.01, 0.04  # seconds between two looks of the watch, and seconds asleep that count as a lost wake-up
AWAKE = 1_000_000  # ns: a spin longer than any answer takes
MOST_AGAIN = 20  # how many requests of a pair may be repeated because of a busy machine
OPTIONS = {"kind": "broadcast", "capacity": 4096, "publishers": 2, "subscribers": 2, "counters": 0}


class Watch:
    """Looks at the threads of a pair until it is told to end. Finds lost wake-ups: both threads are asleep in the same
    futex calls for too long. An idle peer sleeps too, but in a read."""

    def __init__(self, *threads):
        self.threads, self.lost, self.ended = threads, 0, threading.Event()
        self.looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self.looking.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.looking.join()

    def _look(self):
        since, before, seen = 0.0, None, False
        while not self.ended.wait(LOOK):
            now = time.monotonic()
            try:
                states = [thread.state() for thread in self.threads]
                sleeps = [count for _, count in states]
                asleep = all(state == "S" for state, _ in states) and not any(t.others_run() for t in self.threads)
                if not asleep or sleeps != before:
                    since, before, seen = now, sleeps, False
                elif now - since >= STUCK and not seen and all(thread.in_futex() for thread in self.threads):
                    seen = [thread.switches() for thread in self.threads] == sleeps
                    self.lost += seen
            except OSError:
                return  # a peer has ended, which its next request reports


class Pair:
    """Two peers with a ring in each direction."""

    ASLEEP = 0, 0  # ns that each looks before it sleeps, in `begin`: both sleep for each message
    FEWER = 1  # what --waits is divided by

    def __init__(self, run, first, second):
        self.run = run
        self.peers = a, b = run.peer(first, 1), run.peer(second, 2)
        self.name = name = run.name("sleeping")
        a.call("create", channel=name, name=name, **OPTIONS)
        b.call("open", channel=name, name=name)
        rings = [peer.call("publisher", channel=name, publisher=name)["ring"] for peer in self.peers]
        for peer, ring in zip(self.peers, reversed(rings)):
            peer.call("subscriber", channel=name, subscriber=name, rings=[ring])
        self.threads = [serving(peer) for peer in self.peers]
        self.path = run.folder / f"{name}.ring"

    def __enter__(self):
        self.cores = sorted(os.sched_getaffinity(0))
        for n, thread in enumerate(self.threads):
            os.sched_setaffinity(thread.tid, {self.cores[n % len(self.cores)]})
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            try:
                os.sched_setaffinity(thread.tid, self.cores)
            except ProcessLookupError:
                pass

    def file(self):
        return File(self.path)

    def begin(self, count, *spins):
        fields = {"publisher": self.name, "subscriber": self.name, "count": count, "late": LATE, "seconds": 60}
        for n in (1, 0):  # the answering side begins first
            self.peers[n].send("ping_pong", first=n == 0, spin=spins[n], **fields)

    def play(self, count, *spins):
        """Sends so many messages each way. Returns (seconds, late messages, the longest in ns)."""
        self.begin(count, *spins)
        answers = [peer.receive(70) for peer in self.peers]
        for peer, answer in zip(self.peers, answers):
            equal(f"{peer.label}: messages", answer["count"], count)
        late, longest = sum(a["late"] for a in answers), max(a["longest"] for a in answers)
        return answers[0]["seconds"], late, longest

    def spins(self, random_, way):
        """Yields how long each of the two spins before it sleeps, in ns. `way`: a message's time when both sleep, in
        ns."""
        while True:
            yield 0, 0
            yield from ((0, AWAKE), (AWAKE, 0)) * 2  # fast, and without a membarrier most wake-ups are lost here
            yield random_.randrange(2 * way), random_.randrange(2 * way)

    def waits(self, spins):
        """Returns for how many of the two messages of a round a process begins to sleep."""
        return spins.count(0)

    def switches(self):
        return sum(thread.switches() for thread in self.threads)


class Changes(Pair):
    """Two processes that put single values into a table, and wait for each other's: for the change of a key, for any
    change, or for a key that is absent."""

    HOW = ("key", "table", "absent")
    ASLEEP = 60_000, 60_000  # ns that each is busy, so that the other one sleeps
    FEWER = 6  # because each wait takes longer

    def __init__(self, run, first, second):
        self.run, self.turn = run, 0
        self.peers = a, b = run.peer(first, 1), run.peer(second, 2)
        for peer in self.peers:
            if "wait_changed" not in peer.hello["ops"]:
                raise Skip(f"{peer.language} has no tables")
        self.name = name = run.name("changing")
        a.call("create", table=name, name=name, key="text", capacity=4, value_bytes=16)
        b.call("open", table=name, name=name)
        self.threads = [serving(peer) for peer in self.peers]
        self.path = run.folder / f"{name}.table"

    def file(self):
        return TableFile(self.path)

    def begin(self, count, *pauses):
        a, b = self.peers
        self.turn += 1
        a.call("clear", table=self.name)
        how = self.HOW[self.turn % len(self.HOW)]
        fields = {"table": self.name, "count": count, "late": LATE, "seconds": 60, "how": how}
        b.send("ping_pong", put="pong", get="ping", pause=pauses[1], **fields)
        a.send("ping_pong", put="ping", get="pong", pause=pauses[0], first=True, **fields)

    def spins(self, random_, _):
        """Yields how long each of the two is busy before it answers, in ns. In most runs that is about as long as the
        other one looks before it sleeps (20 us), so that the answer comes while it falls asleep."""
        while True:
            yield self.ASLEEP
            for _ in range(3):
                yield random_.randrange(5_000, 40_000), random_.randrange(5_000, 40_000)

    def waits(self, pauses):
        return 2 if pauses == self.ASLEEP else 1


class Calls(Pair):
    """A client and a server: each call is a message each way."""

    def __init__(self, run, first, second):
        self.run = run
        self.peers = a, b = run.peer(first, 1), run.peer(second, 2)
        for peer in self.peers:
            if "call_many" not in peer.hello["ops"]:
                raise Skip(f"{peer.language} has no services")
        self.name = name = run.name("calling")
        a.call("create", channel=name, name=name, kind="service", capacity=4096, clients=1, counters=0)
        b.call("open", channel=name, name=name)
        b.call("server", channel=name, server=name)
        a.call("client", channel=name, client=name)
        self.threads = [serving(peer) for peer in self.peers]
        self.path = run.folder / f"{name}.ring"

    def begin(self, count, *spins):
        a, b = self.peers
        b.send("serve_many", server=self.name, count=count, seconds=60, spin=spins[1])
        a.send("call_many", client=self.name, seed=1, count=count, min=8, max=24, spin=spins[0], late=LATE)

    def play(self, count, *spins):
        self.begin(count, *spins)
        called, served = [peer.receive(70) for peer in self.peers]
        equal("calls", (called["ends"], called["wrong"], served["count"]), ({"answer": count}, 0, count))
        return called["seconds"], called["late"], called["longest"]


WORDS = {Pair: "", Calls: ", calls", Changes: ", table"}


def planted(pair):
    """Clears the word `asleep` again and again, until both peers sleep until the cap."""
    with Watch(*pair.threads) as watch, pair.file() as file:
        for ring in (0, 1) if isinstance(file, File) else ():
            true("slots whose owners wake", file.wakes("publisher", ring) > 0, file.wakes("publisher", ring))
        pair.begin(2000, *pair.ASLEEP)
        late = time.monotonic() + 10
        while not watch.lost and time.monotonic() < late:
            for _ in range(50):
                file.forget_sleepers("data")
            time.sleep(0.0002)
        answers = [peer.receive(70) for peer in pair.peers]
    true("the watch sees a lost wake-up that was planted", watch.lost, watch.lost)
    true("a message that was late by it", sum(answer.get("late", 0) for answer in answers), answers)


def no_wake_up_is_lost(run, first, second, wanted, seed, kind=Pair):
    """Plays. Returns (waits, sleeps, messages, seconds, longest in ns, repetitions)."""
    random_, waits, slept, messages, total, longest, again = random.Random(f"{seed} {first} {second}"), *[0] * 6
    with kind(run, first, second) as pair:
        planted(pair)
        with Watch(*pair.threads) as watch:
            warm, _, _ = pair.play(MESSAGES, *pair.ASLEEP)  # warms Java and Python up, too
            for both in pair.spins(random_, max(1000, int(warm * 1e9 / MESSAGES / 2))):
                before = pair.switches()
                seconds, late, most = pair.play(MESSAGES, *both)
                if watch.lost:
                    text = f"looking or busy for {both} ns: {late} messages late, the longest {most / 1e6:.1f} ms"
                    raise Wrong(f"expected every sleeper to be woken; both slept with a message there, {text}")
                if late:
                    again += 1
                    true(f"at most {MOST_AGAIN} requests that the machine spoils", again <= MOST_AGAIN, again)
                    continue
                waits, slept = waits + MESSAGES * pair.waits(both), slept + pair.switches() - before
                messages, total, longest = messages + 2 * MESSAGES, total + seconds, max(longest, most)
                if waits >= wanted:
                    # On a busy machine most messages are there already.
                    true("they sleep", slept > waits // 1000, slept)
                    return waits, slept, messages, total, longest, again


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "log" / "sleeping")
    parser.add_argument("--waits", type=int, default=100_000, help="of each pair; a sixth of it with tables")
    parser.add_argument("--only", default="")
    parser.add_argument("--part", type=part, default=slice(None), metavar="K/N")
    parser.add_argument("--languages", type=lambda text: text.split(","))
    parser.add_argument("--peer", action="append", default=[], metavar="LANGUAGE=COMMAND")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    known = commands()
    known |= {name: shlex.split(command) for name, _, command in (other.partition("=") for other in options.peer)}
    options.logs.mkdir(parents=True, exist_ok=True)
    for old in options.logs.glob("*-*.*"):
        old.unlink()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if len(os.sched_getaffinity(0)) < 2:
        print("one core: stores do not overtake loads here, so most ways to lose a wake-up cannot be seen")
    run, begin, table = Run(known, options.logs), time.monotonic(), []
    print(f"seed {options.seed}", flush=True)
    try:
        for a, b in list(itertools.product(options.languages or known, repeat=2))[options.part]:
            for title, kind in (
                (f"{a} and {b} wake each other", Pair),
                (f"{a} calls {b}", Calls),
                (f"{a} and {b} change a table", Changes),
            ):
                if options.only in title:
                    result = run.test(title, no_wake_up_is_lost, a, b, options.waits // kind.FEWER, options.seed, kind)
                    table += [(f"{a}, {b}{WORDS[kind]}", *result)] if result else []
    finally:
        run.end()
    if table:
        print(f"\n{'pair':22}{'waits':>10}{'sleeps':>10}{'messages':>10}{'us each':>9}{'longest ms':>12}{'again':>7}")
    for title, waits, slept, messages, seconds, longest, again in table:
        each = seconds / messages * 1e6
        print(f"{title:22}{waits:10}{slept:10}{messages:10}{each:9.1f}{longest / 1e6:12.2f}{again:7}")
    for failure in run.failed:
        print(f"failed: {failure}")
    print(f"{time.monotonic() - begin:.0f} s; logs of the peers: {options.logs}")
    print(f"{run.passed} passed, {len(run.failed)} failed")
    return 0 if run.passed and not run.failed else 1


if __name__ == "__main__":
    sys.exit(main())
