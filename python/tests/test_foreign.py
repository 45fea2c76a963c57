# SPDX-License-Identifier: Apache-2.0
"""Stock Agrona at one end of a channel (spec 6.15): what it reads and writes, and what is not possible with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agrona import INSUFFICIENT_CAPACITY, OneToOneRingBuffer
from conftest import Child
from flyring import (
    BACK_PRESSURED,
    Channel,
    ChannelDiffersError,
    ClosedError,
    CorruptHeaderError,
    CorruptRingError,
    FlyringError,
    Holder,
    InvalidArgumentError,
    Sender,
    SlotLostError,
    Subscriber,
    VersionTooNewError,
    layout,
)
from flyring._core import crc32c

Got = list[tuple[int, bytes]]
SHAPE: dict[str, Any] = {"kind": "inbox", "publishers": 1, "subscribers": 1, "alignment": 8}


def make(end: Any, **options: Any) -> Channel:
    return Channel.create("agrona", **({"capacity": 4096, "foreign": end} | SHAPE | options))


def word(channel: Channel, name: str) -> int:
    at = channel.header.trailer(0) + getattr(layout, f"TRAILER_{name.upper()}")
    return channel._attached.memory.load64(at)


def types(channel: Channel) -> set[int]:
    """Of all records from the start of the ring's lap on that are still there."""
    memory, base, at, found = channel._attached.memory, channel.header.ring(0), 0, set()
    while at < channel.capacity and (length := memory.load32(base + at)) > 0:
        found.add(memory.load32(base + at + 4))
        at += -(-length // 8) * 8
    return found


def polled(subscriber: Subscriber, got: Got, limit: int = 256) -> int:
    return subscriber.poll(lambda message: got.append((message.type, bytes(message))), limit)


# The header and the option


@pytest.mark.parametrize(("end", "feature"), [("publisher", 2), ("subscriber", 4), (None, 0)])
def test_the_option_becomes_a_feature_bit_that_who_attaches_sees(end: Any, feature: int, folder: Path) -> None:
    with make(end) as channel, Channel.open("agrona") as other:
        assert (channel.foreign, other.foreign) == (end, end)
        assert (folder / "agrona.ring").read_bytes()[16:24] == feature.to_bytes(8, "little")


@pytest.mark.parametrize(
    "wrong",
    [
        {"foreign": "both"},
        {"foreign": ""},
        {"foreign": 2},
        {"kind": "broadcast"},
        {"publishers": 2},
        {"subscribers": 2},
        {"alignment": 64},
    ],
)
def test_a_foreign_end_needs_agronas_shape(wrong: dict[str, Any], folder: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(**({"end": "publisher"} | wrong))
    assert caught.value.argument == "foreign"
    with pytest.raises(InvalidArgumentError) as caught:  # the defaults are another shape
        Channel.create("agrona", "inbox", foreign="subscriber")
    assert caught.value.argument == "foreign"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("alignment", {"alignment": 64, "foreign": None}),
        ("foreign", {"foreign": None, "counters": 3}),
        ("foreign", {"foreign": "publisher"}),
        ("counters", {"counters": 3}),
    ],
)
def test_open_or_create_compares_it_between_alignment_and_counters(field: str, options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"capacity": 4096, "foreign": "subscriber"} | SHAPE
    with Channel.open_or_create("agrona", **asked), Channel.open_or_create("agrona", **asked) as found:
        assert found.foreign == "subscriber"
        with pytest.raises(ChannelDiffersError) as caught:
            Channel.open_or_create("agrona", **(asked | options))
    assert caught.value.field == field


FIELDS = {"kind": (layout.HEADER_KIND, 2), "alignment": (layout.HEADER_ALIGNMENT, 64)}


def changed(folder: Path, features: int, field: str | None = None) -> None:
    """The header of a file, with its checksum made right again."""
    path = folder / "agrona.ring"
    content = bytearray(path.read_bytes())
    content[16:24] = features.to_bytes(8, "little")
    if field is not None:
        at, value = FIELDS[field]
        content[at : at + 4] = value.to_bytes(4, "little")
    content[layout.HEADER_CRC : 4096] = crc32c(content[: layout.HEADER_CRC]).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("features", "field"),
    [(6, None), (2, "kind"), (4, "alignment"), (6, "kind"), (2, "publishers"), (4, "subscribers")],
)
def test_a_combination_that_cannot_be_is_a_corrupt_header(features: int, field: str | None, folder: Path) -> None:
    options = {field: 2} if field in ("publishers", "subscribers") else {}
    make(None, **options).close()
    changed(folder, features, None if options else field)
    with pytest.raises(CorruptHeaderError) as caught:
        Channel.open("agrona")
    assert caught.value.field == "required_features"


@pytest.mark.parametrize("features", [1, 3, 8, 1 << 63])
def test_an_unknown_feature_is_too_new(features: int, folder: Path) -> None:
    make(None).close()
    changed(folder, features)
    with pytest.raises(VersionTooNewError) as caught:
        Channel.open("agrona")
    assert (caught.value.field, caught.value.found) == ("required_features", features)


def test_another_bad_field_is_named_before_the_combination(folder: Path) -> None:
    make(None).close()
    path = folder / "agrona.ring"
    content = bytearray(path.read_bytes())
    content[layout.HEADER_SCHEMA_VERSION] = 255
    content[layout.HEADER_SCHEMA_VERSION + 3] = 255
    path.write_bytes(content)
    changed(folder, 6)
    with pytest.raises(CorruptHeaderError) as caught:
        Channel.open("agrona")
    assert caught.value.field == "schema_version"


# What is not possible

REFUSED: dict[str, list[tuple[str, Callable[[Channel], object]]]] = {
    "publisher": [
        ("publisher", lambda channel: channel.publisher("p")),
        ("lossy", lambda channel: channel.lossy_subscriber()),
        ("oldest", lambda channel: channel.lossy_subscriber([0], "oldest")),
        ("evict", lambda channel: channel.evict(0)),
        ("forget", lambda channel: channel.subscriber("s").forget()),
    ],
    "subscriber": [
        ("subscriber", lambda channel: channel.subscriber()),
        ("kept", lambda channel: channel.subscriber("s", kept=True)),
        ("max_lag", lambda channel: channel.publisher(max_lag=4096)),
        ("evict", lambda channel: channel.evict(0)),
    ],
}


@pytest.mark.parametrize(
    ("end", "call"), [pytest.param(end, call, id=f"{end}-{name}") for end in REFUSED for name, call in REFUSED[end]]
)
def test_what_agrona_does_not_know_is_an_invalid_argument(end: str, call: Callable[[Channel], object]) -> None:
    with make(end) as channel:
        with pytest.raises(InvalidArgumentError) as caught:
            call(channel)
        assert caught.value.argument == "foreign"
        assert word(channel, "gate") == 0


def test_a_refused_forget_changes_nothing() -> None:
    with make("publisher") as channel:
        writer, subscriber = OneToOneRingBuffer(channel), channel.subscriber("s")
        with pytest.raises(InvalidArgumentError):
            subscriber.forget()
        assert writer.write(3, b"still")
        assert subscriber.take() == b"still"
        subscriber.close()
        with pytest.raises(ClosedError):
            subscriber.forget()


# A foreign subscriber


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
                    if way == 0 and publisher.offer(data, kind) != BACK_PRESSURED:
                        sent.append((kind, data))
                    elif way == 1 and (claim := publisher.claim(len(data), kind)) is not None:
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


def test_head_cache_is_the_gate_of_the_last_recompute() -> None:
    with make("subscriber") as channel, channel.publisher() as publisher:
        reader = OneToOneRingBuffer(channel)
        while publisher.offer(bytes(56)) != BACK_PRESSURED:
            assert word(channel, "head_cache") == 0
        held = publisher.held_by()
        assert held == Holder(slot=0, name="", pid=0, live=True, kept=True, position=0)
        reader.read(lambda kind, data: None, 10)
        assert (word(channel, "gate"), word(channel, "head_cache")) == (640, 0)
        assert publisher.offer(bytes(56)) > 0
        assert word(channel, "head_cache") == 640
        reader.read(lambda kind, data: None, 5)
        assert publisher.offer(bytes(56)) > 0  # there was room: nothing was recomputed
        assert word(channel, "head_cache") == 640
        assert publisher.offer_batch([bytes(56)] * 40) == 13
        assert word(channel, "head_cache") == 960
        held = publisher.held_by()
        assert held is not None and (held.position, held.live) == (960, True)


def test_a_publisher_without_a_foreign_reader_leaves_head_cache_alone() -> None:
    with make(None) as channel, channel.publisher() as publisher, channel.subscriber() as subscriber:
        for _ in range(500):
            publisher.offer(bytes(56))
            subscriber.poll(len)
        assert word(channel, "gate") > 4096
        assert word(channel, "head_cache") == 0
        assert word(channel, "claimed") > 0


def test_a_stock_writer_can_go_on_behind_our_publisher() -> None:
    """The reason of head_cache: after 2 GiB its difference to the tail would overflow in 32 bits."""
    with make("subscriber") as channel:
        memory = channel._attached.memory
        far = (1 << 33) + 4096
        for name in ("claimed", "published", "gate"):
            memory.store64(channel.header.trailer(0) + getattr(layout, f"TRAILER_{name.upper()}"), far)
        with channel.publisher() as publisher:
            assert publisher.offer(b"ours") > 0
        ring, got = OneToOneRingBuffer(channel), Got()
        assert word(channel, "head_cache") == far
        assert ring.write(2, b"theirs")
        assert ring.read(lambda kind, data: got.append((kind, data))) == 2
        assert got == [(1, b"ours"), (2, b"theirs")]


def test_a_held_back_publisher_never_tests_or_retires_the_foreign_slot() -> None:
    with make("subscriber") as channel, channel.publisher() as publisher:
        memory, slot = channel._attached.memory, channel.header.subscriber_slot(0)
        memory.store32(slot + layout.SUBSCRIBER_SLOT_KEPT, 0)  # even if somebody said that it may be
        while publisher.offer(bytes(56)) != BACK_PRESSURED:
            pass
        assert publisher.offer(bytes(56), timeout=0.05) == BACK_PRESSURED
        assert word(channel, "gate") == 0
        assert memory.load64(slot) == 0


def test_lossy_readers_read_along_with_a_foreign_subscriber() -> None:
    with make("subscriber") as channel, channel.publisher("feed") as publisher, channel.lossy_subscriber() as lossy:
        ring = OneToOneRingBuffer(channel)
        for i in range(200):
            assert publisher.offer(b"%03d" % i, 1 + i) > 0
            message = lossy.take()
            assert message is not None
            assert (bytes(message), message.type, message.sender) == (b"%03d" % i, 1 + i, Sender(0, "feed", 1))
            assert ring.read(lambda kind, data: None) <= 1
        assert lossy.lost_messages(0) == 0


# A foreign publisher


def test_we_read_what_agrona_writes_over_many_laps() -> None:
    rng = random.Random(7)
    with make("publisher") as channel:
        writer, sent, got = OneToOneRingBuffer(channel), Got(), Got()
        subscriber = channel.subscriber("reader")
        refused = aborted = resumed = 0
        for i in range(6000):
            data = rng.randbytes(rng.choice((0, 1, 7, 8, 9, 100, 300, writer.max_message_length)))
            kind = 1 + i % 1000
            if i % 4:
                if writer.write(kind, data):
                    sent.append((kind, data))
                else:
                    refused += 1
            elif (index := writer.try_claim(kind, len(data))) != INSUFFICIENT_CAPACITY:
                while i % 40 == 0 and polled(subscriber, got):
                    pass
                assert i % 40 or got == sent  # and not what is only claimed
                writer.memory.write(writer.base + index, data)
                if i % 3:
                    writer.commit(index)
                    sent.append((kind, data))
                else:
                    writer.abort(index)
                    aborted += 1
            if rng.random() < 0.15:
                polled(subscriber, got, rng.choice((1, 2, 10)))
            if rng.random() < 0.05:
                subscriber.close()
                position = word(channel, "gate")
                subscriber = channel.subscriber("reader")
                assert (subscriber.position(0), subscriber.kept) == (position, True)
                resumed += 1
            assert 0 <= word(channel, "claimed") - word(channel, "gate") <= channel.capacity
        while polled(subscriber, got):
            pass
        assert got == sent
        assert min(len(sent), refused, aborted, resumed) > 100
        assert word(channel, "claimed") > 50 * channel.capacity
        assert (word(channel, "published"), word(channel, "messages_done"), subscriber.ended(0)) == (0, 0, False)
        subscriber.close()


def test_claims_that_are_committed_in_another_order_come_in_the_order_of_the_ring() -> None:
    with make("publisher") as channel, channel.subscriber() as subscriber:
        writer, got = OneToOneRingBuffer(channel), Got()
        first, second = writer.try_claim(1, 5), writer.try_claim(2, 6)
        writer.commit(second)
        assert polled(subscriber, got) == 0
        assert word(channel, "gate") == 0
        writer.commit(first)
        assert polled(subscriber, got) == 2
        assert [kind for kind, _ in got] == [1, 2]


def test_padding_without_a_message_is_passed() -> None:
    """Agrona may leave padding at the ring's end although it refused the message: the ring's start is not free."""
    with make("publisher") as channel, channel.subscriber() as subscriber:
        writer, got = OneToOneRingBuffer(channel), Got()
        while writer.write(1, bytes(504)):
            pass
        polled(subscriber, got, 1)  # 512 bytes are free, all of them at the ring's start, and that is not enough
        claimed = word(channel, "claimed")
        assert not writer.write(2, bytes(508))
        assert word(channel, "claimed") == 4096 > claimed
        polled(subscriber, got)
        assert word(channel, "gate") == 4096
        assert writer.write(2, bytes(508))
        assert polled(subscriber, got) == 1


def test_the_subscriber_resumes_where_a_dead_one_stored_its_gate(child: Callable[..., Child]) -> None:
    with make("publisher") as channel:
        writer = OneToOneRingBuffer(channel)
        for i in range(20):
            assert writer.write(1 + i, b"%d" % i)
        reader = child(
            """
            from flyring import Channel
            channel = Channel.open("agrona")
            subscriber = channel.subscriber("reader")
            assert subscriber.take() == b"0"
            seen = []
            assert subscriber.poll(lambda message: seen.append(bytes(message)), 4) == 4
            print("read", flush=True)
            input()
            """
        )
        assert reader.line() == "read"
        with pytest.raises(FlyringError, match="owned by a live process"):
            channel.subscriber("reader")
        reader.kill()
        with channel.subscriber("reader") as subscriber:
            assert subscriber.epoch == 2
            assert subscriber.take() == b"5"


def test_the_sender_is_not_known_and_it_never_ends() -> None:
    with make("publisher") as channel:
        memory, slot = channel._attached.memory, channel.header.publisher_slot(0)
        memory.store64(slot, 9)  # whatever the slot says that nobody takes
        memory.store32(slot + layout.PUBLISHER_SLOT_CLOSED, 1)
        with channel.subscriber() as subscriber:
            assert not subscriber.ended(0)
            assert OneToOneRingBuffer(channel).write(1, b"x")
            message = subscriber.take()
            assert message is not None
            assert message.sender == Sender(0, "", 0)
            memory.store64(channel.header.trailer(0) + layout.TRAILER_PUBLISHED, subscriber.position(0))
            assert not subscriber.ended(0)


def test_it_resumes_even_if_somebody_said_that_the_slot_was_evicted() -> None:
    with make("publisher") as channel:
        memory, slot = channel._attached.memory, channel.header.subscriber_slot(0)
        assert OneToOneRingBuffer(channel).write(1, b"first")
        memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 1)
        memory.store32(slot + layout.SUBSCRIBER_SLOT_KEPT, 0)
        with channel.subscriber() as subscriber:
            assert subscriber.take() == b"first"
            assert word(channel, "gate") == 16
        assert word(channel, "gate") == 16  # closing did not give it up


@pytest.mark.parametrize("gate", [-1, -8, 4, 24, 4096, 2**62])
def test_a_gate_that_cannot_be_is_a_corrupt_ring(gate: int) -> None:
    with make("publisher") as channel:
        assert OneToOneRingBuffer(channel).write(1, b"first")
        channel._attached.memory.store64(channel.header.gate(0, 0), gate)
        with pytest.raises(CorruptRingError) as caught:
            channel.subscriber()
        assert caught.value.position == gate


@pytest.mark.parametrize("behind", [4096, 4104])
def test_a_gate_more_than_a_lap_below_the_tail_is_a_corrupt_ring(behind: int) -> None:
    with make("publisher") as channel:
        with channel.subscriber() as subscriber:
            writer = OneToOneRingBuffer(channel)
            while word(channel, "claimed") < 3 * 4096:
                assert writer.write(1, bytes(56)) and subscriber.take()
        channel._attached.memory.store64(channel.header.gate(0, 0), word(channel, "claimed") - behind)
        if behind <= channel.capacity:
            channel.subscriber().close()
        else:
            with pytest.raises(CorruptRingError):
                channel.subscriber()


@pytest.mark.parametrize("lost", [False, True])
def test_nothing_that_happens_to_our_subscriber_takes_the_gate_from_agrona(lost: bool) -> None:
    with make("publisher") as channel:
        memory = channel._attached.memory
        writer, subscriber = OneToOneRingBuffer(channel), channel.subscriber()
        assert writer.write(1, b"first") and writer.write(1, b"second")
        assert subscriber.take() == b"first"
        if lost:
            memory.add64(channel.header.subscriber_slot(0), 1)
        else:
            memory.store32(channel.header.ring(0) + 16, 7)
        with pytest.raises(SlotLostError if lost else CorruptRingError):
            subscriber.take()
        subscriber.close()
        assert word(channel, "gate") == 16
