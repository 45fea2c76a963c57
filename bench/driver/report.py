# SPDX-License-Identifier: Apache-2.0
"""Writes report.html, report.md and the pictures of one run, only from its raw data."""

from __future__ import annotations

from pathlib import Path

from driver import markdown, page, pictures
from driver.raw import Results
from driver.summary import Summary


def write_report(results: Results) -> str:
    """Writes the report. Returns the path of the page."""
    summary = Summary.of(results)
    pictures.write_files(results, summary)
    (results.folder / "report.md").write_text(markdown.report(results, summary), encoding="utf-8")
    path: Path = results.folder / "report.html"
    path.write_text(page.report(results, summary), encoding="utf-8")
    return f"report: {path}"
