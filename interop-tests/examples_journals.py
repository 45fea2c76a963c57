# SPDX-License-Identifier: Apache-2.0
"""Examples of examples/ whose programs share a journal in mixed languages: a persistent queue, and events that are
kept."""

from __future__ import annotations

import re
import signal
import subprocess

import flyring
from examples_build import LANGUAGES
from examples_streams import PATIENCE, first_line, other, printed, programs_of


def rest(program: subprocess.Popen[str]) -> list[str]:
    """The lines behind those that ``first_line`` has read, of a program that ends by itself."""
    assert program.stdout is not None
    lines = program.stdout.read().splitlines()
    return lines if program.wait(PATIENCE) == 0 else [*lines, f"status {program.returncode}"]


def persistent_queue(worker: str) -> str | None:
    """Programs in all languages push. A worker is killed within a job, and one in another language does that job again,
    and all others once."""
    jobs = {language: [f"{language} {i}" for i in range(3)] for language in LANGUAGES}
    with programs_of("persistent-queue") as programs:
        for language in LANGUAGES:
            if wrong := printed(programs.start(language, "push", *jobs[language])):
                return f"push in {language} printed {wrong}"
        every = [job for language in LANGUAGES for job in jobs[language]]
        killed = programs.start(worker, "work", 0.2)
        begun = [first_line(killed) for _ in range(3)]
        if begun != [f"begun: {every[0]}", f"done: {every[0]}", f"begun: {every[1]}"]:
            return f"work in {worker} printed {begun}"
        killed.send_signal(signal.SIGSTOP)
        told = f"process {killed.pid} is at work"
        if (refused := printed(programs.start(other(worker), "work", 0))) != [told, "status 1"]:
            return f"a second worker in {other(worker)} printed {refused}"
        killed.kill()
        killed.wait()
        shown = f"{len(every) - 1} of {len(every)} jobs are not done"
        for language in LANGUAGES:
            if (lines := printed(programs.start(language, "show"))) != [shown]:
                return f"show in {language} printed {lines}, not {shown}"
        next_worker = programs.start(other(worker), "work", 0)
        programs.start(worker, "push", "stop").wait()
        wanted = [f"{what}: {job}" for job in [*every[1:], "stop"] for what in ("begun", "done")]
        if (lines := printed(next_worker)) != wanted:
            return f"the next worker in {other(worker)} printed {lines}, not {wanted}"
    return None


def event_history(writer: str) -> str | None:
    """Readers in all languages follow live. The writer is killed, and one in another language goes on; late readers in
    all languages begin at a time."""
    last = 120
    with programs_of("event-history") as programs:
        tails = {language: programs.start(language, "tail", last) for language in LANGUAGES}
        for language, each in tails.items():
            if (line := first_line(each)) != "waits behind event 0":
                return f"tail in {language} printed {line}"
        killed = programs.start(writer, "write", 1_000_000, 100)
        if (line := first_line(killed)) != "begins behind event 0":
            return f"write in {writer} printed {line}"
        next_writer = programs.start(other(writer), "write", last, 1000)
        if (line := first_line(next_writer)) != f"waiting: the writer is process {killed.pid}":
            return f"the next writer in {other(writer)} printed {line}"
        heads = {language: [first_line(each) for _ in range(10)] for language, each in tails.items()}
        killed.kill()
        begins = re.fullmatch(r"begins behind event (\d+)", line := first_line(next_writer))
        if begins is None or not 10 <= int(begins[1]) < last:
            return f"the next writer in {other(writer)} printed {line}"
        if wrong := rest(next_writer):
            return f"the next writer in {other(writer)} printed {wrong}"
        events = [f"event {number}" for number in range(1, last + 1)]
        for language, each in tails.items():
            if (lines := [*heads[language], *rest(each)]) != events:
                return f"tail in {language} printed {lines}"
        with (
            flyring.Journal.open(programs.channels / "event-history.journal", read_only=True) as journal,
            journal.reader(flyring.JournalStart.at_number(int(begins[1]))) as reader,
        ):
            first = reader.take()  # the next writer's
            assert first is not None
            when = first.time
        for language in LANGUAGES:
            if (lines := printed(programs.start(language, "since", when))) != events[int(begins[1]) :]:
                return f"since in {language} printed {lines}"
    return None
