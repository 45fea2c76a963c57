# SPDX-License-Identifier: Apache-2.0
"""The golden files of tables: the same operations write the same bytes, every file has the expected contents, and the
next owner finishes what a dead one had begun (spec/golden/README.md, "Tables")."""

from __future__ import annotations

import shutil
import struct
import tomllib
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from conftest import SPEC, load_golden
from flyring import FlyringError, NeedsRecoveryError, NoSpaceError, Table, TableWriter, layout
from flyring._core import crc32c
from flyring._identity import Identity
from flyring.table_header import TableHeader
from golden_services import bytes_of
from test_golden import first_difference, written

FOLDER = SPEC / "golden" / "table"
LIVE = sorted(FOLDER.glob("1.0/*.json"))
DEAD = sorted(FOLDER.glob("dead/*.json"))
CONTROL = layout.HEADER_LENGTH


def test_there_are_golden_files() -> None:
    assert len(LIVE) >= 16
    assert len(DEAD) >= 20


def identity_of(inject: dict[str, Any]) -> Identity:
    return Identity(
        channel_id=UUID(inject["channel_id"]),
        created_at=inject["created_at"],
        boot_id=UUID(inject["boot_id"]),
        pid=inject["pid"],
        now=inject["now"],
        monotonic=inject["monotonic"],
    )


def create(wanted: dict[str, Any], identity: Identity) -> Table:
    """Creates the table of a golden file. Its schema is any text, which the public options do not take."""
    schema = wanted.get("schema", "").encode()
    header = TableHeader(
        key_type=wanted["key"],
        key_bytes=wanted.get("key_bytes", 8 if wanted["key"] == "integer" else 32),
        value_bytes=wanted["value_bytes"],
        capacity=wanted["capacity"],
        schema_length=len(schema),
        schema_id=wanted.get("schema_id", 0),
        schema_version=wanted.get("schema_version", 0),
        value_template=wanted.get("value_template", 0),
        table_id=identity.new_channel_id(),
        created_at=identity.creation_time(),
    )
    options: Any = {"checked": wanted.get("checked", False)}
    return Table._create(golden_path(), (header, schema), options, identity, replace=False)


def golden_path() -> str:
    from flyring import table_path

    return table_path("golden")


def key_of(table: Table, key: Any) -> Any:
    return bytes.fromhex(key) if table.key_type == "bytes" else key


class Actor:
    """Does the operations of a golden file and compares each result."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.held: TableWriter | None = None

    def do(self, operation: dict[str, Any]) -> None:
        fields = dict(operation)
        getattr(self, fields.pop("op"))(**fields)

    def through(self, held: bool) -> Any:
        assert not held or self.held is not None
        return self.held if held else self.table

    def writer(self, name: str, epoch: int) -> None:
        self.held = self.table.writer(name)
        assert self.held.epoch == epoch

    def close_writer(self) -> None:
        assert self.held is not None
        self.held.close()

    def put(self, held: bool, key: Any, value: Any, version: int | None = None, error: str | None = None) -> None:
        try:
            found = self.through(held).put(key_of(self.table, key), bytes_of(value))
        except NoSpaceError as refused:
            assert refused.code == error
        else:
            assert found == version

    def compare_and_put(self, held: bool, key: Any, expected: int, value: Any, version: int) -> None:
        put = self.through(held).compare_and_put
        assert put(key_of(self.table, key), expected, bytes_of(value)) == version

    def remove(self, held: bool, key: Any, removed: bool) -> None:
        assert self.through(held).remove(key_of(self.table, key)) == removed

    def clear(self, held: bool, count: int) -> None:
        assert self.through(held).clear() == count

    def close_synced(self) -> None:
        self.table.close(sync=True)
        self.table = Table.open("golden", _identity=self.table._identity)

    def reboot(self, boot_id: str) -> None:
        self.table.close()
        identity = self.table._identity
        new = Identity(identity.channel_id, identity.created_at, UUID(boot_id), identity.pid, identity.now)
        self.table = Table.open("golden", _identity=new)

    def foreign_store(self, offset: int, data: str) -> None:
        with open(self.table.path, "r+b", buffering=0) as file:
            file.seek(offset)
            file.write(bytes.fromhex(data))

    def end(self) -> None:
        if self.held is not None:
            self.held.close()
        self.table.close()


def check_keys(table: Table, keys: list[dict[str, Any]]) -> None:
    wanted = {key_of(table, one["key"]): (bytes.fromhex(one["value"]), one["version"]) for one in keys}
    assert {key: (value, version) for key, value, version in table._each()} == wanted
    assert {key: table.get_versioned(key) for key in wanted} == wanted


@pytest.mark.filterwarnings("ignore:the table at:RuntimeWarning")
@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_the_same_operations_write_the_same_bytes(path: Path) -> None:
    golden = load_golden(path)
    actor = Actor(create(golden["create"], identity_of(golden["inject"])))
    try:
        for number, operation in enumerate(golden["operations"]):
            try:
                actor.do(operation)
            except AssertionError as error:
                raise AssertionError(f"operation {number}: {operation}") from error
        ours, theirs = Path(actor.table.path).read_bytes(), path.with_suffix(".table").read_bytes()
        assert ours == theirs, first_difference(ours, theirs)
        check_keys(actor.table, golden["expected"]["keys"])
    finally:
        actor.end()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_a_golden_file_is_read_with_the_expected_content(path: Path, read_only: bool) -> None:
    golden = load_golden(path)
    expected, wanted = golden["expected"], golden["expected"]["header"]
    data = path.with_suffix(".table").read_bytes()
    Path(golden_path()).write_bytes(data)
    boot = UUID(bytes=data[CONTROL : CONTROL + 16])
    with Table.open("golden", read_only=read_only, _identity=Identity(boot_id=boot)) as table:
        check_keys(table, expected["keys"])
        header = table.header
        for field in wanted.keys() - {"magic", "major", "required_features", "crc", "table_id", "key_type", "checked"}:
            assert getattr(header, field) == wanted[field], field
        assert (str(table.id), int(header.checked)) == (wanted["table_id"], wanted["checked"])
        assert {"bytes": 1, "text": 2, "integer": 3}[table.key_type] == wanted["key_type"]
        assert (table.schema or "") == golden["create"].get("schema", "")
        stats, control, writer = table.stats(), expected["control"], expected["writer"]
        filled = control["filled_other" if control["generation"] & 1 else "filled"]
        assert (stats.size, stats.version, stats.filled) == (control["size"], control["changed"], filled)
        assert (stats.clean, stats.damaged) == (control["clean"] == 1, control["damaged"])
        assert stats.rebuild == control["rebuild"]
        found = (stats.writer, stats.pid, stats.attached_at)
        assert found == (writer["name"], writer["pid"], writer["attached_at"])


@pytest.mark.filterwarnings("ignore:the table at:RuntimeWarning")
@pytest.mark.parametrize("path", DEAD, ids=lambda path: path.stem)
def test_the_next_owner_takes_over_the_dead(path: Path) -> None:
    golden = load_golden(path)
    identity = identity_of(golden["inject"])
    base = written(bytes(golden["file_length"]), golden["base"])
    file = Path(golden_path())
    for number, point in enumerate(golden["dead"]):
        what = f"killed at point {number}, last store: {point['last_store']}"
        left = written(base, point["left"])
        file.write_bytes(left)
        actor = Actor(Table.open("golden", _identity=identity))
        try:
            if "finds" in point:
                check_keys(actor.table, point["finds"])
            else:
                with pytest.raises(NeedsRecoveryError):
                    len(actor.table)
            first, *others = point["operations"]
            actor.do(first)
            ours, theirs = file.read_bytes(), written(left, point["after_take"])
            assert ours == theirs, f"{what}, after the take: {first_difference(ours, theirs)}"
            check_keys(actor.table, point["keys"])
            for operation in others:
                actor.do(operation)
            ours, theirs = file.read_bytes(), written(theirs, point["after"])
            assert ours == theirs, f"{what}: {first_difference(ours, theirs)}"
        finally:
            actor.end()


def refusal(data: bytes | bytearray) -> str:
    Path(golden_path()).write_bytes(data)
    try:
        Table.open("golden").close()
    except FlyringError as error:
        return f"{error.code} {getattr(error, 'field', '')}".strip()
    return "none"


def test_bad_headers_give_the_error_of_layout_toml() -> None:
    toml = tomllib.loads((SPEC / "layout.toml").read_text())
    whole = (FOLDER / "1.0" / "empty-text.table").read_bytes()
    assert refusal(whole) == "none"
    for row in toml["table_bad_field"]:
        bad = bytearray(whole)
        at = toml["table_header"][row["field"]]["offset"]
        bad[at : at + row["size"]] = (row["value"] & (1 << 8 * row["size"]) - 1).to_bytes(row["size"], "little")
        struct.pack_into("<I", bad, layout.TABLE_HEADER_CRC, crc32c(bad[: layout.TABLE_HEADER_CRC]))
        assert refusal(bad) == f"{row['error']} {row['names']}", row
    for row in toml["flip"]:
        for at in range(row["first"], row["last"] + 1):
            bad = bytearray(whole)
            bad[at] ^= 0xFF
            if row["error"] == "file_length":
                assert refusal(bad) in ("truncated", "corrupt-header file_length"), at
            else:
                assert refusal(bad) == f"{row['error']} {row.get('field', '')}".strip(), at
    for size in range(0, len(whole), 512):
        assert refusal(whole[:size]) == ("not-a-channel" if size < 8 else "truncated"), size
    shutil.copy(FOLDER / "1.0" / "empty-text.table", golden_path())
    Table.open("golden").close()
