# SPDX-License-Identifier: Apache-2.0
"""``flyring evict``: takes a subscriber slot away from its owner, alive or dead (spec/channel.md 6.11)."""

from __future__ import annotations

from typing import Any

from ..channel import Channel
from .report import print_json


def evict(name: str, slot: int, as_json: bool) -> int:
    with Channel.open(name, any_file_system=True) as channel:
        known = 0 <= slot < channel.subscribers and channel.foreign is None  # else Channel.evict raises the error
        before = owner(channel, slot) if known else {}
        had = channel.evict(slot)
        queue, server = channel.kind == "queue", channel.kind == "service" and slot == 0
    if as_json:
        more: dict[str, Any] = {"job": had == 1} if queue else {"requests": had} if server else {"unread": had}
        print_json({"path": channel.path, "slot": slot, **before} | more)
        return 0
    was = f"{before['name'] or 'no name'}, {'alive' if before['live'] else 'gone'}"
    held = f"held back rings {before['rings']}" if before["rings"] else "held no publisher back"
    if queue:
        job = "had a job, which goes to another worker" if had else "had no job"
        print(f"worker {slot} ({was}) {job}, and is evicted")
        return 0
    if server:
        waiting = "requests wait" if had < 0 else f"{had} requests wait"
        print(f"the server ({was}) is evicted; {waiting} for the next one")
        return 0
    unread = {
        -1: "the number of its unread messages is not known",
        0: "no unread message is lost",
        1: "its 1 unread message is lost",
    }
    lost = unread.get(had, f"its {had} unread messages are lost")
    print(f"subscriber slot {slot} ({was}) {held}, and is evicted; {lost}")
    return 0


def owner(channel: Channel, k: int) -> dict[str, Any]:
    """Describes the slot's owner, before the slot is taken away."""
    slot = channel.stats().subscribers[k]
    rings = [gate.ring for gate in slot.gates]
    return {"name": slot.name, "live": slot.state == "live", "kept": slot.kept, "epoch": slot.epoch, "rings": rings}
