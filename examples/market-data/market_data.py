# SPDX-License-Identifier: Apache-2.0
"""Quotes for many readers: each reader gets every quote.

market_data.py feed COUNT PER_SECOND READERS    waits for so many readers, then publishes COUNT quotes at a steady pace
market_data.py read                             counts the quotes until the feed closes
market_data.py dashboard SECONDS                shows the newest prices each SECONDS; never slows the feed down
"""

import sys
import time
from pathlib import Path

import flyring
import numpy
from flyring import sbe

quotes = sbe.Schema.load(Path(__file__).with_name("quotes.xml"))
SYMBOLS = numpy.array([b"APPLES", b"PEARS", b"PLUMS", b"QUINCES"])


def open_channel() -> flyring.Channel:
    """The reader or the feed may come first: whichever does creates the channel."""
    return flyring.Channel.open_or_create("quotes", kind="broadcast", publishers=1, subscribers=8, schema=quotes)


def feed(count: int, per_second: int, readers: int) -> None:
    with open_channel() as channel, channel.publisher("feed") as publisher:
        while publisher.readers < readers:
            time.sleep(0.01)
        start = time.monotonic()
        sent = 0
        while sent < count:  # each millisecond the quotes that are due
            due = min(count, int((time.monotonic() - start) * per_second))
            publisher.send_array(quotes.Quote, make_quotes(sent, due))  # sleeps while the ring is full
            sent = due
            time.sleep(0.001)


def make_quotes(first: int, end: int) -> numpy.ndarray:
    numbers = numpy.arange(first, end)
    rows = numpy.empty(len(numbers), quotes.Quote.dtype)
    rows["sequence"] = numbers
    rows["symbol"] = SYMBOLS[numbers % len(SYMBOLS)]
    rows["bid"] = 100 + numbers % 10
    rows["ask"] = 101 + numbers % 10
    return rows


def read() -> None:
    count = missing = expected = 0
    last = ""

    def show(quote, message) -> None:
        nonlocal count, missing, expected, last
        if count > 0:
            missing += quote.sequence - expected
        expected = quote.sequence + 1
        count += 1
        last = f"{quote.symbol} {quote.bid}/{quote.ask}"

    with open_channel() as channel, channel.subscriber("reader") as subscriber:
        handler = sbe.dispatch({quotes.Quote: show})
        while count == 0 or not subscriber.ended(0):
            subscriber.poll(handler, timeout=0.1)  # sleeps while there is nothing
    print(f"{count} quotes, {missing} missing, the last one {last}")


def dashboard(seconds: float) -> None:
    newest: dict[str, str] = {}

    def show(quote, message) -> None:
        newest[quote.symbol] = f"{quote.bid}/{quote.ask}"

    count = 0
    with open_channel() as channel, channel.lossy_subscriber() as subscriber:
        handler = sbe.dispatch({quotes.Quote: show})
        while count == 0 or not subscriber.ended(0):
            time.sleep(seconds)  # meanwhile the feed may overwrite quotes
            count += subscriber.poll(handler, limit=1_000_000)
            prices = [f"{symbol} {price}" for symbol, price in sorted(newest.items())]
            print(f"{count} read, {subscriber.lost_messages(0)} missed:", *prices, flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["feed", count, per_second, readers]:
            feed(int(count), int(per_second), int(readers))
        case ["read"]:
            read()
        case ["dashboard", seconds]:
            dashboard(float(seconds))
        case _:
            sys.exit("Use market_data.py with: feed COUNT PER_SECOND READERS, read, or dashboard SECONDS.")
