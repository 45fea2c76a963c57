# SPDX-License-Identifier: Apache-2.0
"""``flyring monitor``: watches how late cores wake, how regularly heartbeats beat, and how long probes are under way
(docs/monitor.md). It needs read permission only, except for probes."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError
from ..system import channel_path, failed
from . import curve
from .curve import text
from .monitor_beats import Own, Sinks, Watched, halted, running
from .monitor_causes import happened, process, steals, stolen
from .monitor_lines import Lines
from .monitor_mesh import Meshed
from .monitor_states import STATES
from .monitor_workers import NO_ANSWER, ONE_WAY, STOPPED, Continued, Sample, Worker, hiccups
from .ping import NAME as PROBED

if TYPE_CHECKING:
    from .monitor_record import Log, Records

MISSING = "monitor needs the library hdrhistogram. Install it: pip install 'flyring[monitor]'"
TICK = 0.01
"""Between two glances at the heartbeats, in seconds: the resolution of their intervals."""
LOOK = 0.2
"""Between two looks at stats and processes, in seconds."""
OWN = 50_000_000
"""The monitor says so when it did not run for this time, in ns."""
FAULTS = ("TARDY", "GONE", *STATES)
"""A line that begins so makes the exit status 1."""
MEMORY = 60_000_000_000
"""For how long an outlier of a core is kept, to be named as a cause, in ns."""


def add_arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("channels", nargs="*", metavar="CHANNEL", help="watch the heartbeats of these channels")
    one.add_argument("--hiccup", type=float, default=1.0, metavar="MS", help="wake each core so often; 0: off (1)")
    one.add_argument("--threshold", type=float, default=10.0, metavar="MS", help="a line for each longer time (10)")
    one.add_argument("--repeat", type=float, default=10.0, metavar="SECONDS", help="limit of lines of a kind (10)")
    one.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="between two reports (1)")
    one.add_argument("--seconds", type=float, metavar="S", help="end after this time; default: at Ctrl-C")
    one.add_argument("--mesh", metavar="CHANNEL", help="watch the members of this mesh")
    one.add_argument("--probe", action="store_true", help="send probes that flyring ping --answer sends back")
    one.add_argument("--probe-channel", default=PROBED, metavar="NAME", help=f"made and removed ({PROBED})")
    one.add_argument("--probe-interval", type=float, default=10.0, metavar="MS", help="between two probes (10)")
    one.add_argument("--log", metavar="FILE", help="write an HdrHistogram log with tags")
    one.add_argument("--svg", metavar="FILE", help="at the end, draw the percentiles")
    one.add_argument("--curve", action="store_true", help="at the end, draw the percentiles in the terminal")


def monitor(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if a heartbeat was tardy, stopped or dead, or probes had no answer."""
    refuse(options)
    try:
        from .monitor_record import Log, Records
    except ImportError:
        print(f"flyring: {MISSING}", file=sys.stderr)
        return 2
    with contextlib.ExitStack() as stack:
        log = None
        if options.log is not None:
            try:
                log = Log(stack.enter_context(open(options.log, "w", encoding="ascii")))
            except OSError as error:
                raise failed("open", error, options.log) from error
        if options.svg is not None:  # find out now, not at the end
            try:
                stack.enter_context(open(options.svg, "a", encoding="utf-8"))
            except OSError as error:
                raise failed("open", error, options.svg) from error
        running = stack.enter_context(Monitor(options, Records(), log).run_workers())
        with contextlib.suppress(KeyboardInterrupt):
            running.run()
        return running.end()


def refuse(options: argparse.Namespace) -> None:
    for name in ("hiccup", "threshold", "repeat"):
        if not 0 <= getattr(options, name) < math.inf:
            raise InvalidArgumentError(name, f"{getattr(options, name)} must be 0 or more")
    for name in ("interval", "probe_interval", "seconds"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise InvalidArgumentError(name, f"{value} must be above 0")
    if not options.channels and not options.hiccup and not options.probe and options.mesh is None:
        raise InvalidArgumentError("CHANNEL", "there is nothing to watch: name a channel, or leave out --hiccup 0")
    for name in [*options.channels, options.probe_channel, *([] if options.mesh is None else [options.mesh])]:
        channel_path(name)  # refuses a name that is not valid


class Screen:
    """Where the output goes. In a terminal, the table stays at the bottom, and the lines go above it."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._drawn: list[str] = []

    def line(self, line: str) -> None:
        self._erase()
        print(line)
        self._draw(self._drawn)

    def table(self, lines: Sequence[str]) -> None:
        self._erase()
        self._draw(lines)

    def _erase(self) -> None:
        if self.live and self._drawn:
            print(f"\x1b[{len(self._drawn)}F\x1b[J", end="")

    def _draw(self, lines: Sequence[str]) -> None:
        size = shutil.get_terminal_size((80, 24))
        if self.live:
            self._drawn = [line[: size.columns - 1] for line in lines[: size.lines - 2]]
            lines = self._drawn
        for line in lines:
            print(line)
        sys.stdout.flush()


class Monitor:
    """The loop: glances at heartbeats, takes what the workers measured, and reports."""

    def __init__(self, options: argparse.Namespace, records: Records, log: Log | None) -> None:
        self.options, self.records, self.log = options, records, log
        self.threshold = round(options.threshold * 1e6)
        self.screen = Screen()
        self.lines = Lines(self.screen.line, options.repeat)
        self.own = Own()
        self.fault = False
        self.workers: list[tuple[int, Worker]] = []
        """With the core; -1: probes."""
        self.channels: list[Watched | Meshed] = []
        self._outliers: deque[tuple[int, int, int]] = deque(maxlen=1000)
        """(when it ended, how late, core)"""
        self._steals = deque([steals()], maxlen=3)
        """Of the last looks: what a worker reports now may have happened before the last one."""
        self._self = process(os.getpid())

    @contextlib.contextmanager
    def run_workers(self) -> Iterator[Monitor]:
        """Opens the channels and starts the processes; ends them at the end of the ``with`` block."""
        options = self.options
        sinks = Sinks(self.records.add, self.beat_line, self.threshold, self.woke_late)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for name in dict.fromkeys(options.channels):
                self.channels.append(Watched(name, self.own, round(TICK * 1e9), sinks))
            if options.mesh is not None:
                self.channels.append(Meshed(options.mesh, self.own, round(TICK * 1e9), sinks))
            if options.hiccup:
                for core in sorted(os.sched_getaffinity(0)):
                    work = hiccups(core, round(options.hiccup * 1e6), self.threshold)
                    self.workers.append((core, Worker(f"core.{core}", work)))
            if options.probe:
                from .monitor_probe import probes

                self.workers.append((-1, Worker("probe", probes(options.probe_channel, options.probe_interval / 1e3))))
            yield self
        finally:
            for core, worker in self.workers:
                worker.close(signal.SIGKILL if core >= 0 else signal.SIGTERM)
            for channel in self.channels:
                channel.close()
            signal.signal(signal.SIGTERM, before)
            signal.signal(signal.SIGCONT, signal.SIG_DFL)

    def run(self) -> None:
        """Runs until the time is over. KeyboardInterrupt."""
        options = self.options
        continued = Continued()
        begun = last = time.monotonic_ns()
        end = begun + round(options.seconds * 1e9) if options.seconds else None
        interval = round(options.interval * 1e9)
        look, report = begun, begun + interval
        while end is None or last < end:
            time.sleep(TICK)
            now = time.monotonic_ns()
            was_stopped = continued.take()
            gap = self.own.add(last, now, TICK, was_stopped)
            if gap > OWN or was_stopped:
                self._own_line(gap, was_stopped)
            last = now
            for channel in self.channels:
                channel.glance(now)
            for core, worker in self.workers:
                for sample in worker.samples():
                    self._take(core, sample)
            if now >= look:
                look = now + round(LOOK * 1e9)
                for channel in self.channels:
                    channel.look(now)
                self._workers_live()
                self._steals.append(steals())
                self._self = process(os.getpid())
            if now >= report:
                report = max(report + interval, now)
                self._report()

    def end(self) -> int:
        """Prints the percentiles of the whole run, and draws them."""
        self._report(quiet=True)
        self.lines.close()
        if self.options.probe and "probe.both-ways" not in self.records.tags:
            self.fault = True
            print("no probe was answered; does flyring ping --answer run?")
        everything = {tag: one.all for tag, one in sorted(self.records.tags.items())}
        if not everything:
            print("nothing was measured")
            return int(self.fault)
        print("the whole run:")
        for line in curve.table_lines(everything):
            print(line)
        if self.options.curve:
            for line in curve.text_curve(curve.curves_of(everything), shutil.get_terminal_size((80, 24)).columns):
                print(line)
        if self.options.svg is not None:
            title = f"flyring monitor {' '.join(self.options.channels)}".strip()
            with open(self.options.svg, "w", encoding="utf-8") as file:
                file.write(curve.svg(curve.curves_of(everything), title))
        return int(self.fault)

    def beat_line(self, kind: str, line: str, value: float) -> None:
        if line.startswith(FAULTS):
            self.fault = True
        self.lines.add(kind, line, value)

    def woke_late(self, begin: int, end: int) -> Iterator[str]:
        """Says which cores woke late in this time, each once with its longest."""
        longest: dict[int, int] = {}
        for at, late, core in self._outliers:
            if at >= begin and at - late <= end:
                longest[core] = max(late, longest.get(core, 0))
        for core, late in sorted(longest.items()):
            yield f"core {core} woke {text(late)} late"

    def _take(self, core: int, sample: Sample) -> None:
        if core < 0:
            self._take_probe(sample)
            return
        if sample.flags & STOPPED:
            self.lines.add(
                f"core.{core} stopped", f"MONITOR was stopped: its process of core {core} did not run", sample.value
            )
            return
        self.records.add(f"core.{core}", sample.value)
        if sample.value <= self.threshold:
            return
        while self._outliers and self._outliers[0][0] < sample.at - MEMORY:
            self._outliers.popleft()
        self._outliers.append((sample.at, sample.value, core))
        reasons = [f"other processes held it for {text(sample.delay)}"] if sample.delay > 0 else []
        reasons += running(self.channels, core)
        reasons += stolen(self._steals[0], steals(), [core])
        reasons += self._coincided(sample)
        why = ", ".join(reasons) or "no cause is visible: an interrupt, a sleep state, or the machine below"
        self.lines.add(f"core.{core}", f"HICCUP core {core} woke {text(sample.value)} late; {why}", sample.value)

    def _take_probe(self, sample: Sample) -> None:
        if sample.flags & NO_ANSWER:
            self.fault = True
            who = ", ".join(halted(self.channels))
            self.lines.add("probe answer", f"NO ANSWER to a probe for {text(sample.value)}; "
                           f"does flyring ping --answer run?{' ' + who if who else ''}", sample.value)  # fmt: skip
            return
        way = "one-way" if sample.flags & ONE_WAY else "both-ways"
        self.records.add(f"probe.{way}", sample.value)
        if sample.value > self.threshold:
            why = ", ".join([*self._coincided(sample), *stolen(self._steals[0], steals())]) or "no cause is visible"
            self.lines.add(f"probe.{way}", f"PROBE {way.replace('-', ' ')}: {text(sample.value)}; {why}", sample.value)

    def _coincided(self, sample: Sample) -> list[str]:
        """Says what else happened during a sample."""
        begin = sample.at - sample.value
        found = [one for one in self.woke_late(begin, sample.at) if not one.endswith(f"woke {text(sample.value)} late")]
        return found + halted(self.channels)

    def _own_line(self, gap: int, was_stopped: bool) -> None:
        now = process(os.getpid())
        why = "it was stopped by a signal" if was_stopped else ", ".join(
            [*happened(self._self, now), *stolen(self._steals[0], steals())]
        )  # fmt: skip
        self.lines.add("monitor", f"MONITOR itself did not run for {text(gap)}: {why}; "
                       "it judges no heartbeat by this time", gap)  # fmt: skip

    def _workers_live(self) -> None:
        for core, worker in [each for each in self.workers if each[1].status is not None]:
            self.fault = True
            self.workers.remove((core, worker))
            worker.close()
            self.lines.add(f"{worker.tag} ended", f"MONITOR has lost its process {worker.tag}: it ended")

    def _report(self, quiet: bool = False) -> None:
        shown = {tag: one.now for tag, one in sorted(self.records.tags.items()) if one.now.get_total_count()}
        if self.screen.live and not quiet:
            self.records.end_interval(self.log)
            everything = {tag: one.all for tag, one in sorted(self.records.tags.items())}
            self.screen.table(curve.table_lines(everything))
            return
        if shown and not quiet:
            print(time.strftime("%H:%M:%S"))
            self.screen.table(curve.table_lines(shown))
        self.records.end_interval(self.log)
