# SPDX-License-Identifier: Apache-2.0
"""Probes of ``flyring monitor``: messages that the answering side of ``flyring ping`` sends back, in any language."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Callable

from .. import BackPressuredError, NoFreeSlotError, Publisher, Subscriber, unlink
from ..demo.__main__ import open_channel
from ..demo.ping import MESSAGE, STOP, TIMED, content
from ..errors import ChannelDiffersError, NoSuchChannelError
from .monitor_workers import NO_ANSWER, ONE_WAY, Sender

FIRST = 0.05
"""Between two probes before the first answer, in seconds."""
START = 10.0
"""No answer at all is an outlier after this many seconds."""
PATIENCE = 1.0
"""A probe without an answer after this many seconds is an outlier."""


class Ended(BaseException):
    """The monitor ends its probes."""


def probes(name: str, interval: float) -> Callable[[Sender], None]:
    """Returns the work of the process that asks, one probe every ``interval`` seconds. The other side echoes a probe;
    the answer has when the other side received it, by the clock that all processes of a machine share."""
    options = argparse.Namespace(
        channel=name, capacity=1 << 20, alignment=64, typed=False, size=MESSAGE.size, wait="block"
    )

    def work(sender: Sender) -> None:
        def end(*_: object) -> None:
            raise Ended

        signal.signal(signal.SIGTERM, end)
        try:
            channel = open_channel(options)
        except ChannelDiffersError as error:
            raise ValueError(f"the probes' channel {name} is in use for something else: {error}") from error
        with contextlib.suppress(Ended), channel:
            try:
                publisher = channel.publisher("ping", wait="block")
                subscriber = channel.subscriber("ping", rings=[1 - publisher.ring], wait="block")
            except NoFreeSlotError as error:
                raise ValueError(f"another ping, or monitor, runs on {channel.path}: {error}") from error
            try:
                ask(publisher, subscriber, sender, interval)
            finally:
                with contextlib.suppress(BackPressuredError):
                    publisher.send(content(STOP, time.monotonic_ns(), 1, MESSAGE.size), 1, 0)
                with contextlib.suppress(NoSuchChannelError):
                    unlink(name)

    return work


def ask(publisher: Publisher, subscriber: Subscriber, sender: Sender, interval: float) -> None:
    """Sends probes until it is ended. A probe that finds no room, or no answer, is a record without a time. Before the
    first answer, which is not counted, the other side may take some seconds to start."""
    give_up = time.monotonic() + START
    while answer(subscriber, send(publisher), FIRST) is None:
        if time.monotonic() > give_up:
            sender.add(time.monotonic_ns(), round(START * 1e9), -1, NO_ANSWER)
            give_up += START
    due = time.monotonic()
    while True:
        sent = time.monotonic_ns()
        try:
            sent = send(publisher)
            receipt = answer(subscriber, sent, PATIENCE)
        except BackPressuredError:
            receipt = None
        now = time.monotonic_ns()
        if receipt is None:
            sender.add(now, now - sent, -1, NO_ANSWER)
        else:
            if receipt:
                sender.add(now, max(receipt - sent, 0), -1, ONE_WAY)
            sender.add(now, now - sent)
        due = max(due + interval, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0))


def send(publisher: Publisher) -> int:
    """Sends a probe, and returns its time. BackPressuredError."""
    sent = time.monotonic_ns()
    publisher.send(MESSAGE.pack(TIMED, sent, 1.0, 0), 1, PATIENCE)
    return sent


def answer(subscriber: Subscriber, sent: int, patience: float) -> int | None:
    """Waits for the answer to the probe of this time. Returns when the other side received it, 0 if it does not say
    that, and None if there is no answer."""
    give_up = time.monotonic() + patience
    while (message := subscriber.take(max(give_up - time.monotonic(), 0))) is not None:
        if len(message) >= MESSAGE.size:
            _, send_time, _, received = MESSAGE.unpack_from(message)
            if send_time == sent:
                return int(received)
    return None
