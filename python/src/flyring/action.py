# SPDX-License-Identifier: Apache-2.0
"""What a handler may return to ``poll`` (spec/api.md, Subscriber)."""

from __future__ import annotations

from enum import Enum


class Action(Enum):
    """What a handler returns to ``poll``: what happens to the message and to the poll. None means CONTINUE."""

    CONTINUE = 0
    """The message is consumed; the poll goes on."""
    COMMIT = 1
    """Like CONTINUE, and the gate is stored now: the messages handled so far count as read even if the process dies
    next. For a lossy subscriber, which has no gate, the same as CONTINUE."""
    BREAK = 2
    """The message is consumed; the poll ends."""
    ABORT = 3
    """The message is not consumed; the poll ends without counting it, and the next poll begins with it."""
