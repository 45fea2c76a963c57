# SPDX-License-Identifier: Apache-2.0
"""``flyring tail --table``: messages as aligned columns, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..sbe import model
from .report import printable

_WHERE = ("ring", "sender", "position")
_LONGEST = 60


class Table:
    """Prints rows in batches, so that it knows how wide the columns must be. Prints titles when the columns change."""

    def __init__(self, schema: model.SchemaModel | None) -> None:
        messages = () if schema is None else schema.messages
        self._columns = {message.name: list(_columns(message)) for message in messages}
        self._rows: list[tuple[str, list[str]]] = []
        self._widths: dict[str, list[int]] = {}
        self._last = ""

    def add(self, line: dict[str, Any]) -> None:
        """Adds a line as lines.py makes it."""
        where = [str(line[key]) for key in _WHERE]
        if "message" in line:
            name, body = line["message"], line["body"]
            cells = [name, *(_cell(body, path) for path, _ in self._columns[name])]
        else:
            name = ""
            cells = [str(line["type"]), line.get("text", line.get("data", ""))]
        self._rows.append((name, [_shortened(printable(cell)) for cell in where + cells]))

    def flush(self) -> None:
        for name in dict.fromkeys(name for name, _ in self._rows):
            rows = [cells for other, cells in self._rows if other == name]
            before = self._widths.get(name, [len(title) for title in self._titles(name)])
            lengths = ([len(cell) for cell in cells] for cells in rows)
            widths = [max(column) for column in zip(before, *lengths, strict=True)]
            if widths != before and name == self._last:
                self._last = "\n"  # print the titles again, because the columns have moved
            self._widths[name] = widths
        for name, cells in self._rows:
            if name != self._last:
                self._print(name, self._titles(name))
                self._last = name
            self._print(name, cells)
        self._rows.clear()

    def _titles(self, name: str) -> list[str]:
        own = ["message", *(".".join(path) for path, _ in self._columns[name])] if name else ["type", "data"]
        return [title.upper() for title in _WHERE] + own

    def _print(self, name: str, cells: list[str]) -> None:
        right = [True, False, True, *([False, *(r for _, r in self._columns[name])] if name else [True, False])]
        widths = self._widths[name]
        print("  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)).rstrip())


def _columns(message: model.Message) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yields the path of each column, and whether it is aligned to the right. Leaves out constants, and shows only the
    number of entries of a group."""
    yield from _of_fields(message.fields, ())
    yield from (((group.name,), True) for group in message.groups)
    yield from (((data.name,), False) for data in message.data)


def _of_fields(fields: Iterable[model.Field], before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    for field in fields:
        path = (*before, field.name)
        if isinstance(field.type, model.Composite):
            yield from _of_fields(field.type.fields, path)
        elif field.presence is not model.Presence.CONSTANT:
            kind = field.type
            right = isinstance(kind, model.Encoded) and not kind.is_array and kind.primitive is not model.Primitive.CHAR
            yield path, right


def _cell(body: dict[str, Any], path: tuple[str, ...]) -> str:
    value: Any = body
    for name in path:
        value = None if value is None else value[name]
    if value is None:
        return "-"
    if isinstance(value, dict):  # a set
        return "|".join(name for name, chosen in value.items() if chosen) or "-"
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return str(len(value))
    return " ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
