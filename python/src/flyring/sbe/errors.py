# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with schemas and typed messages. Errors of a message name it and the field, as in
``PriceUpdate.instrument.symbol``."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import FlyringError

__all__ = [
    "MessageTooShortError",
    "OrderError",
    "OutOfRangeError",
    "SbeError",
    "SchemaError",
    "SchemaWarning",
    "UnknownValueError",
    "WrongMessageError",
    "WrongTypeError",
]


class SbeError(FlyringError, ValueError):
    """The base of all errors of schemas and typed messages. Carries ``field`` (after its message's name), or ""."""

    code = "sbe"

    def __init__(self, message: str, field: str = "") -> None:
        self.field = field
        super().__init__(f"{field}: {message}" if field else message)


class SchemaError(SbeError):
    """A schema is not valid. Each of ``problems`` says where (file, line, element), what, and what to do."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class SchemaWarning(UserWarning):
    """A schema is valid, but probably not what was meant, or not what another language's codecs can be made of."""


class OutOfRangeError(SbeError):
    """A value that the field cannot hold, or that the schema does not allow."""


class WrongTypeError(SbeError, TypeError):
    """A value of a type that the field does not take."""


class UnknownValueError(SbeError):
    """The message holds a value that the schema does not know, or text that is not in its character encoding."""


class MessageTooShortError(SbeError):
    """The buffer or message ends before the field does."""


class OrderError(SbeError):
    """Groups and data were not written in the schema's order, or not all of them, or not all entries of a group."""


class WrongMessageError(SbeError):
    """The header is that of another schema or message."""
