# SPDX-License-Identifier: Apache-2.0
"""Writes the matrix's report: index.html, which needs no other file, and table.txt with one line per cell."""

import datetime
import html
import itertools
import platform
import string

PAGE = string.Template("""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Flyring: interop matrix, $summary</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #222; background: #fff }
.wide { overflow-x: auto } table { border-collapse: collapse; margin: 1em 0 }
th, td { border: 1px solid #ccc; padding: .3em .5em; text-align: center; white-space: nowrap }
th[scope=row] { text-align: left; white-space: normal; min-width: 15em; font-weight: normal }
th small, td small { display: block; color: #555 } pre { overflow-x: auto; background: #f5f5f5; padding: .6em }
.passed { background: #e5f5e5 } .failed { background: #fbd5d5 } .skipped, .none { background: #f0f0f0 }
</style>
<h1>Interop matrix: $summary</h1>
<p>$about</p>
$tables
$skipped
$failed
</html>
""")


def write(folder, cells, about):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.txt").write_text(table(cells, about))
    (folder / "index.html").write_text(page(cells, about))


def summary(cells):
    counts = [(sum(c.outcome == what for c in cells), what) for what in ("passed", "failed", "skipped", None)]
    return ", ".join(f"{n} {what or 'not run'}" for n, what in counts if n or what)


def who(cell):
    return " → ".join(cell.at.values()) or "all"


def table(cells, about):
    width = max((len(c.name) for c in cells), default=0)
    lines = [f"{'scenario':{width}}  {'who':18} {'outcome':8} {'messages':>10} {'seconds':>8}"]
    for c in cells:
        outcome = c.outcome or "not run"
        line = f"{c.name:{width}}  {who(c):18} {outcome:8} {c.messages:10} {c.seconds:8.2f}"
        lines.append(f"{line}  {c.why}" if c.why else line)
    return "\n".join([*lines, f"{summary(cells)}; {about}", ""])


def page(cells, about):
    escape, tables = html.escape, []
    for count, some in itertools.groupby(sorted(cells, key=lambda c: -len(c.at)), key=lambda c: len(c.at)):
        tables.append(matrix(list(some)))
    failures = [c for c in cells if c.outcome == "failed"]
    failed = "".join(details(c, is_open=len(failures) <= 3) for c in failures)
    skipped = "".join(f"<li>{escape(c.id)}: {escape(c.why)}" for c in cells if c.outcome == "skipped")
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return PAGE.substitute(
        summary=escape(summary(cells)),
        about=escape(f"{about}; {when}, {platform.machine()}, Linux {platform.release()}"),
        tables="\n".join(tables),
        skipped=f"<h2>Skipped</h2><ul>{skipped}</ul>" if skipped else "",
        failed=f"<h2>Failed</h2>{failed}" if failed else "",
    )


def matrix(cells):
    """Makes a table of scenarios with the same number of axes: a row each, and a column per combination of
    languages."""
    columns = list(dict.fromkeys(map(who, cells)))
    rows = [f"<tr><th></th>{''.join(f'<th>{html.escape(column)}</th>' for column in columns)}</tr>"]
    for _, some in itertools.groupby(cells, key=lambda c: c.name):
        found = {who(c): c for c in some}
        c = next(iter(found.values()))
        axes = f" ({html.escape(' → '.join(c.at))})" if c.at else ""
        head = f"<b>{html.escape(c.scenario['title'])}</b>{axes}<small>{html.escape(c.scenario['shows'])}</small>"
        rows.append(f"<tr><th scope=row>{head}</th>{''.join(box(found.get(column)) for column in columns)}</tr>")
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def box(cell):
    if cell is None or cell.outcome is None:
        return '<td class="none">not run</td>'
    text = {
        "passed": f"pass<small>{cell.messages:,} messages<br>{cell.seconds:.2f} s</small>",
        "failed": f'<a href="#{html.escape(cell.id)}">FAIL</a><small>{cell.seconds:.2f} s</small>',
        "skipped": f"skipped<small>{html.escape(cell.why)}</small>",
    }
    return f'<td class="{cell.outcome}">{text[cell.outcome]}</td>'


def details(cell, is_open):
    logs = "".join(f"<h3>{html.escape(name)}</h3><pre>{html.escape(text)}</pre>" for name, text in cell.logs.items())
    return (
        f'<details id="{html.escape(cell.id)}"{" open" * is_open}><summary>{html.escape(cell.id)}: {html.escape(cell.why)}</summary>'
        f"<p>Seed {cell.seed}. Just this cell again:</p><pre>{html.escape(cell.command)}</pre>{logs}</details>"
    )
