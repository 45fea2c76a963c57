# SPDX-License-Identifier: Apache-2.0
"""Typed messages in SBE (Simple Binary Encoding), read and written in place (spec/messages.md).

    from flyring import sbe

    prices = sbe.Schema.load("prices.xml")
    update = prices.PriceUpdate.encode(bytearray(100))
    update.bid = 1

With a channel, use ``publisher.claim(prices.PriceUpdate)`` and ``sbe.dispatch({prices.PriceUpdate: on_update})``.
"""

from .._core import Group, dispatch
from .errors import (
    MessageTooShortError,
    OrderError,
    OutOfRangeError,
    SbeError,
    SchemaError,
    SchemaWarning,
    UnknownValueError,
    WrongMessageError,
    WrongTypeError,
)
from .flyweight import Composite, Entry, Message
from .handlers import on
from .json import from_dict, to_dict
from .schema import Schema

__all__ = [
    "Composite",
    "Entry",
    "Group",
    "Message",
    "MessageTooShortError",
    "OrderError",
    "OutOfRangeError",
    "SbeError",
    "Schema",
    "SchemaError",
    "SchemaWarning",
    "UnknownValueError",
    "WrongMessageError",
    "WrongTypeError",
    "dispatch",
    "from_dict",
    "on",
    "to_dict",
]
