# SPDX-License-Identifier: Apache-2.0
"""A gateway sends orders to an engine, which answers each with a report.

order_gateway.py gateway COUNT    sends so many orders, and prints what became of each
order_gateway.py engine           fills orders until the gateway closes
"""

import struct
import sys

import flyring

ORDER = struct.Struct("<qqq")  # number, quantity, price
REPORT = struct.Struct("<qq")  # number, quantity filled
PRICE = 100  # the engine fills orders at this price or above


def open_orders() -> flyring.Channel:
    """Both rings are small, so that they are often full."""
    return flyring.Channel.open_or_create("orders", kind="inbox", capacity=8192, publishers=1)


def open_reports() -> flyring.Channel:
    return flyring.Channel.open_or_create("reports", kind="inbox", capacity=4096, publishers=1)


def gateway(count: int) -> None:
    def show(message: flyring.Message) -> None:
        number, filled = REPORT.unpack(message)
        print(f"order {number}: {'filled' if filled else 'rejected'}")

    with open_orders() as orders, open_reports() as reports:
        publisher, subscriber = orders.publisher("gateway"), reports.subscriber("gateway")
        waits = flyring.WaitSet()
        waits.add(publisher)
        waits.add(subscriber)
        sent = received = 0
        while sent < count:
            if publisher.offer(ORDER.pack(sent, 10, PRICE - 1 + sent % 2)):
                sent += 1
            elif reported := subscriber.poll(show):
                received += reported
            else:
                waits.wait()  # sleeps until there is room for an order, or a report
        while received < count:
            received += subscriber.poll(show, timeout=None)  # sleeps until there is a report


def engine() -> None:
    is_full = False

    def fill(order: flyring.Message) -> flyring.Action:
        nonlocal is_full
        number, quantity, price = ORDER.unpack(order)
        if publisher.offer(REPORT.pack(number, quantity if price >= PRICE else 0)):
            return flyring.Action.CONTINUE
        is_full = True
        return flyring.Action.ABORT  # the order stays in the ring, and the next poll begins with it

    with open_orders() as orders, open_reports() as reports:
        publisher, subscriber = reports.publisher("engine"), orders.subscriber("engine")
        room = flyring.WaitSet()
        room.add(publisher)
        filled = waited = 0
        while filled == 0 or not subscriber.ended(0):
            filled += subscriber.poll(fill, timeout=0.1)  # sleeps while there is nothing
            if is_full:
                room.wait()  # sleeps until there is room for a report
                is_full = False
                waited += 1
    print(f"{filled} orders; waited {waited} times for room")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["gateway", count]:
            gateway(int(count))
        case ["engine"]:
            engine()
        case _:
            sys.exit("Use order_gateway.py with: gateway COUNT, or engine.")
