# SPDX-License-Identifier: Apache-2.0
"""``flyring top`` of tables: each state of docs/troubleshooting.md is made, and must be shown."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Child
from flyring import Channel, Table, layout
from flyring.cli import main
from flyring.cli.top import recent, summary
from flyring.cli.top_model import Model
from flyring.cli.top_row import Row
from flyring.table_file import CONTROL
from waits import until

WRITER = """
    from flyring import Table
    with Table.open("t") as table, table.writer("feed") as writer:
        print(writer.put("k", b"1"), flush=True)
        input()
"""


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=3, key="text", value_bytes=8) as one:
        one["a"] = b"1"
        yield one


@pytest.fixture
def model() -> Iterator[Model]:
    one = Model(None, None)
    yield one
    one.close()


def row(model: Model) -> Row:
    model.look()
    (found,) = [one for one in model.rows() if one.role == "table"]
    return found


def test_keys_and_changes_a_second(table: Table, model: Model) -> None:
    found = row(model)
    assert (found.note, found.states, found.state, found.pid) == ("1 of 3 keys", (), "-", 0)
    for _ in range(200):
        table["a"] = b"2"
    time.sleep(0.1)
    found = row(model)
    assert 200 < found.messages < 2001
    assert (found.note, found.bytes, found.lag_messages) == ("1 of 3 keys, changed 0 s ago", -1, -1)
    assert "1 table, " in summary(model)
    assert row(model).messages == 0


def test_a_full_table(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.update({"b": b"2", "c": b"3"})
    assert main(["top", "--once", "t"]) == 1
    assert "! FULL: 3 of 3 keys" in capsys.readouterr().out
    del table["c"]
    assert main(["top", "--once", "t", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["rows"]
    assert (found["role"], found["keys"], found["capacity"], found["alarm"]) == ("table", 2, 3, False)


def test_a_writer_that_stops_and_dies(table: Table, model: Model, child: Callable[..., Child]) -> None:
    assert row(model).state == "-"
    writer = child(WRITER)
    writer.line()
    row(model)
    found = row(model)
    assert (found.name, found.pid, found.states) == ("feed", writer.process.pid, ())
    assert any("writer feed" in text and "has come" in text for text in recent(model))
    os.kill(writer.process.pid, signal.SIGSTOP)
    until(lambda: row(model).states == ("STOPPED",))
    found = row(model)
    assert (found.state, found.note.startswith("STOPPED, 2 of 3 keys")) == ("STOPPED", True)
    os.kill(writer.process.pid, signal.SIGKILL)
    writer.process.wait()
    found = row(model)
    assert (found.state, found.states, found.pid) == ("away", ("DEAD",), writer.process.pid)
    assert row(model).states == ("DEAD",)
    assert recent(model)[-1].endswith(f"t: writer feed (pid {writer.process.pid}) DIED")
    table["a"] = b"next"
    assert row(model).states == ()


def test_a_writer_that_closes_has_not_died(table: Table, model: Model) -> None:
    with table.writer("feed"):
        row(model)
        assert row(model).name == "feed"
    found = row(model)
    assert (found.state, found.states, found.name) == ("closed", (), "")
    assert recent(model)[-1].endswith(" closed")


def test_a_writer_that_died_within_a_change(table: Table, model: Model) -> None:
    table._memory.store64(CONTROL + layout.TABLE_CONTROL_STAMP, 9)
    found = row(model)
    assert (found.states, found.note) == (("DEAD",), "DEAD during a change: the next writer completes it, 1 of 3 keys")
    table["a"] = b"2"
    assert row(model).states == ()


def test_a_table_that_needs_recovery(table: Table, model: Model) -> None:
    table._memory.write(CONTROL + layout.TABLE_CONTROL_BOOT_ID, bytes(16))
    assert row(model).note == "NEEDS RECOVERY, 1 of 3 keys"


def test_grown_replaced_and_removed(table: Table, model: Model, folder: Path) -> None:
    row(model)
    table.grow(10)
    assert row(model).note.startswith("1 of 10 keys")
    assert recent(model)[-1].endswith("t: grown from 3 to 10 keys")
    with Table.replace("t", capacity=5, key="text", value_bytes=8):
        assert row(model).note == "0 of 5 keys"
        assert recent(model)[-1].endswith("t: REPLACED by another table")
        Table.unlink("t")
        model.look()
        assert not list(model.rows())
        assert recent(model)[-1].endswith("t: the table is gone")
    (folder / "t.table").write_bytes(b"nonsense")
    model.look()
    (found,) = model.rows()
    assert (found.channel, found.states) == ("t", ("NOT VALID",))


def test_a_channel_and_a_table_of_one_name(table: Table, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("t", "inbox", capacity=4096) as channel, channel.publisher("feed"):
        model.look()
        assert {(one.channel, one.role) for one in model.rows()} == {("t", "pub"), ("t", "sub"), ("t", "table")}
        main(["top", "--once", "t"])  # the name is first the channel's
        assert "keys" not in capsys.readouterr().out


def test_a_look_costs_the_same_for_a_large_table(folder: Path, model: Model) -> None:
    """Only the header and the control section are mapped."""
    with Table.create("large", capacity=100_000, key="integer", value_bytes=100):
        model.look()
        ((image, _, _),) = model._images.values()
        assert image.memory is not None
        assert image.memory.length == layout.HEADER_LENGTH + layout.TABLE_CONTROL_LENGTH
