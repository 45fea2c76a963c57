# SPDX-License-Identifier: Apache-2.0
"""What is damaged in a journal that a command reads around: each damage is told with its positions."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..journal import Journal
from ..journal_reader import JournalReader
from ..journal_seek import Start
from .report import printable


class Damage(NamedTuple):
    """The positions between which messages are damaged, and how many they were (-1: not known)."""

    begin: int
    end: int
    messages: int

    def __str__(self) -> str:
        many = "an unknown number of" if self.messages < 0 else self.messages
        return f"DAMAGED from {self.begin} to {self.end}: {many} messages"

    def json(self) -> dict[str, Any]:
        return {"from": self.begin, "to": self.end, "messages": self.messages}


@dataclass
class Damages:
    """Collects what is missing of a journal. ``tell``: says it on standard error at once."""

    path: str
    tell: bool = True
    found: list[Damage] = field(default_factory=list)
    trimmed: int = 0
    """Messages that were trimmed while they were read."""
    unknown: int = 0
    """Messages of a recording whose channel is not known, because its record is damaged."""

    def __bool__(self) -> bool:
        return bool(self.found or self.trimmed or self.unknown)

    def reader(self, journal: Journal, start: Start = "oldest") -> Reader:
        """Makes a reader that goes on behind what is damaged."""
        journal._check_open()
        reader = Reader(journal, False, True, "block")
        reader._damages = self
        try:
            reader._go_to(reader._find(start))
        except BaseException:
            reader.close()
            raise
        journal._users.add(reader)
        return reader

    def note(self, damage: Damage) -> None:
        if self.found and self.found[-1].begin == damage.begin:  # it was told while its end was not known
            if self.found[-1] == damage:
                return
            self.found.pop()
        self.found.append(damage)
        if self.tell:
            self.say(str(damage))

    def end(self, reader: Reader, unknown: int = 0) -> None:
        """Tells at the end of what is missing besides."""
        self.trimmed = reader.lost - sum(max(0, one.messages) for one in self.found)
        self.unknown = unknown
        if self.trimmed:
            self.say(f"{self.trimmed} messages were trimmed while they were read")
        if self.unknown:
            self.say(f"the channel of {self.unknown} messages is not known: its record is damaged")

    def say(self, text: str) -> None:
        sys.stdout.flush()
        print(f"flyring: {printable(self.path)}: {text}", file=sys.stderr, flush=True)


class Reader(JournalReader):
    """A reader that tells of what it skips."""

    __slots__ = ("_damages",)

    _damages: Damages

    def _skipped(self, end: int, messages: int) -> None:
        self._damages.note(Damage(self.position, end, messages))
