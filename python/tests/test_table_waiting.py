# SPDX-License-Identifier: Apache-2.0
"""Tables: waiting for changes, sleeping and in an event loop (spec/table.md 8)."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from conftest import Child
from flyring import (
    ClosedError,
    InvalidArgumentError,
    Table,
    TimedOutError,
    layout,
)
from flyring.table_check import Walk

CONTROL = layout.HEADER_LENGTH
LONG = 30.0


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=12, key="text", value_bytes=16) as one:
        one["a"] = b"1"
        yield one


def later(work: Callable[[], object], seconds: float = 0.05) -> threading.Thread:
    def run() -> None:
        time.sleep(seconds)
        work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def version_of(table: Table, key: str) -> int:
    found = table.get_versioned(key)
    return found[1] if found else 0


def test_what_is_there_already(table: Table) -> None:
    version = version_of(table, "a")
    assert table.wait_changed("a", 0, timeout=0) == version
    assert table.wait_changed("none", version, timeout=0) == 0
    assert table.wait_changed(0, timeout=0) == table.version


def test_time_out(table: Table) -> None:
    version = version_of(table, "a")
    entry = table.entry("a")
    assert entry is not None
    for wait in (
        lambda: table.wait_changed("a", version, timeout=0.03),
        lambda: table.wait_changed("none", 0, timeout=0.03),
        lambda: table.wait_changed(table.version, timeout=0.03),
        lambda: entry.wait_changed(version, timeout=0.03),
    ):
        began = time.monotonic()
        with pytest.raises(TimedOutError):
            wait()
        assert 0.03 <= time.monotonic() - began < LONG / 2
    with pytest.raises(InvalidArgumentError):
        table.wait_changed("a", version, timeout=-1)
    with pytest.raises(InvalidArgumentError):
        table.wait_changed("a", -1, timeout=0)


def test_key_changes_comes_and_goes(table: Table) -> None:
    with Table.open("t") as other:
        version = version_of(table, "a")
        thread = later(lambda: other.put("a", b"2"))
        assert table.wait_changed("a", version, timeout=LONG) == version_of(table, "a") > version
        thread.join()
        version = version_of(table, "a")
        thread = later(lambda: other.remove("a"))
        assert table.wait_changed("a", version, timeout=LONG) == 0
        thread.join()
        thread = later(lambda: other.put("a", b"3"))
        assert table.wait_changed("a", 0, timeout=LONG) == version_of(table, "a")
        thread.join()


def test_another_key_does_not_end_the_wait(table: Table) -> None:
    version = version_of(table, "a")
    thread = later(lambda: table.put("b", b""))
    with pytest.raises(TimedOutError):
        table.wait_changed("a", version, timeout=0.2)
    thread.join()


def test_any_change_of_the_table(table: Table) -> None:
    for change in (lambda: table.put("a", b"2"), lambda: table.put("b", b""), lambda: table.remove("b")):
        before = table.version
        thread = later(change)
        assert table.wait_changed(before, timeout=LONG) == before + 1
        thread.join()


@pytest.mark.parametrize("kind", ["key", "absent", "table"])
def test_sleeper_is_woken_and_not_by_its_cap(table: Table, child: Callable[..., Child], kind: str) -> None:
    """The fastest of some sleeps is far shorter than the cap of 100 ms."""
    one = child(
        """
        import flyring, sys
        with flyring.Table.open("t") as table, table.writer("child") as writer:
            print("ready", flush=True)
            for line in sys.stdin:
                key, value = line.split()
                writer.remove(key) if value == "-" else writer.put(key, value.encode())
        """
    )
    assert one.line() == "ready"
    fastest = LONG
    for round_ in range(12):
        key = "a" if kind == "key" else "b"
        version, of_table = version_of(table, key), table.version
        say = later(lambda text=f"{key} {round_}": one.say(text), 0.012)  # type: ignore[misc]
        began = time.monotonic()
        if kind == "table":
            table.wait_changed(of_table, timeout=LONG)
        else:
            assert table.wait_changed(key, version, timeout=LONG) == version_of(table, key)
        fastest = min(fastest, time.monotonic() - began)
        say.join()
        if kind == "absent":
            one.say("b -")
            while "b" in table:
                time.sleep(0.001)
    assert fastest < 0.06
    assert one.process.stdin is not None
    one.process.stdin.close()
    one.process.wait()


def test_sleeper_sets_its_bit_and_the_writer_clears_it(table: Table) -> None:
    walk = Walk(table.header, table._memory)
    asleep = walk.at(0) + layout.TABLE_CELL_ASLEEP
    seen: list[int] = []

    def change() -> None:
        seen.append(table._memory.load32(asleep))
        table["a"] = b"2"
        seen.append(table._memory.load32(asleep))

    version = version_of(table, "a")
    thread = later(change, 0.2)
    table.wait_changed("a", version, timeout=LONG)
    thread.join()
    assert seen == [1, 0]
    assert table._memory.load32(CONTROL + layout.TABLE_CONTROL_DATA_ASLEEP) == 0


def test_read_only_and_silent_writers_are_noticed(table: Table) -> None:
    with Table.open("t", read_only=True) as reader, Table.open("t", wake=False) as silent:
        version = version_of(table, "a")
        thread = later(lambda: table.put("a", b"2"), 0.02)
        assert reader.wait_changed("a", version, timeout=LONG)
        thread.join()
        with silent.writer() as writer:
            version = version_of(table, "a")
            thread = later(lambda: writer.put("a", b"3"), 0.02)
            began = time.monotonic()
            assert table.wait_changed("a", version, timeout=LONG)
            assert time.monotonic() - began < LONG / 2
            thread.join()


def test_close_ends_a_wait() -> None:
    with Table.create("t", capacity=12, key="text", value_bytes=16) as table:
        thread = later(table.close)
        with pytest.raises(ClosedError):
            table.wait_changed("a", 0, timeout=LONG)
        thread.join()


@pytest.mark.parametrize("kind", ["key", "absent", "table"])
def test_close_wakes_the_sleepers_of_its_process(kind: str) -> None:
    """The fastest of some closes is far quicker than the cap of 100 ms, and stores nothing."""
    fastest = LONG
    for _ in range(8):
        with Table.replace("t", capacity=12, key="text", value_bytes=16) as table:
            table["a"] = b"1"
            version, of_table, closed = version_of(table, "a"), table.version, [0.0]
            waits = {
                "key": lambda: table.wait_changed("a", version, timeout=LONG),  # noqa: B023
                "absent": lambda: table.wait_changed("b", 0, timeout=LONG),
                "table": lambda: table.wait_changed(of_table, timeout=LONG),  # noqa: B023
            }

            def close() -> None:
                closed[0] = time.monotonic()  # noqa: B023
                table.close()

            with Table.open("t") as other:
                words = other._memory.read(CONTROL + layout.TABLE_CONTROL_DATA_SEQUENCE, 4)
                thread = later(close, 0.03)
                with pytest.raises(ClosedError):
                    waits[kind]()
                fastest = min(fastest, time.monotonic() - closed[0])
                thread.join()
                assert other._memory.read(CONTROL + layout.TABLE_CONTROL_DATA_SEQUENCE, 4) == words
    assert fastest < 0.06


def test_close_ends_a_wait_in_asyncio(table: Table) -> None:
    async def wait() -> float:
        task = asyncio.create_task(table.changed("a"))
        await asyncio.sleep(0.01)
        began = time.monotonic()
        table.close()
        with pytest.raises(ClosedError):
            await asyncio.wait_for(task, LONG)
        return time.monotonic() - began

    assert asyncio.run(wait()) < LONG / 2


def test_cap_is_short_for_a_silent_owner_alone(table: Table) -> None:
    """8: 1 ms if `closed` is 0 and `wakes` is not the epoch."""
    slot = CONTROL + layout.TABLE_CONTROL_SLOT
    closed, wakes = slot + layout.PUBLISHER_SLOT_CLOSED, slot + layout.PUBLISHER_SLOT_WAKES
    memory = table._memory
    with Table.open("t", wake=False) as silent:
        silent["b"] = b""
        assert (memory.load32(closed), memory.load64(wakes)) == (0, 0)
        table["b"] = b"2"
        assert (memory.load32(closed), memory.load64(wakes)) == (0, memory.load64(slot))
        silent.writer("quiet").close()
        assert (memory.load32(closed), memory.load64(wakes)) == (1, 0)
        table["b"] = b"3"  # a single change stores closed 0
        assert (memory.load32(closed), memory.load64(wakes)) == (0, memory.load64(slot))


def test_changed_in_asyncio(table: Table) -> None:
    async def both() -> None:
        with Table.open("t") as other:
            key = asyncio.create_task(table.changed("a"))
            absent = asyncio.create_task(table.changed("b"))
            anything = asyncio.create_task(table.changed())
            await asyncio.sleep(0.03)
            assert not key.done()
            assert not anything.done()
            put = other.put("a", b"2")
            assert await key == put
            assert await anything == put >> 1
            assert not absent.done()
            assert await absent_after(absent, other) == version_of(table, "b")
            assert await table.changed("a", version=0) == put
            with pytest.raises(TimedOutError):
                await table.changed("a", timeout=0.02)
            task = asyncio.create_task(table.changed("a"))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def absent_after(task: asyncio.Task[int], other: Table) -> int:
        other["b"] = b""
        return await task

    descriptors = len(os.listdir("/proc/self/fd"))
    asyncio.run(both())
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_changed_in_trio(table: Table) -> None:
    trio = pytest.importorskip("trio")

    async def wait() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            assert await table.changed("a", timeout=LONG) == version_of(table, "a")

    async def change() -> None:
        await trio.sleep(0.03)
        table["a"] = b"2"

    trio.run(wait)
