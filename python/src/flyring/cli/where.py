# SPDX-License-Identifier: Apache-2.0
"""``--where FIELD=VALUE``: selects the messages that ``flyring tail`` shows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from ..errors import InvalidArgumentError
from ..sbe import model

_CLAUSE = re.compile(r"\s*([^\s=!<>]+?)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Where:
    """One clause, for all messages of a schema. A message that has no such field does not match."""

    def __init__(self, clause: str, schema: model.SchemaModel) -> None:
        """Raises InvalidArgumentError if the text is not a clause, or if no message can match it."""
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise InvalidArgumentError("where", f"{clause!r} must be FIELD=VALUE (or != < <= > >=)")
        path, self.operator, text = match.groups()
        self.path: list[str] = path.split(".")
        self.values: dict[str, Any] = {}
        reasons = []
        for message in schema.messages:
            try:
                self.values[message.name] = value_of(find_field(message, self.path), self.operator, text)
            except ValueError as error:
                reasons.append(f"{message.name}: {error}")
        if not self.values:
            raise InvalidArgumentError("where", f"{clause!r} fits no message: {'; '.join(reasons)}")

    def matches(self, name: str, body: dict[str, Any]) -> bool:
        """Returns whether a message matches; ``body`` is as ``to_dict`` makes it."""
        if name not in self.values:
            return False
        expected = self.values[name]
        actual: Any = body
        for part in self.path:
            actual = actual[part] if actual is not None else None
        if isinstance(expected, float) and isinstance(actual, str):
            actual = float(actual)  # to_dict gives NaN and infinities as text
        if actual is None or expected is None:
            return _OPERATORS[self.operator](actual, expected) if self.operator in ("=", "!=") else False
        return _OPERATORS[self.operator](actual, expected)


Found = model.Encoded | model.Enum | model.Set | model.Data | bool


def find_field(message: model.Message, path: list[str]) -> Found:
    """Returns the type of a field; True for a choice of a set. Raises ValueError."""
    every: tuple[Any, ...] = (*message.fields, *message.groups, *message.data)
    parts: dict[str, Any] = {one.name: one for one in every}
    found: Any = None
    for i, name in enumerate(path):
        if name not in parts:
            raise ValueError(f"there is no {'.'.join(path[: i + 1])}")
        part = parts[name]
        if isinstance(part, model.Group):
            raise ValueError(f"{name} is a group, which has many values")
        found = part if isinstance(part, model.Data) else True if isinstance(part, model.ValidValue) else part.type
        parts = {}
        if isinstance(found, model.Composite):
            parts = {one.name: one for one in found.fields}
        elif isinstance(found, model.Set):
            parts = {one.name: one for one in found.choices}
    if isinstance(found, model.Composite | model.Set):
        kind = "composite" if isinstance(found, model.Composite) else "set"
        raise ValueError(f"{path[-1]} is a {kind}: name {' or '.join(f'{path[-1]}.{one}' for one in parts)}")
    result: Found = found
    return result


def value_of(found: Found, compared_by: str, text: str) -> Any:
    """Returns the value of the text for a field of this type. Raises ValueError."""
    ordered = compared_by not in ("=", "!=")
    if text == "null":
        if ordered:
            raise ValueError("null can be compared with = and != only")
        return None
    if found is True:
        if text not in ("true", "false") or ordered:
            raise ValueError(f"a choice of a set is = or != true or false, not {text!r}")
        return text == "true"
    if isinstance(found, model.Enum):
        names = [one.name for one in found.values]
        if text not in names or ordered:
            raise ValueError(f"an enum is = or != one of {', '.join(names)}, not {text!r}")
        return text
    if isinstance(found, model.Encoded) and found.primitive is not model.Primitive.CHAR:
        if found.is_array:
            raise ValueError("an array has many values")
        try:
            return float(text) if found.primitive.is_float else int(text, 0)
        except ValueError:
            raise ValueError(f"{text!r} is not a number, as {found.primitive.text} needs") from None
    return text
