# SPDX-License-Identifier: Apache-2.0
"""The readme suite finds the faults of a page."""

from __future__ import annotations

from pathlib import Path

import pages


def page(folder: Path, text: str) -> pages.Page:
    path = folder / "page.md"
    path.write_text(text)
    return pages.read(path)


def test_files_commands_and_their_output(tmp_path: Path) -> None:
    read = page(
        tmp_path,
        '```python title="a.py"\nimport sys\n```\n\n```console\n$ python a.py \\\n  one\nout\n$ second\n```\n'
        "<!-- run\n$ hidden\n-->\n<!-- exchange a: {} x -->\n",
    )
    assert read.files == {"a.py": "import sys\n"}
    assert [(command.text, command.output) for command in read.commands] == [
        ("python a.py \\\n  one", ["out"]),
        ("second", []),
        ("hidden", []),
    ]
    assert read.exchanges == {"a": "{} x"}
    assert read.faults == []


def test_what_would_not_be_run(tmp_path: Path) -> None:
    assert "not run" in page(tmp_path, "```python\nimport sys\n```\n").faults[0]
    assert "not run" in page(tmp_path, "```cpp\nint main() {}\n```\n").faults[0]
    assert "no command" in page(tmp_path, '```java title="A.java"\nclass A {}\n```\n').faults[0]
    assert "no title" in page(tmp_path, "```python A.py\nimport sys\n```\n").faults[0]
    assert "another" in page(tmp_path, 2 * '```sh title="a"\n```\n').faults[0]
    assert "before the first" in page(tmp_path, "```console\noutput\n```\n").faults[0]
    assert page(tmp_path, "```python\nfor message in subscriber:\n```\n").faults == []


def test_long_lines(tmp_path: Path) -> None:
    assert "line 1" in page(tmp_path, 121 * "x" + "\n").faults[0]
    assert page(tmp_path, 120 * "x" + "\n| " + 121 * "x" + "\n").faults == []


def test_output_matches() -> None:
    assert pages.matches(["a ... c", "...", "e"], ["a b c", "x", "y", "e"])
    assert pages.matches(["...", "e"], ["e"])
    assert not pages.matches(["e"], ["e", "f"])
    assert not pages.matches(["e"], [])
    assert not pages.matches([], ["e"])
    assert not pages.matches(["a.b"], ["axb"])


def test_links(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One `two`: three\n\n## Again\n\n## Again\n")
    good = (
        "[a](other.md) [b](other.md#one-two-three) [c](\nother.md#again-1) [d](https://example.com/x) `[e](none.md)`\n"
    )
    assert pages.broken_links(page(tmp_path, good + "```\n[f](none.md)\n```\n"), tmp_path) == []
    bad = page(tmp_path, "[a](none.md)\n[b](other.md#two) [c](#none) [d](/etc/passwd)\n")
    faults = pages.broken_links(bad, tmp_path)
    assert [fault.split(": ")[1] for fault in faults] == ["none.md", "other.md#two", "#none", "/etc/passwd"]
    assert faults[0].startswith("page.md:1:")
