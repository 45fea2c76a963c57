# SPDX-License-Identifier: Apache-2.0
"""Jobs that workers share, bursts, and comparisons with the same language's inbox."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driver.conftest import MakeRun
from driver.contenders import ROOT, Catalogue
from driver.install import PYTHON_VENV, Installer, environment, fill_in, jdk
from driver.jobs import together
from driver.run import lacking
from driver.sides import Failure, Group
from driver.stats import Slice
from driver.summary import Summary
from driver.targets import verdicts
from driver.test_run import PEER, left_behind, misbehaving, run

needs_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are needed")
BUILT = {
    "cpp": PEER.exists(),
    "java17": (ROOT / "bench/java/target/flyring-bench.jar").exists(),
    "python": (PYTHON_VENV / "bin/python").exists(),
}


def worker(numbers: list[int], start: int = 0, end: int = 0) -> dict[str, Any]:
    squares = sum(n * n for n in numbers)
    return {"kind": "mean", "count": len(numbers), "start": start, "end": end, "sum": sum(numbers), "squares": squares}


def test_jobs_of_two_workers_are_put_together() -> None:
    found = together(6, [worker([0, 1, 5], 100, 900), worker([2, 3, 4], 250, 1000)])
    assert found == {"kind": "mean", "count": 6, "ns": 900}
    idle = together(3, [worker([0, 1, 2], 100, 900), worker([])])
    assert idle["ns"] == 800
    large = 1 << 20
    assert together(large, [worker(list(range(large)), 0, 1)])["count"] == large


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        (([0, 1], [2, 3, 4]), "6 jobs were sent, 5 done"),
        (([0, 1, 2], [2, 3, 4, 5]), "6 jobs were sent, 7 done"),
        (([0, 1, 2], [2, 3, 4]), "the sum of their numbers"),
        (([0, 3, 3], [2, 2, 5]), "the squares of their numbers"),  # the sum is right
    ],
)
def test_a_job_that_is_lost_or_done_twice_is_seen(numbers: tuple[list[int], list[int]], what: str) -> None:
    with pytest.raises(Failure, match=what):
        together(6, [worker(each, 1, 2) for each in numbers])


def test_the_contender_says_which_sides_take_part(catalogue: Catalogue) -> None:
    table = catalogue.tables["queue-jobs-5us"]
    assert table.sides(catalogue.contenders["cpp/flyring-worker"]) == ("b", "a")
    assert table.sides(catalogue.contenders["cpp/flyring-workers"]) == ("b", "b2", "a")
    assert catalogue.tables["queue-32"].reference("java17/flyring-queue") == "java17/flyring-inbox"
    assert catalogue.tables["queue-32"].reference("java17/flyring-inbox") == ""
    assert catalogue.tables["rtt-32-block"].reference("java17/flyring-block") == "cpp/futex-barrier"


def test_a_row_is_compared_with_its_own_language(make_run: MakeRun) -> None:
    target = {"text": "it", "contender": ["python/flyring-queue"], "interval_at_most": 1.03}
    rates = {"cpp/flyring-inbox": 50e6, "cpp/flyring-queue": 40e6, "python/flyring-inbox": 4e6}
    rates["python/flyring-queue"] = 4e6 / 1.02
    results = make_run([target], rates, scenario="burst", compared_with="*/flyring-inbox")
    (verdict,) = verdicts(results)
    assert verdict.reached, verdict
    assert "1.020 (1.020–1.020) times Python: Flyring inbox, poll" in verdict.measured
    grid = Summary.of(results).parts[0].figures
    at = grid.head.index("times Flyring inbox, poll, same language (95 % interval)")
    found = {row[0]: row[at] for row in grid.rows}
    assert found["C++: Flyring queue, poll of 256"] == "1.250 (1.250–1.250)"
    assert found["C++: Flyring inbox, poll"] == "–"


def test_rounds_go_on_until_there_is_an_interval(catalogue: Catalogue) -> None:
    table = catalogue.tables["queue-burst-32"]
    names = [f"{language}/flyring-{kind}" for language in ("cpp", "python") for kind in ("inbox", "queue")]
    running: list[Any] = [SimpleNamespace(contender=catalogue.contenders[name]) for name in names]
    rounds = dict(zip(names, (6, 6, 7, 5), strict=True))
    slices = [
        Slice(table.name, name, number, "mean", 4096, 40960, 100.0, 101.0)
        for name in names
        for number in range(1, rounds[name] + 1)
    ]
    assert [m.contender.id for m in lacking(table, running, slices)] == names[2:]
    slices.append(Slice(table.name, names[3], 6, "mean", 4096, 40960, 100.0, 101.0))
    assert lacking(table, running, slices) == []


JOBS = """
sides = {"b": [0, 2], "b2": [1, 3]} if len(sys.argv) and "workers=2" in sys.argv else {"b": [0, 1, 2, 3]}
def one_of(side):
    mine = sides.get(side, [])
    mine = mine + [3] if "twice" in WRONG and side == "b" else mine
    squares = sum(n * n for n in mine)
    done = {"kind": "mean", "count": len(mine), "start": 1000, "end": 5000, "sum": sum(mine), "squares": squares}
    return {"kind": "mean", "count": 4} if side == "a" else done
"""


@pytest.mark.parametrize(("wrong", "reason"), [("", ""), ("twice", "4 jobs were sent, 5 done")])
def test_what_workers_say_is_checked(tmp_path: Path, catalogue: Catalogue, wrong: str, reason: str) -> None:
    before = left_behind()
    model = misbehaving(catalogue, "pass", scenarios=("jobs",), waits=("block",), options={"workers": "2"})
    program, name = model.a
    text = program.argv[2].replace('one = {"kind": "mean", "count": count, "ns": 10_000_000_000}', "one = one_of(side)")
    text = text.replace("import json,", f"WRONG = {wrong!r}\nimport json,", 1)
    text = text.replace("side = sys.argv[", JOBS + "\nside = sys.argv[", 1)
    program = dataclasses.replace(program, argv=(*program.argv[:2], text))
    contender = dataclasses.replace(model, a=(program, name), b=(program, name))
    table = catalogue.tables["queue-jobs-5us"]
    results = run(tmp_path, table, [contender])
    assert [e["reason"] for e in results.run["left_out"]] == ([reason] if reason else [])
    if not reason:
        slices = results.slices[table.name, contender.id]
        assert {(s.count, s.ns) for s in slices} == {(4, 4000)}
    assert left_behind() - before == set()


def skip_unless_built(catalogue: Catalogue, name: str) -> None:
    for program in name.partition("/")[0].split("+"):
        if not BUILT.get("java17" if program == "java25" else program, True):
            pytest.skip("not built: ./dev bench --quick")
        if program == "java25" and not os.path.isdir(jdk(25)):
            pytest.skip("no JDK 25")
    why = Installer(catalogue, peers=False).missing(catalogue.contenders[name])
    if why is not None:
        pytest.skip(f"{name}: {': '.join(why)}")


def turn(catalogue: Catalogue, table: str, name: str, slices: int = 3) -> dict[str, dict[str, Any]]:
    """Does a turn of a real contender, and ends it properly."""
    if not BUILT.get(name.partition("/")[0], True):
        pytest.skip("not built: ./dev bench --quick")
    before = left_behind()
    cores = sorted(os.sched_getaffinity(0))
    contender = catalogue.contenders[name]
    group = Group(contender, catalogue.tables[table], (cores[0], cores[-1]), 0.02, fill_in, environment())
    processes = [*group.sides.values(), *group.extras]
    try:
        replies = group.turn(slices, "mean")
    finally:
        group.close()
    assert [p.popen.returncode for p in processes] == [0] * len(processes)
    assert left_behind() - before == set()
    return replies


@needs_cores
@pytest.mark.parametrize("program", list(BUILT))
@pytest.mark.parametrize("how", ["flyring-inbox", "flyring-queue", "flyring-queue-one", "flyring-queue-take"])
def test_one_worker_gets_all_jobs(catalogue: Catalogue, program: str, how: str) -> None:
    replies = turn(catalogue, "queue-32", f"{program}/{how}")
    for sent, received in zip(replies["a"]["slices"], replies["b"]["slices"], strict=True):
        assert sent["count"] == received["count"] >= 64 and received["ns"] > 0


@needs_cores
@pytest.mark.parametrize("program", list(BUILT))
@pytest.mark.parametrize("how", ["flyring-inbox", "flyring-queue"])
def test_bursts_are_read(catalogue: Catalogue, program: str, how: str) -> None:
    replies = turn(catalogue, "queue-burst-32", f"{program}/{how}", 9)  # the last slices are longer than a burst
    for sent, received in zip(replies["a"]["slices"], replies["b"]["slices"], strict=True):
        assert sent["count"] == received["count"] >= 64 and sent["ns"] > 0
    assert replies["a"]["slices"][-1]["count"] > 4096


@needs_cores
@pytest.mark.parametrize("program", list(BUILT))
@pytest.mark.parametrize("workers", ["worker", "workers"])
def test_each_job_is_done_once(catalogue: Catalogue, program: str, workers: str) -> None:
    replies = turn(catalogue, "queue-jobs-5us", f"{program}/flyring-{workers}", 5)
    mine = [replies[side]["slices"] for side in replies if side[0] == "b"]
    assert len(mine) == (2 if workers == "workers" else 1)
    for sent, of_workers in zip(replies["a"]["slices"], zip(*mine, strict=True), strict=True):
        found = together(sent["count"], of_workers)
        assert found["ns"] >= 5000 * found["count"] / len(mine)
    assert all(sum(s["count"] for s in slices) > 0 for slices in mine)


@needs_cores
@pytest.mark.parametrize(
    "name",
    [
        *("cpp/zeromq-ipc", "cpp/zeromq-worker", "cpp/zeromq-workers"),
        *("python/pyzmq", "python/pyzmq-worker", "python/pyzmq-workers"),
        *("python/mp-queue", "python/multiprocessing-worker", "python/multiprocessing-workers"),
        *("python/redis-list", "python/redis-list-worker", "python/redis-list-workers"),
        *("python/redis-move", "python/redis-move-worker", "python/redis-move-workers"),
    ],
)
def test_others_do_each_job_once(catalogue: Catalogue, name: str) -> None:
    skip_unless_built(catalogue, name)
    table = "queue-jobs-5us" if "worker" in name else "queue-32"
    replies = turn(catalogue, table, name)
    for i, sent in enumerate(replies["a"]["slices"]):
        of_workers = [replies[side]["slices"][i] for side in replies if side[0] == "b"]
        assert sent["count"] == sum(w["count"] for w in of_workers)
        assert "worker" not in name or together(sent["count"], of_workers)["count"] == sent["count"]


@needs_cores
@pytest.mark.parametrize("name", ["java17/agrona-inside", "java25/agrona-inside", "java17/agrona-manytoone"])
def test_a_ring_that_is_no_queue(catalogue: Catalogue, name: str) -> None:
    skip_unless_built(catalogue, name)
    replies = turn(catalogue, "queue-32", name)
    assert [s["count"] for s in replies["a"]["slices"]] == [s["count"] for s in replies["b"]["slices"]]


def test_redis_ends_with_its_input() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed: ./dev bench --peers")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        command = [sys.executable, str(ROOT / "bench/redis_server.py"), "--dir", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdin and server.stdout and server.stdout.readline() == b'{"opened": true}\n'
            (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            server.stdin.close()
            assert server.wait(10) == 0
        assert not Path(f"/proc/{child}").exists()
