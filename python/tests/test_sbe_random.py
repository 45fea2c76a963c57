# SPDX-License-Identifier: Apache-2.0
"""Random schemas, messages and bytes. Written messages have the bytes that the schema demands, and read back equal. No
bytes make the code read or write outside of them: the page behind them is inaccessible."""

from __future__ import annotations

import ctypes
import faulthandler
import math
import mmap
import os
import random
import signal
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flyring import sbe
from flyring.sbe.json import _form_of
from flyring.sbe.model import (
    Composite,
    Data,
    Encoded,
    Enum,
    Field,
    Group,
    Message,
    Presence,
    Primitive,
    SchemaModel,
    Set,
)
from flyring.sbe.schema import Schema
from sbe_strategies import typed_messages

SETTINGS = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
PAGE = 4096
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


# A second encoder, by the model alone


class Encoder:
    def __init__(self, model: SchemaModel) -> None:
        self.model, self.order = model, model.byte_order

    def pack(self, primitive: Primitive, value: Any) -> bytes:
        return struct.pack(self.order + primitive.code, value)

    def number(self, composite: Composite, name: str, value: int, into: bytearray) -> None:
        field = composite[name]
        assert isinstance(field.type, Encoded)
        into[field.offset : field.offset + field.encoded_length] = self.pack(field.type.primitive, value)

    def message(self, message: Message, body: dict[str, Any]) -> bytes:
        header = bytearray(self.model.header.encoded_length)
        for name, value in (
            ("blockLength", message.block_length),
            ("templateId", message.id),
            ("schemaId", self.model.id),
            ("version", self.model.version),
        ):
            self.number(self.model.header, name, value, header)
        return bytes(header) + self.block(message, body)

    def block(self, block: Message | Group, body: dict[str, Any]) -> bytes:
        encoded = bytearray(block.block_length)
        self.fields(block.fields, body, encoded)
        parts = [bytes(encoded)]
        for group in block.groups:
            dimension = bytearray(group.dimension.encoded_length)
            self.number(group.dimension, "blockLength", group.block_length, dimension)
            self.number(group.dimension, "numInGroup", len(body[group.name]), dimension)
            parts += [bytes(dimension), *(self.block(group, entry) for entry in body[group.name])]
        for data in block.data:
            parts.append(self.data(data, body[data.name]))
        return b"".join(parts)

    def data(self, data: Data, text: str) -> bytes:
        content = text.encode(data.character_encoding) if data.character_encoding else bytes.fromhex(text)
        return self.pack(data.length.primitive, len(content)) + content

    def fields(self, fields: tuple[Field, ...], body: dict[str, Any], into: bytearray) -> None:
        for field in fields:
            if field.presence is not Presence.CONSTANT:
                part = into[field.offset : field.offset + field.encoded_length]
                self.value(field, body[field.name], part)
                into[field.offset : field.offset + field.encoded_length] = part

    def value(self, field: Field, value: Any, into: bytearray) -> None:
        kind = field.type
        if isinstance(kind, Composite):
            self.fields(kind.fields, value, into)
        elif isinstance(kind, Set):
            bits = sum(1 << choice.value for choice in kind.choices if value.get(choice.name))
            into[:] = self.pack(kind.primitive, bits)
        elif isinstance(kind, Enum):
            numbers = {one.name: one.value for one in kind.values}
            into[:] = self.pack(kind.primitive, kind.null_value if value is None else numbers[value])
        elif kind.primitive is Primitive.CHAR and kind.is_array:
            into[:] = (value or "").encode(kind.character_encoding or "ascii").ljust(kind.length, b"\0")
        else:
            values = value if kind.is_array else [value]
            into[:] = b"".join(self.pack(kind.primitive, self.plain(kind, one)) for one in values)

    @staticmethod
    def plain(kind: Encoded, value: Any) -> Any:
        if value is None:
            return kind.null_value
        if kind.primitive is Primitive.CHAR:
            return value.encode(kind.character_encoding or "ascii")[0]
        return SPECIAL.get(value, value) if isinstance(value, str) else value


def schema_of(model: SchemaModel) -> Schema:
    return Schema._of_model(model)


@SETTINGS
@given(typed_messages())
def test_what_is_written_has_the_right_bytes_and_reads_back(drawn: tuple[SchemaModel, Message, dict[str, Any]]) -> None:
    model, message, body = drawn
    cls = schema_of(model).messages[message.name]
    written = sbe.from_dict(cls, body)
    assert written == Encoder(model).message(message, body)
    read = sbe.to_dict(cls.decode(written))
    assert Encoder(model).message(message, read) == written  # floats have the fewest digits with the same bits
    assert read.keys() == body.keys()
    assert cls.decode(b"\xee" * 3 + written + b"\xee", 3).encoded_length == len(written)


# Bytes of any kind


class Guarded:
    """Memory that is followed by an inaccessible page."""

    def __init__(self, size: int = 16 * PAGE) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = libc.mmap(None, size + PAGE, mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)
        assert start not in (None, 2**64 - 1)
        assert libc.mprotect(start + size, PAGE, 0) == 0
        self.end, self.size = start + size, size

    def holding(self, content: bytes) -> memoryview:
        array = (ctypes.c_char * len(content)).from_address(self.end - len(content))
        view = memoryview(array).cast("B")
        view[:] = content
        return view


@pytest.fixture(scope="module")
def guarded() -> Guarded:
    return Guarded()


SEEN: set[str] = set()


def touch(block: Any, depth: int = 0) -> None:
    """Reads everything; only the package's own errors may be raised."""
    for attribute, field in type(block).FIELDS.items():
        try:
            value = getattr(block, attribute)
            if field.kind == "composite" and value is not None:
                touch(value, depth + 1)
            elif field.kind == "group":
                for _, entry in zip(range(5), value, strict=False):
                    touch(entry, depth + 1)
                if len(value):
                    touch(value[-1 if len(value) < 100 else 50], depth + 1)
            SEEN.add(f"{field.kind} read")
        except sbe.SbeError as error:
            SEEN.add(f"{field.kind} {type(error).__name__}")
    repr(block)


def mutated(chance: random.Random, content: bytes, ids: list[slice]) -> bytes:
    """Returns the message with some bytes changed, cut or added, except for the ids that select its class."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(changed))
        kind = chance.randrange(5)
        if kind == 0:
            changed[at:] = b""
        elif kind == 1:
            changed[at : at + 2] = chance.choice((b"\xff\xff", b"\0\0", b"\1\0", b"\0\1", b"\xff\x7f"))[
                : len(changed) - at
            ]
        elif kind == 2:
            changed[at : at + 8] = chance.randbytes(8)[: len(changed) - at]
        elif kind == 3:
            changed[at:at] = chance.randbytes(chance.randrange(20))
        else:
            changed[at : at + 4] = b"\xff" * min(4, len(changed) - at)
        if not changed:
            changed = bytearray(1)
    for one in ids:
        changed[one] = content[one]
    return bytes(changed)


def ids_of(model: SchemaModel) -> list[slice]:
    fields = [model.header["templateId"], model.header["schemaId"]]
    return [slice(field.offset, field.offset + field.encoded_length) for field in fields]


@SETTINGS
@given(typed_messages(), st.integers(0, 2**32))
@pytest.mark.long
def test_hostile_bytes(guarded: Guarded, drawn: tuple[SchemaModel, Message, dict[str, Any]], seed: int) -> None:
    model, message, body = drawn
    cls: Any = schema_of(model).messages[message.name]
    content, chance = Encoder(model).message(message, body), random.Random(seed)
    for _ in range(30):
        hostile = guarded.holding(mutated(chance, content, ids_of(model)))
        for arguments in ((), (chance.randrange(9), chance.randrange(len(content)), chance.randrange(5))):
            try:
                read = cls.wrap(hostile, *arguments) if arguments else cls.decode(hostile)
            except sbe.SbeError as error:
                SEEN.add(type(error).__name__)
                continue
            touch(read)
            try:
                assert read.encoded_length == len(bytes(read))
                SEEN.add("whole")
            except sbe.MessageTooShortError:
                SEEN.add("cut")


@pytest.mark.long
def test_the_hostile_bytes_reached_all_code() -> None:
    """Checks that the previous test reached all code, because it proves nothing if all messages are refused at once."""
    wanted = {"MessageTooShortError", "whole", "cut", "integer read", "composite read", "group read", "data read"}
    wanted |= {"integer MessageTooShortError", "group MessageTooShortError", "data MessageTooShortError"}
    assert wanted <= SEEN, wanted - SEEN


@SETTINGS
@given(typed_messages(), st.integers(0, 2**32))
@pytest.mark.long
def test_writing_into_less_than_is_needed(
    guarded: Guarded, drawn: tuple[SchemaModel, Message, dict[str, Any]], seed: int
) -> None:
    """Writing into any buffer that is too small raises an error, and changes no byte outside."""
    model, message, body = drawn
    cls: Any = schema_of(model).messages[message.name]
    whole = sbe.from_dict(cls, body)
    chance = random.Random(seed)
    for room in {chance.randrange(len(whole)) for _ in range(5)} | {len(whole)}:
        view = guarded.holding(bytes(room))
        try:
            with cls.encode(view) as flyweight:
                _form_of(cls).write(flyweight, body, message.name)
            assert room == len(whole)
            assert bytes(view) == whole
        except sbe.MessageTooShortError:
            assert room < len(whole)


def test_the_guard_page_works(guarded: Guarded) -> None:
    """Checks that touching a byte behind the end kills the process, on which the tests above rely."""
    view = guarded.holding(b"x" * 10)
    assert bytes(view) == b"x" * 10
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.string_at(guarded.end - 10, 11)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV
