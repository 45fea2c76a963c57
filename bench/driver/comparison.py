# SPDX-License-Identifier: Apache-2.0
"""The result of --against: per row here, there, ratio, interval, starts and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from driver.contenders import Table
from driver.grid import Grid
from driver.ratios import FEWEST_SHOWN, Ratio, ratios
from driver.raw import Results
from driver.text import value_text

VERDICTS = ("slower", "within", "faster", "wide", "no figure")
SLOWER, NO_FIGURE = 1, 3  # exit status


@dataclass(frozen=True)
class Comparison:
    """One row in one class of placement; without a ratio if there are too few starts."""

    table: Table
    contender: str
    ratio: Ratio | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        return "no figure" if self.ratio is None else self.ratio.verdict


def of(results: Results) -> list[Comparison]:
    """Returns the rows in order, each with its classes; the class with most starts comes first."""
    tables = {t.name: t for t in results.tables}
    found = []
    for row in results.run["against"]["rows"]:
        table = tables[row["table"]]
        here, there = (results.slices.get((table.name, row[side]), []) for side in ("here", "there"))
        of_row = ratios(here, there, table.scenario)
        found += [Comparison(table, row["here"], ratio) for ratio in of_row]
        if not of_row:
            found.append(
                Comparison(table, row["here"], None, f"fewer than {FEWEST_SHOWN} starts of both in one placement")
            )
    for entry in results.run["left_out"]:
        contender = entry["contender"].partition("@")[0]
        found.append(Comparison(tables[entry["table"]], contender, None, f"{entry['state']}: {entry['reason']}"))
    return found


def grid(results: Results, found: Sequence[Comparison]) -> Grid:
    head = (
        "contender",
        "table",
        "placement",
        "here",
        "there",
        "time here / there",
        "95 % interval",
        "starts",
        "verdict",
    )
    rows = []
    for c in found:
        title = results.title(c.contender)
        if c.ratio is None:
            rows.append((title, c.table.name, "–", "–", "–", "–", "–", "0", f"no figure: {c.reason}"))
            continue
        r = c.ratio
        here, there = (value_text(side, c.table.scenario) for side in (r.here, r.there))
        values = f"{r.ratio:.3f}", f"{r.low:.3f}–{r.high:.3f}", f"{r.starts} of {r.of_starts}", r.verdict
        rows.append((title, c.table.name, r.class_, here, there, *values))
    return Grid(head, tuple(rows), tuple("flyring" for _ in rows))


def lines(results: Results, found: Sequence[Comparison]) -> list[str]:
    """Returns lines for the terminal: the rows in columns, and a last line with the number of each verdict."""
    g = grid(results, found)
    widths = [max(len(row[i]) for row in (g.head, *g.rows)) for i in range(len(g.head))]
    rows = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (g.head, *g.rows)]
    return [*rows, last_line(results, found)]


def last_line(results: Results, found: Sequence[Comparison]) -> str:
    count = Counter(c.verdict for c in found)
    other = results.run["against"]
    beside = f", looked at by '{other['with']}'" if "with" in other else ""
    return f"against {other['commit'][:10]}{beside}: " + ", ".join(f"{count[v]} {v}" for v in VERDICTS)


def status(found: Sequence[Comparison]) -> int:
    verdicts = {c.verdict for c in found}
    return SLOWER if "slower" in verdicts else NO_FIGURE if "no figure" in verdicts else 0
