# SPDX-License-Identifier: Apache-2.0
"""A foreign subscriber (spec/channel.md 6.15): stock Agrona reads Flyring's messages."""

from __future__ import annotations

import random

import pytest

from agrona import OneToOneRingBuffer
from flyring import (
    BackPressuredError,
    Holder,
    Sender,
    layout,
)
from test_foreign import Got, make, types, word


def test_agrona_reads_what_we_publish_over_many_laps() -> None:
    rng = random.Random(5)
    with make("subscriber") as channel:
        reader, sent, got = OneToOneRingBuffer(channel), Got(), Got()
        seen: set[int] = set()
        for epoch in range(1, 4):
            with channel.publisher("feed") as publisher:
                assert publisher.epoch == epoch
                for i in range(1500):
                    data = rng.randbytes(rng.choice((0, 1, 7, 8, 60, 300, publisher.max_message_length)))
                    kind = 1 + i % 50
                    way = i % 3
                    if way == 0 and publisher.offer(data, kind) is not None:
                        sent.append((kind, data))
                    elif way == 1 and (claim := publisher.try_claim(len(data), kind)) is not None:
                        claim[:] = data
                        if i % 5:
                            claim.commit()
                            sent.append((kind, data))
                        else:
                            claim.abort()
                    elif way == 2:
                        batch = [data[:100]] * 3
                        sent += [(kind, data[:100])] * publisher.offer_batch(batch, kind)
                    seen |= types(channel)
                    if rng.random() < 0.4:
                        reader.read(lambda kind, data: got.append((kind, data)), rng.choice((1, 3, 100)))
                        assert word(channel, "head_cache") <= word(channel, "gate") <= word(channel, "published")
        while reader.read(lambda kind, data: got.append((kind, data))):
            pass
        assert got == sent
        assert len(sent) > 1000 and word(channel, "published") > 20 * channel.capacity
        assert word(channel, "published") - word(channel, "head_cache") <= channel.capacity
        assert layout.TYPE_OWNER not in seen and layout.TYPE_PADDING in seen


def test_agrona_may_read_on_behind_the_end_of_the_ring() -> None:
    """Agrona's controlledRead reads on there after a commit, and takes the trailer's first word for a record's
    length."""
    with make("subscriber") as channel, channel.publisher() as publisher:
        reader, got = OneToOneRingBuffer(channel), Got()
        sent = [(1 + i, bytes([i]) * 504) for i in range(24)]  # 8 of them fill a lap exactly
        for i, (kind, data) in enumerate(sent):
            assert publisher.offer(data, kind)
            assert channel._attached.memory.load32(channel.header.trailer(0)) <= 0
            if i % 8 != 3:  # sometimes two at a time
                reader.controlled_read(lambda kind, data: got.append((kind, data)))
        assert got == sent
        assert word(channel, "gate") == word(channel, "published") == 3 * channel.capacity
        assert (word(channel, "boundary"), channel._attached.memory.load64(channel.header.trailer(0) + 16)) == (
            layout.NOT_GATING,
            2 * channel.capacity + 512,
        )


def test_head_cache_is_the_gate_of_the_last_recompute() -> None:
    with make("subscriber") as channel, channel.publisher() as publisher:
        reader = OneToOneRingBuffer(channel)
        while publisher.offer(bytes(56)) is not None:
            assert word(channel, "head_cache") == 0
        held = publisher.held_by()
        assert held == Holder(slot=0, name="", pid=0, live=True, kept=True, position=0)
        reader.read(lambda kind, data: None, 10)
        assert (word(channel, "gate"), word(channel, "head_cache")) == (640, 0)
        assert publisher.offer(bytes(56))
        assert word(channel, "head_cache") == 640
        reader.read(lambda kind, data: None, 5)
        assert publisher.offer(bytes(56))  # there was room, so nothing was recomputed
        assert word(channel, "head_cache") == 640
        assert publisher.offer_batch([bytes(56)] * 40) == 13
        assert word(channel, "head_cache") == 960
        held = publisher.held_by()
        assert held is not None and (held.position, held.live) == (960, True)


def test_a_publisher_without_a_foreign_reader_leaves_head_cache_alone() -> None:
    with make(None) as channel, channel.publisher() as publisher, channel.subscriber() as subscriber:
        for _ in range(500):
            publisher.offer(bytes(56))
            subscriber.poll(lambda message: None)
        assert word(channel, "gate") > 4096
        assert word(channel, "head_cache") == 0
        assert word(channel, "claimed") > 0


def test_a_stock_writer_can_go_on_behind_our_publisher() -> None:
    """The reason for head_cache: after 2 GiB, its difference to the tail would overflow 32 bits."""
    with make("subscriber") as channel:
        memory = channel._attached.memory
        far = (1 << 33) + 4096
        for name in ("claimed", "published", "gate"):
            memory.store64(channel.header.trailer(0) + getattr(layout, f"TRAILER_{name.upper()}"), far)
        with channel.publisher() as publisher:
            assert publisher.offer(b"ours")
        ring, got = OneToOneRingBuffer(channel), Got()
        assert word(channel, "head_cache") == far
        assert ring.write(2, b"theirs")
        assert ring.read(lambda kind, data: got.append((kind, data))) == 2
        assert got == [(1, b"ours"), (2, b"theirs")]


def test_a_held_back_publisher_never_tests_or_retires_the_foreign_slot() -> None:
    with make("subscriber") as channel, channel.publisher() as publisher:
        memory, slot = channel._attached.memory, channel.header.subscriber_slot(0)
        memory.store32(slot + layout.SUBSCRIBER_SLOT_KEPT, 0)  # even if the file says that it is not kept
        while publisher.offer(bytes(56)) is not None:
            pass
        with pytest.raises(BackPressuredError):
            publisher.send(bytes(56), timeout=0.05)
        assert word(channel, "gate") == 0
        assert memory.load64(slot) == 0


def test_lossy_readers_read_along_with_a_foreign_subscriber() -> None:
    with make("subscriber") as channel, channel.publisher("feed") as publisher, channel.lossy_subscriber() as lossy:
        ring = OneToOneRingBuffer(channel)
        for i in range(200):
            assert publisher.offer(b"%03d" % i, 1 + i)
            message = lossy.take()
            assert message is not None
            assert (bytes(message), message.type, message.sender) == (b"%03d" % i, 1 + i, Sender(0, "feed", 1))
            assert ring.read(lambda kind, data: None) <= 1
        assert lossy.lost_messages(0) == 0
