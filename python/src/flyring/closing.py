# SPDX-License-Identifier: Apache-2.0
"""Objects that close themselves: as a context manager, or with a warning when they are garbage-collected."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Self


class Context:
    """The base of objects that are context managers: the end of a ``with`` block closes them."""

    __slots__ = ()

    if TYPE_CHECKING:

        def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Closing(Context):
    """The base of channels, publishers, subscribers and so on, which have ``close()`` and ``closed``."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def closed(self) -> bool: ...

    def __del__(self) -> None:
        if not self.closed:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:  # close even if warnings are errors
                self.close()
