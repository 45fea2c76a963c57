# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from driver.conftest import MakeRun
from driver.targets import verdicts

MEANS = {
    "cpp/flyring-claim": 108.0,
    "cpp/flyring-offer": 130.0,
    "cpp/boost-spsc": 150.0,
    "java17/flyring-claim": 160.0,
    "java17/aeron-claim": 140.0,
    "cpp/flyring-pair": 110.0,
    "python/flyring-pair": 400.0,
    "cpp+python/flyring-pair": 430.0,
    "python+cpp/flyring-pair": 450.0,
}


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        ({"contender": ["cpp/flyring-c*"], "ratio_to_floor_at_most": 1.1}, True),  # 108 / 100.5
        ({"contender": ["cpp/flyring-c*"], "ratio_to_floor_at_most": 1.05}, False),
        ({"contender": ["java17/flyring-*"], "above_floor_at_most_ns": 60}, True),
        ({"contender": ["java17/flyring-*"], "above_floor_at_most_ns": 59}, False),
        ({"contender": ["cpp/flyring-*"], "at_most": {"times": 1.0, "of": ["java17/aeron-*", "cpp/boost-*"]}}, True),
        ({"contender": ["java17/flyring-*"], "at_most": {"times": 1.0, "of": ["java17/aeron-*"]}}, False),
        (
            {"contender": ["java17/flyring-*"], "metric": "p99", "at_most": {"times": 1.2, "of": ["java17/aeron-*"]}},
            True,
        ),
        ({"contender": ["cpp/flyring-*"], "metric": "p99.99", "at_most": {"times": 1.0, "of": ["cpp/boost-*"]}}, None),
        ({"contender": ["java25/flyring-*"], "ratio_to_floor_at_most": 9}, None),
        ({"contender": ["cpp/flyring-*"], "class": "far", "ratio_to_floor_at_most": 9}, None),
        ({"contender": ["cpp/flyring-*"], "at_most": {"times": 1.0, "of": ["rust/*"]}}, None),
    ],
)
def test_round_trips(make_run: MakeRun, target: dict[str, Any], reached: bool | None) -> None:
    (verdict,) = verdicts(make_run([{"text": "it", **target}], MEANS))
    assert verdict.reached is reached, verdict


def test_every_mixed_pair_is_held_against_the_slower_own_pair(make_run: MakeRun) -> None:
    target = {
        "text": "mixed",
        "contender": ["*+*/flyring-pair"],
        "take": "every",
        "at_most": {"times": 1.1, "of": "own pairs"},
    }
    found = verdicts(make_run([target], MEANS))
    assert [v.reached for v in found] == [True, False]  # 430 and 450 against 400
    assert "C++ ↔ Python" in found[0].text


@pytest.mark.parametrize(("times", "reached"), [(1.1, True), (1.3, False)])
def test_rates(make_run: MakeRun, times: float, reached: bool) -> None:
    target = {"text": "rate", "contender": ["java17/flyring-*"], "at_least": {"times": times, "of": ["java17/aeron-*"]}}
    run = make_run([target], {"java17/flyring-claim": 120e6, "java17/aeron-claim": 100e6}, scenario="stream")
    assert [v.reached for v in verdicts(run)] == [reached]


def test_too_few_rounds_are_no_figure(make_run: MakeRun) -> None:
    (verdict,) = verdicts(
        make_run([{"text": "it", "contender": ["cpp/*"], "ratio_to_floor_at_most": 9}], MEANS, rounds=4)
    )
    assert verdict.reached is None
