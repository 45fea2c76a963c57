# SPDX-License-Identifier: Apache-2.0
"""The folder of one run, which is written during the run and read for the report.

Compressed (.xz) at the end of the run:

raw.jsonl               one line per slice
histograms/TABLE.hlog   standard HdrHistogram log, one line per timed slice: Tag=CONTENDER|NUMBER, counted from 0 as in
                        the raw data. A run of --save does not keep them: the report has the percentiles
run.json                tables, contenders, their own reports, what was left out and why

Never compressed:

environment.json        the machine
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

from driver.contenders import Contender, Table, make
from driver.placement import classify
from driver.stats import FEWEST_ROUNDS, Figure, Latency, Slice, figure, majority


class Recorder:
    """Writes everything to disk at once, so that an interrupted run can be reported."""

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
        self.timed: dict[tuple[str, str], int] = {}  # the number of slices with samples so far
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

    def reported(
        self, table: Table, contender: Contender, opened: dict[str, dict[str, Any]], bytes_a_key: float = 0
    ) -> None:
        """Records the sides' own reports, of which only the client's clock matters, and a map's memory."""
        if table.wait == "own" and contender.wait_in(table) == "block":
            self.run.setdefault("blocking", {}).setdefault(table.name, []).append(contender.id)
        if bytes_a_key:
            self.run.setdefault("bytes_a_key", {}).setdefault(table.name, {})[contender.id] = round(bytes_a_key, 1)
        self.run["reported"].setdefault(table.name, {})[contender.id] = {s: opened[s] for s in sorted(opened)}
        self.save()

    def left_out(self, table: str, contender: str, state: str, reason: str) -> None:
        """Records a contender that is left out. State: failed, cannot, not installed. Of a traceback, only the first and
        the last line are kept: those between name files of this machine."""
        lines = reason.splitlines()
        reason = "\n".join(lines if len(lines) <= 2 else [lines[0], lines[-1]])
        self.run["left_out"].append({"table": table, "contender": contender, "state": state, "reason": reason})
        self.save()

    def slept(self, table: Table, contender: Contender, figures: dict[str, Any]) -> None:
        """Records one round of a table of idle or paced (sleeping.py)."""
        self.run.setdefault("sleeping", {}).setdefault(table.name, {}).setdefault(contender.id, []).append(figures)
        self.save()

    def slice(self, slice_: Slice, histogram: Any = None) -> None:
        """Records a slice, with the histogram of its samples if it is timed."""
        values = dataclasses.asdict(slice_)
        del values["placement"], values["dropped"]  # computed later, from the whole run
        self.lines.write(json.dumps(values) + "\n")
        self.lines.flush()
        if histogram is not None:
            self.histogram(slice_, histogram)

    def histogram(self, slice_: Slice, histogram: Any) -> None:
        path = self.folder / "histograms" / f"{slice_.table}.hlog"
        now = time.time()
        if not path.exists():
            path.write_text(
                "#[Histogram log format version 1.3]\n"
                f"#[StartTime: {now:.3f} (seconds since epoch), {time.ctime(now)}]\n"
                '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n',
                encoding="utf-8",
            )
        key = slice_.table, slice_.contender
        number = self.timed.get(key, 0)
        self.timed[key] = number + 1
        payload, most = histogram.encode().decode(), histogram.get_max_value() / 1e6
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"Tag={slice_.contender}|{number},{now:.3f},{slice_.ns / 1e9:.3f},{most:.3f},{payload}\n")

    def close(self) -> None:
        """Compresses large files."""
        self.lines.close()
        self.save()
        for plain in (
            self.folder / "raw.jsonl",
            self.folder / "run.json",
            *(self.folder / "histograms").glob("*.hlog"),
        ):
            compress(plain)


def compress(plain: Path) -> None:
    with lzma.open(f"{plain}.xz", "wb", preset=9) as file:
        file.write(plain.read_bytes())
    plain.unlink()


def read(plain: Path) -> str:
    """A file of a run, compressed or not: a run that was cut short has plain ones."""
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    with lzma.open(f"{plain}.xz", "rt", encoding="utf-8") as file:
        return file.read()


def write_json(path: Path, values: Any) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    new.replace(path)


class Results:
    """One run, read from disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, Any] = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        self.run: dict[str, Any] = json.loads(read(folder / "run.json"))
        self.tables = [tables_from(t) for t in self.run["tables"]]
        slices, self.classes = classify(
            [slice_from(line) for line in read(folder / "raw.jsonl").splitlines()], "against" in self.run
        )
        self.slices: dict[tuple[str, str], list[Slice]] = {}
        for s in slices:
            self.slices.setdefault((s.table, s.contender), []).append(s)
        self.latencies: dict[tuple[str, str, str], Latency] = {}
        for name in sorted({path.name.removesuffix(".xz") for path in (folder / "histograms").glob("*.hlog*")}):
            self.read_histograms(folder / "histograms" / name)

    def read_histograms(self, path: Path) -> None:
        lines: dict[str, dict[str, str]] = {}
        for line in read(path).splitlines():
            if line.startswith("Tag="):
                tag, _, _, _, payload = line.split(",")
                contender, _, which = tag[4:].partition("|")
                lines.setdefault(contender, {})[which] = payload
        for contender, payloads in lines.items():
            slices = self.slices.get((path.stem, contender), [])
            timed = [s for s in slices if s.round > 0 and s.kind == "timed"]
            for class_ in self.classes.known:
                mine = [(n, s) for n, s in enumerate(timed) if s.placement == class_.name]
                wanted = {str(n) for n, _ in mine}
                found = [HdrHistogram.decode(p) for which, p in payloads.items() if which in wanted]
                if found and mine:
                    rounds = len({s.round for _, s in mine})
                    self.latencies[path.stem, contender, class_.name] = Latency.of(found, rounds)

    def contenders(self, table: Table) -> list[str]:
        """Returns the contenders with slices, or rounds of idle or paced, in the order of the run."""
        return [*(c for t, c in self.slices if t == table.name), *self.sleeping(table)]

    def sleeping(self, table: Table) -> dict[str, list[dict[str, Any]]]:
        """Returns for a table of idle or paced the figures of each round of each contender (sleeping.py)."""
        found: dict[str, list[dict[str, Any]]] = self.run.get("sleeping", {}).get(table.name, {})
        return found

    def main_class(self, table: Table) -> str | None:
        return majority(s for (t, _), slices in self.slices.items() if t == table.name for s in slices)

    def classes_of(self, table: Table) -> list[str]:
        """Returns the classes in which the table has slices; the class with most slices comes first."""
        slices = [s for (t, _), group in self.slices.items() if t == table.name for s in group if s.round > 0]
        count = Counter(s.placement for s in slices if s.placement)
        return sorted(count, key=lambda c: -count[c])

    def figure(self, table: Table, contender: str, class_: str, fewest: int = FEWEST_ROUNDS) -> Figure | None:
        return figure(self.slices.get((table.name, contender), []), table.scenario, class_, fewest)

    def latency(self, table: Table, contender: str, class_: str, fewest: int = FEWEST_ROUNDS) -> Latency | None:
        """Returns the merged latencies; None if fewer rounds than `fewest` have timed slices of this class."""
        found = self.latencies.get((table.name, contender, class_))
        return found if found is not None and found.rounds >= fewest else None

    def clock_ns(self, table: Table, contender: str) -> float | None:
        found = self.run["reported"].get(table.name, {}).get(contender, {}).get("a", {}).get("clock_ns")
        return None if found is None else float(found)

    def bytes_a_key(self, table: Table, contender: str) -> float | None:
        """Returns how many bytes a key of a map takes."""
        found = self.run.get("bytes_a_key", {}).get(table.name, {}).get(contender)
        return None if found is None else float(found)

    def remarks(self, table: Table) -> list[str]:
        """Returns remarks about the measurement of this table."""
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


def slice_from(line: str) -> Slice:
    values = json.loads(line)
    values.pop("class", None)  # in old runs, by the old limits
    return Slice(**values)


def tables_from(values: dict[str, Any]) -> Table:
    return make(Table, **values)  # type: ignore[no-any-return]
