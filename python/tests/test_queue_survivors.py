# SPDX-License-Identifier: Apache-2.0
"""Workers that die, are evicted, raise, or are interrupted, and their jobs (spec/queue.md 5 to 8)."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Child, in_child
from flyring import (
    Action,
    Channel,
    ClosedError,
    CorruptRingError,
    Job,
    SlotLostError,
    TwoThreadsError,
    ViewAliveError,
    Worker,
    layout,
)
from queues import all_jobs, fill, gate, identity, queue, take
from waits import Waits, until

WORKER = """
import sys
from flyring import Channel, Action
channel = Channel.open("jobs")
worker = channel.worker("child")
limit = int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
if limit == 1:
    job = worker.take()
    print(bytes(job).decode(), flush=True)
    sys.stdin.readline()
else:
    def handler(job):
        print(bytes(job).decode(), flush=True)
        sys.stdin.readline()
    worker.poll(handler, limit)
"""


def adopted(worker: Worker) -> Job:
    """Waits for a job that another worker had."""
    job = worker.take(timeout=2)
    assert job is not None
    return job


def word(channel: Channel, offset: int) -> int:
    return channel._attached.memory.load64(channel.header.control_offset + offset)


# Killed


def test_the_job_of_a_killed_worker_is_handed_out_again(child: Callable[..., Child]) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher("feed"), channel.worker()
        victim = child(WORKER, "1")
        assert victim.line() == "ready"
        publisher.offer_batch([b"one", b"two"])
        victim.say()
        assert victim.line() == "one"
        assert all_jobs(worker) == [b"two"]
        time.sleep(0.002)
        assert worker.take() is None  # the other worker is alive
        victim.kill()
        job = adopted(worker)
        assert (bytes(job), job.attempts, job.repeat, job.sender.name) == (b"one", 1, True, "feed")
        assert word(channel, layout.CONTROL_HANDOVERS) == 1
        assert gate(channel, 0, 2) == -1
        job.done()
        assert worker.take() is None


def test_what_is_left_of_a_killed_workers_batch(child: Callable[..., Child]) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        victim = child(WORKER, "4")
        assert victim.line() == "ready"
        publisher.offer_batch([b"%d" % k for k in range(5)])
        victim.say()
        assert victim.line() == "0"
        victim.say()
        assert victim.line() == "1"
        assert all_jobs(worker) == [b"4"]
        victim.kill()
        got = []
        while (job := worker.take(timeout=0.3)) is not None:
            got.append((bytes(job), job.attempts))
            job.done()
        assert got == [(b"1", 1), (b"2", 1), (b"3", 1)]


def test_the_next_owner_of_the_slot_takes_the_job_over(child: Callable[..., Child]) -> None:
    with queue(workers=1) as channel:
        publisher = channel.publisher()
        victim = child(WORKER, "2")
        assert victim.line() == "ready"
        publisher.offer_batch([b"one", b"two", b"three"])
        victim.say()
        assert victim.line() == "one"
        victim.kill()
        worker = channel.worker()
        assert (worker.slot, worker.epoch) == (1, 2)
        got = []
        while (job := worker.take()) is not None:
            got.append((bytes(job), job.attempts))
            job.done()
        assert got == [(b"one", 1), (b"two", 1), (b"three", 0)]


def test_a_dead_workers_job_holds_its_producer_until_it_is_adopted(child: Callable[..., Child]) -> None:
    with queue(workers=3) as channel:
        publisher = channel.publisher()
        victim = child(WORKER, "1")
        assert victim.line() == "ready"
        publisher.offer(b"one")
        victim.say()
        assert victim.line() == "one"
        victim.kill()
        fill(publisher)
        for _ in range(3):
            time.sleep(0.002)
            assert publisher.offer(bytes(56)) is None  # a worker with a job is never retired
        assert gate(channel, 0, 1) >= 0
        worker = channel.worker()
        assert worker.slot == 1
        assert bytes(adopted(worker)) == b"one"


def forge(channel: Channel, ring: int, slot: int, position: int, end: int, attempts: int = 0) -> None:
    """Writes what a dead worker would have left."""
    memory, at = channel._attached.memory, channel.header.gate(ring, slot)
    memory.store32(at + layout.GATE_ATTEMPTS, attempts)
    memory.store64(at + layout.GATE_TAKEN_END, end)
    memory.store64(at, position)


def test_what_was_announced_and_never_taken_stays_on_the_ring() -> None:
    with queue(workers=4) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        worker.take().release()  # type: ignore[union-attr]
        at = gate(channel, 0, 0)
        forge(channel, 0, 3, at, at + 64)
        time.sleep(0.002)
        assert all_jobs(worker) == [b"one", b"two"]
        until(lambda: worker.take() is None and gate(channel, 0, 3) == -1)
        assert word(channel, layout.CONTROL_HANDOVERS) == 0


def test_a_dead_workers_job_that_was_overwritten_is_dropped() -> None:
    with queue(workers=4) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        start = gate(channel, 0, 0)
        for _ in range(200):
            publisher.offer(bytes(56))
            all_jobs(worker)
        forge(channel, 0, 3, start, start + 128)
        time.sleep(0.002)
        assert worker.take() is None
        assert (gate(channel, 0, 3), gate(channel, 0, 1)) == (-1, -1)
        assert publisher.offer(b"next")
        assert all_jobs(worker) == [b"next"]


def test_attempts_count_on_from_worker_to_worker() -> None:
    with queue(workers=4) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        job = take(worker)
        start, end = job.position, gate(channel, 0, 0)
        job.done()
        assert all_jobs(worker) == [b"two"]
        for attempts, expected in ((0, 1), (4, 5), (2**31 - 1, 2**31 - 1), (-7, 1)):
            forge(channel, 0, 3, start, end, attempts)
            job = adopted(worker)
            assert (bytes(job), job.attempts) == (b"one", expected)
            job.done()


# Hostile words


@pytest.mark.parametrize("position", [3, 2**62, 2**63 - 64, 64 * 10**6])
@pytest.mark.parametrize("length", [64, -64, 13, 2**40])
def test_gates_that_no_worker_can_have_stored(position: int, length: int) -> None:
    with queue(workers=3) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        forge(channel, 0, 3, position, max(-(2**63), min(position + length, 2**63 - 1)))
        time.sleep(0.002)
        assert all_jobs(worker) == [b"one"]
        until(lambda: worker.take() is None and gate(channel, 0, 3) == -1)
        forge(channel, 0, 2, position, max(-(2**63), min(position + length, 2**63 - 1)))
        other = channel.worker()
        assert (other.slot, gate(channel, 0, 2)) == (2, -1)


@pytest.mark.parametrize("value", [-1, 3, -(2**63), 2**62])
def test_a_shared_gate_that_is_no_position(value: int) -> None:
    with queue(producers=2) as channel:
        first, second, worker = channel.publisher(), channel.publisher(), channel.worker()
        first.offer(b"one")
        second.offer(b"two")
        channel._attached.memory.store64(channel.header.gate(0, 0), value)
        with pytest.raises(CorruptRingError) as caught:
            worker.take()
        assert caught.value.ring == 0
        assert all_jobs(worker) == [b"two"]  # the other rings go on


@pytest.mark.parametrize(("length", "type"), [(5, 1), (2**30, 1), (5000, 1), (64, 0), (64, -3)])
def test_records_that_cannot_be(length: int, type: int) -> None:
    with queue(producers=2) as channel:
        first, second, worker = channel.publisher(), channel.publisher(), channel.worker()
        first.offer(b"one")
        assert all_jobs(worker) == [b"one"]
        second.offer(b"two")
        memory, header = channel._attached.memory, channel.header
        at = header.ring(0) + (gate(channel, 0, 0) & 4095)
        memory.store32(at + 4, type)
        memory.store32(at, length)
        with pytest.raises(CorruptRingError) as caught:
            for _ in range(3):
                all_jobs(worker)
        assert (caught.value.ring, caught.value.position) == (0, gate(channel, 0, 0))
        assert worker.take() is None


def test_an_overwritten_record_of_a_job_in_hand_is_a_corrupt_ring() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"a", b"b"])
        at = channel.header.ring(0) + 128 + layout.RECORD_TYPE
        with pytest.raises(CorruptRingError) as caught:
            worker.poll(lambda job: channel._attached.memory.store32(at, 0), 2)
        assert caught.value.reason == "the record of a job in hand was overwritten with something that is no job"
        assert caught.value.position == 128


def test_a_ring_of_nothing_but_padding_ends() -> None:
    with queue() as channel:
        worker = channel.worker()
        memory, header = channel._attached.memory, channel.header
        for at in range(0, 4096, 64):
            memory.store32(header.ring(0) + at + 4, layout.TYPE_PADDING)
            memory.store32(header.ring(0) + at, 64)
        assert worker.take() is None
        assert worker.poll(print, 4, 0.01) == 0


@pytest.mark.parametrize(
    "prefix",
    [
        b"short",
        struct.pack("<iiq", 7, 1, 64),
        struct.pack("<iiq", -1, 1, 64),
        struct.pack("<iiq", 1, 1, 64),
        struct.pack("<iiq", 0, 1, -1),
        struct.pack("<iiq", 0, 1, 13),
    ],
)
def test_a_prefix_of_a_released_job_that_cannot_be(prefix: bytes) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        assert take(worker).release()
        at = channel.header.ring(1) + (gate(channel, 1, 0) & 4095)
        if len(prefix) < 16:
            channel._attached.memory.store32(at, 8 + len(prefix))
        channel._attached.memory.write(at + 8, prefix)
        with pytest.raises(CorruptRingError) as caught:
            worker.take()
        assert caught.value.ring == 1
        assert gate(channel, 1, 1) == -1
        publisher.offer(b"two")
        assert all_jobs(worker) == [b"two"]


def test_attempts_of_a_released_job_are_never_0() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        for forged, expected in ((0, 1), (-5, 1), (2**31 - 1, 2**31 - 1)):
            publisher.offer(b"one")
            assert take(worker).release()
            at = channel.header.ring(1) + (gate(channel, 1, 0) & 4095) + 8
            channel._attached.memory.store32(at + layout.RELEASED_ATTEMPTS, forged)
            job = take(worker)
            assert (job.attempts, job.repeat) == (expected, True)
            assert job.release()
            job = take(worker)
            assert job.attempts == min(expected + 1, 2**31 - 1)
            job.done()


def test_release_recovers_a_returns_ring_whose_owner_died() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        memory, trailer = channel._attached.memory, channel.header.trailer(1)
        published = memory.load64(trailer + layout.TRAILER_PUBLISHED)
        memory.store64(trailer + layout.TRAILER_CLAIMED, published + 128)  # killed after step 3
        assert take(worker).release()
        assert memory.load64(trailer + layout.TRAILER_PUBLISHED) == published + 192
        assert all_jobs(worker) == [b"one", b"two"]  # rings are read in turn
        memory.store64(trailer + layout.TRAILER_CLAIMED, 13)
        publisher.offer(b"three")
        job = take(worker)
        with pytest.raises(CorruptRingError):
            job.release()
        assert bytes(job) == b"three"  # the refused call has changed nothing
        job.done()


# Evicted


def test_the_job_of_an_evicted_worker_goes_to_another() -> None:
    with queue() as channel:
        publisher, victim, worker = channel.publisher(), channel.worker(), channel.worker()
        assert channel.evict(2) == 0
        with pytest.raises(SlotLostError):
            worker.take()
        worker.close()
        worker = channel.worker()
        assert worker.epoch == 3
        publisher.offer(b"one")
        job = take(victim)
        place = identity(job)
        assert channel.evict(1) == 1
        again = adopted(worker)
        assert identity(again) == (*place[:2], 1)
        with pytest.raises(SlotLostError):
            job.done()
        with pytest.raises(ClosedError):
            job.done()
        with pytest.raises(SlotLostError):
            victim.take()
        with pytest.raises(SlotLostError):
            victim.poll(print)
        assert victim.slot == 1
        victim.close()
        assert bytes(again) == b"one"
        again.done()
        with channel.worker() as last:
            assert last.slot == 1


def test_an_evicted_worker_releases_nothing() -> None:
    with queue() as channel:
        publisher, victim, worker = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer(b"one")
        job = take(victim)
        assert channel.evict(1) == 1
        with pytest.raises(SlotLostError):
            job.release()
        assert bytes(adopted(worker)) == b"one"
        assert channel._attached.memory.load64(channel.header.trailer(1) + layout.TRAILER_PUBLISHED) == 64


def test_evict_in_a_handler() -> None:
    with queue() as channel:
        publisher, victim, worker = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer_batch([b"one", b"two", b"three"])
        got: list[bytes] = []

        def evicts(job: Job) -> None:
            got.append(bytes(job))
            channel.evict(1)

        with pytest.raises(SlotLostError):
            victim.poll(evicts, 3)
        assert got == [b"one"]
        job = adopted(worker)
        assert (bytes(job), job.attempts) == (b"one", 1)


def test_an_exception_of_the_handler_goes_before_slot_lost() -> None:
    with queue() as channel:
        publisher, victim = channel.publisher(), channel.worker()
        publisher.offer(b"one")

        def raises(job: Job) -> None:
            channel.evict(1)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            victim.poll(raises)
        with pytest.raises(SlotLostError):
            victim.poll(raises)


def test_an_evicted_slot_without_an_owner_is_taken_again() -> None:
    with queue() as channel:
        channel.worker().close()
        assert channel.evict(1) == 0
        worker = channel.worker()
        assert (worker.slot, worker.epoch) == (1, 3)
        slot = channel.header.subscriber_slot(1)
        assert channel._attached.memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING) == 0


# Closed, dropped, forked


def test_close_without_room_leaves_the_job_to_others() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        lock = channel._attached.file.reopen()
        assert lock.try_lock(channel.header.publisher_slot(1))
        job = take(worker)
        assert bytes(job) == b"one"
        assert all_jobs(other) == [b"two"]
        waits = Waits(lambda: other.take(timeout=5))
        time.sleep(0.02)
        worker.close()
        job = waits.end()
        assert (bytes(job), job.attempts) == (b"one", 1)
        job.done()
        lock.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_dropped_objects() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        job = take(worker)
        del job  # no code can end it now
        with pytest.raises(ViewAliveError):
            worker.take()
        del worker  # its close releases the job
        assert sorted(all_jobs(other)) == [b"one", b"two"]
        worker = channel.worker()
        publisher.offer(b"three")
        job = take(worker)
        del worker
        assert bytes(job) == b"three"  # the job keeps its worker alive
        job.done()


def test_a_forked_child_cannot_use_job_or_worker() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        job = take(worker)

        def work() -> None:
            for call in (job.done, job.release, worker.take, worker.drain, lambda: worker.ended, lambda: list(worker)):
                with pytest.raises(ClosedError):
                    call()
            worker.close()

        in_child(work)
        assert bytes(job) == b"one"
        job.done()
        assert all_jobs(worker) == [b"two"]


def test_a_handler_that_forks() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        got: list[bytes] = []

        def forks(job: Job) -> None:
            got.append(bytes(job))
            pid = os.fork()
            if pid == 0:
                return
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

        parent = os.getpid()
        try:
            worker.poll(forks, 2)
        except ClosedError:
            if os.getpid() != parent:
                os._exit(7)
            raise
        finally:
            if os.getpid() != parent:
                os._exit(1)
        assert got == [b"one", b"two"]
        assert worker.take() is None


def test_an_interrupt_in_a_handler() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")

        def interrupts(job: Job) -> None:
            signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            worker.poll(interrupts)
        job = take(worker)
        assert (bytes(job), job.attempts) == (b"one", 1)


def test_a_recursion_error_in_a_handler() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")

        def deep(job: Any) -> None:
            deep(job)

        with pytest.raises(RecursionError):
            worker.poll(deep)
        assert take(worker).attempts == 1


def test_another_thread_is_kept_out() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        inside, go = threading.Event(), threading.Event()

        def handler(job: Job) -> None:
            inside.set()
            assert go.wait(10)

        waits = Waits(lambda: worker.poll(handler))
        assert inside.wait(10)
        try:
            for call in (worker.take, lambda: worker.poll(print), lambda: worker.set_spin(0)):
                with pytest.raises(TwoThreadsError):
                    call()
            with pytest.raises(ViewAliveError):
                worker.close()
            worker.drain()  # drain is thread-safe
        finally:
            go.set()
        assert waits.end() == 1


def test_a_close_beside_done_of_another_thread() -> None:
    with queue() as channel:
        publisher, other = channel.publisher(), channel.worker()
        for k in range(200):
            publisher.offer(b"%d" % k)
            worker = channel.worker()
            job, begin = take(worker), threading.Barrier(2)

            def finish(job: Job = job, begin: threading.Barrier = begin) -> bool:
                begin.wait()
                try:
                    job.done()
                except ClosedError:
                    return False
                return True

            done = Waits(finish)
            begin.wait()
            worker.close()
            again = other.take()
            assert (again is None) == done.end()  # done, or adopted by another worker
            if again is not None:
                assert (bytes(again), again.attempts) == (b"%d" % k, 1)
                again.done()


def test_a_job_kept_after_its_poll_is_closed() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher("feed"), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        kept: list[Job] = []
        assert worker.poll(kept.append, 2) == 2
        assert kept[0] is not kept[1]
        for job in kept:
            with pytest.raises(ClosedError):
                bytes(job)
            with pytest.raises(ClosedError):
                job.done()
            assert job.sender.name == "feed"
        assert worker.poll(lambda job: Action.BREAK) == 0
