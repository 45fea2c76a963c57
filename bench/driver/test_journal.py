# SPDX-License-Identifier: Apache-2.0
"""Logs: whose time counts, folders on a disk, and the contenders themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from driver.conftest import MakeRun
from driver.contenders import Catalogue, matches
from driver.install import environment, fill_in
from driver.run import slices_of
from driver.sides import DISK_FOLDER, Failure, Group
from driver.summary import Summary
from driver.targets import verdicts
from driver.test_jobs import needs_cores, skip_unless_built, turn

KEPT = ("flyring-journal", "flyring-journal-batch", "flyring-journal-alone", "flyring-journal-disk")


def answers(received: int) -> dict[str, dict[str, Any]]:
    writer = {"kind": "mean", "count": 640, "ns": 6400}
    reader = {"kind": "mean", "count": received, "ns": 9900, "lost": 0, "timed": received - 100}
    return {"a": {"probes": [100, 100], "slices": [writer]}, "b": {"probes": [], "slices": [reader]}}


def test_of_an_append_the_writers_time_counts_and_of_a_replay_the_readers(catalogue: Catalogue) -> None:
    contender = catalogue.contenders["cpp/flyring-journal"]
    found = {}
    for name in ("journal-append-32", "journal-replay-32"):
        ((slice_, _),) = slices_of(catalogue.tables[name], contender, 1, 1, answers(640), [1.0, 1.0], 0)
        found[name] = (slice_.ns, slice_.timed, slice_.each_ns)
    assert found == {"journal-append-32": (6400, 0, 10.0), "journal-replay-32": (9900, 540, 9900 / 540)}


def test_a_message_that_a_log_has_lost_is_seen(catalogue: Catalogue) -> None:
    contender = catalogue.contenders["cpp/flyring-journal"]
    for name in ("journal-append-32", "journal-replay-32"):
        with pytest.raises(Failure, match="640 messages were sent, 639 received"):
            slices_of(catalogue.tables[name], contender, 1, 1, answers(639), [1.0, 1.0], 0)


def test_a_journal_is_compared_with_the_ring_of_its_language(make_run: MakeRun) -> None:
    names = [f"{program}/{name}" for program in ("cpp", "java17") for name in ("flyring-clock", "flyring-journal")]
    target = {"contender": ["cpp/flyring-journal"]}
    targets = [
        {**target, "text": "fast", "interval_at_most": 5.0},
        {**target, "text": "too slow", "interval_at_most": 3.9},
    ]
    rates = dict(zip(names, (80e6, 20e6, 50e6, 25e6), strict=True))
    results = make_run(targets, rates, scenario="append", compared_with="*/flyring-clock")
    assert {v.text: v.reached for v in verdicts(results)} == {"fast": True, "too slow": False}
    grid = Summary.of(results).parts[0].figures
    at = next(i for i, head in enumerate(grid.head) if head.startswith("times "))
    assert sorted(row[at] for row in grid.rows) == ["2.000 (2.000–2.000)", "4.000 (4.000–4.000)", "–", "–"]


def test_targets_of_journals_name_contenders_of_their_table(catalogue: Catalogue) -> None:
    for table in catalogue.tables.values():
        if table.name.startswith("journal-"):
            there = [c.id for c in catalogue.of_table(table)]
            assert [c for c in there if catalogue.contenders[c].cannot(table)] == []
            for target in table.targets:
                limit = target.get("at_least") or target.get("at_most") or {"of": ["*"]}
                for patterns in (target["contender"], limit["of"]):
                    assert any(matches(c, patterns) for c in there), (table.name, target["text"])


@needs_cores
@pytest.mark.parametrize("program", ["cpp", "java17", "java25", "python"])
@pytest.mark.parametrize("how", [*KEPT, "flyring-clock"])
def test_what_is_appended_is_read(catalogue: Catalogue, program: str, how: str) -> None:
    skip_unless_built(catalogue, f"{program}/{how}")
    replies = turn(catalogue, "journal-append-32", f"{program}/{how}", 4)
    for sent, received in zip(replies["a"]["slices"], replies["b"]["slices"], strict=True):
        assert sent["count"] == received["count"] >= 64 and sent["ns"] > 0 and received["ns"] > 0


@needs_cores
@pytest.mark.parametrize(
    "name",
    ["cpp/file", "cpp/file-batch", "cpp/file-disk", "cpp/sqlite-log", "cpp/sqlite-log-batch", "python/mcap"]
    + [f"java17/{name}" for name in ("chronicle-queue", "aeron-archive")],
)
def test_what_others_append_is_read(catalogue: Catalogue, name: str) -> None:
    test_what_is_appended_is_read(catalogue, *name.split("/"))


@needs_cores
@pytest.mark.parametrize("program", ["cpp", "java17", "python"])
@pytest.mark.parametrize("table", ["journal-tail-32", "journal-rtt-32"])
def test_readers_follow(catalogue: Catalogue, program: str, table: str) -> None:
    name = f"{program}/flyring-journal" + ("s" if table == "journal-rtt-32" else "")
    skip_unless_built(catalogue, name)
    replies = turn(catalogue, table, name)
    assert all(s["count"] >= 64 and s["ns"] > 0 for s in replies["a" if name[-1] == "s" else "b"]["slices"])


@needs_cores
def test_a_folder_on_a_disk_is_removed(catalogue: Catalogue) -> None:
    contender = catalogue.contenders["cpp/file-disk"]
    skip_unless_built(catalogue, contender.id)
    cores = sorted(os.sched_getaffinity(0))
    table = catalogue.tables["journal-append-32"]
    group = Group(contender, table, (cores[0], cores[-1]), 0.01, fill_in, environment())
    try:
        assert Path(group.disk).parent == DISK_FOLDER and Path(group.disk, "a.log").exists()
        group.turn(1, "mean")
    finally:
        group.kill()
    assert not Path(group.disk).exists()
