# SPDX-License-Identifier: Apache-2.0
"""How ``poll``, ``take``, ``offer`` and ``claim`` wait while their ``timeout`` lasts (spec/api.md).

Every wait begins with a spin of at most 20 microseconds that keeps the GIL; after that the GIL is given up, and taken
for a moment every 2 milliseconds, so that signals (Ctrl-C) are seen.
"""

from __future__ import annotations

from typing import Literal, get_args

from .errors import InvalidArgumentError

Wait = Literal["spin", "yield", "backoff"]
"""``spin``: try all the time; the shortest delay, a whole core. ``yield``: let other processes run between two
tries. ``backoff``: as ``yield`` for a hundred tries, then sleep between them, 1 us doubling to 1 ms."""


def check_wait(wait: object) -> None:
    """Before anything is taken or changed."""
    if wait not in get_args(Wait):
        raise InvalidArgumentError("wait", 'must be "spin", "yield" or "backoff"')
