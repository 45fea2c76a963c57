# SPDX-License-Identifier: Apache-2.0
"""Examples of examples/ whose programs stream to each other in mixed languages: market data, order gateway,
images, and members of a mesh."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import flyring
from examples_build import BUILD, LANGUAGES, commands

PATIENCE = 60  # seconds
NEEDS = {"images": 80 << 20}  # bytes of channels, of examples that need more than a few MiB


def channel_folder(example: str) -> tempfile.TemporaryDirectory[str]:
    """Returns a new folder for channels: in /dev/shm, or where temporary files are if it has too little space. In a
    container it has 64 MiB unless another size was asked for."""
    space = os.statvfs("/dev/shm")
    fits = space.f_bavail * space.f_frsize >= NEEDS.get(example, 0)
    return tempfile.TemporaryDirectory(prefix="flyring-examples-", dir="/dev/shm" if fits else None)


class Programs:
    """Programs of one example that share a folder of channels."""

    def __init__(self, example: str, channels: str) -> None:
        self.commands = commands(example)
        self.folder = BUILD / example
        self.channels = Path(channels)
        self.environment = os.environ | {"FLYRING_DIR": channels}
        self.running: list[subprocess.Popen[str]] = []

    def start(self, language: str, *arguments: object) -> subprocess.Popen[str]:
        self.running.append(
            subprocess.Popen(
                [*self.commands[language], *map(str, arguments)],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return self.running[-1]


@contextmanager
def programs_of(example: str) -> Iterator[Programs]:
    with channel_folder(example) as channels:
        programs = Programs(example, channels)
        try:
            yield programs
        finally:
            for program in programs.running:
                program.kill()
                program.wait()


def printed(program: subprocess.Popen[str]) -> list[str]:
    """All lines of a program that ends by itself."""
    lines = program.communicate(timeout=PATIENCE)[0].splitlines()
    return lines if program.returncode == 0 else [*lines, f"status {program.returncode}"]


def first_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().rstrip()


def other(language: str, by: int = 1) -> str:
    return LANGUAGES[(LANGUAGES.index(language) + by) % len(LANGUAGES)]


def held_up(program: subprocess.Popen[str], ring: Path) -> list[str] | None:
    """Waits until the publisher of a ring waits for room. What the program printed if it ended instead."""
    late = time.monotonic() + PATIENCE
    with flyring.Channel.wait_for(ring, PATIENCE, read_only=True) as channel:
        while channel.stats().publishers[0].blocked_since == 0:
            if program.poll() is not None:
                return printed(program)
            if time.monotonic() > late:
                return ["nothing"]
            time.sleep(0.01)
    return None


def market_data(feed: str) -> str | None:
    """Readers in all languages get every quote; a dashboard misses some, and counts them."""
    count = 50_000
    with programs_of("market-data") as programs:
        dashboard = programs.start(other(feed), "dashboard", "0.3")
        if (line := first_line(dashboard)) != "0 read, 0 missed:":
            return f"the dashboard printed {line}"
        readers = {language: programs.start(language, "read") for language in LANGUAGES}
        feeding = programs.start(feed, "feed", count, 100_000, len(readers))
        if wrong := printed(feeding):
            return f"the feed printed {wrong}"
        for language, reader in readers.items():
            wanted = f"{count} quotes, 0 missing, the last one QUINCES 109/110"
            if (lines := printed(reader)) != [wanted]:
                return f"the reader in {language} printed {lines}"
        lines = printed(dashboard)
    prices = "APPLES 106/107 PEARS 107/108 PLUMS 108/109 QUINCES 109/110"
    counts = re.fullmatch(rf"(\d+) read, (\d+) missed: {prices}", lines[-1])
    if counts is None or int(counts[1]) + int(counts[2]) != count:
        return f"the dashboard in {other(feed)} printed {lines}"
    return None


def order_gateway(gateway: str) -> str | None:
    """Each order is answered once, in order. The engine comes to a full ring of orders, while the gateway is stopped:
    there is no room for all reports."""
    count = 5000
    with programs_of("order-gateway") as programs:
        sending = programs.start(gateway, "gateway", count)
        if wrong := held_up(sending, programs.channels / "orders.ring"):
            return f"the gateway printed {wrong}"
        sending.send_signal(signal.SIGSTOP)
        engine = programs.start(other(gateway), "engine")
        if wrong := held_up(engine, programs.channels / "reports.ring"):
            return f"the engine in {other(gateway)} printed {wrong}"
        sending.send_signal(signal.SIGCONT)
        lines = printed(sending)
        wanted = [f"order {number}: {'filled' if number % 2 else 'rejected'}" for number in range(count)]
        if lines != wanted:
            return f"the gateway printed {len(lines)} lines, the last ones {lines[-3:]}"
        lines = printed(engine)
    told = re.fullmatch(r"(\d+) orders; waited (\d+) times for room", lines[-1])
    if len(lines) != 1 or told is None or int(told[1]) != count or int(told[2]) < 1:
        return f"the engine in {other(gateway)} printed {lines}"
    return None


def images(camera: str) -> str | None:
    """Viewers in all languages: one looks at once, one is slow, one is overtaken. All images are whole. A viewer that
    pauses skips images, and sees the last one."""
    count = 20
    pauses = {camera: 0.1, other(camera): 0.4, other(camera, 2): 0}
    with programs_of("images") as programs:
        viewers = {language: programs.start(language, "view", pause) for language, pause in pauses.items()}
        for language, viewer in viewers.items():
            if (line := first_line(viewer)) != "waiting for the camera":
                return f"the viewer in {language} printed {line}"
        if wrong := printed(programs.start(camera, "camera", count, 30)):
            return f"the camera printed {wrong}"
        results = {language: printed(viewer) for language, viewer in viewers.items()}
    for language, lines in results.items():
        seen = [re.fullmatch(r"image (\d+)", line) for line in lines[:-1]]
        told = re.fullmatch(r"(\d+) seen, (\d+) skipped, (\d+) overwritten", lines[-1])
        if told is None or None in seen or len(seen) != int(told[1]) or sum(map(int, told.groups())) != count:
            return f"the viewer in {language} printed {lines}"
        numbers = [int(each[1]) for each in seen if each]
        if numbers != sorted(set(numbers)) or numbers[-1] != count - 1:
            return f"the viewer in {language} saw images {numbers}"
        if pauses[language] > 0 and int(told[2]) == 0:
            return f"the viewer in {language} skipped nothing: {lines}"
    return None


def mesh_member(stopped: str) -> str | None:
    """Members in all languages. One is stopped, goes on, and is killed; the monitor says which one. Another one
    leaves."""
    names = dict(zip(LANGUAGES, ("feed", "pricer", "risk"), strict=True))
    leaving = other(stopped)
    with programs_of("mesh-member") as programs:
        members = {
            language: programs.start(language, name, 4 if language == leaving else PATIENCE)
            for language, name in names.items()
        }
        for language, member in members.items():
            if (line := first_line(member)) != f"{names[language]} is process {member.pid}":
                return f"the member in {language} printed {line}"
        command = [sys.executable, "-u", "-m", "flyring.cli", "monitor", "--mesh", "mesh", "--hiccup", "0"]
        command += ["--repeat", "0", "--interval", "0.2", "--threshold", "200", "--seconds", str(PATIENCE)]
        programs.commands["monitor"] = command
        monitor = programs.start("monitor")
        assert monitor.stdout is not None
        seen: list[str] = []

        def monitor_says(pattern: str) -> bool:
            """Reads lines of the monitor until one is as wanted. False: it has ended."""
            for line in seen:
                if re.search(pattern, line):
                    return True
            for line in monitor.stdout or ():
                seen.append(line.rstrip())
                if re.search(pattern, line):
                    return True
            return False

        who = rf"{names[stopped]} of mesh \(pid {members[stopped].pid}\)"
        for step, wanted in (
            (None, f"wake.{names[stopped]} "),
            (signal.SIGSTOP, f"STOPPED {who}: no beat for .* the process is STOPPED"),
            (signal.SIGCONT, f"BEATS {who} again, after .*; it was stopped"),
            (signal.SIGKILL, f"DEAD {who}"),
            (None, f"LEFT {names[leaving]} of mesh"),
        ):
            if step is not None:
                members[stopped].send_signal(step)
            if not monitor_says(wanted):
                return f"the monitor did not print {wanted}: {seen}"
        if lines := [line for line in seen if re.search(r"(STOPPED|DEAD) ", line) and names[stopped] not in line]:
            return f"the monitor accused others than {names[stopped]}: {lines}"
        if (lines := printed(members[leaving])) != [f"{names[leaving]} leaves after some beats"]:
            return f"the member in {leaving} printed {lines}"
    return None
