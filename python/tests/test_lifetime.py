# SPDX-License-Identifier: Apache-2.0
"""Close, threads, forks, and the end of the process. Exports never outlive their memory, and nothing leaks."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from conftest import Child, drain, fill, in_child, pair
from flyring import (
    Channel,
    ClosedError,
    FlyringError,
    Message,
    TwoThreadsError,
    ViewAliveError,
)

# Closing


def test_use_after_close_is_closed_and_closing_twice_is_fine() -> None:
    with Channel.create("closing", "broadcast") as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber()
        channel.close()
        for closable in (channel, publisher, subscriber):
            closable.close()
            assert closable.closed
            assert "closed" in repr(closable)
        uses: list[Callable[[], Any]] = [
            lambda: publisher.offer(b""),
            lambda: publisher.claim(1),
            lambda: publisher.offer_batch([b""]),
            publisher.held_by,
            subscriber.take,
            lambda: subscriber.poll(print),
            subscriber.forget,
            channel.publisher,
            channel.subscriber,
            channel.counters,
        ]
        for use in uses:
            with pytest.raises(ClosedError) as caught:
                use()
            assert caught.value.code == "closed"


def test_a_handler_can_neither_close_its_subscriber_nor_call_it() -> None:
    with pair() as (channel, publisher, subscriber):
        publisher.offer(b"x")
        seen: list[FlyringError] = []

        def handler(message: Message) -> None:
            uses: list[Callable[[], Any]] = [
                subscriber.close,
                channel.close,
                subscriber.take,
                lambda: subscriber.poll(handler),
            ]
            for use in uses:
                with pytest.raises(FlyringError) as caught:
                    use()
                seen.append(caught.value)
            assert bytes(message) == b"x"

        assert subscriber.poll(handler) == 1
        assert [type(error) for error in seen] == [ViewAliveError, ViewAliveError, TwoThreadsError, TwoThreadsError]
        assert not channel.closed
        assert subscriber.take() is None


def test_a_handler_may_publish_into_the_same_channel() -> None:
    with pair() as (channel, publisher, subscriber):
        answers = channel.publisher()
        publisher.offer(b"question")

        def answer(message: Message) -> None:
            answers.offer(bytes(message) + b"?")

        subscriber.poll(answer, 1)
        assert bytes(subscriber.take() or b"") == b"question?"


def test_unclosed_objects_warn_and_give_their_slots_back() -> None:
    with Channel.create("warn", "broadcast", publishers=1, subscribers=1) as channel:
        for take in (channel.publisher, channel.subscriber):
            with pytest.warns(ResourceWarning, match="unclosed"):
                take()
                gc.collect()
            take().close()
    with pytest.warns(ResourceWarning, match="unclosed"):
        Channel.open("warn")
        gc.collect()


# The order of errors (spec/api.md)


def test_two_threads_in_one_object_are_told() -> None:
    with pair() as (_, publisher, subscriber):
        publisher.offer(b"x")
        inside, leave = threading.Event(), threading.Event()

        def handler(message: Message) -> None:
            inside.set()
            assert leave.wait(10)

        thread = threading.Thread(target=subscriber.poll, args=(handler,))
        thread.start()
        assert inside.wait(10)
        for attempt in (subscriber.take, lambda: subscriber.poll(print)):
            with pytest.raises(TwoThreadsError):
                attempt()
        with pytest.raises(ViewAliveError):
            subscriber.close()
        leave.set()
        thread.join()

        fill(publisher)
        waiting = threading.Thread(target=lambda: publisher.send(b"y", timeout=10))
        waiting.start()
        until_two_threads(lambda: publisher.offer(b"z"))
        while subscriber.poll(lambda message: None):
            pass
        waiting.join()


def until_two_threads(attempt: Callable[[], Any]) -> None:
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        try:
            attempt()
        except TwoThreadsError:
            return
        time.sleep(0.001)
    pytest.fail("nobody was told")


@pytest.mark.parametrize("wait", ["block", "spin", "yield", "backoff"])
def test_closing_wakes_a_thread_that_waits(wait: Any) -> None:
    with Channel.create("wakes", "broadcast", capacity=4096) as channel:
        publisher, subscriber = channel.publisher(wait=wait), channel.subscriber(wait=wait)
        other = channel.subscriber()
        errors: list[BaseException] = []

        def run(call: Callable[[], Any]) -> None:
            try:
                call()
            except BaseException as error:
                errors.append(error)

        fill(publisher)
        while subscriber.take():
            pass
        calls: list[Callable[[], Any]] = [
            lambda: subscriber.take(timeout=None),
            lambda: publisher.send(b"", timeout=None),
        ]
        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        until_two_threads(subscriber.take)
        until_two_threads(lambda: publisher.offer(b""))
        channel.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert [type(error) for error in errors] == [ClosedError, ClosedError]
        assert other.closed


def test_many_threads_with_objects_of_their_own() -> None:
    with Channel.create("many", "broadcast", publishers=3, subscribers=3, capacity=4096) as channel:
        subscribers = [channel.subscriber() for _ in range(3)]
        sums = [0, 0, 0]

        def publish(number: int) -> None:
            with channel.publisher() as publisher:
                for i in range(2000):
                    assert publisher.send(i.to_bytes(8, "little"), timeout=30)

        def read(number: int) -> None:
            for _ in range(6000):
                message = subscribers[number].take(timeout=30)
                assert message is not None
                sums[number] += int.from_bytes(message.data, "little")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3) for work in (read, publish)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sums == [3 * sum(range(2000))] * 3


# Other processes


def test_a_pickled_channel_attaches_again_by_path() -> None:
    with Channel.create("pickled", "broadcast") as channel, pickle.loads(pickle.dumps(channel)) as again:
        assert isinstance(again, Channel)
        assert again.id == channel.id
        assert again is not channel
        with again.subscriber() as subscriber, channel.publisher() as publisher:
            publisher.offer(b"x")
            assert bytes(subscriber.take() or b"") == b"x"
            for unpicklable in (subscriber, publisher):
                with pytest.raises(TypeError):
                    pickle.dumps(unpicklable)


def test_a_forked_child_can_neither_use_nor_damage_its_parents_channel() -> None:
    with pair() as (channel, publisher, subscriber):
        counter = channel.counters().allocate("n")
        publisher.offer(b"message")
        claim = publisher.claim(8)
        assert claim is not None
        view = claim.data
        view[:] = b"parent's"

        def work() -> None:
            uses: list[Callable[[], Any]] = [
                claim.commit,
                lambda: claim.data,
                lambda: publisher.offer(b""),
                subscriber.take,
                lambda: subscriber.poll(print),
                channel.publisher,
                channel.subscriber,
                channel.counters,
                lambda: counter.set(5),
                counter.get,
            ]
            view[:] = b"childish"
            for use in uses:
                with pytest.raises(ClosedError, match="parent"):
                    use()
            assert channel.closed
            with Channel.open("life") as own, own.subscriber() as reader, own.publisher() as writer:
                assert writer.ring != publisher.ring
                assert reader.slot != subscriber.slot
            subscriber.close()
            channel.close()

        in_child(work)
        view.release()
        assert counter.get() == 0
        claim.commit()
        assert [bytes(subscriber.take() or b"") for _ in range(2)] == [b"message", b"parent's"]


def test_a_fork_within_a_handler_goes_on_in_the_parent_only() -> None:
    with pair() as (_, publisher, subscriber):
        for _ in range(3):
            publisher.offer(b"x")
        children: list[int] = []

        def handler(message: Message) -> None:
            children.append(os.fork())

        try:
            count = subscriber.poll(handler, 2)
        except ClosedError:
            os._exit(7)
        if 0 in children:
            os._exit(1)
        assert count == 2
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [7, 7]
        assert subscriber.take() is not None


def test_a_forked_child_does_not_keep_its_dead_parents_slots(child: Callable[..., Child]) -> None:
    code = """
        import os, sys, time, flyring
        channel = flyring.Channel.open(sys.argv[1])
        publisher, subscriber = channel.publisher(), channel.subscriber()
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
        print(pid, flush=True)
        sys.stdin.read()
    """
    with Channel.create("orphan", "broadcast", publishers=1, subscribers=1) as channel:
        parent = child(code, channel.path)
        orphan = int(parent.line())
        try:
            parent.kill()
            channel.publisher().close()
            channel.subscriber().close()
        finally:
            os.kill(orphan, signal.SIGKILL)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=60)


def test_the_end_of_the_process_with_everything_open_is_quiet() -> None:
    done = run_python(
        "import flyring, numpy\n"
        "channel = flyring.Channel.create('exit', 'broadcast')\n"
        "p, s = channel.publisher(), channel.subscriber()\n"
        "p.offer(b'12345678')\n"
        "kept = []\n"
        "try: s.poll(lambda m: kept.append(numpy.frombuffer(m, 'u1')))\n"
        "except flyring.ViewAliveError: pass\n"
        "c = p.claim(8); v = c.data\n"
        "print('fine')\n"
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "Fatal" not in done.stderr
    with Channel.open("exit") as channel:
        channel.publisher().close()


def test_a_second_interpreter_is_refused() -> None:
    code = (
        "import flyring\n"
        "try: import _xxsubinterpreters as i\n"
        "except ImportError: import _interpreters as i\n"
        "n = i.create()\n"
        "try:\n"
        "    bad = i.run_string(n, 'import flyring')\n"
        "    print(bad)\n"
        "except Exception as e: print(e)\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "one interpreter" in done.stdout or "subinterpreters" in done.stdout, done.stdout


# Views


def as_array(buffer: Any, dtype: Any = numpy.uint8) -> Any:
    """Hides a buffer's type: numpy's stubs for Python 3.11 know only the buffers of the standard library."""
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
            fill(publisher)  # fills the free room, which does not include the exported bytes
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
            view = message.data  # the traceback's frame keeps it alive
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
        assert publisher.offer(b"")


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

        def use(message: Message) -> None:
            bytes(message), message.type, message.data[:1]

        def everything() -> None:
            assert subscriber.take() is None
            assert subscriber.take(timeout=1e-9) is None
            assert subscriber.poll(print) == 0
            publisher.offer(b"12345678", 3)
            publisher.send(bytearray(8))
            publisher.send_batch([b"a"], 3, 1)
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
            subscriber.poll(use)
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


def test_a_claim_that_is_forgotten_is_aborted() -> None:
    with Channel.create("forgotten", "broadcast") as channel:
        subscriber, publisher = channel.subscriber(), channel.publisher()
        publisher.claim(8)
        assert publisher.offer(b"goes on")
        assert drain(subscriber) == [b"goes on"]
