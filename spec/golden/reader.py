#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lossy subscriber (channel.md 6.10) in plain Python, written only from the specification. It follows a live channel,
yields its messages, and counts exactly the messages that publishers overwrote before it read them. It takes no slot,
writes nothing, and holds no publisher back.

reader.py FILE [--ring K] [--oldest] [--seconds S]     prints a line per message, and at the end the losses

A lossy reader needs loads that do not tear and that stay in order. `memoryview.cast("q")[i]` copies eight aligned bytes
by a memcpy of constant size, which compilers of CPython turn into one move, and x86-64 keeps loads in order. The Python
language guarantees neither. AArch64 needs fences that Python does not have, so this reader refuses to run there.
(`struct.unpack_from("<q", ...)` may read byte by byte, so it is only used for the header, which never changes.)
Reliable subscribers also need a full fence (6.4) and locks; use a binding for them."""

import argparse
import mmap
import os
import platform
import struct
import sys
import time
from collections import namedtuple

HEADER_LENGTH = 4096
KNOWN_FEATURES = 2 | 4  # required_features: foreign publisher, foreign subscriber
MAX_POSITION = 2**62
CONSISTENT_TRIES = 20  # the specification has 1000; see _jump

Message = namedtuple("Message", "type payload position number")  # number: how many messages came before it in its ring


class NotReadable(Exception):
    """The file is not a channel, has a newer version, or is damaged."""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Channel:
    """A channel file, mapped for reading. Checks the header before it maps the file (3.3)."""

    def __init__(self, path):
        if platform.machine() != "x86_64":
            raise NotReadable("this reader needs x86-64, whose loads stay in order")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            header, size = os.pread(fd, HEADER_LENGTH, 0), os.fstat(fd).st_size
            self._read_header(header, size)
            self._map = mmap.mmap(fd, size, prot=mmap.PROT_READ)  # shared
        finally:
            os.close(fd)
        # Three views of the same bytes: bytes, 4-byte words, 8-byte words. An index is an offset divided by the size.
        self.bytes = memoryview(self._map)
        self.i32, self.i64 = self.bytes.cast("i"), self.bytes.cast("q")

    def _read_header(self, header, size):
        if header[:8] != b"FLYRING\0":
            raise NotReadable("not a channel")
        if len(header) < HEADER_LENGTH:
            raise NotReadable("truncated")

        def field(form, offset):
            return struct.unpack_from("<" + form, header, offset)[0]

        # A newer minor version is accepted: its additions lie in bytes that this reader does not use.
        major, features = field("H", 8), field("Q", 16)
        if major != 1 or features & ~KNOWN_FEATURES:
            raise NotReadable(f"needs a newer reader: major {major}, required features {features:#x}")
        if field("q", 32) != size:
            raise NotReadable(f"{size} bytes long, but should be {field('q', 32)}")
        if field("I", 4092) != crc32c(header[:4092]):
            raise NotReadable("the header's checksum is wrong")
        self.alignment, self.capacity, self.publishers = field("i", 68), field("i", 72), field("i", 76)
        self.rings_offset, self.ring_stride = field("q", 136), field("q", 144)
        capacity = self.capacity
        if (
            self.alignment not in (8, 64)
            or not 4096 <= capacity <= 2**30
            or capacity & (capacity - 1)
            or not 1 <= self.publishers <= 1024
            or self.rings_offset < 3 * HEADER_LENGTH - HEADER_LENGTH
            or self.rings_offset < HEADER_LENGTH
            or self.rings_offset % 4096
            or self.ring_stride % 4096
            or self.ring_stride < capacity + 768
            or self.rings_offset + self.publishers * self.ring_stride > size
        ):
            raise NotReadable("a field of the header is out of its range")
        if features & 2:
            raise NotReadable("a foreign publisher does not announce what it is about to overwrite (6.15)")


class Ring:
    """One ring, read without a slot. `take` returns one message or None; `lost_messages` and `lost_bytes` are exact."""

    def __init__(self, channel, ring=0, oldest=False):
        if not 0 <= ring < channel.publishers:
            raise ValueError(f"no ring {ring}: the channel has {channel.publishers}")
        self.channel, self.capacity, self.alignment = channel, channel.capacity, channel.alignment
        self.data = channel.rings_offset + ring * channel.ring_stride  # offset in the file
        self.trailer = self.data + channel.capacity
        self.lost_messages = self.lost_bytes = self.jumps = 0
        # The cursor: a position, and the number of the ring's messages before it. None: no start was found yet.
        self.position = self.before = None
        if oldest:
            self.position, self.before = min(self._boundaries(), default=(None, None))

    def take(self):
        """Returns a copy of the next message; None if there is none now."""
        if self.position is None:
            start = self._consistent()
            if start is None:
                return None
            self.position, self.before = start
        for _ in range(1 + self.capacity // self.alignment):  # a bound for padding and owner records
            p = self.position
            at = p & (self.capacity - 1)
            # Step 1: read the length once. It was stored last, so all earlier stores of the record are visible.
            word = (self.data + at) >> 2
            length = self.channel.i32[word]
            if length <= 0:  # Step 2: no record yet, or cleared by a publisher that is a lap ahead
                if not self._lapped(p):
                    return None
                if not self._jump():
                    return None
                continue
            # Step 3: the length may belong to another lap. Check it, and if it is invalid, test for a lap.
            kind = self.channel.i32[word + 1]
            end = -(-length // self.alignment) * self.alignment
            wrong = length < 8 or at + end > self.capacity or (kind > 0 and end > self.capacity // 4)
            # Step 4: copy first, then test whether the copy may mix two laps. Publishers announce in `claimed` what
            # they overwrite, before they do.
            payload = (
                b"" if wrong or kind <= 0 else bytes(self.channel.bytes[self.data + at + 8 : self.data + at + length])
            )
            if self._lapped(p):
                if not self._jump():
                    return None
                continue
            if wrong or kind == 0 or kind < -2:
                raise NotReadable(f"corrupt ring: length {length}, type {kind} at position {p}")
            self.position = p + end
            if kind > 0:  # -1 is padding, -2 an owner record; neither is counted
                self.before += 1
                return Message(kind, payload, p, self.before - 1)
        return None

    def _word(self, offset):
        return self.channel.i64[(self.trailer + offset) >> 3]

    def _lapped(self, p):
        return p + self.capacity < self._word(128) + 8  # claimed

    def _jump(self):
        """Step 5: continues at the oldest boundary that leaves a quarter of the ring before the next lap; without one,
        at the next published message. Returns False if no consistent count can be read now.

        Three reads in Python take longer than a fast publisher needs for a message, so the count may never be
        consistent. Then the newest boundary is used, where a record begins and the count is known."""
        room = 3 * self.capacity // 4
        boundaries = [b for b in self._boundaries() if b[0] > self.position]
        start = min((b for b in boundaries if b[0] + room >= self._word(128)), default=None)
        start = start or self._consistent() or max(boundaries, default=None)
        if start is None:
            return False
        position, count = start
        if position <= self.position:
            raise NotReadable(f"corrupt ring: lapped at {self.position}, but published is {position}")
        self.lost_bytes += position - self.position
        self.lost_messages += count - self.before
        self.position, self.before = position, count
        self.jumps += 1
        return True

    def _consistent(self):
        """Returns a consistent (published, count). The publisher stores begun, published, done; this reads them in
        reverse."""
        for _ in range(CONSISTENT_TRIES):
            done, published, begun = self._word(336), self._word(320), self._word(328)
            if done == begun:
                self._check(published)
                return published, done
        return None

    def _boundaries(self):
        """Returns (position, messages before it) of the record boundaries that are not overwritten yet."""
        for e in range(8):
            b, count = self._word(16 * e), self._word(16 * e + 8)
            if b >= 0 and self._word(16 * e) == b and not self._lapped(b):
                self._check(b)
                yield b, count

    def _check(self, position):
        if not 0 <= position < MAX_POSITION or position % self.alignment:
            raise NotReadable(f"corrupt ring: {position} is no position")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--ring", type=int, default=0)
    parser.add_argument("--oldest", action="store_true", help="begin with what is still there, not with what comes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long; for ever if not given")
    options = parser.parse_args()
    try:
        ring = Ring(Channel(options.file), options.ring, options.oldest)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            message = ring.take()
            if message is None:
                time.sleep(0.001)
            else:
                print(message.number, message.position, message.type, message.payload.hex(), flush=True)
    except (NotReadable, OSError, ValueError) as e:
        sys.exit(f"{options.file}: {e}")
    except KeyboardInterrupt:
        pass
    print(f"{ring.lost_messages} messages, {ring.lost_bytes} bytes lost", file=sys.stderr)


if __name__ == "__main__":
    main()
