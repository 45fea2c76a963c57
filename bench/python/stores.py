# SPDX-License-Identifier: Apache-2.0
"""Other stores for scenario `map`. Files lie in shared memory, as Flyring's does, and no store waits for a disk."""

from __future__ import annotations

import importlib.metadata
import itertools
import multiprocessing.managers
import os
import platform
import sqlite3
from collections.abc import Callable
from typing import Any

from harness import Setup
from map_runner import Map, value_of

TOGETHER = 10_000  # keys that are filled in with one call


def packed(key: int) -> bytes:
    return key.to_bytes(8, "little", signed=True)


class Lmdb(Map):
    """LMDB with writemap and without sync. Each get is a read transaction, each put a write transaction, as py-lmdb's
    documentation shows it."""

    beside = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.producer:
            self.join()

    def join(self) -> None:
        import lmdb

        size = max(1024 * int(self.setup.options["keys"]), 1 << 26)
        path = self.setup.path("map.lmdb")
        self.environment = lmdb.open(path, map_size=size, subdir=False, writemap=True, sync=False)

    def fill(self, keys: list[int]) -> None:
        with self.environment.begin(write=True) as change:
            for key in keys:
                change.put(packed(key), value_of(key, 0))

    def getter(self) -> Callable[[int], Any]:
        begin = self.environment.begin

        def get(key: int) -> bytes | None:
            with begin() as read:
                found: bytes | None = read.get(key.to_bytes(8, "little", signed=True))
                return found

        return get

    def putter(self) -> Callable[[int, bytes], Any]:
        begin = self.environment.begin

        def put(key: int, value: bytes) -> None:
            with begin(write=True) as change:
                change.put(key.to_bytes(8, "little", signed=True), value)

        return put

    def close(self) -> None:
        if self.setup.producer:
            self.environment.close()

    def version(self) -> str:
        return f"py-lmdb {importlib.metadata.version('lmdb')}"


class Sqlite(Map):
    """SQLite with a write-ahead log and synchronous OFF; each statement is a transaction."""

    beside = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.producer:
            self.join()
            self.database.execute("CREATE TABLE map (key INTEGER PRIMARY KEY, value BLOB NOT NULL)")

    def join(self) -> None:
        self.database = sqlite3.connect(self.setup.path("map.sqlite"), isolation_level=None)
        for what in ("journal_mode = WAL", "synchronous = OFF", "mmap_size = 17179869184"):
            self.database.execute(f"PRAGMA {what}")

    def fill(self, keys: list[int]) -> None:
        self.database.execute("BEGIN")
        self.database.executemany("INSERT INTO map VALUES (?, ?)", ((key, value_of(key, 0)) for key in keys))
        self.database.execute("COMMIT")

    def getter(self) -> Callable[[int], Any]:
        execute = self.database.execute

        def get(key: int) -> bytes | None:
            row = execute("SELECT value FROM map WHERE key = ?", (key,)).fetchone()
            return None if row is None else row[0]

        return get

    def putter(self) -> Callable[[int, bytes], Any]:
        execute = self.database.execute
        return lambda key, value: execute("UPDATE map SET value = ? WHERE key = ?", (value, key))

    def close(self) -> None:
        if self.setup.producer:
            self.database.close()

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}, Python {platform.python_version()}"


class Redis(Map):
    """A Redis server on a Unix socket (bench/redis_server.py). One call is one round trip. redis-py with hiredis."""

    beside = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.producer:
            self.join()

    def join(self) -> None:
        import redis

        self.redis: Any = redis.Redis(unix_socket_path=self.setup.path("redis.sock"))

    def fill(self, keys: list[int]) -> None:
        rest = iter(keys)
        while part := list(itertools.islice(rest, TOGETHER)):
            self.redis.mset({packed(key): value_of(key, 0) for key in part})

    def handles(self, sequence: list[int]) -> list[Any]:
        return [packed(key) for key in sequence]

    def getter(self) -> Callable[[Any], Any]:
        found: Callable[[Any], Any] = self.redis.get
        return found

    def lookup(self, keys: list[Any]) -> Any:
        together = int(self.setup.options["outstanding"])
        value = None
        for at in range(0, len(keys), together):
            questions = self.redis.pipeline(transaction=False)
            for key in keys[at : at + together]:
                questions.get(key)
            value = questions.execute()[-1]
        return value

    def putter(self) -> Callable[[int, bytes], Any]:
        put = self.redis.set
        return lambda key, value: put(key.to_bytes(8, "little", signed=True), value)

    def close(self) -> None:
        if self.setup.producer:
            self.redis.close()

    def version(self) -> str:
        return f"redis-py {importlib.metadata.version('redis')}"


def unpin() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


class ManagerDict(Map):
    """The dict of a multiprocessing.Manager: it lies in a process of its own, which may use any core. One call is one
    round trip."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.producer:
            self.manager = multiprocessing.managers.SyncManager()
            self.manager.start(unpin)
            self.map: Any = self.manager.dict()

    def fill(self, keys: list[int]) -> None:
        rest = iter(keys)
        while part := list(itertools.islice(rest, TOGETHER)):
            self.map.update({key: value_of(key, 0) for key in part})

    def getter(self) -> Callable[[int], Any]:
        found: Callable[[int], Any] = self.map.get
        return found

    def putter(self) -> Callable[[int, bytes], Any]:
        found: Callable[[int, bytes], Any] = self.map.__setitem__
        return found

    def close(self) -> None:
        if self.setup.producer:
            self.manager.shutdown()

    def version(self) -> str:
        return f"Python {platform.python_version()}"


class SharedMemoryDict(Map):
    """shared-memory-dict: the whole dict lies pickled in shared memory. Each get unpickles all of it, each put pickles
    it again; without a lock, as it comes."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.producer:
            from shared_memory_dict import SharedMemoryDict as Shared

            self.map: Any = Shared(name=setup.unique("map"), size=200 * int(setup.options["keys"]) + 4096)

    def fill(self, keys: list[int]) -> None:
        self.map.update({key: value_of(key, 0) for key in keys})

    def getter(self) -> Callable[[int], Any]:
        found: Callable[[int], Any] = self.map.get
        return found

    def putter(self) -> Callable[[int, bytes], Any]:
        found: Callable[[int, bytes], Any] = self.map.__setitem__
        return found

    def close(self) -> None:
        if self.setup.producer:
            self.map.shm.close()
            self.map.shm.unlink()

    def version(self) -> str:
        return f"shared-memory-dict {importlib.metadata.version('shared-memory-dict')}"
