# SPDX-License-Identifier: Apache-2.0
"""A worker of the SIGKILL torture: interop-tests/torture/WORKER.md says what it does and what it writes down."""

from __future__ import annotations

import mmap
import os
import random
import struct
import sys
import time
from collections.abc import Callable
from typing import Final

import flyring
from flyring._core import crc32c

(WORKING, TAKING, RECOVERING, OFFERING, CLAIMING, WRITING, COMMITTING, ABORTING, IN_BATCH, HELD_BACK, CLOSING) = range(
    1, 12
)
(JOINING, RESUMING, POLLING, HANDLING, IDLE, LEAVING, FORGETTING, STARTING, READING, EVICTING) = range(12, 22)
(TAKEN, ACKNOWLEDGED, CLOSED, DEAD_WAIT, HELD, JOINED, MESSAGE, LEFT, EVICTED, SLOT_LOST, LOST) = range(1, 12)
HEADER: Final = struct.Struct("<IIqqq")  # checksum of what follows, length, publisher, epoch, sequence
NAP: Final = 20e-6


def run_delay() -> int:
    """What this thread waited for a processor, ns."""
    with open("/proc/thread-self/schedstat", "rb") as file:
        return int(file.read().split()[1])


class Side:
    """The file that outlives this process."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.words = memoryview(mmap.mmap(fd, 0)).cast("q")
        os.close(fd)
        self.count, self.room = 0, (len(self.words) - 512) // 8 - 300

    def phase(self, phase: int) -> None:
        self.words[0] = phase

    def stopped(self) -> bool:
        return self.words[1] != 0

    def full(self) -> bool:
        return self.count >= self.room

    def attempted(self, count: int) -> None:
        self.words[3] = count

    def log(self, *values: int) -> None:
        at = 512 + 8 * self.count
        for i, value in enumerate(values):
            self.words[at + i] = value
        self.count += 1
        self.words[2] = self.count


def create(orders: dict[str, str]) -> flyring.Channel:
    return flyring.Channel.create(
        orders["channel"],
        "inbox" if orders["kind"] == "inbox" else "broadcast",
        capacity=int(orders["capacity"]),
        alignment=int(orders["alignment"]),
        publishers=int(orders["publishers"]),
        subscribers=int(orders["subscribers"]),
        counters=0,
    )


class Worker:
    def __init__(self, orders: dict[str, str]) -> None:
        self.orders = orders
        self.side = Side(orders["side"])
        self.random = random.Random(int(orders["seed"]))
        role, name = orders["role"], orders["channel"]
        self.channel = create(orders) if role == "creator" else flyring.Channel.open(name, read_only=role == "lossy")
        self.id = int(orders["id"])
        self.epoch = self.sequence = self.handled = self.faults = 0
        self.filler = self.random.randbytes(self.channel.capacity // 4)

    def run(self) -> None:
        role = self.orders["role"]
        while role != "creator" and not (self.side.stopped() or self.side.full()):
            if role == "operator":
                self.evict()
                break
            if role == "publisher":
                self.publish()
            elif role == "lossy":
                self.read_lossy()
            else:
                self.subscribe(role == "kept")

    def below(self, bound: int) -> int:
        return int(self.random.random() * bound)

    def enter(self, phase: int, odds: int = 200) -> None:
        """Enters a phase, and now and then stays in it for a while, so that the driver can strike there."""
        self.side.phase(phase)
        self.linger(odds)

    def linger(self, odds: int = 200) -> None:
        if self.below(odds) == 0:
            time.sleep(self.random.random() * 4e-4)

    def fault(self, name: str) -> bool:
        if self.orders["fault"] != name:
            return False
        self.faults += 1
        return self.faults % 100 == 0

    # Publisher

    def length(self) -> int:
        most = self.channel.capacity // 4 - 8
        dice = self.below(100)
        if dice < 25:
            return HEADER.size
        if dice < 75:
            return HEADER.size + self.below(100)
        return HEADER.size + self.below(most // 4) if dice < 97 else most - self.below(2) * self.below(9)

    def message(self, length: int, sequence: int) -> bytearray:
        message = bytearray(self.filler[:length])
        HEADER.pack_into(message, 0, 0, length, self.id, self.epoch, sequence)
        if length > HEADER.size + 8:
            message[-8:] = sequence.to_bytes(8, "little", signed=True)
        message[:4] = crc32c(memoryview(message)[4:]).to_bytes(4, "little")
        if self.fault("torn"):
            message[-1] ^= 1
        return message

    def publish(self) -> None:
        side = self.side
        side.attempted(0)
        self.enter(RECOVERING if self.orders["recovering"] == "1" else TAKING, 2)
        publisher = self.channel.publisher(self.orders["name"])
        self.linger(2)
        self.orders["recovering"] = "0"
        self.epoch, self.sequence = publisher.epoch, 0
        side.log(TAKEN, publisher.ring, self.epoch, publisher.position, time.monotonic_ns(), self.id)
        side.phase(WORKING)
        for _ in range(self.below(20) if self.below(10) == 0 else self.below(600)):
            if side.stopped() or side.full():
                break
            dice = self.below(10)
            if dice < 4:
                self.offer(publisher)
            elif dice < 8:
                self.claim(publisher, dice == 7)
            else:
                self.batch(publisher, 1 + self.below(16))
            side.phase(WORKING)
            if self.below(64) == 0:
                time.sleep(self.random.random() * 1e-3)
            if self.fault("skip"):
                self.sequence += 1
            if self.fault("lost"):
                self.sequence += 1
                side.attempted(self.sequence)
                side.log(ACKNOWLEDGED, self.sequence, publisher.position, 1)
        leaves = time.monotonic_ns()
        self.enter(CLOSING, 2)
        publisher.close()
        self.linger(2)
        side.log(CLOSED, self.sequence, 0, 0, leaves)
        side.phase(WORKING)

    def insist(self, publisher: flyring.Publisher, attempt: Callable[[], bool]) -> None:
        """Calls attempt() until it succeeds, or until it is time to stop."""
        since = dead_since = delay = 0
        dead, first = -1, None
        while not attempt():
            self.side.phase(HELD_BACK)
            holder = publisher.held_by()
            if since == 0:
                since, first = time.monotonic_ns(), holder
            now_dead = holder.slot if holder and not holder.live and not holder.kept else -1
            if now_dead != dead:
                if dead >= 0:
                    self.side.log(DEAD_WAIT, dead, dead_since, time.monotonic_ns(), run_delay() - delay)
                dead, dead_since, delay = now_dead, time.monotonic_ns(), run_delay()
            if self.side.stopped():
                break
            time.sleep(NAP)
        if dead >= 0:
            self.side.log(DEAD_WAIT, dead, dead_since, time.monotonic_ns(), run_delay() - delay)
        if since and time.monotonic_ns() - since > 2_000_000:
            slot, live, kept = (first.slot, first.live, first.kept) if first else (-1, 0, 0)
            self.side.log(HELD, slot, since, time.monotonic_ns(), live, kept)

    def acknowledge(self, count: int, position: int) -> None:
        self.sequence += count
        self.side.log(ACKNOWLEDGED, self.sequence, position, count)

    def offer(self, publisher: flyring.Publisher) -> None:
        message, kind = self.message(self.length(), self.sequence), 1 + self.below(9)

        def attempt() -> bool:
            self.side.attempted(self.sequence + 1)
            self.enter(OFFERING)
            position = publisher.offer(message, kind)
            self.linger()
            if position > 0:
                self.acknowledge(1, position)
            self.side.attempted(self.sequence)
            return position > 0

        self.insist(publisher, attempt)

    def claim(self, publisher: flyring.Publisher, abort: bool) -> None:
        message = self.message(self.length(), -1 - self.sequence if abort else self.sequence)

        def attempt() -> bool:
            self.enter(CLAIMING)
            claim = publisher.claim(len(message))
            if claim is None:
                return False
            self.enter(WRITING)
            claim[:] = message
            if abort:
                self.enter(ABORTING, 50)
                claim.abort()
                self.linger(50)
                return True
            self.side.attempted(self.sequence + 1)
            self.enter(COMMITTING)
            position = claim.commit()
            self.linger()
            self.acknowledge(1, position)
            return True

        self.insist(publisher, attempt)

    def batch(self, publisher: flyring.Publisher, count: int) -> None:
        messages = [self.message(HEADER.size + self.below(200), self.sequence + i) for i in range(count)]

        def attempt() -> bool:
            self.side.attempted(self.sequence + len(messages))
            self.enter(IN_BATCH)
            taken = publisher.offer_batch(messages, 7)
            self.linger()
            del messages[:taken]
            if taken:
                self.acknowledge(taken, publisher.position)
            self.side.attempted(self.sequence)
            return not messages

        self.insist(publisher, attempt)

    # Subscribers

    def subscribe(self, kept: bool) -> None:
        side = self.side
        rings = None
        if not kept and self.channel.kind != "inbox" and self.below(3) == 0:
            rings = [ring for ring in range(self.channel.publishers) if self.below(2)] or None
        asked = time.monotonic_ns()
        self.enter(RESUMING if self.orders["resuming"] == "1" else JOINING, 2)
        subscriber = self.channel.subscriber(self.orders["name"] if kept else "", kept=kept, rings=rings)
        self.linger(2)
        for ring in subscriber.rings:
            position = subscriber.position(ring)
            now = time.monotonic_ns()
            side.log(JOINED, ring, subscriber.slot, position, subscriber.epoch, subscriber.kept, now, asked)
        self.orders["resuming"] = "1" if kept else "0"
        try:
            self.read(subscriber)
        except flyring.SlotLostError:
            side.log(SLOT_LOST, subscriber.slot, self.handled, 0, time.monotonic_ns())
            subscriber.close()
            self.orders["resuming"] = "0"
        side.phase(WORKING)

    def read(self, subscriber: flyring.Subscriber) -> None:
        side = self.side
        polls = self.below(10) if self.below(10) == 0 else self.below(500)
        drained = False
        while not side.full() and not drained and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()  # before the poll: what the poll does not find was never published
            side.phase(POLLING)
            self.handled = 0
            if not subscriber.kept and self.below(8) == 0:
                message = subscriber.take()
                count = 0 if message is None else 1
                if message is not None:
                    self.handle(message)
            else:
                count = subscriber.poll(self.handle, 256 if self.below(4) == 0 else 1 + self.below(8))
            drained = last and count == 0
            side.phase(IDLE)
            if count == 0 or self.below(100) == 0:
                time.sleep(NAP if count == 0 else self.random.random() * 3e-3)
        forget = subscriber.kept and not drained and self.below(4) == 0
        leaves = time.monotonic_ns()
        self.enter(FORGETTING if forget else LEAVING, 2)
        if forget:
            subscriber.forget()
            self.orders["resuming"] = "0"
        else:
            subscriber.close()
        self.linger(2)
        side.log(LEFT, forget, drained, 0, leaves)

    def read_lossy(self) -> None:
        side = self.side
        asked = time.monotonic_ns()
        self.enter(STARTING, 2)
        subscriber = self.channel.lossy_subscriber(start="oldest" if self.below(2) == 0 else "now")
        self.linger(2)
        for ring in subscriber.rings:
            side.log(JOINED, ring, 0, subscriber.position(ring), 0, 0, time.monotonic_ns(), asked)
        polls, drained = self.below(500), False

        def handle(message: flyring.Message) -> None:
            self.handle(message, READING, subscriber.lost_messages(message.ring) + self.fault("miscount"))

        while not side.full() and not drained and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()
            side.phase(READING)
            drained = subscriber.poll(handle, 1 + self.below(20)) == 0 and last
            side.phase(IDLE)
            if self.below(4) == 0:
                time.sleep(self.random.random() * 2e-3)
        for ring in subscriber.rings:
            side.log(LOST, ring, subscriber.lost_messages(ring), subscriber.position(ring))
        subscriber.close()
        side.log(LEFT, 0, drained, 0, time.monotonic_ns())
        side.phase(WORKING)

    def evict(self) -> None:
        slot, begins = int(self.orders["slot"]), time.monotonic_ns()
        self.side.log(EVICTED, slot, begins)
        self.enter(EVICTING, 2)
        self.channel.evict(slot)
        self.linger(2)
        self.side.log(EVICTED, slot, begins, time.monotonic_ns())
        self.side.phase(WORKING)

    def handle(self, message: flyring.Message, phase: int = HANDLING, lost: int = 0) -> None:
        self.enter(phase)
        self.handled += 1
        publisher = epoch = sequence = 0
        torn = 1
        if len(message) >= HEADER.size:
            with message.data as data:
                checksum, length, publisher, epoch, sequence = HEADER.unpack_from(data)
                torn = int(length != len(message) or checksum != crc32c(data[4:]))
            if not torn and message.sender.epoch not in (0, epoch):
                torn = 2
        if not self.fault("drop"):
            self.side.log(MESSAGE, message.ring, message.position, epoch, sequence, publisher, torn, lost)
        self.side.phase(POLLING if phase == HANDLING else phase)


def main() -> int:
    print("ready", flush=True)
    line = sys.stdin.readline()
    if line:
        worker = Worker(dict(word.split("=", 1) for word in line.split()))
        worker.run()
        worker.channel.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
