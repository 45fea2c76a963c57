# SPDX-License-Identifier: Apache-2.0
"""Round trips of sleepers compared with their floor; readers that get few messages, real and faulty ones."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from driver import sleeping
from driver.conftest import MakeRun
from driver.contenders import Catalogue, Contender, Program, Table
from driver.install import environment, fill_in
from driver.report import write_report
from driver.sides import Group
from driver.stats import Latency, histogram_of
from driver.summary import Summary
from driver.targets import verdicts
from driver.test_run import PEER, left_behind, run

FLOOR = "cpp/futex-barrier"
needs_peer = pytest.mark.skipif(
    not PEER.exists() or len(os.sched_getaffinity(0)) < 2, reason="needs ./dev bench --quick, and two cores"
)


@pytest.mark.parametrize(
    ("contender", "limit", "reached"),
    [("cpp/flyring-block", 1.05, True), ("cpp/flyring-block", 1.03, False), ("java25/flyring-block", 1.1, None)],
)
def test_the_end_of_the_interval_decides(make_run: MakeRun, contender: str, limit: float, reached: bool | None) -> None:
    target = {"text": "it", "contender": [contender], "interval_at_most": limit}
    results = make_run([target], {"cpp/flyring-block": 20_800.0, FLOOR: 20_000.0}, compared_with=FLOOR)
    (verdict,) = verdicts(results)
    assert verdict.reached is reached, verdict
    if reached is not None:
        assert "1.040 (1.040–1.040) times C++: futex and membarrier" in verdict.measured
    head, row = (lines := Summary.of(results).parts[0].figures).head, lines.rows[1]
    assert dict(zip(head, row, strict=True))["times C++: futex and membarrier (95 % interval)"] == "1.040 (1.040–1.040)"
    assert lines.rows[0][head.index("times C++: futex and membarrier (95 % interval)")] == "–"


def test_too_few_rounds_give_no_interval(make_run: MakeRun) -> None:
    target = {"text": "it", "contender": ["cpp/flyring-block"], "interval_at_most": 9}
    results = make_run([target], {"cpp/flyring-block": 20_800.0, FLOOR: 20_000.0}, rounds=5, compared_with=FLOOR)
    (verdict,) = verdicts(results)
    assert verdict.reached is None and "fewer than 6 rounds of both" in verdict.measured


def test_interruptions_are_what_lies_beyond_the_median() -> None:
    import numpy as np

    samples = np.array([100] * 96 + [900, 1100, 5000, 9000], dtype=np.uint32)
    count, beyond, all_ = Latency.of([histogram_of(samples)], 1).beyond(1000)
    assert count == 2
    assert beyond == pytest.approx(4900 + 8900, rel=0.002)
    assert all_ == pytest.approx(samples.sum(), rel=0.002)


def one_slice(catalogue: Catalogue, table: str, name: str) -> None:
    """Does at least one round trip, and ends the contender properly."""
    before = left_behind()
    cores = sorted(os.sched_getaffinity(0))
    contender = catalogue.contenders[name]
    group = Group(contender, catalogue.tables[table], (cores[0], cores[-1]), 0.01, fill_in, environment())
    processes = [*group.sides.values(), *group.extras]
    try:
        (found,) = group.turn(1, "mean")["a"]["slices"]
        assert found["count"] >= 64 and found["ns"] > 0
    finally:
        group.close()
    assert [p.popen.returncode for p in processes] == [0] * len(processes)
    assert left_behind() - before == set()


@needs_peer
@pytest.mark.parametrize("name", ["cpp/flyring-block", "cpp/futex-barrier-cap", "cpp/eventfd"])
def test_sleepers_make_round_trips(catalogue: Catalogue, name: str) -> None:
    one_slice(catalogue, "rtt-32-block", name)


@needs_peer
@pytest.mark.parametrize("how", ["nap", "woken-silent", "cap"])
def test_round_trips_beside_a_sleeper(catalogue: Catalogue, how: str) -> None:
    one_slice(catalogue, "rtt-32-beside", f"cpp/flyring-beside-{how}")


def idle(catalogue: Catalogue, readers: int) -> Table:
    return dataclasses.replace(catalogue.tables["idle"], consumers=readers, seconds=0.3)


@needs_peer
def test_real_readers_sleep(tmp_path: Path, catalogue: Catalogue) -> None:
    before = left_behind()
    results = run(tmp_path, idle(catalogue, 2), [catalogue.contenders["cpp/flyring-block"]], rounds=1)
    assert results.run["left_out"] == []
    (figures,) = results.sleeping(results.tables[0])["cpp/flyring-block"]
    assert len(figures["thread"]) == 2 and 0 < max(figures["thread"]) < 0.02
    assert all(2 <= count <= figures["seconds"] / sleeping.CAP + 1 for count in figures["wakes"])
    assert left_behind() - before == set()


PEER_OF_LITTLE = """
import json, os, struct, sys, threading, time
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder, side, scenario = words["--dir"], words["--side"], words["--scenario"]
opened = {"opened": True, "thread": threading.get_native_id(), "clock_ns": 1.0, "runtime": "r", "version": "v"}
print(json.dumps(opened), flush=True)
for line in sys.stdin:
    if line.strip() == "connect":
        print(json.dumps({"connected": True}), flush=True)
        continue
    over, answer = folder + "/over", {"probes": [], "slices": []}
    count = int(line.split()[1])
    if side == "a" and scenario == "idle":
        open(over, "w").close()
    elif scenario == "idle":
        while not os.path.exists(over):
            WAIT
    elif side == "a":
        answer = {"count": count, "ns": count * 1_000_000}
    else:
        with open(folder + "/s", "wb") as file:
            file.write(struct.pack(f"{received(count)}I", *[50_000] * received(count)))
        answer = {"count": received(count), "ns": 1_000_000_000, "cpu_ns": 20_000_000, "samples": "s"}
    print(json.dumps(answer), flush=True)
"""


def of_little(catalogue: Catalogue, wait: str = "time.sleep(1)", received: str = "count") -> Contender:
    text = f"def received(count):\n    return {received}\n" + PEER_OF_LITTLE.replace("WAIT", wait)
    program = Program("test", "Test", "Test", ("{python}", "-c", text), "cpp", 10)
    model = catalogue.contenders["cpp/flyring-block"]
    return dataclasses.replace(model, a=(program, "x"), b=(program, "x"), silence=2.0)


@pytest.mark.parametrize(
    ("wait", "cpu", "wakes"),
    [("time.sleep(0.02)", True, False), ("pass", False, True)],
)
def test_readers_that_wake_or_spin_are_seen(
    tmp_path: Path, catalogue: Catalogue, wait: str, cpu: bool, wakes: bool
) -> None:
    targets = (
        {"text": "cpu", "contender": ["*"], "metric": "thread", "share_at_most": 0.05},
        {"text": "wakes", "contender": ["*"], "metric": "wakes", "wakes_at_most_per_second": 10},
    )
    table = dataclasses.replace(idle(catalogue, 1), targets=targets)
    results = run(tmp_path, table, [of_little(catalogue, wait)], rounds=1)
    assert [v.reached for v in verdicts(results)] == [cpu, wakes], verdicts(results)
    write_report(results, whole=True)
    text = (results.folder / "report.md").read_text().partition("## Readers")[2]
    assert "| contender | reading thread, worst |" in text and "No figure" not in text
    assert "reading thread, worst" in (results.folder / "report.html").read_text()


def test_messages_that_do_not_come_are_seen(tmp_path: Path, catalogue: Catalogue) -> None:
    table = dataclasses.replace(catalogue.tables["paced-32-python"], seconds=0.01)
    contender = dataclasses.replace(of_little(catalogue, received="count - 1"), scenarios=("paced",))
    (entry,) = run(tmp_path, table, [contender], rounds=1).run["left_out"]
    assert (entry["state"], "10 messages were sent, 9 received" in entry["reason"]) == ("failed", True)


@pytest.mark.parametrize(("half", "reached"), [(10_000_000, True), (40_000_000, False)])
def test_paced_readers_are_compared(tmp_path: Path, catalogue: Catalogue, half: int, reached: bool) -> None:
    table = dataclasses.replace(catalogue.tables["paced-32-python"], seconds=0.01)
    other = dataclasses.replace(of_little(catalogue), id="python/pyzmq-sub-async", scenarios=("paced",))
    (program, name) = other.a
    argv = (*program.argv[:2], program.argv[2].replace("20_000_000", str(half)).replace("50_000", "40_000"))
    cheaper = dataclasses.replace(program, argv=argv)
    mine = dataclasses.replace(other, id="python/flyring-take", a=(cheaper, name), b=(cheaper, name))
    results = run(tmp_path, table, [mine, other], rounds=2)
    found = verdicts(results)
    assert [v.reached for v in found] == [reached, True], found
    assert f"{half / 20_000_000:.2f} times" in found[0].measured and "0.80 times" in found[1].measured
    grid = sleeping.grid(results, results.tables[0])
    assert sorted(row[1] for row in grid.rows) == sorted(["2.00 %", f"{half / 10_000_000:.2f} %"])
