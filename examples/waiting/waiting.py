# SPDX-License-Identifier: Apache-2.0
"""Sleeps until a message comes on either of two channels.

waiting.py                 prints what comes; the text "stop" on the channel "control" ends it
waiting.py CHANNEL TEXT    sends TEXT to the channel "orders" or "control"
"""

import sys

import flyring

NAMES = ("orders", "control")


def read() -> None:
    orders, control = (flyring.Channel.open_or_create(name, kind="inbox") for name in NAMES)
    with orders, control, orders.subscriber() as order_reader, control.subscriber() as control_reader:
        waits = flyring.WaitSet()
        waits.add(order_reader)
        waits.add(control_reader)
        while True:
            # Sleeps in the kernel. Those that are ready may have a message; take() does not wait.
            for reader in waits.wait():
                name = NAMES[reader is control_reader]
                while message := reader.take():
                    text = bytes(message).decode()
                    print(f"{name}: {text}", flush=True)
                    if name == "control" and text == "stop":
                        return


def send(name: str, text: str) -> None:
    if name not in NAMES:
        sys.exit(f"There is no channel {name!r}. Use one of {', '.join(NAMES)}.")
    with flyring.Channel.open_or_create(name, kind="inbox") as channel, channel.publisher() as publisher:
        try:
            publisher.send(text.encode(), timeout=5)  # sleeps while the ring is full
        except flyring.BackPressuredError as error:
            sys.exit(f"The ring was full for 5 seconds: {error}")


if __name__ == "__main__":
    if len(sys.argv) not in (1, 3):
        sys.exit("Use waiting.py, or waiting.py CHANNEL TEXT.")
    send(*sys.argv[1:]) if len(sys.argv) == 3 else read()
