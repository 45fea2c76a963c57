# SPDX-License-Identifier: Apache-2.0
"""Random schemas by hypothesis, the same for the same seed."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
from sbe_strategies import schemas  # noqa: E402 - after its folder is on the path

EXAMPLES = 8  # hypothesis begins with the simplest


def random_schema(seed: str) -> str:
    """The largest of a few."""
    texts: list[str] = []

    @hypothesis.seed(zlib.crc32(seed.encode()))
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(schemas())
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    return max(texts, key=len)
