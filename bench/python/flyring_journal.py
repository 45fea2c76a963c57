# SPDX-License-Identifier: Apache-2.0
"""A Flyring journal for each direction. Options: `segment`, bytes of a segment; `helper`, 0 for none; `ahead`, how many
segments the helper keeps ready; `files`, another folder; `by`, how it appends."""

from __future__ import annotations

import os
import time
from itertools import cycle
from typing import Any

import flyring
from flyring_channel import POLL, TAKE, OfferPoll
from harness import DIFFERENT, BenchError, Contender, Setup

CLOCK_OFFER = """
    now()
    while offer(message) is None:
        pass
"""
SCENARIOS = ("rtt", "stream", "append", "replay")


class Clock(OfferPoll):
    """A ring, and a reading of the wall clock for each message, as a journal makes one."""

    scenarios = ("stream", "append", "replay")
    send = CLOCK_OFFER

    def names(self) -> dict[str, Any]:
        return super().names() | {"now": time.time_ns}


class Journal(Contender):
    """One message a call, in and out."""

    scenarios = SCENARIOS
    send = "append(message)"
    receive = TAKE

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.writer: flyring.JournalWriter | None = None
        self.reader: flyring.JournalReader | None = None
        if setup.producer or not setup.streaming:
            self.out = self.open("a" if setup.producer else "b")
            pinned = os.sched_getaffinity(0)
            os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the helper's thread inherits the cores
            helper, ahead = setup.options.get("helper", "1") != "0", int(setup.options.get("ahead", 1))
            self.writer = self.out.writer("bench", helper=helper, ahead=ahead)
            os.sched_setaffinity(0, pinned)
        if not setup.producer or not setup.streaming:
            self.into = self.open("b" if setup.producer else "a")
            self.reader = self.into.reader("newest")

    def open(self, name: str) -> flyring.Journal:
        folder, segment = self.setup.options.get("files", self.setup.dir), self.setup.options.get("segment", 1 << 26)
        return flyring.Journal.open_or_create(f"{folder}/{name}.journal", segment_size=int(segment))

    def names(self) -> dict[str, Any]:
        names: dict[str, Any] = {"limit": 256}
        if self.writer:
            names |= {"append": self.writer.append, "append_many": self.writer.append_many}
        if self.reader:
            names |= {"take": self.reader.take, "poll": self.reader.poll}
        return names

    def slice_ends(self) -> None:
        """Removes what was read, so that files do not grow without end."""
        if self.writer:
            self.writer.sync()
        if self.reader:
            self.into.trim(position=self.reader.position)

    def close(self) -> None:
        for journal in (getattr(self, "out", None), getattr(self, "into", None)):
            if journal:
                journal.close()

    def version(self) -> str:
        return flyring.__version__


class JournalPoll(Journal):
    """A handler called for each message in, of up to 256 a call."""

    scenarios = ("stream", "append", "replay")
    load, receive, content = OfferPoll.load, POLL, OfferPoll.content
    same = same_word = OfferPoll.same
    texts = {"consume": OfferPoll.texts["consume"]}

    def names(self) -> dict[str, Any]:
        return super().names() | {"checker": lambda must_be_end: OfferPoll.checker(self, must_be_end)}  # type: ignore[arg-type]


class JournalBatch(JournalPoll):
    """So many messages a call of append_many."""

    append_texts = """
        following = cycle(batches).__next__
        start = clock()
        for left in range(n, 0, -batch):
            append_many(following() if left >= batch else following()[:left])
        result = clock() - start
        append(end)
    """
    texts = JournalPoll.texts | {"produce": append_texts}

    def names(self) -> dict[str, Any]:
        batch = int(self.setup.options.get("batch", 16))
        if DIFFERENT % batch:
            raise BenchError(f"batch={batch} does not divide {DIFFERENT}")
        whole = self.messages(self.setup.number).whole
        batches = [tuple(whole[i : i + batch]) for i in range(0, DIFFERENT, batch)]
        return super().names() | {"batch": batch, "batches": batches, "cycle": cycle}
