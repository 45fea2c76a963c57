# SPDX-License-Identifier: Apache-2.0
"""Typed messages in a journal (spec/messages.md 1 to 3): schema options, append, claim and dispatch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flyring import (
    ChannelDiffersError,
    ClosedError,
    InvalidArgumentError,
    Journal,
    JournalWriter,
    MessageTooLargeError,
    ViewAliveError,
    layout,
    sbe,
)
from journals import Folder, Z
from test_sbe_messages import PRICES


@pytest.fixture(scope="module")
def prices() -> Any:
    return sbe.Schema.load(PRICES)


@pytest.fixture
def journal(prices: Any) -> Iterator[Journal]:
    with Journal.create("typed", segment_size=Z, schema=prices) as one:
        yield one


@pytest.fixture
def writer(journal: Journal) -> Iterator[JournalWriter]:
    with journal.writer("w", helper=False) as one:
        yield one


def test_schema(journal: Journal, prices: Any) -> None:
    assert journal.schema == prices.text
    assert journal.header.schema_id == prices.id and journal.header.schema_version == prices.version
    with Journal.open("typed", schema=prices) as other:
        assert other.schema == prices.text
    with pytest.raises(ChannelDiffersError) as error:
        Journal.open("typed", min_schema_version=prices.version + 1)
    assert error.value.field == "schema_version"
    with Journal.create("plain", segment_size=Z), pytest.raises(ChannelDiffersError) as error:
        Journal.open("plain", schema=prices)
    assert error.value.field == "schema"
    with pytest.raises(ChannelDiffersError) as error:
        Journal.open_or_create("plain", schema=prices)
    assert error.value.field == "schema_id"


def test_raw_bytes_have_their_own_type(journal: Journal, writer: JournalWriter) -> None:
    writer.append(b"raw")
    assert [one.type for one in Folder(journal.path).records()][-1] == layout.TYPE_RAW


def test_claim_and_dispatch(journal: Journal, writer: JournalWriter, prices: Any) -> None:
    seen: list[tuple[int, int]] = []
    handler = sbe.dispatch({prices.Trade: lambda trade, message: seen.append((trade.size, message.number))})
    for i in range(5):
        trade = writer.claim(prices.Trade)
        assert type(trade) is prices.Trade
        trade.size = i
        with pytest.raises(ViewAliveError):
            writer.append(b"")
        position = trade.commit()
        assert position == 64 + 128 * i
    with pytest.raises(ClosedError):
        _ = trade.size
    with writer.claim(prices.Trade) as last:
        last.size = 77
    aborted = writer.claim(prices.Trade)
    aborted.abort()
    with journal.reader() as reader:
        assert reader.poll(handler) == 6
        assert seen == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (77, 5)]
        assert reader.take() is None


def test_append_and_decode(journal: Journal, writer: JournalWriter, prices: Any) -> None:
    trade = prices.Trade.encode(bytearray(200))
    trade.size = 9
    writer.append(trade)
    writer.append_many([trade, b"raw", trade])
    with pytest.raises(InvalidArgumentError):
        writer.append(trade, 5)
    with journal.reader() as reader:
        message = reader.take()
        assert message is not None and message.type == prices.Trade.TEMPLATE_ID
        assert prices.Trade.decode(message).size == 9
        kinds = []
        reader.poll(lambda one: kinds.append(one.type))
        assert kinds == [prices.Trade.TEMPLATE_ID, layout.TYPE_RAW, prices.Trade.TEMPLATE_ID]


def test_claim_errors(writer: JournalWriter, prices: Any) -> None:
    with pytest.raises(MessageTooLargeError):
        writer.claim(prices.Book, Z)
    with pytest.raises(InvalidArgumentError):
        writer.claim(prices.Book, -1)
    dropped = writer.claim(prices.Trade)
    del dropped  # aborted
    writer.append(b"x")
    open_claim = writer.claim(prices.Trade)
    writer.close()
    with pytest.raises(ClosedError):
        open_claim.commit()
