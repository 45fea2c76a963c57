# SPDX-License-Identifier: Apache-2.0
"""``flyring publish``, as a process; and ``flyring tail | flyring publish`` (spec/api.md, spec/messages.md 4)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC, Child
from flyring import Channel, Message, Subscriber
from flyring.sbe import Schema, from_dict, to_dict

PRICES = Schema.load(SPEC / "sbe" / "prices.xml")
INSTRUMENT = {"id": 42, "symbol": "FLYR", "exchange": "XLON", "currency": "EUR", "kind": "STOCK"}
TRADE = {"instrument": INSTRUMENT, "timestamp": 1, "price": 2, "size": 3, "side": "SELL", "venueFee": None}
BOOK = {
    "instrument": INSTRUMENT,
    "timestamp": 1,
    "levels": [{"price": 1, "size": 2, "side": "BUY"}] * 3,
    "remark": "é\n",
}
COMMAND = [sys.executable, "-m", "flyring.cli"]
RELAY = """
import os, sys
from flyring import Channel
from flyring.sbe import Schema, from_dict
prices = Schema.load(sys.argv[1])
with Channel.open("quotes") as channel, channel.publisher("live") as publisher:
    for number in range(int(sys.argv[2])):
        if number % 3 == 0:
            data, kind = b"raw %d" % number, 9
        else:
            symbol = "FL\\udcff" if number % 5 == 0 else "FLYR"  # a byte that is not ASCII
            instrument = {"id": number, "symbol": symbol, "exchange": "XLON", "currency": "EUR", "kind": "OPTION"}
            trade = {"instrument": instrument, "timestamp": 1, "price": -number, "size": 3, "side": "SELL"}
            data, kind = from_dict(prices.Trade, trade), 2
        publisher.send(data, kind, timeout=None)
    print("done", flush=True)
"""


def channel_of(name: str, **options: Any) -> Channel:
    schema = {"schema": PRICES.text, "schema_id": PRICES.id, "schema_version": PRICES.version}
    return Channel.create(name, "broadcast", **({"capacity": 1 << 16} | schema | options))


def publish(lines: bytes, *arguments: str) -> tuple[int, list[str]]:
    """Runs the command. Returns its status and its error lines."""
    done = subprocess.run([*COMMAND, "publish", *arguments], input=lines, capture_output=True, timeout=60, check=False)
    assert done.stdout == b""
    return done.returncode, done.stderr.decode().splitlines()


def line(document: object) -> bytes:
    return json.dumps(document).encode() + b"\n"


def everything(subscriber: Subscriber) -> list[tuple[int, bytes]]:
    messages: list[tuple[int, bytes]] = []

    def keep(message: Message) -> None:
        messages.append((message.type, bytes(message)))

    while subscriber.poll(keep):
        pass
    return messages


def test_typed_and_raw_lines_are_published(tmp_path: Path) -> None:
    lines = line({"message": "Trade", "body": TRADE}) + b"\n  \n" + line({"message": "Book", "body": BOOK, "ring": "x"})
    lines += line({"type": 9, "text": "grüße"}) + line({"type": 8, "data": "00ff"}) + line({"text": ""})
    lines += line({"message": "Trade", "body": TRADE | {"price": -7}, "position": 5})[:-1]  # no newline at the end
    file = tmp_path / "lines.json"
    file.write_bytes(lines)
    expected = [
        (2, from_dict(PRICES.Trade, TRADE)),
        (3, from_dict(PRICES.Book, BOOK)),
        (9, "grüße".encode()),
        (8, b"\x00\xff"),
        (1, b""),
        (2, from_dict(PRICES.Trade, TRADE | {"price": -7})),
    ]
    with channel_of("quotes") as channel, channel.subscriber() as subscriber:
        for arguments, given in (([], lines), ([str(file)], b"")):
            assert publish(given, "quotes", *arguments, "--name", "me") == (0, [])
            assert everything(subscriber) == expected
        sender = channel.publisher("me")
        assert sender.ring == 0  # the ring that the command had under this name


WRONG = [
    (b"nonsense\n", "it is not JSON"),
    (b'{"message": "Trade", "body": {"price": NaN}}\n', 'NaN is not JSON: write "NaN"'),
    (b"\xff\n", "it is not JSON"),
    (b"[" * 100000 + b"\n", "it is not JSON"),
    (b"[]\n", "it is not a JSON object"),
    (b"{}\n", 'it has neither "message" and "body", nor "type" and "data" or "text"'),
    (
        line({"message": "Quote", "body": {}}),
        "there is no message 'Quote' in the schema, but PriceUpdate, Trade, Book",
    ),
    (line({"message": ["Trade"], "body": {}}), "there is no message ['Trade']"),
    (line({"message": "Trade"}), 'Trade: the line has no "body"'),
    (line({"message": "Trade", "body": []}), "Trade: an object is expected"),
    (line({"message": "Trade", "body": TRADE | {"size": -1}}), "Trade.size"),
    (line({"message": "Trade", "body": TRADE | {"size": True}}), "Trade.size"),
    (line({"message": "Trade", "body": TRADE | {"instrument": {}}}), "Trade.instrument.id: it is missing"),
    (line({"message": "Book", "body": BOOK | {"levels": [{}]}}), "Book.levels[0].price: it is missing"),
    (line({"message": "Book", "body": BOOK | {"remark": "x" * 60000}}), "16376"),
    (line({"type": 0, "text": "x"}), "type: must be 1 to 2147483647"),
    (line({"type": 2**31, "text": "x"}), "type: must be 1 to 2147483647"),
    (line({"type": "1", "text": "x"}), '"type" must be an integer'),
    (line({"type": 1, "data": "xyz"}), '"data" must be hexadecimal digits'),
    (line({"type": 1, "data": 5}), '"data" and "text" must be strings'),
    (line({"type": 1, "text": "\ud800"}), '"text" cannot be written'),
    (line({"type": 1, "data": "00" * 20000}), "16376"),
]


def test_a_wrong_line_is_refused_and_the_others_are_published() -> None:
    good = line({"message": "Trade", "body": TRADE})
    with channel_of("quotes") as channel, channel.subscriber() as subscriber:
        status, errors = publish(good + b"".join(wrong + good for wrong, _ in WRONG), "quotes")
        assert status == 1
        for number, ((wrong, reason), error) in enumerate(zip(WRONG, errors[:-1], strict=True)):
            assert error.startswith(f"flyring: line {2 + 2 * number} is refused: "), wrong[:100]
            assert reason in error, wrong[:100]
        assert errors[-1] == f"flyring: {len(WRONG)} lines were refused"
        assert everything(subscriber) == [(2, from_dict(PRICES.Trade, TRADE))] * (1 + len(WRONG))


def test_a_missing_channel_file_slot_or_schema_is_an_error(tmp_path: Path) -> None:
    status, errors = publish(b"", "nowhere")
    assert (status, len(errors)) == (2, 1)
    assert "there is no channel at" in errors[0]
    with channel_of("quotes", publishers=1) as channel:
        status, errors = publish(b"", "quotes", str(tmp_path / "missing"))
        assert (status, len(errors)) == (2, 1)
        with channel.publisher():
            status, errors = publish(b"", "quotes")
            assert (status, len(errors)) == (2, 1)
            assert "all 1 publisher slots" in errors[0]
    with Channel.create("bare", "broadcast", capacity=4096):
        status, errors = publish(line({"message": "Trade", "body": TRADE}) + line({"text": "good"}), "bare")
        assert (status, len(errors)) == (1, 2)
        assert "the channel has no schema" in errors[0]


def test_it_waits_for_room() -> None:
    with channel_of("quotes", capacity=4096) as channel, channel.subscriber() as subscriber:
        process = subprocess.Popen([*COMMAND, "publish", "quotes"], stdin=subprocess.PIPE)
        assert process.stdin is not None
        for number in range(500):
            process.stdin.write(line({"type": 1, "text": f"{number:08}"}))
        process.stdin.close()
        received: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(received) < 500 and time.monotonic() < deadline:
            time.sleep(0.01)  # slower than the publisher
            subscriber.poll(lambda message: received.append(bytes(message)), limit=30)
        assert process.wait(30) == 0
        assert [int(data) for data in received] == list(range(500))


def test_interrupted_while_it_waits_for_room() -> None:
    with channel_of("quotes", capacity=4096) as channel, channel.subscriber() as subscriber:
        process = subprocess.Popen([*COMMAND, "publish", "quotes"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(line({"type": 1, "text": "x" * 500}) * 30)
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while channel._attached.memory.load64(channel.header.trailer(0) + 320) < 3000:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (130, b"")
        assert 5 < len(everything(subscriber)) < 8


def test_tail_into_publish_copies_the_messages(child: Callable[..., Child]) -> None:
    number = 400
    with channel_of("quotes") as source, channel_of("copy") as copy, copy.subscriber() as subscriber:
        tail = subprocess.Popen(
            [*COMMAND, "tail", "quotes", "--since-start", "--count", str(number)], stdout=subprocess.PIPE
        )
        relay = subprocess.Popen([*COMMAND, "publish", "copy", "--name", "copier"], stdin=tail.stdout)
        assert tail.stdout is not None
        tail.stdout.close()
        writer = child(RELAY, str(SPEC / "sbe" / "prices.xml"), str(number))
        assert writer.line() == "done"
        assert tail.wait(60) == 0
        assert relay.wait(60) == 0
        with source.lossy_subscriber(start="oldest") as original:
            expected: list[tuple[int, bytes]] = []
            while original.poll(lambda message: expected.append((message.type, bytes(message)))):
                pass
        assert len(expected) == number
        assert sum(b"FL\xff" in payload for _, payload in expected) > number // 10
        assert everything(subscriber) == expected
        form = to_dict(PRICES.Trade.decode(expected[1][1]))
        assert (form["instrument"]["id"], form["price"], form["venueFee"]) == (1, -1, None)


@pytest.mark.long
def test_killed_while_it_publishes_it_leaves_only_whole_messages() -> None:
    with channel_of("quotes", capacity=1 << 20) as channel, channel.subscriber() as subscriber:
        for _ in range(3):
            process = subprocess.Popen([*COMMAND, "publish", "quotes", "--name", "victim"], stdin=subprocess.PIPE)
            assert process.stdin is not None
            os.set_blocking(process.stdin.fileno(), False)
            received: list[tuple[int, bytes]] = []
            while len(received) < 200:
                try:
                    os.write(process.stdin.fileno(), line({"message": "Book", "body": BOOK}))
                except BlockingIOError:
                    time.sleep(0.001)
                received += everything(subscriber)
            process.kill()
            process.wait()
            process.stdin.close()
            received += everything(subscriber)
            assert set(received) == {(3, from_dict(PRICES.Book, BOOK))}
        assert publish(line({"text": "after"}), "quotes", "--name", "victim") == (0, [])
        assert everything(subscriber) == [(1, b"after")]
