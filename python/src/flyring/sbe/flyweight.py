# SPDX-License-Identifier: Apache-2.0
"""The base classes of messages, composites and group entries: views of bytes in another object's buffer."""

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
    """The message header of a schema. Each field is (offset, primitive)."""

    schema_id: int
    version: int
    """The schema's version, which ``encode`` writes into the header."""
    encoded_length: int
    block_length: tuple[int, str]
    template_id: tuple[int, str]
    schema: tuple[int, str]
    acting_version: tuple[int, str]
    byte_order: str = "<"

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The header as the C core takes it."""
        places = self.block_length + self.template_id + self.schema + self.acting_version
        return (self.encoded_length, *places, self.byte_order)


def _fields_of(cls: type[Any]) -> dict[str, _core.Field[Any, Any]]:
    return {name: value for name, value in vars(cls).items() if isinstance(value, _core.Field)}


def _parts_of(fields: dict[str, _core.Field[Any, Any]]) -> tuple[_core.Field[Any, Any], ...]:
    return tuple(field for field in fields.values() if field.kind in ("group", "data"))


def _show(self: Any) -> str:
    """The ``repr`` of a flyweight: its fields, without groups and data."""
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
    """A group of fields that form one value: a flyweight over a part of a block. Valid as long as its message.

    Subclasses pass ``encoded_length`` in bytes, and have ``__slots__ = ()``.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, _core.Field[Any, Any]]] = {}
    """The fields by attribute name, in the schema's order, without constants."""
    ENCODED_LENGTH: ClassVar[int] = 0

    def __init_subclass__(cls, *, encoded_length: int | None = None) -> None:
        if encoded_length is not None:
            cls.FIELDS = _fields_of(cls)
            cls.ENCODED_LENGTH = encoded_length

    __repr__ = _show


class Entry(_core.Flyweight):
    """One entry of a group: its block, then its own groups and data. Valid as long as its message.

    Subclasses pass ``name`` (of the group) and ``block_length`` in bytes, and have ``__slots__ = ()``.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, _core.Field[Any, Any]]] = {}
    """The fields, groups and data by attribute name, in the schema's order, without constants."""
    BLOCK_LENGTH: ClassVar[int] = 0
    _layout: ClassVar[_core.Layout]

    def __init_subclass__(cls, *, block_length: int | None = None, name: str | None = None) -> None:
        if block_length is not None:
            cls.FIELDS = _fields_of(cls)
            cls.BLOCK_LENGTH = block_length
            cls._layout = _core.Layout(name or cls.__name__, block_length, _parts_of(cls.FIELDS))

    __repr__ = _show


class Message(_core.MessageFlyweight):
    """A message that is read or written in place; its fields are attributes.

    Made by ``encode``, ``decode`` and ``wrap`` over any buffer, by ``publisher.claim(Message)`` and by
    ``sbe.dispatch``. A message is valid as long as its bytes are: after ``commit`` or ``abort``, or after its handler
    has returned, its attributes raise ClosedError. A message over your own buffer holds an export of it, until the
    message is deleted or its ``with`` block ends.

    Subclasses pass the schema's ``header``, the ``template_id`` and the ``block_length``, and have ``__slots__ = ()``.
    """

    __slots__ = ()
    FIELDS: ClassVar[dict[str, _core.Field[Any, Any]]] = {}
    """The fields, groups and data by attribute name, in the schema's order, without constants."""
    NAME: ClassVar[str] = ""
    """The name in the schema."""
    TEMPLATE_ID: ClassVar[int] = 0
    SCHEMA_ID: ClassVar[int] = 0
    SCHEMA_VERSION: ClassVar[int] = 0
    BLOCK_LENGTH: ClassVar[int] = 0
    """The length of the block in bytes, without the header."""
    SCHEMA: ClassVar[Schema]
    dtype = DtypeAttribute()
    """The numpy dtype of the block, for ``Subscriber.poll_arrays`` and ``Publisher.offer_array``. Raises AttributeError
    if the message has groups or data, because its size then varies."""
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
