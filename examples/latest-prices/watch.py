# SPDX-License-Identifier: Apache-2.0
"""Waits for new prices of one symbol in an asyncio program: watch.py SYMBOL LAST, up to update LAST. It sleeps while
there is none, and other tasks run meanwhile."""

import asyncio
import sys
import time

from latest_prices import open_table, text_of


async def watch(symbol: str, last: int) -> None:
    version = number = 0
    with open_table() as table:
        while number < last:
            version = await table.changed(symbol, version)
            price = table.decode(symbol)
            number = price.number
        print(text_of(symbol, price), flush=True)


async def tick() -> None:
    while True:
        await asyncio.sleep(0.5)
        print("another task runs", flush=True)


async def main(symbol: str, last: int) -> None:
    ticking = asyncio.create_task(tick())
    await watch(symbol, last)
    ticking.cancel()
    print(f"{time.process_time():.1f} s of processor time")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Use watch.py SYMBOL LAST.")
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
