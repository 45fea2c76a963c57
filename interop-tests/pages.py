# SPDX-License-Identifier: Apache-2.0
"""The parts of a Markdown page for the readme suite: programs, commands, headings and links. The marks on a page:

    ```python title="hello.py"      a file, which is written into the page's folder before anything runs
    ```console                      commands: each line that begins with "$ " runs; the lines after it are its output,
                                    in which "..." stands for anything, and alone on a line for any number of lines
    <!-- run                        the same, hidden on the page; it ends with -->
    <!-- exchange hello: {} -->     hello.py, hello.cpp and Hello.java send their argument, or print what arrived:
                                    each message as the text behind the colon, with the argument in place of {}

Blocks of other languages, and those without a title, are fragments: they do not run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

LANGUAGES = ("python", "cpp", "java")
# Code that makes a fragment a program: it must have a title, so that it is run.
WHOLE = {
    "python": re.compile(r"^(import|from) ", re.M),
    "cpp": re.compile(r"^int main\(", re.M),
    "java": re.compile(r"static void main\("),
}
PARTS = re.compile(
    r"^```(?P<language>[a-z]*)(?P<info>[^\n]*)\n(?P<block>.*?)^```$"
    r"|^<!-- run\n(?P<hidden>.*?)^-->$"
    r"|^<!-- exchange (?P<exchange>\w+): (?P<pattern>.*?) -->$"
    r"|^#+ (?P<heading>.*?)$",
    re.S | re.M,
)
LINK = re.compile(r"\]\(\s*([^()\s]+)\)")


@dataclass
class Command:
    text: str
    line: int
    output: list[str] = field(default_factory=list)


@dataclass
class Page:
    path: Path
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    exchanges: dict[str, str] = field(default_factory=dict)  # {name: pattern}
    headings: list[str] = field(default_factory=list)
    links: list[tuple[int, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def anchors(self) -> set[str]:
        """Returns the anchors of the headings, as code hosts make them: a repeated heading gets a number."""
        found: set[str] = set()
        for heading in self.headings:
            text = LINK.sub("]", heading).replace("`", "").lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            number = 0
            while (name := f"{anchor}-{number}" if number else anchor) in found:
                number += 1
            found.add(name)
        return found


def read(path: Path) -> Page:
    page = Page(path)
    text = path.read_text("utf-8")
    for part in PARTS.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["heading"] is not None:
            page.headings.append(part["heading"])
        elif part["exchange"] is not None:
            page.exchanges[part["exchange"]] = part["pattern"]
        elif part["hidden"] is not None or part["language"] == "console":
            page.commands += commands(part["hidden"] or part["block"], line + 1, page)
        else:
            block(page, part["language"], part["info"], part["block"], line)
    # Blocks and text in backquotes have no links. Lines keep their numbers.
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", lambda code: "\n" * code[0].count("\n"), text, flags=re.S | re.M)
    page.links = [(prose.count("\n", 0, link.start()) + 1, link[1]) for link in LINK.finditer(prose)]
    page.faults += [f"line {number} has more than 120 columns" for number in long_lines(text)]
    used = " ".join([*(command.text for command in page.commands), *page.exchanges]).lower()
    for name in page.files:
        found_by_pytest = "pytest" in used and re.fullmatch(r"conftest\.py|test_.*\.py", name)
        program = name.endswith((".py", ".cpp", ".java"))
        if program and not found_by_pytest and Path(name).stem.lower() not in used:
            page.faults.append(f"no command of the page runs {name}")
    return page


def long_lines(text: str) -> list[int]:
    """Returns the numbers of lines with more than 120 columns; rows of tables may be longer."""
    lines = enumerate(text.splitlines(), 1)
    return [number for number, line in lines if len(line) > 120 and not line.startswith("|")]


def block(page: Page, language: str, info: str, text: str, line: int) -> None:
    title = re.fullmatch(r' title="([^"]+)"', info)
    if title is not None:
        if title[1] in page.files:
            page.faults.append(f"line {line}: there is another {title[1]}")
        page.files[title[1]] = text
    elif info.strip():
        page.faults.append(f"line {line}: {info.strip()} is no title")
    elif language in WHOLE and WHOLE[language].search(text):
        page.faults.append(f"line {line}: a whole program without a title is not run")


def commands(text: str, line: int, page: Page) -> list[Command]:
    found: list[Command] = []
    for number, each in enumerate(text.splitlines(), line):
        if each.startswith("$ "):
            found.append(Command(each[2:], number))
        elif found and found[-1].text.endswith("\\"):
            found[-1].text += "\n" + each
        elif found:
            found[-1].output.append(each)
        else:
            page.faults.append(f"line {number}: output before the first command")
    return found


def matches(expected: list[str], got: list[str]) -> bool:
    """Returns whether the output matches the page."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*?") + "\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in got)) is not None


def broken_links(page: Page, root: Path) -> list[str]:
    """Returns links to missing files of the project, and to missing headings."""
    faults = []
    for line, link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        where = f"{page.path.relative_to(root)}:{line}: {link}"
        if not path.exists():
            faults.append(f"{where}: no such file")
        elif not path.is_relative_to(root):
            faults.append(f"{where}: outside of the project")
        elif anchor and path.suffix == ".md" and anchor not in read(path).anchors:
            faults.append(f"{where}: no such heading")
    return faults
