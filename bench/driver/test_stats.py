# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driver.stats import Latency, Slice, Speeds, figure, histogram_of, majority


def a_slice(
    number: int, ns: int, probes: tuple[float, float] = (100, 100), count: int = 10, kind: str = "mean", **more: Any
) -> Slice:
    """Returns a slice, in class "near" by default."""
    return Slice("t", "c", number, kind, count, ns, *probes, **{"placement": "near", **more})


def test_a_core_is_slow_beside_its_own_usual_speed() -> None:
    speeds = Speeds()
    assert speeds.shares([(20.0, 10.0)] * 50) == [1.0] * 50
    assert speeds.shares([(16.0, 10.0), (20.0, 7.0), (20.0, 10.0)]) == [0.8, 0.7, 1.0]
    assert speeds.shares([(10.0, 10.0)] * 600)[-1] == 1.0  # a lasting speed becomes the usual one


def test_a_figure_needs_five_rounds_of_its_class() -> None:
    four = [a_slice(n, 1000) for n in (1, 2, 3, 4, 4, 4)]
    assert figure(four, "rtt", "near") is None
    far = [a_slice(5, 1000, (500, 500), placement="far")]
    dropped = [a_slice(5, 1000, (100, 130), placement="", dropped="it changed")]
    warm_up = [a_slice(0, 1000)]
    timed = [a_slice(5, 1000, kind="timed")]
    assert figure(four + far + dropped + warm_up + timed, "rtt", "near") is None
    assert figure([*four, a_slice(5, 1000)], "rtt", "near") is not None
    few = figure(four, "rtt", "near", fewest=4)
    assert few is not None and few.rounds == 4


def test_a_figure_is_the_median_over_rounds_and_its_ratio_that_over_slices() -> None:
    slices = [
        a_slice(1, 1000),
        a_slice(1, 3000),
        *(a_slice(n, 1000 * n, (100 * n, 100 * n)) for n in (2,)),
        *(a_slice(n, 1500) for n in (3, 4, 5)),
    ]
    found = figure(slices, "rtt", "near")
    assert found is not None
    assert found.value.median == 150  # of 200 (the mean of 100 and 300), 200, 150, 150, 150
    assert (found.value.low, found.value.high) == (150, 200)
    assert found.ratio.median == 1.5
    assert (found.ratio.low, found.ratio.high) == (1, 3)
    assert (found.floor.low, found.floor.high) == (100, 200)
    assert (found.rounds, found.slices) == (5, 6)


def test_a_rate_does_not_count_what_came_before_the_clock() -> None:
    slices = [a_slice(n, 1000, count=110, timed=100, lost=10) for n in range(1, 6)]
    found = figure(slices, "stream", "near")
    assert found is not None
    assert found.value.median == pytest.approx(1e8)
    assert found.ratio.median == pytest.approx(10)  # messages in 100 ns
    assert found.lost == pytest.approx(10 / 120)


def test_majority() -> None:
    dropped = [a_slice(1, 1, (50, 500), placement="", dropped="it moved")] * 9
    assert majority([a_slice(1, 1, placement="far"), a_slice(1, 1), a_slice(1, 1), *dropped]) == "near"
    assert majority([a_slice(0, 1)]) is None
    assert majority(dropped) is None


def test_histograms_merge_and_percentiles_need_ten_samples_above() -> None:
    parts = [np.arange(1, 501, dtype=np.uint32), np.arange(401, 1001, dtype=np.uint32)]
    twice = Latency.of(map(histogram_of, parts), rounds=5)
    assert (twice.count, twice.max) == (1100, 1000)
    assert (twice.percentile(50), twice.percentile(90)) == (475, 890)
    parts[1] = np.arange(501, 1001, dtype=np.uint32)
    latency = Latency.of(map(histogram_of, parts), rounds=5)
    assert (latency.count, latency.max) == (1000, 1000)
    assert latency.percentile(50) == 500
    assert latency.percentile(90) == 900
    assert latency.percentile(99) == 990  # ten samples are above it
    assert latency.percentile(99.9) is None
    points = latency.points()
    ys = [y for _, y in points]
    assert points[0] == (0, 1) and ys == sorted(ys) and 1.9 < points[-1][0] <= 2.001


def test_a_sample_of_zero_and_the_largest_are_recorded() -> None:
    latency = Latency.of([histogram_of(np.array([0, 2**32 - 1], dtype=np.uint32))], rounds=5)
    assert latency.count == 2
    assert latency.max == pytest.approx(2**32, rel=1e-3)
