# SPDX-License-Identifier: Apache-2.0
"""Tables: broken and hostile memory. Nothing crashes, hangs or reads beyond the file (spec/table.md 10)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from conftest import Child
from flyring import BusyError, CorruptTableError, FlyringError, NoSpaceError, Table, layout
from flyring.table_check import Walk, broken_rules

CONTROL = layout.HEADER_LENGTH
LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=12, key="text", value_bytes=16) as one:
        for key in ("a", "b", "c"):
            one[key] = b"value of " + key.encode()
        yield one


def cell_of(table: Table, key: str) -> tuple[Walk, int]:
    walk = Walk(table.header, table._memory)
    (cell,) = (c for c in range(table.header.cells) if walk.length(c) >= 0 and walk.key(c) == key.encode())
    return walk, cell


@pytest.mark.parametrize("length", [-2, 17, 2**31 - 1, -(2**31)])
def test_length_of_a_value(table: Table, length: int) -> None:
    walk, cell = cell_of(table, "b")
    table._memory.store32(walk.body(cell, walk.version(cell) & 1) + layout.TABLE_BODY_LENGTH, length)
    for refused in (
        lambda: table["b"],
        lambda: table.read("b", bytes),
        lambda: "b" in table,
        lambda: list(table),
        lambda: table.put("b", b""),
        lambda: table.snapshot("s"),
    ):
        with pytest.raises(CorruptTableError) as caught:
            refused()
        assert caught.value.cell == cell
    assert table["a"] == b"value of a"
    assert any(f"length of cell {cell}" in rule for rule in broken_rules(table))


@pytest.mark.parametrize("length", [-1, 33, 2**31 - 1])
def test_length_of_a_key(table: Table, length: int) -> None:
    walk, cell = cell_of(table, "b")
    table._memory.store32(walk.at(cell) + layout.TABLE_CELL_KEY_LENGTH, length)
    with pytest.raises(CorruptTableError):
        table["b"]
    with pytest.raises(CorruptTableError):
        list(table)
    assert any("key_length" in rule for rule in broken_rules(table))


def test_length_of_another_keys_value_is_not_looked_at(table: Table) -> None:
    """The search meets the cell of another key with the same fingerprint."""
    walk, cell = cell_of(table, "b")
    table._memory.store32(walk.body(cell, walk.version(cell) & 1) + layout.TABLE_BODY_LENGTH, -7)
    other = next(f"other {n}" for n in range(99) if not walk.index(0)[home_of(walk, f"other {n}")])
    entry = walk.entry_of(cell, other.encode())
    signed = entry - 2**64 if entry >= 2**63 else entry
    table._memory.store64(table.header.index_offset + 8 * home_of(walk, other), signed)
    assert table.get(other) is None
    with pytest.raises(CorruptTableError):
        table.get("b")


def home_of(walk: Walk, key: str) -> int:
    return (walk.entry_of(0, key.encode()) >> 32) * walk.header.entries >> 32


def test_search_that_always_begins_again_is_busy() -> None:
    """A generation that changes all the time, as no writer does it: a search for an absent key ends all the same."""
    with Table.create("long", capacity=100_000, key="integer", value_bytes=0) as table:
        header, at = table.header, CONTROL + layout.TABLE_CONTROL_GENERATION
        for copy in (0, 1):  # each search looks at all entries
            tombstones = layout.TABLE_TOMBSTONE.to_bytes(8, "little") * header.entries
            table._memory.write(header.index_offset + copy * header.index_stride, tombstones)
        one = Child(
            f"""
            import mmap
            with open({table.path!r}, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
                print("ready", flush=True)
                while True:
                    for number in range(250):
                        memory[{at}] = number
            """
        )
        try:
            assert one.line() == "ready"
            refused, end = 0, time.monotonic() + 20  # a busy machine may not run the other process for long
            while refused < 2 and time.monotonic() < end:
                try:
                    assert table.get(7) is None
                except BusyError:
                    refused += 1
            assert refused == table.stats().busy == 2
        finally:
            one.kill()
            for pipe in (one.process.stdin, one.process.stdout):
                assert pipe is not None
                pipe.close()
        assert table.get(7) is None


def test_key_that_is_not_utf8(table: Table) -> None:
    walk, cell = cell_of(table, "b")
    table._memory.write(walk.at(cell) + layout.TABLE_CELL_KEY, b"\xff")
    assert sorted(table) == ["a", "c", "\ufffd"]
    assert any("UTF-8" in rule for rule in broken_rules(table))


@pytest.mark.parametrize("version", [-1, LOWEST])
def test_version_below_zero_is_not_live(table: Table, version: int) -> None:
    walk, cell = cell_of(table, "b")
    table._memory.store64(walk.at(cell) + layout.TABLE_CELL_VERSION, version)
    assert "b" not in table
    assert sorted(table) == ["a", "c"]


def test_body_that_never_fits_its_version_is_busy(table: Table) -> None:
    walk, cell = cell_of(table, "b")
    table._memory.store64(walk.at(cell) + layout.TABLE_CELL_VERSION, walk.version(cell) + 2)
    began = time.monotonic()
    with pytest.raises(BusyError, match="millisecond"):
        table["b"]
    assert 0.001 <= time.monotonic() - began < 5
    assert table.stats().busy == 1
    with pytest.raises(CorruptTableError, match="stays different from its version"):
        table["b"] = b"x"


@pytest.mark.parametrize("entry", [0x1234_0000_0000 + 99, 0xFFFF_FFFE, 13, 2**64 - 2])
def test_entries_that_lead_beyond_the_cells(table: Table, entry: int) -> None:
    walk, _ = cell_of(table, "b")
    before = dict(table)
    index = walk.index(0)
    for at in range(table.header.entries):
        if index[at] == 0:
            signed = entry - 2**64 if entry >= 2**63 else entry
            table._memory.store64(table.header.index_offset + 8 * at, signed)
    assert (dict(table), table.get("none")) == (before, None)
    assert table["c"] == b"value of c"
    table["c"] = b"put"
    with pytest.raises(CorruptTableError, match="no empty entry"):
        table["d"] = b"x"
    assert table["c"] == b"put"


WORDS = {
    "stamp": (layout.TABLE_CONTROL_STAMP, 8),
    "changed": (layout.TABLE_CONTROL_CHANGED, 8),
    "size": (layout.TABLE_CONTROL_SIZE, 8),
    "generation": (layout.TABLE_CONTROL_GENERATION, 8),
    "intent": (layout.TABLE_CONTROL_INTENT, 8),
    "intent_size": (layout.TABLE_CONTROL_INTENT_SIZE, 8),
    "top": (layout.TABLE_CONTROL_TOP, 4),
    "fresh": (layout.TABLE_CONTROL_FRESH, 4),
    "rebuild": (layout.TABLE_CONTROL_REBUILD, 8),
    "filled": (layout.TABLE_CONTROL_FILLED, 8),
    "filled_other": (layout.TABLE_CONTROL_FILLED_OTHER, 8),
    "epoch": (layout.TABLE_CONTROL_SLOT + layout.PUBLISHER_SLOT_EPOCH, 8),
    "name_length": (layout.TABLE_CONTROL_SLOT + layout.PUBLISHER_SLOT_NAME_LENGTH, 4),
}
REFUSED = {"stamp": "stamp", "top": "stack", "fresh": "fresh"}


@pytest.mark.parametrize("value", [-1, LOWEST, HIGHEST, 2**62 + 1, 1000])
@pytest.mark.parametrize("word", WORDS)
def test_words_of_the_writer(table: Table, word: str, value: int) -> None:
    offset, size = WORDS[word]
    if size == 8:
        table._memory.store64(CONTROL + offset, value)
    else:
        value = value if -(2**31) <= value < 2**31 else 2**31 - 1
        table._memory.store32(CONTROL + offset, value)
    if word == "generation" and value % 2:
        assert table.get("a") is None  # the other copy is empty: an error that readers cannot see
        return
    assert table["a"] == b"value of a"
    bad = word in REFUSED and not (word == "stamp" and value == 1000)
    try:
        for number in range(30):
            table["d"] = b"%d" % number
            del table["d"]
        with table.writer("w"):
            pass
    except (CorruptTableError, NoSpaceError) as error:
        assert bad, error
        assert REFUSED[word] in str(error)
    else:
        assert not bad
        assert table.version == table._memory.load64(CONTROL + layout.TABLE_CONTROL_STAMP)
    assert table["a"] == b"value of a"
    assert len(table) >= 0
    table.stats()


def test_stack_that_leads_to_a_live_cell_or_in_a_circle(table: Table) -> None:
    _, cell = cell_of(table, "b")
    table._memory.store32(CONTROL + layout.TABLE_CONTROL_TOP, cell + 1)
    with pytest.raises(CorruptTableError, match="holds a key") as caught:
        table["d"] = b""
    assert caught.value.cell == cell
    assert any("stack" in rule for rule in broken_rules(table))
    table._memory.store32(CONTROL + layout.TABLE_CONTROL_TOP, 0)
    del table["b"]
    walk = Walk(table.header, table._memory)
    table._memory.store32(walk.at(cell) + layout.TABLE_CELL_NEXT, cell + 1)
    assert any("twice" in rule for rule in broken_rules(table))
    table["d"] = b"takes the cell"
    with pytest.raises(CorruptTableError, match="holds a key"):
        table["e"] = b""
    assert table["d"] == b"takes the cell"


def test_top_is_looked_at_before_a_remove(table: Table) -> None:
    before = table.version
    for wrong in (2**31 - 1, -1, 13, cell_of(table, "b")[1] + 1):
        table._memory.store32(CONTROL + layout.TABLE_CONTROL_TOP, wrong)
        with pytest.raises(CorruptTableError):
            del table["a"]
        with table.writer() as writer, pytest.raises(CorruptTableError):
            writer.remove("a")
    table._memory.store32(CONTROL + layout.TABLE_CONTROL_TOP, 0)
    assert (table["a"], table.version, [*broken_rules(table)]) == (b"value of a", before, [])


@pytest.mark.parametrize("seed", range(4))
def test_random_damage(seed: int) -> None:
    """Random words anywhere behind the header: every verb ends, with a result or one of Flyring's errors."""
    chance = random.Random(seed)
    for round_ in range(60):
        with Table.replace("t", capacity=12, key="text", value_bytes=40, checked=bool(seed % 2)) as table:
            for number in range(10):
                table[str(number)] = bytes(number)
            del table["3"]
            end = table.header.cells_offset + table.header.cells * table.header.cell_stride
            for _ in range(chance.choice((1, 3, 30))):
                at = chance.choice((chance.randrange(CONTROL + 64, CONTROL + 640), chance.randrange(8192, end)))
                value = chance.choice((0, 1, 2**32 - 1, -1, LOWEST, HIGHEST, chance.getrandbits(63)))
                table._memory.store64(at // 8 * 8, value)
            table._memory.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, 0)
            for verb in (
                lambda: table["1"],
                lambda: list(table.items()),
                lambda: table.put("1", b"x", timeout=0),
                lambda: table.put("new", b"x", timeout=0),
                lambda: table.remove("2", timeout=0),
                lambda: table.clear(timeout=0),
                lambda: table.wait_changed("1", 0, timeout=0),
                lambda: table.stats(),
                lambda: len(table),
                lambda: [*broken_rules(table)],
                lambda: table.snapshot("s"),
            ):
                try:
                    verb()
                except FlyringError:
                    pass
                except KeyError as error:
                    assert error.args == ("1",), round_
