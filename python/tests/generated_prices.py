"""Market prices

Made by ``flyring sbe generate``: do not edit.
"""

# Names and texts are the schema's.
# ruff: noqa: E501, E741, N801, N815, N816, PIE796, RUF001, RUF002, RUF100, W291, W293

from __future__ import annotations

import enum
from typing import Never

from flyring.sbe import Schema, fields

HEADER = fields.Header(
    schema_id=7,
    version=1,
    encoded_length=8,
    block_length=(0, "uint16"),
    template_id=(2, "uint16"),
    schema=(4, "uint16"),
    acting_version=(6, "uint16"),
)


class InstrumentKind(enum.IntEnum):
    STOCK = 0
    FUTURE = 1
    OPTION = 2


class Instrument(fields.Composite, encoded_length=24):
    """What is traded"""

    __slots__ = ()
    id: fields.Field[int, int] = fields.integer("id", "uint64", 0)
    symbol: fields.Field[str, str] = fields.text("symbol", 8, length=8)
    exchange: fields.Field[str, str] = fields.text("exchange", 16, length=4)
    currency: fields.Field[str, str] = fields.text("currency", 20, length=3)
    kind: fields.Field[InstrumentKind | None, InstrumentKind] = fields.enumeration(
        "kind", "uint8", 23, InstrumentKind, null=255
    )


class PriceFlags(enum.IntFlag):
    opening = 1
    closing = 2
    halted = 4


class Side(enum.Enum):
    BUY = "B"
    SELL = "S"


class PriceUpdate(fields.Message, header=HEADER, template_id=1, block_length=62):
    """The best prices of an instrument"""

    __slots__ = ()
    instrument: fields.Field[Instrument, Instrument] = fields.composite("instrument", 0, Instrument)
    """What is traded"""
    timestamp: fields.Field[int, int] = fields.integer("timestamp", "uint64", 24)
    """ns since 1970"""
    bid: fields.Field[int, int] = fields.integer("bid", "int64", 32)
    """In units of 10^-8 of the instrument's currency"""
    ask: fields.Field[int, int] = fields.integer("ask", "int64", 40)
    """In units of 10^-8 of the instrument's currency"""
    bidSize: fields.Field[int, int] = fields.integer("bidSize", "uint32", 48)
    askSize: fields.Field[int, int] = fields.integer("askSize", "uint32", 52)
    sequence: fields.Field[int, int] = fields.integer("sequence", "uint32", 56)
    flags: fields.Field[PriceFlags, PriceFlags] = fields.flags("flags", "uint8", 60, PriceFlags)
    lastSide: fields.Field[Side | None, Side | None] = fields.enumeration(
        "lastSide", "char", 61, Side, null=0, optional=True
    )
    """Of the last trade"""


class Trade(fields.Message, header=HEADER, template_id=2, block_length=49):
    """An instrument was traded"""

    __slots__ = ()
    instrument: fields.Field[Instrument, Instrument] = fields.composite("instrument", 0, Instrument)
    """What is traded"""
    timestamp: fields.Field[int, int] = fields.integer("timestamp", "uint64", 24)
    """ns since 1970"""
    price: fields.Field[int, int] = fields.integer("price", "int64", 32)
    """In units of 10^-8 of the instrument's currency"""
    size: fields.Field[int, int] = fields.integer("size", "uint32", 40)
    side: fields.Field[Side | None, Side] = fields.enumeration("side", "char", 44, Side, null=0)
    venueFee: fields.Field[int | None, int | None] = fields.integer("venueFee", "int32", 45, null=-2147483648, since=1)
    """In units of 10^-4 of the currency"""


class BookLevels(fields.Entry, block_length=13, name="levels"):
    __slots__ = ()
    price: fields.Field[int, int] = fields.integer("price", "int64", 0)
    """In units of 10^-8 of the instrument's currency"""
    size: fields.Field[int, int] = fields.integer("size", "uint32", 8)
    side: fields.Field[Side | None, Side] = fields.enumeration("side", "char", 12, Side, null=0)


class Book(fields.Message, header=HEADER, template_id=3, block_length=32):
    """The orders of an instrument, and a remark"""

    __slots__ = ()
    instrument: fields.Field[Instrument, Instrument] = fields.composite("instrument", 0, Instrument)
    """What is traded"""
    timestamp: fields.Field[int, int] = fields.integer("timestamp", "uint64", 24)
    """ns since 1970"""
    levels: fields.Field[fields.Group[BookLevels], Never] = fields.group(
        "levels", BookLevels, fields.Dimension(4, (0, "uint16"), (2, "uint16"), 0, 65534)
    )
    remark: fields.Field[str, str] = fields.data("remark", "uint16", maximum=65534, encoding="UTF-8")
    """Text of any length"""


SCHEMA = Schema(
    """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- The messages of the tutorial, the demos, the golden files and the benchmarks. -->
<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="prices" id="7" version="1" semanticVersion="1.1"
                   description="Market prices" byteOrder="littleEndian">
    <types>
        <composite name="messageHeader" description="What stands before each message">
            <type name="blockLength" primitiveType="uint16"/>
            <type name="templateId" primitiveType="uint16"/>
            <type name="schemaId" primitiveType="uint16"/>
            <type name="version" primitiveType="uint16"/>
        </composite>
        <composite name="groupSizeEncoding" description="What stands before the entries of a group">
            <type name="blockLength" primitiveType="uint16"/>
            <type name="numInGroup" primitiveType="uint16"/>
        </composite>
        <composite name="varStringEncoding" description="Text of any length">
            <type name="length" primitiveType="uint16"/>
            <type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/>
        </composite>
        <type name="Symbol" primitiveType="char" length="8" characterEncoding="US-ASCII"/>
        <type name="Exchange" primitiveType="char" length="4" characterEncoding="US-ASCII"/>
        <type name="Currency" primitiveType="char" length="3" characterEncoding="US-ASCII"/>
        <type name="Price" primitiveType="int64" description="In units of 10^-8 of the instrument's currency"/>
        <enum name="InstrumentKind" encodingType="uint8">
            <validValue name="STOCK">0</validValue>
            <validValue name="FUTURE">1</validValue>
            <validValue name="OPTION">2</validValue>
        </enum>
        <enum name="Side" encodingType="char">
            <validValue name="BUY">B</validValue>
            <validValue name="SELL">S</validValue>
        </enum>
        <set name="PriceFlags" encodingType="uint8">
            <choice name="opening">0</choice>
            <choice name="closing">1</choice>
            <choice name="halted">2</choice>
        </set>
        <composite name="Instrument" description="What is traded">
            <type name="id" primitiveType="uint64"/>
            <ref name="symbol" type="Symbol"/>
            <ref name="exchange" type="Exchange"/>
            <ref name="currency" type="Currency"/>
            <ref name="kind" type="InstrumentKind"/>
        </composite>
    </types>
    <sbe:message name="PriceUpdate" id="1" description="The best prices of an instrument">
        <field name="instrument" id="1" type="Instrument"/>
        <field name="timestamp" id="2" type="uint64" description="ns since 1970"/>
        <field name="bid" id="3" type="Price"/>
        <field name="ask" id="4" type="Price"/>
        <field name="bidSize" id="5" type="uint32"/>
        <field name="askSize" id="6" type="uint32"/>
        <field name="sequence" id="7" type="uint32"/>
        <field name="flags" id="8" type="PriceFlags"/>
        <field name="lastSide" id="9" type="Side" presence="optional" description="Of the last trade"/>
    </sbe:message>
    <sbe:message name="Trade" id="2" description="An instrument was traded">
        <field name="instrument" id="1" type="Instrument"/>
        <field name="timestamp" id="2" type="uint64" description="ns since 1970"/>
        <field name="price" id="3" type="Price"/>
        <field name="size" id="4" type="uint32"/>
        <field name="side" id="5" type="Side"/>
        <field name="venueFee" id="6" type="int32" presence="optional" sinceVersion="1" description="In units of 10^-4 of the currency"/>
    </sbe:message>
    <sbe:message name="Book" id="3" description="The orders of an instrument, and a remark">
        <field name="instrument" id="1" type="Instrument"/>
        <field name="timestamp" id="2" type="uint64" description="ns since 1970"/>
        <group name="levels" id="3" dimensionType="groupSizeEncoding">
            <field name="price" id="4" type="Price"/>
            <field name="size" id="5" type="uint32"/>
            <field name="side" id="6" type="Side"/>
        </group>
        <data name="remark" id="7" type="varStringEncoding"/>
    </sbe:message>
</sbe:messageSchema>
""",
    package="prices",
    id=7,
    version=1,
    byte_order="<",
    messages=(PriceUpdate, Trade, Book),
)
