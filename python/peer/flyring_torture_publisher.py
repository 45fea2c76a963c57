# SPDX-License-Identifier: Apache-2.0
"""The publisher of the SIGKILL torture (interop-tests/torture/WORKER.md)."""

from __future__ import annotations

import time
from collections.abc import Callable

import flyring
from flyring._core import crc32c
from flyring_torture_worker import HEADER, NAP, Kind, Phase, Worker, moment, publisher_number

TEST_AGAIN = 1_000_000  # ns after which a publisher that is held back tests for dead readers again (channel.md 6.2, 4)


class Publisher(Worker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.number = publisher_number(orders["name"])
        self.epoch = self.sequence = self.most = 0
        self.filler = self.random.randbytes(self.channel.capacity // 4)

    def length(self) -> int:
        most = self.most
        dice = self.below(100)
        if dice < 25:
            return HEADER.size
        if dice < 75:
            return HEADER.size + self.below(100)
        return HEADER.size + self.below(most // 4) if dice < 97 else most - self.below(2) * self.below(9)

    def message(self, length: int, sequence: int) -> bytearray:
        message = bytearray(self.filler[:length])
        number, epoch = self.number + self.fault("name"), self.epoch + self.fault("epoch")
        HEADER.pack_into(message, 0, 0, length, number, epoch, sequence)
        if length > HEADER.size + 8:
            message[-8:] = sequence.to_bytes(8, "little", signed=True)
        message[:4] = crc32c(memoryview(message)[4:]).to_bytes(4, "little")
        if self.fault("torn"):
            message[-1] ^= 1
        return message

    def session(self) -> None:
        side = self.side
        side.attempted(0)
        self.enter(Phase.RECOVERING if self.orders["recovering"] == "1" else Phase.TAKING, 2)
        publisher = self.channel.publisher(self.orders["name"], max_lag=int(self.orders["max_lag"]))
        self.linger(2)
        self.orders["recovering"] = "0"
        self.epoch, self.sequence, self.most = publisher.epoch, 0, publisher.max_message_length
        now, lag = time.monotonic_ns(), int(self.orders["max_lag"])
        side.log(Kind.TAKEN, publisher.ring, self.epoch, publisher.position, now, self.number, lag)
        side.phase(Phase.WORKING)
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
            side.phase(Phase.WORKING)
            if self.below(2 if lag else 16) == 0:
                side.nap(self.random.random() * 1e-3)
            if self.fault("skip"):
                self.sequence += 1
            if self.fault("lost"):
                side.attempted(self.sequence + 1)
                self.acknowledge(1, publisher.position)
        leaves = time.monotonic_ns()
        self.enter(Phase.CLOSING, 2)
        publisher.close()
        self.linger(2)
        side.log(Kind.CLOSED, self.sequence, 0, 0, leaves)
        side.phase(Phase.WORKING)

    def insist(self, publisher: flyring.Publisher, attempt: Callable[[], bool]) -> None:
        """Calls attempt() until it succeeds or the worker must stop. Spins while a dead reader holds it back. Counts
        its attempts, and separately those in which the binding must test for dead readers."""
        since = begin = delay = offers = tests = due = 0
        dead, first = -1, None
        tried = time.monotonic_ns()
        while not attempt():
            if dead >= 0:
                offers += 1
                if tried >= due:
                    tests, due = tests + 1, tried + TEST_AGAIN
            self.side.phase(Phase.HELD_BACK)
            asked, delay_now = moment()
            holder = publisher.held_by()
            if since == 0:
                since, first = time.monotonic_ns(), holder
            now_dead = holder.slot if holder and not holder.live and not holder.kept else -1
            if now_dead != dead:
                if dead >= 0:
                    self.end_of_dead(dead, begin, delay, offers, tests)
                dead, begin, delay, offers, tests = now_dead, asked, delay_now, 0, 0
                due, self.lost_to_the_machine = begin + TEST_AGAIN, 0
            if self.side.stopped():
                break
            if dead >= 0:
                self.spin()
                if self.fault("asleep", 1):
                    time.sleep(0.08)
            else:
                self.side.nap(NAP)
            tried = time.monotonic_ns()
        if dead >= 0:
            self.end_of_dead(dead, begin, delay, offers + 1, tests + (tried >= due))
        if since and time.monotonic_ns() - since > 2_000_000:
            slot, live, kept = (first.slot, first.live, first.kept) if first else (-1, 0, 0)
            self.side.log(Kind.HELD, slot, since, time.monotonic_ns(), live, kept)

    def end_of_dead(self, slot: int, begin: int, delay: int, offers: int, tests: int) -> None:
        over, delay_now = moment()
        lost = max(delay_now - delay, self.lost_to_the_machine)
        self.side.log(Kind.DEAD_WAIT, slot, begin, over, lost, offers, tests)

    def acknowledge(self, count: int, position: int) -> None:
        self.sequence += count
        self.side.log(Kind.ACKNOWLEDGED, self.sequence, position, count, time.monotonic_ns())
        self.count(count)

    def offer(self, publisher: flyring.Publisher) -> None:
        message, kind = self.message(self.length(), self.sequence), 1 + self.below(9)

        def attempt() -> bool:
            self.side.attempted(self.sequence + 1)
            self.enter(Phase.OFFERING)
            position = publisher.offer(message, kind)
            self.linger()
            if position is not None:
                self.acknowledge(1, position)
            self.side.attempted(self.sequence)
            return position is not None

        self.insist(publisher, attempt)

    def claim(self, publisher: flyring.Publisher, abort: bool) -> None:
        message = self.message(self.length(), -1 - self.sequence if abort else self.sequence)

        def attempt() -> bool:
            self.enter(Phase.CLAIMING)
            claim = publisher.try_claim(len(message))
            if claim is None:
                return False
            self.enter(Phase.WRITING)
            claim[:] = message
            if abort:
                self.enter(Phase.ABORTING, 50)
                claim.abort()
                self.linger(50)
                return True
            self.side.attempted(self.sequence + 1)
            self.enter(Phase.COMMITTING)
            position = claim.commit()
            self.linger()
            self.acknowledge(1, position)
            return True

        self.insist(publisher, attempt)

    def batch(self, publisher: flyring.Publisher, count: int) -> None:
        messages = [self.message(HEADER.size + self.below(200), self.sequence + i) for i in range(count)]

        def attempt() -> bool:
            self.side.attempted(self.sequence + len(messages))
            self.enter(Phase.IN_BATCH)
            taken = publisher.offer_batch(messages, 7)
            self.linger()
            del messages[:taken]
            if taken:
                self.acknowledge(taken, publisher.position)
            self.side.attempted(self.sequence)
            return not messages

        self.insist(publisher, attempt)
