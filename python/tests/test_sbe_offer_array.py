# SPDX-License-Identifier: Apache-2.0
"""Arrays as typed messages (spec/messages.md 3)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from flyring import (
    Channel,
    ClosedError,
    InvalidArgumentError,
    MessageTooLargeError,
    Publisher,
    ViewAliveError,
    sbe,
)
from sbe_arrays import (
    FIELDS,
    PRICE,
    PRICES,
    Array,
    Reader,
    column,
    header,
    prices,
    read,
    ring,
    schema_of,
    sequences,
)

__all__ = ["ring"]

# Rows


def test_rows_of_any_strides_are_published() -> None:
    with Channel.create("strides", "broadcast", capacity=1 << 16) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        rows = prices(12)
        frozen = rows.copy()
        frozen.flags.writeable = False
        wide = numpy.zeros(5, [("x", "u1"), ("price", PRICE.dtype), ("y", "f4")])
        wide["price"] = rows[:5]
        for one in (rows, rows[::-1], rows[::3], rows[5:5], frozen, wide["price"], rows.view(numpy.recarray), rows[:1]):
            assert publisher.offer_array(PRICE, one) == len(one)
            assert sequences(read(subscriber)) == one["sequence"].tolist()
        message = b""
        publisher.offer_array(PRICE, rows[1:2])
        polled = subscriber.take()
        assert polled is not None
        message = bytes(polled)
        assert (polled.type, message) == (1, header() + rows[1:2].tobytes())


def test_other_types_are_cast_by_name() -> None:
    with Channel.create("cast", "broadcast", capacity=1 << 16) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        rows = prices(5)
        names = list(PRICE.dtype.names)
        forms = {name: ">i8" if PRICE.dtype[name].kind in "iu" else PRICE.dtype[name] for name in names}
        loose = numpy.dtype([(name, forms[name]) for name in names[::-1]])
        cast = numpy.zeros(5, loose)
        for name in names:
            cast[name] = rows[name]
        aligned = numpy.zeros(5, numpy.dtype(PRICE.dtype.descr, align=True))
        for name in names:
            aligned[name] = rows[name]
        for one in (cast, aligned, rows.astype(PRICE.dtype.newbyteorder(">"))):
            assert one.dtype != PRICE.dtype
            assert publisher.offer_array(PRICE, one) == 5
            (found,) = read(subscriber)
            assert (found == rows).all()


def changed(path: str, form: Any, value: Any = 0) -> Array:
    """Returns two prices with another type for one field; None: without the field."""

    def replace(dtype: Any, path: list[str]) -> Any:
        if not path:
            return form
        content = [(name, dtype[name]) for name in dtype.names]
        if path[0] not in dtype.names:
            return numpy.dtype([*content, (path[0], form)])
        new = [(name, replace(one, path[1:]) if name == path[0] else one) for name, one in content]
        return numpy.dtype([(name, one) for name, one in new if one is not None])

    rows = numpy.zeros(2, replace(PRICE.dtype, path.split(".")))
    if form is not None:
        column(rows, path.split("."))[1] = value
    return rows


REFUSED = {
    "missing": (changed("bid", None), "field bid of PriceUpdate: the array has no such field"),
    "nested missing": (changed("instrument.symbol", None), "field instrument.symbol .*no such field"),
    "unknown": (changed("extra", "i4"), "field extra .*the message has no such field"),
    "too great": (changed("askSize", "i8", 2**32), "field askSize .*4294967296 is out of the range of uint32"),
    "too small": (changed("askSize", "i4", -1), "field askSize .*-1 is out of the range"),
    "float": (changed("bid", "f8"), "field bid .*float64 cannot be cast to int64"),
    "text": (changed("instrument.symbol", "S9", b"123456789"), "field instrument.symbol .*longer than 8 bytes"),
    "unicode": (changed("instrument.symbol", "U8"), "field instrument.symbol .*cannot be cast"),
    "number for text": (changed("lastSide", "u1", 66), "field lastSide .*cannot be cast"),
    "shape": (changed("bid", ("i8", (2,))), "field bid .*shape"),
    "structured": (changed("bid", PRICE.dtype["instrument"], (0, b"", b"", b"", 0)), "field bid "),
    "not structured": (changed("instrument", "S24", b""), "field instrument "),
    "plain": (numpy.zeros(3), "field .* of PriceUpdate"),
    "two dimensions": (numpy.zeros((2, 2), PRICE.dtype), "one dimension"),
    "no dimension": (numpy.zeros((), PRICE.dtype), "one dimension"),
    "a list": ([(1, 2)], "numpy array"),
    "bytes": (bytes(62), "numpy array"),
}


@pytest.mark.parametrize(("array", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_lose_something_is_refused_and_named(array: Any, reason: str) -> None:
    with Channel.create("refused", "broadcast", capacity=1 << 16) as channel:
        publisher = channel.publisher()
        position = publisher.position
        with pytest.raises(InvalidArgumentError, match=reason) as caught:
            publisher.offer_array(PRICE, array)
        assert caught.value.argument == "array"
        assert publisher.position == position


def test_a_float_too_great_is_refused() -> None:
    message = schema_of('<message name="F" id="1"><field name="f" id="1" type="float"/></message>').F
    with Channel.create("float", "broadcast", capacity=1 << 16) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        good = numpy.array([(1.1,), (numpy.inf,), (numpy.nan,)], [("f", "f8")])
        assert publisher.offer_array(message, good) == 3
        (found,) = read(subscriber, message)
        assert numpy.array_equal(found["f"], good["f"].astype("f4"), equal_nan=True)
        with pytest.raises(InvalidArgumentError, match="out of the range of float32"):
            publisher.offer_array(message, numpy.array([(1e300,)], [("f", "f8")]))


def test_classes_that_are_not_of_one_size_and_ids_that_cannot_be_types(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    zero = schema_of('<message name="Zero" id="0"/>').Zero
    refused: list[tuple[Any, str]] = [(PRICES.Book, "levels, remark"), (zero, "template id")]
    refused += [(int, "message class"), (None, "message class"), (sbe.Message, "message class")]
    for message, reason in refused:
        with pytest.raises(InvalidArgumentError, match=reason) as caught:
            publisher.offer_array(message, prices(1))
        assert caught.value.argument == "message"
        with pytest.raises(InvalidArgumentError, match=reason):
            reader.poll_arrays(message, print)
    for handlers in ((None, None), (print, 1)):
        with pytest.raises(TypeError, match="callable"):
            reader.poll_arrays(PRICE, handlers[0], otherwise=handlers[1])  # type: ignore[arg-type]


def test_back_pressure_takes_a_part_and_nothing_is_lost() -> None:
    with Channel.create("pressure", "broadcast", capacity=1 << 14) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        sent, got = 0, 0
        rows = prices(1000)
        for _ in range(100):
            taken = publisher.offer_array(PRICE, rows[sent % 500 :])
            assert taken < 200
            numbers = sequences(read(subscriber))
            assert numbers == [sent % 500 + i for i in range(taken)]
            got += taken
            if not subscriber.poll_arrays(PRICE, print) and taken:
                while publisher.offer_array(PRICE, rows) > 0:
                    pass
                assert publisher.offer_array(PRICE, rows) == 0
                while subscriber.poll(lambda message: None):
                    pass
            sent += taken
        assert got == sent > 1000


def test_rows_that_are_too_large_are_refused() -> None:
    with Channel.create("large", "broadcast", capacity=4096, publishers=1) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        for block, fits in ((1000, True), (1001, False)):  # plus a header of 16 bytes; the longest payload is 1016
            message = schema_of(f'<message name="Large" id="3" blockLength="{block}">{FIELDS}</message>').Large
            assert publisher.max_message_length == 1016
            rows = numpy.zeros(2, message.dtype)
            if fits:
                assert publisher.offer_array(message, rows) == 2
                assert [len(one) for one in read(subscriber, message)] == [1, 1]
                continue
            for some in (rows, rows[:0]):
                with pytest.raises(MessageTooLargeError) as caught:
                    publisher.offer_array(message, some)
                assert (caught.value.length, caught.value.limit) == (1017, 1016)


def test_an_open_claim_and_a_closed_publisher(ring: tuple[Publisher, Reader]) -> None:
    publisher, _ = ring
    claim = publisher.claim(10)
    assert claim is not None
    with claim, pytest.raises(ViewAliveError):
        publisher.offer_array(PRICE, prices(1))
    assert publisher.offer_array(PRICE, prices(1)) == 1
    publisher.close()
    with pytest.raises(ClosedError):
        publisher.offer_array(PRICE, prices(1))
