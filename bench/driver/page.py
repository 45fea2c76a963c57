# SPDX-License-Identifier: Apache-2.0
"""The page: one HTML file that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from driver import comparison, pictures, sleeping, words
from driver.contenders import Table
from driver.environment import BUSY
from driver.grid import Grid
from driver.raw import Results
from driver.summary import Part, Summary

TITLE = "Flyring benchmarks"
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
MARKS = {
    True: '<span class="yes">✓ reached</span>',
    False: '<span class="no">✗ not reached</span>',
    None: '<span class="soft">– no figure</span>',
}


def report(results: Results, summary: Summary) -> str:
    about = results.environment
    name = f"{TITLE}, {escape(about['date'][:10])}, {escape(about['cpu'])}"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name}</title><style>{STYLE}</style></head><body>",
        header(results, summary),
        "<main>",
        against(results) if "against" in results.run else headline(summary),
        targets(summary),
        how_to_read(),
        placements(results),
        *(table(results, summary, t, number) for number, t in enumerate(results.tables)),
        heading("not", "What these figures do not say") + bullets(escape(text) for text in words.SAYS_NOT),
        environment(results),
        raw_data(results),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


# --- markup; what is called `inner` is markup already, what is called `text` is not


def heading(id_: str, text: str) -> str:
    return f'<h2 id="{id_}">{escape(text)}</h2>'


def paragraph(text: str, soft: bool = False) -> str:
    return f'<p class="soft">{escape(text)}</p>' if soft else f"<p>{escape(text)}</p>"


def bullets(inner: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{item}</li>" for item in inner) + "</ul>"


def row(text: str, cells: Iterable[str], class_: str = "") -> str:
    """Returns one row: its name, and cells of markup."""
    attribute = f' class="{class_}"' if class_ else ""
    return f'<tr{attribute}><th scope="row">{escape(text)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def rows_table(rows: Iterable[str], head: Iterable[str] = (), class_: str = "text") -> str:
    attribute = f' class="{class_}"' if class_ else ""
    names = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    first = f"<thead><tr>{names}</tr></thead>" if names else ""
    return f'<div class="scroll"><table{attribute}>{first}<tbody>{"".join(rows)}</tbody></table></div>'


def grid(g: Grid, class_: str = "") -> str:
    groups = g.groups or ("",) * len(g.rows)
    rows = (row(r[0], map(escape, r[1:]), group) for r, group in zip(g.rows, groups, strict=True))
    return rows_table(rows, g.head, class_)


def folded(text: str, inner: str) -> str:
    return f"<details><summary>{escape(text)}</summary>{inner}</details>"


def figure(svg: str, text: str) -> str:
    return f'<figure role="img" aria-label="{escape(text)}">{svg}</figure>'


# --- the parts of the page


def header(results: Results, summary: Summary) -> str:
    about = results.environment
    virtual = about["virtualised"]
    facts = [
        about["date"][:16].replace("T", " "),
        about["cpu"],
        f"virtual machine ({virtual})" if virtual != "no" else "no virtual machine",
        f"Linux {about['kernel']}",
        f"commit {about['commit'][:10]}{' with local changes' if about['dirty'] else ''}",
    ]
    load = about.get("busy_before", 0)
    if load > BUSY:
        facts.append(f"others used {100 * load:.0f} % of the two cores just before")
    stopped = " · stopped early" if results.run.get("interrupted") else ""
    links = [("summary", "Summary")]
    links += [("targets", "Targets")] if summary.verdicts else []
    links += [("reading", "How to read"), ("placements", "Placements"), *((t.name, t.title) for t in results.tables)]
    links += [("not", "What this does not say"), ("environment", "Environment"), ("raw", "Raw data")]
    contents = bullets(f'<a href="#{id_}">{escape(text)}</a>' for id_, text in links)
    return (
        f"<header><h1>{TITLE}</h1>{paragraph(' · '.join(facts), soft=True)}"
        f'<p class="soft"><code>{escape(about["command"])}</code>{stopped}</p>'
        f'<nav aria-label="Contents">{contents}</nav></header>'
    )


def headline(summary: Summary) -> str:
    inner = grid(summary.headline, "text") if summary.headline.rows else paragraph(words.NO_FIGURE)
    return heading("summary", "Summary") + paragraph(words.SUMMARY) + inner


def against(results: Results) -> str:
    other = results.run["against"]
    found = comparison.of(results)
    head = heading("summary", f"Against {other['commit'][:10]} ({other['subject']})")
    rows = grid(comparison.grid(results, found), "text")
    return head + paragraph(words.AGAINST) + rows + paragraph(comparison.last_line(results, found))


def targets(summary: Summary) -> str:
    if not summary.verdicts:
        return ""
    rows = []
    for v in summary.verdicts:
        where = f'<a href="#{v.table}">{v.table}</a>{", " + v.class_ if v.class_ else ""}'
        rows.append(row(v.text, [where, escape(v.measured), MARKS[v.reached]]))
    reached = sum(v.reached is True for v in summary.verdicts)
    known = sum(v.reached is not None for v in summary.verdicts)
    return (
        heading("targets", "Targets")
        + paragraph(f"{reached} reached of {known} that could be judged, {len(rows)} in all.")
        + rows_table(rows, ("target", "table, placement", "measured", "verdict"))
    )


def how_to_read() -> str:
    return heading("reading", "How to read this") + "".join(paragraph(text) for text in words.HOW_TO_READ)


def placements(results: Results) -> str:
    return (
        heading("placements", "Placements")
        + paragraph(words.PLACEMENTS)
        + bullets(escape(text) for text in words.classes(results.classes))
    )


def table(results: Results, summary: Summary, t: Table, number: int) -> str:
    text = ["<section>", heading(t.name, t.title), paragraph(t.what, soft=True)]
    text += [paragraph(remark) for remark in results.remarks(t)]
    parts = summary.of_table(t)
    if results.sleeping(t):
        text.append(grid(sleeping.grid(results, t)))
    elif not parts:
        text.append(paragraph(words.NO_FIGURE))
    for p in parts:
        inner = part(results, p, f"t{number}{p.class_}")
        where = results.classes.get(p.class_).text
        text.append(inner if p.main else folded(f"In another placement, {where}", inner))
    reasons, all_ = summary.dropped[t.name]
    if all_:
        text.append(paragraph(words.dropped(reasons, all_), soft=True))
    out = summary.left_out.get(t.name, [])
    if out:
        rows = [row(name, [escape(state), escape(reason)]) for name, state, reason in out]
        text.append(folded(f"Without a figure here: {len(out)}", rows_table(rows)))
    text.append("</section>")
    return "\n".join(text)


def part(results: Results, p: Part, prefix: str) -> str:
    where = f"{p.table.title}, {p.class_}"
    text = [f"<h3>{escape(results.classes.get(p.class_).text)}</h3>"] if p.main else []
    if p.table.scenario != "schedule":
        svg = pictures.svg(pictures.bars(results, p), prefix)
        text.append(figure(svg, f"{where}: the figures of the next table as a picture"))
    text.append(grid(p.figures))
    if p.percentiles is not None:
        text.append("<h3>Percentiles</h3>")
        for family, latencies in pictures.families(results, p):
            svg = pictures.curves_svg(results, family, latencies)
            text.append(figure(svg, f"{where}, {family}: latency by percentile; the next table has the figures"))
        text.append(grid(p.percentiles))
    return "\n".join(text)


def environment(results: Results) -> str:
    rows = [row(key.replace("_", " "), [value_markup(value)]) for key, value in results.environment.items()]
    reported: dict[str, set[str]] = {}
    for of_table in results.run["reported"].values():
        for contender, sides in of_table.items():
            versions = {f"{s.get('version', '?')} ({s.get('runtime', '?')})" for s in sides.values()}
            reported.setdefault(results.title(contender), set()).update(versions)
    says = [row(name, [escape("; ".join(sorted(v)))]) for name, v in sorted(reported.items())]
    given = []
    for contender, entry in results.run["contenders"].items():
        flags = [*entry["flags"], *(f"{k}={v}" for k, v in entry["options"].items())]
        if flags:
            given.append(row(results.title(contender), [f"<code>{escape(' '.join(flags))}</code>"]))
    return (
        heading("environment", "Environment")
        + rows_table(rows)
        + (folded("What every contender says it is", rows_table(says)) if says else "")
        + (folded("JVM flags and options of contenders", rows_table(given)) if given else "")
    )


def value_markup(value: Any) -> str:
    if isinstance(value, dict):
        pairs = ((str(k).replace("_", " "), v) for k, v in value.items() if v != "")
        return "<br>".join(f"{escape(k)}: {value_markup(v)}" for k, v in pairs)
    if isinstance(value, list):
        return ("<br><br>" if any(isinstance(v, dict) for v in value) else ", ").join(map(value_markup, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(str(value))


def raw_data(results: Results) -> str:
    files = [
        ("raw.jsonl.xz", "one line per slice"),
        ("run.json.xz", "tables, contenders, what each said of itself, which were left out and why"),
        ("environment.json", "the machine"),
    ]
    for path in sorted((results.folder / "histograms").glob("*.hlog.xz")):
        files.append((f"histograms/{path.name}", "HdrHistogram log, one histogram per contender and class"))
    there = [(name, text) for name, text in files if (results.folder / name).exists()]
    return (
        heading("raw", "Raw data")
        + bullets(f'<a href="{escape(name)}">{escape(name)}</a>: {escape(text)}' for name, text in there)
        + "<footer><p>This page is made from these files alone: <code>./dev bench --report FOLDER</code>.</p></footer>"
    )
