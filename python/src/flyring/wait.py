# SPDX-License-Identifier: Apache-2.0
"""How ``poll``, ``take``, ``send`` and ``claim`` wait while their ``timeout`` lasts (spec/api.md, Waiting).

Every wait begins with a spin of at most 20 microseconds that keeps the GIL; after that the GIL is given up. A signal's
handler runs at once when the wait sleeps, else within 2 milliseconds; what it raises (Ctrl-C) ends the wait. A signal
that comes in the microseconds between the last look for signals and the sleep is seen at the end of that sleep, after
100 milliseconds at most: no system call sleeps on a futex only if no signal has come.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from .errors import InvalidArgumentError

Wait = Literal["block", "spin", "yield", "backoff"]
"""``block``: sleep in the kernel until somebody wakes it (spec/channel.md 6.16). ``spin``: try all the time; the
shortest delay, a whole core. ``yield``: let other processes run between two tries. ``backoff``: as ``yield`` for a
hundred tries, then sleep between them, 1 us doubling to 1 ms."""


def check_wait(wait: object) -> None:
    """Before anything is taken or changed."""
    if wait not in get_args(Wait):
        raise InvalidArgumentError("wait", 'must be "block", "spin", "yield" or "backoff"')


def check_timeout(timeout: float | None) -> float:
    """In seconds; without limit: infinite. InvalidArgumentError."""
    if timeout is None:
        return math.inf
    if not timeout >= 0:
        raise InvalidArgumentError("timeout", "must be seconds, 0 or more, or None for no limit")
    return timeout
