# SPDX-License-Identifier: Apache-2.0
"""Modules made by ``flyring sbe generate`` have the same classes as Schema.load() makes; how a user uses them."""

from __future__ import annotations

import enum
import json
import keyword
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sbe_strategies
from flyring import sbe
from flyring.cli import main
from flyring.sbe import Schema, fields
from flyring.sbe.generate import generate
from flyring.sbe.model import Message, SchemaModel
from flyring.sbe.parse import load, parse
from generated_prices import HEADER, SCHEMA, Book, Instrument, PriceFlags, PriceUpdate, Side
from sbe_texts import ENUM, FIELD, POINT, PRICES, composite, group, message, number, schema
from sbe_texts import HEADER as HEADER_TYPE

pytestmark = pytest.mark.filterwarnings("ignore::flyring.sbe.SchemaWarning")  # random schemas give some
GENERATED = Path(__file__).parent / "generated_prices.py"


def module_of(model: SchemaModel) -> ModuleType:
    source = generate(model)
    module = ModuleType("generated")
    exec(compile(source, "generated.py", "exec", dont_inherit=True), module.__dict__)
    return module


def described(cls: Any) -> Any:
    """Returns the complete contents of a class of fields or values, without its Python name."""
    doc = " ".join((cls.__doc__ or "").split())
    if issubclass(cls, enum.Enum):
        return [base.__name__ for base in cls.__mro__[1:]], [(one.name, one.value) for one in cls], doc
    own = {name: value for name, value in vars(cls).items() if not name.startswith("__") or name == "__slots__"}
    members: list[tuple[Any, ...]] = []
    for name, value in own.items():
        if isinstance(value, fields.Field):
            about = (value.kind, value.name, value.offset, value.length, value.since, value.encoding, value.typestr)
            inner = described(value.type) if isinstance(value.type, type) else value.type
            members.append((name, about, inner))
        elif name == "_layout":
            members.append((name, value.name, value.block_length, value.header_length, value.template_id))
        elif isinstance(value, enum.Enum):
            members.append((name, value.name, described(type(value))))
        elif name not in ("FIELDS", "SCHEMA"):
            members.append((name, type(value), value))
    return cls.__mro__[1], sorted(members, key=lambda one: str(one[0])), list(cls.FIELDS), doc


def same_classes(module: ModuleType, model: SchemaModel) -> None:
    at_run_time = Schema.parse(model.text)
    made: Schema = module.SCHEMA
    assert (made.text, made.id, made.version, made.package, made.byte_order) == (
        at_run_time.text,
        at_run_time.id,
        at_run_time.version,
        at_run_time.package,
        at_run_time.byte_order,
    )
    assert list(made.messages) == list(at_run_time.messages)
    for name, cls in made.messages.items():
        assert described(cls) == described(at_run_time.messages[name])
        assert cls.SCHEMA is made


def test_prices_is_what_the_schema_says() -> None:
    assert GENERATED.read_text() == generate(load(PRICES)), "flyring sbe generate spec/sbe/prices.xml"
    same_classes(sys.modules["generated_prices"], load(PRICES))
    assert SCHEMA.text == PRICES.read_text()


def test_prices_is_used_as_a_user_does() -> None:
    buffer = bytearray(200)
    update = PriceUpdate.encode(buffer)
    update.instrument.id = 42
    update.instrument.symbol = "FLYR"
    update.bid = 1
    update.flags = PriceFlags.opening | PriceFlags.halted
    update.lastSide = None
    read = PriceUpdate.decode(buffer)
    assert (read.instrument.id, read.instrument.symbol, read.bid, read.lastSide) == (42, "FLYR", 1, None)
    assert read.flags == PriceFlags(5)
    assert (HEADER.schema_id, Instrument.ENCODED_LENGTH, SCHEMA.PriceUpdate) == (7, 24, PriceUpdate)
    book = Book.encode(buffer)
    for level in book.levels.encode(2):
        level.side = Side.BUY
    book.remark = "é"
    assert [one.side for one in Book.decode(buffer).levels] == [Side.BUY, Side.BUY]
    assert PriceUpdate.__doc__ == "The best prices of an instrument"


@given(sbe_strategies.models())
@pytest.mark.long
def test_generated_and_run_time_classes_are_the_same(model: SchemaModel) -> None:
    same_classes(module_of(model), model)


@given(sbe_strategies.typed_messages())
@pytest.mark.long
def test_generated_and_run_time_classes_do_the_same(drawn: tuple[SchemaModel, Message, dict[str, Any]]) -> None:
    model, message_model, body = drawn
    made = module_of(model).SCHEMA.messages[message_model.name]
    at_run_time = Schema.parse(model.text).messages[message_model.name]
    written = sbe.from_dict(made, body)
    assert written == sbe.from_dict(at_run_time, body)
    assert sbe.to_dict(made.decode(written)) == sbe.to_dict(at_run_time.decode(written))


VALUES: tuple[Any, ...] = (None, -(2**70), -129, -1, 0, 1, 7, 100, 101, 255, 2**31, 2**64 - 1, 0.5, 1e39, float("nan"))
VALUES += ("", "x", "é", "long " * 4, b"", b"12", (1, 2), (0.5, 300), [1, 2, 3], True)


def outcomes(cls: Any) -> list[tuple[str, Any, object]]:
    """Writes each of VALUES into each field. Returns the written bytes, or the error."""
    found: list[tuple[str, Any, object]] = []
    for name, field in cls.FIELDS.items():
        for value in VALUES if field.kind not in ("group", "data") else ():
            buffer = bytearray(1000)
            try:
                setattr(cls.encode(buffer), name, value)
                found.append((name, value, bytes(buffer)))
            except (sbe.SbeError, TypeError) as error:
                found.append((name, value, (type(error), str(error).split(" <class '")[0])))  # class names differ
    return found


@settings(max_examples=20)
@given(sbe_strategies.models())
def test_generated_and_run_time_classes_take_and_refuse_the_same(model: SchemaModel) -> None:
    at_run_time = Schema.parse(model.text)
    for name, cls in module_of(model).SCHEMA.messages.items():
        assert outcomes(cls) == outcomes(at_run_time.messages[name])


def test_every_form_of_field_takes_and_refuses_the_same() -> None:
    forms = ["", 'presence="optional"', 'length="2"', 'presence="optional" length="2"']
    limits = 'minValue="1" maxValue="100"'
    numbers = ["int8", "uint8", "int32", "uint64", "float", "double"]
    types = [f'primitiveType="{one}" {form} {limits}' for one in numbers for form in forms]
    types += [f'primitiveType="{one}" {form}' for one in (*numbers, "char") for form in forms]
    types += [f'primitiveType="int16" presence="optional" nullValue="7" {limits}', 'primitiveType="char" minValue="y"']
    types += ['primitiveType="float" presence="optional" nullValue="-Infinity"']
    members = "".join(f'<field name="f{i}" id="{i}" type="T{i}"/>' for i in range(len(types)))
    written = "".join(f'<type name="T{i}" {one}/>' for i, one in enumerate(types))
    for order in ("littleEndian", "bigEndian"):
        model = parse(schema(written, members, attributes=f'byteOrder="{order}"'))
        made, at_run_time = module_of(model).M, Schema.parse(model.text).M
        assert outcomes(made) == outcomes(at_run_time)
        assert len({str(outcome) for _, _, outcome in outcomes(made)}) > 100


def test_fields_that_hide_their_types() -> None:
    fields = (("_half", "_half"), ("point", "point"), ("_point", "point"), ("_point_", "point"), ("int", "int8"))
    types = composite(number("x", "int8"), name="_half") + composite(number("y", "int8"), name="point")
    refs = [f'<ref name="{name}" type="{kind}"/>' for name, kind in fields if kind != "int8"]
    members = "".join(f'<field name="{name}" id="{i}" type="{kind}"/>' for i, (name, kind) in enumerate(fields))
    model = parse(schema(types + composite(*refs, number("int", "int8"), name="all"), members))
    same_classes(module_of(model), model)
    model = parse(schema(types + composite(*refs, name="all"), '<field name="all" id="9" type="all"/>' + members))
    same_classes(module_of(model), model)


def test_values_that_have_to_be_quoted() -> None:
    quoted = '<type name="T" primitiveType="char" presence="constant">a\\"\'{</type>'
    values = "".join(f'<validValue name="V{i}">{one}</validValue>' for i, one in enumerate("\\\"'{"))
    enums = f'<enum name="F" encodingType="char">{values}</enum>'
    model = parse(schema(quoted + enums, '<field name="t" id="1" type="T"/><field name="f" id="2" type="F"/>'))
    module = module_of(model)
    same_classes(module, model)
    assert module.M.t == "a\\\"'{" and [one.value for one in module.F] == ["\\", '"', "'", "{"]


def names_in(module: ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == "generated"}


def test_names_that_python_has_for_something_else() -> None:
    members = "".join(
        f'<field name="{name}" id="{i}" type="{of_type}"/>'
        for i, (name, of_type) in enumerate(
            [
                ("fields", "uint8"),
                ("int", "uint32"),
                ("str", "char"),
                ("P", "P"),
                ("E", "E"),
                ("more", "P"),
                ("also", "E"),
                ("def", "int8"),
                ("encode", "int8"),
                ("float", "double"),
            ]
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = parse(schema(POINT + ENUM, members))
        other = parse(schema(POINT + ENUM.replace('"E"', '"HEADER"'), messages=message("P", 1) + message("class", 2)))
    module = module_of(model)
    same_classes(module, model)
    assert list(module.M.FIELDS)[-3:] == ["def_", "encode_", "float"]
    assert names_in(module) >= {"M", "P", "E"}
    module = module_of(other)
    assert names_in(module) == {"P", "class_"}
    assert set(module.SCHEMA.messages) == {"P", "class"}


def test_one_name_for_several_things() -> None:
    inner = composite(composite(number("x", "int8"), name="P"), name="Q")
    nested = group(group(FIELD, 'name="g" id="2"'), 'name="g" id="3"')
    model = parse(schema(POINT + inner, '<field name="p" id="1" type="P"/><field name="q" id="2" type="Q"/>' + nested))
    module = module_of(model)
    same_classes(module, model)
    assert names_in(module) == {"M", "P", "P_", "Q", "MG", "MGG"}
    assert list(module.P.FIELDS) == ["x", "y"], "a type of the schema keeps its name"


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\"\\\n\t'{}"))


@given(TEXTS)
def test_descriptions_of_any_text(text: str) -> None:
    from xml.sax.saxutils import quoteattr

    described_as = f"description={quoteattr(text)}"
    if not all(one.isprintable() or one in "\n\t" for one in text):
        return
    model = parse(schema(messages=message("M", 1, FIELD.replace("/>", f" {described_as}/>"), described_as)))
    module = module_of(model)
    assert module.SCHEMA.text == model.text
    assert " ".join((module.M.__doc__ or "").split()) == " ".join(text.split())


@given(TEXTS)
def test_the_schema_s_text_of_any_text(comment: str) -> None:
    try:
        model = parse(schema() + "<!-- " + comment.replace("-", "") + " -->")
    except sbe.SchemaError:
        return  # not a character of XML
    assert module_of(model).SCHEMA.text == model.text


def test_lines_are_short() -> None:
    long = "".join(f'<field name="{"x" * 60}{i}" id="{i}" type="{"P" * 50}"/>' for i in range(3))
    model = parse(schema(POINT.replace('"P"', f'"{"P" * 50}"'), long + group(attributes=f'name="{"g" * 70}" id="9"')))
    source = generate(model)
    same_classes(module_of(model), model)
    before = source[: source.index("SCHEMA = ")]
    assert max(map(len, before.splitlines())) <= 120 + 70, "a name alone may be longer"
    assert not any(keyword.iskeyword(name) for name in names_in(module_of(model)))


# The command


def test_generate_writes_a_module(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["sbe", "generate", str(PRICES)]) == 0
    assert capsys.readouterr() == (GENERATED.read_text(), "")
    output = tmp_path / "prices.py"
    assert main(["sbe", "generate", str(PRICES), "-o", str(output)]) == 0
    assert output.read_text() == GENERATED.read_text()
    assert capsys.readouterr() == ("", "")


def test_generate_refuses_what_is_not_valid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text(schema(messages=message("M", 1) + "\n" + message("M", 1)))
    assert main(["sbe", "generate", str(tmp_path / "bad.xml"), "-o", str(tmp_path / "bad.py")]) == 2
    out, error = capsys.readouterr()
    assert not out and 'there is another message named "M"' in error and not (tmp_path / "bad.py").exists()
    assert main(["sbe", "generate", str(tmp_path / "none.xml")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["sbe", "generate", str(PRICES), "-o", str(tmp_path / "none" / "x.py")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_generate_passes_warnings_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "warned.xml").write_text(schema(members=FIELD.replace('"a"', '"class"')))
    assert main(["sbe", "generate", str(tmp_path / "warned.xml")]) == 0
    out, error = capsys.readouterr()
    assert "class_: fields.Field[int, int]" in out and "flyring: warning: " in error


def test_check_says_what_a_schema_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sbe", "check", str(PRICES)]) == 0
    out, error = capsys.readouterr()
    assert not error
    assert "message PriceUpdate: template 1, block of 62 bytes" in out
    assert "     32    8  bid         Price (int64)" in out
    assert "group levels: entries of 13 bytes" in out and "data remark: UTF-8, uint16 length" in out
    assert main(["sbe", "check", str(PRICES), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["valid"], document["problems"], document["warnings"]) == (True, [], [])
    assert [one["name"] for one in document["messages"]] == ["PriceUpdate", "Trade", "Book"]
    assert document["messages"][1]["fields"][5]["since_version"] == 1


def test_check_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = schema(f'<type name="\x9b31m" primitiveType="x"/>{number("T", "int8")}')
    (tmp_path / "bad.xml").write_text(bad, encoding="utf-8")
    assert main(["sbe", "check", str(tmp_path / "bad.xml")]) == 1
    out, error = capsys.readouterr()
    assert not error and out.startswith("WRONG") and "\x9b" not in out
    assert main(["sbe", "check", str(tmp_path / "bad.xml"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert not document["valid"] and len(document["problems"]) == 1 and "messages" not in document
    (tmp_path / "warned.xml").write_text(schema().replace(HEADER_TYPE, HEADER_TYPE.replace("uint16", "uint32")))
    assert main(["sbe", "check", str(tmp_path / "warned.xml")]) == 0
    assert capsys.readouterr().out.count("warning ") == 4
    assert main(["sbe", "check", str(tmp_path / "none.xml")]) == 2
    assert "No such file" in capsys.readouterr().err
