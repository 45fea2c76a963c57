# SPDX-License-Identifier: Apache-2.0
"""Clock, ids and pid, which tests replace so that the same operations write the same bytes (spec/channel.md 10)."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """The values that a channel takes from its environment. None: the real value."""

    channel_id: uuid.UUID | None = None
    created_at: int | None = None
    boot_id: uuid.UUID | None = None
    pid: int | None = None
    now: int | None = None
    monotonic: int | None = None
    """The time for ``blocked_since``, in ns."""

    def new_channel_id(self) -> uuid.UUID:
        return self.channel_id or uuid.uuid4()

    def creation_time(self) -> int:
        """In ns since 1970."""
        return self.wall_clock() if self.created_at is None else self.created_at

    def this_boot(self) -> uuid.UUID:
        return self.boot_id or uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip())

    def process_id(self) -> int:
        return os.getpid() if self.pid is None else self.pid

    def wall_clock(self) -> int:
        """In ns since 1970."""
        return time.time_ns() if self.now is None else self.now


REAL = Identity()
