# SPDX-License-Identifier: Apache-2.0
"""The output of the commands: findings, tables, and text that is safe to print."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["broken", "left"]


@dataclass(frozen=True)
class Finding:
    """One result of a check. ``broken``: a rule of the spec is broken. ``left``: a leftover of an owner that died or
    was evicted."""

    severity: Severity
    kind: str
    """A stable word for scripts, such as ``gate-range``."""
    section: str
    """The section of spec/channel.md with the rule."""
    offset: int
    """The offset in the file, in bytes."""
    what: str
    do: str
    ring: int | None = None
    slot: str | None = None
    """``publisher 0``, ``subscriber 3``, ``counter 7``."""
    position: int | None = None

    @property
    def place(self) -> tuple[object, ...]:
        return self.kind, self.offset, self.ring, self.slot


@dataclass
class Findings:
    """Collects the findings of a check, its notes, and the number of records that it walked."""

    found: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: int = 0

    def broken(self, kind: str, section: str, offset: int, what: str, do: str, **where: Any) -> None:
        self.found.append(Finding("broken", kind, section, offset, what, do, **where))

    def left(self, kind: str, section: str, offset: int, what: str, do: str, **where: Any) -> None:
        self.found.append(Finding("left", kind, section, offset, what, do, **where))


def finding_json(finding: Finding) -> dict[str, Any]:
    return asdict(finding)


def finding_text(finding: Finding) -> str:
    where = [f"ring {finding.ring}"] if finding.ring is not None else []
    where += (
        [finding.slot + " slot" if not finding.slot.startswith("counter") else finding.slot] if finding.slot else []
    )
    where += [f"position {finding.position}"] if finding.position is not None else []
    where += [f"offset {finding.offset}"]
    label = "BROKEN" if finding.severity == "broken" else "left  "
    head = f"{label} {finding.kind} (spec {finding.section}), {', '.join(where)}:"
    return f"{head}\n       {printable(finding.what)}\n       -> {finding.do}"


def printable(text: str) -> str:
    """Escapes control characters, so that text from a file, or a file's name, cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats rows as aligned columns, with numbers aligned to the right."""
    cells = [list(titles)] + [[printable(str(cell)) for cell in row] for row in rows]
    right = [len(cells) > 1 and all(is_number(row[i]) for row in cells[1:]) for i in range(len(titles))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(titles))]
    lines = (
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)) for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def is_number(text: str) -> bool:
    return text == "-" or text.removeprefix("-").split(" ")[0].replace(".", "", 1).isdigit()


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2))


def size_text(size: int) -> str:
    """Formats bytes: 1536 as "1.5 KiB"."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def age_text(created_at: int) -> str:
    """Formats the time since ``created_at``, which is in ns since 1970; "-" if that is not in the past."""
    seconds = (time.time_ns() - created_at) // 1_000_000_000
    if seconds < 0 or created_at <= 0:
        return "-"
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def seconds_text(nanoseconds: int) -> str:
    """Formats ns as "3.2 s"."""
    return f"{nanoseconds / 1e9:.4g} s"


def time_text(when: int) -> str:
    """Formats ns since 1970 as UTC; "-" if the value is out of range."""
    if not 0 < when < 253_402_300_800 * 10**9:
        return "-"
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when // 10**9))


def printable_text(payload: bytes) -> str | None:
    """Returns the payload as text, or None if it is not printable UTF-8."""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\t\n\r" for c in text) else None
