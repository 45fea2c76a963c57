#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The deterministic stream of PEER.md, and stream.json with the first messages of some streams, for tests of new peers.

stream.py           write stream.json
stream.py --check   compare with the existing file; exit status 1 if it differs"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parent / "stream.json"
MASK = 2**64 - 1


def message(seed, i, low, high, numbered=False):
    """Returns (type, payload) of message i."""
    state = (seed * 0x9E3779B97F4A7C15 + i * 0xD1B54A32D192ED03) & MASK

    def following():
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    length = low + following() % (high - low + 1)
    kind = 1 + following() % 1000
    words = [following().to_bytes(8, "little") for _ in range((length + 7) // 8)]
    if numbered:
        words[0] = i.to_bytes(8, "little")
    return kind, b"".join(words)[:length]


def streams():
    """Returns (seed, first, min, max, count): small streams, constant sizes, and numbers that overflow 64 bits at
    once."""
    for seed, first, low, high, count in (
        (1, 0, 0, 100, 20),
        (0, 0, 0, 0, 3),
        (0, 0, 1, 1, 3),
        (7, 0, 8, 8, 3),
        (123456789, 1_000_000, 0, 256, 10),
        (2**63 - 1, 2**63 - 4, 0, 64, 3),
        (42, 5, 1000, 1016, 3),
    ):
        messages = []
        for i in range(first, first + count):
            kind, payload = message(seed, i, low, high)
            messages.append({"sequence": i, "length": len(payload), "type": kind, "data": payload.hex()})
        yield {"seed": seed, "first": first, "min": low, "max": high, "count": count, "messages": messages}


def main():
    lines = []
    for s in streams():
        head = json.dumps(s | {"messages": []})[:-2]
        lines.append(head + "\n  " + ",\n  ".join(map(json.dumps, s["messages"])) + "\n ]}")
    text = "[\n " + ",\n ".join(lines) + "\n]\n"
    if sys.argv[1:] == ["--check"]:
        same = FILE.exists() and FILE.read_text() == text
        print(f"{FILE.name}: " + ("as generated" if same else "not what stream.py makes; run it and see what differs"))
        return 0 if same else 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
