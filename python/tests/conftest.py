# SPDX-License-Identifier: Apache-2.0
"""Fixtures and helpers of the tests: a private folder for channels, the golden files, and child processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from flyring import Channel, Publisher, Subscriber, layout

SPEC = Path(__file__).resolve().parents[2] / "spec"
GOLDEN = sorted(path for path in SPEC.glob("golden/*/*.json") if path.parent.name not in ("refused", "dead"))

# Both checks are about wall-clock time, which means nothing on a busy machine.
settings.register_profile("flyring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("flyring")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private FLYRING_DIR on the shared-memory file system, without leftovers of other tests."""
    path = Path(tempfile.mkdtemp(prefix="flyring-python-test-", dir="/dev/shm"))
    monkeypatch.setenv("FLYRING_DIR", str(path))
    yield path
    shutil.rmtree(path)


def golden_id(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def own_rings(header: dict[str, Any], slot: int) -> range:
    """Returns the rings on which a subscriber slot of a golden file has a gate."""
    if header["kind"] != layout.KIND_SERVICE:
        return range(header["publishers"])
    clients = header["publishers"] // 2
    return range(clients + slot - 1, clients + slot) if slot else range(clients)


def load_golden(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


class Child:
    """A Python process that runs a piece of code and answers line by line."""

    def __init__(self, code: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the child ended with status {self.process.wait()}"
        return line.strip()

    def say(self, text: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kills the process by SIGKILL, and reaps it."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        out, _ = self.process.communicate(timeout=30)
        assert not out, out
        return self.process.returncode


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def start(code: str, *arguments: str) -> Child:
        children.append(Child(code, *arguments))
        return children[-1]

    yield start
    for one in children:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            if pipe is not None:
                pipe.close()


Pair = tuple[Channel, Publisher, Subscriber]


@contextmanager
def pair(capacity: int = 4096) -> Iterator[Pair]:
    """A broadcast channel with a publisher and a subscriber."""
    with Channel.create("life", "broadcast", capacity=capacity) as channel:
        yield channel, channel.publisher(), channel.subscriber()


def fill(publisher: Publisher) -> int:
    """Publishes until there is no room. Returns how many messages."""
    count = 0
    while publisher.offer(b"%08d" % count):
        count += 1
    return count


def in_child(work: Callable[[], None]) -> None:
    """Runs `work` in a forked child, which must end without an error."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def drain(subscriber: Subscriber) -> list[bytes]:
    got: list[bytes] = []
    while subscriber.poll(lambda message: got.append(bytes(message))):
        pass
    return got
