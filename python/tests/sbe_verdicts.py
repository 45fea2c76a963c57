# SPDX-License-Identifier: Apache-2.0
"""Schemas, and the verdict about each.

REFUSED, WARNED and TAKEN are the observed verdicts of sbe-tool 1.38.1 for the same text
(sbe.validation.stop.on.error=true). sbe-tool accepts OURS_ALONE, but makes codecs that cannot work.
"""

from __future__ import annotations

from sbe_texts import (
    DATA,
    ENUM,
    FIELD,
    HEAD,
    HEADER,
    POINT,
    PRICES,
    bits,
    choice,
    coded,
    composite,
    data,
    enum,
    group,
    header,
    message,
    number,
    schema,
    sized,
    typed,
    value,
)

# (schema, a part of the error)
REFUSED: dict[str, tuple[str, str]] = {
    "not a schema": ("<types/>", "messageSchema"),
    "another XML": ('<?xml version="2.0"?>' + schema(), "is not known"),
    "no package": (schema().replace('package="p"', ""), "has no package"),
    "empty package": (schema().replace('package="p"', 'package=""'), "has no package"),
    "no id": (schema().replace('id="1" ', "", 1), "has no id"),
    "id not a number": (schema().replace('id="1" ', 'id="x"', 1), "must be an integer"),
    "id too large": (schema().replace('id="1" ', 'id="2147483648"', 1), "must be an integer"),
    "version not a number": (schema(attributes='version="1.0"'), "must be an integer"),
    "version empty": (schema(attributes='version=""'), "must be an integer"),
    "no header": (schema().replace(HEADER, ""), '"messageHeader" is not in <types>'),
    "header type missing": (schema(attributes='headerType="Head"'), '"Head" is not in <types>'),
    "header not a composite": (schema(ENUM, attributes='headerType="E"'), "is not a composite"),
    "field with a prefix": (schema(members=FIELD.replace("<field", "<sbe:field")), "must be written <field>"),
    "member with a prefix": (schema(composite(number("x", "int8").replace("<type", "<sbe:type"))), "written <type>"),
    "type with a prefix in a ref": (
        schema(number("T", "int8").replace("<type", "<sbe:type") + composite('<ref name="x" type="T"/>')),
        "must be written <type>",
    ),
    "header without blockLength": (header(*HEAD[1:]), "blockLength"),
    "header without templateId": (header(HEAD[0], *HEAD[2:]), "templateId"),
    "header without schemaId": (header(*HEAD[:2], HEAD[3]), "schemaId"),
    "header without version": (header(*HEAD[:3]), "version"),
    "header with signed blockLength": (header(number("blockLength", "int16"), *HEAD[1:]), "unsigned"),
    "header with an enum": (header(*HEAD[:3], ENUM.replace('"E"', '"version"')), "must be one integer"),
    # types
    "type without name": (schema('<type primitiveType="int8"/>'), "has no name"),
    "type without primitiveType": (typed(""), "has no primitiveType"),
    "unknown primitive": (typed('primitiveType="int128"'), "must be one of char, int8"),
    "bad presence": (typed('primitiveType="int8" presence="maybe"'), "must be required, optional or constant"),
    "empty presence": (typed('primitiveType="int8" presence=""'), "must be required, optional or constant"),
    "length not a number": (typed('primitiveType="int8" length="two"'), "must be an integer"),
    "constant without value": (typed('primitiveType="int8" presence="constant"'), "has no value"),
    "constant with a comment first": (typed('primitiveType="int8" presence="constant"', "<!-- x -->5"), "has no value"),
    "constant in white space": (typed('primitiveType="int8" presence="constant"', " 5 "), "must be an integer"),
    "constant out of range": (typed('primitiveType="int8" presence="constant"', "128"), "from -128 to 127"),
    "constant not a number": (typed('primitiveType="double" presence="constant"', "pi"), "must be a number"),
    "constant too long": (typed('primitiveType="char" length="2" presence="constant"', "ABC"), "is longer than"),
    "constant uint64 too large": (
        typed('primitiveType="uint64" presence="constant"', str(2**64)),
        "must be an integer",
    ),
    "minValue out of range": (typed('primitiveType="int16" minValue="-32769"'), 'minValue "-32769"'),
    "maxValue not a number": (typed('primitiveType="int16" maxValue="x"'), 'maxValue "x"'),
    "nullValue out of range": (typed('primitiveType="int8" presence="optional" nullValue="128"'), "nullValue"),
    "nullValue of char too long": (typed('primitiveType="char" presence="optional" nullValue="AB"'), "one ASCII"),
    "nullValue empty": (typed('primitiveType="char" presence="optional" nullValue=""'), "one ASCII"),
    "valueRef not constant": (schema(ENUM + '<type name="T" primitiveType="uint8" valueRef="E.A"/>'), "for constants"),
    "valueRef without dot": (
        schema(ENUM + '<type name="T" primitiveType="uint8" presence="constant" valueRef="EA"/>'),
        "ENUM.VALUE",
    ),
    "valueRef of no enum": (
        schema('<type name="T" primitiveType="uint8" presence="constant" valueRef="E.A"/>'),
        'there is no enum "E"',
    ),
    "valueRef of no value": (
        schema(ENUM + '<type name="T" primitiveType="uint8" presence="constant" valueRef="E.C"/>'),
        'has no "C", only A, B',
    ),
    "valueRef of another primitive": (
        schema(ENUM + '<type name="T" primitiveType="int8" presence="constant" valueRef="E.A"/>'),
        "give both one type",
    ),
    "type newer than the schema": (typed('primitiveType="int8" sinceVersion="1"'), "newer than the schema"),
    "sinceVersion not a number": (typed('primitiveType="int8" sinceVersion="new"'), "must be an integer"),
    "deprecated not a number": (typed('primitiveType="int8" deprecated="yes"'), "must be an integer"),
    # enums and sets
    "enum without encodingType": (enum(""), "has no encodingType"),
    "enum of uint32": (enum('encodingType="uint32"', value("A", "1")), "or a <type>"),
    "enum of nothing known": (enum('encodingType="Code"'), "or a <type>"),
    "enum of an array": (
        schema(number("Code", "uint8", 'length="2"') + '<enum name="F" encodingType="Code"/>'),
        "one value",
    ),
    "enum of a float": (
        schema(number("Code", "float") + coded(value("A", "1"))),
        "needs an integer",
    ),
    "value without name": (enum('encodingType="uint8"', "<validValue>1</validValue>"), "has no name"),
    "value without value": (enum('encodingType="uint8"', value("A", "")), "has no value"),
    "value not a number": (enum('encodingType="uint8"', value("A", "one")), "must be an integer"),
    "value in white space": (enum('encodingType="uint8"', value("A", "\n1\n")), "must be an integer"),
    "value of two characters": (enum('encodingType="char"', value("A", "AB")), "one ASCII character"),
    "value is null": (enum('encodingType="uint8"', value("A", "255")), "null value 255"),
    "value is the given null": (enum('encodingType="uint8" nullValue="7"', value("A", "7")), "null value 7"),
    "value out of the type's range": (
        schema(number("Code", "uint8", 'maxValue="5"') + coded(value("A", "6"))),
        "not from 0 to 5",
    ),
    "value out of range": (enum('encodingType="int8"', value("A", "128")), "from -128 to 127"),
    "enum of uint64 without maxValue": (
        schema(number("Code", "uint64") + coded(value("A", "1"))),
        "give its encodingType a maxValue",
    ),
    "value newer than the schema": (enum('encodingType="uint8"', value("A", "1", 'sinceVersion="1"')), "newer"),
    "set without encodingType": (schema('<set name="S"/>'), "has no encodingType"),
    "set of nothing known": (schema('<set name="S" encodingType="int8"/>'), "or a <type>"),
    "set of an array": (
        schema(number("Code", "uint8", 'length="2"') + '<set name="S" encodingType="Code"/>'),
        "one value",
    ),
    "choice too large": (bits(choice("a", "8")), "only the bits 0 to 7"),
    "choice not a number": (bits(choice("a", "x")), "must be an integer"),
    "choice without value": (bits(choice("a", "")), "has no value"),
    "choice newer than the schema": (
        bits(choice("a", "1", 'sinceVersion="2"')),
        "newer",
    ),
    # composites
    "member without name": (schema(composite('<type primitiveType="int8"/>')), "has no name"),
    "members of one name": (schema(composite(number("x", "int8"), number("x", "int8"))), 'another member named "x"'),
    "ref to nothing": (schema(composite('<ref name="x" type="Nope"/>')), '"Nope" is not in <types>'),
    "ref to a primitive": (schema(composite('<ref name="x" type="int8"/>')), 'primitiveType="int8"/>'),
    "ref without type": (schema(composite('<ref name="x"/>')), "has no type"),
    "ref without name": (schema(POINT + composite('<ref type="P"/>')), "has no name"),
    "ref to itself": (schema(composite('<ref name="x" type="C"/>')), "a circle of refs"),
    "refs in a circle": (
        schema(composite('<ref name="x" type="D"/>') + composite('<ref name="x" type="C"/>', name="D")),
        "a circle of refs",
    ),
    "refs in a circle through an inline composite": (
        schema(composite(composite('<ref name="x" type="C"/>', name="inner"))),
        "a circle of refs",
    ),
    "group in a composite": (schema(composite(group())), "cannot be in a composite"),
    "data in a composite": (schema(composite(DATA)), "cannot be in a composite"),
    "offset in the member before": (
        schema(composite(number("x", "int32"), number("y", "int8", 'offset="3"'))),
        "which ends at 4",
    ),
    "offset of a ref in the member before": (
        schema(POINT + composite(number("x", "int32"), '<ref name="y" type="P" offset="2"/>')),
        "which ends at 4",
    ),
    "offset of a ref not a number": (schema(POINT + composite('<ref name="y" type="P" offset="x"/>')), "integer"),
    "ref newer than the schema": (schema(POINT + composite('<ref name="y" type="P" sinceVersion="1"/>')), "newer"),
    "member newer than the schema": (schema(composite(number("x", "int8", 'sinceVersion="1"'))), "newer"),
    # messages
    "messages of one id": (schema(messages=message("M", 1) + message("N", 1)), 'another message with id="1"'),
    "messages of one name": (schema(messages=message("M", 1) + message("M", 2)), 'another message named "M"'),
    "message without id": (schema(messages=message("M", 1).replace('id="1"', "", 1)), "has no id"),
    "message without name": (schema(messages=message("M", 1).replace('name="M"', "")), "has no name"),
    "message newer than the schema": (schema(messages=message("M", 1, FIELD, 'sinceVersion="1"')), "newer"),
    "blockLength too small": (schema(messages=message("M", 1, FIELD, 'blockLength="3"')), "need 4 bytes"),
    "blockLength not a number": (schema(messages=message("M", 1, FIELD, 'blockLength="big"')), "must be an integer"),
    "field without type": (schema(members='<field name="a" id="1"/>'), "has no type"),
    "field without id": (schema(members='<field name="a" type="int8"/>'), "has no id"),
    "field without name": (schema(members='<field id="1" type="int8"/>'), "has no name"),
    "field of no type": (schema(members='<field name="a" id="1" type="Nope"/>'), '"Nope" is not in <types>'),
    "fields of one name": (schema(members=FIELD + FIELD.replace('id="1"', 'id="2"')), 'another "a"'),
    "fields of one id": (schema(members=FIELD + FIELD.replace('"a"', '"b"')), 'another id="1"'),
    "group with the id of a field": (schema(members=FIELD + group(attributes='name="g" id="1"')), 'another id="1"'),
    "offset in the field before": (
        schema(members=FIELD + '<field name="b" id="2" type="int8" offset="3"/>'),
        "which ends at 4",
    ),
    "negative offset": (schema(members='<field name="b" id="2" type="int8" offset="-4"/>'), "must be an integer"),
    "bad presence of a field": (schema(members='<field name="b" id="2" type="int8" presence="no"/>'), "presence"),
    "constant field without value": (
        schema(members='<field name="b" id="2" type="int8" presence="constant"/>'),
        "has no value",
    ),
    "constant enum without valueRef": (
        schema(ENUM, '<field name="b" id="2" type="E" presence="constant"/>'),
        'valueRef="E.VALUE"',
    ),
    "valueRef of another enum": (
        schema(
            ENUM + ENUM.replace('"E"', '"F"'), '<field name="b" id="2" type="E" presence="constant" valueRef="F.A"/>'
        ),
        "own type",
    ),
    "valueRef of a field to no value": (
        schema(ENUM, '<field name="b" id="2" type="E" presence="constant" valueRef="E.Z"/>'),
        'has no "Z"',
    ),
    "valueRef of a field to no enum": (
        schema(ENUM, '<field name="b" id="2" type="uint8" presence="constant" valueRef="G.A"/>'),
        'no enum "G"',
    ),
    "valueRef of a field without dot": (
        schema(ENUM, '<field name="b" id="2" type="E" presence="constant" valueRef="A"/>'),
        "ENUM.VALUE",
    ),
    "valueRef of a field of another primitive": (
        schema(ENUM, '<field name="b" id="2" type="int8" presence="constant" valueRef="E.A"/>'),
        "give both one type",
    ),
    "valueRef of a required field to no value": (
        schema(ENUM, '<field name="b" id="2" type="E" valueRef="E.Z"/>'),
        'has no "Z"',
    ),
    "semanticType differs": (
        schema(number("T", "int8", 'semanticType="Qty"'), '<field name="b" id="2" type="T" semanticType="Price"/>'),
        "differs from",
    ),
    "field newer than the schema": (schema(members=FIELD.replace("/>", ' sinceVersion="1"/>')), "newer"),
    "field after group": (schema(members=group() + FIELD), "must come before all groups"),
    "field after data": (schema(members=DATA + FIELD), "must come before all groups"),
    "group after data": (schema(members=DATA + group()), "groups must come before all data"),
    "field after group in a group": (schema(members=group(group() + FIELD)), "must come before all groups"),
    "group of no dimension type": (
        schema(members=group(attributes='name="g" id="9" dimensionType="X"')),
        "not in <types>",
    ),
    "group of a dimension not composite": (
        schema(ENUM, group(attributes='name="g" id="9" dimensionType="E"')),
        "must be a composite",
    ),
    "group of a dimension without numbers": (
        schema(POINT, group(attributes='name="g" id="9" dimensionType="P"')),
        'must have a <type name="blockLength">',
    ),
    "group without id": (schema(members=group(attributes='name="g"')), "has no id"),
    "group without name": (schema(members=group(attributes='id="9"')), "has no name"),
    "group's blockLength too small": (schema(members=group(attributes='name="g" id="9" blockLength="3"')), "need 4"),
    "group newer than the schema": (schema(members=group(attributes='name="g" id="9" sinceVersion="1"')), "newer"),
    "field in a group newer than the schema": (
        schema(members=group(FIELD.replace("/>", ' sinceVersion="1"/>'))),
        "newer",
    ),
    "dimension with signed blockLength": (sized("int16"), "must be an unsigned integer"),
    "dimension with signed numInGroup": (sized("uint16", "int16"), 'minValue="0"'),
    "dimension with negative minValue": (sized("uint16", "int16", 'minValue="-1"'), 'minValue="0"'),
    "dimension with uint32 and no maxValue": (sized("uint16", "uint32"), 'maxValue="2147483647"'),
    "dimension with uint32 and a large maxValue": (sized("uint16", "uint32", 'maxValue="2147483648"'), "2147483647"),
    "dimension with uint32 blockLength": (sized("uint32", "uint16"), 'maxValue="2147483647"'),
    "dimension with a maxValue too large": (sized("uint16", "uint8", 'maxValue="255"'), 'maxValue="254"'),
    "dimension with minValue above maxValue": (sized("uint16", "uint8", 'minValue="9" maxValue="8"'), "larger than"),
    "data without type": (schema(members='<data name="d" id="1"/>'), "has no type"),
    "data of no type": (schema(members='<data name="d" id="1" type="X"/>'), "not in <types>"),
    "data not a composite": (schema(members='<data name="d" id="1" type="uint8"/>'), "must be a composite"),
    "data without length": (schema(POINT, '<data name="d" id="1" type="P"/>'), '<type name="length">'),
    "data without varData": (
        schema(composite(number("length", "uint8")), '<data name="d" id="1" type="C"/>'),
        '<type name="varData">',
    ),
    "data of signed length": (data("int16"), "must be an unsigned integer"),
    "data of uint32 and no maxValue": (data("uint32"), 'maxValue="2147483647"'),
    "data of a maxValue too large": (data("uint8", 'maxValue="255"'), 'maxValue="254"'),
    "optional data": (data("uint8", "", 'presence="optional"'), "cannot be optional"),
    "data newer than the schema": (data("uint8", "", 'sinceVersion="1"'), "newer"),
    "data at an offset inside": (
        schema(members=FIELD + '<data name="d" id="8" type="text" offset="3"/>'),
        "which ends at 4",
    ),
}

# (schema, a part of the warning)
WARNED: dict[str, tuple[str, str]] = {
    "no messages": (schema(messages=""), "has no messages"),
    "types of one name": (schema(number("T", "int8") + number("T", "int16")), 'another type named "T"'),
    "type with a primitive's name": (schema(number("int8", "int8")), 'another type named "int8"'),
    "nullValue without optional": (typed('primitiveType="int8" nullValue="0"'), "only where a field is optional"),
    "values of one name": (enum('encodingType="uint8"', value("A", "1"), value("A", "2")), "name of one before it"),
    "values that are the same": (enum('encodingType="uint8"', value("A", "1"), value("B", "1")), 'the value of "A"'),
    "choices of one name": (
        bits(choice("a", "1"), choice("a", "2")),
        "name of one before it",
    ),
    "choices that are the same": (
        bits(choice("a", "1"), choice("b", "1")),
        'the value of "a"',
    ),
    "header of other sizes": (header(number("blockLength", "uint32"), *HEAD[1:]), "should be uint16, not uint32"),
    "numInGroup of 32 bits": (sized("uint16", "uint32", 'maxValue="9"'), '"numInGroup" of composite "D" should be'),
    "numInGroup signed": (sized("uint16", "int16", 'minValue="0"'), '"numInGroup" of composite "D" should be'),
    "blockLength of 64 bits": (sized("uint64"), '"blockLength" of composite "D" should be'),
    "data of 64 bits": (data("uint64"), '"length" of composite "V" should be'),
    "a field named as a keyword": (schema(members=FIELD.replace('"a"', '"class"')), "a keyword in C++ and Java"),
    "a message named as a keyword": (schema(messages=message("final", 1)), "a keyword in Java"),
    "a value named as a keyword": (enum('encodingType="uint8"', value("union", "1")), "a keyword in C++:"),
}

TAKEN: dict[str, str] = {
    "prices": PRICES.read_text(),
    "no prefix": schema().replace("sbe:", "").replace(":sbe", ""),
    "no namespace": schema().replace("sbe:", "").replace('xmlns:sbe="http://fixprotocol.io/2016/sbe"', ""),
    "another prefix": schema().replace("sbe:", "ns2:").replace(":sbe", ":ns2"),
    "another namespace": schema().replace("http://fixprotocol.io/2016/sbe", "http://www.fixprotocol.org/ns/simple/1.0"),
    "several types": schema("</types><types>" + ENUM + "</types><types>" + POINT),
    "types after the messages": schema(members='<field name="b" id="2" type="P"/>').replace(
        "</sbe:messageSchema>", f"<types>{POINT}</types></sbe:messageSchema>"
    ),
    "refs and encodings before what they mean": schema(
        composite('<ref name="x" type="P"/>', '<ref name="e" type="F"/>')
        + coded(value("A", "70000"))
        + '<type name="K" primitiveType="uint32" presence="constant" valueRef="F.A"/>'
        + number("Code", "uint32")
        + POINT
    ),
    "message without members": schema(members=""),
    "group without members": schema(members=group("")),
    "a header with more in it": header(*HEAD, number("sequence", "uint32")),
    "a header with a constant": header(
        *HEAD[:3], '<type name="version" primitiveType="uint16" presence="constant">0</type>'
    ),
    "numbers with signs": schema(number("T", "int8", 'minValue="+1" length="+2" maxValue="007"')),
    "floats": schema(
        number("T", "double", 'presence="optional" nullValue="-1e-3" minValue="-Infinity" maxValue=" 1.5d "')
    ),
    "a float too large": schema(number("T", "float", 'maxValue="1e99"')),
    "uint64 limits": schema(
        number("T", "uint64", f'presence="optional" nullValue="{2**64 - 1}" maxValue="{2**64 - 3}"')
    ),
    "constants": schema(
        '<type name="T1" primitiveType="char" presence="constant">X</type>'
        '<type name="T2" primitiveType="char" presence="constant">EUR</type>'
        '<type name="T3" primitiveType="char" length="5" presence="constant">EUR</type>'
        '<type name="T4" primitiveType="char" length="5" presence="constant" characterEncoding="UTF-8">é</type>'
        '<type name="T5" primitiveType="double" presence="constant">0.25</type>'
        '<type name="T6" primitiveType="uint64" presence="constant">18446744073709551615</type>'
        '<type name="T7" primitiveType="char" presence="constant" length="3"> &amp; </type>'
        '<type name="T8" primitiveType="int8" presence="constant"><![CDATA[-5]]></type>'
        '<type name="T9" primitiveType="int8" presence="constant">5<!-- five --></type>',
        "".join(f'<field name="f{i}" id="{i}" type="T{i}"/>' for i in range(1, 10)),
    ),
    "a constant between fields": schema(
        ENUM,
        FIELD
        + '<field name="k" id="2" type="E" presence="constant" valueRef="E.B"/><field name="b" id="3" type="int8"/>',
    ),
    "a constant at an offset, last": schema(
        ENUM, FIELD + '<field name="k" id="2" type="E" offset="20" presence="constant" valueRef="E.B"/>'
    ),
    "a constant of a primitive from an enum": schema(
        ENUM, '<field name="k" id="2" type="uint8" presence="constant" valueRef="E.B"/>' + FIELD
    ),
    "offsets": schema(
        composite(number("x", "int8", 'offset="3"'), number("y", "int8"), '<ref name="p" type="P" offset="8"/>')
        + POINT,
        FIELD
        + '<field name="b" id="2" type="C" offset="10"/>'
        + group('<field name="c" id="1" type="int8" offset="7"/>'),
    ),
    "block lengths": schema(
        messages=message("M", 1, FIELD + group(attributes='name="g" id="9" blockLength="32"'), 'blockLength="64"')
    ),
    "offsets of data": schema(
        messages=message("M", 1, FIELD + '<data name="d" id="8" type="text" offset="64"/>', 'blockLength="64"')
        + message("N", 2, group(FIELD + '<data name="d" id="8" type="text" offset="12"/>'))
    ),
    "all encodings of enums": schema(
        "".join(
            f'<enum name="F{one}" encodingType="{one}" presence="optional">{value("A", "7")}</enum>'
            for one in ("char", "uint8", "int8", "uint16", "int16", "int32")
        )
        + "".join(
            f'{number(f"T{one}", one, more)}<enum name="G{one}" encodingType="T{one}">{value("A", "7")}</enum>'
            for one, more in (
                ("uint32", ""),
                ("int64", ""),
                ("uint64", 'maxValue="9" presence="optional" nullValue="0"'),
            )
        )
    ),
    "all encodings of sets": schema(
        number("Bits", "uint32")
        + "".join(
            f'<set name="S{one}" encodingType="{one}">{choice("a", str(last))}</set>'
            for one, last in (("uint8", 7), ("uint16", 15), ("uint32", 31), ("uint64", 63), ("Bits", 31))
        )
    ),
    "an empty enum and an empty set": schema(
        '<enum name="F" encodingType="uint8"/><set name="S" encodingType="uint8"/>'
    ),
    "inline types": schema(
        composite(
            number("t", "int16", 'length="3"'),
            ENUM.replace('"E"', '"e"'),
            '<set name="s" encodingType="uint16">' + choice("c", "9") + "</set>",
            composite(number("deep", "double"), '<ref name="p" type="P"/>', name="inner"),
        )
        + POINT,
        '<field name="c" id="2" type="C"/>',
    ),
    "since and deprecated": schema(
        number("T", "int8", 'sinceVersion="2"'),
        '<field name="b" id="2" type="T" sinceVersion="1" deprecated="3"/>'
        + group(attributes='name="g" id="9" sinceVersion="3"'),
        attributes='version="3"',
    ),
    "a field of a type that could be data": schema(members='<field name="b" id="2" type="text"/>'),
    "prefixed types": schema(number("T", "int8").replace("<type", "<sbe:type")).replace("types>", "sbe:types>"),
    "negative ids of fields": schema(members='<field name="b" id="-2" type="int8"/>'),
    "minValue above maxValue": schema(number("T", "int8", 'minValue="5" maxValue="4"')),
}

# (schema, a part of the error)
OURS_ALONE: dict[str, tuple[str, str]] = {
    "a name with a space": (schema(members=FIELD.replace('"a"', '"a b"')), "is not a name in Python"),
    "a name that begins with a digit": (schema(members=FIELD.replace('"a"', '"1a"')), "is not a name in Python"),
    "a name that begins with two underscores": (schema(members=FIELD.replace('"a"', '"__a"')), "single _"),
    "an id that does not fit": (schema(messages=message("M", 65536)), 'does not fit into "templateId"'),
    "a schema id that does not fit": (schema().replace('id="1" ', 'id="65536"', 1), 'does not fit into "schemaId"'),
    "a block that does not fit": (schema(messages=message("M", 1, FIELD, 'blockLength="65536"')), '"blockLength"'),
    "a group's block that does not fit": (
        schema(
            composite(number("blockLength", "uint8"), number("numInGroup", "uint8"), name="D"),
            group(attributes='name="g" id="9" dimensionType="D" blockLength="256"'),
        ),
        "a uint8",
    ),
    "a nullValue that does not fit": (typed('primitiveType="uint8" presence="optional" nullValue="256"'), "to 255"),
    "a negative length": (typed('primitiveType="uint8" length="-1"'), "from 0"),
    "a set of a signed type": (
        schema(number("B", "int8") + '<set name="S" encodingType="B"/>'),
        "unsigned integer type",
    ),
    "a field of variable length": (
        schema(number("T", "char", 'variableLength="true"'), '<field name="b" id="1" type="T"/>'),
        "use <data>",
    ),
    "a field of a type used for data beside it": (
        schema(members='<field name="b" id="1" type="text"/>' + DATA),
        "use <data>",
    ),
    "a field of a type used for data": (
        schema(messages=message("M", 1, '<field name="b" id="1" type="text"/>') + message("N", 2, DATA)),
        "use <data>",
    ),
    "a constant composite": (schema('<composite name="C" presence="constant"/>'), "cannot be constant"),
    "a constant set": (
        schema('<set name="S" encodingType="uint8"/>', '<field name="b" id="1" type="S" presence="constant"/>'),
        "only a <type> or an <enum>",
    ),
    "a document type that defines something": ("<!DOCTYPE x [<!ELEMENT a ANY>]>" + schema(), "Remove it"),
    "an unknown character encoding": (
        typed('primitiveType="char" length="3" characterEncoding="klingon"'),
        "not known",
    ),
    "a codec that is no character encoding": (
        typed('primitiveType="char" length="3" characterEncoding="hex"'),
        "not known",
    ),
}
