# SPDX-License-Identifier: Apache-2.0
"""Writes Python source as ruff formats it: literals, calls, docstrings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH = 120


class Code(str):
    """Text that is source already. Any other value is written as a literal."""


def literal(value: object) -> str:
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, str):
        return f'"{_escaped(value)}"'
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def _escaped(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(map(_printable, quoted))


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def call(
    start: str, function: str, positional: Sequence[object], named: Mapping[str, object], indent: int
) -> list[str]:
    """Returns ``start`` and a call, on as few lines as possible."""
    arguments = [literal(one) for one in positional] + [f"{key}={literal(value)}" for key, value in named.items()]
    margin = " " * indent
    whole = f"{margin}{start}{function}({', '.join(arguments)})"
    if len(whole) <= WIDTH:
        return [whole]
    if len(f"{margin}{start}{function}(") > WIDTH:
        return [f"{margin}{start}(", *call("", function, positional, named, indent + 4), f"{margin})"]
    inside = f"{margin}    {', '.join(arguments)}"
    if len(inside) <= WIDTH:
        return [f"{margin}{start}{function}(", inside, f"{margin})"]
    return [f"{margin}{start}{function}(", *(f"{margin}    {one}," for one in arguments), f"{margin})"]


def docstring(text: str, indent: int) -> list[str]:
    """Returns the lines of a docstring; none if there is no text."""
    text = text.strip()
    if not text:
        return []
    margin = " " * indent
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines = ["".join(map(_printable, line)).strip() for line in escaped.splitlines()]
    if lines[0].startswith('"'):
        lines[0] = f" {lines[0]}"
    if len(lines) > 1:
        return [f'{margin}"""{lines[0]}', *(f"{margin}{line}".rstrip() for line in lines[1:]), f'{margin}"""']
    return [f'{margin}"""{lines[0]}{" " if lines[0].endswith(chr(34)) else ""}"""']


def number(value: float, float_name: str = "float") -> Code:
    if isinstance(value, float) and not math.isfinite(value):
        return Code(f'{float_name}("{value}")')
    return Code(repr(value))


def long_text(text: str) -> str:
    """Returns a text of many lines as one string literal."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    body = "".join(one if one == "\n" else _printable(one) for one in escaped)
    if body.endswith('"'):
        body = body[:-1] + '\\"'
    return f'"""\\\n{body}"""'
