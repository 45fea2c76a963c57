# SPDX-License-Identifier: Apache-2.0
"""Counts quotes in an asyncio program. The reader sleeps while there are none, and other tasks run meanwhile."""

import asyncio
import time

from flyring import sbe
from market_data import open_channel, quotes


class Counter:
    count = 0
    last = ""

    def add(self, quote, message) -> None:
        self.count += 1
        self.last = f"{quote.symbol} {quote.bid}/{quote.ask}"


async def read(counter: Counter) -> None:
    handler = sbe.dispatch({quotes.Quote: counter.add})
    with open_channel() as channel, channel.subscriber("asyncio") as subscriber:
        while counter.count == 0 or not subscriber.ended(0):
            if message := await subscriber.receive(timeout=0.1):  # sleeps until there is one
                handler(message)
                subscriber.poll(handler)  # and those behind it, without waiting


async def show(counter: Counter) -> None:
    while True:
        await asyncio.sleep(0.5)
        print(f"{counter.count} quotes so far", flush=True)


async def main() -> None:
    counter = Counter()
    showing = asyncio.create_task(show(counter))
    await read(counter)
    showing.cancel()
    print(f"{counter.count} quotes, the last one {counter.last}; {time.process_time():.1f} s of processor time")


if __name__ == "__main__":
    asyncio.run(main())
