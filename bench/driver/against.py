# SPDX-License-Identifier: Apache-2.0
"""./dev bench --against COMMIT: measures the working tree and that commit alternately in one run.

A row is a contender in a table. Its two sides are started together, warmed up, and then take turns (here there, there
here, here there ...), so that changes of the machine affect both. One start gives one ratio. Starts are added until the
interval of the ratio is narrow enough, or the row's time is up.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.beside import Beside
from driver.contenders import ROOT, Catalogue, Contender, Table, load, matches
from driver.install import BuildError, quietly, say
from driver.placement import classify
from driver.ratios import FEWEST_STARTS, Ratio, ratios
from driver.run import WARM_NS, Measured, Runner, estimate_start, estimate_turns
from driver.sides import Failure, Group
from driver.sleeping import SCENARIOS

FOLDER = ROOT / "build/against"
TIME_SLICE = 0.05
TURNS = 6  # of each side in one start
# Builds with the commit's own driver; prints the failed builds, and why.
BUILD = """
import json, sys
sys.path.insert(0, "bench")
from driver.contenders import load
from driver.install import Installer
catalogue = load()
installer = Installer(catalogue, False)
installer.prepare([catalogue.contenders[id_] for id_ in sys.argv[1:]])
print(json.dumps(installer.broken))
"""


@dataclass(frozen=True)
class Other:
    """An extracted commit, with its own contenders and builds."""

    commit: str
    subject: str
    root: Path
    catalogue: Catalogue

    def contender(self, id_: str) -> Contender | None:
        """Returns the contender as defined in the commit, with a marked id and title."""
        found = self.catalogue.contenders.get(id_)
        if found is None:
            return None
        name = self.commit[:10]
        return dataclasses.replace(found, id=f"{id_}@{name}", title=f"{found.title} @{name}", root=self.root)

    def build(self, ids: Sequence[str]) -> dict[str, str]:
        """Builds contenders. Returns the failed builds, and why."""
        say(f"building what {self.commit[:10]} measures, in {self.root.relative_to(ROOT)}")
        done = subprocess.run(
            [sys.executable, "-c", BUILD, *ids],
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"the driver of {self.commit[:10]} cannot build its contenders (status {done.returncode})")
        return dict(json.loads(done.stdout.splitlines()[-1]))


def checkout(name: str, repository: Path = ROOT, folder: Path = FOLDER) -> Other:
    """Extracts the commit's tree to build/against, where it is kept for the next time."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"git {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    except BuildError:
        raise BuildError(
            f"{name} is no commit of this repository (git log shows them; a shallow clone lacks most)"
        ) from None
    root = folder / commit[:12]
    if not root.exists():
        new = folder / f"{commit[:12]}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        git("archive", "--format=tar", f"--output={new}.tar", commit)
        quietly("against-extract", ["tar", "-xf", f"{new}.tar", "-C", str(new)])
        Path(f"{new}.tar").unlink()
        new.rename(root)
    return Other(commit, git("log", "-1", "--format=%s", commit), root, load(root / "bench"))


@dataclass(frozen=True)
class Row:
    table: Table
    here: Contender
    there: Contender

    @property
    def text(self) -> str:
        return f"{self.table.name}: {self.here.id}"


def wanted(catalogue: Catalogue, tables: Sequence[str], only: Sequence[str]) -> list[tuple[Table, list[Contender]]]:
    """Returns Flyring's own contenders: those in tables.toml for --against, or those asked for."""
    found = []
    for table in catalogue.tables.values():
        if tables and not matches(table.name, tables) or not (tables or table.against) or table.scenario in SCENARIOS:
            continue
        patterns = only or table.against or ("*",)
        mine = [c for c in catalogue.of_table(table) if c.group == "flyring" and matches(c.id, patterns)]
        # Targets, headline and comparisons belong to one tree, so they are left out.
        plain = dataclasses.replace(table, targets=(), headline=False, picture="", compared_with="")
        if mine:
            found.append((plain, [c for c in mine if not c.cannot(table)]))
    return found


class Against(Runner):
    """Measures rows until the interval of each is narrow enough."""

    def __init__(
        self, *words: object, seconds: float, starts: int | None, wide: float, beside: Beside | None = None
    ) -> None:
        super().__init__(*words)  # type: ignore[arg-type]
        self.beside = beside
        self.seconds = seconds  # the time for one row
        self.starts = starts  # the exact number of starts, if given
        self.wide = wide  # the half interval that is narrow enough
        self.taken: dict[str, float] = {}

    def rows(self, rows: Sequence[Row]) -> None:
        """Measures the rows in turn, so that each is measured over the whole run."""
        going = list(rows)
        number = 0
        while going:
            number += 1
            for row in list(going):
                begun = time.monotonic()
                if not self.start(row, number) or self.enough(row, number):
                    going.remove(row)
                self.taken[row.text] = self.taken.get(row.text, 0.0) + time.monotonic() - begun

    def enough(self, row: Row, number: int) -> bool:
        if self.starts is not None:
            return number >= self.starts
        if self.taken.get(row.text, 0.0) >= self.seconds:
            return True
        if number < FEWEST_STARTS:
            return False
        found = self.ratios(row)
        return bool(found) and found[0].starts >= FEWEST_STARTS and found[0].wide <= self.wide

    def ratios(self, row: Row) -> list[Ratio]:
        measured = [s for s in self.slices if s.round > 0]
        mine = [s for s in classify(measured, paired=True)[0] if s.table == row.table.name]
        here = [s for s in mine if s.contender == row.here.id]
        there = [s for s in mine if s.contender == row.there.id]
        return ratios(here, there, row.table.scenario)

    def start(self, row: Row, number: int) -> bool:
        """Does one start of both sides. Returns False if one of them failed."""
        order = [row.here, row.there] if number % 2 else [row.there, row.here]
        running: list[Measured] = []
        try:
            for contender in order:
                seconds = estimate_start(row.table, contender, self.settings.time_slice)
                with self.progress.step(seconds, f"{row.text}: start {number}, {contender.title}"):
                    if not self.begin(row.table, contender, number, running):
                        return False
                if self.beside is not None and contender is row.here:
                    self.beside.point(running[-1].group.folder)
            for turn in range(TURNS):
                for measured in running if turn % 2 == 0 else reversed(running):
                    if not self.guarded(row.table, measured, self.one_turn(number, turn)):
                        return False
            for measured in running:
                measured.group.close()
            running.clear()
            return True
        finally:
            for measured in running:
                measured.group.kill()

    def warm_ns(self, contender: Contender) -> float:
        return WARM_NS if any(p.jdk for p in contender.programs) else WARM_NS / 4

    def begin(self, table: Table, contender: Contender, number: int, running: list[Measured]) -> bool:
        settings = self.settings
        try:
            group = Group(contender, table, settings.cores, settings.time_slice, self.fill_in, self.env)
        except Failure as failure:
            self.failed(table, contender, failure)
            return False
        measured = Measured(group, number)
        running.append(measured)
        if number == 1:
            self.recorder.reported(table, contender, group.opened)
        return self.guarded(table, measured, self.warm_up)

    def one_turn(self, number: int, turn: int) -> Callable[[Measured], None]:
        def action(measured: Measured) -> None:
            slices, kind = measured.group.table.kinds[0]
            seconds = estimate_turns(measured.group.table, self.settings.time_slice)
            with self.progress.step(seconds, f"{measured.group.table.name}: start {number}, {measured.contender.id}"):
                self.turn(measured, (number - 1) * TURNS + turn + 1, slices, kind)

        return action
