# SPDX-License-Identifier: Apache-2.0
"""Who published a message (spec/api.md, spec/channel.md 6.14). The C core makes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sender:
    """The owner of a ring: ``message.sender``.

    ``epoch`` counts the owners of the ring; 0, with an empty ``name``: not known. ``name`` is what the publisher was
    made with, and may be empty.
    """

    ring: int
    name: str
    epoch: int
