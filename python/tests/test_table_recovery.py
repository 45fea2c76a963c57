# SPDX-License-Identifier: Apache-2.0
"""Tables: another boot, power loss, recovery, clean closes (spec/table.md 9)."""

from __future__ import annotations

import os
import random
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flyring import NeedsRecoveryError, Table, layout
from flyring._identity import Identity
from flyring.table_check import Walk, body_crc, broken_rules

CONTROL = layout.HEADER_LENGTH
PAGE, SECTOR = 4096, 512


def made(**options: Any) -> Table:
    wanted: dict[str, Any] = {"capacity": 20, "key": "text", "value_bytes": 40, "checked": True, **options}
    return Table.replace("t", **wanted)


@contextmanager
def next_boot(**options: Any) -> Iterator[Table]:
    with Table.open("t", _identity=Identity(boot_id=uuid.uuid4()), **options) as table:
        yield table


def word(table: Table, offset: int) -> int:
    return table._memory.load64(CONTROL + offset)


def test_crc_is_that_of_the_page() -> None:
    with made() as table:
        table["key"] = b"some value"
        walk = Walk(table.header, table._memory)
        version = walk.version(0)
        body = walk.body(0, version & 1)
        stored = table._memory.load32(body + layout.TABLE_BODY_CRC) & 0xFFFFFFFF
        assert stored == body_crc(b"key", version, 10, b"some value") != 0
        del table["key"]
        version = walk.version(0)
        stored = table._memory.load32(walk.body(0, version & 1) + layout.TABLE_BODY_CRC) & 0xFFFFFFFF
        assert stored == body_crc(b"key", version, -1, b"")
    with made(checked=False) as table:
        table["key"] = b"some value"
        walk = Walk(table.header, table._memory)
        assert table._memory.load32(walk.body(0, walk.version(0) & 1) + layout.TABLE_BODY_CRC) == 0


def test_tables_in_memory_are_not_checked(folder: Path, tmp_path: Path) -> None:
    with Table.create("m", capacity=4, key="text", value_bytes=8) as table:
        assert not table.header.checked
    with Table.create(tmp_path / "d.table", capacity=4, key="text", value_bytes=8, any_file_system=True) as table:
        on_disk = os.statvfs(tmp_path).f_fsid != os.statvfs(folder).f_fsid
        assert table.header.checked == on_disk


def test_readers_wait_for_the_writer_that_recovers() -> None:
    with made() as table:
        table["a"] = b"1"
    with next_boot() as table, Table.open("t", read_only=True, _identity=table._identity) as reader:
        for refused in (lambda: reader["a"], lambda: table.get("a"), lambda: list(table), lambda: len(reader)):
            with pytest.raises(NeedsRecoveryError, match="take a writer"):
                refused()
        with table.writer():
            pass
        assert (reader["a"], table["a"]) == (b"1", b"1")
        assert word(table, layout.TABLE_CONTROL_STAMP) == 1 + layout.TABLE_RECOVERY_JUMP
        assert table.version == word(table, layout.TABLE_CONTROL_STAMP)
    with Table.open("t", _identity=table._identity) as same_boot:
        assert same_boot["a"] == b"1"


def test_a_single_put_recovers_with_progress() -> None:
    with made() as table:
        table["a"] = b"1"
    seen: list[tuple[int, int]] = []
    with next_boot(recovery_progress=lambda done, cells: seen.append((done, cells))) as table:
        table["b"] = b"2"
        assert dict(table) == {"a": b"1", "b": b"2"}
    assert seen == [(20, 20)]


def test_unchecked_table_of_another_boot_stays_shut() -> None:
    with made(checked=False) as table:
        table["a"] = b"1"
    with next_boot() as table:
        for refused in (lambda: table["a"], lambda: table.put("a", b""), lambda: table.writer()):
            with pytest.raises(NeedsRecoveryError, match="replace or unlink"):
                refused()
    Table.unlink("t")


@pytest.mark.parametrize("checked", [True, False])
def test_synced_close_needs_no_recovery(checked: bool) -> None:
    with made(checked=checked) as table:
        table["a"] = b"1"
        version = table.version
        table.close(sync=True)
    with next_boot() as table, next_boot(read_only=True) as reader:
        assert (table["a"], reader["a"], table.version) == (b"1", b"1", version)
        assert table.stats().clean
        table["b"] = b"2"
        assert not table.stats().clean
        assert table.version == version + 1
    with next_boot() as table, pytest.raises(NeedsRecoveryError):
        len(table)


def test_synced_close_of_a_writer_and_beside_one() -> None:
    with made() as table, Table.open("t") as other, Table.open("t") as third:
        with third.writer() as writer:
            other.close(sync=True)  # only syncs: the writer closes last
            assert other.closed
            assert not table.stats().clean
            writer["a"] = b"1"
            writer.sync()
            writer.close(sync=True)
        assert table.stats().clean
        table.close(sync=True)
        assert third.stats().clean
        with third.writer():
            assert not third.stats().clean  # take 2, although nothing is changed


def test_clean_is_synced_before_it_is_0() -> None:
    """A writer that was killed before it synced left 2: the next one begins there (take 2)."""
    for left in (1, 2, 7, -1):
        with made() as table:
            table["a"] = b"1"
            clean = CONTROL + layout.TABLE_CONTROL_CLEAN
            table._memory.store32(clean, left)
            assert table.stats().clean == (left == 1)
            table["b"] = b"2"
            assert table._memory.load32(clean) == 0


def test_first_change_in_another_boot_stores_its_id() -> None:
    """Also if this object has read before, which needs no look at the boot's id then."""
    with made() as table:
        table["a"] = b"1"
        table.close(sync=True)
    with next_boot() as table, Table.open("t", read_only=True, _identity=table._identity) as reader:
        assert table["a"] == reader["a"] == b"1"
        table["b"] = b"2"
        boot = table._memory.read(CONTROL + layout.TABLE_CONTROL_BOOT_ID, 16)
        assert table._identity.boot_id is not None
        assert boot == table._identity.boot_id.bytes
        with Table.open("t", read_only=True, _identity=table._identity) as late:
            assert dict(late) == {"a": b"1", "b": b"2"}


def test_freed_cell_has_no_old_body() -> None:
    """Remove 4, also in what the next writer finishes, and in a recovery."""

    def old_seqs(table: Table) -> list[int]:
        walk = Walk(table.header, table._memory)
        free = [cell for cell in range(walk.fresh) if walk.length(cell) < 0]
        assert free
        return [table._memory.load64(walk.body(cell, walk.version(cell) & 1 ^ 1)) for cell in free]

    with made() as table:
        table["a"] = b"1"
        table["b"] = b"1"
        table["a"] = b"2"
        del table["a"]
        assert old_seqs(table) == [0]
        walk = Walk(table.header, table._memory)
        at = walk.body(0, walk.version(0) & 1 ^ 1)  # as if the writer had died before remove 4
        table._memory.store64(at, walk.version(0) ^ 1)
        table._memory.store32(CONTROL + layout.TABLE_CONTROL_TOP, 0)
        table._memory.store64(CONTROL + layout.TABLE_CONTROL_INTENT_SIZE, 2)
        table._memory.store64(CONTROL + layout.TABLE_CONTROL_INTENT, 1)  # cell 0
        with table.writer():
            pass
        assert old_seqs(table) == [0]
        table._memory.store64(at, walk.version(0) ^ 1)
        assert [rule for rule in broken_rules(table) if "its old body has seq" in rule]
    with next_boot() as table:
        with table.writer():
            pass
        assert old_seqs(table) == [0]
        assert [*broken_rules(table)] == []


def damage(table: Table, key: str, number: int) -> None:
    """Changes a byte of a body's value: that of the key's version (0), or the other one (1)."""
    walk = Walk(table.header, table._memory)
    (cell,) = (c for c in range(table.header.cells) if walk.length(c) >= 0 and walk.key(c) == key.encode())
    at = walk.body(cell, walk.version(cell) & 1 ^ number) + layout.TABLE_BODY_VALUE
    table._memory.write(at, bytes([table._memory.read(at, 1)[0] ^ 1]))


def test_torn_bodies() -> None:
    with made() as table:
        for key in ("new", "old", "both", "whole"):
            table[key] = b"first of " + key.encode()
            table[key] = b"second of " + key.encode()
        damage(table, "new", 1)
        damage(table, "old", 0)
        damage(table, "both", 0)
        damage(table, "both", 1)
    with next_boot() as table:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table["x"] = b"y"
        assert [str(one.message) for one in caught if "1 of 20 cells" in str(one.message)]
        assert dict(table) == {
            "new": b"second of new",
            "old": b"first of old",
            "whole": b"second of whole",
            "x": b"y",
        }
        assert table.stats().damaged == 1
        assert [*broken_rules(table)] == []


def test_warning_of_damage_that_is_an_error_comes_after_the_recovery() -> None:
    with made() as table:
        table["a"] = b"1"
        table["b"] = b"2"
        damage(table, "a", 0)
    with next_boot() as table:
        with warnings.catch_warnings(), pytest.raises(RuntimeWarning, match="1 of 20"):
            warnings.simplefilter("error")
            table["c"] = b"3"
        assert dict(table) == {"b": b"2"}
        table["c"] = b"3"
        assert table.stats().damaged == 1


def test_two_cells_of_one_key() -> None:
    """The page of a removal was lost, that of the key's new cell was not: the later one stays, the other is freed."""
    with made() as table:
        table["a"] = b"old"
        table["b"] = b"x"
        page = table._memory.read(table.header.cells_offset, table.header.cell_stride)
        del table["a"], table["b"]
        table["a"] = b"new"  # in the cell of b
        table["c"] = b"in the cell of a"
        table["d"] = b"x"
        del table["c"]
        walk = Walk(table.header, table._memory)
        (other,) = (cell for cell in range(walk.fresh) if walk.length(cell) < 0)
        table._memory.write(walk.at(other), page)
        assert sum(walk.key(cell) == b"a" and walk.length(cell) >= 0 for cell in range(walk.fresh)) == 2
    with next_boot() as table:
        with table.writer():
            pass
        assert table["a"] == b"new"
        assert len(table) == 2
        assert [*broken_rules(table)] == []
        walk = Walk(table.header, table._memory)
        assert walk.version(other) == 0  # recover 3: else the next power loss brings its bodies back
        assert [table._memory.load64(walk.body(other, number)) for number in (0, 1)] == [0, 0]


def test_body_whose_version_was_never_stored() -> None:
    """A writer was killed before it stored version: no process has seen the value, and its body does not come back."""
    with made() as table:
        table["a"] = b"1"
        table["b"] = b"2"
        walk = Walk(table.header, table._memory)
        table._memory.store64(walk.at(1) + layout.TABLE_CELL_VERSION, 0)
    with next_boot() as table:
        with table.writer():
            pass
        assert dict(table) == {"a": b"1"}
        assert table.stats().damaged == 0
        walk = Walk(table.header, table._memory)
        assert [table._memory.load64(walk.body(1, number)) for number in (0, 1)] == [0, 0]  # recover 3
        table["c"] = b"3"
        assert (walk.key(1), walk.version(1) >> 1) == (b"c", table.version)


def test_recovery_is_done_again_after_a_kill() -> None:
    with made() as table:
        for number in range(15):
            table[str(number)] = b"value %d" % number
        del table["3"]
        expected = dict(table)
    with next_boot() as table:

        def stop(done: int, cells: int) -> None:
            raise InterruptedError

        table._progress = stop
        with pytest.raises(InterruptedError):
            table["x"] = b""
        table._progress = None
        with pytest.raises(NeedsRecoveryError):
            len(table)
    with next_boot() as table:
        with table.writer():
            pass
        assert dict(table) == expected
        assert [*broken_rules(table)] == []


class Disk:
    """What a disk has of a file after a power loss: of each page any content since the last sync; one page is torn."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.images = [self.now()]

    def now(self) -> bytes:
        return Path(self.table.path).read_bytes()

    def look(self) -> None:
        self.images.append(self.now())

    def sync(self) -> None:
        self.images = [self.now()]

    def lose(self, chance: random.Random) -> bytes:
        size = len(self.images[0])
        pages = [chance.choice(self.images)[at : at + PAGE] for at in range(0, size, PAGE)]
        torn = chance.randrange(1, len(pages))
        one, two = (chance.choice(self.images)[torn * PAGE : (torn + 1) * PAGE] for _ in range(2))
        cut = chance.randrange(PAGE // SECTOR) * SECTOR
        pages[torn] = one[:cut] + two[cut:]
        pages[0] = self.images[-1][:PAGE]
        return b"".join(pages)


@pytest.mark.parametrize("seed", range(25))
def test_power_loss(seed: int) -> None:
    """No torn value, no value of another key, and what was not changed since the last sync is there; versions never
    come again."""
    chance = random.Random(seed)
    put: dict[str, set[bytes]] = {}
    with made(capacity=40, value_bytes=200) as table:
        pass
    highest = 0
    for _ in range(4):  # boots
        with next_boot() as table:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of damaged cells
                writer = table.writer()
            assert [*broken_rules(table)] == []
            assert table.version >= highest
            for key, value in table.items():
                assert value in put[key]
            table.sync()
            disk = Disk(table)
            synced = dict(table)
            for step in range(chance.randrange(80)):
                key = f"key {chance.randrange(45)}"
                synced.pop(key, None)
                if key in table and chance.random() < 0.4:
                    writer.remove(key)
                elif len(table) < 40 or key in table:
                    value = f"{key} {step} {chance.random()} ".encode() * chance.randrange(1, 4)
                    put.setdefault(key, set()).add(value)
                    assert writer.put(key, value) > 2 * highest
                if chance.random() < 0.2:
                    disk.look()
                if chance.random() < 0.05:
                    table.sync()
                    disk.sync()
                    synced = dict(table)
            disk.look()
            highest = table.version
            lost = disk.lose(chance)
            writer.close()
        Path(table.path).write_bytes(lost)
        with next_boot() as table:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with table.writer():
                    pass
            found = dict(table)
            for key, value in synced.items():
                assert found.get(key) == value, key
            for key, value in found.items():
                assert value in put[key]
            assert [*broken_rules(table)] == []
            assert table.version > highest
            highest = table.version
            table.sync()
