# SPDX-License-Identifier: Apache-2.0
"""Reads and checks contenders.toml and tables.toml."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
GROUPS = ("flyring", "floor", "kernel", "peers")
PATTERNS = ("uniform", "zipf")


class DataError(Exception):
    """A mistake in one of the two files."""


@dataclass(frozen=True)
class Need:
    """Something that must be installed: how to check for it, and how to install it."""

    name: str
    check: str  # a shell command that succeeds if it is installed
    apt: tuple[str, ...] = ()
    how: str = ""  # how to install it, if apt does not have it


@dataclass(frozen=True)
class Program:
    """A peer program (bench/PEER.md), and the runtime it is started with."""

    name: str
    label: str  # in titles: "Java 17"
    family: str  # contenders of one family share a picture
    argv: tuple[str, ...]
    build: str  # the build, see install.py
    memory_mb: int
    jdk: int = 0
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extra:
    """A process that a contender needs in addition to its sides, such as a media driver."""

    name: str
    argv: tuple[str, ...]
    memory_mb: int


@dataclass(frozen=True)
class Contender:
    """One row of the tables. `a` is the program and contender of the client or producer, `b` of the other side."""

    id: str
    title: str
    group: str
    a: tuple[Program, str]
    b: tuple[Program, str]
    flags: tuple[str, ...]  # JVM flags; empty for Flyring
    scenarios: tuple[str, ...]
    sizes: tuple[int, ...]
    modes: tuple[str, ...]
    waits: tuple[str, ...]
    producers: int
    consumers: int
    options: Mapping[str, str]
    extras: tuple[Extra, ...]
    needs: tuple[str, ...]
    because: Mapping[str, str]
    note: str
    silence: float  # seconds of silence after which the watchdog ends a side
    root: Path = ROOT  # the tree whose programs it runs

    @property
    def programs(self) -> tuple[Program, Program]:
        return self.a[0], self.b[0]

    @property
    def label(self) -> str:
        first, second = self.programs
        return first.label if first == second else f"{first.label} ↔ {second.label}"

    @property
    def family(self) -> str:
        first, second = self.programs
        return first.family if first == second else "Mixed pairs"

    @property
    def workers(self) -> int:
        """The number of processes that share the jobs in scenario `jobs`."""
        return int(self.options.get("workers", "1"))

    @property
    def own_pairs(self) -> tuple[str, ...]:
        """For a mixed pair, the ids of the two pairs in one language."""
        programs, name = self.id.split("/")
        return tuple(f"{program}/{name}" for program in dict.fromkeys(programs.split("+")))

    def wait_in(self, table: Table) -> str:
        return self.waits[0] if table.wait == "own" else table.wait

    def cannot(self, table: Table) -> str | None:
        """Returns why the contender cannot be in this table, or None."""
        for field_, asked, have, text in (
            ("scenarios", table.scenario, self.scenarios, "it has no {}"),
            ("sizes", table.size, self.sizes, "no messages of {} bytes"),
            ("modes", table.mode, self.modes, "no mode {}"),
            ("waits", self.wait_in(table), self.waits, "it does not {}"),
        ):
            if asked not in have:
                return self.because.get(field_, text.format(asked))
        if table.producers > self.producers:
            return self.because.get("producers", "one sender only")
        if table.consumers > self.consumers:
            return self.because.get("consumers", "a message goes to one receiver only")
        return None


@dataclass(frozen=True)
class Table:
    """A comparison: the measurement, the contenders, and Flyring's targets."""

    name: str
    title: str
    scenario: str
    size: int
    mode: str
    wait: str
    contenders: tuple[str, ...]  # patterns of ids
    rate: float = 0.0
    seconds: float = 0.0  # the length of a turn of idle and paced
    job: int = 0  # nanoseconds of work per job in scenario `jobs`
    keys: int = 0  # of each map in scenario `map`
    pattern: str = "uniform"  # in which keys are used: uniform or zipf
    hits: bool = True  # whether the keys that are looked for are there
    producers: int = 1
    consumers: int = 1
    rounds: int = 7
    time_slice: float = 0.0  # seconds, if shorter than the run's
    starts: int = 1  # how often each contender is started; the rounds are spread over the starts
    compared_with: str = (
        ""  # a contender to which each row's ratio is shown, with its interval. */NAME: of the row's program
    )
    interruptions: bool = False  # whether samples far above the median are counted
    quick: tuple[str, ...] = ()  # patterns for --quick; none: the table is not in it
    headline: bool = False
    asked: bool = False  # whether it is measured only if --tables names it
    against: tuple[str, ...] = ()  # patterns for --against; none: only if --tables names the table
    picture: str = ""  # the README's picture made from it
    picture_of: tuple[str, ...] = ("*",)  # patterns of the contenders in that picture
    note: str = ""
    targets: tuple[Mapping[str, Any], ...] = field(default=())

    def sides(self, contender: Contender) -> tuple[str, ...]:
        """Returns the sides in the order of their start. A suffix after a slash distinguishes equal sides."""
        if self.scenario == "idle":
            return ("b", *(f"b/{n}" for n in range(2, self.consumers + 1)), "a")
        second = contender.workers > 1 if self.scenario == "jobs" else self.consumers > 1
        return ("b", *(("b2",) if second else ()), "a", *(("a2",) if self.producers > 1 else ()))

    @property
    def kinds(self) -> tuple[tuple[int, str], ...]:
        """Returns the turns of one round: number of slices, and kind."""
        means = ((2, "mean"),)
        return {
            "rtt": ((2, "mean"), (1, "timed")),
            "schedule": ((2, "timed"),),
            "stream": means,
            "jobs": means,
            "burst": means,
            "append": means,
            "replay": means,
            "map": means,
        }.get(self.scenario, ())

    def reference(self, contender: str) -> str:
        """Returns the contender with which this one is compared, or nothing; never itself. A reader beside a writer in
        another language is compared with its own."""
        program = contender.partition("/")[0]
        found = self.compared_with.replace("*", program.partition("+")[0] if self.scenario == "map" else program)
        return "" if found == contender else found

    @property
    def what(self) -> str:
        """Describes the measurement in one line."""
        how = {"write": "every byte written and compared", "look": "in place, 8 bytes written and looked at"}[self.mode]
        wait = {"spin": "spinning", "block": "blocking", "own": "spinning where it can be had"}[self.wait]
        if self.scenario == "idle":
            return f"{self.consumers} readers, each in its own process, {wait}; nothing comes for {self.seconds:g} s"
        if self.scenario == "paced":
            return f"1 → 1, {size_text(self.size)} messages, {self.rate:g} a second, {wait}, {self.seconds:g} s a round"
        if self.scenario == "map":
            where = "hits" if self.hits else "misses"
            return f"{self.keys:,} keys, values of {size_text(self.size)}, {self.pattern}, {where}".replace(",", " ", 2)
        if self.scenario == "jobs":
            long = f"{self.job / 1000:g} µs long" if self.job else "empty"
            return f"jobs of {size_text(self.size)}, {long}, each to one of the workers, {how}, {wait}"
        if self.scenario == "burst":
            return f"what it takes to send {size_text(self.size)} messages while nobody reads, {how}"
        if self.scenario in ("append", "replay"):
            what = {"append": "what it takes to append", "replay": "what it takes to read, when all are written,"}
            return f"{what[self.scenario]} {size_text(self.size)} messages, {how}"
        if self.scenario == "stream":
            return f"{self.producers} → {self.consumers}, {size_text(self.size)} messages, {how}, {wait}"
        due = f", one due every {1e6 / self.rate:g} µs" if self.scenario == "schedule" else ""
        return f"round trips of {size_text(self.size)} messages{due}, {how}, {wait}"


def size_text(size: int) -> str:
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} B"


def matches(id_: str, patterns: Iterable[str]) -> bool:
    """Returns whether an id matches the patterns. A pattern that begins with an exclamation mark excludes."""
    found = False
    for pattern in patterns:
        if pattern.startswith("!"):
            found = found and not fnmatch.fnmatchcase(id_, pattern[1:])
        else:
            found = found or fnmatch.fnmatchcase(id_, pattern)
    return found


@dataclass(frozen=True)
class Catalogue:
    """The contents of both files."""

    needs: Mapping[str, Need]
    programs: Mapping[str, Program]
    contenders: Mapping[str, Contender]
    tables: Mapping[str, Table]

    def of_table(self, table: Table, quick: bool = False) -> list[Contender]:
        """Returns the contenders that the table's patterns match. Maps pass no messages: they are in tables of maps
        alone."""
        maps = table.scenario == "map"
        found = [c for c in self.contenders.values() if matches(c.id, table.quick if quick else table.contenders)]
        return [c for c in found if maps == ("map" in c.scenarios)]


def load(folder: Path = BENCH) -> Catalogue:
    with open(folder / "contenders.toml", "rb") as file:
        data = tomllib.load(file)
    with open(folder / "tables.toml", "rb") as file:
        tables = tomllib.load(file)
    needs = {
        name: Need(name, n["check"], tuple(n.get("apt", ())), n.get("how", "")) for name, n in data["needs"].items()
    }
    programs = {name: make(Program, name=name, **p) for name, p in data["programs"].items()}
    flags = {name: tuple(words) for name, words in data.get("flags", {}).items()}
    extras = {name: make(Extra, name=name, **e) for name, e in data.get("extras", {}).items()}
    contenders: dict[str, Contender] = {}
    for entry in data["contender"]:
        for pair in entry["programs"]:
            contender = contender_of(entry, pair, programs, flags, extras)
            if contender.id in contenders:
                raise DataError(f"contenders.toml: {contender.id} is there twice")
            contenders[contender.id] = contender
    catalogue = Catalogue(needs, programs, contenders, {t["name"]: table_of(t) for t in tables["table"]})
    check(catalogue)
    return catalogue


def make(kind: type[Any], **values: Any) -> Any:
    """Makes a dataclass from TOML values: lists become tuples, and an unknown key is an error."""
    try:
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except TypeError as error:
        raise DataError(f"{kind.__name__} {values.get('name', '')}: {error}") from None


def table_of(entry: Mapping[str, Any]) -> Table:
    values = dict(entry)
    targets = values.pop("target", [])
    return make(Table, **values, targets=targets)  # type: ignore[no-any-return]


def contender_of(
    entry: Mapping[str, Any],
    pair: str,
    programs: Mapping[str, Program],
    flags: Mapping[str, tuple[str, ...]],
    extras: Mapping[str, Extra],
) -> Contender:
    values = dict(entry)
    del values["programs"]
    name = values.pop("name")
    inner = values.pop("contender", name)
    first, _, second = pair.partition("+")

    def side(program: str) -> tuple[Program, str]:
        return programs[program], inner if isinstance(inner, str) else inner[program]

    defaults: dict[str, Any] = {
        "scenarios": ["rtt", "schedule", "stream"],
        "sizes": [32, 1024, 65536],
        "modes": ["write", "look"],
        "waits": ["spin"],
        "producers": 1,
        "consumers": 1,
        "options": {},
        "needs": [],
        "because": {},
        "note": "",
        "silence": 20.0,
    }
    values["flags"] = [flag for name_ in values.get("flags", []) for flag in flags[name_]]
    values["extras"] = [extras[extra] for extra in values.get("extras", [])]
    values["options"] = {k: str(v) for k, v in values.get("options", {}).items()}
    return make(  # type: ignore[no-any-return]
        Contender, **{**defaults, **values, "id": f"{pair}/{name}", "a": side(first), "b": side(second or first)}
    )


def check(catalogue: Catalogue) -> None:
    for contender in catalogue.contenders.values():
        if contender.group not in GROUPS:
            raise DataError(f"{contender.id}: no group is called {contender.group}")
        if contender.group == "flyring" and contender.flags:
            raise DataError(f"{contender.id}: Flyring runs without JVM flags")
        for need in (*contender.needs, *(n for p in contender.programs for n in p.needs)):
            if need not in catalogue.needs:
                raise DataError(f"{contender.id}: needs {need}, which is not described")
    for table in catalogue.tables.values():
        if table.pattern not in PATTERNS or (table.scenario == "map") != (table.keys > 0):
            raise DataError(f"tables.toml: {table.name}: keys belong to the scenario map, pattern is one of {PATTERNS}")
        named = [table.compared_with] if table.compared_with else []
        for pattern in (*table.contenders, *table.quick, *table.against, *named):
            if not any(matches(id_, [pattern.lstrip("!")]) for id_ in catalogue.contenders):
                raise DataError(f"tables.toml: {table.name}: {pattern} matches no contender")
