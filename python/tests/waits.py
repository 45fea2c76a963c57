# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of waiting: the words (spec/channel.md 6.16), and a call that waits in another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flyring import Channel, Publisher, layout


def word(channel: Channel, offset: int) -> int:
    return channel._attached.memory.load32(channel.header.control_offset + offset)


def data_asleep(channel: Channel) -> int:
    """Returns whether a reader of ring 0 may be asleep."""
    return word(channel, layout.CONTROL_DATA_ASLEEP) & 1


def room_asleep(channel: Channel) -> int:
    return word(channel, layout.CONTROL_ROOM_ASLEEP) & 1


def until(true: Callable[[], Any]) -> None:
    give_up = time.monotonic() + 10
    while not true():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.0005)


class Waits:
    """A call in another thread, its result, and the time of its end."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = 0.0
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        self.ended = time.monotonic()

    def end(self) -> Any:
        self._thread.join(10)
        assert not self._thread.is_alive(), "it still waits"
        if self.error is not None:
            raise self.error
        return self.result


@contextmanager
def sleeping_reader(name: str = "sleeps", **options: Any) -> Iterator[tuple[Channel, Any, Publisher, Waits]]:
    """A reader that sleeps without a limit, in a channel with one publisher that wakes it."""
    with Channel.create(name, "broadcast", capacity=4096, **options) as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        waits = Waits(lambda: subscriber.take(timeout=None))
        until(lambda: data_asleep(channel))
        yield channel, subscriber, publisher, waits
        waits._thread.join(10)
