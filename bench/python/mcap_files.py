# SPDX-License-Identifier: Apache-2.0
"""MCAP's own library for Python: its writer, in chunks and without compression, and its reader that needs no index. A
file for each slice, finished when all is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from harness import Contender, Setup
from mcap import __version__
from mcap.reader import NonSeekingReader
from mcap.writer import CompressionType, Writer


class Mcap(Contender):
    scenarios = ("append", "replay")
    texts = {
        "produce": """
            add, channel, finish = begin()
            start = clock()
            for message in islice(outgoing, n):
                now = time_ns()
                add(channel, now, message, now)
            result = clock() - start
            add(channel, 0, end, 0)
            finish()
        """
    }
    send = "raise NotImplementedError"
    load = "next_message = reading()"
    receive = "got = next_message()"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.slice = 0
        self.file: BinaryIO | None = None

    @property
    def path(self) -> Path:
        return Path(self.setup.options.get("files", self.setup.dir), f"{self.slice}.mcap")

    def names(self) -> dict[str, Any]:
        import time

        return {"begin": self.begin, "reading": self.reading, "time_ns": time.time_ns}

    def begin(self) -> tuple[Any, int, Any]:
        self.file = open(self.path, "wb")
        writer = Writer(self.file, compression=CompressionType.NONE)
        writer.start()
        channel = writer.register_channel("bench", "raw", 0)

        def finish() -> None:
            writer.finish()
            assert self.file
            self.file.close()

        return writer.add_message, channel, finish

    def reading(self) -> Any:
        """Returns a function that returns the content of the next message."""
        if self.setup.producer:
            return None

        def contents() -> Iterator[bytes]:
            with open(self.path, "rb") as file:
                for _, _, message in NonSeekingReader(file).iter_messages(log_time_order=False):
                    yield message.data

        return contents().__next__

    def slice_ends(self) -> None:
        if not self.setup.producer:
            self.path.unlink()
        self.slice += 1

    def version(self) -> str:
        return str(__version__)
