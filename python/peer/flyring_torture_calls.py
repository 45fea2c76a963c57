# SPDX-License-Identifier: Apache-2.0
"""The server and the callers of a service in the SIGKILL torture (interop-tests/torture/WORKER.md)."""

from __future__ import annotations

import enum
import struct
import threading
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import flyring
from flyring._core import crc32c
from flyring_torture_worker import HEADER, Kind, Phase, Worker, publisher_number

GIVEN: Final = struct.Struct("<qq")  # behind the header of an answer or item: epoch of the server, number of the item
FILLER: Final = bytes(range(256)) * 4
LONGEST: Final = 0.4  # seconds: a time-out longer than what a death may cost
SHORTEST_IDLE: Final = 20_000_000  # ns; shorter idle spans are not logged
MOST_KEPT: Final = 20
MOST_REQUEST: Final = 500  # bytes
TEXT: Final = "not this one"
End = enum.IntEnum("End", "ANSWER SERVICE_ERROR EXPIRED SERVER_GONE CANCELLED CLOSED SLOT_LOST REFUSED", start=0)


class BrokenError(Exception):
    """What a handler throws."""


class Asked(NamedTuple):
    """The call that a request or an answer belongs to, as its bytes say."""

    publisher: int  # made from the name of the client
    epoch: int  # of the client
    number: int

    def message(self, length: int, given: tuple[int, int] | None = None) -> bytearray:
        data = bytearray(length)
        first = (self.number + HEADER.size) % 256
        data[HEADER.size :] = FILLER[first : first + length - HEADER.size]
        HEADER.pack_into(data, 0, 0, length, *self)
        if given is not None:
            GIVEN.pack_into(data, HEADER.size, *given)
        data[:4] = crc32c(memoryview(data)[4:]).to_bytes(4, "little")
        return data

    def answer(self, more: int, given: tuple[int, int]) -> bytearray:
        return self.message(HEADER.size + GIVEN.size + more, given)


def read(data: bytes) -> Asked | None:
    """Returns the call that a message belongs to; None if the message is torn."""
    if len(data) < HEADER.size:
        return None
    checksum, length, *words = HEADER.unpack_from(data)
    return Asked(*words) if length == len(data) and checksum == crc32c(memoryview(data)[4:]) else None


def items_of(number: int) -> int:
    """How many items the stream of a call has."""
    return number % 7


class Server(Worker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.kept: list[tuple[flyring.Request, Asked]] = []
        self.begun = self.epoch = 0  # when its poll began, ns

    def session(self) -> None:
        side, asked = self.side, time.monotonic_ns()
        self.enter(Phase.SEATING, 2)
        try:
            server = self.channel.server(self.orders["name"], timeout=0.2)
        except flyring.NoFreeSlotError:
            side.phase(Phase.WORKING)
            return
        self.linger(2)
        self.epoch = server.epoch
        side.log(Kind.SEATED, 0, self.epoch, time.monotonic_ns(), asked)
        try:
            self.work(server)
        except flyring.SlotLostError:
            side.log(Kind.SLOT_LOST, 0, 0, time.monotonic_ns(), self.begun)
        server.close()  # before the kept requests are dropped, which would answer them
        self.kept.clear()
        side.phase(Phase.WORKING)

    def work(self, server: flyring.Server) -> None:
        side = self.side
        polls = self.below(10) if self.below(10) == 0 else self.below(400)
        drained = False
        while not side.full() and not drained and (polls > 0 or side.stopped()):
            polls -= 1
            # Read before the poll: once told to end, the worker polls until a poll that began afterwards is empty.
            last = side.stopped()
            timeout = 0.0 if self.kept else LONGEST if last else (0, 0.002, 0.02, LONGEST)[self.below(4)]
            side.phase(Phase.FETCHING)
            self.begun = time.monotonic_ns()
            handed = server.poll(self.handle, 1 if self.below(2) == 0 else 64, timeout)
            end = time.monotonic_ns()
            if handed == 0 and end - self.begun > SHORTEST_IDLE:
                side.log(Kind.IDLE, self.begun, end)
            side.phase(Phase.IDLE)
            drained = last and handed == 0 and not self.kept
            while self.kept and (last or self.below(3) != 0):
                self.answer_later()
            if (timeout == 0 and handed == 0) or self.below(100) == 0:
                side.nap(self.random.random() * 2e-3)
        begins = time.monotonic_ns()
        self.enter(Phase.LEAVING, 2)
        server.close()
        self.linger(2)
        side.log(Kind.LEFT, 0, drained, 0, begins)

    def handle(self, request: flyring.Request) -> None:
        self.side.phase(Phase.HANDLING)
        asked, state = read(bytes(request)), 0
        if asked is None:
            asked, state = Asked(0, 0, 0), 1
        elif request.sender.epoch == 0:
            state = 3
        elif publisher_number(request.sender.name) != asked.publisher:
            state = 2
        times = (0 if self.fault("drop") else 1) + self.fault("twice")
        for _ in range(times):
            words = request.client, asked.epoch, asked.number, request.repeat, state
            self.side.log(Kind.REQUEST, *words, time.monotonic_ns())
        self.linger(30)
        if self.below(500) == 0:
            self.side.nap(0.03)
        if request.is_stream:
            self.side.phase(Phase.REPLYING)
            request.stream(self.items(asked), 1)
        else:
            self.answer(request, asked)

    def items(self, asked: Asked) -> Iterator[bytearray]:
        for item in range(items_of(asked.number)):
            yield asked.answer(self.below(200), (self.epoch, item))

    def answer(self, request: flyring.Request, asked: Asked) -> None:
        dice = self.below(32)
        if dice < 2:
            self.enter(Phase.REPLYING, 50)
            request.fail(TEXT)
        elif dice == 2:
            raise BrokenError(TEXT)
        elif dice == 3:
            return  # no answer
        elif dice < 9 and len(self.kept) < MOST_KEPT:
            self.kept.append((request.keep(), asked))
        else:
            self.reply(request, asked)

    def reply(self, request: flyring.Request, asked: Asked) -> None:
        if self.fault("answer"):
            asked = asked._replace(number=asked.number + 1)
        data = asked.answer(self.below(400), (self.epoch, 0))
        self.enter(Phase.REPLYING, 50)
        request.reply(data, 1)
        self.linger(50)

    def answer_later(self) -> None:
        """Answers the oldest or the newest kept request, in this thread or another one."""
        request, asked = self.kept.pop(0 if self.below(2) == 0 else -1)
        if self.below(8) == 0:
            self.elsewhere(request, asked)
        else:
            self.reply(request, asked)
        self.side.phase(Phase.IDLE)

    def elsewhere(self, request: flyring.Request, asked: Asked) -> None:
        failed: list[Exception] = []

        def run() -> None:
            try:
                self.reply(request, asked)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]


class Open:
    """A call that does not wait."""

    def __init__(self, number: int, stream: bool) -> None:
        self.number, self.stream = number, stream
        self.items = 0  # the number of items that came; below 0 after a wrong one
        self.noted = False  # whether its end is logged

    call: flyring.Call


class Caller(Worker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.publisher = publisher_number(orders["name"])
        self.open: list[Open] = []
        self.begun = self.epoch = self.calls = 0  # when its verb began, ns
        self.failure: Exception | None = None  # raised in a callback; kept here, because a close would swallow it

    def session(self) -> None:
        side, asked = self.side, time.monotonic_ns()
        self.enter(Phase.SEATING, 2)
        client = self.channel.client(self.orders["name"], timeout=5)
        self.linger(2)
        self.epoch, self.calls = client.epoch, 0
        self.open.clear()
        side.log(Kind.SEATED, client.slot, self.epoch, time.monotonic_ns(), asked)
        try:
            self.work(client)
        except flyring.SlotLostError:
            when = time.monotonic_ns()
            client.close()
            side.log(Kind.SLOT_LOST, client.slot, 0, when, self.begun)
        self.forget_ended()
        side.phase(Phase.WORKING)

    def work(self, client: flyring.Client) -> None:
        side = self.side
        steps = self.below(10) if self.below(10) == 0 else self.below(600)
        while not side.full() and not side.stopped() and steps > 0:
            steps -= 1
            self.begun = time.monotonic_ns()
            dice = self.below(32)
            if dice < 8:
                self.wait_for(client)
            elif dice < 20:
                self.start(client, dice < 11 and self.channel.delivery == "at-most-once")
            elif dice == 20 and self.open:
                self.cancel()
            else:
                self.poll(client, (0, 0.002, 0.02)[self.below(3)])
            self.forget_ended()
            if self.below(50) == 0:
                side.nap(self.random.random() * 3e-3)
        while self.open and (side.stopped() or self.below(20) != 0):
            self.poll(client, 0.1)
        begins = time.monotonic_ns()
        self.enter(Phase.LEAVING, 2)
        client.close()
        self.linger(2)
        side.log(Kind.LEFT, 0, 0, 0, begins)

    def poll(self, client: flyring.Client, timeout: float) -> None:
        if self.fault("deaf"):
            self.side.nap(0.6)
        self.enter(Phase.AWAITING, 200)
        self.begun = time.monotonic_ns()
        client.poll(timeout)
        self.forget_ended()
        self.side.phase(Phase.IDLE)

    def forget_ended(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.open = [one for one in self.open if not one.noted]

    def next(self, client: flyring.Client, stream: bool) -> tuple[int, bytearray, float | None]:
        """Makes and logs the next call. Returns its number, request and time-out."""
        number = self.calls
        self.calls += 1
        timeout = (2.0, 0.02, 0.001)[self.below(3)] if self.below(4) == 0 else None
        most = min(client.max_message_length, MOST_REQUEST) - HEADER.size
        data = Asked(self.publisher, self.epoch, number).message(HEADER.size + self.below(most))
        if self.fault("torn"):
            data[-1] ^= 1
        self.side.log(Kind.CALLED, number, round((timeout or 0) * 1e9), time.monotonic_ns(), stream)
        return number, data, timeout

    def wait_for(self, client: flyring.Client) -> None:
        """Makes a call, and waits for its answer."""
        number, data, timeout = self.next(client, False)
        self.enter(Phase.CALLING, 100)
        try:
            self.note_answer(number, client.call(data, 1, timeout))
        except flyring.FlyringError as error:
            self.note_error(number, error)
            if isinstance(error, flyring.SlotLostError):
                raise
        self.side.phase(Phase.IDLE)

    def start(self, client: flyring.Client, stream: bool) -> None:
        number, data, timeout = self.next(client, stream)
        self.enter(Phase.CALLING, 100)
        one = Open(number, stream)

        def heard(call: flyring.Call) -> None:
            self.hear(one, call)

        try:
            if stream:
                one.call = client.stream(data, 1, 1 + self.below(4), timeout, heard)
            else:
                one.call = client.start(data, 1, timeout, heard)
            self.open.append(one)
        except flyring.FlyringError as error:
            self.note_error(number, error)
            if isinstance(error, flyring.SlotLostError):
                raise
        self.side.phase(Phase.IDLE)

    def cancel(self) -> None:
        one = self.open[self.below(len(self.open))]
        one.call.cancel()
        one.noted = True
        self.note(one.number, End.CANCELLED)

    def hear(self, one: Open, call: flyring.Call) -> None:
        try:
            if one.stream:
                self.take_items(one, call)
            if not call.done or one.noted:
                return
            one.noted = True
            try:
                answer = call.result()
            except flyring.FlyringError as error:
                self.note_error(one.number, error)
                return
            if one.stream:
                self.note(one.number, End.ANSWER, wrong=one.items != items_of(one.number))
            else:
                self.note_answer(one.number, answer)
        except Exception as error:
            self.failure = error

    def take_items(self, one: Open, call: flyring.Call) -> None:
        """Takes the items that have come. An error from `next` is the end of the call, which `result` reports."""
        while True:
            try:
                item = call.next(0)
            except flyring.FlyringError:
                return
            if item is None:
                return
            given = self.given(one.number, bytes(item))
            one.items = one.items + 1 if given is not None and given[1] == one.items else -1_000

    def given(self, number: int, data: bytes) -> tuple[int, int] | None:
        """Returns the server's epoch and the item's number; None if this is no answer to the call."""
        if len(data) < HEADER.size + GIVEN.size or read(data) != (self.publisher, self.epoch, number):
            return None
        server, item = GIVEN.unpack_from(data, HEADER.size)
        return server, item

    def note_answer(self, number: int, answer: flyring.Answer) -> None:
        given = self.given(number, bytes(answer))
        server = 0 if given is None else given[0]
        self.note(number, End.ANSWER, wrong=given is None, server=server, repeat=answer.repeat)

    def note_error(self, number: int, error: flyring.FlyringError) -> None:
        if isinstance(error, flyring.ServerGoneError):
            self.note(number, End.SERVER_GONE, error.may_have_run)
        elif isinstance(error, flyring.ExpiredError):
            self.note(number, End.EXPIRED, error.may_have_run)
        elif isinstance(error, flyring.ServiceError):
            self.note(number, End.SERVICE_ERROR)
        elif isinstance(error, flyring.SlotLostError):
            self.note(number, End.SLOT_LOST)
        elif isinstance(error, flyring.ClosedError):
            self.note(number, End.CLOSED)
        elif isinstance(error, flyring.BusyError):
            self.note(number, End.REFUSED)
        else:
            raise error

    def note(
        self,
        number: int,
        how: End,
        may_have_run: bool = False,
        wrong: bool = False,
        server: int = 0,
        repeat: bool = False,
    ) -> None:
        if self.fault("forget"):
            return
        for _ in range(1 + self.fault("again")):
            self.side.log(Kind.ENDED, number, how, may_have_run, wrong, time.monotonic_ns(), server, repeat)
