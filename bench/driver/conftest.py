# SPDX-License-Identifier: Apache-2.0
"""Makes a small run on disk from slices with known values, for the tests of targets and report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from driver.contenders import Catalogue, Table, load, table_of
from driver.raw import Recorder, Results
from driver.stats import Slice, histogram_of


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load()


MakeRun = Callable[..., Results]


@pytest.fixture
def make_run(tmp_path: Path, catalogue: Catalogue) -> MakeRun:
    def make(
        targets: list[dict[str, Any]], means: dict[str, float], rounds: int = 6, probe: float = 100.0, **more: Any
    ) -> Results:
        """Makes one table from each contender's mean round trip in nanoseconds, or messages per second for streams."""
        entry = {
            "name": "t",
            "title": "A table",
            "scenario": "rtt",
            "size": 32,
            "mode": "write",
            "wait": "spin",
            "contenders": ["*"],
        }
        table: Table = table_of({**entry, "headline": True, "picture": "rtt", **more, "target": targets})
        recorder = Recorder(tmp_path / "run", environment(), {})
        recorder.table(table)
        for contender, value in means.items():
            recorder.contender(catalogue.contenders[contender])
            recorder.reported(
                table,
                catalogue.contenders[contender],
                {"a": {"clock_ns": 10.0, "runtime": "r", "version": "v"}, "b": {}},
            )
            count = 1000
            ns = round(value * count if table.scenario == "rtt" else count / value * 1e9)
            for number in range(1, rounds + 1):
                for _, kind in table.kinds:
                    samples = histogram_of(np.full(2000 // rounds, round(value), dtype=np.uint32))
                    slice_ = Slice("t", contender, number, kind, count, ns, probe, probe * 1.01)
                    recorder.slice(slice_, samples if kind == "timed" else None)
        recorder.left_out("t", next(iter(means)), "failed", "first line\n<b>last</b> line")
        recorder.close()
        return Results(tmp_path / "run")

    return make


def environment() -> dict[str, Any]:
    return {
        "date": "2026-01-02T03:04:05+00:00",
        "command": "./dev bench",
        "commit": "0" * 40,
        "dirty": False,
        "cpu": "A <CPU>",
        "virtualised": "no",
        "kernel": "6.1",
    }
