# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of poll_arrays and offer_array."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from conftest import SPEC
from flyring import Channel, LossySubscriber, Publisher, Subscriber
from flyring.sbe import Schema, SchemaWarning, model

PRICES: Any = Schema.load(SPEC / "sbe" / "prices.xml")
PRICE, TRADE = PRICES.PriceUpdate, PRICES.Trade
RECORD = 128  # bytes of a PriceUpdate's record: 8 + 8 + 62, in steps of 64
Reader = Subscriber | LossySubscriber
Array = numpy.ndarray[Any, Any]


def prices(count: int, first: int = 0) -> Array:
    rows = numpy.zeros(count, PRICE.dtype)
    rows["bid"] = numpy.arange(first, first + count) * 3 - 1
    rows["sequence"] = numpy.arange(first, first + count)
    rows["instrument"]["symbol"] = b"FLYR"
    return rows


def header(schema: int = 7, template: int = 1, version: int = 1, block: int = 62) -> bytes:
    return struct.pack("<4H", block, template, schema, version)


def read(reader: Reader, message: Any = PRICE, **options: Any) -> list[Any]:
    """Reads until there is nothing more. Returns arrays as copies, and other messages as bytes."""
    found: list[Any] = []
    options.setdefault("otherwise", lambda other: found.append(bytes(other)))
    while reader.poll_arrays(message, lambda array: found.append(array.copy()), **options):
        pass
    return found


def sequences(found: list[Any]) -> list[int]:
    return [number for one in found if not isinstance(one, bytes) for number in one["sequence"].tolist()]


def leaves(fields: tuple[model.Field, ...], base: int = 0) -> Iterator[tuple[list[str], int, int]]:
    """Yields the path, offset in the block, and length of each field that has bytes."""
    for field in fields:
        if field.encoded_length == 0:
            continue
        if isinstance(field.type, model.Composite):
            for path, offset, length in leaves(field.type.fields, base + field.offset):
                yield [field.name, *path], offset, length
        else:
            yield [field.name], base + field.offset, field.encoded_length


def column(rows: Array, path: list[str]) -> Array:
    for name in path:
        rows = rows[name]
    return rows


TEMPLATE = """<messageSchema package="p" id="{id}" version="{version}" byteOrder="{order}" headerType="Head"><types>
  <composite name="Head"><type name="templateId" primitiveType="uint32"/><type name="version" primitiveType="uint8"/>
    <type name="serial" primitiveType="uint32"/><type name="schemaId" primitiveType="uint16" offset="12"/>
    <type name="blockLength" primitiveType="uint16"/></composite>
  <type name="Pair" primitiveType="int16" length="2"/><type name="Bytes" primitiveType="uint8" length="3"/>
  <composite name="Both"><type name="a" primitiveType="double"/><ref name="pair" type="Pair" offset="10"/></composite>
  </types>{messages}</messageSchema>"""
FIELDS = '<field name="both" id="1" type="Both" offset="2"/><field name="bytes" id="2" type="Bytes"/>'


def schema_of(messages: str, id: int = 9, version: int = 2, order: str = "littleEndian") -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)  # its header is not the usual one
        return Schema.parse(TEMPLATE.format(id=id, version=version, order=order, messages=messages))


@pytest.fixture(params=["reliable", "lossy"])
def ring(request: pytest.FixtureRequest) -> Iterator[tuple[Publisher, Reader]]:
    with Channel.create("arrays", "broadcast", capacity=1 << 16) as channel:
        yield channel.publisher(), channel.subscriber() if request.param == "reliable" else channel.lossy_subscriber()
