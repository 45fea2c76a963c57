# SPDX-License-Identifier: Apache-2.0
"""How ``poll``, ``take``, ``send`` and ``claim`` wait while their ``timeout`` lasts (spec/api.md, Waiting).

Every wait begins with a spin of at most 20 microseconds that keeps the GIL; after that the GIL is released.

A signal's handler runs at once if the wait sleeps, else within 2 milliseconds; an exception from it (Ctrl-C) ends the
wait. A signal that arrives in the microseconds between the last check for signals and the sleep is handled at the end
of that sleep, after at most 100 milliseconds. The kernel has no futex call that closes this gap.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

from .errors import InvalidArgumentError

Wait = Literal["block", "spin", "yield", "backoff"]
"""How a verb waits. ``block``: sleep in the kernel until the other side wakes this thread (spec/channel.md 6.16).
``spin``: try without a pause; has the lowest latency, and uses a whole core. ``yield``: let other processes run between
two tries. ``backoff``: like ``yield`` for a hundred tries, then sleep between tries, from 1 us doubling to 1 ms."""


def check_wait(wait: object) -> None:
    """Raises InvalidArgumentError unless ``wait`` is a value of :data:`Wait`."""
    if wait not in get_args(Wait):
        raise InvalidArgumentError("wait", 'must be "block", "spin", "yield" or "backoff"')


def check_timeout(timeout: float | None) -> float:
    """Returns the timeout in seconds, infinity for None. Raises InvalidArgumentError if it is below 0 or NaN."""
    if timeout is None:
        return math.inf
    if not timeout >= 0:
        raise InvalidArgumentError("timeout", "must be seconds, 0 or more, or None for no limit")
    return timeout
