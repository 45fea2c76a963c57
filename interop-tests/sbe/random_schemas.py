# SPDX-License-Identifier: Apache-2.0
"""Random schemas by hypothesis; equal seeds give equal schemas."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests"))
from sbe_strategies import schemas  # noqa: E402 - after its folder is on the path

EXAMPLES = 8  # several, because hypothesis begins with the simplest


def random_schema(seed: str) -> str:
    """Returns the largest of a few random schemas."""
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
