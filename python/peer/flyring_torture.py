# SPDX-License-Identifier: Apache-2.0
"""A worker of the SIGKILL torture. interop-tests/torture/WORKER.md describes its work and its log."""

from __future__ import annotations

import sys
import time
from typing import Literal

import flyring
from flyring._core import crc32c
from flyring_torture_calls import Caller, Server
from flyring_torture_jobs import JobWorker
from flyring_torture_journals import Appender, Consumer, Follower, create_journal
from flyring_torture_publisher import Publisher
from flyring_torture_tables import Looker, Putter, create_table
from flyring_torture_worker import HEADER, NAP, AnyWorker, Kind, Phase, Worker, publisher_number


def create(orders: dict[str, str]) -> None:
    def numbers(*names: str) -> dict[str, int]:
        return {name: int(orders[name]) for name in names}

    path, options = orders["channel"], numbers("capacity", "alignment", "counters")
    if orders["kind"] == "service":
        delivery: Literal["at-most-once", "at-least-once"] = (
            "at-least-once" if orders["delivery"] == "at-least-once" else "at-most-once"
        )
        options |= numbers("clients", "max_outstanding")
        channel = flyring.Channel.create(path, "service", delivery=delivery, **options)
    elif orders["kind"] == "queue":
        producers, workers = int(orders["publishers"]), int(orders["subscribers"])
        channel = flyring.Channel.create(path, "queue", producers=producers, workers=workers, **options)
    else:
        kind: Literal["inbox", "broadcast"] = "inbox" if orders["kind"] == "inbox" else "broadcast"
        channel = flyring.Channel.create(path, kind, **options, **numbers("publishers", "subscribers"))
    with channel:
        channel.counters().allocate("common")


class Reader(Worker):
    """A reliable, kept or lossy subscriber."""

    handled = 0  # messages of this poll
    polled = 0  # when it began, ns

    def session(self) -> None:
        if self.orders["role"] == "lossy":
            self.read_lossy()
        else:
            self.subscribe(self.orders["role"] == "kept")

    def subscribe(self, kept: bool) -> None:
        side = self.side
        rings = None
        if not kept and self.channel.kind != "inbox" and self.below(3) == 0:
            rings = [ring for ring in range(self.channel.publishers) if self.below(2)] or None
        asked = time.monotonic_ns()
        self.enter(Phase.RESUMING if self.orders["resuming"] == "1" else Phase.JOINING, 2)
        subscriber = self.channel.subscriber(self.orders["name"] if kept else "", kept=kept, rings=rings)
        self.linger(2)
        for ring in subscriber.rings:
            position = subscriber.position(ring)
            now = time.monotonic_ns()
            side.log(Kind.JOINED, ring, subscriber.slot, position, subscriber.epoch, subscriber.kept, now, asked)
        self.orders["resuming"] = "1" if kept else "0"
        try:
            self.read(subscriber)
        except flyring.SlotLostError:
            side.log(Kind.SLOT_LOST, subscriber.slot, self.handled, time.monotonic_ns(), self.polled)
            subscriber.close()
            self.orders["resuming"] = "0"
        side.phase(Phase.WORKING)

    def read(self, subscriber: flyring.Subscriber) -> None:
        side = self.side
        polls = self.below(10) if self.below(10) == 0 else self.below(500)
        drained = False
        while not side.full() and not drained and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()  # before the poll: a message that this poll does not find was never published
            side.phase(Phase.POLLING)
            self.handled, self.polled = 0, time.monotonic_ns()
            if not subscriber.kept and self.below(8) == 0:
                message = subscriber.take()
                count = 0 if message is None else 1
                if message is not None:
                    self.handle(message)
            else:
                count = subscriber.poll(self.handle, 256 if self.below(4) == 0 else 1 + self.below(8))
            drained = last and count == 0
            side.phase(Phase.IDLE)
            if count == 0 or self.below(100) == 0:
                side.nap(NAP if count == 0 else self.random.random() * 3e-3)
        forget = subscriber.kept and self.channel.kind != "inbox" and not drained and self.below(4) == 0
        leaves = time.monotonic_ns()
        self.enter(Phase.FORGETTING if forget else Phase.LEAVING, 2)
        if forget:
            subscriber.forget()
            self.orders["resuming"] = "0"
        else:
            subscriber.close()
        self.linger(2)
        side.log(Kind.LEFT, forget, drained, 0, leaves)

    def read_lossy(self) -> None:
        side = self.side
        asked = time.monotonic_ns()
        self.enter(Phase.STARTING, 2)
        subscriber = self.channel.lossy_subscriber(start="oldest" if self.below(2) == 0 else "now")
        self.linger(2)
        for ring in subscriber.rings:
            side.log(Kind.JOINED, ring, 0, subscriber.position(ring), 0, 0, time.monotonic_ns(), asked)
        polls, drained = self.below(500), False
        began: set[int] = set()

        def handle(message: flyring.Message) -> None:
            if message.ring not in began:
                began.add(message.ring)
                side.log(Kind.FIRST, message.ring, subscriber.lost_bytes(message.ring))
            self.handle(message, Phase.READING, subscriber.lost_messages(message.ring) + self.fault("miscount"))

        while not side.full() and not drained and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()
            side.phase(Phase.READING)
            drained = subscriber.poll(handle, 1 + self.below(20)) == 0 and last
            side.phase(Phase.IDLE)
            if self.below(4) == 0:
                side.nap(self.random.random() * 2e-3)
        for ring in subscriber.rings:
            lost = subscriber.lost_messages(ring), subscriber.position(ring), subscriber.lost_bytes(ring)
            side.log(Kind.LOST, ring, *lost)
        subscriber.close()
        side.log(Kind.LEFT, 0, drained, 0, time.monotonic_ns())
        side.phase(Phase.WORKING)

    def handle(self, message: flyring.Message, phase: Phase = Phase.HANDLING, lost: int = 0) -> None:
        self.enter(phase)
        self.handled += 1
        publisher = epoch = sequence = 0
        state = 1
        if len(message) >= HEADER.size:
            with message.data as data:
                checksum, length, publisher, epoch, sequence = HEADER.unpack_from(data)
                state = int(length != len(message) or checksum != crc32c(data[4:]))
            sender = message.sender
            if not state and sender.epoch == 0:
                state = 3
            elif not state and (sender.epoch, publisher_number(sender.name)) != (epoch, publisher):
                state = 2
        if not self.fault("drop"):
            self.side.log(Kind.MESSAGE, message.ring, message.position, epoch, sequence, publisher, state, lost)
        if phase == Phase.HANDLING:
            self.count(1)
        self.side.phase(Phase.POLLING if phase == Phase.HANDLING else phase)


class Operator(Worker):
    """Evicts a slot once."""

    def run(self) -> None:
        slot, begins = int(self.orders["slot"]), time.monotonic_ns()
        self.side.log(Kind.EVICTED, slot, begins)
        self.enter(Phase.EVICTING, 2)
        self.channel.evict(slot)
        self.linger(2)
        self.side.log(Kind.EVICTED, slot, begins, time.monotonic_ns())
        self.side.phase(Phase.WORKING)
        self.channel.close()


def main() -> int:
    print("ready", flush=True)
    line = sys.stdin.readline()
    if not line:
        return 0
    orders = dict(word.split("=", 1) for word in line.split())
    if orders.get("kind") == "table":
        create_table(orders)
    elif orders.get("kind") == "journal":
        create_journal(orders)
    elif orders["role"] == "creator":
        create(orders)
    else:
        kinds: dict[str, type[AnyWorker]] = {
            "publisher": Publisher,
            "worker": JobWorker,
            "server": Server,
            "caller": Caller,
            "operator": Operator,
            "putter": Putter,
            "looker": Looker,
            "appender": Appender,
            "follower": Follower,
            "consumer": Consumer,
        }
        kinds.get(orders["role"], Reader)(orders).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
