# SPDX-License-Identifier: Apache-2.0
"""The curve of ``flyring top``: percentiles of the intervals between the beats of one channel's heartbeats, as
``flyring monitor`` measures them."""

from __future__ import annotations

import time

from .curve import curves_of, text_curve
from .monitor import TICK
from .monitor_beats import Own, Sinks, Watched
from .monitor_record import Records

LOOKS = 20
"""So many glances at the counters come between two looks at the channel, which find new heartbeats."""


class BeatCurve:
    """Call ``glance`` each TICK seconds. A longer pause counts as time in which this process did not look."""

    def __init__(self, name: str) -> None:
        self.records = Records()
        self._own = Own()
        ignored = Sinks(self.records.add, lambda *_: None, 1 << 62, lambda *_: ())
        self._watched = Watched(name, self._own, round(TICK * 1e9), ignored)
        self._last = time.monotonic_ns()
        self._glances = 0

    def close(self) -> None:
        self._watched.close()

    def glance(self) -> None:
        """Reads the counters of the heartbeats, and now and then which there are."""
        now = time.monotonic_ns()
        self._own.add(self._last, now, TICK)
        self._last = now
        self._watched.glance(now)
        if self._glances % LOOKS == 0:
            self._watched.look(now)
        self._glances += 1

    def lines(self, width: int, height: int) -> list[str]:
        """Draws the intervals since the beginning."""
        self.records.end_interval(None)
        everything = {tag.removeprefix("beat."): one.all for tag, one in sorted(self.records.tags.items())}
        if not everything:
            return ["no interval between two beats was seen yet; only threads with a Heartbeat have a curve"]
        return [f"time between two beats; a look each {TICK * 1000:.0f} ms",
                *text_curve(curves_of(everything), width, height)]  # fmt: skip
