# SPDX-License-Identifier: Apache-2.0
"""What a handler may return to ``poll`` (spec/api.md, Subscriber)."""

from __future__ import annotations

from enum import Enum


class Action(Enum):
    """What becomes of a message, and of the poll that handed it out. A handler that returns None means CONTINUE."""

    CONTINUE = 0
    """The message is consumed; the poll goes on."""
    COMMIT = 1
    """As CONTINUE, and the gate is stored now: what was handled so far counts as read, also if the process dies. To a
    lossy subscriber, which has no gate, it is CONTINUE."""
    BREAK = 2
    """The message is consumed; the poll ends."""
    ABORT = 3
    """The message is not consumed; the poll ends without counting it, and the next one begins with it."""
