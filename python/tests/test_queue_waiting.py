# SPDX-License-Identifier: Apache-2.0
"""Workers that sleep, a job that wakes one of them, ended and drain (spec/queue.md 9 and 10)."""

from __future__ import annotations

import asyncio
import functools
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Child
from flyring import (
    Action,
    BackPressuredError,
    Channel,
    ChannelReplacedError,
    ClosedError,
    Job,
    Publisher,
    SlotLostError,
    WaitSet,
    Worker,
    layout,
)
from queues import all_jobs, queue, take
from waits import Waits, until, word

SOON = 0.09  # seconds; shorter than a sleep's cap, so a wait that ends within it was woken


def asleep(channel: Channel) -> int:
    return word(channel, layout.CONTROL_JOBS_ASLEEP)


def sleeping(channel: Channel, call: Callable[[], Any]) -> Waits:
    """Starts a call, and waits until it sleeps."""
    waits = Waits(call)
    until(lambda: asleep(channel))
    time.sleep(0.005)
    return waits


def prompt(waits: Waits, began: float) -> Any:
    result = waits.end()
    assert waits.ended - began < SOON, "no process woke it"
    return result


def finish(job: Job) -> bytes:
    data = bytes(job)
    job.done()
    return data


def test_a_sleeping_worker_is_woken() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        for verb in ("offer", "batch", "claim"):
            waits = sleeping(channel, lambda: worker.take(timeout=10))
            began = time.monotonic()
            if verb == "offer":
                publisher.offer(b"one")
            elif verb == "batch":
                publisher.offer_batch([b"one"])
            else:
                with publisher.claim(3) as claim:
                    claim[0:3] = b"one"
            assert finish(prompt(waits, began)) == b"one"
        got: list[bytes] = []
        waits = sleeping(channel, lambda: worker.poll(lambda job: got.append(bytes(job)), 3, 10))
        began = time.monotonic()
        publisher.offer(b"two")
        assert prompt(waits, began) == 1
        assert got == [b"two"]


def test_one_job_wakes_one_worker() -> None:
    with queue(workers=3) as channel:
        publisher, workers = channel.publisher(), [channel.worker() for _ in range(3)]
        waits = [sleeping(channel, lambda w=worker: w.take(timeout=0.5)) for worker in workers]  # type: ignore[misc]
        sequence = word(channel, layout.CONTROL_JOBS_SEQUENCE)
        publisher.offer(b"one")
        until(lambda: any(not one._thread.is_alive() for one in waits))
        assert word(channel, layout.CONTROL_JOBS_SEQUENCE) == sequence + 1
        jobs = [job for job in (one.end() for one in waits) if job is not None]
        assert [finish(job) for job in jobs] == [b"one"]


def test_a_worker_that_takes_a_job_wakes_the_next() -> None:
    with queue(workers=3) as channel:
        publisher, workers = channel.publisher(), [channel.worker() for _ in range(3)]
        waits = [sleeping(channel, lambda w=worker: w.take(timeout=10)) for worker in workers]  # type: ignore[misc]
        began = time.monotonic()
        publisher.offer_batch([b"1", b"2", b"3"])  # one wake
        assert sorted(finish(prompt(one, began)) for one in waits) == [b"1", b"2", b"3"]


def test_a_release_wakes_a_worker() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer(b"one")
        job = take(worker)
        waits = sleeping(channel, lambda: other.take(timeout=10))
        began = time.monotonic()
        assert job.release()
        assert finish(prompt(waits, began)) == b"one"


def test_time_outs() -> None:
    with queue() as channel:
        worker = channel.worker()
        began = time.monotonic()
        assert worker.take(timeout=0.05) is None
        assert worker.poll(print, timeout=0.05) == 0
        assert 0.1 <= time.monotonic() - began < 1


def test_room_wakes_a_producer() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        while publisher.offer(bytes(900)):
            pass
        job = take(worker)
        waits = Waits(lambda: publisher.send(bytes(900), timeout=10))
        until(lambda: word(channel, layout.CONTROL_ROOM_ASLEEP) & 1)
        assert waits._thread.is_alive()
        job.done()
        assert waits.end() > 0
        assert len(all_jobs(worker)) == 4


def test_a_worker_that_does_not_wake(child: Callable[..., Child]) -> None:
    with queue() as channel, Channel.open("jobs", wake=False) as quiet:
        publisher, worker = quiet.publisher(), channel.worker()
        waits = sleeping(channel, lambda: worker.take(timeout=10))
        began = time.monotonic()
        publisher.offer(b"one")
        assert finish(prompt(waits, began)) == b"one"  # the worker looks every millisecond
        publisher.close()
        publisher, other = channel.publisher(), quiet.worker()
        publisher.offer(b"two")
        job = take(other)
        waits = sleeping(channel, lambda: worker.take(timeout=10))
        began = time.monotonic()
        assert job.release()
        assert finish(prompt(waits, began)) == b"two"


def test_a_producer_looks_often_while_a_worker_does_not_wake() -> None:
    with queue() as channel, Channel.open("jobs", wake=False) as quiet:
        publisher, _, other = channel.publisher(), channel.worker(), quiet.worker()
        while publisher.offer(bytes(900)):
            pass
        waits = Waits(lambda: publisher.send(bytes(900), timeout=10))
        until(lambda: word(channel, layout.CONTROL_ROOM_ASLEEP) & 1)
        time.sleep(1.2)  # a publisher that waited a second looks only every 20 ms, unless a worker does not wake
        began = time.monotonic()
        take(other).done()
        assert waits.end() > 0
        assert waits.ended - began < 0.015
        publisher.close()


def test_a_poll_that_aborts_its_first_job_does_not_wait() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        began = time.monotonic()
        assert worker.poll(lambda job: Action.ABORT, 5, timeout=5) == 0
        assert time.monotonic() - began < 1
        assert finish(take(worker)) == b"one"


def test_a_new_worker_wakes_all_that_wait_for_room_or_jobs() -> None:
    words = layout.CONTROL_ROOM_SEQUENCE, layout.CONTROL_JOBS_SEQUENCE
    with queue() as channel, channel.worker():
        before = [word(channel, at) for at in words]
        with channel.worker():
            assert [word(channel, at) for at in words] == [count + 1 for count in before]


def test_a_worker_killed_during_a_sleep_leaves_its_job_to_the_next_cap(child: Callable[..., Child]) -> None:
    code = """
        from flyring import Channel
        channel = Channel.open("jobs")
        worker = channel.worker()
        print(bytes(worker.take()).decode(), flush=True)
        input()
    """
    with queue() as channel:
        publisher = channel.publisher()
        publisher.offer(b"one")
        victim = child(code)
        assert victim.line() == "one"
        worker = channel.worker()
        waits = sleeping(channel, lambda: worker.take(timeout=10))
        time.sleep(0.2)
        assert waits._thread.is_alive()
        began = time.monotonic()
        victim.kill()
        job = waits.end()
        assert waits.ended - began < 1
        assert (finish(job), job.attempts) == (b"one", 1)


# What ends a wait


def test_drain_from_another_thread() -> None:
    with queue() as channel:
        calls: list[tuple[Callable[[Worker], Any], object]] = [
            (lambda worker: worker.take(timeout=None), None),
            (lambda worker: worker.poll(print, 5, None), 0),
            (list, []),
        ]
        for call, result in calls:
            with channel.worker() as worker:
                waits = sleeping(channel, functools.partial(call, worker))
                began = time.monotonic()
                worker.drain()
                assert prompt(waits, began) == result


def test_drain_raises_nothing_after_an_evict_and_closed_after_a_close() -> None:
    with queue() as channel:
        worker = channel.worker()
        assert channel.evict(worker.slot) == 0
        for _ in range(2):
            worker.drain()
            with pytest.raises(SlotLostError):
                worker.take()
        worker.close()
        other = channel.worker()
        other.close()
        for closed in (worker, other):
            with pytest.raises(ClosedError):
                closed.drain()


def test_close_evict_and_replace_end_a_wait() -> None:
    with queue() as channel:
        worker = channel.worker()
        waits = sleeping(channel, lambda: worker.take(timeout=None))
        began = time.monotonic()
        worker.close()
        with pytest.raises(ClosedError):
            prompt(waits, began)
        worker = channel.worker()
        waits = sleeping(channel, lambda: worker.poll(print, timeout=None))
        began = time.monotonic()
        assert channel.evict(worker.slot) == 0
        with pytest.raises(SlotLostError):
            prompt(waits, began)
        worker.close()
        worker = channel.worker()
        waits = sleeping(channel, lambda: worker.take(timeout=None))
        with Channel.replace("jobs", "queue", capacity=4096), pytest.raises(ChannelReplacedError):
            waits.end()
        publisher = channel.publisher()
        with pytest.raises(ChannelReplacedError):
            publisher.offer(b"one")
        assert publisher.offer(b"one")
        assert finish(take(worker)) == b"one"  # the worker still works


def test_a_signal_ends_a_wait_and_passes_the_wake_on() -> None:
    with queue() as channel:
        worker = channel.worker()

        class StopError(Exception):
            pass

        def stop(*ignored: object) -> None:
            raise StopError

        before = signal.signal(signal.SIGUSR1, stop)
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        timer.start()
        try:
            with pytest.raises(StopError):
                worker.take(timeout=10)
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)
        publisher = channel.publisher()
        publisher.offer(b"one")
        assert finish(take(worker)) == b"one"


def test_iteration_ends_when_all_is_done() -> None:
    with queue(producers=2) as channel:
        publishers = [channel.publisher(), channel.publisher()]
        workers = [channel.worker(), channel.worker()]
        got: list[bytes] = []

        def work(worker: Worker) -> int:
            count = 0
            for job in worker:
                got.append(bytes(job))
                count += 1
            return count

        waits = [Waits(lambda w=worker: work(w)) for worker in workers]  # type: ignore[misc]
        for k in range(200):
            publishers[k % 2].send(b"%d" % k, timeout=5)
        for publisher in publishers:
            publisher.close()
        assert sum(one.end() for one in waits) == 200
        assert sorted(map(int, got)) == list(range(200))


# Wait sets, descriptors, event loops


def test_wait_sets() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        ready = WaitSet()
        ready.add(worker)
        assert ready.wait(timeout=0) == []
        waits = sleeping(channel, lambda: ready.wait(timeout=10))
        began = time.monotonic()
        publisher.offer(b"one")
        assert prompt(waits, began) == [worker]
        assert finish(take(worker)) == b"one"
        waits = sleeping(channel, lambda: ready.wait(timeout=10))
        worker.drain()
        assert waits.end() == [worker]
        ready.remove(worker)
        ready.add(other)
        waits = sleeping(channel, lambda: ready.wait(timeout=10))
        channel.evict(other.slot)
        assert waits.end() == [other]


def test_a_wait_set_passes_its_wake_on() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        ready = WaitSet()
        ready.add(worker)
        first = sleeping(channel, lambda: ready.wait(timeout=10))
        waits = Waits(lambda: other.take(timeout=10))
        time.sleep(0.02)
        began = time.monotonic()
        publisher.offer(b"one")
        assert finish(prompt(waits, began)) == b"one"  # although the set's caller takes no job
        publisher.offer(b"two")
        assert first.end() == [worker]


def test_a_wait_set_finds_the_job_of_the_dead(child: Callable[..., Child]) -> None:
    code = """
        from flyring import Channel
        channel = Channel.open("jobs")
        worker = channel.worker()
        print(bytes(worker.take()).decode(), flush=True)
        input()
    """
    with queue() as channel:
        publisher = channel.publisher()
        publisher.offer(b"one")
        victim = child(code)
        assert victim.line() == "one"
        worker, ready = channel.worker(), WaitSet()
        ready.add(worker)
        victim.kill()
        assert ready.wait(timeout=5) == [worker]
        assert finish(take(worker)) == b"one"


def test_fileno() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        fd = worker.fileno()
        assert select.select([fd], [], [], 0)[0] == [fd]
        assert worker.take() is None
        assert select.select([fd], [], [], 0)[0] == []
        publisher.offer(b"one")
        assert select.select([fd], [], [], 5)[0] == [fd]
        assert finish(take(worker)) == b"one"


async def first_of(worker: Worker) -> bytes | None:
    job = await worker.receive(timeout=10)
    return None if job is None else finish(job)


def test_receive() -> None:
    async def main(worker: Worker, publisher: Publisher) -> None:
        assert await worker.receive(timeout=0) is None
        task = asyncio.create_task(first_of(worker))
        await asyncio.sleep(0.02)
        publisher.offer(b"one")
        assert await task == b"one"
        cancelled = asyncio.create_task(worker.receive())
        await asyncio.sleep(0.02)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        publisher.offer(b"two")
        assert await first_of(worker) == b"two"
        task = asyncio.create_task(first_of(worker))
        await asyncio.sleep(0.02)
        worker.drain()
        assert await task is None

    with queue() as channel:
        worker, publisher = channel.worker(), channel.publisher()
        asyncio.run(main(worker, publisher))


def test_send_async_without_room_names_the_worker_and_its_job() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker("slow")
        publisher.offer(b"first")
        job = worker.take()
        while publisher.offer(bytes(500)) is not None:
            pass
        for send in (publisher.send, lambda *all: asyncio.run(publisher.send_async(*all))):
            with pytest.raises(BackPressuredError, match=r"worker 1 \('slow'\), pid \d+, has a job in hand at 64"):
                Waits(functools.partial(send, bytes(500), 1, 0.01)).end()
        assert job is not None
        job.release()
        with pytest.raises(BackPressuredError, match="no worker has taken the jobs from position"):
            asyncio.run(publisher.send_async(bytes(500), timeout=0.01))


def test_async_iteration() -> None:
    async def main(worker: Worker, publisher: Publisher) -> list[tuple[bytes, int]]:
        got = []

        async def publish() -> None:
            for k in range(4):
                await asyncio.sleep(0.005)
                await publisher.send_async(b"%d" % k)
            publisher.close()

        task = asyncio.create_task(publish())
        async for job in worker:
            got.append((bytes(job), job.attempts))
            if job == b"1" and not job.repeat:
                break
        async for job in worker:
            got.append((bytes(job), job.attempts))
        await task
        return got

    with queue() as channel:
        worker, publisher = channel.worker(), channel.publisher()
        got = asyncio.run(main(worker, publisher))
        assert sorted(got) == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0), (b"3", 0)]


def test_an_async_worker_that_nothing_polls_passes_its_wake_on() -> None:
    """An event loop that is busy elsewhere must not keep a job from a sleeping worker."""
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        worker.fileno()
        assert worker.take() is None  # this arms the descriptor; nothing polls it afterwards
        waits = Waits(lambda: other.take(timeout=10))
        time.sleep(0.03)
        began = time.monotonic()
        publisher.offer(b"one")
        assert finish(prompt(waits, began)) == b"one"


def test_many_workers_and_producers_lose_no_wake() -> None:
    each = 1000
    done: list[float] = []  # how long each job waited

    def work(channel: Channel, limit: int) -> None:
        with channel.worker() as worker:
            while len(done) < 2 * each:
                worker.poll(lambda job: done.append(time.monotonic() - float(bytes(job))), limit, timeout=0.3)

    def produce(channel: Channel) -> None:
        with channel.publisher() as publisher:
            for sent in range(each):
                publisher.send(str(time.monotonic()).encode(), timeout=30)
                if sent % 16 == 0:
                    time.sleep(50e-6)

    with Channel.create("c", "queue", producers=2, workers=3, capacity=4096) as channel:
        threads = [threading.Thread(target=work, args=(channel, limit)) for limit in (1, 2, 3)]
        threads += [threading.Thread(target=produce, args=(channel,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(done) == 2 * each
    late = [waited for waited in done if waited > 0.05]  # half of the cap: the worker was not woken
    assert len(late) < each / 20  # some are late on a busy machine


def test_a_producer_rests_while_jobs_take_long() -> None:
    jobs = 3000
    with queue(capacity=65536) as channel:

        def work() -> None:
            with channel.worker() as worker:
                done = 0
                while done < jobs:
                    done += worker.poll(lambda job: time.sleep(50e-6), 1, timeout=10)

        publisher = channel.publisher()
        worker = threading.Thread(target=work)
        worker.start()
        waits = 0
        for _ in range(jobs):
            if not publisher.offer(b"a job"):
                waits += 1
                publisher.send(b"a job", timeout=10)
        worker.join()
    assert waits < jobs / 8  # without rests it waits for nearly each job
