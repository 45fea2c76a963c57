# SPDX-License-Identifier: Apache-2.0
"""Publishers and subscribers notice that another channel has the name now (spec/channel.md 6.13)."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import drain, fill, pair
from flyring import (
    Channel,
    ChannelReplacedError,
    LossySubscriber,
    Publisher,
    Subscriber,
    channel_path,
    layout,
    unlink,
)
from waits import Waits, room_asleep, until

Reader = Subscriber | LossySubscriber
MAKERS: list[Callable[[Channel], Reader]] = [Channel.subscriber, Channel.lossy_subscriber]
EVERY = layout.POLLS_TO_LOOK


@contextmanager
def replaced() -> Iterator[tuple[Channel, Channel]]:
    """A channel, and the channel that has its name now."""
    with Channel.create("name", "broadcast", capacity=4096) as old:
        old.publisher("p").close()
        with Channel.create("other", "broadcast", capacity=8192) as new:
            os.rename(new.path, old.path)  # other programs do this without a hint
            yield old, new


def test_replace_and_unlink_tell_the_publishers() -> None:
    with Channel.create("orphan", "broadcast", capacity=4096) as old:
        publisher = old.publisher()
        assert publisher.offer(b"before")
        with Channel.replace("orphan", "broadcast", capacity=4096) as new:
            assert successor(old) == layout.SUCCESSOR_REPLACED
            sent = 0
            with pytest.raises(ChannelReplacedError) as caught:  # not held back: it looks once a lap
                while sent < 100:
                    sent += publisher.offer(b"x" * 40) is not None
            assert caught.value.channel_id == new.id
            assert sent <= 4096 / 64
            assert publisher.offer(b"not sticky")
            unlink("orphan")
            assert successor(new) == layout.SUCCESSOR_UNLINKED
            with new.publisher() as other:  # no channel has the name, so it goes on
                assert all(other.offer(b"x" * 40) for _ in range(200))
    Path(channel_path("broken")).write_bytes(b"FLYRING\0" + bytes(4088))
    unlink("broken")  # only a valid channel gets the hint


def successor(channel: Channel) -> int:
    return channel._attached.memory.load32(channel.header.control_offset + layout.CONTROL_SUCCESSOR)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("call", ["take", "poll"])
def test_each_4096th_idle_poll_looks(make: Any, call: str) -> None:
    with replaced() as (old, new):
        reader: Reader = make(old)
        calls: dict[str, Callable[[], Any]] = {"take": reader.take, "poll": lambda: reader.poll(print)}
        poll = calls[call]
        with old.publisher() as publisher:
            for _ in range(2):  # it is raised again after the next look
                for _ in range(EVERY - 1):
                    assert not poll()
                with pytest.raises(ChannelReplacedError) as caught:
                    poll()
                assert (caught.value.code, caught.value.path, caught.value.channel_id) == ("replaced", old.path, new.id)
            publisher.offer(b"still works")
            assert poll()
            for i in range(EVERY - 1):  # in a row, because the message reset the count
                assert not poll(), i
            publisher.offer(b"x")
            assert poll()
            assert not poll()
        assert pickle.loads(pickle.dumps(caught.value)).channel_id == new.id


def test_a_peek_that_finds_nothing_is_an_idle_poll() -> None:
    with replaced() as (old, _):
        reader = old.lossy_subscriber()
        with pytest.raises(ChannelReplacedError):
            for _ in range(EVERY):
                reader.peek()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("call", "wait"),
    [
        *(("take", wait) for wait in ("block", "spin", "yield", "backoff")),
        *(("poll", wait) for wait in ("spin", "yield")),
        pytest.param("poll", "backoff", marks=pytest.mark.long),  # the same loop as take
    ],
)
def test_a_wait_notices_the_replacement(make: Any, wait: Any, call: str) -> None:
    with replaced() as (old, _):
        reader: Reader = make(old, wait=wait)
        start = time.monotonic()
        with pytest.raises(ChannelReplacedError):
            reader.take(timeout=30) if call == "take" else reader.poll(print, timeout=30)
        assert time.monotonic() - start < 20
        assert reader.take() is None  # raised once, and then it works


def test_a_publisher_that_is_held_back_notices_the_replacement() -> None:
    with replaced() as (old, new):
        publisher, subscriber = old.publisher(), old.subscriber()
        sent = fill_up(publisher)
        time.sleep(0.002)
        with pytest.raises(ChannelReplacedError) as caught:
            publisher.offer(bytes(100))
        assert caught.value.channel_id == new.id
        assert publisher.offer(bytes(100)) is None  # raised once, and then it works
        for attempt in (
            lambda: publisher.send(bytes(100), timeout=10),
            lambda: publisher.claim(100, timeout=10),
        ):
            with pytest.raises(ChannelReplacedError):
                attempt()
        assert subscriber.poll(lambda message: None) == sent
        assert publisher.offer(b"works")
        assert subscriber.take() == b"works"


WAITS: dict[str, Callable[[Publisher], Any]] = {
    "send": lambda publisher: publisher.send(b"x", timeout=10),
    "claim": lambda publisher: publisher.claim(1, timeout=10).commit(),
    "send_batch": lambda publisher: publisher.send_batch([b"x"], timeout=10),
    "flush": lambda publisher: publisher.flush(10),
}


@pytest.mark.parametrize("verb", WAITS)
def test_a_publisher_that_waits_is_told_each_time_and_works_on(verb: str) -> None:
    with pair() as (channel, publisher, subscriber):
        sent = fill(publisher)
        waits = Waits(lambda: WAITS[verb](publisher))
        until(lambda: room_asleep(channel))
        with Channel.replace("life", "broadcast", capacity=4096):
            with pytest.raises(ChannelReplacedError):
                waits.end()
            for _ in range(3):
                start = time.monotonic()
                with pytest.raises(ChannelReplacedError):
                    WAITS[verb](publisher)
                assert time.monotonic() - start < 1
            assert len(drain(subscriber)) == sent  # no other messages
            done = False
            while not done:
                with contextlib.suppress(ChannelReplacedError):  # raised at most once per millisecond
                    WAITS[verb](publisher)
                    done = True
            assert len(drain(subscriber)) == (verb != "flush")


def fill_up(publisher: Publisher) -> int:
    sent = 0
    while publisher.offer(bytes(100)):
        sent += 1
    return sent


def test_a_batch_says_how_many_it_took_before_it_looks() -> None:
    with replaced() as (old, _):
        publisher, subscriber = old.publisher(), old.subscriber()
        sent = fill_up(publisher)
        time.sleep(0.002)
        subscriber.poll(lambda message: None, 5)
        taken = publisher.offer_batch([bytes(100)] * 50)
        assert 0 < taken < 50
        assert subscriber.poll(lambda message: None) == sent - 5 + taken


def remove(path: str) -> None:
    os.unlink(path)


def garbage(path: str) -> None:
    os.unlink(path)
    Path(path).write_bytes(b"FLYRING\0" + bytes(10000))


def cut(path: str) -> None:
    os.unlink(path)
    Channel.create(path, "broadcast").close()
    os.truncate(path, 5000)


def folder_there(path: str) -> None:
    os.unlink(path)
    os.mkdir(path)


def dangling(path: str) -> None:
    os.unlink(path)
    os.symlink("/nowhere", path)


def moved_and_another_link(path: str) -> None:
    os.link(path, path + ".link")
    Channel.replace(path, "broadcast").close()


def nothing(path: str) -> None:
    pass


@pytest.mark.parametrize("change", [remove, garbage, cut, folder_there, dangling, moved_and_another_link, nothing])
def test_other_changes_of_the_file_raise_nothing(change: Callable[[str], None]) -> None:
    with Channel.create("other", "broadcast", capacity=4096) as channel:
        publisher, readers = channel.publisher(), [make(channel) for make in MAKERS]
        change(channel.path)
        for reader in readers:
            for _ in range(2 * EVERY + 1):
                assert reader.take() is None
        fill_up(publisher)
        time.sleep(0.002)
        assert publisher.offer(bytes(100)) is None
