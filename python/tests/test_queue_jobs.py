# SPDX-License-Identifier: Apache-2.0
"""The jobs of a queue: taking, finishing and releasing them (spec/queue.md 3, 8; spec/api.md, Worker)."""

from __future__ import annotations

import pytest

import flyring
from flyring import (
    Action,
    ClosedError,
    InvalidArgumentError,
    Job,
    ViewAliveError,
)
from queues import all_jobs, gate, identity, queue, take

LONGEST = 4096 // 4 - 24

# Take, done


def test_each_job_goes_to_one_worker() -> None:
    with queue() as channel:
        publisher, one, other = channel.publisher("feed"), channel.worker(), channel.worker()
        start = publisher.position
        for k in range(4):
            publisher.offer(b"%d" % k, 7 + k)
        first, second = take(one), take(other)
        assert (bytes(first), bytes(second)) == (b"0", b"1")
        assert (first.type, first.ring, first.attempts, first.repeat) == (7, 0, 0, False)
        assert first.position > start  # behind the owner record
        assert (first.sender.name, first.sender.epoch, first.sender.ring) == ("feed", 1, 0)
        assert first == b"0" and len(first) == 1 and isinstance(first, flyring.Message)
        second.done()
        assert bytes(take(other)) == b"2"
        first.done()
        assert all_jobs(one) == [b"3"]
        assert one.take() is None


def test_a_done_job_refuses_done_release_and_its_bytes() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        job = take(worker)
        job.done()
        for call in (job.done, job.release, lambda: bytes(job), lambda: job.data):
            with pytest.raises(ClosedError):
                call()
        assert job.sender.epoch == 1  # the sender stays known
        assert (job.type, job.attempts) == (1, 0)


def test_an_unfinished_job_of_take_refuses_take_and_poll() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        job = take(worker)
        for call in (worker.take, lambda: worker.poll(print), lambda: worker.poll(print, 0), lambda: worker.take(-1)):
            with pytest.raises(ViewAliveError, match="unfinished"):
                call()
        job.done()
        with pytest.raises(InvalidArgumentError):
            worker.poll(print, 0)
        assert all_jobs(worker) == [b"two"]


def test_a_view_must_not_outlive_its_job() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        job = take(worker)
        view = job.data
        for call in (job.done, job.release, worker.close):
            with pytest.raises(ViewAliveError):
                call()
        assert bytes(view) == b"one"
        view.release()
        job.done()

        kept: list[memoryview] = []
        with pytest.raises(ViewAliveError):
            worker.poll(lambda job: kept.append(job.data))
        with pytest.raises(ViewAliveError):
            worker.take()
        assert gate(channel, 0, 1) >= 0  # the gate protects the job's bytes
        assert bytes(kept[0]) == b"two"
        kept.pop().release()
        assert worker.take() is None  # the job is done
        assert gate(channel, 0, 1) == -1


def test_jobs_are_context_managers() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])
        with take(worker) as job:
            assert bytes(job) == b"one"
        with pytest.raises(ZeroDivisionError), take(worker) as job:
            raise ZeroDivisionError
        with take(worker) as job:
            assert (bytes(job), job.attempts) == (b"two", 1)
        with pytest.raises(ClosedError):
            job.done()
        publisher.offer(b"three")
        with take(worker) as job:
            job.done()  # the handler ends the job itself
        assert worker.take() is None


# Poll


def test_poll_takes_a_batch() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer_batch([b"%d" % k for k in range(6)])
        got: list[bytes] = []
        assert worker.poll(lambda job: got.append(bytes(job))) == 1  # the limit is 1

        def meanwhile(job: Job) -> None:
            got.append(bytes(job))
            if job == b"1":
                assert all_jobs(other) == [b"4", b"5"]  # the other two of a batch of three are taken

        assert worker.poll(meanwhile, 3) == 3
        assert got == [b"0", b"1", b"2", b"3"]
        assert worker.poll(meanwhile, 256) == 0


def test_a_batch_is_at_most_an_eighth_of_the_ring() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer_batch([bytes(100)] * 8)  # 128 bytes each
        others = 0

        def handler(job: Job) -> None:
            nonlocal others
            if not others:
                others = len(all_jobs(other))

        assert worker.poll(handler, 8) == 4  # 512 bytes
        assert others == 4


def test_actions_of_handlers() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"%d" % k for k in range(4)])
        actions = iter([Action.CONTINUE, Action.BREAK])
        assert worker.poll(lambda job: next(actions), 4) == 2
        assert worker.poll(lambda job: Action.ABORT, 4) == 0  # released, so it is not counted
        got: list[tuple[bytes, int]] = []

        def note(job: Job) -> Action:
            got.append((bytes(job), job.attempts))
            return Action.COMMIT

        assert worker.poll(note, 4) == 2
        assert got == [(b"3", 0), (b"2", 1)]  # the rest of the batch comes first
        publisher.offer(b"last")
        with pytest.raises(InvalidArgumentError) as caught:
            worker.poll(lambda job: 3)  # type: ignore[arg-type, return-value]
        assert caught.value.argument == "action"
        assert worker.take() is None  # the job counts as done


def test_an_aborted_job_that_its_handler_ended_counts() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two", b"three"])

        def finishes(job: Job) -> Action:
            job.done()
            return Action.ABORT

        def releases(job: Job) -> Action:
            assert job.release()
            return Action.ABORT

        assert worker.poll(finishes, 3) == 1  # the poll ends
        assert worker.poll(releases, 3) == 1
        assert all_jobs(worker) == [b"three", b"two"]


def test_a_handler_that_raises_releases_its_job() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two", b"three"])

        def raises(job: Job) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            worker.poll(raises, 3)
        got: list[tuple[bytes, bool]] = []
        assert worker.poll(lambda job: got.append((bytes(job), job.repeat)), 3) == 3
        assert got == [(b"two", False), (b"three", False), (b"one", True)]


def test_a_handler_may_end_its_job_itself() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two"])

        def handler(job: Job) -> None:
            if job == b"one" and not job.repeat:
                assert job.release()
            else:
                job.done()
            with pytest.raises(ClosedError):
                bytes(job)

        assert worker.poll(handler, 2) == 2
        assert [bytes(take(worker))] == [b"one"]


def test_a_handler_cannot_call_back() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")

        def handler(job: Job) -> None:
            with pytest.raises(flyring.TwoThreadsError):
                worker.take()
            with pytest.raises(ViewAliveError):
                worker.close()
            with pytest.raises(ViewAliveError):
                channel.close()

        assert worker.poll(handler) == 1


# Release


def test_a_released_job_keeps_its_identity() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher("feed"), channel.worker(), channel.worker()
        publisher.offer_batch([b"one", b"two"], 9)
        job = take(worker)
        first = identity(job)
        assert job.release() is True
        assert bytes(take(other)) == b"two"
        for attempts in (1, 2, 3):
            job = take(worker)
            assert identity(job) == (*first[:2], attempts)
            assert (bytes(job), job.type, job.repeat) == (b"one", 9, True)
            assert (job.sender.epoch, job.sender.name, job.sender.ring) == (0, "", 0)
            assert job.release()
        take(worker).done()


def test_release_without_room_stays_in_hand() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        while True:  # releases until the returns ring is full
            publisher.offer(bytes(900))
            job = take(worker)
            if not job.release():
                break
        place = identity(job)
        with pytest.raises(ClosedError):
            job.done()
        again = take(worker)  # the same job again
        assert identity(again) == (*place[:2], place[2] + 1)
        assert not again.release()
        again = take(worker)
        assert again.attempts == place[2] + 2
        again.done()
        taken = all_jobs(other)
        assert taken and set(taken) == {bytes(900)}
        publisher.offer(b"next")
        assert take(worker).attempts == 0  # the count belonged to the other job


def test_release_while_another_releases_stays_in_hand() -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        lock = channel._attached.file.reopen()
        assert lock.try_lock(channel.header.publisher_slot(1))
        assert take(worker).release() is False
        got: list[int] = []

        def aborts(job: Job) -> Action:
            got.append(job.attempts)
            return Action.ABORT

        assert worker.poll(aborts, 5) == 0
        lock.close()
        assert worker.poll(aborts, 5) == 0
        job = take(worker)
        assert got == [1, 2]
        assert (bytes(job), job.attempts) == (b"one", 3)


def test_a_job_inside_a_batch_that_cannot_be_released() -> None:
    with queue(workers=100) as channel:
        publisher, worker = channel.publisher(), channel.worker()
        for size in (LONGEST, 1):  # fills the returns ring
            released = True
            while released:
                publisher.offer(bytes(size))
                with channel.worker() as filler:  # a new worker begins with ring 0
                    released = take(filler).release()
                    if not released:
                        take(filler).done()
        others = [channel.worker() for _ in range(50)]
        held = [job for other in others if (job := other.take()) is not None]  # the jobs there, which stay in hand
        publisher.offer_batch([b"a", b"b", b"c"])
        got: list[tuple[bytes, int]] = []

        def note(job: Job) -> Action:
            got.append((bytes(job), job.attempts))
            if got[-1] == (b"b", 0):
                return Action.ABORT
            if got[-1] == (b"b", 1):
                raise ZeroDivisionError
            if got[-1] == (b"b", 2):
                assert not job.release()
            return Action.CONTINUE

        assert worker.poll(note, 3) == 1  # a; b ends the poll, because it would come again at once
        with pytest.raises(ZeroDivisionError):
            worker.poll(note, 3)
        assert worker.poll(note, 3) == 1
        assert worker.poll(note, 3) == 2
        assert got == [(b"a", 0), (b"b", 0), (b"b", 1), (b"b", 2), (b"b", 3), (b"c", 0)]
        assert {bytes(job) for job in held} >= {bytes(LONGEST)}


def test_a_job_that_stayed_and_is_released_by_a_close_counts_one_attempt() -> None:
    with queue() as channel:
        publisher, worker, other = channel.publisher(), channel.worker(), channel.worker()
        publisher.offer(b"one")
        lock = channel._attached.file.reopen()
        assert lock.try_lock(channel.header.publisher_slot(1))
        assert not take(worker).release()
        lock.close()
        worker.close()
        assert take(other).attempts == 1


def test_close_releases_what_is_in_hand() -> None:
    with queue() as channel:
        publisher, other = channel.publisher(), channel.worker()
        publisher.offer_batch([b"one", b"two", b"three"])
        with channel.worker() as worker:
            assert worker.poll(lambda job: Action.BREAK, 3) == 1
            job = take(worker)
            assert job == b"two"
        assert worker.closed
        with pytest.raises(ClosedError):
            job.done()
        with pytest.raises(ClosedError):
            worker.take()
        assert gate(channel, 0, worker.slot) == -1
        left = []
        while (job := other.take()) is not None:
            left.append((bytes(job), job.attempts))
            job.done()
        assert left == [(b"two", 1), (b"three", 1)]
