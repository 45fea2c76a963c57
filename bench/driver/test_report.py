# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

from driver import pictures
from driver.conftest import MakeRun
from driver.raw import Results
from driver.report import write_report
from driver.summary import Summary

MEANS = {"cpp/flyring-claim": 108.0, "cpp/raw-line": 101.0, "cpp/boost-spsc": 150.0, "python/flyring": 460.0}


class Checker(HTMLParser):
    """Checks that all elements are closed, all ids are different, and all references to them are valid."""

    EMPTY = ("meta", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.EMPTY:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("href", "xlink:href") and value and value[0] == "#":
                self.references.add(value[1:])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.EMPTY:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(make_run: MakeRun) -> None:
    target = {"text": "C++ < 1.1", "contender": ["cpp/flyring-*"], "ratio_to_floor_at_most": 1.1}
    results = make_run([target], MEANS)
    write_report(results, whole=True)
    page = (results.folder / "report.html").read_text()
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert checker.references <= set(checker.ids)
    assert not re.search(r'(src|href)="(https?:)?//', re.sub(r'xmlns(:\w+)?="[^"]*"', "", page))
    assert "C++ &lt; 1.1" in page and "A &lt;CPU&gt;" in page and "<b>last</b>" not in page
    assert "108 ns" in page and "✓ reached" in page
    assert (results.folder / "rtt.png").stat().st_size > 1000 and "<svg" in (results.folder / "rtt.svg").read_text()


def test_markdown_says_the_same(make_run: MakeRun) -> None:
    results = make_run([], MEANS)
    write_report(results, whole=True)
    text = (results.folder / "report.md").read_text()
    assert "| **C++: Flyring claim** | 108 ns |" in text
    assert "first line / <b>last</b> line" in text


def test_a_report_from_the_same_data_is_the_same(make_run: MakeRun) -> None:
    results = make_run([], MEANS)
    write_report(results, whole=True)
    first = (results.folder / "report.html").read_bytes()
    write_report(Results(results.folder), whole=True)
    assert (results.folder / "report.html").read_bytes() == first


def test_a_contender_with_too_few_rounds_is_named(make_run: MakeRun) -> None:
    results = make_run([], MEANS, rounds=3)
    write_report(results, whole=True)
    page = (results.folder / "report.html").read_text()
    assert "fewer than 5 rounds in class all" in page and "C++: Boost.Lockfree spsc" in page


def test_percentiles_are_drawn_as_the_monitor_draws_them(make_run: MakeRun) -> None:
    results = make_run([], MEANS)
    printed = write_report(results, whole=True, draw=True)
    page = (results.folder / "report.html").read_text()
    families = [(part, pictures.families(results, part)) for part in Summary.of(results).parts]
    drawn = [(part, family, found) for part, each in families for family, found in each]
    assert len(drawn) > 0 and page.count('class="curve"') == len(drawn)
    for part, family, latencies in drawn:
        lines = printed.split(f"{part.table.title}, {part.class_}, {family}\n")[1].splitlines()
        assert lines[0].split()[2].startswith("|")  # "1 us |": the vertical axis
        marks = [line.split(maxsplit=1) for line in lines[14 : 14 + len(latencies)]]
        assert [title for _, title in marks] == [results.title(contender) for contender, _ in latencies]
        assert all(f">{escape(results.title(c))}</text>" in page for c, _ in latencies)
    assert "svg{" not in page  # no style of a curve is one of the other pictures
