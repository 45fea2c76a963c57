# SPDX-License-Identifier: Apache-2.0
"""A mesh of a C++, a Java and a Python process, watched by ``flyring monitor --mesh``: which member is stopped, dead or
tardy, which has left, and when the monitor or the whole machine stood still."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver import Peer, commands
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

import flyring

LANGUAGES = ("cpp", "java", "python")
PATIENCE = 60  # seconds
STOP = 0.3
QUIET = 0.1
"""A member that is silent for longer is named, in seconds; a busy machine delays it by less, most of the time."""
BUSY = """
import sys, flyring
channel = flyring.Channel.open("mesh")
with flyring.Mesh(channel, "busy"):
    print("up", flush=True)
    for line in sys.stdin:
        sum(range(int(line)))  # holds the lock of the interpreter, so no other thread runs
        print("done", flush=True)
"""


class Watching:
    """A monitor of the mesh, and the lines that it has printed."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-u", "-m", "flyring.cli", "monitor", "--mesh", "mesh", "--hiccup", "0"]
        command += ["--repeat", "0", "--interval", "0.2", "--threshold", f"{QUIET * 1000}", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.seen: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line.rstrip())

    def until(self, pattern: str, since: int = 0) -> str:
        """Waits for a line after the first ``since`` lines, and returns it."""
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            for line in self.seen[since:]:
                if re.search(pattern, line):
                    return line
            time.sleep(0.02)
        raise AssertionError(f"there is no line {pattern!r}: {self.seen[since:]}")

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(30)
        self._reader.join(30)
        return status


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="flyring-mesh-test-", dir="/dev/shm"))
    monkeypatch.setenv("FLYRING_DIR", str(path))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def members(folder: Path, tmp_path: Path) -> Iterator[dict[str, Peer]]:
    """One member in each language, by its name."""
    with flyring.Channel.create("mesh", "broadcast", capacity=65536, publishers=5, subscribers=0, counters=0):
        peers = {}
        with contextlib.ExitStack() as stack:
            for language in LANGUAGES:
                peer = peers[language] = Peer(language, commands()[language], tmp_path, folder)
                stack.callback(peer.kill)
                peer.call("open", channel="c", name="mesh")
                peer.call("mesh", channel="c", mesh="m", name=language, every=10_000_000)
            yield peers


@pytest.fixture
def watch() -> Iterator[Callable[..., Watching]]:
    every: list[Watching] = []

    def start(*arguments: str) -> Watching:
        every.append(Watching(*arguments))
        for one in LANGUAGES:
            every[-1].until(rf"wake\.{one} ")
        return every[-1]

    yield start
    for one in every:
        one.process.kill()
        one.process.wait()


def stop(*processes: int) -> None:
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(STOP)
    for pid in processes:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_stopped_member_is_told_from_a_dead_one(
    members: dict[str, Peer], watch: Callable[..., Watching], language: str
) -> None:
    monitor, peer = watch(), members[language]
    stop(peer.pid)
    assert "the process is STOPPED" in monitor.until(f"STOPPED {language} of mesh \\(pid {peer.pid}\\): no beat for ")
    again = monitor.until(f"BEATS {language} of mesh .* again, after .*; it was stopped")
    quiet = re.search(r"after (?:(\d+) ms|([\d.]+) s)", again)
    assert quiet and float(quiet[1] or 1000 * float(quiet[2])) >= STOP * 1000 - 20, again
    os.kill(peer.pid, signal.SIGKILL)
    assert "its process has ended" in monitor.until(f"DEAD {language} of mesh \\(pid {peer.pid}\\)")
    assert monitor.end() == 1
    for line in monitor.seen:  # of the others, at most that a busy machine has delayed them
        assert not re.search(r"(STOPPED|DEAD) ", line) or f" {language} of mesh" in line, line
        assert "MACHINE" not in line and "LEFT" not in line, line


def test_a_member_that_leaves_is_not_dead(members: dict[str, Peer], watch: Callable[..., Watching]) -> None:
    monitor = watch()
    for language, peer in members.items():
        peer.call("close", mesh="m")
        monitor.until(f"LEFT {language} of mesh")
    monitor.end()
    assert not [line for line in monitor.seen if "DEAD" in line or "STOPPED" in line]


def test_a_stopped_monitor_accuses_no_member(members: dict[str, Peer], watch: Callable[..., Watching]) -> None:
    monitor = watch()
    since = len(monitor.seen)
    stop(monitor.process.pid)
    line = monitor.until("MONITOR itself did not run", since)
    assert re.search(r"for \d+ ms: it was stopped by a signal; it judges no", line), line
    monitor.until(r"wake\.java ", since)
    time.sleep(0.5)
    assert not [line for line in monitor.seen if re.search("STOPPED|DEAD|MACHINE", line)]
    monitor.end()
    whole = "\n".join(monitor.seen).partition("the whole run:")[2]
    for pair in ("cpp.to.java", "java.to.python", "python.to.cpp"):
        assert re.search(rf"interval\.{pair} +\d+ +(9|1\d)(\.\d+)? ms ", whole), whole  # measured by the members


def test_a_machine_that_stands_still_accuses_no_member(
    members: dict[str, Peer], watch: Callable[..., Watching]
) -> None:
    monitor = watch()
    stop(monitor.process.pid, *(peer.pid for peer in members.values()))
    line = monitor.until("MACHINE stood still for ")
    assert re.search(
        r"for (\d+ ms|[\d.]+ s): all 3 members of mesh and the monitor woke late at the same time", line
    ), line
    assert not [line for line in monitor.seen if re.search("STOPPED|DEAD", line)]


def test_a_watcher_that_was_stopped_is_told_from_those_it_watches(
    members: dict[str, Peer], watch: Callable[..., Watching], tmp_path: Path
) -> None:
    """The beats that it received late are not the senders' fault: no line names a slow way to it, and the intervals
    of the others among each other stay short."""
    log = tmp_path / "mesh.hlog"
    monitor = watch("--log", str(log))
    stop(members["java"].pid)
    monitor.until("BEATS java of mesh .* again")
    time.sleep(0.5)
    monitor.end()
    assert not [line for line in monitor.seen if re.search(r"SLOW \w+ to java", line)]
    longest: dict[str, int] = {}
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000_000, 2))
    while (one := reader.get_next_interval_histogram()) is not None:
        longest[one.get_tag()] = max(longest.get(one.get_tag(), 0), one.get_max_value())
    reader.close()
    pairs = [f"{a}.to.{b}" for a in LANGUAGES for b in LANGUAGES if a != b]
    wanted = [f"wake.{one}" for one in LANGUAGES]
    wanted += [f"{kind}.{pair}" for kind in ("interval", "way") for pair in pairs]
    assert set(longest) == set(wanted)
    least = (STOP - 0.05) * 1e9
    assert longest["wake.java"] > least  # java says itself that it did not run
    assert longest["way.cpp.to.java"] > least and longest["way.python.to.java"] > least  # it received late,
    assert longest["way.java.to.cpp"] < least and longest["way.java.to.python"] < least  # and did not send late
    assert longest["wake.cpp"] < least and longest["interval.cpp.to.python"] < least


def test_a_process_that_is_busy_is_tardy(members: dict[str, Peer], watch: Callable[..., Watching]) -> None:
    monitor = watch()
    command = [sys.executable, "-u", "-c", BUSY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdin is not None and busy.stdout is not None
        assert busy.stdout.readline() == "up\n"
        monitor.until(r"wake\.busy ")
        print(60_000_000, file=busy.stdin, flush=True)
        line = monitor.until(rf"TARDY busy of mesh \(pid {busy.pid}\): no beat for ")
        assert "the process is" in line and "STOPPED" not in line
        assert busy.stdout.readline() == "done\n"
        monitor.until("BEATS busy of mesh .*; it was tardy")
        busy.stdin.close()
    monitor.until("LEFT busy of mesh")
    assert monitor.end() == 1
