# SPDX-License-Identifier: Apache-2.0
"""Schema: an SBE schema and its message classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

from . import parse
from .errors import MessageTooShortError, SchemaError, WrongMessageError
from .flyweight import Message
from .model import Encoded, Presence, SchemaModel
from .runtime import message_classes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ..channel import Channel


class Schema:
    """An SBE schema. ``load`` and ``parse`` make the message classes at run time; a module made by ``flyring sbe
    generate`` has its own, and this class as ``SCHEMA``.

        schema = Schema.load("prices.xml")
        update = schema.PriceUpdate.encode(bytearray(100))
    """

    def __init__(
        self,
        text: str,
        *,
        package: str,
        id: int,
        version: int,
        byte_order: Literal["<", ">"],
        messages: Iterable[type[Message]],
    ) -> None:
        """For generated modules: ``messages`` are the classes for the messages of ``text``."""
        self._text, self._package, self._id, self._version, self._byte_order = text, package, id, version, byte_order
        self._messages = MappingProxyType({message.NAME: message for message in messages})
        self._by_id = {message.TEMPLATE_ID: message for message in self._messages.values()}
        for message in self._messages.values():
            message.SCHEMA = self

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The schema in a file, and in what it includes. SchemaError; OSError."""
        return cls._of_model(parse.load(path))

    @classmethod
    def parse(cls, text: str, base: str | os.PathLike[str] | None = None) -> Self:
        """The schema in a text; what it includes is relative to the folder ``base``. SchemaError."""
        return cls._of_model(parse.parse(text, base))

    @classmethod
    def of(cls, channel: Channel) -> Self:
        """The schema in a channel. SchemaError if it has none, or one that is no SBE schema."""
        if channel.schema is None:
            raise SchemaError(f"the channel at {channel.path} has no schema: its messages are bytes")
        return cls.parse(channel.schema)

    @classmethod
    def _of_model(cls, model: SchemaModel) -> Self:
        self = cls(
            model.text,
            package=model.package,
            id=model.id,
            version=model.version,
            byte_order=">" if model.byte_order == ">" else "<",
            messages=message_classes(model).values(),
        )
        self.__dict__["model"] = model
        return self

    @cached_property
    def model(self) -> SchemaModel:
        """Everything that the schema says, for tools (``flyring.sbe.model``)."""
        return parse.parse(self._text)

    @property
    def text(self) -> str:
        """The XML, every XInclude resolved: what a channel stores."""
        return self._text

    @property
    def id(self) -> int:
        return self._id

    @property
    def version(self) -> int:
        return self._version

    @property
    def package(self) -> str:
        return self._package

    @property
    def byte_order(self) -> str:
        """ "<" or ">", as in ``struct``."""
        return self._byte_order

    @property
    def messages(self) -> Mapping[str, type[Message]]:
        """The message classes by the schema's names. ``schema.Trade`` is ``schema.messages["Trade"]``."""
        return self._messages

    def __getattr__(self, name: str) -> type[Any]:
        try:
            message: type[Message] = self.__dict__["_messages"][name]
            return message
        except KeyError:
            raise AttributeError(f"{self!r} has no message {name!r}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._messages]

    def message_at(self, buffer: Buffer, offset: int = 0) -> type[Message]:
        """The class of the message whose header is at ``offset``.

        MessageTooShortError; WrongMessageError if it is of another schema, or of no message that this one knows.
        """
        header = self.model.header
        order: Literal["little", "big"] = "little" if self._byte_order == "<" else "big"
        with memoryview(buffer) as view:
            octets = bytes(view.cast("B")[offset : offset + header.encoded_length]) if offset >= 0 else b""
        if len(octets) < header.encoded_length:
            raise MessageTooShortError(f"there is no message header of {header.encoded_length} bytes at {offset}")

        def read(name: str) -> int:
            field = header[name]
            assert isinstance(field.type, Encoded)
            if field.presence is Presence.CONSTANT:
                return int(field.constant or 0)
            return int.from_bytes(octets[field.offset : field.offset + field.encoded_length], order)

        if read("schemaId") != self._id:
            raise WrongMessageError(f"the header is of schema {read('schemaId')}, not {self._id} ({self._package})")
        if read("templateId") not in self._by_id:
            raise WrongMessageError(f"schema {self._id} ({self._package}) has no template {read('templateId')}")
        return self._by_id[read("templateId")]

    def decode(self, buffer: Buffer, offset: int = 0) -> Any:
        """The message at ``offset``, whichever it is, by its header: a ``Message``. The errors of ``message_at``."""
        return self.message_at(buffer, offset).decode(buffer, offset)

    def __repr__(self) -> str:
        return f"<flyring.sbe.Schema {self._package} id={self._id} version={self._version}>"
