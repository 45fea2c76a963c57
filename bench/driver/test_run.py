# SPDX-License-Identifier: Apache-2.0
"""The measurement, with two C++ contenders for a second each, and with faulty peers."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import bench
import pytest

from driver import environment as machine
from driver.conftest import environment
from driver.contenders import ROOT, Catalogue, Contender, Extra, Program, Table
from driver.install import environment as peer_environment
from driver.install import Installer, fill_in
from driver.progress import Progress
from driver.raw import Recorder, Results
from driver.run import Runner, Settings
from driver.sides import MEMORY_FOLDER, Group

PEER = ROOT / "build/bench-cpp/flyring-bench"


def run(
    tmp_path: Path, table: Table, contenders: Sequence[Contender], rounds: int = 5, starts: int | None = 1
) -> Results:
    cores = sorted(os.sched_getaffinity(0))
    recorder = Recorder(tmp_path / "run", environment(), {})
    recorder.table(table)
    for contender in contenders:
        recorder.contender(contender)
    settings = Settings((cores[0], cores[-1]), 0.02, rounds, quick=False, starts=starts)
    Runner(settings, recorder, Progress(1), fill_in, peer_environment()).table(table, contenders)
    recorder.close()
    return Results(tmp_path / "run")


def left_behind() -> set[str]:
    return {name for name in os.listdir(MEMORY_FOLDER) if name.startswith("flyring-bench-")}


@pytest.mark.skipif(not PEER.exists(), reason="the C++ contenders are not built: ./dev bench --quick")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are needed")
@pytest.mark.parametrize("name", ["rtt-32", "stream-32"])
def test_two_contenders(tmp_path: Path, catalogue: Catalogue, name: str) -> None:
    before = left_behind()
    table = catalogue.tables[name]
    pair = [catalogue.contenders[c] for c in ("cpp/flyring-claim", "cpp/bare-ring")]
    results = run(tmp_path, table, pair)
    assert results.run["left_out"] == []
    for contender in pair:
        slices = [s for s in results.slices[name, contender.id] if s.round > 0]
        assert len({s.round for s in slices}) >= 5
        assert {s.kind for s in slices} == {kind for _, kind in table.kinds}
        assert all(s.count >= 64 and s.before > 0 and s.after > 0 for s in slices)
    assert left_behind() - before == set()


def test_rounds_are_spread_over_starts(tmp_path: Path, catalogue: Catalogue) -> None:
    before = left_behind()
    table = dataclasses.replace(catalogue.tables["stream-32"], starts=3)
    pair = [misbehaving(catalogue, "pass", id="a/x"), misbehaving(catalogue, "pass", id="b/x")]
    results = run(tmp_path, table, pair, rounds=7, starts=None)
    assert results.run["left_out"] == []
    for contender in pair:
        slices = [s for s in results.slices[table.name, contender.id] if s.round > 0]
        by_start = {start: sorted({s.round for s in slices if s.start == start}) for start in (1, 2, 3)}
        assert by_start == {1: [1, 2], 2: [3, 4], 3: [5, 6, 7]}
        warm = {s.start for s in results.slices[table.name, contender.id] if s.round == 0}
        assert warm == {1, 2, 3}
        found = results.figure(table, contender.id, "all")
        assert found is not None and (found.rounds, found.starts) == (7, 3)
    assert left_behind() - before == set()


def test_a_failing_contender_is_not_started_again_and_keeps_its_results(tmp_path: Path, catalogue: Catalogue) -> None:
    mark = tmp_path / "started"
    code = f"os.path.exists({str(mark)!r}) and os._exit(1)"  # the mark is made at the end of the first start
    failing = misbehaving(catalogue, code, id="a/x")
    (program, name) = failing.a
    ends = f"\nopen({str(mark)!r}, 'w')\n"
    failing = dataclasses.replace(
        failing, a=(dataclasses.replace(program, argv=(*program.argv[:2], program.argv[2] + ends)), name)
    )
    good = misbehaving(catalogue, "pass", id="b/x")
    table = dataclasses.replace(catalogue.tables["stream-32"], starts=3)
    results = run(tmp_path, table, [failing, good], rounds=6, starts=None)
    (entry,) = results.run["left_out"]
    assert (entry["contender"], entry["state"]) == ("a/x", "failed")
    assert {s.start for s in results.slices[table.name, "a/x"]} == {1}
    assert {s.round for s in results.slices[table.name, "a/x"]} == {0, 1, 2}
    assert {s.start for s in results.slices[table.name, "b/x"]} == {1, 2, 3}


ANSWER = """
import json, os, struct, sys, time
side = sys.argv[sys.argv.index("--side") + 1]
with open(sys.argv[sys.argv.index("--dir") + 1] + "/shared", "r+b") as shared:  # what probe.h notes
    shared.seek(1024 if side == "a" else 2048)
    shared.write(struct.pack("=I255f", 255, *[20.0] * 255))
print(json.dumps({"opened": True, "clock_ns": 1.0, "runtime": "r", "version": "v"}), flush=True)
for line in sys.stdin:
    if line.strip() == "connect":
        print(json.dumps({"connected": True}), flush=True)
        continue
    what(side)
    n = int(line.split()[1])
    probes = [100.0] * (n + 1) if side == "a" else []
    count = 1000 if side == "a" else received
    one = {"kind": "mean", "count": count, "ns": 10_000_000_000}
    print(json.dumps({"probes": probes, "slices": [one] * n}), flush=True)
"""


def misbehaving(catalogue: Catalogue, code: str, received: int = 1000, **more: Any) -> Contender:
    text = f"def what(side):\n    {code}\nreceived = {received}\n" + ANSWER
    program = Program("test", "Test", "Test", ("{python}", "-c", text), "cpp", 10)
    model = catalogue.contenders["cpp/bare-ring"]
    return dataclasses.replace(model, a=(program, "x"), b=(program, "x"), silence=1.0, **more)


@pytest.mark.parametrize(
    ("code", "received", "state", "reason"),
    [
        ("side == 'b' and time.sleep(60)", 1000, "failed", "side b was silent for 1 s"),
        (
            "side == 'b' and (print('message 7 is wrong', file=sys.stderr), os._exit(1))",
            1000,
            "failed",
            "side b ended with status 1\nmessage 7 is wrong",
        ),
        ("side == 'a' and os.kill(os.getpid(), 9)", 1000, "failed", "side a ended with signal SIGKILL"),
        (
            "side == 'a' and (print('p: cannot: x: too large', file=sys.stderr), os._exit(1))",
            1000,
            "cannot",
            "x: too large",
        ),
        ("side == 'a' and print('no JSON', flush=True)", 1000, "failed", "side a answered b'no JSON'"),
        ("pass", 999, "failed", "1000 messages were sent, 999 received"),
    ],
)
def test_the_watchdog(tmp_path: Path, catalogue: Catalogue, code: str, received: int, state: str, reason: str) -> None:
    before = left_behind()
    started = time.monotonic()
    results = run(tmp_path, catalogue.tables["stream-32"], [misbehaving(catalogue, code, received)])
    (entry,) = results.run["left_out"]
    assert (entry["state"], entry["reason"]) == (state, reason)
    assert time.monotonic() - started < 30
    assert left_behind() - before == set()


def test_what_a_contender_left_beside_its_folder_is_removed(catalogue: Catalogue) -> None:
    group = Group(
        misbehaving(catalogue, "pass"), catalogue.tables["stream-32"], (0, 0), 0.02, fill_in, peer_environment()
    )
    folder = Path(group.folder)
    beside = folder.with_name(folder.name + "-of-its-own")
    other = folder.with_name("other-" + folder.name)
    before = folder.with_name(f"sm_{folder.name}-map")
    try:
        beside.touch()
        before.touch()
        other.touch()
        group.close()
        assert not folder.exists() and not beside.exists() and not before.exists()
        assert other.exists()
    finally:
        other.unlink()


def test_an_extra_process_stands_still_while_it_is_not_its_turn(catalogue: Catalogue) -> None:
    extra = Extra("driver", ("{python}", "-c", "import sys\nprint('{}', flush=True)\nsys.stdin.read()"), 10)
    contender = misbehaving(catalogue, "time.sleep(0.5)", extras=(extra,))
    group = Group(contender, catalogue.tables["stream-32"], (0, 0), 0.02, fill_in, peer_environment())
    pid = group.extras[0].popen.pid

    def state() -> str:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0]

    def stands_still() -> bool:
        for _ in range(100):  # a signal takes some time
            if state() == "T":
                return True
            time.sleep(0.01)
        return False

    try:
        assert stands_still()
        turn = threading.Thread(target=group.turn, args=(1, "mean"))
        turn.start()
        time.sleep(0.2)
        assert state() in "SR"
        turn.join()
        assert stands_still()
    finally:
        group.close()
    assert not Path(f"/proc/{pid}").exists()


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    if not PEER.exists():
        pytest.skip("the C++ contenders are not built: ./dev bench --quick")
    words = [
        "--tables",
        "stream-32",
        "--only",
        "cpp/bare-ring",
        "cpp/flyring-claim",
        "--rounds",
        "1000",
        "--time-slice",
        "0.01",
        "--out",
        str(tmp_path / "run"),
    ]
    driver = subprocess.Popen(
        [*fill_in(["{python}"]), str(ROOT / "bench/bench.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = tmp_path / "run/raw.jsonl"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and not (lines.exists() and '"round": 2,' in lines.read_text()):
        time.sleep(0.1)
    driver.send_signal(signal.SIGINT)
    out, errors = driver.communicate(timeout=60)
    assert driver.returncode == 130, errors
    assert "report.md" in out
    results = Results(tmp_path / "run")
    assert results.run["interrupted"] and len(results.slices) == 2


def test_nothing_is_saved_beside_a_busy_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, catalogue: Catalogue
) -> None:
    cores = machine.two_cores()
    assert cores is not None
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinner:
        try:
            load = machine.busy(cores)
        finally:
            spinner.kill()
    assert load > machine.BUSY
    monkeypatch.setattr(machine, "collect", lambda *_: {"busy_before": load})
    words = argparse.Namespace(save=True, out=tmp_path / "run", peers=False)
    settings = Settings(cores, 0.15, 1, quick=False)
    with pytest.raises(SystemExit):
        bench.measure([], Installer(catalogue, peers=False), settings, words)
    assert "End it (top shows who)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_data_files_are_consistent(catalogue: Catalogue) -> None:
    for table in catalogue.tables.values():
        assert any(not c.cannot(table) for c in catalogue.of_table(table)), table.name
    no_flags: Mapping[str, Contender] = {i: c for i, c in catalogue.contenders.items() if c.group == "flyring"}
    assert no_flags and all(not c.flags for c in no_flags.values())


def test_a_turn_beside_a_busy_program_says_how_long_it_waited(catalogue: Catalogue) -> None:
    code = "t = time.monotonic()\n    while time.monotonic() < t + 0.3: pass"
    core = sorted(os.sched_getaffinity(0))[0]
    contender = misbehaving(catalogue, f"os.sched_setaffinity(0, [{core}])\n    side == 'b' or spin()")
    program, name = contender.a
    spin = f"import time\ndef spin():\n    {code}\n"
    program = dataclasses.replace(program, argv=(*program.argv[:2], spin + program.argv[2]))
    contender = dataclasses.replace(contender, a=(program, name), b=(program, name))
    group = Group(contender, catalogue.tables["stream-32"], (core, core), 0.02, fill_in, peer_environment())
    try:
        beside = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"]
        with subprocess.Popen(beside) as spinner:
            try:
                time.sleep(0.2)
                group.turn(1, "mean")
            finally:
                spinner.kill()
        assert group.waited > 50_000_000
    finally:
        group.close()
