# SPDX-License-Identifier: Apache-2.0
"""Files as a later minor version may write them: current files with all changes that channel.md 12 allows. Current
bindings must read them, publish into them, and leave unknown bytes alone. Also files that they must refuse."""

import json
import struct

from simulation import crc32c

MINOR = 7
FEATURES = 0x4000_0000_0000_1001  # optional features that no version has yet
MADE_FROM = ("compact", "kept-slot", "counters", "schema", "one-message", "foreign-publisher", "foreign-subscriber")
SECTION = b"a section of a later version "  # the first bytes of a section behind the schema


def reserved(header):
    """Returns [(offset, length)] of the bytes that 4.2 to 4.7 reserve."""
    publishers, subscribers = header["publishers"], header["subscribers"]
    yield 176, 4092 - 176
    control = header["control_offset"]
    for at, length in ((16, 16), (33, 7), (44, 20), (72, 56), (136, 120)):  # between: 6.16
        yield control + at, length
    for slot in range(publishers + subscribers):
        at = control + 256 + 256 * slot
        if slot >= publishers:
            yield at + 12, 4  # behind evicting
        yield at + 92, 4
        first = 136 if slot >= publishers else 128  # discarded, blocked_since
        yield at + 112, first - 112
        yield at + 144, 112
    yield at + 256, control + header["control_length"] - (at + 256)
    for counter in range(header["counters"]):
        yield header["counter_values_offset"] + 128 * counter + 32, 96
    for ring in range(publishers):
        trailer = header["rings_offset"] + ring * header["ring_stride"] + header["capacity"]
        foreign = header["required_features"] != 0
        yield trailer + 136, 120
        yield trailer + (264 if foreign else 256), 320 - (264 if foreign else 256)
        yield trailer + 344, 40
        yield trailer + 400, 368  # with Agrona's correlation and heartbeat
        for gate in range(subscribers - 1):
            yield trailer + 768 + 128 * gate + 16, 112
        end = trailer + 768 + 128 * max(0, subscribers - 1)
        yield end, header["rings_offset"] + (ring + 1) * header["ring_stride"] - end


def sealed(ring):
    struct.pack_into("<I", ring, 4092, crc32c(ring[:4092]))
    return bytes(ring)


def filled(ring, ranges):
    for at, length in ranges:
        ring[at : at + length] = bytes(0x80 | (at + i) * 31 >> 3 & 0x7F for i in range(length))


def of_a_newer_minor(name, made):
    ring, expected = bytearray(made[name + ".ring"]), json.loads(made[name + ".json"])["expected"]
    ranges = [(at, length) for at, length in reserved(expected["header"]) if length]
    if name == "schema":
        ranges.append((len(ring), 4096))
        ring += SECTION.ljust(4096, b"\0")
        struct.pack_into("<q", ring, 32, len(ring))
        filled(ring, ranges[:-1])
    else:
        filled(ring, ranges)
    struct.pack_into("<H", ring, 10, MINOR)
    struct.pack_into("<Q", ring, 24, FEATURES)
    content = sealed(ring)
    changed = {
        "minor": MINOR,
        "optional_features": FEATURES,
        "file_length": len(ring),
        "crc": int.from_bytes(content[4092:4096], "little"),
    }
    expected["header"] |= changed
    return content, {"made_from": name, "reserved": ranges, "expected": expected}


def files(made):
    """Returns {path without suffix: (file, facts)}, made from current files."""
    result = {f"newer/1.{MINOR}-{name}": of_a_newer_minor(name, made) for name in MADE_FROM}
    for name, offset, form, value, field in (
        (f"1.{MINOR}-unknown-feature", 16, "<Q", 1 << 40, "required_features"),
        ("2.0", 8, "<H", 2, "major"),
    ):
        ring = bytearray(result[f"newer/1.{MINOR}-one-message"][0])
        struct.pack_into(form, ring, offset, value)
        result["refused/" + name] = sealed(ring), {"error": "version-too-new", "field": field, "found": value}
    return result
