# SPDX-License-Identifier: Apache-2.0
"""Percentiles of ``flyring monitor`` and of the benchmarks (bench/driver): as a table, and as a curve in the terminal
and in SVG. The horizontal axis of a curve is logarithmic in 1 / (1 - quantile), so that each nine has the same width.

The benchmarks load this file without the package, so it imports nothing of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple, Protocol

NINES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
COLUMNS = (50.0, 99.0, 99.9, 99.99, 99.999)
COLOURS = ("#e4572e", "#3f88d0", "#2a9d6f", "#8e6bd1", "#c49a1f", "#17a2b8", "#d45fa0", "#7a9a2e")
MARKS = "*+xo#@%="
LEFT, RIGHT, TOP, BOTTOM, ACROSS, HEIGHT = 70, 190, 30, 45, 640, 380
STYLE = (
    ".curve{font:12px Verdana,sans-serif}.curve text{fill:currentColor}"
    ".curve .g{stroke:#808890;stroke-opacity:.3}.curve path{fill:none}"
)
ALONE = ".curve{color:#1c1f24}@media(prefers-color-scheme:dark){.curve{color:#e6e8eb}}"
"""In a file of its own. Inside of a page, the curves have the colour of its text."""
Point = tuple[float, float]
Curves = Mapping[str, Sequence[Point]]
"""By name, the points of each: (log10 of 1 / (1 - quantile), value in ns)."""


class Pen(NamedTuple):
    """How a curve is drawn."""

    colour: str
    dashes: str = ""
    width: float = 1.8


class Histogram(Protocol):
    """The part of HdrHistogram that is needed here."""

    def get_value_at_percentile(self, percentile: float, /) -> int: ...
    def get_total_count(self) -> int: ...
    def get_max_value(self) -> int: ...


def known(histogram: Histogram, percentile: float) -> bool:
    """Returns whether there are enough values for this percentile: one in a thousand takes a thousand values."""
    return histogram.get_total_count() * (100 - percentile) >= 100 - 1e-6


def table_lines(named: Mapping[str, Histogram]) -> list[str]:
    """Returns a line of percentiles for each histogram, below titles."""
    width = max([4, *map(len, named)])
    titles = [f"{p:g}%" for p in COLUMNS] + ["max"]
    lines = [f"{'':{width}} {'count':>8}" + "".join(f"{title:>9}" for title in titles)]
    for name, one in named.items():
        cells = [text(one.get_value_at_percentile(p)) if known(one, p) else "-" for p in COLUMNS]
        cells.append(text(one.get_max_value()))
        lines.append(f"{name:{width}} {one.get_total_count():>8}" + "".join(f"{cell:>9}" for cell in cells))
    return lines


def text(nanoseconds: float) -> str:
    """Formats ns in the unit that suits: "812 ns", "1.25 ms"."""
    value = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} s" if value < 999.5 else f"{value:.0f} s"


def curves_of(named: Mapping[str, Histogram], steps: int = 100) -> dict[str, list[Point]]:
    """Returns the curve of each histogram that has a value."""
    return {name: points(one, steps) for name, one in named.items() if one.get_total_count()}


def points(histogram: Histogram, steps: int) -> list[Point]:
    """Returns the curve of a histogram, with so many points for each nine. It ends where the values end."""
    last = math.log10(max(histogram.get_total_count(), 1))
    found = []
    for i in range(math.floor(last * steps) + 1):
        x = i / steps
        found.append((x, float(histogram.get_value_at_percentile(100 - 100 / 10**x))))
    return [*found, (last, float(histogram.get_max_value()))]


def frame(curves: Sequence[Sequence[Point]]) -> tuple[float, float, float]:
    """Returns the largest x, and the powers of ten around all values, which are exact to 1 %."""
    values = [max(y, 1.0) for curve in curves for _, y in curve]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) / 1.02))
    return max(1.0, *(curve[-1][0] for curve in curves)), low, max(high, low + 1)


def titled(x_end: float) -> list[tuple[float, str]]:
    """Returns the places of the axis that have a title."""
    places = [(-math.log10(1 - p / 100), f"{p:g}%") for p in NINES]
    return [(x, name) for x, name in places if x <= x_end + 1e-9]


def text_curve(curves: Curves, width: int = 80, height: int = 12) -> list[str]:
    """Draws the curves with characters."""
    if not curves:
        return []
    x_end, low, high = frame(list(curves.values()))
    columns = max(20, width - 10)
    grid = [[" "] * columns for _ in range(height)]
    for mark, curve in zip(MARKS * (len(curves) // len(MARKS) + 1), curves.values(), strict=False):
        for x, y in curve:
            row = round((math.log10(max(y, 1.0)) - low) / (high - low) * (height - 1))
            grid[max(0, height - 1 - row)][min(columns - 1, round(x / x_end * (columns - 1)))] = mark
    lines = []
    for i, cells in enumerate(grid):
        value = 10 ** (low + (high - low) * (height - 1 - i) / (height - 1))
        lines.append(f"{text(value) if i % 3 == 0 or i == height - 1 else '':>8} |{''.join(cells)}".rstrip())
    axis = [" "] * columns
    for x, name in titled(x_end):
        at = min(columns - len(name), round(x / x_end * (columns - 1)))
        if all(c == " " for c in axis[max(0, at - 1) : at + len(name) + 1]):
            axis[at : at + len(name)] = name
    lines.append(f"{'':8} +{'-' * columns}")
    lines.append(f"{'':9} {''.join(axis)}".rstrip())
    lines += [f"{'':9} {mark} {name}" for mark, name in zip(MARKS * len(curves), curves, strict=False)]
    return lines


def pens(count: int) -> list[Pen]:
    """Returns a pen for each curve, all different."""
    turns = [divmod(i, len(COLOURS)) for i in range(count)]
    return [Pen(COLOURS[i], f"{4 * turn} 3" if turn else "") for turn, i in turns]


def svg(curves: Curves, title: str, drawn_by: Sequence[Pen] | None = None, alone: bool = True) -> str:
    """Draws the curves as SVG, readable on a light and on a dark background. ``alone``: as a file, not inside of a
    page."""
    x_end, low, high = frame(list(curves.values())) if curves else (1.0, 0, 1)
    height = max(HEIGHT, TOP + BOTTOM + 18 * len(curves))
    end = LEFT + ACROSS
    width = end + max([RIGHT, *(50 + 8 * len(name) for name in curves)])

    def across(x: float) -> float:
        return round(LEFT + x / x_end * ACROSS, 1)

    def down(y: float) -> float:
        return round(height - BOTTOM - (math.log10(max(y, 1.0)) - low) / (high - low) * (height - TOP - BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curve" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        f"<style>{STYLE}{ALONE if alone else ''}</style>",
        f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="{height - 8}">percentile (logarithmic)</text>',
    ]
    for x, name in titled(x_end):
        at = across(x)
        parts.append(f'<line class="g" x1="{at}" x2="{at}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{at}" y="{height - BOTTOM + 16}" text-anchor="middle">{name}</text>')
    for exponent in range(int(low), int(high) + 1):
        at = down(10.0**exponent)
        parts.append(f'<line class="g" x1="{LEFT}" x2="{end}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{text(10.0**exponent)}</text>')
    for i, (pen, (name, curve)) in enumerate(zip(drawn_by or pens(len(curves)), curves.items(), strict=True)):
        path = f"M{across(curve[0][0])},{down(curve[0][1])}"
        path += "".join(f"H{across(x)}V{down(y)}" for x, y in curve[1:])
        line = f'stroke="{pen.colour}" stroke-width="{pen.width:g}"'
        line += f' stroke-dasharray="{pen.dashes}"' if pen.dashes else ""
        parts.append(f'<path d="{path}" {line}/>')
        x, y = end + 12, TOP + 6 + 18 * i
        parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" {line}/>')
        parts.append(f'<text x="{x + 24}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
