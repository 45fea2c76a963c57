# SPDX-License-Identifier: Apache-2.0
"""Compares the measurements with Flyring's targets (tables.toml). Only a report, without effect on the exit status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driver import ratios, sleeping
from driver.contenders import DataError, Table, matches
from driver.raw import Results
from driver.stats import FEW_ROUNDS, FEWEST_ROUNDS
from driver.text import ns_text, rate_text


@dataclass(frozen=True)
class Verdict:
    """`reached` is None if there is nothing to compare."""

    table: str
    text: str
    class_: str
    measured: str
    reached: bool | None


def verdicts(results: Results) -> list[Verdict]:
    return [
        verdict for table in results.tables for target in table.targets for verdict in judge(results, table, target)
    ]


def judge(results: Results, table: Table, target: Mapping[str, Any]) -> list[Verdict]:
    """Returns one verdict, or with take = "every" one for each contender. Without a class in the target, uses the
    largest class in which all compared contenders have figures."""
    text = target["text"]
    mine = [c for c in results.contenders(table) if matches(c, target["contender"])]
    if table.scenario in sleeping.SCENARIOS:
        judged = sleeping.judge(results, table, target, mine)
        return [Verdict(table.name, f"{text}: {title}", "", what, ok) for title, what, ok in judged] or [
            Verdict(table.name, text, "", "not measured", None)
        ]
    known = [c.name for c in results.classes.known]
    classes = results.classes_of(table)
    if "class" in target:
        if target["class"] not in known:
            seen = ", ".join(known) or "none"
            return [
                Verdict(table.name, text, target["class"], f"no such placement in this run, which saw: {seen}", None)
            ]
        classes = [target["class"]]
    if not classes:
        return [Verdict(table.name, text, "", "not measured", None)]
    if target.get("take") == "every":
        label = {c: results.run["contenders"][c]["label"] for c in mine}
        found = [first(results, table, target, classes, [c], f"{text}: {label[c]}") for c in mine]
    else:
        found = [first(results, table, target, classes, mine, text)]
    nobody = Verdict(table.name, text, classes[0], "no figure: no contender, or fewer than five rounds", None)
    return [v for v in found if v is not None] or [nobody]


def first(
    results: Results, table: Table, target: Mapping[str, Any], classes: Sequence[str], mine: Sequence[str], text: str
) -> Verdict | None:
    """Returns the verdict of the first class that allows one; else an undecided one from figures of fewer rounds."""
    undecided = None
    for fewest in (FEWEST_ROUNDS, FEW_ROUNDS):
        for class_ in classes:
            values = [v for c in mine if (v := Value.of(results, table, c, class_, target, fewest)) is not None]
            if not values:
                continue
            verdict = judge_one(results, table, target, class_, best(values), text, fewest)
            if verdict.reached is not None and fewest == FEWEST_ROUNDS:
                return verdict
            if verdict.reached is not None:
                return replace(verdict, measured=f"{verdict.measured}; fewer than five rounds", reached=None)
            undecided = undecided or verdict
    return undecided


@dataclass(frozen=True)
class Value:
    """The metric of one contender. Less is better; for rates, more."""

    contender: str
    title: str
    number: float
    rate: bool
    ratio: float | None
    above_floor: float | None

    @staticmethod
    def of(
        results: Results, table: Table, contender: str, class_: str, target: Mapping[str, Any], fewest: int
    ) -> Value | None:
        metric = target.get("metric", "mean")
        title = results.title(contender)
        if metric == "mean":
            figure = results.figure(table, contender, class_, fewest)
            if figure is None:
                return None
            rate = table.scenario != "rtt"
            return Value(contender, title, figure.value.median, rate, figure.ratio.median, figure.above_floor)
        latency = results.latency(table, contender, class_, fewest)
        number = None if latency is None else latency.percentile(float(metric.removeprefix("p")))
        return None if number is None else Value(contender, title, number, False, None, None)

    def __str__(self) -> str:
        return rate_text(self.number) if self.rate else ns_text(self.number)


def best(values: Iterable[Value]) -> Value:
    return min(values, key=lambda v: -v.number if v.rate else v.number)


def judge_one(
    results: Results, table: Table, target: Mapping[str, Any], class_: str, mine: Value, text: str, fewest: int
) -> Verdict:
    reached: bool | None
    if "ratio_to_floor_at_most" in target and mine.ratio is not None:
        measured = f"{mine.title} {mine}, {mine.ratio:.2f} times its raw line"
        reached = mine.ratio <= target["ratio_to_floor_at_most"]
    elif "interval_at_most" in target:
        beside = ratios.beside(results, table, mine.contender, class_)
        if beside is None:
            few = f"fewer than {ratios.FEWEST_SHOWN} rounds of both, which an interval needs"
            return Verdict(table.name, text, class_, f"{mine.title} {mine}; {few}", None)
        low, middle, high = beside
        floor = results.title(table.reference(mine.contender))
        measured = f"{mine.title} {mine}, {middle:.3f} ({low:.3f}–{high:.3f}) times {floor}"
        reached = high <= target["interval_at_most"]
    elif "above_floor_at_most_ns" in target and mine.above_floor is not None:
        measured = f"{mine.title} {mine}, {ns_text(mine.above_floor)} above its raw line"
        reached = mine.above_floor <= target["above_floor_at_most_ns"]
    elif "bytes_a_key_at_most" in target:
        size = results.bytes_a_key(table, mine.contender)
        if size is None:
            return Verdict(table.name, text, class_, f"{mine.title}: its memory was not measured", None)
        measured = f"{mine.title} {size:.0f} bytes a key"
        reached = size <= target["bytes_a_key_at_most"]
    elif "at_least_per_second" in target:
        measured = f"{mine.title} {mine}"
        reached = mine.number >= target["at_least_per_second"]
    elif "at_most" in target or "at_least" in target:
        limit = target.get("at_most") or target["at_least"]
        other = reference(results, table, limit["of"], class_, target, mine, fewest)
        if other is None:
            return Verdict(table.name, text, class_, f"{mine.title} {mine}; nothing to compare with", None)
        ratio = mine.number / other.number
        measured = f"{mine.title} {mine}, {ratio:.2f} times {other.title} {other}"
        reached = ratio <= limit["times"] if "at_most" in target else ratio >= limit["times"]
    else:
        raise DataError(f"tables.toml: {table.name}: no such target: {dict(target)}")
    return Verdict(table.name, text, class_, measured, reached)


def reference(
    results: Results,
    table: Table,
    of: str | Sequence[str],
    class_: str,
    target: Mapping[str, Any],
    mine: Value,
    fewest: int,
) -> Value | None:
    """Returns the value to compare with: the best of the others, or the slower of a mixed pair's own pairs."""
    if of == "own pairs":
        pairs = [
            Value.of(results, table, c, class_, target, fewest)
            for c in results.run["contenders"][mine.contender]["own_pairs"]
        ]
        known = [p for p in pairs if p is not None]
        return max(known, key=lambda v: v.number) if len(known) == len(pairs) else None
    others = [c for c in results.contenders(table) if matches(c, of) and c != mine.contender]
    values = [v for c in others if (v := Value.of(results, table, c, class_, target, fewest)) is not None]
    return best(values) if values else None
