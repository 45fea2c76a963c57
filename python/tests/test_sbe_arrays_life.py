# SPDX-License-Identifier: Apache-2.0
"""Runs of typed messages as numpy arrays: lifetimes and exports (spec/messages.md 3)."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from conftest import SPEC, Child, in_child
from flyring import (
    BadMessageError,
    Channel,
    ClosedError,
    Message,
    Publisher,
    SlotLostError,
    Subscriber,
    TwoThreadsError,
    ViewAliveError,
    layout,
)
from sbe_arrays import (
    PRICE,
    TRADE,
    Array,
    Reader,
    prices,
    read,
    ring,
    sequences,
)

__all__ = ["ring"]

# Views

KEEPERS: dict[str, Callable[[Array], Any]] = {
    "array": lambda array: array,
    "slice": lambda array: array[1:2],
    "column": lambda array: array["bid"],
    "nested column": lambda array: array["instrument"]["symbol"],
    "row": lambda array: array[0],
    "nested row": lambda array: array[0]["instrument"],
    "reversed": lambda array: array[::-1]["ask"],
    "memoryview": lambda array: array["bid"].data,
    "view": lambda array: array.view(numpy.recarray),
    "base": lambda array: array.base,
}


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS.keys())
def test_a_view_that_outlives_its_handler_is_reported_and_stays_what_it_was(
    ring: tuple[Publisher, Reader], keep: Callable[[Array], Any]
) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))
    kept: list[Any] = []
    with pytest.raises(ViewAliveError):
        reader.poll_arrays(PRICE, lambda array: kept.append(keep(array)))
    before = numpy.asarray(kept[0]).tobytes()
    for _ in range(3):
        for attempt in (reader.take, lambda: reader.poll_arrays(PRICE, print), reader.close):
            with pytest.raises(ViewAliveError):
                attempt()
        while publisher.offer_array(PRICE, prices(100, 1000)) == 100 and publisher.position < 3 << 16:
            pass
    assert numpy.asarray(kept[0]).tobytes() == before
    if isinstance(reader, Subscriber):
        assert publisher.position <= 1 << 16  # only the free room
    kept.clear()
    gc.collect()
    read(reader)
    assert publisher.offer_array(PRICE, prices(2, 5)) == 2
    assert sequences(read(reader)) == [5, 6]


def test_a_copy_may_be_kept(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))
    kept: list[Any] = []

    def copy(array: Array) -> None:
        kept.extend((array.copy(), array["bid"].sum(), array["bid"].tolist(), array[0].item()))

    reader.poll_arrays(PRICE, copy)
    assert kept[0]["bid"].tolist() == kept[2] == [-1, 2, 5, 8]


def test_a_run_whose_handler_raised_is_consumed(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))
    publisher.offer(b"other", 77)
    publisher.offer_array(PRICE, prices(2, 4))
    raised: list[int] = []

    def fail(what: Any) -> None:
        raised.append(len(what))
        raise LookupError("the handler's own")

    for expected in ([4], [4, 5], [4, 5, 2]):
        with pytest.raises(LookupError, match="own"):
            reader.poll_arrays(PRICE, fail, otherwise=fail)
        assert raised == expected
    assert reader.position(0) == publisher.position
    assert reader.poll_arrays(PRICE, fail) == 0
    if isinstance(reader, Subscriber):
        assert publisher.offer_array(PRICE, prices(500)) > 450  # it does not hold the publisher back


def test_the_array_of_a_handler_that_raised_lives_as_long_as_its_traceback(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))

    def fail(array: Array) -> None:
        raise LookupError

    try:
        reader.poll_arrays(PRICE, fail)
    except LookupError as error:
        assert error.__traceback__ is not None
        with pytest.raises(ViewAliveError):
            reader.take()
    assert reader.take() is None


def test_a_handler_cannot_use_its_reader(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))
    calls: list[type[Exception]] = []

    def look(array: Array) -> None:
        for use in (lambda: reader.poll_arrays(PRICE, print), reader.take, reader.close):
            try:
                use()
            except (TwoThreadsError, ViewAliveError) as error:
                calls.append(type(error))

    assert reader.poll_arrays(PRICE, look) == 4
    assert calls == [TwoThreadsError, TwoThreadsError, ViewAliveError]
    reader.close()
    with pytest.raises(ClosedError):
        reader.poll_arrays(PRICE, print)


def test_another_thread_is_refused(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))
    found: list[Exception] = []

    def intrude() -> None:
        try:
            reader.poll_arrays(PRICE, print)
        except TwoThreadsError as error:
            found.append(error)

    def look(array: Array) -> None:
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()

    assert reader.poll_arrays(PRICE, look) == 4
    assert len(found) == 1


def test_a_fork_in_the_handler(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    publisher.offer_array(PRICE, prices(4))

    def use() -> None:
        with pytest.raises(ClosedError, match="fork"):
            reader.poll_arrays(PRICE, print)

    assert reader.poll_arrays(PRICE, lambda array: in_child(use)) == 4


# Slots


def test_a_kept_reader_goes_on_behind_the_last_run() -> None:
    with Channel.create("kept", "broadcast", capacity=1 << 16) as channel:
        publisher = channel.publisher()
        with channel.subscriber("k", kept=True) as subscriber:
            publisher.offer_array(PRICE, prices(20))
            assert subscriber.poll_arrays(PRICE, lambda array: None, limit=7) == 7
        with channel.subscriber("k", kept=True) as subscriber:
            assert sequences(read(subscriber)) == list(range(7, 20))


def test_a_kept_reader_that_is_killed_in_its_handler_sees_the_run_again(child: Callable[..., Child]) -> None:
    with Channel.create("killed", "broadcast", capacity=1 << 16) as channel:
        publisher = channel.publisher()
        victim = child(
            f"""
            from flyring import Channel
            from flyring.sbe import Schema
            price = Schema.load({str(SPEC / "sbe" / "prices.xml")!r}).PriceUpdate
            subscriber = Channel.open("killed").subscriber("k", kept=True)
            print("joined", flush=True)
            def stop(array):
                if array["sequence"][0] == 0:
                    return
                print(len(array), array["sequence"][0], flush=True)
                input()
            while True:
                subscriber.poll_arrays(price, stop, timeout=None)
            """
        )
        assert victim.line() == "joined"
        publisher.offer_array(PRICE, prices(100))
        assert victim.line() == "36 64"  # in the second run, because the first ended at an eighth of the ring
        victim.kill()
        subscriber = channel.subscriber("k", kept=True)
        assert sequences(read(subscriber)) == list(range(64, 100))


def test_a_reader_that_is_evicted_in_its_handler_is_told() -> None:
    with Channel.create("evicted", "broadcast", capacity=1 << 16) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        publisher.offer_array(PRICE, prices(4))
        lengths: list[int] = []

        def look(array: Array) -> None:
            lengths.append(len(array))
            channel.evict(subscriber.slot)

        with pytest.raises(SlotLostError):
            subscriber.poll_arrays(PRICE, look)
        assert lengths == [4]
        with pytest.raises(SlotLostError):
            subscriber.poll_arrays(PRICE, look)
        while publisher.position < 3 << 16:
            assert publisher.offer_array(PRICE, prices(100)) == 100


def test_rings_take_turns(ring: tuple[Publisher, Reader]) -> None:
    with Channel.create("turns", "broadcast", capacity=1 << 16, publishers=3) as channel:
        publishers = [channel.publisher() for _ in range(3)]
        subscriber = channel.subscriber()
        for i, publisher in enumerate(publishers):
            publisher.offer_array(PRICE, prices(4, 10 * i))
        found: list[int] = []
        polled = [subscriber.poll_arrays(PRICE, lambda a: found.append(int(a["sequence"][0])), 3) for _ in range(5)]
        assert polled == [3, 3, 3, 3, 0]
        assert found[:3] == [0, 10, 20]


def test_a_wait_ends_with_the_first_run(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    assert reader.poll_arrays(PRICE, print, timeout=0.01) == 0
    timer = threading.Timer(0.05, lambda: publisher.offer_array(PRICE, prices(3)))
    timer.start()
    assert reader.poll_arrays(PRICE, lambda array: None, timeout=30) == 3
    timer.join()


@pytest.mark.parametrize("otherwise", [None, print])
def test_a_lossy_reader_that_was_lapped_shows_nothing_of_what_lies_there_now(otherwise: Any) -> None:
    with Channel.create("lapped", "broadcast", capacity=1 << 14) as channel:
        publisher, reader = channel.publisher(), channel.lossy_subscriber(when_lapped="newest")
        for message in (PRICE, TRADE):
            for _ in range(3):
                assert publisher.offer_array(message, numpy.zeros(100, message.dtype)) == 100
        assert reader.poll_arrays(PRICE, print, otherwise=otherwise) == 0
        assert reader.lost_messages(0) == 600
        assert publisher.offer_array(PRICE, prices(3)) == 3
        assert sequences(read(reader)) == [0, 1, 2]


def test_a_lossy_reader_counts_what_it_lost_and_never_shows_a_torn_row(child: Callable[..., Child]) -> None:
    with Channel.create("lossy", "broadcast", capacity=1 << 14) as channel:
        reader = channel.lossy_subscriber()
        writer = child(
            f"""
            import time
            import numpy
            from flyring import Channel
            from flyring.sbe import Schema
            price = Schema.load({str(SPEC / "sbe" / "prices.xml")!r}).PriceUpdate
            publisher = Channel.open("lossy").publisher()
            rows, sent = numpy.zeros(25, price.dtype), 0
            print("ready", flush=True)
            input()
            while sent < 100000:
                rows["sequence"] = numpy.arange(sent, sent + 25)
                rows["bid"] = rows["sequence"].astype("i8") * 3 - 1
                rows["instrument"]["id"] = rows["sequence"]
                sent += publisher.offer_array(price, rows)
                if sent % 50 == 0:
                    time.sleep(0.0001)  # the reader can follow, even on the same core
            publisher.close()
            print(sent, flush=True)
            """
        )
        assert writer.line() == "ready"
        writer.say()
        last, got, runs = -1, 0, 0

        def look(array: Array) -> None:
            nonlocal last, got, runs
            numbers = array["sequence"].astype("i8")
            assert (array["bid"] == numbers * 3 - 1).all() and (array["instrument"]["id"] == numbers).all()
            assert numbers[0] > last and (numpy.diff(numbers) == 1).all()
            last, got, runs = int(numbers[-1]), got + len(array), runs + 1
            if runs % 20 == 0:
                time.sleep(0.01)  # so that it is lapped

        while not reader.ended(0):
            reader.poll_arrays(PRICE, look, timeout=0.1)
        assert got + reader.lost_messages(0) == int(writer.line()) == 100000
        assert writer.end() == 0
        assert got > 0 and reader.lost_messages(0) > 0


# Without leaks, and without numpy


def test_nothing_leaks(ring: tuple[Publisher, Reader]) -> None:
    publisher, reader = ring
    rows = prices(3)
    counts: list[int] = []

    def copy(message: Message) -> None:
        bytes(message)

    for i in range(300):
        publisher.offer_array(PRICE, rows)
        publisher.offer(b"bad", 1)
        publisher.offer(b"other", 9)
        reader.poll_arrays(PRICE, lambda array: None, limit=3, otherwise=copy)
        with pytest.raises(BadMessageError):
            reader.poll_arrays(PRICE, print, otherwise=copy)
        reader.poll_arrays(PRICE, print, otherwise=copy)
        if i in (100, 299):
            gc.collect()
            counts.append(sys.getrefcount(PRICE._layout) + sys.getrefcount(rows) + len(gc.get_objects()))
    assert abs(counts[1] - counts[0]) < 50


def test_without_numpy_only_arrays_are_missing(child: Callable[..., Child]) -> None:
    with Channel.create("plain", "broadcast", capacity=1 << 16):
        process = child(
            f"""
            import sys
            sys.modules["numpy"] = None
            from flyring import Channel
            from flyring.sbe import Schema
            price = Schema.load({str(SPEC / "sbe" / "prices.xml")!r}).PriceUpdate
            channel = Channel.open("plain")
            publisher, subscriber = channel.publisher(), channel.subscriber()
            assert price.encode(bytearray(100)).encoded_length > 0
            for use in (lambda: price.dtype, lambda: subscriber.poll_arrays(price, print),
                        lambda: publisher.offer_array(price, [])):
                try:
                    use()
                except ModuleNotFoundError as error:
                    print(error.name, "pip install flyring[numpy]" in str(error), flush=True)
            assert publisher.offer(b"raw") and subscriber.poll(print, timeout=1) == 1
            """
        )
        assert [process.line() for _ in range(3)] == ["numpy True"] * 3
        assert "Message" in process.line()
        assert process.end() == 0


def test_numpy_is_not_imported_before_it_is_used(child: Callable[..., Child]) -> None:
    process = child("import sys, flyring, flyring.sbe; print('numpy' in sys.modules, flush=True)")
    assert process.line() == "False"
    assert process.end() == 0
    assert layout.GATE_STORE_DIVISOR == 8  # the lengths of runs in this test depend on it
