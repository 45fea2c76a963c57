# SPDX-License-Identifier: Apache-2.0
"""Tables: a writer that dies at any store, or is stopped or killed; what readers see of it; concurrency with exact
accounting (spec/table.md 3, 5, 7)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import Child
from flyring import NoFreeSlotError, Table, layout
from flyring._core import xxhash64
from flyring.table_check import Walk, broken_rules

CONTROL = layout.HEADER_LENGTH


class DyingWriter:
    """Does the steps of spec/table.md 3, 5 and 7 from Python, and yields after each store, so that the writer can die
    there. It is written from the page alone, without the core."""

    def __init__(self, table: Table) -> None:
        self.header, self.memory = table.header, table._memory
        self.walk = Walk(table.header, table._memory)

    def word(self, offset: int) -> int:
        return self.memory.load64(CONTROL + offset)

    def set64(self, at: int, value: int) -> Iterator[None]:
        self.memory.store64(at, value - 2**64 if value >= 2**63 else value)
        yield

    def set32(self, at: int, value: int) -> Iterator[None]:
        self.memory.store32(at, value - 2**32 if value >= 2**31 else value)
        yield

    def control(self, offset: int, value: int) -> Iterator[None]:
        yield from self.set64(CONTROL + offset, value)

    def write(self, cell: int, key: bytes | None, value: bytes | None) -> Iterator[None]:
        walk = self.walk
        stamp = self.word(layout.TABLE_CONTROL_STAMP) + 1
        yield from self.control(layout.TABLE_CONTROL_STAMP, stamp)
        version = stamp << 1 | 1 - (walk.version(cell) & 1)
        body = walk.body(cell, version & 1)
        yield from self.set64(body + layout.TABLE_BODY_SEQ, 0)
        if key is not None:
            yield from self.set32(walk.at(cell) + layout.TABLE_CELL_KEY_LENGTH, len(key))
            self.memory.write(walk.at(cell) + layout.TABLE_CELL_KEY, key)
            yield
        if value is not None:
            half = len(value) // 2
            self.memory.write(body + layout.TABLE_BODY_VALUE, value[:half])
            yield
            self.memory.write(body + layout.TABLE_BODY_VALUE + half, value[half:])
            yield
        yield from self.set32(body + layout.TABLE_BODY_LENGTH, -1 if value is None else len(value))
        yield from self.set64(body + layout.TABLE_BODY_SEQ, version)
        yield from self.set64(walk.at(cell) + layout.TABLE_CELL_VERSION, version)

    def copies(self) -> list[int]:
        current = self.word(layout.TABLE_CONTROL_GENERATION) & 1
        moves = self.word(layout.TABLE_CONTROL_REBUILD) > self.header.entries
        return [current, 1 - current] if moves else [current]

    def entry_address(self, copy: int, at: int) -> int:
        return self.header.index_offset + copy * self.header.index_stride + 8 * at

    def changed(self) -> Iterator[None]:
        yield from self.control(layout.TABLE_CONTROL_CHANGED, self.word(layout.TABLE_CONTROL_STAMP))

    def put(self, key: bytes, value: bytes) -> Iterator[None]:
        for cell in range(self.header.cells):
            if self.walk.length(cell) >= 0 and self.walk.key(cell) == key:
                yield from self.write(cell, None, value)
                yield from self.changed()
                return
        yield from self.insert(key, value)

    def insert(self, key: bytes, value: bytes) -> Iterator[None]:
        size, top = self.word(layout.TABLE_CONTROL_SIZE), self.memory.load32(CONTROL + layout.TABLE_CONTROL_TOP)
        cell = top - 1 if top else self.memory.load32(CONTROL + layout.TABLE_CONTROL_FRESH)
        entry = (xxhash64(key) >> 32) << 32 | cell + 1
        yield from self.control(layout.TABLE_CONTROL_INTENT_SIZE, size + 1)
        yield from self.control(layout.TABLE_CONTROL_INTENT, entry)
        if top:
            below = self.memory.load32(self.walk.at(cell) + layout.TABLE_CELL_NEXT)
            yield from self.set32(CONTROL + layout.TABLE_CONTROL_TOP, below)
        else:
            yield from self.set32(CONTROL + layout.TABLE_CONTROL_FRESH, cell + 1)
        for copy in self.copies():
            index, at = self.walk.index(copy), (entry >> 32) * self.header.entries >> 32
            while index[at] not in (0, layout.TABLE_TOMBSTONE):
                at = (at + 1) % self.header.entries
            if index[at] == 0:
                name = layout.TABLE_CONTROL_FILLED_OTHER if copy else layout.TABLE_CONTROL_FILLED
                yield from self.control(name, self.word(name) + 1)
            yield from self.set64(self.entry_address(copy, at), entry)
        yield from self.write(cell, key, value)
        yield from self.changed()
        yield from self.control(layout.TABLE_CONTROL_SIZE, size + 1)
        yield from self.control(layout.TABLE_CONTROL_INTENT, 0)

    def remove(self, key: bytes) -> Iterator[None]:
        (cell,) = (c for c in range(self.header.cells) if self.walk.length(c) >= 0 and self.walk.key(c) == key)
        size, entry = self.word(layout.TABLE_CONTROL_SIZE), (xxhash64(key) >> 32) << 32 | cell + 1
        yield from self.control(layout.TABLE_CONTROL_INTENT_SIZE, size)
        yield from self.control(layout.TABLE_CONTROL_INTENT, entry)
        yield from self.write(cell, None, None)
        for copy in self.copies():
            for at in self.walk.places(self.walk.index(copy), entry):
                yield from self.set64(self.entry_address(copy, at), layout.TABLE_TOMBSTONE)
        top = self.memory.load32(CONTROL + layout.TABLE_CONTROL_TOP)
        yield from self.set32(self.walk.at(cell) + layout.TABLE_CELL_NEXT, top)
        yield from self.set32(CONTROL + layout.TABLE_CONTROL_TOP, cell + 1)
        yield from self.changed()
        yield from self.control(layout.TABLE_CONTROL_SIZE, size - 1)
        yield from self.control(layout.TABLE_CONTROL_INTENT, 0)


def die_at(steps: Iterator[None], store: int) -> bool:
    """Does the first stores. Returns whether the change ended before."""
    return all(next(steps, steps) is None for _ in range(store))


CHANGES: dict[str, tuple[Callable[[DyingWriter], Iterator[None]], str, bytes | None, bytes | None]] = {
    "put": (lambda writer: writer.put(b"a", b"new value"), "a", b"old", b"new value"),
    "insert": (lambda writer: writer.put(b"new", b"new value"), "new", None, b"new value"),
    "remove": (lambda writer: writer.remove(b"a"), "a", b"old", None),
}


@pytest.mark.parametrize("moving", [False, True], ids=["", "rebuild"])
@pytest.mark.parametrize("reused", [False, True], ids=["", "reused"])
@pytest.mark.parametrize("change", CHANGES)
def test_writer_dies_at_each_store(change: str, reused: bool, moving: bool) -> None:
    do, key, old, new = CHANGES[change]
    store, ended = 0, False
    while not ended:
        store += 1
        with Table.replace("t", capacity=12, key="text", value_bytes=16) as table:
            for one in ("a", "b", "c", "d", "e"):
                table[one] = b"old"
            if reused:
                del table["b"], table["e"]
            if moving:
                start_rebuild(table)
            expected = dict(table)
            ended = not die_at(do(DyingWriter(table)), store)
            with Table.open("t", read_only=True) as reader:
                seen = reader.get(key)
                assert seen in (old, new), store
                assert {one: value for one, value in reader.items() if one != key} == {
                    one: value for one, value in expected.items() if one != key
                }
                seen_version = reader.version
                with Table.open("t") as other:
                    with other.writer():
                        pass
                    assert [*broken_rules(other)] == [], store
                    assert reader.get(key) == seen, store  # the next writer changes nothing that readers see
                    assert len(reader) == len(list(reader)), store
                    stamp = table._memory.load64(CONTROL + layout.TABLE_CONTROL_STAMP)
                    assert reader.version == stamp >= seen_version, store  # take 4
                    other[key] = b"next"
                    other["z"] = b"z"
                    assert other.remove(key)
                    for number in range(40):  # ends the rebuild, too
                        other["z"] = b"%d" % number
                        other[f"more{number % 3}"] = b""
                    assert [*broken_rules(other)] == [], store
                    assert key not in reader
    assert store > 8


def start_rebuild(table: Table) -> None:
    """Brings the table to a rebuild that moves entries: `rebuild` is above N."""
    filled = layout.HEADER_LENGTH + layout.TABLE_CONTROL_FILLED
    table._memory.store64(filled, table.header.entries)
    for _ in range(2):
        table["a"] = b"old"
    assert table._memory.load64(CONTROL + layout.TABLE_CONTROL_REBUILD) > table.header.entries


def test_killed_writers(child: Callable[..., Child]) -> None:
    """Each child changes the table until it is killed. No value is torn, no version goes back, and the next one goes
    on."""
    code = """
        import flyring, random, sys
        chance = random.Random(int(sys.argv[1]))
        with flyring.Table.open("t") as table, table.writer("child", timeout=10) as writer:
            print("ready", flush=True)
            while True:
                key = chance.randrange(60)
                if chance.random() < 0.3:
                    writer.remove(key)
                else:
                    writer.put(key, bytes([chance.randrange(256)]) * chance.randrange(100))
        """
    with Table.create("t", capacity=60, key="integer", value_bytes=100) as table:
        versions: dict[int, int] = {}
        last = 0
        for seed in range(8):
            one = child(code, str(seed))
            assert one.line() == "ready"
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                for key in range(60):
                    found = table.get_versioned(key)
                    if found is not None:
                        assert len(set(found[0])) <= 1
                        assert found[1] >= versions.get(key, 0)
                        versions[key] = found[1]
                for key, value in table.items():
                    assert 0 <= key < 60
                    assert len(set(value)) <= 1
                assert table.version >= last
                last = table.version
            one.kill()
            before = dict(table)
            with table.writer(timeout=5):
                assert dict(table) == before
                assert [*broken_rules(table)] == []


def test_stopped_writer_holds_writers_but_no_reader(child: Callable[..., Child]) -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["a"] = b"1"
        one = child(
            """
            import flyring
            with flyring.Table.open("t") as table, table.writer("stopped"):
                print("ready", flush=True)
                input()
            """
        )
        assert one.line() == "ready"
        os.kill(one.process.pid, signal.SIGSTOP)
        assert table["a"] == b"1"
        with pytest.raises(NoFreeSlotError) as caught:
            table.put("a", b"2", timeout=0.02)
        assert (caught.value.owners[0].name, caught.value.owners[0].pid) == ("stopped", one.process.pid)
        one.kill()
        assert table.put("a", b"2", timeout=5)
        assert table["a"] == b"2"


def test_two_processes_take_turns(child: Callable[..., Child]) -> None:
    """Single puts of several processes: each adds one to a counter by compare_and_put. None is lost."""
    code = """
        import flyring
        with flyring.Table.open("t") as table:
            done = 0
            while done < 200:
                value, version = table.get_versioned("n")
                if table.compare_and_put("n", version, b"%d" % (int(value) + 1)):
                    done += 1
        print("done", flush=True)
        """
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["n"] = b"0"
        children = [child(code) for _ in range(3)]
        assert [one.line() for one in children] == ["done"] * 3
        assert table["n"] == b"600"
        assert [*broken_rules(table)] == []


def test_exception_in_a_signal_handler_leaves_the_slot_free() -> None:
    def handler(*_: Any) -> None:
        raise InterruptedError

    with Table.create("t", capacity=4, key="text", value_bytes=8) as table, Table.open("t") as other:
        before = signal.signal(signal.SIGALRM, handler)
        try:
            with table.writer():
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                with pytest.raises(InterruptedError):
                    other.put("a", b"1")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert other.put("a", b"2", timeout=0)
        assert table["a"] == b"2"
