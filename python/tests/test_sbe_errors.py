# SPDX-License-Identifier: Apache-2.0
"""The errors of flyweights: they name message and field, and nothing is written."""

from __future__ import annotations

import math
import pickle
import struct
import types
from collections.abc import Callable
from typing import Any

import pytest

from flyring import FlyringError, InvalidArgumentError, sbe
from flyring.sbe import fields
from flyring.sbe.fields import Dimension, Entry, Header, Message
from test_sbe_messages import GROUP_BYTES, GROUPS, SIZES, field, header, new, schema, write_groups

TYPES = """<type name="O" primitiveType="uint8" presence="optional"/>
<type name="Limited" primitiveType="int16" minValue="-5" maxValue="5"/>
<type name="LF" primitiveType="double" minValue="0" maxValue="1.5"/>
<type name="OF" primitiveType="float" presence="optional"/>
<type name="C" primitiveType="char"/><type name="OC" primitiveType="char" presence="optional"/>
<type name="T" primitiveType="char" length="4" characterEncoding="US-ASCII"/>
<type name="U" primitiveType="char" length="4" characterEncoding="UTF-8"/>
<type name="L" primitiveType="char" length="4" characterEncoding="ISO-8859-1"/>
<type name="B" primitiveType="uint8" length="3"/><type name="A" primitiveType="int16" length="2"/>
<enum name="E" encodingType="uint8"><validValue name="x">1</validValue></enum>
<enum name="EC" encodingType="char"><validValue name="X">x</validValue></enum>
<enum name="EW" encodingType="uint16"><validValue name="x">1</validValue></enum>
<set name="S" encodingType="uint8"><choice name="a">0</choice></set>
<composite name="P"><type name="x" primitiveType="int32"/></composite>"""
KINDS = (
    *("int8", "uint8", "uint32", "int64", "uint64", "float", "double", "O", "Limited", "LF", "OF"),
    *("C", "OC", "T", "U", "L", "B", "A", "E", "EC", "EW", "S", "P"),
)


@pytest.fixture(scope="module")
def made() -> Any:
    return schema(TYPES, "".join(field(kind, f"f_{kind}") for kind in KINDS))


RANGE, TYPE = sbe.OutOfRangeError, sbe.WrongTypeError


@pytest.mark.parametrize(
    ("kind", "value", "error", "says"),
    [
        ("int8", 128, RANGE, "128 is not in -128 to 127"),
        ("int8", -129, RANGE, ""),
        ("uint8", 256, RANGE, "256 is not in 0 to 255"),
        ("uint8", -1, RANGE, ""),
        ("uint32", 2**32, RANGE, ""),
        ("int64", 2**63, RANGE, ""),
        ("int64", -(2**63) - 1, RANGE, ""),
        ("uint64", 2**64, RANGE, "is not in 0 to 18446744073709551615"),
        ("uint64", -1, RANGE, ""),
        ("uint64", 2**200, RANGE, ""),
        ("uint64", -(2**200), RANGE, ""),
        ("int8", 1.0, TYPE, "an int is expected, not 1.0"),
        ("uint64", "1", TYPE, ""),
        ("int64", None, TYPE, "required"),
        ("O", 255, RANGE, "null value"),
        ("O", 256, RANGE, ""),
        ("Limited", 6, RANGE, "6 is not in -5 to 5"),
        ("Limited", -6, RANGE, ""),
        ("LF", 1.6, RANGE, ""),
        ("LF", -0.1, RANGE, ""),
        ("float", 1e39, RANGE, "too large"),
        ("float", -1e39, RANGE, ""),
        ("double", 10**400, RANGE, ""),
        ("double", "1", TYPE, "a float"),
        ("double", None, TYPE, "required"),
        ("OF", math.nan, RANGE, "null value"),
        ("C", "", RANGE, "one character"),
        ("C", "ab", RANGE, ""),
        ("C", "\xe4", RANGE, "cannot be written in ascii"),
        ("C", 65, TYPE, "a str"),
        ("C", None, TYPE, ""),
        ("OC", "\0", RANGE, ""),
        ("T", "abcde", RANGE, "5 bytes, more than 4"),
        ("T", "\xe4", RANGE, ""),
        ("T", b"ab", TYPE, "a str"),
        ("T", None, TYPE, ""),
        ("U", "\xe4\xe4a", RANGE, "5 bytes"),
        ("U", "\ud800", RANGE, "utf-8"),
        ("L", "\u20ac", RANGE, ""),
        ("L", 5, TYPE, ""),
        ("B", b"ab", RANGE, "3 bytes are expected, not 2"),
        ("B", "abc", TYPE, "bytes are expected"),
        ("B", None, TYPE, ""),
        ("A", (1,), RANGE, "2 numbers are expected, not 1"),
        ("A", (1, 2**15), RANGE, ""),
        ("A", (1, "x"), TYPE, ""),
        ("A", 5, TYPE, "a sequence"),
        ("A", None, TYPE, ""),
        ("E", 2, TYPE, "a member"),
        ("E", None, TYPE, ""),
        ("E", 257, TYPE, ""),
        ("E", 2**80, TYPE, ""),
        ("E", -1, TYPE, ""),
        ("EC", "x", TYPE, ""),
        ("EC", 120, TYPE, ""),
        ("EW", 0, TYPE, ""),
        ("EW", 2**16 + 1, TYPE, ""),
        ("S", 2, RANGE, "choices"),
        ("S", -1, RANGE, ""),
        ("S", "a", TYPE, ""),
        ("S", None, TYPE, ""),
        ("P", 1, TYPE, ""),
    ],
)
def test_a_value_that_a_field_cannot_have(
    made: Any, kind: str, value: Any, error: type[sbe.SbeError], says: str
) -> None:
    message = made.M.encode(buffer := bytearray(b"\x55" * 200))
    before = bytes(buffer)
    with pytest.raises(error) as caught:
        setattr(message, f"f_{kind}", value)
    assert caught.value.field == f"M.f_{kind}"
    assert str(caught.value).startswith(f"M.f_{kind}: ")
    assert says in str(caught.value)
    assert isinstance(caught.value, (FlyringError, ValueError))
    assert bytes(buffer) == before


def test_errors_of_others_pass_through(made: Any) -> None:
    class Bad:
        def __index__(self) -> int:
            raise RuntimeError("mine")

        def __float__(self) -> float:
            raise RuntimeError("mine")

        def __iter__(self) -> Any:
            raise RuntimeError("mine")

    message = new(made, 200)
    for kind in ("int8", "uint64", "double", "A"):
        with pytest.raises(RuntimeError, match="mine"):
            setattr(message, f"f_{kind}", Bad())


def test_numbers_that_are_not_int_or_float_will_do(made: Any) -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    class Big:
        def __index__(self) -> int:
            return 2**64 - 1

    message = new(made, 200)
    message.f_int8, message.f_uint64, message.f_double, message.f_A = Seven(), Big(), Seven(), (Seven(), True)
    assert (message.f_int8, message.f_uint64, message.f_double, message.f_A) == (7, 2**64 - 1, 7.0, (7, 1))


def test_conversion_that_ends_the_message(made: Any) -> None:
    """Python code that converts a value may release the buffer: then nothing is written."""
    buffer = bytearray(200)
    message = made.M.encode(buffer)

    class Ends:
        def __index__(self) -> int:
            message.__exit__(None, None, None)
            buffer.clear()
            return 1

        def __float__(self) -> float:
            return float(self.__index__())

        def __iter__(self) -> Any:
            self.__index__()
            return iter((1, 2))

    for kind in ("int8", "uint64", "float", "A"):
        buffer[:] = bytes(200)
        message = made.M.encode(buffer)
        with pytest.raises(FlyringError, match="closed"):
            setattr(message, f"f_{kind}", Ends())


def test_values_that_the_schema_does_not_know(made: Any) -> None:
    read = made.M.decode(header(made.M.BLOCK_LENGTH) + b"\xfe" * made.M.BLOCK_LENGTH)
    for kind, says in (("E", "no value 254"), ("EC", "no value 254"), ("EW", "no value 65278")):
        with pytest.raises(sbe.UnknownValueError, match=says) as caught:
            getattr(read, f"f_{kind}")
        assert caught.value.field == f"M.f_{kind}"
    assert (read.f_L, read.f_C, read.f_T, read.f_U) == ("\xfe" * 4, "\udcfe", "\udcfe" * 4, "\udcfe" * 4)


def test_null_of_a_required_enum_is_none(made: Any) -> None:
    read = made.M.decode(header(made.M.BLOCK_LENGTH) + b"\xff" * made.M.BLOCK_LENGTH)
    assert (read.f_E, read.f_EW) == (None, None)


def test_what_is_decoded_cannot_be_written() -> None:
    made = schema(SIZES, GROUPS)
    read = made.M.decode(bytearray(GROUP_BYTES))
    uses: list[Callable[[], object]] = [
        lambda: setattr(read, "a", 1),
        lambda: setattr(read, "d", b""),
        lambda: read.g.encode(1),
        lambda: setattr(read.g[0], "x", 1),
    ]
    for use in uses:
        with pytest.raises(sbe.SbeError, match="can only be read"):
            use()
    for use in (lambda: delattr(read, "a"), lambda: setattr(read, "g", ())):
        with pytest.raises(sbe.WrongTypeError):
            use()
    for use in (read.commit, read.abort):
        with pytest.raises(sbe.SbeError, match="not claimed"):
            use()


# Headers and lengths


def test_headers_that_are_wrong() -> None:
    made = schema("", field("uint32"))
    with pytest.raises(sbe.WrongMessageError, match="M: the header is of schema 8, not 9"):
        made.M.decode(struct.pack("<4HI", 4, 3, 8, 0, 0))
    with pytest.raises(sbe.WrongMessageError, match="template 4, not 3"):
        made.M.decode(struct.pack("<4HI", 4, 4, 9, 0, 0))
    with pytest.raises(sbe.WrongMessageError, match="no template 4"):
        made.decode(struct.pack("<4HI", 4, 4, 9, 0, 0))
    with pytest.raises(sbe.WrongMessageError, match="schema 8"):
        made.decode(struct.pack("<4HI", 4, 3, 8, 0, 0))
    for short in (b"", b"\4\0\3\0\x09\0\0", header(4) + b"abc", header(65535) + b"abcd"):
        with pytest.raises(sbe.MessageTooShortError, match="M: "):
            made.M.decode(short)
    for decode in (made.decode, made.M.decode):
        for offset in (8, 13, 2**62):
            with pytest.raises(sbe.MessageTooShortError):
                decode(header(4) + b"abcd", offset)
    for length in (0, 7, 11):
        with pytest.raises(sbe.MessageTooShortError):
            made.M.encode(bytearray(length))
    for make in (made.M.decode, made.M.encode, made.M.wrap):
        with pytest.raises(InvalidArgumentError):
            make(bytearray(20), -1)
    with pytest.raises(sbe.MessageTooShortError):
        made.M.wrap(b"abc")
    with pytest.raises(sbe.MessageTooShortError):
        made.M.wrap(b"", block_length=2**62)
    with pytest.raises(BufferError):
        made.M.encode(bytes(20))
    with pytest.raises(TypeError):
        made.M.encode("text")


def test_a_block_that_is_too_short_for_its_version() -> None:
    made = schema("", field("uint8") + field("uint32", "b"))
    read = made.M.decode(header(4) + b"abcdefgh")  # b would end at 5
    assert read.a == 97
    with pytest.raises(sbe.MessageTooShortError, match=r"M\.b: it ends at byte 5 of a block of 4"):
        _ = read.b


HOSTILE = [
    pytest.param(b"\1", "g", id="no dimension"),
    pytest.param(b"\1\2\0\2", "g", id="half a dimension"),
    pytest.param(b"\1\2\0\2\0abc", "g", id="half an entry"),
    pytest.param(b"\1\xff\xff\xff\xff" + b"x" * 50, "g", id="all entries there can be"),
    pytest.param(b"\1\2\0\1\0ab" + b"\xff\xff\xff\xff" + b"x" * 50, "g", id="in a group of a group"),
    pytest.param(b"\1\2\0\1\0ab\1\0\0\0\x0aabc", "g", id="data in a group"),
    pytest.param(b"\1\2\0\0\0\1\0\0\0\xff\xffabc", "d", id="data"),
    pytest.param(b"\1\2\0\0\0\1\0\0\0\2", "d", id="half of data's length"),
]


@pytest.mark.parametrize(("content", "where"), HOSTILE)
def test_groups_and_data_end_with_the_message(content: bytes, where: str) -> None:
    made = schema(SIZES, GROUPS)
    exact = bytearray(header(1) + content)
    read = made.M.decode(exact)
    with pytest.raises(sbe.MessageTooShortError) as caught:
        for entry in read.g:
            for inner in entry.h:
                _ = inner.y
            _ = entry.t
        _ = read.d
    assert caught.value.field.startswith(f"M.{where}")
    with pytest.raises(sbe.MessageTooShortError):
        _ = read.encoded_length
    with pytest.raises(sbe.MessageTooShortError):
        _ = read.e


HEADER = Header(
    schema_id=9,
    version=1,
    encoded_length=8,
    block_length=(0, "uint16"),
    template_id=(2, "uint16"),
    schema=(4, "uint16"),
    acting_version=(6, "uint16"),
)


def wide_message() -> Any:
    """A dimension of 64-bit numbers, which schemas may not have, but these classes can."""

    class Entries(Entry, block_length=1):
        __slots__ = ()
        x = fields.integer("x", "uint8", 0)

    class Wide(Message, header=HEADER, template_id=3, block_length=0):
        __slots__ = ()
        g = fields.group("g", Entries, Dimension(16, (0, "uint64"), (8, "uint64")))
        d = fields.data("d", "uint64", maximum=2**64 - 1)

    return Wide


@pytest.mark.parametrize(
    ("block", "count"),
    [(2**63, 2), (2**32, 2**32), (2**64 - 1, 1), (1, 2**64 - 1), (2**63, 1), (0, 2**63), (3, 2**62), (51, 1), (1, 51)],
)
def test_lengths_whose_product_does_not_fit(block: int, count: int) -> None:
    """The product and the sum must not wrap."""
    read = wide_message().decode(header(0) + struct.pack("<2Q", block, count) + b"x" * 50)
    for name in ("g", "d", "encoded_length"):
        with pytest.raises(sbe.MessageTooShortError):
            getattr(read, name)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**63 - 1, 2**64 - 8, 43])
def test_data_longer_than_the_message(length: int) -> None:
    read = wide_message().decode(header(0) + struct.pack("<3Q", 1, 0, length) + b"x" * 42)
    with pytest.raises(sbe.MessageTooShortError):
        _ = read.d


def test_more_empty_entries_than_bytes_are_refused() -> None:
    """Without this check, a loop over 2^32 empty entries would seem to hang."""

    class Entries(Entry, block_length=0):
        __slots__ = ()
        t = fields.data("t", "uint8", maximum=9, since=1)

    class Empty(Message, header=HEADER, template_id=3, block_length=0):
        __slots__ = ()
        g = fields.group("g", Entries, Dimension(6, (0, "uint16"), (2, "uint32")))
        d = fields.data("d", "uint8", maximum=254)

    read = Empty.decode(header(0) + struct.pack("<HI", 0, 16) + b"\1z")
    assert (len(read.g), len(list(read.g)), read.d, read.encoded_length) == (16, 16, b"z", 16)
    for count in (17, 2**32 - 1):
        read = Empty.decode(header(0) + struct.pack("<HI", 0, count) + b"\1z")
        for name in ("g", "d", "encoded_length"):
            with pytest.raises(sbe.MessageTooShortError):
                getattr(read, name)


def test_classes_that_cannot_exist() -> None:
    shared = fields.data("d", "uint8", maximum=254)
    too_long = Dimension(4, (0, "uint16"), (4, "uint16"))
    narrow = Dimension(2, (0, "uint8"), (1, "uint8"), maximum=256)

    class Entries(Entry, block_length=300):
        __slots__ = ()

    def new_class(name: str, base: type[Any], namespace: dict[str, Any], **given: Any) -> Any:
        return types.new_class(name, (base,), given, lambda empty: empty.update(namespace))

    for make in (
        lambda: fields.integer("a", "int128", 0),
        lambda: fields.integer("a", "double", 0),
        lambda: fields.integer("a", "int8", -1),
        lambda: fields.floating("a", "int8", 0),
        lambda: fields.group("g", Entries, too_long),
        lambda: fields.group("g", Entries, narrow),
        lambda: fields.group("g", Entries, Dimension(2, (0, "uint8"), (1, "uint8"), maximum=9)),  # 300 > 255
        lambda: fields.data("d", "uint8", maximum=256),
        lambda: fields.data("d", "float", maximum=1),
        lambda: fields.text("t", 0, length=3, encoding="klingon"),
        lambda: [new_class(name, Entry, {"d": shared}, block_length=0) for name in ("One", "Two")],
        lambda: new_class("M", Message, {}, header=HEADER, template_id=65536, block_length=0),
        lambda: new_class("M", Message, {}, header=HEADER, template_id=1, block_length=65536),
    ):
        with pytest.raises((ValueError, TypeError)):
            make()


# Order


def fresh() -> Any:
    return new(schema(SIZES, GROUPS))


def half_written() -> Any:
    message = fresh()
    list(message.g.encode(0))
    return message


@pytest.mark.parametrize(
    ("use", "field_", "says"),
    [
        (lambda m: m.k.encode(1), "M.k", "g comes before it"),
        (lambda m: setattr(m, "d", b""), "M.d", "g comes before it"),
        (lambda m: bytes(m), "M.g", "it was not written"),
        (lambda m: (next(m.g.encode(2)), m.k.encode(1)), "M.g.h", "it was not written"),
        (lambda m: (m.g.encode(2), m.k.encode(1)), "M.g", "only 0 of its 2 entries"),
        (lambda m: (m.g.encode(0), m.g.encode(0)), "M.g", "it was written before"),
        (lambda m: setattr(next(m.g.encode(1)), "t", ""), "M.g.t", "h comes before it"),
        (lambda m: list(m.g.encode(2)), "M.g.h", "it was not written"),
        (lambda m: [e.h.encode(1) for e in m.g.encode(2)], "M.g.h", "only 0 of its 1 entries"),
        (lambda m: (m.g.encode(0), m.k.encode(2), m.__setattr__("d", b"")), "M.k", "only 0 of its 2"),
        (lambda m: (m.g.encode(0), m.k.encode(0), m.__setattr__("e", "")), "M.e", "d comes before it"),
    ],
)
def test_groups_and_data_out_of_order(use: Callable[[Any], object], field_: str, says: str) -> None:
    with pytest.raises(sbe.OrderError, match=says) as caught:
        use(fresh())
    assert caught.value.field == field_


def test_entries_that_are_over() -> None:
    message = fresh()
    entries = message.g.encode(2)
    first = next(entries)
    list(first.h.encode(0))
    first.t = "x"
    second = next(entries)
    first.x = 7  # its block is still writable
    with pytest.raises(sbe.OrderError, match="its entry is over"):
        first.t = "again"
    with pytest.raises(sbe.OrderError, match="its entry is over"):
        first.h.encode(1)
    list(second.h.encode(0))
    second.t = ""
    assert list(entries) == []
    list(message.k.encode(0))
    with pytest.raises(sbe.OrderError, match="the group is over"):
        next(entries)
    with pytest.raises(sbe.OrderError):
        second.t = ""
    with pytest.raises(sbe.OrderError, match="it was not written"):
        bytes(message)
    message.d, message.e = b"", ""
    with pytest.raises(sbe.OrderError, match="it was written before"):
        message.e = ""
    assert len(bytes(message)) == message.encoded_length


def test_a_group_or_data_that_does_not_fit() -> None:
    made = schema(SIZES, GROUPS)
    for room in range(len(GROUP_BYTES)):
        buffer = bytearray(len(GROUP_BYTES) + 20)
        with pytest.raises(sbe.MessageTooShortError):
            write_groups(made.M.encode(memoryview(buffer)[:room]))
        assert buffer[room:] == bytes(len(buffer) - room)
    write_groups(made.M.encode(bytearray(len(GROUP_BYTES))))


@pytest.mark.parametrize("count", [-1, 65535, 2**64, -(2**64)])
def test_counts_that_the_dimension_does_not_allow(count: int) -> None:
    with pytest.raises(sbe.OutOfRangeError, match="0 to 65534") as caught:
        fresh().g.encode(count)
    assert caught.value.field == "M.g"


def test_data_that_its_length_does_not_allow() -> None:
    message = new(schema(SIZES, '<data name="t" id="1" type="text8"/>'), 1000)
    with pytest.raises(sbe.OutOfRangeError, match="255 bytes are more than 254"):
        message.t = "x" * 255
    with pytest.raises(sbe.WrongTypeError):
        message.t = b"bytes"
    message.t = "x" * 254
    raw = new(schema(SIZES, '<data name="b" id="1" type="blob16"/>'))
    with pytest.raises(sbe.WrongTypeError):
        raw.b = "text"
    raw.b = memoryview(b"abc")
    assert bytes(raw)[8:] == b"\3\0abc"


def test_bytes_that_are_no_text() -> None:
    """Invalid bytes become lone surrogates if the encoding has one byte per character; in UTF-16 they are an error."""
    made = schema(SIZES.replace("UTF-8", "UTF-16LE"), '<data name="t" id="1" type="text8"/>')
    with pytest.raises(sbe.UnknownValueError, match=r"M\.t: its bytes are not text in utf-16-le"):
        _ = made.M.decode(header(0) + b"\1a").t


def test_errors_survive_pickling() -> None:
    with pytest.raises(sbe.OutOfRangeError) as caught:
        new(schema("", field("uint8"))).a = 256
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.field) == (sbe.OutOfRangeError, str(caught.value), "M.a")
