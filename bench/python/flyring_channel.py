# SPDX-License-Identifier: Apache-2.0
"""Flyring as its README shows it: one channel, with a publisher and a subscriber on each side. The `flyring` contenders
of the C++ and Java peers open the same channel, so the two sides may be of different languages.

The calls have no timeout and look once. The loops repeat them, which is no slower than a call that waits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import flyring
from harness import DIFFERENT, WORD, BenchError, Contender, Messages, Setup
from loops import Endless


OFFER = """
    while offer(message) is None:
        pass
"""
TAKE = """
    while (got := take()) is None:
        pass
"""
POLL = """
    while not poll(check, 1):
        pass
"""

PREFETCH = """
    prefetch()
"""

MustBeEnd = Callable[[int, bytes], None]
word0 = struct.Struct("<Q").unpack_from


def open_channel(setup: Setup) -> flyring.Channel:
    """Of the option's kind: inbox, queue, service; else a broadcast channel."""
    # For messages that are written whole, the ring is no larger than a cache. For messages in place, it is large enough
    # that the reader can stay some way behind the writer.
    least = (128 if setup.whole else 512) * setup.size if setup.streaming else 0
    kind = setup.options.get("kind", "broadcast")
    senders = setup.producers if setup.streaming else 2
    slots = {
        "broadcast": {"publishers": senders, "subscribers": max(2, setup.consumers)},
        "inbox": {"publishers": senders},
        "queue": {"producers": senders, "workers": int(setup.options.get("workers", 1))},
        "service": {"clients": 1},
    }
    return flyring.Channel.open_or_create(
        setup.path("channel.ring"),
        kind,
        capacity=int(setup.options.get("capacity", max(1 << 20, least))),
        alignment=int(setup.options.get("alignment", 64)),
        counters=0,
        **slots[kind],
    )


class Flyring(Contender):
    many_producers = many_consumers = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        kind = setup.options.get("kind", "broadcast")
        self.channel = open_channel(setup)
        self.publisher: flyring.Publisher | None = None
        self.subscriber: flyring.Subscriber | flyring.Worker | None = None
        if setup.producer or not setup.streaming:
            name = f"a{setup.number}" if setup.producer else "b"
            self.publisher = self.channel.publisher(name)
        if not setup.producer or not setup.streaming:
            # The first publisher of a channel gets ring 0, and the driver opens b before a.
            rings = None if setup.streaming else [0 if setup.producer else 1]
            self.subscriber = self.channel.worker() if kind == "queue" else self.channel.subscriber(rings=rings)
        if not setup.streaming and int(setup.options.get("prefetch", 1)):
            self.receive += PREFETCH  # the side that receives a message sends the next one

    def names(self) -> dict[str, Any]:
        names: dict[str, Any] = {"size": self.setup.size, "limit": 256}
        if self.publisher:
            names |= {"offer": self.publisher.offer, "send": self.publisher.send, "claim": self.publisher.try_claim}
            names |= {"offer_batch": self.publisher.offer_batch, "prefetch": self.publisher.prefetch}
        if self.subscriber:
            names |= {"take": self.subscriber.take, "poll": self.subscriber.poll}
        return names

    def close(self) -> None:
        self.channel.close()

    def version(self) -> str:
        return flyring.__version__


class OfferTake(Flyring):
    """One message per call, copied into the ring and out of it."""

    send = OFFER
    receive = TAKE


class ClaimTake(Flyring):
    """Messages written in place with struct.pack_into."""

    send = """
        while (space := claim(size)) is None:
            pass
        write_into(space, 0, message)
        space.commit()
    """
    receive = TAKE

    def outgoing(self, messages: Messages) -> tuple[list[Any], Any]:
        return (messages.whole, messages.end) if self.setup.whole else (messages.words, b"\xff" * 8)

    def names(self) -> dict[str, Any]:
        return super().names() | {
            "write_into": struct.Struct(f"{self.setup.size if self.setup.whole else 8}s").pack_into
        }


class SendTake(Flyring):
    """One message per call, with calls that wait. They sleep at once, without spinning first."""

    scenarios = ("rtt", "idle")
    waits = ("block",)
    send = "send(message)"
    receive = """
    got = take(None)
"""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        for user in (self.publisher, self.subscriber):
            if user is not None:
                user.set_spin(int(setup.options.get("spin", 0)) / 1e6)


class OfferPoll(Flyring):
    """Messages read in place: poll calls a handler for each of up to 256 messages, and the handler checks the
    message."""

    scenarios = ("rtt", "schedule", "stream", "burst")

    load = "check, ends = checker(must_be_end)"
    send = OFFER
    receive = POLL
    same = same_word = "not ends"
    content = "ends[-1]"
    texts = {
        "consume": """
            while not (first := poll(check, 1)):
                pass
            number, start = first, clock()
            while not ends:
                number += poll(check, limit)
            result = number - 1, number - 1 - first, clock() - start
        """,
        "consume_several": """
            check, ends = checker_of_two(must_be_end)
            while not (first := poll(check, 1)):
                pass
            number, start = first, clock()
            while len(ends) < 2:
                number += poll(check, limit)
            result = number - 2, number - 2 - first, clock() - start
        """,
        "consume_bursts": """
            number = 0
            while not ends:
                if there := words[SENT] - words[FIRST]:
                    wanted = number + there
                    while number < wanted:
                        number += poll(check, limit)
                    words[FIRST] += there
            result = number - 1
        """,
    }

    def names(self) -> dict[str, Any]:
        return super().names() | {"checker": self.checker, "checker_of_two": self.checker_of_two}

    def checker(self, must_be_end: MustBeEnd) -> tuple[Callable[[flyring.Message], None], list[bytes]]:
        """Returns a handler for the messages of producer 0, and a list to which the handler adds the end message."""
        arriving = Endless.over(self.expected(self.messages(0)))
        following = arriving.__next__
        ends: list[bytes] = []

        def check(message: flyring.Message) -> None:
            if message != following():
                end(bytes(message))

        def check_word(message: flyring.Message) -> None:
            if word0(message) != following():
                end(bytes(message))

        def end(content: bytes) -> None:
            must_be_end(arriving.given() - 1, content)
            ends.append(content)

        return (check if self.setup.whole else check_word), ends

    def checker_of_two(self, must_be_end: MustBeEnd) -> tuple[Callable[[flyring.Message], None], list[bytes]]:
        """As checker(), for two producers. The messages of each must arrive in order."""
        arriving, arriving_too = (Endless.over(self.expected(self.messages(p))) for p in (0, 1))
        next_first, next_second = arriving.__next__, arriving_too.__next__
        first, second = next_first(), next_second()
        ends: list[bytes] = []

        def check(message: flyring.Message) -> None:
            nonlocal first, second
            if message == first:
                first = next_first()
            elif message == second:
                second = next_second()
            else:
                end(bytes(message))

        def check_word(message: flyring.Message) -> None:
            nonlocal first, second
            word = word0(message)
            if word == first:
                first = next_first()
            elif word == second:
                second = next_second()
            else:
                end(bytes(message))

        def end(content: bytes) -> None:
            must_be_end(arriving.given() + arriving_too.given() - 2, content)
            ends.append(content)

        return (check if self.setup.whole else check_word), ends


class Batch(OfferPoll):
    """Publishes up to 256 messages per call with offer_batch, and receives them with poll."""

    scenarios = ("stream",)
    texts = OfferPoll.texts | {
        "produce": """
            following = cycle(batches).__next__
            start = clock()
            for left in range(n, 0, -batch):
                some = following() if left >= batch else following()[:left]
                taken = offer_batch(some)
                while taken < len(some):
                    taken += offer_batch(some[taken:])
            result = clock() - start
            while offer(end) is None:
                pass
        """
    }

    def names(self) -> dict[str, Any]:
        batch = at_once(self.setup.size)
        whole = self.messages(self.setup.number).whole * 4
        batches = [tuple(whole[i : i + batch]) for i in range(0, max(batch, DIFFERENT), batch)]
        return super().names() | {"batch": batch, "batches": batches, "cycle": cycle}


class Numpy(Flyring):
    """Records in numpy arrays: a message in the ring carries up to 256 messages of bench/PEER.md, as rows of words.

    They are written in place through numpy.frombuffer(claim), and checked in place through numpy.frombuffer(message):
    each word of every row, or in look mode only the first column. The rows are counted, not the messages in the ring.
    """

    scenarios = ("stream",)
    many_producers = False
    texts = {
        "produce": """
            following = cycle(blocks).__next__
            start = clock()
            for left in range(n, 0, -rows):
                block = following() if left >= rows else following()[:left]
                while (space := claim(len(block) * size)) is None:
                    pass
                write(space, block)
                space.commit()
            result = clock() - start
            while offer(end) is None:
                pass
        """,
        "consume": """
            check, state = checker(must_be_end)
            while not poll(check, 1):
                pass
            start, first = clock(), state[0]
            while not state[1]:
                poll(check)
            result = state[0], state[0] - first, clock() - start
        """,
    }

    def names(self) -> dict[str, Any]:
        import numpy

        setup = self.setup
        rows = at_once(setup.size)
        words = "<u8"
        columns = slice(None) if setup.whole else 0
        table = numpy.frombuffer(b"".join(self.messages(0).whole * 4), words).reshape(-1, setup.size // 8)
        blocks = [table[i : i + rows] for i in range(0, max(rows, DIFFERENT), rows)]
        width = setup.size // 8

        def write(space: flyring.Claim, block: Any) -> None:
            numpy.frombuffer(space, words).reshape(-1, width)[:, columns] = block[:, columns]

        def checker(must_be_end: MustBeEnd) -> tuple[Callable[[flyring.Message], None], list[int]]:
            following = cycle(blocks).__next__
            state = [0, 0]  # rows, ends

            def check(message: flyring.Message) -> None:
                found = numpy.frombuffer(message, words).reshape(-1, width)[:, columns]
                count = len(found)
                if numpy.array_equal(found, following()[:count, columns]):
                    state[0] += count
                else:
                    must_be_end(state[0], bytes(message))
                    state[1] = 1

            return check, state

        return super().names() | {"rows": rows, "blocks": blocks, "cycle": cycle, "write": write, "checker": checker}


class TypedArrays(Flyring):
    """Receives the PriceUpdates of `flyring-typed` in another language as arrays in place, and sums two of their
    fields. The sums must be right for that number of messages (bench/cpp/typed.cpp says what the fields hold)."""

    scenarios = ("stream",)
    many_producers = many_consumers = False
    send = receive = "raise NotImplementedError"  # this contender does not send, and has its own way to receive
    texts = {
        "consume": """
            poll, state = summing()
            while not (first := poll(1)):
                pass
            number, start = first, clock()
            while not state.ended:
                number += poll()
            result = number - 1, number - 1 - first, clock() - start
            state.check(number - 1)
        """,
    }

    def names(self) -> dict[str, Any]:
        return super().names() | {"summing": self.summing}

    def summing(self) -> tuple[Callable[..., int], Sums]:
        from flyring import sbe

        price = sbe.Schema.load(Path(__file__).parents[2] / "spec" / "sbe" / "prices.xml").PriceUpdate
        sums, subscriber = Sums(), self.subscriber
        assert subscriber
        return lambda limit=65536: subscriber.poll_arrays(price, sums.add, limit), sums


class Sums:
    """Sums of the bids and of the sequence numbers. A bid is the message's tag + 100000000, a sequence number is the
    tag."""

    def __init__(self) -> None:
        self.bids = self.sequences = 0
        self.ended = False

    def add(self, rows: Any) -> None:
        self.bids += int(rows["bid"].sum())
        self.sequences += int(rows["sequence"].sum())
        self.ended = int(rows["instrument"]["id"][-1]) == WORD

    def check(self, number: int) -> None:
        """Checks the sums of `number` messages. The end message was added too; its tag is 0."""
        whole, rest = divmod(number, DIFFERENT)
        tags = whole * (DIFFERENT * (DIFFERENT - 1) // 2) + rest * (rest - 1) // 2
        if (self.bids, self.sequences) != (100_000_000 * (number + 1) + tags, tags):
            raise BenchError(f"{number} messages have the sums {self.bids} and {self.sequences}")


def at_once(size: int) -> int:
    """Returns the number of messages of one batch: 256, or fewer, so that the batch has at most 128 KiB."""
    return min(256, (1 << 17) // size)
