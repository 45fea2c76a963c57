# SPDX-License-Identifier: Apache-2.0
"""``flyring ping``: with itself, with the demo program of Python, and without an answer. The readme suite runs it with
the demo programs of the other languages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flyring import Channel
from flyring.cli import main

CLI = [sys.executable, "-m", "flyring.cli", "ping"]


def pinged(capsys: pytest.CaptureFixture[str], other: list[str], *arguments: str) -> str:
    capsys.readouterr()
    answering = subprocess.Popen(other)
    try:
        assert main(["ping", "--count", "50", "--timeout", "30", *arguments]) == 0
        assert answering.wait(30) == 0  # the end of the asking side ends it
    finally:
        answering.kill()
        answering.wait()
    return capsys.readouterr().out


def test_with_itself(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    text = pinged(capsys, [*CLI, "--answer"])
    assert text.startswith("50 round trips of 32 bytes to pid ")
    assert "p50" in text and "max" in text
    assert list(folder.iterdir()) == []  # the channel is gone


def test_with_the_demo_program_in_any_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = [sys.executable, "-m", "flyring.demo", "pong", "--channel", f"{tmp_path}/p.ring", "--size", "100"]
    arguments = (str(tmp_path), "--channel", "p", "--size", "100", "--json")
    document = json.loads(pinged(capsys, [*other, "--wait", "block"], *arguments))
    assert (document["version"], document["count"], document["size"]) == (1, 50, 100)
    assert 0 < document["p50"] <= document["p99"] <= document["max"]


def test_without_an_answer(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["ping", "--timeout", "0.1"]) == 1
    assert "no answer within 0.1 s" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_channel_of_another_shape_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("mine", "inbox", capacity=4096) as channel:
        assert main(["ping", "--channel", "mine"]) == 2
        assert "in use for something else" in capsys.readouterr().err
        with Channel.open("mine") as still:
            assert still.id == channel.id


@pytest.mark.parametrize("arguments", [("--count", "0"), ("--size", "31")])
def test_what_cannot_be(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert main(["ping", *arguments]) == 2
    assert arguments[0].removeprefix("--") in capsys.readouterr().err
