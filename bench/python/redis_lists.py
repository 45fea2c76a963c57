# SPDX-License-Identifier: Apache-2.0
"""Lists of a Redis server, which the driver starts on a Unix socket (bench/redis_server.py), through redis-py with the
hiredis parser. One call is one round trip to the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis
from harness import Contender, Setup

MOST = 10_000  # jobs in the list at which the sender pauses, because a list has no limit
NAP = 0.001


class List(Contender):
    """LPUSH and BRPOP. A taken job is lost if its worker dies."""

    scenarios = ("stream", "jobs")
    waits = ("block",)
    send = "push(key, message)"
    receive = "got = pop(key, 0)[1]"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.redis: Any = redis.Redis(unix_socket_path=setup.path("redis.sock"))
        self.number = setup.number

    def names(self) -> dict[str, Any]:
        return {"push": self.redis.lpush, "pop": self.redis.brpop, "key": "jobs"}

    def put(self) -> Callable[[bytes], Any]:
        push = self.redis.lpush

        def put(message: bytes) -> None:
            if push("jobs", message) > MOST:
                time.sleep(NAP)

        return put

    def look(self) -> Callable[[Callable[[Any], None]], int]:
        pop = self.redis.rpop

        def look(handler: Callable[[Any], None]) -> int:
            if (got := pop("jobs")) is None:
                return 0
            handler(got)
            return 1

        return look

    def look_within(self, handler: Callable[[Any], None], seconds: float) -> int:
        if (got := self.redis.brpop("jobs", seconds)) is None:
            return 0
        handler(got[1])
        return 1

    def close(self) -> None:
        self.redis.close()

    def version(self) -> str:
        return f"redis-py {redis.__version__}, server {self.redis.info('server')['redis_version']}"


class Move(List):
    """LPUSH, LMOVE to the worker's own list, and LREM from there when the job is done, so that the jobs of a dead
    worker can be found (the pattern in Redis' documentation of LMOVE)."""

    receive = "got = move(key, mine, 0, 'RIGHT', 'LEFT')"
    release = "remove(mine, 1, got)"

    def names(self) -> dict[str, Any]:
        mine = f"jobs of {self.number}"
        return super().names() | {"move": self.redis.blmove, "remove": self.redis.lrem, "mine": mine}

    def look(self) -> Callable[[Callable[[Any], None]], int]:
        return lambda handler: self.done(self.redis.lmove("jobs", f"jobs of {self.number}", "RIGHT", "LEFT"), handler)

    def look_within(self, handler: Callable[[Any], None], seconds: float) -> int:
        got = self.redis.blmove("jobs", f"jobs of {self.number}", seconds, "RIGHT", "LEFT")
        return self.done(got, handler)

    def done(self, got: bytes | None, handler: Callable[[Any], None]) -> int:
        if got is None:
            return 0
        handler(got)
        self.redis.lrem(f"jobs of {self.number}", 1, got)
        return 1
