# SPDX-License-Identifier: Apache-2.0
"""Jobs that several workers share (bench/PEER.md: jobs): combines the workers' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.sides import Failure

WORD = (1 << 64) - 1


def together(sent: int, workers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combines one slice. Raises Failure unless each job was done exactly once: jobs are numbered from 0, and each
    worker reports the count, the sum and the sum of squares of its jobs' numbers. (Each worker checks the order
    itself.) The time is from the first job of all to the end of the last one."""
    done = sum(int(w["count"]) for w in workers)
    if done != sent:
        raise Failure(f"{sent} jobs were sent, {done} done")
    wanted = {"sum": sent * (sent - 1) // 2, "squares": (sent - 1) * sent * (2 * sent - 1) // 6}
    for what, value in wanted.items():
        found = sum(int(w[what]) for w in workers)
        if (found - value) & WORD:
            raise Failure(f"{sent} jobs were sent and done, but not each once: the {what} of their numbers is wrong")
    busy = [w for w in workers if int(w["count"]) > 0]
    ns = max(int(w["end"]) for w in busy) - min(int(w["start"]) for w in busy)
    return {"kind": workers[0]["kind"], "count": done, "ns": ns}
