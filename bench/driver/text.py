# SPDX-License-Identifier: Apache-2.0
"""Formats numbers for people."""

from __future__ import annotations

from driver.stats import Spread


def ns_text(ns: float) -> str:
    """Formats ns with three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size * 0.9995:
            return f"{three(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def rate_text(per_second: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if per_second >= size * 0.9995:
            return f"{three(per_second / size)} {unit}/s"
    return f"{per_second:.0f} /s"


def bytes_text(per_second: float) -> str:
    return f"{three(per_second / 1e9)} GB/s" if per_second >= 1e9 else f"{three(per_second / 1e6)} MB/s"


def three(x: float) -> str:
    return f"{x:.2f}" if abs(x) < 9.995 else f"{x:.1f}" if abs(x) < 99.95 else f"{x:.0f}"


def value_text(spread: Spread, scenario: str) -> str:
    return ns_text(spread.median) if scenario == "rtt" else rate_text(spread.median)


def range_text(spread: Spread, scenario: str) -> str:
    text = ns_text if scenario == "rtt" else rate_text
    low, high = text(spread.low), text(spread.high)
    number, _, unit = low.partition(" ")
    return f"{number}–{high}" if high.endswith(f" {unit}") else f"{low}–{high}"


def ratio_text(spread: Spread) -> str:
    return f"{three(spread.median)} ({three(spread.low)}–{three(spread.high)})"
