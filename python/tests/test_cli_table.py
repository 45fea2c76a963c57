# SPDX-License-Identifier: Apache-2.0
"""flyring table: ls, info, get, put, remove, dump, load, watch, check, snapshot, grow (spec/api.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import generated_prices as prices
from flyring import Table, layout
from flyring.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=8, key="text", value_bytes=20) as one:
        one["a"] = b"text"
        one["b"] = b"\0\xff"
        yield one


def run(capture: Capture, *arguments: str) -> tuple[int, str, str]:
    status = main(["table", *arguments])
    out, err = capture.readouterr()
    return status, out, err


def test_ls_and_info(table: Table, folder: Path, capsys: Capture) -> None:
    with table.writer("feed"):
        status, out, _ = run(capsys, "ls")
    assert (status, out.split("  ")[:3]) == (0, ["t", "text", "2 of 8 keys"])
    assert "feed" in out
    status, out, _ = run(capsys, "info", "t", "--json")
    shown = json.loads(out)
    assert (shown["size"], shown["value_bytes"], shown["key_type"], shown["has_writer"]) == (2, 20, "text", False)
    (folder / "bad.table").write_bytes(b"nonsense")
    status, out, _ = run(capsys, "ls", "--json")
    assert (status, [one["name"] for one in json.loads(out)["tables"]]) == (1, ["bad", "t"])


def test_get_put_remove(table: Table, capsys: Capture) -> None:
    assert json.loads(run(capsys, "get", "t", "a")[1]) == {
        "key": "a",
        "version": table.get_versioned("a")[1],  # type: ignore[index]
        "text": "text",
    }
    status, out, err = run(capsys, "get", "t", "b", "none")
    assert (status, json.loads(out)["data"], "none" in err) == (1, "00ff", True)
    assert run(capsys, "put", "t", "c", "hello")[0] == 0
    assert run(capsys, "put", "t", "d", "0a0b", "--hex")[0] == 0
    assert (table["c"], table["d"]) == (b"hello", b"\n\x0b")
    assert run(capsys, "remove", "t", "c", "none")[0] == 1
    assert "c" not in table
    with table.writer():
        status, _, err = run(capsys, "put", "t", "c", "hello")
    assert (status, "has a writer" in err) == (2, True)
    assert run(capsys, "get", "none")[0] == 2


def test_dump_and_load(table: Table, folder: Path, capsys: Capture) -> None:
    lines = run(capsys, "dump", "t")[1]
    file = folder / "lines"
    file.write_text(lines + '{"key": "x"}\n[]\n{"key": "' + "y" * 40 + '", "text": ""}\n{"key": "z", "text": "z"}\n')
    with Table.create("u", capacity=8, key="text", value_bytes=20) as other:
        status, out, err = run(capsys, "load", "u", str(file))
        assert (status, out) == (1, "put 3 keys\n")
        assert [line.split(":")[1] for line in err.splitlines()] == [" line 3", " line 4", " line 5"]
        assert dict(other) == {**table, "z": b"z"}


def test_keys_of_bytes_and_integers_and_typed_values(capsys: Capture) -> None:
    with Table.create("b", capacity=8, key="bytes", value_bytes=20) as one:
        one[b"\xff"] = b"1"
        assert json.loads(run(capsys, "dump", "b")[1])["key_hex"] == "ff"
    with Table.create("i", capacity=8, key="integer", schema=prices.SCHEMA, message="PriceUpdate") as one:
        status, _, err = run(capsys, "put", "i", "5", '{"bid": 1}')
        assert (status, "PriceUpdate" in err) == (2, True)
        assert run(capsys, "get", "i", "x")[0] == 2
        assert run(capsys, "get", "i", "0x5")[0] == 1
        instrument = {"id": 1, "symbol": "ABC", "exchange": "X", "currency": "EUR", "kind": "STOCK"}
        numbers = dict.fromkeys(("timestamp", "bid", "ask", "bidSize", "askSize", "sequence"), 7)
        value = json.dumps({"instrument": instrument, **numbers, "flags": {}})
        assert run(capsys, "put", "i", "5", value)[0] == 0
        assert one.decode(5).bid == 7
        assert json.loads(run(capsys, "get", "i", "5")[1])["message"]["instrument"]["symbol"] == "ABC"


def test_watch(table: Table, capsys: Capture) -> None:
    status, out, _ = run(capsys, "watch", "t", "--count", "2")
    assert (status, [json.loads(line)["key"] for line in out.splitlines()]) == (0, ["a", "b"])
    status, out, _ = run(capsys, "watch", "t", "b", "--count", "1")
    assert json.loads(out)["key"] == "b"


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
    with table.writer():
        assert run(capsys, "check", "t")[0] == 2
