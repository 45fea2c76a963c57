# SPDX-License-Identifier: Apache-2.0
"""All messages of one key go to one inbox, and so to one process, in their order.

routing.py send      each line of standard input is a key, a space and a text
routing.py read K    prints what comes into inbox K, until the text is "stop"
routing.py where     each line is "text KEY" or "integer KEY": prints the hash and the inbox
"""

import sys

import flyring
import xxhash

INBOXES = 3  # every program must have the same number


def text_key(key: str) -> bytes:
    return key.encode()


def integer_key(key: int) -> bytes:
    return key.to_bytes(8, "little", signed=True)


def hash_of(key: bytes) -> int:
    return xxhash.xxh64_intdigest(key, seed=0)


def inbox_of(key: bytes) -> int:
    return hash_of(key) % INBOXES


def inbox(number: int) -> flyring.Channel:
    return flyring.Channel.open_or_create(f"orders.{number}", kind="inbox")


def send() -> None:
    inboxes = [inbox(number) for number in range(INBOXES)]
    publishers = [channel.publisher() for channel in inboxes]
    for line in sys.stdin:
        key = line.partition(" ")[0]
        publishers[inbox_of(text_key(key))].send(line.strip().encode())  # sleeps while the ring is full
    for channel in inboxes:
        channel.close()


def read(number: int) -> None:
    with inbox(number) as channel, channel.subscriber() as subscriber:
        # take(None) sleeps while there is nothing; iteration would end when the senders have closed.
        while not (text := bytes(subscriber.take(None)).decode()).endswith(" stop"):
            print(text, flush=True)


def where() -> None:
    for line in sys.stdin:
        kind, _, key = line.rstrip("\n").partition(" ")
        bytes_ = integer_key(int(key)) if kind == "integer" else text_key(key)
        print(f"{hash_of(bytes_):016x} {inbox_of(bytes_)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["send"]:
            send()
        case ["read", number] if number.isdecimal() and int(number) < INBOXES:
            read(int(number))
        case ["where"]:
            where()
        case _:
            sys.exit(f"Use routing.py send, routing.py read K (below {INBOXES}), or routing.py where.")
