# SPDX-License-Identifier: Apache-2.0
"""./dev docs: collects every page and what it links to in build/site-src, where their relative links hold, and is the
hook of mkdocs.yml that turns links to folders into links to their pages."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "build/site-src"
LINK = re.compile(r"\]\(\s*(?![a-z]+:)([^()\s#]+)(#[^()\s]+)?\)")
FIRST = [
    ROOT / "docs/site.css",
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("spec/*.md"),
    ROOT / "examples/README.md",
]


def collect() -> None:
    """Pages, the pages that they link to, and so on; files as they are."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    left, seen = list(FIRST), set[Path]()
    while left:
        path = left.pop()
        if path in seen or not path.is_file() or not path.is_relative_to(ROOT):
            continue
        seen.add(path)
        into = SOURCE / path.relative_to(ROOT)
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, into)
        if path.suffix == ".md":
            for link, _ in LINK.findall(path.read_text("utf-8")):
                target = (path.parent / link).resolve()
                if target.with_suffix(".md") == path:
                    continue  # a report's report.html would have the place of this very page
                left.append(target / "README.md" if target.is_dir() else target)
    python = SOURCE / "api/python.md"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text("# Python API\n\n::: flyring\n\n::: flyring.sbe\n")
    java = SOURCE / "api/java"
    shutil.copytree(ROOT / "java/flyring/target/reports/apidocs", java)


def on_page_markdown(markdown: str, page, **_: object) -> str:  # type: ignore[no-untyped-def]
    """A link to a folder leads to its page; where there is none, its text stays."""
    here = (SOURCE / page.file.src_path).parent

    def rewrite(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if (here / target).is_file():
            return match[0]
        if (here / target / "README.md").is_file():
            return f"[{text}]({target.rstrip('/')}/README.md)"
        return text

    return re.sub(r"(?<!!)\[([^\[\]]*)\]\((?![a-z]+:|#)([^()\s#]+)\)", rewrite, markdown)


if __name__ == "__main__":
    sys.exit(collect())
