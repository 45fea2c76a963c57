# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown."""

from __future__ import annotations

import textwrap

from driver import comparison, sleeping, words
from driver.environment import BUSY
from driver.grid import Grid
from driver.raw import Results
from driver.summary import Summary


def report(results: Results, summary: Summary) -> str:
    about = results.environment
    load = about.get("busy_before", 0)
    lines = [
        "# Flyring benchmarks",
        "",
        f"{about['date'][:16].replace('T', ' ')}, {about['cpu']}, virtualised: {about['virtualised']}, "
        f"Linux {about['kernel']}, commit {about['commit'][:10]}{' with local changes' if about['dirty'] else ''}.",
        *([f"Others used {100 * load:.0f} % of the two cores just before."] if load > BUSY else []),
        f"`{about['command']}`{', stopped early' if results.run.get('interrupted') else ''}.",
        "",
        *(against(results) if "against" in results.run else summary_of(summary)),
    ]
    for name in ("rtt", "throughput"):
        if (results.folder / f"{name}.svg").exists():
            lines += ["", f"![{name}]({name}.svg)"]
    lines += ["", "## Placements", "", words.PLACEMENTS, "", *(f"- {text}" for text in words.classes(results.classes))]
    for table in results.tables:
        lines += ["", f"## {table.title}", "", f"`{table.name}`: {table.what}."]
        for remark in results.remarks(table):
            lines += ["", remark]
        parts = summary.of_table(table)
        if results.sleeping(table):
            lines += ["", *grid(sleeping.grid(results, table))]
        elif not parts:
            lines += ["", words.NO_FIGURE]
        for part in parts:
            lines += ["", f"**{results.classes.get(part.class_).text}**", "", *grid(part.figures)]
            if part.percentiles is not None:
                lines += ["", *grid(part.percentiles)]
        reasons, all_ = summary.dropped[table.name]
        if all_:
            lines += ["", words.dropped(reasons, all_)]
        out = summary.left_out.get(table.name, [])
        if out:
            lines += ["", "Without a figure here:", ""]
            lines += [f"- {name}: {state}: {' / '.join(reason.splitlines())}" for name, state, reason in out]
    lines += ["", "## What these figures do not say", "", *(f"- {words.one_line(text)}" for text in words.SAYS_NOT)]
    files = ("environment.json", "raw.jsonl.xz", "run.json.xz")
    lines += ["", f"Environment and raw data: {', '.join(f'[{name}]({name})' for name in files)}.", ""]
    return "\n".join(map(wrapped, lines))


def wrapped(line: str) -> str:
    """Of at most 120 columns, unless it is a row of a table."""
    if line.startswith(("|", "#", "!")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def summary_of(summary: Summary) -> list[str]:
    return ["## Summary", "", *(grid(summary.headline) if summary.headline.rows else [words.NO_FIGURE])]


def against(results: Results) -> list[str]:
    other = results.run["against"]
    found = comparison.of(results)
    head = f"## Against {other['commit'][:10]} ({other['subject']})"
    rows = grid(comparison.grid(results, found))
    return [head, "", words.AGAINST, "", *rows, "", comparison.last_line(results, found)]


def grid(g: Grid) -> list[str]:
    lines = [f"| {' | '.join(g.head)} |", f"|---|{'---:|' * (len(g.head) - 1)}"]
    groups = g.groups or ("",) * len(g.rows)
    for row, group in zip(g.rows, groups, strict=True):
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join([f'**{cells[0]}**' if group == 'flyring' else cells[0], *cells[1:]])} |")
    return lines
