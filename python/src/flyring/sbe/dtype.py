# SPDX-License-Identifier: Apache-2.0
"""Messages of fixed size as numpy arrays (spec/messages.md 3): dtypes, runs of records as arrays, rows as messages.

numpy is imported on first use: ``pip install flyring[numpy]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from .. import _core
    from .flyweight import Message

    Fields = Mapping[str, _core.Field[Any, Any]]
    Block = numpy.dtype[numpy.void]
    Rows = NDArray[numpy.void]

DTYPES = 32  # dtypes of other versions kept per message class: bounded, because a hostile publisher may write any


def load_numpy() -> ModuleType:
    try:
        import numpy
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        need = "arrays of messages need numpy, which is not installed: pip install flyring[numpy]"
        raise ModuleNotFoundError(need, name="numpy") from None
    return numpy


def format_of(field: _core.Field[Any, Any]) -> Any:
    if field.kind == "composite":
        return block_dtype(field.type.FIELDS, field.type.ENCODED_LENGTH)
    if field.kind == "text":
        return f"S{field.length}"
    return field.typestr if field.length == 1 else (field.typestr, (field.length,))


def block_dtype(fields: Fields, length: int, version: int | None = None) -> Block:
    """Returns the dtype of the first ``length`` bytes of a block or composite, with the fields of ``version`` (None:
    all).

    Fields without bytes (constants, arrays of length 0) are left out.
    """
    numpy = load_numpy()
    there: dict[str, tuple[Any, int]] = {}
    for field in fields.values():
        if field.kind in ("group", "data") or field.length == 0 or (version is not None and field.since > version):
            continue
        form = numpy.dtype(format_of(field))
        if form.itemsize != 0 and field.offset + form.itemsize <= length:
            there[field.name] = (form, field.offset)
    forms, offsets = zip(*there.values(), strict=True) if there else ((), ())
    dtype: Block = numpy.dtype({"names": [*there], "formats": forms, "offsets": offsets, "itemsize": length})
    return dtype


class Records:
    """Reads and writes records of one message class as arrays."""

    def __init__(self, message: type[Message]) -> None:
        self.numpy = load_numpy()
        self.fields, self.name = message.FIELDS, message.NAME
        self.length, self.version = message.BLOCK_LENGTH, message.SCHEMA_VERSION
        self.layout, self.template_id = message._layout, message.TEMPLATE_ID
        self.dtype = block_dtype(self.fields, self.length)
        self.parts = [field.name for field in self.fields.values() if field.kind in ("group", "data")]
        self.acting_dtype = lru_cache(DTYPES)(self._acting_dtype)

    def _acting_dtype(self, length: int, version: int) -> Block:
        """Returns the dtype of messages with this block length and version, with the fields that this class knows."""
        if length >= self.length and version >= self.version:
            return self.dtype
        return block_dtype(self.fields, min(length, self.length), version)

    def not_of_one_size(self) -> str:
        return f"{self.name} has groups or data ({', '.join(self.parts)}): its messages are not of one size"

    def check(self) -> None:
        if self.parts:
            why = f"{self.not_of_one_size()}; read them with poll, write them with claim"
            raise InvalidArgumentError("message", why)
        if self.template_id == 0:
            raise InvalidArgumentError("message", f"the template id of {self.name} is 0, which no message can have")

    def view(self, run: _core.Message, count: int, header: int, stride: int, length: int, version: int) -> Rows:
        """Returns an array over a run of records, without a copy. Called by the core. The array refers to ``octets``,
        which keeps the run's memory in use."""
        octets = self.numpy.frombuffer(run, self.numpy.uint8)
        rows: Rows = self.numpy.ndarray((count,), self.acting_dtype(length, version), octets, header, (stride,))
        return rows

    def rows(self, array: Rows) -> Rows:
        """Returns the same rows with this class's dtype, as plain bytes (dtype V) for the core to copy."""
        numpy = self.numpy
        if not isinstance(array, numpy.ndarray) or array.ndim != 1:
            raise InvalidArgumentError("array", f"must be a numpy array of one dimension with {self.name}.dtype")
        if array.dtype != self.dtype:
            rows = numpy.zeros(array.shape, self.dtype)
            self.copy(rows, array, "")
            array = rows
        if self.length == 0:  # numpy has no items of size 0; the core does not read these bytes
            octets: Rows = numpy.zeros(array.shape, numpy.uint8)
            return octets
        return array.view(f"V{self.length}")

    def copy(self, target: Rows, source: Rows, path: str) -> None:
        """Copies field by field, by name. Raises InvalidArgumentError if a field is missing or unknown, or a value
        would change."""

        def refuse(name: str, reason: str) -> None:
            place = ".".join(part for part in (path, name) if part)
            raise InvalidArgumentError("array", f"field {place or '(all)'} of {self.name}: {reason}")

        if target.dtype.names is None or source.dtype.names is None:
            if target.dtype.names is not None or source.dtype.names is not None or target.shape != source.shape:
                refuse("", f"{source.dtype}, shape {source.shape[1:]} is not {target.dtype}, shape {target.shape[1:]}")
            if lost := self.assign(target, source):
                refuse("", lost)
            return
        for name in sorted({*target.dtype.names} ^ {*source.dtype.names}):
            refuse(name, f"the {'array' if name in target.dtype.names else 'message'} has no such field")
        for name in target.dtype.names:
            self.copy(target[name], source[name], f"{path}.{name}" if path else name)

    def assign(self, target: Rows, source: Rows) -> str:
        """Casts the values. Returns what the cast would lose as text, or ""."""
        numpy = self.numpy
        kinds = target.dtype.kind + source.dtype.kind
        if kinds in ("ii", "iu", "ui", "uu"):
            limits = numpy.iinfo(target.dtype)
            for value in (int(source.min()), int(source.max())) if source.size else ():
                if not limits.min <= value <= limits.max:
                    return f"{value} is out of the range of {target.dtype}"
        elif kinds != "SS" and ("S" in kinds or not numpy.can_cast(source.dtype, target.dtype, "same_kind")):
            return f"{source.dtype} cannot be cast to {target.dtype}"
        with numpy.errstate(over="ignore"):
            target[...] = source
        if target.dtype.kind == "S" and (target != source).any():
            return f"a value is longer than {target.dtype.itemsize} bytes"
        if target.dtype.kind == "f" and (numpy.isinf(target) & ~numpy.isinf(source)).any():
            return f"a value is out of the range of {target.dtype}"
        return ""


def records_of(message: type[Message]) -> Records:
    """Returns the Records of a message class, which are kept in the class."""
    if "_records" not in vars(message):
        message._records = Records(message)
    return message._records


def fixed_records_of(message: type[Message]) -> Records:
    """Returns the Records for poll_arrays and offer_array. Raises InvalidArgumentError if the class has no fixed
    size."""
    if not isinstance(message, type) or not hasattr(message, "_layout") or not hasattr(message, "TEMPLATE_ID"):
        raise InvalidArgumentError("message", f"must be a message class, not {message!r}")
    records = records_of(message)
    records.check()
    return records


class DtypeAttribute:
    """``Message.dtype``: the numpy dtype of a message without groups and data."""

    def __get__(self, instance: object, owner: type[Message]) -> Block:
        if not hasattr(owner, "_layout"):
            raise AttributeError(f"{owner.__name__} is the base of messages, and has no dtype")
        records = records_of(owner)
        if records.parts:
            raise AttributeError(f"{records.not_of_one_size()}, and have no dtype")
        return records.dtype
