# SPDX-License-Identifier: Apache-2.0
"""Uses each journal in all ways in which a process can use it. Only the package's own errors may be raised."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from typing import Any
from uuid import UUID

import journal_inputs
from target import TOUCHED, write

from flyring import FlyringError, Journal, JournalStart, layout
from flyring._identity import Identity

OTHER_BOOT = Identity(boot_id=UUID(int=7))
POLLS = 40  # of one reader: a hostile journal may be long


def lay_out(path: str, content: bytes) -> Identity:
    """Makes the folder of an input. Returns the boot of its control file."""
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path)
    boot = OTHER_BOOT
    for name, (length, data) in journal_inputs.unpack(content).items():
        write(f"{path}/{name}", bytes(data))
        os.truncate(f"{path}/{name}", length)
        if name == "control":
            at = layout.HEADER_LENGTH + layout.JOURNAL_CONTROL_BOOT_ID
            boot = Identity(boot_id=UUID(bytes=bytes(data[at : at + 16].ljust(16, b"\0"))))
    return boot


def run(path: str, content: bytes) -> None:
    """Runs one input. ``path``: of a folder that only this process uses."""
    boot = lay_out(path, content)
    with contextlib.suppress(FlyringError), Journal.open(path, read_only=True, _identity=boot) as journal:
        TOUCHED["journal"] += 1
        read(journal)
    for identity in (boot, OTHER_BOOT):
        lay_out(path, content)
        with contextlib.suppress(FlyringError), Journal.open(path, _identity=identity) as journal:
            read(journal)
            tries(lambda one=journal: consume(one), lambda one=journal: append(one))  # type: ignore[misc]
            read(journal)
            tries(
                lambda one=journal: one.trim(consumed=True),  # type: ignore[misc]
                lambda one=journal: one.trim(position=70000),  # type: ignore[misc]
                lambda one=journal: one.trim(size=65536),  # type: ignore[misc]
                lambda one=journal: one.trim(before=1500),  # type: ignore[misc]
                lambda one=journal: one.change(max_size=1 << 20),  # type: ignore[misc]
                lambda one=journal: one.forget("one"),  # type: ignore[misc]
                lambda one=journal: one.push(b"x"),  # type: ignore[misc]
                lambda one=journal: consume(one),  # type: ignore[misc]
            )
    with contextlib.suppress(FlyringError):
        Journal.unlink(path)
    shutil.rmtree(path, ignore_errors=True)


def tries(*verbs: Callable[[], Any]) -> None:
    for verb in verbs:
        try:
            verb()
        except FlyringError as error:
            TOUCHED[f"journal-{error.code}"] += 1


def read(journal: Journal) -> None:
    starts: list[Any] = ["oldest", "newest"]
    starts += [JournalStart.at_position(p) for p in (64, 6400, 65536, 70400)]
    starts += [JournalStart.at_number(n) for n in (0, 20, 300)] + [JournalStart.at_time(1300)]
    tries(journal.stats)
    for start in starts:
        tries(lambda start=start: drain(journal, start))  # type: ignore[misc]
    tries(lambda: drain(journal, "oldest", skip_damaged=True), lambda: drain(journal, "oldest", durable=True))


def drain(journal: Journal, start: Any, **options: Any) -> None:
    def look(message: Any) -> None:
        TOUCHED["journal-message"] += 1
        bytes(message)

    with journal.reader(start, **options) as reader:
        for _ in range(POLLS):
            taken = reader.take()
            if taken is not None:
                look(taken)
            if reader.poll(look, 10) == 0 and taken is None:
                break
        TOUCHED["journal-cut"] += reader.cuts
        TOUCHED["journal-lost"] += reader.lost != 0


def consume(journal: Journal) -> None:
    for name in ("one", "new"):
        with contextlib.suppress(FlyringError), journal.consumer(name) as consumer:
            TOUCHED["consumer"] += 1
            consumer.peek()
            for _ in range(POLLS):
                if consumer.pop() is None:
                    break


def append(journal: Journal) -> None:
    with journal.writer(helper=False) as writer:
        TOUCHED["journal-writer"] += 1
        TOUCHED["journal-recovered"] += writer.recovery is not None
        writer.append(b"appended")
        writer.append_many([bytes(1000)] * 80)
        writer.claim(10).commit()
        writer.sync()
