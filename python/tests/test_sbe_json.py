# SPDX-License-Identifier: Apache-2.0
"""Messages as JSON: ``to_dict`` and ``from_dict`` (spec/messages.md 4)."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from conftest import SPEC
from flyring.sbe import Message, SbeError, Schema, from_dict, to_dict
from flyring.sbe import model as sbe_model
from sbe_strategies import Body, typed_messages

pytestmark = pytest.mark.filterwarnings("ignore::flyring.sbe.SchemaWarning")
PRICES = Schema.load(SPEC / "sbe" / "prices.xml")
INSTRUMENT = {"id": 42, "symbol": "FLYR", "exchange": "XLON", "currency": "EUR", "kind": "STOCK"}
UPDATE: Body = {
    "instrument": INSTRUMENT,
    "timestamp": 2**64 - 2,
    "bid": -1,
    "ask": 2**63 - 1,
    "bidSize": 0,
    "askSize": 2**32 - 2,
    "sequence": 5,
    "flags": {"opening": False, "closing": True, "halted": True},
    "lastSide": None,
}
BOOK: Body = {
    "instrument": INSTRUMENT,
    "timestamp": 7,
    "levels": [{"price": 1, "size": 2, "side": "BUY"}, {"price": -3, "size": 4, "side": "SELL"}],
    "remark": 'quiet, "é€"\n',
}
ODD = """<messageSchema package="odd" id="9" version="1" byteOrder="bigEndian"><types>
<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>
<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>
<type name="version" primitiveType="uint16"/></composite>
<composite name="blob"><type name="length" primitiveType="uint8"/>
<type name="varData" primitiveType="uint8" length="0"/></composite>
<type name="Row" primitiveType="float" length="3"/><type name="Digest" primitiveType="uint8" length="4"/>
<type name="Word" primitiveType="char" length="5" characterEncoding="UTF-8"/>
<type name="Unit" primitiveType="char" presence="constant">mm</type>
<enum name="Colour" encodingType="uint16"><validValue name="RED">1</validValue>
<validValue name="None">2</validValue></enum>
<enum name="Letter" encodingType="char"><validValue name="ALPHA">A</validValue></enum>
<set name="Marks" encodingType="uint64"><choice name="first">0</choice><choice name="last">63</choice></set></types>
<message name="Odd" id="1"><field name="lambda" id="1" type="uint8"/><field name="single" id="2" type="float"/>
<field name="double" id="3" type="double"/><field name="maybe" id="4" type="double" presence="optional"/>
<field name="row" id="5" type="Row"/><field name="digest" id="6" type="Digest"/><field name="word" id="7" type="Word"/>
<field name="unit" id="8" type="Unit"/><field name="colour" id="9" type="Colour" presence="optional"/>
<field name="paint" id="10" type="Colour" presence="constant" valueRef="Colour.RED"/>
<field name="letter" id="11" type="Letter"/><field name="marks" id="12" type="Marks"/>
<field name="later" id="13" type="int16" presence="optional" sinceVersion="1"/>
<data name="blob" id="14" type="blob"/></message></messageSchema>"""
ODD_BODY: Body = {
    "lambda": 7,
    "single": 49.9,
    "double": "NaN",
    "maybe": None,
    "row": [1.5, "Infinity", "-Infinity"],
    "digest": [0, 255, 1, 2],
    "word": "é",
    "unit": "mm",
    "colour": "None",
    "paint": "RED",
    "letter": "ALPHA",
    "marks": {"first": False, "last": True},
    "later": None,
    "blob": "00ff",
}


@pytest.fixture(scope="module")
def odd() -> type[Message]:
    return Schema.parse(ODD).messages["Odd"]


def there_and_back(message: type[Message], body: Body) -> Body:
    text = json.dumps(to_dict(message.decode(from_dict(message, json.loads(json.dumps(body))))), allow_nan=False)
    form: Body = json.loads(text)
    return form


def test_every_kind_of_field_comes_back(odd: type[Message]) -> None:
    assert there_and_back(PRICES.PriceUpdate, UPDATE) == UPDATE
    assert there_and_back(PRICES.Book, BOOK) == BOOK
    assert there_and_back(odd, ODD_BODY) == ODD_BODY
    assert list(there_and_back(odd, ODD_BODY)) == list(ODD_BODY)  # in the schema's order


def test_the_bytes_are_those_of_the_flyweight() -> None:
    buffer = bytearray(200)
    book = PRICES.Book.encode(buffer)
    book.instrument.id, book.instrument.symbol = 42, "FLYR"
    book.instrument.exchange, book.instrument.currency, book.instrument.kind = "XLON", "EUR", 0
    book.timestamp = 7
    sides = type(PRICES.Book.FIELDS["levels"].type.FIELDS["side"].type("B"))
    for level, (price, size, side) in zip(book.levels.encode(2), ((1, 2, "B"), (-3, 4, "S")), strict=True):
        level.price, level.size, level.side = price, size, sides(side)
    book.remark = BOOK["remark"]
    assert from_dict(PRICES.Book, BOOK) == bytes(book)
    assert to_dict(PRICES.Book.decode(buffer)) == BOOK


def test_what_may_be_missing(odd: type[Message]) -> None:
    may = {"maybe", "colour", "later", "unit", "paint", "blob"}
    body = {name: value for name, value in ODD_BODY.items() if name not in may}
    assert there_and_back(odd, body) == ODD_BODY | {"maybe": None, "colour": None, "later": None, "blob": ""}
    for name in body:
        with pytest.raises(SbeError, match=rf"^Odd\.{name}: it is missing$"):
            from_dict(odd, {other: value for other, value in body.items() if other != name})
    assert there_and_back(PRICES.Book, {"instrument": INSTRUMENT, "timestamp": 7}) == BOOK | {
        "levels": [],
        "remark": "",
    }


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (["bid"], "1", r"PriceUpdate\.bid"),
        (["bid"], True, r"PriceUpdate\.bid"),
        (["bid"], 1.5, r"PriceUpdate\.bid"),
        (["bid"], None, r"PriceUpdate\.bid"),
        (["bid"], -(2**63) - 1, r"PriceUpdate\.bid"),
        (["instrument"], None, r"PriceUpdate\.instrument: an object is expected, not None"),
        (["instrument", "symbol"], "NINELONG!", r"PriceUpdate\.instrument\.symbol"),
        (["instrument", "symbol"], "é", r"PriceUpdate\.instrument\.symbol"),
        (["instrument", "symbol"], 5, r"PriceUpdate\.instrument\.symbol"),
        (["instrument", "kind"], "BOND", r"PriceUpdate\.instrument\.kind: 'BOND' is none of STOCK, FUTURE, OPTION"),
        (["instrument", "kind"], 0, r"PriceUpdate\.instrument\.kind: 0 is none of"),
        (["instrument", "kind"], None, r"PriceUpdate\.instrument\.kind"),
        (["instrument", "name"], "x", r"PriceUpdate\.instrument: the schema knows no such field: name"),
        (["flags"], 3, r"PriceUpdate\.flags: an object of booleans is expected, not 3"),
        (["flags"], {"halted": 1}, r"PriceUpdate\.flags: an object of booleans"),
        (["flags"], {"open": True}, r"PriceUpdate\.flags: open is none of its choices, opening, closing, halted"),
        (["lastSide"], ["BUY"], r"PriceUpdate\.lastSide"),
        (["size"], 1, "PriceUpdate: the schema knows no such field: size"),
    ],
)
def test_errors_name_message_and_field(path: list[str], value: Any, error: str) -> None:
    body = json.loads(json.dumps(UPDATE))
    at = body
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    with pytest.raises(SbeError, match="^" + error):
        from_dict(PRICES.PriceUpdate, body)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"levels": 3}, r"Book\.levels: an array is expected, not 3"),
        ({"levels": [3]}, r"Book\.levels\[0\]: an object is expected, not 3"),
        ({"levels": [BOOK["levels"][0], {}]}, r"Book\.levels\[1\]\.price: it is missing"),
        ({"levels": [BOOK["levels"][0]] * 70000}, r"Book\.levels"),
        ({"remark": 3}, r"Book\.remark"),
        ({"remark": None}, r"Book\.remark"),
        ({"remark": "x" * 70000}, r"Book\.remark"),
    ],
)
def test_errors_in_groups_and_data(change: Body, error: str) -> None:
    with pytest.raises(SbeError, match="^" + error):
        from_dict(PRICES.Book, BOOK | change)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"unit": "cm"}, r"Odd\.unit: it is constant, 'mm', and cannot be 'cm'"),
        ({"paint": "None"}, r"Odd\.paint: it is constant"),
        ({"row": [1, 2]}, r"Odd\.row"),
        ({"row": "abc"}, r"Odd\.row: an array is expected"),
        ({"row": [1, 2, "much"]}, r"Odd\.row"),
        ({"digest": [0, 256, 1, 2]}, r"Odd\.digest: an array of integers from 0 to 255"),
        ({"digest": [0, True, 1, 2]}, r"Odd\.digest"),
        ({"row": [1, True, 2]}, r"Odd\.row\[1\]"),
        ({"double": False}, r"Odd\.double"),
        ({"digest": "abcd"}, r"Odd\.digest"),
        ({"single": 1e300}, r"Odd\.single"),
        ({"single": "nan"}, r"Odd\.single"),
        ({"blob": "0"}, r"Odd\.blob: a string of hexadecimal digits"),
        ({"blob": 3}, r"Odd\.blob: a string of hexadecimal digits"),
        ({"word": "éééé"}, r"Odd\.word"),
    ],
)
def test_errors_of_other_kinds_of_fields(odd: type[Message], change: Body, error: str) -> None:
    with pytest.raises(SbeError, match="^" + error):
        from_dict(odd, ODD_BODY | change)


def test_no_object_at_all() -> None:
    for given_ in (None, [], "text", 3):
        with pytest.raises(SbeError, match=r"^PriceUpdate: an object is expected"):
            from_dict(PRICES.PriceUpdate, given_)  # type: ignore[arg-type]


def test_what_an_older_version_has_not_is_none() -> None:
    data = bytearray(from_dict(PRICES.Trade, {**trade(), "venueFee": 5}))
    assert to_dict(PRICES.Trade.decode(data))["venueFee"] == 5
    struct.pack_into("<H", data, 6, 0)
    assert to_dict(PRICES.Trade.decode(data))["venueFee"] is None


def test_a_value_that_the_enum_does_not_know_is_its_number() -> None:
    data = bytearray(from_dict(PRICES.Trade, trade()))
    offset = 8 + PRICES.Trade.FIELDS["side"].offset
    for raw in (b"X", b"\xff"):
        data[offset : offset + 1] = raw
        assert to_dict(PRICES.Trade.decode(data))["side"] == raw[0]


def test_single_floats_have_no_more_digits_than_they_need(odd: type[Message]) -> None:
    for value in (0.1, 3.4028234663852886e38, 1e-45, 16777216.0, -0.0, 1 / 3):
        single = struct.unpack("<f", struct.pack("<f", value))[0]
        shown = there_and_back(odd, ODD_BODY | {"single": single})["single"]
        assert struct.pack("<f", shown) == struct.pack("<f", single)
        assert len(repr(shown)) <= max(len(repr(single)), 12)
        assert float(f"{single:.9g}") == shown or len(repr(shown)) < len(f"{single:.9g}")


def trade() -> Body:
    return {"instrument": INSTRUMENT, "timestamp": 1, "price": 2, "size": 3, "side": "SELL"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(typed_messages())
def test_any_message_of_any_schema(drawn: tuple[sbe_model.SchemaModel, sbe_model.Message, Body]) -> None:
    model, described, body = drawn
    message = Schema.parse(model.text).messages[described.name]
    data = from_dict(message, body)
    form = to_dict(message.decode(data))
    json.dumps(form, allow_nan=False)
    same(form, body)
    assert from_dict(message, form) == data


def same(actual: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for name in expected:
            same(actual[name], expected[name])
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float) and actual != expected:
        assert struct.pack("<f", actual) == struct.pack("<f", expected)
    else:
        assert actual == expected


HEADER = """<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>
<type name="templateId" primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/>
<type name="version" primitiveType="uint16"/></composite>"""


def test_none_can_be_written_into_an_enum_whose_encoding_type_is_optional() -> None:
    """The usual form of CME's and B3's schemas. The presence of the field stays as sbe-tool says."""
    text = f"""<messageSchema package="p" id="1"><types>{HEADER}
        <type name="uInt8NULL" presence="optional" nullValue="254" primitiveType="uint8"/>
        <enum name="BooleanNULL" encodingType="uInt8NULL"><validValue name="No">0</validValue></enum>
        <enum name="Boolean" encodingType="uint8"><validValue name="No">0</validValue></enum></types>
        <message name="M" id="1"><field name="flag" id="1" type="BooleanNULL"/>
        <field name="must" id="2" type="Boolean"/>
        <field name="constant" id="3" type="BooleanNULL" presence="constant" valueRef="BooleanNULL.No"/>
        </message></messageSchema>"""
    schema = Schema.parse(text)
    made = schema.M
    data = from_dict(made, {"flag": None, "must": "No"})
    assert data[8:] == b"\xfe\0"
    assert to_dict(made.decode(data)) == {"flag": None, "must": "No", "constant": "No"}
    assert from_dict(made, {"must": "No"}) == data
    for refused in ({"flag": None, "must": None}, {"flag": None}):
        with pytest.raises(SbeError, match=r"must: (a member of its enum|it is missing)"):
            from_dict(made, refused)
    presences = [field.presence for field in schema.model.messages[0].fields]
    assert presences == [sbe_model.Presence.REQUIRED] * 2 + [sbe_model.Presence.CONSTANT]


def test_an_unknown_enum_value_in_a_newer_member_of_a_composite_is_its_number() -> None:
    made = Schema.parse(f"""<messageSchema package="p" id="1" version="1"><types>{HEADER}
        <enum name="E" encodingType="uint8"><validValue name="A">1</validValue></enum>
        <composite name="C"><type name="x" primitiveType="uint8"/><ref name="e" type="E" sinceVersion="1"/></composite>
        </types><message name="M" id="1"><field name="c" id="1" type="C"/></message></messageSchema>""").M
    for version in (0, 1):
        assert to_dict(made.wrap(b"\7\1", block_length=2, version=version)) == {"c": {"x": 7, "e": "A"}}
        assert to_dict(made.wrap(b"\7\x09", block_length=2, version=version)) == {"c": {"x": 7, "e": 9}}


ENCODINGS = {
    "US-ASCII": b"a\x80\xff",
    "UTF-8": b"\xc3\xa9\xff\xc3",
    "windows-1252": b"\x81\x80",
    "Shift_JIS": b"\xff\x41",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_bytes_that_are_not_text_are_read_and_written_as_they_are(encoding: str) -> None:
    odd = ENCODINGS[encoding]
    made = Schema.parse(f"""<messageSchema package="p" id="1"><types>{HEADER}
        <type name="Word" primitiveType="char" length="8" characterEncoding="{encoding}"/>
        <type name="Letter" primitiveType="char" characterEncoding="{encoding}"/>
        <composite name="text"><type name="length" primitiveType="uint8"/>
        <type name="varData" primitiveType="uint8" length="0" characterEncoding="{encoding}"/></composite></types>
        <message name="M" id="1"><field name="word" id="1" type="Word"/><field name="letter" id="2" type="Letter"/>
        <data name="data" id="3" type="text"/></message></messageSchema>""").M
    payload = struct.pack("<4H", 9, 1, 1, 0) + odd.ljust(8, b"\0") + odd[-1:] + bytes([len(odd)]) + odd
    form = to_dict(made.decode(payload))
    assert form["word"] == form["data"] == odd.decode(encoding, "surrogateescape")
    assert form["word"].encode(encoding, "surrogateescape") == odd  # the raw bytes
    line = json.dumps(form)
    assert line.isascii() and from_dict(made, json.loads(line)) == payload
