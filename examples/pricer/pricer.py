# SPDX-License-Identifier: Apache-2.0
"""A service that knows prices, and who asks it: a web server, too, whose handlers wait for the answers side by side.

pricer.py serve          answers until standard input ends; an instrument that begins with "slow" takes
                         longer than its caller waits, one that begins with "no" has no price
pricer.py ask NAME...    prints the price of each, or why there is none; waits half a second for each
pricer.py web PORT       http://localhost:PORT/NAME is the price of NAME, from the service
"""

import asyncio
import sys
import threading
import time

import flyring

PATIENCE = 0.5  # seconds


def prices() -> flyring.Channel:
    return flyring.Channel.open_or_create("prices", kind="service", clients=4)


def price_of(instrument: str) -> str:
    """Not a real one."""
    if instrument.startswith("no"):
        raise LookupError(f"there is no price of {instrument}")
    return f"{sum(instrument.encode())}.00"


def serve() -> None:
    def handle(request: flyring.Request) -> bytes:
        instrument = bytes(request).decode()
        if instrument.startswith("slow"):
            left = request.remaining()  # how long its caller still waits
            time.sleep(2 * (1 if left is None else left))
        return price_of(instrument).encode()  # what it raises, its caller gets

    # Another server may still be about to go.
    with prices() as channel, channel.server("pricer", timeout=5) as server:
        threading.Thread(target=lambda: (sys.stdin.read(), server.stop()), daemon=True).start()
        server.serve(handle)


def ask(instruments: list[str]) -> None:
    with prices() as channel, channel.client() as client:
        for instrument in instruments:
            try:
                text = bytes(client.call(instrument.encode(), timeout=PATIENCE)).decode()
            except flyring.ServiceError as error:
                text = error.text
            except flyring.ExpiredError:
                text = "no answer in time"
            except flyring.ServerGoneError:
                text = "the server has gone"
            print(f"{instrument}: {text}", flush=True)


async def web(port: int) -> None:
    """As little of a web server as will do: any framework's handlers call the service in the same way."""
    with prices() as channel, channel.client("web") as client:

        async def price(instrument: str) -> tuple[str, str]:
            try:
                answer = await client.call_async(instrument.encode(), timeout=PATIENCE)
                return "200 OK", bytes(answer).decode()
            except flyring.ServiceError as error:
                return "404 Not Found", error.text
            except flyring.ExpiredError:
                return "504 Gateway Timeout", "no answer in time"
            except flyring.ServerGoneError as error:
                again = "" if error.may_have_run else ", ask again"
                return "502 Bad Gateway", f"the server has gone{again}"
            except flyring.BusyError:
                return "503 Service Unavailable", "too many calls are under way"

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            words = (await reader.readline()).decode().split()
            while (await reader.readline()).strip():
                pass  # the head's other lines
            status, text = await price(words[1].lstrip("/") if len(words) > 1 else "")
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text.encode())}\r\nConnection: close\r\n\r\n"
            writer.write((head + text).encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(handle, "localhost", port)
        print(f"http://localhost:{port}/", flush=True)
        async with server:
            await server.serve_forever()


def main(verb: str = "", *words: str) -> None:
    if verb == "serve" and not words:
        serve()
    elif verb == "ask" and words:
        ask(list(words))
    elif verb == "web" and len(words) == 1:
        asyncio.run(web(int(words[0])))
    else:
        sys.exit("Use pricer.py serve, pricer.py ask NAME..., or pricer.py web PORT")


if __name__ == "__main__":
    main(*sys.argv[1:])
