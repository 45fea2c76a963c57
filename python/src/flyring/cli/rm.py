# SPDX-License-Identifier: Apache-2.0
"""``flyring rm``: removes the names of channels. Attached processes keep their file (spec/channel.md 3.2)."""

from __future__ import annotations

import sys

from ..channel import unlink
from ..errors import FlyringError
from ..system import channel_path
from .image import open_image
from .report import print_json, printable


def rm(names: list[str], force: bool, as_json: bool) -> int:
    """Runs the command. Returns status 1 if a name was refused: it does not exist, it is not a channel, or a process
    owns a slot of it."""
    done = [remove(name, force) for name in names]
    if as_json:
        print_json({"channels": done})
    for one in done:
        if one["error"] is not None:
            print(f"flyring: {printable(str(one['error']))}", file=sys.stderr)
        elif not as_json:
            print(f"{printable(str(one['path']))}: removed")
    return 1 if any(one["error"] is not None for one in done) else 0


def remove(name: str, force: bool) -> dict[str, object]:
    path = name
    try:
        path = channel_path(name)
        if not force and (owners := attached(path)):
            return {"path": path, "error": f"{path} is in use by {owners}; stop them, or give --force"}
        unlink(path)
    except (FlyringError, OSError) as error:
        return {"path": path, "error": str(error)}
    return {"path": path, "error": None}


def attached(path: str) -> str:
    """Returns the owners of the file's slots as text; empty if there are none, or the file is not a valid channel."""
    with open_image(path) as image:
        look = image.look()
        if look is None:
            return ""
        stats = look.stats(path)
        slots = [("publisher", one) for one in stats.publishers] + [("subscriber", one) for one in stats.subscribers]
        owned = [f"{kind} {s.name or s.slot} (pid {s.pid})" for kind, s in slots if s.state == "live"]
    return ", ".join(owned[:8]) + (f" and {len(owned) - 8} more" if len(owned) > 8 else "")
