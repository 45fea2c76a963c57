# SPDX-License-Identifier: Apache-2.0
"""The publisher of a message (spec/api.md, spec/channel.md 6.14). The C core makes these objects."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sender:
    """The publisher of a message, as ``message.sender`` returns it."""

    ring: int
    """The ring, which has the number of the publisher's slot."""
    name: str
    """The name that the publisher was made with; may be empty."""
    epoch: int
    """Counts the owners that the ring has had. 0, with an empty ``name``: the publisher is not known."""
