# SPDX-License-Identifier: Apache-2.0
"""Makes the input files: golden files with some words, bytes and lengths changed. Uses plain random numbers, because
inputs are not shrunk, and hypothesis would take two thirds of the time."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

from flyring import layout
from flyring._core import crc32c
from flyring.header import Header

GOLDEN = sorted((Path(__file__).parents[2] / "spec" / "golden").glob("*/*.ring"))
SEEDS = [path.read_bytes() for path in GOLDEN if path.parent.name != "refused"]
HEADERS = [Header.parse(seed[:4096], len(seed), "golden") for seed in SEEDS]

NUMBERS = (
    [0, 1, -1, -2, -3, 7, 8, 9, 12, 20, 63, 64, 65, 511, 512, 1023, 1024, 1025, 4032, 4088, 4095, 4096, 4097, 8192]
    + [2**31 - 1, -(2**31), 2**31, 2**32, 2**62 - 64, 2**62 - 8, 2**62, 2**63 - 1, 2**63 - 64, -(2**63)]
)  # fmt: skip


def number(random: Random) -> int:
    match random.randrange(4):
        case 0:
            return random.choice(NUMBERS)
        case 1:
            return random.randint(-64, 64) * 64
        case 2:
            return random.randint(0, 70000)
        case _:  # of any magnitude
            return random.getrandbits(random.randint(1, 63)) * random.choice((1, -1))


def places(header: Header) -> list[tuple[int, int]]:
    """Returns (offset, size) of the fields that the code reads: in header, slots, trailers and counters."""
    here = [(getattr(layout, f"HEADER_{name.upper()}"), 4 if name in WORDS else 8) for name in FIELDS]
    slots = [header.publisher_slot(k) for k in range(header.publishers + header.subscribers)]
    here += [(slot + at, size) for slot in slots for at, size in ((0, 8), (8, 8), (8, 4), (16, 4), (20, 4), (24, 8))]
    for ring in range(header.publishers):
        trailer = header.trailer(ring)
        words = [*range(0, 128, 8), 128, 256, 320, 328, 336]
        here += [(trailer + at, 8) for at in words] * 2
        here += [(header.gate(ring, slot), 8) for slot in header.gating(ring)]
        if header.is_queue:
            beside = ((layout.GATE_TAKEN_END, 8), (layout.GATE_ATTEMPTS, 4))
            here += [(header.gate(ring, slot) + at, size) for slot in range(header.subscribers) for at, size in beside]
    if header.is_service:
        here.append((header.control_offset + layout.CONTROL_SERVING, 8))
        for ring in range(header.publishers):
            here += [(header.trailer(ring) + layout.TRAILER_GATE + at, size) for at, size in SERVICE_WORDS]
    if header.is_queue:
        here += [(header.control_offset + at, size) for at, size in QUEUE_WORDS]
        workers = [header.subscriber_slot(k) for k in range(header.subscribers)]
        here += [(slot + layout.SUBSCRIBER_SLOT_BUSY_SINCE, 8) for slot in workers]
    for i in range(min(header.counters, 4)):
        here += [(header.counter_metadata_offset + 512 * i + at, 4) for at in (0, 8, 128)]
    return here


WORDS = ("kind", "alignment", "capacity", "publishers", "subscribers", "counters", "schema_id", "schema_version")
FIELDS = (*WORDS, "minor", "required_features", "file_length", "control_length", "rings_offset", "ring_stride",
          "schema_offset", "schema_length")  # fmt: skip
QUEUE_WORDS = (
    (layout.CONTROL_HANDOVERS, 8),
    (layout.CONTROL_JOBS_SEQUENCE, 4),
    (layout.CONTROL_JOBS_ASLEEP, 4),
)
SERVICE_WORDS = ((layout.GATE_TAKEN_END, 8), (layout.GATE_OUTSTANDING, 4), (layout.GATE_EXPIRED, 8))
SERVICES = [k for k, header in enumerate(HEADERS) if header.is_service]
QUEUES = [k for k, header in enumerate(HEADERS) if header.is_queue]  # a quarter more: queues have the most code
PLACES = [places(header) for header in HEADERS]


def files(random: Random) -> bytes:
    """Returns a golden file with up to 6 changes. Half of the files have a valid checksum in the header."""
    kinds = {0: QUEUES, 1: SERVICES}
    chosen = random.choice(kinds.get(random.randrange(6), range(len(SEEDS))))
    seed, header = SEEDS[chosen], HEADERS[chosen]
    content = bytearray(seed)
    for _ in range(random.randint(0, 6)):
        change(random, content, header, PLACES[chosen])
    if header.is_service:
        ask(random, content, header)
    if header.is_queue and random.randrange(2):
        leave_in_hand(random, content, header)
    if random.randrange(2):
        if random.randrange(4):
            content[: layout.HEADER_LENGTH] = seed[: layout.HEADER_LENGTH]
        struct.pack_into("<I", content, layout.HEADER_CRC, crc32c(content[: layout.HEADER_CRC_LENGTH]))
    if random.randrange(20) == 0:
        del content[random.randint(0, len(content)) :]
    return bytes(content)


def change(random: Random, content: bytearray, header: Header, places: list[tuple[int, int]]) -> None:
    match random.randrange(6):
        case 0 | 1:
            at, size = random.choice(places)
            put(content, at, number(random), size)
        case 2 | 3:  # a record's length and type
            ring = random.randrange(header.publishers)
            unit = random.randrange(header.capacity // 8) * 8
            at = header.ring(ring) + (unit if header.alignment == 8 else unit & -64)
            put(content, at, number(random), 4)
            if random.randrange(2):
                put(content, at + 4, random.choice([1, -1, -2, 0, -3, 7]), 4)
        case 4:
            at = random.randrange(len(content))
            new = random.randbytes(random.randint(1, 16))[: len(content) - at]
            content[at : at + len(new)] = new
        case _:  # a block from elsewhere
            length = random.choice([8, 16, 64, 256, 768, 4096])
            source, target = (random.randint(0, (len(content) - length) // 8) * 8 for _ in range(2))
            content[target : target + length] = content[source : source + length]


def leave_in_hand(random: Random, content: bytearray, header: Header) -> None:
    """Changes the file as if a worker had died or was evicted, with a batch in hand or only announced. Nearly always
    uses valid positions of a ring."""
    ring, slot = random.randrange(header.publishers), random.randrange(1, header.subscribers)
    trailer = header.trailer(ring)
    known = [
        int.from_bytes(content[at : at + 8], "little", signed=True)
        for at in (header.gate(ring, 0), trailer + layout.TRAILER_PUBLISHED, trailer + layout.TRAILER_CLAIMED)
    ]
    begin = max(0, random.choice(known) - random.randrange(20) * header.alignment)
    end = begin + random.randrange(-1, 12) * header.alignment
    if random.randrange(8) == 0:
        begin, end = number(random), number(random)
    gate = header.gate(ring, slot)
    put(content, gate, begin, 8)
    put(content, gate + layout.GATE_TAKEN_END, end, 8)
    put(content, gate + layout.GATE_ATTEMPTS, random.choice((0, 1, 5, -1, 2**31 - 1, -(2**31))), 4)
    at = header.subscriber_slot(slot)
    put(content, at + layout.SUBSCRIBER_SLOT_EVICTING, random.randrange(2), 4)
    if random.randrange(2):  # the batch is taken, not only announced
        put(content, header.gate(ring, 0), max(begin, end), 8)


def ask(random: Random, content: bytearray, header: Header) -> None:
    """Adds requests and replies of this boot or another one, with plausible prefixes."""
    for _ in range(random.randrange(8)):
        ring = random.randrange(header.publishers)
        trailer = header.trailer(ring)
        known = int.from_bytes(content[trailer + layout.TRAILER_PUBLISHED :][:8], "little") % (1 << 40)
        at = (
            header.ring(ring)
            + (known - random.randrange(16) * header.alignment) % header.capacity
            + layout.RECORD_PAYLOAD
        )
        epochs = [int.from_bytes(content[header.subscriber_slot(k) :][:4], "little") for k in range(header.subscribers)]
        if ring < header.clients:
            prefix = struct.pack(
                "<IHHqII",
                random.randrange(8),
                random.choice((0, 0, 1, 2, 3, 65535)),
                random.choice((0, 0, 1, 5, 65535)),
                random.choice((0, 0, 1, -1, 2**62)),
                random.choice(epochs),
                epochs[0] + random.randrange(3),
            )
        else:
            epoch = random.choice(epochs) + random.randrange(2)
            flags = random.choice((0, 0, 1, 2, 3, -1))
            prefix = struct.pack("<IIii", epoch, random.randrange(8), random.choice((0, 0, 1, 2, 3, -5)), flags)
        content[at : at + len(prefix)] = prefix


def put(content: bytearray, at: int, value: int, size: int) -> None:
    content[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
