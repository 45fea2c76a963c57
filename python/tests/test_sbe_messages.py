# SPDX-License-Identifier: Apache-2.0
"""Flyweights: each feature of SBE has a schema, with bytes worked out by hand, equal to sbe-tool's."""

from __future__ import annotations

import array
import copy
import gc
import itertools
import math
import mmap
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flyring import ClosedError, sbe

PRICES = Path(__file__).parents[2] / "spec" / "sbe" / "prices.xml"
HEADER = """<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>
<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>
<type name="version" primitiveType="uint16"/></composite>"""
SIZES = """<composite name="groupSizeEncoding"><type name="blockLength" primitiveType="uint16"/>
<type name="numInGroup" primitiveType="uint16"/></composite>
<composite name="text8"><type name="length" primitiveType="uint8"/>
<type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/></composite>
<composite name="blob16"><type name="length" primitiveType="uint16"/>
<type name="varData" primitiveType="uint8" length="0"/></composite>"""


def schema(types: str, members: str, *, version: int = 0, order: str = "littleEndian", header: str = HEADER) -> Any:
    """Makes a schema (id 9) with one message M (template 3). Assigns the ids of its members."""
    numbers = itertools.count(1)
    members = re.sub(r'(?<= )id="\d+"', lambda _: f'id="{next(numbers)}"', members)
    return sbe.Schema.parse(
        f'<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="p" id="9" version="{version}" '
        f'byteOrder="{order}"><types>{header}{types}</types>'
        f'<sbe:message name="M" id="3">{members}</sbe:message></sbe:messageSchema>'
    )


def field(kind: str, name: str = "a", more: str = "") -> str:
    return f'<field name="{name}" id="1" type="{kind}" {more}/>'


def header(block: int, version: int = 0, order: str = "<") -> bytes:
    return struct.pack(f"{order}4H", block, 3, 9, version)


def new(made: Any, room: int = 100) -> Any:
    """Makes a message M to be written, over zeros."""
    return made.M.encode(bytearray(room))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("primitive", "code", "values"),
    [
        ("int8", "b", (-128, -1, 127)),
        ("uint8", "B", (0, 255)),
        ("int16", "h", (-(2**15), -2, 2**15 - 1)),
        ("uint16", "H", (0, 1, 2**16 - 1)),
        ("int32", "i", (-(2**31), 3, 2**31 - 1)),
        ("uint32", "I", (0, 2**32 - 1)),
        ("int64", "q", (-(2**63), -1, 2**63 - 1)),
        ("uint64", "Q", (0, 1, 2**63, 2**64 - 1)),
        ("float", "f", (0.5, -0.0, math.inf)),
        ("double", "d", (0.1, -math.inf)),
    ],
)
def test_primitives_in_both_byte_orders(primitive: str, code: str, values: tuple[Any, ...], order: str) -> None:
    made = schema(
        "", field("uint8", "before") + field(primitive), order="bigEndian" if order == ">" else "littleEndian"
    )
    size = struct.calcsize(code)
    for value in values:
        message = new(made)
        message.before = 7
        message.a = value
        expected = header(1 + size, order=order) + b"\x07" + struct.pack(order + code, value)
        assert bytes(message) == expected
        assert message.a == made.M.decode(expected).a == value
        assert type(made.M.decode(expected).a) is type(value)
        assert message.encoded_length == len(expected) == 9 + size


def test_prices_byte_for_byte() -> None:
    prices: Any = sbe.Schema.load(PRICES)
    update = prices.PriceUpdate.encode(buffer := bytearray(b"\xff" * 80), offset=5)
    instrument = update.instrument
    instrument.id, instrument.symbol, instrument.exchange, instrument.currency = 42, "FLYR", "XFLY", "EUR"
    instrument.kind = type(instrument).kind.type.OPTION
    update.timestamp, update.bid, update.ask = 2**63, -1, 258
    update.bidSize, update.askSize, update.sequence = 3, 4, 5
    update.flags = prices.PriceUpdate.flags.type.opening | prices.PriceUpdate.flags.type.halted
    update.lastSide = None
    expected = bytes.fromhex(
        "3e00 0100 0700 0100"  # block length 62, template 1, schema 7, version 1
        "2a00000000000000 464c595200000000 58464c59 455552 02"
        "0000000000000080 ffffffffffffffff 0201000000000000 03000000 04000000 05000000 05 00"
    )
    assert bytes(buffer) == b"\xff" * 5 + expected + b"\xff" * 5
    read = prices.decode(buffer, 5)
    assert type(read) is prices.PriceUpdate
    assert (read.instrument.symbol, read.instrument.kind.name, read.bid, read.lastSide) == ("FLYR", "OPTION", -1, None)
    assert str(read.flags) in ("PriceFlags.opening|halted", "5")
    assert read.acting_version == 1
    assert read.acting_block_length == prices.PriceUpdate.BLOCK_LENGTH == 62
    assert "bid=-1" in repr(read)
    assert "symbol='FLYR'" in repr(read)


def test_optional_numbers_are_none_when_null() -> None:
    types = """<type name="O8" primitiveType="uint8" presence="optional"/>
    <type name="Zero" primitiveType="int32" presence="optional" nullValue="0"/>
    <type name="F" primitiveType="double" presence="optional"/>
    <type name="Odd" primitiveType="float" presence="optional" nullValue="1.1"/>"""
    made = schema(types, field("O8") + field("Zero", "b") + field("F", "c") + field("Odd", "d"))
    message = new(made)
    message.a, message.b, message.c, message.d = None, None, None, None
    assert bytes(message)[8:] == b"\xff" + bytes(4) + struct.pack("<df", math.nan, 1.1)
    assert (message.a, message.b, message.c, message.d) == (None, None, None, None)
    message.a, message.b, message.c, message.d = 254, -1, 0.0, 1.0
    assert bytes(message)[8:] == b"\xfe\xff\xff\xff\xff" + struct.pack("<df", 0.0, 1.0)
    assert (message.a, message.b, message.c, message.d) == (254, -1, 0.0, 1.0)


def test_nan_is_a_number_in_a_required_field() -> None:
    message = new(schema("", field("double")))
    message.a = math.nan
    assert math.isnan(message.a)


def test_characters_and_text() -> None:
    types = """<type name="C" primitiveType="char"/><type name="OC" primitiveType="char" presence="optional"/>
    <type name="T" primitiveType="char" length="5" characterEncoding="US-ASCII"/>
    <type name="U" primitiveType="char" length="6" characterEncoding="UTF-8"/>
    <type name="L" primitiveType="char" length="3" characterEncoding="ISO-8859-1"/>"""
    kinds = zip(("C", "OC", "T", "U", "L"), "abcde", strict=True)
    message = new(schema(types, "".join(field(kind, name) for kind, name in kinds)))
    message.a, message.b, message.c, message.d, message.e = "x", None, "FLYR", "a\N{EURO SIGN}b", "\xfc"
    assert bytes(message)[8:] == b"x\0FLYR\0a\xe2\x82\xacb\0\xfc\0\0"
    assert (message.a, message.b, message.c, message.d, message.e) == ("x", None, "FLYR", "a\N{EURO SIGN}b", "\xfc")
    message.b, message.c = "y", ""
    assert bytes(message)[9:15] == b"y\0\0\0\0\0"  # the previous text is overwritten
    assert message.c == ""
    message.c = "a\0b"
    assert message.c == "a\0b"  # only trailing zeros are cut
    long = new(schema('<type name="T" primitiveType="char" length="1000"/>', field("T")), 2000)
    long.a = "x" * 999
    assert long.a == "x" * 999


def test_arrays() -> None:
    types = """<type name="B" primitiveType="uint8" length="3"/><type name="I" primitiveType="int16" length="2"/>
    <type name="D" primitiveType="float" length="2"/><type name="S" primitiveType="int8" length="2"/>
    <type name="N" primitiveType="uint32" length="2" presence="optional"/>"""
    made = schema(types, field("B") + field("I", "b") + field("D", "c") + field("S", "d") + field("N", "e"))
    message = new(made)
    message.a, message.b, message.c, message.d, message.e = b"\1\2\3", (-1, 2), [0.5, 2], (-1, -2), None
    assert bytes(message)[8:] == b"\1\2\3\xff\xff\2\0" + struct.pack("<2f", 0.5, 2) + b"\xff\xfe" + b"\xff" * 8
    assert (message.a, message.b, message.c, message.d) == (b"\1\2\3", (-1, 2), (0.5, 2.0), (-1, -2))
    assert message.e == (2**32 - 1, 2**32 - 1)  # elements are read unchanged
    message.a = bytearray(b"xyz")
    message.b = iter(range(2))
    assert (message.a, message.b) == (b"xyz", (0, 1))
    big = new(schema('<type name="A" primitiveType="uint64" length="2"/>', field("A"), order="bigEndian"))
    big.a = (1, 2**64 - 1)
    assert bytes(big)[8:] == struct.pack(">2Q", 1, 2**64 - 1)
    assert big.a == (1, 2**64 - 1)


def test_enums() -> None:
    types = """<enum name="E" encodingType="uint16"><validValue name="one">1</validValue>
    <validValue name="many">400</validValue></enum>
    <enum name="C" encodingType="char"><validValue name="A">a</validValue><validValue name="B">b</validValue></enum>
    <enum name="N" encodingType="int8"><validValue name="low">-1</validValue>
    <validValue name="high">1</validValue></enum>
    <enum name="K" encodingType="uint8"><validValue name="None">1</validValue>
    <validValue name="mro">2</validValue></enum>"""
    made = schema(types, field("E") + field("C", "b", 'presence="optional"') + field("N", "c") + field("K", "d"))
    message, kinds = new(made), {name: one.type for name, one in made.M.FIELDS.items()}
    message.a, message.b, message.c, message.d = kinds["a"].many, kinds["b"].B, kinds["c"].low, kinds["d"].mro_
    assert bytes(message)[8:] == b"\x90\x01b\xff\2"
    assert message.a is kinds["a"].many
    assert message.b is kinds["b"].B
    assert message.c is kinds["c"].low
    assert message.d is kinds["d"].mro_
    assert (message.a, message.b.value, message.c) == (400, "b", -1)
    message.a, message.b, message.c = 1, None, 1  # a valid number is accepted, too
    assert bytes(message)[8:12] == b"\1\0\0\1"
    assert (message.a, message.b, message.c) == (kinds["a"].one, None, kinds["c"].high)


def test_sets() -> None:
    types = """<set name="S" encodingType="uint8"><choice name="a">0</choice><choice name="h">7</choice></set>
    <set name="L" encodingType="uint64"><choice name="low">0</choice><choice name="top">63</choice></set>"""
    made = schema(types, field("S") + field("L", "b"), order="bigEndian")
    message = new(made)
    small, large = made.M.a.type, made.M.b.type
    message.a, message.b = small.a | small.h, large.top
    assert bytes(message)[8:] == b"\x81\x80" + bytes(7)
    assert message.a == small.a | small.h
    assert large.top in message.b
    assert large.low not in message.b
    message.a, message.b = 0, 1
    assert (message.a, message.b) == (small(0), large.low)
    assert type(message.a) is small
    unknown = made.M.decode(header(9, order=">") + b"\x83" + b"\xff" * 8)  # choices of a newer publisher
    assert (unknown.a, unknown.b) == (small.a | small.h, large.low | large.top)


def test_a_set_remembers_only_so_many_combinations() -> None:
    choices = "".join(f'<choice name="c{i}">{i}</choice>' for i in range(64))
    made = schema(f'<set name="S" encodingType="uint64">{choices}</set>', field("S"))
    flags = made.M.a.type
    for i in range(10_000):
        bits = (i * 0x9E3779B97F4A7C15) & (2**64 - 1)
        assert made.M.decode(header(8) + struct.pack("<Q", bits)).a == bits
    assert len(flags._value2member_map_) < 4200


def test_composites_nested_and_referred_to() -> None:
    types = """<type name="Text" primitiveType="char" length="2"/>
    <enum name="E" encodingType="uint8"><validValue name="A">1</validValue></enum>
    <composite name="Inner"><type name="x" primitiveType="int16"/>
    <type name="y" primitiveType="int16" offset="4"/></composite>
    <composite name="Outer"><type name="n" primitiveType="uint8"/><ref name="r" type="Inner"/>
    <composite name="own"><type name="z" primitiveType="uint8"/></composite><ref name="t" type="Text" offset="12"/>
    <ref name="e" type="E"/><set name="s" encodingType="uint8"><choice name="c">1</choice></set></composite>"""
    made = schema(types, field("uint8", "first") + field("Outer") + field("Inner", "b"))
    message = new(made)
    message.first = 1
    outer = message.a
    outer.n, outer.r.x, outer.r.y, outer.own.z, outer.t = 2, 3, -1, 4, "ok"
    outer.e, outer.s = type(outer).e.type.A, type(outer).s.type.c
    message.b.x, message.b.y = 5, 6
    assert bytes(message)[8:] == bytes.fromhex("01 02 0300 0000 ffff 04 00000000 6f6b 01 02 0500 0000 0600")
    assert (message.a.r.y, message.a.own.z, message.a.t, message.b.y) == (-1, 4, "ok", 6)
    assert type(message.a.r) is type(message.b)
    message.b = message.a.r  # copied
    assert (message.b.x, message.b.y) == (3, -1)
    assert type(outer).ENCODED_LENGTH == 16
    with pytest.raises(sbe.WrongTypeError, match=r"M\.b"):
        message.b = message.a


def test_constants_are_class_attributes() -> None:
    types = """<type name="I" primitiveType="uint16" presence="constant">7</type>
    <type name="T" primitiveType="char" presence="constant" length="3">EUR</type>
    <type name="C" primitiveType="char" presence="constant">X</type>
    <enum name="E" encodingType="uint8"><validValue name="A">1</validValue><validValue name="B">2</validValue></enum>
    <composite name="Price"><type name="mantissa" primitiveType="int64"/>
    <type name="exponent" primitiveType="int8" presence="constant">-8</type></composite>"""
    members = field("I") + field("T", "b") + field("C", "c") + field("E", "d", 'presence="constant" valueRef="E.B"')
    made = schema(types, members + field("Price", "price"))
    message = new(made)
    assert (made.M.a, message.b, message.c, message.d.name, message.price.exponent) == (7, "EUR", "X", "B", -8)
    assert made.M.BLOCK_LENGTH == 8  # constants have no bytes
    for name in "abcd":
        with pytest.raises(AttributeError):
            setattr(message, name, 1)
    with pytest.raises(AttributeError):
        message.price.exponent = 1


def test_offsets_and_block_lengths() -> None:
    made = sbe.Schema.parse(
        '<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="p" id="9" version="0"><types>'
        f'{HEADER}</types><sbe:message name="M" id="3" blockLength="16">'
        '<field name="a" id="1" type="uint8" offset="2"/>'
        '<field name="b" id="2" type="uint16" offset="8"/></sbe:message></sbe:messageSchema>'
    )
    message = made.M.encode(bytearray(b"\xee" * 24))
    message.a, message.b = 1, 2
    assert bytes(message) == header(16) + b"\xee\xee\1" + b"\xee" * 5 + b"\2\0" + b"\xee" * 6  # gaps stay unchanged


def test_custom_headers_and_dimensions() -> None:
    custom = """<composite name="messageHeader"><type name="version" primitiveType="uint8"/>
    <type name="schemaId" primitiveType="uint16" offset="4"/><type name="templateId" primitiveType="uint32"/>
    <type name="blockLength" primitiveType="uint16"/><type name="extra" primitiveType="uint16"/></composite>
    <composite name="dim"><type name="numInGroup" primitiveType="uint8"/>
    <type name="blockLength" primitiveType="uint16" offset="2"/></composite>"""
    members = field("uint16") + f'<group name="g" id="2" dimensionType="dim">{field("uint8", "x")}</group>'
    with pytest.warns(sbe.SchemaWarning):  # header types that are not uint16 give a warning
        made = schema("", members, header=custom, order="bigEndian")
    message = made.M.encode(bytearray(b"\xee" * 50))
    message.a = 258
    for i, entry in enumerate(message.g.encode(2)):
        entry.x = i + 1
    expected = bytes.fromhex("00 000000 0009 00000003 0002 0000 0102 02 00 0001 01 02")
    assert bytes(message) == expected
    read = made.decode(expected)
    assert (read.a, [entry.x for entry in read.g]) == (258, [1, 2])


def test_a_header_with_constants() -> None:
    """A constant has no bytes in the header, so bytes there are not checked."""
    custom = """<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>
    <type name="templateId" primitiveType="uint16"/>
    <type name="schemaId" primitiveType="uint16" presence="constant">9</type>
    <type name="version" primitiveType="uint16"/></composite>"""
    made = schema("", field("uint16"), header=custom, order="bigEndian")
    message = made.M.encode(bytearray(b"\xee" * 9))
    message.a = 258
    expected = bytes.fromhex("0002 0003 0000 0102")
    assert bytes(message) == expected
    assert made.decode(expected).a == 258
    wrong = custom.replace(">9<", ">8<")
    with pytest.raises(ValueError, match="is not the constant 8"):
        schema("", field("uint16"), header=wrong, order="bigEndian")


GROUPS = f"""{field("uint8")}<group name="g" id="2">{field("int16", "x")}
<group name="h" id="3">{field("uint8", "y")}</group><data name="t" id="4" type="text8"/></group>
<group name="k" id="5">{field("uint8", "z")}</group><data name="d" id="6" type="blob16"/>
<data name="e" id="7" type="text8"/>"""
GROUP_BYTES = header(1) + bytes.fromhex(
    "09"
    "0200 0200"  # g: two entries of 2 bytes
    "0100 0100 0200 05 06 01 61"  # x 1, h with y 5 and 6, t "a"
    "feff 0100 0000 03 e282ac"  # x -2, no h, t the euro sign
    "0100 0300 07 08 09"  # k
    "0200 0001"  # d
    "00"  # e, empty
)


def write_groups(message: Any) -> None:
    message.a = 9
    entries = message.g.encode(2)
    first = next(entries)
    first.x = 1
    for y, inner in enumerate(first.h.encode(2), 5):
        inner.y = y
    first.t = "a"
    second = next(entries)
    second.x = -2
    assert list(second.h.encode(0)) == []
    second.t = "\N{EURO SIGN}"
    for z, one in enumerate(message.k.encode(3), 7):
        one.z = z
    message.d = b"\0\1"
    message.e = ""


def test_groups_within_groups_and_data() -> None:
    made = schema(SIZES, GROUPS)
    message = new(made)
    write_groups(message)
    assert bytes(message) == GROUP_BYTES
    assert message.encoded_length == len(GROUP_BYTES)
    read = made.M.decode(GROUP_BYTES)
    seen = [(entry.x, [inner.y for inner in entry.h], entry.t) for entry in read.g]
    assert seen == [(1, [5, 6], "a"), (-2, [], "\N{EURO SIGN}")]
    assert ([one.z for one in read.k], read.d, read.e) == ([7, 8, 9], b"\0\1", "")
    assert read.encoded_length == len(GROUP_BYTES)
    assert bytes(read) == GROUP_BYTES


def test_parts_are_read_in_any_order() -> None:
    read = schema(SIZES, GROUPS).M.decode(GROUP_BYTES + b"more, which is not looked at")
    for _ in range(2):
        assert (read.e, read.d, len(read.k), len(read.g)) == ("", b"\0\1", 3, 2)
        assert [entry.t for entry in read.g] == ["a", "\N{EURO SIGN}"]  # h is skipped
        assert (read.d, read.k[1].z, read.k[-1].z, read.g[1].x, read.g[0].h[1].y) == (b"\0\1", 8, 9, -2, 6)
    entries = list(read.g)  # each entry is a separate object
    assert [(entry.t, entry.x, len(entry.h)) for entry in reversed(entries)] == [("\N{EURO SIGN}", -2, 0), ("a", 1, 2)]
    half = iter(read.g)
    assert next(half).x == 1
    assert read.d == b"\0\1"
    assert next(half).x == -2
    assert next(half, None) is None
    assert next(half, None) is None
    with pytest.raises(IndexError):
        read.k[3]
    assert read.encoded_length == len(GROUP_BYTES)


def test_what_was_written_can_be_read_when_it_is_complete() -> None:
    message = new(schema(SIZES, GROUPS))
    with pytest.raises(sbe.OrderError):
        len(message.g)
    write_groups(message)
    assert [entry.t for entry in message.g] == ["a", "\N{EURO SIGN}"]
    assert (message.d, len(message.k)) == (b"\0\1", 3)


def test_older_and_newer_versions() -> None:
    """A message of version 0 read by version 2, and the reverse."""
    old = schema(
        SIZES,
        field("uint8") + f'<group name="g" id="2">{field("uint8", "x")}</group><data name="d" id="9" type="text8"/>',
    )
    members = f"""{field("uint8")}{field("uint16", "b", 'sinceVersion="1"')}{field("C", "c", 'sinceVersion="2"')}
    <group name="g" id="2">{field("uint8", "x")}{field("E", "y", 'sinceVersion="1"')}</group>
    <group name="k" id="3" sinceVersion="1">{field("uint8", "z")}</group>
    <data name="d" id="9" type="text8"/><data name="n" id="8" type="text8" sinceVersion="1"/>
    <data name="o" id="10" type="blob16" sinceVersion="2"/>"""
    types = """<composite name="C"><type name="p" primitiveType="uint8"/></composite>
    <enum name="E" encodingType="uint8"><validValue name="A">1</validValue></enum>"""
    now = schema(SIZES + types, members, version=2)
    written = new(old)
    written.a = 1
    for entry in written.g.encode(1):
        entry.x = 2
    written.d = "d"
    read = now.M.decode(bytes(written))
    assert (read.acting_version, read.acting_block_length, read.a, read.b, read.c) == (0, 1, 1, None, None)
    assert [(entry.x, entry.y) for entry in read.g] == [(2, None)]
    assert (list(read.k), len(read.k), read.d, read.n, read.o) == ([], 0, "d", "", b"")
    assert read.encoded_length == len(bytes(written))

    written = new(now)
    written.a, written.b, written.c.p = 1, 2, 3
    for entry in written.g.encode(2):
        entry.x, entry.y = 4, 1
    list(written.k.encode(0))
    written.d, written.n, written.o = "d", "n", b"o"
    read = old.M.decode(bytes(written))
    assert (read.acting_version, read.acting_block_length, read.a) == (2, 4, 1)
    assert [entry.x for entry in read.g] == [4, 4]  # each entry is longer than in this version


def test_wrap_is_without_header() -> None:
    made = schema(SIZES, field("uint8") + field("uint16", "b", 'sinceVersion="1"'), version=1)
    read = made.M.wrap(b"..\1\2\0", 2)
    assert (read.a, read.b, read.acting_version, read.encoded_length, bytes(read)) == (1, 2, 1, 3, b"\1\2\0")
    read = made.M.wrap(b"\1\2\0", block_length=1, version=0)
    assert (read.a, read.b) == (1, None)


def test_names_that_python_has_for_something_else() -> None:
    members = "".join(field("uint8", name) for name in ("from", "from_", "encode", "commit", "bytes", "FIELDS"))
    message = new(schema("", members))
    message.from__, message.from_, message.encode_, message.commit_, message.bytes, message.FIELDS_ = range(6)
    assert bytes(message)[8:] == bytes(range(6))
    assert [one.name for one in type(message).FIELDS.values()] == [
        "from",
        "from_",
        "encode",
        "commit",
        "bytes",
        "FIELDS",
    ]


def test_a_name_that_is_not_a_field_is_refused() -> None:
    message = new(schema("", field("uint8")))
    with pytest.raises(AttributeError):
        message.b = 1


# Buffers


def test_any_buffer_will_do() -> None:
    made = schema("", field("uint32"))
    for buffer in (bytearray(12), memoryview(bytearray(12)), array.array("B", bytes(12)), mmap.mmap(-1, 4096)):
        with made.M.encode(buffer) as message:
            message.a = 7
        assert bytes(memoryview(buffer)[:12]) == header(4) + b"\7\0\0\0"
        with made.M.decode(buffer) as read:
            assert read.a == 7


def test_a_buffer_is_held_as_long_as_the_message() -> None:
    made = schema("", field("uint32"))
    buffer = bytearray(20)
    message = made.M.encode(buffer)
    with pytest.raises(BufferError):
        buffer.extend(b"x")
    message.a = 1
    with message:
        pass
    buffer.extend(b"x")
    with pytest.raises(ClosedError, match="this M is closed"):
        _ = message.a
    with pytest.raises(ClosedError):
        message.a = 1
    with pytest.raises(ClosedError):
        bytes(message)
    message = made.M.decode(buffer)
    del message
    buffer.extend(b"x")


def test_nested_flyweights_keep_the_message_and_die_with_it() -> None:
    prices: Any = sbe.Schema.load(PRICES)
    buffer = bytearray(100)
    instrument = prices.Trade.encode(buffer).instrument
    instrument.id = 3  # the composite keeps the message alive
    with pytest.raises(BufferError):
        buffer.clear()
    del instrument
    message = prices.Book.encode(buffer)
    instrument, entries = message.instrument, message.levels.encode(2)
    entry = next(entries)
    entry.price = 1
    with message:
        pass
    uses: list[Callable[[], object]] = [
        lambda: instrument.id,
        lambda: setattr(instrument, "id", 1),
        lambda: entry.price,
        lambda: next(entries),
        lambda: message.levels,
        lambda: message.remark,
        lambda: setattr(message, "remark", ""),
        lambda: setattr(message, "instrument", instrument),
        lambda: message.encoded_length,
    ]
    for use in uses:
        with pytest.raises(ClosedError):
            use()
    buffer.clear()


def test_flyweights_are_not_made_otherwise() -> None:
    prices: Any = sbe.Schema.load(PRICES)
    for cls in (
        prices.Trade,
        type(prices.Trade.encode(bytearray(99)).instrument),
        prices.Book.levels.type,
        sbe.Message,
    ):
        with pytest.raises(TypeError):
            cls()
    with pytest.raises(TypeError):
        copy.copy(prices.Trade.encode(bytearray(99)))
    with pytest.raises(TypeError):
        sbe.Message.encode(bytearray(99))


def test_a_descriptor_takes_only_its_own() -> None:
    """A descriptor that is called with the wrong object raises an error, and never reads elsewhere."""
    prices: Any = sbe.Schema.load(PRICES)
    trade = prices.Trade.encode(bytearray(99))
    for wrong in (1, "x", prices, object()):
        with pytest.raises(TypeError):
            prices.Trade.price.__get__(wrong, None)
        with pytest.raises(TypeError):
            prices.Trade.price.__set__(wrong, 1)
    with pytest.raises(TypeError):
        prices.Book.remark.__get__(trade, None)
    with pytest.raises(TypeError):
        prices.Book.remark.__set__(trade, "")
    with pytest.raises(TypeError):
        prices.Book.levels.__get__(trade.instrument, None)
    with pytest.raises(sbe.MessageTooShortError):
        prices.PriceUpdate.sequence.__get__(trade.instrument, None)  # it would read beyond the bytes


def test_subclasses_may_add_methods() -> None:
    prices: Any = sbe.Schema.load(PRICES)

    class Mine(prices.Trade):  # type: ignore[misc]
        @property
        def value(self) -> int:
            return int(self.price * self.size)

    mine = Mine.encode(bytearray(99))
    mine.price, mine.size = 3, 4
    mine.note = "has a dict"
    assert mine.value == 12
    mine.cycle = mine
    del mine
    gc.collect()


def churn() -> None:
    """Uses everything once, errors included."""
    made = schema(SIZES, GROUPS)
    message = new(made)
    write_groups(message)
    read = made.M.decode(bytes(message))
    list(read.g), read.d, read.g[1].t, repr(read)
    for block, name, value in ((read, "a", 1), (message, "a", 1000), (message, "d", b"")):
        with pytest.raises(sbe.SbeError):
            setattr(block, name, value)


def test_nothing_is_leaked() -> None:
    def count_after(rounds: int) -> tuple[int, int]:
        for _ in range(rounds):
            churn()
        for _ in range(4):  # classes that refer to others are freed first
            gc.collect()
        return len(gc.get_objects()), sys.getallocatedblocks()

    objects, blocks = count_after(3)
    more_objects, more_blocks = count_after(40)
    assert more_objects - objects < 100  # a leak of one object per round would be many times more
    assert more_blocks - blocks < 600
