# SPDX-License-Identifier: Apache-2.0
"""The loops of bench/PEER.md as text, into which a contender's own calls are inserted (harness.py, Contender).

A text stores in `result` the nanoseconds that it took; a consumer's text stores the number of messages, the number
after the clock was started, and the nanoseconds. `trips` yields (message, expected) without end, `outgoing` messages,
and `arriving` the expected values. They count their items, so that the loops need no counter.
"""

from __future__ import annotations

import itertools
import operator
import struct
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import words

if TYPE_CHECKING:
    from harness import Contender

ROUND_TRIP = """
{send}
{receive}
if not ({same}):
    mistake(trips.given() - 1, {content})
{release}
"""
LAST_ROUND_TRIP = """
message = end
{send}
{receive}
must_be_end(0, {content})
{release}
"""
MEAN = """
message, expected = next(trips)
[ROUND_TRIP]
start = clock()
for message, expected in islice(trips, n):
    [ROUND_TRIP]
ns = clock() - start
[LAST_ROUND_TRIP]
result = ns
"""
TIMED = """
message, expected = next(trips)
[ROUND_TRIP]
start = before = clock()
i = 0
for message, expected in islice(trips, n):
    [ROUND_TRIP]
    now = clock()
    samples[i] = now - before
    before = now
    i += 1
[LAST_ROUND_TRIP]
result = now - start
"""
SCHEDULE = """
message, expected = next(trips)
[ROUND_TRIP]
start = clock() + int(period)
i = 0
for message, expected in islice(trips, n):
    due = start + int(i * period)
    while clock() < due:
        pass
    [ROUND_TRIP]
    samples[i] = clock() - due
    i += 1
ns = clock() - start
[LAST_ROUND_TRIP]
result = ns
"""
SERVE = """
for message, expected in trips:
    {receive}
    if not ({same}):
        break
    {release}
    {send}
must_be_end(trips.given() - 1, {content})
{release}
message = end
{send}
result = None
"""
PRODUCE = """
start = clock()
for message in islice(outgoing, n):
    {send}
ns = clock() - start
message = end
{send}
result = ns
"""
CONSUME = """
expected = next(arriving)
{receive}
if not ({same}):
    mistake(0, {content})
{release}
start = clock()
for expected in arriving:
    {receive}
    if not ({same}):
        break
    {release}
ns = clock() - start
number = arriving.given() - 1
must_be_end(number, {content})
{release}
result = number, number - 1, ns
"""
CONSUME_SEVERAL = """
first, second = next(arriving), next(arriving_too)
ends = start = 0
while ends < 2:
    {receive}
    expected = first
    if {same}:
        first = next(arriving)
    else:
        expected = second
        if {same}:
            second = next(arriving_too)
        else:
            must_be_end(arriving.given() + arriving_too.given() - 2, {content})
            ends += 1
    {release}
    if not start:
        start = clock()
ns = clock() - start
number = arriving.given() + arriving_too.given() - 2
result = number, number - 1, ns
"""
PRODUCE_BURSTS = """
ns = sent = 0
while sent < n:
    some = min(burst, n - sent)
    start = clock()
    for message in islice(outgoing, some):
        {send}
    ns += clock() - start
    sent += some
    words[SENT] += some
    while words[FIRST] != words[SENT]:
        pass
message = end
{send}
words[SENT] += 1
while words[FIRST] != words[SENT]:
    pass
result = ns
"""
SEND_END = """
message = end
{send}
result = None
"""
RECEIVE_END = """
{receive}
must_be_end(0, {content})
{release}
result = None
"""
TEXTS = {
    "mean": MEAN,
    "timed": TIMED,
    "schedule": SCHEDULE,
    "serve": SERVE,
    "produce": PRODUCE,
    "consume": CONSUME,
    "consume_several": CONSUME_SEVERAL,
    "produce_bursts": PRODUCE_BURSTS,
    "send_end": SEND_END,
    "receive_end": RECEIVE_END,
}
PARTS = {"ROUND_TRIP": ROUND_TRIP, "LAST_ROUND_TRIP": LAST_ROUND_TRIP}
FOREVER = 2**40


class Endless(itertools.chain):  # type: ignore[type-arg]
    """Repeats the items of a list endlessly, without Python code in between, and counts them."""

    length: int
    rounds: Iterator[list[Any]]
    items: Iterator[Any]

    @classmethod
    def over(cls, items: list[Any]) -> Endless:
        rounds = itertools.repeat(items, FOREVER)
        self = cls.from_iterable(map(lambda items: self.start(items), rounds))
        self.length, self.rounds, self.items = len(items), rounds, iter(())
        return self

    def start(self, items: list[Any]) -> Iterator[Any]:
        self.items = iter(items)
        return self.items

    def given(self) -> int:
        rounds = FOREVER - operator.length_hint(self.rounds)
        return rounds * self.length - operator.length_hint(self.items)


def fill(text: str, fields: dict[str, str]) -> str:
    """Replaces {name} and [PART] by texts of several lines, with their indentation."""
    lines = []
    for line in text.strip("\n").split("\n"):
        depth = line[: len(line) - len(line.lstrip())]
        word = line.strip()
        if word[:1] == "[":
            lines.append(textwrap.indent(fill(PARTS[word[1:-1]], fields), depth))
        elif word[:1] == "{" and word[-1:] == "}":
            if fields[word[1:-1]]:
                lines.append(textwrap.indent(textwrap.dedent(fields[word[1:-1]]).strip("\n"), depth))
            elif lines and lines[-1].endswith(":"):  # a block needs a statement
                lines.append(depth + "pass")
        else:
            lines.append(line.format_map(fields))
    return "\n".join(lines)


def compile_all(contender: Contender, helpers: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Compiles the loops of a contender. `helpers`: mistake and must_be_end."""
    setup = contender.setup
    mine, other = contender.messages(setup.number if setup.producer else 0), contender.messages(1)
    outgoing, end = contender.outgoing(mine)
    expected, expected_too = contender.expected(mine), contender.expected(other)
    own = {
        **helpers,
        "words": words.mapped(setup) if setup.scenario == "burst" else None,
        "SENT": words.SENT,
        "FIRST": words.FIRST,
        "burst": words.BURST,
        "end": end,
        "clock": time.perf_counter_ns,
        "islice": itertools.islice,
        "word0": struct.Struct("<Q").unpack_from,
    }
    names = contender.names()
    assert not names.keys() & own.keys(), "a contender's name is one of the loops'"
    names |= own
    fields = {name: getattr(contender, name) for name in ("send", "receive", "content", "release")}
    fields["same"] = contender.same if setup.whole else contender.same_word
    endless = {
        "trips": list(zip(outgoing, expected, strict=True)),
        "outgoing": outgoing,
        "arriving": expected,
        "arriving_too": expected_too,
    }
    arguments = [*names, *endless, "n", "samples", "period"]

    def make(name: str, text: str) -> Callable[..., Any]:
        body = [
            fill(textwrap.dedent(part), fields)
            for part in (contender.load, text, contender.save, "return result")
            if part
        ]
        source = f"def {name}({', '.join(arguments)}):\n" + textwrap.indent("\n".join(body), "    ")
        made: dict[str, Any] = {}
        exec(compile(source, f"<{setup.contender} {name}>", "exec"), made)
        loop = made[name]

        def run(n: int = 0, samples: Any = None, period: float = 0) -> Any:
            iterators = {which: Endless.over(items) for which, items in endless.items()}
            return loop(**names, **iterators, n=n, samples=samples, period=period)

        return run

    return {name: make(name, text) for name, text in (TEXTS | contender.texts).items()}
