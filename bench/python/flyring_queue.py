# SPDX-License-Identifier: Apache-2.0
"""A queue with a producer, and one or two workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flyring
from flyring_channel import TAKE, Flyring, OfferPoll
from harness import Setup
from jobs import Handler


class Queue(OfferPoll):
    """Polls with a handler for each job; a poll takes up to `limit` (option) jobs."""

    scenarios = ("stream", "burst", "jobs")
    waits = ("spin", "block")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.limit = int(setup.options.get("limit", 1))

    def names(self) -> dict[str, Any]:
        return super().names() | {"limit": self.limit}

    def put(self) -> Callable[[bytes], Any]:
        assert self.publisher
        return self.publisher.send

    def look(self) -> Callable[[Handler], int]:
        assert isinstance(self.subscriber, flyring.Worker)
        poll, limit = self.subscriber.poll, self.limit
        return poll if limit == 1 else lambda handler: poll(handler, limit)

    def look_within(self, handler: Handler, seconds: float) -> int:
        assert isinstance(self.subscriber, flyring.Worker)
        return self.subscriber.poll(handler, self.limit, seconds)


class Take(Flyring):
    """Takes one job per call, and looks at it in place."""

    scenarios = ("stream",)
    send = """
        while offer(message) is None:
            pass
    """
    receive = TAKE
    release = "got.done()"
