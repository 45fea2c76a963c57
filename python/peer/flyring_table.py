# SPDX-License-Identifier: Apache-2.0
"""The ops of a table (interop-tests/PEER.md)."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from uuid import UUID

import flyring
from flyring import Entry, Table, TableWriter
from flyring._identity import Identity
from flyring_service import Answer, BadRequestError, HandlerError, RefusedError, Request
from flyring_stream import NUMBER, Stream, die

OPTIONS = ("capacity", "key", "key_bytes", "value_bytes", "checked", "mode", "any_file_system", "wake")
INJECTED = ("created_at", "pid", "now", "monotonic")
IDS = ("channel_id", "boot_id")
BALL = struct.Struct("<Qq")  # number, time of CLOCK_MONOTONIC in ns
WAYS = ("get", "read", "entry")


def identity_of(request: Request) -> Identity:
    inject = request.get("inject") or {}
    ids = {name: UUID(inject[name]) for name in IDS if inject.get(name) is not None}
    return Identity(**ids, **{name: inject.get(name) for name in INJECTED})


def key_of(table: Table, key: Any) -> Any:
    """Returns the key that a request's JSON stands for."""
    return bytes.fromhex(key) if table.key_type == "bytes" and isinstance(key, str) else key


def json_key(table: Table, key: Any) -> Any:
    return key.hex() if table.key_type == "bytes" else key


class Tables:
    """The part of the peer for tables."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {}
        self.writers: dict[str, TableWriter] = {}
        self.entries: dict[str, Entry] = {}

    def make_table(self, request: Request, make: Callable[..., Table]) -> Answer:
        """Creates, opens or replaces a table."""
        options = {name: request[name] for name in OPTIONS if request.get(name) is not None}
        self.tables[request["table"]] = make(request["name"], _identity=identity_of(request), **options)
        return self.table_info(request)

    def open_table(self, request: Request) -> Answer:
        options = {name: request[name] for name in ("read_only", "any_file_system", "wake") if name in request}
        identity = identity_of(request)
        if "timeout" in request:
            table = Table.wait_for(request["name"], request["timeout"], _identity=identity, **options)
        else:
            table = Table.open(request["name"], _identity=identity, **options)
        self.tables[request["table"]] = table
        return self.table_info(request)

    def table_info(self, request: Request) -> Answer:
        table = self.tables[request["table"]]
        header = table.header
        return {
            "path": table.path,
            "table_id": str(table.id),
            "key_type": table.key_type,
            "key_bytes": header.key_bytes,
            "value_bytes": header.value_bytes,
            "capacity": table.capacity,
            "checked": header.checked,
            "file_length": header.file_length,
        }

    def table_stats(self, request: Request) -> Answer:
        stats = asdict(self.tables[request["table"]].stats())
        return {"stats": stats | {"id": str(stats["id"])}}

    def close_table(self, request: Request) -> None:
        if "writer" in request:
            self.writers[request["writer"]].close()
        else:
            self.tables[request["table"]].close(sync=request.get("sync", False))

    def op_writer(self, request: Request) -> Answer:
        table = self.tables[request["table"]]
        writer = table.writer(request.get("name") or "", timeout=request.get("timeout", 0))
        self.writers[request["writer"]] = writer
        return {"epoch": writer.epoch}

    def op_entry(self, request: Request) -> Answer:
        table = self.tables[request["table"]]
        entry = table.entry(key_of(table, request["key"]))
        if entry is not None:
            self.entries[request["entry"]] = entry
        return {"found": entry is not None}

    def op_get(self, request: Request) -> Answer:
        if "entry" in request:
            entry = self.entries[request["entry"]]
            if request.get("in_place"):
                return {"value": entry.read(lambda view: view.hex())}
            value = entry.get()
            return {"value": None if value is None else value.hex(), "version": entry.version}
        table = self.tables[request["table"]]
        key = key_of(table, request["key"])
        if request.get("in_place"):
            return {"value": table.read(key, lambda view: view.hex())}
        found = table.get_versioned(key)
        return {"value": None, "version": 0} if found is None else {"value": found[0].hex(), "version": found[1]}

    def _changer(self, request: Request) -> tuple[Any, Table, dict[str, Any]]:
        """Returns the writer or table that a request names, its table, and the time-out of a single change."""
        if "writer" in request:
            writer = self.writers[request["writer"]]
            return writer, writer.table, {}
        table = self.tables[request["table"]]
        return table, table, {"timeout": request.get("timeout")}

    def op_put(self, request: Request) -> Answer:
        value = bytes.fromhex(request["value"])
        if "entry" in request:
            # A TableWriter's own entries put.
            entry = self.writers[request["writer"]].entry(self.entries[request["entry"]].key)
            return {
                "version": self.writers[request["writer"]].put(self.entries[request["entry"]].key, value)
                if entry is None
                else entry.put(value)
            }
        target, table, limit = self._changer(request)
        key = key_of(table, request["key"])
        if request.get("if_absent"):
            return {"version": target.put_if_absent(key, value, **limit)}
        if "version" in request:
            return {"version": target.compare_and_put(key, request["version"], value, **limit)}
        return {"version": target.put(key, value, **limit)}

    def op_remove(self, request: Request) -> Answer:
        target, table, limit = self._changer(request)
        return {"removed": target.remove(key_of(table, request["key"]), **limit)}

    def op_update(self, request: Request) -> Answer:
        target, table, limit = self._changer(request)
        bits = bytes.fromhex(request.get("xor", ""))

        def change(value: bytearray) -> None:
            if request.get("throw"):
                raise HandlerError
            for i in range(min(len(bits), len(value))):
                value[i] ^= bits[i]

        key = key_of(table, request["key"])
        try:
            return {"version": target.update(key, change, **limit), "threw": False}
        except HandlerError:
            return {"version": 0, "threw": True}
        except KeyError:
            return {"version": 0, "threw": False}

    def op_clear(self, request: Request) -> Answer:
        target, _, limit = self._changer(request)
        return {"removed": target.clear(**limit)}

    def op_size(self, request: Request) -> Answer:
        table = self.tables[request["table"]]
        return {"size": len(table), "version": table.version}

    def op_each(self, request: Request) -> Answer:
        table = self.tables[request["table"]]
        items = [
            {"key": json_key(table, key), "value": value.hex(), "version": version}
            for key, value, version in table._each()
        ]
        return {"items": items}

    def op_wait_changed(self, request: Request) -> Answer:
        version, timeout = request["version"], request.get("timeout")
        if "entry" in request:
            return {"version": self.entries[request["entry"]].wait_changed(version, timeout)}
        table = self.tables[request["table"]]
        if "key" in request:
            return {"version": table.wait_changed(key_of(table, request["key"]), version, timeout=timeout)}
        return {"version": table.wait_changed(version, timeout=timeout)}

    def op_snapshot(self, request: Request) -> Answer:
        return {"keys": self._changer(request)[0].snapshot(request["path"])}

    def op_grow(self, request: Request) -> Answer:
        target, _, limit = self._changer(request)
        target.grow(request["capacity"], **limit)
        return {}

    def op_sync(self, request: Request) -> Answer:
        self.tables[request["table"]].sync()
        return {}

    def op_put_many(self, request: Request) -> Answer:
        target, table, limit = self._changer(request)
        stream, keys = stream_of(request), keys_of(table, request["keys"])
        first, most, every = request.get("first", 0), request.get("count"), request.get("remove", 0)
        pause = request.get("pause", 0) / 1e9
        start = time.monotonic()
        end = start + request.get("seconds", 60)
        count = removed = version = 0
        while (most is None or count < most) and time.monotonic() < end:
            i = first + count
            value, key = stream.message(i)[1], keys[i % len(keys)]
            if i == request.get("die_at"):
                target.put_if_absent(key, value, **limit)
                target.update(key, lambda _: die(), **limit)
            put = target.put(key, value, **limit)
            if put <= version:
                raise mismatch(i % len(keys), f"version {put} behind {version}")
            version = put
            if every and i % every == every - 1:
                removed += target.remove(keys[(i + len(keys) // 2) % len(keys)], **limit)
            if pause:
                time.sleep(pause)
            count += 1
        return {"count": count, "removed": removed, "version": version, "seconds": time.monotonic() - start}

    def op_get_many(self, request: Request) -> Answer:
        table, how, until = self.tables[request["table"]], request.get("how", "get"), request.get("until", -1)
        if how not in (*WAYS, "each", "wait", "mix"):
            raise BadRequestError(f"how: {how}")
        reader = Reader(table, request)
        end = time.monotonic() + request.get("seconds", 60)
        version, turn = -1, 0
        while True:
            if how == "wait" and turn and not 0 <= until <= version:
                with contextlib.suppress(flyring.TimedOutError):  # the end of the time is looked at below
                    table.wait_changed(version, timeout=max(0.0, end - time.monotonic()))
            version = table.version
            reader.round(how, turn)
            if 0 <= until <= version:
                break
            if time.monotonic() >= end:
                if until < 0:
                    break
                raise RefusedError("timeout", f"the table's version is {version}, not {until}")
            turn += 1
        counts = {name: getattr(reader, name) for name in ("reads", "changes", "absent", "busy")}
        return counts | {"version": version}

    def table_ping_pong(self, request: Request) -> Answer:
        table, how = self.tables[request["table"]], request.get("how", "key")
        if how not in ("key", "table", "absent"):
            raise BadRequestError(f"how: {how}")
        put, get = key_of(table, request["put"]), key_of(table, request["get"])
        count, first, late_from = request["count"], request.get("first", False), request.get("late", 50_000_000)
        start = time.monotonic()
        end = start + request.get("seconds", 60)
        clock, longest, late, seen, pause = time.monotonic_ns, 0, 0, 0, request.get("pause", 0)

        def left() -> float:
            return max(0.0, end - time.monotonic())

        def send(number: int) -> None:
            busy_until = clock() + pause
            while pause and clock() < busy_until:
                pass  # as if it worked for its answer
            table.put(put, BALL.pack(number, clock()), left())

        for number in range(count):
            if first:
                send(number)
            while True:
                before = table.version
                got = table.get_versioned(get)
                if got is not None and got[1] != seen:
                    break
                if how == "table":
                    table.wait_changed(before, timeout=left())
                else:
                    table.wait_changed(get, seen if how == "key" else 0, timeout=left())
            taken = clock()
            value, seen = got
            found, sent = BALL.unpack(value) if len(value) == BALL.size else (-1, 0)
            if found != number:
                raise RefusedError("mismatch", f"message {number} is number {found}", sequence=number, what="number")
            longest = max(longest, taken - sent)
            late += taken - sent >= late_from
            if how == "absent":
                table.remove(get, left())
            if not first:
                send(number)
        return {"count": count, "seconds": time.monotonic() - start, "longest": longest, "late": late}


def stream_of(request: Request) -> Stream:
    return Stream.of(request | {"numbered": True})


def keys_of(table: Table, count: int) -> list[Any]:
    """Returns the keys with the numbers 0 to ``count`` - 1."""
    if table.key_type == "integer":
        return list(range(count))
    if table.key_type == "text":
        return [f"key-{k}" for k in range(count)]
    return [k.to_bytes(8, "little") for k in range(count)]


def mismatch(key: int, what: str) -> RefusedError:
    return RefusedError("mismatch", f"key {key}: {what}", key=key, what=what)


class Reader:
    """The checks and counts of one ``get_many``."""

    def __init__(self, table: Table, request: Request) -> None:
        self.table, self.stream, self.keys = table, stream_of(request), keys_of(table, request["keys"])
        self.may_be_removed = bool(request.get("removes", False))
        self.entries: dict[int, Entry] = {}
        self.versions, self.numbers = [0] * len(self.keys), [0] * len(self.keys)  # of the last read that told them
        self.there = [False] * len(self.keys)  # whether the last read found it
        self.reads = self.changes = self.absent = self.busy = 0

    def round(self, how: str, turn: int) -> None:
        if how == "each":
            self.each()
            return
        for k, key in enumerate(self.keys):
            way = WAYS[(turn + k) % 3] if how == "mix" else how
            self.reads += 1
            try:
                if way == "read":
                    self.in_place(k, self.table.read(key, bytes))
                elif way == "entry":
                    self.by_entry(k, key)
                else:
                    self.check(k, self.table.get_versioned(key))
            except flyring.BusyError:
                self.busy += 1
        if how == "mix" and turn % 3 == 2:
            self.each()

    def each(self) -> None:
        met = [False] * len(self.keys)
        try:
            for key, value, version in self.table._each():
                self.reads += 1
                k = int.from_bytes(value[:NUMBER], "little") % len(self.keys)
                if key != self.keys[k]:
                    raise mismatch(k, f"its value lies under another key, {key!r}")
                if met[k] and not self.may_be_removed:
                    raise mismatch(k, "an iteration met it twice")
                met[k] = True
                self.check(k, (value, version))
        except flyring.BusyError:
            self.busy += 1
            return
        for k, was_met in enumerate(met):
            if self.there[k] and not was_met and not self.may_be_removed:
                raise mismatch(k, "an iteration did not meet it")

    def in_place(self, k: int, value: bytes | None) -> None:
        if value is None:
            self.none(k)
            return
        self.whole(k, value)
        self.there[k] = True

    def by_entry(self, k: int, key: Any) -> None:
        entry = self.entries.get(k) or self.table.entry(key)
        if entry is None:
            self.none(k)
            return
        self.entries[k] = entry
        version = entry.version
        value = entry.get()
        # They are of two reads: the version is that of the value only if it is still the same, and is not 0 (absent).
        if value is None:
            self.none(k)
        elif version != 0 and entry.version == version:
            self.check(k, (value, version))
        else:
            self.in_place(k, value)

    def none(self, k: int) -> None:
        self.absent += 1
        if self.there[k] and not self.may_be_removed:
            raise mismatch(k, "it was there, and is absent")
        self.there[k] = False

    def whole(self, k: int, value: bytes) -> int:
        """Returns the number of the put that the value is of."""
        number = int.from_bytes(value[:NUMBER], "little")
        if len(value) < NUMBER:
            raise mismatch(k, f"{len(value)} bytes")
        if number % len(self.keys) != k:
            raise mismatch(k, f"a value of put {number}")
        if self.stream.message(number)[1] != value:
            raise mismatch(k, f"not whole: put {number}")
        return number

    def check(self, k: int, found: tuple[bytes, int] | None) -> None:
        if found is None:
            self.none(k)
            return
        value, version = found
        number = self.whole(k, value)
        if version < self.versions[k]:
            raise mismatch(k, f"version {version} behind {self.versions[k]}")
        if version == self.versions[k] and number != self.numbers[k]:
            raise mismatch(k, f"version {version} with the values of two puts")
        self.changes += version != self.versions[k]
        self.versions[k], self.numbers[k], self.there[k] = version, number, True
