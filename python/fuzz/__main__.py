# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the Python binding and the command with files of channels, tables and journals of arbitrary bytes.

    python python/fuzz --runs 1000000
    python python/fuzz --seconds 15

Each batch of inputs runs in a separate process, which maps files between inaccessible pages. The run fails if an input
makes the process crash, hang, or raise an error of another package; that input is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

import folders
import guard
import inputs
import journal_inputs
import journal_target
import table_inputs
import table_target
import target

from flyring.table_header import TABLE_MAGIC

BATCH = 500  # inputs per process
HANG = 20  # seconds for one input
SHARE = 4  # one of so many inputs is a table, and another one a journal
# What at least one input must reach, or the run fails (counted in target.TOUCHED).
CHANNEL = ("attached", "message", "subscriber", "kept", "lossy", "peek", "publisher", "offer", "counter", "findings")
CHANNEL += ("worker", "job", "repeat", "released", "ended", "in_hand")
CHANNEL += ("server", "client", "request", "answer", "damaged")
TABLE = ("table", "item", "view", "entry", "put", "removed", "absent", "table-writer", "cleared", "snapshot", "grown")
TABLE += ("broken", "recovered", "table-corrupt-table", "table-busy", "table-no-space")
JOURNAL = ("journal", "journal-message", "journal-cut", "journal-lost", "consumer", "journal-writer")
JOURNAL += ("journal-recovered", "journal-corrupt-journal", "journal-damaged")
NEEDED = {"channel": CHANNEL, "table": TABLE, "journal": JOURNAL, "all": CHANNEL + TABLE + JOURNAL}
INPUTS = {"channel": inputs, "table": table_inputs, "journal": journal_inputs}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python python/fuzz", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=0, help="stop after so many inputs")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so many seconds, or later: see is_late")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch; the same seed gives the same inputs")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--keep", type=Path, default=Path(), help="the folder for an input that fails")
    parser.add_argument("--kind", choices=NEEDED, default="all", help="of the files")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one input that was kept")
    options = parser.parse_args()
    guard.install()
    if not options.replay and not options.runs and not options.seconds:
        parser.error("--runs or --seconds")
    folder = folders.make("flyring-fuzz")
    try:
        return replay(folder, options.replay) if options.replay else campaign(folder, options)
    finally:
        shutil.rmtree(folder)


def replay(folder: Path, kept: Path) -> int:
    use(str(folder / "input.ring"), kept.read_bytes())
    print("1 passed, 0 failed")
    return 0


def campaign(folder: Path, options: argparse.Namespace) -> int:
    """Runs batch after batch, until enough was run or one failed."""
    begun, runs, number, failed = time.monotonic(), 0, options.seed, False
    touched: Counter[str] = Counter()
    working: dict[int, int] = {}  # pid -> number of the batch
    while True:
        enough = bool(options.runs and runs + BATCH * len(working) >= options.runs)
        late = bool(options.seconds) and is_late(time.monotonic() - begun, options, touched)
        while not (enough or late or failed) and len(working) < options.jobs:
            until = max(begun + options.seconds, time.monotonic() + 1) if options.seconds else None
            working[start(folder, number, until, options.kind)] = number
            number += 1
            enough = bool(options.runs and runs + BATCH * len(working) >= options.runs)
        if not working:
            break
        pid, status = os.wait()
        batch = working.pop(pid)
        failed |= status != 0
        if status != 0:
            report(folder, batch, status, options.keep)
        else:
            for name, count in read_counts(folder / f"{batch}.txt").items():
                touched[name] += count
                runs += count if name == "inputs" else 0
    missing = not_reached(options.kind, touched) if not failed else []
    if missing:
        print(f"FAILED: {runs} inputs never reached {missing}")
    seconds = time.monotonic() - begun
    print(f"{runs} inputs in {seconds:.0f} s, seeds {options.seed} to {number - 1}: {dict(sorted(touched.items()))}")
    bad = failed or bool(missing)
    print(f"{runs} passed, {int(bad)} failed")
    return int(bad)


def is_late(seconds: float, options: argparse.Namespace, touched: Counter[str]) -> bool:
    """Whether the time is up. A slow machine gets four times as much if something was not reached yet."""
    return seconds >= options.seconds * (4 if not_reached(options.kind, touched) else 1)


def not_reached(kind: str, touched: Counter[str]) -> list[str]:
    return [name for name in NEEDED[kind] if not touched[name]]


def start(folder: Path, number: int, until: float | None, kind: str) -> int:
    """Forks a process that runs one batch. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            faulthandler.enable()
            status = batch(folder, number, until, kind)
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    return pid


def use(path: str, content: bytes) -> None:
    """Runs one input."""
    if content.startswith(journal_inputs.MAGIC):
        journal_target.run(path.removesuffix(".ring") + ".journal", content)
        return
    (table_target if content.startswith(TABLE_MAGIC) else target).run(path, content)


def batch(folder: Path, number: int, until: float | None, kind: str) -> int:
    """Runs one batch in this process. Returns its exit status."""
    target.TOUCHED.clear()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # so that a hang in C ends, too
    path, last = str(folder / f"{number}.ring"), str(folder / f"{number}.input")

    for each in range(BATCH):
        if until is not None and time.monotonic() >= until:
            break
        of = kind if kind != "all" else {0: "table", 1: "journal"}.get(each % SHARE, "channel")
        content = INPUTS[of].files(Random(f"{number}/{each}"))
        target.write(last, content)
        signal.alarm(HANG)
        use(path, content)
        signal.alarm(0)
        target.TOUCHED["inputs"] += 1
    (folder / f"{number}.txt").write_text("\n".join(f"{name} {count}" for name, count in target.TOUCHED.items()))
    for file in (path, last):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file)
    return 0


def read_counts(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: int(count) for name, count in pairs}


def report(folder: Path, number: int, status: int, keep: Path) -> None:
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    how = signal.Signals(signalled).name if signalled else "an error"
    how += f" (an input took over {HANG} s)" if signalled == signal.SIGALRM else ""
    kept = keep / f"fuzz-{number}.ring"
    shutil.copy(folder / f"{number}.input", kept)
    print(
        f"FAILED: batch {number} ended with {how}; the input is {kept}: python python/fuzz --replay {kept}", flush=True
    )


sys.exit(main())
