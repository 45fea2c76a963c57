# SPDX-License-Identifier: Apache-2.0
"""The side that asks, of a service whose calls are futures. Round trips: a call that waits for its answer. Streams: up
to `under_way` calls at once; each answer is compared with its request."""

from __future__ import annotations

from collections import deque
from typing import Any

from harness import BenchError, Setup

ONE = """
    if (got := call(message)) != message:
        foreign(got)
"""
MAKE_ROOM = """
    if len(calls) == under_way:
        before, sent = oldest()
        if (got := before.result()) != sent:
            foreign(got)
"""
START = """
    keep((begin(message), message))
"""


def text(setup: Setup, under_way: int, before_start: str = "") -> str:
    """The text that sends a message; with several calls under way, `before_start` runs before each."""
    if not setup.streaming:
        return "got = call(message)"
    return ONE if under_way == 1 else MAKE_ROOM + before_start + START


def names(call: Any, begin: Any, under_way: int) -> dict[str, Any]:
    """The names in that text: `call` waits for the answer, `begin` returns a future."""
    calls: deque[tuple[Any, bytes]] = deque()
    queue = {"calls": calls, "oldest": calls.popleft, "keep": calls.append}
    return {"call": call, "begin": begin, "foreign": foreign, "under_way": under_way} | queue


def foreign(answer: Any) -> None:
    raise BenchError(f"another call's answer: {bytes(answer).hex()}")
