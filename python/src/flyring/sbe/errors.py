# SPDX-License-Identifier: Apache-2.0
"""The errors of schemas and typed messages. An error in a message names the message and the field, as in
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
    """The base of all errors of schemas and typed messages. Carries ``field``: the path of the field, which begins with
    the message's name, or ""."""

    code = "sbe"

    def __init__(self, message: str, field: str = "") -> None:
        self.field = field
        super().__init__(f"{field}: {message}" if field else message)


class SchemaError(SbeError):
    """A schema is not valid. Carries ``problems``: texts that say where (file, line, element), what is wrong, and what
    to do."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class SchemaWarning(UserWarning):
    """A schema is valid, but probably has a mistake, or cannot be used to generate codecs in another language."""


class OutOfRangeError(SbeError):
    """The value does not fit into the field, or the schema does not allow it."""


class WrongTypeError(SbeError, TypeError):
    """The value has a type that the field does not accept."""


class UnknownValueError(SbeError):
    """The message holds a value that the schema does not know, or text that is invalid in its character encoding."""


class MessageTooShortError(SbeError):
    """The buffer or message ends before the field does."""


class OrderError(SbeError):
    """Groups and data were not written in the schema's order, or some of them, or entries of a group, are missing."""


class WrongMessageError(SbeError):
    """The header belongs to another schema or message."""
