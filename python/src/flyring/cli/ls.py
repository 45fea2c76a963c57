# SPDX-License-Identifier: Apache-2.0
"""``flyring ls``: the channels of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..errors import FlyringError, NoSuchChannelError
from ..stats import PublisherStats
from ..system import check_folder, default_folder, failed
from .image import open_image
from .report import age_text, print_json, printable, size_text, table

SUFFIX = ".ring"
TABLES = ".table"
JOURNALS = ".journal"


def ls(folder: str | None, as_json: bool) -> int:
    """Runs the command. Returns status 1 if a ``.ring`` file is not a valid channel."""
    where = folder or os.environ.get("FLYRING_DIR") or default_folder()
    channels: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for name in sorted(entries(where, must_exist=folder is not None)):
        path = os.path.join(os.path.abspath(where), name)
        try:
            found = describe(path)
        except NoSuchChannelError:
            continue  # unlinked meanwhile
        except FlyringError as error:
            found = {"path": path, "code": error.code, "reason": str(error)}
        (others if "reason" in found else channels).append({"name": name.removesuffix(SUFFIX), **found})
    tables = [name.removesuffix(TABLES) for name in sorted(entries(where, must_exist=False, suffix=TABLES))]
    journals = [name.removesuffix(JOURNALS) for name in sorted(entries(where, must_exist=False, suffix=JOURNALS))]
    if as_json:
        print_json({"folder": where, "channels": channels, "not_whole": others, "tables": tables, "journals": journals})
    else:
        show(where, channels, others)
        if tables:
            print(f"{len(tables)} table{'s' * (len(tables) != 1)} besides: flyring table ls")
        if journals:
            print(f"{len(journals)} journal{'s' * (len(journals) != 1)} besides: flyring journal ls")
    return 1 if others else 0


def entries(folder: str, must_exist: bool, suffix: str | tuple[str, ...] = SUFFIX) -> list[str]:
    check_folder(os.path.join(folder, "x"), create=False)
    try:
        return [name for name in os.listdir(folder) if name.endswith(suffix)]
    except FileNotFoundError as error:
        if must_exist:
            raise failed("listdir", error, folder) from error
        return []  # the first channel makes the folder
    except OSError as error:
        raise failed("listdir", error, folder) from error


def describe(path: str) -> dict[str, Any]:
    with open_image(path) as image:
        header, look = image.header, image.look()
        if image.problem is not None or header is None or look is None:
            problem = image.problem
            return {"path": path, "code": problem.code if problem else "", "reason": str(problem)}
        stats, file_length = look.stats(path), header.file_length
    return {
        "path": path,
        "id": str(stats.id),
        "kind": stats.kind,
        "foreign": stats.foreign,
        "publishers": len(stats.publishers),
        "subscribers": len(stats.subscribers),
        "capacity": stats.capacity,
        "live_publishers": sum(ring.state in ("live", "foreign") for ring in stats.publishers),
        "live_subscribers": sum(slot.state in ("live", "foreign") for slot in stats.subscribers),
        "messages": None if stats.foreign == "publisher" else published(stats.publishers),
        "blocked": [ring.slot for ring in stats.publishers if ring.blocked_since],
        "file_length": file_length,
        "created_at": stats.created_at,
    }


def published(rings: Iterable[PublisherStats]) -> int:
    """Returns how many messages publishers have published. Released jobs in the returns ring do not count again."""
    return sum(max(0, ring.messages) for ring in rings if ring.state != "returns")


def dimensions(channel: dict[str, Any]) -> str:
    """Returns the dimensions as text. Leaves out the returns ring and the shared slot of a queue."""
    if channel["kind"] == "service":
        return f"{channel['publishers'] // 2} clients"
    more = 1 if channel["kind"] == "queue" else 0
    return f"{channel['publishers'] - more} x {channel['subscribers'] - more}"


def show(folder: str, channels: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    if not channels and not others:
        print(f"there is no channel in {printable(folder)}")
    if channels:
        rows = [
            (
                one["name"],
                one["kind"] + (f", foreign {one['foreign']}" if one["foreign"] else ""),
                dimensions(one),
                size_text(one["capacity"]),
                f"{one['live_publishers']} / {one['live_subscribers']}",
                "-" if one["messages"] is None else one["messages"],
                size_text(one["file_length"]),
                len(one["blocked"]) or "-",
                age_text(one["created_at"]),
            )
            for one in channels
        ]
        print(
            table(
                ("NAME", "KIND", "PUB x SUB", "CAPACITY", "LIVE PUB / SUB", "MESSAGES", "SIZE", "BLOCKED", "AGE"), rows
            )
        )
    for one in others:
        print(f"not valid: {printable(one['reason'])}")
