# SPDX-License-Identifier: Apache-2.0
"""``flyring call`` (spec/api.md), and other commands on services."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conftest import SPEC
from flyring import Channel, Request, Server
from flyring.cli import main
from flyring.sbe import Schema
from services import echo, pair, service, serving

INSTRUMENT = {"id": 42, "symbol": "FLYR", "exchange": "XFLY", "currency": "EUR", "kind": "STOCK"}
FIELDS = {f"instrument.{name}": value for name, value in INSTRUMENT.items()}
FIELDS |= {"timestamp": 7, "price": 5, "size": 3, "side": "BUY"}
TRADE = ("--message", "Trade", *(f"{name}={value}" for name, value in FIELDS.items()))


class Command:
    """Runs the command. Returns its output and status."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.said = ""

    def __call__(self, *arguments: str, status: int = 0) -> str:
        self.capsys.readouterr()
        found = main(arguments)
        out, self.said = self.capsys.readouterr()
        assert found == status, self.said
        return out


@pytest.fixture
def flyring(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@contextmanager
def answering(handler: Any, on: Any = None, **options: Any) -> Iterator[tuple[Channel, Server]]:
    with service(**options) as channel, channel.server("prices") as server:
        if on is not None:
            server.on(*on)
        with serving(server, handler):
            yield channel, server


def test_raw_bytes(flyring: Command) -> None:
    with answering(echo):
        assert json.loads(flyring("call", "c", "--type", "7", "--hex", "00ff"))["data"] == "00ff"
        line = json.loads(flyring("call", "c", "--text", "hello"))
        assert (line["text"], line["type"], line["sender"]) == ("hello", 1, "prices")


def test_a_message_of_the_schema(flyring: Command) -> None:
    schema = Schema.load(SPEC / "sbe" / "prices.xml")
    trade = schema.messages["Trade"]

    def answer(decoder: Any, request: Request) -> Any:
        assert (decoder.instrument.id, decoder.instrument.symbol, decoder.price, decoder.size) == (42, "FLYR", 5, 3)
        reply = trade.encode(bytearray(200))
        instrument = reply.instrument
        instrument.id, instrument.symbol, instrument.exchange, instrument.currency = 1, "BACK", "XFLY", "EUR"
        instrument.kind, reply.side = decoder.instrument.kind, decoder.side
        reply.timestamp, reply.price, reply.size, reply.venueFee = 9, 8, 4, None
        return reply

    with answering(None, (trade, answer), schema=schema):
        line = json.loads(flyring("call", "c", *TRADE))
        assert line["message"] == "Trade"
        assert line["body"]["instrument"]["symbol"] == "BACK"
        body = json.dumps({"instrument": INSTRUMENT, "timestamp": 7, "price": 5, "size": 3, "side": "BUY"})
        assert json.loads(flyring("call", "c", "--message", "Trade", "--json", body))["body"]["size"] == 4


def test_a_message_that_no_handler_was_named_for(flyring: Command) -> None:
    schema = Schema.load(SPEC / "sbe" / "prices.xml")
    with answering(None, (schema.messages["PriceUpdate"], lambda decoder, request: b""), schema=schema):
        flyring("call", "c", *TRADE, status=1)
        assert "no handler for messages of type 2" in flyring.said


def test_a_stream(flyring: Command) -> None:
    with answering(lambda request: request.stream(b"%d" % i for i in range(100))):
        lines = flyring("call", "c", "--text", "go", "--stream").splitlines()
        assert [json.loads(line)["text"] for line in lines] == [str(i) for i in range(100)]


def test_how_a_call_ends(flyring: Command) -> None:
    with answering(lambda request: request.fail("no such item")):
        assert flyring("call", "c", "--text", "x", status=1) == ""
        assert "service-error" in flyring.said
        assert "no such item" in flyring.said
    with Channel.open("c"):
        flyring("call", "c", "--text", "x", "--timeout", "0.01", status=1)
        assert "expired" in flyring.said


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--hex", "0"),
        ("--hex", "00", "--text", "x"),
        ("--hex", "00", "a=1"),
        ("--hex", "00", "--type", "0"),
        ("--message", "Nothing"),
        ("--message", "Trade"),
        ("--message", "Trade", "--type", "3"),
        ("--message", "Trade", "price"),
        ("--message", "Trade", "price=much"),
        ("--message", "Trade", "nothing=1"),
        ("--message", "Trade", "--json", "{"),
        ("--message", "Trade", "price=1", "--json", "{}"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], flyring: Command) -> None:
    with service(schema=Schema.load(SPEC / "sbe" / "prices.xml")):
        flyring("call", "c", *arguments, status=2)
        assert flyring.said.startswith("flyring: ")


def test_other_kinds_have_no_service(flyring: Command) -> None:
    with Channel.create("c", "inbox"):
        flyring("call", "c", "--text", "x", status=2)
        assert "kind" in flyring.said


def test_create_info_ls_check_and_evict(flyring: Command) -> None:
    flyring(
        "create", "c", "--kind", "service", "--clients", "3", "--max-outstanding", "9", "--delivery", "at-least-once"
    )
    with Channel.open("c") as channel, channel.server("prices") as server, channel.client("desk") as client:
        client.start(b"x")
        client.start(b"y", timeout=0.001).cancel()
        document = json.loads(flyring("info", "c", "--json"))
        assert (document["clients"], document["max_outstanding"]) == (3, 9)
        assert (document["delivery"], document["serving"]) == ("at-least-once", 1)
        assert [one["outstanding"] for one in document["subscribers"]] == [-1, 2, 0, 0]
        text = flyring("info", "c")
        assert "service, 3 clients, 9 calls each, at least once" in text
        assert "OUTSTANDING" in text
        assert "EXPIRED" in text
        assert "prices, pid" in text
        assert "3 clients" in flyring("ls")
        flyring("check", "c")
        assert "2 requests wait" not in text  # a server is running
        assert "3 requests wait for the next one" in flyring("evict", "c", "0")
        assert "was evicted" in flyring("info", "c")
        thread = threading.Thread(target=server.close)
        thread.start()
        thread.join()
        assert "none is running" in flyring("info", "c")
        assert "requests wait for a server in ring 0" in flyring("info", "c")
    flyring("recover", "c")
    flyring("check", "c")


def test_tail_shows_what_is_behind_the_prefixes(flyring: Command) -> None:
    with answering(lambda request: b"answer") as (channel, _), channel.client() as client:
        client.call(b"request", timeout=10)
        out = flyring("tail", "c", "--since-start", "--count", "2")
        lines = [json.loads(line) for line in out.splitlines()]
        assert sorted((line["ring"], line["text"]) for line in lines) == [(0, "request"), (2, "answer")]


def test_recover_leaves_a_service_as_it_must_be(flyring: Command) -> None:
    with pair() as both:
        both.client.start(b"x")
        flyring("recover", "c")
        both.server.close()
        flyring("recover", "c")
        with both.channel.server() as following:
            assert following.poll(echo) == 0  # the request was for another server
            assert following.not_run == 1
