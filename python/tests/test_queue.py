# SPDX-License-Identifier: Apache-2.0
"""A queue: its options, order, producers and end (spec/queue.md, spec/api.md, Worker)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flyring
from conftest import Child
from flyring import (
    Action,
    BackPressuredError,
    BusyError,
    Channel,
    ChannelDiffersError,
    ClosedError,
    InvalidArgumentError,
    Job,
    MessageTooLargeError,
    NoFreeSlotError,
    ViewAliveError,
    layout,
)
from flyring.sbe import dispatch
from generated_prices import SCHEMA, PriceFlags, PriceUpdate
from queues import all_jobs, fill, gate, queue, take

LONGEST = 4096 // 4 - 24


# Options


def test_what_a_queue_is() -> None:
    with Channel.create("jobs", "queue") as channel:
        assert (channel.kind, channel.producers, channel.workers) == ("queue", 4, 4)
        assert (channel.publishers, channel.subscribers) == (5, 5)
        memory, header = channel._attached.memory, channel.header
        assert memory.load32(header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_KEPT) == 1
        assert [gate(channel, ring, 0) for ring in range(5)] == [64 * ring for ring in range(5)]
        assert {gate(channel, ring, k) for ring in range(5) for k in range(1, 5)} == {-1}
    with Channel.open("jobs") as channel:
        assert (channel.kind, channel.producers) == ("queue", 4)
    with Channel.open_or_create("jobs", "queue") as channel:
        assert channel.workers == 4
    with Channel.create("plain", "broadcast") as channel:
        assert (channel.producers, channel.workers) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "options", "argument"),
    [
        ("queue", {"publishers": 2}, "publishers"),
        ("queue", {"subscribers": 2}, "subscribers"),
        ("broadcast", {"producers": 2}, "producers"),
        ("inbox", {"workers": 2}, "workers"),
        ("queue", {"producers": 0}, "producers"),
        ("queue", {"producers": 1024}, "producers"),
        ("queue", {"workers": 0}, "workers"),
        ("queue", {"workers": 1024}, "workers"),
        ("queue", {"foreign": "publisher"}, "foreign"),
    ],
)
def test_options_that_do_not_fit(kind: Any, options: Any, argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Channel.create("jobs", kind, **options)
    assert caught.value.argument == argument


def test_the_greatest_queue_can_be_made(tmp_path: Path) -> None:
    """In the folder for temporary files: the file has 143 MB, and the /dev/shm of a container often has 64 MiB."""
    options = {"producers": 1023, "workers": 1023, "capacity": 4096, "counters": 0, "any_file_system": True}
    with (
        Channel.create(str(tmp_path / "jobs.ring"), "queue", **options) as channel,  # type: ignore[arg-type]
        channel.publisher() as publisher,
        channel.worker() as worker,
    ):
        publisher.offer(b"one")
        assert all_jobs(worker) == [b"one"]


def test_the_first_option_that_differs() -> None:
    with queue(producers=2, workers=3):
        for options, field in (({"producers": 3, "workers": 3}, "producers"), ({"producers": 2}, "workers")):
            with pytest.raises(ChannelDiffersError) as caught:
                Channel.open_or_create("jobs", "queue", capacity=4096, **options)  # type: ignore[arg-type]
            assert caught.value.field == field
        assert (caught.value.expected, caught.value.actual) == ("4", "3")
        with pytest.raises(ChannelDiffersError) as caught:
            Channel.open_or_create("jobs", "broadcast", capacity=4096)
        assert caught.value.field == "kind"


def test_what_a_queue_refuses() -> None:
    with queue() as channel:
        refused: list[tuple[Any, str]] = [
            (channel.subscriber, "kind"),
            (lambda: channel.publisher(max_lag=4096), "max_lag"),
            (lambda: channel.evict(0), "slot"),
            (lambda: channel.evict(3), "slot"),
            (lambda: channel.lossy_subscriber([1]), "rings"),
            (lambda: channel.worker("a b"), "name"),
            (lambda: channel.worker(timeout=-1), "timeout"),
        ]
        for call, argument in refused:
            with pytest.raises(InvalidArgumentError) as caught:
                call()
            assert caught.value.argument == argument
        with channel.lossy_subscriber() as watcher:
            assert watcher.rings == (0,)
    with Channel.create("plain", "broadcast") as channel, pytest.raises(InvalidArgumentError) as caught:
        channel.worker()
    assert caught.value.argument == "kind"


def test_slots_of_producers_and_workers() -> None:
    with queue(producers=2, workers=2) as channel:
        publishers = [channel.publisher() for _ in range(2)]
        assert [publisher.ring for publisher in publishers] == [0, 1]
        first, second = channel.worker("first"), channel.worker()
        assert [first.slot, second.slot] == [1, 2]
        assert (first.name, second.name, first.epoch) == ("first", "", 1)
        with pytest.raises(NoFreeSlotError) as caught:
            channel.publisher()
        assert (caught.value.kind, caught.value.slots, len(caught.value.owners)) == ("publisher", 2, 2)
        with pytest.raises(NoFreeSlotError) as caught:
            channel.worker(timeout=0.05)
        assert (caught.value.kind, caught.value.slots) == ("subscriber", 2)
        assert [owner.slot for owner in caught.value.owners] == [1, 2]
        first.close()
        with channel.worker("again") as again:
            assert again.epoch == 2


# Order, rings, wrap


@pytest.mark.parametrize("alignment", [8, 64])
def test_laps_with_padding(alignment: int) -> None:
    with queue(producers=2, alignment=alignment) as channel:
        publishers = [channel.publisher("a"), channel.publisher("b")]
        workers = [channel.worker(), channel.worker()]
        sent: dict[int, list[bytes]] = {0: [], 1: []}
        got: dict[int, list[bytes]] = {0: [], 1: []}
        names: set[str] = set()
        for k in range(600):
            publisher = publishers[k % 2]
            data = b"%d:" % k + bytes(k * 7 % (LONGEST - 10))
            assert publisher.send(data, timeout=1)
            sent[k % 2].append(data)

            def handler(job: Job) -> None:
                got[job.ring].append(bytes(job))
                names.add(job.sender.name)
                assert job.sender.name == "ab"[job.ring]

            if k % 3 == 0:
                workers[k % 2].poll(handler, 4)
            while k % 3 and (job := workers[k % 2].take()) is not None:
                handler(job)
                job.done()
        for worker in workers:
            worker.poll(handler, 100)
        assert got == sent
        assert names == {"a", "b"}


def test_the_longest_job_can_be_released() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        assert publisher.max_message_length == LONGEST
        for call in (publisher.offer, publisher.try_claim):
            with pytest.raises(MessageTooLargeError) as caught:
                call(bytes(LONGEST + 1) if call == publisher.offer else LONGEST + 1)  # type: ignore[operator]
            assert caught.value.limit == LONGEST
        for k in range(20):
            data = b"%d" % k + bytes(LONGEST - len(b"%d" % k))
            assert publisher.offer(data)
            assert take(worker).release()
            job = take(worker)
            assert bytes(job) == data
            job.done()


def test_rings_take_turns() -> None:
    with queue(producers=3) as channel:
        publishers, worker = [channel.publisher() for _ in range(3)], channel.worker()
        for publisher in publishers:
            publisher.offer_batch([b"a", b"b"])
        rings = []
        while (job := worker.take()) is not None:
            rings.append(job.ring)
            job.done()
        assert rings == [0, 1, 2, 0, 1, 2]


def test_the_sender_of_an_earlier_owner_is_not_known() -> None:
    with queue() as channel:
        worker = channel.worker()
        with channel.publisher("old") as publisher:
            publisher.offer(b"one")
        with channel.publisher("old") as publisher:
            publisher.offer(b"two")
            job = take(worker)
            assert (bytes(job), job.sender.epoch, job.sender.name) == (b"one", 0, "")
            job.done()
            job = take(worker)
            assert (bytes(job), job.sender.epoch, job.sender.name) == (b"two", 2, "old")
            job.done()


# The producer


def test_jobs_that_no_worker_takes_hold_their_producer_back() -> None:
    with queue() as channel:
        publisher = channel.publisher()
        assert fill(publisher) > 40
        holder = publisher.held_by()
        assert holder is not None
        assert (holder.slot, holder.live, holder.kept, holder.name) == (0, False, True, "")
        with pytest.raises(BackPressuredError, match="no worker has taken"):
            publisher.send(b"", timeout=0.01)
        assert publisher.readers == 0
        worker = channel.worker("busy")
        assert publisher.readers == 1
        job = take(worker)
        with channel.worker() as other:
            all_jobs(other)
        holder = publisher.held_by()
        assert holder is not None
        assert (holder.slot, holder.name, holder.live, holder.position) == (worker.slot, "busy", True, job.position)
        assert channel.stats().publishers[0].blocked_by in ((), (1,))
        job.done()
        assert publisher.offer(b"again")


def test_a_send_that_would_wait_for_its_own_job_is_busy() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker("me"), channel.worker()
        publisher.offer(b"one")
        job = take(worker)
        fill(publisher)
        all_jobs(other)
        fill(publisher)
        for call in (
            lambda: publisher.send(b"x"),
            lambda: publisher.send(b"x", timeout=10),
            lambda: publisher.claim(10),
            lambda: publisher.send_batch([b"x"]),
            lambda: publisher.flush(),
        ):
            with pytest.raises(BusyError) as caught:
                call()
            assert (caught.value.code, caught.value.holder.slot, caught.value.holder.name) == ("busy", 1, "me")
            assert caught.value.holder.position == job.position
        assert publisher.offer(b"x") is None
        job.done()
        assert publisher.send(b"x", timeout=1)

        def handler(job: Job) -> None:
            while publisher.offer(bytes(56)) is not None:
                pass
            all_jobs(other)
            fill(publisher)
            with pytest.raises(BusyError):
                publisher.send(b"x")

        assert worker.poll(handler) == 1
        assert publisher.send(b"y", timeout=1)


def test_flush_waits_for_what_is_done() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.flush(0)
        publisher.offer(b"one")
        with pytest.raises(flyring.TimedOutError):
            publisher.flush(0.01)
        job = take(worker)
        with pytest.raises(flyring.TimedOutError):
            publisher.flush(0)
        assert job.release()
        publisher.flush(0)  # the open job is of another ring
        take(worker).done()


def test_jobs_that_change_hands_all_the_time_do_not_hold_a_flush(child: Callable[..., Child]) -> None:
    with queue(workers=1023) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        take(worker).done()
        publisher.flush(0)
        raising = child(
            """
            import sys
            from flyring import Channel, layout
            channel = Channel.open("jobs")
            at, memory = channel.header.control_offset + layout.CONTROL_HANDOVERS, channel._attached.memory
            print("ready", flush=True)
            while True:
                for handovers in range(1_000_000):
                    memory.store64(at, handovers)
            """
        )
        assert raising.line() == "ready"
        end = time.monotonic() + 30
        with pytest.raises(flyring.TimedOutError):
            while time.monotonic() < end:  # the child may be interrupted
                publisher.flush(1e-4)
        raising.kill()
        publisher.flush(0)


def test_lossy_subscribers_read_along() -> None:
    with queue(producers=2) as channel:
        watcher, publisher, worker = channel.lossy_subscriber(), channel.publisher(), channel.worker()
        assert watcher.rings == (0, 1)
        publisher.offer(b"one")
        take(worker).release()
        assert [bytes(message) for message in (watcher.take(), watcher.take()) if message] == [b"one"]


# Ended, stats


def test_ended() -> None:
    with queue(producers=2) as channel:
        worker, other = channel.worker(), channel.worker()
        assert not worker.ended
        publisher = channel.publisher()
        assert not worker.ended
        publisher.offer(b"one")
        publisher.close()
        assert not worker.ended
        job = take(other)
        assert not worker.ended
        job.release()
        assert not worker.ended
        take(worker).done()
        assert worker.ended and other.ended
        again = channel.publisher()
        assert not worker.ended and not again.closed


def test_drain_hands_out_what_was_taken() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two", b"three"])
        assert worker.poll(lambda job: Action.BREAK, 2) == 1
        worker.drain()
        assert bytes(take(worker)) == b"two"
        with pytest.raises(ViewAliveError):
            worker.take()
        other = channel.worker()
        assert all_jobs(other) == [b"three"]


def test_drained_workers_take_nothing() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        worker.drain()
        assert worker.take(timeout=None) is None
        assert worker.poll(print, 3, None) == 0
        assert list(worker) == []
        worker.close()
        with pytest.raises(ClosedError):
            worker.drain()


def test_stats() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher("feed"), channel.worker("first")
        publisher.offer_batch([b"%d" % k for k in range(5)])
        worker.poll(lambda job: Action.BREAK, 3)
        job = take(worker)
        stats = channel.stats()
        assert [one.state for one in stats.publishers] == ["live", "returns"]
        assert [one.state for one in stats.subscribers] == ["shared", "live", "unused"]
        shared, first, unused = stats.subscribers
        assert [(one.ring, one.lag_messages) for one in shared.gates] == [(0, 2), (1, 0)]
        assert (shared.in_hand, unused.in_hand, shared.kept) == (None, None, True)
        assert first.in_hand is not None
        assert (first.in_hand.ring, first.in_hand.position, first.in_hand.attempts) == (0, job.position, 0)
        assert first.in_hand.end == shared.gates[0].position
        assert first.in_hand.busy_since > 0
        assert 0 <= first.in_hand.busy_for < 10**10
        job.release()
        take(worker).done()
        for _ in range(3):
            take(worker).done()
        first = channel.stats().subscribers[1]
        assert (first.in_hand, first.gates) == (None, ())
        slot = channel.header.subscriber_slot(1)
        assert channel._attached.memory.load64(slot + layout.SUBSCRIBER_SLOT_BUSY_SINCE) == 0


def test_iteration() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"%d" % k for k in range(4)])
        publisher.close()
        got = []
        for job in worker:
            got.append((bytes(job), job.attempts))
            if job == b"1" and not job.repeat:
                break
        with pytest.raises(ClosedError):
            job.done()
        with pytest.raises(ZeroDivisionError):
            for job in worker:
                got.append((bytes(job), job.attempts))
                raise ZeroDivisionError
        got += [(bytes(job), job.attempts) for job in worker]
        assert got == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0), (b"1", 2), (b"3", 0)]  # rings are read in turn
        assert worker.ended


def test_typed_messages_are_dispatched() -> None:
    with queue(schema=SCHEMA, capacity=1 << 16) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        for bid in (1, 2):
            with publisher.claim(PriceUpdate) as update:
                update.bid = bid
                update.flags = PriceFlags.opening
        bids: list[object] = []
        assert worker.poll(dispatch({PriceUpdate: lambda update, job: bids.append(update.bid)})) == 1
        job = take(worker)
        bids.append(PriceUpdate.decode(job).bid)
        job.done()
        assert bids == [1, 2]
