# SPDX-License-Identifier: Apache-2.0
"""Classes of placement: where the machine had placed the two cores during a slice, found from the run's raw lines.

The logarithms of all raw round trips of the run are sorted and cut in two where two means fit them best. The cut is
kept if the medians of the two parts differ by 15 % and by four times the spread within them (the sum of their
interquartile ranges), and each part has ten probes. Then each part is cut again. A part that is not cut is a class.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from driver.stats import FEWEST_ROUNDS, Slice
from driver.text import ns_text

APART = 4.0  # times the spread within the parts
FEWEST_PROBES = 2 * FEWEST_ROUNDS  # per class; a slice has two probes
MOST_DIFFERENT = 0.15  # between the probes before and after a slice; and classes are at least that far apart
TIMES_USUAL = 3.0  # what is usual of a contender, if that is more
MOST_WAITED = 0.02  # of a turn, for a core on which something else ran
SLOWEST = 0.9  # of a core's usual speed; a slower core shares its hardware with a busy sibling thread

MOVED, CHANGED, SLOWED = "the cores moved", "the raw line changed", "a core was slow"
TAKEN = "something else ran on a core"


@dataclass(frozen=True)
class Class:
    """One class of the run. Raw round trips in nanoseconds: the median, and the range of nine in ten probes."""

    name: str
    median: float
    low: float
    high: float
    share: float  # share of the run's probes

    @property
    def text(self) -> str:
        of = "" if self.name != "all" else ", the only placement that this run saw"
        low, high = f"{self.low:.0f}", ns_text(self.high)
        return f"{self.name}: the raw line takes {ns_text(self.median)} ({low}–{high}){of}"


@dataclass(frozen=True)
class Classes:
    """The classes of a run, the nearest first; `limits` are the raw round trips between them."""

    known: tuple[Class, ...] = ()
    limits: tuple[float, ...] = ()

    @staticmethod
    def of(slices: Iterable[Slice]) -> Classes:
        """Makes the classes from the probes of all rounds."""
        probes = np.sort([math.log(p) for s in slices if s.round > 0 for p in (s.before, s.after)])
        if len(probes) == 0:
            return Classes()
        parts = cut(probes)
        known = []
        for name, part in zip(names(len(parts)), parts, strict=True):
            low, median, high = np.exp(np.percentile(part, (5, 50, 95)))
            known.append(Class(name, float(median), float(low), float(high), len(part) / len(probes)))
        return Classes(tuple(known), tuple(math.exp((a[-1] + b[0]) / 2) for a, b in pairwise(parts)))

    def place(self, raw_line: float) -> str:
        return self.known[bisect(self.limits, raw_line)].name

    def get(self, name: str) -> Class:
        return next(c for c in self.known if c.name == name)


def names(count: int) -> tuple[str, ...]:
    """Returns the names of the classes, ordered by the raw round trip."""
    if count == 1:
        return ("all",)
    between = ["middle"] if count == 3 else [f"middle {n}" for n in range(1, count - 1)]
    return ("near", *between, "far")


def cut(probes: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """Cuts sorted logarithms into classes."""
    if len(probes) < 2 * FEWEST_PROBES:
        return [probes]
    at = best_cut(probes)
    left, right = probes[:at], probes[at:]
    if min(len(left), len(right)) < FEWEST_PROBES:
        return [probes]
    apart = np.median(right) - np.median(left)
    if apart <= max(math.log(1 + MOST_DIFFERENT), APART * (spread(left) + spread(right))):
        return [probes]
    return [*cut(left), *cut(right)]


def best_cut(values: npt.NDArray[np.float64]) -> int:
    """Returns the cut at which two means leave the least sum of squares."""
    n = np.arange(1, len(values))
    sums = np.cumsum(values - values.mean())
    return int(np.argmax(sums[:-1] ** 2 / (n * (len(values) - n)))) + 1


def spread(values: npt.NDArray[np.float64]) -> float:
    low, high = np.percentile(values, (25, 75))
    return float(high - low)


@dataclass(frozen=True)
class Usual:
    """Medians over the slices of one contender in one table."""

    differs: float = 0.0
    speed: float = 1.0
    waited: float = 0.0


def classify(slices: Sequence[Slice], paired: bool = False) -> tuple[list[Slice], Classes]:
    """Returns the slices of a whole run, each with its class, or with the reason for which it is dropped.

    Contenders take turns, so changes of the machine affect all of them. An effect in most slices of one contender (a
    longer raw line just after its messages, a lower clock) is its own, and no reason to drop slices. `paired`: for
    --against, whose two sides are compared turn by turn, a core that is slow for both is no reason.
    """
    classes = Classes.of(slices)
    if not classes.known:
        return list(slices), classes
    mine: dict[tuple[str, str], list[Slice]] = {}
    for s in slices:
        if s.round > 0:
            mine.setdefault((s.table, s.contender), []).append(s)
    usual = {
        key: Usual(
            statistics.median(map(difference, group)),
            statistics.median(s.speed for s in group),
            statistics.median(s.waited for s in group),
        )
        for key, group in mine.items()
    }
    least = min((own.waited for own in usual.values()), default=0.0)  # the excess over it belongs to a contender
    found = []
    for s in slices:
        own = usual.get((s.table, s.contender), Usual())
        why = ""
        if s.waited > max(MOST_WAITED, TIMES_USUAL * (own.waited - least)):
            why = TAKEN
        elif s.speed < SLOWEST * min(1.0, own.speed) and not paired:
            why = SLOWED
        elif classes.place(s.before) != classes.place(s.after):
            why = MOVED
        elif difference(s) > max(math.log(1 + MOST_DIFFERENT), TIMES_USUAL * own.differs):
            why = CHANGED
        found.append(dataclasses.replace(s, placement="" if why else classes.place(s.floor), dropped=why))
    return found, classes


def difference(s: Slice) -> float:
    """Returns the logarithm of the ratio between the probes before and after the slice."""
    return abs(math.log(s.after / s.before))
