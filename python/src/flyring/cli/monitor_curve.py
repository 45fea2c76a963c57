# SPDX-License-Identifier: Apache-2.0
"""Percentiles of ``flyring monitor``: as a table, and as a curve in the terminal and in SVG. The horizontal axis of a
curve is logarithmic in 1 / (1 - quantile), so that each nine has the same width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

from .monitor_causes import text

NINES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
COLUMNS = (50.0, 99.0, 99.9, 99.99, 99.999)
COLOURS = ("#e4572e", "#3f88d0", "#2a9d6f", "#8e6bd1", "#c49a1f", "#17a2b8", "#d45fa0", "#7a9a2e")
MARKS = "*+xo#@%="
LEFT, RIGHT, TOP, BOTTOM, WIDTH, HEIGHT = 70, 190, 30, 45, 900, 380
STYLE = (
    "svg{color:#1c1f24;font:12px Verdana,sans-serif}text{fill:currentColor}.g{stroke:#808890;stroke-opacity:.3}"
    "path{fill:none;stroke-width:1.8}@media(prefers-color-scheme:dark){svg{color:#e6e8eb}}"
)
Point = tuple[float, float]


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


def points(histogram: Histogram, steps: int = 20) -> list[Point]:
    """Returns the curve: (log10 of 1 / (1 - quantile), value). Ends where the values end."""
    last = math.log10(max(histogram.get_total_count(), 1))
    found = []
    for i in range(math.floor(last * steps) + 1):
        x = i / steps
        found.append((x, float(histogram.get_value_at_percentile(100 - 100 / 10**x))))
    return [*found, (last, float(histogram.get_max_value()))]


def frame(curves: Sequence[list[Point]]) -> tuple[float, float, float]:
    """Returns the largest x, and the powers of ten around all values, which are exact to 1 %."""
    values = [max(y, 1.0) for curve in curves for _, y in curve]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) / 1.02))
    return max(1.0, *(curve[-1][0] for curve in curves)), low, max(high, low + 1)


def titled(x_end: float) -> list[tuple[float, str]]:
    """Returns the places of the axis that have a title."""
    places = [(-math.log10(1 - p / 100), f"{p:g}%") for p in NINES]
    return [(x, name) for x, name in places if x <= x_end + 1e-9]


def text_curve(named: Mapping[str, Histogram], width: int = 80, height: int = 12) -> list[str]:
    """Draws the curves with characters."""
    curves = {name: points(one, 100) for name, one in named.items() if one.get_total_count()}
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


def svg(named: Mapping[str, Histogram], title: str) -> str:
    """Draws the curves as SVG, readable on a light and on a dark background."""
    curves = {name: points(one) for name, one in named.items() if one.get_total_count()}
    x_end, low, high = frame(list(curves.values())) if curves else (1.0, 0, 1)
    height = max(HEIGHT, TOP + BOTTOM + 18 * len(curves))

    def across(x: float) -> float:
        return round(LEFT + x / x_end * (WIDTH - LEFT - RIGHT), 1)

    def down(y: float) -> float:
        return round(height - BOTTOM - (math.log10(max(y, 1.0)) - low) / (high - low) * (height - TOP - BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="{height - 8}">percentile (logarithmic)</text>',
    ]
    for x, name in titled(x_end):
        at = across(x)
        parts.append(f'<line class="g" x1="{at}" x2="{at}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{at}" y="{height - BOTTOM + 16}" text-anchor="middle">{name}</text>')
    for exponent in range(int(low), int(high) + 1):
        at = down(10.0**exponent)
        parts.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{text(10.0**exponent)}</text>')
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = f"M{across(curve[0][0])},{down(curve[0][1])}"
        path += "".join(f"H{across(x)}V{down(y)}" for x, y in curve[1:])
        dash = f' stroke-dasharray="{4 * (i // len(COLOURS))} 3"' if i >= len(COLOURS) else ""
        parts.append(f'<path d="{path}" stroke="{colour}"{dash}/>')
        x, y = WIDTH - RIGHT + 12, TOP + 6 + 18 * i
        parts.append(f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(f'<text x="{x + 24}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
