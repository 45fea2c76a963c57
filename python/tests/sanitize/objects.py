# SPDX-License-Identifier: Apache-2.0
"""A queue, a service, a journal or a table that threads use, for ThreadSanitizer. objects.c runs this, and says what
orders the threads: only what Flyring does. Every payload is checked.

What it proves: every plain access to a payload in a file is ordered by an acquire load and a release store of Flyring,
and a table's readers and writers use no plain access. It does not cover what fences order, which ThreadSanitizer does
not model; the gates of a service, as each call is ordered by its reply, too; and reads of a journal that do not use its
mapping."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import plain  # of objects.c

import flyring

SWITCH = 20e-6  # s between two turns of the threads


class FoundError(Exception):
    """What a thread found is wrong."""


@functools.cache
def content(number: int) -> bytes:
    """The message of this number: its bytes follow from it."""
    length = 8 + (number * 37 % 300 if number % 4 == 0 else number * 7 % 57)
    return number.to_bytes(8, "little") + bytes((number * 31 + at * 7) & 255 for at in range(8, length))


def number_of(message: Any) -> int:
    """Reads a message, byte by byte. Returns its number."""
    data = plain.read(message)
    number = int.from_bytes(data[:8], "little")
    if data != content(number):
        raise FoundError(f"a torn message of number {number}")
    return number


def check(found: int, wanted: int) -> None:
    if found != wanted:
        raise FoundError(f"{found}, expected {wanted}")


errors: list[BaseException] = []  # of all threads


class Threads:
    """Threads that run until a thread fails."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def start(self, run: Callable[..., object], *arguments: Any) -> None:
        def within() -> None:
            try:
                run(*arguments)
            except BaseException as error:
                errors.append(error)

        self.threads.append(threading.Thread(target=within, daemon=True))  # after an error, the others may not end
        self.threads[-1].start()

    def join(self) -> None:
        for thread in self.threads:
            while thread.is_alive() and not errors:
                thread.join(0.05)
        if errors:
            raise errors[0]


def publish(publisher: flyring.Publisher, number: int, end: int) -> int:
    """Publishes messages from a number on, in one of several ways. Returns how many; 0: there is no room."""
    if number % 7 == 2:
        return publisher.offer_batch([content(each) for each in range(number, min(number + 3, end))])
    if number % 7 > 2:
        return publisher.offer(content(number)) is not None
    claim = publisher.try_claim(len(content(number)))
    if claim is None:
        return 0
    plain.write(claim, content(number))
    claim.commit()
    return 1


def queue(count: int = 600, producers: int = 2, workers: int = 3) -> str:
    channel = flyring.Channel.create("race", "queue", producers=producers, workers=workers, capacity=4096, counters=0)
    done: Counter[int] = Counter()

    def produce(ring: int) -> None:
        publisher = channel.publisher()
        number, end = ring * count, (ring + 1) * count
        while number < end:
            if number % 7 == 0 and (claim := publisher.try_claim(30)) is not None:
                plain.write(claim, content(number)[:8])
                claim.abort()
            published = publish(publisher, number, end)
            number += published
            if published == 0:
                time.sleep(50e-6)

    def handle(job: flyring.Job) -> None:
        number = number_of(job)
        if number % 7 == 3 and not job.repeat:
            job.release()  # if it stays in hand, it comes again, too
            return
        if number % 2 == 0:
            job.done()  # otherwise poll, or the with block of take, finishes it
        done[number] += 1

    def slowly(job: flyring.Job) -> None:
        handle(job)
        time.sleep(0.002)  # a lap: then only the gate inside of a batch orders the job before this one

    def work(rarely: bool) -> None:
        worker, turn = channel.worker(), 0
        while len(done) < producers * count:
            turn += 1
            if turn % 3 == 0:
                if (job := worker.take()) is not None:
                    with job:
                        handle(job)
            elif worker.poll(slowly if rarely else handle, 1 + turn % 40, 0.002) == 0:
                time.sleep(50e-6)
            until = min(len(done) + 100, producers * count)
            while rarely and len(done) < until:  # some laps: then only its gate orders its job before the next writes
                time.sleep(0.001)

    threads = Threads()
    for number in range(workers):
        threads.start(work, number == 0)
    for ring in range(producers):
        threads.start(produce, ring)
    threads.join()
    if set(done.values()) != {1} or len(done) != producers * count:
        raise FoundError("a job was not done once")
    return f"{len(done)} jobs"


def service(count: int = 150, clients: int = 3) -> str:
    channel = flyring.Channel.create("race", "service", clients=clients, capacity=4096, counters=0)
    later: list[flyring.Request] = []
    answered: Counter[int] = Counter()
    ended = threading.Event()

    def answer(number: int, reply: Any) -> None:
        check(number_of(reply), number)
        answered[number] += 1

    def end(number: int, call: flyring.Call) -> None:
        answer(number, call.result())

    def handle(request: flyring.Request) -> None:
        number = number_of(request)
        if request.is_stream:
            request.stream([content(item) for item in range(number % 7)])
        elif number // 20 % 2 == 1 or number % 5 == 0:
            later.append(request.keep())
        else:
            request.reply(plain.read(request))

    def serve() -> None:  # one thread for all answers: what threads share of a server, the GIL orders
        server = channel.server()
        while not ended.is_set():
            server.poll(handle, 20, 0.002)
            if len(later) > 10 or server.held.in_hand == len(later):
                for request in [later.pop() for _ in later]:  # in the opposite order
                    request.reply(plain.read(request))

    def call(which: int) -> None:
        client = channel.client()
        for number in range(which * count, (which + 1) * count):
            if number % 3 == 0:
                answer(number, client.call(content(number), timeout=60))
            elif number % 97 == 1:
                items = [number_of(item) for item in client.stream(content(number), timeout=60)]
                if items != list(range(number % 7)):
                    raise FoundError(f"a stream of {items}")
                answered[number] += 1
            else:
                while client.outstanding >= 60:
                    client.poll(timeout=0.01)
                client.start(content(number), timeout=60, callback=functools.partial(end, number))
        while client.outstanding:
            client.poll(timeout=0.01)

    threads, serving = Threads(), Threads()
    serving.start(serve)
    for number in range(clients):
        threads.start(call, number)
    threads.join()
    ended.set()
    serving.join()
    if set(answered.values()) != {1} or len(answered) != clients * count:
        raise FoundError("a call was not answered once")
    return f"{len(answered)} calls"


def journal(count: int = 2000) -> str:
    made = flyring.Journal.create("race", segment_size=65536, consumers=1)

    def append() -> None:
        with flyring.Journal.open("race") as own, own.writer(ahead=1) as writer:
            number = 0
            while number < count:
                claim = writer.claim(len(content(number)))
                plain.write(claim, content(number))
                claim.commit()
                writer.append_many([content(each) for each in range(number + 1, number + 5)])
                number += 5
                if number % 200 == 0:
                    writer.sync()
                    made.trim(consumed=True)

    def read(reading: flyring.JournalReader) -> None:
        turn = passed = 0

        def handle(message: flyring.JournalMessage) -> None:
            nonlocal passed
            check(number_of(message), message.number)
            check(message.number, passed + reading.lost)
            passed += 1

        while passed + reading.lost < count:
            turn += 1
            if turn % 3 != 0:
                reading.poll(handle, 1 + turn % 40, 0.01)
            elif (message := reading.take(timeout=0.01)) is not None:
                handle(message)

    # The consumer holds back what is trimmed. The reader may lose messages to that: then they are counted.
    readers = [flyring.Journal.open("race").consumer("race"), flyring.Journal.open("race").reader()]
    threads = Threads()
    for reading in readers:
        threads.start(read, reading)
    threads.start(append)
    threads.join()
    check(readers[0].lost, 0)
    return f"{count} messages, {made.stats().trimmed} bytes trimmed, {readers[1].lost} messages lost"


def table(count: int = 600, keys: int = 20) -> str:
    made = flyring.Table.create("race", capacity=keys + 8, key="integer", value_bytes=400)
    for key in range(keys):
        made[key] = content(key)
    ended = threading.Event()

    def change(feed: bool) -> None:
        own = flyring.Table.open("race")
        for number in range(count):
            if feed and number % 20 == 0:
                with own.writer("feed", timeout=60) as writer:
                    for more in range(50):
                        writer[keys + more % 8] = content(more)
                        if more % 3 == 0:
                            writer.remove(keys + (more + 5) % 8)
            key = number % keys
            own.put(key, content(number * keys + key), timeout=60)

    def read() -> None:
        own = flyring.Table.open("race")
        entry, turn, version = own.entry(3), 0, 0
        assert entry is not None
        while not ended.is_set():
            turn += 1
            check(number_of(own[turn % keys]) % keys, turn % keys)
            check(number_of(entry.get()) % keys, 3)
            if turn % 10 == 0:
                for value in own.values():
                    number_of(value)
            if turn % 50 == 0:
                with contextlib.suppress(flyring.TimedOutError):
                    version = own.wait_changed(version, timeout=0.01)

    threads, reading = Threads(), Threads()
    for _ in range(2):
        reading.start(read)
    for number in range(2):
        threads.start(change, number == 0)
    threads.join()
    ended.set()
    reading.join()
    return f"{made.version} changes"


def main(what: str) -> None:
    sys.setswitchinterval(SWITCH)
    print(f"{what}: {globals()[what]()}", flush=True)
