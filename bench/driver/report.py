# SPDX-License-Identifier: Apache-2.0
"""report.html, report.md and the pictures of one run, from its raw data alone."""

from __future__ import annotations

from pathlib import Path

from driver import markdown, page, pictures
from driver.raw import Results
from driver.summary import Summary


def write_report(results: Results) -> str:
    """The path of the page."""
    summary = Summary.of(results)
    pictures.write_files(results, summary)
    (results.folder / "report.md").write_text(markdown.report(results, summary), encoding="utf-8")
    path: Path = results.folder / "report.html"
    path.write_text(page.report(results, summary), encoding="utf-8")
    return f"report: {path}"
