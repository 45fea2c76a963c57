#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Interruptions that a process survives must not damage its channel: see README.md.

survivors.py [--language L]... [--scenario PREFIX]... [--part K/N] [--points]

--points prints each point, --part runs every N-th of them, from number K on. The last line is "N passed, N failed"."""

import argparse
import contextlib
import errno
import fcntl
import itertools
import os
import pathlib
import re
import signal
import struct
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from driver import ROOT, Refused, commands
from harness import Run, Wrong, equal, true
import survivors_journal
import survivors_queue
import survivors_service
import survivors_table
from tracer import OFD_GETLK, Ended, Tracer
from worlds import nothing, scenarios

LAYOUT = tomllib.loads((ROOT / "spec" / "layout.toml").read_text())
CODES = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "spec" / "api.md").read_text(), re.M))


@dataclass(frozen=True)
class Plan:
    """An event at a point of a request."""

    what: str
    error: int = 0
    action: str = ""

    def __str__(self):
        return self.what


def plans(scenario, language, point):
    for error in point.errors:
        yield Plan(errno.errorcode[error], error=error)
    if scenario.evictable:
        yield Plan("evicted and owned by another", action="evict")
    if language == "python" and not scenario.code:  # beside an error it may come when the peer answers already
        yield Plan("KeyboardInterrupt", action="signal")
    if scenario.prepare is not nothing and scenario.world.BESIDE:  # with a channel
        yield Plan("closed by another thread", action="close")
        other = "interrupt" if language == "java" else "fork"
        yield Plan({"interrupt": "interrupted", "fork": "forked"}[other], action=other)


def locks(world):
    """Returns the names of the locked bytes."""
    return world.locks() if hasattr(world, "locks") else locks_of_channel(world.path)


def locks_of_channel(path):
    control = LAYOUT["header"]
    found = set()
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return found
    try:
        header = os.pread(fd, 4096, 0)
        at, publishers, subscribers = (
            int.from_bytes(header[control[name]["offset"] :][:size], "little")
            for name, size in (("control_offset", 8), ("publishers", 4), ("subscribers", 4))
        )
        bytes_ = {"control": at}
        slots = at + LAYOUT["control"]["slots"]
        bytes_ |= {f"publisher {k}": slots + 256 * k for k in range(publishers)}
        bytes_ |= {f"subscriber {j}": slots + 256 * (publishers + j) for j in range(subscribers)}
        for name, byte in bytes_.items():
            answer = fcntl.fcntl(fd, OFD_GETLK, struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
            if struct.unpack("hhxxxxqqixxxx", answer)[0] != fcntl.F_UNLCK:
                found.add(name)
    finally:
        os.close(fd)
    return found


def held_files(pid, folder):
    """Returns the files in a folder of which a process has descriptors, and those of which it has mappings."""
    descriptors = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            descriptors.append(os.readlink(link))
        except OSError:
            pass  # the descriptor of this listing, or one that was just closed
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    mappings = [line.split(maxsplit=5)[5] for line in maps if str(folder) in line]
    return {"descriptors": [file for file in descriptors if file.startswith(str(folder))], "mappings": mappings}


def threads(pid):
    """Returns the names of a process's threads, their states, and where the kernel holds them."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name, state = (task / "comm").read_text().strip(), (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
            found.append(f"{name} {state} {(task / 'wchan').read_text()}")
    return "threads: " + ", ".join(found)


def holdings(pid, folder):
    """Returns how many descriptors and mappings of files in a folder a process has."""
    return {what: len(files) for what, files in held_files(pid, folder).items()}


class Beside:
    """Another thread of the victim, which acts while the first one is stopped. Its FIFOs are outside of the channels'
    folder, because it may still have them open when the victim's descriptors are counted."""

    def __init__(self, victim, what):
        self.folder = tempfile.TemporaryDirectory(prefix="flyring-beside-")
        self.path = path = pathlib.Path(self.folder.name) / "beside"
        for end in (".go", ".done"):
            os.mkfifo(f"{path}{end}")
        self.pid, self.acted = victim.pid, False
        victim.call("beside", channel="v", do=what, fifo=str(path))
        self.answer, self.done = os.open(f"{path}.done", os.O_RDONLY | os.O_NONBLOCK), b""

    def act(self, world):
        self.acted = True
        with open(f"{self.path}.go", "wb") as go:
            go.write(b"!")
        self.wait(0.02)  # it may wait for the first thread, and act when that one goes on

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while not self.done and time.monotonic() < deadline:
            try:
                self.done = os.read(self.answer, 1)
            except BlockingIOError:
                pass
            if not self.done:
                time.sleep(0.0005)

    def end(self):
        self.wait(30)  # a JVM has stood still for more than 5 s here
        found = self.done or f"no answer in 30 s; {threads(self.pid)}"
        os.close(self.answer)
        self.folder.cleanup()
        true("the other thread does it, or gets an error of Flyring", self.done in (b"o", b"e"), found)


class Fewer(Wrong):
    """The request ended before the point of the round, or has another system call there."""


class Survivors:
    def __init__(self, run, language):
        self.run, self.language = run, language
        self.rounds = 0

    def request(self, scenario, world, again=False):
        fields = {k: v for k, v in scenario.fields.items() if k != "more"}
        if more := scenario.fields.get("more"):
            fields |= more(world)
        if again and scenario.takes:
            owners = ("publisher", "subscriber", "worker", "server", "client", "writer", "reader", "consumer")
            handle = scenario.op if scenario.op in owners else world.KIND
            handle = "subscriber" if scenario.op == "lossy_subscriber" else handle
            fields[handle] += "2"
        return fields

    def follow(self, scenario, world, **how):
        """Follows a request. Returns its points, and the answer or the error's code."""
        victim, fields = world.victim, self.request(scenario, world)
        tracer = Tracer(victim.pid, self.run.folder)
        sequence = world.sequence
        try:
            points = tracer.follow(lambda: victim.send(scenario.op, **fields), **how)
        except Ended as e:
            raise Wrong(str(e)) from None
        at = how.get("at")
        if at is not None and (len(points) <= at or points[at].name != how["name"]):
            world.failing = None  # nothing has failed
        code, answer = self.answer(victim.receive)
        world.note(scenario, sequence, code, answer)
        return points, code

    @staticmethod
    def answer(call):
        """Returns None and the answer, or the error's code and None."""
        try:
            return None, call()
        except Refused as e:
            if e.code not in CODES and e.code not in ("bad-request", "interrupted"):
                raise Wrong(f"expected an answer or one of Flyring's errors, found: {e}") from None
            return e.code, None

    def peers(self, scenario):
        """Returns the victim and the observer, which has another language if that has all needed ops."""
        observer = self.language if scenario.world.OBSERVER == "its own" else scenario.world.OBSERVER
        return self.run.peer(self.language), self.run.peer(observer, 2)

    def baseline(self, scenario):
        """Returns the points of an undisturbed request, the locked bytes, and the victim's holdings before and
        after."""
        with scenario.world(self.run, *self.peers(scenario)) as world:
            scenario.prepare(world)
            before = locks(world), holdings(world.victim.pid, self.run.folder)
            points, code = self.follow(scenario, world)
            equal("the answer", code, scenario.code)
            after = locks(world), holdings(world.victim.pid, self.run.folder)
            self.end(scenario, world)
            self.check_end(scenario, world)
        return points, before, after

    def round(self, *what):
        """Does one round; again with other peers, at most ten times, if the request ended before the point. A wait
        looks less often if the machine is slow."""
        for left in reversed(range(11)):
            try:
                return self.one_round(*what)
            except Fewer:
                if not left:
                    raise
                self.run.start_over()  # its peers still have what it has opened
        return None

    def one_round(self, scenario, point, plan, before, after):
        self.rounds += 1
        with scenario.world(self.run, *self.peers(scenario)) as world:
            scenario.prepare(world)
            then = {"": None, "evict": self.evict, "signal": self.signal}.get(plan.action)
            if plan.action and then is None:
                beside = Beside(world.victim, plan.action)
                then = beside.act
            world.failing = (point.name, plan.error) if plan.error else None
            points, code = self.follow(
                scenario, world, at=point.n, name=point.name, error=plan.error, then=then and (lambda: then(world))
            )
            if isinstance(getattr(then, "__self__", None), Beside):
                if not beside.acted:  # the request ended before the point; the thread must not wait any longer
                    beside.act(world)
                beside.end()
            if len(points) <= point.n or (plan.error and points[point.n].name != point.name):
                raise Fewer(f"expected point {point}, found a request of {len(points)} points")
            locked = locks(world) - getattr(world, "reowned", set())
            true("nobody holds the control lock", "control" not in locked, locked)
            allowed = {"before": before, "after": after}
            held = holdings(world.victim.pid, self.run.folder)
            expected = [before, after] if plan.action or code != scenario.code or scenario.op == "close" else [after]
            if not any(locked <= b[0] | after[0] and self.at_most(held, b[1]) for b in expected):
                raise Wrong(
                    f"after {code or 'its success'}: expected locks and holdings of {allowed}, found {locked}, {held}"
                )
            if not scenario.once:
                self.again(scenario, world, code)
            self.end(scenario, world)
            self.check_end(scenario, world)

    def at_most(self, found, expected):
        """Compares holdings. Java unmaps only at garbage collections, so its mappings are checked at the end."""
        return all(found[k] <= expected[k] for k in found if k != "mappings" or self.language != "java")

    def left(self, victim):
        """Returns what the victim holds after it has closed everything."""
        deadline = time.monotonic() + 5
        while True:
            victim.call("hello", collect=True)
            held = held_files(victim.pid, self.run.folder)
            if not any(held.values()) or self.language != "java" or time.monotonic() > deadline:
                return held

    def evict(self, world):
        """Gives the victim's slot to another owner while the victim is stopped in the middle of its request."""
        if "control" not in locks(world):  # else this would wait for the victim
            world.observer.call("evict", channel="o", slot=world.EVICTED)

    def signal(self, world):
        os.kill(world.victim.pid, signal.SIGINT)

    def again(self, scenario, world, code):
        """Checks that the object works, or raises the right error."""
        victim = world.victim
        fields = self.request(scenario, world, again=True)
        sequence = world.sequence
        code, answer = self.answer(lambda: victim.call(scenario.op, **fields))
        world.note(scenario, sequence, code, answer)

    def end(self, scenario, world):
        """Closes everything, as a user would."""
        victim = world.victim
        for kind, handle in list(victim.open_handles):
            code, _ = self.answer(lambda kind=kind, handle=handle: victim.call("close", **{kind: handle}))
            if code not in scenario.world.CLOSES:
                raise Wrong(f"expected close of the {kind} to work, found {code}")

    def check_end(self, scenario, world):
        victim = world.victim
        equal("what the victim still holds", self.left(victim), {"descriptors": [], "mappings": []})
        locked = locks(world)
        true("only the observer's slots are locked", locked <= world.EXPECTED, locked)
        world.check(scenario)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", action="append")
    parser.add_argument("--scenario", action="append", default=[])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--points", action="store_true")
    arguments = parser.parse_args()
    logs = ROOT / "build" / "log" / "survivors"
    logs.mkdir(parents=True, exist_ok=True)
    run = Run(commands(), logs)
    k, n = (int(word) for word in arguments.part.split("/"))
    turn, rounds = itertools.count(), 0
    try:
        for language in arguments.language or run.commands:
            survivors, every = Survivors(run, language), [*scenarios(), *survivors_queue.scenarios()]
            # Not in the whole run, because they are as many as all others: ./dev runs another part of them.
            for module in (survivors_journal, survivors_table):
                kind = module.__name__.removeprefix("survivors_")
                if any(prefix.startswith(kind) for prefix in arguments.scenario):
                    every += module.scenarios()
            if "server" in run.peer(language).hello["ops"]:
                every += survivors_service.scenarios()
            else:
                print(f"skip  {language}: services, which its peer has not", flush=True)
            for scenario in every:
                if arguments.scenario and not scenario.name.startswith(tuple(arguments.scenario)):
                    continue
                title = f"{language}: {scenario.name}"
                found = run.test(title, lambda run, s=survivors, c=scenario: s.baseline(c))
                if found is None:
                    continue
                points, before, after = found
                print(f"      {len(points)} points" + (": " + ", ".join(map(str, points)) if arguments.points else ""))
                for point in points:
                    for plan in plans(scenario, language, point):
                        if next(turn) % n != k:
                            continue
                        result, wrong = run.attempt(
                            lambda s=survivors, c=scenario, p=point, q=plan: s.round(c, p, q, before, after)
                        )
                        rounds += 1
                        if wrong:
                            run.failed.append(f"{title}, {point}, {plan}: {wrong}")
                            print(f"FAIL  {run.failed[-1]}", flush=True)
                        else:
                            run.passed += 1
    finally:
        run.end()
    print(f"{rounds} rounds")
    print(f"{run.passed} passed, {len(run.failed)} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
