# SPDX-License-Identifier: Apache-2.0
"""The folder of one run: written while it runs, read for the report.

raw.jsonl(.xz)          one line per slice
histograms/TABLE.hlog   standard HdrHistogram log, one line per contender and class: Tag=CONTENDER|CLASS
run.json                tables, contenders, what each reported of itself, what was left out and why
environment.json        the machine
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import time
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from driver.contenders import Contender, Table, make
from driver.stats import FEWEST_ROUNDS, Figure, Latency, Slice, figure, majority, rounds_in


class Recorder:
    """Keeps everything on disk as it comes, so that a run that is cut short can be reported."""

    def __init__(self, folder: Path, environment: dict[str, Any], settings: dict[str, Any]) -> None:
        self.folder = folder
        (folder / "histograms").mkdir(parents=True)
        write_json(folder / "environment.json", environment)
        self.run: dict[str, Any] = {
            "settings": settings,
            "tables": [],
            "contenders": {},
            "reported": {},
            "left_out": [],
        }
        self.lines = open(folder / "raw.jsonl", "w", encoding="utf-8")  # noqa: SIM115
        self.save()

    def save(self) -> None:
        write_json(self.folder / "run.json", self.run)

    def table(self, table: Table) -> None:
        self.run["tables"].append(dataclasses.asdict(table))
        self.save()

    def contender(self, contender: Contender) -> None:
        self.run["contenders"][contender.id] = {
            "title": contender.title,
            "label": contender.label,
            "family": contender.family,
            "group": contender.group,
            "note": contender.note,
            "flags": list(contender.flags),
            "options": dict(contender.options),
            "own_pairs": list(contender.own_pairs),
        }

    def reported(self, table: Table, contender: Contender, opened: dict[str, dict[str, Any]]) -> None:
        """What the sides said of themselves; the client's clock is the one that matters."""
        if table.wait == "own" and contender.wait_in(table) == "block":
            self.run.setdefault("blocking", {}).setdefault(table.name, []).append(contender.id)
        self.run["reported"].setdefault(table.name, {})[contender.id] = {s: opened[s] for s in sorted(opened)}
        self.save()

    def left_out(self, table: str, contender: str, state: str, reason: str) -> None:
        """State: failed, cannot, not installed."""
        self.run["left_out"].append({"table": table, "contender": contender, "state": state, "reason": reason})
        self.save()

    def slice(self, slice_: Slice) -> None:
        values = dataclasses.asdict(slice_)
        values["class"] = slice_.placement
        self.lines.write(json.dumps(values) + "\n")
        self.lines.flush()

    def histograms(self, table: Table, histograms: dict[tuple[str, str], Any], start: float) -> None:
        if not histograms:
            return
        with open(self.folder / "histograms" / f"{table.name}.hlog", "w", encoding="utf-8") as file:
            file.write("#[Histogram log format version 1.3]\n")
            file.write(f"#[StartTime: {start:.3f} (seconds since epoch), {time.ctime(start)}]\n")
            file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
            length = time.time() - start
            for (contender, class_), histogram in sorted(histograms.items()):
                payload = histogram.encode().decode()
                milliseconds = histogram.get_max_value() / 1e6
                file.write(f"Tag={contender}|{class_},0.000,{length:.3f},{milliseconds:.3f},{payload}\n")

    def close(self) -> None:
        """Compresses what is large."""
        self.lines.close()
        self.save()
        plain = self.folder / "raw.jsonl"
        with lzma.open(self.folder / "raw.jsonl.xz", "wb") as file:
            file.write(plain.read_bytes())
        plain.unlink()


def write_json(path: Path, values: Any) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    new.replace(path)


class Results:
    """One run as it lies on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, Any] = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        self.run: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.tables = [tables_from(t) for t in self.run["tables"]]
        self.slices: dict[tuple[str, str], list[Slice]] = {}
        for line in read_lines(folder):
            values = json.loads(line)
            del values["class"]  # it follows from the probes
            slice_ = Slice(**values)
            self.slices.setdefault((slice_.table, slice_.contender), []).append(slice_)
        self.latencies: dict[tuple[str, str, str], Latency] = {}
        for path in sorted((folder / "histograms").glob("*.hlog")):
            self.read_histograms(path)

    def read_histograms(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("Tag="):
                continue
            tag, _, _, _, payload = line.split(",")
            contender, class_ = tag[4:].split("|")
            rounds = rounds_in(self.slices.get((path.stem, contender), []), class_, "timed")
            self.latencies[path.stem, contender, class_] = Latency.of(HdrHistogram.decode(payload), rounds)

    def contenders(self, table: Table) -> list[str]:
        """Those with slices, in the order of the run."""
        return [c for t, c in self.slices if t == table.name]

    def main_class(self, table: Table) -> str | None:
        return majority(s for (t, _), slices in self.slices.items() if t == table.name for s in slices)

    def figure(self, table: Table, contender: str, class_: str) -> Figure | None:
        return figure(self.slices.get((table.name, contender), []), table.scenario, class_)

    def latency(self, table: Table, contender: str, class_: str) -> Latency | None:
        """None if fewer than five rounds have timed slices of this class."""
        found = self.latencies.get((table.name, contender, class_))
        return found if found is not None and found.rounds >= FEWEST_ROUNDS else None

    def clock_ns(self, table: Table, contender: str) -> float | None:
        found = self.run["reported"].get(table.name, {}).get(contender, {}).get("a", {}).get("clock_ns")
        return None if found is None else float(found)

    def remarks(self, table: Table) -> list[str]:
        """What is to be known of how this table was measured."""
        found = [table.note] if table.note else []
        blocking = self.run.get("blocking", {}).get(table.name, [])
        if blocking:
            found.append(f"These block, as they cannot spin or are faster so: {', '.join(map(self.title, blocking))}.")
        groups = self.run.get("groups", {}).get(table.name)
        if groups:
            found.append(f"For want of memory measured in {groups} groups; only those of one group took turns.")
        return found

    def title(self, contender: str) -> str:
        entry = self.run["contenders"][contender]
        return f"{entry['label']}: {entry['title']}"


def tables_from(values: dict[str, Any]) -> Table:
    return make(Table, **values)  # type: ignore[no-any-return]


def read_lines(folder: Path) -> list[str]:
    plain = folder / "raw.jsonl"
    if plain.exists():  # a run that was cut short
        return plain.read_text(encoding="utf-8").splitlines()
    with lzma.open(folder / "raw.jsonl.xz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()
