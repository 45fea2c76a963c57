# SPDX-License-Identifier: Apache-2.0
"""Examples of examples/ whose programs share a table in mixed languages: the latest prices."""

from __future__ import annotations

import re
import sys

import flyring
from examples_build import LANGUAGES
from examples_streams import first_line, other, printed, programs_of

SYMBOLS = ("APPLES", "PEARS", "PLUMS", "QUINCES")


def price_of(symbol: str, number: int) -> str:
    bid = 100 + SYMBOLS.index(symbol) + number % 10
    return f"{symbol} {bid}/{bid + 1}, update {number}"


def wrong_prices(lines: list[str], symbol: str, last: int) -> bool:
    """Whether the lines are not whole prices of the symbol, each newer than the one before, up to the last one."""
    numbers = [int(line.rpartition(" ")[2]) for line in lines if re.fullmatch(r".*, update \d+", line)]
    in_order = numbers == sorted(set(numbers)) and numbers[-1:] == [last]
    return not in_order or lines != [price_of(symbol, number) for number in numbers]


def latest_prices(feed: str) -> str | None:
    """Programs in all languages wait for one symbol. The feed is killed, and one in another language goes on."""
    last, symbol = 300, "PEARS"
    with programs_of("latest-prices") as programs:
        waiting = {language: programs.start(language, "wait", symbol, last) for language in LANGUAGES}
        programs.commands["watch"] = [sys.executable, str(programs.folder / "watch.py")]
        watching = programs.start("watch", symbol, last)
        feeding = programs.start(feed, "feed", last, 100)
        if (line := first_line(feeding)) != "begins behind update 0":
            return f"the feed printed {line}"
        next_feed = programs.start(other(feed), "feed", last, 200)
        if (line := first_line(next_feed)) != f"waiting: the writer is process {feeding.pid}":
            return f"the next feed in {other(feed)} printed {line}"
        heads = {language: [first_line(each) for _ in range(5)] for language, each in waiting.items()}
        feeding.kill()
        seen = max(int(lines[-1].rpartition(" ")[2]) for lines in heads.values())
        begins = re.fullmatch(r"begins behind update (\d+)", line := first_line(next_feed))
        # What a reader has seen is never undone. The symbols behind PEARS may not have their price of this number yet.
        if begins is None or not seen - 1 <= int(begins[1]) < last:
            return f"after update {seen} the next feed in {other(feed)} printed {line}"
        if wrong := printed(next_feed):
            return f"the next feed in {other(feed)} printed {wrong}"
        for language, each in waiting.items():
            if wrong_prices(lines := [*heads[language], *printed(each)], symbol, last):
                return f"wait in {language} printed {lines}"
        lines = [line for line in printed(watching) if line != "another task runs"]
        if lines[:-1] != [price_of(symbol, last)] or not lines[-1].endswith("s of processor time"):
            return f"watch.py printed {lines}"
        with flyring.Table.open(programs.channels / "prices.table", read_only=True) as table:
            changes = table.version
        if changes - len(SYMBOLS) * last not in (0, 1):  # 1: a change that the kill cut off
            return f"the feeds made {changes} changes"
        for language in LANGUAGES:
            if (lines := printed(programs.start(language, "show"))) != [price_of(each, last) for each in SYMBOLS]:
                return f"show in {language} printed {lines}"
    return None
