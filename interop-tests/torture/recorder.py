#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture of `flyring record`, in rounds of ten seconds. Publishers of all languages on one channel are
killed, stopped, continued and restarted, and so are two recorders of it, a kept and a lossy one. At the end each
message counts: the kept recording has each one that was acknowledged, once and in order, and none that was not
published. The lossy one has the same messages; between two of them as many are missing as its losses there say.

    recorder.py [--seconds 5] [--seed N] [--languages cpp,java,python]

Each round then changes what it has read, by each of FAULTS, which must be noticed. The last line is `N passed, N
failed`."""

import argparse
import collections
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import flyring
from chaos import Actor
from flyring.cli.recording import Lost, Recorded, recorded
from parent import die_with_parent
from sessions import published_by
from torture import ROUND, commands, keep, round_folder
from worker import Worker

CHANNEL = {"kind": "broadcast", "capacity": 32768, "alignment": 64, "publishers": 3, "subscribers": 3, "counters": 1024}
NAMES = ("orders", "prices", "news")
WAIT = 60  # s: a busy machine
LEAST, FEWEST = 3, 10  # kills of each recorder, messages of each ring
ROOM = 24 << 20  # bytes: with less left in the folder, nothing more is published. Containers often have 64 MiB there
FAULTS = ("drop", "twice", "miscount")
MESSAGE = struct.Struct("<IIqqq")  # WORKER.md


class Recorder:
    """`flyring record`, started again after each kill."""

    def __init__(self, channel, journal, *options):
        self.command = [
            sys.executable,
            "-m",
            "flyring.cli",
            "record",
            channel,
            "--to",
            journal,
            "--segment-size",
            "64k",
        ]
        self.command += ["--quiet", *options]
        self.journal, self.kills, self.stopped, self.output = journal, 0, False, journal.with_suffix(".stderr")
        self.start()

    def start(self):
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(self.command, stderr=output, preexec_fn=die_with_parent)

    def stop(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        self.stopped = True

    def go_on(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.stopped = False

    def kill(self):
        self.process.kill()
        self.process.wait(WAIT)
        self.kills, self.stopped = self.kills + 1, False

    def alive(self):
        """Whether it runs. Raises RuntimeError if it has ended by itself."""
        if self.process.poll() not in (None, -signal.SIGKILL):
            raise RuntimeError(f"the recorder ended: {self.process.returncode}: {self.output.read_text()[-500:]}")
        return self.process.returncode is None

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(WAIT)


class Publishers:
    """A role for each name, which workers of any language play one after another."""

    def __init__(self, known, folder, channel, dice):
        self.known, self.folder, self.channel, self.dice = known, folder, channel, dice
        self.actors, self.lives, self.errors, self.number = [Actor(0, "publisher", name) for name in NAMES], [], [], 0
        self.kills = collections.Counter()

    def start(self, actor):
        language = self.dice.choice(sorted(self.known))
        self.number += 1
        worker = Worker(language, self.known[language], self.folder, self.number)
        worker.order(
            actor, role=actor.role, channel=self.channel, name=actor.name, seed=self.dice.getrandbits(32),
            side=worker.side.path, recovering=int(actor.killed), resuming=int(actor.again), max_lag=0, fault="",
        )  # fmt: skip
        actor.worker, actor.again = worker, True

    def finished(self, actor):
        worker, actor.worker = actor.worker, None
        actor.killed = bool(worker.killed)
        self.kills[worker.language] += bool(worker.killed)
        if not worker.killed and worker.process.returncode != 0:
            self.errors.append(f"{worker.label}: {worker.process.returncode}: {worker.stderr_path.read_text()[-400:]}")
        self.lives.append(worker.life())
        worker.side.close()

    def kill(self, actor):
        actor.worker.kill()
        self.finished(actor)

    def look(self, more):
        """Notes which have ended. `more`: starts others in their place."""
        for actor in self.actors:
            if actor.worker and not actor.worker.alive():
                actor.worker.reap()
                self.finished(actor)
            if more and not actor.worker:
                self.start(actor)

    def say_stop(self):
        for actor in self.actors:
            if actor.worker:
                actor.worker.go_on()
                actor.worker.side.stop()

    def end(self):
        self.say_stop()
        for actor in self.actors:
            if actor.worker:
                actor.worker.process.wait(WAIT)
                actor.worker.reap()
                self.finished(actor)


def play(seconds, publishers, recorders, dice, channel):
    """Kills, stops and continues, until the time is up, each recorder was killed often enough, and each ring has
    messages."""

    def enough():
        often = min(recorder.kills for recorder in recorders) >= LEAST
        return often and min(ring.messages for ring in channel.stats().publishers) > FEWEST

    begin, full = time.monotonic(), False
    while (played := time.monotonic() - begin) < seconds or played < WAIT and not enough():
        if not full and shutil.disk_usage(publishers.folder).free < ROOM:
            full = True
            publishers.say_stop()
        publishers.look(more=not full)
        for recorder in recorders:
            if not recorder.alive():
                recorder.start()
        choice, recorder, actor = dice.random(), dice.choice(recorders), dice.choice(publishers.actors)
        if choice < 0.1 and recorder.journal.exists() and (recorder.journal / "control").exists():
            recorder.kill()
        elif choice < 0.2:
            recorder.go_on() if recorder.stopped else recorder.stop()
        elif full:
            pass
        elif choice < 0.35:
            publishers.kill(actor)
        elif choice < 0.5:
            actor.worker.go_on() if actor.worker.stopped else actor.worker.stop()
        time.sleep(dice.random() * 0.15)
    for recorder in recorders:
        if recorder.stopped:
            recorder.go_on()
        if not recorder.alive():
            recorder.start()


def read(journal, fault, dice, unknown=()):
    """Returns what is in a recording, by ring: (epoch, sequence) of a message, or how many were lost there. `unknown`:
    (0,) if a sender may be unknown, as behind a loss (channel.md 6.14)."""
    rings = collections.defaultdict(list)
    with flyring.Journal.open(str(journal), read_only=True) as opened:
        for one in recorded(opened):
            if isinstance(one, Recorded):
                _, length, _, epoch, sequence = MESSAGE.unpack_from(one.payload)
                if length != len(one.payload) or one.epoch not in (epoch, *unknown):
                    rings[one.ring].append(("torn", one.at))
                elif sequence >= 0:
                    rings[one.ring].append((epoch, sequence))
            elif isinstance(one, Lost):
                rings[one.ring].append(one.messages)
    for ring in rings.values():
        if not fault or len(ring) < 3:
            continue
        at = dice.randrange(1, len(ring) - 1)
        if fault == "drop":
            del ring[at]
        elif fault == "twice":
            ring.insert(at, ring[at])
        elif fault == "miscount":
            ring.insert(at, 1)
    return rings


def check_kept(rings, lives):
    """Yields what is wrong with a recording that must have everything."""
    owners = collections.defaultdict(dict)
    for life in lives:
        for owner in published_by(life):
            owners[owner.ring][owner.epoch] = owner
    for ring in sorted({*owners, *rings}):
        expected, found = [], rings.get(ring, [])
        counts = collections.Counter(one[0] for one in found if isinstance(one, tuple))
        for epoch, owner in sorted(owners[ring].items()):
            if not owner.acknowledged <= counts[epoch] <= owner.attempted:
                yield (
                    f"ring {ring}, epoch {epoch}: {counts[epoch]} messages are recorded, {owner.acknowledged} were "
                    f"acknowledged, {owner.attempted} attempted"
                )
            expected += [(epoch, sequence) for sequence in range(counts[epoch])]
        if found != expected:
            at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
            yield f"ring {ring}, record {at}: {found[at : at + 2]} are recorded, {expected[at : at + 2]} expected"


def check_lossy(rings, kept):
    """Yields what is wrong with a recording that may have losses, by one that has none."""
    for ring, expected in sorted(kept.items()):
        first = next(iter(rings.get(ring, [])), None)
        at = expected.index(first) if first in expected else 0  # what came before the ring was known is not counted
        for one in rings.get(ring, []):
            if isinstance(one, int):
                at += one
            elif at < len(expected) and one == expected[at]:
                at += 1
            else:
                yield f"ring {ring}: {one} is recorded, {expected[at : at + 1]} expected behind the losses before it"
                break
        else:
            if at != len(expected):
                yield f"ring {ring}: {at} messages are recorded or lost, {len(expected)} were published"


def judged(kept, lossy, fault, dice, lives):
    """Returns what is wrong with the two recordings, and what is in them."""
    kept = read(kept.journal, "" if fault == "miscount" else fault, dice)
    lossy = read(lossy.journal, fault, dice, (0,))
    wrong = [f"kept: {text}" for text in check_kept(kept, lives)]
    return wrong + [f"lossy: {text}" for text in check_lossy(lossy, kept)], kept, lossy


def torture(known, seconds, seed, folder):
    """Plays, and returns what is wrong."""
    dice = random.Random(seed)
    path = folder / "channel.ring"
    with flyring.Channel.create(str(path), **CHANNEL) as channel:
        channel.counters().allocate("common")
        recorders = [
            Recorder(path, folder / "kept.journal"),
            Recorder(path, folder / "lossy.journal", "--lossy", "--since-start"),
        ]
        publishers = Publishers(known, folder, path, dice)
        until(lambda: recorders[0].alive() and any(one.state == "live" for one in channel.stats().subscribers))
        until(lambda: recorders[1].alive() and (folder / "lossy.journal" / "control").exists())
        play(seconds, publishers, recorders, dice, channel)
        publishers.end()
        until(lambda: all(gate.lag == 0 for one in channel.stats().subscribers for gate in one.gates))
        kept = read(recorders[0].journal, "", dice)
        try:
            until(lambda: not any(check_lossy(read(recorders[1].journal, "", dice, (0,)), kept)), 10)
        except TimeoutError:
            pass  # the check below says what is wrong
        for recorder in recorders:
            recorder.end()
    found, kept, lossy = judged(*recorders, "", dice, publishers.lives)
    lost = sum(one for ring in lossy.values() for one in ring if isinstance(one, int))
    print(
        f"{sum(map(len, kept.values()))} messages, {lost} lost by the lossy recorder; kills: "
        f"{', '.join(f'{n} {language}' for language, n in sorted(publishers.kills.items()))}, "
        f"{recorders[0].kills} and {recorders[1].kills} recorders",
        flush=True,
    )
    wrong = publishers.errors + found
    wrong += [f"the recorder was killed {one.kills} times" for one in recorders if one.kills < LEAST]
    if min(map(len, kept.values()), default=0) < FEWEST or len(kept) != len(NAMES):
        wrong.append("too few messages")
    if not wrong:
        for fault in FAULTS:
            if not judged(*recorders, fault, dice, publishers.lives)[0]:
                wrong.append(f"{fault} was not noticed")
    return wrong


def until(done, seconds=WAIT):
    late = time.monotonic() + seconds
    while not done():
        if time.monotonic() > late:
            raise TimeoutError("it takes too long")
        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--languages", type=lambda text: text.split(","))
    options = parser.parse_args()
    rounds, failed = max(1, round(options.seconds / ROUND)), 0
    for number in range(rounds):
        seed, seconds = options.seed + number, min(options.seconds, ROUND)
        print(f"seed {seed}: ", end="", flush=True)
        with round_folder() as folder:
            wrong = torture(commands(options.languages, []), seconds, seed, folder)
            for text in wrong[:10]:
                print(f"FAIL  {text}")
            if wrong:
                keep(folder)
            else:
                shutil.rmtree(folder)
        failed += bool(wrong)
    print(f"{rounds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
