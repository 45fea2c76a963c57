# SPDX-License-Identifier: Apache-2.0
"""Readers that get few messages: their share of a core, and the latency of messages (bench/PEER.md: idle, paced).

These figures do not depend on the placement of cores, so there is no raw line and there are no classes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driver.contenders import Table, matches
from driver.grid import Grid
from driver.raw import Results
from driver.sides import Group, Process, answers, thread_times
from driver.stats import Spread
from driver.text import ns_text, range_text

SCENARIOS = ("idle", "paced")
SETTLE = 5.0  # seconds (or the length of the measurement) until a reader sleeps, and a JVM has compiled its wait
CAP = 0.1  # seconds: the longest sleep of a reader (spec/channel.md 6.16)
PERCENTILES = (50, 90, 99, 99.9)


class Sleeping:
    """The rounds of one contender, whose sides are running."""

    def __init__(self, group: Group, seconds: float) -> None:
        self.group = group
        self.seconds = seconds

    def rounds(self, count: int) -> Iterator[dict[str, Any]]:
        if self.group.table.scenario == "idle":
            for _ in range(count):
                yield self.idle()
            return
        self.paced(min(self.seconds, 1.0))  # warm-up
        for _ in range(count):
            yield self.paced(self.seconds)

    def idle(self) -> dict[str, Any]:
        """Lets every reader wait until the sender ends the turn after `seconds`. Returns each reader's shares of a
        core, and how often its thread slept."""
        sides = self.group.sides
        readers = {side: process for side, process in sides.items() if side[0] == "b"}
        for process in readers.values():
            process.write("turn 1 mean")
        time.sleep(min(SETTLE, self.seconds))
        start, before = time.monotonic(), {s: self.look(s, p) for s, p in readers.items()}
        time.sleep(self.seconds)
        elapsed, after = time.monotonic() - start, {s: self.look(s, p) for s, p in readers.items()}
        sides["a"].write("turn 1 mean")
        answers(list(sides.values()), self.group.contender.silence)
        gone = {s: [b - a for a, b in zip(before[s], after[s], strict=True)] for s in readers}
        return {
            "seconds": elapsed,
            "thread": [ns / 1e9 / elapsed for ns, _, _ in gone.values()],
            "process": [ns / 1e9 / elapsed for _, ns, _ in gone.values()],
            "wakes": [count for _, _, count in gone.values()],
        }

    def look(self, side: str, process: Process) -> tuple[int, int, int]:
        """Returns the run time of the reading thread and of all threads, in ns, and how often the reading thread
        slept."""
        pid, thread = process.popen.pid, str(self.group.opened[side]["thread"])
        times = thread_times(pid)
        for line in Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                return times[thread][0], sum(ran for ran, _ in times.values()), int(line.split()[1])
        raise OSError("this kernel does not count how often a thread sleeps")

    def paced(self, seconds: float) -> dict[str, Any]:
        """Measures the reader's process from its first message to the last, and the latency of each message."""
        count = max(1, round(seconds * self.group.table.rate))
        replies = self.group.tell(f"turn {count} paced")
        received = replies["b"]
        path = Path(self.group.folder, received["samples"])
        samples = np.fromfile(path, dtype="<u4")
        path.unlink()
        if not count == received["count"] == len(samples):
            raise ValueError(f"{count} messages were sent, {received['count']} received, {len(samples)} samples")
        at = np.percentile(samples, PERCENTILES, method="higher")
        return {
            "rate": count / replies["a"]["ns"] * 1e9,
            "cpu": received["cpu_ns"] / received["ns"],
            "each": received["cpu_ns"] / count,
            "latency": dict(zip(map(str, PERCENTILES), map(float, at), strict=True)),
        }


def values(results: Results, table: Table, contender: str, metric: str) -> list[float]:
    """Returns the metric of each round; for idle, the worst reader's."""
    rounds = results.sleeping(table).get(contender, [])
    if table.scenario == "idle":
        return [max(figures[metric]) / (figures["seconds"] if metric == "wakes" else 1) for figures in rounds]
    if metric.startswith("p"):
        return [figures["latency"][metric[1:]] for figures in rounds]
    return [figures[metric] for figures in rounds]


def grid(results: Results, table: Table) -> Grid:
    contenders = list(results.sleeping(table))
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    if table.scenario == "idle":
        head = ("contender", "reading thread, worst", "its process, worst", "wake-ups, worst", "readers", "seconds")
        rows = [idle_row(results, c, results.sleeping(table)[c][-1]) for c in contenders]
    else:
        head = ("contender", "of a core", "spread", "a message", "p50", "spread", "p99", "p99.9", "rounds")
        contenders.sort(key=lambda c: statistics.median(values(results, table, c, "cpu")))
        rows = [paced_row(results, table, c) for c in contenders]
    return Grid(head, tuple(rows), tuple(results.run["contenders"][c]["group"] for c in contenders))


def idle_row(results: Results, contender: str, figures: Mapping[str, Any]) -> tuple[str, ...]:
    wakes = max(figures["wakes"]) / figures["seconds"]
    return (
        results.title(contender),
        share_text(max(figures["thread"])),
        share_text(max(figures["process"])),
        f"{wakes:.1f} a second",
        str(len(figures["thread"])),
        f"{figures['seconds']:.0f}",
    )


def paced_row(results: Results, table: Table, contender: str) -> tuple[str, ...]:
    of = {m: Spread.of(values(results, table, contender, m)) for m in ("cpu", "each", "p50", "p99", "p99.9")}
    return (
        results.title(contender),
        share_text(of["cpu"].median),
        f"{share_text(of['cpu'].low)}–{share_text(of['cpu'].high)}",
        ns_text(of["each"].median),
        ns_text(of["p50"].median),
        range_text(of["p50"], "rtt"),
        ns_text(of["p99"].median),
        ns_text(of["p99.9"].median),
        str(len(values(results, table, contender, "cpu"))),
    )


def share_text(share: float) -> str:
    return f"{100 * share:.3f} %" if share < 0.001 else f"{100 * share:.2f} %"


def judge(
    results: Results, table: Table, target: Mapping[str, Any], contenders: Sequence[str]
) -> list[tuple[str, str, bool | None]]:
    """Returns for each contender its title, the figures, and whether they reach the target. Uses medians over rounds;
    for idle, whose limits must always hold, the worst reader of the worst round."""
    metric = target["metric"]
    found: list[tuple[str, str, bool | None]] = []
    for contender in contenders:
        mine = values(results, table, contender, metric)
        if not mine:
            continue
        title = results.title(contender)
        if "share_at_most" in target:
            found.append((title, share_text(max(mine)), max(mine) <= target["share_at_most"]))
        elif "wakes_at_most_per_second" in target:
            rounds = results.sleeping(table)[contender]
            allowed = all(max(r["wakes"]) <= r["seconds"] * target["wakes_at_most_per_second"] + 1 for r in rounds)
            found.append((title, f"{max(mine):.1f} a second", allowed))
        else:
            found.append((title, *beside(results, table, target, contender)))
    return found


def beside(results: Results, table: Table, target: Mapping[str, Any], contender: str) -> tuple[str, bool | None]:
    """Judges a target at_most = { times, of }: compares with the best contender of `of`."""
    metric, limit = target["metric"], target["at_most"]
    mine = statistics.median(values(results, table, contender, metric))
    others = {
        c: statistics.median(found)
        for c in results.sleeping(table)
        if matches(c, limit["of"]) and (found := values(results, table, c, metric))
    }
    text = share_text if metric == "cpu" else ns_text
    if not others:
        return f"{text(mine)}; nothing to compare with", None
    best = min(others, key=lambda c: others[c])
    measured = f"{text(mine)}, {mine / others[best]:.2f} times {results.title(best)} {text(others[best])}"
    return measured, mine <= limit["times"] * others[best]
