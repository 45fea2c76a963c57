# SPDX-License-Identifier: Apache-2.0
"""Maps: the keys, what a reader and a writer answer, memory, and the contenders themselves."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import cache
import numpy as np
import pytest

from driver import keys
from driver.conftest import MakeRun
from driver.contenders import Catalogue, Contender, DataError, check
from driver.install import environment, fill_in
from driver.run import slices_of
from driver.sides import Failure, Group
from driver.summary import Summary
from driver.targets import verdicts
from driver.test_jobs import needs_cores, skip_unless_built
from driver.test_run import left_behind

COUNT = 3000


def test_keys_never_repeat_and_misses_are_not_among_them() -> None:
    there = keys.fill(COUNT)
    assert there[:2].tolist() == [-2152535657050944081, 7960286522194355700]  # as splitmix64 with seed 0
    assert len(set(there.tolist())) == COUNT
    hits, misses = (keys.sequence(COUNT, "uniform", h) for h in (True, False))
    assert set(hits.tolist()) == set(there.tolist()) and len(hits) == 1 << 20
    assert not set(misses.tolist()) & set(there.tolist())
    assert len(keys.sequence((1 << 20) + 1, "uniform", True)) == 1 << 22


def test_zipf_prefers_some_keys() -> None:
    for pattern, share in (("uniform", 1 / COUNT), ("zipf", 1 / float((np.arange(1, COUNT + 1) ** -0.99).sum()))):
        found = keys.sequence(COUNT, pattern, True)
        _, counts = np.unique(found, return_counts=True)
        assert counts.max() / len(found) == pytest.approx(share, rel=0.25), pattern
    (frequent,) = keys.fill(COUNT)[:1]
    assert np.count_nonzero(found == frequent) < counts.max()  # not the first one that is filled in


@pytest.mark.parametrize("wrong", [{"keys": 0}, {"scenario": "rtt"}, {"pattern": "gauss"}])
def test_keys_belong_to_maps(catalogue: Catalogue, wrong: dict[str, Any]) -> None:
    table = dataclasses.replace(catalogue.tables["table-get-1m"], **wrong)
    with pytest.raises(DataError, match="keys belong to the scenario map"):
        check(dataclasses.replace(catalogue, tables={"t": table}))


def test_maps_are_in_tables_of_maps_alone(catalogue: Catalogue) -> None:
    for table in catalogue.tables.values():
        for contender in catalogue.of_table(table):
            assert ("map" in contender.scenarios) == (table.scenario == "map"), (table.name, contender.id)


def test_a_reader_is_compared_with_its_own_language(catalogue: Catalogue) -> None:
    table = catalogue.tables["table-beside-1m"]
    assert table.reference("java17+cpp/flyring-table-beside") == "java17/flyring-table"
    assert table.reference("java17/flyring-table") == ""


def answers(writer: int) -> dict[str, dict[str, Any]]:
    one = {"kind": "mean", "count": 640, "ns": 6400}
    return {"a": {"probes": [100, 100], "slices": [one]}, "b": {"probes": [], "slices": [{**one, "count": writer}]}}


def test_a_writer_beside_must_write(catalogue: Catalogue) -> None:
    table, contender = catalogue.tables["table-beside-1m"], catalogue.contenders["cpp/flyring-table-beside"]
    ((slice_, _),) = slices_of(table, contender, 1, 1, answers(64), [1.0, 1.0], 0)
    assert (slice_.count, slice_.ns) == (640, 6400)
    with pytest.raises(Failure, match="wrote nothing"):
        slices_of(table, contender, 1, 1, answers(0), [1.0, 1.0], 0)


def test_a_map_is_compared_with_its_own_language_and_its_memory_is_judged(make_run: MakeRun) -> None:
    names = [f"{language}/{name}" for language in ("cpp", "python") for name in ("heap-map", "flyring-table")]
    target = {"contender": ["cpp/flyring-table"]}
    targets = [
        {**target, "text": "fast", "interval_at_most": 1.5},
        {**target, "text": "small", "bytes_a_key_at_most": 200},
        {**target, "text": "too large", "bytes_a_key_at_most": 199},
        {"contender": ["python/flyring-table"], "text": "unknown", "bytes_a_key_at_most": 199},
    ]
    results = make_run(
        targets,
        dict(zip(names, (10e6, 8e6, 5e6, 1e6), strict=True)),
        scenario="map",
        keys=1000,
        compared_with="*/heap-map",
    )
    results.run["bytes_a_key"] = {"t": {"cpp/flyring-table": 200.0}}
    found = {v.text: v for v in verdicts(results)}
    assert {text: v.reached for text, v in found.items()} == {
        "fast": True,
        "small": True,
        "too large": False,
        "unknown": None,
    }
    assert "1.250 (1.250–1.250) times C++: std::unordered_map" in found["fast"].measured
    grid = Summary.of(results).parts[0].figures
    at = grid.head.index("times std::unordered_map or dict, same language (95 % interval)")
    assert [row[at] for row in grid.rows] == ["–", "1.250 (1.250–1.250)", "–", "5.000 (5.000–5.000)"]
    assert [row[grid.head.index("bytes a key")] for row in grid.rows] == ["–", "200", "–", "–"]


def small(catalogue: Catalogue, table: str, contender: Contender) -> tuple[dict[str, dict[str, Any]], float]:
    """Does a turn of a real contender with few keys. Returns the answers, and how many bytes a key takes."""
    before = left_behind()
    cores = sorted(os.sched_getaffinity(0))
    of_few = dataclasses.replace(catalogue.tables[table], keys=min(COUNT, catalogue.tables[table].keys))
    group = Group(contender, of_few, (cores[0], cores[-1]), 0.01, fill_in, environment())
    processes = [*group.sides.values(), *group.extras]
    try:
        assert not any(Path(group.folder, name).exists() for name in (keys.FILL, keys.SEQUENCE))
        replies = group.turn(3, "mean")
    except BaseException:
        group.kill()
        raise
    group.close()
    assert [p.popen.returncode for p in processes] == [0] * len(processes)
    assert left_behind() - before == set()
    return replies, group.bytes_a_key


LOG = """[0.010s][info][gc] Using G1
[2.000s][info][gc] GC(9) Pause Full (System.gc()) 100M->90M(512M) 70.000ms
[2.500s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->1M(512M) 1.500ms
[3.100s][info][gc] GC(1) Pause Young (Concurrent Start) (G1 Humongous Allocation) 24M->1M(512M) 2.500ms
[3.200s][info][gc] GC(2) Concurrent Mark Cycle 12.000ms
[4.001s][info][gc] GC(3) Pause Full (System.gc()) 100M->90M(512M) 40.250ms
[9.000s][info][gc] GC(4) Pause Full (System.gc()) 900M->900M(2048M) 400.000ms
"""


def test_pauses_beside_a_cache() -> None:
    first, second = cache.steps("0 2000 4000 8000000\n1000000 6000 8000 4000000\n", LOG)
    assert first == cache.Step(0, 4e6, (1.5, 2.5), 40.25)
    assert second == cache.Step(1_000_000, 2e6, (), 400.0)
    assert cache.row(17, "heap", first).endswith("| 0 | 4.0 | 2 | 2.0 ms | 2.5 ms | 40.2 ms |")


@needs_cores
@pytest.mark.parametrize(
    ("name", "table"),
    [
        (f"{program}/{name}", table)
        for program in ("cpp", "java17", "python")
        for name, table in (
            ("heap-map", "table-get-1m"),
            ("flyring-table", "table-zipf-1m"),
            ("flyring-table", "table-miss-1m"),
            ("flyring-table-entry", "table-get-1m"),
            ("flyring-table-put", "table-put-1m"),
            ("heap-map-put", "table-put-1m"),
            ("flyring-table-beside", "table-beside-1m"),
        )
    ]
    + [(f"{program}+cpp/flyring-table-beside", "table-beside-1m") for program in ("java17", "python")]
    + [("java25/flyring-table", "table-zipf-1m"), ("java25/flyring-table-put", "table-put-1m")],
)
def test_maps_of_each_language(catalogue: Catalogue, name: str, table: str) -> None:
    skip_unless_built(catalogue, name)
    contender = catalogue.contenders[name]
    assert contender in catalogue.of_table(catalogue.tables[table])
    replies, size = small(catalogue, table, contender)
    assert all(s["count"] >= 64 and s["ns"] > 0 for s in replies["a"]["slices"]) and len(replies["a"]["slices"]) == 3
    assert [s["count"] > 0 for s in replies["b"]["slices"]] == ([True] * 3 if "beside" in name else [])
    if name == "cpp/flyring-table":
        assert 200 < size < 240


STORES = ("cpp/lmdb", "cpp/sqlite", "cpp/redis-map", "python/lmdb", "python/sqlite", "python/redis-map")


@needs_cores
@pytest.mark.parametrize(
    ("name", "table"),
    [
        (f"{store}{what}", table)
        for store in (*STORES, "java17/chronicle-map")
        for what, table in (("", "table-get-1m"), ("", "table-miss-1m"), ("-put", "table-put-1m"))
    ]
    + [(f"{store}-beside", "table-beside-1m") for store in (*STORES, "java17/chronicle-map")]
    + [(f"{program}/flyring-table-server", "table-server-1m") for program in ("cpp", "java17", "python")]
    + [("java25/chronicle-map", "table-get-1m")]
    + [(f"{program}/redis-pipeline", "table-server-1m") for program in ("cpp", "python")]
    + [
        (f"{name}{what}", table)
        for name in ("python/manager-dict", "python/shared-memory-dict", "rust/iceoryx2-blackboard")
        for what, table in (("", "table-get-1k"), ("-put", "table-put-1k"))
    ],
)
def test_other_maps_and_servers(catalogue: Catalogue, name: str, table: str) -> None:
    test_maps_of_each_language(catalogue, name, table)


@needs_cores
@pytest.mark.parametrize("program", ["cpp", "java17", "python"])
def test_a_map_that_answers_wrongly_is_seen(catalogue: Catalogue, program: str) -> None:
    """The contender is told that all keys are misses, but they are there."""
    skip_unless_built(catalogue, f"{program}/flyring-table")
    model = catalogue.contenders[f"{program}/flyring-table"]
    with pytest.raises(Failure, match="side a ended with status 1(.|\n)*key -?[0-9]+ "):
        small(catalogue, "table-get-1m", dataclasses.replace(model, options={"misses": "1"}))
