# SPDX-License-Identifier: Apache-2.0
"""The figures of a run arranged for reading, the same for the page and for Markdown: tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from driver.contenders import Table, matches
from driver.raw import Results
from driver.stats import CLASSES, FEWEST_ROUNDS, PERCENTILES, Figure, Latency
from driver.targets import Verdict, verdicts
from driver.text import bytes_text, ns_text, range_text, ratio_text, value_text


@dataclass(frozen=True)
class Grid:
    """A table of text. The first column names the row; rows of group "flyring" stand out."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One table in one class of placement."""

    table: Table
    class_: str
    main: bool
    ranking: tuple[tuple[str, Figure], ...]  # the best first
    figures: Grid
    percentiles: Grid | None
    latencies: tuple[tuple[str, Latency], ...]


@dataclass(frozen=True)
class Summary:
    parts: tuple[Part, ...]
    headline: Grid
    verdicts: tuple[Verdict, ...]
    left_out: dict[str, list[tuple[str, str, str]]]  # by table: contender, state, reason
    dropped: dict[str, tuple[int, int]]  # by table: mixed slices, all slices

    @staticmethod
    def of(results: Results) -> Summary:
        parts = tuple(p for t in results.tables for c in CLASSES if (p := part(results, t, c)) is not None)
        return Summary(
            parts, headline(results, parts), tuple(verdicts(results)), left_out(results, parts), dropped(results)
        )

    def of_table(self, table: Table) -> list[Part]:
        """The class with most slices first."""
        return sorted((p for p in self.parts if p.table.name == table.name), key=lambda p: not p.main)


def part(results: Results, table: Table, class_: str) -> Part | None:
    figures = [(c, f) for c in results.contenders(table) if (f := results.figure(table, c, class_)) is not None]
    if not figures:
        return None
    if table.scenario == "rtt":
        figures.sort(key=lambda pair: pair[1].value.median)
    else:
        figures.sort(key=lambda pair: -pair[1].value.median)
    latencies = tuple((c, found) for c, _ in figures if (found := results.latency(table, c, class_)) is not None)
    if table.scenario == "schedule":  # all keep the rate, or should: the median says more
        order = {c: found.percentile(50.0) or 0.0 for c, found in latencies}
        figures.sort(key=lambda pair: order.get(pair[0], float("inf")))
        latencies = tuple(sorted(latencies, key=lambda pair: order[pair[0]]))
    main = results.main_class(table) == class_
    grid = figures_grid(results, table, figures)
    return Part(table, class_, main, tuple(figures), grid, percentiles_grid(results, table, latencies), latencies)


def figures_grid(results: Results, table: Table, figures: Sequence[tuple[str, Figure]]) -> Grid:
    unit = {"rtt": "round trip", "schedule": "rate kept", "stream": "messages"}[table.scenario]
    head = ["contender", unit, "spread of rounds", "raw line"]
    head += {"rtt": ["ratio (spread)"], "schedule": [], "stream": ["per raw round trip (spread)"]}[table.scenario]
    head += ["bytes"] if table.scenario == "stream" else []
    lossy = any(f.lost > 0 for _, f in figures)
    head += ["lost"] if lossy else []
    head += ["rounds"]
    rows = []
    for contender, f in figures:
        row = [
            results.title(contender),
            value_text(f.value, table.scenario),
            range_text(f.value, table.scenario),
            ns_text(f.floor.median),
        ]
        row += [] if table.scenario == "schedule" else [ratio_text(f.ratio)]
        row += [bytes_text(f.value.median * table.size)] if table.scenario == "stream" else []
        row += [f"{100 * f.lost:.1f} %" if f.lost else "0"] if lossy else []
        rows.append((*row, f"{f.rounds}, {f.starts} starts" if f.starts > 1 else str(f.rounds)))
    return Grid(tuple(head), tuple(rows), groups_of(results, [c for c, _ in figures]))


def percentiles_grid(results: Results, table: Table, latencies: Sequence[tuple[str, Latency]]) -> Grid | None:
    if not latencies:
        return None
    head = ("contender", *(f"p{p:g}" for p in PERCENTILES), "max", "samples", "clock read")
    rows = []
    for contender, latency in latencies:
        values = [latency.percentile(p) for p in PERCENTILES]
        clock = results.clock_ns(table, contender)
        texts = ["–" if v is None else ns_text(v) for v in values]
        rows.append(
            (
                results.title(contender),
                *texts,
                ns_text(latency.max),
                f"{latency.count:,}".replace(",", " "),
                "?" if clock is None else ns_text(clock),
            )
        )
    return Grid(head, tuple(rows), groups_of(results, [c for c, _ in latencies]))


def groups_of(results: Results, contenders: Sequence[str]) -> tuple[str, ...]:
    return tuple(results.run["contenders"][c]["group"] for c in contenders)


def headline(results: Results, parts: Sequence[Part]) -> Grid:
    """Flyring's best row for each program of each headline table, beside the floor and the best of what else the same
    language has."""
    rows = []
    for p in parts:
        if not (p.table.headline and p.main):
            continue
        labels = dict.fromkeys(results.run["contenders"][c]["label"] for c, _ in p.ranking)
        for label in labels:
            of_label = [(c, f) for c, f in p.ranking if results.run["contenders"][c]["label"] == label]
            mine = [(c, f) for c, f in of_label if group(results, c) == "flyring"]
            others = [(c, f) for c, f in of_label if group(results, c) in ("peers", "kernel")]
            if not mine:
                continue
            contender, f = mine[0]
            against = ratio = "–"
            if others:
                other, g = others[0]
                factor = f.value.median / g.value.median
                against = f"{results.run['contenders'][other]['title']} {value_text(g.value, p.table.scenario)}"
                ratio = f"{factor:.2f}× the {'rate' if p.table.scenario == 'stream' else 'time'}"
            floor = (
                f"{f.ratio.median:.2f}× the raw line ({ns_text(f.floor.median)})" if p.table.scenario == "rtt" else "–"
            )
            rows.append(
                (
                    p.table.title,
                    results.title(contender),
                    value_text(f.value, p.table.scenario),
                    floor,
                    against,
                    ratio,
                    p.class_,
                )
            )
    head = ("", "Flyring", "measured", "floor", "best other, same language", "Flyring takes", "placement")
    return Grid(head, tuple(rows))


def group(results: Results, contender: str) -> str:
    return str(results.run["contenders"][contender]["group"])


def left_out(results: Results, parts: Sequence[Part]) -> dict[str, list[tuple[str, str, str]]]:
    """Everybody a table asked for who has no figure in the class it is shown in, and why."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for entry in results.run["left_out"]:
        found.setdefault(entry["table"], []).append(
            (results.title(entry["contender"]), entry["state"], entry["reason"])
        )
    failed = {(e["table"], e["contender"]) for e in results.run["left_out"]}
    for table in results.tables:
        class_ = results.main_class(table)
        shown = {c for p in parts if p.table.name == table.name and p.class_ == class_ for c, _ in p.ranking}
        for contender in results.contenders(table):
            if contender in shown or (table.name, contender) in failed:
                continue
            rounds = Counter(s.placement for s in results.slices[table.name, contender] if s.round > 0)
            had = ", ".join(f"{n} slices {c}" for c, n in rounds.items()) or "no slice"
            reason = f"fewer than {FEWEST_ROUNDS} rounds in class {class_}: {had}"
            found.setdefault(table.name, []).append((results.title(contender), "not shown", reason))
    return found


def dropped(results: Results) -> dict[str, tuple[int, int]]:
    found = {}
    for table in results.tables:
        slices = [s for (t, _), group_ in results.slices.items() if t == table.name for s in group_ if s.round > 0]
        found[table.name] = (sum(s.placement == "mixed" for s in slices), len(slices))
    return found


def picture_part(results: Results, summary: Summary, name: str) -> Part | None:
    """The main part of the table that tables.toml names for a picture of the README."""
    return next((p for p in summary.parts if p.table.picture == name and p.main), None)


def picked(part_: Part, patterns: Sequence[str]) -> list[tuple[str, Figure]]:
    return [(c, f) for c, f in part_.ranking if matches(c, patterns)]
