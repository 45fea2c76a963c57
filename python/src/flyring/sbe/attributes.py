# SPDX-License-Identifier: Apache-2.0
"""Attributes and values of a schema's elements: names, numbers, versions."""

from __future__ import annotations

import re
import struct
import unicodedata
import warnings

from .document import Element
from .errors import SchemaWarning
from .model import PRIMITIVES, Presence, Primitive

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?")
_MOST_PLACES = 8
_CPP = (
    "alignas alignof and and_eq asm assert atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break "
    "case catch char char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast "
    "consteval constexpr constinit continue contract_assert decltype default delete do double dynamic_cast else enum "
    "explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq "
    "nullptr operator or or_eq private protected public reflexpr register reinterpret_cast requires return short "
    "signed sizeof static static_assert static_cast struct switch synchronized template this thread_local throw true "
    "try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq"
)
_JAVA = (
    "_ abstract assert boolean break byte case catch char class const continue default do double else enum extends "
    "false final finally float for goto if implements import instanceof int interface long native new null package "
    "private protected public return short static strictfp super switch synchronized this throw throws transient true "
    "try void volatile while"
)
_KEYWORDS = {"C++": frozenset(_CPP.split()), "Java": frozenset(_JAVA.split())}


def warn(element: Element, text: str) -> None:
    """Adds a warning, to be given when the schema has been read. Warnings with the same text are given once."""
    root = element
    while root.parent is not None:
        root = root.parent
    root.warned.setdefault(text, []).append(element)


def give_warnings(root: Element) -> None:
    for text, (element, *more) in root.warned.items():
        places = [f"{one.file}:{one.line}" for one in more[:_MOST_PLACES]]
        others = f" ({len(more)} more: {', '.join(places)}{' ...' if more[_MOST_PLACES:] else ''})"
        warnings.warn(f"{element.at()}: {text}{others if more else ''}", SchemaWarning, stacklevel=2)


def required(element: Element, attribute: str) -> str:
    value = element.get(attribute)
    if not value:
        raise element.error(f'has no {attribute}: add {attribute}="..."')
    return value


def without_prefix(element: Element) -> None:
    if ":" in element.name:
        raise element.error(f"must be written <{element.local_name}>: only <messageSchema> and <message> have a prefix")


def name_of(element: Element) -> str:
    """Returns the element's name, which must be a valid name in Python, C++ and Java."""
    name = required(element, "name")
    if not name.isidentifier() or name.startswith("__") or unicodedata.normalize("NFKC", name) != name:
        raise element.error(
            f'name="{name}" is not a name in Python, C++ and Java: it must have letters, digits and _ only, '
            "and begin with a letter or a single _"
        )
    return name


def warn_of_keywords(element: Element) -> None:
    languages = [language for language, words in _KEYWORDS.items() if element.get("name") in words]
    if languages:
        warn(
            element,
            f"its name is a keyword in {' and '.join(languages)}: sbe-tool needs sbe.keyword.append.token for it",
        )


def integer(element: Element, attribute: str, default: int | None = None, lowest: int = 0) -> int:
    text = element.get(attribute) if default is not None else required(element, attribute)
    if text is None:
        assert default is not None
        return default
    if not _INTEGER.fullmatch(text) or not lowest <= int(text) < 2**31:
        raise element.error(f'{attribute}="{text}" must be an integer from {lowest} to {2**31 - 1}')
    return int(text)


def since_version(element: Element, version: int) -> int:
    since = integer(element, "sinceVersion", 0)
    if since > version:
        raise element.error(f'sinceVersion="{since}" is newer than the schema, whose version is {version}: raise that')
    return since


def common(element: Element, version: int) -> tuple[str, int, int]:
    """Returns an element's name, sinceVersion and deprecated."""
    name = name_of(element)
    warn_of_keywords(element)
    return name, since_version(element, version), integer(element, "deprecated", 0)


def primitive_of(element: Element) -> Primitive:
    text = required(element, "primitiveType")
    if text not in PRIMITIVES:
        raise element.error(f'primitiveType="{text}" must be one of {", ".join(PRIMITIVES)}')
    return PRIMITIVES[text]


def presence_of(element: Element, default: Presence) -> Presence:
    text = element.get("presence")
    if text is None:
        return default
    try:
        return Presence(text)
    except ValueError:
        raise element.error(f'presence="{text}" must be required, optional or constant') from None


def number(element: Element, what: str, text: str, primitive: Primitive) -> int | float:
    """Parses a value of a primitive. Returns it as it is on the wire."""
    if primitive is Primitive.CHAR:
        if len(text) != 1 or not text.isascii():
            raise element.error(f'{what} "{text}" must be one ASCII character, as its type is char')
        return ord(text)
    if primitive.is_float:
        if not _FLOAT.fullmatch(text.strip()):
            raise element.error(f'{what} "{text}" must be a number, as its type is {primitive.text}')
        return _rounded(float(text.strip().rstrip("fFdD")), primitive)
    if not _INTEGER.fullmatch(text) or not primitive.lowest <= int(text) <= primitive.highest:
        raise element.error(
            f'{what} "{text}" must be an integer from {primitive.lowest} to {primitive.highest}, '
            f"as its type is {primitive.text}"
        )
    return int(text)


def limit(element: Element, attribute: str, primitive: Primitive) -> int | float | None:
    text = element.get(attribute)
    return None if text is None else number(element, attribute, text, primitive)


def _rounded(value: float, primitive: Primitive) -> float:
    if primitive is Primitive.DOUBLE:
        return value
    try:
        result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return result


def signed(value: float, primitive: Primitive) -> int:
    """Returns the number as sbe-tool compares it: sbe-tool has no unsigned 64-bit numbers."""
    value = int(value)
    return value - 2**64 if primitive is Primitive.UINT64 and value >= 2**63 else value
