# SPDX-License-Identifier: Apache-2.0
"""The ``<message>`` elements of a schema: fields, groups and data, with their offsets and lengths."""

from __future__ import annotations

from .attributes import (
    integer,
    name_of,
    presence_of,
    required,
    signed,
    since_version,
    warn,
    warn_of_keywords,
    without_prefix,
)
from .document import Element
from .model import Composite, Data, Encoded, Enum, Field, Group, Message, Presence, Primitive, Type
from .parse_types import Types


def number_in(element: Element, composite: Composite, name: str) -> Encoded:
    """Returns the integer type ``name`` that a header must have. Raises an error that names ``element`` otherwise."""
    type_ = composite[name].type if name in composite else None
    if type_ is None:
        raise element.error(f'composite "{composite.name}" must have a <type name="{name}"> to be used here')
    if (
        not isinstance(type_, Encoded)
        or type_.is_array
        or type_.primitive.is_float
        or type_.primitive is Primitive.CHAR
    ):
        raise element.error(f'"{name}" of composite "{composite.name}" must be one integer')
    return type_


def fits(element: Element, what: str, value: int, header: Composite, name: str) -> None:
    type_ = header[name].type
    assert isinstance(type_, Encoded)
    if value > type_.primitive.highest:
        raise element.error(
            f'{what} {value} does not fit into "{name}" of "{header.name}", a {type_.primitive.text}: '
            "give it a larger type, or use a smaller number"
        )
    if type_.presence is Presence.CONSTANT and type_.constant != value:
        raise element.error(
            f'{what} {value} is not the constant {type_.constant} that "{name}" of "{header.name}" is: '
            "make them equal, or the type no constant"
        )


def _check_limit(element: Element, composite: Composite, name: str, encoded: Encoded) -> None:
    """Checks sbe-tool's rule for lengths and numbers: they are Java ints."""
    primitive = encoded.primitive
    highest = 2**31 - 1 if primitive is Primitive.UINT32 else primitive.max_value
    given = encoded.max_value != primitive.max_value or primitive is not Primitive.UINT32
    if given and primitive is Primitive.UINT64 and encoded.max_value == primitive.max_value:
        return
    if not given or signed(encoded.max_value, primitive) > signed(highest, primitive):
        raise element.error(
            f'"{name}" of composite "{composite.name}", a {primitive.text}, must have maxValue="{int(highest)}" or less'
        )


class Messages:
    def __init__(self, types: Types, version: int, header: Composite, used_as_data: set[str]) -> None:
        self.types = types
        self.version = version
        self.header = header
        self.names: set[str] = set()
        self.ids: set[int] = set()
        self.used_as_data = used_as_data

    def message(self, element: Element) -> Message:
        name = name_of(element)
        warn_of_keywords(element)
        template_id = integer(element, "id")
        if name in self.names:
            raise element.error(f'there is another message named "{name}": rename one')
        if template_id in self.ids:
            raise element.error(f'there is another message with id="{template_id}": renumber one')
        self.names.add(name)
        self.ids.add(template_id)
        fits(element, "id", template_id, self.header, "templateId")
        given = integer(element, "blockLength", 0)
        since = since_version(element, self.version)
        deprecated = integer(element, "deprecated", 0)
        members = _Members(self, element, given)
        last = members.fields[-1] if members.fields else None
        computed = last.offset + last.encoded_length if last else 0
        block_length = _block_length(element, given, computed)
        fits(element, "its block length", block_length, self.header, "blockLength")
        return Message(
            name,
            template_id,
            block_length,
            tuple(members.fields),
            tuple(members.groups),
            tuple(members.data),
            since,
            deprecated,
            element.get("description") or "",
            element.get("semanticType"),
        )


def types_of_data(element: Element) -> set[str]:
    """Returns the names of types that a ``<data>`` uses. sbe-tool gives such a type no fixed length, wherever it is
    used."""
    found = {child.get("type") or "" for child in element.children if child.name == "data"}
    return found.union(*(types_of_data(child) for child in element.children if child.name == "group"))


def _block_length(element: Element, given: int, computed: int) -> int:
    if 0 < given < computed:
        raise element.error(f'blockLength="{given}" is too small: its fields need {computed} bytes')
    return max(given, computed)


class _Members:
    """The fields, groups and data of a message or a group, in this order."""

    def __init__(self, messages: Messages, element: Element, block_length: int) -> None:
        self.messages = messages
        self.types = messages.types
        self.fields: list[Field] = []
        self.groups: list[Group] = []
        self.data: list[Data] = []
        self.end = 0  # the length of the block so far
        names: set[str] = set()
        ids: set[int] = set()
        for child in element.children:
            if child.local_name not in ("field", "group", "data"):
                warn(child, "is skipped: a message or group has <field>, <group> and <data>")
                continue
            without_prefix(child)
            if child.name == "field" and (self.groups or self.data):
                raise child.error(
                    "comes after a group or data: fields must come before all groups and data. Move it up"
                )
            if child.name == "group" and self.data:
                raise child.error("comes after data: groups must come before all data. Move it up")
            name = name_of(child)
            warn_of_keywords(child)
            member_id = integer(child, "id", lowest=-(2**31))
            if name in names:
                raise child.error(f'there is another "{name}" beside it: rename one')
            if member_id in ids:
                raise child.error(f'there is another id="{member_id}" beside it: renumber one')
            names.add(name)
            ids.add(member_id)
            offset = 0 if child.name == "group" else integer(child, "offset", 0)
            if 0 < offset < self.end:
                raise child.error(f'offset="{offset}" is inside what stands before it, which ends at {self.end}')
            self.end = offset or self.end
            if child.name == "field":
                self.fields.append(self._field(child, name, member_id))
            else:
                self.end = block_length or self.end if not offset else self.end
                if child.name == "group":
                    self.groups.append(self._group(child, name, member_id))
                else:
                    self.data.append(self._data(child, name, member_id))

    def _type(self, element: Element, attribute: str, default: str | None = None) -> Type:
        name = required(element, attribute) if default is None else element.get(attribute) or default
        found = self.types.find(name)
        if found is None:
            raise element.error(f'{attribute}="{name}" is not in <types>: define it there, or correct the name')
        return found

    def _field(self, element: Element, name: str, field_id: int) -> Field:
        type_ = self._type(element, "type")
        type_name = required(element, "type")
        if self.types.has_variable_length(type_name) or type_name in self.messages.used_as_data:
            raise element.error(f'type="{type_name}" has a variable length: use <data>, or another type')
        presence = presence_of(element, type_.presence)
        if type_.presence is Presence.CONSTANT and isinstance(type_, Encoded):
            presence = Presence.CONSTANT  # the field has no bytes for another value
        self._check_semantic_type(element, type_)
        constant = self._constant(element, type_, presence)
        length = 0 if presence is Presence.CONSTANT else type_.encoded_length
        since = since_version(element, self.messages.version)
        offset = self.end
        self.end += length
        return Field(
            name,
            type_,
            offset,
            length,
            presence,
            field_id,
            constant,
            max(since, type_.since_version),
            integer(element, "deprecated", 0),
            element.get("description") or type_.description,
            element.get("semanticType") or type_.semantic_type,
            element.get("epoch"),
            element.get("timeUnit"),
        )

    def _constant(self, element: Element, type_: Type, presence: Presence) -> int | float | str | None:
        value_ref = element.get("valueRef")
        constant = None
        if isinstance(type_, Encoded | Enum) and value_ref is not None:
            enum = type_ if isinstance(type_, Enum) else None
            constant = self.types.value_of(element, value_ref, type_.primitive, enum)
        if presence is not Presence.CONSTANT:
            if value_ref is not None:
                warn(
                    element, f'valueRef="{value_ref}" is for constants, and not looked at here: add presence="constant"'
                )
            return None
        if constant is not None:
            return constant
        if isinstance(type_, Encoded):
            if type_.constant is None:
                raise element.error(
                    f'is constant, but type "{type_.name}" has no value: make the type constant, or add valueRef'
                )
            return type_.constant
        if isinstance(type_, Enum):
            raise element.error(f'is constant: say which value with valueRef="{type_.name}.VALUE"')
        raise element.error("cannot be constant: only a <type> or an <enum> can")

    def _group(self, element: Element, name: str, group_id: int) -> Group:
        dimension = self._type(element, "dimensionType", "groupSizeEncoding")
        if not isinstance(dimension, Composite):
            raise element.error(f'dimensionType="{dimension.name}" must be a composite')
        self._check_dimension(element, dimension)
        given = integer(element, "blockLength", 0)
        since = since_version(element, self.messages.version)
        members = _Members(self.messages, element, 0)
        block_length = _block_length(element, given, members.end)
        fits(element, "its block length", block_length, dimension, "blockLength")
        return Group(
            name,
            group_id,
            dimension,
            block_length,
            tuple(members.fields),
            tuple(members.groups),
            tuple(members.data),
            since,
            integer(element, "deprecated", 0),
            element.get("description") or "",
        )

    @staticmethod
    def _check_dimension(element: Element, dimension: Composite) -> None:
        block_length = number_in(element, dimension, "blockLength")
        if not block_length.primitive.is_unsigned:
            raise element.error(f'"blockLength" of composite "{dimension.name}" must be an unsigned integer')
        _check_limit(element, dimension, "blockLength", block_length)
        number = number_in(element, dimension, "numInGroup")
        primitive = number.primitive
        if not primitive.is_unsigned:
            if number.min_value < 0:
                raise element.error(
                    f'"numInGroup" of composite "{dimension.name}" is signed: it must have minValue="0"'
                )
        else:
            _check_limit(element, dimension, "numInGroup", number)
        if signed(number.min_value, primitive) > signed(number.max_value, primitive):
            raise element.error(f'"numInGroup" of composite "{dimension.name}" has a minValue larger than its maxValue')
        for field, encoded in (("blockLength", block_length), ("numInGroup", number)):
            if encoded.primitive not in (Primitive.UINT8, Primitive.UINT16):
                warn(element, f'"{field}" of composite "{dimension.name}" should be uint8 or uint16')

    def _data(self, element: Element, name: str, data_id: int) -> Data:
        type_ = self._type(element, "type")
        if not isinstance(type_, Composite):
            raise element.error(f'type="{type_.name}" must be a composite with "length" and "varData"')
        length = number_in(element, type_, "length")
        if not length.primitive.is_unsigned:
            raise element.error(f'"length" of composite "{type_.name}" must be an unsigned integer')
        if length.primitive is Primitive.UINT64:
            warn(element, f'"length" of composite "{type_.name}" should be uint8, uint16 or uint32')
        _check_limit(element, type_, "length", length)
        if element.get("presence") == "optional":
            raise element.error("data cannot be optional: leave presence out; what is not there has the length 0")
        presence_of(element, Presence.REQUIRED)
        data = type_["varData"].type if "varData" in type_ else None
        if not isinstance(data, Encoded):
            raise element.error(f'composite "{type_.name}" must have a <type name="varData"> to be used here')
        self._check_semantic_type(element, type_)
        if element.get("valueRef") is not None:
            warn(element, "valueRef is not looked at here: data cannot be constant")
        return Data(
            name,
            data_id,
            length,
            data.character_encoding,
            type_,
            since_version(element, self.messages.version),
            integer(element, "deprecated", 0),
            element.get("description") or type_.description,
            element.get("semanticType") or type_.semantic_type,
            element.get("epoch"),
            element.get("timeUnit"),
        )

    @staticmethod
    def _check_semantic_type(element: Element, type_: Type) -> None:
        own = element.get("semanticType")
        if own is not None and type_.semantic_type is not None and own != type_.semantic_type:
            raise element.error(
                f'semanticType="{own}" differs from "{type_.semantic_type}" of type "{type_.name}": make them the same'
            )
