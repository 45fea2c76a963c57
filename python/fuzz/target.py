# SPDX-License-Identifier: Apache-2.0
"""Uses each file in all ways in which a process can use a channel. Only the package's own errors may be raised; a crash
or a hang ends the process."""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter
from typing import Any
from uuid import UUID

import flyring.slots
from flyring import Action, Channel, Client, FlyringError, Request, Server, Worker
from flyring._identity import Identity
from flyring.cli.check import check_once
from flyring.cli.evict import evict
from flyring.cli.image import open_image
from flyring.cli.info import info
from flyring.cli.recover import recover

flyring.slots.PATIENCE = 0.0  # no other process will free a slot
TOUCHED = Counter[str]()  # how often each operation was reached, because a run that reaches little proves nothing


def touch(message: Any) -> None:
    """Reads every byte of the object."""
    TOUCHED["message"] += 1
    bytes(message)


def run(path: str, content: bytes) -> None:
    """Runs one input. ``path``: a file that only this process uses."""
    write(path, content)
    with contextlib.suppress(FlyringError):
        lossy(path)
    with contextlib.suppress(FlyringError), Channel.open(path) as channel:
        TOUCHED["attached"] += 1
        for step in (reliable, counters, jobs, publish, jobs, reliable, kept):
            with contextlib.suppress(FlyringError):
                step(channel)
    write(path, content)
    with contextlib.suppress(FlyringError), Channel.open(path, _identity=of_the_files_boot(content)) as channel:
        for step in (serve, serve):
            with contextlib.suppress(FlyringError):
                step(channel)
    write(path, content)
    with open_image(path) as image:
        TOUCHED["findings"] += bool(check_once(image).found)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        for command in (
            lambda: info(path, False, True),
            lambda: recover(path, True),
            lambda: evict(path, 0, False),
            lambda: evict(path, 1, False),
        ):
            with contextlib.suppress(FlyringError):
                assert command() in (0, 1)


def write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, content)
    os.truncate(fd, len(content))
    os.close(fd)


def reliable(channel: Channel) -> None:
    with channel.subscriber() as subscriber:
        TOUCHED["subscriber"] += 1
        drain(subscriber)


def drain(subscriber: Any) -> None:
    for _ in range(4):
        with contextlib.suppress(FlyringError):
            subscriber.poll(touch)
            message = subscriber.take()
            if message is not None:
                touch(message)


def of_the_files_boot(content: bytes) -> Identity:
    """Returns an identity with the file's boot id, in which old requests are still valid."""
    boot = content[4096:4112]
    return Identity(boot_id=UUID(bytes=boot)) if len(boot) == 16 else Identity()


def serve(channel: Channel) -> None:
    """Uses servers and clients: an evicted server, and the next one."""
    if channel.kind != "service":
        return
    kept: list[Request] = []

    def handle(request: Request) -> bytes | None:
        TOUCHED["request"] += 1
        bytes(request)
        assert request.sender.ring == request.client
        if request.is_stream:
            request.stream(bytes(k) for k in range(3))
        elif len(kept) % 3 == 0:
            kept.append(request.keep())
        return None if (kept and kept[-1] is request) or request.is_stream else bytes(request)

    with channel.server("first") as server:
        TOUCHED["server"] += 1
        with contextlib.suppress(FlyringError), channel.client("caller") as client:
            TOUCHED["client"] += 1
            talk(server, client, handle)
            with contextlib.suppress(FlyringError):
                channel.evict(client.slot)
            talk(server, client, handle)
        for request in kept:
            with contextlib.suppress(FlyringError):
                request.reply(b"late")
        channel.evict(0)
        with contextlib.suppress(FlyringError):
            server.poll(handle)
    TOUCHED["damaged"] += server.damaged


def talk(server: Server, client: Client, handle: Any) -> None:
    """Makes calls and streams, with a deadline and a cancel."""
    for turn in range(4):
        with contextlib.suppress(FlyringError):
            calls = [client.start(b"x" * turn, callback=ended), client.start(b"y", timeout=0 if turn == 1 else None)]
            with contextlib.suppress(FlyringError):  # at-least-once services have no streams
                calls.append(client.stream(b"z", credit=1 + turn, callback=ended))
            if turn == 2:
                calls[0].cancel()
        for _ in range(3):
            with contextlib.suppress(FlyringError):
                server.poll(handle, 1 + turn)
            with contextlib.suppress(FlyringError):
                client.poll()


def ended(call: Any) -> None:
    with contextlib.suppress(FlyringError):
        item = call.next(0)
        if item is not None:
            touch(item)
        elif call.done:
            touch(call.result(0))
            TOUCHED["answer"] += 1


def jobs(channel: Channel) -> None:
    """Uses two workers, one of which is evicted with a job in hand."""
    if channel.kind != "queue":
        return
    with contextlib.suppress(FlyringError), channel.worker("first") as worker:
        TOUCHED["worker"] += 1
        work(worker)
        TOUCHED["in_hand"] += sum(slot.in_hand is not None for slot in channel.stats().subscribers)
        with contextlib.suppress(FlyringError):
            worker.take()
        channel.evict(worker.slot)
        with channel.worker("second") as other:
            work(other)
            with contextlib.ExitStack() as producers:
                for _ in range(channel.producers):
                    producers.enter_context(channel.publisher())
            for _ in range(300):
                job = other.take()
                if job is None:
                    break
                job.done()
            TOUCHED["ended"] += other.ended
        with contextlib.suppress(FlyringError):
            worker.take()


def work(worker: Worker) -> None:
    """Takes, finishes and releases jobs."""
    results = [None, Action.BREAK, Action.ABORT, None]
    for turn in range(6):
        with contextlib.suppress(FlyringError):
            job = worker.take()
            if job is not None:
                touch_job(job)
                if turn % 3 == 2:
                    job.done()
                else:
                    TOUCHED["released"] += job.release()
        with contextlib.suppress(FlyringError):

            def handle(job: Any, result: Action | None = results[turn % 4]) -> Action | None:
                touch_job(job)
                return result

            worker.poll(handle, 1 + turn % 3)
        with contextlib.suppress(FlyringError):
            TOUCHED["ended"] += worker.ended


def touch_job(job: Any) -> None:
    """Reads every byte of the object."""
    TOUCHED["job"] += 1
    TOUCHED["repeat"] += job.repeat
    bytes(job)
    assert job.attempts >= 0 and job.sender.ring == job.ring


def kept(channel: Channel) -> None:
    """Uses kept slots, whose readers begin at the file's gates."""
    for slot in range(channel.subscribers):
        fields = flyring.slots.read_slot(channel._attached.memory, channel.header.subscriber_slot(slot))
        if fields is not None and fields.flag:
            with contextlib.suppress(FlyringError), channel.subscriber(fields.name or "kept", kept=True) as subscriber:
                TOUCHED["kept"] += 1
                drain(subscriber)


def lossy(path: str) -> None:
    with Channel.open(path, read_only=True) as channel:
        for start in ("now", "oldest"):
            with contextlib.suppress(FlyringError), channel.lossy_subscriber(start=start) as subscriber:
                TOUCHED["lossy"] += 1
                for _ in range(3):
                    peek(subscriber)
                drain(subscriber)
                for ring in subscriber.rings:
                    subscriber.lost_messages(ring)
        for counter in channel.counters():
            counter.get()


def peek(subscriber: Any) -> None:
    message = subscriber.peek()
    if message is not None:
        TOUCHED["peek"] += 1
        bytes(message)
        del message
        subscriber.valid()


def publish(channel: Channel) -> None:
    for _ in range(min(channel.publishers, 3)):
        max_lag = 0 if channel.foreign else channel.capacity
        with contextlib.suppress(FlyringError), channel.publisher(max_lag=max_lag) as publisher:
            TOUCHED["publisher"] += 1
            for length in (0, 1, 100, publisher.max_message_length):
                TOUCHED["offer"] += publisher.offer(b"x" * length) is not None
            publisher.offer_batch([b"y" * 50] * 5)
            claim = publisher.try_claim(60)
            if claim is not None:
                claim[:] = b"z" * 60
                claim.commit()
            publisher.try_claim(7)
            publisher.held_by()


def counters(channel: Channel) -> None:
    for counter in channel.counters():
        TOUCHED["counter"] += 1
        counter.label, counter.key, counter.get_and_add(1)
    channel.counters().allocate("label", 1, b"key").free()
