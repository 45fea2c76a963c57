# SPDX-License-Identifier: Apache-2.0
"""``flyring top`` in a terminal: a pty of 80 columns, and the keys."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from textual.widgets import Static

from flyring import Channel, Heartbeat
from flyring.cli import main
from flyring.cli.top_live import Lines, Top
from flyring.cli.top_model import Model

CODE = "from flyring.cli import main; raise SystemExit(main(['top', '--interval', '0.1']))"


@contextmanager
def stalled() -> Iterator[None]:
    """Two channels: in one, a reader holds a publisher back."""
    with (
        Channel.create("quiet", "broadcast", publishers=1, subscribers=1, capacity=4096) as quiet,
        Channel.create("ticks", "broadcast", publishers=1, subscribers=1, capacity=4096) as ticks,
    ):
        users: list[Any] = [quiet.publisher("idle"), ticks.subscriber("slow"), ticks.publisher("feed")]
        while users[2].offer(bytes(100)):
            pass
        yield


def read_until(fd: int, wanted: str, seconds: float = 20) -> str:
    text, end = "", time.monotonic() + seconds
    while wanted not in text:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        assert ready, f"{wanted!r} is not in {text!r}"
        text += os.read(fd, 65536).decode("utf-8", "replace")
    return text


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork, with threads
def test_it_runs_in_a_terminal_and_ends_with_q() -> None:
    with stalled():
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(sys.executable, [sys.executable, "-c", CODE], os.environ | {"TERM": "xterm-256color"})
        try:
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
            text = read_until(fd, "BLOCKED by slow")
            assert "ticks" in text and "quiet" in text
            os.write(fd, b"q")
            while True:
                try:
                    if not os.read(fd, 65536):
                        break
                except OSError:  # the terminal is gone
                    break
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        finally:
            os.close(fd)


def lines_of(app: Top) -> list[str]:
    return [line for line, _ in app.query_one(Lines).lines]


def test_keys_sort_filter_and_open_one_channel() -> None:
    async def drive() -> None:
        app = Top(Model(None, None), 60, "channel", "")
        async with app.run_test(size=(80, 24)) as pilot:
            assert lines_of(app)[1].startswith("quiet") and all(len(line) <= 80 for line in lines_of(app))
            await pilot.press("s", "s", "s")
            assert (app.sort, lines_of(app)[1].split()[0]) == ("alarm", "ticks")
            await pilot.press("enter")
            assert not any(line.startswith("quiet") for line in lines_of(app))
            await pilot.press("escape", "slash", *"idle")
            assert "only lines with this text" in str(app.query_one("#keys", Static).render())
            await pilot.press("enter")
            assert "q quit" in str(app.query_one("#keys", Static).render())
            assert [line.split()[0] for line in lines_of(app)] == ["CHANNEL", "quiet"]
            await pilot.press("escape", "down", "down", "up", "q")
            assert len(lines_of(app)) > 3

    with stalled():
        asyncio.run(drive())


def test_p_opens_the_channel_with_the_curve_of_its_heartbeats() -> None:
    async def drive(heart: Heartbeat) -> None:
        app = Top(Model(None, None), 60, "channel", "")
        async with app.run_test(size=(80, 40)) as pilot:
            curve = app.query_one("#curve")
            assert not curve.display
            await pilot.press("p")
            assert app.channel == "quiet" and curve.display
            assert "no interval" in shown(app)
            end = time.monotonic() + 10
            while "quiet.loop" not in shown(app) and time.monotonic() < end:
                heart.beat()
                await asyncio.sleep(0.05)
                app.draw()
            assert "* quiet.loop" in shown(app) and "time between two beats" in shown(app)
            await pilot.press("p")
            assert not curve.display and app.beats is None
            await pilot.press("p", "escape")
            assert not curve.display and app.beats is None and not app.channel

    def shown(app: Top) -> str:
        return str(app.query_one("#curve", Static).render())

    with stalled(), Channel.open("quiet") as quiet, Heartbeat(quiet, "loop") as heart:
        asyncio.run(drive(heart))


def test_without_textual_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "flyring.cli.top_live", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["top"]) == 2
    assert "pip install 'flyring[top]'" in capsys.readouterr().err
