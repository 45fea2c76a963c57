# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/troubleshooting.md: each state is made, and ``flyring top`` must print what the page shows."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from conftest import Child
from flyring import Channel
from flyring.cli import main
from flyring.cli.doctor import doctor
from flyring.cli.doctor_machine import Machine
from flyring.cli.top import arranged, cells, recent
from flyring.cli.top_model import Model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
PICTURE = re.compile(r"^\*\*([^*]+)\.\*\*(?:(?!^\*\*|```).)*```text\n(.*?)^```$", re.S | re.M)
PICTURES = {name: picture.splitlines() for name, picture in PICTURE.findall(PAGE.read_text("utf-8"))}
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
    lost = scene.ticks.counters().allocate("lost viewer")
    scene.model.look()
    lost.set(10**6)


def replaced(scene: Scene) -> None:
    scene.model.look()
    scene.stack.enter_context(Channel.replace("ticks", "inbox", capacity=4096))


def job_in_hand(scene: Scene) -> None:
    jobs = scene.stack.enter_context(Channel.create("jobs", "queue", producers=1, workers=2, capacity=4096))
    producer = scene.stack.enter_context(jobs.publisher("front"))
    producer.offer(b"x")
    worker = scene.stack.enter_context(jobs.worker("ann"))
    job = worker.take()
    assert job is not None
    scene.stack.callback(job.done)


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


def shows(picture: str, lines: list[str]) -> bool:
    """Returns whether a line is as in the picture, in which "..." stands for anything, and spaces do not count."""
    words = [re.escape(re.sub(r"\s+", " ", part.strip())) for part in picture.split("...")]
    pattern = re.compile(r"\s*" + ".*".join(words))
    return any(pattern.fullmatch(re.sub(r"\s+", " ", line).strip()) for line in lines)


@contextmanager
def scene_of(child: Callable[..., Child]) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(child, stack)


def test_the_page_has_each_state() -> None:
    assert set(PICTURES) == {*STATES, "Slow core"}


@pytest.mark.parametrize("name", STATES)
def test_top_prints_what_the_page_shows(name: str, child: Callable[..., Child]) -> None:
    with scene_of(child) as scene:
        for picture in PICTURES[name]:
            assert not shows(picture, scene.lines()), "it is shown before the state is made"
        STATES[name](scene)
        lines = scene.lines()
        for picture in PICTURES[name]:
            assert shows(picture, lines), f"{picture!r} is not in {lines}"


def test_what_the_page_says_mends_it(child: Callable[..., Child]) -> None:
    with scene_of(child) as scene:
        blocked(scene)
        assert main(["evict", "ticks", "0"]) == 0
        assert not any("BLOCKED" in line or "FULL" in line for line in scene.lines())
    with scene_of(child) as scene:
        dead(scene)
        scene.process(PUBLISHER)
        assert not any("DEAD" in line for line in scene.lines())
    with scene_of(child) as scene:
        kept(scene)
        assert main(["evict", "ticks", "0"]) == 0
        assert not any("NO OWNER" in line for line in scene.lines())


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
    for picture in PICTURES["Slow core"]:
        assert shows(picture, lines), picture
