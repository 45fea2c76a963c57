# SPDX-License-Identifier: Apache-2.0
"""Pictures: bars with spread by matplotlib, and percentile curves as the command ``flyring`` draws them. SVGs use the
colour of the surrounding text, so that they are readable on a light and on a dark background."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from driver import curve
from driver.raw import Results
from driver.stats import Figure, Latency
from driver.summary import Part, Summary, picked, picture_part
from driver.text import ns_text, rate_text, value_text

INK = "#010203"  # replaced by the colour of the text
FAINT = "#808890"
COLOURS = {"flyring": "#e4572e", "floor": "#2a9d6f", "kernel": "#8c93a0", "peers": "#3f88d0"}
NAMES = {
    "flyring": "Flyring",
    "floor": "floor (no library)",
    "kernel": "kernel, standard library",
    "peers": "other libraries",
}
PEER_COLOURS = ("#3f88d0", "#8e6bd1", "#c49a1f", "#17a2b8", "#d45fa0", "#7a9a2e")
DASHES = ("", "10 4", "3 3", "12 4 3 4")

mpl.rcParams.update(
    {
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "flyring",  # the same picture from the same data
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": FAINT,
        "grid.alpha": 0.3,
        "grid.linewidth": 0.7,
        "legend.frameon": False,
    }
)


def bars(results: Results, part: Part, chosen: Sequence[tuple[str, Figure]] | None = None, title: str = "") -> Canvas:
    """Draws throughput as bars from zero, and round trips, which differ by factors of a thousand, as points on a
    logarithmic axis. Lines show the spread over rounds."""
    ranking = part.ranking if chosen is None else chosen
    rtt = part.table.scenario == "rtt"
    canvas = Canvas(figsize=(9.2, 0.95 + 0.27 * len(ranking) + (0.35 if title else 0)), layout="constrained")
    axes = canvas.add_subplot()
    groups = [results.run["contenders"][c]["group"] for c, _ in ranking]
    for row, ((_, figure), group) in enumerate(zip(ranking, groups, strict=True)):
        value = figure.value
        colour = COLOURS[group]
        if rtt:
            axes.plot(
                [value.low, value.high], [row, row], color=colour, linewidth=2.2, solid_capstyle="butt", alpha=0.65
            )
            axes.plot([value.median], [row], "o", color=colour, markersize=6.5)
        else:
            axes.barh(row, value.median, height=0.66, color=colour, alpha=0.9)
            axes.plot([value.low, value.high], [row, row], color=INK, linewidth=1.3)
        text = f"  {value_text(value, part.table.scenario)}"
        axes.annotate(
            text,
            (value.high, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
    axes.set_yticks(range(len(ranking)), [results.title(c) for c, _ in ranking])
    for label, group in zip(axes.get_yticklabels(), groups, strict=True):
        label.set_fontweight("bold" if group == "flyring" else "normal")
    axes.set_ylim(len(ranking) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    low, high = min(f.value.low for _, f in ranking), max(f.value.high for _, f in ranking)
    if rtt:
        axes.set_xscale("log")
        axes.set_xlim(low * 0.85, high * (high / low) ** 0.14 * 1.1)
        axes.xaxis.set_major_locator(
            FixedLocator(
                [m * 10**e for e in range(1, 9) for m in (1, 2, 5)]
                if high / low < 2000
                else [10**e for e in range(1, 9)]
            )
        )
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(ns_text(x))))
        axes.set_xlabel("mean round trip (logarithmic); line: smallest to largest round")
    else:
        axes.set_xlim(0, high * 1.13)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(rate_text(x)) if x else "0"))
        axes.set_xlabel("messages per second; line: smallest to largest round")
    present = [g for g in COLOURS if g in groups]
    handles = [Patch(color=COLOURS[g], label=NAMES[g]) for g in present]
    canvas.legend(handles=handles, loc="outside lower left" if title else "outside upper left", ncols=4, fontsize=9)
    if title:
        canvas.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return canvas


def curves(results: Results, latencies: Sequence[tuple[str, Latency]]) -> dict[str, list[tuple[float, float]]]:
    """Returns the points of each contender's curve, by its title. Each has at least its median."""
    found = {results.title(contender): latency.points() for contender, latency in latencies}
    return {title: points for title, points in found.items() if points}


def curves_svg(results: Results, family: str, latencies: Sequence[tuple[str, Latency]]) -> str:
    """Draws percentiles as ``flyring monitor`` does, for a page."""
    known = [(contender, latency) for contender, latency in latencies if latency.points()]
    groups = [results.run["contenders"][c]["group"] for c, _ in known]
    drawn: str = curve.svg(curves(results, known), family, styles_of(groups), alone=False)
    return drawn


def short(text: str) -> str:
    """Shortens numbers for axes: 20.0 M/s becomes 20 M/s."""
    return re.sub(r"\.0+ ", " ", text)


def styles_of(groups: Sequence[str]) -> list[Any]:
    """Returns a pen for each: each group has a colour, and its members differ by dashes."""
    peers = itertools.cycle(itertools.product(DASHES, PEER_COLOURS))
    others = {g: itertools.cycle(DASHES) for g in COLOURS}
    pens: list[Any] = []
    for group in groups:
        if group == "peers":
            dash, colour = next(peers)
        else:
            dash, colour = next(others[group]), COLOURS[group]
        pens.append(curve.Pen(colour, dash, 2.4 if group == "flyring" else 1.5))
    return pens


def families(results: Results, part: Part) -> list[tuple[str, list[tuple[str, Latency]]]]:
    found: dict[str, list[tuple[str, Latency]]] = {}
    for contender, latency in part.latencies:
        found.setdefault(results.run["contenders"][contender]["family"], []).append((contender, latency))
    return sorted(found.items())


def svg(canvas: Canvas, prefix: str, alone: bool = False) -> str:
    """Returns the picture's markup. `prefix` makes the ids of several pictures in one page unique."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = text.replace(INK, "currentColor")
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    if alone:
        style = "<style>svg{color:#1c1f24}@media (prefers-color-scheme:dark){svg{color:#e6e8eb}}</style>"
        text = re.sub(r"(<svg[^>]*>)", rf"\1{style}", text, count=1)
    return text


def write_files(results: Results, summary: Summary, png: bool) -> None:
    """Writes the pictures of report.md."""
    for name in ("rtt", "throughput"):
        part = picture_part(results, summary, name)
        chosen = [] if part is None else picked(part, part.table.picture_of)
        if part is None or not chosen:
            continue
        where = f"raw line {ns_text(results.classes.get(part.class_).median)}"
        canvas = bars(results, part, chosen, f"{part.table.title}, {where}")
        (results.folder / f"{name}.svg").write_text(svg(canvas, name, alone=True), encoding="utf-8")
        if not png:
            continue
        recolour(canvas)
        canvas.savefig(results.folder / f"{name}.png", dpi=150, facecolor="white", metadata={"Software": None})


def recolour(canvas: Canvas) -> None:
    """Sets fixed colours, because a PNG cannot use the colour of the surrounding text."""
    for item in canvas.findobj():
        for get, put in (("get_color", "set_color"),):
            if hasattr(item, get) and getattr(item, get)() == INK:
                getattr(item, put)("#1c1f24")
