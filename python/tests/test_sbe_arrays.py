# SPDX-License-Identifier: Apache-2.0
"""Runs of typed messages as numpy arrays: their contents (spec/messages.md 3)."""

from __future__ import annotations

import enum
import random
import struct
import warnings
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from flyring import (
    Action,
    BadMessageError,
    Channel,
    CorruptRingError,
    InvalidArgumentError,
    Message,
    Publisher,
)
from flyring.sbe import Schema, SchemaWarning, from_dict, model
from sbe_arrays import (
    FIELDS,
    PRICE,
    PRICES,
    RECORD,
    TRADE,
    Array,
    Reader,
    column,
    header,
    leaves,
    prices,
    read,
    ring,
    schema_of,
    sequences,
)
from sbe_strategies import bodies, models

__all__ = ["ring"]

# Dtypes


def test_the_dtype_of_the_price_update() -> None:
    instrument = [("id", "<u8"), ("symbol", "S8"), ("exchange", "S4"), ("currency", "S3"), ("kind", "u1")]
    assert PRICE.dtype == numpy.dtype(
        [
            ("instrument", instrument),
            ("timestamp", "<u8"),
            ("bid", "<i8"),
            ("ask", "<i8"),
            ("bidSize", "<u4"),
            ("askSize", "<u4"),
            ("sequence", "<u4"),
            ("flags", "u1"),
            ("lastSide", "S1"),
        ]
    )
    assert PRICE.dtype is PRICE.dtype
    with pytest.raises(AttributeError, match=r"Book has groups or data \(levels, remark\): .* have no dtype"):
        _ = PRICES.Book.dtype


def agrees(value: Any, read: Any, field: Any, limits: model.Field) -> bool:
    """Returns whether numpy's value is equal to the flyweight's."""
    if field.kind == "composite":
        assert isinstance(limits.type, model.Composite)
        known = {member.name: member for member in limits.type.fields}
        return all(
            not member.length or agrees(value[member.name], getattr(read, name), member, known[member.name])
            for name, member in type(read).FIELDS.items()
        )
    if read is None:
        assert isinstance(limits.type, model.Encoded | model.Enum)
        null = limits.type.null_value
        if value.dtype.kind == "S":
            return bool(value == bytes([int(null)]).rstrip(b"\0"))
        return bool(numpy.all((value == null) | (value != value)))
    if isinstance(read, enum.IntFlag):
        assert isinstance(limits.type, model.Set)
        known_bits = sum(1 << choice.value for choice in limits.type.choices)
        return bool((int(value) & known_bits) == int(read))
    if isinstance(read, enum.Enum):
        read = read.value
    if isinstance(read, str):
        return bool(value.decode(field.encoding or "ascii") == read.rstrip("\0"))
    if isinstance(read, bytes):
        return bool(value.tobytes() == read)
    return bool(numpy.array_equal(value, read, equal_nan=value.dtype.kind == "f"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.long
def test_arrays_hold_what_messages_do(data: st.DataObject) -> None:
    parsed = data.draw(models())
    known = [one for one in parsed.messages if not one.groups and not one.data]
    assume(known)
    message = data.draw(st.sampled_from(known))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        schema = Schema.parse(parsed.text)
    cls: Any = schema.messages[message.name]
    assert cls.dtype.itemsize == message.block_length
    payloads = [from_dict(cls, data.draw(bodies(message))) for _ in range(data.draw(st.integers(1, 5)))]
    skip = parsed.header.encoded_length
    with Channel.replace("x", "broadcast", capacity=1 << 16) as channel:
        publisher = channel.publisher()
        subscriber, lossy, back = channel.subscriber(), channel.lossy_subscriber(), channel.subscriber()
        for payload in payloads:
            assert publisher.offer(payload, message.id)
        for reader in (subscriber, lossy):
            (rows,) = read(reader, cls)
            assert rows.dtype == cls.dtype
            assert len(rows) == len(payloads)
            for path, offset, length in leaves(message.fields):
                cells = [payload[skip + offset : skip + offset + length] for payload in payloads]
                assert numpy.ascontiguousarray(column(rows, path)).tobytes() == b"".join(cells), path
        for row, payload in zip(rows, payloads, strict=True):
            flyweight = cls.decode(payload)
            for name, field in cls.FIELDS.items():
                limits = next(one for one in message.fields if one.name == field.name)
                assert not field.length or agrees(row[field.name], getattr(flyweight, name), field, limits), name
        # And back, from the copy, whose unused bytes differ from those of the payloads.
        back.poll(lambda message: None, limit=len(payloads))
        assert publisher.offer_array(cls, rows) == len(rows)
        again: list[bytes] = []
        assert back.poll(lambda message: again.append(bytes(message))) == len(rows)
        for payload, returned in zip(payloads, again, strict=True):
            assert returned[:skip] == payload[:skip]
            assert len(returned) == skip + message.block_length
            for _, offset, length in leaves(message.fields):
                assert returned[skip + offset :][:length] == payload[skip + offset :][:length]


@pytest.mark.parametrize("order", ["littleEndian", "bigEndian"])
def test_other_headers_byte_orders_and_offsets(ring: tuple[Publisher, Reader], order: str) -> None:
    message = schema_of(f'<message name="M" id="70000" blockLength="30">{FIELDS}</message>', order=order).M
    at = ">" if order == "bigEndian" else "<"
    both = numpy.dtype({"names": ["a", "pair"], "formats": [f"{at}f8", (f"{at}i2", 2)], "offsets": [0, 10]})
    forms = [both, ("u1", 3)]
    assert message.dtype == numpy.dtype(
        {"names": ["both", "bytes"], "formats": forms, "offsets": [2, 16], "itemsize": 30}
    )
    rows = numpy.zeros(3, message.dtype)
    rows["both"]["a"], rows["both"]["pair"], rows["bytes"] = [1.5, -2, 3], [[1, -2], [3, 4], [5, 6]], [[7, 8, 9]] * 3
    publisher, reader = ring
    assert publisher.offer_array(message, rows) == 3
    seen = bytearray(16)
    struct.pack_into(f"{at}IB", seen, 0, 70000, 2)
    struct.pack_into(f"{at}HH", seen, 12, 9, 30)
    twin = bytes(seen)
    # Header bytes that belong to no field may differ within a run.
    assert publisher.offer(twin[:7] + b"\xff" + twin[8:] + rows[0].tobytes(), 70000)
    (found,) = read(reader, message)
    assert len(found) == 4
    assert found["both"]["pair"].tolist() == [[1, -2], [3, 4], [5, 6], [1, -2]]
    publisher.offer_array(message, rows[:1])
    reader.poll(lambda message: seen.__setitem__(slice(None), message.data[:16]))
    assert bytes(seen)[:5] + bytes(seen)[12:] == twin[:5] + twin[12:]


def test_a_message_without_a_block(ring: tuple[Publisher, Reader]) -> None:
    message = schema_of('<message name="Empty" id="5"/>').Empty
    publisher, reader = ring
    assert publisher.offer_array(message, numpy.zeros(7, message.dtype)) == 7
    (rows,) = read(reader, message)
    assert rows.shape == (7,) and rows.dtype.itemsize == 0


# Runs


def test_a_run_is_one_array_in_place_and_read_only(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(10))

    def look(array: Array) -> None:
        assert (array.shape, array.strides, array.dtype) == ((10,), (RECORD,), PRICE.dtype)
        assert not array.flags.writeable and not array.flags.owndata
        with pytest.raises(ValueError):
            array["bid"] = 1
        with pytest.raises(ValueError):
            array.flags.writeable = True
        assert array["bid"].sum() == sum(3 * i - 1 for i in range(10))

    assert reader.poll_arrays(PRICE, look) == 10
    assert reader.poll_arrays(PRICE, look) == 0


def test_an_action_applies_to_the_whole_run(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(10))
    publisher.offer(b"other", 9)
    publisher.offer_array(PRICE, prices(3))
    seen: list[int] = []
    action: Any = Action.ABORT

    def look(array: Array) -> Any:
        seen.append(len(array))
        return action

    def other(message: Message) -> Any:
        seen.append(len(message))
        return other_action

    other_action: Any = Action.ABORT
    assert reader.poll_arrays(PRICE, look, otherwise=other) == 0
    assert reader.poll_arrays(PRICE, look, limit=4, otherwise=other, timeout=None) == 0
    action = Action.BREAK
    assert reader.poll_arrays(PRICE, look, limit=4, otherwise=other) == 4
    action = Action.COMMIT
    assert reader.poll_arrays(PRICE, look, otherwise=other) == 6
    other_action = Action.BREAK
    assert reader.poll_arrays(PRICE, look, otherwise=other) == 1
    action = len
    with pytest.raises(InvalidArgumentError, match="action"):
        reader.poll_arrays(PRICE, look, otherwise=other)
    assert reader.poll_arrays(PRICE, look, otherwise=other) == 0
    assert seen == [10, 4, 4, 6, 5, 5, 3]


def test_other_messages_end_a_run_and_go_to_otherwise_or_are_skipped(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    for otherwise in (True, False):
        publisher.offer_array(PRICE, prices(3))
        publisher.offer(b"one", 77)
        publisher.offer(b"two", 78)
        publisher.offer_array(PRICE, prices(2, 3))
        publisher.offer(header() + bytes(62), 77)  # like its neighbours, except for its type
        publisher.offer_array(PRICE, prices(2, 5))
        publisher.offer_array(TRADE, numpy.zeros(1, TRADE.dtype))
        publisher.offer_array(PRICE, prices(1, 7))
        found = read(reader) if otherwise else read(reader, otherwise=None)
        if otherwise:
            assert [len(one) for one in found] == [3, 3, 3, 2, 70, 2, 57, 1]
            assert found[1:3] == [b"one", b"two"]
        else:
            assert [len(one) for one in found] == [3, 2, 2, 1]
        assert sequences(found) == list(range(8))


def test_what_follows_a_message_in_its_payload_is_not_looked_at(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    rows = prices(8)
    for row, more in zip(rows, (0, 0, 1, 1, 200, 200, 200, 0), strict=True):
        publisher.offer(header() + row.tobytes() + b"\xff" * more, 1)
    found = read(reader)
    assert [len(one) for one in found] == [2, 2, 3, 1]  # all messages of a run have one length
    assert (numpy.concatenate(found) == rows).all()


def test_the_limit_counts_messages_and_what_is_skipped_is_not_counted(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(7))
    publisher.offer(b"skipped", 77)
    publisher.offer_array(PRICE, prices(5, 7))
    lengths: list[int] = []
    polled = [reader.poll_arrays(PRICE, lambda array: lengths.append(len(array)), 5) for _ in range(4)]
    assert polled == [5, 5, 2, 0]
    assert lengths == [5, 2, 3, 2]
    publisher.offer(b"skipped", 77)
    assert reader.poll_arrays(PRICE, print) == 0
    assert reader.position(0) == publisher.position
    with pytest.raises(InvalidArgumentError, match="limit"):
        reader.poll_arrays(PRICE, print, 0)


def test_many_laps_of_everything_arrive_in_order(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    chance = random.Random(1)
    sent: list[int | bytes] = []
    got: list[int | bytes] = []

    def rows(array: Array) -> None:
        assert (array["bid"] == array["sequence"].astype("i8") * 3 - 1).all()
        got.extend(array["sequence"].tolist())

    number = 0
    while publisher.position < 40 << 16:
        if chance.random() < 0.3:
            other = b"%d " % number * chance.randrange(1, 60)
            if publisher.offer(other, 77):
                sent.append(other)
        count = chance.choice([1, 1, 2, 30, 100])
        taken = publisher.offer_array(PRICE, prices(count, number))
        sent.extend(range(number, number + taken))
        number += taken
        if chance.random() < 0.5 or publisher.position - reader.position(0) > 1 << 15:
            while reader.poll_arrays(PRICE, rows, chance.choice([1, 7, 500]), lambda other: got.append(bytes(other))):
                pass
    read_to_end = reader.poll_arrays(PRICE, rows, otherwise=lambda other: got.append(bytes(other)))
    assert got == sent and read_to_end >= 0
    assert number > 10000


def test_a_run_ends_where_the_gate_is_stored_and_at_the_rings_end() -> None:
    with Channel.create("gate", "broadcast", capacity=1 << 14, publishers=1) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        gate = channel.header.gate(0, subscriber.slot)
        gates: list[int] = []
        lengths: list[int] = []

        def look(array: Array) -> None:
            lengths.append(len(array))
            gates.append(channel._attached.memory.load64(gate))

        for count in (90, 80):  # the owner record has the first 64 bytes
            assert publisher.offer_array(PRICE, prices(count)) == count
            assert subscriber.poll_arrays(PRICE, look) == count
        # A run of 5 ends at the ring's end, where 64 bytes are padding. No gate is due there.
        assert lengths == [16, 16, 16, 16, 16, 10, 16, 16, 5, 11, 16, 16]
        assert gates == [0, 2112, 4160, 6208, 8256, 10304, 11584, 13632, 15680, 15680, 17792, 19840]


# Versions


def test_older_versions_lack_fields_and_newer_ones_show_no_more(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    block = struct.pack("<Q8s4s3sB", 1, b"SYM", b"EX", b"EUR", 0) + struct.pack("<QqIc", 5, 6, 7, b"B")
    assert len(block) == 45
    kinds = ((0, 45, b"", 2), (1, 49, b"\x09\0\0\0", 2), (2, 60, b"\x0a\0\0\0" + bytes(11), 3))
    for version, length, extra, times in kinds:
        for _ in range(times):
            publisher.offer(header(template=2, version=version, block=length) + block + extra, 2)
    publisher.offer(header(template=2, version=0, block=49) + block + b"\x0b\0\0\0", 2)  # bytes of a later version
    publisher.offer(header(template=2, version=0, block=44) + block, 2)  # shorter than version 0
    publisher.offer(header(template=2, version=0, block=0), 2)
    old, same, new, filled, cut, none = read(reader, TRADE)
    assert [len(one) for one in (old, same, new, filled, cut, none)] == [2, 2, 3, 1, 1, 1]
    for one in (old, same, new, filled, cut):
        assert one["price"].tolist() == [6] * len(one) and one["instrument"]["symbol"][0] == b"SYM"
    assert old.dtype.names == filled.dtype.names == TRADE.dtype.names[:-1] == (*cut.dtype.names, "side")
    assert (old.dtype.itemsize, filled.dtype.itemsize, cut.dtype.itemsize) == (45, 49, 44)
    assert same.dtype == new.dtype == TRADE.dtype
    assert (same["venueFee"].tolist(), new["venueFee"].tolist()) == ([9, 9], [10, 10, 10])
    assert none.dtype.names == () and len(none) == 1


def test_a_hostile_number_of_blocks_is_not_remembered(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    lengths = [block % 60 for block in range(200)]
    for block in lengths:
        assert publisher.offer(header(version=0, block=block) + bytes(62), 1)
    assert [one.dtype.itemsize for one in read(reader)] == lengths
    assert PRICE._records.acting_dtype.cache_info().currsize <= 32


# Messages that do not match their type

BAD = {
    "no header": (b"1234567", "less than the message header's 8"),
    "empty": (b"", "less than the message header's 8"),
    "schema id": (header(schema=8) + bytes(62), "schema id is 8, not 7"),
    "template id": (header(template=2) + bytes(62), "template id is 2, but the type of its record 1"),
    "block": (header(block=63) + bytes(62), "block of 63 bytes does not fit into its payload of 70"),
    "short block": (header(block=61) + bytes(62), "block of 61 bytes is too short for version 1"),
    "first of two": (header(schema=9, template=9, block=999), "schema id is 9"),
}


@pytest.mark.parametrize(("payload", "reason"), BAD.values(), ids=BAD.keys())
def test_a_bad_message_is_an_error_and_consumed(ring: tuple[Publisher, Reader], payload: bytes, reason: str) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(2))
    position = publisher.position
    publisher.offer(payload, 1)
    publisher.offer(payload, 1)
    publisher.offer_array(PRICE, prices(3, 2))
    found: list[int] = []
    for bad in range(2):
        with pytest.raises(BadMessageError, match=reason) as caught:
            reader.poll_arrays(PRICE, lambda array: found.extend(array["sequence"].tolist()), otherwise=print)
        assert isinstance(caught.value, ValueError)
        end = position + (64 if len(payload) <= 56 else 128)
        assert (caught.value.ring, caught.value.position, caught.value.type) == (0, position, 1)
        assert reader.position(0) == end
        position = end
        assert found == [0, 1], bad
    assert reader.poll_arrays(PRICE, lambda array: found.extend(array["sequence"].tolist())) == 3
    assert found == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("before", "length", "kind"),
    [(2, 1, 1), (2, 7, 1), (2, 2**31 - 1, 1), (2, 78, 0), (2, 78, -3), (31, 78, 1)],
)
def test_a_corrupt_ring_is_told_after_the_run_before_it(before: int, length: int, kind: int) -> None:
    with Channel.create("corrupt", "broadcast", capacity=4096, publishers=2) as channel:
        publisher, other, subscriber = channel.publisher(), channel.publisher(), channel.subscriber()
        for number in range(before - 2):
            publisher.offer_array(PRICE, prices(1, number))
            assert len(read(subscriber)) == 1
        publisher.offer_array(PRICE, prices(2))
        position = 64 + before * RECORD  # behind the owner record
        assert publisher.position == position
        at = channel.header.ring(0) + position
        if length == 78 and kind == 1:  # like the previous ones, but it would end behind the ring
            channel._attached.memory.write(at + 8, header())
        channel._attached.memory.store32(at + 4, kind)
        channel._attached.memory.store32(at, length)
        found: list[int] = []
        with pytest.raises(CorruptRingError) as caught:
            for _ in range(4):
                subscriber.poll_arrays(PRICE, lambda array: found.append(len(array)))
        assert (caught.value.ring, caught.value.position) == (0, position)
        assert sum(found) == 2
        other.offer_array(PRICE, prices(1))
        assert sequences(read(subscriber)) == [0]
