# SPDX-License-Identifier: Apache-2.0
"""The measurement. For a table: starts each contender, warms it up and parks it; then does rounds over all of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driver import jobs
from driver.contenders import Contender, Table
from driver.placement import classify
from driver.progress import Progress
from driver.ratios import FEWEST_SHOWN, beside_in
from driver.raw import Recorder
from driver.sides import Cannot, Failure, Group
from driver.sleeping import SCENARIOS, Sleeping
from driver.stats import FEWEST_ROUNDS, Slice, Speeds, histogram_of, majority, rounds_in

# Warm-up: turns of four slices, until two turns agree within 10 %; at least three turns, and a second of slices.
WARM_SLICES, WARM_TURNS, WARM_MOST_TURNS, WARM_NS, SETTLED = 4, 3, 10, 1_000_000_000, 0.10
LARGE_MAP = 4_000_000  # keys: such a map has a warm-up before each round
ONE_WAY = ("stream", "burst", "append", "replay")  # messages go from a to b, and each is counted on both sides
RESERVE = 3 << 30  # bytes of memory left to the system
BYTES_A_KEY, SECONDS_A_KEY = 300, 1e-6  # of a map that is filled: at most, about
START_SECONDS = {"cpp": 0.3, "rust": 0.4, "python": 1.0, "java": 2.5}


@dataclass(frozen=True)
class Settings:
    cores: tuple[int, int]
    time_slice: float
    rounds: int | None  # replaces the table's
    quick: bool
    starts: int | None = None  # replaces the table's

    def rounds_of(self, table: Table) -> int:
        if self.rounds or not self.quick or table.scenario in SCENARIOS:
            return self.rounds or table.rounds
        return max(table.rounds // 4, FEWEST_SHOWN) if table.compared_with else FEWEST_ROUNDS

    def slice_of(self, table: Table) -> float:
        return min(self.time_slice, table.time_slice or self.time_slice)

    def seconds_of(self, table: Table) -> float:
        """Returns the length of a turn of idle or paced."""
        return table.seconds / 3 if self.quick else table.seconds

    def starts_of(self, table: Table) -> int:
        return min(self.starts or (1 if self.quick else table.starts), self.rounds_of(table))


@dataclass
class Measured:
    """A contender of the table, with the group of processes that runs, or ran last."""

    group: Group
    start: int = 1

    @property
    def contender(self) -> Contender:
        return self.group.contender


def estimate_turns(table: Table, time_slice: float) -> float:
    """Estimates the seconds of one round of one contender: slices, probes, commands, and reading of samples."""
    warm = WARM_SLICES * WARM_TURNS if table.keys >= LARGE_MAP else 0
    return warm * (time_slice + 0.012) + sum(slices * (time_slice + 0.012) + 0.02 for slices, _ in table.kinds)


def estimate_start(table: Table, contender: Contender, time_slice: float) -> float:
    start = sum(
        START_SECONDS[(contender.a if side[0] == "a" else contender.b)[0].build] for side in table.sides(contender)
    )
    return start + 2.5 * len(contender.extras) + 8 * (time_slice + 0.012) + 1.2 + table.keys * SECONDS_A_KEY


def estimate(table: Table, contenders: Sequence[Contender], settings: Settings) -> float:
    one = settings.rounds_of(table) * estimate_turns(table, settings.slice_of(table))
    if table.scenario in SCENARIOS:
        each = settings.rounds_of(table) * (settings.seconds_of(table) + 1.5)
        return sum(estimate_start(table, c, settings.slice_of(table)) + each for c in contenders)
    starts = settings.starts_of(table)
    return sum(starts * estimate_start(table, c, settings.slice_of(table)) + one for c in contenders)


class Runner:
    def __init__(
        self,
        settings: Settings,
        recorder: Recorder,
        progress: Progress,
        fill_in: Callable[[Sequence[str], Contender, Mapping[str, str]], list[str]],
        env: Mapping[str, str],
    ) -> None:
        self.settings = settings
        self.recorder = recorder
        self.progress = progress
        self.fill_in = fill_in
        self.env = env
        self.speeds = Speeds()
        self.slices: list[Slice] = []  # of the whole run, because they determine the classes

    def table(self, table: Table, contenders: Sequence[Contender]) -> None:
        """Measures a table. A contender that fails in one start is not started again; its results so far are kept."""
        if table.scenario in SCENARIOS:
            return self.sleeping(table, contenders)
        known: dict[str, Measured] = {}
        going = list(contenders)
        for start in range(1, self.settings.starts_of(table) + 1):
            going = self.one_start(table, start, going, known)

    def sleeping(self, table: Table, contenders: Sequence[Contender]) -> None:
        """Measures a table of idle or paced. Each contender is started, measured and ended before the next one."""
        seconds = self.settings.seconds_of(table)
        for contender in contenders:
            rounds = self.settings.rounds_of(table)
            most = estimate(table, [contender], self.settings)
            with self.progress.step(most, f"{table.name}: {contender.id}"):
                try:
                    group = Group(
                        contender, table, self.settings.cores, self.settings.slice_of(table), self.fill_in, self.env
                    )
                except Failure as failure:
                    self.failed(table, contender, failure)
                    continue
                try:
                    self.recorder.reported(table, contender, group.opened)
                    for figures in Sleeping(group, seconds).rounds(rounds):
                        self.recorder.slept(table, contender, figures)
                    group.close()
                except Failure as failure:
                    self.failed(table, contender, failure)
                except (KeyError, ValueError, OSError) as error:
                    self.failed(table, contender, Failure(f"bad answer: {type(error).__name__} {error}"))
                finally:
                    group.kill()

    def one_start(
        self, table: Table, start: int, contenders: Sequence[Contender], known: dict[str, Measured]
    ) -> list[Contender]:
        """Does one start. Returns the contenders that did not fail. Those without enough memory are measured after the
        others."""
        # The maps of one language are compared with each other, so they should fit into memory together.
        waiting = sorted(contenders, key=lambda c: c.programs[0].name) if table.keys else list(contenders)
        done: list[Contender] = []
        groups = 0
        while waiting:
            groups += 1
            if groups > 1:
                self.recorder.run.setdefault("groups", {})[table.name] = groups
            running: list[Measured] = []
            try:
                self.start_what_fits(table, start, waiting, running, known)
                self.rounds(table, start, running)
                for measured in running:
                    measured.group.close()
                    done.append(measured.contender)
                running.clear()
            finally:  # also after Ctrl-C
                for measured in running:
                    measured.group.kill()
        return done

    def start_what_fits(
        self,
        table: Table,
        start: int,
        waiting: list[Contender],
        running: list[Measured],
        known: dict[str, Measured],
    ) -> None:
        while waiting:
            contender = waiting[0]
            memory = sum(p.memory_mb for p in contender.programs) + sum(e.memory_mb for e in contender.extras) << 20
            memory += table.keys * BYTES_A_KEY
            if running and available_memory() < memory + RESERVE:
                return
            waiting.pop(0)
            seconds = estimate_start(table, contender, self.settings.slice_of(table))
            with self.progress.step(seconds, f"{table.name}: starting {contender.id}"):
                try:
                    group = Group(
                        contender, table, self.settings.cores, self.settings.slice_of(table), self.fill_in, self.env
                    )
                except Failure as failure:
                    self.failed(table, contender, failure)
                    continue
                measured = known.setdefault(contender.id, Measured(group))
                measured.group, measured.start = group, start
                running.append(measured)
                if start == 1:
                    self.recorder.reported(table, contender, group.opened, group.bytes_a_key)
                if not self.guarded(table, measured, self.warm_up):
                    running.remove(measured)

    def warm_ns(self, contender: Contender) -> float:
        """Returns the time of slices that a warm-up needs."""
        return WARM_NS

    def warm_up(self, measured: Measured) -> None:
        kind = "timed" if measured.group.table.scenario == "schedule" else "mean"
        before, total = 0.0, 0
        for turn in range(WARM_MOST_TURNS):
            slices = self.turn(measured, 0, WARM_SLICES, kind)
            ns = sum(s.ns for s in slices)
            pace = ns / max(1, sum(s.timed or s.count for s in slices))
            total += ns
            settled = before > 0 and abs(pace / before - 1) <= SETTLED
            if turn + 1 >= WARM_TURNS and total >= self.warm_ns(measured.contender) and settled:
                break
            before = pace
        for slices_, other in measured.group.table.kinds:
            if other != kind:  # warm up the other kind's loop, too
                self.turn(measured, 0, slices_, other)
                self.turn(measured, 0, slices_, other)

    def rounds(self, table: Table, start: int, running: list[Measured]) -> None:
        """Does this start's share of the rounds. After the last start, does at most as many rounds again, with the
        contenders that lack slices of the main class."""
        rounds, starts = self.settings.rounds_of(table), self.settings.starts_of(table)
        seconds = estimate_turns(table, self.settings.slice_of(table))
        last = start * rounds // starts
        turns = list(running)
        for number in range((start - 1) * rounds // starts + 1, (2 * rounds if start == starts else last) + 1):
            if number > rounds:
                turns = lacking(table, running, self.slices)
                self.progress.more(seconds * len(turns))
            if not turns:
                break
            for measured in list(turns):
                with self.progress.step(seconds, f"{table.name}: round {number} of {rounds}, {measured.contender.id}"):
                    if not self.guarded(table, measured, functools.partial(self.one_round, number)):
                        turns.remove(measured)
                        running.remove(measured)

    def one_round(self, number: int, measured: Measured) -> None:
        if measured.group.table.keys >= LARGE_MAP:
            # The process was parked. Meanwhile a hypervisor may take pages of such a map out of its page tables, and
            # the first operations would measure how it puts them back.
            self.warm_up(measured)
        for slices, kind in measured.group.table.kinds:
            self.turn(measured, number, slices, kind)
        measured.group.check_files()

    def turn(self, measured: Measured, number: int, slices: int, kind: str) -> list[Slice]:
        group = measured.group
        replies = group.turn(slices, kind)
        shares = self.speeds.shares(group.speeds(slices + 1))
        found = slices_of(group.table, group.contender, number, measured.start, replies, shares, group.waited)
        for slice_, reply in found:
            name = reply.get("samples")
            histogram = None
            if name:
                path = Path(group.folder, name)
                if number > 0:
                    histogram = read_samples(slice_, path)
                path.unlink()
            self.recorder.slice(slice_, histogram)
            self.slices.append(slice_)
        return [slice_ for slice_, _ in found]

    def guarded(self, table: Table, measured: Measured, action: Callable[[Measured], None]) -> bool:
        """Does an action. Returns False if the contender failed; then its processes are ended and the failure is
        recorded."""
        try:
            action(measured)
        except (Failure, KeyError, IndexError, OSError) as error:
            failure = error if isinstance(error, Failure) else Failure(f"bad answer: {type(error).__name__} {error}")
            self.failed(table, measured.contender, failure)
            measured.group.kill()
            return False
        return True

    def failed(self, table: Table, contender: Contender, failure: Failure) -> None:
        state = "cannot" if isinstance(failure, Cannot) else "failed"
        self.recorder.left_out(table.name, contender.id, state, str(failure))
        self.progress.say(f"{table.name}: {contender.id} {state}: {str(failure).splitlines()[-1]}")


def slices_of(
    table: Table,
    contender: Contender,
    number: int,
    start: int,
    replies: Mapping[str, Mapping[str, Any]],
    shares: Sequence[float],
    waited: int,
) -> list[tuple[Slice, Mapping[str, Any]]]:
    """Returns the slices of one turn. Failure if messages or slices are missing. `shares`: of the cores' speed at each
    probe."""
    asked = len(shares) - 1
    probes = replies["a"]["probes"]
    lossy = "lossy" in contender.options
    sides = table.sides(contender)
    if table.scenario in ONE_WAY:
        sent = [sum(replies[s]["slices"][i]["count"] for s in sides if s[0] == "a") for i in range(asked)]
        received = []
        for i in range(asked):
            of_all = [replies[s]["slices"][i] for s in sides if s[0] == "b"]
            for reply in of_all:
                if reply["count"] != sent[i] and not (lossy and reply["count"] < sent[i]):
                    raise Failure(f"{sent[i]} messages were sent, {reply['count']} received")
            if table.scenario in ("burst", "append"):
                received.append(replies["a"]["slices"][i])  # the sender's time counts
                continue
            received.append(min(of_all, key=lambda r: (r.get("timed") or r["count"]) / max(r["ns"], 1)))  # the slowest
    elif table.scenario == "jobs":
        sent = [int(r["count"]) for r in replies["a"]["slices"]]
        of_workers = zip(*(replies[s]["slices"] for s in sides if s[0] == "b"), strict=True)
        received = [jobs.together(n, workers) for n, workers in zip(sent, of_workers, strict=True)]
    else:
        received = list(replies["a"]["slices"])
        sent = [r["count"] for r in received]
        if table.scenario == "map" and "beside" in contender.options:
            puts = [r["count"] for r in replies["b"]["slices"]]
            if len(puts) != asked or not all(puts):
                raise Failure("the writer beside the reader wrote nothing")
    if len(received) != asked or len(probes) != asked + 1:
        raise Failure(f"{asked} slices asked for, answered {len(received)} and {len(probes)} probes")
    share = round(waited / max(1, sum(int(reply["ns"]) for reply in received)), 3)
    found: list[tuple[Slice, Mapping[str, Any]]] = []
    for i, reply in enumerate(received):
        before, after = round(float(probes[i]), 1), round(float(probes[i + 1]), 1)
        count, ns = int(reply["count"]), int(reply["ns"])
        if (count < 1 or ns < 1) and not lossy or before <= 0 or after <= 0:
            raise Failure(f"answered {count} messages in {ns} ns between probes of {before} and {after} ns")
        lost = sent[i] - count
        timed = int(reply.get("timed", 0)) if table.scenario in ("stream", "replay") else 0
        speed = min(shares[i], shares[i + 1])
        kind = reply["kind"]
        slice_ = Slice(
            table.name, contender.id, number, kind, count, ns, before, after, lost, timed, start, speed, share
        )
        found.append((slice_, reply))
    return found


def read_samples(slice_: Slice, path: Path) -> Any:
    samples = np.fromfile(path, dtype="<u4")
    if len(samples) != slice_.count:
        raise Failure(f"{slice_.count} round trips, {len(samples)} samples")
    return histogram_of(samples)


def lacking(table: Table, running: Sequence[Measured], all_: Sequence[Slice]) -> list[Measured]:
    """Returns contenders with fewer than five rounds in the table's main class. Also pairs that are compared, but have
    too few common rounds for an interval."""
    mine: dict[str, list[Slice]] = {m.contender.id: [] for m in running}
    for s in classify(all_)[0]:
        if s.table == table.name and s.contender in mine:
            mine[s.contender].append(s)
    class_ = majority(s for slices in mine.values() for s in slices)
    if class_ is None:
        return list(running)
    kinds = {kind for _, kind in table.kinds}
    few = {c for c, slices in mine.items() if any(rounds_in(slices, class_, k) < FEWEST_ROUNDS for k in kinds)}
    for contender, slices in mine.items():
        reference = table.reference(contender)
        if reference in mine and len(beside_in(slices, mine[reference], class_)) < FEWEST_SHOWN:
            few |= {contender, reference}
    return [m for m in running if m.contender.id in few]


def available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
