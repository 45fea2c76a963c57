# SPDX-License-Identifier: Apache-2.0
"""Each message allocates only its result object."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from flyring import Channel, Message, Table

MESSAGE = bytes(range(32))
POSITION = sys.getsizeof(1 << 40)  # the int that offer returns


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def peak(action: Callable[[], object]) -> int:
    """Returns the most bytes that ``action`` has allocated at a time, without those of the measurement."""

    def measured(action: Callable[[], object]) -> int:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = action()
        _, highest = tracemalloc.get_traced_memory()
        del result
        return highest - before

    for _ in range(3):
        action(), measured(action)
    return min(measured(action) for _ in range(20)) - min(measured(lambda: None) for _ in range(20))


def ignore(message: Message) -> None:
    pass


def test_offer_take_and_poll_allocate_their_results_only() -> None:
    with Channel.create("c", "broadcast", capacity=1 << 20, publishers=1) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        offer, take, poll = publisher.offer, subscriber.take, subscriber.poll
        message = take() if offer(MESSAGE) is not None else None
        assert message is not None
        whole = object.__sizeof__(message) + len(MESSAGE)

        assert peak(lambda: offer(MESSAGE)) <= POSITION
        assert 0 < peak(take) <= max(whole, sys.getsizeof(message)) + 16
        assert peak(lambda: poll(ignore, 1)) <= sys.getsizeof(1)
        while take() is not None:
            pass
        assert peak(take) == 0


def test_jobs_allocate_their_objects_only() -> None:
    with Channel.create("q", "queue", capacity=1 << 20, producers=1) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        offer, take, poll = publisher.offer, worker.take, worker.poll
        offer(MESSAGE)
        job = take()
        assert job is not None
        whole = sys.getsizeof(job)
        job.done()

        def take_and_end() -> None:
            job = take()
            if job is not None:
                job.done()

        assert peak(lambda: offer(MESSAGE)) <= POSITION
        assert 0 < peak(take_and_end) <= whole + 16
        assert peak(lambda: poll(ignore, 1)) <= sys.getsizeof(1)
        offer_batch = [MESSAGE] * 256
        publisher.offer_batch(offer_batch)
        one, many = peak(lambda: poll(ignore, 1)), peak(lambda: poll(ignore, 4))
        assert many <= max(one, sys.getsizeof(1))
        while poll(ignore, 256):
            pass
        assert peak(take) == 0


def test_the_measurement_sees_a_seeded_allocation() -> None:
    assert peak(lambda: len(bytes(1000))) >= 1000
    assert peak(lambda: None) == 0


def test_reading_a_table_allocates_the_value_only() -> None:
    with Table.create("t", capacity=16, key="integer", value_bytes=64) as table, table.writer() as writer:
        writer.put(5, MESSAGE)
        entry, own = table.entry(5), writer.entry(5)
        assert entry is not None
        assert own is not None
        value = sys.getsizeof(MESSAGE)
        assert 0 < peak(entry.get) <= value + 16
        assert 0 < peak(lambda: table.get(5)) <= value + 16
        assert 0 < peak(lambda: table[5]) <= value + 16
        assert peak(lambda: table.get(6)) == 0
        assert peak(lambda: 5 in table) == 0
        assert peak(lambda: own.put(MESSAGE)) <= POSITION
        assert peak(lambda: writer.put(5, MESSAGE)) <= POSITION
        assert peak(lambda: entry.version) <= POSITION
