#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture: publishers and subscribers of all languages on two channels are killed, stopped, continued and
restarted, in rounds of ten seconds; after each round everything that they saw is checked against what was published.

    torture.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--fault NAME:WHO] [--worker LANGUAGE=COMMAND]

--fault: the workers of this role or language misbehave, to see that it is noticed (WORKER.md). --worker: another command
than that of workers.toml. The last line is `N passed, N failed`; on failure the files of the round are kept."""

import argparse
import collections
import pathlib
import random
import shlex
import shutil
import sys
import tempfile
import time
import tomllib

import chaos
import test_verify
from verify import Verdict, verify

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ("order", "loss", "lost count", "duplicates", "tear", "never offered", "agreement", "owners", "sender")
RULES += ("living declared dead", "waits", "errors", "phases")
ROUND = 10  # seconds
LONGEST_WAIT, P99_WAIT = 50, 5  # ms, what a processor was not to be had for subtracted
EVERY_LANGUAGE = 60  # seconds of torture from which on every phase must have been struck in every language
CHANNELS = (
    {"kind": "broadcast", "capacity": 4096, "alignment": 64, "publishers": 3, "subscribers": 4},
    {"kind": "inbox", "capacity": 16384, "alignment": 8, "publishers": 2, "subscribers": 3},
)
ACTORS = (
    (0, "publisher", "orders"),
    (0, "publisher", "prices"),
    (0, "publisher", "news"),
    (0, "reliable", "first"),
    (0, "reliable", "second"),
    (0, "kept", "journal"),
    (1, "publisher", "left"),
    (1, "publisher", "right"),
    (1, "reliable", "third"),
    (1, "kept", "ledger"),
    (0, "lossy", "tail"),
    (1, "lossy", "tap"),
    (0, "operator", "operator"),
    (1, "operator", "operator"),
)


def commands(languages, others):
    with open(pathlib.Path(__file__).with_name("workers.toml"), "rb") as file:
        known = {name: entry["command"] for name, entry in tomllib.load(file).items()}
    known |= {name: shlex.split(command) for name, _, command in (other.partition("=") for other in others)}
    whole = {
        name: [str(ROOT / word) if "/" in word and not word.startswith("/") else word for word in command]
        for name, command in known.items()
    }
    return {name: whole[name] for name in languages or whole}


def play(known, seed, seconds, kills, fault, folder):
    """One round: its verdict, and the round."""
    dice = random.Random(seed)
    channels = [folder / f"channel-{i}.ring" for i in range(len(CHANNELS))]
    play = chaos.Round(known, folder, channels, [chaos.Actor(*a) for a in ACTORS], dice, kills, fault)
    verdict = Verdict()
    try:
        for i, options in enumerate(CHANNELS):
            creator = chaos.Actor(i, "creator", "creator")
            play.actors.append(creator)
            while not (worker := play.start(creator, **options)):
                time.sleep(0.001)
            worker.reap()
            play.finished(worker)
            play.actors.remove(creator)
        play.run(seconds, 3 * seconds)
        lives = [worker.life() for worker in play.done]
        for i in range(len(channels)):
            verify([life for life in lives if life.channel == i and life.role != "creator"], verdict)
    finally:
        play.close()
    for error in play.errors:
        verdict.failures["errors"].append(error)
    return verdict, play


def phases(kills, languages, every):
    """The table, and the phases in which none was killed."""
    rows = dict.fromkeys(p for role in {a[1]: 0 for a in ACTORS} for p in chaos.PHASES[role])
    print(f"\n{'killed while':14}" + "".join(f"{language:>9}" for language in languages))
    missing = []
    for phase in [*rows, "working", "starting up"]:
        numbers = [kills[phase, language] for language in languages]
        print(f"{phase:14}" + "".join(f"{n:9}" for n in numbers))
        if phase in rows and (not any(numbers) or every and not all(numbers)):
            missing.append(f"{phase}: {dict(zip(languages, numbers))}")
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--languages", type=lambda text: text.split(","))
    parser.add_argument("--fault", default=":", type=lambda text: tuple(text.split(":")))
    parser.add_argument("--worker", action="append", default=[], metavar="LANGUAGE=COMMAND")
    options = parser.parse_args()
    known = commands(options.languages, options.worker)
    passed, failed = test_verify.run()
    print(f"verifier: {passed} self-tests passed, {failed} failed; seed {options.seed}", flush=True)
    counts, kills, waits, failures = collections.Counter(), collections.Counter(), [], collections.defaultdict(list)
    begin, number, kept = time.monotonic(), 0, []
    while number == 0 or time.monotonic() - begin < options.seconds - 1:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="flyring-torture-", dir="/dev/shm"))
        verdict, played = play(known, options.seed + number, min(options.seconds, ROUND), kills, options.fault, folder)
        for rule, texts in verdict.failures.items():
            failures[rule] += [f"seed {options.seed + number}: {text}" for text in texts]
        counts += verdict.counts + collections.Counter({"pauses (SIGSTOP)": played.pauses})
        waits += verdict.dead_waits
        number += 1
        if verdict.failures:
            kept.append(folder)
        else:
            shutil.rmtree(folder)
    failures["phases"] += phases(kills, list(known), options.seconds >= EVERY_LANGUAGE)
    waits.sort()
    if waits:
        p99 = waits[len(waits) * 99 // 100][0]
        print(f"\nheld back by the dead: {len(waits)} times, p99 {p99:.2f} ms, longest {waits[-1][0]:.2f} ms")
        if waits[-1][0] > LONGEST_WAIT or p99 > P99_WAIT and len(waits) >= 100:
            failures["waits"].append(f"p99 {p99:.2f} ms, longest {waits[-5:]}")
    print(", ".join(f"{n} {what}" for what, n in counts.items()) + f", {sum(kills.values())} kills")
    for rule in RULES:
        for text in failures[rule][:5]:
            print(f"FAIL  {rule}: {text}")
        failed += 1 if failures[rule] else 0
        passed += 0 if failures[rule] else 1
    for folder in kept:
        print(f"kept: {folder}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
