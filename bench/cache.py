# SPDX-License-Identifier: Apache-2.0
"""Pauses of the garbage collector beside a cache that grows: a HashMap, direct buffers, and a Flyring table
(bench/EXPERIMENTS.md). Starts a JVM for each, and reads its log of pauses. The Java contenders must be built:
./dev bench --list --peers, or ./dev bench --quick."""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from driver.contenders import ROOT
from driver.install import jdk

KINDS = {"heap": "HashMap<Long, byte[]>", "direct": "direct buffers, index on the heap", "table": "Flyring table"}
JAR = ROOT / "bench/java/target/flyring-bench.jar"
# [12.345s] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 123M->45M(512M) 3.456ms
PAUSE = re.compile(r"\[(?P<at>[\d.]+)s\].* Pause (?P<what>Young|Full|Remark|Cleanup|[A-Z]\w+).* (?P<ms>[\d.]+)ms$")


@dataclass(frozen=True)
class Step:
    """The use of a cache of so many entries, with the pauses during it (ms), and that of the full collection after."""

    entries: int
    operations: float  # a second
    young: tuple[float, ...]
    full: float | None


def pauses(log: str) -> list[tuple[float, str, float]]:
    """Returns of each pause in a log of -Xlog:gc: when it ended (seconds of uptime), its kind, its length in ms."""
    found = (PAUSE.match(line.rstrip()) for line in log.splitlines())
    return [(float(m["at"]), m["what"], float(m["ms"])) for m in found if m]


def steps(output: str, log: str) -> list[Step]:
    all_ = pauses(log)
    found = []
    for line in output.splitlines():
        entries, start, end, done = map(int, line.split())
        seconds = (end - start) / 1000
        during = tuple(ms for at, what, ms in all_ if start / 1000 <= at <= end / 1000 and what != "Full")
        full = next((ms for at, what, ms in all_ if at > end / 1000 and what == "Full"), None)
        found.append(Step(entries, done / seconds, during, full))
    return found


def run(java: int, kind: str, words: argparse.Namespace) -> list[Step]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="flyring-cache-") as folder:
        log = Path(folder, "gc.log")
        command = [f"{jdk(java)}/bin/java", f"-Xlog:gc:file={log}", f"-Xmx{words.heap}", *words.flag]
        command += [f"-XX:MaxDirectMemorySize={words.heap}", "-cp", str(JAR), "io.flyring.bench.CacheExperiment"]
        command += [kind, f"{folder}/cache.table", str(words.seconds), *map(str, words.millions)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return steps(done.stdout, log.read_text())


def row(java: int, kind: str, step: Step) -> str:
    young = f"{len(step.young)}" if step.young else "0"
    middle, most = (f"{f(step.young):.1f} ms" if step.young else "–" for f in (statistics.median, max))
    full = "–" if step.full is None else f"{step.full:.1f} ms"
    title = f"{KINDS[kind]}, Java {java}"
    return f"| {title} | {step.entries / 1e6:g} | {step.operations / 1e6:.1f} | {young} | {middle} | {most} | {full} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--java", type=int, nargs="+", default=[17, 25])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--millions", type=int, nargs="+", default=[0, 1, 2, 5, 10, 15], help="of entries")
    parser.add_argument("--seconds", type=float, default=5, help="of use at each size")
    parser.add_argument("--heap", default="6g", help="-Xmx")
    parser.add_argument("--flag", action="append", default=[], help="of the JVM, such as --flag=-XX:+UseParallelGC")
    words = parser.parse_args(arguments)
    if not JAR.exists():
        print("cache.py: the Java contenders are not built: ./dev bench --quick builds them", file=sys.stderr)
        return 2
    print("| cache | million entries | million operations a second | young pauses | median | longest | full |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for java in words.java:
        for kind in words.kinds:
            for step in run(java, kind, words):
                print(row(java, kind, step), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
