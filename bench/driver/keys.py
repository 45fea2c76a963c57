# SPDX-License-Identifier: Apache-2.0
"""The keys of a table of maps (bench/PEER.md: map): those that are filled in, and the order in which they are used.

The driver makes them, so that every contender of every language gets the same ones. A key is a signed integer of 64
bits that looks random; the keys of ranks 0, 1, 2 ... never repeat.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt

from driver.contenders import Table

FILL, SEQUENCE = "keys", "sequence"  # the files' names
SKEW = 0.99  # of the zipf distribution, as in YCSB
SEED = 20261127

Keys = npt.NDArray[np.int64]


def of_ranks(ranks: npt.NDArray[np.uint64]) -> Keys:
    """Returns the keys of these ranks: a bijection of 64 bits (the end of splitmix64)."""
    with np.errstate(over="ignore"):
        x = (ranks + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (x ^ (x >> np.uint64(31))).view(np.int64)


def fill(count: int) -> Keys:
    return of_ranks(np.arange(count, dtype=np.uint64))


@functools.lru_cache(maxsize=2)
def sequence(count: int, pattern: str, hits: bool) -> Keys:
    """Returns the keys in the order of their use: 2^20 of them, 2^22 if there are more keys. Those of misses are keys
    that were never filled in."""
    length = 1 << 20 if count <= 1 << 20 else 1 << 22
    random = np.random.default_rng(SEED)
    if pattern == "zipf":
        weights = np.arange(1, count + 1, dtype=np.float64) ** -SKEW
        sums = np.cumsum(weights)
        found = np.searchsorted(sums, random.random(length) * sums[-1])
        # The frequent keys lie anywhere among the others, not where the map was filled first.
        ranks = random.permutation(count)[np.minimum(found, count - 1)]
    else:
        ranks = random.integers(0, count, length)
    return of_ranks(ranks.astype(np.uint64) + np.uint64(0 if hits else count))


def write(folder: str, table: Table) -> None:
    fill(table.keys).tofile(Path(folder, FILL))
    sequence(table.keys, table.pattern, table.hits).tofile(Path(folder, SEQUENCE))


def remove(folder: str) -> None:
    """Removes the files, which the sides have read."""
    for name in (FILL, SEQUENCE):
        Path(folder, name).unlink(missing_ok=True)
