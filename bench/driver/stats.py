# SPDX-License-Identifier: Apache-2.0
"""Makes figures from slices: medians over rounds, and merged histograms."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

FEWEST_ROUNDS = 5  # that a figure needs for a judgement, and a class to be shown
FEW_ROUNDS = 3  # that a contender needs to be shown beside others in a class that is shown
FEWEST_ABOVE = 10  # samples above a percentile that is shown
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


@dataclass(frozen=True)
class Slice:
    """One line of the raw data. Round 0 is the warm-up."""

    table: str
    contender: str
    round: int
    kind: str
    count: int
    ns: int
    before: float
    after: float
    lost: int = 0
    timed: int = 0  # in a stream: messages after the clock was started; 0: all
    start: int = 1  # the number of the start of its processes
    speed: float = 1.0  # of the slower core at the slower of the two probes, as a share of its usual speed
    waited: float = 0.0  # the share of its turn that a side waited while other processes used its core
    # Not in the raw data; placement.py finds them for the whole run.
    placement: str = ""  # name of its class; "": dropped
    dropped: str = ""  # why it is dropped

    @property
    def floor(self) -> float:
        """The raw round trip, in nanoseconds."""
        return (self.before + self.after) / 2

    @property
    def each_ns(self) -> float:
        """Nanoseconds per message or round trip."""
        messages = self.timed or self.count
        return self.ns / messages if messages else math.inf  # a lossy contender may have lost all messages


@dataclass(frozen=True)
class Spread:
    """The median of some values, the smallest and the largest."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Figure:
    """The result of untimed slices of one class. `value`: nanoseconds per round trip, or messages per second."""

    value: Spread  # over rounds; a round's value is the mean of its slices
    floor: Spread  # over rounds
    ratio: Spread  # over slices: the value divided by the floor; for a rate: messages in the time of one raw round trip
    above_floor: float  # nanoseconds, median over slices
    rounds: int
    starts: int
    slices: int
    lost: float  # share of the messages


class Speeds:
    """The usual speed of the two cores: the speed that they exceed at one probe in ten. Covers the last few minutes,
    because clock rates change."""

    def __init__(self) -> None:
        self.known: tuple[deque[float], deque[float]] = (deque(maxlen=500), deque(maxlen=500))

    def shares(self, probes: Sequence[tuple[float, float]]) -> list[float]:
        """Returns for each probe the slower core's share of its usual speed."""
        found = []
        for probe in probes:
            for known, speed in zip(self.known, probe, strict=True):
                known.append(speed)
            usual = [float(np.percentile(known, 90)) for known in self.known]
            found.append(round(min(s / u for s, u in zip(probe, usual, strict=True)), 3))
        return found


def figure(slices: Iterable[Slice], scenario: str, class_: str, fewest: int = FEWEST_ROUNDS) -> Figure | None:
    """Returns the figure; None if fewer rounds than `fewest` have slices of this class."""
    kind = "timed" if scenario == "schedule" else "mean"
    mine = [s for s in slices if s.round > 0 and s.kind == kind and s.placement == class_]
    rounds: dict[int, list[Slice]] = {}
    for s in mine:
        rounds.setdefault(s.round, []).append(s)
    if len(rounds) < fewest:
        return None

    def value(s: Slice) -> float:
        return s.each_ns if scenario == "rtt" else 1e9 / s.each_ns

    def ratio(s: Slice) -> float:
        return value(s) / s.floor if scenario == "rtt" else value(s) * s.floor / 1e9

    lost, received = sum(s.lost for s in mine), sum(s.count for s in mine)
    return Figure(
        value=Spread.of([statistics.fmean(map(value, group)) for group in rounds.values()]),
        floor=Spread.of([statistics.fmean(s.floor for s in group) for group in rounds.values()]),
        ratio=Spread.of([ratio(s) for s in mine]),
        above_floor=statistics.median(s.each_ns - s.floor for s in mine),
        rounds=len(rounds),
        starts=len({s.start for s in mine}),
        slices=len(mine),
        lost=lost / (lost + received),
    )


def rounds_in(slices: Iterable[Slice], class_: str, kind: str) -> int:
    return len({s.round for s in slices if s.round > 0 and s.kind == kind and s.placement == class_})


def majority(slices: Iterable[Slice]) -> str | None:
    """Returns the class with most slices."""
    found = Counter(s.placement for s in slices if s.round > 0 and s.placement)
    return max(found, key=lambda c: found[c]) if found else None


def new_histogram() -> Any:
    """Makes a histogram from 1 ns to 4.3 s, the range of a sample, with three digits."""
    return HdrHistogram(1, 1 << 32, 3)


def histogram_of(samples: npt.NDArray[np.uint32]) -> Any:
    histogram = new_histogram()
    record(histogram, samples)
    return histogram


def record(histogram: Any, samples: npt.NDArray[np.uint32]) -> None:
    values, counts = np.unique(samples, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)


@dataclass(frozen=True)
class Latency:
    """A merged histogram: distinct values, and the number of samples at or below each."""

    values: npt.NDArray[np.int64]
    cumulative: npt.NDArray[np.int64]
    rounds: int

    @staticmethod
    def of(histograms: Iterable[Any], rounds: int) -> Latency:
        values: list[int] = []
        counts: list[int] = []
        for histogram in histograms:
            all_ = np.array(histogram.counts, dtype=np.int64)
            for i in np.flatnonzero(all_).tolist():
                values.append(histogram.get_highest_equivalent_value(histogram.get_value_from_index(i)))
                counts.append(int(all_[i]))
        distinct, place = np.unique(np.array(values, dtype=np.int64), return_inverse=True)
        merged = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(merged, place, counts)
        return Latency(distinct, np.cumsum(merged), rounds)

    @property
    def count(self) -> int:
        return int(self.cumulative[-1]) if len(self.cumulative) else 0

    @property
    def max(self) -> int:
        return int(self.values[-1])

    def beyond(self, more: float) -> tuple[int, float, float]:
        """Returns the number of samples that exceed the median by more than `more`, the sum of their excesses, and the
        sum of all samples."""
        counts = np.diff(self.cumulative, prepend=0)
        median = float(self.values[np.searchsorted(self.cumulative, (self.count + 1) // 2)])
        long = self.values > median + more
        sums = float(((self.values - median) * counts)[long].sum())
        return int(counts[long].sum()), sums, float((self.values * counts).sum())

    def percentile(self, percent: float) -> float | None:
        """Returns a percentile; None if fewer than ten samples lie above it."""
        rank = int(np.ceil(self.count * percent / 100 - 1e-6))
        if self.count - rank < FEWEST_ABOVE:
            return None
        return float(self.values[np.searchsorted(self.cumulative, max(rank, 1))])

    def points(self, steps: int = 40) -> list[tuple[float, float]]:
        """Returns the curve, as curve.py of the command ``flyring`` draws it: (log10 of 1 / (1 - quantile), value),
        with so many points for each nine, up to 99.999 %."""
        found = []
        for x in np.arange(5 * steps + 1) / steps:
            value = self.percentile(100 - 100 / 10 ** float(x))
            if value is None:
                break
            found.append((float(x), value))
        return found
