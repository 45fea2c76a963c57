# SPDX-License-Identifier: Apache-2.0
"""The workers of journals in the SIGKILL torture (interop-tests/torture/WORKER.md): appenders, followers and
consumers."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final

import flyring
from flyring import Action, JournalMessage, JournalStart
from flyring._core import crc32c
from flyring.journal_seek import Start
from flyring_torture_worker import AnyWorker, Kind, Phase

MESSAGE: Final = struct.Struct("<IIq")  # checksum of the rest, length, id
MOST_IN_BATCH: Final = 16
PATIENCE: Final = 5_000_000_000
ELSEWHERE, NEWEST, AT_POSITION = range(3)  # where a reader begins


class HandlerError(Exception):
    """A handler throws."""


def create_journal(orders: dict[str, str]) -> None:
    size, consumers, most = (int(orders[name]) for name in ("segment_size", "consumers", "max_size"))
    with flyring.Journal.create(orders["channel"], segment_size=size, consumers=consumers, max_size=most) as journal:
        for name in orders["names"].split(","):
            journal.consumer(name).close()


class JournalWorker(AnyWorker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        read_only = orders["role"] == "follower" and self.below(2) == 0
        self.journal = flyring.Journal.open(orders["channel"], read_only=read_only)

    def be_idle(self) -> None:
        self.side.phase(Phase.IDLE)
        self.side.nap(self.random.random() * 4e-3)
        self.side.phase(Phase.WORKING)

    def some_timeout(self) -> float:
        return (0, 0.002, 0.02, 0.4)[self.below(4)]


class Appender(JournalWorker):
    """Appends, syncs and trims."""

    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.next = int(orders["seed"]) << 24  # the id of the next message
        self.last = 0  # the position of its last append

    def run(self) -> None:
        side = self.side
        while not (side.stopped() or side.full()):
            dice = self.below(12)
            if dice < 6:
                self.hold()
            elif dice < 8:
                timeout = (0, 0.02, 2)[self.below(3)]
                for _ in range(self.below(40)):
                    if side.stopped() or side.full():
                        break
                    self.push(timeout)
            elif dice < 11:
                self.trim()
            else:
                self.change_sync()
            self.be_idle()
        self.journal.close()

    def hold(self) -> None:
        side, asked = self.side, time.monotonic_ns()
        self.enter(Phase.SEATING, 2)
        try:
            writer = self.journal.writer(
                self.orders["name"],
                helper=self.below(3) != 0,
                ahead=1 + self.below(2),
                timeout=self.random.random() * 0.2,
            )
        except flyring.NoFreeSlotError:
            side.phase(Phase.WORKING)
            return
        self.linger(2)
        side.log(Kind.SEATED, 0, writer.epoch, time.monotonic_ns(), asked)
        for _ in range(self.below(300)):
            if side.stopped() or side.full():
                break
            if self.below(10) == 0:
                self.be_idle()
            self.some(writer)
        leaves = time.monotonic_ns()
        self.enter(Phase.LEAVING, 2)
        writer.close(sync=self.below(2) == 0)
        self.linger(2)
        side.log(Kind.LEFT, 0, 0, 0, leaves)
        side.phase(Phase.WORKING)

    def some(self, writer: flyring.JournalWriter) -> None:
        dice = self.below(100)
        if dice < 55:
            message = self.next_message(writer.max_message_length if dice == 0 else 700)
            self.one(lambda: writer.append(message), Phase.APPENDING, message)
            if self.fault("twice"):
                writer.append(message)
        elif dice < 70:
            self.batch(writer)
        elif dice < 95:
            self.claim(writer, dice >= 85)
        else:
            self.enter(Phase.SYNCING, 4)
            writer.sync()
            self.linger(4)
        self.side.phase(Phase.WORKING)

    def one(self, make: Callable[[], int], phase: Phase, message: bytes) -> None:
        """An append of one message, logged before and after it."""
        self.side.log(Kind.APPENDING, MESSAGE.unpack_from(message)[2], 1, time.monotonic_ns())
        self.enter(phase)
        position, count = -1, 1
        try:
            if not self.fault("lost", 5):
                position = make()
        except (flyring.NoFreeSlotError, flyring.NoSpaceError):
            count = 0
        self.linger()
        self.side.log(Kind.APPENDED, position, count, time.monotonic_ns())
        if position >= 0:
            self.last = position

    def batch(self, writer: flyring.JournalWriter) -> None:
        first = self.next
        messages = [self.next_message(400) for _ in range(1 + self.below(MOST_IN_BATCH))]
        self.side.log(Kind.APPENDING, first, len(messages), time.monotonic_ns())
        self.enter(Phase.IN_BATCH)
        before = writer.number
        try:
            count = writer.append_many(messages)
        except flyring.NoSpaceError:
            count = writer.number - before
        self.linger()
        self.side.log(Kind.APPENDED, -1, count, time.monotonic_ns())

    def claim(self, writer: flyring.JournalWriter, abort: bool) -> None:
        message = self.next_message(700)
        self.side.log(Kind.APPENDING, MESSAGE.unpack_from(message)[2], 1, time.monotonic_ns())
        self.enter(Phase.CLAIMING)
        try:
            claim = writer.claim(len(message))
        except flyring.NoSpaceError:
            self.side.log(Kind.APPENDED, -1, 0, time.monotonic_ns())
            return
        claim[:] = message
        self.linger()
        self.enter(Phase.ABORTING if abort else Phase.COMMITTING)
        position = claim.abort() if abort else claim.commit()
        self.linger()
        self.side.log(Kind.APPENDED, -1 if abort else position, int(not abort), time.monotonic_ns())

    def push(self, timeout: float) -> None:
        if self.below(10) == 0:
            self.be_idle()
        message = self.next_message(700)
        self.one(lambda: self.journal.push(message, timeout=timeout), Phase.PUSHING, message)
        self.side.phase(Phase.WORKING)

    def trim(self) -> None:
        dice, segments = self.below(4), 1 + self.below(4)
        self.enter(Phase.TRIMMING, 2)
        if dice == 0:
            self.journal.trim(consumed=True)
        elif dice == 1:
            self.journal.trim(position=self.last)
        elif dice == 2:
            self.journal.trim(before=time.time_ns())
        else:
            self.journal.trim(size=self.journal.segment_size * segments)
        self.linger(2)
        self.side.phase(Phase.WORKING)

    def change_sync(self) -> None:
        dice, interval = self.below(3), (1 + self.below(20)) / 1000
        self.enter(Phase.SYNCING, 4)
        if dice == 0:
            self.journal.change(sync="never")
        elif dice == 1:
            self.journal.change(sync="each")
        else:
            self.journal.change(sync=interval)
        self.linger(4)
        self.side.phase(Phase.WORKING)

    def next_message(self, most: int) -> bytes:
        length = MESSAGE.size + self.below(most - MESSAGE.size + 1)
        filling = (self.next & 0xFF).to_bytes(1, "little") * (length - MESSAGE.size)
        message = bytearray(MESSAGE.pack(0, length, self.next) + filling)
        message[:4] = crc32c(message[4:]).to_bytes(4, "little")
        if self.fault("torn"):
            message[4] ^= 1
        self.next += 1
        return bytes(message)


class Reader(JournalWorker):
    """What followers and consumers have in common."""

    seen: tuple[int, int, int] | None = None  # number, position and time of the last message
    drained = False

    def handle(self, message: JournalMessage, lost: int) -> None:
        """Logs a message."""
        self.enter(Phase.HANDLING)
        data, mark, right = bytes(message), 0, False
        if len(data) >= MESSAGE.size:
            checksum, length, mark = MESSAGE.unpack_from(data)
            right = length == len(data) and checksum == crc32c(data[4:])
        self.seen = (message.number, message.position, message.time)
        for _ in range(0 if self.fault("drop") else 2 if self.fault("again") else 1):
            now = time.monotonic_ns()
            self.side.log(Kind.READ, message.number, mark, message.position, lost, int(not right), now)
        self.side.phase(Phase.POLLING)

    def note_idle(self, begin: int, timeout: float) -> None:
        """Logs that nothing was there."""
        if timeout >= 0.02:
            if self.fault("deaf", 1):
                self.side.nap(0.6)
            self.side.log(Kind.IDLE, begin, time.monotonic_ns())

    def some_limit(self) -> int:
        return 256 if self.below(4) == 0 else 1 + self.below(8)

    def rest(self, count: int) -> None:
        self.side.phase(Phase.IDLE)
        if count == 0:
            self.side.nap(1e-4)
        elif self.below(20) == 0:
            self.side.nap(self.random.random() * 4e-3)
        self.side.phase(Phase.WORKING)

    def leave(self, close: Callable[[], None]) -> None:
        leaves = time.monotonic_ns()
        self.enter(Phase.LEAVING, 2)
        close()
        self.linger(2)
        self.side.log(Kind.LEFT, 0, int(self.drained), 0, leaves)
        self.side.phase(Phase.WORKING)


class Follower(Reader):
    """Reads without a slot."""

    def run(self) -> None:
        while not (self.drained or self.side.full()):
            self.session()
        self.journal.close()

    def some_begin(self, durable: bool) -> tuple[Start, int, int]:
        """Where to begin, the number that it asks for (-1: none), and how."""
        dice = self.below(2 if self.seen is None or durable else 5)
        if dice == 0:
            return "oldest", -1, ELSEWHERE
        if dice == 1 or self.seen is None:
            return "newest", -1, NEWEST
        number, position, at = self.seen
        if dice == 2:
            return JournalStart.at_position(position), number, AT_POSITION
        if dice == 3:
            return JournalStart.at_number(number), number, ELSEWHERE
        return JournalStart.at_time(at), -1, ELSEWHERE

    def session(self) -> None:
        side = self.side
        durable = not side.stopped() and self.below(4) == 0
        start, wanted, how = self.some_begin(durable)
        asked = time.monotonic_ns()
        self.enter(Phase.STARTING, 2)
        reader = self.journal.reader(start, durable=durable)
        self.linger(2)
        side.log(Kind.FOLLOWING, reader.number, reader.lost, time.monotonic_ns(), asked, wanted, how, int(durable))
        polls = self.below(300)
        while not (side.full() or self.drained) and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()  # read before the poll: after it, nothing is appended
            if last and durable:
                break
            timeout = 0 if last else self.some_timeout()
            self.enter(Phase.POLLING)
            begin, count = time.monotonic_ns(), 0
            if self.below(8) == 0:
                one = reader.take(timeout)
                if one is not None:
                    self.handle(one, reader.lost)
                    count = 1
            else:
                count = reader.poll(lambda each: self.handle(each, reader.lost), self.some_limit(), timeout)
            if count == 0:
                self.note_idle(begin, timeout)
            self.drained = last and count == 0
            self.rest(count)
            if not last and self.below(60) == 0:
                start, _, how = self.some_begin(durable)
                asked = time.monotonic_ns()
                self.enter(Phase.STARTING, 2)
                reader.seek(start)
                now, how = time.monotonic_ns(), how if how == NEWEST else ELSEWHERE
                side.log(Kind.FOLLOWING, reader.number, reader.lost, now, asked, -1, how, int(durable))
        self.leave(reader.close)


class Consumer(Reader):
    """A named consumer."""

    since = 0  # when it was told to end, and another process had the name

    def run(self) -> None:
        while not (self.drained or self.side.full()):
            self.session()
            self.be_idle()
        self.journal.close()

    def session(self) -> None:
        side, asked = self.side, time.monotonic_ns()
        self.enter(Phase.SEATING, 2)
        try:
            consumer = self.journal.consumer(self.orders["name"])
        except flyring.NoFreeSlotError:
            if side.stopped():  # another process has the name, and reads the rest
                self.since = self.since or asked
                self.drained = asked - self.since > PATIENCE
            side.phase(Phase.WORKING)
            return
        self.linger(2)
        side.log(Kind.FOLLOWING, consumer.number, consumer.lost, time.monotonic_ns(), asked, -1, 0, 0)
        polls = self.below(300)
        while not (side.full() or self.drained) and (polls > 0 or side.stopped()):
            polls -= 1
            last = side.stopped()
            count = self.consume(consumer, 0 if last else self.some_timeout())
            side.log(Kind.POLLED, consumer.number, consumer.lost)
            self.drained = last and count == 0
            if self.below(50) == 0:
                consumer.sync()
            self.rest(count)
        self.leave(consumer.forget if not self.drained and self.fault("forget", 1) else consumer.close)

    def consume(self, consumer: flyring.JournalConsumer, timeout: float) -> int:
        """Returns -1 if its handler ended the poll before a message was consumed."""
        # A size limit could take the message between the two.
        if self.orders["name"] != "slow" and self.below(8) == 0:
            return self.pop(consumer)
        ended, got = False, 0

        def each(message: JournalMessage) -> Action:
            nonlocal ended, got
            dice = self.below(100)
            if dice < 2:
                ended = True
                return Action.ABORT
            self.handle(message, consumer.lost)
            got += 1
            if dice < 3:
                raise HandlerError
            if dice < 6:
                return Action.BREAK
            return Action.COMMIT if dice < 10 else Action.CONTINUE

        self.enter(Phase.POLLING)
        begin = time.monotonic_ns()
        try:
            count = consumer.poll(each, self.some_limit(), timeout)
        except HandlerError:
            count = got
        if count != got:
            raise RuntimeError(f"a poll counts {count}, not {got}")
        if count == 0 and not ended:
            self.note_idle(begin, timeout)
        return -1 if count == 0 and ended else count

    def pop(self, consumer: flyring.JournalConsumer) -> int:
        self.enter(Phase.POLLING)
        seen = consumer.peek()
        if seen is None:
            return 0
        self.handle(seen, consumer.lost)
        popped = consumer.pop()
        if popped is None:
            raise RuntimeError("a message that peek returned is not there")
        if popped.number != seen.number:
            self.handle(popped, consumer.lost)
        return 1
