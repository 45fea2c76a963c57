# SPDX-License-Identifier: Apache-2.0
"""Requests and answers that are messages of one schema (spec/api.md, SBE)."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import SPEC
from flyring import Call, Request, ServiceError
from flyring.sbe import Schema, dispatch
from services import Pair, pair

PRICES = Schema.load(SPEC / "sbe" / "prices.xml")
TRADE, PRICE_UPDATE = PRICES.messages["Trade"], PRICES.messages["PriceUpdate"]


def ask(timestamp: int) -> Any:
    trade = TRADE.encode(bytearray(200))
    trade.timestamp = timestamp
    return trade


def test_a_request_chooses_its_handler_and_the_answer_is_decoded_by_its_type() -> None:
    def on_trade(trade: Any, request: Request) -> Any:
        update = PRICE_UPDATE.encode(bytearray(200))
        update.timestamp, update.bid, update.sequence = trade.timestamp + 1, -1, 5
        return update

    with pair(clients=1, capacity=65536, schema=PRICES) as both:
        both.server.on(TRADE, on_trade)
        call = both.client.start(ask(42))
        both.server.poll()
        both.client.poll()
        answer = call.result()
        assert answer.type == PRICE_UPDATE.TEMPLATE_ID
        seen: list[int] = []
        dispatch({PRICE_UPDATE: lambda update, message: seen.append(update.timestamp)})(answer)
        assert seen == [43]
        assert PRICE_UPDATE.decode(answer).sequence == 5  # type: ignore[attr-defined]

        raw = both.client.start(b"no message")
        types: list[int] = []

        def otherwise(request: Any) -> Any:
            types.append(request.type)
            return b"raw"

        handler: Any = dispatch({TRADE: on_trade}, otherwise=otherwise)
        both.server.poll(handler)
        assert types == [65536]
        assert (bytes(raw.result(1)), raw.result().type) == (b"raw", 65536)


def text_of(both: Pair, call: Call) -> str:
    both.server.poll()
    both.client.poll()
    with pytest.raises(ServiceError) as caught:
        call.result()
    return caught.value.text


def test_a_request_that_is_none_fails() -> None:
    with pair(clients=1, capacity=65536, schema=PRICES) as both:
        both.server.on(TRADE, lambda trade, request: b"never")
        assert text_of(both, both.client.start(b"x", 3)) == "no handler for messages of type 3"
        assert "the message of type 2" in text_of(both, both.client.start(b"x", TRADE.TEMPLATE_ID))


def test_the_type_of_a_message_is_its_template_id() -> None:
    from flyring import InvalidArgumentError

    with pair(clients=1, capacity=65536, schema=PRICES) as both:
        for start in (both.client.start, both.client.call, both.client.stream):
            with pytest.raises(InvalidArgumentError) as caught:
                start(ask(1), 5)
            assert caught.value.argument == "type"


def test_items_of_a_stream_are_messages() -> None:
    def on_trade(trade: Any, request: Request) -> None:
        request.stream(ask(trade.timestamp + k) for k in range(20))

    with pair(clients=1, capacity=65536, schema=PRICES) as both:
        both.server.on(TRADE, on_trade)
        call = both.client.stream(ask(10), credit=100)
        both.server.poll()
        items = list(call)
        assert {item.type for item in items} == {TRADE.TEMPLATE_ID}
        assert [TRADE.decode(item).timestamp for item in items] == list(range(10, 30))  # type: ignore[attr-defined]
