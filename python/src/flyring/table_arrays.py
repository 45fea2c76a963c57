# SPDX-License-Identifier: Apache-2.0
"""Typed values of a table as numpy arrays and pandas frames (spec/api.md, Table)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import InvalidArgumentError
from .sbe.dtype import fixed_records_of, load_numpy

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from .table import Table


def to_numpy(table: Table) -> NDArray[numpy.void]:
    """See ``Table.to_numpy``."""
    numpy = load_numpy()
    message = table.message
    records = fixed_records_of(message)
    header = message.SCHEMA.model.header.encoded_length
    found = []
    for key, value, version in table._each():
        with message.decode(value):  # checks the header
            found.append((key, version, value))
    size = table.header.key_bytes
    keys = {"integer": "i8", "text": f"U{size}", "bytes": f"S{size}"}[table.key_type]
    rows: Any = numpy.zeros(len(found), [("key", keys), ("version", "i8"), ("value", records.dtype)])
    if not found:
        return rows  # type: ignore[no-any-return]
    rows["key"] = [key for key, _, _ in found]
    rows["version"] = [version for _, version, _ in found]
    whole = header + records.length
    if any(len(value) < whole for _, _, value in found):
        raise InvalidArgumentError("message", "a value has an older schema version, with fewer fields; use items")
    octets = b"".join(value[header:whole] for _, _, value in found)
    rows["value"] = numpy.frombuffer(octets, records.dtype)
    return rows  # type: ignore[no-any-return]


def to_pandas(table: Table) -> Any:
    """See ``Table.to_pandas``."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ModuleNotFoundError("to_pandas needs pandas, which is not installed", name="pandas") from None
    rows = to_numpy(table)
    columns: dict[str, Any] = {"version": rows["version"]}

    def add(name: str, values: Any) -> None:
        """Adds a column; of a composite, a column for each of its fields."""
        if values.dtype.names is None:
            columns[name] = values if values.ndim == 1 else list(values)
            return
        for part in values.dtype.names:
            add(f"{name}.{part}" if name else part, values[part])

    add("", rows["value"])
    return pandas.DataFrame(columns, index=pandas.Index(rows["key"], name="key"))
