# SPDX-License-Identifier: Apache-2.0
"""The ratio of two trees in one row, with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driver.contenders import Table
from driver.placement import SLOWEST
from driver.raw import Results
from driver.stats import Slice, Spread

FEWEST_STARTS = 10  # the minimum before a row may end, and for a verdict
FEWEST_SHOWN = 6  # per class: fewer would all be on one side of 1 by chance more often than once in twenty
WANTED = 0.01  # the half interval at which no starts are added; a change of twice as much is detected
WIDEST = 0.02  # the widest half interval for a verdict
RESAMPLES = 5000


@dataclass(frozen=True)
class Ratio:
    """The time of a message here divided by the time there, over the starts in one class; above 1 is slower."""

    class_: str
    here: Spread  # over starts, nanoseconds per round trip or messages per second
    there: Spread
    ratio: float
    low: float
    high: float
    starts: int
    of_starts: int  # in all classes, dropped ones included

    @property
    def wide(self) -> float:
        """The half interval, as a share."""
        return (self.high - self.low) / 2

    @property
    def verdict(self) -> str:
        if self.starts < FEWEST_STARTS:
            return "wide"  # a bootstrap interval of so few is too narrow
        if self.low > 1:
            return "slower"
        if self.high < 1:
            return "faster"
        return "within" if self.wide <= WIDEST else "wide"


def ratios(here: Sequence[Slice], there: Sequence[Slice], scenario: str) -> list[Ratio]:
    """Returns a ratio for each class in which both have enough starts; the class with most starts comes first."""
    found = []
    all_ = len({s.start for s in here} & {s.start for s in there})
    classes = {s.placement for s in here if s.placement} & {s.placement for s in there if s.placement}
    for class_ in sorted(classes):
        pairs = paired(here, there, class_)
        if len(pairs) >= FEWEST_SHOWN:
            low, middle, high = map(math.exp, interval([math.log(a / b) for a, b in pairs]))
            mine, other = (
                Spread.of([x if scenario == "rtt" else 1e9 / x for x in side]) for side in zip(*pairs, strict=True)
            )
            found.append(Ratio(class_, mine, other, middle, low, high, len(pairs), all_))
    return sorted(found, key=lambda r: -r.starts)


def paired(here: Sequence[Slice], there: Sequence[Slice], class_: str) -> list[tuple[float, float]]:
    """Yields nanoseconds per message here and there, of each start in which both have slices of the class in the same
    rounds, on equally fast cores."""
    starts: dict[int, list[tuple[float, float]]] = {}
    for (start, _), pair in by_round(here, there, class_).items():
        starts.setdefault(start, []).append(pair)
    return [
        (statistics.median(x for x, _ in rounds), statistics.median(y for _, y in rounds)) for rounds in starts.values()
    ]


def beside(results: Results, table: Table, contender: str, class_: str) -> tuple[float, float, float] | None:
    """Returns how many times longer the contender takes for a round trip or message than the table's `compared_with` in
    the same round: the median over rounds, between the ends of its interval. None: both have too few rounds in this
    class."""
    reference = table.reference(contender)
    mine, other = (results.slices.get((table.name, c), []) for c in (contender, reference))
    pairs = beside_in(mine, other, class_)
    if not reference or len(pairs) < FEWEST_SHOWN:
        return None
    low, middle, high = map(math.exp, interval([math.log(a / b) for a, b in pairs]))
    return low, middle, high


def beside_in(mine: Sequence[Slice], other: Sequence[Slice], class_: str) -> list[tuple[float, float]]:
    """Returns nanoseconds per message of both, of each round in which both have slices of the class."""
    here, there = ([s for s in side if s.kind == "mean"] for side in (mine, other))
    return list(by_round(here, there, class_, slowest=0).values())


def by_round(
    here: Sequence[Slice], there: Sequence[Slice], class_: str, slowest: float = SLOWEST
) -> dict[tuple[int, int], tuple[float, float]]:
    """Returns nanoseconds per message here and there by start and round, where both have slices of the class, and the
    slower core was at least `slowest` times as fast as the other (0 for sleepers, whose time depends on the system)."""

    def grouped(slices: Sequence[Slice]) -> dict[tuple[int, int], list[Slice]]:
        found: dict[tuple[int, int], list[Slice]] = {}
        for s in slices:
            if s.round > 0 and s.placement == class_ and math.isfinite(s.each_ns):
                found.setdefault((s.start, s.round), []).append(s)
        return found

    a, b = grouped(here), grouped(there)
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for key in sorted(a.keys() & b.keys()):
        fast = [statistics.fmean(s.speed for s in side[key]) for side in (a, b)]
        if min(fast) >= slowest * max(fast):
            values = [statistics.fmean(s.each_ns for s in side[key]) for side in (a, b)]
            found[key] = (values[0], values[1])
    return found


def interval(logarithms: Sequence[float]) -> tuple[float, float, float]:
    """Returns the median over starts or rounds, between the ends of its 95 % bootstrap interval. Equal numbers give
    equal intervals."""
    values = np.array(logarithms)
    random = np.random.default_rng(len(values))
    medians = np.median(random.choice(values, (RESAMPLES, len(values))), axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return float(low), float(np.median(values)), float(high)
