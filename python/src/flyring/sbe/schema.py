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
    """An SBE schema and its message classes, which are attributes.

    ``load`` and ``parse`` make the message classes at run time. A module made by ``flyring sbe generate`` contains its
    message classes, and has a Schema object named ``SCHEMA``.

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
        """For generated modules. ``messages``: the classes of the messages in ``text``."""
        self._text, self._package, self._id, self._version, self._byte_order = text, package, id, version, byte_order
        self._messages = MappingProxyType({message.NAME: message for message in messages})
        self._by_id = {message.TEMPLATE_ID: message for message in self._messages.values()}
        for message in self._messages.values():
            message.SCHEMA = self

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a schema from an XML file and the files that it includes. Raises SchemaError or OSError."""
        return cls._of_model(parse.load(path))

    @classmethod
    def parse(cls, text: str, base: str | os.PathLike[str] | None = None) -> Self:
        """Reads a schema from XML text. ``base``: the folder of the files that it includes. Raises SchemaError."""
        return cls._of_model(parse.parse(text, base))

    @classmethod
    def of(cls, channel: Channel) -> Self:
        """Reads the schema of a channel. Raises SchemaError if the channel has no SBE schema."""
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
        """The complete contents of the schema, for tools (see ``flyring.sbe.model``)."""
        return parse.parse(self._text)

    @property
    def text(self) -> str:
        """The XML as a channel stores it, with every XInclude resolved."""
        return self._text

    @property
    def id(self) -> int:
        """The schema's id."""
        return self._id

    @property
    def version(self) -> int:
        """The schema's version."""
        return self._version

    @property
    def package(self) -> str:
        return self._package

    @property
    def byte_order(self) -> str:
        """The byte order, as in ``struct``: "<" is little-endian, ">" big-endian."""
        return self._byte_order

    @property
    def messages(self) -> Mapping[str, type[Message]]:
        """The message classes by their names in the schema. ``schema.Trade`` is ``schema.messages["Trade"]``."""
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
        """Returns the class of the message whose header is at ``offset`` of ``buffer``.

        Raises MessageTooShortError; WrongMessageError if the header belongs to another schema, or to a message that
        this schema does not know.
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
        """Decodes the message at ``offset`` of ``buffer``; its header tells its class. Raises the errors of
        ``message_at``."""
        return self.message_at(buffer, offset).decode(buffer, offset)

    def __repr__(self) -> str:
        return f"<flyring.sbe.Schema {self._package} id={self._id} version={self._version}>"
