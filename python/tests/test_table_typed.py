# SPDX-License-Identifier: Apache-2.0
"""Tables: values that are SBE messages; arrays of them (spec/api.md, Table)."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import generated_prices as prices
from flyring import ChannelDiffersError, InvalidArgumentError, Table
from flyring.sbe import Schema, WrongMessageError

SCHEMA = prices.SCHEMA
PriceUpdate = prices.PriceUpdate


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("quotes", capacity=50, key="text", schema=SCHEMA, message="PriceUpdate") as one:
        yield one


def update(bid: int, ask: int = 0, symbol: str = "ABC") -> Any:
    message = PriceUpdate.encode(bytearray(PriceUpdate.BLOCK_LENGTH + 8))
    message.bid, message.ask, message.timestamp = bid, ask, 1
    message.bidSize, message.askSize, message.sequence = 5, 6, 7
    message.instrument.id, message.instrument.symbol = 9, symbol
    message.lastSide = None
    return message


def test_header_has_the_schema_and_the_message(table: Table) -> None:
    header = table.header
    assert (header.schema_id, header.schema_version, header.value_template) == (SCHEMA.id, SCHEMA.version, 1)
    assert header.value_bytes == PriceUpdate.BLOCK_LENGTH + 8
    with Table.open("quotes") as other:
        assert other.schema == SCHEMA.text
        assert other.message.NAME == "PriceUpdate"
    with pytest.raises(ChannelDiffersError) as caught:
        Table.open_or_create("quotes", capacity=50, key="text", value_bytes=70)
    assert caught.value.field == "schema_id"
    newer = Schema.parse(SCHEMA.text.replace(f'version="{SCHEMA.version}"', f'version="{SCHEMA.version + 1}"', 1))
    with pytest.raises(ChannelDiffersError) as caught:
        Table.open_or_create("quotes", capacity=50, key="text", schema=newer, message="PriceUpdate")
    assert caught.value.field == "schema_version"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"schema": SCHEMA}, "message"),
        ({"schema": SCHEMA, "message": "Nothing"}, "message"),
        ({"schema": SCHEMA, "message": "Book"}, "value_bytes"),
    ],
)
def test_wrong_message(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Table.create("t", capacity=5, key="text", **options)
    assert caught.value.argument == argument


def test_typed_values(table: Table) -> None:
    table["ABC"] = update(100, 101)
    found = table.decode("ABC")
    assert (found.bid, found.ask, found.instrument.symbol) == (100, 101, "ABC")
    assert table.read("ABC", lambda view: PriceUpdate.decode(view).bid) == 100
    assert table.decode("none") is None

    def change(quote: Any) -> None:
        quote.bid += 1

    version = table.update("ABC", change)
    assert table.get_versioned("ABC")[1] == version  # type: ignore[index]
    assert (table.decode("ABC").bid, table.decode("ABC").ask, table.decode("ABC").bidSize) == (101, 101, 5)
    with table.writer() as writer:
        entry = writer.entry("ABC")
        assert entry is not None
        entry.put(update(7))
        entry.update(change)
    assert table.decode("ABC").bid == 8


def test_value_that_is_another_message(table: Table) -> None:
    table["ABC"] = b"\0" * 70
    with pytest.raises(WrongMessageError):
        table.decode("ABC")
    with pytest.raises(WrongMessageError):
        table.update("ABC", lambda quote: None)
    with pytest.raises(WrongMessageError):
        table.to_numpy()


def test_table_without_a_schema_has_no_messages() -> None:
    with Table.create("t", capacity=5, key="text", value_bytes=70) as table:
        table["a"] = update(1)
        assert table.schema is None
        for refused in (lambda: table.message, lambda: table.decode("a"), lambda: table.to_numpy()):
            with pytest.raises(InvalidArgumentError):
                refused()


def test_message_of_varying_size() -> None:
    with Table.create("t", capacity=5, key="integer", value_bytes=500, schema=SCHEMA, message="Book") as table:
        assert table.message.NAME == "Book"
        with pytest.raises(InvalidArgumentError):
            table.to_numpy()


@pytest.mark.parametrize(("key", "keys"), [("text", ["a", "ü"]), ("bytes", [b"a", b"b"]), ("integer", [-1, 2**62])])
def test_to_numpy(key: Any, keys: list[Any]) -> None:
    with Table.create("t", capacity=50, key=key, schema=SCHEMA, message="PriceUpdate") as table:
        empty = table.to_numpy()
        assert (empty.shape, empty.dtype["value"]) == ((0,), PriceUpdate.dtype)
        for number, one in enumerate(keys):
            table[one] = update(100 + number, symbol=f"S{number}")
        rows = table.to_numpy()
        assert rows["key"].tolist() == keys
        assert rows["value"]["bid"].tolist() == [100, 101]
        assert rows["value"]["instrument"]["symbol"].tolist() == [b"S0", b"S1"]
        assert rows["version"].tolist() == [table.get_versioned(one)[1] for one in keys]  # type: ignore[index]
        assert rows["value"].dtype == PriceUpdate.dtype
        assert int(numpy.sum(rows["value"]["bid"])) == 201


def test_columns_of_a_frame(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pandas gets, by a stand-in for it."""
    stand_in: Any = types.ModuleType("pandas")
    stand_in.Index = lambda keys, name: (name, keys.tolist())
    stand_in.DataFrame = lambda columns, index: (columns, index)
    monkeypatch.setitem(sys.modules, "pandas", stand_in)
    table["ABC"], table["DEF"] = update(1), update(2)
    columns, index = table.to_pandas()
    assert index == ("key", ["ABC", "DEF"])
    assert columns["bid"].tolist() == [1, 2]
    assert columns["instrument.id"].tolist() == [9, 9]
    assert columns["version"].tolist() == [table._version_of(key) for key in ("ABC", "DEF")]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="to_pandas needs pandas"):
        table.to_pandas()


def test_to_pandas(table: Table) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    table["ABC"], table["DEF"] = update(1), update(2)
    frame = table.to_pandas()
    assert frame.index.tolist() == ["ABC", "DEF"]
    assert frame.index.name == "key"
    assert frame.loc["DEF", "bid"] == 2
    assert frame["instrument.id"].tolist() == [9, 9]
    assert "version" in frame.columns
