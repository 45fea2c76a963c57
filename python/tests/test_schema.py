# SPDX-License-Identifier: Apache-2.0
"""The schema in a channel's file: its text, id and version, and which openers are refused (spec/messages.md 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flyring import Channel, ChannelDiffersError, InvalidArgumentError, Message, sbe
from test_sbe_messages import PRICES, field, schema


@pytest.fixture(scope="module")
def prices() -> Any:
    return sbe.Schema.load(PRICES)


def test_a_schema_brings_text_id_and_version(folder: Path, prices: Any) -> None:
    for make in (Channel.create, Channel.replace, Channel.open_or_create):
        with make("one", "broadcast", schema=prices) as channel:
            assert channel.schema == prices.text == PRICES.read_text("utf-8")
            assert (channel.schema_id, channel.schema_version) == (7, 1)
            again: Any = sbe.Schema.of(channel)
            assert (again.id, again.version, again.text, [*again.messages]) == (7, 1, prices.text, [*prices.messages])
    with Channel.open_or_create("one", "broadcast", schema=prices.text, schema_id=7, schema_version=1):
        pass  # the same schema
    for options in ({"schema_id": 7}, {"schema_version": 1}, {"schema_id": 0}):
        with pytest.raises(InvalidArgumentError) as caught:
            Channel.create("two", "broadcast", schema=prices, **options)  # type: ignore[arg-type]
        assert caught.value.argument in options
    with pytest.raises(InvalidArgumentError, match="schema"):
        Channel.create("two", "broadcast", schema=b"bytes")  # type: ignore[arg-type]
    with pytest.raises(ChannelDiffersError):
        Channel.open_or_create("one", "broadcast", schema=schema("", field("uint8")))


def test_a_channel_without_a_schema_for_messages(folder: Path) -> None:
    with Channel.create("raw", "broadcast") as channel, pytest.raises(sbe.SchemaError, match="no schema"):
        sbe.Schema.of(channel)
    with Channel.create("text", "broadcast", schema="not XML") as channel, pytest.raises(sbe.SchemaError):
        sbe.Schema.of(channel)


def test_open_with_a_schema(folder: Path, prices: Any) -> None:
    other = schema("", field("uint8"))
    Channel.create("raw", "broadcast").close()
    Channel.create("priced", "broadcast", schema=prices).close()
    Channel.create("old", "broadcast", schema="any text", schema_id=7, schema_version=0).close()

    def differs(name: str, field: str, expected: object, actual: object, **options: Any) -> None:
        with pytest.raises(ChannelDiffersError) as caught:
            Channel.open(name, **options)
        assert (caught.value.field, caught.value.expected, caught.value.actual) == (field, str(expected), str(actual))
        assert caught.value.path.endswith(f"{name}.ring")

    for read_only in (False, True):
        differs("raw", "schema", 7, "none", schema=prices, read_only=read_only)
        differs("priced", "schema_id", 9, 7, schema=other, read_only=read_only)
        differs("priced", "schema_version", 2, 1, min_schema_version=2, read_only=read_only)
        differs("old", "schema_version", 1, 0, schema=prices, min_schema_version=1, read_only=read_only)
        differs("raw", "schema_version", 1, 0, min_schema_version=1, read_only=read_only)
        Channel.open("priced", schema=prices, min_schema_version=1, read_only=read_only).close()
        Channel.open("old", schema=prices, read_only=read_only).close()  # the versions may differ
        Channel.open("raw", read_only=read_only).close()
    for wrong in (-1, 65536):
        with pytest.raises(InvalidArgumentError, match="min_schema_version"):
            Channel.open("raw", min_schema_version=wrong)
    with pytest.raises(InvalidArgumentError, match="schema"):
        Channel.open("priced", schema=prices.text)
    for _ in range(2000):  # would fail if descriptors leaked
        with pytest.raises(ChannelDiffersError):
            Channel.open("raw", schema=prices)


def test_older_and_newer_publishers_share_a_channel(folder: Path, prices: Any) -> None:
    text = prices.text.replace('version="1" semanticVersion="1.1"', 'version="0" semanticVersion="1.0"', 1)
    fee = next(line for line in text.splitlines() if "venueFee" in line)
    old: Any = sbe.Schema.parse(text.replace(fee, ""))
    new: Any = sbe.Schema.parse(
        prices.text.replace('version="1"', 'version="2"', 1).replace(
            fee, f'{fee}\n<field name="more" id="7" type="uint8" sinceVersion="2"/>'
        )
    )
    with Channel.create("shared", "broadcast", schema=prices) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        for made, fee_value in ((old, None), (prices, 5), (new, 6)):
            with publisher.claim(made.Trade) as trade:
                trade.price, trade.size = 1, 2
                if fee_value is not None:
                    trade.venueFee = fee_value
                if made is new:
                    trade.more = 9
                trade.commit()
        seen: list[Any] = []

        def note(trade: Any, message: Message) -> None:
            seen.append((trade.acting_version, trade.acting_block_length, trade.price, trade.venueFee))

        assert subscriber.poll(sbe.dispatch({prices.Trade: note})) == 3
        assert seen == [(0, 45, 1, None), (1, 49, 1, 5), (2, 50, 1, 6)]


def test_raw_bytes_are_never_taken_for_a_message(folder: Path) -> None:
    """The default type of raw bytes is not a valid template id (spec/api.md)."""
    made = schema("", field("uint8"))
    for name, options, raw in (("typed", {"schema": made}, 65536), ("text", {"schema": "x"}, 65536), ("bare", {}, 1)):
        with Channel.create(name, "broadcast", **options) as channel:  # type: ignore[arg-type]
            publisher, subscriber, typed = channel.publisher(), channel.subscriber(), channel.subscriber()
            publisher.offer(b"\1\0\1\0\x09\0\0\0?")
            publisher.offer(bytearray(b"raw"))
            publisher.offer_batch([b"raw"] * 2)
            publisher.claim(3).commit()
            with publisher.claim(3, 5):
                pass
            kinds: list[int] = []
            subscriber.poll(lambda message, kinds=kinds: kinds.append(message.type))
            assert kinds == [raw] * 5 + [5]
            if raw != 1:
                seen: list[Any] = []
                others: list[Message] = []
                handler = sbe.dispatch(
                    {made.M: lambda decoder, message, seen=seen: seen.append(decoder)}, others.append
                )
                assert typed.poll(handler) == 6
                assert (seen, len(others)) == ([], 6)
