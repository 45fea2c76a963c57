# SPDX-License-Identifier: Apache-2.0
"""flyring table: create, rm, ls, info, get, put, remove, dump, load, watch, check, snapshot, grow (spec/api.md); and
what the commands for channels say about a table."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import generated_prices as prices
from flyring import Channel, Table, layout
from flyring.cli import main
from flyring.table_file import CONTROL

Capture = pytest.CaptureFixture[str]
DIES = """
import os, signal, sys, flyring
table = flyring.Table.open(sys.argv[1])
writer = table.writer("feed")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=8, key="text", value_bytes=20) as one:
        one["a"] = b"text"
        one["b"] = b"\0\xff"
        yield one


def run(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    return flyring(capture, "table", *arguments)


def flyring(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments])
    out, err = capture.readouterr()
    return status, out, err


def of_another_boot(table: Table) -> None:
    table._memory.write(CONTROL + layout.TABLE_CONTROL_BOOT_ID, uuid.uuid4().bytes)


# Making and removing


def test_create(folder: Path, capsys: Capture) -> None:
    status, out, _ = run(capsys, "create", "new", "--key", "text", "--capacity", "10", "--value-bytes", "4KiB")
    assert (status, out.split(": ")[1][:12]) == (0, "10 text keys")
    with Table.open("new") as one:
        header = one.header
        assert (header.value_bytes, header.key_bytes, header.capacity, header.checked) == (4096, 32, 10, False)
    again = ("create", "new", "--key", "integer", "--capacity", "5", "--value-bytes", "0")
    status, _, err = run(capsys, *again)
    assert (status, "exists" in err or "there is" in err) == (2, True)
    more = ("--replace", "--checked", "--mode", "0640", "--json")
    status, out, _ = run(capsys, *again, *more)
    assert json.loads(out)["capacity"] == 5
    assert (folder / "new.table").stat().st_mode & 0o777 == 0o640
    with Table.open("new") as one:
        assert (one.key_type, one.header.checked) == ("integer", True)


def test_create_with_a_schema(folder: Path, capsys: Capture) -> None:
    (folder / "prices.xml").write_text(prices.SCHEMA.text)
    typed = ("create", "p", "--key", "text", "--capacity", "5", "--schema", str(folder / "prices.xml"))
    assert run(capsys, *typed, "--message", "PriceUpdate")[0] == 0
    with Table.open("p") as one:
        assert one.message.NAME == "PriceUpdate"
    assert "PriceUpdate" in run(capsys, "info", "p")[1]
    status, _, err = run(capsys, *typed, "--replace")
    assert (status, "message" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--capacity", "0", "--value-bytes", "1"), "capacity"),
        (("--capacity", "5"), "--value-bytes 48"),
        (("--capacity", "5", "--value-bytes", "17MiB"), "value_bytes"),
        (("--capacity", "5", "--value-bytes", "1", "--key-bytes", "2000"), "key_bytes"),
    ],
)
def test_create_refuses(options: tuple[str, ...], text: str, folder: Path, capsys: Capture) -> None:
    status, _, err = run(capsys, "create", "new", "--key", "text", *options)
    assert (status, text in err) == (2, True)
    assert not list(folder.glob("*.table"))


def test_rm(table: Table, folder: Path, capsys: Capture) -> None:
    Table.create("u", capacity=8, key="text", value_bytes=20).close()
    status, _, err = run(capsys, "rm", "t", "a")
    assert (status, "flyring table remove t a" in err, (folder / "t.table").exists()) == (2, True, True)
    with table.writer("feed"):
        status, out, err = run(capsys, "rm", "u", "t")
        assert (status, "u.table: removed" in out, "in use by its writer feed" in err) == (1, True, True)
        assert [path.name for path in folder.glob("*.table")] == ["t.table"]
        assert run(capsys, "rm", "t", "--force", "--json")[0] == 0
    assert not list(folder.glob("*.table"))
    assert run(capsys, "rm", "t")[0] == 1


# Looking


def test_ls_and_info(table: Table, folder: Path, capsys: Capture) -> None:
    with table.writer("feed"):
        status, out, _ = run(capsys, "ls")
        titles, line = out.splitlines()
        assert (status, titles.split()[:4]) == (0, ["NAME", "KEY", "KEYS", "CAPACITY"])
        assert line.split()[:5] == ["t", "text", "32", "2", "8"]
        assert f"feed (pid {os.getpid()})" in line
        assert f"  writer     feed (pid {os.getpid()}), for " in run(capsys, "info", "t")[1]
    status, out, _ = run(capsys, "info", "t", "--json")
    shown = json.loads(out)
    assert (shown["size"], shown["value_bytes"], shown["key_type"], shown["writing"]) == (2, 20, "text", False)
    assert (shown["writer"], shown["closed"], shown["unfinished"]) == ("feed", True, False)
    assert "none; the last TableWriter was feed" in run(capsys, "info", "t")[1]
    assert "2 of 8, text of up to 32 bytes" in run(capsys, "info", "t")[1]
    (folder / "bad.table").write_bytes(b"nonsense")
    status, out, _ = run(capsys, "ls", "--json")
    found = json.loads(out)
    assert [one["name"] for one in found["tables"]] == ["t"]
    assert [(one["name"], one["code"]) for one in found["not_whole"]] == [("bad", "not-a-channel")]
    assert status == 1
    assert "not valid: " in run(capsys, "ls")[1]


def test_ls_of_no_table(folder: Path, capsys: Capture) -> None:
    assert run(capsys, "ls")[:2] == (0, f"there is no table in {folder}\n")
    assert run(capsys, "ls", str(folder / "none"))[0] == 2


def test_writer_that_died(table: Table, capsys: Capture) -> None:
    with subprocess.Popen([sys.executable, "-c", DIES, "t"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert json.loads(run(capsys, "info", "t", "--json")[1])["writing"]
        process.kill()
        process.wait()
    shown = json.loads(run(capsys, "info", "t", "--json")[1])
    assert (shown["writing"], shown["closed"], shown["unfinished"]) == (False, False, False)
    table._memory.store64(CONTROL + layout.TABLE_CONTROL_STAMP, table.version + 1)
    assert json.loads(run(capsys, "info", "t", "--json")[1])["unfinished"]
    assert "died during a change" in run(capsys, "info", "t")[1]
    table["c"] = b"next"
    assert not json.loads(run(capsys, "info", "t", "--json")[1])["unfinished"]


def test_table_of_another_boot(capsys: Capture) -> None:
    with Table.create("o", capacity=8, key="text", value_bytes=20, checked=True) as one:
        one["a"] = b"text"
        of_another_boot(one)
    assert "NEEDS RECOVERY" in run(capsys, "ls")[1]
    assert "NEEDS RECOVERY" in run(capsys, "info", "o")[1]
    status, _, err = run(capsys, "get", "o", "a")
    assert (status, "recovers it" in err) == (2, True)
    assert run(capsys, "check", "o")[0] == 0
    assert run(capsys, "get", "o", "a")[0] == 0


def test_recovery_says_how_far_it_is(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flyring.cli.table.TOLD", -1)
    with Table.create("o", capacity=8, key="text", value_bytes=20, checked=True) as one:
        one["a"] = b"text"
        one["b"] = b"text"
        body = one.header.cells_offset + one.header.body_offset + one.header.body_stride
        one._memory.store64(body + layout.TABLE_BODY_SEQ, 0)  # the only body of the first key
        of_another_boot(one)
    status, _, err = run(capsys, "put", "o", "c", "1")
    assert (status, "recovers o: 8 of 8 cells (100 %)" in err) == (0, True)
    assert "1 of 8 cells had only torn values" in err


# Reading and writing


def test_get_put_remove(table: Table, capsys: Capture) -> None:
    assert json.loads(run(capsys, "get", "t", "a")[1]) == {
        "key": "a",
        "version": table.get_versioned("a")[1],  # type: ignore[index]
        "text": "text",
    }
    status, out, err = run(capsys, "get", "t", "b", "none")
    assert (status, json.loads(out)["data"], "no key 'none'" in err) == (1, "00ff", True)
    assert run(capsys, "put", "t", "c", "hello")[0] == 0
    assert run(capsys, "put", "t", "d", "0a0b", "--hex")[0] == 0
    assert (table["c"], table["d"]) == (b"hello", b"\n\x0b")
    assert run(capsys, "remove", "t", "c", "none")[0] == 1
    assert "c" not in table
    with table.writer():
        status, _, err = run(capsys, "put", "t", "c", "hello")
    assert (status, "has a writer" in err) == (2, True)
    assert run(capsys, "get", "none")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("put", "t", "c", "xyz", "--hex"), "is not hexadecimal"),
        (("put", "t", "c", "x" * 21), "21"),
        (("put", "t", "c" * 40, "x"), "40"),
        (("get", "t", "ff", "--key-hex"), "only bytes may be in hex"),
        (("grow", "t", "1"), "capacity"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], text: str, table: Table, capsys: Capture) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, text in err) == (2, "", True)
    assert "c" not in table


def test_dump_and_load(table: Table, folder: Path, capsys: Capture) -> None:
    lines = run(capsys, "dump", "t")[1]
    file = folder / "lines"
    file.write_text(lines + '{"key": "x"}\n[]\n{"key": "' + "y" * 40 + '", "text": ""}\n{"key": "z", "text": 1}\n')
    with file.open("a") as more:
        more.write('\n{"key": "z", "text": "z"}\n')
    with Table.create("u", capacity=8, key="text", value_bytes=20) as other:
        status, out, err = run(capsys, "load", "u", str(file))
        assert (status, out) == (1, "put 3 keys\n")
        assert [line.split(" is")[0] for line in err.splitlines()[:-1]] == [f"flyring: line {k}" for k in (3, 4, 5, 6)]
        assert dict(other) == {**table, "z": b"z"}


def test_keys_of_bytes_and_integers_and_typed_values(capsys: Capture) -> None:
    with Table.create("b", capacity=8, key="bytes", value_bytes=20) as one:
        one[b"\xff"] = b"1"
        assert json.loads(run(capsys, "dump", "b")[1])["key_hex"] == "ff"
        assert run(capsys, "get", "b", "ff", "--key-hex")[0] == 0
        assert run(capsys, "put", "b", "00", "2", "--key-hex")[0] == 0
        assert run(capsys, "remove", "b", "ff", "--key-hex")[0] == 0
        assert dict(one) == {b"\0": b"2"}
        assert "is not hexadecimal" in run(capsys, "get", "b", "f", "--key-hex")[2]
    with Table.create("i", capacity=8, key="integer", schema=prices.SCHEMA, message="PriceUpdate") as one:
        status, _, err = run(capsys, "put", "i", "5", '{"bid": 1}')
        assert (status, "PriceUpdate" in err) == (2, True)
        status, _, err = run(capsys, "put", "i", "5", "1 apple")
        assert (status, "messages PriceUpdate, as JSON" in err) == (2, True)
        assert run(capsys, "get", "i", "x")[0] == 2
        assert run(capsys, "get", "i", "0x5")[0] == 1
        instrument = {"id": 1, "symbol": "ABC", "exchange": "X", "currency": "EUR", "kind": "STOCK"}
        numbers = dict.fromkeys(("timestamp", "bid", "ask", "bidSize", "askSize", "sequence"), 7)
        value = json.dumps({"instrument": instrument, **numbers, "flags": {}})
        assert run(capsys, "put", "i", "5", value)[0] == 0
        assert one.decode(5).bid == 7
        assert json.loads(run(capsys, "get", "i", "5")[1])["message"]["instrument"]["symbol"] == "ABC"
        one[6] = b"no message"
        assert json.loads(run(capsys, "get", "i", "6")[1])["data"] == b"no message".hex()


def test_watch(table: Table, capsys: Capture) -> None:
    status, out, _ = run(capsys, "watch", "t", "--count", "2")
    assert (status, [json.loads(line)["key"] for line in out.splitlines()]) == (0, ["a", "b"])
    status, out, _ = run(capsys, "watch", "t", "b", "--count", "1")
    assert json.loads(out)["key"] == "b"


def test_watch_follows_changes_until_the_table_is_replaced(table: Table) -> None:
    command = [sys.executable, "-m", "flyring.cli", "table", "watch", "t", "a", "b"]
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
        assert process.stdout is not None
        assert process.stderr is not None
        limit = threading.Timer(60, process.kill)  # a line that does not come fails the test
        limit.start()
        stack.callback(limit.cancel)
        stack.callback(process.kill)

        def line() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(process.stdout.readline())  # type: ignore[union-attr]
            return found

        assert (line()["key"], line()["key"]) == ("a", "b")
        table["c"] = b"not watched"
        table["a"] = b"new"
        assert line()["text"] == "new"
        del table["b"]
        assert line() == {"key": "b", "version": 0}
        table["b"] = b"again"
        assert line()["text"] == "again"
        Table.replace("t", capacity=8, key="text", value_bytes=20).close()
        assert process.wait(30) == 1
        assert "another" in process.stderr.read()


# Checking and copying


def test_check_snapshot_grow(table: Table, folder: Path, capsys: Capture) -> None:
    assert run(capsys, "check", "t")[:2] == (0, "no rule is broken\n")
    assert run(capsys, "snapshot", "t", str(folder / "s.table"))[1].startswith("wrote 2 keys")
    assert run(capsys, "check", "s")[0] == 0
    assert run(capsys, "grow", "t", "100")[0] == 0
    assert (table.capacity if table["a"] else 0) == 100
    assert run(capsys, "grow", "t", "1")[0] == 2
    table._memory.store64(layout.HEADER_LENGTH + layout.TABLE_CONTROL_SIZE, 7)
    status, out, _ = run(capsys, "check", "t")
    assert (status, "size is 7, but 2 cells are live" in out) == (1, True)
    status, out, _ = run(capsys, "check", "t", "--json")
    assert (status, json.loads(out)["broken"]) == (1, 1)
    with table.writer():
        assert run(capsys, "check", "t")[0] == 2


def test_snapshot_at_an_interval(table: Table, folder: Path, capsys: Capture) -> None:
    path = folder / "copies" / "s.table"
    every = ("snapshot", "t", str(path), "--every", "0.01", "--count", "3", "--json")
    status, out, err = run(capsys, *every)
    assert (status, out, len(err.splitlines())) == (1, "", 3)  # there is no such folder
    path.parent.mkdir()
    status, out, err = run(capsys, *every)
    assert (status, out.count('"keys": 2'), err) == (0, 3, "")
    with Table.replace("t", capacity=8, key="text", value_bytes=20) as other:
        other["only"] = b"this"
        assert run(capsys, *every)[0] == 0
    with Table.open(path) as copy:
        assert dict(copy) == {"only": b"this"}
    assert [one.name for one in path.parent.iterdir()] == ["s.table"]


# A table where a channel is needed, and the other way round


@pytest.mark.parametrize(
    ("arguments", "do"),
    [
        (("info", "t"), "flyring table info t"),
        (("check", "t"), "flyring table check t"),
        (("rm", "t"), "flyring table rm t"),
        (("tail", "t"), "flyring table watch t"),
        (("publish", "t"), "flyring table load t"),
        (("recover", "t"), "flyring table --help"),
        (("evict", "t", "0"), "flyring table --help"),
    ],
)
def test_commands_for_channels_name_the_one_for_tables(
    arguments: tuple[str, ...], do: str, table: Table, folder: Path, capsys: Capture
) -> None:
    status, out, err = flyring(capsys, *arguments)
    assert (status, out, err) == (2, "", f"flyring: t is a table: {do}\n")
    path = str(folder / "t.table")
    status, out, err = flyring(capsys, arguments[0], path, *arguments[2:])
    assert (status, out, err) == (2, "", f"flyring: {path} is a table: {do[:-1] + path if do.endswith(' t') else do}\n")
    assert table["a"] == b"text"
    with Channel.create("t", "inbox", capacity=4096):  # its name is not the table's
        assert "is a table" not in flyring(capsys, "info", "t")[2]


def test_commands_for_tables_name_the_one_for_channels(folder: Path, capsys: Capture) -> None:
    with Channel.create("c", "inbox", capacity=4096):
        for verb in ("info", "get", "check", "rm"):
            assert run(capsys, verb, "c") == (2, "", "flyring: c is a channel: flyring info c\n")
    assert "is a channel" not in run(capsys, "get", "none")[2]


def test_ls_of_channels_says_that_there_are_tables(table: Table, capsys: Capture) -> None:
    status, out, _ = flyring(capsys, "ls")
    assert (status, out.splitlines()[-1]) == (0, "1 table besides: flyring table ls")
    assert json.loads(flyring(capsys, "ls", "--json")[1])["tables"] == ["t"]
