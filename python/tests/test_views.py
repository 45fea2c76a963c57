# SPDX-License-Identifier: Apache-2.0
"""Views of messages and claims never outlive their memory, and nothing leaks."""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from conftest import fill, pair
from flyring import Channel, ClosedError, FlyringError, Message, ViewAliveError


def as_array(buffer: Any, dtype: Any = numpy.uint8) -> Any:
    """numpy's stubs for Python 3.11 know only the buffers of the standard library."""
    return numpy.frombuffer(buffer, dtype=dtype)


def in_a_cycle(view: memoryview) -> list[Any]:
    box: list[Any] = [view]
    box.append(box)
    return box


# Views of messages

KEEPERS: dict[str, Callable[[Message], Any]] = {
    "memoryview": memoryview,
    "data": lambda message: message.data,
    "derived": lambda message: memoryview(message)[2:5],
    "cast": lambda message: memoryview(message).cast("q"),
    "numpy": lambda message: as_array(message, dtype=numpy.uint8),
    "numpy slice": lambda message: as_array(message, dtype=numpy.int64)[:1],
    "iterator": lambda message: iter(memoryview(message)),
    "cycle": lambda message: in_a_cycle(memoryview(message)),
}


KEEPERS_AND_COPIERS: list[Callable[[Message], Any]] = [*KEEPERS.values(), bytes]


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS.keys())
def test_a_view_that_outlives_its_handler_is_reported_and_stays_what_it_was(keep: Callable[[Message], Any]) -> None:
    with pair() as (_, publisher, subscriber):
        kept: list[Any] = []
        publisher.offer(b"precious")
        fill(publisher)
        with pytest.raises(ViewAliveError) as caught:
            subscriber.poll(lambda message: kept.append(keep(message)))
        assert isinstance(caught.value, BufferError)
        for _ in range(3):
            for attempt in (subscriber.take, lambda: subscriber.poll(lambda message: None), subscriber.close):
                with pytest.raises(ViewAliveError):
                    attempt()
            fill(publisher)  # what room there is; never over the view
        kept.clear()
        gc.collect()
        first = subscriber.take()
        assert first is not None
        assert bytes(first) == b"00000000"
        assert subscriber.poll(lambda message: None) > 0
        assert fill(publisher) > 0


def test_the_content_of_a_pinned_view_does_not_change() -> None:
    with pair() as (channel, publisher, subscriber):
        views: list[memoryview] = []
        publisher.offer(b"precious")
        with pytest.raises(ViewAliveError):
            subscriber.poll(lambda message: views.append(message.data))
        for _ in range(5):
            fill(publisher)
        assert bytes(views[0]) == b"precious"
        with pytest.raises(TypeError):
            views[0][0] = 1
        with pytest.raises(ViewAliveError):
            channel.close()
        assert bytes(views[0]) == b"precious"
        views.clear()


def test_views_keep_their_subscriber_and_its_memory_even_if_all_else_is_dropped() -> None:
    views: list[memoryview] = []
    channel = Channel.create("dropped", "broadcast", capacity=4096)
    publisher, subscriber = channel.publisher(), channel.subscriber()
    publisher.offer(b"precious")
    with pytest.raises(ViewAliveError) as caught:
        subscriber.poll(lambda message: views.append(memoryview(message)))
    del caught
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del subscriber
        gc.collect()
        fill(publisher)
        del channel, publisher
        gc.collect()
        assert bytes(views[0]) == b"precious"
        views.clear()
        gc.collect()


def test_a_message_kept_without_a_view_expires() -> None:
    with pair() as (_, publisher, subscriber):
        for i in range(3):
            publisher.offer(b"m%d" % i)
        kept: list[Message] = []
        assert subscriber.poll(kept.append) == 3
        assert len({id(message) for message in kept}) == 3
        assert [message.position for message in kept] == sorted(message.position for message in kept)
        for message in kept:
            for use in KEEPERS_AND_COPIERS:
                with pytest.raises(ClosedError, match="until its handler returned"):
                    use(message)
            assert "expired" in repr(message)


def test_a_message_from_take_owns_its_bytes() -> None:
    with pair() as (_, publisher, subscriber):
        publisher.offer(b"first", type=5)
        message = subscriber.take()
        fill(publisher)
    assert message is not None
    view = memoryview(message)
    array = as_array(message, dtype=numpy.uint8)
    del message
    gc.collect()
    assert bytes(view) == b"first"
    assert array.tobytes() == b"first"
    assert view.readonly
    assert not array.flags.writeable


def test_a_message_whose_handler_raised_is_consumed_and_the_error_gets_out() -> None:
    with pair() as (_, publisher, subscriber):
        for i in range(3):
            publisher.offer(b"%d" % i)

        def handler(message: Message) -> None:
            view = message.data  # alive in the traceback's frame
            raise LookupError(bytes(view).decode())

        with pytest.raises(LookupError, match=r"^0$") as caught:
            subscriber.poll(handler)
        with pytest.raises(ViewAliveError):
            subscriber.take()
        traceback.clear_frames(caught.value.__traceback__)
        del caught
        gc.collect()
        assert [bytes(subscriber.take() or b"") for _ in range(2)] == [b"1", b"2"]


# Claims


def test_a_view_of_a_claim_keeps_it_open() -> None:
    with pair() as (_, publisher, subscriber):
        claim = publisher.claim(8)
        assert claim is not None
        view = claim.data
        part = view[4:]
        view[:] = b"abcdefgh"
        view.release()
        for attempt in (claim.commit, claim.abort, publisher.close):
            with pytest.raises(ViewAliveError):
                attempt()
        with pytest.raises(ViewAliveError), claim:
            pass
        part[:] = b"EFGH"
        part.release()
        array = as_array(claim, dtype=numpy.int8)
        array[0] = 0x5A
        with pytest.raises(ViewAliveError):
            claim.commit()
        del array
        claim.commit()
        assert bytes(subscriber.take() or b"") == b"ZbcdEFGH"
        for use in (claim.commit, claim.abort, lambda: claim.data, lambda: memoryview(claim)):
            with pytest.raises(ClosedError):
                use()


def test_only_one_claim_is_open_at_a_time() -> None:
    with pair() as (_, publisher, _subscriber):
        claim = publisher.claim(8)
        assert claim is not None
        calls: list[Callable[[], Any]] = [
            lambda: publisher.claim(8),
            lambda: publisher.offer(b""),
            lambda: publisher.offer_batch([b""]),
        ]
        for attempt in calls:
            with pytest.raises(ViewAliveError, match="claim"):
                attempt()
        claim.abort()
        assert publisher.offer(b"") > 0


def test_close_aborts_an_open_claim() -> None:
    with pair() as (channel, publisher, subscriber):
        claim = publisher.claim(8)
        assert claim is not None
        claim[:] = b"nonsense"
        publisher.close()
        with pytest.raises(ClosedError):
            claim.commit()
        with channel.publisher() as heir:
            heir.offer(b"next")
        assert bytes(subscriber.take() or b"") == b"next"


def test_no_operation_leaks_or_steals_references() -> None:
    with pair(capacity=65536) as (channel, publisher, subscriber):
        counter = channel.counters().allocate("n")

        def everything() -> None:
            assert subscriber.take() is None
            assert subscriber.take(timeout=1e-9) is None
            assert subscriber.poll(print) == 0
            publisher.offer(b"12345678", 3, 0)
            publisher.offer(bytearray(8), timeout=None)
            publisher.offer_batch([b"a", bytearray(b"b"), memoryview(b"c")])
            with publisher.claim(8) as claim:  # type: ignore[union-attr]
                claim[0:4] = b"abcd"
            second = publisher.claim(8)
            assert second is not None
            as_array(second)[:] = 7
            second.commit()
            message = subscriber.take()
            assert message is not None
            memoryview(message)[1:3].tobytes()
            subscriber.poll(lambda message: (bytes(message), message.type, message.data[:1]))
            wrong: list[Callable[[], Any]] = [
                lambda: publisher.offer(b"", 0),
                lambda: publisher.claim(99999),
                lambda: subscriber.take(bad=1),  # type: ignore[call-arg]
            ]
            for bad in wrong:
                with pytest.raises((FlyringError, TypeError)):
                    bad()
            counter.get_and_add(1)
            counter.compare_and_set(5, 6)

        def counted(rounds: int) -> tuple[int, int, int]:
            for _ in range(rounds):
                everything()
            gc.collect()
            return sys.getrefcount(None), sys.getrefcount(True), sys.getallocatedblocks()

        counted(200)
        before, after = counted(200), counted(1000)
        assert all(abs(a - b) < 200 for a, b in zip(before, after, strict=True)), (before, after)
