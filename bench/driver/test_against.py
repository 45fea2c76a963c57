# SPDX-License-Identifier: Apache-2.0
"""--against: the ratio and its interval, artificial runs with a known difference, and a commit of a small
repository."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driver import against, comparison
from driver.against import Against, Row
from driver.beside import Beside
from driver.conftest import environment
from driver.contenders import Catalogue, Contender, Table
from driver.install import BuildError, fill_in
from driver.install import environment as peer_environment
from driver.placement import classify
from driver.progress import Progress
from driver.ratios import FEWEST_STARTS, paired, ratios
from driver.raw import Recorder, Results
from driver.report import write_report
from driver.run import Settings
from driver.sides import Failure
from driver.stats import Slice
from driver.test_run import left_behind, misbehaving

OTHER = "0123456789"
HERE, THERE = "cpp/flyring-claim", f"cpp/flyring-claim@{OTHER}"


def two_sides(
    slower: float, starts: int, noise: float = 0.01, drift: float = 1.0, seed: int = 3, **more: Any
) -> tuple[list[Slice], list[Slice]]:
    """Returns slices of two trees that take turns (here there, there here); the tree here takes `slower` times as
    long."""
    random = np.random.default_rng(seed)
    here: list[Slice] = []
    there: list[Slice] = []
    machine = 100.0
    for start in range(1, starts + 1):
        own = {id(side): float(np.exp(random.normal(0, noise))) for side in (here, there)}
        for turn in range(against.TURNS):
            number = (start - 1) * against.TURNS + turn + 1
            order = [(here, HERE, slower), (there, THERE, 1.0)]
            for side, contender, factor in order if turn % 2 == 0 else reversed(order):
                machine *= drift
                ns = round(1000 * machine * own[id(side)] * factor)
                side.append(
                    Slice(
                        "t", contender, number, "mean", 1000, ns, 100, 100, start=start, **{"placement": "all", **more}
                    )
                )
    return here, there


@pytest.mark.parametrize(
    ("slower", "noise", "drift", "verdict"),
    [
        (1.0, 0.01, 1.0, "within"),
        (1.02, 0.01, 1.0, "slower"),
        (0.97, 0.01, 1.0, "faster"),
        (1.0, 0.2, 1.0, "wide"),
        (1.0, 0.01, 1.003, "within"),  # the machine gets 0.3 % slower with each turn
    ],
)
def test_the_interval_holds_the_ratio_and_the_verdict_follows(
    slower: float, noise: float, drift: float, verdict: str
) -> None:
    (ratio,) = ratios(*two_sides(slower, 30, noise, drift), "rtt")
    assert ratio.low <= slower <= ratio.high
    assert ratio.low < ratio.ratio < ratio.high
    assert (ratio.starts, ratio.verdict) == (30, verdict)


def test_of_a_stream_too_more_than_one_is_slower() -> None:
    here, there = two_sides(1.05, 30)
    (ratio,) = ratios(here, there, "stream")
    assert ratio.low > 1
    assert ratio.here.median < ratio.there.median  # messages per second


def test_intervals_hold_the_truth_nineteen_times_of_twenty() -> None:
    held = 0
    for seed in range(100):
        (ratio,) = ratios(*two_sides(1.0, 20, seed=seed), "rtt")
        held += ratio.low <= 1 <= ratio.high
    assert 88 <= held <= 100


def test_only_slices_of_the_same_class_and_round_are_compared() -> None:
    here, there = two_sides(1.0, 14, noise=0.0)
    far = [dataclasses.replace(s, placement="far", ns=5 * s.ns) if s.start > 8 else s for s in here]
    assert len(paired(far, there, "all")) == 8
    assert paired(far, there, "far") == []
    both = [dataclasses.replace(s, placement="far", ns=5 * s.ns) if s.start > 8 else s for s in there]
    assert [(r.class_, r.starts, r.of_starts) for r in ratios(far, both, "rtt")] == [("all", 8, 14), ("far", 6, 14)]
    assert [r.class_ for r in ratios(far, both[:-6], "rtt")] == ["all"]
    dropped = [dataclasses.replace(s, placement="", ns=9 * s.ns) if s.round % 2 else s for s in here]
    (ratio,) = ratios(dropped, there, "rtt")
    assert (ratio.starts, round(ratio.ratio, 6)) == (14, 1.0)


def test_a_core_that_is_slow_for_both_is_no_reason_to_drop_a_turn() -> None:
    here, there = two_sides(1.0, 10, noise=0.0)
    slow = [
        [dataclasses.replace(s, speed=0.6, ns=2 * s.ns) if s.start > 4 else s for s in side] for side in (here, there)
    ]
    found, _ = classify([*slow[0], *slow[1]], paired=True)
    mine, other = ([s for s in found if s.contender == c] for c in (HERE, THERE))
    (ratio,) = ratios(mine, other, "rtt")
    assert (ratio.starts, round(ratio.ratio, 6)) == (10, 1.0)
    assert len(paired(mine, there, "all")) == 4  # in the others only one side was slow


def test_few_starts_are_no_verdict() -> None:
    (ratio,) = ratios(*two_sides(1.05, FEWEST_STARTS - 1), "rtt")
    assert ratio.low > 1 and ratio.verdict == "wide"


def a_run(folder: Path, catalogue: Catalogue, slower: float, starts: int, lost: Sequence[str] = ()) -> Results:
    (table,) = (t for t, _ in against.wanted(catalogue, ["rtt-32"], []))
    recorder = Recorder(folder, environment(), {})
    recorder.table(table)
    here = catalogue.contenders[HERE]
    there = dataclasses.replace(here, id=THERE, title=f"{here.title} @{OTHER}")
    for contender in (here, there):
        recorder.contender(contender)
    row = {"table": table.name, "here": HERE, "there": THERE}
    recorder.run["against"] = {"commit": OTHER * 4, "subject": "A <commit>", "rows": [row]}
    for s in sorted((s for side in two_sides(slower, starts) for s in side), key=lambda s: s.round):
        recorder.slice(dataclasses.replace(s, table=table.name))
    for id_ in lost:
        recorder.contender(catalogue.contenders[id_])
        recorder.left_out(table.name, id_, "failed", "it does not build")
    recorder.close()
    return Results(folder)


@pytest.mark.parametrize(
    ("slower", "starts", "lost", "status", "last"),
    [
        (1.0, 30, (), 0, "0 slower, 1 within, 0 faster, 0 wide, 0 no figure"),
        (1.03, 30, (), 1, "1 slower, 0 within, 0 faster, 0 wide, 0 no figure"),
        (0.97, 30, (), 0, "0 slower, 0 within, 1 faster, 0 wide, 0 no figure"),
        (1.0, 2, (), 3, "0 slower, 0 within, 0 faster, 0 wide, 1 no figure"),
        (1.0, 30, ("java17/flyring-claim",), 3, "0 slower, 1 within, 0 faster, 0 wide, 1 no figure"),
        (1.03, 30, ("java17/flyring-claim",), 1, "1 slower, 0 within, 0 faster, 0 wide, 1 no figure"),
    ],
)
def test_the_last_line_and_the_exit_status(
    tmp_path: Path, catalogue: Catalogue, slower: float, starts: int, lost: Sequence[str], status: int, last: str
) -> None:
    results = a_run(tmp_path / "run", catalogue, slower, starts, lost)
    found = comparison.of(results)
    assert comparison.status(found) == status
    assert comparison.lines(results, found)[-1] == f"against {OTHER}: {last}"


def test_both_reports_show_the_ratios_and_both_sides(tmp_path: Path, catalogue: Catalogue) -> None:
    results = a_run(tmp_path / "run", catalogue, 1.03, 30)
    write_report(results, whole=True)
    text = (results.folder / "report.md").read_text()
    (row,) = [line for line in text.splitlines() if line.endswith("| slower |")]
    assert row.startswith("| **C++: Flyring claim** | rtt-32 | all | 103 ns | 100 ns | 1.03")
    assert "| 30 of 30 | slower |" in row
    assert f"| **C++: Flyring claim @{OTHER}** |" in text
    page = (results.folder / "report.html").read_text()
    assert "A &lt;commit&gt;" in page and "1 slower, 0 within" in page


def test_which_rows_are_measured(catalogue: Catalogue) -> None:
    rows = {(t.name, c.id) for t, cs in against.wanted(catalogue, [], []) for c in cs}
    for program in ("cpp", "java17", "java25"):
        assert {("rtt-32", f"{program}/flyring-claim"), ("stream-32", f"{program}/flyring-claim")} <= rows
    assert {("rtt-32", "python/flyring"), ("stream-32-python", "python/flyring")} <= rows
    (only,) = against.wanted(catalogue, ["stream-1024"], ["cpp/*"])
    assert only[1] and all(c.group == "flyring" and c.id.startswith("cpp/") for c in only[1])
    assert only[0].targets == ()


# --- the measurement, with contenders of a few lines


def measured(
    tmp_path: Path, table: Table, rows: Sequence[Row], starts: int | None, **more: Any
) -> tuple[Against, Results]:
    cores = sorted(os.sched_getaffinity(0))
    recorder = Recorder(tmp_path / "run", environment(), {})
    recorder.table(table)
    settings = Settings((cores[0], cores[-1]), 0.02, None, quick=False, starts=starts)
    words = {"seconds": 60.0, "wide": 0.01, **more}
    runner = Against(settings, recorder, Progress(1), fill_in, peer_environment(), starts=starts, **words)
    runner.rows(rows)
    recorder.close()
    return runner, Results(tmp_path / "run")


def test_two_trees_take_turns_start_for_start(tmp_path: Path, catalogue: Catalogue) -> None:
    before = left_behind()
    table = catalogue.tables["stream-32"]
    log = tmp_path / "log"
    sides = [misbehaving(catalogue, f"side == 'a' and open({str(log)!r}, 'a').write({n!r})", id=n) for n in "ht"]
    _, results = measured(tmp_path, table, [Row(table, *sides)], 3)
    assert results.run["left_out"] == []
    for side in sides:
        slices = [s for s in results.slices[table.name, side.id] if s.round > 0]
        assert {s.start for s in slices} == {1, 2, 3}
        assert sorted({s.round for s in slices}) == list(range(1, 3 * against.TURNS + 1))
    warm_up = "".join(sorted(set(log.read_text())))
    assert warm_up == "ht"
    turns = log.read_text()
    assert turns.count("htthht") >= 2 and turns.count("thhtth") >= 1  # the other side begins in every second start
    assert left_behind() - before == set()


def test_starts_end_when_the_interval_is_narrow(tmp_path: Path, catalogue: Catalogue) -> None:
    table = catalogue.tables["stream-32"]
    row = Row(table, *(misbehaving(catalogue, "pass", id=n) for n in "ht"))  # constant times, without spread
    runner, results = measured(tmp_path, table, [row], None)
    (ratio,) = runner.ratios(row)
    assert (ratio.starts, ratio.low, ratio.high) == (FEWEST_STARTS, 1.0, 1.0)
    assert ratio.of_starts == max(s.start for s in results.slices[table.name, "h"])


def test_a_side_that_fails_ends_its_row_and_no_other(tmp_path: Path, catalogue: Catalogue) -> None:
    before = left_behind()
    table = catalogue.tables["stream-32"]
    bad = Row(table, misbehaving(catalogue, "os._exit(1)", id="h"), misbehaving(catalogue, "pass", id="t"))
    good = Row(table, misbehaving(catalogue, "pass", id="h2"), misbehaving(catalogue, "pass", id="t2"))
    _, results = measured(tmp_path, table, [bad, good], 2)
    (entry,) = results.run["left_out"]
    assert (entry["contender"], entry["state"]) == ("h", "failed")
    assert {s.start for s in results.slices[table.name, "h2"]} == {1, 2}
    assert left_behind() - before == set()


def test_a_command_sees_the_channels_of_this_tree_only(tmp_path: Path, catalogue: Catalogue) -> None:
    table = catalogue.tables["stream-32"]
    touch = "side == 'a' and open(sys.argv[sys.argv.index('--dir') + 1] + '/" + "%s.ring', 'w')"
    sides = [misbehaving(catalogue, touch % n, id=n) for n in "ht"]
    log = tmp_path / "with.log"
    look = "while true; do ls $FLYRING_DIR/; sleep 0.01; done"
    with Beside(f"sh -c '{look}'", peer_environment(), log) as beside:
        process = beside.process
        _, results = measured(tmp_path, table, [Row(table, *sides)], 3, beside=beside)
    assert results.run["left_out"] == []
    seen = log.read_text().split()
    assert "h.ring" in seen and "t.ring" not in seen
    assert process is not None and process.poll() is not None


def test_a_command_that_ends_ends_the_run(tmp_path: Path, catalogue: Catalogue) -> None:
    before = left_behind()
    table = catalogue.tables["stream-32"]
    row = Row(table, *(misbehaving(catalogue, "pass", id=n) for n in "ht"))
    with Beside("sh -c 'echo no such thing; exit 3'", peer_environment(), tmp_path / "with.log") as beside:
        assert beside.process is not None and beside.process.wait(10) == 3
        with pytest.raises(Failure, match="ended with status 3: no such thing"):
            measured(tmp_path, table, [row], 2, beside=beside)
    assert left_behind() - before == set()
    with pytest.raises(Failure, match="no-such-program"), Beside("no-such-program", {}, tmp_path / "with.log"):
        pass


# --- the other commit


def repository(folder: Path) -> str:
    """Makes a repository with its own driver and other contenders than this tree. Returns its commit."""
    (folder / "bench/driver").mkdir(parents=True)
    (folder / "bench/tables.toml").write_text(
        '[[table]]\nname = "rtt-32"\ntitle = "t"\nscenario = "rtt"\nsize = 32\nmode = "write"\nwait = "spin"\n'
        'contenders = ["*"]\n'
    )
    (folder / "bench/contenders.toml").write_text(
        '[needs]\n[programs.cpp]\nlabel = "C++"\nfamily = "f"\nargv = ["old/place"]\nbuild = "cpp"\nmemory_mb = 1\n'
        '[[contender]]\nname = "flyring-claim"\ntitle = "Flyring"\nprograms = ["cpp"]\ngroup = "flyring"\n'
    )
    (folder / "bench/driver/contenders.py").write_text(
        "class Catalogue:\n    contenders = {'cpp/flyring-claim': 1}\ndef load():\n    return Catalogue()\n"
    )
    (folder / "bench/driver/install.py").write_text(
        "class Installer:\n    broken = {}\n    def __init__(self, catalogue, peers):\n        pass\n"
        "    def prepare(self, contenders):\n        open('built', 'w').write(str(len(contenders)))\n"
        "        self.broken = {'java': 'no'}\n"
    )
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(folder)}
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "An old commit"]):
        subprocess.run(["git", *words], cwd=folder, check=True, env=env)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, env=env, capture_output=True, text=True
    ).stdout.strip()


def test_a_commit_is_measured_by_its_own_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = repository(tmp_path / "repository")
    monkeypatch.setattr(against, "ROOT", tmp_path)
    (tmp_path / "repository/bench/tables.toml").write_text("nonsense of the working tree")
    other = against.checkout("HEAD", tmp_path / "repository", tmp_path / "against")
    assert (other.commit, other.subject) == (commit, "An old commit")
    assert other.root == tmp_path / "against" / commit[:12]
    contender = other.contender("cpp/flyring-claim")
    assert isinstance(contender, Contender)
    assert contender.id == f"cpp/flyring-claim@{commit[:10]}" and contender.root == other.root
    assert contender.a[0].argv == ("old/place",)
    assert other.contender("cpp/flyring-offer") is None
    assert other.build(["cpp/flyring-claim"]) == {"java": "no"}
    assert (other.root / "built").read_text() == "1"
    again = against.checkout(commit[:8], tmp_path / "repository", tmp_path / "against")
    assert (again.root / "built").exists()  # the tree is kept


def test_a_commit_that_is_not_there_is_named(tmp_path: Path) -> None:
    repository(tmp_path / "repository")
    with pytest.raises(BuildError, match="no-such-commit"):
        against.checkout("no-such-commit", tmp_path / "repository", tmp_path / "against")
