# SPDX-License-Identifier: Apache-2.0
"""Writes the reports and pictures of one run, only from its raw data."""

from __future__ import annotations

import shutil
from pathlib import Path

from driver import curve, markdown, page, pictures
from driver.raw import Results
from driver.summary import Summary


def write_report(results: Results, whole: bool = False, draw: bool = False) -> str:
    """Writes report.md and SVG pictures; `whole`: also report.html, with the targets, and PNG pictures. Returns what to
    tell of them: the targets that were not reached, and the path; `draw`: before that, percentile curves."""
    summary = Summary.of(results)
    pictures.write_files(results, summary, png=whole)
    path: Path = results.folder / "report.md"
    path.write_text(markdown.report(results, summary), encoding="utf-8")
    if whole:
        path = results.folder / "report.html"
        path.write_text(page.report(results, summary), encoding="utf-8")
    missed = [f"not reached: {v.text}: {v.measured}" for v in summary.verdicts if v.reached is False]
    drawn = drawings(results, summary) if draw else []
    return "\n".join([*drawn, *missed, f"report: {path}"])


def drawings(results: Results, summary: Summary) -> list[str]:
    """Draws the percentiles of each table and family of contenders with characters."""
    lines = []
    for part in summary.parts:
        for family, latencies in pictures.families(results, part):
            title = f"{part.table.title}, {part.class_}, {family}"
            curves = pictures.curves(results, latencies)
            lines += ["", title, *curve.text_curve(curves, shutil.get_terminal_size((80, 24)).columns)]
    return lines
