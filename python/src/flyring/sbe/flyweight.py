# SPDX-License-Identifier: Apache-2.0
"""The base classes of messages, composites and group entries: views of bytes that live somewhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .. import _core
from ..errors import FlyringError
from .dtype import DtypeAttribute, Records

if TYPE_CHECKING:
    from .schema import Schema


@dataclass(frozen=True, slots=True)
class Header:
    """The message header of a schema: where it has what, (offset, primitive) each."""

    schema_id: int
    version: int
    """The schema's, which is written into the headers of what is encoded."""
    encoded_length: int
    block_length: tuple[int, str]
    template_id: tuple[int, str]
    schema: tuple[int, str]
    acting_version: tuple[int, str]
    byte_order: str = "<"

    @property
    def shape(self) -> tuple[int | str, ...]:
        """For the C core."""
        places = self.block_length + self.template_id + self.schema + self.acting_version
        return (self.encoded_length, *places, self.byte_order)


def _fields_of(cls: type[Any]) -> dict[str, _core.Field[Any, Any]]:
    return {name: value for name, value in vars(cls).items() if isinstance(value, _core.Field)}


def _parts_of(fields: dict[str, _core.Field[Any, Any]]) -> tuple[_core.Field[Any, Any], ...]:
    return tuple(field for field in fields.values() if field.kind in ("group", "data"))


def _show(self: Any) -> str:
    """For ``repr``: the fields, not the groups and data."""
    try:
        values = [
            f"{name}={getattr(self, name)!r}"
            for name, field in self.FIELDS.items()
            if field.kind not in ("group", "data")
        ]
    except FlyringError as error:
        values = [f"({error})"]
    return f"<{' '.join([type(self).__qualname__, *values])}>"


class Composite(_core.Flyweight):
    """A few fields that are one: a flyweight over a part of a block. Lives as long as its message.

    Subclasses say ``encoded_length`` in bytes, and have ``__slots__ = ()``.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, _core.Field[Any, Any]]] = {}
    """By attribute, in the schema's order, without constants."""
    ENCODED_LENGTH: ClassVar[int] = 0

    def __init_subclass__(cls, *, encoded_length: int | None = None) -> None:
        if encoded_length is not None:
            cls.FIELDS = _fields_of(cls)
            cls.ENCODED_LENGTH = encoded_length

    __repr__ = _show


class Entry(_core.Flyweight):
    """One entry of a group: its block, then its own groups and data. Lives as long as its message.

    Subclasses say ``name`` (the group's) and ``block_length`` in bytes, and have ``__slots__ = ()``.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, _core.Field[Any, Any]]] = {}
    """By attribute, in the schema's order, without constants; groups and data too."""
    BLOCK_LENGTH: ClassVar[int] = 0
    _layout: ClassVar[_core.Layout]

    def __init_subclass__(cls, *, block_length: int | None = None, name: str | None = None) -> None:
        if block_length is not None:
            cls.FIELDS = _fields_of(cls)
            cls.BLOCK_LENGTH = block_length
            cls._layout = _core.Layout(name or cls.__name__, block_length, _parts_of(cls.FIELDS))

    __repr__ = _show


class Message(_core.MessageFlyweight):
    """A message, read or written where it is; its fields are attributes.

    Made by ``encode``, ``decode`` and ``wrap`` over any buffer, by ``publisher.claim(Message)`` and ``sbe.dispatch``.
    It reads or writes only as long as its bytes are there: ClosedError after ``commit``, ``abort`` and the end of the
    handler. A buffer of yours is kept (exported) as long as the message lives, or to the end of a ``with`` statement.

    Subclasses say the schema's ``header``, ``template_id`` and ``block_length``, and have ``__slots__ = ()``.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, _core.Field[Any, Any]]] = {}
    """By attribute, in the schema's order, without constants; groups and data too."""
    NAME: ClassVar[str] = ""
    """The schema's."""
    TEMPLATE_ID: ClassVar[int] = 0
    SCHEMA_ID: ClassVar[int] = 0
    SCHEMA_VERSION: ClassVar[int] = 0
    BLOCK_LENGTH: ClassVar[int] = 0
    """In bytes, header excluded."""
    SCHEMA: ClassVar[Schema]
    dtype = DtypeAttribute()
    """numpy's dtype of the block, for ``Subscriber.poll_arrays`` and ``Publisher.offer_array``. AttributeError if the
    message has groups or data: it is not of one size."""
    _records: ClassVar[Records]
    _layout: ClassVar[_core.Layout]

    def __init_subclass__(
        cls, *, header: Header | None = None, template_id: int = 0, block_length: int = 0, name: str | None = None
    ) -> None:
        if header is not None:
            cls.FIELDS = _fields_of(cls)
            cls.NAME = name or cls.__name__
            cls.TEMPLATE_ID, cls.BLOCK_LENGTH = template_id, block_length
            cls.SCHEMA_ID, cls.SCHEMA_VERSION = header.schema_id, header.version
            cls._layout = _core.Layout(
                cls.NAME,
                block_length,
                _parts_of(cls.FIELDS),
                header.shape,
                template_id,
                header.schema_id,
                header.version,
            )

    __repr__ = _show
