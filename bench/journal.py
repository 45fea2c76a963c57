# SPDX-License-Identifier: Apache-2.0
"""Two things about journals that are no loops (bench/README.md, Journals): how long the next writer takes after a
SIGKILL, and how fast a journal is checked. The contenders must be built: ./dev bench --quick."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from driver.contenders import ROOT, load
from driver.install import PYTHON_VENV, environment, fill_in

WARM = 12  # kills that are not counted: a JVM compiles, and loads classes
LIMIT_MS = 10.0
SHARE = 0.8


class Side:
    """A process of one language's peer that answers a line of JSON to each line (bench/PEER.md, recovery)."""

    def __init__(self, program: str, side: str, folder: str) -> None:
        argv = fill_in(load().programs[program].argv)
        argv = [word for word in argv if word != "{flags}"]
        options = ["--contender", "journal-recovery", "--side", side, "--scenario", "append", "--size", "32"]
        probe = {"FLYRING_BENCH_PROBE": str(ROOT / "build/bench-cpp/probe/libflyring_probe.so")}
        self.process = subprocess.Popen(
            [*argv, *options, "--dir", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**environment(), **probe},
        )
        self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]!r} ended with status {self.process.wait()}")  # type: ignore[index]
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def recovery(program: str, folder: str, kills: int) -> list[float]:
    """Kills writers at random moments. Returns how long the next one took each time to own the journal and to append
    one message, in milliseconds."""
    opener = Side(program, "b", folder)
    found = []
    try:
        for number in range(WARM + kills):
            path = f"{folder}/{number}.journal"
            writer = Side(program if number % WARM == 0 else "cpp", "a", path)  # by C++ where that is enough
            time.sleep(random.uniform(0.01, 0.1))
            writer.kill()
            answer = opener.ask(path)
            if answer["messages"] < 1:
                raise RuntimeError(f"{program}: nothing is left of what the killed writer has appended")
            if number >= WARM:
                found.append(answer["ns"] / 1e6)
            shutil.rmtree(path)
    finally:
        opener.kill()
    return found


def fill(folder: str, megabytes: int) -> str:
    """Lets a writer append so much, and gives up its place. Returns the journal's path."""
    path = f"{folder}/filled.journal"
    writer = Side("cpp", "a", path)
    while sum(file.stat().st_blocks for file in Path(path).glob("*.seg")) < megabytes << 11:
        time.sleep(0.05)
    writer.kill()
    Side("cpp", "b", folder).ask(path)
    return path


def forget(folder: str) -> None:
    """Drops the files' pages from the page cache."""
    for path in Path(folder).iterdir():
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def check(folder: str, megabytes: int, rounds: int) -> list[tuple[str, float, float]]:
    """Returns of each round what cat and a check took, in MB/s, cold and then in the cache."""
    journal = fill(folder, megabytes)
    segments = [str(path) for path in sorted(Path(journal).glob("*.seg"))]
    size = sum(os.path.getsize(path) for path in segments) / 1e6
    command = [str(PYTHON_VENV / "bin/python"), "-m", "flyring.cli", "journal", "check", journal]
    found = []
    for cold in (True, False):
        for _ in range(rounds):
            rates = []
            for argv in (["cat", *segments], command):
                if cold:
                    forget(journal)
                rates.append(size / seconds(argv))
            found.append(("cold" if cold else "in the cache", rates[0], rates[1]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("recovery", "check"))
    parser.add_argument("--programs", nargs="+", default=["cpp", "java17", "java25", "python"])
    parser.add_argument("--kills", type=int, default=30, help="that count (default 30)")
    parser.add_argument("--megabytes", type=int, default=2048, help="of the journal that is checked (default 2048)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="build", help="where the journals are; default: build, on the disk")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=words.folder, prefix="bench-journal-") as folder:
        folder = os.path.abspath(folder)
        if words.what == "recovery":
            print(f"{'after a SIGKILL':<16}{'median ms':>12}{'least':>10}{'most':>10}   at most {LIMIT_MS:g} ms")
            for program in words.programs:
                times = recovery(program, folder, words.kills)
                fine = "reached" if statistics.median(times) <= LIMIT_MS else "not reached"
                print(
                    f"{program:<16}{statistics.median(times):>12.2f}{min(times):>10.2f}{max(times):>10.2f}   {fine}",
                    flush=True,
                )
            return 0
        print(f"{'':<14}{'cat MB/s':>10}{'check MB/s':>12}{'ratio':>8}   at least {SHARE:g}")
        ratios: dict[str, list[float]] = {}
        for how, cat, checked in check(folder, words.megabytes, words.rounds):
            ratios.setdefault(how, []).append(checked / cat)
            print(f"{how:<14}{cat:>10.0f}{checked:>12.0f}{checked / cat:>8.2f}", flush=True)
        for how, all_ in ratios.items():
            print(f"{how}: median {statistics.median(all_):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
