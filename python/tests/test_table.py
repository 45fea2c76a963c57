# SPDX-License-Identifier: Apache-2.0
"""Tables: files, keys, values, changes, the writer, entries, iteration, the rebuild of the index (spec/table.md)."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Child
from flyring import (
    AccessDeniedError,
    BusyError,
    ChannelDiffersError,
    ChannelExistsError,
    ClosedError,
    InvalidArgumentError,
    MessageTooLargeError,
    NoFreeSlotError,
    NoSpaceError,
    NoSuchChannelError,
    NotAChannelError,
    SlotLostError,
    Table,
    TableWriter,
    TimedOutError,
    ViewAliveError,
    layout,
)
from flyring._core import crc32c, xxhash64
from flyring.table_check import broken_rules
from flyring.table_header import TableHeader

VECTORS = Path(__file__).resolve().parents[2] / "examples" / "routing" / "vectors.txt"


def made(name: str = "t", **options: Any) -> Table:
    wanted: dict[str, Any] = {"capacity": 16, "key": "text", "value_bytes": 48, **options}
    return Table.create(name, **wanted)


@pytest.fixture
def table() -> Iterator[Table]:
    with made() as one:
        yield one
        if not one.closed:
            assert [*broken_rules(one)] == []


# Files


def test_hash_vectors() -> None:
    count = 0
    for line in VECTORS.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            number, _, kind, key = line.split(" ", 3)
            octets = key.encode() if kind == "text" else int(key).to_bytes(8, "little", signed=True)
            assert xxhash64(octets) == int(number, 16)
            count += 1
    assert count > 10


def test_checksum_of_each_length() -> None:
    def bit_by_bit(data: bytes) -> int:
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return crc ^ 0xFFFFFFFF

    data = bytes(range(7, 60))
    for length in range(len(data)):
        assert crc32c(data[:length]) == bit_by_bit(data[:length])


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"capacity": 0}, "capacity"),
        ({"capacity": 2**30 + 1}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"key": "float"}, "key"),
        ({"key_bytes": 0}, "key_bytes"),
        ({"key_bytes": 1025}, "key_bytes"),
        ({"key": "integer", "key_bytes": 4}, "key_bytes"),
        ({"value_bytes": -1}, "value_bytes"),
        ({"value_bytes": 2**24 + 1}, "value_bytes"),
        ({"value_bytes": None}, "value_bytes"),
        ({"message": "Quote"}, "message"),
        ({"schema": "text"}, "schema"),
    ],
)
def test_wrong_options(options: dict[str, Any], argument: str, folder: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        made(**options)
    assert caught.value.argument == argument
    assert list(folder.iterdir()) == []


def test_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="keys"):
        made(keys="text")


def test_create_open_exists_replace_unlink() -> None:
    with made() as table:
        table["a"] = b"1"
        assert Path(table.path).name == "t.table"
        with pytest.raises(ChannelExistsError):
            made()
        with Table.open("t") as other:
            assert (other["a"], other.id, other.capacity, other.key_type) == (b"1", table.id, 16, "text")
        with Table.replace("t", capacity=4, key="integer", value_bytes=8) as new:
            assert len(new) == 0
            assert table["a"] == b"1"
        Table.unlink("t")
        with pytest.raises(NoSuchChannelError, match="no table at"):
            Table.open("t")
        with pytest.raises(NoSuchChannelError):
            Table.unlink("t")


def test_unlink_refuses_another_file(folder: Path) -> None:
    (folder / "x.table").write_bytes(b"FLYRING\0" + bytes(5000))
    with pytest.raises(NotAChannelError):
        Table.unlink("x")
    with pytest.raises(NotAChannelError):
        Table.open("x")
    assert (folder / "x.table").exists()


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("key_type", {"key": "bytes"}),
        ("key_bytes", {"key_bytes": 33}),
        ("value_bytes", {"value_bytes": 49}),
        ("capacity", {"capacity": 17}),
        ("checked", {"checked": True}),
    ],
)
def test_open_or_create_names_what_differs(field: str, options: dict[str, Any]) -> None:
    wanted: dict[str, Any] = {"capacity": 16, "key": "text", "value_bytes": 48}
    with Table.open_or_create("t", **wanted) as table, Table.open_or_create("t", **wanted) as same:
        assert same.id == table.id
        with pytest.raises(ChannelDiffersError) as caught:
            Table.open_or_create("t", **{**wanted, **options})
        assert caught.value.field == field


def test_wait_for() -> None:
    with pytest.raises(TimedOutError):
        Table.wait_for("t", timeout=0.01)
    with made(), Table.wait_for("t", timeout=0.01) as table:
        assert len(table) == 0


def test_read_only() -> None:
    with made() as table, Table.open("t", read_only=True) as reader:
        table["a"] = b"1"
        assert reader["a"] == b"1"
        for refused in (
            lambda: reader.put("a", b""),
            lambda: reader.remove("a"),
            lambda: reader.writer(),
            lambda: reader.clear(),
            lambda: reader.sync(),
            lambda: reader.grow(20),
            lambda: reader.close(sync=True),
        ):
            with pytest.raises(AccessDeniedError):
                refused()
        assert table["a"] == b"1"


def test_cells_never_cross_a_gibibyte() -> None:
    def usable(header: TableHeader) -> int:
        stride, piece = header.cell_stride, layout.TABLE_PIECE
        return sum(c * stride // piece == ((c + 1) * stride - 1) // piece for c in range(header.cells))

    for capacity, value_bytes in ((100, 2**24), (64, 2**24 - 100), (1000, 3_000_001), (40, 10)):
        header = TableHeader(key_type="text", key_bytes=32, value_bytes=value_bytes, capacity=capacity)
        assert usable(header) == capacity
        assert usable(TableHeader("text", 32, value_bytes, capacity - 1)) == capacity - 1


# Keys and values


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("text", ["", "a", "12345678", "123456789", "Müller", "東京", "x" * 32]),
        ("bytes", [b"", b"a", b"\0", b"\0\0", b"12345678", b"x" * 31, b"x" * 32]),
        ("integer", [0, 1, -1, 42, 2**63 - 1, -(2**63)]),
    ],
)
def test_keys_of_each_type(key: str, keys: list[Any]) -> None:
    with made(key=key) as table:
        for number, one in enumerate(keys):
            table[one] = str(number).encode()
        assert {one: table[one] for one in keys} == dict(table.items())
        assert sorted(table, key=str) == sorted(keys, key=str)
        assert all(table.remove(one) for one in keys)
        assert len(table) == 0


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("text", b"a"),
        ("text", 1),
        ("text", "\ud800"),
        ("bytes", "a"),
        ("bytes", 1),
        ("integer", "1"),
        ("integer", 2**63),
    ],
)
def test_key_of_another_type(key: str, wrong: object) -> None:
    with made(key=key) as table:
        for refused in (table.get, table.remove, lambda one: table.put(one, b""), lambda one: one in table):
            with pytest.raises(InvalidArgumentError) as caught:
                refused(wrong)
            assert caught.value.argument == "key"


def test_too_large() -> None:
    with made(key_bytes=3, value_bytes=5) as table:
        table["abc"] = b"12345"
        with pytest.raises(MessageTooLargeError, match="key") as caught:
            table.get("abcd")
        assert (caught.value.length, caught.value.limit) == (4, 3)
        with pytest.raises(MessageTooLargeError, match="value"):
            table["abc"] = b"123456"
        assert table["abc"] == b"12345"


def test_values_of_each_length() -> None:
    with made(value_bytes=40, capacity=50) as table:
        for length in [*range(41), *reversed(range(41))]:
            table["a"] = bytes(range(length))
            assert table["a"] == bytes(range(length))
        table["a"] = bytearray(b"array")
        table["b"] = memoryview(b"view")[1:]
        assert (table["a"], table["b"]) == (b"array", b"iew")
        with pytest.raises(TypeError):
            table["a"] = 3  # type: ignore[assignment]


def test_large_value() -> None:
    value = random.Random(1).randbytes(3_000_000)
    with made(capacity=2, value_bytes=3_000_000, checked=True) as table:
        table["a"] = value
        assert table["a"] == value
        assert [*broken_rules(table)] == []


# Changes


def test_mapping(table: Table) -> None:
    table["a"] = b"1"
    table.update({"b": b"2"}, c=b"3")
    assert (table["a"], table.get("d"), table.get("d", b"x"), len(table)) == (b"1", None, b"x", 3)
    assert "a" in table
    assert "d" not in table
    with pytest.raises(KeyError):
        table["d"]
    with pytest.raises(KeyError):
        del table["d"]
    del table["a"]
    assert (sorted(table.keys()), sorted(table.values())) == (["b", "c"], [b"2", b"3"])
    assert table.pop("b") == b"2"
    assert (table.setdefault("c", b"9"), table.setdefault("e", b"5")) == (b"3", b"5")
    assert table.clear() == 2
    assert (len(table), dict(table)) == (0, {})


def test_versions_grow_and_are_compared(table: Table) -> None:
    first = table.put("a", b"1")
    second = table.put("b", b"1")
    third = table.put("a", b"2")
    assert first < second < third
    assert table.get_versioned("a") == (b"2", third)
    assert table.get_versioned("c") is None
    assert table.version == third >> 1
    assert table.compare_and_put("a", first, b"x") == 0
    assert table.compare_and_put("a", 0, b"x") == 0
    assert table.compare_and_put("c", first, b"x") == 0
    assert table.version == third >> 1
    fourth = table.compare_and_put("a", third, b"3")
    assert table.get_versioned("a") == (b"3", fourth)
    assert table.put_if_absent("a", b"x") == 0
    assert table.put_if_absent("c", b"c") == table.get_versioned("c")[1]  # type: ignore[index]
    assert table.compare_and_put("d", 0, b"d") > 0
    assert table.remove("a")
    assert not table.remove("a")
    assert table.put("a", b"again") > fourth
    with pytest.raises(InvalidArgumentError):
        table.compare_and_put("a", -1, b"")


def test_full_table_refuses_and_takes_after_a_remove(table: Table) -> None:
    for number in range(16):
        table[str(number)] = b"v"
    with pytest.raises(NoSpaceError, match="grow") as caught:
        table["more"] = b""
    assert (caught.value.unit, caught.value.needed, caught.value.free) == ("keys", 1, 0)
    table["3"] = b"w"
    del table["7"]
    table["more"] = b"fits"
    assert (len(table), table["more"], table["3"]) == (16, b"fits", b"w")


def test_update_in_place(table: Table) -> None:
    table["a"] = b"abc"

    def change(value: bytearray) -> None:
        value[0:1] = b"xy"

    version = table.update("a", change)
    assert table.get_versioned("a") == (b"xybc", version)

    def fails(value: bytearray) -> None:
        value[0] = 0
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        table.update("a", fails)
    assert table["a"] == b"xybc"
    with pytest.raises(KeyError):
        table.update("b", change)
    table["a"] = b"the slot is free again"


def test_handler_of_an_update_cannot_change_or_close_its_table(table: Table) -> None:
    """Nothing is put then, and the slot is free again."""
    table["a"] = b"abc"

    def through_update(table_or_writer: Table | TableWriter, do: Callable[[], object]) -> None:
        def handler(value: bytearray) -> None:
            assert (table["a"], len(table)) == (b"abc", 1)  # reads are fine
            value[:] = b"x"
            do()

        with pytest.raises(ViewAliveError, match="handler of an update"):
            table_or_writer.update("a", handler)
        assert table["a"] == b"abc"

    refused: list[Callable[[], object]] = [
        lambda: table.put("b", b""),
        lambda: table.put_if_absent("b", b""),
        lambda: table.remove("a"),
        lambda: table.clear(),
        lambda: table.grow(100),
        lambda: table.writer(),
        lambda: table.update("a", lambda value: None),
        lambda: table.close(),
        lambda: table.close(sync=True),
    ]
    for do in refused:
        through_update(table, do)
    with table.writer() as writer:
        for do in [
            *refused,
            lambda: writer.put("b", b""),
            lambda: writer.remove("a"),
            lambda: writer.clear(),
            lambda: writer.grow(100),
            lambda: writer.close(),
            lambda: writer.close(sync=True),
            lambda: writer.update("a", lambda value: None),
            lambda: writer.entry("a").put(b""),  # type: ignore[union-attr]
        ]:
            through_update(writer, do)
        assert not writer.closed
        assert not table.stats().clean
        assert writer.put("b", b"2")
    with Table.open("t") as other:
        assert table.update("a", lambda value: other.get("a"))
    assert table.put("a", b"free", timeout=0)


def test_change_beside_an_own_writer_is_busy(table: Table) -> None:
    """It would wait for itself. Another object waits, as another process does."""
    with table.writer("feed") as writer, Table.open("t") as other:
        writer["a"] = b"1"
        refused: list[Callable[[], object]] = [
            lambda: table.put("a", b"2"),
            lambda: table.put_if_absent("b", b""),
            lambda: table.compare_and_put("a", 0, b""),
            lambda: table.remove("a"),
            lambda: table.update("a", lambda value: None),
            lambda: table.update({"a": b"3"}),
            lambda: table.clear(),
            lambda: table.grow(100),
            lambda: table.pop("a"),
        ]
        for do in refused:
            with pytest.raises(BusyError, match="use that writer"):
                do()
        with pytest.raises(NoFreeSlotError):
            table.writer()
        with pytest.raises(NoFreeSlotError):
            other.put("a", b"2", timeout=0)
        assert table["a"] == b"1"
    table["a"] = b"2"
    with pytest.warns(ResourceWarning, match="unclosed"):
        table.writer()
        gc.collect()
    table["a"] = b"a writer that was collected is not in the way"


def test_open_with_a_schema_of_another_version() -> None:
    with made():
        for refused in (
            lambda: Table.open("t", min_schema_version=1),
            lambda: Table.wait_for("t", min_schema_version=1),
        ):
            with pytest.raises(ChannelDiffersError) as caught:
                refused()
            assert caught.value.field == "schema_version"
        with pytest.raises(InvalidArgumentError):
            Table.open("t", min_schema_version=-1)
        with pytest.raises(InvalidArgumentError):
            Table.open("t", schema="text")  # type: ignore[arg-type]


def test_table_that_has_grown_does_not_differ() -> None:
    wanted: dict[str, Any] = {"capacity": 16, "key": "text", "value_bytes": 48}
    with made() as table:
        table.grow(30)
        with Table.open_or_create("t", **wanted) as other:
            assert other.capacity == 30
        with pytest.raises(ChannelDiffersError):
            Table.open_or_create("t", **{**wanted, "capacity": 31})


def test_random_changes_with_rebuilds() -> None:
    """Hundreds of rebuilds of the index, against a dict."""
    chance = random.Random(7)
    with made(capacity=24, key="integer") as table, table.writer() as writer:
        expected: dict[int, bytes] = {}
        for step in range(60_000):
            key = chance.randrange(40)
            if key in expected and chance.random() < 0.5:
                assert writer.remove(key)
                del expected[key]
            elif len(expected) < 24 or key in expected:
                expected[key] = step.to_bytes(4, "little")
                writer.put(key, expected[key])
            if step % 1000 == 0:
                assert dict(table.items()) == expected
                assert [*broken_rules(table)] == []
        stats = table.stats()
        assert (stats.size, stats.entries, stats.capacity) == (len(expected), 40, 24)
        assert table._memory.load64(layout.HEADER_LENGTH + layout.TABLE_CONTROL_GENERATION) > 500


# The writer


def test_writer_holds_the_slot(table: Table) -> None:
    with table.writer("feed") as writer, Table.open("t") as other:
        assert writer.put("a", b"1") == writer.entry("a").version  # type: ignore[union-attr]
        writer["b"] = b"2"
        del writer["b"]
        with pytest.raises(KeyError):
            del writer["b"]
        assert (writer["a"], writer.get("b"), writer.name, writer.table) == (b"1", None, "feed", table)
        for refused in (lambda: other.put("x", b"", timeout=0.01), lambda: other.writer()):
            with pytest.raises(NoFreeSlotError, match="feed") as caught:
                refused()
            assert (caught.value.kind, caught.value.owners[0].pid) == ("writer", os.getpid())
        assert other["a"] == b"1"
    with pytest.raises(ClosedError):
        writer.put("a", b"")
    assert table.put("a", b"2", timeout=0)
    with table.writer() as writer:
        assert writer.put_if_absent("a", b"") == 0
        assert writer.compare_and_put("a", table.get_versioned("a")[1], b"3") > 0  # type: ignore[index]
        assert writer.clear() == 1


def test_writer_waits_for_the_slot(table: Table, child: Callable[..., Child]) -> None:
    other = child(
        """
        import flyring, time
        with flyring.Table.open("t") as table, table.writer("other"):
            print("has it", flush=True)
            input()
        """
    )
    assert other.line() == "has it"
    with pytest.raises(NoFreeSlotError):
        table.writer(timeout=0.02)
    other.say()
    with table.writer(timeout=30) as writer:
        assert writer.put("a", b"1")
    assert other.end() == 0


def test_slot_lost(table: Table) -> None:
    slot = layout.HEADER_LENGTH + layout.TABLE_CONTROL_SLOT
    with table.writer() as writer:
        writer["a"] = b"1"
        entry = writer.entry("a")
        assert entry is not None
        table._memory.add64(slot + layout.PUBLISHER_SLOT_EPOCH, 1)  # another owner
        for refused in (
            lambda: writer.put("a", b"2"),
            lambda: writer.put("b", b"2"),
            lambda: writer.remove("a"),
            lambda: entry.put(b"2"),
            lambda: writer.clear(),
            lambda: writer.sync(),
        ):
            with pytest.raises(SlotLostError):
                refused()
    assert dict(table) == {"a": b"1"}


# Entries and reading in place


def test_entry(table: Table) -> None:
    assert table.entry("a") is None
    table["a"] = b"1"
    entry = table.entry("a")
    assert entry is not None
    assert (entry.key, entry.get(), entry.version) == ("a", b"1", table.get_versioned("a")[1])  # type: ignore[index]
    del table["a"]
    assert (entry.get(), entry.version) == (None, 0)
    table["b"] = b"takes its cell"
    assert entry.get() is None
    table["a"] = b"2"
    assert entry.get() == b"2"
    assert entry.read(bytes) == b"2"
    with pytest.raises(InvalidArgumentError):
        entry.put(b"")
    with table.writer() as writer:
        writing = writer.entry("a")
        assert writing is not None
        assert writing.put(b"3") == entry.version
        assert writing.update(lambda value: value.extend(b"4")) == entry.version
        assert writer.entry("none") is None
    assert table["a"] == b"34"


def test_entry_of_an_integer_and_of_a_mutable_key() -> None:
    with made(key="integer") as table:
        table[7] = b"seven"
        entry = table.entry(7)
        assert entry is not None
        assert entry.get() == b"seven"
    with made("b", key="bytes") as table:
        table[b"key"] = b"1"
        key = bytearray(b"key")
        entry = table.entry(key)  # type: ignore[arg-type]
        key[:] = b"abc"
        assert entry is not None
        assert entry.get() == b"1"


def test_read_in_place(table: Table) -> None:
    table["a"] = b"value"
    assert table.read("a", lambda view: (bytes(view[1:3]), view.readonly)) == (b"al", True)
    assert table.read("none", lambda view: 1 / 0) is None
    with pytest.raises(ZeroDivisionError):
        table.read("a", lambda view: 1 / 0)
    kept: list[memoryview] = []
    with pytest.raises(ViewAliveError):
        table.read("a", lambda view: kept.append(view[1:]))
    table.close()
    assert bytes(kept[0]) == b"alue"  # still mapped
    kept.clear()


def test_torn_read_is_read_again(table: Table) -> None:
    table["a"] = b"first"
    calls: list[bytes] = []

    def handler(view: memoryview) -> bytes:
        calls.append(bytes(view))
        if len(calls) == 1:
            table["a"] = b"second"
            table["a"] = b"third"  # overwrites the body that is being read
            raise ValueError("of a torn value: it does not count")
        return bytes(view)

    assert table.read("a", handler) == b"third"
    assert calls == [b"first", b"third"]


def test_close_within_a_handler(table: Table) -> None:
    table["a"] = b"value"

    def handler(view: memoryview) -> bytes:
        table.close()
        return bytes(view)

    assert table.read("a", handler) == b"value"
    with pytest.raises(ClosedError):
        table.get("a")
