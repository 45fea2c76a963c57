# SPDX-License-Identifier: Apache-2.0
"""``flyring info``: the header, slots, positions and counters of a channel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..stats import Stats
from .blocked import blocked, unheard, waiting, working
from .fields import fields
from .image import Image, open_image
from .report import print_json, printable, size_text, table, time_text

VERSION = 1
"""Of the JSON document. A new field keeps it; a field that changes or goes raises it."""
FILE = (
    "minor", "file_length", "counters", "control_offset", "control_length", "counter_metadata_offset",
    "counter_metadata_length", "counter_values_offset", "counter_values_length", "rings_offset", "ring_stride",
    "schema_offset", "schema_length", "schema_id", "schema_version",
)  # fmt: skip


def info(name: str, as_json: bool, with_fields: bool) -> int:
    """Runs the command. Returns status 1 if attaching to the file would fail."""
    with open_image(name) as image:
        look = image.look()
        stats = look.stats(image.path) if look else None
        file = describe(image)
        words = list(fields(image)) if with_fields else []
    if as_json:
        told = (
            stats.as_dict()
            if stats
            else {"path": image.path, "publishers": [], "subscribers": [], "counters": [], "heartbeats": []}
        )
        document = {"version": VERSION, **told, "file": file}
        print_json(document | {"fields": [asdict(word) for word in words]} if with_fields else document)
    else:
        show(image.path, stats, file)
    if words and not as_json:
        rows = [(word.place, word.name, word.offset, word.type, word.value) for word in words]
        print("\n" + table(("PLACE", "FIELD", "OFFSET", "TYPE", "VALUE"), rows))
    return 1 if file["problem"] else 0


def describe(image: Image) -> dict[str, Any]:
    """Returns what Stats does not have, because it is about the file and not about its users."""
    problem = image.problem
    document: dict[str, Any] = {
        "size": image.size,
        "problem": None if problem is None else {"code": problem.code, "message": str(problem)},
        "another_boot": image.another_boot(),
    }
    if problem is not None and (field := getattr(problem, "field", None)):
        document["problem"]["field"] = field
    if image.header is not None:
        document |= {name: getattr(image.header, name) for name in FILE}
    return document


def show(path: str, stats: Stats | None, file: dict[str, Any]) -> None:
    print(printable(path))
    if file["problem"]:
        print(f"NOT A VALID CHANNEL: {printable(file['problem']['message'])}")
    if stats is None:
        return
    print(f"  id         {stats.id}, layout 1.{file['minor']}, created {time_text(stats.created_at)}")
    if stats.kind == "queue":
        print(f"  kind       queue, {len(stats.publishers) - 1} producers x {len(stats.subscribers) - 1} workers")
    elif stats.kind == "service":
        delivery = stats.delivery.replace("-", " ")
        print(f"  kind       service, {stats.clients} clients, {stats.max_outstanding} calls each, {delivery}")
        print(f"  server     {server_text(stats)}")
    else:
        print(f"  kind       {stats.kind}, {len(stats.publishers)} publishers x {len(stats.subscribers)} subscribers")
    if stats.foreign:
        print(f"  agrona     foreign {stats.foreign}: a stock Agrona process, which counts as live")
    print(f"  rings      {size_text(stats.capacity)} each, records aligned to {stats.alignment} bytes")
    print(f"  file       {size_text(file['file_length'])} ({file['file_length']} bytes)")
    if file["schema_length"]:
        print(f"  schema     id {file['schema_id']} version {file['schema_version']}, {file['schema_length']} bytes")
    if file["another_boot"]:
        print("  boot       last written in another boot, or on another machine")
    if stats.successor:
        what = "another channel has its name" if stats.successor == 1 else "its name was removed"
        print(f"  replaced   {what}; processes that are attached to this file still use it")
    document = stats.as_dict()
    show_slots("publisher", document["publishers"])
    show_slots("subscriber", document["subscribers"])
    for line in (*blocked(stats), *unheard(stats), *waiting(stats), *working(stats)):
        print(printable(line))
    hearts = document["heartbeats"]
    if hearts:
        print(f"\n{len(hearts)} heartbeat{'s' * (len(hearts) != 1)}")
        beating = [(h["id"], h["name"], h["pid"], promised(h["interval"]), time_text(h["started_at"]), h["beats"])
                   for h in hearts]  # fmt: skip
        print(table(("ID", "NAME", "PID", "PROMISE", "BEGAN", "BEATS"), beating))
    used = document["counters"]
    print(f"\n{len(used)} of {file['counters']} counters in use")
    if used:
        rows = [(c["id"], c["type_id"], c["value"], c["key"] or "-", c["label"]) for c in used]
        print(table(("ID", "TYPE", "VALUE", "KEY", "LABEL"), rows))


def show_slots(kind: str, slots: list[dict[str, Any]]) -> None:
    # Slot 0 of an inbox is kept from creation, so it is shown even before its first owner.
    used = [slot for slot in slots if slot["state"] != "unused" or slot.get("kept") or slot.get("gates")]
    print(f"\n{len(used)} of {len(slots)} {kind} slots used")
    if not used:
        return
    titles: tuple[str, ...] = ("SLOT", "STATE", "NAME", "PID", "EPOCH", "ATTACHED")
    titles += ("START", "PUBLISHED", "CLAIMED", "MESSAGES") if kind == "publisher" else ("KEPT", "RING:GATE (LAG)")
    if any(slot.get("outstanding", -1) >= 0 for slot in slots):  # of a service
        titles += ("OUTSTANDING", "EXPIRED")
    print(table(titles, [row(kind, slot)[: len(titles)] for slot in used]))


def row(kind: str, slot: dict[str, Any]) -> tuple[object, ...]:
    epoch = "changing" if slot["epoch"] == -1 else slot["epoch"]
    common = (slot["slot"], slot["state"], slot["name"] or "-", slot["pid"], epoch, time_text(slot["attached_at"]))
    if kind == "publisher":
        return (*common, *("-" if slot[f] == -1 else slot[f] for f in ("start", "published", "claimed", "messages")))
    gates = ", ".join(f"{g['ring']}:{g['position']} ({lag(g)})" for g in slot["gates"])
    kept = ("yes" if slot["kept"] else "no") + (", evicted" if slot["evicting"] else "")
    calls = ("-" if slot[field] < 0 else slot[field] for field in ("outstanding", "expired"))
    return (*common, kept, gates or "-", *calls)


def promised(interval: int) -> str:
    return f"{interval / 1e9:g} s" if interval else "-"


def server_text(stats: Stats) -> str:
    slot = stats.subscribers[0] if stats.subscribers else None
    if slot is None or slot.state != "live":
        return "none is running"
    serves = "serves" if stats.serving == slot.epoch else "was evicted, or is taking its place"
    return f"{slot.name or 'no name'}, pid {slot.pid}, {serves}"


def lag(gate: dict[str, Any]) -> str:
    """Returns the lag in messages if these are counted, else in bytes."""
    return f"{gate['lag']} bytes" if gate["lag_messages"] < 0 else f"{gate['lag_messages']} messages"
