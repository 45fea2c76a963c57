# SPDX-License-Identifier: Apache-2.0
"""A service, its server and one client. Round trips: a call that waits for its answer. Streams: up to `outstanding`
(option) calls are under way, and every answer is compared. The handler answers with what it got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asking
import flyring
from flyring_channel import MustBeEnd, open_channel
from harness import Contender, Setup
from loops import Endless

SPIN = 3600.0  # seconds; longer than any run takes, so a wait that spins never sleeps


class Service(Contender):
    scenarios = ("rtt", "stream")
    waits = ("spin", "block")
    texts = {
        "serve": """
            while not ends:
                poll(answer, 1, wait)
            result = None
        """,
        "consume": """
            while not (first := poll(answer, 1, wait)):
                pass
            number, start = first, clock()
            while not ends:
                number += poll(answer, limit, wait)
            result = number - 1, number - 1 - first, clock() - start
        """,
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.under_way = int(setup.options.get("outstanding", 16))
        self.channel = open_channel(setup)
        self.user: flyring.Client | flyring.Server = self.channel.client() if setup.producer else self.channel.server()
        self.user.set_spin(SPIN if setup.wait == "spin" else 0)
        if setup.producer:
            self.send = asking.text(setup, self.under_way)
        else:
            self.load = "answer, ends = answering(must_be_end)"
            self.send = "pass"  # the handler has answered

    def names(self) -> dict[str, Any]:
        if isinstance(self.user, flyring.Server):
            wait = 0 if self.setup.wait == "spin" else None
            return {"poll": self.user.poll, "wait": wait, "limit": 256, "answering": self.answering}
        return asking.names(self.user.call, self.user.start, self.under_way)

    def answering(self, must_be_end: MustBeEnd) -> tuple[Callable[[flyring.Request], bytes], list[bytes]]:
        """A handler, which compares each request with what should come and answers with the same bytes, and a list to
        which it adds the end."""
        arriving = Endless.over(self.expected(self.messages(0)))
        following = arriving.__next__
        ends: list[bytes] = []

        def answer(request: flyring.Request) -> bytes:
            expected = following()
            return expected if request == expected else end(bytes(request))

        def end(content: bytes) -> bytes:
            must_be_end(arriving.given() - 1, content)
            ends.append(content)
            return content

        return answer, ends

    def close(self) -> None:
        self.channel.close()

    def version(self) -> str:
        return flyring.__version__
