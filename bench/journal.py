# SPDX-License-Identifier: Apache-2.0
"""What about journals is no loop of the driver (bench/README.md, Journals): how long the next writer takes after a
SIGKILL, how fast a journal is checked, whether flyring record keeps up, and how fast flyring replay is. The contenders
must be built: ./dev bench --quick."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
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
REPLAY_SHARE = 0.2


class Side:
    """A process of one language's peer that answers a line of JSON to each line (bench/PEER.md, recovery)."""

    def __init__(self, program: str, side: str, folder: str, contender: str = "journal-recovery") -> None:
        argv = fill_in(load().programs[program].argv)
        argv = [word for word in argv if word != "{flags}"]
        options = ["--contender", contender, "--side", side, "--scenario", "append", "--size", "32"]
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

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]!r} ended with status {self.process.wait()}")  # type: ignore[index]
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, line: str) -> dict[str, Any]:
        self.say(line)
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


COMMAND = [str(PYTHON_VENV / "bin/python"), "-m", "flyring.cli"]


def channel_at(path: str) -> str:
    """Makes a channel, and returns its path."""
    run = [*COMMAND, "create", path, "--kind", "broadcast", "--publishers", "1", "--subscribers", "2"]
    subprocess.run([*run, "--capacity", "4MiB"], check=True, stdout=subprocess.DEVNULL)
    return path


def last_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=120)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def recorded(folder: str, rate: float, run_for: float, kept: str) -> tuple[str, int]:
    """Lets flyring record listen to a publisher, and prints whether it kept up. Returns the recording, and how many
    messages were sent."""
    path, journal = channel_at(f"{folder}/feed.ring"), f"{folder}/rec.journal"
    recorder = subprocess.Popen(
        [*COMMAND, "record", path, "--to", journal, "--max-size", kept, "--json"], stdout=subprocess.PIPE, text=True
    )
    while not os.path.exists(f"{journal}/control"):
        time.sleep(0.01)
    time.sleep(1.0)  # it has its slot
    publisher = Side("cpp", "a", path, "journal-recorded")
    count = int(rate * run_for)
    answer = publisher.ask(f"{rate} {count}")
    took = time.perf_counter()
    while (lag := stats_of(path)) > 0:
        time.sleep(0.01)
    behind = time.perf_counter() - took
    recorder.send_signal(signal.SIGINT)
    end = last_line(recorder)
    publisher.kill()
    assert lag == 0
    fine = end["messages"] == count and end["lost"] == 0 and answer["ns"] / 1e9 < 1.01 * run_for
    print(
        f"record: {count} messages in {answer['ns'] / 1e9:.2f} s, {end['messages']} recorded, {end['lost']} lost; the "
        f"publisher was held {answer['held']} times, at most {answer['latest'] / 1e6:.1f} ms late; the recorder ended "
        f"{behind:.2f} s behind it: {'kept up' if fine else 'did not keep up'}",
        flush=True,
    )
    return journal, count


def stats_of(path: str) -> int:
    """How many messages the subscribers of a channel are behind."""
    out = subprocess.run([*COMMAND, "info", path, "--json"], check=True, capture_output=True, text=True).stdout
    return sum(gate["lag"] for one in json.loads(out)["subscribers"] for gate in one["gates"])


def replayed(folder: str, journal: str, count: int, rounds: int) -> None:
    """Compares a replay into a C++ subscriber with a C++ publisher."""
    ratios = []
    for number in range(rounds):
        path = channel_at(f"{folder}/again-{number}.ring")
        reader = Side("cpp", "b", path, "journal-recorded")
        publisher = Side("cpp", "a", path, "journal-recorded")
        reader.say(str(count))
        publisher.ask(f"0 {count}")
        stream = count / reader.answer()["ns"] * 1e3
        publisher.kill()
        reader.say(str(count))
        subprocess.run([*COMMAND, "replay", journal, "--to", path, "--fast", "--quiet"], check=True)
        rate = count / reader.answer()["ns"] * 1e3
        reader.kill()
        ratios.append(rate / stream)
        print(f"replay: {rate:.1f} M/s, a C++ publisher {stream:.1f} M/s: {rate / stream:.2f}", flush=True)
    print(f"replay: median {statistics.median(ratios):.2f}, at least {REPLAY_SHARE:g}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("recovery", "check", "record", "replay"))
    parser.add_argument("--programs", nargs="+", default=["cpp", "java17", "java25", "python"])
    parser.add_argument("--kills", type=int, default=30, help="that count (default 30)")
    parser.add_argument("--megabytes", type=int, default=2048, help="of the journal that is checked (default 2048)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="build", help="where the journals are; default: build, on the disk")
    parser.add_argument("--rate", type=float, default=10e6, help="record: messages a second (default 10 million)")
    parser.add_argument("--seconds", type=float, default=10.0, help="record: for so long (default 10)")
    parser.add_argument("--count", type=int, default=20_000_000, help="replay: messages (default 20 million)")
    words = parser.parse_args()
    if words.what in ("record", "replay") and words.folder == "build":
        words.folder = "/dev/shm"
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
        if words.what == "record":
            recorded(folder, words.rate, words.seconds, "2G")
            return 0
        if words.what == "replay":
            journal, count = recorded(folder, 5e6, words.count / 5e6, "64G")
            replayed(folder, journal, count, words.rounds)
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
