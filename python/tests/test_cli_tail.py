# SPDX-License-Identifier: Apache-2.0
"""``flyring tail``, as a process (spec/api.md, spec/messages.md 4)."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC, Child
from flyring import Channel, Publisher, layout
from flyring.cli import main
from flyring.sbe import Schema, from_dict

PRICES = Schema.load(SPEC / "sbe" / "prices.xml")
INSTRUMENT = {"id": 42, "symbol": "FLYR", "exchange": "XLON", "currency": "EUR", "kind": "STOCK"}
LIVE = """
import sys
from flyring import Channel
from flyring.sbe import Schema, from_dict
prices = Schema.load(sys.argv[1])
trade = {"instrument": INSTRUMENT, "timestamp": 1, "price": 2, "size": 3, "side": "SELL"}
payload = bytearray(from_dict(prices.Trade, trade))
with Channel.open("quotes") as channel, channel.publisher("live") as publisher:
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        payload[40:48] = number.to_bytes(8, "little")
        publisher.offer(payload, 2)
""".replace("INSTRUMENT", repr(INSTRUMENT))


class Tail:
    """The running command."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flyring.cli", "tail", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ.copy(),
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.out, self.error = self.process.stdout, self.process.stderr

    def line(self) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(self.out.readline())
        return line

    def end(self, signal_: int | None = signal.SIGINT) -> tuple[int, str, str]:
        """Ends the command. Returns its status and the rest of its output."""
        if signal_ is not None:
            self.process.send_signal(signal_)
        out, error = self.out.read(), self.error.read()
        return self.process.wait(30), out, error


@pytest.fixture
def tail() -> Iterator[Callable[..., Tail]]:
    started: list[Tail] = []

    def start(*arguments: object) -> Tail:
        started.append(Tail(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        one.out.close()
        one.error.close()


@pytest.fixture
def channel() -> Iterator[Channel]:
    with quotes() as channel:
        yield channel


def quotes(**options: Any) -> Channel:
    schema = {"schema": PRICES.text, "schema_id": PRICES.id, "schema_version": PRICES.version}
    return Channel.create("quotes", "broadcast", **({"capacity": 1 << 16} | schema | options))


def update(**change: Any) -> bytes:
    body = {
        "instrument": INSTRUMENT,
        "timestamp": 1,
        "bid": 10,
        "ask": 11,
        "bidSize": 3,
        "askSize": 4,
        "sequence": 5,
        "flags": {"opening": False, "closing": False, "halted": True},
    }
    return from_dict(PRICES.PriceUpdate, body | change)


def trade(**change: Any) -> bytes:
    body = {"instrument": INSTRUMENT, "timestamp": 1, "price": 2, "size": 3, "side": "SELL"}
    return from_dict(PRICES.Trade, body | change)


def fill(publisher: Publisher) -> None:
    for i in range(4):
        publisher.offer(update(bid=10 * i, lastSide="BUY" if i == 3 else None), 1)
        publisher.offer(trade(price=100 + i, venueFee=i or None), 2)
    publisher.offer(b"hello", 77)
    publisher.offer(b"\xff\x00", 78)
    book = {"instrument": INSTRUMENT, "timestamp": 1, "levels": [{"price": 1, "size": 2, "side": "BUY"}], "remark": "ß"}
    publisher.offer(from_dict(PRICES.Book, book), 3)


Shown = Callable[..., tuple[list[dict[str, Any]], str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Runs tail in this process, until it first waits, on a channel with all messages published. Returns output and
    errors."""
    module = import_module("flyring.cli.tail")
    monkeypatch.setattr(module, "output_is_closed", lambda: True)
    monkeypatch.setattr(module, "_LOOK", 0.01)

    def run(*arguments: object, status: int = 0) -> tuple[list[dict[str, Any]], str]:
        assert main(["tail", "quotes", "--since-start", *map(str, arguments)]) == status
        out, error = capsys.readouterr()
        return [json.loads(line) for line in out.splitlines()], error

    return run


def test_old_and_new_messages_are_shown(channel: Channel, tail: Callable[..., Tail]) -> None:
    with channel.publisher("feed") as publisher:
        fill(publisher)
        old = tail("quotes", "--since-start")
        lines = [old.line() for _ in range(11)]
        new = tail("quotes")
        while not select.select([new.out], [], [], 0.02)[0]:  # it begins with the next message
            publisher.offer(update(bid=76), 1)
        publisher.offer(update(bid=77), 1)
        for one in (old, new):
            while (bid := one.line()["body"]["bid"]) == 76:
                pass
            assert bid == 77
            assert one.end() == (0, "", "")
    assert list(lines[0]) == ["ring", "sender", "position", "message", "body"]
    assert [line.get("message", line.get("type")) for line in lines] == [*["PriceUpdate", "Trade"] * 4, 77, 78, "Book"]
    assert {line["sender"] for line in lines} == {"feed"}
    assert lines[0]["body"]["instrument"] == INSTRUMENT
    assert lines[6]["body"]["lastSide"] == "BUY"
    assert lines[8].items() >= {"type": 77, "text": "hello"}.items()
    assert lines[9].items() >= {"type": 78, "data": "ff00"}.items()
    assert lines[10]["body"]["levels"] == [{"price": 1, "size": 2, "side": "BUY"}]
    assert lines[10]["body"]["remark"] == "ß"
    positions = [line["position"] for line in lines]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--message", "Trade"], [100, 101, 102, 103]),
        (["--message", "Trade", "--where", "price>=102"], [102, 103]),
        (["--where", "price > 102"], [103]),
        (["--where", "price!=100", "--where", "price<=102"], [101, 102]),
        (["--where", "bid=20"], [20]),
        (["--where", "bid<20", "--where", "instrument.symbol=FLYR"], [0, 10]),
        (["--where", "instrument.kind=STOCK", "--where", "bid=0x1e"], [30]),
        (["--where", "instrument.kind!=STOCK"], []),
        (["--where", "flags.halted=true", "--where", "flags.opening=false", "--where", "bid=0"], [0]),
        (["--where", "flags.halted=false"], []),
        (["--where", "lastSide=BUY"], [30]),
        (["--where", "lastSide=null"], [0, 10, 20]),
        (["--where", "venueFee=null"], [100]),
        (["--where", "venueFee!=null", "--where", "venueFee<3"], [101, 102]),
        (["--where", "remark=ß"], [None]),
        (["--message", "Trade", "--message", "Book", "--count", "2"], [100, 101]),
        (["--count", "3"], [0, 100, 10]),
    ],
)
def test_filters(channel: Channel, shown: Shown, arguments: list[str], expected: list[int | None]) -> None:
    with channel.publisher() as publisher:
        fill(publisher)
        lines, error = shown(*arguments)
        assert error == ""
        assert [line["body"].get("price", line["body"].get("bid")) for line in lines] == expected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--message", "Quote"], "the schema has no Quote, but PriceUpdate, Trade, Book"),
        (["--where", "bid"], "'bid' must be FIELD=VALUE"),
        (["--where", "nothing=1"], "PriceUpdate: there is no nothing"),
        (["--where", "bid=much"], "'much' is not a number, as int64 needs"),
        (["--where", "instrument=1"], "instrument is a composite: name instrument.id or"),
        (["--where", "instrument.kind=BOND"], "an enum is = or != one of STOCK, FUTURE, OPTION"),
        (["--where", "instrument.kind>STOCK"], "an enum is = or !="),
        (["--where", "flags=1"], "flags is a set: name flags.opening or"),
        (["--where", "flags.halted=1"], "= or != true or false"),
        (["--where", "levels.price=1"], "levels is a group"),
        (["--where", "venueFee>null"], "null can be compared with = and != only"),
        (["--count", "0"], "0 must be 1 or more"),
        (["--ring", "9"], "rings: [9]"),
    ],
)
def test_what_cannot_be_asked_for(channel: Channel, shown: Shown, arguments: list[str], reason: str) -> None:
    lines, error = shown(*arguments, status=2)
    assert lines == []
    assert error.startswith("flyring: ")
    assert reason in error


def test_channels_that_cannot_be_followed(tail: Callable[..., Tail]) -> None:
    status, out, error = tail("nowhere").end(None)
    assert (status, out) == (2, "")
    assert "there is no channel at" in error
    with Channel.create("bare", "broadcast", capacity=4096):
        status, _, error = tail("bare", "--message", "Trade").end(None)
        assert status == 2
        assert "no schema" in error


def test_a_channel_without_schema_is_shown_raw(tail: Callable[..., Tail]) -> None:
    for schema in (None, "not <xml"):
        options: dict[str, Any] = {} if schema is None else {"schema": schema}
        with (
            Channel.replace("bare", "broadcast", capacity=4096, **options) as channel,
            channel.publisher() as publisher,
        ):
            publisher.offer(b"two\nlines", 5)
            status, out, error = tail("bare", "--since-start", "--count", 1).end(None)
            assert status == 0
            assert json.loads(out) == {"ring": 0, "sender": "", "position": 64, "type": 5, "text": "two\nlines"}
            assert ("cannot be read, and all messages are shown raw" in error) == (schema is not None)


def test_rings_can_be_chosen(shown: Shown) -> None:
    with quotes(publishers=2) as channel, channel.publisher("a") as a, channel.publisher("b") as b:
        a.offer(trade(price=1), 2)
        b.offer(trade(price=2), 2)
        lines, _ = shown("--ring", 1)
        assert [(line["ring"], line["sender"], line["body"]["price"]) for line in lines] == [(1, "b", 2)]
        lines, _ = shown()
        assert sorted((line["ring"], line["sender"]) for line in lines) == [(0, "a"), (1, "b")]


def test_it_goes_on_over_what_cannot_be_decoded(channel: Channel, shown: Shown) -> None:
    with channel.publisher() as publisher:
        publisher.offer(b"short", 1)
        publisher.offer(update(), 2)  # a message of another template
        other = bytearray(update())
        struct.pack_into("<H", other, 4, 8)  # a message of another schema
        publisher.offer(other, 1)
        book = {"instrument": INSTRUMENT, "timestamp": 1, "levels": [], "remark": "xx"}
        wrong = from_dict(PRICES.Book, book).replace(b"xx", b"\xff\xff")  # no UTF-8
        publisher.offer(wrong, 3)  # such text is shown all the same
        publisher.offer(from_dict(PRICES.Book, book)[:-2], 3)
        unknown = trade().replace(b"S", b"?")
        publisher.offer(unknown.replace(b"FLYR?", b"FLYRS"), 2)
        publisher.offer(trade(price=7), 2)
        lines, error = shown(status=1)
    assert [line["message"] for line in lines][-1] == "Trade"
    assert lines[-1]["body"]["price"] == 7
    assert lines[0]["body"]["remark"] == "\udcff\udcff"
    complaints = error.splitlines()
    assert len(complaints) == 5, error
    assert "its 5 bytes are less than the message header's 8" in complaints[0]
    assert "template id" in complaints[1]
    assert "schema id is 8, not 7" in complaints[2]
    assert "Book.remark" in complaints[3]
    assert complaints[-1] == "flyring: not decoded: 4 messages"


def test_complaints_end_but_are_counted(channel: Channel, shown: Shown) -> None:
    with channel.publisher() as publisher:
        for _ in range(30):
            publisher.offer(b"", 1)
        _, error = shown(status=1)
    assert len(error.splitlines()) == 12
    assert error.endswith("further messages like that are only counted\nflyring: not decoded: 30 messages\n")


def test_a_damaged_ring_is_one_line_and_the_others_go_on(tail: Callable[..., Tail]) -> None:
    with quotes(publishers=3) as channel:
        publishers = [channel.publisher(name) for name in "abc"]
        for publisher in publishers:
            publisher.offer(trade(), 2)
        following = tail("quotes", "--since-start")
        assert [following.line()["ring"] for _ in range(3)] == [0, 1, 2]
        header = channel.header
        with Path(channel.path).open("r+b") as file:  # the length of the next record
            at = publishers[1].position % header.capacity
            file.seek(header.ring(1) + at)
            file.write(struct.pack("<i", 13))
        publishers[2].offer(trade(price=9), 2)
        line = following.line()
        assert (line["ring"], line["body"]["price"]) == (2, 9)
        publishers[0].offer(trade(price=8), 2)
        assert following.line()["ring"] == 0
        assert re.fullmatch(r"flyring: ring 1 is corrupt at position \d+: .*\n", following.error.readline())
        assert following.end() == (1, "", "")
        with Path(channel.path).open("r+b") as file:  # where the next record begins
            file.seek(header.trailer(1) + 320)
            file.write(struct.pack("<q", 13))
        later = tail("quotes", "--since-start")  # it cannot start in that ring
        assert sorted(later.line()["ring"] for _ in range(4)) == [0, 0, 2, 2]
        assert "ring 1 is corrupt" in later.error.readline()
        assert later.end() == (1, "", "")


def test_losses_are_counted_and_no_publisher_waits(tail: Callable[..., Tail], child: Callable[..., Child]) -> None:
    with quotes(capacity=4096) as channel:
        writer = child(LIVE, str(SPEC / "sbe" / "prices.xml"))
        assert writer.line() == "ready"
        following = tail("quotes", "--message", "Trade")
        prices = [following.line()["body"]["price"] for _ in range(300)]
        assert prices == sorted(set(prices))
        attached = channel._attached
        assert all(attached.memory.load64(channel.header.gate(0, k)) < 0 for k in range(channel.subscribers))
        writer.kill()  # while it publishes
        status, out, error = following.end()
        assert status == 1
        assert re.search(r"flyring: lost, because overwritten before they were read: \d+ messages, \d+ bytes\n", error)
        assert all(json.loads(line)["sender"] == "live" for line in out.splitlines())


def test_a_killed_publisher_and_its_heir_are_followed(
    channel: Channel, tail: Callable[..., Tail], child: Callable[..., Child]
) -> None:
    following = tail("quotes")
    for _ in range(2):
        writer = child(LIVE, str(SPEC / "sbe" / "prices.xml"))
        assert writer.line() == "ready"
        first = following.line()
        assert first["sender"] == "live"
        writer.kill()
    following.process.terminate()


def test_it_writes_only_its_asleep_bit_into_the_channel(channel: Channel, tail: Callable[..., Tail]) -> None:
    asleep = channel.header.control_offset + layout.CONTROL_DATA_ASLEEP

    def content() -> bytes:
        found = Path(channel.path).read_bytes()
        return found[:asleep] + found[asleep + 4 :]

    with channel.publisher() as publisher:
        fill(publisher)
        before = content()
        following = tail("quotes", "--since-start")
        for _ in range(11):
            following.line()
        os.chmod(channel.path, 0o400)
        assert following.end()[0] == 0
        assert content() == before


def test_read_only_it_writes_nothing_at_all(channel: Channel, tail: Callable[..., Tail]) -> None:
    with channel.publisher() as publisher:
        fill(publisher)
        before = Path(channel.path).read_bytes()
        following = tail("quotes", "--since-start", "--read-only")
        for _ in range(11):
            following.line()
        time.sleep(0.02)
        assert Path(channel.path).read_bytes() == before  # tail waits
        publisher.offer(trade(), 2)
        assert following.line()["message"] == "Trade"
        assert following.end()[0] == 0


def test_a_closed_pipe_ends_it(channel: Channel) -> None:
    with channel.publisher() as publisher:
        fill(publisher)
        command = f"{sys.executable} -m flyring.cli tail quotes --since-start | head -n 1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=30, check=True)
        first, status = done.stdout.splitlines()
        assert json.loads(first)["message"] == "PriceUpdate"
        assert (status, done.stderr) == ("0", "")


def test_a_replaced_channel_is_followed_no_further(channel: Channel, tail: Callable[..., Tail]) -> None:
    with channel.publisher() as publisher:
        publisher.offer(trade(), 2)
        following = tail("quotes", "--since-start")
        following.line()
        with Channel.replace("quotes", "broadcast", capacity=4096):
            status, out, error = following.end(None)
    assert (status, out) == (1, "")
    assert "is another channel now" in error


@pytest.mark.long
def test_idle_it_costs_next_to_nothing(channel: Channel, tail: Callable[..., Tail]) -> None:
    def cpu() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = cpu()
    started = time.monotonic()
    following = tail("quotes")
    time.sleep(4)
    assert following.end()[0] == 0
    assert cpu() - before < 0.4 * (time.monotonic() - started)  # most of it is Python's start


def test_the_table(channel: Channel, tail: Callable[..., Tail]) -> None:
    with channel.publisher("feed") as publisher:
        fill(publisher)
        status, out, error = tail("quotes", "--since-start", "--table", "--message", "Trade", "--count", 4).end(None)
        assert (status, error) == (0, "")
        titles, *rows = out.splitlines()
        assert titles.split()[:5] == ["RING", "SENDER", "POSITION", "message", "instrument.id"]
        assert len(rows) == 4
        ends = titles.index("price") + len("price")
        assert [row[:ends].split()[-1] for row in rows] == ["100", "101", "102", "103"]
        assert all(row[titles.index("side") :].startswith("SELL") for row in rows)
        status, out, error = tail("quotes", "--since-start", "--table", "--count", 11).end(None)
        names = [re.split(r" {2,}", line.strip())[3] for line in out.splitlines()]
        assert names.count("message") == 9  # the titles appear whenever the template changes
        assert out.splitlines()[-1].endswith("1  ß")


def test_a_table_steers_no_terminal(tail: Callable[..., Tail]) -> None:
    with Channel.create("bare", "broadcast", capacity=4096) as channel, channel.publisher() as publisher:
        publisher.offer(b"one\ttwo\n\x1b[2J", 5)
        publisher.offer(b"one\ttwo\n", 5)
        status, out, _ = tail("bare", "--since-start", "--table", "--count", 2).end(None)
        assert status == 0
        assert "\x1b" not in out
        assert out.splitlines()[2].endswith("one\\ttwo\\n")
