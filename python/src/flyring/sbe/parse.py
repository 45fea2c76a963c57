# SPDX-License-Identifier: Apache-2.0
"""Parses the XML of an SBE schema into its model.

A schema that sbe-tool refuses raises ``SchemaError``, with every problem found. Warnings of sbe-tool become
``SchemaWarning``. Some schemas are refused for which sbe-tool makes codecs that cannot work: those with names that are
invalid in a language, numbers that do not fit, or variable-length types outside of ``<data>``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from . import document
from .attributes import give_warnings, integer, required, warn
from .document import Element
from .errors import SchemaError
from .model import Composite, Primitive, SchemaModel
from .parse_messages import Messages, fits, number_in, types_of_data
from .parse_types import KINDS, Types

__all__ = ["load", "parse"]

_One = TypeVar("_One")


def load(path: str | os.PathLike[str]) -> SchemaModel:
    """Reads the schema in a file."""
    return _schema(*document.load(path))


def parse(text: str, base: str | os.PathLike[str] | None = None) -> SchemaModel:
    """Reads the schema in a text. ``base``: the folder that an XInclude in it is relative to."""
    return _schema(*document.parse(text, base))


def _schema(root: Element, text: str) -> SchemaModel:
    try:
        return _model(root, text)
    finally:
        give_warnings(root)


def _model(root: Element, text: str) -> SchemaModel:
    if root.local_name != "messageSchema":
        raise root.error("is not a schema: its outermost element must be <messageSchema>")
    for child in root.children:
        if child.local_name not in ("types", "message"):
            warn(child, "is skipped: a schema has <types> and <message>")
    package = required(root, "package")
    schema_id = integer(root, "id")
    version = integer(root, "version", 0)
    byte_order = root.get("byteOrder") or "littleEndian"
    if byte_order not in ("littleEndian", "bigEndian"):
        warn(root, f'byteOrder="{byte_order}" is taken for littleEndian: write that, or bigEndian')

    types = Types(root, version)
    _each([one for one in types.elements if one.local_name in KINDS], types.resolve)
    header = _header(root, types)
    fits(root, "id", schema_id, header, "schemaId")
    fits(root, "version", version, header, "version")
    elements = [child for child in root.children if child.local_name == "message"]
    used_as_data = set[str]().union(*map(types_of_data, elements))
    messages = _each(elements, Messages(types, version, header, used_as_data).message)
    if not messages:
        warn(root, "has no messages")
    return SchemaModel(
        package,
        schema_id,
        version,
        ">" if byte_order == "bigEndian" else "<",
        header,
        tuple(messages),
        {name: types.resolve(element) for name, element in types.named.items()},
        text,
        root.get("description") or "",
        root.get("semanticVersion") or "",
    )


def _each(elements: Iterable[Element], make: Callable[[Element], _One]) -> list[_One]:
    """Calls ``make`` for each element, and returns the results. The problems of all elements are raised together."""
    made = []
    problems: dict[str, None] = {}
    for element in elements:
        try:
            made.append(make(element))
        except SchemaError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise SchemaError(list(problems))
    return made


def _header(root: Element, types: Types) -> Composite:
    name = root.get("headerType") or "messageHeader"
    header = types.find(name)
    if not isinstance(header, Composite):
        what = "is not in <types>" if header is None else "is not a composite"
        raise root.error(f'headerType="{name}" {what}: define a <composite name="{name}"> with the fields of a header')
    element = types.named[name]
    for field in ("blockLength", "templateId", "schemaId", "version"):
        encoded = number_in(element, header, field)
        if encoded.primitive is not Primitive.UINT16:
            warn(element, f'its "{field}" should be uint16, not {encoded.primitive.text}')
    if not number_in(element, header, "blockLength").primitive.is_unsigned:
        raise element.error('its "blockLength" must be an unsigned integer')
    return header
