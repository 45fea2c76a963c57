# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: each state is made. ``flyring top`` and ``flyring monitor`` must print what the page shows,
and the command on the page must mend it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import monitors
from conftest import Child
from flyring import Channel
from flyring.cli import main
from flyring.cli.doctor import doctor
from flyring.cli.doctor_machine import Machine
from flyring.cli.top import arranged, cells, recent
from flyring.cli.top_model import Model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
STATE = re.compile(r"^\*\*([^*]+)\.\*\*((?:(?!^\*\*|^## ).)*)", re.S | re.M)
BLOCK = re.compile(r"^```(text|sh)\n(.*?)^```$", re.S | re.M)


@dataclass
class Told:
    """What the page says about a state: lines of top, of the monitor and of doctor, and the commands that mend it."""

    top: list[str]
    monitor: list[str]
    doctor: list[str]
    mend: str


def told(text: str) -> Told:
    blocks = dict(BLOCK.findall(text))
    pictures: dict[str, list[str]] = {"top": [], "monitor": [], "doctor": []}
    for line in blocks["text"].splitlines():
        name, _, picture = line.partition(":")
        pictures[name].append(picture.strip())
    return Told(**pictures, mend=blocks["sh"])


TOLD = {name: told(text) for name, text in STATE.findall(PAGE.read_text("utf-8"))}

READER = """
    import sys
    from flyring import Channel
    with Channel.open("ticks") as channel:
        reader = channel.subscriber(sys.argv[1], kept=sys.argv[1] == "ledger")
        print("there", flush=True)
        input()
"""
PUBLISHER = """
    from flyring import Channel
    with Channel.open("ticks") as channel:
        publisher = channel.publisher("feed")
        publisher.offer(b"x")
        print("there", flush=True)
        input()
"""
DASHBOARD = """\
import os, time
from flyring import Channel
with open("dashboard.pid", "w") as file:
    file.write(str(os.getpid()))
with Channel.open("ticks") as channel, channel.subscriber("dashboard") as reader:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        reader.poll(lambda message: None, timeout=0.1)
"""
BEN = """
    from flyring import Channel
    with Channel.open("jobs") as jobs, jobs.worker("ben") as worker:
        print("there", flush=True)
        while (job := worker.take(0.1)) is None:
            pass
        input()
"""
AGAIN = """
    import sys, time
    from flyring import Channel, NoSuchChannelError
    def feed(channel):
        with channel.publisher("feed") as publisher:
            while not channel.stats().successor:
                for _ in range(200):
                    publisher.offer(bytes(100))
                time.sleep(0.02)
    def viewer(channel):
        lost = channel.counters().allocate("lost viewer")
        reader = channel.lossy_subscriber()
        while not channel.stats().successor:
            reader.poll(lambda message: None, limit=100000)
            lost.set(reader.lost_messages(0))
            time.sleep(0.02)
    while True:
        try:
            with Channel.open("ticks") as channel:
                print("there", flush=True)
                globals()[sys.argv[1]](channel)
        except NoSuchChannelError:
            time.sleep(0.01)
"""
"""A feed and a viewer that open the channel again when it was replaced."""


class Scene:
    """A channel whose users make a state, and the model that looks at it."""

    def __init__(self, child: Callable[..., Child], stack: ExitStack) -> None:
        self.child, self.stack = child, stack
        self.ticks = stack.enter_context(Channel.replace("ticks", "broadcast", publishers=1, capacity=4096))
        self.model = Model(None, None)
        stack.callback(self.model.close)

    def process(self, code: str, *arguments: str) -> Child:
        one = self.child(code, *arguments)
        assert one.line() == "there"
        return one

    def fill(self) -> None:
        publisher = self.stack.enter_context(self.ticks.publisher("feed"))
        while publisher.offer(bytes(100)):
            pass

    def lines(self) -> list[str]:
        self.model.look()
        rows = [" ".join(cells(row)) for row in arranged(self.model.rows(), "channel")]
        return rows + recent(self.model)


def blocked(scene: Scene) -> None:
    scene.process(READER, "dashboard")
    scene.fill()


def stopped(scene: Scene) -> None:
    reader = scene.process(READER, "dashboard")
    reader.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, reader.process.pid, os.WSTOPPED | os.WNOWAIT)
    scene.stack.callback(reader.process.send_signal, signal.SIGCONT)


def hung(scene: Scene) -> None:
    scene.process(READER, "dashboard")
    scene.process(PUBLISHER)
    scene.model.look()
    time.sleep(1.1)


def dead(scene: Scene) -> None:
    publisher = scene.process(PUBLISHER)
    scene.model.look()
    publisher.kill()


def kept(scene: Scene) -> None:
    reader = scene.process(READER, "ledger")
    scene.process(PUBLISHER)
    reader.kill()


def no_readers(scene: Scene) -> None:
    scene.process(PUBLISHER)


def lapped(scene: Scene) -> None:
    scene.process(AGAIN, "feed")
    scene.process(AGAIN, "viewer")
    until(lambda: any("lossy" in line for line in scene.lines()))
    time.sleep(0.3)


def replaced(scene: Scene) -> None:
    scene.process(READER, "dashboard")
    scene.model.look()
    scene.stack.enter_context(Channel.replace("ticks", "broadcast", publishers=1, capacity=4096))


def job_in_hand(scene: Scene) -> None:
    jobs = scene.stack.enter_context(Channel.create("jobs", "queue", producers=1, workers=2, capacity=4096))
    producer = scene.stack.enter_context(jobs.publisher("front"))
    producer.offer(b"x")
    worker = scene.stack.enter_context(jobs.worker("ann"))
    job = worker.take()
    assert job is not None
    scene.process(BEN)


STATES: dict[str, Callable[[Scene], None]] = {
    "Blocked": blocked,
    "Full": blocked,
    "Stopped": stopped,
    "Hung": hung,
    "Dead": dead,
    "Kept, no owner": kept,
    "No readers": no_readers,
    "Lapped": lapped,
    "Replaced": replaced,
    "Job in hand": job_in_hand,
}


def pattern(picture: str) -> re.Pattern[str]:
    """In a picture "..." stands for anything, and spaces do not count."""
    words = [re.escape(re.sub(r"\s+", " ", part.strip())) for part in picture.split("...")]
    return re.compile(r"\s*" + ".*".join(words))


def shows(picture: str, lines: list[str]) -> bool:
    return any(pattern(picture).fullmatch(re.sub(r"\s+", " ", line).strip()) for line in lines)


@contextmanager
def scene_of(child: Callable[..., Child]) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(child, stack)


class Monitor(monitors.Monitor):
    def __init__(self, *arguments: str) -> None:
        super().__init__(*arguments, "--repeat", "0", "--seconds", "30")

    def opens(self, path: Path) -> None:
        """Waits until it has opened the channel."""
        end = time.monotonic() + 30
        while str(path) not in Path(f"/proc/{self.process.pid}/maps").read_text():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.01)

    def until_like(self, wanted: re.Pattern[str]) -> str:
        """Reads lines up to one that is like this behind its time."""
        return self.until(lambda line: wanted.fullmatch(line.partition(" ")[2].rstrip()), wanted.pattern)


@pytest.fixture
def monitor() -> Iterator[Callable[..., Monitor]]:
    with monitors.started(Monitor) as start:
        yield start


@pytest.fixture
def mended(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Runs the page's commands. dashboard.py is the reader's program; it ends with the test."""
    (tmp_path / "dashboard.py").write_text(DASHBOARD)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def mend(commands: str, seen: str) -> None:
        pids = re.findall(r"pid (\d+)", seen)
        script = re.sub(r"\bPID\b", pids[-1] if pids else "PID", commands)
        quiet = subprocess.DEVNULL
        subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True, stdout=quiet)

    yield mend
    if (pid := tmp_path / "dashboard.pid").exists():
        os.kill(int(pid.read_text()), signal.SIGKILL)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_page_has_each_state() -> None:
    assert set(TOLD) == {*STATES, "Slow core"}
    assert [name for name, one in TOLD.items() if not one.monitor] == ["Job in hand"]
    assert all(one.top or one.doctor for one in TOLD.values())


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_shown_and_mended(
    name: str,
    child: Callable[..., Child],
    monitor: Callable[..., Monitor],
    mended: Callable[..., None],
    folder: Path,
) -> None:
    page = TOLD[name]
    with scene_of(child) as scene:
        watch = monitor("ticks", "--hiccup", "0")
        watch.opens(folder / "ticks.ring")
        for picture in page.top:
            assert not shows(picture, scene.lines()), "it is shown before the state is made"
        STATES[name](scene)
        lines = scene.lines()
        for picture in page.top:
            assert shows(picture, lines), f"{picture!r} is not in {lines}"
        seen = [watch.until_like(pattern(picture)) for picture in page.monitor]
        mended(page.mend, "".join(seen))
        if name == "Replaced":  # not a state of the channel, but of those who have the old one
            until(lambda: any("sub 0 dashboard" in line for line in scene.lines()))
            assert main(["monitor", "ticks", "--hiccup", "0", "--seconds", "1.5"]) == 0
            return
        if name == "Lapped":
            watch.until_like(pattern("REPLACED ticks: ..."))
            until(lambda: any("lost 0 in all" in line for line in scene.lines()))
            assert not any("LAPPED" in line for line in scene.lines())
            watch.end()
            assert not any("LAPPED" in line for line in watch.lines[-2:])
            return
        now = [picture for picture in page.top if "s ago" not in picture]
        until(lambda: not any(shows(picture, scene.lines()) for picture in now))
        for picture in page.monitor:
            state = re.match(r"[A-Z ]+(?= )", picture)
            assert state is not None
            watch.until_like(pattern(f"ENDED {state[0]} ..., after ..."))
        assert watch.end() == (1 if page.monitor else 0)


def test_a_core_that_a_process_holds_is_shown_and_mended(
    child: Callable[..., Child], monitor: Callable[..., Monitor], mended: Callable[..., None]
) -> None:
    page = TOLD["Slow core"]
    hog = """
        import os, sys
        from flyring import Channel
        os.sched_setaffinity(0, [int(sys.argv[1])])
        publisher = Channel.open("ticks").publisher("hog")
        print("there", flush=True)
        while True:
            pass
    """
    core = str(min(os.sched_getaffinity(0)))
    with scene_of(child) as scene:
        hogs = [scene.process(hog, core)]
        watch = monitor("ticks", "--threshold", "1")
        held = re.compile(pattern(page.monitor[0]).pattern.replace("core .*", f"core {core} ", 1))
        seen = watch.until_like(held)
        mended(page.mend, seen)
        watch.end()
        again = monitor("ticks", "--threshold", "1")
        time.sleep(3)
        again.end()
        assert again.lines and not any("ran on it" in line for line in again.lines), again.lines
        assert hogs[0].process.poll() is None


def test_doctor_prints_what_the_page_shows_of_slow_cores(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = min(os.sched_getaffinity(0))
    for name, text in (
        ("proc/self/cgroup", "0::/"),
        ("sys/fs/cgroup/cpu.max", "150000 100000"),
        (f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor", "powersave"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    doctor(str(folder), False, Machine(str(tmp_path)))
    lines = capsys.readouterr().out.splitlines()
    for picture in TOLD["Slow core"].doctor:
        assert shows(picture, lines), picture
