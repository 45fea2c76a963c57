# SPDX-License-Identifier: Apache-2.0
"""Agrona 2.6.0's OneToOneRingBuffer, statement by statement, on a channel's ring: simulates a stock Agrona process."""

from __future__ import annotations

from collections.abc import Callable

from flyring import Channel

HEADER_LENGTH = ALIGNMENT = 8
PADDING_MSG_TYPE_ID = -1
INSUFFICIENT_CAPACITY = -2
TAIL_POSITION_OFFSET, HEAD_CACHE_POSITION_OFFSET, HEAD_POSITION_OFFSET = 128, 256, 384
CORRELATION_COUNTER_OFFSET, CONSUMER_HEARTBEAT_OFFSET = 512, 640


def align(value: int) -> int:
    return (value + ALIGNMENT - 1) & -ALIGNMENT


def as_int(value: int) -> int:
    """Converts like Java's (int)."""
    return (value + 2**31) % 2**32 - 2**31


class OneToOneRingBuffer:
    def __init__(self, channel: Channel) -> None:
        self.memory, self.base, self.capacity = channel._attached.memory, channel.header.rings_offset, channel.capacity
        self.max_message_length = max(HEADER_LENGTH, self.capacity >> 3)
        self.tail = self.base + self.capacity + TAIL_POSITION_OFFSET
        self.head_cache = self.base + self.capacity + HEAD_CACHE_POSITION_OFFSET
        self.head = self.base + self.capacity + HEAD_POSITION_OFFSET

    def get(self, at: int) -> int:
        return self.memory.load64(at)

    def put(self, at: int, value: int) -> None:
        self.memory.store64(at, value)

    def put_int(self, index: int, value: int) -> None:
        self.memory.store32(self.base + index, value)

    def write(self, kind: int, data: bytes) -> bool:
        index = self.try_claim(kind, len(data), write=True)
        if index == INSUFFICIENT_CAPACITY:
            return False
        self.memory.write(self.base + index, data)
        self.put_int(index - HEADER_LENGTH + 4, kind)
        self.put_int(index - HEADER_LENGTH, HEADER_LENGTH + len(data))
        return True

    def try_claim(self, kind: int, length: int, write: bool = False) -> int:
        """Returns the index of the message, or INSUFFICIENT_CAPACITY. ``write``: the type is stored later."""
        assert kind > 0 and 0 <= length <= self.max_message_length
        index = self.claim_capacity(HEADER_LENGTH + length)
        if index == INSUFFICIENT_CAPACITY:
            return index
        self.put_int(index, -(HEADER_LENGTH + length))
        if not write:
            self.put_int(index + 4, kind)
        return index + HEADER_LENGTH

    def commit(self, index: int) -> None:
        length = self.memory.load32(self.base + index - HEADER_LENGTH)
        assert length < 0
        self.put_int(index - HEADER_LENGTH, -length)

    def abort(self, index: int) -> None:
        self.put_int(index - HEADER_LENGTH + 4, PADDING_MSG_TYPE_ID)
        self.commit(index)

    def claim_capacity(self, record_length: int) -> int:
        aligned = align(record_length)
        required = aligned + HEADER_LENGTH
        mask = self.capacity - 1
        head, tail = self.get(self.head_cache), self.get(self.tail)
        if required > self.capacity - as_int(tail - head):
            head = self.get(self.head)
            if required > self.capacity - as_int(tail - head):
                return INSUFFICIENT_CAPACITY
            self.put(self.head_cache, head)
        padding, record_index = 0, tail & mask
        to_end = self.capacity - record_index
        write_index, next_tail = record_index, tail + aligned
        if aligned == to_end:
            self.put(self.tail, next_tail)
            self.put(self.base, 0)
            return record_index
        if required > to_end:
            write_index = 0
            if required > head & mask:
                head = self.get(self.head)
                if required > head & mask:
                    write_index, next_tail = INSUFFICIENT_CAPACITY, tail
                self.put(self.head_cache, head)
            padding = to_end
            next_tail += padding
        self.put(self.tail, next_tail)
        if padding:
            self.put(self.base, 0)
            self.put_int(record_index, -padding)
            self.put_int(record_index + 4, PADDING_MSG_TYPE_ID)
            self.put_int(record_index, padding)
        if write_index != INSUFFICIENT_CAPACITY:
            self.put(self.base + write_index + aligned, 0)
        return write_index

    def controlled_read(self, handler: Callable[[int, bytes], object], limit: int = 2**31 - 1) -> int:
        """controlledRead, with a handler that commits each message. Computes the contiguous length only once, so it may
        read on behind the ring's end, in the trailer."""
        messages = 0
        head = self.get(self.head)
        head_index = head & (self.capacity - 1)
        contiguous, read = self.capacity - head_index, 0
        while read < contiguous and messages < limit:
            index = head_index + read
            length = self.memory.load32(self.base + index)
            if length <= 0:
                break
            read += align(length)
            kind = self.memory.load32(self.base + index + 4)
            if kind == PADDING_MSG_TYPE_ID:
                continue
            messages += 1
            handler(kind, self.memory.read(self.base + index + HEADER_LENGTH, length - HEADER_LENGTH))
            self.put(self.head, head + read)
            head_index, head, read = head_index + read, head + read, 0
        if read > 0:
            self.put(self.head, head + read)
        return messages

    def read(self, handler: Callable[[int, bytes], object], limit: int = 2**31 - 1) -> int:
        """read: up to the ring's end at most, like Agrona."""
        messages = read = 0
        head = self.get(self.head)
        head_index = head & (self.capacity - 1)
        try:
            while read < self.capacity - head_index and messages < limit:
                index = head_index + read
                length = self.memory.load32(self.base + index)
                if length <= 0:
                    break
                read += align(length)
                kind = self.memory.load32(self.base + index + 4)
                if kind == PADDING_MSG_TYPE_ID:
                    continue
                handler(kind, self.memory.read(self.base + index + HEADER_LENGTH, length - HEADER_LENGTH))
                messages += 1
        finally:
            if read > 0:
                self.put(self.head, head + read)
        return messages
