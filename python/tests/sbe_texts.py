# SPDX-License-Identifier: Apache-2.0
"""Builds the texts of small schemas from parts."""

from __future__ import annotations

from pathlib import Path

PRICES = Path(__file__).parents[2] / "spec" / "sbe" / "prices.xml"
HEADER = """<composite name="messageHeader">
<type name="blockLength" primitiveType="uint16"/><type name="templateId" primitiveType="uint16"/>
<type name="schemaId" primitiveType="uint16"/><type name="version" primitiveType="uint16"/></composite>
"""
SIZES = """<composite name="groupSizeEncoding"><type name="blockLength" primitiveType="uint16"/>
<type name="numInGroup" primitiveType="uint16"/></composite>
<composite name="text"><type name="length" primitiveType="uint16"/>
<type name="varData" primitiveType="uint8" length="0" characterEncoding="UTF-8"/></composite>
"""
ENUM = (
    '<enum name="E" encodingType="uint8"><validValue name="A">1</validValue><validValue name="B">2</validValue></enum>'
)
POINT = '<composite name="P"><type name="x" primitiveType="int32"/><type name="y" primitiveType="int32"/></composite>'
FIELD = '<field name="a" id="1" type="uint32"/>'


def schema(types: str = "", members: str = FIELD, *, messages: str | None = None, attributes: str = "") -> str:
    if messages is None:
        messages = f'<sbe:message name="M" id="1">{members}</sbe:message>'
    return (
        f'<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="p" id="1" {attributes}>\n'
        f"<types>{HEADER}{SIZES}{types}</types>\n{messages}\n</sbe:messageSchema>"
    )


def header(*types: str) -> str:
    """Returns a schema whose message header has only these members."""
    return schema().replace(HEADER, f'<composite name="messageHeader">{"".join(types)}</composite>')


def typed(attributes: str, value: str = "") -> str:
    return schema(f'<type name="T" {attributes}>{value}</type>')


def enum(attributes: str, *values: str) -> str:
    return schema(f'<enum name="F" {attributes}>{"".join(values)}</enum>')


def value(name: str, text: str, attributes: str = "") -> str:
    return f'<validValue name="{name}" {attributes}>{text}</validValue>'


def coded(*values: str) -> str:
    return f'<enum name="F" encodingType="Code">{"".join(values)}</enum>'


def bits(*choices: str) -> str:
    return schema(f'<set name="S" encodingType="uint8">{"".join(choices)}</set>')


def choice(name: str, text: str, attributes: str = "") -> str:
    return f'<choice name="{name}" {attributes}>{text}</choice>'


def composite(*members: str, name: str = "C") -> str:
    return f'<composite name="{name}">{"".join(members)}</composite>'


def group(members: str = FIELD, attributes: str = 'name="g" id="9"') -> str:
    return f"<group {attributes}>{members}</group>"


def message(name: str, template_id: int, members: str = FIELD, attributes: str = "") -> str:
    return f'<sbe:message name="{name}" id="{template_id}" {attributes}>{members}</sbe:message>'


def number(name: str, primitive: str, attributes: str = "") -> str:
    return f'<type name="{name}" primitiveType="{primitive}" {attributes}/>'


def sized(block_length: str = "uint16", number_in_group: str = "uint16", more: str = "") -> str:
    """Returns a schema with a group whose dimension has these types."""
    types = composite(number("blockLength", block_length), number("numInGroup", number_in_group, more), name="D")
    return schema(types, group(attributes='name="g" id="9" dimensionType="D"'))


def data(length: str, more: str = "", attributes: str = "") -> str:
    types = composite(number("length", length, more), number("varData", "uint8", 'length="0"'), name="V")
    return schema(types, f'<data name="d" id="1" type="V" {attributes}/>')


DATA = '<data name="d" id="8" type="text"/>'
HEAD = [number(name, "uint16") for name in ("blockLength", "templateId", "schemaId", "version")]
