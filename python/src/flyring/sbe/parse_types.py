# SPDX-License-Identifier: Apache-2.0
"""The ``<types>`` of a schema: types, enums, sets and composites, with every reference looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .attributes import (
    common,
    integer,
    limit,
    name_of,
    number,
    presence_of,
    primitive_of,
    required,
    since_version,
    warn,
    warn_of_keywords,
    without_prefix,
)
from .document import Element
from .errors import SchemaError
from .model import PRIMITIVES, Composite, Encoded, Enum, Field, Presence, Primitive, Type
from .parse_enums import enumeration, flags

KINDS = ("type", "composite", "enum", "set")  # of types with one name the last of the last kind wins, as in sbe-tool
_MEMBERS = (*KINDS, "ref")
_MOST_MEMBERS = 1 << 16  # of a composite with all nested members: a bound for refs that double at each level
_DEEPEST = 100


def builtin(primitive: Primitive) -> Encoded:
    return Encoded(
        primitive.text,
        primitive,
        1,
        Presence.REQUIRED,
        primitive.min_value,
        primitive.max_value,
        primitive.null_value,
        "US-ASCII" if primitive is Primitive.CHAR else None,
    )


@dataclass(frozen=True, slots=True)
class _Parsed:
    type: Type
    refers_to: frozenset[str]  # the names of all types that it refers to, at any depth
    members: int
    variable_length: bool = False


class Types:
    """The types of a schema. Each is parsed on first use, so a schema may define a type after its use."""

    def __init__(self, schema: Element, version: int) -> None:
        self.version = version
        self.elements = [one for types in schema.children if types.local_name == "types" for one in types.children]
        self.parsed: dict[Element, _Parsed | SchemaError] = {}
        self.by_name: dict[str | None, list[Element]] = {}
        for element in self.elements:
            self.by_name.setdefault(element.get("name"), []).append(element)
        self.builtins: Mapping[str, Type] = {name: builtin(primitive) for name, primitive in PRIMITIVES.items()}
        self.named: dict[str, Element] = {}
        for kind in KINDS:
            for element in self.elements:
                if element.local_name == kind:
                    name = name_of(element)
                    if name in self.named or name in self.builtins:
                        warn(element, f'there is another type named "{name}": only one of them counts. Rename one')
                    self.named[name] = element
        for element in self.elements:
            if element.local_name not in KINDS:
                warn(element, f"is skipped: a type is one of <{'>, <'.join(KINDS)}>")

    def find(self, name: str) -> Type | None:
        """Returns the type that a field or group of a message refers to by this name."""
        element = self.named.get(name)
        return self.builtins.get(name) if element is None else self.resolve(element)

    def first(self, name: str, kinds: tuple[str, ...] = KINDS) -> Element | None:
        """Returns the element that a type refers to by this name: the first one of these kinds. Primitives are not
        included."""
        return next((one for one in self.by_name.get(name, ()) if one.local_name in kinds), None)

    def has_variable_length(self, name: str) -> bool:
        element = self.named.get(name)
        return element is not None and self._parse(element, ()).variable_length

    def resolve(self, element: Element, inside: tuple[str, ...] = ()) -> Type:
        return self._parse(element, inside).type

    def _parse(self, element: Element, inside: tuple[str, ...]) -> _Parsed:
        """Parses a type once. ``inside``: the names of the composites around it, from the outermost on."""
        parsed = self.parsed.get(element)
        if parsed is None:
            try:
                parsed = self._parse_once(element, inside)
            except SchemaError as error:
                parsed = error
            self.parsed[element] = parsed
        if isinstance(parsed, SchemaError):
            raise parsed
        circular = parsed.refers_to.intersection(inside)
        if circular:
            raise element.error(
                f'refers to "{min(circular)}", which it is itself inside of: a circle of refs has no end'
            )
        return parsed

    def _parse_once(self, element: Element, inside: tuple[str, ...]) -> _Parsed:
        if len(inside) > _DEEPEST:
            raise element.error(f"more than {_DEEPEST} composites are in each other")
        match element.local_name:
            case "type":
                variable_length = (element.get("variableLength") or "").lower() == "true"
                return _Parsed(self._encoded(element), frozenset(), 1, variable_length)
            case "enum":
                return _Parsed(enumeration(self, element), frozenset(), 1)
            case "set":
                return _Parsed(flags(self, element), frozenset(), 1)
            case _:
                return self._composite(element, inside)

    # <type>

    def _encoded(self, element: Element) -> Encoded:
        name, since, deprecated = common(element, self.version)
        primitive = primitive_of(element)
        presence = presence_of(element, Presence.REQUIRED)
        encoding = (element.get("characterEncoding") or ("US-ASCII" if primitive is Primitive.CHAR else "")).strip()
        if encoding:
            self._check_encoding(element, encoding)
        length = integer(element, "length", 1)
        low = limit(element, "minValue", primitive)
        high = limit(element, "maxValue", primitive)
        null = limit(element, "nullValue", primitive)
        if null is not None and presence is not Presence.OPTIONAL:
            warn(element, 'has a nullValue, which counts only where a field is optional: add presence="optional"')
        constant = None
        value_ref = element.get("valueRef")
        if value_ref is not None and presence is not Presence.CONSTANT:
            raise element.error(f'valueRef="{value_ref}" is for constants: add presence="constant", or remove it')
        if value_ref is not None:
            constant = self.value_of(element, value_ref, primitive, None)
        elif presence is Presence.CONSTANT:
            constant, length = self._constant(element, primitive, length, encoding)
        return Encoded(
            name,
            primitive,
            length,
            presence,
            primitive.min_value if low is None else low,
            primitive.max_value if high is None else high,
            primitive.null_value if null is None else null,
            encoding or None,
            constant,
            element.get("description") or "",
            element.get("semanticType"),
            since,
            deprecated,
        )

    @staticmethod
    def _check_encoding(element: Element, encoding: str) -> None:
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            raise element.error(
                f'characterEncoding="{encoding}" is not known: use US-ASCII, UTF-8 or another of IANA\'s names'
            ) from None

    @staticmethod
    def _constant(element: Element, primitive: Primitive, length: int, encoding: str) -> tuple[int | float | str, int]:
        text = element.text
        if not text:
            raise element.error("is constant, but has no value: write it between the tags, before any comment")
        if primitive is not Primitive.CHAR:
            return number(element, "its value", text, primitive), length
        if element.get("length") is not None and len(text) > length:
            raise element.error(f'its value "{text}" is longer than length="{length}": {len(text)} characters')
        try:
            size = len(text.encode(encoding))
        except UnicodeEncodeError:
            raise element.error(f'its value "{text}" cannot be written in characterEncoding="{encoding}"') from None
        return text.rstrip("\0"), max(size, 1 if element.get("length") is None else length)

    def value_of(self, element: Element, value_ref: str, primitive: Primitive, enum: Enum | None) -> int | float | str:
        """Returns the value of a valueRef: for an enum field (``enum``) as on the wire, else as a user reads it."""
        name, dot, value_name = value_ref.partition(".")
        if not (name and dot and value_name):
            raise element.error(f'valueRef="{value_ref}" must have the form ENUM.VALUE')
        found = self.first(name, ("enum",))
        if found is None:
            raise element.error(f'valueRef="{value_ref}": there is no enum "{name}". Define it in <types>')
        referred = self.resolve(found)
        assert isinstance(referred, Enum)
        if enum is not None and enum.name != name:
            raise element.error(f'valueRef="{value_ref}" must name a value of the field\'s own type "{enum.name}"')
        if referred.primitive is not primitive:
            raise element.error(
                f'valueRef="{value_ref}" is a {referred.primitive.text}, but the type is {primitive.text}: '
                "give both one type"
            )
        for value in referred.values:
            if value.name == value_name:
                return chr(value.value) if primitive is Primitive.CHAR and enum is None else value.value
        names = ", ".join(value.name for value in referred.values)
        raise element.error(f'valueRef="{value_ref}": enum "{name}" has no "{value_name}", only {names or "nothing"}')

    # <composite>

    def _composite(self, element: Element, inside: tuple[str, ...]) -> _Parsed:
        name, since, deprecated = common(element, self.version)
        presence = presence_of(element, Presence.REQUIRED)
        if presence is Presence.CONSTANT:
            raise element.error("a composite cannot be constant: make its members so")
        inside = (*inside, name)
        fields: dict[str, Field] = {}
        refers_to: set[str] = set()
        members = 1
        variable_length = False
        offset = 0
        for child in element.children:
            if child.local_name in ("data", "group"):
                raise child.error("cannot be in a composite, which has a fixed length: move it to a message")
            if child.local_name not in _MEMBERS:
                warn(child, f"is skipped: a composite has <{'>, <'.join(_MEMBERS)}>")
                continue
            without_prefix(child)
            field_name = name_of(child)
            if field_name in fields:
                raise child.error(f'the composite has another member named "{field_name}": rename one')
            target = child
            if child.name == "ref":
                target = self._referred(child, inside)
                refers_to.add(target.attributes["name"])
            parsed = self._parse(target, inside)
            refers_to |= parsed.refers_to
            members += parsed.members
            variable_length |= parsed.variable_length
            if members > _MOST_MEMBERS:
                raise child.error(f"the composite has more than {_MOST_MEMBERS} members, with those inside of them")
            field = self._member(child, target, field_name, parsed.type, offset)
            offset = field.offset + field.encoded_length
            fields[field_name] = field
        description = element.get("description") or ""
        composite = Composite(
            name,
            tuple(fields.values()),
            offset,
            presence,
            description,
            element.get("semanticType"),
            since,
            deprecated,
        )
        return _Parsed(composite, frozenset(refers_to), members, variable_length)

    def _referred(self, ref: Element, inside: tuple[str, ...]) -> Element:
        name = required(ref, "type")
        warn_of_keywords(ref)
        target = self.first(name)
        if target is not None:
            without_prefix(target)
        if target is None:
            primitive = f': write <type name="{ref.get("name")}" primitiveType="{name}"/>' if name in PRIMITIVES else ""
            raise ref.error(f'type="{name}" is not in <types>{primitive or ": define it there, or correct the name"}')
        if name in inside:
            raise ref.error(f'type="{name}" is what this is itself inside of: a circle of refs has no end')
        return target

    def _member(self, child: Element, target: Element, name: str, type_: Type, end: int) -> Field:
        if type_.presence is Presence.CONSTANT and not isinstance(type_, Encoded):
            raise child.error('a member of a composite can be constant only as a <type>: use presence="constant" there')
        offset = end
        if (child if child.get("offset") is not None else target).get("offset") is not None:
            offset = integer(child if child.get("offset") is not None else target, "offset", -1, lowest=-1)
            if offset == -1:
                offset = end
            elif offset < end:
                raise child.error(f'offset="{offset}" is inside the member before it, which ends at {end}')
        since = since_version(child, self.version) if child.get("sinceVersion") is not None else type_.since_version
        constant = type_.constant if isinstance(type_, Encoded) else None
        return Field(
            name,
            type_,
            offset,
            type_.encoded_length,
            type_.presence,
            0,
            constant,
            since,
            type_.deprecated,
            child.get("description") or type_.description,
            type_.semantic_type,
        )
