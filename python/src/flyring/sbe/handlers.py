# SPDX-License-Identifier: Apache-2.0
"""Handlers of messages, for ``dispatch``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .flyweight import Message

if TYPE_CHECKING:
    from .. import _core
    from ..action import Action

    Handler = Callable[[Any, _core.Message], Action | None]

_Message = TypeVar("_Message", bound=Message)


def on(
    message: type[_Message], handler: Callable[[_Message, _core.Message], Action | None]
) -> dict[type[Any], Handler]:
    """Returns a dict with one entry for ``dispatch``: ``dispatch(on(Trade, on_trade) | on(Book, on_book))``.

    Unlike a dict literal, this lets a type checker compare each handler with its message class.
    """
    return {message: handler}
