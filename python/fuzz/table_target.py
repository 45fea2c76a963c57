# SPDX-License-Identifier: Apache-2.0
"""Uses each file of a table in all ways in which a process can use it. Only the package's own errors may be raised."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import Any
from uuid import UUID

from target import TOUCHED, of_the_files_boot, write

from flyring import FlyringError, Table
from flyring._identity import Identity
from flyring.table_check import broken_rules

OTHER_BOOT = Identity(boot_id=UUID(int=7))


def run(path: str, content: bytes) -> None:
    """Runs one input. ``path``: a file that only this process uses."""
    write(path, content)
    boot = of_the_files_boot(content)
    with contextlib.suppress(FlyringError), Table.open(path, read_only=True, _identity=boot) as table:
        TOUCHED["table"] += 1
        read(table)
        TOUCHED["broken"] += any(True for _ in broken_rules(table))
    for identity in (boot, OTHER_BOOT):
        write(path, content)
        with contextlib.suppress(FlyringError), Table.open(path, _identity=identity) as table:
            table.writer("first").close()
            TOUCHED["recovered"] += identity is OTHER_BOOT
            for step in (single, held, lambda one: copies(one, path), read):
                with contextlib.suppress(FlyringError):
                    step(table)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(copy_of(path))


def copy_of(path: str) -> str:
    return f"{path}.copy.table"


def tries(*verbs: Callable[[], Any]) -> None:
    for verb in verbs:
        try:
            verb()
        except FlyringError as error:
            TOUCHED[f"table-{error.code}"] += 1
        except KeyError:
            TOUCHED["absent"] += 1


def keys_of(table: Table) -> list[Any]:
    """Keys of which some are there."""
    match table.key_type:
        case "integer":
            return [0, 1, 2, 3, 9, -1, 2**63 - 1]
        case "text":
            return ["", "1", "a", "key 1", "key 3", "new", "Müller"]
        case _:
            return [b"", b"1", b"\1", b"\0\1", bytes(range(7, 14)), b"new"]


def read(table: Table) -> None:
    found: dict[Any, bytes] = {}

    def all_of_them() -> None:
        for key, value in table.items():
            TOUCHED["item"] += 1
            found[key] = value

    tries(all_of_them, lambda: len(table), table.stats, lambda: table.version)
    for key in [*keys_of(table), *list(found)[:5]]:
        tries(
            lambda key=key: table[key],  # type: ignore[misc]
            lambda key=key: table.get_versioned(key),  # type: ignore[misc]
            lambda key=key: table.read(key, lambda view: TOUCHED.update(view=1) or bytes(view)),  # type: ignore[misc]
            lambda key=key: table.wait_changed(key, 0, timeout=0),  # type: ignore[misc]
            lambda key=key: touch_entry(table.entry(key)),  # type: ignore[misc]
        )


def touch_entry(entry: Any) -> None:
    if entry is not None:
        TOUCHED["entry"] += 1
        entry.get(), entry.version, entry.read(bytes)


def single(table: Table) -> None:
    for key in keys_of(table):
        value = bytes(table.header.value_bytes % 50)
        tries(
            lambda key=key, value=value: TOUCHED.update(put=bool(table.put(key, value, timeout=0))),  # type: ignore[misc]
            lambda key=key: table.update(key, lambda value: None, timeout=0),  # type: ignore[misc]
            lambda key=key: table.compare_and_put(key, 0, b"", timeout=0),  # type: ignore[misc]
            lambda key=key: TOUCHED.update(removed=table.remove(key, timeout=0)),  # type: ignore[misc]
        )


def held(table: Table) -> None:
    """Many changes under one slot, so that rebuilds begin and end, and the table is full."""
    keys = keys_of(table)
    with table.writer("fuzz") as writer:
        TOUCHED["table-writer"] += 1
        for turn in range(60):
            key = {int: turn, str: str(turn), bytes: b"%d" % turn}[type(keys[0])]
            tries(lambda key=key: writer.put(key, b""))  # type: ignore[misc]
            if turn % 3 == 0:
                tries(lambda key=key: writer.remove(key))  # type: ignore[misc]
        tries(lambda: TOUCHED.update(cleared=writer.clear()))
        tries(lambda: writer.put(keys[0], b""))


def copies(table: Table, path: str) -> None:
    tries(
        lambda: TOUCHED.update(snapshot=bool(table.snapshot(copy_of(path)) + 1)),
        lambda: table.grow(table.capacity + 1) or TOUCHED.update(grown=1),
        table.sync,
    )


warnings.simplefilter("ignore", RuntimeWarning)  # of damaged cells
