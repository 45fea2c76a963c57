# SPDX-License-Identifier: Apache-2.0
"""Tables: snapshots; larger and other tables in the place of one (spec/table.md 7, 9)."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Child
from flyring import (
    ChannelReplacedError,
    ClosedError,
    FlyringError,
    InvalidArgumentError,
    IoError,
    NoFreeSlotError,
    NoSuchChannelError,
    Table,
    layout,
    system,
    table_base,
)
from flyring._identity import Identity
from flyring.table_base import TableWalk
from flyring.table_check import Walk, broken_rules
from test_table_waiting import LONG, later, version_of

CONTROL = layout.HEADER_LENGTH


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=12, key="text", value_bytes=16) as one:
        one["a"] = b"1"
        yield one


def successor_of(table: Table) -> int:
    return table._memory.load32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR)


# Snapshot


def made(**options: Any) -> Table:
    wanted: dict[str, Any] = {"capacity": 20, "key": "text", "value_bytes": 40, "checked": True, **options}
    return Table.replace("t", **wanted)


def test_a_snapshot_never_replaces_its_own_table(table: Table, folder: Path) -> None:
    os.symlink(folder, folder / "link")
    for path in ("t", table.path, str(folder / "link" / "t.table")):
        with pytest.raises(InvalidArgumentError, match="path: it is the table itself"):
            table.snapshot(path)
        with table.writer() as writer, pytest.raises(InvalidArgumentError, match="path"):
            writer.snapshot(path)
    with Table.open("t") as again:
        assert (again.id, again["a"]) == (table.id, b"1")


def test_a_snapshot_has_the_mode_of_its_table(folder: Path) -> None:
    with made(mode=0o640) as table:
        table.snapshot("s")
    assert (folder / "s.table").stat().st_mode & 0o777 == 0o640


def test_snapshot(folder: Path) -> None:
    with made(checked=False) as table:
        for number in range(20):
            table[str(number)] = b"value %d" % number
        for number in range(0, 20, 3):
            del table[str(number)]
        expected = {key: table.get_versioned(key) for key in table}
        with table.writer() as writer:
            assert writer.snapshot("s") == len(expected)
        assert table.snapshot(folder / "p.table") == len(expected)
        assert not [one for one in folder.iterdir() if one.name.endswith(".tmp")]
        for name in ("s", "p"):
            with Table.open(name, _identity=Identity(boot_id=uuid.uuid4())) as copy:
                assert {key: copy.get_versioned(key) for key in copy} == expected
                assert (copy.version, copy.stats().clean, len(copy)) == (table.version, True, len(expected))
                assert copy.id != table.id
                assert [*broken_rules(copy)] == []
                assert copy.put("new", b"") >> 1 == table.version + 1
        table["1"] = b"changed"
        assert table.snapshot("s") == len(expected)
        with Table.open("s") as copy:
            assert copy["1"] == b"changed"


def test_failed_snapshot_leaves_nothing(folder: Path) -> None:
    with made() as table:
        table["a"] = b"1"
        walk = Walk(table.header, table._memory)
        table._memory.store32(walk.at(0) + layout.TABLE_CELL_KEY_LENGTH, -1)
        with pytest.raises(Exception, match="corrupt"):
            table.snapshot("s")
        assert sorted(one.name for one in folder.iterdir()) == ["t.table"]


# Grow and replace


def test_grow_keeps_keys_and_versions(table: Table) -> None:
    for number in range(11):
        table[str(number)] = b"v"
    before, stamp = {key: table.get_versioned(key) for key in table}, table.version
    table_id = table.id
    with Table.open("t") as other, Table.open("t", read_only=True) as reader:
        entry = other.entry("a")
        assert entry is not None
        table.grow(100)
        for one in (table, other, reader):
            assert ({key: one.get_versioned(key) for key in one}, one.version) == (before, stamp)
            assert (one.capacity, one.id) == (100, table_id)
        for number in range(80):
            other[f"more {number}"] = b""
        assert len(table) == len(before) + 80
        table["a"] = b"in the new file"
        assert (entry.get(), reader["a"]) == (b"in the new file",) * 2
        assert [*broken_rules(table)] == []
    with pytest.raises(InvalidArgumentError):
        table.grow(99)


def held(folder: Path) -> tuple[int, int]:
    """How many descriptors and mappings of files in the folder this process has."""
    descriptors = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own descriptor
            descriptors += os.readlink(link).startswith(str(folder))
    maps = Path("/proc/self/maps").read_text().splitlines()
    return descriptors, sum(str(folder) in line for line in maps)


def test_a_table_that_grows_lets_its_old_files_go(folder: Path) -> None:
    with (
        Table.create("t", capacity=8, key="text", value_bytes=16) as table,
        Table.open("t") as other,
        Table.open("t", read_only=True) as reader,
    ):
        table["a"] = b"1"
        entry = other.entry("a")
        assert entry is not None
        with table.writer() as writer:
            writer.grow(8)  # gives up the description of single changes
            assert (len(other), reader["a"]) == (1, b"1")
            before = held(folder)
            for i in range(100):
                writer.grow(9 + i)
                assert (len(other), reader["a"]) == (1, b"1")
                assert held(folder) == before
                assert entry.get() == b"1"
        other.grow(109)
        assert (table["a"], reader["a"]) == (b"1", b"1")
        after = held(folder)
        for i in range(101, 200):
            other.grow(9 + i)
            assert (table["a"], reader["a"]) == (b"1", b"1")
            assert held(folder) == after
    assert held(folder) == (0, 0)


def test_threads_read_on_while_another_grows_their_table() -> None:
    with Table.create("t", capacity=8, key="text", value_bytes=16) as table, Table.open("t") as other:
        for i in range(8):
            table[str(i)] = b"value %d" % i
        end, failures = threading.Event(), []
        entry = table.entry("3")
        assert entry is not None

        def again(what: Callable[[int], bool]) -> threading.Thread:
            def turns() -> None:
                turn = 0
                while not end.is_set():
                    if not what(turn % 8):
                        failures.append(what)
                        return
                    turn += 1

            thread = threading.Thread(target=turns)
            thread.start()
            return thread

        def put(turn: int) -> bool:
            table[str(turn)] = b"value %d" % turn
            table.sync()
            return True

        threads = [
            again(lambda turn: table[str(turn)] == b"value %d" % turn and "absent" not in table),
            again(lambda _: entry.get() == b"value 3"),
            again(lambda _: len(table) == 8 and table.stats().size == 8 and table.version >= 8),
            again(lambda _: sorted(table) == list("01234567")),
            again(lambda _: table.wait_changed("5", 0, timeout=LONG) > 0),
            again(put),
        ]
        try:
            for i in range(40):
                (table if i % 2 else other).grow(9 + i)
        finally:
            end.set()
            for thread in threads:
                thread.join()
        assert not failures


def test_grow_keeps_id_time_and_mode_and_marks_the_old_file(table: Table) -> None:
    os.chmod(table.path, 0o640)
    header, old = table.header, table._memory
    with Table.open("t", read_only=True) as reader:
        old_words = reader._memory
        table.grow(30)
        assert old_words.load32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR) == layout.SUCCESSOR_REPLACED
        assert (table.header.table_id, table.header.created_at) == (header.table_id, header.created_at)
        assert (os.stat(table.path).st_mode & 0o777, successor_of(table)) == (0o640, 0)
        assert table._memory is not old
        assert reader["a"] == b"1"
        assert reader.header == table.header


def test_grow_that_was_killed_before_its_rename(table: Table) -> None:
    """The file still has its name: the next owner of the slot takes the hint back."""
    for take in (lambda: table.put("b", b""), lambda: table.writer().close()):
        table._memory.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, layout.SUCCESSOR_REPLACED)
        assert table["a"] == b"1"
        assert successor_of(table) == layout.SUCCESSOR_REPLACED  # a reader changes nothing
        take()
        assert successor_of(table) == 0


def test_table_that_lost_its_name_does_not_grow(table: Table, folder: Path) -> None:
    with table.writer() as writer:
        other = Table.replace("t", capacity=20, key="text", value_bytes=table.header.value_bytes)
        for _ in range(3):
            with pytest.raises(ChannelReplacedError):
                writer.grow(40)
        with Table.open("t") as found:
            assert found.id == other.id
        assert writer.put("b", b"2")  # in the old file
    with pytest.raises(ChannelReplacedError):
        table.grow(40)
    with other:
        Table.unlink("t")
        with pytest.raises(NoSuchChannelError):
            other.grow(40)
        with other.writer() as held:
            with pytest.raises(NoSuchChannelError):
                held.grow(40)
            assert held.put("b", b"2")
        assert list(folder.iterdir()) == []


def test_failed_grow_changes_nothing(table: Table, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    with table.writer() as writer:
        monkeypatch.setattr(os, "rename", refuse)
        with pytest.raises(FlyringError):
            writer.grow(40)
        monkeypatch.undo()
        assert [one.name for one in folder.iterdir()] == ["t.table"]
        assert writer.put("b", b"2")
        assert (table.capacity, table["b"]) == (12, b"2")
        writer.grow(40)
    assert (table.capacity, table["b"]) == (40, b"2")


def test_grow_through_a_writer_in_another_size_is_followed_by_entries(table: Table) -> None:
    with Table.open("t") as other:
        entry = other.entry("a")
        assert entry is not None
        for capacity in (20, 30, 40):
            table.grow(capacity)
            version = table.put("a", b"%d" % capacity)
            time.sleep(0.002)  # a look each ms
            assert (entry.get(), entry.version, other.capacity) == (b"%d" % capacity, version, capacity)


def test_grow_of_a_writer_that_goes_on(table: Table) -> None:
    with Table.open("t") as other, table.writer("feed") as writer:
        entry = writer.entry("a")
        assert entry is not None
        writer.grow(50)
        assert entry.put(b"2") == writer.entry("a").version  # type: ignore[union-attr]
        with pytest.raises(NoFreeSlotError, match="feed"):
            other.put("b", b"", timeout=0.01)
        assert other["a"] == b"2"
    assert other.closed
    with Table.open("t") as other:
        assert other.put("b", b"", timeout=0)
        assert other.capacity == 50


def test_waiting_writer_follows_a_grown_table(table: Table, child: Callable[..., Child]) -> None:
    with table.writer() as writer:
        one = child(
            """
            import flyring
            with flyring.Table.open("t") as table:
                print("ready", flush=True)
                table.put("child", b"1", timeout=30)
                print(table.capacity, flush=True)
            """
        )
        assert one.line() == "ready"
        time.sleep(0.05)
        writer.grow(40)
        writer["b"] = b""
    assert one.line() == "40"
    assert table["child"] == b"1"
    assert [*broken_rules(table)] == []


def test_waiting_reader_follows_a_grown_table(table: Table) -> None:
    with Table.open("t") as other:
        version = version_of(other, "a")
        thread = later(lambda: (table.grow(40), table.put("a", b"2")))
        assert other.wait_changed("a", version, timeout=LONG) == version_of(table, "a")
        thread.join()
        assert other.capacity == 40


def test_replaced_table_is_noticed_by_waits_and_writers(table: Table) -> None:
    held = table.writer()
    with Table.replace("t", capacity=12, key="text", value_bytes=16) as new:
        assert table["a"] == b"1"
        with pytest.raises(ChannelReplacedError):
            held.put("a", b"2")
        assert held.put("a", b"2")  # it is told once
        assert held.remove("none") is False
        held.close()
        for refused in (
            lambda: table.put("a", b"3"),
            lambda: table.writer(),
            lambda: table.wait_changed("a", version_of(table, "a"), timeout=LONG),
        ):
            with pytest.raises(ChannelReplacedError, match="another table") as caught:
                refused()
            assert caught.value.channel_id == new.id
        assert table["a"] == b"2"
        assert len(new) == 0


def test_a_process_without_descriptors_cannot_tell_that_it_was_replaced(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change would be lost in the old file; a read goes on there."""
    Table.replace("t", capacity=12, key="text", value_bytes=16).close()

    def none_left(*_: Any) -> None:
        raise IoError("open", errno.EMFILE, table.path)

    with monkeypatch.context() as patch:
        patch.setattr(table_base, "open_file", none_left)
        with pytest.raises(IoError, match="errno 24"):
            table["a"] = b"2"
        assert table["a"] == b"1"
    with pytest.raises(ChannelReplacedError):
        table["a"] = b"2"


def test_owner_that_took_the_hint_back_learns_of_a_replace(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer takes the slot after the hint was stored and before the rename: it stores 0, for the name is still that
    of its file. So a replace stores the hint once more."""
    real = os.rename

    def rename(old: str, new: str) -> None:
        assert successor_of(table) == layout.SUCCESSOR_REPLACED
        table.put("b", b"")
        assert successor_of(table) == 0
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    with Table.replace("t", capacity=12, key="text", value_bytes=16):
        assert successor_of(table) == layout.SUCCESSOR_REPLACED
        with pytest.raises(ChannelReplacedError):
            table.put("c", b"")


def test_unlinked_table_goes_on(table: Table) -> None:
    Table.unlink("t")
    assert successor_of(table) == layout.SUCCESSOR_UNLINKED
    table["a"] = b"2"
    assert table["a"] == b"2"
    with Table.create("t", capacity=12, key="text", value_bytes=16), pytest.raises(ChannelReplacedError):
        time.sleep(0.002)
        table["a"] = b"3"


def test_snapshot_has_the_stamp_of_its_table_and_a_time_of_its_own(table: Table) -> None:
    for number in range(5):
        table["a"] = b"%d" % number
        del table["a"]
    table["b"] = b""
    del table["b"]  # the last change is of no key of the snapshot
    table.snapshot("s")
    with Table.open("s") as copy:
        assert copy.version == copy._memory.load64(CONTROL + layout.TABLE_CONTROL_STAMP) == table.version
        assert copy.header.created_at > table.header.created_at
        assert (len(copy), copy.stats().clean) == (0, True)


def test_walk_goes_on_in_the_file_in_which_it_began(table: Table) -> None:
    """A grown file has its cells in another order: no key is met twice or missed."""
    with Table.create("w", capacity=9000, key="integer", value_bytes=200) as big, Table.open("w") as other:
        with other.writer() as writer:
            for key in range(9000):
                writer.put(key, bytes(200))
            for key in range(4500):  # so that the others move to the front
                writer.remove(key)
        walk = iter(big.items())
        seen = [next(walk)[0] for _ in range(10)]
        other.grow(10_000)
        assert len(big) == 4500
        assert big.capacity == 10_000
        other[9999] = b"new"
        seen += [key for key, _ in walk]
        assert seen == [*range(4500, 9000)]
        assert len(list(big)) == 4501
        walk = iter(big.items())
        next(walk)
        big.close()
        with pytest.raises(ClosedError):
            list(walk)


def test_snapshot_while_the_table_grows(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with Table.create("w", capacity=9000, key="integer", value_bytes=200) as big, Table.open("w") as other:
        with other.writer() as writer:
            for key in range(9000):
                writer.put(key, bytes(200))
            for key in range(4500):
                writer.remove(key)
        real, grown = TableWalk._copy, []

        def copy(self: TableWalk, to: Table, cell: int) -> int:
            if cell > 0 and not grown:
                grown.append(cell)
                other.grow(10_000)
                assert big.version == other.version
            return real(self, to, cell)

        monkeypatch.setattr(TableWalk, "_copy", copy)
        assert big.snapshot("s") == 4500
        assert grown
        with Table.open("s") as snapshot:
            assert sorted(snapshot) == [*range(4500, 9000)]
            assert [*broken_rules(snapshot)] == []


def fail_after_the_rename(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def sync_folder(folder: str) -> None:
        raise error

    monkeypatch.setattr(system, "sync_folder", sync_folder)


@pytest.mark.parametrize("error", [OSError(5, "no sync"), KeyboardInterrupt()])
def test_a_writer_whose_grow_fails_late_is_closed_and_loses_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The larger file has the name, but the folder cannot be written to the disk."""
    writer = table.writer("feed")
    with monkeypatch.context() as failing:
        fail_after_the_rename(failing, error)
        with pytest.raises(IoError if isinstance(error, OSError) else KeyboardInterrupt):
            writer.grow(100)
    assert writer.closed
    with pytest.raises(ClosedError):
        writer.put("b", b"1")
    table["b"] = b"2"  # the slot is free
    assert table.capacity == 100
    with Table.open("t") as again:
        assert dict(again) == {"a": b"1", "b": b"2"}


def test_a_writer_whose_grow_fails_early_goes_on(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(*_: object) -> None:
        raise OSError(13, "no rename")

    with table.writer("feed") as writer:
        with monkeypatch.context() as failing:
            failing.setattr(os, "rename", rename)
            with pytest.raises(FlyringError):
                writer.grow(100)
        assert successor_of(table) == 0
        writer.put("b", b"2")
        with Table.open("t") as again:
            assert again["b"] == b"2"
        writer.grow(100)
        writer.put("c", b"3")
    with Table.open("t") as again:
        assert dict(again) == {"a": b"1", "b": b"2", "c": b"3"}
