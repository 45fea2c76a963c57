#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture, in rounds of ten seconds. Publishers and subscribers of all languages on three channels are
killed, stopped, continued and restarted. After each round, everything that they saw is checked against what was
published.

    torture.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--fault NAME:WHO] [--worker LANGUAGE=COMMAND]
    torture.py --faults [--seconds 10] [--seed N] [--languages ...] [--worker ...]

--fault: the workers of this role or language misbehave, which must be noticed (WORKER.md). --faults: at most three
rounds with each fault in each language, until it is noticed. --worker: a command instead of that in workers.toml.
The last line is `N passed, N failed`; on failure the files of the round are kept."""

import argparse
import collections
import collections.abc
import contextlib
import dataclasses
import fcntl
import json
import pathlib
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
import tomllib

import chaos
import numpy
import test_verify
from canary import Canaries
from counts import check_counters, read_counters
from verify import Verdict, verify

FOLDERS, FOLDER = pathlib.Path("/dev/shm"), "flyring-torture-"
ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUND, LONGEST = 10, 90  # seconds: the length of a round, and its limit if a needed event has not happened yet
FAULT_ROUNDS = 3  # in one round a fault may find no opportunity
LONGEST_WAIT, P99_WAIT = 50, 5  # ms, without the time lost to the machine
EVERY_LANGUAGE = 60  # seconds of torture after which every language must have been killed in every phase
LONGER = 3  # a longer run, at most so many times, because a busy machine gives fewer opportunities


@dataclasses.dataclass(frozen=True)
class Game:
    """The roles of a torture, and how it is judged."""

    text: str  # the text of --help
    channels: tuple  # the options of each channel
    actors: tuple  # arguments of chaos.Actor
    work: dict  # messages per second that each language must reach, by role
    rules: tuple
    faults: dict  # the rules of which one must find each planted fault
    judge: collections.abc.Callable  # lives of a channel, its number, path, verdict, gaps
    self_test: collections.abc.Callable  # (passed, failed)
    needs: str = ""  # a word of workers.toml that a language needs
    suffix: str = ".ring"  # of the channels' files


def commands(languages, others, needs=""):
    with open(pathlib.Path(__file__).with_name("workers.toml"), "rb") as file:
        entries = tomllib.load(file).items()
    known = {name: entry["command"] for name, entry in entries if not needs or needs in entry.get("plays", ())}
    known |= {name: shlex.split(command) for name, _, command in (other.partition("=") for other in others)}
    whole = {
        name: [str(ROOT / word) if "/" in word and not word.startswith("/") else word for word in command]
        for name, command in known.items()
    }
    return {name: whole[name] for name in languages or whole}


@contextlib.contextmanager
def round_folder():
    """Makes a folder for the files of a round. The folder is removed if the torture is told to end, and kept if the
    round fails. After a kill, the next run removes it, because the lock on its file `driver` is free."""
    for left in FOLDERS.glob(f"{FOLDER}*/driver"):
        with open(left, "rb") as file, contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent)
    folder = pathlib.Path(tempfile.mkdtemp(prefix=FOLDER, dir=FOLDERS))
    with open(folder / "driver", "xb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield folder
        except Exception:
            keep(folder)
            raise
        except BaseException:  # a signal
            shutil.rmtree(folder)
            raise


def keep(folder):
    """Keeps a folder for a later look, on a disk: shared memory is small, and the next suites need it."""
    (folder / "driver").unlink()
    logs = ROOT / "build" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    print(f"kept: {shutil.move(folder, logs)}", flush=True)


def keep_lives(folder, lives, verdict):
    """Writes what a later look needs beside the channels: each log, and what the driver knows of its process."""
    known = {}
    for life in lives:
        known[life.name] = {key: value for key, value in vars(life).items() if key != "entries"}
        numpy.save(folder / f"{life.name.replace(' ', '-')}.npy", life.entries)
    text = json.dumps({"failures": verdict.failures, "lives": known}, indent=1, default=int)
    (folder / "lives.json").write_text(text)


def play(game, known, seed, seconds, kills, fault, folder, every=True):
    """Plays one round. Returns its verdict, and the round."""
    dice = random.Random(seed)
    channels = [folder / f"channel-{i}{game.suffix}" for i in range(len(game.channels))]
    least = {role: 2 * rate * seconds for role, rate in game.work.items()}  # not every entry is a message
    play = chaos.Round(
        known, folder, channels, [chaos.Actor(*a) for a in game.actors], dice, kills, least, fault, every
    )
    verdict = Verdict()
    try:
        for i, options in enumerate(game.channels):
            creator = chaos.Actor(i, "creator", "creator")
            play.actors.append(creator)
            while not (worker := play.start(creator, **options)):
                time.sleep(0.001)
            worker.reap()
            play.finished(worker)
            play.actors.remove(creator)
        with Canaries(folder) as canaries:
            play.run(seconds, LONGEST)
        gaps = canaries.gaps()
        verdict.counts["ms taken by the host"] += round(sum(end - begin for begin, end in gaps) / 1e6)
        for i, path in enumerate(channels):
            mine = [life for life in play.done if life.channel == i and life.role != "creator"]
            game.judge(mine, i, path, verdict, gaps)
    finally:
        play.close()
    for error in play.errors:
        verdict.failures["errors"].append(error)
    verdict.counts["pauses (SIGSTOP)"] += play.pauses
    return verdict, play


def phases(game, kills, languages, every):
    """Prints the table: killed in a nap + killed at work. Returns the phases without a kill."""
    rows = dict.fromkeys(p for role in {a[1]: 0 for a in game.actors} for p in chaos.PHASES[role])
    print(f"\n{'killed while':14}" + "".join(f"{language:>12}" for language in languages) + "   napping + at work")
    missing, totals = [], collections.Counter()
    for phase in [*rows, "working", "starting up"]:
        numbers = [(kills[phase, language, True], kills[phase, language, False]) for language in languages]
        print(f"{phase:14}" + "".join(f"{f'{a} + {b}':>12}" for a, b in numbers))
        totals += collections.Counter(
            {(each, nap): n[not nap] for each, n in zip(languages, numbers) for nap in (True, False)}
        )
        sums = [a + b for a, b in numbers]
        if phase in rows and (not any(sums) or every and not all(sums)):
            missing.append(f"{phase}: {dict(zip(languages, sums))}")
    print(f"{'all':14}" + "".join(f"{f'{totals[each, True]} + {totals[each, False]}':>12}" for each in languages))
    return missing + [f"none was killed at work in {each}" for each in languages if not totals[each, False]]


def work(game, done, languages, seconds):
    """Prints the table of messages. Returns a text for each role that did too little."""
    print(f"\n{'messages':14}" + "".join(f"{language:>12}" for language in languages) + "   at least")
    for role, rate in game.work.items():
        line = "".join(f"{done[language, role]:12}" for language in languages)
        print(f"{role:14}{line}   {int(rate * seconds)}")
    return lacking(game, done, languages, seconds)


def lacking(game, done, languages, seconds):
    """Returns a text for each role that did too little."""
    return [
        f"{done[each, role]} messages of {role} in {each}, at least {int(rate * seconds)}"
        for role, rate in game.work.items()
        for each in languages
        if done[each, role] < int(rate * seconds)
    ]


def waits(dead_waits):
    """Prints how long dead readers held publishers back. Returns what is wrong with that."""
    if not dead_waits:
        return []
    ordered = sorted(dead_waits)
    p99, longest = ordered[len(ordered) * 99 // 100][0], ordered[-1][0]
    offers, looks = max(wait[1] for wait in ordered), max(wait[2] for wait in ordered)
    print(f"\nheld back by the dead: {len(ordered)} times, p99 {p99:.2f} ms, longest {longest:.2f} ms; ", end="")
    print(f"at most {offers} own offers, {looks} of them more than 1 ms after the one before")
    for language in sorted({wait[3].split("-")[0] for wait in ordered}):
        mine = [wait[0] for wait in ordered if wait[3].startswith(language)]
        print(f"   {language:8} {len(mine):5} times, median {mine[len(mine) // 2]:6.2f} ms, longest {mine[-1]:6.2f} ms")
    if longest > LONGEST_WAIT or p99 > P99_WAIT and len(ordered) >= 100:
        return [f"p99 {p99:.2f} ms, longest {ordered[-3:]}"]
    return []


def torture(game, known, options):
    """Runs the torture. Returns (passed, failed) of the rules."""
    counts, kills, done = (collections.Counter() for _ in range(3))
    dead_waits, failures = [], collections.defaultdict(list)
    played, number, enough, every = 0.0, 0, False, options.seconds >= EVERY_LANGUAGE
    while played < options.seconds - 1 or not enough and played < options.seconds * LONGER:
        seconds, seed = min(options.seconds, ROUND), options.seed + number
        with round_folder() as folder:
            verdict, round_ = play(game, known, seed, seconds, kills, options.fault, folder, every)
        played += round_.played
        for rule, texts in verdict.failures.items():
            failures[rule] += [f"seed {seed}: {text}" for text in texts]
        counts += verdict.counts
        done += verdict.work
        struck = not every or round_.struck_enough()
        enough = struck and not lacking(game, done, list(known), options.seconds)
        dead_waits += verdict.dead_waits
        number += 1
        wrong = ", ".join(rule for rule, texts in verdict.failures.items() if texts) or "ok"
        print(
            f"round of seed {seed}: {round_.played:.0f} s, {sum(verdict.work.values())} messages: {wrong}", flush=True
        )
        if wrong != "ok":
            for rule, texts in verdict.failures.items():
                print("".join(f"      {rule}: {text}\n" for text in texts[:5]), end="")
            keep_lives(folder, round_.done, verdict)
            keep(folder)
        else:
            shutil.rmtree(folder)
    failures["phases"] += phases(game, kills, list(known), every)
    failures["work"] += work(game, done, list(known), options.seconds)
    failures["waits"] += waits(dead_waits)
    print(", ".join(f"{n} {what}" for what, n in counts.items()) + f", {sum(kills.values())} kills, {played:.0f} s")
    for rule in game.rules:
        for text in failures[rule][:5]:
            print(f"FAIL  {rule}: {text}")
    failed = sum(bool(failures[rule]) for rule in game.rules)
    return len(game.rules) - failed, failed


def plant(game, known, options):
    """Plants each fault in each language, in separate rounds. Returns (passed, failed)."""
    missed = 0
    for number, (fault, rules) in enumerate(game.faults.items()):
        for language in known:
            for attempt in range(FAULT_ROUNDS):
                kills, seconds = collections.Counter(), options.seconds
                seed = options.seed + number + 1000 * attempt
                with round_folder() as folder:
                    verdict, _ = play(game, known, seed, seconds, kills, (fault, language), folder)
                shutil.rmtree(folder)
                verdict.failures["waits"] += waits(verdict.dead_waits)
                found = {rule: len(texts) for rule, texts in verdict.failures.items() if texts}
                good = any(rule in rules for rule in found)
                if good:
                    break
            missed += not good
            rounds = f", round {attempt + 1}" if attempt else ""
            print(f"{'ok   ' if good else 'FAIL '} {fault} in {language}{rounds}: {found or 'not noticed'}", flush=True)
            for text in verdict.failures["errors"]:
                print(f"      {text}")
    return len(game.faults) * len(known) - missed, missed


RULES = ("order", "loss", "lost count", "duplicates", "tear", "never offered", "agreement", "owners", "sender")
RULES += ("living declared dead", "waits", "offers", "counters", "errors", "phases", "work")
WORK = {"publisher": 50, "reliable": 30, "kept": 30, "lossy": 10}  # messages a second, each language, at least
CHANNELS = (
    {"kind": "broadcast", "capacity": 4096, "alignment": 64, "publishers": 3, "subscribers": 5, "counters": 1024},
    {"kind": "inbox", "capacity": 16384, "alignment": 8, "publishers": 2, "subscribers": 1, "counters": 1024},
    {"kind": "broadcast", "capacity": 8192, "alignment": 64, "publishers": 2, "subscribers": 2, "counters": 1024},
)
ACTORS = (
    (0, "publisher", "orders"),
    (0, "publisher", "prices"),
    (0, "publisher", "news"),
    (0, "reliable", "first"),
    (0, "reliable", "second"),
    (0, "reliable", "third"),
    (0, "kept", "journal"),
    (1, "publisher", "left"),
    (1, "publisher", "right"),
    (1, "kept", "ledger"),
    (2, "publisher", "impatient", 4096),
    (2, "publisher", "patient"),
    (2, "reliable", "fourth"),
    (2, "kept", "diary"),
    (0, "lossy", "tail"),
    (1, "lossy", "tap"),
    (0, "operator", "operator"),
    (1, "operator", "operator"),
)
FAULTS = {
    "skip": {"loss", "lost count"},
    "torn": {"tear"},
    "name": {"sender"},
    "epoch": {"sender"},
    "lost": {"loss", "lost count"},
    "drop": {"loss", "lost count"},
    "miscount": {"lost count"},
    "count": {"counters"},
    "asleep": {"waits"},
}


def judge(lives, number, path, verdict, gaps):
    verify(lives, verdict, gaps, CHANNELS[number]["alignment"])
    check_counters(lives, *read_counters(path), verdict)


BROADCAST_AND_INBOX = Game(__doc__, CHANNELS, ACTORS, WORK, RULES, FAULTS, judge, test_verify.run)


def main(game):
    parser = argparse.ArgumentParser(description=game.text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--languages", type=lambda text: text.split(","))
    parser.add_argument("--fault", default=("", ""), type=lambda text: tuple(text.split(":")))
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--worker", action="append", default=[], metavar="LANGUAGE=COMMAND")
    options = parser.parse_args()
    known = commands(options.languages, options.worker, game.needs)
    for number in (signal.SIGTERM, signal.SIGHUP):  # like Ctrl-C: ends the round's workers, and removes its folder
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    passed, failed = game.self_test()
    print(f"verifier: {passed} self-tests passed, {failed} failed; seed {options.seed}", flush=True)
    more = plant(game, known, options) if options.faults else torture(game, known, options)
    print(f"{passed + more[0]} passed, {failed + more[1]} failed")
    return 1 if failed + more[1] else 0


if __name__ == "__main__":
    sys.exit(main(BROADCAST_AND_INBOX))
