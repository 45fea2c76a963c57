# SPDX-License-Identifier: Apache-2.0
"""Hand-written Python: a mapping, and a memoryview of it cast to 64-bit words.

Correct only on x86, which keeps the order of stores and of loads. The files have the layout of the C++ contenders
bare-ring and raw-line.
"""

from __future__ import annotations

import mmap
import os
from typing import Any

from harness import Contender, Messages, Setup


def map_file(path: str, length: int) -> mmap.mmap:
    """Maps a zeroed file, which the first side makes."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, length)
        return mmap.mmap(fd, length, mmap.MAP_SHARED | mmap.MAP_POPULATE)
    finally:
        os.close(fd)


class Words(Contender):
    """In look mode a message is one word, which is written and read in place."""

    same_word = "got == expected"
    content = "bytes(got) if whole else got.to_bytes(8, 'little')"

    def outgoing(self, messages: Messages) -> tuple[list[Any], Any]:
        return (messages.whole, messages.end) if self.setup.whole else (messages.tags, 2**64 - 1)

    def expected(self, messages: Messages) -> list[Any]:
        return messages.whole if self.setup.whole else messages.tags


class Ring(Words):
    """Fixed slots of whole cache lines, each with a sequence word. The reader frees slots through a shared head.

    A message is copied by one assignment to a slice of the mapping, and out by one slice; slice objects are made once.
    """

    load = "sent, freed, received = state"
    save = "state[:] = sent, freed, received"
    release = "head_in[0] = received"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        slot = (setup.size + 8 + 63) & ~63
        self.slots = 64
        while self.slots * slot < 1 << 20:
            self.slots *= 2
        length = 4096 + self.slots * slot
        names = ("a", "b") if setup.producer else ("b", "a")
        self.out, self.into = (map_file(setup.path(name), length) for name in names)
        starts = [4096 + i * slot for i in range(self.slots)]
        self.sequences = [start // 8 for start in starts]
        self.payloads = [slice(s + 8, s + 8 + setup.size) if setup.whole else s // 8 + 1 for s in starts]
        self.state = [0, 0, 0]
        to, of = ("bytes_out", "bytes_in") if setup.whole else ("words_out", "words_in")
        self.send = f"""
            while sent - freed == slots:
                freed = words_out[0]
            slot = sent & mask
            {to}[payloads[slot]] = message
            sent += 1
            words_out[sequences[slot]] = sent
        """
        self.receive = f"""
            slot = received & mask
            at = sequences[slot]
            received += 1
            while words_in[at] != received:
                pass
            got = {of}[payloads[slot]]
        """

    def names(self) -> dict[str, Any]:
        words_in = memoryview(self.into).cast("Q")
        return {
            "state": self.state,
            "slots": self.slots,
            "mask": self.slots - 1,
            "sequences": self.sequences,
            "payloads": self.payloads,
            "bytes_out": self.out,
            "bytes_in": self.into,
            "words_out": memoryview(self.out).cast("Q"),
            "words_in": words_in,
            "head_in": words_in,
            "whole": self.setup.whole,
        }


class Line(Words):
    """One message at a time: a sequence word, and the payload behind it. There is no queue."""

    scenarios = ("rtt", "schedule")
    load = "sent, received = state"
    save = "state[:] = sent, received"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.gap = (setup.size + 8 + 4095) & ~4095
        self.file = map_file(setup.path("line"), 2 * self.gap)
        self.state = [0, 0]
        to, of = ("bytes_out", "bytes_in") if setup.whole else ("words_out", "words_in")
        self.send = f"""
            {to}[payload_out] = message
            sent += 1
            words_out[at_out] = sent
        """
        self.receive = f"""
            received += 1
            while words_in[at_in] != received:
                pass
            got = {of}[payload_in]
        """

    def names(self) -> dict[str, Any]:
        words = memoryview(self.file).cast("Q")
        out, into = (0, self.gap) if self.setup.producer else (self.gap, 0)
        payload_out, payload_in = (
            slice(at + 8, at + 8 + self.setup.size) if self.setup.whole else at // 8 + 1 for at in (out, into)
        )
        return {
            "state": self.state,
            "at_out": out // 8,
            "at_in": into // 8,
            "payload_out": payload_out,
            "payload_in": payload_in,
            "bytes_out": self.file,
            "bytes_in": self.file,
            "words_out": words,
            "words_in": words,
            "whole": self.setup.whole,
        }
