# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flyring import (
    Channel,
    Job,
    Publisher,
    Worker,
)


@contextmanager
def queue(producers: int = 1, workers: int = 2, **options: Any) -> Iterator[Channel]:
    options.setdefault("capacity", 4096)
    with Channel.create("jobs", "queue", producers=producers, workers=workers, **options) as channel:
        yield channel


def gate(channel: Channel, ring: int, slot: int) -> int:
    return channel._attached.memory.load64(channel.header.gate(ring, slot))


def identity(job: Job) -> tuple[int, int, int]:
    return job.ring, job.position, job.attempts


def take(worker: Worker) -> Job:
    job = worker.take()
    assert job is not None
    return job


def all_jobs(worker: Worker) -> list[bytes]:
    got = []
    while (job := worker.take()) is not None:
        got.append(bytes(job))
        job.done()
    return got


def fill(publisher: Publisher, size: int = 56) -> int:
    count = 0
    while publisher.offer(bytes(size)) is not None:
        count += 1
    return count
