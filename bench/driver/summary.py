# SPDX-License-Identifier: Apache-2.0
"""The figures of a run as tables of text, for the page and for Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from driver import ratios
from driver.contenders import Table, matches
from driver.grid import Grid
from driver.raw import Results
from driver.stats import FEW_ROUNDS, FEWEST_ROUNDS, PERCENTILES, Figure, Latency, Slice
from driver.targets import Verdict, verdicts
from driver.text import bytes_text, ns_text, range_text, ratio_text, value_text

INTERRUPTED = 1000  # a round trip that exceeds the median by so many nanoseconds was interrupted


@dataclass(frozen=True)
class Part:
    """One table in one class of placement."""

    table: Table
    class_: str
    main: bool
    ranking: tuple[tuple[str, Figure], ...]  # best first
    figures: Grid
    percentiles: Grid | None
    latencies: tuple[tuple[str, Latency], ...]


@dataclass(frozen=True)
class Summary:
    parts: tuple[Part, ...]
    headline: Grid
    verdicts: tuple[Verdict, ...]
    left_out: dict[str, list[tuple[str, str, str]]]  # by table: contender, state, reason
    dropped: dict[str, tuple[dict[str, int], int]]  # by table: dropped slices by reason, all slices

    @staticmethod
    def of(results: Results) -> Summary:
        known = [c.name for c in results.classes.known]
        parts = tuple(p for t in results.tables for c in known if (p := part(results, t, c)) is not None)
        return Summary(
            parts, headline(results, parts), tuple(verdicts(results)), left_out(results, parts), dropped(results)
        )

    def of_table(self, table: Table) -> list[Part]:
        """Returns the parts of a table; the class with most slices comes first."""
        return sorted((p for p in self.parts if p.table.name == table.name), key=lambda p: not p.main)


def part(results: Results, table: Table, class_: str) -> Part | None:
    """Returns one part; None if no contender has five rounds in it. Contenders with three rounds are shown, too."""
    contenders = results.contenders(table)
    figures = [(c, f) for c in contenders if (f := results.figure(table, c, class_, FEW_ROUNDS)) is not None]
    if not any(f.rounds >= FEWEST_ROUNDS for _, f in figures):
        return None
    if table.scenario == "rtt":
        figures.sort(key=lambda pair: pair[1].value.median)
    else:
        figures.sort(key=lambda pair: -pair[1].value.median)
    found = [(c, results.latency(table, c, class_, FEW_ROUNDS)) for c, _ in figures]
    latencies = tuple((c, latency) for c, latency in found if latency is not None)
    if table.scenario == "schedule":  # all should keep the rate, so the median says more
        order = {c: latency.percentile(50.0) or 0.0 for c, latency in latencies}
        figures.sort(key=lambda pair: order.get(pair[0], float("inf")))
        latencies = tuple(sorted(latencies, key=lambda pair: order[pair[0]]))
    main = results.main_class(table) == class_
    grid = figures_grid(results, table, class_, figures)
    return Part(table, class_, main, tuple(figures), grid, percentiles_grid(results, table, latencies), latencies)


def figures_grid(results: Results, table: Table, class_: str, figures: Sequence[tuple[str, Figure]]) -> Grid:
    unit = {"rtt": "round trip", "schedule": "rate kept", "jobs": "jobs", "map": "operations"}.get(
        table.scenario, "messages"
    )
    streaming = table.scenario in ("stream", "burst", "append", "replay")
    head = ["contender", unit, "spread of rounds", "raw line"]
    head += ["ratio (spread)"] if table.scenario == "rtt" else ["per raw round trip (spread)"] if streaming else []
    against = next(iter(references(table, figures)), "")
    own = "*" in table.compared_with
    titles = [results.run["contenders"][r]["title"] for r in references(table, figures)]
    title = f"{' or '.join(dict.fromkeys(titles))}, same language" if own and against else ""
    head += [f"times {title or results.title(against)} (95 % interval)"] if against else []
    head += ["bytes"] if streaming else ["bytes a key"] if table.keys else []
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
        row += [ratio_text(f.ratio)] if table.scenario == "rtt" or streaming else []
        row += [interval_text(ratios.beside(results, table, contender, class_))] if against else []
        row += [bytes_text(f.value.median * table.size)] if streaming else []
        size = results.bytes_a_key(table, contender)
        row += ["–" if size is None else f"{size:.0f}"] if table.keys else []
        row += [f"{100 * f.lost:.1f} %" if f.lost else "0"] if lossy else []
        few = "" if f.rounds >= FEWEST_ROUNDS else " (few)"
        rows.append((*row, f"{f.rounds}{few}, {f.starts} starts" if f.starts > 1 else f"{f.rounds}{few}"))
    return Grid(tuple(head), tuple(rows), groups_of(results, [c for c, _ in figures]))


def references(table: Table, figures: Sequence[tuple[str, Figure]]) -> list[str]:
    """Returns the contenders with which others are compared, of those that have figures."""
    return [r for c, _ in figures if (r := table.reference(c)) in dict(figures)]


def interval_text(ratio: tuple[float, float, float] | None) -> str:
    return "–" if ratio is None else "{1:.3f} ({0:.3f}–{2:.3f})".format(*ratio)


def percentiles_grid(results: Results, table: Table, latencies: Sequence[tuple[str, Latency]]) -> Grid | None:
    if not latencies:
        return None
    more = ("interruptions", "their time") if table.interruptions else ()
    head = ("contender", *(f"p{p:g}" for p in PERCENTILES), "max", "samples", "clock read", *more)
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
                *(interruptions_text(latency) if table.interruptions else ()),
            )
        )
    return Grid(head, tuple(rows), groups_of(results, [c for c, _ in latencies]))


def interruptions_text(latency: Latency) -> tuple[str, str]:
    """Returns how many round trips per second were interrupted, and the share of time that they exceed the median."""
    count, beyond, all_ = latency.beyond(INTERRUPTED)
    return f"{count / all_ * 1e9:.0f} a second", f"{100 * beyond / all_:.2f} %"


def groups_of(results: Results, contenders: Sequence[str]) -> tuple[str, ...]:
    return tuple(results.run["contenders"][c]["group"] for c in contenders)


def headline(results: Results, parts: Sequence[Part]) -> Grid:
    """Returns Flyring's best row for each program of each headline table, with the floor and the best other contender
    in the same language. Uses the largest class in which both have five rounds; else shows only Flyring."""
    rows = []
    for table in (t for t in results.tables if t.headline):
        of_table = sorted((p for p in parts if p.table.name == table.name), key=lambda p: not p.main)
        labels = dict.fromkeys(results.run["contenders"][c]["label"] for p in of_table for c, _ in p.ranking)
        for label in labels:
            found = [(p, mine, other) for p in of_table for mine, other in best_two(results, p, label)]
            if found:
                rows.append(headline_row(results, *next((row for row in found if row[2] is not None), found[0])))
    head = ("", "Flyring", "measured", "floor", "best other, same language", "Flyring takes", "placement")
    return Grid(head, tuple(rows))


Ranked = tuple[str, Figure]


def best_two(results: Results, p: Part, label: str) -> list[tuple[Ranked, Ranked | None]]:
    """Returns Flyring's best row in one language, and the best other one. Empty if Flyring has no figure here."""
    of_label = [
        (c, f) for c, f in p.ranking if f.rounds >= FEWEST_ROUNDS and results.run["contenders"][c]["label"] == label
    ]
    mine = [pair for pair in of_label if group(results, pair[0]) == "flyring"]
    others = [pair for pair in of_label if group(results, pair[0]) in ("peers", "kernel")]
    return [(mine[0], others[0] if others else None)] if mine else []


def headline_row(results: Results, p: Part, mine: Ranked, other: Ranked | None) -> tuple[str, ...]:
    contender, f = mine
    against = ratio = floor = "–"
    if other is not None:
        factor = f.value.median / other[1].value.median
        against = f"{results.run['contenders'][other[0]]['title']} {value_text(other[1].value, p.table.scenario)}"
        ratio = f"{factor:.2f}× the {'time' if p.table.scenario in ('rtt', 'schedule') else 'rate'}"
    if p.table.scenario == "rtt":
        floor = f"{f.ratio.median:.2f}× the raw line ({ns_text(f.floor.median)})"
    measured = value_text(f.value, p.table.scenario)
    return p.table.title, results.title(contender), measured, floor, against, ratio, p.class_


def group(results: Results, contender: str) -> str:
    return str(results.run["contenders"][contender]["group"])


def left_out(results: Results, parts: Sequence[Part]) -> dict[str, list[tuple[str, str, str]]]:
    """Returns the contenders of each table without a figure in a shown class, and why."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for entry in results.run["left_out"]:
        found.setdefault(entry["table"], []).append(
            (results.title(entry["contender"]), entry["state"], entry["reason"])
        )
    failed = {(e["table"], e["contender"]) for e in results.run["left_out"]}
    for table in results.tables:
        of_table = sorted((p for p in parts if p.table.name == table.name), key=lambda p: not p.main)
        shown = {p.class_: {c for c, _ in p.ranking} for p in of_table}
        if not shown:
            shown = {c: set() for c in results.classes_of(table)[:1]}  # no contender has five rounds in any class
        for contender in results.contenders(table):
            if (table.name, contender) in failed:
                continue
            slices = [s for s in results.slices.get((table.name, contender), []) if s.round > 0]
            for class_, there in shown.items():
                if contender not in there:
                    fewest = FEW_ROUNDS if there else FEWEST_ROUNDS
                    reason = f"fewer than {fewest} rounds in class {class_}: {slices_text(slices)}"
                    found.setdefault(table.name, []).append((results.title(contender), "not shown", reason))
    return found


def slices_text(slices: Sequence[Slice]) -> str:
    """Describes how many slices of one contender are in which class."""
    count = Counter(f"dropped ({s.dropped})" if s.dropped else s.placement for s in slices)
    return ", ".join(f"{n} slices {c}" for c, n in count.items()) or "no slice"


def dropped(results: Results) -> dict[str, tuple[dict[str, int], int]]:
    found = {}
    for table in results.tables:
        slices = [s for (t, _), group_ in results.slices.items() if t == table.name for s in group_ if s.round > 0]
        found[table.name] = (dict(Counter(s.dropped for s in slices if s.dropped)), len(slices))
    return found


def picture_part(results: Results, summary: Summary, name: str) -> Part | None:
    """Returns the main part of the table that tables.toml names for a picture in the README."""
    return next((p for p in summary.parts if p.table.picture == name and p.main), None)


def picked(part_: Part, patterns: Sequence[str]) -> list[tuple[str, Figure]]:
    return [(c, f) for c, f in part_.ranking if matches(c, patterns)]
