#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The interop matrix: runs every scenario of scenarios.toml for every combination of the languages of peers.toml.

The last line is `N passed, N failed`; the exit status is 0 if none failed and some passed. The report folder gets
index.html, table.txt and the logs of the peers. With --sockets no peer is started: each is awaited at
FOLDER/LANGUAGE-N.sock (N = 1, 2, 3) again and again, until FOLDER/done is there; $FLYRING_DIR is the folder of the
channels for all of them."""

import argparse
import copy
import hashlib
import itertools
import os
import pathlib
import random
import shlex
import shutil
import signal
import sys
import time
import tomllib

import report
import scenarios
import scenarios_asleep
import scenarios_journal
import scenarios_life
import scenarios_queue
import scenarios_service
import scenarios_table
from driver import ROOT, Doors, PeerFailed, Refused, commands, tail
from harness import part, Run

PEERS = ROOT / "interop-tests" / "peers.toml"
PEERS_EACH = 3
MODULES = (
    scenarios,
    scenarios_asleep,
    scenarios_journal,
    scenarios_life,
    scenarios_queue,
    scenarios_service,
    scenarios_table,
)  # the modules with the scenarios' functions
LOG = 4000  # bytes of each peer's log that a failing cell shows


class Cell:
    """A scenario with its languages: the argument of the functions in MODULES, and the outcome."""

    def __init__(self, name, scenario, languages, at, options):
        self.name, self.scenario, self.languages = name, scenario, languages
        self.at = dict(zip(scenario["axes"], at))  # axis: language
        self.id = f"{name}/{'-'.join(at) or 'all'}"
        self.p = scenario | scenario["short" if options.short else "full"]
        self.seed = int.from_bytes(hashlib.sha256(f"{options.seed} {self.id}".encode()).digest()[:7])
        self.watchdog, self.patience = options.watchdog, options.watchdog * 0.8  # peers give up first
        words = [
            os.environ.get("INTEROP_COMMAND", "interop-tests/matrix.py"),
            "--cell",
            self.id,
            "--seed",
            str(options.seed),
        ]
        words += ["--short"] if options.short else []
        words += ["--peers", str(options.peers)] if options.peers != PEERS else []
        words += ["--languages", ",".join(languages)] if languages != options.known else []
        self.command = " ".join(words)
        self.outcome, self.messages, self.seconds, self.why, self.logs = None, 0, 0.0, "", {}

    def missing(self, ops):
        """Returns why the cell cannot be run, or nothing. A language that lacks an op gets no role at all."""
        needs = set(self.scenario["needs"])
        lacks = {n: sorted(needs - ops.get(n, needs)) for n in self.languages}  # a peer that did not start fails
        self.languages = [n for n in self.languages if not lacks[n]]
        reasons = [f"{n} has no {', '.join(lacks[n])}" for n in dict.fromkeys(self.at.values()) if lacks[n]]
        return "; ".join(reasons) or ("" if self.languages else "no language has what it needs")

    def without(self, language, ops):
        """Returns a skipped cell for the roles of a language that lacks an op."""
        part = copy.copy(self)
        part.id, part.at, part.outcome, part.messages, part.seconds = (
            f"{self.name}/{language}",
            {"": language},
            "skipped",
            0,
            0.0,
        )
        part.why = f"{language} has no {', '.join(sorted(set(self.scenario['needs']) - ops[language]))}"
        return part

    def peers(self, axis, n):
        """Returns the n-th peer of the axis' language; of each language if the scenario has no such axis."""
        return [self.run.peer(language, n) for language in ([self.at[axis]] if axis in self.at else self.languages)]

    def stream(self, **fields):
        """Returns a stream (PEER.md) with seed and first sequence from the cell's seed."""
        first = self.random.choice((0, self.random.randrange(10**6), 2**63 - 10**8))
        return {"seed": self.random.randrange(2**63), "min": 0, "count": self.p.get("count"), "first": first} | fields

    def play(self, run):
        self.run, self.random = run, random.Random(self.seed)
        run.names = 0  # so that its names do not depend on earlier cells
        begin = time.monotonic()
        function = next(getattr(m, self.scenario["run"]) for m in MODULES if hasattr(m, self.scenario["run"]))
        self.messages, wrong = run.attempt(function, self, seconds=self.watchdog)
        self.seconds = time.monotonic() - begin
        self.outcome = "failed" if wrong else "passed"
        if wrong:
            late = f" (the cell's {self.watchdog:g} s are over)" if time.monotonic() > run.deadline else ""
            self.why, self.messages = wrong + late, 0
            for sizes in run.logs_begin.values():
                for path, size in sizes.items():
                    if text := tail(path, LOG, size):
                        self.logs[pathlib.Path(path).name] = text


def cells(options):
    """Returns all cells, in the order of scenarios.toml."""
    with open(pathlib.Path(__file__).with_name("scenarios.toml"), "rb") as f:
        everything = tomllib.load(f)
    for name, scenario in everything.items():
        for at in itertools.product(options.languages, repeat=len(scenario["axes"])):
            yield Cell(name, scenario, options.languages, at, options)


def chosen(options):
    some = [c for c in cells(options) if options.only in f"{c.id} {c.scenario['title']}"]
    return [c for c in some if c.id in options.cell] if options.cell else some[options.part]


def ops_of(run, languages):
    """Returns {language: ops}. A language whose peer does not start is missing, and its cells fail."""
    ops = {}
    for language in languages:
        try:
            ops[language] = set(run.peer(language).hello["ops"])
        except (PeerFailed, Refused, KeyError) as e:
            print(f"{language}: {e!r}", flush=True)
    return ops


def play(run, todo, languages):
    begin, ops = time.monotonic(), ops_of(run, languages)
    for n, cell in enumerate(list(todo), 1):
        if missing := cell.missing(ops):
            cell.outcome, cell.why = "skipped", missing
        else:
            cell.play(run)
            if not cell.at:  # a scenario with all languages at once, without these
                todo += [cell.without(language, ops) for language in languages if language not in cell.languages]
        left = (time.monotonic() - begin) / n * (len(todo) - n)
        what = f"{cell.messages} messages, {cell.seconds:.2f} s" if cell.outcome == "passed" else cell.why
        mark = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}[cell.outcome]
        print(f"{mark} [{n:{len(str(len(todo)))}}/{len(todo)}] {cell.id}  {what}  ({left:.0f} s left)", flush=True)
        if cell.outcome == "failed":
            print(f"      {cell.command}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="about 0.3 s a cell instead of 2")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cells with this in their id or their scenario's title"
    )
    parser.add_argument("--cell", action="append", default=[], metavar="ID", help="just this cell; may be repeated")
    parser.add_argument(
        "--part", type=part, default=slice(None), metavar="K/N", help="every N-th cell, from number K on"
    )
    parser.add_argument("--seed", type=int, default=1, help="each cell's random numbers come from its id and this")
    parser.add_argument("--languages", type=lambda text: text.split(","), metavar="A,B")
    parser.add_argument("--report", type=pathlib.Path, default=ROOT / "build" / "interop-report", metavar="FOLDER")
    parser.add_argument("--sockets", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--peers", type=pathlib.Path, default=PEERS, metavar="FILE")
    parser.add_argument(
        "--watchdog", type=float, default=60, metavar="SECONDS", help="the longest that a cell may take"
    )
    options = parser.parse_args()
    options.commands = commands(options.peers)
    options.known = list(options.commands)
    options.languages = options.languages or options.known
    if unknown := set(options.languages) - set(options.known):
        parser.error(f"no peer of {', '.join(sorted(unknown))} in {options.peers}")
    if unknown := set(options.cell) - {cell.id for cell in cells(options)}:
        parser.error(f"no cell {', '.join(sorted(unknown))}")
    if options.sockets and "FLYRING_DIR" not in os.environ:
        parser.error("--sockets needs FLYRING_DIR, the folder of the channels of all peers")
    return options


def main():
    options = arguments()
    todo = chosen(options)
    logs = options.report / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begin = time.monotonic()
    if options.sockets:
        doors = Doors(options.sockets.absolute(), options.languages, PEERS_EACH)
        run = Run(options.commands, logs, doors, pathlib.Path(os.environ["FLYRING_DIR"]))
    else:
        run = Run(options.commands, logs)
    try:
        play(run, todo, options.languages)
    finally:
        run.end()
        run_by = shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
        report.write(options.report, todo, f"{run_by}, seed {options.seed}, {time.monotonic() - begin:.0f} s")
    count = {outcome: sum(c.outcome == outcome for c in todo) for outcome in ("passed", "failed", "skipped")}
    for cell in todo:
        if cell.outcome == "skipped":
            print(f"skipped: {cell.id}: {cell.why}")
    print(f"report: {options.report / 'index.html'}, {options.report / 'table.txt'}")
    print(f"{count['skipped']} skipped, {time.monotonic() - begin:.0f} s")
    print(f"{count['passed']} passed, {count['failed']} failed")
    return 0 if count["passed"] and not count["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
