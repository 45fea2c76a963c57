# SPDX-License-Identifier: Apache-2.0
"""``flyring journal mcap`` and ``parquet``: files that the libraries of these formats read back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC
from flyring import Channel
from flyring.cli import main
from flyring.sbe import Schema, from_dict
from journals import made
from recordings import Command, until, until_kept
from test_cli_journal import PRICES, trade

LARGE = 2**62 + 1
SECOND = 1_000_000_000


def fill(count: int = 5) -> None:
    with made(schema=PRICES) as journal, journal.writer(helper=False) as writer:
        for price in range(count):
            payload = from_dict(PRICES.Trade, trade(price) | {"timestamp": LARGE})
            writer.append(payload, PRICES.Trade.TEMPLATE_ID, time=(10 - price) * SECOND)
        writer.append(b"hello", 65536, time=20 * SECOND)


def read(path: Path) -> list[tuple[Any, Any, Any]]:
    reader = pytest.importorskip("mcap.reader")
    with path.open("rb") as file:
        return list(reader.make_reader(file, validate_crcs=True).iter_messages(log_time_order=False))


def test_mcap_has_decoded_json_with_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcap")
    fill()
    target = tmp_path / "j.mcap"
    assert main(["journal", "mcap", "j", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"] == 6
    found = read(target)
    assert [channel.topic for _, channel, _ in found] == 5 * ["/j/Trade"] + ["/j/type-65536"]
    assert {channel.message_encoding for _, channel, _ in found} == {"json"}
    schema = json.loads(found[0][0].data)
    assert found[0][0].encoding == "jsonschema"
    assert schema["properties"]["instrument"]["properties"]["symbol"] == {"type": "string"}
    bodies = [json.loads(message.data) for _, _, message in found]
    assert [one["price"] for one in bodies[:5]] == list(range(5))
    assert bodies[0]["timestamp"] == str(LARGE)  # a JSON reader would round the number
    assert bodies[5] == {"text": "hello"}
    times = [message.log_time for _, _, message in found]
    assert times == sorted(times)
    assert [message.publish_time for _, _, message in found] == [t * SECOND for t in (10, 9, 8, 7, 6, 20)]


def test_raw_mcap_keeps_the_messages_and_the_schema(tmp_path: Path) -> None:
    pytest.importorskip("mcap")
    fill(2)
    target = tmp_path / "j.mcap"
    assert main(["journal", "mcap", "j", str(target), "--raw", "--message", "Trade"]) == 0
    found = read(target)
    assert [message.data for _, _, message in found] == [
        from_dict(PRICES.Trade, trade(price) | {"timestamp": LARGE}) for price in range(2)
    ]
    assert (found[0][0].encoding, found[0][0].data.decode()) == ("sbe", PRICES.text)


def test_a_recording_of_two_channels_becomes_topics(tmp_path: Path) -> None:
    pytest.importorskip("mcap")
    with (
        Channel.create("one", "broadcast", schema=Schema.load(SPEC / "sbe" / "prices.xml")) as one,
        Channel.create("two", "broadcast") as two,
    ):
        recorder = Command("record", "one", "two", "--to", "day", "--segment-size=2M")
        until_kept(one, "record-day")
        until_kept(two, "record-day")
        with one.publisher("a") as a, two.publisher("b") as b:
            a.send(from_dict(PRICES.Trade, trade(7)), PRICES.Trade.TEMPLATE_ID)
            b.send(b"text", 5)
        until(lambda: all(gate.lag == 0 for of in (one, two) for gate in of.stats().subscribers[0].gates))
        assert recorder.end()[0] == 0
    target = tmp_path / "day.mcap"
    assert main(["journal", "mcap", "day", str(target)]) == 0
    found = {channel.topic: json.loads(message.data) for _, channel, message in read(target)}
    assert found["/one/Trade"]["price"] == 7
    assert found["/two/type-5"] == {"text": "text"}


def test_parquet_has_a_column_for_each_field(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    fill()
    target = tmp_path / "j.parquet"
    assert main(["journal", "parquet", "j", str(target), "--message", "Trade"]) == 0
    table = parquet.read_table(target)
    assert table.num_rows == 5
    assert table["price"].to_pylist() == list(range(5))
    assert table["timestamp"].to_pylist() == 5 * [LARGE]
    assert table["instrument.symbol"].to_pylist() == 5 * ["FLYR"]
    assert table["side"].to_pylist() == 5 * ["SELL"]
    assert table["number"].to_pylist() == list(range(5))
    assert [one.value for one in table["time"]] == [t * SECOND for t in (10, 9, 8, 7, 6)]


@pytest.mark.parametrize(
    ("arguments", "text"), [([], "one type"), (["--type", "65536"], "have none"), (["--type", "99"], "no such message")]
)
def test_what_has_no_columns_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    pytest.importorskip("pyarrow")
    fill()
    assert main(["journal", "parquet", "j", str(tmp_path / "x"), *arguments]) == 2
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []  # nothing half is left


@pytest.mark.parametrize(("verb", "library"), [("mcap", "mcap"), ("parquet", "pyarrow")])
def test_without_the_library_it_says_what_to_install(
    verb: str, library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill()
    for name in (library, f"{library}.writer", f"{library}.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["journal", verb, "j", str(tmp_path / "x")]) == 2
    assert f"pip install 'flyring[{verb}]'" in capsys.readouterr().err
