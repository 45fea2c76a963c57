# SPDX-License-Identifier: Apache-2.0
"""What ``flyring monitor`` measures: an HdrHistogram for each tag, of the interval and of the whole run, and their log
in the format of HdrHistogram's log processor, version 1.3 (with tags)."""

from __future__ import annotations

import time
from typing import TextIO

from hdrh.histogram import HdrHistogram

LONGEST = 3_600_000_000_000
DIGITS = 2


class Measured:
    """The values of one tag, in ns."""

    def __init__(self) -> None:
        self.now = HdrHistogram(1, LONGEST, DIGITS)
        self.all = HdrHistogram(1, LONGEST, DIGITS)

    def add(self, value: int) -> None:
        self.now.record_value(min(max(value, 1), LONGEST))


class Records:
    """The histograms by tag."""

    def __init__(self) -> None:
        self.tags: dict[str, Measured] = {}

    def add(self, tag: str, value: int) -> None:
        one = self.tags.get(tag)
        if one is None:
            one = self.tags[tag] = Measured()
        one.add(value)

    def end_interval(self, log: Log | None) -> None:
        """Adds the interval to the whole run, and to the log, and begins the next one."""
        for tag, one in self.tags.items():
            if log is not None and one.now.get_total_count():
                log.write(tag, one.now)
            one.all.add(one.now)
            one.now.reset()
        if log is not None:
            log.end_interval()


class Log:
    """An interval log, for HdrHistogram's HistogramLogProcessor and its like."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        wall = time.time()
        self._base = self._begun = time.monotonic()
        file.write("#[Logged by flyring monitor; values in ns, maximum in ms]\n")
        file.write("#[Histogram log format version 1.3]\n")
        file.write(f"#[BaseTime: {wall:.3f} (seconds since epoch)]\n")
        file.write(f"#[StartTime: {wall:.3f} (seconds since epoch), {time.ctime(wall)}]\n")
        file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
        file.flush()

    def write(self, tag: str, histogram: HdrHistogram) -> None:
        start, length = self._begun - self._base, time.monotonic() - self._begun
        content = histogram.encode().decode("ascii")
        self._file.write(f"Tag={tag},{start:.3f},{length:.3f},{histogram.get_max_value() / 1e6:.3f},{content}\n")

    def end_interval(self) -> None:
        self._begun = time.monotonic()
        self._file.flush()
