# SPDX-License-Identifier: Apache-2.0
"""``flyring info``: the header, slots, positions and counters of a channel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .blocked import blocked, waiting, working
from .fields import fields
from .image import Image, open_image
from .report import print_json, printable, size_text, table, time_text

FIELDS = (
    "minor", "kind", "alignment", "foreign", "capacity", "publishers", "subscribers", "counters", "file_length",
    "created_at", "control_offset", "control_length", "counter_metadata_offset", "counter_metadata_length",
    "counter_values_offset", "counter_values_length", "rings_offset", "ring_stride", "schema_offset", "schema_length",
    "schema_id", "schema_version",
)  # fmt: skip


def info(name: str, as_json: bool, with_fields: bool) -> int:
    """Runs the command. Returns status 1 if attaching to the file would fail."""
    with open_image(name) as image:
        document = describe(image)
        words = list(fields(image)) if with_fields else []
    if as_json:
        print_json(document | {"fields": [asdict(word) for word in words]} if with_fields else document)
    else:
        show(document)
    if words and not as_json:
        rows = [(word.place, word.name, word.offset, word.type, word.value) for word in words]
        print("\n" + table(("PLACE", "FIELD", "OFFSET", "TYPE", "VALUE"), rows))
    return 1 if document["problem"] else 0


def describe(image: Image) -> dict[str, Any]:
    problem, header, look = image.problem, image.header, image.look()
    document: dict[str, Any] = {
        "path": image.path,
        "size": image.size,
        "problem": None if problem is None else {"code": problem.code, "message": str(problem)},
        "header": None,
        "successor": 0,
        "waits": [],
        "another_boot": image.another_boot(),
        "publishers": [],
        "subscribers": [],
        "counters": [],
    }
    if problem is not None and (field := getattr(problem, "field", None)):
        document["problem"]["field"] = field
    if header is not None and look is not None:
        document["header"] = {"id": str(header.channel_id)} | {name: getattr(header, name) for name in FIELDS}
        stats = look.stats(image.path)
        document["successor"] = stats.successor
        if header.is_service:
            document["header"] |= {name: getattr(header, name) for name in ("clients", "delivery", "max_outstanding")}
            document["serving"] = stats.serving
        document["publishers"] = [asdict(one) for one in stats.publishers]
        document["subscribers"] = [asdict(one) for one in stats.subscribers]
        document["waits"] = [*blocked(stats), *waiting(stats), *working(stats)]
        document["counters"] = [asdict(one) | {"key": one.key.rstrip(b"\0").hex()} for one in stats.counters]
    return document


def show(document: dict[str, Any]) -> None:
    print(printable(document["path"]))
    if document["problem"]:
        print(f"NOT A VALID CHANNEL: {printable(document['problem']['message'])}")
    header = document["header"]
    if header is None:
        return
    print(f"  id         {header['id']}, layout 1.{header['minor']}, created {time_text(header['created_at'])}")
    if header["kind"] == "queue":
        print(f"  kind       queue, {header['publishers'] - 1} producers x {header['subscribers'] - 1} workers")
    elif header["kind"] == "service":
        delivery = header["delivery"].replace("-", " ")
        print(f"  kind       service, {header['clients']} clients, {header['max_outstanding']} calls each, {delivery}")
        print(f"  server     {server_text(document)}")
    else:
        print(f"  kind       {header['kind']}, {header['publishers']} publishers x {header['subscribers']} subscribers")
    if header["foreign"]:
        print(f"  agrona     foreign {header['foreign']}: a stock Agrona process, which counts as live")
    print(f"  rings      {size_text(header['capacity'])} each, records aligned to {header['alignment']} bytes")
    print(f"  file       {size_text(header['file_length'])} ({header['file_length']} bytes)")
    if header["schema_length"]:
        version = f"id {header['schema_id']} version {header['schema_version']}"
        print(f"  schema     {version}, {header['schema_length']} bytes")
    if document["another_boot"]:
        print("  boot       last written in another boot, or on another machine")
    if document["successor"]:
        what = "another channel has its name" if document["successor"] == 1 else "its name was removed"
        print(f"  replaced   {what}; processes that are attached to this file still use it")
    show_slots("publisher", document["publishers"])
    show_slots("subscriber", document["subscribers"])
    for line in document["waits"]:
        print(printable(line))
    used = document["counters"]
    print(f"\n{len(used)} of {header['counters']} counters in use")
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


def server_text(document: dict[str, Any]) -> str:
    slot = document["subscribers"][0] if document["subscribers"] else None
    if slot is None or slot["state"] != "live":
        return "none is running"
    serves = "serves" if document["serving"] == slot["epoch"] else "was evicted, or is taking its place"
    return f"{slot['name'] or 'no name'}, pid {slot['pid']}, {serves}"


def lag(gate: dict[str, Any]) -> str:
    """Returns the lag in messages if these are counted, else in bytes."""
    return f"{gate['lag']} bytes" if gate["lag_messages"] < 0 else f"{gate['lag_messages']} messages"
