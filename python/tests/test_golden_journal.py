# SPDX-License-Identifier: Apache-2.0
"""The golden files of journals: the same operations write the same bytes, every journal has the expected contents, and
the next owner finishes what a dead one had begun (spec/golden/README.md, "Journals")."""

from __future__ import annotations

import shutil
import struct
import tomllib
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from conftest import SPEC, load_golden
from flyring import (
    FlyringError,
    Journal,
    JournalConsumer,
    JournalMessage,
    JournalReader,
    JournalWriter,
    MessageTooLargeError,
    journal_path,
    layout,
)
from flyring._core import crc32c
from flyring._identity import Identity
from flyring.journal_header import JournalHeader, Policy
from golden_services import bytes_of
from test_golden import first_difference, written
from test_golden_table import identity_of

FOLDER = SPEC / "golden" / "journal"
LIVE = sorted(FOLDER.glob("1.0/*.json"))
DEAD = sorted(FOLDER.glob("dead/*.json"))
CONTROL = layout.HEADER_LENGTH


def test_there_are_golden_files() -> None:
    assert len(LIVE) >= 12
    assert len(DEAD) >= 29


def create(wanted: dict[str, Any], identity: Identity) -> Journal:
    """Creates the journal of a golden file. Its schema is any text, which the public options do not take."""
    schema = wanted.get("schema", "").encode()
    header = JournalHeader(
        content=wanted.get("content", 0),
        consumers=wanted.get("consumers", 16),
        segment_size=wanted.get("segment_size", 65536),
        schema_length=len(schema),
        schema_id=wanted.get("schema_id", 0),
        schema_version=wanted.get("schema_version", 0),
        journal_id=identity.new_channel_id(),
        created_at=identity.creation_time(),
    )
    names = ("sync_every", "max_age", "max_size")
    policy = Policy(*(wanted.get(name, 0) for name in names), wanted.get("trim_consumed", 0))
    return Journal._create(journal_path("golden"), (header, schema, policy), {}, identity)


Files = dict[str, bytes]


def files_of(path: str | Path) -> Files:
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


def write(path: str | Path, files: Files) -> None:
    shutil.rmtree(path, ignore_errors=True)
    Path(path).mkdir(parents=True, mode=0o700)
    for name, data in files.items():
        (Path(path) / name).write_bytes(data)


def changed(files: Files, changes: dict[str, Any]) -> Files:
    found = dict(files)
    for name, change in changes.items():
        if change is None:
            del found[name]
        else:
            found[name] = written(found.get(name, bytes(change["length"])), change["runs"])
    return found


def compare(ours: Files, theirs: Files, what: str) -> None:
    assert sorted(ours) == sorted(theirs), what
    for name in ours:
        assert ours[name] == theirs[name], f"{what}, {name}: {first_difference(ours[name], theirs[name])}"


def facts(message: JournalMessage) -> dict[str, Any]:
    data = bytes(message)
    return {
        "position": message.position,
        "number": message.number,
        "type": message.type,
        "time": message.time,
        "length": len(data),
        "crc": crc32c(data),
    }


def read(reader: JournalReader, limit: int = 256) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    reader.poll(lambda message: found.append(facts(message)), limit)
    return found


def check_messages(journal: Journal, messages: list[dict[str, Any]]) -> None:
    with journal.reader() as reader:
        assert read(reader) == messages


class Actor:
    """Does the operations of a golden file and compares each result."""

    def __init__(self, journal: Journal, identity: Identity) -> None:
        self.journal, self.identity = journal, identity
        self.held: JournalWriter | None = None
        self.consumers: dict[str, JournalConsumer] = {}
        self.claimed: Any = None

    def do(self, operation: dict[str, Any]) -> None:
        fields = dict(operation)
        getattr(self, fields.pop("op"))(**fields)

    @property
    def writing(self) -> JournalWriter:
        assert self.held is not None
        return self.held

    def writer(self, name: str, epoch: int, recovery: dict[str, int] | None) -> None:
        self.held = self.journal.writer(name, helper=False)
        assert self.held.epoch == epoch
        found = self.held.recovery
        assert recovery == (found and {field: getattr(found, field) for field in recovery or {}})

    def close_writer(self) -> None:
        self.writing.close()
        self.held = None

    def append(
        self, type: int, data: Any, time: int | None = None, position: int | None = None, error: str | None = None
    ) -> None:
        try:
            assert self.writing.append(bytes_of(data), type=type, time=time) == position
        except MessageTooLargeError as refused:
            assert refused.code == error

    def append_many(self, type: int, data: list[Any], count: int) -> None:
        assert self.writing.append_many([bytes_of(one) for one in data], type=type) == count

    def claim(self, length: int, type: int) -> None:
        self.claimed = self.writing.claim(length, type=type)

    def commit(self, data: Any, position: int) -> None:
        memoryview(self.claimed)[:] = bytes_of(data)
        assert self.claimed.commit() == position

    def abort(self) -> None:
        self.claimed.abort()

    def push(self, type: int, data: Any, position: int) -> None:
        assert self.journal.push(bytes_of(data), type=type) == position

    def sync(self) -> None:
        self.writing.sync()

    def consumer(self, name: str, start: str, slot: int, position: int, number: int, lost: int) -> None:
        made = self.consumers[name] = self.journal.consumer(name, start="oldest" if start == "oldest" else "newest")
        assert (made.slot, made.position, made.number, made.lost) == (slot, position, number, lost)

    def poll(self, consumer: str, limit: int, numbers: list[int]) -> None:
        assert [message["number"] for message in read(self.consumers[consumer], limit)] == numbers

    def close_consumer(self, consumer: str) -> None:
        self.consumers.pop(consumer).close()

    def forget(self, consumer: str) -> None:
        self.consumers.pop(consumer).forget()

    def trim(self, position: int | None, segments: int) -> None:
        before = len(list(Path(self.journal.path).glob("*.seg")))
        freed = self.journal.trim(consumed=True) if position is None else self.journal.trim(position=position)
        assert before - len(list(Path(self.journal.path).glob("*.seg"))) == segments
        assert freed >= segments * self.journal.segment_size

    def reboot(self, boot_id: str) -> None:
        files = files_of(self.journal.path)
        self.end()
        write(self.journal.path, files)
        old = self.identity
        self.identity = Identity(old.channel_id, old.created_at, UUID(boot_id), old.pid, old.now)
        self.journal = Journal.open("golden", _identity=self.identity)

    def foreign_store(self, file: str, offset: int, data: str) -> None:
        with (Path(self.journal.path) / file).open("r+b", buffering=0) as opened:
            opened.seek(offset)
            opened.write(bytes.fromhex(data))

    def end(self) -> None:
        self.journal.close()
        self.held = None
        self.consumers = {}


@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_the_same_operations_write_the_same_bytes(path: Path) -> None:
    golden = load_golden(path)
    identity = identity_of(golden["inject"])
    actor = Actor(create(golden["create"], identity), identity)
    try:
        for number, operation in enumerate(golden["operations"]):
            try:
                actor.do(operation)
            except AssertionError as error:
                raise AssertionError(f"operation {number}: {operation}") from error
        compare(files_of(actor.journal.path), files_of(path.with_suffix("")), "at the end")
        check_messages(actor.journal, golden["expected"]["messages"])
    finally:
        actor.end()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_a_golden_file_is_read_with_the_expected_content(path: Path, read_only: bool) -> None:
    golden = load_golden(path)
    expected, wanted = golden["expected"], golden["expected"]["header"]
    files = files_of(path.with_suffix(""))
    write(journal_path("golden"), files)
    boot = UUID(bytes=files["control"][CONTROL : CONTROL + 16])
    with Journal.open("golden", read_only=read_only, _identity=Identity(boot_id=boot)) as journal:
        check_messages(journal, expected["messages"])
        for number in range(0, len(expected["messages"]), 3):  # from each third message, by its position and number
            first = expected["messages"][number]
            for start in ({"position": first["position"]}, {"number": first["number"]}):
                with journal.reader(start=start_at(**start)) as reader:
                    assert read(reader) == expected["messages"][number:]
        assert (journal.segment_size, journal.header.consumers) == (wanted["segment_size"], wanted["consumers"])
        assert (str(journal.id), journal.created_at) == (wanted["journal_id"], wanted["created_at"])
        assert journal.header.content == wanted["content"]
        assert (journal.schema or "") == golden["create"].get("schema", "")
        stats, control, writer = journal.stats(), expected["control"], expected["writer"]
        for field in ("messages", "published", "trimmed", "synced", "ready"):
            assert getattr(stats, field) == control[field], field
        assert (stats.writer, stats.pid, stats.attached_at) == (writer["name"], writer["pid"], writer["attached_at"])
        found = [(one.slot, one.name, one.position) for one in stats.consumers]
        assert found == [(one["slot"], one["name"], one["gate"]) for one in expected["consumers"]]
    compare(files_of(journal_path("golden")), files, "a reader changes nothing")


def start_at(position: int | None = None, number: int | None = None) -> Any:
    from flyring import JournalStart

    return JournalStart.at_position(position) if position is not None else JournalStart.at_number(number or 0)


@pytest.mark.parametrize("path", DEAD, ids=lambda path: path.stem)
def test_the_next_owner_takes_over_the_dead(path: Path) -> None:
    golden = load_golden(path)
    identity = identity_of(golden["inject"])
    base = changed({}, golden["base"])
    folder = journal_path("golden")
    for number, point in enumerate(golden["dead"]):
        what = f"killed at point {number}, last store: {point['last_store']}"
        left = changed(base, point["left"])
        write(folder, left)
        actor = Actor(Journal.open("golden", _identity=identity), identity)
        try:
            check_messages(actor.journal, point["finds"])
            first, *others = point["operations"]
            actor.do(first)
            taken = changed(left, point["after_take"])
            compare(files_of(folder), taken, f"{what}, after the take")
            check_messages(actor.journal, point["finds"])
            for operation in others:
                actor.do(operation)
            compare(files_of(folder), changed(taken, point["after"]), what)
        except AssertionError as error:
            raise AssertionError(what) from error
        finally:
            actor.end()


def refusal(files: Files, control: bytes | bytearray) -> str:
    (Path(journal_path("golden")) / "control").write_bytes(control)
    try:
        Journal.open("golden").close()
    except FlyringError as error:
        return f"{error.code} {getattr(error, 'field', '')}".strip()
    return "none"


def test_bad_headers_give_the_error_of_layout_toml() -> None:
    toml = tomllib.loads((SPEC / "layout.toml").read_text())
    files = files_of(FOLDER / "1.0" / "empty")
    write(journal_path("golden"), files)
    whole = files["control"]
    assert refusal(files, whole) == "none"
    assert len(toml["journal_bad_field"]) > 25
    for row in toml["journal_bad_field"]:
        bad = bytearray(whole)
        at = toml["journal_header"][row["field"]]["offset"]
        bad[at : at + row["size"]] = (row["value"] & (1 << 8 * row["size"]) - 1).to_bytes(row["size"], "little")
        struct.pack_into("<I", bad, layout.JOURNAL_HEADER_CRC, crc32c(bad[: layout.JOURNAL_HEADER_CRC]))
        assert refusal(files, bad) == f"{row['error']} {row['names']}".strip(), row
    for row in toml["flip"]:
        for at in range(row["first"], row["last"] + 1):
            bad = bytearray(whole)
            bad[at] ^= 0xFF
            if row["error"] == "file_length":
                assert refusal(files, bad) in ("truncated", "corrupt-header file_length"), at
            else:
                assert refusal(files, bad) == f"{row['error']} {row.get('field', '')}".strip(), at
    for size in range(0, len(whole), 512):
        assert refusal(files, whole[:size]) == ("not-a-channel" if size < 8 else "truncated"), size
