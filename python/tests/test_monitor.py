# SPDX-License-Identifier: Apache-2.0
"""``flyring monitor``: verdicts on heartbeats, the limit of lines, the log, the curve, and probes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

import monitors
from conftest import Child
from flyring import Channel, layout
from flyring.cli import curve, main
from flyring.cli.monitor_lines import Lines
from flyring.stats import HEARTBEAT_KEY

CLI = [sys.executable, "-m", "flyring.cli"]
VERDICTS = ("TARDY", "STOPPED", "DEAD")

BEATER = """
import sys, threading, time
from flyring import Channel, Heartbeat
channel = Channel.open("c")
heart = Heartbeat(channel, "loop", interval=float(sys.argv[1]))
pause = threading.Event()
def run():
    while True:
        if not pause.is_set():
            heart.beat()
        time.sleep(0.005)
threading.Thread(target=run, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    (pause.set if line.strip() == "pause" else pause.clear)()
"""


@pytest.fixture
def channel() -> Iterator[Channel]:
    with Channel.create("c", "broadcast", capacity=4096, counters=4) as one:
        yield one


class Running(monitors.Monitor):
    """A monitor without hiccups, so that it is only one process."""

    def __init__(self, *arguments: str) -> None:
        super().__init__("c", "--hiccup", "0", "--interval", "0.2", "--repeat", "0", *arguments, "--seconds", "20")

    def until_has(self, text: str) -> str:
        """Reads lines up to one that contains the text."""
        return self.until(lambda line: text in line, text)

    def accusations(self) -> list[str]:
        return [line for line in self.lines if any(verdict in line for verdict in VERDICTS)]


@pytest.fixture
def run(channel: Channel) -> Iterator[Callable[..., Running]]:
    with monitors.started(Running) as start:
        yield start


def beating(child: Callable[..., Child], interval: float = 0.5) -> Child:
    one = child(BEATER, str(interval))
    one.line()
    return one


def test_a_stopped_process_is_told_from_a_slow_one(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    beater, monitor = beating(child), run()
    monitor.until_has("beat.c.loop")
    os.kill(beater.process.pid, signal.SIGSTOP)
    line = monitor.until_has("STOPPED")
    assert f"STOPPED loop of c (pid {beater.process.pid}): no beat for " in line
    assert "promised 500 ms; the process is STOPPED, on core " in line
    os.kill(beater.process.pid, signal.SIGCONT)
    assert "it was stopped" in monitor.until_has("BEATS loop of c")
    assert monitor.end() == 1
    assert not any("TARDY" in line or "DEAD" in line for line in monitor.lines)


def test_a_stop_is_seen_without_a_promise(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    beater, monitor = beating(child, 0), run()
    monitor.until_has("beat.c.loop")
    os.kill(beater.process.pid, signal.SIGSTOP)
    assert "promised" not in monitor.until_has("STOPPED loop of c")


def test_a_killed_process_is_dead(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    beater, monitor = beating(child), run()
    monitor.until_has("beat.c.loop")
    beater.kill()
    assert "there is no such process" in monitor.until_has(f"DEAD loop of c (pid {beater.process.pid}): ")
    assert monitor.end() == 1
    assert len(monitor.accusations()) == 1
    assert "DEAD loop of c" in run().until_has("DEAD")  # also for a monitor that comes later


def test_a_tardy_thread_is_named(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    beater, monitor = beating(child, 0.3), run()
    monitor.until_has("beat.c.loop")
    beater.say("pause")
    line = monitor.until_has("TARDY")
    quiet = r"([3-9]\d\d ms|\d[.\d]* s)"
    assert re.search(rf"TARDY loop of c \(pid \d+\): no beat for {quiet}, promised 300 ms; the process is ", line)
    beater.say("on")
    assert "it was tardy" in monitor.until_has("BEATS loop of c")
    assert monitor.end() == 1
    assert len(monitor.accusations()) == 1


def test_a_promise_that_is_kept_is_no_fault(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    beating(child, 10)
    monitor = run()
    for _ in range(3):
        monitor.until_has("beat.c.loop")
    assert monitor.end() == 0
    assert monitor.accusations() == []


def test_a_long_interval_is_named_when_it_ends(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    beater = beating(child, 0)
    beater.say("pause")
    time.sleep(0.5)
    monitor = run("--threshold", "100")
    time.sleep(1.5)
    beater.say("on")
    monitor.until_has("beat.c.loop")  # the interval before the first beat that the monitor saw is not known
    assert not any("LATE" in line or " s" in line for line in monitor.lines), monitor.lines
    beater.say("pause")
    time.sleep(0.5)
    beater.say("on")
    assert re.search(
        r"loop of c \(pid \d+\): \d+ ms between two beats; the process is \w+, ", monitor.until_has("LATE")
    )
    assert monitor.end() == 0


def test_a_stopped_monitor_accuses_no_other(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    """The heartbeat pauses only while the monitor is stopped, and a little longer than that."""
    beater, monitor = beating(child, 0.6), run()
    monitor.until_has("beat.c.loop")
    os.kill(monitor.process.pid, signal.SIGSTOP)
    beater.say("pause")
    time.sleep(1.2)
    os.kill(monitor.process.pid, signal.SIGCONT)
    line = monitor.until_has("MONITOR itself")
    beater.say("on")
    assert re.search(r"did not run for 1\.\d+ s: it was stopped by a signal; it judges no heartbeat", line)
    monitor.until_has("beat.c.loop")
    monitor.until_has("beat.c.loop")
    assert monitor.end() == 0
    assert monitor.accusations() == []
    (whole,) = [line for line in monitor.lines[-3:] if "beat.c.loop" in line]
    assert whole.split()[-1] == "ms", whole  # no interval of the whole stop was recorded


def test_a_lock_proves_life_and_a_reused_pid_does_not(channel: Channel, run: Callable[..., Running]) -> None:
    """The heartbeat says that it began before the process of its pid."""
    key = HEARTBEAT_KEY.pack(os.getpid(), 100_000_000, 1_000_000_000)
    channel.counters().allocate("old", layout.COUNTER_METADATA_TYPE_HEARTBEAT, key)
    monitor = run()
    assert "another process has its pid now" in monitor.until_has("old of c")
    monitor.end()
    with channel.publisher("alive"):
        line = run().until_has("old of c")
        assert "TARDY" in line


def test_a_replaced_channel_is_opened_again(child: Callable[..., Child], run: Callable[..., Running]) -> None:
    monitor = run()
    while "c.ring" not in Path(f"/proc/{monitor.process.pid}/maps").read_text():  # it has not opened the channel
        assert monitor.process.poll() is None
        time.sleep(0.01)
    with Channel.replace("c", "broadcast", capacity=4096, counters=4):
        monitor.until_has("REPLACED c")
        beating(child)
        monitor.until_has("beat.c.loop")


def test_it_writes_nothing(channel: Channel, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "c.ring").read_bytes()
    assert main(["monitor", "c", "--hiccup", "0", "--seconds", "0.4"]) == 0
    assert (folder / "c.ring").read_bytes() == before
    assert "nothing was measured" in capsys.readouterr().out


def test_read_permission_is_enough(child: Callable[..., Child], run: Callable[..., Running], folder: Path) -> None:
    beating(child)
    monitor = run()
    monitor.until_has("beat.c.loop")
    proc, ring = Path(f"/proc/{monitor.process.pid}"), str(folder / "c.ring")
    mapped = [line.split()[1] for line in (proc / "maps").read_text().splitlines() if line.endswith(ring)]
    assert mapped and set(mapped) == {"r--s"}
    opened = [fd.name for fd in (proc / "fd").iterdir() if str(fd.readlink()) == ring]
    flags = [int(re.findall(r"flags:\t(\d+)", (proc / "fdinfo" / fd).read_text())[0], 8) for fd in opened]
    assert flags and all(one & os.O_ACCMODE == os.O_RDONLY for one in flags)


def test_the_log_is_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "m.hlog"
    before = time.time()
    assert main(["monitor", "--seconds", "1", "--interval", "0.3", "--log", str(log), "--threshold", "5000"]) == 0
    printed = capsys.readouterr().out
    counts: dict[str, int] = {}
    intervals = 0
    reader = HistogramLogReader(str(log), HdrHistogram(1, 3_600_000_000_000, 2))
    while (one := reader.get_next_interval_histogram()) is not None:
        counts[one.get_tag()] = counts.get(one.get_tag(), 0) + one.get_total_count()
        intervals += 1
        assert before - 1 <= one.get_start_time_stamp() / 1000 <= one.get_end_time_stamp() / 1000 <= time.time() + 1
    reader.close()
    cores = {f"core.{core}" for core in os.sched_getaffinity(0)}
    assert set(counts) == cores
    assert intervals >= 3 * len(cores)
    whole = printed.partition("the whole run:")[2]
    elapsed = time.time() - before
    for core, count in counts.items():
        assert count <= elapsed * 1000  # one each millisecond at most: no value is in two intervals
        assert re.search(rf"{re.escape(core)} +{count} ", whole), (core, count, whole)


def test_an_outlier_of_a_core_is_explained(channel: Channel, capsys: pytest.CaptureFixture[str]) -> None:
    core = min(os.sched_getaffinity(0))
    busy = (
        "import os, flyring\nchannel = flyring.Channel.open('c')\npublisher = channel.publisher(f'busy{os.getpid()}')\n"
        f"os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    )
    busies = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
    try:
        main(["monitor", "c", "--seconds", "2", "--threshold", "1", "--repeat", "0"])
    finally:
        for one in busies:
            one.kill()
            one.wait()
    lines = [line for line in capsys.readouterr().out.splitlines() if f"HICCUP core {core} woke" in line]
    assert any("ms late; other processes held it for " in line for line in lines), lines
    assert any(f"busy{one.pid} (pid {one.pid}) ran on it" in line for one in busies for line in lines), lines


def test_a_line_repeats_within_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    lines = Lines(shown.append, 10)
    for value in (5, 900, 7):
        lines.add("core.0", "first", value)
    lines.add("core.1", "other", 1)
    assert [line[9:] for line in shown] == ["first", "other"]
    now[0] += 10
    lines.add("core.0", "next", 1)
    assert shown[2][9:] == "next (2 more lines like this left out, the longest 900 ns)"
    lines.add("core.0", "hidden", 3)
    lines.close()
    assert [line[9:] for line in shown[3:]] == ["core.0: (1 more line like this left out, the longest 3 ns)"]


def histogram(*values: int) -> HdrHistogram:
    one = HdrHistogram(1, 3_600_000_000_000, 2)
    for value in values:
        one.record_value(value)
    return one


def test_a_percentile_needs_enough_values() -> None:
    thousand = histogram(*range(1000, 2000))
    titles, line = curve.table_lines({"x": thousand})
    assert titles.split() == ["count", "50%", "99%", "99.9%", "99.99%", "99.999%", "max"]
    assert line.split()[:2] == ["x", "1000"]
    assert line.split()[-4:] == ["-", "-", "2", "us"]
    assert curve.known(thousand, 99.9) and not curve.known(thousand, 99.99)


def test_the_curve_shows_every_tag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    low, high = histogram(*[1000] * 999, 1_000_000), histogram(*[10_000] * 100)
    lines = curve.text_curve(curve.curves_of({"low": low, "high": high}), 80)
    assert all(len(line) <= 80 for line in lines)
    assert [line.split() for line in lines[-2:]] == [["*", "low"], ["+", "high"]]
    assert lines[0].startswith("    1 ms |") and lines[0].endswith("*")
    assert lines[11].startswith("    1 us |*")
    root = Xml.fromstring(curve.svg(curve.curves_of({"low": low, "a<b": high}), "t & u"))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}path")) == 2
    texts = [one.text for one in root.findall(f"{space}text")]
    assert {"t & u", "low", "a<b", "99.9%", "1 ms"} <= set(texts)
    assert "99.99%" not in texts  # a thousand values do not tell it
    picture = tmp_path / "m.svg"
    assert main(["monitor", "--seconds", "0.5", "--svg", str(picture), "--curve", "--threshold", "5000"]) == 0
    assert len(Xml.parse(picture).getroot().findall(f"{space}path")) == len(os.sched_getaffinity(0))
    assert "* core." in capsys.readouterr().out


def test_a_terminal_shows_one_table_that_moves(channel: Channel) -> None:
    main_end, other_end = pty.openpty()
    command = [*CLI, "monitor", "--seconds", "1", "--interval", "0.2", "--threshold", "5000"]
    process = subprocess.Popen(command, stdout=other_end)
    os.close(other_end)
    text = b""
    while True:
        try:
            data = os.read(main_end, 65536)
        except OSError:  # EIO: the other end is closed
            break
        if not data:
            break
        text += data
    os.close(main_end)
    assert process.wait(30) == 0
    rows = len(os.sched_getaffinity(0)) + 1
    assert text.count(f"\x1b[{rows}F\x1b[J".encode()) >= 3
    assert b"the whole run:" in text


@pytest.mark.parametrize("program", ["cli", "demo"])
def test_probes_go_one_way_and_both(program: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    words = {"cli": ["flyring.cli", "ping", "--answer"], "demo": ["flyring.demo", "pong", "--wait", "block"]}
    answering = subprocess.Popen([sys.executable, "-m", *words[program]])
    try:
        main(["monitor", "--hiccup", "0", "--probe", "--seconds", "3", "--threshold", "5000"])
        assert answering.wait(30) == 0  # the end of the monitor ends it
    finally:
        answering.kill()
        answering.wait()
    whole = capsys.readouterr().out.partition("the whole run:")[2]
    counts = {line.split()[0]: int(line.split()[1]) for line in whole.splitlines() if line.startswith("probe.")}
    assert counts["probe.both-ways"] > 10
    assert 0 <= counts["probe.one-way"] - counts["probe.both-ways"] <= 1  # the last one may be half reported
    assert list(folder.iterdir()) == []  # the channel is gone


def test_a_side_that_stops_answering_is_named(run: Callable[..., Running]) -> None:
    answering = subprocess.Popen([*CLI, "ping", "--answer"])
    try:
        monitor = run("--probe")
        monitor.until_has("probe.one-way")
        os.kill(answering.pid, signal.SIGSTOP)
        assert "NO ANSWER to a probe for 1" in monitor.until_has("NO ANSWER")
        assert monitor.end() == 1
    finally:
        answering.kill()
        answering.wait()


def test_probes_without_an_answer(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["monitor", "--hiccup", "0", "--probe", "--seconds", "2"]) == 1
    assert "no probe was answered; does flyring ping --answer run?" in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_the_channel_of_the_probes_is_in_use(capfd: pytest.CaptureFixture[str]) -> None:
    with Channel.create("demo", "inbox", capacity=4096):
        assert main(["monitor", "--hiccup", "0", "--probe", "--seconds", "1"]) == 1
    out, err = capfd.readouterr()
    assert "in use for something else" in err
    assert "MONITOR has lost its process probe" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--hiccup", "-1"], "hiccup"),
        (["--interval", "0"], "interval"),
        (["--seconds", "nan"], "seconds"),
        (["--probe-interval", "0"], "probe_interval"),
        (["--hiccup", "0"], "there is nothing to watch"),
        (["missing"], "missing"),
        (["no name"], "must be 1 to 64"),
        (["--log", "/proc/x/y"], "/proc/x/y"),
        (["--svg", "/proc/x/y"], "/proc/x/y"),
    ],
)
def test_wrong_arguments(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monitor", "--seconds", "1", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "flyring.cli.monitor_record", raising=False)
    monkeypatch.setitem(sys.modules, "hdrh.histogram", None)
    assert main(["monitor", "--seconds", "1"]) == 2
    assert "pip install 'flyring[monitor]'" in capsys.readouterr().err
