# SPDX-License-Identifier: Apache-2.0
"""The latest price of each symbol, in a table that other processes read.

latest_prices.py feed LAST PER_SECOND    puts updates up to number LAST of each symbol, behind those in the table
latest_prices.py wait SYMBOL LAST        sleeps until the symbol has a new price, and prints it, up to update LAST
latest_prices.py show                    prints all prices
"""

import sys
import time
from pathlib import Path

import flyring
from flyring import sbe

prices = sbe.Schema.load(Path(__file__).with_name("prices.xml"))
SYMBOLS = ["APPLES", "PEARS", "PLUMS", "QUINCES"]


def open_table() -> flyring.Table:
    """A reader or the feed may come first: whichever does creates the table."""
    return flyring.Table.open_or_create("prices", key="text", capacity=1000, schema=prices, message="Price")


def text_of(symbol: str, price) -> str:
    return f"{symbol} {price.bid}/{price.ask}, update {price.number}"


def take_writer(table: flyring.Table) -> flyring.TableWriter:
    """There is one writer. A second feed waits, and goes on when the first one has ended or was killed."""
    try:
        return table.writer("feed")
    except flyring.NoFreeSlotError as error:
        print(f"waiting: the writer is process {error.owners[0].pid}", flush=True)
        return table.writer("feed", timeout=None)


def feed(last: int, per_second: float) -> None:
    price = prices.Price.encode(bytearray(prices.Price.BLOCK_LENGTH + 8))
    with open_table() as table, take_writer(table) as writer:
        done = {symbol: table.decode(symbol).number if symbol in table else 0 for symbol in SYMBOLS}
        print(f"begins behind update {min(done.values())}", flush=True)
        for number in range(min(done.values()) + 1, last + 1):
            for index, symbol in enumerate(SYMBOLS):
                if number > done[symbol]:
                    price.number, price.bid = number, 100 + index + number % 10
                    price.ask = price.bid + 1
                    writer.put(symbol, price)
            time.sleep(1 / per_second)


def wait(symbol: str, last: int) -> None:
    version = number = 0
    with open_table() as table:
        while number < last:
            version = table.wait_changed(symbol, version)  # sleeps until it has another version
            price = table.decode(symbol)  # the latest one: newer than that version, if the feed is fast
            if price.number > number:
                number = price.number
                print(text_of(symbol, price), flush=True)


def show() -> None:
    with open_table() as table:
        for symbol in sorted(table):
            print(text_of(symbol, table.decode(symbol)))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["feed", last, per_second]:
            feed(int(last), float(per_second))
        case ["wait", symbol, last]:
            wait(symbol, int(last))
        case ["show"]:
            show()
        case _:
            sys.exit("Use latest_prices.py with: feed LAST PER_SECOND, wait SYMBOL LAST, or show.")
