# SPDX-License-Identifier: Apache-2.0
"""One line of ``flyring top``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line: a ring with its publisher, a subscriber, or a table."""

    channel: str
    role: str
    """``pub``, ``sub`` or ``lossy``; of a queue ``prod``, ``back``, ``jobs`` or ``work``; of a service ``ask``,
    ``reply``, ``client`` or ``server``; of a table ``table``; of a journal
    ``jrnl`` and ``cons``, a consumer."""
    slot: int
    name: str
    pid: int
    state: str
    messages: float
    """Published or read per second; of a table its changes per second."""
    bytes: float
    lag_messages: int
    """-1: not known."""
    lag: int
    unmoved: float
    """Seconds since the slot moved; 0 if it has nothing to do."""
    note: str
    states: tuple[str, ...] = ()
    """What is wrong, in the words of docs/troubleshooting.md, such as ``BLOCKED``."""
    keys: int = 0
    """Of a table: how many keys there are, and how many fit."""
    capacity: int = 0

    @property
    def alarm(self) -> bool:
        return bool(self.states)
