#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture of services (spec/service.md), in rounds of ten seconds, with an at-most-once and an
at-least-once service. Servers and callers are killed, stopped, evicted while they are stopped, continued and restarted.
Handlers fail, throw, forget and answer later; callers wait, or have many calls under way, take streams and cancel.
After each round every call is checked. It ended exactly once, with its own answer. If it ended as *not run*, no handler
got it. With at-most-once delivery no request was handed out twice; with at-least-once only after a death, and marked as
a repeat.

    calls.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--fault NAME:WHO] [--worker LANGUAGE=COMMAND]
    calls.py --faults [--seconds 10] [--seed N] [--languages ...] [--worker ...]

The options are those of torture.py. Languages: those of workers.toml that support services. `--fault`: of a server
`drop`, `twice`, `answer`; of a caller `torn`, `forget`, `again`, `deaf` (WORKER.md)."""

import pathlib
import sys

import test_verify_calls
import torture
from verify_calls import RULES, verify_calls

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from sleepers import File

ONCE = {
    "kind": "service",
    "delivery": "at-most-once",
    "capacity": 8192,
    "alignment": 64,
    "clients": 3,
    "max_outstanding": 16,
    "counters": 16,
}
LEAST = ONCE | {"delivery": "at-least-once", "capacity": 4096, "alignment": 8, "clients": 2, "max_outstanding": 4}
ACTORS = (
    (0, "server", "one"),
    (0, "server", "two"),
    (0, "caller", "desk"),
    (0, "caller", "shop"),
    (0, "caller", "till"),
    (1, "server", "left"),
    (1, "server", "right"),
    (1, "caller", "buyer"),
    (1, "caller", "seller"),
    (0, "operator", "operator"),
    (1, "operator", "operator"),
)
WORK = {"server": 30, "caller": 30}  # requests, and ends of calls, per second, that each language must reach
FAULTS = {
    "drop": {"answer"},
    "twice": {"twice"},
    "answer": {"answer"},
    "torn": {"tear"},
    "forget": {"never ended"},
    "again": {"ended twice"},
    "deaf": {"waits"},
}


def left_over(path, number):
    """Returns the requests that are left in the file."""
    clients = (ONCE, LEAST)[number]["clients"]
    with File(path) as file:
        for ring in range(clients):
            if file.gate(0, ring) != file.published(ring):
                yield f"ring {ring}: the gate is {file.gate(0, ring)}, published {file.published(ring)}"


def judge(lives, number, path, verdict, gaps):
    verify_calls(lives, verdict, gaps, (ONCE, LEAST)[number]["delivery"] == "at-least-once")
    for text in left_over(path, number):
        verdict.fail("left over", None, text)


GAME = torture.Game(__doc__, (ONCE, LEAST), ACTORS, WORK, RULES, FAULTS, judge, test_verify_calls.run, needs="services")

if __name__ == "__main__":
    sys.exit(torture.main(GAME))
