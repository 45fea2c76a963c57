# SPDX-License-Identifier: Apache-2.0
"""The sender of a message, and the end of a ring (spec/channel.md 6.14)."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any

import pytest

from flyring import Channel, ClosedError, InvalidArgumentError, LossySubscriber, Message, Sender, Subscriber, layout

Reader = Subscriber | LossySubscriber
MAKERS: list[Callable[[Channel], Reader]] = [Channel.subscriber, Channel.lossy_subscriber]
UNKNOWN = Sender(0, "", 0)


def senders(reader: Reader) -> list[tuple[bytes, Sender]]:
    got: list[tuple[bytes, Sender]] = []
    reader.poll(lambda message: got.append((bytes(message), message.sender)))
    return got


@pytest.mark.parametrize("make", MAKERS)
def test_each_message_names_its_sender_across_owners(make: Callable[[Channel], Reader]) -> None:
    with Channel.create("who", "broadcast", publishers=2) as channel:
        reader = make(channel)
        with channel.publisher("feed") as feed, channel.publisher() as unnamed:
            feed.offer(b"1")
            unnamed.offer(b"2")
            assert dict(senders(reader)) == {b"1": Sender(0, "feed", 1), b"2": Sender(1, "", 1)}
            feed.offer(b"3")
        with channel.publisher("feed") as feed:
            feed.offer(b"4")
            message = reader.take()
            assert message is not None
            assert message.sender == Sender(0, "feed", 1)
            second = reader.take()
            assert second is not None
            assert (bytes(second), second.sender) == (b"4", Sender(0, "feed", 2))
            assert message.sender == Sender(0, "feed", 1)  # a message keeps its sender


@pytest.mark.parametrize("make", MAKERS)
def test_one_poll_over_several_owners(make: Callable[[Channel], Reader]) -> None:
    with Channel.create("owners", "broadcast", publishers=1) as channel:
        reader = make(channel)
        expected = []
        for epoch, name in enumerate(("a", "", "b" * 64, "b" * 64), 1):
            with channel.publisher(name) as publisher:
                for i in range(2):
                    publisher.offer(b"%d" % i)
                    expected.append((b"%d" % i, Sender(0, name, epoch)))
        kept: list[Message] = []
        assert reader.poll(kept.append) == len(expected)
        assert [message.sender for message in kept] == [sender for _, sender in expected]
        reader.close()
        assert [message.sender for message in kept] == [sender for _, sender in expected]


@pytest.mark.parametrize("make", MAKERS)
def test_a_subscriber_that_joins_in_mid_stream_knows_the_sender(make: Callable[[Channel], Reader]) -> None:
    with Channel.create("middle", "broadcast", publishers=1) as channel, channel.publisher("feed") as publisher:
        publisher.offer(b"the owner record comes before this one")
        reader = make(channel)
        publisher.offer(b"x")
        assert senders(reader) == [(b"x", Sender(0, "feed", 1))]


@pytest.mark.parametrize("make", MAKERS)
def test_a_subscriber_that_joins_between_two_owners_knows_the_second(make: Callable[[Channel], Reader]) -> None:
    with Channel.create("between", "broadcast", publishers=1) as channel:
        with channel.publisher("old") as publisher:
            publisher.offer(b"x")
        reader = make(channel)
        with channel.publisher("new") as publisher:
            publisher.offer(b"y")
            assert senders(reader) == [(b"y", Sender(0, "new", 2))]


def test_a_resumed_subscriber_does_not_take_a_new_owner_for_the_old_one() -> None:
    with Channel.create("resume", "broadcast", publishers=1) as channel:
        channel.subscriber("log", kept=True).close()
        with channel.publisher("old") as publisher:
            publisher.offer(b"1")
            with channel.subscriber("log") as log:
                assert log.take() == b"1"
            publisher.offer(b"2")
        with channel.publisher("new") as publisher, channel.subscriber("log") as log:
            publisher.offer(b"3")
            # The slot names the new owner, which started behind the cursor: the sender is unknown until its owner
            # record.
            assert senders(log) == [(b"2", UNKNOWN), (b"3", Sender(0, "new", 2))]


def test_a_lossy_reader_that_starts_at_the_oldest_and_one_that_was_lapped() -> None:
    with Channel.create("lapped", "broadcast", capacity=4096, publishers=1) as channel:
        with channel.publisher("old") as publisher:
            for _ in range(90):
                publisher.offer(b"1")
        lapped = channel.lossy_subscriber(when_lapped="newest")
        with channel.publisher("new") as publisher:
            publisher.offer(b"2")
            reader = channel.lossy_subscriber(start="oldest", when_lapped="newest")
            found = senders(reader)
            assert found[0] == (b"1", UNKNOWN)
            assert found[-1] == (b"2", Sender(0, "new", 2))
            for _ in range(100):
                publisher.offer(b"3")
            assert (senders(lapped), lapped.lost_messages(0)) == ([], 101)
            publisher.offer(b"4")
            assert senders(lapped) == [(b"4", Sender(0, "new", 2))]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("payload", "sender"),
    [
        (struct.pack("<qi", 7, 3) + b"abc", Sender(0, "abc", 7)),
        (struct.pack("<qi", 7, 0), Sender(0, "", 7)),
        (struct.pack("<qi", 7, 2) + b"\xffb", Sender(0, "\ufffdb", 7)),
        (struct.pack("<qi", 7, 65) + bytes(65), UNKNOWN),
        (struct.pack("<qi", 7, 4) + b"abc", UNKNOWN),
        (struct.pack("<qi", 7, -1), UNKNOWN),
        (struct.pack("<qi", 7, 2**31 - 1), UNKNOWN),
        (struct.pack("<qi", 0, 1) + b"a", UNKNOWN),
        (struct.pack("<qi", -1, 1) + b"a", UNKNOWN),
        (struct.pack("<qi", 7, 0)[:11], UNKNOWN),
        (b"", UNKNOWN),
    ],
)
def test_owner_records_are_checked(make: Callable[[Channel], Reader], payload: bytes, sender: Sender) -> None:
    with Channel.create("forged", "broadcast", capacity=4096, publishers=1, alignment=8) as channel:
        publisher = channel.publisher("real")
        publisher.offer(b"x")
        reader = make(channel)
        claim = publisher.claim(len(payload))
        assert claim is not None
        claim[:] = payload
        at = publisher.position % 4096
        claim.commit()
        channel._attached.memory.store32(channel.header.ring(0) + at + layout.RECORD_TYPE, layout.TYPE_OWNER)
        publisher.offer(b"y")
        assert senders(reader) == [(b"y", sender)]


@pytest.mark.parametrize("make", MAKERS)
def test_a_slot_whose_owner_died_while_changing_it_gives_no_sender(make: Callable[[Channel], Reader]) -> None:
    with Channel.create("changing", "broadcast", publishers=1) as channel, channel.publisher("feed") as publisher:
        publisher.offer(b"x")
        channel._attached.memory.store32(channel.header.publisher_slot(0) + layout.PUBLISHER_SLOT_NAME_LENGTH, -1)
        reader = make(channel)
        publisher.offer(b"y")
        assert senders(reader) == [(b"y", UNKNOWN)]


def test_a_sender_is_a_value() -> None:
    sender = Sender(1, "a", 2)
    assert pickle.loads(pickle.dumps(sender)) == sender
    assert len({sender, Sender(1, "a", 2), Sender(1, "a", 3)}) == 2
    with pytest.raises(AttributeError):
        sender.epoch = 3  # type: ignore[misc]


@pytest.mark.parametrize("make", MAKERS)
def test_a_ring_has_ended_when_its_publisher_closed_and_all_is_consumed(make: Callable[[Channel], Reader]) -> None:
    with Channel.create("ended", "broadcast", publishers=2) as channel:
        reader = make(channel)
        assert not reader.ended(0)  # the ring never had a publisher
        publisher = channel.publisher("feed")
        publisher.offer(b"x")
        assert senders(reader)
        assert not reader.ended(0)
        publisher.offer(b"y")
        publisher.close()
        assert not reader.ended(0)
        assert reader.take() == b"y"
        assert reader.ended(0)
        assert not reader.ended(1)
        with channel.publisher("feed"):
            reader.take()  # moves over the padding of the recovery
            assert not reader.ended(0)
        assert reader.ended(0)
        with pytest.raises(InvalidArgumentError):
            reader.ended(2)
        reader.close()
        with pytest.raises(ClosedError):
            reader.ended(0)


def test_a_publisher_that_was_killed_has_not_ended(child: Any) -> None:
    code = """
        import os, signal, sys, flyring
        publisher = flyring.Channel.open(sys.argv[1]).publisher()
        publisher.offer(b"last words")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with Channel.create("killed", "broadcast", publishers=1) as channel, channel.subscriber() as reader:
        child(code, channel.path).process.wait()
        assert reader.take() == b"last words"
        assert not reader.ended(0)
