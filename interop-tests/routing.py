# SPDX-License-Identifier: Apache-2.0
"""Tests the routing of examples/routing: a key has the same inbox in every language, and inboxes get equal shares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import xxhash

VECTORS = Path(__file__).resolve().parent.parent / "examples" / "routing" / "vectors.txt"
INBOXES = 3  # the number in the example
NUMBERS = (2, 3, 5, 8, 16, 64, 100)  # numbers of inboxes for which keys are counted
KEYS = 10_000
# In standard deviations of the chi-square distribution; only one key set in millions exceeds this.
MOST_DEVIATIONS = 6


def vectors() -> list[tuple[str, str]]:
    """Returns (question to `where`, expected answer)."""
    lines = [line for line in VECTORS.read_text().splitlines() if not line.startswith("#")]
    found = []
    for line in lines:
        hash_, inbox, key = line.split(" ", 2)
        found.append((key, f"{hash_} {inbox}"))
    return found


def families() -> dict[str, list[str]]:
    """Returns sets of keys that differ in some bits only."""
    return {
        "high bits": [f"integer {i << 48}" for i in range(KEYS)],
        "low bits": [f"integer {(0x5AA5 << 48) + i}" for i in range(KEYS)],
        "sequence": [f"integer {i}" for i in range(KEYS)],
        "text": [f"text customer-{i}" for i in range(KEYS)],
    }


def deviations(hashes: list[int], inboxes: int) -> float:
    """Returns how uneven the counts are: chi-square minus its expected value, in standard deviations."""
    count = Counter(hash_ % inboxes for hash_ in hashes)
    mean = len(hashes) / inboxes
    chi_square = sum((count[i] - mean) ** 2 / mean for i in range(inboxes))
    return (chi_square - (inboxes - 1)) / math.sqrt(2 * (inboxes - 1))


def uneven(name: str, hashes: list[int]) -> Iterator[str]:
    for inboxes in NUMBERS:
        if (found := deviations(hashes, inboxes)) > MOST_DEVIATIONS:
            yield f"{name}: {len(hashes)} keys over {inboxes} inboxes lie {found:.1f} deviations from even"


def integer(key: str) -> int:
    return int(key.removeprefix("integer "))


def even_keys() -> str | None:
    """Returns what is wrong, or None. Also checks that a modulus without a hash counts as uneven."""
    for name, keys in families().items():
        hashes = [xxhash.xxh64_intdigest(bytes_of(key), seed=0) for key in keys]
        for wrong in uneven(name, hashes):
            return wrong
    if not list(uneven("high bits, no hash", [integer(key) for key in families()["high bits"]])):
        return "keys that differ in high bits only are taken for even without a hash"
    return None


def bytes_of(key: str) -> bytes:
    kind, _, rest = key.partition(" ")
    return int(rest).to_bytes(8, "little", signed=True) if kind == "integer" else rest.encode()


def inbox_of(key: str) -> int:
    return xxhash.xxh64_intdigest(key.encode(), seed=0) % INBOXES


def where(answers: list[str], asked: list[str]) -> str | None:
    """Compares a program's answers with the vectors, and for the other keys with this program's."""
    known = dict(vectors())
    if len(answers) != len(asked):
        return f"{len(answers)} answers to {len(asked)} keys"
    for key, answer in zip(asked, answers, strict=True):
        hash_ = xxhash.xxh64_intdigest(bytes_of(key), seed=0)
        wanted = known.get(key, f"{hash_:016x} {hash_ % INBOXES}")
        if answer != wanted:
            return f"{key!r} is {answer!r}, not {wanted!r}"
    return None
