# SPDX-License-Identifier: Apache-2.0
"""Schemas: which are accepted or refused, and their models."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sbe_strategies
from flyring.sbe import Schema
from flyring.sbe.errors import SbeError, SchemaError, SchemaWarning
from flyring.sbe.model import Composite, Encoded, Enum, Field, Presence, Primitive, SchemaModel, Set
from flyring.sbe.parse import load, parse
from sbe_texts import (
    ENUM,
    FIELD,
    HEADER,
    POINT,
    PRICES,
    composite,
    enum,
    message,
    number,
    schema,
    value,
)
from sbe_verdicts import OURS_ALONE, REFUSED, TAKEN, WARNED


@pytest.mark.parametrize(("text", "part"), (REFUSED | OURS_ALONE).values(), ids=(REFUSED | OURS_ALONE).keys())
def test_refused_with_place_and_reason(text: str, part: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        with pytest.raises(SchemaError) as caught:
            parse(text)
    assert part in str(caught.value)
    assert all(problem.startswith("<schema>:") for problem in caught.value.problems)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(("text", "part"), WARNED.values(), ids=WARNED.keys())
def test_taken_with_a_warning(text: str, part: str) -> None:
    with pytest.warns(SchemaWarning) as caught:
        parse(text)
    assert all(part in str(one.message) for one in caught), [str(one.message) for one in caught]


def test_one_warning_of_a_kind_for_each_schema() -> None:
    names = ("class", "return", "double", "while", "new", "this", "try", "for", "if", "else", "switch")
    fields = "".join(f'\n<field name="{name}" id="{i}" type="uint8"/>' for i, name in enumerate(names, 1))
    with pytest.warns(SchemaWarning) as caught:
        parse(schema("", fields))
    (one,) = [str(warning.message) for warning in caught]
    assert one.startswith('<schema>:11: <field name="class"> in <sbe:message name="M">: its name is a keyword')
    places = ", ".join(f"<schema>:{line}" for line in range(12, 20))
    assert one.endswith(f" (10 more: {places} ...)")


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN.keys())
def test_taken_without_a_word(text: str) -> None:
    model = parse(text)
    assert same(parse(model.text), model)


def same(one: object, other: object) -> bool:
    """Returns whether two models are equal. NaNs are equal, and the text is ignored."""
    if isinstance(one, SchemaModel) and isinstance(other, SchemaModel):
        one, other = dataclasses.replace(one, text=""), dataclasses.replace(other, text="")
    return repr(one) == repr(other)


def test_prices() -> None:
    model = load(PRICES)
    assert (model.package, model.id, model.version, model.byte_order) == ("prices", 7, 1, "<")
    assert (model.description, model.semantic_version) == ("Market prices", "1.1")
    assert model.text == PRICES.read_text()
    update, trade, book = model.messages
    assert [(one.name, one.id, one.block_length) for one in model.messages] == [
        ("PriceUpdate", 1, 62),
        ("Trade", 2, 49),
        ("Book", 3, 32),
    ]
    assert [(one.name, one.offset, one.encoded_length) for one in update.fields] == [
        ("instrument", 0, 24),
        ("timestamp", 24, 8),
        ("bid", 32, 8),
        ("ask", 40, 8),
        ("bidSize", 48, 4),
        ("askSize", 52, 4),
        ("sequence", 56, 4),
        ("flags", 60, 1),
        ("lastSide", 61, 1),
    ]
    assert update.fields[2].description == "In units of 10^-8 of the instrument's currency"
    assert update.fields[8].is_optional and update.fields[8].description == "Of the last trade"
    instrument = update.fields[0].type
    assert isinstance(instrument, Composite) and instrument is trade.fields[0].type
    assert [(one.name, one.offset, one.encoded_length) for one in instrument.fields] == [
        ("id", 0, 8),
        ("symbol", 8, 8),
        ("exchange", 16, 4),
        ("currency", 20, 3),
        ("kind", 23, 1),
    ]
    side = update.fields[8].type
    assert isinstance(side, Enum) and side.primitive is Primitive.CHAR and side.null_value == 0
    assert [(one.name, one.value) for one in side.values] == [("BUY", ord("B")), ("SELL", ord("S"))]
    assert isinstance(update.fields[7].type, Set)
    fee = trade.fields[5]
    assert (fee.since_version, fee.is_optional) == (1, True)
    assert isinstance(fee.type, Encoded) and fee.type.null_value == -(2**31)
    (levels,) = book.groups
    assert (levels.block_length, levels.dimension.name, len(levels.fields)) == (13, "groupSizeEncoding", 3)
    (remark,) = book.data
    assert (remark.length.primitive, remark.length.max_value, remark.character_encoding) == (
        Primitive.UINT16,
        65534,
        "UTF-8",
    )


def fields_of(text: str) -> dict[str, Field]:
    return {field.name: field for field in parse(text).messages[0].fields}


def test_constants_are_what_a_user_reads() -> None:
    fields = fields_of(TAKEN["constants"])
    constants = [field.constant for field in fields.values()]
    assert constants == ["X", "EUR", "EUR", "é", 0.25, 2**64 - 1, " & ", -5, 5]
    assert all(field.encoded_length == 0 and field.presence is Presence.CONSTANT for field in fields.values())


def test_constants_take_no_room() -> None:
    fields = fields_of(TAKEN["a constant between fields"])
    assert [(one.offset, one.constant) for one in fields.values()] == [(0, None), (4, 2), (4, None)]
    assert parse(TAKEN["a constant at an offset, last"]).messages[0].block_length == 20
    assert fields_of(TAKEN["a constant of a primitive from an enum"])["k"].constant == 2


def test_a_constant_of_an_enum_of_characters() -> None:
    sides = enum('encodingType="char"', value("BUY", "B"))
    of_type = '<type name="T" primitiveType="char" presence="constant" valueRef="F.BUY"/>'
    members = (
        '<field name="enum" id="1" type="F" presence="constant" valueRef="F.BUY"/>'
        '<field name="char" id="2" type="char" presence="constant" valueRef="F.BUY"/>'
        '<field name="type" id="3" type="T"/>'
    )
    with pytest.warns(SchemaWarning, match="keyword"):
        fields = fields_of(sides.replace("</types>", of_type + "</types>").replace(FIELD, members))
    assert [field.constant for field in fields.values()] == [ord("B"), "B", "B"]


def test_offsets_and_block_lengths() -> None:
    model = parse(TAKEN["offsets"])
    (m,) = model.messages
    c = m.fields[1].type
    assert isinstance(c, Composite)
    assert [(one.offset, one.encoded_length) for one in c.fields] == [(3, 1), (4, 1), (8, 8)]
    assert ([one.offset for one in m.fields], m.block_length, m.groups[0].block_length) == ([0, 10], 26, 8)
    (m,) = parse(TAKEN["block lengths"]).messages
    assert (m.block_length, m.groups[0].block_length) == (64, 32)
    m, n = parse(TAKEN["offsets of data"]).messages
    assert (m.block_length, n.block_length, n.groups[0].block_length) == (64, 0, 12)


def test_null_values_and_limits() -> None:
    fields = fields_of(
        schema(
            number("T1", "int8", 'presence="optional"')
            + number("T2", "int8", 'presence="optional" nullValue="-1" minValue="0" maxValue="100"')
            + number("T3", "float", 'presence="optional"')
            + number("T4", "char", 'minValue="A" maxValue="Z"')
            + number("T5", "uint64", 'presence="optional"')
            + number("T6", "float", 'maxValue="0.1"'),
            "".join(f'<field name="f{i}" id="{i}" type="T{i}"/>' for i in range(1, 7)),
        )
    )
    found = [
        (one.type.null_value, one.type.min_value, one.type.max_value)
        for one in fields.values()
        if isinstance(one.type, Encoded)
    ]
    assert found[:2] == [(-128, -127, 127), (-1, 0, 100)]
    assert found[2][0] != found[2][0] and found[2][1:] == (-3.4028234663852886e38, 3.4028234663852886e38)
    assert found[3] == (0, 65, 90)
    assert found[4] == (2**64 - 1, 0, 2**64 - 2)
    assert found[5][2] == 0.10000000149011612, "as a float holds it"


def test_versions() -> None:
    (m,) = parse(TAKEN["since and deprecated"]).messages
    assert (m.fields[0].since_version, m.fields[0].deprecated, m.groups[0].since_version) == (2, 3, 3)


def test_one_type_is_one_object() -> None:
    fields = fields_of(schema(POINT, "".join(f'<field name="p{i}" id="{i}" type="P"/>' for i in range(3))))
    assert fields["p0"].type is fields["p1"].type is fields["p2"].type


def test_all_problems_are_told_at_once() -> None:
    broken = '<field name="a" id="1" type="Nope"/>'
    with pytest.raises(SchemaError) as caught:
        parse(schema(messages=message("M", 1, broken) + message("N", 2) + "\n" + message("O", 3, broken)))
    assert caught.value.problems == (
        '<schema>:10: <field name="a"> in <sbe:message name="M">: type="Nope" is not in <types>: '
        "define it there, or correct the name",
        '<schema>:11: <field name="a"> in <sbe:message name="O">: type="Nope" is not in <types>: '
        "define it there, or correct the name",
    )
    assert isinstance(caught.value, SbeError)
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


@pytest.mark.parametrize("text", ["", "<", "<a>", "text", "<a/><b/>", "<a>&b;</a>", "<a:b/>", "\ud800", "<a>\0</a>"])
def test_what_is_no_xml(text: str) -> None:
    with pytest.raises(SchemaError, match="not well-formed XML"):
        parse(text)


def test_entities_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    doctype = f'<!DOCTYPE s [<!ENTITY a "b"><!ENTITY x SYSTEM "{secret}">]>'
    with pytest.raises(SchemaError, match=r"DOCTYPE.*Remove it"):
        parse(doctype + schema().replace('package="p"', 'package="&a;"'))


def test_a_doctype_that_defines_nothing_is_harmless(tmp_path: Path) -> None:
    assert parse("<!DOCTYPE xml>" + schema()).package == "p"
    with pytest.raises(SchemaError, match="not well-formed XML: undefined entity"):
        parse("<!DOCTYPE xml>" + schema().replace('package="p"', 'package="&a;"'))
    (tmp_path / "other.dtd").write_text('<!ENTITY a "b">')
    for outside in ('SYSTEM "other.dtd"', f'SYSTEM "{tmp_path}/other.dtd"', 'PUBLIC "a" "other.dtd"'):
        with pytest.raises(SchemaError, match="Remove it"):
            parse(f"<!DOCTYPE xml {outside}>" + schema(), tmp_path)


@pytest.mark.parametrize(("name", "value"), [("blockLength", 1), ("templateId", 1), ("schemaId", 7), ("version", 3)])
def test_a_constant_of_the_header_must_be_what_the_schema_says(name: str, value: int) -> None:
    def text(constant: int) -> str:
        fields = "".join(
            f'<type name="{one}" primitiveType="uint16"'
            + (f' presence="constant">{constant}</type>' if one == name else "/>")
            for one in ("blockLength", "templateId", "schemaId", "version")
        )
        return (
            f'<messageSchema package="p" id="7" version="3"><types><composite name="messageHeader">{fields}</composite>'
            '</types><message name="M" id="1"><field name="a" id="1" type="uint8"/></message></messageSchema>'
        )

    Schema.parse(text(value))  # makes the classes, too
    with pytest.raises(SchemaError, match=f'{value} is not the constant 9 that "{name}"'):
        Schema.parse(text(9))


def test_hostile_depths() -> None:
    deep = "".join('<composite name="a">' for _ in range(50_000))
    with pytest.raises(SchemaError, match="more than 100"):
        parse(deep)
    chain = "".join(composite(f'<ref name="x" type="C{i + 1}"/>', name=f"C{i}") for i in range(2_000))
    with pytest.raises(SchemaError, match="more than 100 composites are in each other"):
        parse(schema(chain + composite(name="C2000")))
    double = "".join(
        composite(f'<ref name="x" type="C{i + 1}"/>', f'<ref name="y" type="C{i + 1}"/>', name=f"C{i}")
        for i in range(60)
    )
    with pytest.raises(SchemaError, match="more than 65536 members"):
        parse(schema(double + composite(number("x", "int8"), name="C60")))


# XInclude

XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'


def including(href: str, inside: str = "") -> str:
    return f'<xi:include {XI} href="{href}">{inside}</xi:include>' if inside else f'<xi:include {XI} href="{href}"/>'


def test_xinclude_is_relative_and_nests_and_is_resolved_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "common types").mkdir()
    main = schema("</types>" + including("common%20types/outer.xml") + "<types>", '<field name="b" id="1" type="P"/>')
    (tmp_path / "main.xml").write_text(main.replace(HEADER, ""), encoding="utf-8")
    types = f"<!-- ours -->\n<types>{HEADER}{including('inner.xml')}</types>\n<!-- end -->"
    outer = f'<?xml version="1.0" encoding="UTF-8"?>\n{types}'
    (tmp_path / "common types" / "outer.xml").write_text(outer, encoding="utf-8")
    inner = '<?xml version="1.0" encoding="ISO-8859-1"?>' + POINT.replace(
        'name="P"', 'name="P" description="Größe > 0"'
    )
    (tmp_path / "common types" / "inner.xml").write_text(inner, encoding="iso-8859-1")
    model = load(tmp_path / "main.xml")
    point = model.types["P"]
    assert model.messages[0].fields[0].type is point and point.description == "Größe > 0"
    assert "XInclude" not in model.text and model.text.count("<?xml") == 0
    assert same(parse(model.text), model)
    assert same(parse((tmp_path / "main.xml").read_text(), base=tmp_path), model)


def test_xinclude_of_a_whole_file_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(POINT)
    model = parse(schema(including(str(tmp_path / "p.xml"))))
    assert "P" in model.types
    assert "P" in parse(schema(including((tmp_path / "p.xml").as_uri()))).types


def test_xinclude_falls_back(tmp_path: Path) -> None:
    text = schema(including("none.xml", f"<xi:fallback>{POINT}{including('p.xml')}</xi:fallback>"))
    (tmp_path / "p.xml").write_text(ENUM)
    model = parse(text, base=tmp_path)
    assert {"P", "E"} <= set(model.types)
    assert "XInclude" not in model.text and same(parse(model.text), model)
    empty = parse(schema(including("none.xml", "<xi:fallback/>")), base=tmp_path)
    assert same(empty, parse(schema()))


@pytest.mark.parametrize(
    ("href", "part"),
    [
        ("none.xml", "No such file"),
        ("main.xml", "includes itself"),
        ("circle.xml", "includes itself"),
        ("http://example.org/x.xml", "nothing is fetched from a network"),
        ("//example.org/x.xml", "nothing is fetched from a network"),
        ("file://example.org/x.xml", "nothing is fetched from a network"),
        ("main.xml#a", "nothing is fetched from a network"),
        ("", "href="),
        ("broken.xml", "broken.xml:2: not well-formed XML"),
        (".", "cannot read"),
    ],
)
def test_xinclude_that_cannot_be(tmp_path: Path, href: str, part: str) -> None:
    (tmp_path / "main.xml").write_text(schema(including(href)))
    (tmp_path / "circle.xml").write_text(f"<types>{including('main.xml')}</types>")
    (tmp_path / "broken.xml").write_text("<types>\n</type>")
    with pytest.raises(SchemaError, match=part):
        load(tmp_path / "main.xml")


def test_xinclude_in_a_text_from_no_file() -> None:
    with pytest.raises(SchemaError, match="this text is from no file: load the file, or give base"):
        parse(schema(including("p.xml")))


def test_an_error_in_an_included_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "main.xml").write_text(schema("</types>" + including("p.xml") + "<types>"))
    (tmp_path / "p.xml").write_text('<types>\n\n<type name="T" primitiveType="x"/></types>')
    with pytest.raises(SchemaError, match=r'p\.xml:3: <type name="T">: primitiveType="x"'):
        load(tmp_path / "main.xml")


# Files


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "iso-8859-1", "windows-1252"])
def test_files_of_any_encoding(tmp_path: Path, encoding: str) -> None:
    declared = {"utf-8-sig": "utf-8", "utf-16-le": "utf-16"}.get(encoding, encoding)
    text = f'<?xml version="1.0" encoding="{declared}"?>\n' + schema(attributes='description="Größe"')
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    (tmp_path / "s.xml").write_bytes(mark + text.encode(encoding))
    model = load(tmp_path / "s.xml")
    assert model.description == "Größe"
    assert model.text.lower().startswith('<?xml version="1.0" encoding="utf-8"?>')
    assert same(parse(model.text), model)


def test_files_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_bytes(b"<?xml version='1.0' encoding='utf-8'?>\xff")
    with pytest.raises(SchemaError, match="Save it as UTF-8"):
        load(tmp_path / "s.xml")
    (tmp_path / "s.xml").write_bytes(b"<?xml version='1.0' encoding='klingon'?><a/>")
    with pytest.raises(SchemaError, match="klingon"):
        load(tmp_path / "s.xml")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.xml")


ODD = (
    "",
    "0",
    "-1",
    "1",
    "99999999999",
    "x",
    "E.",
    "P.x",
    "NaN",
    "optional",
    "constant",
    "char",
    "messageHeader",
    "\u0663",
)


@given(sbe_strategies.schemas(), st.data())
@pytest.mark.long
def test_a_schema_with_something_odd_is_taken_or_refused(text: str, data: st.DataObject) -> None:
    values = list(re.finditer(r'="([^"]*)"', text))[2:]  # without those of the XML declaration
    for at in sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1, max_size=3)), reverse=True):
        odd = data.draw(st.sampled_from((*ODD, *{one[1] for one in values})))
        text = text[: values[at].start(1)] + odd + text[values[at].end(1) :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        with contextlib.suppress(SchemaError):
            parse(text)


@given(sbe_strategies.models())
def test_random_schemas_are_taken_and_stay_the_same(model: SchemaModel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SchemaWarning)
        assert same(parse(model.text), model)
    for one in model.messages:
        end = 0
        for field in one.fields:
            assert field.offset >= end
            end = field.offset + field.encoded_length
        assert end <= one.block_length
