# SPDX-License-Identifier: Apache-2.0
"""Typed messages of spec/sbe/prices.xml, laid out by hand: their bytes, and the JSON (messages.md 4) to which they
decode."""

import pathlib
import struct

SCHEMA = (pathlib.Path(__file__).resolve().parent.parent / "sbe" / "prices.xml").read_text()
SCHEMA_ID, SCHEMA_VERSION = 7, 1
PRICE_UPDATE, TRADE, BOOK = 1, 2, 3
KINDS = {"STOCK": 0, "FUTURE": 1, "OPTION": 2}
SIDES = {"BUY": b"B", "SELL": b"S", None: b"\0"}
FLAGS = ("opening", "closing", "halted")  # from bit 0 on
NO_FEE = -(2**31)
FLYR = {"id": 42, "symbol": "FLYR", "exchange": "XFLY", "currency": "EUR", "kind": "STOCK"}
LONG = {"id": 2**64 - 2, "symbol": "LONGNAME", "exchange": "", "currency": "X", "kind": "OPTION"}


def header(template, length, version=SCHEMA_VERSION):
    return struct.pack("<4H", length, template, SCHEMA_ID, version)


def instrument(i):
    texts = (i[name].encode("ascii") for name in ("symbol", "exchange", "currency"))
    return struct.pack("<Q8s4s3sB", i["id"], *texts, KINDS[i["kind"]])


def price_update(body, more=b"", version=SCHEMA_VERSION):
    """Returns a PriceUpdate. `more`: fields that a later version appended to the block."""
    flags = sum(body["flags"][name] << bit for bit, name in enumerate(FLAGS))
    numbers = [body[name] for name in ("timestamp", "bid", "ask", "bidSize", "askSize", "sequence")]
    block = instrument(body["instrument"]) + struct.pack("<QqqIIIBc", *numbers, flags, SIDES[body["lastSide"]]) + more
    return header(PRICE_UPDATE, len(block), version) + block


def trade(body, version=SCHEMA_VERSION):
    block = instrument(body["instrument"])
    block += struct.pack("<QqIc", body["timestamp"], body["price"], body["size"], SIDES[body["side"]])
    if version > 0:
        block += struct.pack("<i", NO_FEE if body["venueFee"] is None else body["venueFee"])
    return header(TRADE, len(block), version) + block


def book(body, behind=b""):
    """Returns a Book. `behind`: bytes of the payload behind the message."""
    block = instrument(body["instrument"]) + struct.pack("<Q", body["timestamp"])
    levels = [struct.pack("<qIc", level["price"], level["size"], SIDES[level["side"]]) for level in body["levels"]]
    remark = body["remark"].encode()
    groups = struct.pack("<HH", 13, len(levels)) + b"".join(levels) + struct.pack("<H", len(remark)) + remark
    return header(BOOK, len(block)) + block + groups + behind


def update(of, sequence, side, **flags):
    return {
        "instrument": of,
        "timestamp": 1_700_000_000_000_000_000 + sequence,
        "bid": 100_000_000 + sequence,
        "ask": 100_001_000 + sequence,
        "bidSize": sequence % 1000 + 1,
        "askSize": sequence % 777 + 1,
        "sequence": sequence,
        "flags": {name: flags.get(name, False) for name in FLAGS},
        "lastSide": side,
    }


def sale(version, fee):
    body = {"instrument": FLYR, "timestamp": 2**64 - 2, "price": -(2**63) + 1, "size": 2**32 - 2, "side": "SELL"}
    return body | {"venueFee": fee if version else None}


def messages():
    """Returns (name, type, bytes, JSON) of each message, in order; the last one is raw."""
    level = [{"price": 99_999_999, "size": 3, "side": "BUY"}, {"price": -1, "size": 0, "side": "SELL"}]
    full = {"instrument": FLYR, "timestamp": 0, "levels": level, "remark": "größer als nichts"}
    bare = {"instrument": LONG, "timestamp": 1, "levels": [], "remark": ""}
    first, second = update(FLYR, 1, "BUY", opening=True), update(LONG, 6, None, closing=True, halted=True)
    later = update(FLYR, 4_294_967_294, "SELL")
    return [
        ("PriceUpdate", PRICE_UPDATE, price_update(first), first),
        ("PriceUpdate", PRICE_UPDATE, price_update(second), second),
        ("Trade", TRADE, trade(sale(1, -7)), sale(1, -7)),
        ("Trade", TRADE, trade(sale(1, None)), sale(1, None)),
        ("Trade", TRADE, trade(sale(0, None), version=0), sale(0, None)),
        ("Book", BOOK, book(full), full),
        ("Book", BOOK, book(bare, behind=b"\xff" * 5), bare),
        ("PriceUpdate", PRICE_UPDATE, price_update(later, b"\x01\x02\x03\x04", version=2), later),
        (None, 99, b"raw", None),
    ]
