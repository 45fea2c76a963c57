# SPDX-License-Identifier: Apache-2.0
"""Typed messages in a channel (spec/messages.md 1 to 3): schema options, claim, offer and dispatch."""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import struct
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import in_child
from flyring import (
    Action,
    BackPressuredError,
    BadMessageError,
    Channel,
    ClosedError,
    FlyringError,
    InvalidArgumentError,
    Message,
    MessageTooLargeError,
    Publisher,
    Subscriber,
    ViewAliveError,
    sbe,
)
from test_sbe_messages import GROUP_BYTES, GROUPS, PRICES, SIZES, schema, write_groups


@pytest.fixture(scope="module")
def prices() -> Any:
    return sbe.Schema.load(PRICES)


Ends = tuple[Publisher, Subscriber]


@pytest.fixture
def ends(folder: Path, prices: Any) -> Iterator[Ends]:
    with Channel.create("typed", "broadcast", capacity=4096, schema=prices) as channel:
        yield channel.publisher("feed"), channel.subscriber()


# The schema in the channel


# claim


def test_claim_write_commit(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    update = publisher.claim(prices.PriceUpdate)
    assert type(update) is prices.PriceUpdate
    assert update.encoded_length == 70
    update.bid, update.flags = 5, 0
    before = publisher.position
    assert update.commit() == publisher.position > before
    message = subscriber.take()
    assert message is not None
    assert (message.type, len(message)) == (1, 70)
    assert bytes(message)[:8] == struct.pack("<4H", 62, 1, 7, 1)
    assert (prices.PriceUpdate.decode(message).bid, prices.decode(message).bid) == (5, 5)
    for use in (
        lambda: update.bid,
        lambda: setattr(update, "bid", 1),
        update.commit,
        update.abort,
        lambda: bytes(update),
    ):
        with pytest.raises(ClosedError):
            use()


def test_claims_that_are_not_committed(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    with pytest.raises(LookupError), publisher.claim(prices.Trade) as trade:
        trade.price = 1
        raise LookupError
    with pytest.raises(ClosedError):
        _ = trade.price
    publisher.claim(prices.Trade).abort()
    with pytest.raises(ZeroDivisionError), publisher.claim(prices.Trade) as trade:
        trade.price = 1 // 0
    trade = publisher.claim(prices.Trade)
    del trade  # dropped without commit
    with publisher.claim(prices.Trade) as trade:
        trade.price = 2  # the end of the block commits
    message = subscriber.take()
    assert message is not None
    assert prices.Trade.decode(message).price == 2
    assert subscriber.take() is None


def test_one_claim_at_a_time(ends: Ends, prices: Any) -> None:
    publisher, _ = ends
    trade = publisher.claim(prices.Trade)
    for use in (
        lambda: publisher.claim(prices.Trade),
        lambda: publisher.claim(8),
        lambda: publisher.offer(b""),
        lambda: publisher.offer(trade),
    ):
        with pytest.raises(ViewAliveError):
            use()
    publisher.close()
    with pytest.raises(ClosedError):
        trade.price = 1
    with pytest.raises(ClosedError):
        trade.commit()
    with pytest.raises(ClosedError):
        publisher.claim(prices.Trade)


def test_variable_length(folder: Path) -> None:
    made = schema(SIZES, GROUPS)
    with Channel.create("typed", "broadcast", capacity=4096, schema=made) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        room = len(GROUP_BYTES) - 9
        message: Any
        for variable in (room, room + 30):
            message = publisher.claim(made.M, variable)
            with pytest.raises(sbe.OrderError):
                message.commit()  # the claim stays open
            write_groups(message)
            message.commit()
            taken = subscriber.take()
            assert taken is not None
            assert len(taken) == 9 + variable
            assert bytes(taken)[: len(GROUP_BYTES)] == GROUP_BYTES
            assert made.M.decode(taken).encoded_length == len(GROUP_BYTES)
        message = publisher.claim(made.M, variable_length=room - 1)
        with pytest.raises(sbe.MessageTooShortError), message:
            write_groups(message)
        longest = publisher.max_message_length
        publisher.claim(made.M, longest - 9).abort()
        for variable in (longest - 8, 2**62, 2**63 - 1, 2**64):
            with pytest.raises(MessageTooLargeError) as caught:
                publisher.claim(made.M, variable)
            assert caught.value.limit == longest
        wrongs: list[Any] = [-1, "x", -(2**64)]
        for wrong in wrongs:
            with pytest.raises((InvalidArgumentError, TypeError, OverflowError)):
                publisher.claim(made.M, wrong)
        assert subscriber.take() is None


def test_back_pressure_and_timeouts(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    count = 0
    while (trade := publisher.try_claim(prices.Trade)) is not None:
        trade.price = count
        trade.commit()
        count += 1
    assert count >= 20
    for attempt in (
        lambda: publisher.claim(prices.Trade, timeout=0.01),
        lambda: publisher.claim(prices.Trade, 0, 0.01),
    ):
        with pytest.raises(BackPressuredError):
            attempt()
    assert publisher.offer(prices.Trade.encode(bytearray(99))) is None
    seen: list[int] = []
    handler = sbe.dispatch({prices.Trade: lambda trade, message: seen.append(trade.price)})
    assert subscriber.poll(handler) == count
    assert seen == [*range(count)]
    publisher.claim(prices.Trade).abort()


def test_laps(ends: Ends, prices: Any) -> None:
    """Messages of different lengths pass the ring's end, and every value is right."""
    publisher, subscriber = ends
    seen: list[Any] = []
    handler = sbe.dispatch(
        {prices.Trade: lambda trade, message: seen.append(trade.price)}, lambda message: seen.append(len(message))
    )
    for i in range(3000):
        trade = publisher.claim(prices.Trade)
        trade.price = i
        trade.commit()
        publisher.offer(bytes(i % 300), 77)
        assert subscriber.poll(handler) == 2
        assert seen[-2:] == [i, i % 300]


def test_a_handler_of_a_dispatch_may_return_an_action(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    for message in (prices.PriceUpdate, prices.Trade):
        publisher.claim(message).commit()
    publisher.offer(b"raw")
    seen = ""
    of_trade: Any = Action.ABORT

    def note(name: str, action: Any = None) -> Any:
        nonlocal seen
        seen += name
        return action

    handler = sbe.dispatch(
        {prices.PriceUpdate: lambda *_: note("p"), prices.Trade: lambda *_: note("t", of_trade)},
        otherwise=lambda message: note("o", Action.BREAK),
    )
    assert subscriber.poll(handler) == 1
    of_trade = Action.COMMIT
    assert subscriber.poll(handler) == 2
    assert seen == "ptto"
    publisher.claim(prices.Trade).commit()
    of_trade = 1
    with pytest.raises(InvalidArgumentError, match="action"):
        subscriber.poll(handler)
    assert subscriber.poll(handler) == 0


def test_what_cannot_be_claimed(ends: Ends, prices: Any, folder: Path) -> None:
    publisher, _ = ends
    wrongs: list[Any] = [int, object, sbe.Message, Publisher, prices.Trade.instrument.type, None, "8", 8.0]
    for wrong in wrongs:
        with pytest.raises(TypeError):
            publisher.claim(wrong)
    with pytest.raises(TypeError):
        publisher.claim(prices.Trade, type=5)
    zero = sbe.Schema.parse(prices.text.replace('name="Trade" id="2"', 'name="Trade" id="0"'))
    for use in (
        lambda: publisher.claim(zero.Trade),
        lambda: publisher.offer(zero.Trade.encode(bytearray(99))),
        lambda: sbe.dispatch({zero.Trade: print}),
    ):
        with pytest.raises(InvalidArgumentError):
            use()
    raw: Any = publisher.claim  # claim of bytes works as before
    raw(length=8).abort()
    raw(True).abort()


def test_encode_over_a_raw_claim(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    claim = publisher.claim(70, 1)
    assert claim is not None
    update = prices.PriceUpdate.encode(claim)
    update.bid = 3
    claim.commit()
    with pytest.raises(ClosedError):
        update.bid = 4
    message = subscriber.take()
    assert prices.PriceUpdate.decode(message).bid == 3
    with pytest.raises(ClosedError):
        prices.PriceUpdate.encode(claim)


def test_offer_of_a_message(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    update = prices.PriceUpdate.encode(bytearray(500), 100)
    update.bid = 8
    assert publisher.offer(update) == publisher.position
    message = subscriber.take()
    assert message is not None
    assert (message.type, bytes(message)) == (1, bytes(update))
    assert publisher.offer(prices.PriceUpdate.decode(message))
    with pytest.raises(InvalidArgumentError, match="template id"):
        publisher.offer(update, 1)
    with pytest.raises(InvalidArgumentError, match="header"):
        publisher.offer(prices.PriceUpdate.wrap(bytes(100)))
    with pytest.raises(sbe.OrderError):
        publisher.offer(prices.Book.encode(bytearray(99)))
    with pytest.raises(TypeError):
        publisher.offer(5)  # type: ignore[arg-type]


# dispatch


def test_dispatch_chooses_by_template(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    seen: list[Any] = []
    handler = sbe.dispatch(
        {
            prices.PriceUpdate: lambda update, message: seen.append((update.bid, message.type, message.position)),
            prices.Trade: lambda trade, message: seen.append(
                (trade.price, trade.instrument.symbol, message.sender.name)
            ),
        },
        otherwise=lambda message: seen.append(bytes(message)),
    )
    with publisher.claim(prices.Trade) as trade:
        trade.instrument.symbol, trade.price = "ABC", 1
        trade.commit()
    publisher.offer(b"raw", 99)
    with publisher.claim(prices.PriceUpdate) as update:
        update.bid = 2
        update.commit()
    book = publisher.claim(prices.Book, 100)
    list(book.levels.encode(0))
    book.remark = "for otherwise"
    book.commit()
    assert subscriber.poll(handler) == 4
    assert seen[0] == (1, "ABC", "feed")
    assert seen[1] == b"raw"
    assert seen[2][:2] == (2, 1)
    assert prices.Book.decode(seen[3]).remark == "for otherwise"
    publisher.offer(b"raw", 99)
    assert subscriber.poll(sbe.dispatch({prices.Trade: print})) == 1  # the message is skipped


def test_dispatch_for_lossy_subscribers_and_take(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    seen: list[int] = []
    handler = sbe.dispatch({prices.Trade: lambda trade, message: seen.append(trade.price)})
    with subscriber._channel.lossy_subscriber() as lossy:
        for price in range(3):
            with publisher.claim(prices.Trade) as trade:
                trade.price = price
                trade.commit()
        assert lossy.poll(handler) == 3
        while (message := subscriber.take()) is not None:
            handler(message)
        assert seen == [0, 1, 2, 0, 1, 2]
        with publisher.claim(prices.Trade) as trade:
            trade.price = 9
            trade.commit()
        peeked = lossy.peek()
        assert peeked is not None
        handler(peeked)
        inside = prices.Trade.decode(peeked)
        assert (seen[-1], inside.price, lossy.valid()) == (9, 9, True)
        with pytest.raises(ClosedError):
            _ = inside.price


def check_dead(
    book: Any, instrument: Any, levels: Any, entry: Any, entries: Any, decoded: Any, message: Message
) -> None:
    for use in (
        lambda: book.timestamp,
        lambda: book.remark,
        lambda: book.levels,
        lambda: instrument.id,
        lambda: list(levels),
        lambda: entry.price,
        lambda: next(entries),
        lambda: decoded.timestamp,
        lambda: bytes(message),
    ):
        with pytest.raises(ClosedError):
            use()
    assert len(levels) == 2  # the value that was read before


def test_what_a_handler_keeps_is_dead(ends: Ends, prices: Any) -> None:
    """A kept decoder, composite, group, entry or iterator never shows the bytes of another message."""
    publisher, subscriber = ends
    stash: list[Any] = []

    def keep(book: Any, message: Message) -> None:
        entries = iter(book.levels)
        stash.append((book, book.instrument, book.levels, next(entries), entries, prices.Book.decode(message), message))

    handler = sbe.dispatch({prices.Book: keep})
    for number in range(4):
        with publisher.claim(prices.Book, 100) as book:
            for level in book.levels.encode(2):
                level.price = number
            book.remark = f"{number}"
            book.commit()
        assert subscriber.poll(handler) == 1
    for kept_ones in stash:
        check_dead(*kept_ones)
    assert len({id(one[0]) for one in stash}) == 4


def test_one_decoder_serves_all_if_it_is_not_kept(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    seen = []
    handler = sbe.dispatch({prices.Trade: lambda trade, message: seen.append(id(trade))})
    for _ in range(5):
        publisher.offer(prices.Trade.encode(bytearray(99)))
    subscriber.poll(handler)
    assert len(set(seen)) == 1


def test_a_handler_that_raises(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    for _ in range(2):
        publisher.offer(prices.Trade.encode(bytearray(99)))
    stash: list[Any] = []

    def fails(trade: Any, message: Message) -> None:
        stash.append(trade)
        raise ZeroDivisionError

    handler = sbe.dispatch({prices.Trade: fails})
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            subscriber.poll(handler)
    assert subscriber.poll(handler) == 0
    for trade in stash:
        with pytest.raises(ClosedError):
            _ = trade.price


def test_a_dispatch_within_its_own_handler(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    seen: list[int] = []
    inner = subscriber._channel.subscriber()
    for price in range(3):
        with publisher.claim(prices.Trade) as trade:
            trade.price = price
            trade.commit()

    def nested(trade: Any, message: Message) -> None:
        before = trade.price
        if message is outermost[0] or not outermost[0]:
            outermost[0] = message
            inner.poll(handler, 3 - before)
            outermost[0] = None
        assert trade.price == before
        seen.append(before)

    outermost: list[Any] = [None]
    handler = sbe.dispatch({prices.Trade: nested})
    assert subscriber.poll(handler) == 3
    assert seen == [0, 1, 2, 0, 1, 2]


def bad_payloads(prices: Any) -> list[tuple[str, int, bytes]]:
    good = bytes(prices.Trade.encode(bytearray(99)))
    return [
        ("header", 2, b""),
        ("header", 2, good[:7]),
        ("schema id is 8", 2, good[:4] + b"\x08" + good[5:]),
        ("template id is 1", 2, good[:2] + b"\x01" + good[3:]),
        ("template id is 2", 1, good),
        ("block of 49 bytes", 2, good[:-1]),
        ("block of 65535 bytes", 2, b"\xff\xff" + good[2:]),
        ("block of 49 bytes", 2, good[:8]),
        ("block of 48 bytes is too short for version 1", 2, b"\x30" + good[1:]),
        ("too short for version 2", 2, b"\x30" + good[1:6] + b"\x02" + good[7:]),
        ("schema id is 0", 2, b"\xff\xff" + bytes(100)),  # the second check comes before the third and the fourth
        ("template id is 0", 2, b"\xff\xff\0\0\7\0\0\0"),  # and the third before the fourth
    ]


def test_bad_messages(ends: Ends, prices: Any) -> None:
    """After each failed check, the message is consumed, and the ring goes on."""
    publisher, subscriber = ends
    seen: list[int] = []

    def note(trade: Any, message: Message) -> None:
        seen.append(trade.price)

    handler = sbe.dispatch({prices.Trade: note, prices.PriceUpdate: note})
    for i, (reason, type_, payload) in enumerate(bad_payloads(prices)):
        start = publisher.position
        publisher.offer(payload, type_)
        with publisher.claim(prices.Trade) as trade:
            trade.price = i
            trade.commit()
        with pytest.raises(BadMessageError, match=reason) as caught:
            subscriber.poll(handler)
        error = caught.value
        assert (error.ring, error.type, error.code) == (publisher.ring, type_, "bad-message")
        if i:
            assert error.position == start
        assert isinstance(error, (FlyringError, ValueError))
        assert reason in error.reason
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.position, again.reason) == (str(error), error.position, error.reason)
        assert subscriber.poll(handler) == 1
        assert seen[-1] == i


def test_what_dispatch_does_not_take(ends: Ends, prices: Any) -> None:
    for wrong in ({int: print}, {prices.Trade: 5}, {sbe.Message: print}, 5, {prices.Book.levels.type: print}):
        with pytest.raises((TypeError, AttributeError)):
            sbe.dispatch(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sbe.dispatch({}, otherwise=5)  # type: ignore[arg-type]
    again: Any = sbe.Schema.load(PRICES)
    with pytest.raises(InvalidArgumentError, match="same template"):
        sbe.dispatch({prices.Trade: print, again.Trade: print})
    with pytest.raises(TypeError):
        sbe.dispatch({prices.Trade: print})(b"bytes")  # type: ignore[arg-type]
    publisher, subscriber = ends
    stash: list[Message] = []
    publisher.offer(b"x", 2)
    subscriber.poll(stash.append)
    with pytest.raises(ClosedError):
        sbe.dispatch({prices.Trade: print})(stash[0])
    assert sbe.dispatch({}) is not None


def test_many_templates() -> None:
    """More templates than the table's first size, and ids that collide in it."""
    messages = "".join(
        f'<sbe:message name="M{i}" id="{i}"><field name="a" id="1" type="uint32"/></sbe:message>'
        for i in range(1, 65000, 970)
    )
    made: Any = sbe.Schema.parse(PRICES.read_text().split("<sbe:message ")[0] + messages + "</sbe:messageSchema>")
    seen: list[tuple[int, int]] = []

    def handler_of(number: int) -> Callable[[Any, Message], None]:
        return lambda decoder, message: seen.append((number, decoder.a))

    classes = [*made.messages.values()]
    handler = sbe.dispatch({cls: handler_of(cls.TEMPLATE_ID) for cls in classes})
    with Channel.create("many", "broadcast", publishers=1, subscribers=1) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        for cls in classes:
            with publisher.claim(cls) as message:
                message.a = cls.TEMPLATE_ID
                message.commit()
            publisher.offer(b"", cls.TEMPLATE_ID + 1)  # a type without a handler
        while subscriber.poll(handler):
            pass
    assert seen == [(cls.TEMPLATE_ID, cls.TEMPLATE_ID) for cls in classes]


def test_a_dispatch_in_a_cycle_is_collected(prices: Any) -> None:
    class Reader:
        def __init__(self) -> None:
            self.handler = sbe.dispatch({prices.Trade: self.on_trade}, self.otherwise)

        def on_trade(self, trade: Any, message: Message) -> None: ...

        def otherwise(self, message: Message) -> None: ...

    reader = weakref.ref(Reader())
    gc.collect()
    assert reader() is None


def test_a_forked_child_cannot_publish(ends: Ends, prices: Any) -> None:
    publisher, subscriber = ends
    trade = publisher.claim(prices.Trade)
    trade.price = 1

    def child() -> None:
        trade.price = 2  # writes to the child's private memory
        for use in (trade.commit, trade.abort, lambda: publisher.claim(prices.Trade)):
            with pytest.raises(ClosedError):
                use()
        os.environ.clear()

    in_child(child)
    trade.commit()
    assert prices.Trade.decode(subscriber.take()).price == 1


def test_decode_in_a_raw_handler_pins_nothing(ends: Ends, prices: Any) -> None:
    """A flyweight over a message in place does not export it: the flyweight expires, and the poll goes on."""
    publisher, subscriber = ends
    for _ in range(3):
        publisher.offer(prices.Trade.encode(bytearray(99)))
    stash: list[Any] = []
    assert subscriber.poll(lambda message: stash.append(prices.Trade.decode(message))) == 3
    for trade in itertools.islice(stash, 3):
        with pytest.raises(ClosedError):
            _ = trade.price
