# SPDX-License-Identifier: Apache-2.0
"""One message: what ``poll`` hands out in place and ``take`` copies (spec/api.md)."""

from ._core import Message
from .sender import Sender

__all__ = ["Message", "Sender"]
